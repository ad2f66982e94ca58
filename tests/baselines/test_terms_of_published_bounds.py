"""Single terms of published bounds: sums of listed counts, roots, both orders, what is cut off."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracles.precision import MP, exact

import shuffle_accountant as sa
from shuffle_accountant.baselines import closed_forms, one_epoch, rdp
from shuffle_accountant.baselines.closed_forms import clones_enumeration, erlingsson
from shuffle_accountant.baselines.moments import best_delta, best_epsilon, log_moments
from shuffle_accountant.baselines.question import OutsideValidityError
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import HOCKEY_STICK, Effort
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

UNIT = 2.0**-30


@pytest.mark.parametrize(
    ("given", "condition"),
    [
        ({"eps0": 0.6, "users": 1000, "delta": 1e-6}, "eps0 <= 0.5, got 0.6"),
        ({"eps0": 0.5, "users": 999, "delta": 1e-6}, "users >= 1000, got 999"),
        ({"eps0": 0.5, "users": 1000, "delta": 0.01}, "delta < 0.01, got 0.01"),
        ({"eps0": 0.5, "users": 1000, "delta": 0.009}, None),
    ],
)
def test_where_a_formula_is_valid(given: dict[str, Any], condition: str | None) -> None:
    assert erlingsson.valid(**given) == condition


def test_sums_of_listed_counts_are_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """By more than a sum of as many terms and their gains are off, and what is not listed."""
    masses, losses = np.array([0.25, 0.3, 0.01]), np.array([1.0, 0.7, 2.5])
    monkeypatch.setattr(closed_forms, "_atoms", lambda *_: (masses, losses))
    for epsilon in (0.0, 0.5, 0.9, 2.0):
        truth = MP.fsum(
            exact(p) * -MP.expm1(min(exact(epsilon) - exact(x), 0))
            for p, x in zip(masses.tolist(), losses.tolist(), strict=True)
        )
        found = exact(closed_forms._listed_delta(3.0, 10, epsilon, 2.0**-60))
        assert truth * (1 + exact("5e-12")) + exact(2.0**-61) <= found
        assert found <= truth * (1 + exact("2e-11")) + exact(2.0**-60)


def test_roots_are_above_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """However curved: at what is found delta is reached."""
    for power in range(1, 40):

        def listed(eps0: float, users: int, epsilon: float, tau: float, k: int = power) -> float:
            return 0.5 * (1.0 - (epsilon / eps0) ** (0.1 * k))

        monkeypatch.setattr(closed_forms, "_listed_delta", listed)
        delta = 0.01 * power
        found = closed_forms._enumerated(3.0, 10, delta)
        root = 3 * (1 - 2 * exact(delta)) ** (1 / exact(0.1 * power))
        # the root is found to 1e-13 and a few roundings, where the function has its own
        assert root + exact("5e-12") <= found <= root + exact("2e-11")


def test_losses_of_listed_counts_are_rounded_up() -> None:
    """Six roundings of a ratio of exponentials, and those of its logarithm."""
    eps0, users = 0.3125, 4
    closed_forms._atoms.cache_clear()
    with stress(roundoff=UNIT):
        masses, losses = closed_forms._atoms(eps0, users, 1e-9)
    closed_forms._atoms.cache_clear()
    ratio = MP.exp(-exact(eps0))
    truth = sorted(
        MP.log((a + ratio * (m - a)) / (ratio * a + m - a))
        for m in range(1, users + 1)
        for a in range(m + 1)
        if 2 * a > m
    )
    assert masses.size == len(truth)
    for found, true in zip(np.sort(losses).tolist(), truth, strict=True):
        assert 8 * true + 14 <= (exact(found) - true) / UNIT <= 9 * true + 64


def test_enumerations_stay_as_they_are() -> None:
    """Two users: one other message, which is the target's clone or not."""
    eps0, epsilon = 1.0, 0.25
    p = 1 / (1 + MP.exp(-exact(eps0)))
    q = 1 - p
    # of m = 1 the target's alone; of m = 2 a say 0
    alone = (1 - 2 * q) * max(p - MP.exp(exact(epsilon)) * q, 0)
    both = (
        2
        * q
        * MP.fsum(
            max(x - MP.exp(exact(epsilon)) * y, 0)
            for x, y in ((p / 2, q / 2), (exact("0.5"), exact("0.5")), (q / 2, p / 2))
        )
    )
    found = clones_enumeration.delta(eps0=eps0, users=2, epsilon=epsilon, tau=1e-14)
    assert alone + both <= found <= (alone + both) * (1 + exact("2e-11")) + exact("1e-14")


# ------------------------------------------------------------------------------ Rényi divergences

P, Q = np.array([0.9, 0.1]), np.array([0.9999, 0.0001])


def both_orders(swapped: bool) -> sa.PldRound:
    """A round whose order (P, Q), or (Q, P), is by far the worse one."""
    tables = [
        sa.LossTable(losses=np.log(P / Q), probabilities=P),
        sa.LossTable(losses=np.log(Q / P)[::-1], probabilities=Q[::-1]),
    ]
    remove, add = reversed(tables) if swapped else tables
    return sa.PldRound.from_tables(remove, add=add, adjacency=sa.Adjacency.ZERO_OUT)


def log_moment(t: float) -> float:
    """Of the worse order."""
    return max(math.log(math.fsum(a * (a / b) ** t)) for a, b in ((P, Q), (Q, P)))


@pytest.mark.parametrize("swapped", [False, True])
def test_divergences_are_those_of_the_worse_order(swapped: bool) -> None:
    one = both_orders(swapped)
    for order in (1.5, 2.0, 4.0):
        truth = log_moment(order - 1.0) / (order - 1.0)
        found = rdp.renyi_divergence(one, order=order)
        # the sums here are good to a few roundings; both losses are between points of a grid
        assert found.lower * (1.0 - 1e-12) <= truth <= found.upper * (1.0 + 1e-12)
        assert 0.9 * found.upper < truth < 1.1 * found.lower


@pytest.mark.parametrize("swapped", [False, True])
def test_epsilons_are_those_of_the_worse_order(swapped: bool) -> None:
    one = both_orders(swapped)
    truth = best_epsilon(lambda t: 3.0 * log_moment(t), 1e-3)
    # the search ends a millionth of the order from the best one, where epsilon is flat
    assert truth * (1.0 - 1e-9) <= rdp.epsilon(one, rounds=3, delta=1e-3) <= 1.02 * truth


def test_what_is_cut_off_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Off the delta that is asked about, or on top of the one that is found."""

    def moment(t: float) -> float:
        return t * (t + 1.0) / 8.0

    def sides(parts: Any, more: float) -> Iterator[Any]:
        yield moment, 2.0**-12
        yield moment, 0.0

    monkeypatch.setattr(rdp, "_sides", sides)
    one = both_orders(swapped=False)
    assert rdp.epsilon(one, delta=2.0**-10) == best_epsilon(moment, 2.0**-10 - 2.0**-12)
    assert rdp.delta(one, epsilon=2.0) == best_delta(moment, 2.0) + 2.0**-12
    with pytest.raises(ValueError, match="the probability of losses that are not followed"):
        rdp.epsilon(one, delta=2.0**-13)


@pytest.mark.parametrize("certain", [False, True])
def test_only_losses_that_are_certain_to_be_infinite_are_refused(
    certain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tail that is cut off says nothing."""

    def delta(epsilon: float, side: Bound, effort: Effort) -> float:
        return 1e-25 if certain or side is Bound.PESSIMISTIC else 0.0

    loss: Any = SimpleNamespace(largest=math.inf, divergence=HOCKEY_STICK, delta=delta)
    loss.reversed = loss
    monkeypatch.setattr(rdp, "_parts", lambda *_: [(loss, 1)])
    refused = rdp.valid(both_orders(swapped=False))
    assert refused == (
        "finite losses, got one that is infinite with some probability" if certain else None
    )


# ------------------------------------------------------------------------------------------- epochs


class Moved:
    """An atom at 1 that is off by as much as stated."""

    largest, deviation, divergence = 2.0, 1.0, HOCKEY_STICK

    def __init__(self, moved: float, error: float) -> None:
        self.moved, self.error = moved, error
        self.reversed = self

    def atoms(self, side: Bound, edges: Any, effort: Effort) -> PldAtoms:
        edges(self.largest)
        return PldAtoms(side, np.ones(1), np.array([1.0 + self.moved]), 0.0, 0.0, 0.0, self.error)


@pytest.mark.parametrize("side", list(Bound))
def test_moments_of_losses_that_are_off(side: Bound) -> None:
    """By more than a point of the grid, a hundredth, one way."""
    upper = side is Bound.PESSIMISTIC
    one: Any = Moved(-0.05 if upper else 0.05, 0.05)
    found = log_moments(one, side).kept(2.0)
    assert found >= 2.0 if upper else found <= 2.0
    assert abs(found - 2.0) <= 2.0 * 0.12


def test_what_a_profile_does_not_fall_below_is_infinite(monkeypatch: pytest.MonkeyPatch) -> None:
    """In both orders, of which each has its own; and no epsilon has a delta below that."""
    floors = 2.0**-6, 2.0**-7

    def profile(losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        removed, added = (np.maximum(0.25 * np.exp(-losses), floor) for floor in floors)
        return removed, added

    with pytest.raises(OutsideValidityError, match="larger delta: its profile does not fall to"):
        one_epoch.composed_epsilon("bound", profile, 8.0, rounds=1, delta=2.0**-8)
    given: list[Any] = []

    def certified(parts: Any, tolerance: float, delta: float) -> Any:
        given.extend(parts)
        return SimpleNamespace(upper=1.0), None

    monkeypatch.setattr(one_epoch, "certified_at", certified)
    assert one_epoch.composed_epsilon("bound", profile, 8.0, rounds=3, delta=0.1) == 1.0
    ((epoch, rounds),) = given
    assert rounds == 3
    laws = epoch.loss.bounds.upper, epoch.loss.reversed.bounds.upper
    assert tuple(law.infinity_mass for law in laws) == floors
