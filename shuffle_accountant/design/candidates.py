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
from shuffle_accountant.calibration.search import (
    Evidence,
    decimals,
    integers_upwards,
    ratios_downwards,
)
from shuffle_accountant.calibration.target import Target
from shuffle_accountant.design.answers import DesignRow
from shuffle_accountant.design.question import Question
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.rounds.base import certified_at
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
# Largest number of dummies that the search tries.
MOST_DUMMIES = 2**40


@dataclass(frozen=True)
class Calibrated:
    """A mechanism that meets the target, with the evidence."""

    mechanism: Any
    evidence: Evidence


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
    def calibrated(self, question: Question) -> Calibrated:
        """The mechanism with the least noise that meets the target."""

    @abstractmethod
    def protocol(self, mechanism: Any, question: Question) -> Protocol:
        """Protocol of all rounds with the mechanism."""

    @abstractmethod
    def changed(self, mechanism: Any, factor: float) -> Any:
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
        found = self.calibrated(question)
        mechanism = found.mechanism
        error = self.error(mechanism, question, 0.0)
        if not error < _USELESS:
            raise ValueError(f"the error is {error:.3g} at the target, without data 1 at most")
        return DesignRow(
            name=self.name,
            place=self.place,
            mechanism=mechanism,
            eps0=getattr(mechanism, "eps0", None),
            rmse=error,
            rmse_average=self.error(mechanism, question, self._average(question)),
            largest_error=self.largest(mechanism, question),
            bits=self.bits(mechanism, question),
            messages=self.messages(mechanism, question),
            evidence=self._told(found.evidence),
            candidate=self,
            question=question,
        )

    def curve(
        self, mechanism: Any, question: Question, factors: Sequence[float]
    ) -> Iterator[tuple[float, float, float]]:
        """Points (upper end of epsilon, error, largest error) around a mechanism."""
        for factor in factors:
            try:
                other = self.changed(mechanism, validate.positive(factors=factor))
                protocol = self.protocol(other, question)
                bracket, _ = certified_at(protocol.distinct, 1e-2, delta=question.delta)
            except ValueError:  # beyond what the mechanism can be made for
                continue
            if 0.0 < bracket.upper < math.inf:
                error = self.error(other, question, 0.0)
                yield bracket.upper, error, self.largest(other, question)

    def _told(self, evidence: Evidence) -> Evidence:
        # brackets by the adjacency they are of here
        def told(bracket: Bracket) -> Bracket:
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
            bracket=told(evidence.bracket),
            next_bracket=None if further is None else told(further),
        )

    def _average(self, question: Question) -> float:
        # squared errors are linear in the frequency, whose mean over categories is 1/k
        return 1.0 / question.size if question.of == "categories" else 0.0

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


class RandomizedMessages(Candidate):
    """Messages of a local randomizer whose eps0 is free.

    Attributes:
        users: how many hide one another; None for all of them. Without a shuffler it is one.
    """

    per_user: ClassVar[int] = 1
    """Number of a user's independent messages that a replaced value changes."""

    @abstractmethod
    def make(self, question: Question) -> Callable[..., LocalRandomizer]:
        """Constructor of the randomizer, called with ``eps0=``."""

    def calibrated(self, question: Question) -> Calibrated:
        """The randomizer with the largest eps0 that meets the target."""
        make = self.make(question)
        eps0 = max_eps0(
            **self._crowd(question),
            rounds=question.rounds * self.per_user,
            target_epsilon=question.target_epsilon,
            delta=question.delta,
            randomizer=make,
            tolerance=question.tolerance,
        )
        return Calibrated(make(eps0=float(eps0)), eps0.evidence)

    def _crowd(self, question: Question) -> dict[str, Any]:
        """Arguments of calibrations about the users of a round; one user without a shuffler."""
        if self.place != "shuffle":
            return {"users": 1}
        names = ("users", "min_users", "participation", "colluding")
        return {name: getattr(question, name) for name in names}

    def protocol(self, mechanism: Any, question: Question) -> Protocol:
        """Shuffled rounds, or rounds of one user each without a shuffler."""
        if self.place == "shuffle":
            one = ShuffleRound(mechanism, users=question.attendance, colluding=question.colluding)
        else:
            one = ShuffleRound(mechanism, users=1)
        return Protocol([(one, question.rounds * self.per_user)])

    def changed(self, mechanism: Any, factor: float) -> Any:
        """With another eps0: epsilon grows like ``e^(eps0/2)`` with a shuffler, else like eps0."""
        state = mechanism.to_dict()
        eps0 = mechanism.eps0
        shuffled = self.place == "shuffle" and eps0 > 2.0
        new = eps0 + 2.0 * math.log(factor) if shuffled else eps0 * factor
        fields = {name: value for name, value in state.items() if name != "kind"}
        return type(mechanism).from_fields(fields | {"eps0": new})


class Noise(Candidate):
    """A mechanism whose free parameter is its amount of noise: dummies, or a curator's.

    The amount is a whole number, and more of it is more private.
    """

    @abstractmethod
    def with_amount(self, amount: int, question: Question) -> Any:
        """The mechanism with this amount of noise."""

    @abstractmethod
    def amount_of(self, variance: float) -> float:
        """The amount with which a category's noise has about this variance."""

    def calibrated(self, question: Question) -> Calibrated:
        """The mechanism with the smallest amount of noise that meets the target."""
        target = Target(question.target_epsilon, question.delta, question.tolerance)
        guess = self.amount_of(2.0 / question.mu**2)
        amount, evidence = target.search(
            integers_upwards(MOST_DUMMIES),
            lambda value: self.protocol(self.with_amount(value, question), question),
            min(max(guess, 1.0), MOST_DUMMIES),
            0.5,
            f"{self.name} with the most noise that is looked at",
        )
        return Calibrated(self.with_amount(amount, question), evidence)


def smallest_multiplier(
    question: Question,
    protocol: Callable[[float], Protocol],
    guess: float,
    *,
    ratio: float | None = None,
    tolerance: float | None = None,
    slope: float = 1.0,
) -> tuple[float, Evidence]:
    """The smallest noise multiplier that meets the target.

    Args:
        ratio: of neighbouring multipliers; their inverses have six digits if it is None.
        slope: slope of log-epsilon over the logarithm of the multiplier, roughly, up to its sign.
    """
    tolerance = question.tolerance if tolerance is None else max(tolerance, question.tolerance)
    target = Target(question.target_epsilon, question.delta, tolerance)
    # the ladder goes down; the precision 1/sigma falls where privacy rises
    finest, coarsest = 1e6, 1e-9
    precision, evidence = target.search(
        decimals(finest, coarsest) if ratio is None else ratios_downwards(finest, coarsest, ratio),
        lambda value: protocol(1.0 / value),
        min(max(1.0 / guess, coarsest), finest),
        slope,
        "the most noise that is looked at",
    )
    further = evidence.next_value
    if further is not None:
        evidence = replace(evidence, next_value=1.0 / further)
    return 1.0 / precision, evidence
