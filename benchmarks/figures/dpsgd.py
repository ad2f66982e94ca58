"""Claim: shuffled batches of DP-SGD cost what is certified here, far more than Poisson's number.

1000 steps an epoch, delta = 1e-8. Published are certified lower and upper ends for shuffled batches
(a preprint's, on coarse grids, to the digits below); ours lie inside: the lower end is the whole
antipodal pair composed, the upper end null clones with every number of them. Values of the same
upper bound in plain floating point, with every number of clones, are met as well. The picture is
epsilon of one epoch against the noise multiplier, for the three ways to make batches.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from benchmarks.claims import Claim, Note, Outcome
from shuffle_accountant.reports.samplings import SamplingRow, compare_samplings
from shuffle_accountant.rounds.samplings import SAMPLINGS

STEPS, DELTA = 1000, 1e-8
# By noise multiplier and epochs: the published ends.
PUBLISHED = {
    (1.0, 1): (5.106, 5.64),
    (1.0, 5): (6.423, 7.97),
    (1.0, 20): (8.646, 11.68),
    (2.0, 1): (0.257, 0.47),
    (2.0, 5): (0.338, 0.71),
    (2.0, 20): (0.438, 1.29),
}
# The upper bound without certificates.
PLAIN = {
    (1.0, 1): 5.640,
    (1.0, 2): 6.489,
    (1.0, 5): 7.966,
    (1.0, 10): 9.454,
    (1.0, 20): 11.673,
    (2.0, 1): 0.466,
    (2.0, 3): 0.6023,
    (2.0, 5): 0.711,
    (2.0, 20): 1.2945,
}
QUICK = ((1.0, 1), (2.0, 1))
NOISE = (0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 6.0)
NOISE_QUICK = (1.0, 2.0)
# The published ends are rounded to these.
_DIGIT = 0.005
# Poisson's number is too small by at least so much, at a noise multiplier of 1.
_LEAST_FACTOR = 16.0


def run(quick: bool, note: Note) -> Outcome:
    """The published settings, then one epoch at many noise multipliers."""
    settings = QUICK if quick else tuple(PLAIN)
    shuffled: dict[tuple[float, int], SamplingRow] = {}
    for sigma, epochs in settings:
        note(f"sigma = {sigma:g}, E = {epochs}")
        (shuffled[sigma, epochs],) = _rows(sigma, epochs, ("shuffle",))
    curves: dict[float, dict[str, SamplingRow]] = {}
    for sigma in NOISE_QUICK if quick else NOISE:
        note(f"sigma = {sigma:g}")
        curves[sigma] = {row.sampling: row for row in _rows(sigma, 1, tuple(SAMPLINGS))}
    rows = [
        {"noise_multiplier": sigma, "epochs": epochs, **_cells(row)}
        for (sigma, epochs), row in shuffled.items()
    ] + [
        {"noise_multiplier": sigma, "epochs": 1, **_cells(row)}
        for sigma, found in curves.items()
        for row in found.values()
    ]
    claims = [_inside(shuffled), _plain(shuffled), _order(curves), _factor(curves[1.0])]
    return Outcome(claims, rows, functools.partial(_draw, curves))


def _rows(sigma: float, epochs: int, samplings: tuple[str, ...]) -> list[SamplingRow]:
    return compare_samplings(
        noise_multiplier=sigma, steps=STEPS, epochs=epochs, delta=DELTA, samplings=samplings
    )


def _cells(row: SamplingRow) -> dict[str, Any]:
    return {"sampling": row.sampling, "lower": row.lower, "upper": row.upper}


def _inside(found: dict[tuple[float, int], SamplingRow]) -> Claim:
    compared = {at: row for at, row in found.items() if at in PUBLISHED}
    outside = [
        at
        for at, row in compared.items()
        if not PUBLISHED[at][0] < row.lower <= row.upper <= PUBLISHED[at][1] + _DIGIT
    ]
    ends = "; ".join(
        f"sigma = {sigma:g}, E = {epochs}: [{row.lower:.4f}, {row.upper:.4f}]"
        for (sigma, epochs), row in compared.items()
    )
    return Claim(
        name="published intervals",
        text="shuffled batches: inside the published intervals, the lower ends strictly above",
        measured=f"{len(compared) - len(outside)} of {len(compared)}: {ends}",
        holds=not outside,
    )


def _plain(found: dict[tuple[float, int], SamplingRow]) -> Claim:
    deviations = {at: row.upper / PLAIN[at] - 1.0 for at, row in found.items()}
    worst = max(deviations, key=lambda at: abs(deviations[at]))
    return Claim(
        name="certified and not",
        text="the certified upper ends are those of plain floating point, or below, within 1e-3",
        measured=f"{deviations[worst]:+.1e} at sigma = {worst[0]:g}, E = {worst[1]} at most",
        # fewer digits are known of some, and p was taken from a coarser list there
        holds=max(deviations.values()) <= 1e-3,
    )


def _order(curves: dict[float, dict[str, SamplingRow]]) -> Claim:
    """Both of the others are below what shuffled batches certainly lose."""
    failed = [
        sigma
        for sigma, rows in curves.items()
        if rows["shuffle"].lower <= max(rows["allocation"].upper, rows["poisson"].upper)
    ]
    return Claim(
        name="order",
        text="shuffled batches certainly lose more than random allocation and Poisson sampling",
        measured=f"at {len(curves) - len(failed)} of {len(curves)} noise multipliers"
        + (f"; not at {failed[0]:g}" if failed else ""),
        holds=not failed,
    )


def _factor(rows: dict[str, SamplingRow]) -> Claim:
    factor = rows["shuffle"].lower / rows["poisson"].upper
    return Claim(
        name="Poisson's number",
        text=f"at a noise multiplier of 1 Poisson's number is over {_LEAST_FACTOR:.0f} times too "
        "small for shuffled batches",
        measured=f"{factor:.1f} times: at least {rows['shuffle'].lower:.4f}, Poisson "
        f"{rows['poisson'].upper:.4f}, allocation {rows['allocation'].upper:.4f}",
        holds=factor > _LEAST_FACTOR,
    )


def _draw(curves: dict[float, dict[str, SamplingRow]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    sigmas = list(curves)
    for sampling in SAMPLINGS:
        lower, upper = (
            [getattr(curves[sigma][sampling], end) for sigma in sigmas]
            for end in ("lower", "upper")
        )
        (line,) = axes.plot(sigmas, upper, marker=".", label=sampling)
        axes.fill_between(sigmas, lower, upper, color=line.get_color(), alpha=0.3)
    axes.set(xlabel="noise multiplier σ", ylabel="ε", xscale="log", yscale="log")
    axes.set_title(f"one epoch of {STEPS} steps, δ = {DELTA:g}")
    axes.legend()
    figure.savefig(path, dpi=150)
