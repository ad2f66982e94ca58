"""Events of dp_accounting as protocols with certified brackets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.engine.trade_off import table_of
from shuffle_accountant.interop.dp_accounting.distribution import ShuffleDpEvent, dp_accounting, pld
from shuffle_accountant.losses.base import Effort, EqualCells
from shuffle_accountant.losses.steps.mixed_gaussians import MixturePair
from shuffle_accountant.losses.steps.profiled import ProfiledLoss
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.batches import FixedSizeSampled, PoissonSampled
from shuffle_accountant.rounds.mechanisms import GaussianMechanism, LaplaceMechanism, Mechanism
from shuffle_accountant.rounds.pld import PldRound
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["protocol_of"]

# Width of the cells of own tables, in deviations of the loss, and the tail that they leave out.
_CELL, _EFFORT = 1e-3, Effort(tail=1e-16, resolution=1e-5)
_REFUSED = {
    "NonPrivateDpEvent": "it is not private at all",
    "UnsupportedDpEvent": "it says nothing about what happened",
    "SampledWithReplacementDpEvent": "batches drawn with replacement are not covered",
    "TruncatedSubsampledGaussianDpEvent": "truncated batches break the records' independence",
    "RepeatAndSelectDpEvent": "take shuffle_accountant.selection for the best of several runs",
    "ZCDpEvent": "zero-concentrated privacy alone determines no privacy profile",
}


def protocol_of(event: Any) -> Protocol:
    """The protocol of an event of dp_accounting, or of a whole tree of events.

    Adjacency: zero-out for sums with noise, sampled or not, which is dp_accounting's
    `ADD_OR_REMOVE_ONE` and `REPLACE_SPECIAL` for them; replace-one for randomized response. What
    dp_accounting knows as a privacy loss distribution only, discrete Laplace noise, becomes a
    `PldRound` of its two estimates; mixtures of Gaussian laws become one of own tables.

    Args:
        event: composed and self-composed events, no-ops, Gaussian, Laplace and discrete Laplace
            noise, mixtures of Gaussian laws, Poisson sampling of noise, sampling without
            replacement of Gaussian noise, a tree of one epoch, randomized response, and
            `ShuffleDpEvent`.

    Raises:
        ValueError: an event of another kind, with the reason, or events of different adjacencies.
    """
    event = validate.instance(dp_accounting.DpEvent, event=event)
    name = type(event).__name__
    if isinstance(event, ShuffleDpEvent):
        return Protocol([(event.round, 1)])
    if name == "ComposedDpEvent":
        return sum(map(protocol_of, event.events), Protocol())
    if name == "SelfComposedDpEvent":
        return protocol_of(event.event) * int(event.count)
    if name in _REFUSED:
        raise ValueError(f"event must be one that can be read, got {name}: {_REFUSED[name]}")
    if name not in _READ:
        raise ValueError(f"event must be one that can be read, got {name}, which is not known")
    one = _READ[name](event)
    return Protocol([] if one is None else [(one, 1)])


def _noise(event: Any) -> Round:
    return PoissonSampled(_step(event), rate=1.0)


def _step(event: Any) -> Mechanism:
    """The step of an event of noise; several Gaussian ones of the same records are one."""
    name = type(event).__name__
    if name == "LaplaceDpEvent":
        return LaplaceMechanism(scale=event.noise_multiplier)
    precision = _precision(event)
    if precision is None:
        raise ValueError(
            "event of a sampling must be Laplace noise, or Gaussian noise one or several times, "
            f"got {name}"
        )
    # rounded down: less noise than several events together have
    noise = event.noise_multiplier if name == "GaussianDpEvent" else precision**-0.5 * (1 - 1e-15)
    return GaussianMechanism(noise_multiplier=noise)


def _precision(event: Any) -> float | None:
    """Sum of one over the squared noise multipliers; None if there is other noise."""
    name = type(event).__name__
    if name == "GaussianDpEvent":
        return float(event.noise_multiplier) ** -2.0 if event.noise_multiplier > 0.0 else math.inf
    if name == "SelfComposedDpEvent":
        one = _precision(event.event)
        return None if one is None else one * event.count * (1.0 + 1e-15)
    if name == "ComposedDpEvent":
        each = [_precision(one) for one in event.events]
        known = [one for one in each if one is not None]
        return math.fsum(known) * (1.0 + 1e-15) if known and len(known) == len(each) else None
    return None


def _sampled(event: Any) -> Round | None:
    if _precision(event.event) == 0.0:  # noise added no times
        return None
    return PoissonSampled(_step(event.event), rate=event.sampling_probability)


def _without_replacement(event: Any) -> Round:
    step = _step(event.event)
    if not isinstance(step, GaussianMechanism):
        raise ValueError(f"event drawn without replacement must be Gaussian noise, got {step!r}")
    size, population = event.sample_size, event.source_dataset_size
    return FixedSizeSampled(step, size=size, population=population)


def _tree(event: Any) -> Round | None:
    """A record is in one step of one tree: in as many released nodes as that tree is high."""
    steps = event.step_counts
    counts = [int(one) for one in (steps if isinstance(steps, list | tuple) else [steps])]
    if not counts or min(counts) < 0:
        raise ValueError(f"step_counts of an event must be numbers >= 0, got {steps!r:.80}")
    height = max(counts).bit_length()
    if height == 0:
        return None
    noise = event.noise_multiplier / math.sqrt(height) * (1.0 - 1e-15)
    return PoissonSampled(GaussianMechanism(noise_multiplier=noise), rate=1.0)


def _response(event: Any) -> Round | None:
    """A uniform report with a probability, else the true one."""
    uniform, kinds = float(event.noise_parameter), int(event.num_buckets)
    if not 0.0 < uniform <= 1.0:
        raise ValueError(f"noise_parameter of an event must be in (0, 1], got {uniform!r}")
    if uniform == 1.0 or kinds == 1:
        return None
    eps0 = math.log1p((1.0 - uniform) * kinds / uniform) * (1.0 + 1e-15)
    return ShuffleRound(RandomizedResponse(categories=kinds, eps0=eps0), users=1)


def _discrete_laplace(event: Any) -> Round:
    build = pld.privacy_loss_distribution.from_discrete_laplace_mechanism
    noise, shift = event.noise_parameter, event.sensitivity
    upper, lower = (
        build(noise, sensitivity=shift, pessimistic_estimate=above) for above in (True, False)
    )
    return PldRound(upper, optimistic=lower, adjacency=Adjacency.ZERO_OUT)


def _mixture(event: Any) -> Round | None:
    """A mixture of shifts of one sign, with own tables of its profile."""
    shifts = [abs(float(one)) for one in event.sensitivities]
    if min(event.sensitivities) < 0.0 < max(event.sensitivities):
        raise ValueError(
            f"sensitivities of an event must be of one sign, got {event.sensitivities!r:.80}"
        )
    held = sorted(zip(shifts, event.sampling_probs, strict=True))
    held = [(shift, float(chance)) for shift, chance in held if chance > 0.0]
    if held[-1][0] == 0.0:
        return None
    places, chances = zip(*held, strict=True)
    loss = ProfiledLoss(MixturePair.of(float(event.standard_deviation), places, chances))
    cells = EqualCells(_CELL * loss.deviation)

    sides = (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
    tables = [
        table_of(one.atoms(side, cells, _EFFORT)) for side in sides for one in (loss, loss.reversed)
    ]
    remove, add, optimistic_remove, optimistic_add = tables
    return PldRound.from_tables(
        remove,
        add,
        optimistic_remove=optimistic_remove,
        optimistic_add=optimistic_add,
        adjacency=Adjacency.ZERO_OUT,
    )


_READ: dict[str, Callable[[Any], Round | None]] = {
    "NoOpDpEvent": lambda event: None,
    "GaussianDpEvent": _noise,
    "LaplaceDpEvent": _noise,
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "MixtureOfGaussiansDpEvent": _mixture,
    "PoissonSampledDpEvent": _sampled,
    "SampledWithoutReplacementDpEvent": _without_replacement,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "RandomizedResponseDpEvent": _response,
}
