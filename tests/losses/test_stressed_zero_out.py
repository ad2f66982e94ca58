"""One target among draws of its null law: the envelope of two bounds, and what is charged.

The truth is enumerated in 50 digits. One rounding is a millionth, and what a bound allows for
besides is exact, so that no allowance hides another one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles.atoms import divergence
from oracles.precision import MP, Real, exact

import shuffle_accountant as sa
from shuffle_accountant.lattice.grid import Array
from shuffle_accountant.losses.alphabets.profiles import Profile
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.losses.two_letters import zero_out
from shuffle_accountant.losses.two_letters.zero_out import ZeroOutLoss
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.reductions.clones import null_law

UNIT = 2.0**-20
SIDES = pytest.mark.parametrize("side", list(Bound))
ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 1.0])
SWAPPED = pytest.mark.parametrize("swapped", [False, True])


def bounds(found: Any, truth: Any, side: Bound) -> bool:
    return bool(found >= truth if side is Bound.PESSIMISTIC else found <= truth)


def edges(largest: float) -> Array:
    return np.linspace(0.0, max(largest, 1e-3), 40)


def ordered(eps0: float, delta0: float, users: int, *, swapped: bool) -> PrivacyLoss:
    loss = null_law(eps0, delta0, users).loss
    return loss.reversed if swapped else loss


def alone(eps0: float, delta0: float, epsilon: float, swapped: bool) -> Real:
    """The divergence of a target without others: (delta0, t, s, 0) from (0, s, t, delta0)."""
    odds = MP.exp(exact(eps0))
    s = (1 - exact(delta0)) / (1 + odds)
    p, q = [exact(delta0), odds * s, s, exact(0)], [exact(0), s, odds * s, exact(delta0)]
    pairs = zip(q, p, strict=True) if swapped else zip(p, q, strict=True)
    return MP.fsum(max(a - MP.exp(exact(epsilon)) * b, 0) for a, b in pairs)


def among(eps0: float, delta0: float, others: int, epsilon: float) -> tuple[Real, Real]:
    """Both divergences among others, over the numbers of draws and of their letters."""
    odds, alpha, last_chance = MP.exp(exact(eps0)), MP.exp(exact(epsilon)), exact(delta0)
    forward, backward = last_chance, exact(0)
    for j in range(others + 1):
        k = j + 1
        draws = MP.binomial(others, j) * odds**-j * (1 - 1 / odds) ** (others - j)
        for last in range(k + 1):
            m = k - last
            share = draws * MP.binomial(k, last) * last_chance**last * (1 - last_chance) ** m
            for a in range(m + 1):
                chance = share * MP.binomial(m, a) * odds ** (m - a) / (1 + odds) ** m
                ratio = (a * odds + (m - a) / odds) / k
                forward += chance * max(ratio - alpha, 0)
                backward += chance * max(1 - alpha * ratio, 0)
    return forward, backward


@SIDES
@ADVERSE
def test_the_charge_and_the_target_alone_may_err(adverse: float, side: Bound) -> None:
    loss = ZeroOutLoss(1.0, 0.03125, 6)
    for epsilon in (0.0, 0.5, 0.999, 1.0, 1.5):
        where = np.array([epsilon])
        with stress(roundoff=UNIT, adverse=adverse):
            charge, own = float(loss._charge(where, side)[0]), float(loss._alone(where, side)[0])
        truth = 5 * MP.exp(-1) * exact(0.03125) * (1 + MP.exp(exact(epsilon)))
        assert bounds(exact(charge), truth, side)
        assert bounds(exact(own), alone(1.0, 0.03125, epsilon, swapped=False), side)


@SIDES
@SWAPPED
@pytest.mark.parametrize("delta0", [1e-5, 1e-3, 0.25])
@pytest.mark.parametrize("others", [1, 4])
def test_the_least_of_both_bounds(others: int, delta0: float, swapped: bool, side: Bound) -> None:
    """The lower end is below the smaller one; the upper end, above it, is no wider than asked."""
    loss = ordered(1.0, delta0, others + 1, swapped=swapped)
    for epsilon in (0.0, 0.05, 0.3, 0.7, 0.99):
        alpha = MP.exp(exact(epsilon))
        charge = others * MP.exp(-1) * exact(delta0) * (1 + alpha)
        truth = among(1.0, delta0, others, epsilon)[int(swapped)] + charge
        truth = min(truth, alone(1.0, delta0, epsilon, swapped))
        found = exact(loss.delta(epsilon, side, Effort(1e-30, 1e-4)))
        assert bounds(found, truth, side)
        assert abs(found - truth) <= 1e-3 * truth


@SIDES
@SWAPPED
@pytest.mark.parametrize("tail", [1e-30, 0.02])
@pytest.mark.parametrize("delta0", [0.0, 0.0625])
def test_the_law_of_a_target_without_others(
    delta0: float, tail: float, swapped: bool, side: Bound
) -> None:
    loss, upper = ordered(1.0, delta0, 1, swapped=swapped), side is Bound.PESSIMISTIC
    atoms = loss.atoms(side, edges, Effort(tail, 0.05))
    assert atoms.side is side
    for epsilon in (-3.0, -1.0, -0.6, -0.2, 0.0, 0.1, 0.5, 0.9, 0.99, 1.0, 1.5):
        truth = alone(1.0, delta0, epsilon, swapped)
        found = divergence(atoms, epsilon)
        # masses are rounded, and the truth is one of 50 digits
        slack = exact(-1e-14 if upper else 1e-14)
        assert bounds(found, truth + slack, side), epsilon
        assert abs(found - truth) <= exact(0.04 + 2.0 * tail), epsilon
        if epsilon >= 0.0:
            assert bounds(exact(loss.delta(epsilon, side, Effort(tail, 0.05))), truth, side)
    assert bounds(atoms.infinite, delta0, side)
    if upper and delta0 > 0.0:
        assert atoms.infinite - delta0 <= atoms.truncated <= max(atoms.infinite - delta0, tail)
        assert loss.delta(1.0, side, Effort(tail, 0.05)) == delta0


@SIDES
@SWAPPED
def test_the_law_of_a_target_among_few(swapped: bool, side: Bound) -> None:
    eps0, others = 1.0, 6
    atoms = ordered(eps0, 0.0, others + 1, swapped=swapped).atoms(side, edges, Effort(1e-30, 0.05))
    for epsilon in (-0.9, -0.4, -0.1, 0.0, 0.07, 0.3, 0.8, 0.97):
        # at alpha < 1 that of the other order
        order = int(swapped) if epsilon >= 0.0 else 1 - int(swapped)
        truth = among(eps0, 0.0, others, abs(epsilon))[order]
        if epsilon < 0.0:
            truth = 1 - MP.exp(exact(epsilon)) * (1 - truth)
        found = divergence(atoms, epsilon)
        assert bounds(found, truth, side), epsilon
        assert abs(found - truth) <= exact(0.02)


@SIDES
@SWAPPED
@pytest.mark.parametrize("users", [2, 100, 10**6])
@pytest.mark.parametrize("delta0", [0.0, 1e-9, 1e-3])
@pytest.mark.parametrize("eps0", [100.0, 300.0])
def test_divergences_of_far_letters_are_probabilities(
    eps0: float, delta0: float, users: int, swapped: bool, side: Bound
) -> None:
    loss = ordered(eps0, delta0, users, swapped=swapped)
    for epsilon in (0.0, 1.0, 0.5 * eps0, 0.99 * eps0, eps0 * (1 - 1e-12), eps0 + 1.0):
        found = loss.delta(epsilon, side, Effort(1e-12, 1e-4))
        assert 0.0 <= found <= 1.0
        if side is Bound.PESSIMISTIC:
            assert found >= (1.0 - 1e-15) * delta0


@pytest.mark.parametrize("rounds", [1, 2, 7])
@pytest.mark.parametrize("delta0", [0.0, 1e-9, 0.01])
def test_messages_that_are_the_null_law_but_for_delta0(delta0: float, rounds: int) -> None:
    """With eps0 = 0 each round gives the target away with probability delta0, and no more."""
    one = sa.ShuffleRound(sa.ApproximateRandomizer(eps0=0.0, delta0=delta0), users=10)
    truth = -MP.expm1(rounds * MP.log1p(-exact(delta0)))
    for epsilon in (0.0, 0.2):
        found = sa.delta(one, epsilon=epsilon, rounds=rounds)
        assert found.lower <= truth <= found.upper
        assert found.upper - found.lower <= 1e-3 * found.upper  # the default tolerance
    assert sa.epsilon(one, delta=0.2, rounds=rounds).upper == 0.0


# --------------------------------------------------------------------------------- steps of the law


@SIDES
def test_the_target_alone_is_rounded_once_more(side: Bound) -> None:
    """Nothing errs: beyond eps0 only delta0 is left, moved by what a sum may be rounded by."""
    with stress(roundoff=UNIT):
        found = float(ZeroOutLoss(1.0, 0.03125, 6)._alone(np.array([1.5]), side)[0])
    moved = 0.03125 * UNIT
    assert bounds(found, 0.03125 + (moved if side is Bound.PESSIMISTIC else -moved), side)
    assert abs(found - 0.03125) <= 10.0 * moved


@SIDES
def test_both_bounds_are_those_of_the_side(side: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles among others from tables, in either order, with what is charged."""

    class Table:
        def __init__(self, pairs: Any, users: Any, points: bytes, effort: Effort) -> None:
            self.size = 0.125 if pairs[0].p0[0] > 0.0 else 0.0625  # in which order
            self.points = np.frombuffer(points)

        def profile(self, users: int) -> Any:
            where = np.full(self.points.size, self.size)
            return Profile(self.points, 2.0 * where, where, where[:0], where[:0], where > 0.0)

    monkeypatch.setattr(zero_out, "profile_table", Table)
    loss, points = ZeroOutLoss(1.0, 0.03125, 6), np.array([0.0, 0.5, 1.0])
    found = loss._bounds(points, side, Effort(1e-12, 1e-3))
    times = 2.0 if side is Bound.PESSIMISTIC else 1.0
    charge = 5.0 * np.exp(-1.0) * 0.03125 * (1.0 + np.exp(points))
    assert found.shape == (2, 6)
    # below 0 the other order, times alpha
    forward, backward = 0.125 * times + charge, 0.0625 * times + charge
    expected = [0.0, *(np.exp(-points[:0:-1]) * backward[:0:-1]), *forward]
    assert found[0] == pytest.approx(expected, rel=1e-12)


@SIDES
def test_laws_whose_bounds_are_apart(side: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upper bounds are a hundredth above the profile, lower ones as much below."""
    bounds_of, eps0, others = ZeroOutLoss._bounds, 1.0, 6

    def apart(loss: ZeroOutLoss, points: Array, asked: Bound, effort: Effort) -> Array:
        return (1.01 if asked is Bound.PESSIMISTIC else 0.99) * bounds_of(
            loss, points, asked, effort
        )

    monkeypatch.setattr(ZeroOutLoss, "_bounds", apart)
    zero_out._envelope.cache_clear()
    atoms = ZeroOutLoss(eps0, 0.0, others + 1).atoms(side, edges, Effort(1e-30, 0.05))
    zero_out._envelope.cache_clear()
    for epsilon in (0.0, 0.07, 0.3, 0.8):
        truth = among(eps0, 0.0, others, epsilon)[0]
        # what is above (1 - alpha)_+ alone was moved, which bends at alpha = 1: half is left
        moved = exact(1.005 if side is Bound.PESSIMISTIC else 0.995)
        assert bounds(divergence(atoms, epsilon), moved * truth, side), epsilon


@SIDES
@ADVERSE
def test_the_end_of_a_law_that_errs(adverse: float, side: Bound) -> None:
    """Of a target without others: nothing is above eps0, and all roundings go one way."""
    eps0, delta0 = 1.0, 0.0625
    zero_out._envelope.cache_clear()
    with stress(roundoff=UNIT, adverse=adverse):
        atoms = ZeroOutLoss(eps0, delta0, 1).atoms(side, edges, Effort(1e-30, 0.05))
    zero_out._envelope.cache_clear()
    near = [eps0 * (1.0 + sign * 2.0**-k) for k in range(3, 26) for sign in (-1, 1)]
    for epsilon in (0.0, 0.1, 0.5, *near, 1.5):
        truth = alone(eps0, delta0, epsilon, swapped=False)
        assert bounds(divergence(atoms, epsilon), truth, side), epsilon
