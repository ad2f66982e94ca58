"""Claim: the figure on randomized response is reproduced, and corrected, with certified brackets.

k-ary randomized response, k = 4, gamma = 0.25, n = 1000, T = 1, 4, 16 rounds, epsilon at delta =
1e-4 … 1e-7. The published curves are

* the strong adversary: our variant "paper". It drops the chance gamma that the target itself
  answered at random; "exact" keeps it and is lower;
* the weak adversary, up to an off-by-one in the number of the others;
* "clones", from a formula that is no upper bound (`shuffle_accountant.baselines`).

A published value that is not printed in the paper's data is left out.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, relative_width
from shuffle_accountant.baselines import specialised_clones

USERS, CATEGORIES, GAMMA = 1000, 4, 0.25
ROUNDS = (1, 4, 16)
DELTAS = tuple(np.logspace(-4, -7, 5).tolist())

STRONG, PAPER, WEAK, CLONES = "strong", "strong, as published", "weak", "clones"
SPECIALISED = "specialised clones (no bound)"

# Curve, rounds: the paper's epsilon at each delta.
PUBLISHED: dict[tuple[str, int], tuple[float | None, ...]] = {
    (PAPER, 1): (0.54733, 0.64150, 0.72882, 0.81129, 0.89029),
    (PAPER, 4): (1.17464, None, None, None, 1.77510),
    (PAPER, 16): (2.58666, None, None, None, 3.72249),
    (WEAK, 1): (0.38952, None, None, None, None),
    (WEAK, 16): (1.8497, None, None, None, None),
    (CLONES, 1): (0.4220, 0.4877, None, None, None),
    (CLONES, 4): (0.9935, None, None, None, None),
    (CLONES, 16): (2.4905, None, None, None, 3.325),
}
# The true values, rounded.
KNOWN: dict[tuple[str, int], tuple[float | None, ...]] = {
    (STRONG, 1): (0.53077, None, None, None, 0.87734),
    (STRONG, 4): (1.0740, None, None, None, 1.6895),
    (STRONG, 16): (2.2550, None, None, None, 3.3448),
    (WEAK, 1): (0.38907, None, None, None, 0.62890),
    (WEAK, 4): (0.84222, None, None, None, 1.28711),
    (WEAK, 16): (1.84752, None, None, None, 2.70108),
    (CLONES, 1): (0.42183, 0.49548, 0.56278, 0.62545, 0.68465),
    (CLONES, 4): (0.91028, None, None, None, 1.38834),
    (CLONES, 16): (1.99755, None, None, None, 2.91029),
}
MOST_DEVIATION = 1e-4  # relative
_TOLERANCE = 1e-5
_ROUNDED = 1e-4  # relative, of the known values


def run(quick: bool, note: Note) -> Outcome:
    """All curves; the first and last delta alone when quick."""
    picked = (0, len(DELTAS) - 1) if quick else range(len(DELTAS))
    krr = sa.RandomizedResponse.from_gamma(categories=CATEGORIES, gamma=GAMMA)
    shuffled = functools.partial(sa.ShuffleRound, krr, users=USERS)
    one_round = {
        STRONG: shuffled(reduction="strong", variant="exact"),
        PAPER: shuffled(reduction="strong", variant="paper"),
        WEAK: shuffled(reduction="blanket"),
        CLONES: shuffled(reduction="clones"),
    }
    found: dict[tuple[str, int, int], sa.Bracket] = {}
    rows: list[dict[str, Any]] = []
    for name, one in one_round.items():
        for rounds in ROUNDS:
            note(f"{name}, T = {rounds}")
            accountant = sa.FourierAccountant(tolerance=_TOLERANCE).compose(one, count=rounds)
            for i in picked:
                bracket = accountant.epsilon(delta=DELTAS[i])
                found[name, rounds, i] = bracket
                rows.append(_row(name, rounds, i, bracket))
    for i in picked:
        note(f"{SPECIALISED}, delta = {DELTAS[i]:.1e}")
        value = specialised_clones.epsilon(
            eps0=math.log(13.0), categories=CATEGORIES, users=USERS, delta=DELTAS[i]
        )
        rows.append(_row(SPECIALISED, 1, i) | {"baseline": value})

    deviations = {
        key: abs(bracket / published - 1.0)
        for key, bracket in found.items()
        if key[0] == PAPER and (published := PUBLISHED[key[:2]][key[2]]) is not None
    }
    worst = max(deviations, key=deviations.__getitem__)
    missed = [
        key
        for key, bracket in found.items()
        if (known := KNOWN.get(key[:2], [None] * len(DELTAS))[key[2]]) is not None
        and not bracket.lower - _ROUNDED * known <= known <= bracket.upper + _ROUNDED * known
    ]
    unordered = [
        (rounds, i)
        for rounds in ROUNDS
        for i in picked
        if not (
            found[WEAK, rounds, i].lower <= min(found[CLONES, rounds, i], found[STRONG, rounds, i])
            and found[STRONG, rounds, i].lower <= found[PAPER, rounds, i]
        )
    ]
    claims = [
        Claim(
            name="as published",
            text=f"the published strong curve is reproduced within {MOST_DEVIATION:g}, relative",
            measured=f"largest deviation {deviations[worst]:.1e} (T = {worst[1]}, delta = "
            f"{DELTAS[worst[2]]:.1e}: {found[worst]:.5f})",
            holds=deviations[worst] <= MOST_DEVIATION,
        ),
        Claim(
            name="known values",
            text="brackets hold the known values of the exact strong, weak and clones curves",
            measured=_verdict([f"{name}, T = {rounds}" for name, rounds, _ in missed], len(found))
            + f"; widest bracket {max(map(relative_width, found.values())):.1e}",
            holds=not missed,
        ),
        Claim(
            name="order",
            text="weak is below strong and below clones, exact strong below the published form",
            measured=_verdict([f"T = {rounds}" for rounds, _ in unordered], len(found) // 4)
            + f"; T = 1, delta = 1e-4: {found[WEAK, 1, 0]:.5f}, {found[CLONES, 1, 0]:.5f}, "
            f"{found[STRONG, 1, 0]:.5f}, {found[PAPER, 1, 0]:.5f}",
            holds=not unordered,
        ),
    ]
    return Outcome(claims, rows, functools.partial(_draw, rows))


def _row(name: str, rounds: int, i: int, bracket: sa.Bracket | None = None) -> dict[str, Any]:
    published = PUBLISHED.get((name, rounds), [None] * len(DELTAS))[i]
    return {
        "curve": name,
        "rounds": rounds,
        "delta": DELTAS[i],
        "lower": "" if bracket is None else bracket.lower,
        "upper": "" if bracket is None else bracket.upper,
        "published": "" if published is None else published,
        "baseline": "",
    }


def _verdict(failures: list[str], total: int) -> str:
    if not failures:
        return f"true of all {total}"
    return f"{len(failures)} of {total} fail, first {failures[0]}"


def _draw(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    panels = figure.subplots(1, len(ROUNDS))
    colours = {STRONG: "C0", PAPER: "C3", WEAK: "C2", CLONES: "C1", SPECIALISED: "0.5"}
    for axes, rounds in zip(panels, ROUNDS, strict=True):
        for name, colour in colours.items():
            mine = [row for row in rows if (row["curve"], row["rounds"]) == (name, rounds)]
            for column, style in (("upper", "-"), ("baseline", ":"), ("published", "x")):
                points = [(row[column], row["delta"]) for row in mine if row[column] != ""]
                if points:
                    label = f"{name}: printed" if column == "published" else name
                    axes.plot(*zip(*points, strict=True), style, color=colour, label=label)
        axes.set(xlabel="ε", ylabel="δ", yscale="log", title=f"T = {rounds}")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, loc="outside right center")
    figure.savefig(path, dpi=150)
