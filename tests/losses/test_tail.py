"""The law behind variant="tail": blocks of counts, cells of values, and both on a grid.

The oracles are exact integers (all counts and majorities, a binomial law of fractions), all pairs
of atoms of two rounds, and SciPy's binomial law composed by NumPy's transform.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import comb

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import shuffle_accountant as sa
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.decoy_counts import NumberOfClones
from shuffle_accountant.losses.two_letters import tail as module
from shuffle_accountant.losses.two_letters.tail import ProbabilisticDpLoss
from shuffle_accountant.numerics.rounding import Bound

# Of sums of a few thousand doubles.
DIGITS = 1e-12
EPS0 = 3.0
# The engine's own limits; limits at which small examples take each other way of listing the law.
BLOCKS = {"COUNTS": replace(module.COUNTS, added=-1)}
CELLS = {"TAIL": replace(module.TAIL, listed=1, shared=9)}
WAYS: dict[str, dict[str, object]] = {
    "single counts": {},
    "blocks of both parities": {**BLOCKS},
    "cells of many values": {**CELLS},
    "both": {**BLOCKS, **CELLS},
}


def loss_of(trials: int, rate: float) -> ProbabilisticDpLoss:
    clones = NumberOfClones.from_eps0(math.inf, decoys=trials, rate=rate, idle=1.0 - rate)
    return ProbabilisticDpLoss(clones)


def exact_atoms(trials: int, rate: float) -> Iterator[tuple[float, Fraction]]:
    """Loss and probability of each count and each number of the first letter."""
    chance = Fraction(rate)
    for c in range(trials + 1):
        weight = comb(trials, c) * chance**c * (1 - chance) ** (trials - c) / 2**c
        for a in range(c + 1):
            loss = math.log((a + 1) / (c - a)) if a < c else math.inf
            yield loss, weight * comb(c, a)


def law(trials: int, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """The losses in ascending order, and the probability of each or a larger one."""
    atoms = sorted(exact_atoms(trials, rate))
    chances = np.array([float(mass) for _, mass in atoms])
    return np.array([loss for loss, _ in atoms]), np.cumsum(chances[::-1])[::-1]


def at_least(losses: np.ndarray, tails: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.append(tails, 0.0)[np.searchsorted(losses, x)]


def grid_tails(
    loss: ProbabilisticDpLoss, side: Bound, spacing: float, effort: Effort, x: np.ndarray
) -> np.ndarray:
    """``P(loss >= x)`` of the atoms on a grid of that spacing."""

    def edges(largest: float) -> np.ndarray:
        step = spacing if side is Bound.PESSIMISTIC else spacing / 4
        return np.arange(math.ceil(largest / step) + 2) * step

    atoms = loss.atoms(side, edges, effort)
    on_grid = atoms.loss / spacing
    assert np.allclose(on_grid, np.rint(on_grid), rtol=0, atol=1e-6)
    above = atoms.loss[None, :] >= x[:, None] - 1e-12
    return np.asarray(above @ atoms.mass + atoms.infinite)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=25, deadline=None)
@given(
    trials=st.integers(0, 70),
    rate=st.floats(0.05, 0.95),
    spacing=st.floats(0.003, 0.5),
    resolution=st.floats(0.0, 0.5),
    tail=st.sampled_from([1e-30, 1e-9, 1e-3]),
)
def test_law_on_a_grid_against_enumeration(
    way: str, trials: int, rate: float, spacing: float, resolution: float, tail: float
) -> None:
    """At each loss and between losses, whatever is cut off, joined and rounded."""
    losses, tails = law(trials, rate)
    finite = losses[np.isfinite(losses)]
    edge = np.concatenate([finite, finite - 1e-9, finite + 1e-9, [0.0, -50.0, 50.0]])
    exact = at_least(losses, tails, edge)
    effort = Effort(tail=tail, resolution=resolution)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in WAYS[way].items():
            patch.setattr(module, name, value)
        upper = grid_tails(loss_of(trials, rate), Bound.PESSIMISTIC, spacing, effort, edge)
        lower = grid_tails(loss_of(trials, rate), Bound.OPTIMISTIC, spacing, effort, edge)
        ends = [
            [loss_of(trials, rate).delta(x, side, effort) for x in (0.0, 0.3, 1.1, math.inf)]
            for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
        ]
    # losses are logarithms of quotients, so that they are off by a few units in the last place
    assert (upper >= exact - DIGITS).all()
    assert (lower <= at_least(losses, tails, edge - 2e-12) + DIGITS).all()
    assert upper[-2] == pytest.approx(1.0, abs=2 * tail + 1e-9)  # nothing is lost, or twice there
    for x, high, low in zip((0.0, 0.3, 1.1, math.inf), *ends, strict=True):
        truth = float(at_least(losses, tails, np.array([x]))[0])
        assert low - DIGITS <= truth <= high + DIGITS


@pytest.mark.parametrize("way", WAYS)
def test_width_is_that_of_grid_and_blocks(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ends are a spacing, relative widths and a step of R apart, in the other ways more."""
    for name, value in WAYS[way].items():
        monkeypatch.setattr(module, name, value)
    loss, spacing, width = loss_of(20_000, 0.3), 1e-4, 1e-3
    x = np.linspace(-0.05, 0.08, 40)
    effort = Effort(tail=1e-30, resolution=width)
    upper = grid_tails(loss, Bound.PESSIMISTIC, spacing, effort, x)
    step = 4.0 / 5500.0  # of losses between values of R, at the fewest likely counts
    more = spacing + 1.5 * width * np.abs(x) + step
    if "parities" in way or way == "both":
        more += 2.0 * step  # the parity moves R by one either way
    if "cells" in way or way == "both":
        more += step * 1000.0 / 9.0  # R up to 1000 in nine cells
    lower = grid_tails(loss, Bound.OPTIMISTIC, spacing, effort, x - more)
    assert (upper <= lower * (1 + 1e-9) + 1e-15).all()


@pytest.mark.slow
@pytest.mark.parametrize(("users", "rounds"), [(30, 2), (60, 2), (12, 3)])
def test_rounds_against_all_sums_of_losses(users: int, rounds: int) -> None:
    atoms = [(x, float(p)) for x, p in exact_atoms(users - 1, 2.0 / (math.exp(EPS0) + 3.0))]
    losses, mass = (np.array(column) for column in zip(*atoms, strict=True))
    total, chance = losses, mass
    for _ in range(rounds - 1):
        with np.errstate(invalid="ignore"):
            total = np.add.outer(total, losses).ravel()
        chance = np.multiply.outer(chance, mass).ravel()
        # -inf does not occur: the target's own message has the first letter
        keys, place = np.unique(np.round(total, 11), return_inverse=True)
        total, chance = keys, np.bincount(place, weights=chance)
    one = sa.ShuffleRound(
        sa.RandomizedResponse(categories=4, eps0=EPS0), users=users, reduction="strong",
        variant="tail",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.LooseBracketWarning)  # where the tail jumps
        for epsilon in (0.137, 0.803, 1.717, 4.339):
            found = sa.delta(one, epsilon=epsilon, rounds=rounds)
            high = chance[total >= epsilon - 1e-9].sum()
            low = chance[total >= epsilon + 1e-9].sum()
            assert found.lower <= low * (1 + DIGITS)
            assert found.upper >= high * (1 - DIGITS)


def transform_ends(trials: int, rate: float, rounds: int, spacing: float) -> list[tuple]:
    """Composed tails by SciPy's law and NumPy's transform, losses rounded down and up."""
    centre, spread = trials * rate, math.sqrt(trials * rate * (1 - rate))
    counts = np.arange(int(centre - 9 * spread), int(centre + 9 * spread) + 1)
    weight = scipy.stats.binom.pmf(counts, trials, rate)
    down = []
    for c, w in zip(counts.tolist(), weight.tolist(), strict=True):
        a = np.arange(int(0.5 * c - 4.5 * math.sqrt(c)), int(0.5 * c + 4.5 * math.sqrt(c)))
        loss = np.log((a + 1) / (c - a))
        down.append((np.floor(loss / spacing).astype(int), w * scipy.stats.binom.pmf(a, c, 0.5)))
    cell = np.concatenate([x for x, _ in down])
    mass = np.bincount(cell - cell.min(), weights=np.concatenate([p for _, p in down]))
    size = 1 << math.ceil(math.log2(rounds * mass.size))
    total = np.fft.irfft(np.fft.rfft(mass, size) ** rounds, size)
    tails = np.cumsum(total[::-1])[::-1]
    at = spacing * (rounds * int(cell.min()) + np.arange(size))
    return [(at, tails), (at + rounds * spacing, tails)]


@pytest.mark.slow
@pytest.mark.parametrize("users", [10**5, pytest.param(4 * 10**5, marks=pytest.mark.release)])
def test_composed_tail_of_many_users(users: int) -> None:
    one = sa.ShuffleRound(
        sa.RandomizedResponse(categories=4, eps0=EPS0), users=users, reduction="strong",
        variant="tail",
    )  # fmt: skip
    rate = 2.0 / (math.exp(EPS0) + 3.0)
    # a hundredth of the tolerance in each round
    spacing = 1e-5 * float(sa.epsilon(one, delta=1e-4, rounds=10)) / 10
    (low, tails), (high, _) = transform_ends(users - 1, rate, 10, spacing)
    for delta in (1e-2, 1e-4, 1e-7):
        found = sa.epsilon(one, delta=delta, rounds=10)
        assert found.upper - found.lower <= 1e-3 * found.upper
        last = int(np.flatnonzero(tails > delta * (1 + 1e-6))[-1])
        first = int(np.flatnonzero(tails < delta * (1 - 1e-6))[0])
        assert low[last] <= found.upper
        assert found.lower <= high[first]
        assert high[first] - low[last] <= 1e-4 * found.upper


@pytest.mark.slow
@pytest.mark.parametrize("users", [10**5, 10**6, 10**7, 10**9, 10**12, 10**15])
@pytest.mark.parametrize(("rounds", "delta"), [(2, 1e-3), (10, 1e-6), (40, 1e-60)])
def test_the_tolerance_is_met_for_any_number_of_users(
    users: int, rounds: int, delta: float
) -> None:
    one = sa.ShuffleRound(
        sa.RandomizedResponse(categories=4, eps0=EPS0), users=users, reduction="strong",
        variant="tail",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", sa.WeakPrivacyWarning)  # delta is above 1/n for many
        found = sa.epsilon(one, delta=delta, rounds=rounds)
    assert 0.0 < found.lower <= found.upper <= 1.001 * found.lower
    # R is a sum of signs around 0, so Hoeffding's and a normal tail are close by
    deviation = 2.0 * math.sqrt(rounds / (users * 2.0 / (math.exp(EPS0) + 3.0)))
    assert found.upper <= 1.02 * deviation * math.sqrt(-2.0 * math.log(delta))
    assert found.lower >= 0.98 * deviation * scipy.stats.norm.isf(delta)
