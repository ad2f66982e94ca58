"""Shuffled rounds in Google's dp_accounting (extra "dp-accounting"), and its events as protocols.

`to_privacy_loss_distribution` makes a pessimistic `PrivacyLossDistribution` of composed rounds;
`ShuffleDpEvent` and `ShufflePLDAccountant` let its accountant and its calibration account for them.
The other way, `shuffle_accountant.PldRound` reads a distribution as a round, and `protocol_of` a
tree of events as a protocol with certified brackets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attr

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.engine.composed_law import composed_law
from shuffle_accountant.engine.trade_off import table_of
from shuffle_accountant.facades import explain_calls
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.losses.base import HOCKEY_STICK, Effort, EqualCells, PrivacyLoss, factors
from shuffle_accountant.losses.steps.mixed_gaussians import MixturePair
from shuffle_accountant.losses.steps.profiled import ProfiledLoss
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.batches import FixedSizeSampled, PoissonSampled
from shuffle_accountant.rounds.mechanisms import GaussianMechanism, LaplaceMechanism, Mechanism
from shuffle_accountant.rounds.pld import PldRound
from shuffle_accountant.rounds.protocol import Protocol, Rounds, as_protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = [
    "ShuffleDpEvent",
    "ShufflePLDAccountant",
    "protocol_of",
    "to_privacy_loss_distribution",
]

try:
    import dp_accounting
    from dp_accounting import pld
except ImportError:
    raise ImportError(
        "this bridge needs dp_accounting: pip install '.[dp-accounting]' in a clone"
    ) from None


_RELATION = dp_accounting.NeighboringRelation
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


def to_privacy_loss_distribution(
    rounds: Rounds,
    *,
    value_discretization_interval: float = 1e-4,
    tolerance: float = 1e-3,
) -> PrivacyLossDistribution:
    """A pessimistic distribution of the composed rounds, for dp_accounting to compose further.

    The rounds are composed here, on a grid as fine as ``tolerance`` asks for, with all truncated
    mass and all round-off on the safe side; then the loss is put on multiples of the interval. The
    pmfs have a total of 1, whatever could not be followed being infinity mass: losses above 700 or
    above a million intervals, and tails of 1e-30. So epsilon is finite for delta down to about
    1e-30 in the distribution itself; composing it in dp_accounting truncates tails of 1e-15 and
    transforms without a bound on round-off, so answers there are good for delta above 1e-12 or so.

    Adjacency: that of the rounds. Where one user's value is replaced that is
    `NeighboringRelation.REPLACE_ONE`, where it is replaced by a null record `REPLACE_SPECIAL`;
    compose it with distributions of that relation. Bound: upper. A pair that is not symmetric gives
    two pmfs: "remove" is the order in which P holds the target's value.

    Args:
        rounds: a round, a `Protocol`, or a list of pairs (round, count).
        value_discretization_interval: nats, > 0: the grid of the other distributions.
        tolerance: relative accuracy in epsilon to aim for besides the interval's, > 0.

    Raises:
        ImportError: dp_accounting is not installed.
        ValueError: a round with variant="tail", which has no privacy loss distribution, or an
            interval too small for how far the losses reach.
    """
    interval = validate.positive(value_discretization_interval=value_discretization_interval)
    tolerance = validate.positive(tolerance=tolerance)
    parts = _parts(as_protocol(rounds))

    library = pld.privacy_loss_distribution
    if not parts:
        return library.identity(interval)
    create = library.PrivacyLossDistribution.create_from_rounded_probability
    orders = [parts, tuple((loss.reversed, count) for loss, count in parts)]
    if all(back is loss for (loss, _), (back, _) in zip(*orders, strict=True)):
        del orders[1]
    pmfs = [_pmf(composed_law(order, interval, tolerance)) for order in orders]
    if len(pmfs) == 1:
        return create(*pmfs[0], interval)
    return create(
        *pmfs[0],
        interval,
        rounded_probability_mass_function_add=pmfs[1][0],
        infinity_mass_add=pmfs[1][1],
        symmetric=False,
    )


def _pmf(law: PldGrid) -> tuple[dict[int, float], float]:
    """Masses by grid index, and the infinity mass."""
    indexed = enumerate(law.mass.tolist(), start=law.offset)
    return {index: mass for index, mass in indexed if mass > 0.0} or {0: 0.0}, law.infinite


def _parts(protocol: Protocol) -> tuple[tuple[PrivacyLoss, int], ...]:
    """The losses that are not 0, in an order of their own."""
    parts = []
    for one, count in protocol.in_order:
        for loss, number in factors(one.reduced().loss, alone=False):
            if loss.divergence is not HOCKEY_STICK:
                raise ValueError(
                    "rounds must be read by the hockey-stick divergence to have a privacy loss "
                    f"distribution, got {one!r:.200}"
                )
            if loss.largest > 0.0:
                parts.append((loss, count * number))
    return tuple(parts)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ShuffleDpEvent(dp_accounting.DpEvent):  # type: ignore[misc]
    """One shuffled round.

    Attributes:
        round: what happened. Its adjacency is that one user's value is replaced, or, for
            `REPLACE_SPECIAL` alone, that it is zeroed out. Of the first kind the special record
            must be a value like any other: its user sends a message of the same randomizer.
    """

    round: ShuffleRound

    def __attrs_post_init__(self) -> None:
        """Check the round."""
        validate.instance(ShuffleRound, round=self.round)


class ShufflePLDAccountant(pld.PLDAccountant):  # type: ignore[misc]
    """dp_accounting's accountant of privacy loss distributions, with `ShuffleDpEvent`.

    Shuffled rounds are collected and composed by `to_privacy_loss_distribution` when a question is
    asked, then with all other events by dp_accounting. Under `REPLACE_ONE` a Gaussian event counts
    with twice its sensitivity, because two users' contributions change; Laplace events exist in
    dp_accounting for `REPLACE_SPECIAL` only.

    Args:
        neighboring_relation: `REPLACE_ONE` or `REPLACE_SPECIAL`; under any other, shuffled rounds
            are unsupported events.
        value_discretization_interval: nats, > 0, of all distributions.
    """

    def __init__(
        self,
        neighboring_relation: Any = _RELATION.REPLACE_ONE,
        value_discretization_interval: float = 1e-4,
    ) -> None:
        validate.instance(_RELATION, neighboring_relation=neighboring_relation)
        interval = validate.positive(value_discretization_interval=value_discretization_interval)
        super().__init__(neighboring_relation, interval)
        self._nothing = self._pld = pld.privacy_loss_distribution.identity(interval)
        self._rounds = Protocol()
        self._total: Any = None

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        self._total = None
        if isinstance(event, ShuffleDpEvent):
            wrong, found = None, self.neighboring_relation
            if found not in (_RELATION.REPLACE_ONE, _RELATION.REPLACE_SPECIAL):
                wrong = (
                    "`REPLACE_ONE` or `REPLACE_SPECIAL` for `ShuffleDpEvent`: a shuffled round "
                    "hides what one user says, not that there is one"
                )
            elif found is _RELATION.REPLACE_ONE and event.round.adjacency is Adjacency.ZERO_OUT:
                wrong = f"`REPLACE_SPECIAL` for a round of adjacency {Adjacency.ZERO_OUT.named}"
            if wrong is not None:
                return self.CompositionErrorDetails(
                    invalid_event=event,
                    error_message=f"neighboring_relation must be {wrong}. Found {found}.",
                )
            if do_compose:
                self._rounds += Protocol([(event.round, count)])
            return None
        if isinstance(event, dp_accounting.RandomizedResponseDpEvent) and do_compose and count > 1:
            # the parent class leaves out the count of this event
            before, self._pld = self._pld, self._nothing
            super()._maybe_compose(event, 1, True)
            self._pld = before.compose(self._pld.self_compose(count))
            return None
        return super()._maybe_compose(event, count, do_compose)

    def _composed(self) -> Any:
        """Privacy loss distribution of everything composed so far."""
        if self._total is None:
            total = to_privacy_loss_distribution(
                self._rounds, value_discretization_interval=self._value_discretization_interval
            )
            # composing with nothing would still truncate tails
            self._total = total if self._pld is self._nothing else self._pld.compose(total)
        return self._total

    def get_epsilon(self, target_delta: float) -> float:
        """Upper bound of epsilon (nats) at the delta."""
        if self._contains_non_dp_event:
            return math.inf
        return float(self._composed().get_epsilon_for_delta(target_delta))

    def get_delta(self, target_epsilon: float) -> float:
        """Upper bound of delta at the epsilon (nats)."""
        if self._contains_non_dp_event:
            return 1.0
        return float(self._composed().get_delta_for_epsilon(target_epsilon))


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
    below = {"optimistic_remove": tables[2], "optimistic_add": tables[3]}
    return PldRound.from_tables(*tables[:2], **below, adjacency=Adjacency.ZERO_OUT)


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

explain_calls(__name__)
