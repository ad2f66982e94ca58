"""What happens in one round of a protocol."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Attained
from shuffle_accountant.engine.classes import Member
from shuffle_accountant.randomizers.base import FiniteRandomizer, LocalRandomizer
from shuffle_accountant.randomizers.registry import randomizer_from_dict
from shuffle_accountant.reductions.base import DominatingPair, Reduction
from shuffle_accountant.reductions.choice import REDUCTIONS, check, reduce
from shuffle_accountant.reductions.dataset import attained
from shuffle_accountant.reductions.decoys import DensitiesAmongDecoys, TargetAmongDecoys
from shuffle_accountant.reductions.strong import VARIANTS
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.family import family_of

__all__ = ["ShuffleRound"]


@dataclass(frozen=True, init=False)
class ShuffleRound(Round):
    """One round: every user taking part randomizes one message, a shuffler forgets who sent what.

    Rounds are immutable, hashable and compared by value; equal rounds compose into one power.

    Args:
        randomizer: the local randomizer that all users of the round apply. It may have been chosen
            by looking at the outputs of earlier rounds.
        users: messages that are shuffled, >= 1.
        population: if given, the ``users`` are drawn anew for this round, uniformly without
            replacement, from this many (>= ``users``); the privacy is that of one person of the
            population. A population equal to ``users`` is no population.
        reduction: theorem for the upper bound. "clones" holds for any eps0-LDP randomizer;
            "blanket" for known ones, and is never above the clones; "strong" for k-ary randomized
            response against an adversary who also sees which users answered at random; "null
            clones" for `GaussianVectors`; "auto" is the smallest of these that applies. "example"
            is no bound for other datasets than the pair that `GaussianRandomizer` describes.
        variant: for "strong": "exact" (the default), "paper" or "tail", each above the one before;
            see `shuffle_accountant.reductions.strong`.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range, or a reduction that does not hold for the
            randomizer.
    """

    randomizer: LocalRandomizer
    users: int
    population: int | None
    reduction: str
    variant: str | None

    def __init__(
        self,
        randomizer: LocalRandomizer,
        *,
        users: int,
        population: int | None = None,
        reduction: str = "auto",
        variant: str | None = None,
    ) -> None:
        # counts are exact in double precision up to 2^53
        users = validate.integer(minimum=1, maximum=2**53, users=users)
        if population is not None:
            population = validate.integer(minimum=users, maximum=2**53, population=population)
        if population == users:
            population = None  # nothing is drawn; equal rounds are to be equal values
        values = {
            "randomizer": validate.instance(LocalRandomizer, randomizer=randomizer),  # type: ignore[type-abstract]
            "users": users,
            "population": population,
            "reduction": validate.choice(REDUCTIONS, reduction=reduction),
            "variant": None if variant is None else validate.choice(VARIANTS, variant=variant),
        }
        check(randomizer, reduction, variant, sampled=population is not None)
        if reduction == "strong" and variant is None:
            values["variant"] = VARIANTS[0]
        if reduction == "auto" and randomizer.normal_noise is not None:
            # "auto" was once the example pair, and states that say so still mean it
            values["reduction"] = "blanket"
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def adjacency(self) -> Adjacency:
        """What the randomizer is about: one user's value is replaced, or zeroed out."""
        return self.randomizer.adjacency

    def reduced(self) -> DominatingPair:
        """The dominating pair of this round, with the theorem it comes from."""
        return _reduced(self)

    @property
    def member(self) -> Member | None:
        """Its place among rounds of other sizes, samples and parameters; None for some theorems."""
        family = family_of(self.randomizer, self.reduction, self.population is not None)
        if family is None:
            return None
        fraction = 1.0 if self.population is None else self.users / self.population
        return Member(family, self.users, fraction, self.randomizer.eps0 if family.scaled else 1.0)

    def target_among_decoys(self) -> TargetAmongDecoys | DensitiesAmongDecoys:
        """The ``(p0, p1, q, n)`` the round was reduced to, given that the target takes part.

        Laws for finite alphabets, densities for continuous ones. Of several pairs of inputs this is
        the one whose likelihood ratios differ most; answers are about the worst pair at each
        epsilon.

        Raises:
            ValueError: null clones, whose number of decoys is random.
        """
        reduced = self.reduced()
        if not isinstance(reduced, Reduction):
            raise ValueError(
                f"target_among_decoys needs one number of decoys, which {reduced.name} have not"
            )
        return reduced.decoys

    def attained(self, *, epsilon: float) -> Attained:
        """Certified lower bound on the real delta, from an explicit pair of datasets.

        The largest over pairs of datasets that differ in the target's value and in which all other
        users hold one value. No upper bound can be below it, whatever its theorem.

        Args:
            epsilon: nats, finite, >= 0.

        Raises:
            TypeError: ``epsilon`` is not a number.
            ValueError: ``epsilon`` is negative, NaN or infinite, or the randomizer is not finite.
        """
        epsilon = validate.finite_nonnegative(epsilon=epsilon)
        if not isinstance(self.randomizer, FiniteRandomizer):
            raise ValueError(
                "attained needs a randomizer with finitely many inputs and messages, got "
                f"{type(self.randomizer).__name__}"
            )
        population = self.population or self.users
        lower, upper, dataset = attained(self.randomizer, self.users, population, epsilon)
        return Attained(lower=lower, upper=upper, dataset=dataset)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        return {
            "randomizer": self.randomizer.to_dict(),
            "users": self.users,
            "population": self.population,
            "reduction": self.reduction,
            "variant": self.variant,
        }

    @classmethod
    def from_dict(cls, state: Any) -> ShuffleRound:
        """Inverse of `to_dict`.

        States of version 0.1.0 with reduction "auto" and a `GaussianRandomizer` were answered for
        the example pair: they load as "example".

        Raises:
            TypeError: a field of the wrong type.
            ValueError: missing or unknown fields, or a field outside its range.
        """
        wanted = {"randomizer", "users", "population", "reduction", "variant"}
        if isinstance(state, dict):
            state = {"variant": None, **state}  # schema 1 knew no variants
        if not isinstance(state, dict) or set(state) != wanted:
            raise ValueError(
                f"round must be an object with fields {sorted(wanted)}, got {state!r:.80}"
            )
        randomizer, reduction = randomizer_from_dict(state["randomizer"]), state["reduction"]
        if reduction == "auto" and randomizer.normal_noise is not None:
            reduction = "example"
        return cls(
            randomizer,
            users=state["users"],
            population=state["population"],
            reduction=reduction,
            variant=state["variant"],
        )


@lru_cache(maxsize=128)
def _reduced(round: ShuffleRound) -> DominatingPair:
    population = round.population or round.users
    return reduce(round.randomizer, round.users, population, round.reduction, round.variant)
