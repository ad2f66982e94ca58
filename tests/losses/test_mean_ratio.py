"""Masses of a known total, whose rounding counts as often as there are rounds.

The oracle of a long composition of nearly normal losses is the Gaussian mechanism.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

import shuffle_accountant as sa
from shuffle_accountant.losses.steps.mean_ratio import _capped, _completed


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), atoms=st.integers(1, 9), error=st.floats(0.0, 0.5))
def test_no_law_of_known_total_has_larger_losses(seed: int, atoms: int, error: float) -> None:
    """A law, and masses that may be too large by rounding: whatever the errors of each."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(atoms, 0.5))
    raised = law * (1.0 + error * rng.random(atoms))
    found = _capped(raised)
    assert (found <= raised).all()
    assert found.sum() <= 1.0 + 1e-13  # sums of a few doubles
    # 1e-15: this test's own sums; `_capped` allows for its own
    assert (np.cumsum(found[::-1]) >= np.cumsum(law[::-1]) * (1.0 - 1e-15)).all()


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), atoms=st.integers(1, 9), error=st.floats(0.0, 0.5))
def test_what_is_missing_has_the_smallest_loss(seed: int, atoms: int, error: float) -> None:
    rng = np.random.default_rng(seed)
    law = 0.9 * rng.dirichlet(np.full(atoms, 0.5))
    lowered = law * (1.0 - error * rng.random(atoms))
    found = _completed(lowered, 0.9)
    assert found[0] >= lowered[0]
    assert (found[1:] == lowered[1:]).all()
    assert found.sum() == pytest.approx(0.9, rel=1e-13) or found.sum() < 0.9
    assert (np.cumsum(found[::-1]) <= np.cumsum(law[::-1]) * (1.0 + 1e-15)).all()


def test_masses_that_are_as_small_as_they_should_be_stay() -> None:
    mass = np.array([0.25, 0.5, 0.125])
    assert _capped(mass) is mass
    assert _completed(mass, 0.875) is mass


def test_rounding_of_many_epochs_of_many_steps_is_counted_once() -> None:
    """1e5 epochs of 1e7 steps: a sum of so many nearly normal losses is a normal one.

    Its mean over its deviation is that of the composition of Gaussian mechanisms with the same
    variances, up to the next term of Edgeworth's expansion: 1e-3 / sqrt(1e7) of epsilon or so.
    """
    steps, epochs, sigma, delta = 10**7, 10**5, 100.0, 1e-8
    mu = math.sqrt(epochs * math.expm1(sigma**-2.0) / steps)

    def excess(epsilon: float) -> float:
        first = norm.cdf(0.5 * mu - epsilon / mu)
        return first - math.exp(epsilon) * norm.cdf(-0.5 * mu - epsilon / mu) - delta

    truth = brentq(excess, 0.0, 1.0, xtol=1e-12)
    one = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=sigma), steps=steps)
    found = sa.epsilon(one, delta=delta, rounds=epochs)
    assert found.lower <= truth * (1.0 + 1e-5)
    assert truth * (1.0 - 1e-5) <= found.upper
    assert found.width <= 1e-3 * found.upper
