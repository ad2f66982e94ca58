"""Claim: shuffling in groups trades what an attacker learns for what an analyst does, gradually.

The crescents of 'Privacy Implications of Shuffling' (its figures 1 and 5): places in the plane with
eight private labels that can be told apart at three granularities, reported with eps = 2.55 and
shuffled with alpha = 4. The attacker takes the majority of the 25 nearest reports; the analyst
trains a model for the eight labels, the four crescents and the two clusters. Radii below the size
of a crescent are needed, and the exact sensitivity of the reference order: with the bound
w(w + 1)/2 of the paper's text the same groups keep far less.

Below, figure 7 without sampling: the share of an interval of the order that is kept with chance
0.99, as exact sums.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome
from shuffle_accountant.order import experiments
from shuffle_accountant.order.preservation import clopper_pearson

EPS, ALPHA, VOTES = 2.55, 4.0, 25
LEVELS = {"8 labels": 0, "4 crescents": 1, "2 clusters": 2}
SEED = 2106
# Users, radii, trials, trees: radii for fewer users are as many neighbours wide.
FULL = (20_000, (0.02, 0.03, 0.05), 25, 10)
QUICK = (2_000, (0.1,), 5, 2)
BLOCK = 0.5  # width of the baseline's blocks

# Figure 7: users, delta; (width, alpha, length): share kept by the best of sampled permutations.
USERS, DELTA = 10_000, 0.01
KEPT = {
    (10, 3, 1000): 0.969, (10, 3, 2500): 0.987, (10, 3, 5000): 0.994, (10, 3, 8000): 0.996,
    (30, 3, 1000): 0.765, (30, 3, 2500): 0.907, (30, 3, 5000): 0.953, (30, 3, 8000): 0.971,
    (30, 1, 2500): 0.730,
}  # fmt: skip
QUICK_KEPT = ((10, 3, 5000), (30, 3, 2500))
_SAMPLED = 0.005  # what the sampled shares are good to

Permutation = NDArray[np.int64]


def run(quick: bool, note: Note) -> Outcome:
    """All settings on 20,000 users; 2,000 users and fewer settings when quick."""
    users, radii, trials, trees = QUICK if quick else FULL
    data = experiments.crescents(users, rng=SEED)
    test = experiments.crescents(users, rng=SEED + 1)
    shuffles = dict(_shuffles(data.points, radii, note))
    nearest = experiments.nearest_users(data.points, count=VOTES)
    reports = experiments.randomize(data.labels, categories=8, eps0=EPS, rng=SEED + 2)
    rows, maps = [], {}
    for name, permutation in shuffles.items():
        note(name)
        maps[name] = reports[permutation]
        attack = experiments.inference_attack(
            data.labels, nearest, permutation, categories=8, eps0=EPS, trials=trials, rng=SEED + 3
        )
        row: dict[str, Any] = {"shuffle": name, "rho": attack.rho} | dict.fromkeys(LEVELS, "")
        if importlib.util.find_spec("sklearn") and not (quick and name == "uniform"):
            for level, shift in LEVELS.items():
                row[level] = experiments.learnability(
                    data.points,
                    maps[name] >> shift,
                    test.points,
                    test.labels >> shift,
                    iterations=trees,
                )
        rows.append(row)
    kept = {key: _kept(*key, note) for key in (QUICK_KEPT if quick else KEPT)}
    columns = list(rows[0])
    table = [{**row, "width": "", "alpha": "", "length": "", "kept": ""} for row in rows]
    for (width, alpha, length), value in kept.items():
        blank: dict[str, Any] = dict.fromkeys(columns, "")
        table.append(blank | {"width": width, "alpha": alpha, "length": length, "kept": value})
    by_name = {row["shuffle"]: row for row in rows}
    claims = [
        _attack(by_name, radii),
        _staircase(by_name, radii),
        _exact(by_name, radii),
        _preservation(kept),
        _fifty(),
        _speed(),
    ]
    return Outcome(claims, table, functools.partial(_draw, data, maps, rows, kept))


def _shuffles(points: Any, radii: tuple[float, ...], note: Note) -> Any:
    """Name and permutation of every shuffle, from none to uniform."""
    n = points.shape[0]
    rng = np.random.default_rng(SEED)
    yield "LDP", np.arange(n)
    for radius in radii:
        note(f"groups of radius {radius}")
        groups = sa.order.Groups.from_radius(points, radius)
        yield _name(radius), _shuffler(groups, "exact").permutation(rng)
    yield "bound", _shuffler(groups, "bound").permutation(rng)
    if n > QUICK[0]:
        blocks = sa.order.BlockShuffler(experiments.grid_blocks(points, width=BLOCK))
        yield "blocks", blocks.permutation(rng)
    yield "uniform", rng.permutation(n)


def _shuffler(groups: sa.order.Groups, kind: str) -> sa.order.DSigmaShuffler:
    with warnings.catch_warnings():
        # close to uniform: that is a finding here
        warnings.simplefilter("ignore", sa.order.OrderWarning)
        return sa.order.DSigmaShuffler(groups, ALPHA, sensitivity=kind, order="bfs")


def _name(radius: float) -> str:
    return f"r = {radius:g}"


def _kept(width: int, alpha: int, length: int, note: Note) -> float:
    """Largest share of the middle interval that is kept with delta = 0.01, exactly."""
    note(f"w = {width}, l = {length}")
    theta = alpha / (width * (width + 1) / 2)
    interval = ((USERS - length) // 2, length)
    low, high = 0, length  # leavers permitted: too few, enough
    while high - low > 1:
        middle = (low + high) // 2
        eta = 1 - middle / length
        delta = sa.order.preservation_delta(
            USERS, length, round(eta, 9), theta, "kendall", interval=interval
        )
        low, high = (low, middle) if delta <= DELTA else (middle, high)
    return 1 - high / length


def _attack(rows: dict[str, dict[str, Any]], radii: tuple[float, ...]) -> Claim:
    names = ["LDP", *map(_name, radii), "uniform"]
    shares = [rows[name]["rho"] for name in names]
    return Claim(
        name="attack",
        text="the wider the groups, the fewer users are vulnerable to a majority of neighbours",
        measured=", ".join(f"{n}: {s:.3f}" for n, s in zip(names, shares, strict=True)),
        holds=all(a >= b for a, b in itertools.pairwise(shares)) and shares[0] > 2 * shares[-2],
    )


def _staircase(rows: dict[str, dict[str, Any]], radii: tuple[float, ...]) -> Claim:
    levels = list(LEVELS)
    names = [n for n in ("LDP", *map(_name, radii), "uniform") if rows[n][levels[0]] != ""]
    if not names:
        return Claim(
            name="staircase", text=_STAIRS, measured="scikit-learn is not installed", holds=None
        )
    table = {name: [rows[name][level] for level in levels] for name in names}
    first, last = table[names[1]], table[_name(radii[-1])]
    holds = all(eight <= four <= two for eight, four, two in (first, last))
    holds &= all(table["LDP"][i] > last[i] for i in range(2))
    holds &= last[2] > 0.8 and last[0] < 0.6 < table["LDP"][0]
    measured = "; ".join(
        f"{name}: " + "/".join(f"{value:.2f}" for value in values) for name, values in table.items()
    )
    return Claim(name="staircase", text=_STAIRS, measured=measured, holds=bool(holds))


_STAIRS = (
    "with wider groups a model first loses the 8 labels, then the 4 crescents, not the 2 clusters"
)


def _exact(rows: dict[str, dict[str, Any]], radii: tuple[float, ...]) -> Claim:
    exact, bound = rows[_name(radii[-1])], rows["bound"]
    level = next(iter(LEVELS))
    text = "at the same alpha the exact sensitivity keeps more than the bound w(w + 1)/2"
    if exact[level] == "":
        return Claim(name="exact", text=text, measured="scikit-learn is not installed", holds=None)
    measured = "; ".join(
        f"{level} at r = {radii[-1]:g}: {exact[level]:.2f} against {bound[level]:.2f}"
        for level in LEVELS
    )
    return Claim(
        name="exact",
        text=text,
        measured=measured,
        holds=all(exact[level] > bound[level] - 0.02 for level in LEVELS)
        and exact["4 crescents"] > bound["4 crescents"],
    )


def _preservation(kept: dict[tuple[int, int, int], float]) -> Claim:
    worst = max(kept, key=lambda key: abs(kept[key] - KEPT[key]))
    return Claim(
        name="preservation",
        text=f"exact shares kept at delta = {DELTA:g} agree with sampled ones within {_SAMPLED:g}",
        measured=f"largest deviation {abs(kept[worst] - KEPT[worst]):.4f} "
        f"(w = {worst[0]}, alpha = {worst[1]}, l = {worst[2]}: {kept[worst]:.4f})",
        holds=abs(kept[worst] - KEPT[worst]) <= _SAMPLED,
    )


def _fifty() -> Claim:
    limits = {n: clopper_pearson(0, n, confidence=0.9)[1] for n in (50, 298, 299)}
    return Claim(
        name="fifty trials",
        text="50 permutations, as in the paper, cannot support delta = 0.01 at 95 %; 299 can",
        measured=", ".join(f"{n} without failure: {limit:.4f}" for n, limit in limits.items()),
        # one side of the two-sided interval of 90 %
        holds=limits[50] > DELTA and limits[298] > DELTA >= limits[299],
    )


def _speed() -> Claim:
    def best(call: Callable[[], object]) -> float:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return min(times[1:])  # the first one pays for imports

    n = 10**6
    seconds = {
        f"l = {length}, theta = {theta:g}": best(
            functools.partial(sa.order.preservation_delta, n, length, eta, theta)
        )
        for length, eta, theta in ((n // 2, 0.5, 13.0), (n // 2, 0.99, 13.1), (1000, 0.5, 13.8))
    }
    slowest = max(seconds, key=seconds.__getitem__)
    return Claim(
        name="speed",
        text="delta of preservation under Hamming's distance at n = 1e6 takes under 0.1 s",
        measured=f"slowest {seconds[slowest]:.3f} s ({slowest})",
        holds=seconds[slowest] < 0.1,
    )


def _draw(
    data: experiments.Crescents,
    maps: dict[str, Permutation],
    rows: list[dict[str, Any]],
    kept: dict[tuple[int, int, int], float],
    path: Path,
) -> None:
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 6.5), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(1, 2.5))
    shown = [name for name in maps if name not in ("bound", "r = 0.02")]
    colours = colormaps["Paired"](np.array([5, 4, 7, 6, 1, 0, 3, 2]))
    some = np.random.default_rng(0).permutation(data.labels.size)[:5000]
    for ax, name in zip(np.atleast_1d(top.subplots(1, len(shown))), shown, strict=True):
        ax.scatter(*data.points[some].T, s=3, c=colours[maps[name][some]], linewidths=0)
        ax.set(title=name, xticks=[], yticks=[], aspect="equal")
    left, right = bottom.subplots(1, 2)
    # from no shuffle to a uniform one; what else was tried stands beside
    rows = sorted(rows, key=lambda row: row["shuffle"] in ("bound", "blocks"))
    for column in ("rho", *LEVELS):
        known = [(row["shuffle"], row[column]) for row in rows if row[column] != ""]
        if known:
            line = [point for point in known if point[0] not in ("bound", "blocks")]
            beside = [point for point in known if point not in line]
            label = "vulnerable" if column == "rho" else column
            (drawn,) = left.plot(*zip(*line, strict=True), ".-", label=label)
            left.plot(*zip(*beside, strict=True), "D", color=drawn.get_color())
    left.set(ylabel="share", title=f"attack and models, alpha = {ALPHA:g}, eps = {EPS:g}")
    left.legend(fontsize="small")
    for width, alpha in sorted({key[:2] for key in kept}):
        curve = sorted((key[2], value) for key, value in kept.items() if key[:2] == (width, alpha))
        (line,) = right.plot(*zip(*curve, strict=True), ".-", label=f"w = {width}, alpha = {alpha}")
        sampled = [KEPT[width, alpha, length] for length, _ in curve]
        right.plot([length for length, _ in curve], sampled, "x", color=line.get_color())
    right.set(
        xlabel="length of the interval",
        ylabel="share kept",
        title=f"exact (dots) and sampled (crosses), n = {USERS}, delta = {DELTA:g}",
    )
    right.legend(fontsize="small")
    figure.savefig(path, dpi=120)
