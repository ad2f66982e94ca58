"""Base class of the rounds that the accountant composes: those with a dominating pair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket, WeakPrivacyWarning, warn_loose
from shuffle_accountant.engine.classes import Member
from shuffle_accountant.engine.evaluation import MEMORY_LIMIT, evaluate
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.tolerance import (
    warn_if_below_floor,
    warn_if_delta_is_large,
    warn_if_loose,
)
from shuffle_accountant.reductions.base import DominatingPair
from shuffle_accountant.registry import Kinds, Stored

__all__ = ["Round", "conditions_of", "needed", "warn_if_weak"]

# Default relative width of the brackets of a round's answers, as that of an accountant.
_TOLERANCE = 1e-3
# Conditions of every answer, about one round or a composition.
_FIXED = (
    "The rounds, their number and their parameters are fixed beforehand: they depend neither on "
    "the data nor on what earlier rounds released (adaptive composition).",
)


# Modules of the kinds of rounds that are read back, imported when a state names one.
_MODULES = {
    "allocation": "allocation",
    "augmented-shuffle": "augmented",
    "noise-messages": "noise_messages",
    "pld": "pld",
    "poisson-sampling": "poisson",
    "shuffle": "shuffle",
    "shuffled-batches": "batches",
}


class Round(Stored, ABC):
    """One round of a protocol; implementations are immutable, hashable and compared by value.

    A subclass with a ``kind`` is registered when it is made, and read back from states by it. If
    it is a frozen dataclass of numbers and texts, `to_dict` and `from_dict` are there already.

    Attributes:
        kinds: the classes of rounds by their kind; the states of a `ShuffleRound` name none.
    """

    kinds: ClassVar[Kinds[Round]] = Kinds(
        "round",
        {kind: f"{__package__}.{module}" for kind, module in _MODULES.items()},
    )

    def __init_subclass__(cls, **options: Any) -> None:
        """Register the class under its ``kind``, if it has one.

        Raises:
            ValueError: another class has that kind.
        """
        super().__init_subclass__(**options)
        Round.kinds.add(cls)

    @property
    @abstractmethod
    def adjacency(self) -> Adjacency:
        """Adjacency: what neighbouring datasets, between which the round hides, may differ in."""

    @property
    @abstractmethod
    def conditions(self) -> tuple[str, ...]:
        """Assumptions under which the round's answers hold, a sentence each with its theorem.

        They name no numbers, so that rounds of one kind that differ in numbers have the same ones.
        """

    @abstractmethod
    def reduced(self) -> DominatingPair:
        """The dominating pair of this round, with where it comes from."""

    @property
    def member(self) -> Member | None:
        """The round as a member of a family, in which many different rounds cost little; or None.

        None, which is always safe, means that the round is composed as it is.
        """
        return None

    @property
    def floor(self) -> Bracket | None:
        """Bracket of the delta left at every epsilon, for rounds with dummies; else None."""
        return None

    @property
    def people(self) -> int | None:
        """Number of people whose data the round may use; None if it is not known."""
        return None

    @property
    def weaknesses(self) -> tuple[str, ...]:
        """Reasons why the round protects little whatever its answers are, a line each; or ()."""
        return ()

    def delta(self, *, epsilon: float) -> Bracket:
        """Bracket of delta at epsilon for this round alone: a finite sum, exact to round-off.

        Args:
            epsilon: nats, finite, >= 0.

        Raises:
            TypeError: ``epsilon`` is not a number.
            ValueError: ``epsilon`` is negative, NaN or infinite.
        """
        return self._bracket(Query(epsilon=validate.finite_nonnegative(epsilon=epsilon)))

    def epsilon(self, *, delta: float) -> Bracket:
        """Bracket of epsilon (nats) at delta for this round alone.

        Args:
            delta: in (0, 1).

        Raises:
            TypeError: ``delta`` is not a number.
            ValueError: ``delta`` is outside (0, 1) or NaN.
        """
        return self._bracket(Query(delta=validate.open_unit(delta=delta)))

    def _bracket(self, query: Query) -> Bracket:
        """Bracket that answers the query; warns if it is much wider than a finite sum should be."""
        pair = self.reduced()
        answer = evaluate([(pair, 1)], query, _TOLERANCE, MEMORY_LIMIT)
        found = answer.bracket(
            reduction=pair.name,
            adjacency=self.adjacency,
            conditions=partial(conditions_of, (self,)),
        )
        warn_if_loose(found, answer.cause, _TOLERANCE)
        warn_if_below_floor(found, query, [(self.floor, 1)])
        warn_if_weak((self,), query)
        return found


def warn_if_weak(rounds: Iterable[Round], query: Query) -> None:
    """Warn, at the caller's line, of every reason why answers about these rounds promise little."""
    weaknesses: dict[str, None] = {}
    people: int | None = None
    for one in rounds:
        weaknesses.update(dict.fromkeys(one.weaknesses))
        if one.people is not None:
            people = max(people or 0, one.people)
    warn_if_delta_is_large(query.delta, people)
    for reason in weaknesses:
        warn_loose(reason, WeakPrivacyWarning)


def needed(theorem: str, *sentences: str) -> tuple[str, ...]:
    """Assumptions of a theorem, each sentence followed by the theorem's name."""
    return tuple(f"{sentence} ({theorem})." for sentence in sentences)


def conditions_of(rounds: Iterable[Round]) -> tuple[str, ...]:
    """Assumptions of an answer about these rounds together, each sentence once; () for none."""
    every = [sentence for one in rounds for sentence in one.conditions]
    return tuple(dict.fromkeys((*_FIXED, *every))) if every else ()
