"""Epochs of two and three Gaussian steps against plain quadrature over all outputs, and peers.

What is integrated shares nothing with the package: densities of the outputs for explicit datasets
and queries, on a grid of outputs; the last of several i.i.d. ratios in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.containment import assert_contains, assert_overlaps
from scipy.special import ndtr
from scipy.stats import norm

import shuffle_accountant as sa

Array = NDArray[np.float64]


def gaussian(sigma: float) -> sa.GaussianMechanism:
    return sa.GaussianMechanism(noise_multiplier=sigma)


# --------------------------------------------------------------------- random allocation


def excess_of_mean(sigma: float, steps: int, released: int, alpha: float) -> float:
    """``E (1 - s/t + (X_1 + … + X_s)/t - alpha)_+``, X lognormal with mean 1, s = 1 … 3.

    Gauss's rule over all but the last value, which is in closed form.
    """
    unit, weight = np.polynomial.legendre.leggauss(60)
    edges = np.linspace(-10.0, 10.0 + 1.0 / sigma, 21)
    half = 0.5 * np.diff(edges)
    z = ((edges[:-1] + half)[:, None] + half[:, None] * unit).ravel()
    density = (half[:, None] * weight).ravel() * norm.pdf(z)
    ratio = np.exp(z / sigma - 0.5 / sigma**2)
    rest, mass = np.zeros(1), np.ones(1)
    for _ in range(released - 1):
        rest = np.add.outer(rest, ratio).ravel()
        mass = np.multiply.outer(mass, density).ravel()
    strike = steps * (alpha - 1.0) + released - rest
    with np.errstate(divide="ignore", invalid="ignore"):
        d = -sigma * np.log(strike) + 0.5 / sigma
    call = np.where(strike > 0.0, ndtr(d) - strike * ndtr(d - 1.0 / sigma), 1.0 - strike)
    return float(mass @ call) / steps


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "released"), [(1, 1), (2, 2), (3, 3), (3, 2), (5, 3), (40, 2)])
@pytest.mark.parametrize("sigma", [0.7, 1.0, 3.0])
def test_allocations(sigma: float, steps: int, released: int) -> None:
    """Both orders by one function of alpha: a put is a call and the mean."""
    epoch = sa.RandomAllocation(gaussian(sigma), steps=steps, released=released)
    for epsilon in (0.0, 0.1, 0.5, 1.5):
        alpha = math.exp(epsilon)
        remove = excess_of_mean(sigma, steps, released, alpha)
        add = alpha * excess_of_mean(sigma, steps, released, 1.0 / alpha) - (alpha - 1.0)
        truth = max(remove, add)
        # the integrand has a kink where the closed form takes over, in the last cells
        assert_overlaps(epoch.delta(epsilon=epsilon), truth - 2e-7, truth + 2e-7)


@pytest.mark.parametrize("passes", [2, 5])
def test_several_passes(passes: int) -> None:
    """Every record's steps of one place, as one step with less noise."""
    epoch = sa.RandomAllocation(gaussian(2.0), steps=2, passes=passes)
    truth = excess_of_mean(2.0 / math.sqrt(passes), 2, 2, math.exp(0.3))
    assert_overlaps(epoch.delta(epsilon=0.3), truth - 2e-7, truth + 2e-7)


# --------------------------------------------------------------------- shuffled batches

# What a record adds to its batch's sum, from the earlier outputs.
Query = Callable[[list[Array]], Array | float]


def density_of_batches(records: list[Query], sigma: float, axes: list[Array]) -> Array:
    """Density of the outputs of batches of one record each, in an order drawn at random."""
    total: Array = np.zeros(np.broadcast_shapes(*(axis.shape for axis in axes)))
    orders = list(permutations(range(len(records))))
    scale = sigma * math.sqrt(2.0 * math.pi)
    for order in orders:
        density: Array = np.ones(1)
        for step, record in enumerate(order):
            mean = records[record](axes[:step])
            density = density * np.exp(-0.5 * ((axes[step] - mean) / sigma) ** 2) / scale
        total = total + density / len(orders)
    return total


def divergences(
    target: Query, others: list[Query], sigma: float, epsilon: float
) -> tuple[float, float]:
    """The target against a null record, in both orders, by the midpoint rule."""
    steps = len(others) + 1
    points = {2: 600, 3: 100}[steps]
    line = np.linspace(-1.0 - 8.0 * sigma, 1.0 + 8.0 * sigma, points)
    axes = [line.reshape([-1 if i == j else 1 for j in range(steps)]) for i in range(steps)]
    cell = (line[1] - line[0]) ** steps
    p = density_of_batches([target, *others], sigma, axes)
    q = density_of_batches([lambda past: 0.0, *others], sigma, axes)
    alpha = math.exp(epsilon)
    return tuple(float(np.maximum(a - alpha * b, 0.0).sum() * cell) for a, b in ((p, q), (q, p)))  # type: ignore[return-value]


def always(value: float) -> Query:
    return lambda past: value


def looks_back(first: float, sign: float) -> Query:
    """A value of norm 1 whose sign depends on the output before."""
    return lambda past: sign * np.where(past[-1] > 0.5, 1.0, -1.0) if past else first


DATASETS = {
    "antipodal": (always(1.0), [always(-1.0)]),
    "null": (always(1.0), [always(0.0)]),
    "alike": (always(1.0), [always(1.0)]),
    "half": (always(1.0), [always(0.5)]),
    "adaptive": (looks_back(1.0, 1.0), [looks_back(-1.0, -1.0)]),
    "adaptive, other way": (looks_back(1.0, -1.0), [looks_back(-1.0, 1.0)]),
    "three, antipodal": (always(1.0), [always(-1.0), always(-1.0)]),
    "three, adaptive": (looks_back(1.0, 1.0), [looks_back(-1.0, -1.0), always(0.3)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("sigma", [1.0, 2.5])
def test_no_dataset_loses_more_than_the_bound(name: str, sigma: float) -> None:
    target, others = DATASETS[name]
    batches = sa.ShuffledBatches(noise_multiplier=sigma, steps=len(others) + 1)
    for epsilon in (0.1, 0.6):
        truth = max(divergences(target, others, sigma, epsilon))
        # the midpoint rule's error at the kink, 1e-4 for two steps and 3e-4 for three
        assert batches.delta(epsilon=epsilon).upper >= truth * (1.0 - 1e-3)
        if "antipodal" in name:
            # the pair that `attained_epsilon` is about: its lower end at this delta is no larger,
            # and not far below
            found = sa.attained_epsilon(batches, delta=truth)
            assert found.lower <= epsilon + 1e-3
            assert found.lower >= 0.95 * epsilon - 5e-3


# --------------------------------------------------------------------- peers


@pytest.mark.parametrize("sigma", [0.6, 1.0, 4.0])
@pytest.mark.parametrize("rounds", [1, 7])
def test_one_step_is_a_peers_mechanism(sigma: float, rounds: int) -> None:
    """dp_accounting's pessimistic and optimistic distributions on both sides of the bracket."""
    pld = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution", reason="a peer of these rounds"
    )
    upper, lower = (
        pld.from_gaussian_mechanism(
            sigma, value_discretization_interval=1e-3, pessimistic_estimate=pessimistic
        )
        .self_compose(rounds)
        .get_epsilon_for_delta(1e-6)
        for pessimistic in (True, False)
    )
    found = sa.epsilon(sa.RandomAllocation(gaussian(sigma), steps=1), delta=1e-6, rounds=rounds)
    assert_overlaps(found, lower, upper)


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "steps", "epochs"), [(1.0, 30, 1), (2.0, 100, 3)])
def test_a_peers_bracket_meets_ours(sigma: float, steps: int, epochs: int) -> None:
    """PLD_accounting, a certified bracket by other means."""
    peer = pytest.importorskip(
        "PLD_accounting.random_allocation_api", reason="a peer for random allocation"
    )
    upper, lower = peer.gaussian_allocation_epsilon_range(
        delta=1e-6, sigma=sigma, num_steps=steps, num_epochs=epochs
    )
    found = sa.epsilon(sa.RandomAllocation(gaussian(sigma), steps=steps), delta=1e-6, rounds=epochs)
    assert_overlaps(found, lower, upper)
    assert 20.0 * found.width < upper - lower


def test_the_rule_itself() -> None:
    """One value, whose expectation is the Gaussian mechanism's divergence."""
    for sigma, epsilon in ((1.0, 0.3), (2.0, 1.0)):
        shift = 1.0 / sigma
        truth = norm.cdf(0.5 * shift - epsilon / shift) - math.exp(epsilon) * norm.cdf(
            -0.5 * shift - epsilon / shift
        )
        assert excess_of_mean(sigma, 1, 1, math.exp(epsilon)) == pytest.approx(truth, rel=1e-12)
        alone = divergences(always(1.0), [always(0.0)], sigma, epsilon)
        epoch = sa.RandomAllocation(gaussian(sigma), steps=2)
        assert_contains(epoch.delta(epsilon=epsilon), max(alone), rtol=1e-4)
