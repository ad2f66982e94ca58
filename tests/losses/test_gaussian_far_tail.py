"""Normal noise where one message decides: tiny deltas, small sigma, from one message to a billion.

The sum of the lognormal ratios is far from normal there. The truth is a closed form for one
message, a quadrature for two, a recursion up to ten, and above a pair of elementary bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from oracles import few_gaussians, gaussian, gaussian_bounds
from oracles.containment import (
    assert_contains,
    assert_narrow,
    assert_narrow_tail,
    assert_overlaps,
)
from oracles.precision import Real

import shuffle_accountant as sa

# Brackets of epsilon are about 1e-3 wide where few messages are far from normal, and those of delta
# as many times more as delta falls with epsilon.
WIDTH = 2e-3
DELTA_WIDTH = 2e-2
# Masses below this are too small for doubles; what is known then is what holds for one message.
LEAST = 1e-270


def gaussian_round(sigma: float, users: int) -> sa.ShuffleRound:
    return sa.ShuffleRound(sa.GaussianRandomizer(sigma), users=users, reduction="example")


def assert_inverse(
    bracket: sa.Bracket, delta: float, divergence: Callable[[float], Real], rtol: float = 0.0
) -> None:
    """Fail unless the divergence falls through delta inside a narrow bracket of epsilon."""
    assert_narrow(bracket, WIDTH if delta > LEAST else 0.2)
    assert divergence(bracket.lower) * (1 + rtol) >= delta, bracket.lower
    assert divergence(bracket.upper) * (1 - rtol) <= delta, bracket.upper


# One message


@pytest.mark.parametrize(
    ("sigma", "epsilon"),
    [
        (0.3, 3.0),
        (0.3, 30.0),
        (0.3, 100.0),
        (0.5, 10.0),
        (0.5, 70.0),
        (2.0, 10.0),
        (2.0, 18.0),
        (30.0, 0.5),
        (30.0, 1.2),
    ],
)
def test_delta_of_one(sigma: float, epsilon: float) -> None:
    """Down to 1e-293 (sigma = 30); both orders of the pair give the same."""
    bracket = gaussian_round(sigma, 1).delta(epsilon=epsilon)
    truth = gaussian.mechanism(sigma, epsilon)
    assert_contains(bracket, truth)
    if truth > LEAST:
        assert_narrow_tail(bracket, DELTA_WIDTH)


@pytest.mark.parametrize("delta", [0.01, 1e-6, 1e-60, 1e-300])
@pytest.mark.parametrize("sigma", [0.3, 0.5, 2.0, 30.0])
def test_epsilon_of_one(sigma: float, delta: float) -> None:
    bracket = gaussian_round(sigma, 1).epsilon(delta=delta)
    assert_inverse(bracket, delta, lambda epsilon: gaussian.mechanism(sigma, epsilon))


# Two messages


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "epsilon"),
    [
        (0.3, 0.5),
        (0.3, 3.0),
        (0.3, 30.0),
        (0.5, 20.0),
        (2.0, 5.0),
        (2.0, 15.0),
        (30.0, 0.8),
    ],
)
def test_delta_of_two(sigma: float, epsilon: float) -> None:
    """The larger one of the two orders of the pair, down to 3e-256 (sigma = 30)."""
    bracket = gaussian_round(sigma, 2).delta(epsilon=epsilon)
    forward = gaussian.example(sigma, 2, epsilon)
    assert forward >= gaussian.example_reversed(sigma, 2, epsilon)
    assert_contains(bracket, forward, rtol=gaussian.QUADRATURE)
    assert_narrow_tail(bracket, DELTA_WIDTH)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-6, 1e-60, 1e-300])
@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_epsilon_of_two(sigma: float, delta: float) -> None:
    bracket = gaussian_round(sigma, 2).epsilon(delta=delta)

    def forward(epsilon: float) -> Real:  # the larger one of the orders, as above
        return gaussian.example(sigma, 2, epsilon)

    assert_inverse(bracket, delta, forward, gaussian.QUADRATURE)


# Three to ten


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "users", "epsilons"),
    [
        (0.3, 3, (0.5, 3.0, 30.0)),
        (0.5, 10, (0.1, 1.0, 5.0, 20.0)),
        (1.0, 10, (1.0, 5.0)),
        (2.0, 3, (1.0, 10.0)),
        (2.0, 7, (3.0,)),
        (30.0, 3, (0.01, 0.1, 0.4)),
    ],
)
def test_delta_of_a_few(sigma: float, users: int, epsilons: tuple[float, ...]) -> None:
    truths = few_gaussians.divergence(sigma, users, epsilons)
    for epsilon, truth in zip(epsilons, truths, strict=True):
        bracket = gaussian_round(sigma, users).delta(epsilon=epsilon)
        assert_contains(bracket, truth, rtol=few_gaussians.RECURSION)
        assert_narrow_tail(bracket, DELTA_WIDTH)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.1, 1e-6, 1e-60])
def test_epsilon_of_ten(delta: float) -> None:
    bracket = gaussian_round(0.5, 10).epsilon(delta=delta)

    def forward(epsilon: float) -> float:
        return few_gaussians.divergence(0.5, 10, [epsilon])[0]

    assert_inverse(bracket, delta, forward, few_gaussians.RECURSION)


# Many


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "users", "epsilon"),
    [
        (0.5, 100, 2.0),
        (0.5, 1000, 3.0),
        (0.5, 10**6, 3.0),
        (1.0, 1000, 5.0),
        (1.0, 10**6, 0.1),
        (2.0, 10**4, 1.0),
    ],
)
def test_delta_of_many(sigma: float, users: int, epsilon: float) -> None:
    """The bounds are 3 % to a factor of 5 apart, from 5e-3 down to 1e-156."""
    low, high = gaussian_bounds.bounds(sigma, users, epsilon)
    assert high <= 5.0 * low
    bracket = gaussian_round(sigma, users).delta(epsilon=epsilon)
    assert_overlaps(bracket, low, high)
    assert_narrow_tail(bracket, DELTA_WIDTH)


@pytest.mark.slow
@pytest.mark.parametrize("users", [10**5, 10**9])
def test_delta_falls_with_the_number_of_messages(users: int) -> None:
    """At n = 1000 it is 5.11e-12 already; more messages than that hide the target better."""
    bracket = gaussian_round(2.0, users).delta(epsilon=0.1)
    assert bracket.upper <= 5.2e-12
