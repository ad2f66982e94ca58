"""Ends of trade-off curves from bracketed profiles, against closed forms with fifty digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shuffle_accountant.engine.trade_off import (
    _heights,
    envelope_loss,
    refined_trade_off,
    table_of,
    trade_off_ends,
)
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.tabulated import PldTable
from shuffle_accountant.numerics.budget import disturbed, stress
from shuffle_accountant.numerics.rounding import Bound

RATES = np.array([0.0, 1e-300, 1e-17, 1e-9, 1e-3, 0.01, 0.1, 0.25, 0.5, 0.8, 0.99, 1.0])
DIGITS = 50

Profile = Callable[[float], mp.mpf]
Curve = Callable[[float], mp.mpf]


def response(eps0: float) -> tuple[Profile, Curve]:
    """Of randomized response: its curve has three pieces, and lines through points lie on it."""

    def delta(epsilon: float) -> mp.mpf:
        e = mp.exp(mp.mpf(eps0))
        return max((e - mp.exp(mp.mpf(epsilon))) / (1 + e), mp.mpf(0))

    def curve(rate: float) -> mp.mpf:
        e, x = mp.exp(mp.mpf(eps0)), mp.mpf(rate)
        return max(1 - e * x, (1 - x) / e, mp.mpf(0))

    return delta, curve


def gaussian(mu: float) -> tuple[Profile, Curve]:
    """Of two normal laws that are mu deviations apart."""

    def delta(epsilon: float) -> mp.mpf:
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)

    def curve(rate: float) -> mp.mpf:
        if rate in (0.0, 1.0):
            return mp.mpf(1.0 - rate)
        # 1 - rate = ncdf(x); by bisection, as a rate may be far in the tail
        low, high = mp.mpf(-60), mp.mpf(60)
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (low, middle) if mp.ncdf(-middle) < mp.mpf(rate) else (middle, high)
        return mp.ncdf(low - mp.mpf(mu))

    return delta, curve


def ends(delta: Profile, epsilon: float) -> tuple[float, float]:
    """The doubles next to a divergence, below and above."""
    with mp.workdps(DIGITS):
        exact = delta(epsilon)
        near = float(exact)
        below, above = math.nextafter(near, 0.0), math.nextafter(near, 1.0)
        return near if mp.mpf(near) <= exact else below, near if mp.mpf(near) >= exact else above


LAWS = st.one_of(
    st.floats(1e-3, 30.0).map(response),
    st.floats(0.05, 5.0).map(gaussian),
)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    law=LAWS,
    places=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12),
    reach=st.floats(1e-6, 40.0),
    near=st.booleans(),
    apart=st.sampled_from([0.0, 1e-3, 0.3]),
)
@example(law=response(5.0), places=[0.1, 0.2, 0.4, 1.0], reach=650.0, near=False, apart=0.0)
@example(law=gaussian(2.0), places=[0.1, 0.2, 0.4, 1.0], reach=650.0, near=False, apart=0.0)
@example(law=response(1.0), places=[0.2, 0.5, 0.7, 1.0], reach=0.999, near=True, apart=0.3)
def test_points_enclose_the_curve_without_any_slack(
    law: tuple[Profile, Curve], places: list[float], reach: float, near: bool, apart: float
) -> None:
    delta, curve = law
    # points next to each other make lines that reach far beyond the distance they come from
    further = [x + 2e-12 / reach for x in places] if near else []
    epsilons = np.unique(np.array([0.0, *(reach * x for x in places + further), reach]))
    # as far apart as is asked for
    epsilons = epsilons[np.append(True, np.diff(epsilons) >= 1e-12)]
    lower, upper = np.array([ends(delta, x) for x in epsilons.tolist()]).T
    lower, upper = lower * (1.0 - apart), np.minimum(upper * (1.0 + apart), 1.0)
    below, above, _ = trade_off_ends(epsilons, lower, upper, RATES)
    with mp.workdps(DIGITS):
        for rate, low, high in zip(RATES.tolist(), below.tolist(), above.tolist(), strict=True):
            # guessing bounds a curve by 1 - rate, rounded
            assert low <= curve(rate) + mp.mpf(2) ** -53
            assert high >= curve(rate) - (mp.mpf(2) ** -53 if high == 1.0 - rate else 0)


@pytest.mark.parametrize("adverse", [1.0, -1.0])
@pytest.mark.parametrize("law", [response(0.5), response(2.0), gaussian(1.0), gaussian(3.0)])
def test_coarse_arithmetic_is_within_the_stated_roundings(
    law: tuple[Profile, Curve], adverse: float
) -> None:
    """Roundings of 2^-20, all one way, are more than what points leave open."""
    delta, curve = law
    with mp.workdps(DIGITS):
        truths = [curve(rate) for rate in RATES.tolist()]
    for count, reach in ((3, 0.4), (5, 3.0), (30, 6.0), (90, 3.0)):
        epsilons = np.linspace(0.0, reach, count)
        lower, upper = np.array([ends(delta, x) for x in epsilons.tolist()]).T
        with stress(roundoff=2.0**-20, adverse=adverse):
            below, above, _ = trade_off_ends(epsilons, lower, upper, RATES)
        for rate, low, high, truth in zip(
            RATES.tolist(), below.tolist(), above.tolist(), truths, strict=True
        ):
            assert low <= truth or low == 1.0 - rate
            assert high >= truth or high == 1.0 - rate


@pytest.mark.parametrize("law", [response(0.5), response(6.0), gaussian(0.3), gaussian(3.0)])
def test_refined_curves_are_narrow(law: tuple[Profile, Curve]) -> None:
    delta, curve = law
    below, above = refined_trade_off(lambda x: ends(delta, x), 20.0, RATES, 1e-3)
    with mp.workdps(DIGITS):
        truths = np.array([float(curve(x)) for x in RATES.tolist()])
    assert np.all(below <= truths + 1e-15)
    assert np.all(above >= truths - 1e-15)
    # a bracket as wide as asked for, of what a test gains over guessing; the floor is for rates
    # where no test gains anything
    assert np.all(above - below <= 0.02 * (1.0 - RATES - truths) + 1e-6)


def test_the_rate_zero_is_served_by_the_largest_epsilon() -> None:
    # all mass is lost below 900 nats, none above
    delta = lambda epsilon: (0.9, 0.9) if epsilon < 900.0 else (0.0, 1e-12)  # noqa: E731
    below, above = refined_trade_off(delta, 1000.0, np.array([0.0, 0.5]), 1e-3)
    assert 1.0 - 2e-12 <= below[0] <= 1.0 - 1e-12
    assert above[0] == 1.0
    assert below[1] <= 0.1


def line(share: float, odds: float) -> Callable[[float], tuple[float, float]]:
    """The profile of binary randomized response with a probability, else of nothing."""

    def ends(epsilon: float) -> tuple[float, float]:
        value = share * max(odds - math.exp(epsilon), 0.0) / (1.0 + odds)
        return value * (1.0 - 1e-15), value * (1.0 + 1e-15)

    return ends


@pytest.mark.parametrize("roundoff", [2.0**-53, 2.0**-30])
@pytest.mark.parametrize("points", [3, 4, 40])
def test_the_envelope_of_two_profiles_is_contained(points: int, roundoff: float) -> None:
    """The smaller one of 3/4 - a/4 and 9/20 - a/20 from a = 1 on; below both is a chord."""
    losses = np.unique([*np.linspace(0.0, math.log(9.0), points), math.log(3.0)])
    with stress(roundoff=roundoff):
        forward = envelope_loss([line(1.0, 3.0), line(0.5, 9.0)], losses)
    for loss, epsilon in itertools.product(
        (forward, forward.reversed), np.linspace(0.0, math.log(3.0), 23).tolist()
    ):
        truth = max(0.4 - 0.2 * math.expm1(epsilon), 0.0)
        low, high = (of_table(one, epsilon) for one in (loss.bounds.lower, loss.bounds.upper))
        assert low <= truth * (1.0 + 1e-13) + 1e-300
        assert high >= truth * (1.0 - 1e-13)
        assert high <= truth + 1e-12 + 1000.0 * roundoff
        if points > 4:
            assert low >= truth - 1e-3


def of_table(table: PldTable, epsilon: float) -> float:
    """The hockey-stick divergence of a table, in doubles."""
    gain = -np.expm1(np.minimum(epsilon - table.losses, 0.0))
    return table.infinity_mass + float(np.sum(table.probabilities * gain))


@pytest.mark.parametrize("adverse", [-1.0, 1.0])
def test_heights_are_below_those_of_the_atoms(adverse: float) -> None:
    """In fractions, with losses that are off by what is stated and sums by 16 roundings."""
    losses, mass, error = [0.25, 1.0, 2.0], [0.25, 0.5, 0.125], 1e-6
    with stress(roundoff=2.0**-30, adverse=adverse):
        atoms = atoms_of(disturbed(np.array(losses), error), mass, error, Bound.OPTIMISTIC)
        found = _heights(atoms, np.array([0.0, 0.5, 1.5]))
    for epsilon, height in zip((0.0, 0.5, 1.5), found.tolist(), strict=True):
        parts = zip(losses, mass, strict=True)
        truth = sum(m * max(-math.expm1(epsilon - loss), 0.0) for loss, m in parts)
        assert truth - 3e-6 <= height <= truth * (1.0 + 1e-15)


def atoms_of(losses: Any, mass: list[float], error: float, side: Bound) -> PldAtoms:
    return PldAtoms(
        side=side,
        mass=np.array(mass),
        loss=losses,
        infinite=0.125,
        truncated=0.0,
        round_off=0.0,
        loss_error=error,
    )


@pytest.mark.parametrize("side", Bound)
def test_a_table_has_losses_moved_by_their_error(side: Bound) -> None:
    error = 0.125 if side is Bound.PESSIMISTIC else -0.125
    table = table_of(atoms_of(np.array([0.5, -0.5, 0.5]), [0.25, 0.125, 0.25], 0.125, side))
    assert table.losses.tolist() == [-0.5 + error, 0.5 + error]
    assert table.probabilities.tolist() == [0.125, 0.5]
    assert table.infinity_mass == 0.125


@pytest.mark.parametrize("points", [4, 9])
def test_the_envelope_of_a_curved_profile_is_contained(points: int) -> None:
    """Between few points the upper end is a chord, and the lower one below the tangents."""
    exact, _ = gaussian(1.0)
    loss = envelope_loss([lambda x: ends(exact, x) if x < 6.0 else (0.0, 0.0)], FEW[points])
    effort = Effort(tail=1e-30, resolution=1e-3)
    for epsilon in np.linspace(0.0, 5.0, 41).tolist():
        low, high = ends(exact, epsilon)
        assert loss.delta(epsilon, Bound.OPTIMISTIC, effort) <= high
        assert loss.delta(epsilon, Bound.PESSIMISTIC, effort) >= low


FEW = {points: np.append(np.linspace(0.0, 5.0, points), 6.0) for points in (4, 9)}
