"""Candidates that estimate how often each category is held."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from scipy.special import gammaln

from shuffle_accountant.calibration.calibrate import max_eps0
from shuffle_accountant.design.candidates import (
    Calibrated,
    Candidate,
    RandomizedMessages,
    smallest_multiplier,
)
from shuffle_accountant.design.dummies import dummy_candidates, integer_curator
from shuffle_accountant.design.limit import limit_mu
from shuffle_accountant.design.question import Question
from shuffle_accountant.numerics.roots import find_crossing
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.channel import ChannelRandomizer
from shuffle_accountant.randomizers.estimation import FrequencyEstimator
from shuffle_accountant.randomizers.local_hashing import LocalHashing
from shuffle_accountant.randomizers.oracles import RAPPOR, HadamardResponse, SubsetSelection
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse
from shuffle_accountant.randomizers.registry import own_kinds
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    PureMechanism,
)
from shuffle_accountant.rounds.protocol import Protocol

# Largest privacy loss of one noisy count that the search tries, nats.
_LARGEST_STEP = 500.0
# Bits of a hash function's seed, in the length of a message.
_SEED = 63


@dataclass(frozen=True)
class _Oracle(RandomizedMessages):
    """One message of a frequency oracle per user."""

    name: str
    place: str
    kind: Callable[..., LocalRandomizer]

    def make(self, question: Question) -> Callable[..., LocalRandomizer]:
        return partial(self.kind, categories=question.size)

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        error: float = mechanism.frequency_error(users=question.senders, frequency=frequency)
        return error

    def largest(self, mechanism: Any, question: Question) -> float:
        """Bound on all categories' errors at once, for any histogram (see `error_bounds`)."""
        error: float = mechanism.largest_frequency_error(
            users=question.senders,
            confidence=question.confidence,
            categories=question.size,
        )
        return error

    def bits(self, mechanism: Any, question: Question) -> float:
        match mechanism:
            case RAPPOR():
                return float(mechanism.categories)
            case HadamardResponse():
                return math.log2(mechanism.columns)
            case LocalHashing():
                return _SEED + math.log2(mechanism.buckets)
            case SubsetSelection():
                k, d = mechanism.categories, mechanism.size
                sets = float(gammaln(k + 1) - gammaln(d + 1) - gammaln(k - d + 1))
                return sets / math.log(2.0)
            case ChannelRandomizer():
                return math.log2(mechanism.channel.shape[1])
        return math.log2(mechanism.categories)


@dataclass(frozen=True)
class _SizedOracle(_Oracle):
    """An oracle with a whole number besides eps0: the size of subsets, or the range of hashes.

    Its default depends on eps0 and jumps with it, so that epsilon would not be monotone: the number
    is fixed first and eps0 calibrated with it. With a shuffler it is the one whose error is least
    in the Gaussian limit, without one the default at the eps0 of any randomizer.
    """

    parameter: str
    most: Callable[[int], int]

    def make(self, question: Question) -> Callable[..., LocalRandomizer]:
        if self.place == "shuffle":
            sizes = self._sizes(question)
            best = min(sizes, key=lambda size: self._error_in_the_limit(size, question))
        else:
            eps0 = max_eps0(
                users=1,
                rounds=question.rounds,
                target_epsilon=question.target_epsilon,
                delta=question.delta,
                tolerance=0.1,
            )
            best = getattr(self.kind(categories=question.size, eps0=float(eps0)), self.parameter)
        return partial(super().make(question), **{self.parameter: best})

    def _sizes(self, question: Question) -> list[int]:
        """Whole numbers, a quarter apart from one another."""
        least = 1 if self.parameter == "size" else 2
        most = self.most(question.size)
        sizes = {least, most}
        while least < most:
            sizes.add(least)
            least = max(least + 1, round(1.25 * least))
        return sorted(sizes)

    def _error_in_the_limit(self, size: int, question: Question) -> float:
        make = partial(self.kind, categories=question.size, **{self.parameter: size})
        wanted = math.log(question.mu)

        def excess(eps0: float) -> float:
            found: Any = make(eps0=30.0 - eps0)
            return math.log(limit_mu(found, question.honest)) - wanted

        crossing = find_crossing(excess, 30.0 - 1e-4, 22.0, 1.0, 1e-4, -0.5)
        oracle = make(eps0=30.0 - crossing.right)
        assert isinstance(oracle, FrequencyEstimator)
        return oracle.frequency_error(users=question.senders)


@dataclass(frozen=True)
class _Bits(_Oracle):
    """A randomized bit for each category, each category's bits shuffled among themselves.

    A replaced value changes the bits of two categories, which are two independent rounds.
    """

    per_user: ClassVar[int] = 2

    def make(self, question: Question) -> Callable[..., LocalRandomizer]:
        return partial(self.kind, categories=2)

    def bits(self, mechanism: Any, question: Question) -> float:
        return question.size * (1.0 + math.log2(question.size))

    def messages(self, mechanism: Any, question: Question) -> float:
        return float(question.size)


@dataclass(frozen=True)
class _Curator(Candidate):
    """A trusted curator adds noise to every count; a replaced value changes two of them by one.

    The noise is that of real numbers. A curator who rounds the noisy counts loses no privacy.
    """

    name: str
    laplace: bool
    place: str = "central"

    def calibrated(self, question: Question) -> Calibrated:
        multiplier, evidence = smallest_multiplier(
            question,
            lambda value: self.protocol(self._mechanism(value), question),
            1.0 / question.mu,
        )
        return Calibrated(self._mechanism(multiplier), evidence)

    def _mechanism(self, noise: float) -> Any:
        if self.laplace:
            return LaplaceMechanism(scale=noise)
        return GaussianMechanism(noise_multiplier=noise)

    def _noise(self, mechanism: Any) -> float:
        noise: float = mechanism.scale if self.laplace else mechanism.noise_multiplier
        return noise

    def protocol(self, mechanism: Any, question: Question) -> Protocol:
        # for Laplace, two counts moved by 1 each; for Gaussian both at once, by sqrt(2)
        one = RandomAllocation(mechanism, steps=1)
        return Protocol([(one, question.rounds * (2 if self.laplace else 1))])

    def changed(self, mechanism: Any, factor: float) -> Any:
        return self._mechanism(self._noise(mechanism) / factor)

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        # sqrt(2) is the deviation of Laplace noise of scale 1, and the distance of both counts
        return math.sqrt(2.0) * self._noise(mechanism) / question.senders

    def quantile(self, mechanism: Any, question: Question, share: float) -> float:
        if not self.laplace:
            return super().quantile(mechanism, question, share)
        return -math.log(share) * self._noise(mechanism) / question.senders

    def bits(self, mechanism: Any, question: Question) -> float:
        return math.log2(question.size)


@dataclass(frozen=True)
class _GeometricCurator(_Curator):
    """The discrete Laplace distribution, ``P(c) ∝ e^-|c|/b``: noise on whole numbers.

    A count moved by one has a likelihood ratio of ``e^(1/b)`` or its inverse, and nothing between:
    that of any purely private step, whose pair of distributions it is.
    """

    def _mechanism(self, noise: float) -> Any:
        return PureMechanism(epsilon=min(1.0 / noise, _LARGEST_STEP))

    def _noise(self, mechanism: Any) -> float:
        return 1.0 / float(mechanism.epsilon)

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        ratio = math.exp(-mechanism.epsilon)
        return math.sqrt(2.0 * ratio) / (1.0 - ratio) / question.senders

    def quantile(self, mechanism: Any, question: Question, share: float) -> float:
        # noise beyond c has the probability 2 ratio^(c + 1)/(1 + ratio)
        epsilon = float(mechanism.epsilon)
        beyond = -math.log(0.5 * share * (1.0 + math.exp(-epsilon))) / epsilon
        return max(math.ceil(beyond) - 1.0, 0.0) / question.senders


def _smaller(categories: int) -> int:
    return categories - 1


def _some_times_as_many(categories: int) -> int:
    # errors fall ever less beyond, towards that of randomized response
    return 4 * categories


def frequency_candidates() -> tuple[Candidate, ...]:
    """All candidates of a design of frequencies."""
    oracles: list[Candidate] = []
    for place in ("shuffle", "local"):
        oracles += [
            _Oracle("k-ary randomized response", place, RandomizedResponse),
            _Oracle("RAPPOR", place, RAPPOR),
            _Oracle("Hadamard response", place, HadamardResponse),
            _SizedOracle("subset selection", place, SubsetSelection, "size", _smaller),
            _SizedOracle("local hashing", place, LocalHashing, "buckets", _some_times_as_many),
        ]
        own = own_kinds("categories", "eps0")
        oracles += [_Oracle(one.kind, place, one) for one in own if hasattr(one, "frequency_error")]
    return (
        *oracles,
        _Bits("a randomized bit per category", "shuffle", RandomizedResponse),
        *dummy_candidates(),
        _Curator("Gaussian noise", laplace=False),
        _Curator("Laplace noise", laplace=True),
        integer_curator(),
        _GeometricCurator("discrete Laplace noise", laplace=True),
    )
