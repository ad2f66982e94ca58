"""Claim: shuffled Gaussian noise needs no n-dimensional integral, for any number of users.

sigma = 2; X is n zeros, X' has a 1 in place of one of them (the paper's example pair, not the worst
of all datasets). The paper samples 5e7 points for n up to 7; here are certified brackets for
n = 1 … 7, Monte Carlo intervals beside them, and n = 100, 1e4 and 1e6.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, compact, relative_width
from benchmarks.monte_carlo import Estimate, estimate, gaussian_losses

SIGMA = 2.0
FEW = (1, 2, 3, 4, 5, 6, 7)
MANY = (10**2, 10**4, 10**6)
EPSILONS = tuple(round(0.1 * i, 1) for i in range(1, 11))
# For many users epsilon in units of the standard deviation of the loss.
DEVIATIONS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
SAMPLES, QUICK_SAMPLES = 10**7, 50_000
SEED = 20231107

# n, epsilon: delta, and the digits it is known to.
KNOWN = {
    (1, 0.1): (0.159260507, 1e-9),
    (1, 0.5): (0.052440323, 1e-9),
    (1, 1.0): (0.006829595, 1e-9),
    (2, 0.1): (0.104853, 1e-6),
    (2, 0.5): (0.018327, 1e-6),
    (2, 1.0): (0.000646, 1e-6),
    (7, 0.1): (0.041294, 1e-6),
    (7, 0.5): (0.00059351, 1e-8),
    (7, 1.0): (1.3e-7, 1e-8),
}
MOST_WIDTH = 1e-2  # of delta, up to six standard deviations out
TOLERANCE = 2e-4  # of epsilon: six deviations out delta is forty times as sensitive


def run(quick: bool, note: Note) -> Outcome:
    """Brackets of all points, then samples for few users; some points alone when quick."""
    few, picked = ((1, 2, 7), (0.1, 0.5, 1.0)) if quick else (FEW, EPSILONS)
    brackets: dict[tuple[int, float], sa.Bracket] = {}
    for users in (*few, *MANY):
        note(f"n = {compact(users)}")
        one = sa.ShuffleRound(sa.GaussianRandomizer(sigma=SIGMA), users=users, reduction="example")
        spread = DEVIATIONS[::3] if quick else DEVIATIONS
        epsilons = picked if users in few else tuple(_deviation(users) * x for x in spread)
        for epsilon in epsilons:
            brackets[users, epsilon] = sa.delta(one, epsilon=epsilon, tolerance=TOLERANCE)
    sampled = _sample(few, picked, QUICK_SAMPLES if quick else SAMPLES, note)

    rows = [_row(*point, bracket, sampled.get(point)) for point, bracket in brackets.items()]
    deviations = {
        point: max(brackets[point].lower - value, value - brackets[point].upper, 0.0) / digits
        for point, (value, digits) in KNOWN.items()
    }
    worst = max(deviations, key=deviations.__getitem__)
    disagree = [point for point, dot in sampled.items() if not dot.agrees(brackets[point])]
    accuracy = {point: dot.relative_accuracy for point, dot in sampled.items()}
    widths = {point: relative_width(bracket) for point, bracket in brackets.items()}
    widest = max(widths, key=widths.__getitem__)
    claims = [
        Claim(
            name="known values",
            text="brackets hold the known values, to the digits known",
            measured=f"largest deviation {deviations[worst]:.2f} units of the last digit "
            f"({_where(worst)})",
            holds=deviations[worst] <= 0.5 + 1e-6,
        ),
        Claim(
            name="Monte Carlo",
            text="99.9 % confidence intervals from samples overlap the brackets",
            measured=_sampling(disagree, accuracy, sampled),
            holds=not disagree if sampled else None,
        ),
        Claim(
            name="many users",
            text=f"relative bracket of delta <= {MOST_WIDTH:g} for n = 1 … 7, 100, 1e4, 1e6",
            measured=f"widest {widths[widest]:.1e} ({_where(widest)})",
            holds=widths[widest] <= MOST_WIDTH,
        ),
    ]
    return Outcome(claims, rows, functools.partial(_draw, rows))


def _deviation(users: int) -> float:
    """Rough standard deviation of the loss: that of the mean likelihood ratio."""
    return math.sqrt(math.expm1(1.0 / SIGMA**2) / users)


def _sample(
    few: tuple[int, ...], epsilons: tuple[float, ...], samples: int, note: Note
) -> dict[tuple[int, float], Estimate]:
    """Estimates for few users; an interruption ends the sampling with what there is."""
    found: dict[tuple[int, float], Estimate] = {}
    for users in few:

        def report(fraction: float, users: int = users) -> None:
            note(f"sampling n = {users}: {fraction:.0%}")

        dots = estimate(
            gaussian_losses(SIGMA, users), epsilons, samples=samples, seed=SEED, report=report
        )
        found |= {(users, dot.epsilon): dot for dot in dots}
        if dots[0].samples < samples:
            break
    return found


def _sampling(
    disagree: list[tuple[int, float]],
    accuracy: dict[tuple[int, float], float],
    sampled: dict[tuple[int, float], Estimate],
) -> str:
    if not sampled:
        return "nothing sampled"
    text = f"{len(sampled) - len(disagree)} of {len(sampled)} overlap"
    if disagree:
        text += f", not {_where(disagree[0])}"
    good = [value for value in accuracy.values() if value < math.inf]
    best, worst = min(good), max(good)
    drawn = max(dot.samples for dot in sampled.values())
    return f"{text}; relative accuracy {best:.0e} to {worst:.0e} with {compact(drawn)} samples"


def _where(point: tuple[int, float]) -> str:
    users, epsilon = point
    return f"n = {compact(users)}, epsilon = {epsilon:.3g}"


def _row(users: int, epsilon: float, bracket: sa.Bracket, dot: Estimate | None) -> dict[str, Any]:
    known, _ = KNOWN.get((users, epsilon), ("", 0.0))
    return {
        "users": users,
        "epsilon": epsilon,
        "lower": bracket.lower,
        "upper": bracket.upper,
        "known": known,
        "monte_carlo": "" if dot is None else dot.value,
        "monte_carlo_lower": "" if dot is None else dot.lower,
        "monte_carlo_upper": "" if dot is None else dot.upper,
        "relative_accuracy": "" if dot is None else dot.relative_accuracy,
        "samples": "" if dot is None else dot.samples,
    }


def _draw(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for users in dict.fromkeys(row["users"] for row in rows):
        mine = [row for row in rows if row["users"] == users]
        axes = right if users in MANY else left
        (curve,) = axes.plot(
            [row["epsilon"] for row in mine],
            [row["upper"] for row in mine],
            label=f"n = {compact(users)}",
        )
        dots = [row for row in mine if row["monte_carlo"] not in ("", 0.0)]
        if dots:
            middle = [row["monte_carlo"] for row in dots]
            below = [row["monte_carlo"] - row["monte_carlo_lower"] for row in dots]
            above = [row["monte_carlo_upper"] - row["monte_carlo"] for row in dots]
            at = [row["epsilon"] for row in dots]
            colour = curve.get_color()
            axes.errorbar(at, middle, yerr=(below, above), fmt=".", color=colour, capsize=2)
    left.set(xlabel="ε", ylabel="δ", yscale="log", title="as in the paper; dots: Monte Carlo")
    right.set(xlabel="ε", ylabel="δ", xscale="log", yscale="log", title="many users")
    for axes in (left, right):
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=150)
