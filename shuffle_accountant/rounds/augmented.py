"""The augmented shuffle: a shuffler that drops messages and adds dummies."""

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

__all__ = ["AugmentedShuffle"]


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
