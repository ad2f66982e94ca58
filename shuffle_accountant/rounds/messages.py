"""Rounds to which messages are added: by a shuffler that also drops some, or by the users.

Their dominating pair, the floor of delta, and frequency estimates.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.losses.counts import count_table
from shuffle_accountant.losses.dummies import dummy_loss, infinite_mass
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES, category_values, generator
from shuffle_accountant.randomizers.count_laws import Binomial, CountLaw, count_law_from_dict
from shuffle_accountant.randomizers.error_bounds import largest_deviation
from shuffle_accountant.randomizers.estimation import Estimate, Tallying, ends_around, tally_of
from shuffle_accountant.reductions.base import Pair
from shuffle_accountant.rounds.base import RoundOfParts, conditions_of, needed, reduced_once

# A condition of all rounds with dummies.
_COUNTS_ALONE = (
    "Of the messages nothing but how often each value was sent is seen: not who sent one, nor in "
    "which order, nor when"
)


class DummyMessages(Tallying, RoundOfParts):
    """A round whose analyst sees how often each category was sent, dummies included.

    With one category, users hold a bit and send a message where it is one.
    """

    name: ClassVar[str]
    parts: ClassVar = {"dummies": partial(count_law_from_dict, "dummies")}
    adjacency = Adjacency.REPLACE_ONE

    categories: int
    dummies: CountLaw

    @property
    @abstractmethod
    def kept(self) -> float:
        """Probability that a user's message is counted."""

    @property
    @abstractmethod
    def hiding(self) -> CountLaw:
        """Distribution of the dummies per category of which the analyst knows nothing."""

    @property
    def floor(self) -> Bracket:
        """Bracket of the delta that is left at every epsilon.

        With this probability a count is seen that one of the neighbours cannot cause: no dummies
        at all, or more than there can be.
        """
        lower, upper = infinite_mass(self.reduced().loss)
        return Bracket(
            lower=lower,
            upper=upper,
            reduction=self.name,
            adjacency=self.adjacency,
            conditions=partial(conditions_of, (self,)),
        )

    @reduced_once
    def reduced(self) -> Pair:
        """Dominating pair: the distributions of the counts of both categories."""
        loss = dummy_loss(self.hiding, self.kept, categories=min(self.categories, 2))
        return Pair(self.name, loss)

    def shuffled(
        self, values: ArrayLike, rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """The messages that reach the analyst in a round, in random order.

        Args:
            values: the users' values, integers in 0 … categories - 1, any shape; bits for one
                category.
            rng: source of randomness; by default the operating system's cryptographic one.

        Returns:
            Categories, integers, shape (messages,).
        """
        rng = generator(rng)
        own = category_values(values, max(self.categories, 2)).ravel()
        if self.categories == 1:
            own = np.zeros(int(own.sum()), dtype=np.int64)
        own = own[rng.random(own.size) < self.kept] if self.kept < 1.0 else own
        counts = self.dummies.draw(rng, self.categories)
        messages = np.concatenate([own, np.repeat(np.arange(self.categories), counts)])
        return rng.permutation(messages)

    def estimate(self, messages: Any, *, users: int) -> Estimate:
        """Unbiased frequencies from all messages of a round.

        Args:
            messages: see `tally`.
            users: number of users, >= 1, which the number of messages does not tell.
        """
        return self.estimate_from(self.tally(messages), users)

    def estimate_from(self, tally: ArrayLike, users: int) -> Estimate:
        """Unbiased frequencies from the tally of all messages.

        Args:
            tally: number of messages of each category, shape (categories,).
            users: number of users, >= 1.

        Returns:
            Shares of users who hold each category, shape (categories,).
        """
        users = validate.integer(minimum=1, users=users)
        counts = tally_of(tally, (self.categories,))
        if np.any(counts < 0):
            raise ValueError(f"tally must hold counts >= 0, got {counts[counts < 0][0].item()!r}")
        values = (counts - self.dummies.expectation) / (self.kept * users)
        errors = self._errors(np.clip(values, 0.0, 1.0), users)
        ends = partial(ends_around, values, partial(self._largest_error, users), True)
        return Estimate(values, errors, users, ends)

    def frequency_error(self, *, users: int, frequency: float = 0.0) -> float:
        """Standard deviation of the estimated frequency of a category, at any number of users.

        Args:
            users: number of users, >= 1.
            frequency: share of users who hold the category, in [0, 1].
        """
        users = validate.integer(minimum=1, users=users)
        share = validate.closed_unit(frequency=frequency)
        return float(self._errors(np.array([share]), users)[0])

    def largest_frequency_error(self, *, users: int, confidence: float = 0.95) -> float:
        """Bound on the largest error of all estimated frequencies, for any histogram.

        All categories at once. The messages that are kept are off by no more than the bound of
        `shuffle_accountant.randomizers.error_bounds`, but for half of the failure probability (for
        none of it if all are kept), and each category's dummies by no more than the rest of it,
        divided by the number of categories, leaves open by their law.

        Args:
            users: number of users, >= 1.
            confidence: least probability that the bound holds, in (0, 1).
        """
        users = validate.integer(minimum=1, users=users)
        failure = 1.0 - validate.open_unit(confidence=confidence)
        return self._largest_error(users, failure, self.categories)

    def _largest_error(self, users: int, failure: float, categories: int) -> float:
        """`largest_frequency_error` of some of the categories."""
        off = 0.0
        if self.kept < 1.0:
            failure *= 0.5
            off = largest_deviation(
                self.kept, 0.0, users=users, categories=categories, failure=failure
            )
        off += _beyond(self.dummies, failure / categories)
        return off / (self.kept * users)

    def messages_per_user(self, *, users: int) -> float:
        """Messages that reach the analyst, per user, on average, of ``users`` >= 1."""
        users = validate.integer(minimum=1, users=users)
        return self.kept + self.categories * self.dummies.expectation / users

    def _errors(self, shares: Array, users: int) -> Array:
        lost = shares * users * (self.kept * (1.0 - self.kept))
        return np.asarray(np.sqrt(self.dummies.variance + lost) / (self.kept * users))

    def _counted(self, messages: Any) -> tuple[NDArray[np.int64], int]:
        named = category_values(messages, self.categories, name="messages")
        return np.bincount(named.ravel(), minlength=self.categories), named.size


@dataclass(frozen=True, kw_only=True)
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
    kept = property(attrgetter("keep"))
    hiding = property(attrgetter("dummies"))  # the shuffler is trusted with all of them
    conditions = needed(
        "augmented shuffle",
        "The shuffler keeps each message with the probability stated, independently, adds "
        "dummies by the law stated, with fresh coins, and does not work with the analyst",
        _COUNTS_ALONE,
    )

    categories: int
    keep: float
    dummies: CountLaw

    def __post_init__(self) -> None:
        self._hold(
            keep=validate.share(keep=self.keep),
            dummies=_checked_dummies(self.dummies),
            categories=validate.integer(
                minimum=1, maximum=MOST_CATEGORIES, categories=self.categories
            ),
        )


@dataclass(frozen=True, kw_only=True)
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
    kept: ClassVar[float] = 1.0
    conditions = needed(
        "noise messages",
        "The share of honest users that is stated, at least, draw their dummies by the law "
        "stated, with fresh coins, and tell nobody how many; a user who does not send adds no "
        "dummies, so count on the fewest who will send",
        _COUNTS_ALONE,
    )

    categories: int
    dummies: CountLaw
    honest: float = 1.0

    def __post_init__(self) -> None:
        law = _checked_dummies(self.dummies)
        if not law.divisible:
            raise ValueError(
                "dummies must be a law that users can share (NegativeBinomial, Poisson or "
                f"Binomial), got {type(law).__name__}"
            )
        honest = validate.share(honest=self.honest)
        categories = validate.integer(
            minimum=1, maximum=MOST_CATEGORIES, categories=self.categories
        )
        self._hold(categories=categories, honest=honest)

    @property
    def hiding(self) -> CountLaw:
        """The dummies of honest users."""
        return self.dummies.honest(self.honest)


def _checked_dummies(dummies: CountLaw) -> CountLaw:
    """The distribution of dummies, if its number is random."""
    law = validate.instance(CountLaw, dummies=dummies)  # type: ignore[type-abstract]
    if isinstance(law, Binomial) and law.probability == 1.0:
        raise ValueError(f"dummies must be of a number that is random, got {law!r}")
    return law


def _beyond(law: CountLaw, share: float) -> float:
    """Distance from the mean that a count exceeds with probability at most ``share``; or inf."""
    table = count_table(law)
    off = np.abs(table.counts - law.expectation)
    order = np.argsort(-off)
    beyond = np.cumsum(table.probabilities[order]) + table.cut
    reached = int(np.searchsorted(beyond, share, side="right"))
    return float(off[order[reached]]) if table.cut <= share else math.inf
