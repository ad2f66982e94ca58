"""Candidates that publish noisy counts: of dummies that users, a shuffler or a curator add."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from shuffle_accountant.design.candidates import (
    Calibrated,
    Candidate,
    Noise,
    smallest_multiplier,
)
from shuffle_accountant.design.question import Question
from shuffle_accountant.randomizers.count_laws import (
    AsymmetricGeometric,
    Binomial,
    CountLaw,
    DiscreteGaussian,
    NegativeBinomial,
    Poisson,
)
from shuffle_accountant.rounds.messages import AugmentedShuffle, DummyMessages, NoiseMessages
from shuffle_accountant.rounds.protocol import Protocol

# Largest privacy loss of one count that the search tries, nats.
_LARGEST_LOSS = 20.0
# Least share of messages that is kept, with geometric dummies on both sides of a mode.
_HALF = 0.5
# Share of delta for counts without any dummies, in all rounds together.
_NEGLIGIBLE = 1e-3
# Standard deviations from 0 to the mode of a discrete Gaussian: what is cut off is below 1e-62.
_FAR = 17.0


class _NoisyCounts(Candidate):
    """A round with dummies, of which an analyst sees the counts."""

    def protocol(self, mechanism: Any, question: Question) -> Protocol:
        """The round, repeated for the number of rounds in question."""
        return Protocol([(mechanism, question.rounds)])

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        """Root mean squared error of the round's own estimator at a frequency."""
        error: float = mechanism.frequency_error(users=question.senders, frequency=frequency)
        return error

    def largest(self, mechanism: Any, question: Question) -> float:
        """Bound on the largest error of the round's own estimator, for any histogram."""
        error: float = mechanism.largest_frequency_error(
            users=question.senders, confidence=question.confidence
        )
        return error

    def bits(self, mechanism: Any, question: Question) -> float:
        """Bits that a user sends: each message names a category, dummies included."""
        return self.messages(mechanism, question) * math.log2(question.size)

    def messages(self, mechanism: Any, question: Question) -> float:
        """Messages per user, dummies included."""
        messages: float = mechanism.messages_per_user(users=question.senders)
        return messages


@dataclass(frozen=True)
class _Dummies(_NoisyCounts, Noise):
    """True values among dummies, whose number is the free parameter."""

    name: str
    place: str
    law: Callable[[int], CountLaw]
    variance_of_one: float
    keep: float | None = None

    def with_amount(self, amount: int, question: Question) -> DummyMessages:
        return self._round(self.law(amount), question.size, self._honest(question))

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

    def amount_of(self, variance: float) -> float:
        # who drops messages needs less noise for what is left
        return variance * (self.keep or 1.0) ** 2 / self.variance_of_one

    def _round(self, law: CountLaw, categories: int, honest: float) -> DummyMessages:
        if self.keep is None:
            return NoiseMessages(categories=categories, dummies=law, honest=honest)
        return AugmentedShuffle(categories=categories, keep=self.keep, dummies=law)

    def changed(self, mechanism: Any, factor: float) -> Any:
        amount = mechanism.dummies.variance / self.variance_of_one / factor**2
        honest = getattr(mechanism, "honest", 1.0)
        return self._round(self.law(max(round(amount), 1)), mechanism.categories, honest)


class _OneParty(_NoisyCounts):
    """Dummies that one party draws, of a distribution with a scale that is free.

    Attributes:
        decided_by: relative width of the brackets that decide, at least.
    """

    decided_by: ClassVar[float] = 0.0

    @abstractmethod
    def with_noise(self, noise: float, question: Question) -> AugmentedShuffle:
        """The round whose noise, of counts of what is kept, has about this scale."""

    def calibrated(self, question: Question) -> Calibrated:
        noise, evidence = smallest_multiplier(
            question,
            lambda value: self.protocol(self.with_noise(value, question), question),
            math.sqrt(2.0) / question.mu,
            tolerance=self.decided_by,
        )
        return Calibrated(self.with_noise(noise, question), evidence)


@dataclass(frozen=True)
class _Geometric(_OneParty):
    """Geometric dummies of the augmented shuffle (Murakami et al. 2025).

    A count's loss is ``a`` or ``-a``, whatever it is: with beta the share that is kept,
    ``1 - beta + beta left = e^-a`` up to the mode and ``1 - beta + beta/right = e^a`` above it. If
    the mode is 0, ``1 - beta = e^-a`` stands in for the left side: purely private, next to no
    dummies, and few messages kept. Else no dummies at all, whose loss is ``log(1 - beta)``, are so
    rare that delta does not notice, and half of the messages are kept, or more where a is large.
    """

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
            dummies=AsymmetricGeometric(mode=mode, left=left, right=right),
        )

    def changed(self, mechanism: Any, factor: float) -> Any:
        law = mechanism.dummies
        loss = math.log1p(mechanism.keep * (1.0 / law.right - 1.0))
        return self._round(loss * factor, law.mode * math.log(law.left), mechanism.categories)


@dataclass(frozen=True)
class _DiscreteGaussian(_OneParty):
    """A trusted curator publishes counts with whole numbers of the discrete Gaussian law added.

    That is the round of a shuffler who drops nothing and adds as many dummies, around a mode so
    large that none at all is next to impossible; the estimator takes their mean off again.
    """

    name: str = "discrete Gaussian noise"
    place: str = "central"

    def with_noise(self, noise: float, question: Question) -> AugmentedShuffle:
        return self._round(noise, question.size)

    def _round(self, sigma: float, categories: int) -> AugmentedShuffle:
        law = DiscreteGaussian(mode=math.ceil(_FAR * sigma), sigma=sigma)
        return AugmentedShuffle(categories=categories, keep=1.0, dummies=law)

    def changed(self, mechanism: Any, factor: float) -> Any:
        return self._round(mechanism.dummies.sigma / factor, mechanism.categories)

    def bits(self, mechanism: Any, question: Question) -> float:
        """Bits of the one value that a user sends."""
        return math.log2(question.size)

    def messages(self, mechanism: Any, question: Question) -> float:
        """Messages per user: the value alone."""
        return 1.0


def _poisson(amount: int) -> Poisson:
    return Poisson(mean=float(amount))


def _fair_coins(amount: int) -> Binomial:
    return Binomial(trials=amount, probability=0.5)


def _rare_successes(amount: int) -> NegativeBinomial:
    return NegativeBinomial(size=0.01 * amount, probability=0.1)


def dummy_candidates() -> tuple[Candidate, ...]:
    """All candidates with dummy messages."""
    return (
        _Dummies("Poisson noise messages", "shuffle", _poisson, 1.0),
        _Dummies("binomial noise messages", "shuffle", _fair_coins, 0.25),
        _Dummies("negative binomial noise messages", "shuffle", _rare_successes, 0.9),
        _Dummies("augmented shuffle, half kept", "shuffle", _poisson, 1.0, _HALF),
        _Geometric("augmented shuffle, asymmetric geometric", one_sided=False),
        _Geometric("augmented shuffle, one-sided geometric", one_sided=True),
    )


def integer_curator() -> Candidate:
    """The candidate of a curator who adds discrete Gaussian noise to counts."""
    return _DiscreteGaussian()
