"""Candidates of a design: mechanisms with one free parameter, and their errors.

A candidate makes its mechanism from the number, says what users go through with it, and how large
the error is. Calibrations find the number; everything is private by a certified upper end.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from scipy.special import ndtri

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.calibration.calibrate import max_eps0
from shuffle_accountant.calibration.search import Evidence, Target, decimals, ratios_downwards
from shuffle_accountant.design.answers import DesignRow
from shuffle_accountant.design.question import Question
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.base import certified_at
from shuffle_accountant.rounds.mechanisms import GaussianMechanism, LaplaceMechanism
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

# Root mean squared error from which on a candidate is refused: that of ignoring the data.
_USELESS = 1.0
# Assumptions of candidates without a shuffler, by place.
_ELSEWHERE = {
    "central": (
        "The curator is trusted with all values, adds the noise stated, with fresh coins, and "
        "releases nothing else (central differential privacy).",
    ),
    "local": (
        "Each message is made on its user's device by the randomizer stated, with fresh coins that "
        "nobody else learns (local differential privacy).",
    ),
}
# Range of the inverses of the scale of noise that the search tries.
_FINEST, _COARSEST = 1e6, 1e-9


class Candidate(ABC):
    """A mechanism with one free parameter; implementations are frozen and can be pickled.

    Attributes:
        name: in words.
        place: "shuffle", "local" or "central".
        adjacency: what it hides. A curator's noise is that of a step by which a record that is
            zeroed out moves a sum as far as one that is replaced does here.
    """

    name: str
    place: str
    adjacency: ClassVar[Adjacency] = Adjacency.REPLACE_ONE

    @abstractmethod
    def calibrated(self, question: Question) -> tuple[Any, Evidence]:
        """The mechanism with the least noise that meets the target, with the evidence."""

    @abstractmethod
    def protocol(self, mechanism: Any, question: Question) -> Protocol:
        """Protocol of all rounds with the mechanism."""

    @abstractmethod
    def changed(self, mechanism: Any, factor: float, question: Question) -> Any:
        """The mechanism with about ``factor`` times the epsilon."""

    @abstractmethod
    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        """Root mean squared error at a frequency."""

    @abstractmethod
    def bits(self, mechanism: Any, question: Question) -> float:
        """Bits that a user sends."""

    def messages(self, mechanism: Any, question: Question) -> float:
        """Messages per user."""
        return 1.0

    def coordinate_error(self, mechanism: Any, question: Question) -> float:
        """Root mean squared error of one category or coordinate."""
        return self.error(mechanism, question, 0.0)

    def quantile(self, mechanism: Any, question: Question, share: float) -> float:
        """Bound that the error of one category or coordinate exceeds with probability ``share``.

        That of normal noise; candidates with noise of another distribution have their own.
        """
        return float(-ndtri(0.5 * share)) * self.coordinate_error(mechanism, question)

    def row(self, question: Question) -> DesignRow:
        """The calibrated mechanism with its errors."""
        mechanism, evidence = self.calibrated(question)
        error = self.error(mechanism, question, 0.0)
        if not error < _USELESS:
            raise ValueError(f"the error is {error:.3g} at the target, without data 1 at most")
        return DesignRow(
            name=self.name,
            place=self.place,
            mechanism=mechanism,
            eps0=getattr(mechanism, "eps0", None),
            rmse=error,
            # squared errors are linear in the frequency, whose mean over categories is 1/k
            rmse_average=self.error(
                mechanism, question, 1.0 / question.size if question.of == "categories" else 0.0
            ),
            largest_error=self.largest(mechanism, question),
            bits=self.bits(mechanism, question),
            messages=self.messages(mechanism, question),
            evidence=self._of_rows(evidence),
            candidate=self,
            question=question,
        )

    def curve(
        self, mechanism: Any, question: Question, factors: Sequence[float]
    ) -> Iterator[tuple[float, float, float]]:
        """Points (upper end of epsilon, error, largest error) around a mechanism."""
        for factor in factors:
            try:
                other = self.changed(mechanism, validate.positive(factors=factor), question)
                protocol = self.protocol(other, question)
                bracket, _ = certified_at(protocol.distinct, 1e-2, delta=question.delta)
            except ValueError:  # beyond what the mechanism can be made for
                continue
            if 0.0 < bracket.upper < math.inf:
                error = self.error(other, question, 0.0)
                yield bracket.upper, error, self.largest(other, question)

    def _of_rows(self, evidence: Evidence) -> Evidence:
        """The evidence with brackets by the adjacency that they are of here."""

        def stated(bracket: Bracket) -> Bracket:
            return Bracket(
                lower=bracket.lower,
                upper=bracket.upper,
                ledger=bracket.ledger,
                reduction=bracket.reduction,
                adjacency=self.adjacency,
                conditions=partial(_conditions, self.place, bracket),
            )

        further = evidence.next_bracket
        return replace(
            evidence,
            bracket=stated(evidence.bracket),
            next_bracket=None if further is None else stated(further),
        )

    def largest(self, mechanism: Any, question: Question) -> float:
        """Bound on the errors of all categories or coordinates at once, at 95 % confidence.

        Here for errors whose distribution does not depend on the data: each of k of them is beyond
        with a k-th of the probability at most. Other candidates have bounds for any data.
        """
        failure = 1.0 - question.confidence
        return self.quantile(mechanism, question, failure / question.size)


def _conditions(place: str, bracket: Bracket) -> tuple[str, ...]:
    """Assumptions of a design's row; its place may be a curator, or no shuffler at all."""
    found = _ELSEWHERE.get(place)
    return bracket.conditions if found is None else found


@dataclass(frozen=True)
class RandomizedMessages(Candidate):
    """Messages of a local randomizer whose eps0 is free; without a shuffler, of one user alone."""

    name: str
    place: str
    kind: Callable[..., LocalRandomizer]

    per_user: ClassVar[int] = 1
    """Number of a user's independent messages that a replaced value changes."""

    def make(self, question: Question) -> Callable[..., LocalRandomizer]:
        """Constructor of the randomizer, called with ``eps0=``."""
        return partial(self.kind, **{question.of: question.size})

    def calibrated(self, question: Question) -> tuple[LocalRandomizer, Evidence]:
        """The randomizer with the largest eps0 that meets the target."""
        make = self.make(question)
        names = ("users", "min_users", "participation", "colluding")
        crowd = {name: getattr(question, name) for name in names}
        eps0 = max_eps0(
            **(crowd if self.place == "shuffle" else {"users": 1}),
            rounds=question.rounds * self.per_user,
            target_epsilon=question.target_epsilon,
            delta=question.delta,
            randomizer=make,
            tolerance=question.tolerance,
        )
        return make(eps0=float(eps0)), eps0.evidence

    def protocol(self, mechanism: Any, question: Question) -> Protocol:
        """Shuffled rounds, or rounds of one user each without a shuffler."""
        shuffled = self.place == "shuffle"
        one = question.shuffled(mechanism) if shuffled else ShuffleRound(mechanism, users=1)
        return Protocol([(one, question.rounds * self.per_user)])

    def changed(self, mechanism: Any, factor: float, question: Question) -> Any:
        """With another eps0: epsilon grows like ``e^(eps0/2)`` with a shuffler, else like eps0."""
        eps0 = mechanism.eps0
        shuffled = self.place == "shuffle" and eps0 > 2.0
        fields = mechanism.to_dict() | {
            "eps0": eps0 + 2.0 * math.log(factor) if shuffled else eps0 * factor
        }
        del fields["kind"]
        return type(mechanism).from_fields(fields)


class Noise(Candidate):
    """A mechanism whose free parameter is the scale of its noise: the more, the more private.

    Attributes:
        first: the scale that the search starts from, times the Gaussian limit's mu.
        decided_by: relative width of the brackets that decide, at least.
        ratio: of neighbouring scales; their inverses have six digits if it is None.
        slope: slope of log-epsilon over the logarithm of the scale, roughly, up to its sign.
    """

    first: ClassVar[float] = 1.0
    decided_by: ClassVar[float] = 0.0
    ratio: ClassVar[float | None] = None
    slope: ClassVar[float] = 1.0

    @abstractmethod
    def with_noise(self, noise: float, question: Question) -> Any:
        """The mechanism with noise of this scale."""

    def guess(self, question: Question) -> float:
        """Scale that the search starts from."""
        return self.first / question.mu

    def calibrated(self, question: Question) -> tuple[Any, Evidence]:
        """The mechanism with the smallest scale of noise that meets the target."""
        tolerance = max(self.decided_by, question.tolerance)
        # the ladder goes down; the precision 1/scale falls where privacy rises
        precision, evidence = Target(question.target_epsilon, question.delta, tolerance).search(
            decimals(_FINEST, _COARSEST)
            if self.ratio is None
            else ratios_downwards(_FINEST, _COARSEST, self.ratio),
            lambda value: self.protocol(self.with_noise(1.0 / value, question), question),
            min(max(1.0 / self.guess(question), _COARSEST), _FINEST),
            self.slope,
            "the most noise that is looked at",
        )
        further = evidence.next_value
        if further is not None:
            evidence = replace(evidence, next_value=1.0 / further)
        return self.with_noise(1.0 / precision, question), evidence


@dataclass(frozen=True)
class Curator(Noise):
    """A trusted curator who adds normal or Laplace noise to sums."""

    name: str
    laplace: bool
    place: str = "central"

    moved: ClassVar[int] = 1
    """Number of sums that a replaced value moves, each by the sensitivity of Laplace noise."""

    def with_noise(self, noise: float, question: Question) -> Any:
        """The mechanism with noise of this scale, in units of what a replaced value moves."""
        if self.laplace:
            return LaplaceMechanism(scale=noise)
        return GaussianMechanism(noise_multiplier=noise)

    def noise(self, mechanism: Any) -> float:
        """Scale of the mechanism's noise."""
        return float(mechanism.scale if self.laplace else mechanism.noise_multiplier)

    def changed(self, mechanism: Any, factor: float, question: Question) -> Any:
        """The mechanism with the noise divided by ``factor``."""
        return self.with_noise(self.noise(mechanism) / factor, question)

    def protocol(self, mechanism: Any, question: Question) -> Protocol:
        """A step for each sum that a replaced value moves; normal noise takes all at once."""
        one = RandomAllocation(mechanism, steps=1)
        return Protocol([(one, question.rounds * (self.moved if self.laplace else 1))])
