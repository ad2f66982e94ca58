"""Rounds to which messages are added: by a shuffler that also drops some, or by the users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.count_laws import CountLaw, count_law_from_dict
from shuffle_accountant.rounds.base import needed
from shuffle_accountant.rounds.messages import (
    COUNTS_ALONE,
    DummyMessages,
    checked_categories,
    checked_dummies,
)

__all__ = ["AugmentedShuffle", "NoiseMessages"]


@dataclass(frozen=True, init=False)
class AugmentedShuffle(DummyMessages):
    """One round: true values, of which the shuffler keeps some, and dummies that it adds.

    Users encrypt their values for the analyst. The shuffler keeps each message with probability
    beta, adds D dummies for each category, independently, and shuffles (Murakami et al. 2025). The
    bracket encloses the exact loss of the counts that a replaced value changes where, with three
    categories or more, others hold neither of the two; whoever holds one of them only adds noise of
    his own, as messages of others are dropped too.

    Args:
        categories: number of values; 1 for a sum of bits.
        keep: probability beta that a user's message is kept, in (0, 1].
        dummies: law of D: `AsymmetricGeometric`, `NegativeBinomial`, `Poisson` or `Binomial`.
    """

    kind: ClassVar[str] = "augmented-shuffle"
    name: ClassVar[str] = "augmented shuffle"

    categories: int
    keep: float
    dummies: CountLaw

    def __init__(self, *, categories: int, keep: float, dummies: CountLaw) -> None:
        kept = validate.closed_unit(keep=keep)
        if kept == 0.0:
            raise ValueError("keep must be a number in (0, 1], got 0.0")
        law = checked_dummies(dummies)
        object.__setattr__(self, "categories", checked_categories(categories))
        object.__setattr__(self, "keep", kept)
        object.__setattr__(self, "dummies", law)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on the shuffler, and on what the analyst sees; a sentence each."""
        return needed(
            self.name,
            "The shuffler keeps each message with the probability stated, independently, adds "
            "dummies by the law stated, with fresh coins, and does not work with the analyst",
            COUNTS_ALONE,
        )

    @property
    def kept(self) -> float:
        """The probability that a user's message is kept."""
        return self.keep

    @property
    def hiding(self) -> CountLaw:
        """All dummies: the shuffler is trusted with them."""
        return self.dummies

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        return {
            "kind": self.kind,
            "categories": self.categories,
            "keep": self.keep,
            "dummies": self.dummies.to_dict(),
        }

    @classmethod
    def from_dict(cls, state: Any) -> AugmentedShuffle:
        """Inverse of `to_dict`."""
        wanted = {"kind", "categories", "keep", "dummies"}
        state = validate.fields(wanted, kind=cls.kind, round=state)
        return cls(
            categories=state["categories"],
            keep=state["keep"],
            dummies=count_law_from_dict("dummies", state["dummies"]),
        )


@dataclass(frozen=True, init=False)
class NoiseMessages(DummyMessages):
    """One round: true values among dummy messages that the users add; the analyst sees counts.

    For each category, independently, all users together add D dummies, of which each draws a
    share. If one user's value a is replaced by b, the counts of a and b are (D + 1, D) or
    (D, D + 1) beyond what the others sent: exact tables, whatever the others hold. Their values
    and their messages may be known; of their dummies, those of honest users count.

    With one category it is a sum of bits: users send a message where their bit is one, and noise
    bits come along (Balcer and Cheu 2020; Cheu et al. 2019). Negative binomial and Poisson dummies:
    Ghazi et al. 2020, "Pure differentially private summation from anonymous messages"; 2021, "On
    the power of multiple anonymous messages".

    No dummies at all, or as many as there can be, give the target away: `floor` is the probability,
    below which no delta is reached.

    Args:
        categories: number of values; 1 for a sum of bits.
        dummies: law of D, of all users together: `NegativeBinomial`, `Poisson` or `Binomial`.
        honest: share of the users who do draw their dummies and keep them to themselves, in (0, 1];
            of a binomial law, whole trials.

    Raises:
        ValueError: a distribution that users cannot share.
    """

    kind: ClassVar[str] = "noise-messages"
    name: ClassVar[str] = "noise messages"

    categories: int
    dummies: CountLaw
    honest: float

    def __init__(self, *, categories: int, dummies: CountLaw, honest: float = 1.0) -> None:
        law = checked_dummies(dummies)
        if not law.divisible:
            raise ValueError(
                "dummies must be a law that users can share (NegativeBinomial, Poisson or "
                f"Binomial), got {type(law).__name__}"
            )
        share = validate.closed_unit(honest=honest)
        if share == 0.0:
            raise ValueError("honest must be a number in (0, 1], got 0.0")
        object.__setattr__(self, "categories", checked_categories(categories))
        object.__setattr__(self, "dummies", law)
        object.__setattr__(self, "honest", share)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on who draws dummies, and on what the observer sees; a sentence each."""
        return needed(
            self.name,
            "The share of honest users that is stated, at least, draw their dummies by the law "
            "stated, with fresh coins, and tell nobody how many; a user who does not send adds no "
            "dummies, so count on the fewest who will send",
            COUNTS_ALONE,
        )

    @property
    def kept(self) -> float:
        """Probability that a user's message is counted: 1."""
        return 1.0

    @property
    def hiding(self) -> CountLaw:
        """The dummies of honest users."""
        return self.dummies.honest(self.honest)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        return {
            "kind": self.kind,
            "categories": self.categories,
            "dummies": self.dummies.to_dict(),
            "honest": self.honest,
        }

    @classmethod
    def from_dict(cls, state: Any) -> NoiseMessages:
        """Inverse of `to_dict`."""
        wanted = {"kind", "categories", "dummies", "honest"}
        state = validate.fields(wanted, kind=cls.kind, round=state)
        return cls(
            categories=state["categories"],
            dummies=count_law_from_dict("dummies", state["dummies"]),
            honest=state["honest"],
        )
