"""What happens in one round of a protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.decoys import TargetAmongDecoys
from shuffle_accountant.randomizers.base import LocalRandomizer, randomizer_from_dict
from shuffle_accountant.randomizers.general import GeneralRandomizer
from shuffle_accountant.reductions.base import Reduction
from shuffle_accountant.reductions.clones import clones
from shuffle_accountant.reductions.subsampling import subsampled
from shuffle_accountant.single import single_delta, single_epsilon

__all__ = ["ShuffleRound"]

REDUCTIONS = ("auto", "clones")


@dataclass(frozen=True, init=False)
class ShuffleRound:
    """One round: every user taking part randomizes one message, a shuffler forgets who sent what.

    Rounds are immutable, hashable and compared by value; equal rounds compose into one power.

    Args:
        randomizer: the local randomizer that all users of the round apply. It may have been chosen
            by looking at the outputs of earlier rounds.
        users: messages that are shuffled, >= 1.
        population: if given, the ``users`` are drawn anew for this round, uniformly without
            replacement, from this many (>= ``users``); the privacy is that of one person of the
            population.
        reduction: theorem for the upper bound: "clones" (any eps0-LDP randomizer), or "auto", the
            smallest valid bound among those that apply.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
    """

    randomizer: LocalRandomizer
    users: int
    population: int | None
    reduction: str

    def __init__(
        self,
        randomizer: LocalRandomizer,
        *,
        users: int,
        population: int | None = None,
        reduction: str = "auto",
    ) -> None:
        # counts are exact in double precision up to 2^53
        users = validate.integer(minimum=1, maximum=2**53, users=users)
        if population is not None:
            population = validate.integer(minimum=users, maximum=2**53, population=population)
        values = {
            "randomizer": validate.instance(LocalRandomizer, randomizer=randomizer),  # type: ignore[type-abstract]
            "users": users,
            "population": population,
            "reduction": validate.choice(REDUCTIONS, reduction=reduction),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def reduced(self) -> Reduction:
        """The dominating pair of this round, with the theorem it comes from."""
        randomizer = self.randomizer
        interactive = isinstance(randomizer, GeneralRandomizer) and randomizer.interactive
        inner = clones(randomizer.eps0, self.users, interactive=interactive)
        return subsampled(inner, self.users, self.population or self.users)

    def target_among_decoys(self) -> TargetAmongDecoys:
        """The ``(p0, p1, q, n)`` the round was reduced to, given that the target takes part."""
        return self.reduced().decoys

    def delta(self, *, epsilon: float) -> Bracket:
        """Bracket of delta at epsilon for this round alone: a finite sum, exact to round-off.

        Args:
            epsilon: nats, finite, >= 0.

        Raises:
            TypeError: ``epsilon`` is not a number.
            ValueError: ``epsilon`` is negative, NaN or infinite.
        """
        epsilon = validate.finite_nonnegative(epsilon=epsilon)
        reduction = self.reduced()
        lower, upper, ledger = single_delta(reduction.loss, epsilon)
        return Bracket(lower=lower, upper=upper, ledger=ledger, reduction=reduction.name)

    def epsilon(self, *, delta: float) -> Bracket:
        """Bracket of epsilon (nats) at delta for this round alone.

        Args:
            delta: in (0, 1).

        Raises:
            TypeError: ``delta`` is not a number.
            ValueError: ``delta`` is outside (0, 1) or NaN.
        """
        delta = validate.open_unit(delta=delta)
        reduction = self.reduced()
        lower, upper, ledger = single_epsilon(reduction.loss, delta)
        return Bracket(lower=lower, upper=upper, ledger=ledger, reduction=reduction.name)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        return {
            "randomizer": self.randomizer.to_dict(),
            "users": self.users,
            "population": self.population,
            "reduction": self.reduction,
        }

    @classmethod
    def from_dict(cls, state: Any) -> ShuffleRound:
        """Inverse of `to_dict`.

        Raises:
            TypeError: a field of the wrong type.
            ValueError: missing or unknown fields, or a field outside its range.
        """
        wanted = {"randomizer", "users", "population", "reduction"}
        if not isinstance(state, dict) or set(state) != wanted:
            raise ValueError(
                f"round must be an object with fields {sorted(wanted)}, got {state!r:.80}"
            )
        return cls(
            randomizer_from_dict(state["randomizer"]),
            users=state["users"],
            population=state["population"],
            reduction=state["reduction"],
        )
