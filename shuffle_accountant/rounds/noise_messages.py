"""Histograms with noise messages: every user sends the true value, and some dummies."""

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

__all__ = ["NoiseMessages"]


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
