"""Rounds of which no user takes part in more than some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.engine.classes import Member
from shuffle_accountant.losses.base import DominatingPair
from shuffle_accountant.randomizers.general import GeneralRandomizer
from shuffle_accountant.rounds.base import Round, needed
from shuffle_accountant.rounds.registry import round_from_dict
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["CappedRound", "capped"]


@dataclass(frozen=True)
class CappedRound(Round):
    """A round that a user takes part in no more often than a protocol counts it.

    Args:
        round: one of the rounds.
    """

    kind: ClassVar[str] = "capped"

    round: Round

    @property
    def adjacency(self) -> Adjacency:
        """That of the round."""
        return self.round.adjacency

    @property
    def conditions(self) -> tuple[str, ...]:
        """Those of the round, and that clients enforce the limit."""
        return self.round.conditions + needed(
            self.reduced().name,
            "No user is eligible for more of the rounds than rounds_per_user says, which clients "
            "enforce; when they take part may depend on all but their own data",
        )

    def reduced(self) -> DominatingPair:
        """The dominating pair of the round."""
        return self.round.reduced()

    @property
    def member(self) -> Member | None:
        """The round as a member of its family."""
        return self.round.member

    @property
    def floor(self) -> Bracket | None:
        """Delta that no epsilon makes smaller."""
        return self.round.floor

    def in_blocks(self, group: int) -> Round | None:
        """The theorem of the round on groups."""
        return self.round.in_blocks(group)

    @property
    def people(self) -> int | None:
        """Number of people whose data the round may use."""
        return self.round.people

    @property
    def weaknesses(self) -> tuple[str, ...]:
        """Those of the round."""
        return self.round.weaknesses

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        return {"kind": self.kind, "round": self.round.to_dict()}

    @classmethod
    def from_dict(cls, state: Any) -> CappedRound:
        """Inverse of `to_dict`."""
        state = validate.fields({"kind", "round"}, kind=cls.kind, round=state)
        return cls(round_from_dict(state["round"]))


def capped(rounds: Sequence[tuple[Round, int]], most: int) -> list[tuple[Round, int]]:
    """The costliest rounds, as many as a user takes part in.

    Equal rounds compose as often as the user takes part, whenever that is. Of different ones each
    must dominate the next, so that the costliest dominate all choices: shuffled rounds with fewer
    users, or with a larger eps0 of any randomizer, cost more.

    Args:
        rounds: distinct rounds with their counts.
        most: number of rounds that a user takes part in at most, >= 1.

    Raises:
        ValueError: rounds whose order is not known.
    """
    kept = [(one.round if isinstance(one, CappedRound) else one, count) for one, count in rounds]
    if len(kept) > 1:
        kept.sort(key=lambda item: _place(item[0]))
        for (before, _), (after, _) in pairwise(kept):
            if not _dominates(before, after):
                raise ValueError(
                    "rounds_per_user needs equal rounds, or shuffled rounds of which each has no "
                    "more users and no smaller eps0 than the next, got "
                    f"{before!r:.80} and {after!r:.80}"
                )
    found, left = list[tuple[Round, int]](), most
    for one, count in kept:
        if left > 0:
            found.append((CappedRound(one), min(count, left)))
            left -= min(count, left)
    return found


def _place(one: Round) -> tuple[float, float]:
    if not isinstance(one, ShuffleRound) or not one.plain:
        raise ValueError(
            f"rounds_per_user needs equal rounds, or shuffled rounds of all users, got {one!r:.120}"
        )
    return (float(one.plain_users), -one.randomizer.eps0)


def _dominates(first: Round, second: Round) -> bool:
    """Whether the first round reveals at least as much as the second, at every alpha."""
    assert isinstance(first, ShuffleRound)
    assert isinstance(second, ShuffleRound)
    if first.population is not None or second.population is not None:
        return False
    if first.plain_users > second.plain_users or first.reduction != second.reduction:
        return False
    one, other = first.randomizer, second.randomizer
    general = isinstance(one, GeneralRandomizer) and isinstance(other, GeneralRandomizer)
    alike = general and one.adjacency is other.adjacency and one.interactive == other.interactive
    return one == other or (alike and one.eps0 >= other.eps0)
