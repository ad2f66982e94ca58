"""Ends of trade-off curves from bracketed profiles, against closed forms with fifty digits."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shuffle_accountant.engine.trade_off import refined_trade_off, trade_off_ends
from shuffle_accountant.numerics.budget import stress

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
