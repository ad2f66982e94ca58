"""Two normal laws, and where the search for epsilon starts, against high precision."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpf

from shuffle_accountant.numerics.probabilities import about_epsilon, normal_excess


def delta_of(deviation: float, epsilon: float) -> mpf:
    d, x = mpf(deviation), mpf(epsilon)
    return mp.ncdf(d / 2 - x / d) - mp.exp(x) * mp.ncdf(-d / 2 - x / d)


@pytest.mark.parametrize("deviation", [1e-9, 1e-5, 1e-4, 0.0117, 0.3, 2.0, 20.0, 50.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-6, 0.1, 0.9])
def test_epsilon_and_slope_are_about_right(deviation: float, delta: float) -> None:
    """To a hundredth of a deviation; where delta is never as large, epsilon is 0."""
    epsilon, slope = about_epsilon(deviation, delta)
    step = 0.01 * deviation
    with mp.workdps(400):
        assert delta_of(deviation, epsilon + step) <= delta
        if epsilon == 0.0:
            assert delta_of(deviation, 0.0) <= delta
            return
        assert delta_of(deviation, max(epsilon - step, 0.0)) >= delta
        change = mp.log(delta_of(deviation, epsilon + step) / delta_of(deviation, epsilon)) / step
        assert slope == pytest.approx(float(change), rel=0.05)


@pytest.mark.parametrize("deviation", [1e-299, 1e-150])
def test_next_to_no_loss(deviation: float) -> None:
    epsilon, slope = about_epsilon(deviation, 1e-6)
    assert epsilon == 0.0
    assert slope < 0.0


def test_expected_excess_of_a_normal_law() -> None:
    """``phi(z) - z Phi(-z)``, with relative accuracy."""
    places = np.array([-40.0, -3.0, -1e-3, 0.0, 1e-3, 1.0, 5.0, 20.0, 37.0])
    with mp.workdps(400):
        wanted = [float(mp.npdf(z) - mpf(z) * mp.ncdf(-mpf(z))) for z in places.tolist()]
    assert normal_excess(places) == pytest.approx(wanted, rel=1e-9)
