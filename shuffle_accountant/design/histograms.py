"""Candidates that estimate how often each category is held.

By messages of randomizers; or by noisy counts, of dummies that users, a shuffler or a curator add.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

from scipy.special import gammaln

from shuffle_accountant.calibration.calibrate import max_eps0
from shuffle_accountant.calibration.search import Evidence, Target, integers_upwards
from shuffle_accountant.design.candidates import Candidate, Curator, Noise, RandomizedMessages
from shuffle_accountant.design.limit import limit_mu
from shuffle_accountant.design.question import Question
from shuffle_accountant.numerics.roots import find_crossing
from shuffle_accountant.randomizers import count_laws as laws
from shuffle_accountant.randomizers import oracles
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.channel import ChannelRandomizer
from shuffle_accountant.randomizers.estimation import FrequencyEstimator
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse
from shuffle_accountant.randomizers.registry import own_kinds
from shuffle_accountant.rounds.mechanisms import PureMechanism
from shuffle_accountant.rounds.messages import AugmentedShuffle, DummyMessages, NoiseMessages
from shuffle_accountant.rounds.protocol import Protocol

# Largest privacy loss of one noisy count that the search tries, nats.
_LARGEST_STEP = 500.0
# Bits of a hash function's seed, in the length of a message.
_SEED = 63
# Largest number of dummies that the search tries.
_MOST_DUMMIES = 2**40
# Largest privacy loss of one count that the search tries, nats.
_LARGEST_LOSS = 20.0
# Least share of messages that is kept, with geometric dummies on both sides of a mode.
_HALF = 0.5
# Share of delta for counts without any dummies, in all rounds together.
_NEGLIGIBLE = 1e-3
# Standard deviations from 0 to the mode of a discrete Gaussian: what is cut off is below 1e-62.
_FAR = 17.0


@dataclass(frozen=True)
class _Oracle(RandomizedMessages):
    """One message of a frequency oracle per user."""

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        return float(mechanism.frequency_error(users=question.senders, frequency=frequency))

    def largest(self, mechanism: Any, question: Question) -> float:
        users, confidence = question.senders, question.confidence
        found = mechanism.largest_frequency_error(
            users=users, confidence=confidence, categories=question.size
        )
        return float(found)

    def bits(self, mechanism: Any, question: Question) -> float:
        match mechanism:
            case oracles.RAPPOR():
                return float(mechanism.categories)
            case oracles.HadamardResponse():
                return math.log2(mechanism.columns)
            case oracles.LocalHashing():
                return _SEED + math.log2(mechanism.buckets)
            case oracles.SubsetSelection():
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
        k = question.size
        # for more buckets errors fall ever less, towards that of randomized response
        least, most = (1, k - 1) if self.parameter == "size" else (2, 4 * k)
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


class _NoisyCounts(Candidate):
    """A round with dummies, of which an analyst sees the counts."""

    def protocol(self, mechanism: Any, question: Question) -> Protocol:
        return Protocol([(mechanism, question.rounds)])

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        return float(mechanism.frequency_error(users=question.senders, frequency=frequency))

    def largest(self, mechanism: Any, question: Question) -> float:
        users, confidence = question.senders, question.confidence
        return float(mechanism.largest_frequency_error(users=users, confidence=confidence))

    def bits(self, mechanism: Any, question: Question) -> float:
        return self.messages(mechanism, question) * math.log2(question.size)

    def messages(self, mechanism: Any, question: Question) -> float:
        return float(mechanism.messages_per_user(users=question.senders))


@dataclass(frozen=True)
class _Dummies(_NoisyCounts):
    """True values among dummies, whose number is the free parameter."""

    name: str
    place: str
    law: Callable[[int], laws.CountLaw]
    variance_of_one: float
    keep: float | None = None

    def calibrated(self, question: Question) -> tuple[DummyMessages, Evidence]:
        honest = self._honest(question)

        def made(amount: int) -> DummyMessages:
            return self._round(self.law(amount), question.size, honest)

        # a category's noise of about this variance; who drops messages needs less for what is left
        guess = 2.0 / question.mu**2 * (self.keep or 1.0) ** 2 / self.variance_of_one
        target = Target(question.target_epsilon, question.delta, question.tolerance)
        amount, evidence = target.search(
            integers_upwards(_MOST_DUMMIES),
            lambda amount: self.protocol(made(amount), question),
            min(max(guess, 1.0), _MOST_DUMMIES),
            0.5,
            f"{self.name} with the most noise that is looked at",
        )
        return made(amount), evidence

    def _honest(self, question: Question) -> float:
        """Share of the senders who draw their dummies and tell nobody; of a shuffler's, all."""
        if self.keep is not None:
            return 1.0
        if question.participation is not None:
            raise ValueError(
                "participation must be None for dummies of users, of whom it is not known how many "
                f"draw theirs, got {question.participation:g}"
            )
        exact = Fraction(question.senders - question.colluding, question.senders)
        share = float(exact)
        return share if Fraction(share) <= exact else math.nextafter(share, 0.0)

    def _round(self, law: laws.CountLaw, categories: int, honest: float) -> DummyMessages:
        if self.keep is None:
            return NoiseMessages(categories=categories, dummies=law, honest=honest)
        return AugmentedShuffle(categories=categories, keep=self.keep, dummies=law)

    def changed(self, mechanism: Any, factor: float, question: Question) -> DummyMessages:
        amount = mechanism.dummies.variance / self.variance_of_one / factor**2
        honest = getattr(mechanism, "honest", 1.0)
        return self._round(self.law(max(round(amount), 1)), mechanism.categories, honest)


@dataclass(frozen=True)
class _Geometric(_NoisyCounts, Noise):
    """Geometric dummies of the augmented shuffle (Murakami et al. 2025).

    A count's loss is ``a`` or ``-a``, whatever it is: with beta the share that is kept,
    ``1 - beta + beta left = e^-a`` up to the mode and ``1 - beta + beta/right = e^a`` above it. If
    the mode is 0, ``1 - beta = e^-a`` stands in for the left side: purely private, next to no
    dummies, and few messages kept. Else no dummies at all, whose loss is ``log(1 - beta)``, are so
    rare that delta does not notice, and half of the messages are kept, or more where a is large.
    """

    first: ClassVar[float] = math.sqrt(2.0)
    # the loss has few values: over many rounds, not every bracket is narrower than half of this
    decided_by: ClassVar[float] = 1e-2

    name: str
    one_sided: bool
    place: str = "shuffle"

    def with_noise(self, noise: float, question: Question) -> AugmentedShuffle:
        rarest = math.log(_NEGLIGIBLE * question.delta) - math.log(question.rounds)
        return self._round(1.0 / noise, rarest, question.size)

    def _round(self, loss: float, rarest: float, categories: int) -> AugmentedShuffle:
        loss = min(loss, _LARGEST_LOSS)
        fall = -math.expm1(-loss)
        keep = fall if self.one_sided else max(_HALF, math.sqrt(fall))
        right = keep / (math.expm1(loss) + keep)
        left = right if self.one_sided else 1.0 - fall / keep
        mode = 0 if self.one_sided else math.ceil(rarest / math.log(left))
        return AugmentedShuffle(
            categories=categories,
            keep=keep,
            dummies=laws.AsymmetricGeometric(mode=mode, left=left, right=right),
        )

    def changed(self, mechanism: Any, factor: float, question: Question) -> AugmentedShuffle:
        law = mechanism.dummies
        loss = math.log1p(mechanism.keep * (1.0 / law.right - 1.0))
        return self._round(loss * factor, law.mode * math.log(law.left), mechanism.categories)


@dataclass(frozen=True)
class _DiscreteGaussian(_NoisyCounts, Noise):
    """A trusted curator publishes counts with whole numbers of the discrete Gaussian law added.

    That is the round of a shuffler who drops nothing and adds as many dummies, around a mode so
    large that none at all is next to impossible; the estimator takes their mean off again.
    """

    first: ClassVar[float] = math.sqrt(2.0)

    name: str = "discrete Gaussian noise"
    place: str = "central"

    def with_noise(self, noise: float, question: Question) -> AugmentedShuffle:
        law = laws.DiscreteGaussian(mode=math.ceil(_FAR * noise), sigma=noise)
        return AugmentedShuffle(categories=question.size, keep=1.0, dummies=law)

    def changed(self, mechanism: Any, factor: float, question: Question) -> AugmentedShuffle:
        return self.with_noise(mechanism.dummies.sigma / factor, question)

    def messages(self, mechanism: Any, question: Question) -> float:
        return 1.0  # the value alone


def _poisson(amount: int) -> laws.Poisson:
    return laws.Poisson(mean=float(amount))


def _fair_coins(amount: int) -> laws.Binomial:
    return laws.Binomial(trials=amount, probability=0.5)


def _rare_successes(amount: int) -> laws.NegativeBinomial:
    return laws.NegativeBinomial(size=0.01 * amount, probability=0.1)


@dataclass(frozen=True)
class _Curator(Curator):
    """A trusted curator adds noise to every count; a replaced value changes two of them by one.

    For normal noise that is one move by sqrt(2). The noise is that of real numbers: a curator who
    rounds the noisy counts loses no privacy.
    """

    moved: ClassVar[int] = 2

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        # sqrt(2) is the deviation of Laplace noise of scale 1, and the distance of both counts
        return math.sqrt(2.0) * self.noise(mechanism) / question.senders

    def quantile(self, mechanism: Any, question: Question, share: float) -> float:
        if not self.laplace:
            return super().quantile(mechanism, question, share)
        return -math.log(share) * self.noise(mechanism) / question.senders

    def bits(self, mechanism: Any, question: Question) -> float:
        return math.log2(question.size)


@dataclass(frozen=True)
class _GeometricCurator(_Curator):
    """The discrete Laplace distribution, ``P(c) ∝ e^-|c|/b``: noise on whole numbers.

    A count moved by one has a likelihood ratio of ``e^(1/b)`` or its inverse, and nothing between:
    that of any purely private step, whose pair of distributions it is.
    """

    def with_noise(self, noise: float, question: Question) -> PureMechanism:
        return PureMechanism(epsilon=min(1.0 / noise, _LARGEST_STEP))

    def noise(self, mechanism: Any) -> float:
        return 1.0 / float(mechanism.epsilon)

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        ratio = math.exp(-mechanism.epsilon)
        return math.sqrt(2.0 * ratio) / (1.0 - ratio) / question.senders

    def quantile(self, mechanism: Any, question: Question, share: float) -> float:
        # noise beyond c has the probability 2 ratio^(c + 1)/(1 + ratio)
        epsilon = float(mechanism.epsilon)
        beyond = -math.log(0.5 * share * (1.0 + math.exp(-epsilon))) / epsilon
        return max(math.ceil(beyond) - 1.0, 0.0) / question.senders


def frequency_candidates() -> tuple[Candidate, ...]:
    """All candidates of a design of frequencies."""
    every: list[Candidate] = []
    for place in ("shuffle", "local"):
        every += [
            _Oracle("k-ary randomized response", place, RandomizedResponse),
            _Oracle("RAPPOR", place, oracles.RAPPOR),
            _Oracle("Hadamard response", place, oracles.HadamardResponse),
            _SizedOracle("subset selection", place, oracles.SubsetSelection, "size"),
            _SizedOracle("local hashing", place, oracles.LocalHashing, "buckets"),
        ]
        own = own_kinds("categories", "eps0")
        every += [_Oracle(one.kind, place, one) for one in own if hasattr(one, "frequency_error")]
    return (
        *every,
        _Bits("a randomized bit per category", "shuffle", RandomizedResponse),
        _Dummies("Poisson noise messages", "shuffle", _poisson, 1.0),
        _Dummies("binomial noise messages", "shuffle", _fair_coins, 0.25),
        _Dummies("negative binomial noise messages", "shuffle", _rare_successes, 0.9),
        _Dummies("augmented shuffle, half kept", "shuffle", _poisson, 1.0, _HALF),
        _Geometric("augmented shuffle, asymmetric geometric", one_sided=False),
        _Geometric("augmented shuffle, one-sided geometric", one_sided=True),
        _Curator("Gaussian noise", laplace=False),
        _Curator("Laplace noise", laplace=True),
        _DiscreteGaussian(),
        _GeometricCurator("discrete Laplace noise", laplace=True),
    )
