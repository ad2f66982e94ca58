"""Poisson sampling: against enumeration, quadrature, dp_accounting, and allocation's first step."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from oracles.containment import assert_contains, assert_narrow, assert_overlaps
from scipy.integrate import quad
from scipy.stats import norm

import shuffle_accountant as sa
from shuffle_accountant.rounds.samplings import SAMPLINGS, training_run

ZERO_OUT = sa.Adjacency.ZERO_OUT


def gaussian(sigma: float) -> sa.GaussianMechanism:
    return sa.GaussianMechanism(noise_multiplier=sigma)


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 3), Fraction(1, 50)])
@pytest.mark.parametrize("rounds", [1, 4])
def test_pure_steps_by_enumeration(rate: Fraction, rounds: int) -> None:
    """All transcripts of randomized response with probabilities 3 : 1, in exact arithmetic."""
    present, null = Fraction(3, 4), Fraction(1, 4)
    mixed = rate * present + (1 - rate) * null
    pairs = []
    for word in product((0, 1), repeat=rounds):
        p = math.prod((mixed if x else 1 - mixed for x in word), start=Fraction(1))
        q = math.prod((null if x else 1 - null for x in word), start=Fraction(1))
        pairs.append((p, q))
    step = sa.PoissonSampled(sa.PureMechanism(epsilon=math.log(3)), rate=float(rate))
    for alpha in (Fraction(1), Fraction(11, 10), Fraction(2)):
        remove = sum(max(p - alpha * q, Fraction(0)) for p, q in pairs)
        add = sum(max(q - alpha * p, Fraction(0)) for p, q in pairs)
        truth = float(max(remove, add))
        found = sa.delta(step, epsilon=math.log(alpha), rounds=rounds)
        # e^epsilon of a rational number is rounded, and so are its logarithm and the rate
        assert_contains(found, truth, rtol=1e-12 if rounds == 1 else 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "rate"),
    [
        (1.0, 0.1),
        pytest.param(2.0, 0.5, marks=pytest.mark.release),
        pytest.param(0.7, 0.01, marks=pytest.mark.release),
        (1.5, 1.0),
    ],
)
def test_gaussian_steps_by_quadrature(sigma: float, rate: float) -> None:
    """Both orders of one step, by SciPy's integrator over the outputs."""

    def densities(y: float) -> tuple[float, float]:
        q = float(norm.pdf(y, 0.0, sigma))
        return rate * float(norm.pdf(y, 1.0, sigma)) + (1.0 - rate) * q, q

    for epsilon in (0.0, 0.2, 1.0):
        alpha = math.exp(epsilon)
        ends = (-14.0 * sigma, 1.0 + 14.0 * sigma)
        middle = list(np.linspace(*ends, 40)[1:-1])
        remove, add = (
            quad(
                lambda y, way=way, alpha=alpha: max(
                    densities(y)[way] - alpha * densities(y)[1 - way], 0.0
                ),
                *ends,
                points=middle,
                limit=400,
                epsabs=1e-13,
            )[0]
            for way in (0, 1)
        )
        found = sa.PoissonSampled(gaussian(sigma), rate=rate).delta(epsilon=epsilon)
        # the integrator's kinks are good to some 1e-9
        assert_overlaps(found, max(remove, add) - 1e-9, max(remove, add) + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "rate", "rounds", "delta"), [(1.0, 0.01, 100, 1e-6), (2.0, 0.001, 5000, 1e-8)]
)
def test_a_peers_bounds(sigma: float, rate: float, rounds: int, delta: float) -> None:
    """dp_accounting's upper and lower distributions lie on both sides."""
    pld = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution", reason="a peer of these rounds"
    )
    upper, lower = (
        pld.from_gaussian_mechanism(
            sigma,
            sampling_prob=rate,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=1e-4,
        )
        .self_compose(rounds)
        .get_epsilon_for_delta(delta)
        for pessimistic in (True, False)
    )
    found = sa.epsilon(sa.PoissonSampled(gaussian(sigma), rate=rate), delta=delta, rounds=rounds)
    assert_overlaps(found, lower, upper)
    assert_narrow(found, 1e-3)


def test_a_table_is_its_mechanism() -> None:
    truth = 1.0 / (1.0 + math.exp(-0.5))
    table = sa.PldRound.from_tables(
        sa.LossTable([-0.5, 0.5], [1.0 - truth, truth]), adjacency=ZERO_OUT
    )
    for rounds in (1, 5):
        found, same = (
            sa.delta(sa.PoissonSampled(one, rate=0.2), epsilon=0.05, rounds=rounds)
            for one in (table, sa.PureMechanism(epsilon=0.5))
        )
        assert_overlaps(found, same.lower, same.upper)


def test_is_the_first_step_of_an_allocation() -> None:
    """s = 1 of t steps released has the ratio of a step at rate 1/t."""
    sampled = sa.PoissonSampled(gaussian(1.0), rate=1.0 / 16)
    first = sa.RandomAllocation(gaussian(1.0), steps=16, released=1)
    for epsilon in (0.01, 0.3):
        assert sampled.delta(epsilon=epsilon) == first.delta(epsilon=epsilon)


def test_some_query_attains_it() -> None:
    one = sa.PoissonSampled(gaussian(1.0), rate=0.05)
    found, bracket = (ask(one, delta=1e-6, rounds=20) for ask in (sa.attained_epsilon, sa.epsilon))
    assert (found.lower, found.upper) == (bracket.lower, bracket.upper)
    assert found.dataset == (1, 0, 0)


def test_always_in_is_the_mechanism_itself() -> None:
    assert_overlaps(
        sa.PoissonSampled(gaussian(1.0), rate=1.0).epsilon(delta=1e-6),
        *(lambda one: (one.lower, one.upper))(
            sa.RandomAllocation(gaussian(1.0), steps=1).epsilon(delta=1e-6)
        ),
    )


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_runs(sampling: str) -> None:
    """One step is the mechanism itself, whatever the sampling; no epochs cost nothing."""
    one = training_run(sampling, noise_multiplier=2.0, steps=1, epochs=3)
    assert_overlaps(
        sa.epsilon(one, delta=1e-6),
        *(lambda found: (found.lower, found.upper))(
            sa.epsilon(sa.RandomAllocation(gaussian(2.0), steps=1), delta=1e-6, rounds=3)
        ),
    )
    nothing = training_run(sampling, noise_multiplier=2.0, steps=7, epochs=0)
    assert sa.epsilon(nothing, delta=1e-6).upper == 0.0


@pytest.mark.parametrize(
    "one",
    [
        sa.PoissonSampled(gaussian(1.5), rate=0.01),
        sa.PoissonSampled(
            sa.PldRound.from_tables(sa.LossTable([-1.0, 1.0], [0.25, 0.75]), adjacency=ZERO_OUT),
            rate=1.0,
        ),
    ],
    ids=repr,
)
def test_states(one: sa.PoissonSampled) -> None:
    accountant = sa.FourierAccountant().compose(one, count=3)
    back = sa.FourierAccountant.from_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert back.rounds == accountant.rounds
    assert one.adjacency is ZERO_OUT


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: sa.PoissonSampled(1.0, rate=0.5), TypeError, "mechanism must be a"),
        (lambda: sa.PoissonSampled(gaussian(1.0), rate=0.0), ValueError, "rate must be"),
        (lambda: sa.PoissonSampled(gaussian(1.0), rate=1.5), ValueError, "rate must be"),
        (lambda: sa.PoissonSampled(gaussian(1.0), rate="a"), TypeError, "rate must be"),
        (lambda: sa.PoissonSampled.from_dict({"kind": "pld"}), ValueError, "round must be"),
        (
            lambda: training_run("nope", noise_multiplier=1.0, steps=3),
            ValueError,
            "sampling must be one of allocation, shuffle, poisson",
        ),
        (lambda: training_run(3, noise_multiplier=1.0, steps=3), TypeError, "sampling must be"),  # type: ignore[arg-type]
    ],
)
def test_refusals(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"^{message}"):
        make()


@pytest.mark.parametrize("step", [sa.PureMechanism(epsilon=0.5), sa.LaplaceMechanism(scale=2.0)])
def test_nothing_is_lost_beyond_the_largest_loss(step: Any) -> None:
    """At exactly eps0, delta is 0 but for the rounding of eps0."""
    for epsilon in (0.5, math.nextafter(0.5, 1.0), math.nextafter(0.5, 0.0), 0.5 + 1e-12):
        found = sa.RandomAllocation(step, steps=1).delta(epsilon=epsilon)
        assert 0.0 <= found.lower <= found.upper <= 1e-13
