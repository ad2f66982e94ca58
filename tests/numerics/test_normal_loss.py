"""Where the search for epsilon starts, against the two normal laws in high precision."""

from __future__ import annotations

import pytest
from mpmath import mp, mpf

from shuffle_accountant.numerics.normal import about_epsilon


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
