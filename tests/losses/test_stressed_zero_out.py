"""One target among draws of its null law, under stress: sums, strikes and tails that err.

The truth is enumerated in 50 digits. One rounding is a millionth or a billionth, and what a bound
allows for besides is exact, so that no allowance hides another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from oracles.atoms import divergence
from oracles.precision import MP, Real, exact

import shuffle_accountant as sa
from shuffle_accountant.lattice.grid import Array, Bound
from shuffle_accountant.lattice.profile import whole_losses, whole_places
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.decoys.counts import CountBlocks, count_blocks
from shuffle_accountant.losses.decoys.decoy_counts import count_law
from shuffle_accountant.losses.two_letters import zero_out
from shuffle_accountant.losses.two_letters.zero_out import ZeroOutLoss
from shuffle_accountant.numerics.binomial import log_pmf
from shuffle_accountant.numerics.budget import stress

UNIT = 2.0**-20
SIDES = pytest.mark.parametrize("side", list(Bound))
ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 1.0])
SWAPPED = pytest.mark.parametrize("swapped", [False, True])
KEPT = count_blocks, count_law, zero_out._envelope, zero_out._table


@contextmanager
def stressed(**sources: float) -> Iterator[None]:
    """A budget, and nothing that was kept from another one before and after."""
    for function in KEPT:
        function.cache_clear()
    with stress(**sources):
        yield
    for function in KEPT:
        function.cache_clear()


def bounds(found: Any, truth: Any, side: Bound) -> bool:
    return bool(found >= truth if side is Bound.PESSIMISTIC else found <= truth)


def edges(largest: float) -> Array:
    return np.linspace(0.0, max(largest, 1e-3), 3)


def laws(eps0: float, m: int) -> list[Real]:
    """Probabilities of a of the second letter among m."""
    odds = MP.exp(exact(eps0))
    return [MP.binomial(m, a) * odds ** (m - a) / (1 + odds) ** m for a in range(m + 1)]


def given_last(eps0: float, k: int, last: int, epsilon: float) -> tuple[Real, Real]:
    """Both divergences of a bag of k with so many last letters, but for infinite losses."""
    odds, alpha, m = MP.exp(exact(eps0)), MP.exp(exact(epsilon)), k - last
    ratios = [(a * odds + (m - a) / odds) / k for a in range(m + 1)]
    pairs = list(zip(laws(eps0, m), ratios, strict=True))
    up = MP.fsum(p * max(r - alpha, 0) for p, r in pairs)
    return up, MP.fsum(p * max(1 - alpha * r, 0) for p, r in pairs)


@SIDES
@ADVERSE
@pytest.mark.parametrize("last", [0, 3, 200])
@pytest.mark.parametrize("eps0", [0.0625, 1.0])
def test_bags_in_closed_form_may_err(eps0: float, last: int, adverse: float, side: Bound) -> None:
    """Far from the mean by a probability's logarithm, near it by the tail's ratio."""
    k = 400
    points = np.array([0.0, 1e-3, 0.01, 0.02, 0.05, 0.4 * eps0, 0.8 * eps0])
    with stress(roundoff=2.0**-30, adverse=adverse):
        found = [
            zero_out._given_last(eps0, points, np.array([float(k)]), float(last), order, side)[0]
            for order in (0, 1)
        ]
    for j, epsilon in enumerate(points.tolist()):
        for row, truth in zip(found, given_last(eps0, k, last, epsilon), strict=True):
            assert bounds(exact(float(row[j])), truth, side), epsilon
            assert abs(exact(float(row[j])) - truth) <= exact(1e-3) * truth + exact(1e-5)


def off_by(monkeypatch: pytest.MonkeyPatch, moved: float, stated: float) -> None:
    """Logarithms of probabilities that are off by so much, of which so much is stated."""

    def logs(k: Any, n: Any, p: float, q: float) -> Array:
        return log_pmf(k, n, p, q) + moved

    monkeypatch.setattr(zero_out, "log_pmf", logs)
    monkeypatch.setattr(
        zero_out, "log_pmf_error", lambda k, n, p, log: np.full(np.shape(log), stated)
    )


@SIDES
@ADVERSE
def test_letters_whose_chances_are_off_by_some_roundings(
    adverse: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Probabilities are off by more than they state for exact chances."""
    eps0, k = 1.0, 12
    off_by(monkeypatch, 0.9 * adverse, 0.25)
    count, points = np.array([float(k)]), np.array([0.0, 0.2, 0.7])
    for order in (0, 1):
        found = zero_out._given_last(eps0, points, count, 0.0, order, side)[0]
        for value, epsilon in zip(found.tolist(), points.tolist(), strict=True):
            truth = given_last(eps0, k, 0, epsilon)[order]
            if epsilon == 0.0 or order == 0:  # else what is above the mean is a put's as well
                assert bounds(exact(value), truth, side), (order, epsilon)


@SIDES
@ADVERSE
def test_numbers_of_last_letters_whose_probability_is_off(
    adverse: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    off_by(monkeypatch, 0.2 * adverse, 0.25)
    monkeypatch.setattr(
        zero_out, "_given_last", lambda e, points, count, *_: np.full((count.size, 1), 0.25)
    )
    loss = ZeroOutLoss(1.0, 0.25, 9)
    args = loss, np.array([0.1]), (1,), np.array([5.0]), np.ones(1)
    found = zero_out._mixture(*args, side, 1e-30)[0, 0]
    assert bounds(found, 0.25, side)


@SIDES
@ADVERSE
@pytest.mark.parametrize("moved", [-24.0, -12.0, -3.0, 0.0, 3.0, 12.0, 24.0])
def test_strikes_next_to_a_ratio(moved: float, adverse: float, side: Bound) -> None:
    """Half of the letters are last ones: strike and mean nearly cancel, and rounding is large."""
    eps0, k, last = 2.0**-10, 20, 10
    unit, odds = 2.0**-30, MP.exp(exact(2.0**-10))
    m = k - last
    for a in (6, 8, 10):
        excess = float((a * odds + (m - a) / odds) / k - 1) + moved * unit
        with stress(roundoff=unit, adverse=adverse):
            args = np.array([[excess]]), np.array([[float(k)]]), np.array([[float(m)]])
            call = zero_out._call(eps0, *args, float(last), side)
        truth = MP.fsum(
            p * max((b * odds + (m - b) / odds) / k - 1 - exact(excess), 0)
            for b, p in enumerate(laws(eps0, m))
        )
        assert bounds(exact(float(call[0, 0])), truth, side)
    for a in (0, 2, 4):
        excess = float((a * odds + (m - a) / odds) / k - 1) + moved * unit
        with stress(roundoff=unit, adverse=adverse):
            args = np.array([[excess]]), np.array([[float(k)]]), np.array([[float(m)]])
            put = zero_out._put(eps0, *args, float(last), side)
        truth = MP.fsum(
            p * max(1 + exact(excess) - (b * odds + (m - b) / odds) / k, 0)
            for b, p in enumerate(laws(eps0, m))
        )
        assert bounds(exact(float(put[0, 0])), truth, side)


def test_bags_whose_probability_is_below_all_doubles() -> None:
    for order, epsilon in ((0, 0.99), (1, 0.9)):
        high, low = (
            float(
                zero_out._given_last(
                    1.0, np.array([epsilon]), np.array([4000.0]), 0.0, order, side
                )[0, 0]
            )
            for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
        )
        assert low == 0.0 < high < 1e-290


@SIDES
@ADVERSE
@SWAPPED
def test_mixtures_of_bags_may_err(
    swapped: bool, adverse: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of divergences that are known exactly, the same for all of them."""
    monkeypatch.setattr(
        zero_out, "_given_last", lambda e, points, count, *_: np.full((count.size, 1), 0.25)
    )
    loss, order = ZeroOutLoss(1.0, 0.25, 9), int(swapped)
    weight, count = np.array([0.5, 0.25]), np.array([3.0, 5.0])
    for tail in (1e-30, 0.3):
        with stress(roundoff=UNIT, adverse=adverse):
            found = zero_out._mixture(loss, np.array([0.1]), (order,), count, weight, side, tail)[
                0, 0
            ]
        truth = 0.25 * 0.75 + (0.0 if swapped else 0.25)  # all numbers of last letters
        assert bounds(found, truth, side), tail
        if tail < 0.1:
            assert found == pytest.approx(truth, rel=1e-2)


def test_so_many_last_letters_that_nothing_is_left_to_be_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        zero_out, "_given_last", lambda e, points, count, *_: np.full((count.size, 1), 0.25)
    )
    loss, one = ZeroOutLoss(1.0, 0.5, 399), np.ones(1)
    args = loss, np.array([0.1]), (1,), np.array([400.0]), one
    assert zero_out._mixture(*args, Bound.PESSIMISTIC, 1e-30)[0, 0] >= 0.25
    assert zero_out._mixture(*args, Bound.OPTIMISTIC, 1e-30)[0, 0] <= 0.25


@SIDES
@ADVERSE
@pytest.mark.parametrize("delta0", [0.0, 0.03125])
def test_the_charge_and_what_is_missing(
    delta0: float, adverse: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above a mixture that is known exactly."""
    law = CountBlocks(np.ones(1), np.full(1, 2.0), np.full(1, 4.0), 0.0625, 0.0)
    taken: list[float] = []

    def mixture(loss: Any, points: Array, orders: Any, count: Array, *_: Any) -> Array:
        taken.append(float(count[0]))
        return np.full((len(orders), points.size), 0.125)

    monkeypatch.setattr(zero_out, "count_law", lambda *_, **__: law)
    monkeypatch.setattr(zero_out, "_mixture", mixture)
    loss, upper = ZeroOutLoss(1.0, delta0, 5), side is Bound.PESSIMISTIC
    with stress(roundoff=UNIT, adverse=adverse):
        found = zero_out._bounds(loss, np.array([0.5]), (0,), side, 1e-12, 0.0)
    truth = exact(0.125) + (exact(0.0625) if upper else 0)
    truth += 5 * MP.exp(-1) * exact(delta0) * (1 + MP.exp(exact(0.5)))
    assert taken[0] == (3.0 if upper else 5.0)
    assert bounds(exact(float(found[0, 0, 0])), truth, side)
    assert float(found[0, 0, 0]) == pytest.approx(float(truth), rel=1e-3)
    assert found.shape[0] == (1 if delta0 == 0.0 else 2)


@ADVERSE
def test_the_last_point_is_beyond_the_largest_loss(adverse: float) -> None:
    """Though its place rounds."""
    with stress(roundoff=UNIT, adverse=adverse):
        loss = whole_losses(zero_out._points(ZeroOutLoss(0.5, 0.0, 100), 0.1))
        place = whole_places(loss)
    assert exact(float(place[-1])) >= MP.expm1(exact(0.5))


def alone(eps0: float, delta0: float, epsilon: float, swapped: bool) -> Real:
    """The divergence of a target without others: (delta0, t, s, 0) from (0, s, t, delta0)."""
    odds = MP.exp(exact(eps0))
    s = (1 - exact(delta0)) / (1 + odds)
    p, q = [exact(delta0), odds * s, s, exact(0)], [exact(0), s, odds * s, exact(delta0)]
    pairs = zip(q, p, strict=True) if swapped else zip(p, q, strict=True)
    return MP.fsum(max(a - MP.exp(exact(epsilon)) * b, 0) for a, b in pairs)


@SIDES
@SWAPPED
@pytest.mark.parametrize("tail", [1e-30, 0.02])
@pytest.mark.parametrize("delta0", [0.0, 0.0625])
def test_the_law_of_a_target_without_others(
    delta0: float, tail: float, swapped: bool, side: Bound
) -> None:
    loss, upper = ZeroOutLoss(1.0, delta0, 0, swapped), side is Bound.PESSIMISTIC
    with stressed():
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
    if upper:
        assert atoms.infinite - delta0 <= atoms.truncated <= max(atoms.infinite - delta0, tail)
    assert loss.delta(1.0, side, Effort(tail, 0.05)) == delta0


@SIDES
@SWAPPED
def test_the_law_of_a_target_among_few(swapped: bool, side: Bound) -> None:
    eps0, others, rate = 1.0, 6, MP.exp(-1)
    loss = ZeroOutLoss(eps0, 0.0, others, swapped)
    with stressed():
        atoms = loss.atoms(side, edges, Effort(1e-30, 0.05))
    for epsilon in (-0.9, -0.4, -0.1, 0.0, 0.07, 0.3, 0.8, 0.97):
        # at alpha < 1 that of the other order
        order = int(swapped) if epsilon >= 0.0 else 1 - int(swapped)
        truth = exact(0)
        for j in range(others + 1):
            chance = MP.binomial(others, j) * rate**j * (1 - rate) ** (others - j)
            truth += chance * given_last(eps0, j + 1, 0, abs(epsilon))[order]
        if epsilon < 0.0:
            truth = 1 - MP.exp(exact(epsilon)) * (1 - truth)
        found = divergence(atoms, epsilon)
        assert bounds(found, truth, side), epsilon
        assert abs(found - truth) <= exact(0.02)


@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("delta0", [1e-9, 1e-2, 0.5])
def test_nothing_hides_but_a_failure(delta0: float, rounds: int) -> None:
    """With eps0 = 0 a round gives the target away with probability delta0, or hides it."""
    one = sa.ShuffleRound(sa.ApproximateRandomizer(0.0, delta0), users=100)
    failed = float(-MP.expm1(rounds * MP.log1p(-exact(delta0))))
    for epsilon in (0.0, 3.0):
        found = sa.delta(one, epsilon=epsilon, rounds=rounds)
        assert found.lower <= failed <= found.upper <= failed * (1.0 + 1e-3)  # the tolerance


@pytest.mark.parametrize("users", [2, 100_000])
@pytest.mark.parametrize("epsilon", [0.0, 50.0, 299.0])
def test_no_divergence_is_above_one(users: int, epsilon: float) -> None:
    one = sa.ShuffleRound(sa.ApproximateRandomizer(300.0, 1e-9), users=users)
    assert sa.delta(one, epsilon=epsilon).upper <= 1.0
