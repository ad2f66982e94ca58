"""Candidates that estimate the mean of vectors in the unit ball."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from shuffle_accountant.design.candidates import (
    Calibrated,
    Candidate,
    Question,
    RandomizedMessages,
    smallest_multiplier,
)
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.gaussian_vectors import GaussianVectors
from shuffle_accountant.randomizers.vectors import (
    DuchiL2,
    DuchiLInf,
    PrivUnit,
    SampledCoordinates,
)
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["mean_candidates"]

# Bits of a number in a message of real numbers.
_FLOAT = 32
# Null clones take seconds with a narrow bracket.
_NULL_CLONES = 0.05


@dataclass(frozen=True)
class _Vectors(RandomizedMessages):
    """One message of a vector randomizer per user."""

    name: str
    place: str
    kind: Callable[..., LocalRandomizer]

    def make(self, question: Question) -> Callable[..., LocalRandomizer]:
        return partial(self.kind, dimension=question.size)

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        return math.sqrt(mechanism.variance() / question.users)

    def coordinate_error(self, mechanism: Any, question: Question) -> float:
        return self.error(mechanism, question, 0.0) / math.sqrt(question.size)

    def bits(self, mechanism: Any, question: Question) -> float:
        match mechanism:
            case DuchiLInf():
                return float(question.size)
            case SampledCoordinates():
                return mechanism.coordinates * (1.0 + math.log2(question.size))
        return float(_FLOAT * question.size)


class _Gaussian(Candidate):
    """Normal noise in every coordinate, of which the deviation is free."""

    def changed(self, mechanism: Any, factor: float) -> Any:
        """Less noise."""
        multiplier = mechanism.noise_multiplier / factor
        if isinstance(mechanism, GaussianVectors):
            return GaussianVectors(noise_multiplier=multiplier)
        return replace(mechanism, noise_multiplier=multiplier)

    def coordinate_error(self, mechanism: Any, question: Question) -> float:
        """All coordinates are alike."""
        return self.error(mechanism, question, 0.0) / math.sqrt(question.size)

    def bits(self, mechanism: Any, question: Question) -> float:
        """Real numbers."""
        return float(_FLOAT * question.size)


@dataclass(frozen=True)
class _GaussianMessages(_Gaussian):
    """Each user adds the noise; adjacency: the vector is replaced by 0, or the reverse."""

    name: str = "Gaussian messages (zero-out)"
    place: str = "shuffle"

    def calibrated(self, question: Question) -> Calibrated:
        def protocol(multiplier: float) -> Protocol:
            return self.protocol(GaussianVectors(noise_multiplier=multiplier), question)

        # about as much as hides one of many; more where few users hide one another
        guess = max(1.0 / (question.mu * math.sqrt(question.users)), 0.5)
        multiplier, evidence = smallest_multiplier(
            question, protocol, guess, max(question.tolerance, _NULL_CLONES)
        )
        return Calibrated(GaussianVectors(noise_multiplier=multiplier), evidence)

    def protocol(self, mechanism: Any, question: Question) -> Protocol:
        return Protocol([(ShuffleRound(mechanism, users=question.users), question.rounds)])

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        multiplier: float = mechanism.noise_multiplier
        return multiplier * math.sqrt(question.size / question.users)


@dataclass(frozen=True)
class _Curator(_Gaussian):
    """A trusted curator adds the noise to the sum, which a replaced vector moves by 2 at most."""

    name: str = "Gaussian noise"
    place: str = "central"

    def calibrated(self, question: Question) -> Calibrated:
        def protocol(multiplier: float) -> Protocol:
            return self.protocol(GaussianMechanism(noise_multiplier=multiplier), question)

        multiplier, evidence = smallest_multiplier(
            question, protocol, 1.0 / question.mu, question.tolerance
        )
        return Calibrated(GaussianMechanism(noise_multiplier=multiplier), evidence)

    def protocol(self, mechanism: Any, question: Question) -> Protocol:
        return Protocol([(RandomAllocation(mechanism, steps=1), question.rounds)])

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        deviation: float = 2.0 * mechanism.noise_multiplier
        return deviation * math.sqrt(question.size) / question.users


def mean_candidates(dimension: int, *, gaussian_messages: bool) -> tuple[Candidate, ...]:
    """Everything that a design of means looks at.

    Args:
        dimension: length of the vectors; on a line there is no sphere.
        gaussian_messages: whether to look at these too.
    """
    kinds: list[tuple[str, Callable[..., LocalRandomizer]]] = [
        ("PrivUnit", PrivUnit),
        ("Duchi et al., sphere", DuchiL2),
        ("Duchi et al., cube", DuchiLInf),
        ("sampled coordinates", SampledCoordinates),
    ]
    kinds = [one for one in kinds if dimension >= one[1].least_dimension]  # type: ignore[attr-defined]
    return (
        *(_Vectors(name, place, kind) for place in ("shuffle", "local") for name, kind in kinds),
        *((_GaussianMessages(),) if gaussian_messages else ()),
        _Curator(),
    )
