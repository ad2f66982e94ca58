"""Claim: the pair on a grid of alpha converges to the explicit pair of a sampled round, from above.

eps0 = 3, sampling fraction 0.01, one round, grids of growing size over alpha in [e^-0.25, e^0.25].
The setting is n = 1e4, of which there are two readings, both done: 1e4 users out of 1e6, and 100
out of 1e4. The explicit pair needs no grid; for alpha >= 1 its profile is the divergence of
``g P + (1 - g) Q`` from Q. Between its points the grid's profile is a chord, so the excess is of
second order in the spacing, once that is finer than the losses are spread.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, relative_width
from shuffle_accountant.baselines import alpha_grid
from shuffle_accountant.lattice.grid import PldAtoms

EPS0, FRACTION, REACH = 3.0, 0.01, 0.25
USERS = (10_000, 100)
SIZES = (50, 100, 200, 400, 800, 1600, 3200, 6400)
QUICK_SIZES = (100, 400, 800, 1600)
POINTS = 40
MOST_EXCESS = 2e-5
# Two doublings divide an excess of second order by 16; the largest of all points, by a bit less.
LEAST_FALL = 6.0
_ROUND_OFF = 1e-12  # relative, of the sums over the grid's atoms

# Users, number of the grid's intervals, epsilon.
Key = tuple[int, int, float]


def run(quick: bool, note: Note) -> Outcome:
    """Both readings; fewer grids when quick."""
    sizes = QUICK_SIZES if quick else SIZES
    exact: dict[tuple[int, float], sa.Bracket] = {}
    gridded: dict[Key, float] = {}
    for users in USERS:
        one = sa.ShuffleRound(
            sa.GeneralRandomizer(eps0=EPS0), users=users, population=round(users / FRACTION)
        )
        epsilons = _epsilons(sizes[-1])
        note(f"m = {users}, explicit pair")
        exact |= {(users, epsilon): one.delta(epsilon=epsilon) for epsilon in epsilons}
        for size in sizes:
            note(f"m = {users}, {size} intervals")
            atoms = alpha_grid.pair(one, points=size, reach=REACH)
            gridded |= {(users, size, epsilon): _delta(atoms, epsilon) for epsilon in epsilons}

    rows = [_row(users, "", epsilon, bracket) for (users, epsilon), bracket in exact.items()]
    rows += [
        _row(users, size, epsilon, exact[users, epsilon]) | {"baseline": value}
        for (users, size, epsilon), value in gridded.items()
    ]
    worst = {
        (users, size): max(
            value - exact[users, epsilon].lower
            for (m, points, epsilon), value in gridded.items()
            if (m, points) == (users, size)
        )
        for users in USERS
        for size in sizes
    }
    claims = [
        _above(exact, gridded),
        _close(worst, sizes),
        _falls(worst, sizes),
    ]
    return Outcome(claims, rows, functools.partial(_draw, rows))


def _epsilons(finest: int) -> list[float]:
    """From a third of the finest grid's spacing to the end of the grid, never at a grid point.

    Halving a spacing moves a point at one third of an interval to two thirds of one, and back: on
    all grids the chord has nearly its largest excess there.
    """
    spacing = 2.0 * REACH / finest
    steps = np.unique(np.geomspace(1.0, finest / 2.0, POINTS).astype(int)) - 1
    return [(step + 1.0 / 3.0) * spacing for step in steps.tolist()]


def _delta(atoms: PldAtoms, epsilon: float) -> float:
    above = np.maximum(atoms.loss + atoms.loss_error - epsilon, 0.0)
    return atoms.infinite + math.fsum((atoms.mass * -np.expm1(-above)).tolist())


def _above(exact: dict[tuple[int, float], sa.Bracket], gridded: dict[Key, float]) -> Claim:
    below = [
        (users, size, epsilon)
        for (users, size, epsilon), value in gridded.items()
        if value < exact[users, epsilon].lower * (1.0 - _ROUND_OFF)
    ]
    return Claim(
        name="above",
        text="no grid is below the explicit pair, at any epsilon",
        measured=(
            f"true of all {len(gridded)}"
            if not below
            else f"{len(below)} of {len(gridded)} fail, first m = {below[0][0]}, "
            f"{below[0][1]} intervals, epsilon = {below[0][2]:.3g}"
        )
        + f"; widest bracket of the explicit pair {_widest(exact.values()):.1e}",
        holds=not below,
    )


def _widest(brackets: Iterable[sa.Bracket]) -> float:
    return max(map(relative_width, brackets))


def _close(worst: dict[tuple[int, int], float], sizes: tuple[int, ...]) -> Claim:
    last = {users: worst[users, sizes[-1]] for users in USERS}
    return Claim(
        name="finest grid",
        text=f"the finest grid's delta is within {MOST_EXCESS:g} of the explicit pair's",
        measured=f"largest deviation {max(last.values()):.1e}, {sizes[-1]} intervals ("
        + ", ".join(f"m = {users}: {value:.1e}" for users, value in last.items())
        + f"); coarsest grid {max(worst[users, sizes[0]] for users in USERS):.1e}",
        holds=max(last.values()) <= MOST_EXCESS,
    )


def _falls(worst: dict[tuple[int, int], float], sizes: tuple[int, ...]) -> Claim:
    falls = {users: worst[users, sizes[-3]] / worst[users, sizes[-1]] for users in USERS}
    ordered = all(
        worst[users, fine] <= worst[users, coarse]
        for users in USERS
        for coarse, fine in itertools.pairwise(sizes)
    )
    return Claim(
        name="convergence",
        text="the largest excess falls with every finer grid, by over "
        f"{LEAST_FALL:g} times in the last two doublings",
        measured=", ".join(
            f"m = {users}: {fall:.1f} times, order {math.log2(fall) / 2:.2f}"
            for users, fall in falls.items()
        )
        + ("" if ordered else "; not at every step"),
        holds=ordered and min(falls.values()) > LEAST_FALL,
    )


def _row(users: int, size: int | str, epsilon: float, bracket: sa.Bracket) -> dict[str, Any]:
    return {
        "users": users,
        "intervals": size,
        "epsilon": epsilon,
        "lower": bracket.lower,
        "upper": bracket.upper,
        "baseline": "",
    }


def _draw(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, users in zip(figure.subplots(1, len(USERS)), USERS, strict=True):
        mine = [row for row in rows if row["users"] == users]
        for size in dict.fromkeys(row["intervals"] for row in mine):
            curve = [row for row in mine if row["intervals"] == size]
            axes.plot(
                [row["epsilon"] for row in curve],
                [row["upper"] if size == "" else row["baseline"] for row in curve],
                "k-" if size == "" else "--",
                linewidth=2 if size == "" else 1,
                label="explicit pair" if size == "" else f"{size} intervals",
            )
        axes.set(xlabel="ε", ylabel="δ", xscale="log", yscale="log", ylim=(1e-12, 1e-2))
        axes.set_title(f"m = {users} of {round(users / FRACTION)}")
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=150)
