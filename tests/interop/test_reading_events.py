"""Events of dp_accounting as protocols: its accountant, closed forms, and every class of events."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import shuffle_accountant as sa
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import Bound

dp = pytest.importorskip("dp_accounting", reason="these are events of dp_accounting")
pld = pytest.importorskip("dp_accounting.pld", reason="these are events of dp_accounting")
protocol_of = sa.interop.dp_accounting.protocol_of

GAUSSIAN = dp.GaussianDpEvent(2.0)
SAMPLED = dp.PoissonSampledDpEvent(0.1, GAUSSIAN)
READ: dict[str, Any] = {
    "NoOpDpEvent": dp.NoOpDpEvent(),
    "GaussianDpEvent": GAUSSIAN,
    "LaplaceDpEvent": dp.LaplaceDpEvent(2.0),
    "DiscreteLaplaceDpEvent": dp.dp_event.DiscreteLaplaceDpEvent(
        noise_parameter=0.5, sensitivity=2
    ),
    "MixtureOfGaussiansDpEvent": dp.dp_event.MixtureOfGaussiansDpEvent(
        2.0, [0.0, 1.0, 2.0], [0.5, 0.3, 0.2]
    ),
    "SelfComposedDpEvent": dp.SelfComposedDpEvent(SAMPLED, 50),
    "ComposedDpEvent": dp.ComposedDpEvent([GAUSSIAN, dp.SelfComposedDpEvent(SAMPLED, 20)]),
    "PoissonSampledDpEvent": dp.PoissonSampledDpEvent(0.2, dp.SelfComposedDpEvent(GAUSSIAN, 4)),
    "SampledWithoutReplacementDpEvent": dp.SampledWithoutReplacementDpEvent(100, 10, GAUSSIAN),
    "SingleEpochTreeAggregationDpEvent": dp.dp_event.SingleEpochTreeAggregationDpEvent(4.0, [4, 2]),
    "RandomizedResponseDpEvent": dp.dp_event.RandomizedResponseDpEvent(0.5, 4),
}
REFUSED: dict[str, Any] = {
    "NonPrivateDpEvent": dp.NonPrivateDpEvent(),
    "UnsupportedDpEvent": dp.dp_event.UnsupportedDpEvent(),
    "SampledWithReplacementDpEvent": dp.dp_event.SampledWithReplacementDpEvent(100, 10, GAUSSIAN),
    "RepeatAndSelectDpEvent": dp.dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 10.0, 1.0),
    "ZCDpEvent": dp.dp_event.ZCDpEvent(0.1, 0.0),
    "TruncatedSubsampledGaussianDpEvent": dp.dp_event.TruncatedSubsampledGaussianDpEvent(
        100, 0.1, 20, 1.0
    ),
}
# No class of its own, or known to this package's own bridge.
BASES = {"DpEvent"}


def test_every_class_of_events_is_read_or_refused_with_a_reason() -> None:
    classes = {
        name
        for name, one in vars(dp.dp_event).items()
        if inspect.isclass(one) and issubclass(one, dp.DpEvent)
    }
    assert classes - BASES == set(READ) | set(REFUSED)
    for event in READ.values():
        found = protocol_of(event)
        if len(found):
            answer = sa.epsilon(found, delta=1e-5)
            assert 0.0 <= answer.lower <= answer.upper < math.inf
    for name, event in REFUSED.items():
        with pytest.raises(ValueError, match=f"got {name}: "):
            protocol_of(event)


@pytest.mark.parametrize(
    "name",
    [
        "GaussianDpEvent",
        "LaplaceDpEvent",
        "DiscreteLaplaceDpEvent",
        "SelfComposedDpEvent",
        "ComposedDpEvent",
    ],
)
def test_brackets_meet_dp_accountings_own_answer(name: str) -> None:
    accountant = pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(READ[name])
    theirs = accountant.get_epsilon(1e-5)
    found = sa.epsilon(protocol_of(READ[name]), delta=1e-5)
    # theirs is above the truth by what its grid of 1e-4 costs in each of 50 steps
    assert found.lower <= theirs <= found.upper * 1.01 + 0.01


def test_several_gaussian_events_in_one_sample_are_one() -> None:
    found = protocol_of(READ["PoissonSampledDpEvent"])
    halved = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=1.0), rate=0.2)
    assert sa.epsilon(found, delta=1e-5).upper == pytest.approx(
        halved.epsilon(delta=1e-5).upper, rel=1e-9
    )
    with pytest.raises(ValueError, match="event of a sampling must be"):
        protocol_of(dp.PoissonSampledDpEvent(0.1, dp.NoOpDpEvent()))
    never = dp.PoissonSampledDpEvent(0.1, dp.SelfComposedDpEvent(GAUSSIAN, 0))
    assert len(protocol_of(never)) == 0
    with pytest.raises(ValueError, match="without replacement must be"):
        protocol_of(dp.SampledWithoutReplacementDpEvent(10, 2, dp.LaplaceDpEvent(1.0)))


def test_fixed_size_trees_and_responses() -> None:
    step = sa.GaussianMechanism(noise_multiplier=2.0)
    found = protocol_of(READ["SampledWithoutReplacementDpEvent"])
    assert found == sa.Protocol([(sa.FixedSizeSampled(step, size=10, population=100), 1)])
    # four steps: a leaf, a pair and the root have the record
    tree = sa.epsilon(protocol_of(READ["SingleEpochTreeAggregationDpEvent"]), delta=1e-5)
    three = sa.PoissonSampled(
        sa.GaussianMechanism(noise_multiplier=4.0 / math.sqrt(3.0)), rate=1.0
    ).epsilon(delta=1e-5)
    assert tree.upper == pytest.approx(three.upper, rel=1e-9)
    response = sa.epsilon(protocol_of(READ["RandomizedResponseDpEvent"]), delta=1e-5)
    # true with 0.5 + 0.5 / 4, any other with 0.5 / 4
    assert response.upper == pytest.approx(math.log(5.0), rel=1e-3)
    with pytest.raises(TypeError, match="event must be"):
        protocol_of(3)


@pytest.mark.parametrize("swapped", [False, True])
def test_mixtures_by_a_fine_sum(swapped: bool) -> None:
    """The two densities themselves, on a grid of outputs."""
    y = np.linspace(-30.0, 32.0, 400_001)
    q = stats.norm.pdf(y, 0.0, 2.0)
    p = sum(c * stats.norm.pdf(y, s, 2.0) for s, c in ((0.0, 0.5), (1.0, 0.3), (2.0, 0.2)))
    loss = protocol_of(READ["MixtureOfGaussiansDpEvent"]).in_order[0][0].reduced().loss
    loss = loss.reversed if swapped else loss
    for epsilon in (0.0, 0.2, 0.6):
        first, second = (q, p) if swapped else (p, q)
        wanted = float(np.sum(np.maximum(first - math.exp(epsilon) * second, 0.0))) * (y[1] - y[0])
        low, high = (
            loss.delta(epsilon, side, Effort(tail=1e-14, resolution=1e-5))
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        # what the kink costs the sum over the grid
        assert low - 1e-9 <= wanted <= high + 1e-9
        assert high - low <= 1e-5
