"""Base of rounds with dummy messages: dominating pair, floor of delta, and frequency estimates."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.losses.base import PrivacyLoss
from shuffle_accountant.losses.counts import count_table
from shuffle_accountant.losses.dummies import dummy_loss, infinite_mass
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES, category_values, generator
from shuffle_accountant.randomizers.count_laws import Binomial, CountLaw
from shuffle_accountant.randomizers.error_bounds import largest_deviation
from shuffle_accountant.randomizers.estimation import Estimate, Tallying, ends_around, tally_of
from shuffle_accountant.rounds.base import Round, conditions_of

__all__ = ["COUNTS_ALONE", "DummyMessages", "checked_categories", "checked_dummies"]

COUNTS_ALONE = (
    "Of the messages nothing but how often each value was sent is seen: not who sent one, nor in "
    "which order, nor when"
)
"""A condition of all rounds with dummies."""


@dataclass(frozen=True)
class _CountsPair:
    """Dominating pair: distributions of the counts that differ between two neighbours."""

    two_sided: ClassVar[bool] = False  # Q may have mass where P has none

    name: str
    loss: PrivacyLoss


class DummyMessages(Tallying, Round):
    """A round whose analyst sees how often each category was sent, dummies included.

    With one category, users hold a bit and send a message where it is one.
    """

    name: ClassVar[str]

    categories: int
    dummies: CountLaw

    @property
    def adjacency(self) -> Adjacency:
        """One user's value is replaced."""
        return Adjacency.REPLACE_ONE

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

    def reduced(self) -> _CountsPair:
        """Dominating pair: the distributions of the counts of both categories."""
        loss = _loss(self.hiding, self.kept, min(self.categories, 2))
        return _CountsPair(self.name, loss)

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
        """Messages that reach the analyst, per user, on average.

        Args:
            users: number of users, >= 1.
        """
        users = validate.integer(minimum=1, users=users)
        return self.kept + self.categories * self.dummies.expectation / users

    def _errors(self, shares: Array, users: int) -> Array:
        kept = self.kept
        lost = shares * users * (kept * (1.0 - kept))
        return np.asarray(np.sqrt(self.dummies.variance + lost) / (kept * users))

    def _counted(self, messages: Any) -> tuple[NDArray[np.int64], int]:
        named = category_values(messages, self.categories, name="messages")
        return np.bincount(named.ravel(), minlength=self.categories), named.size


def checked_dummies(dummies: CountLaw) -> CountLaw:
    """The distribution of dummies, checked.

    Raises:
        ValueError: every trial of a binomial law succeeds.
    """
    law = validate.instance(CountLaw, dummies=dummies)  # type: ignore[type-abstract]
    if isinstance(law, Binomial) and law.probability == 1.0:
        raise ValueError(f"dummies must be of a number that is random, got {law!r}")
    return law


def checked_categories(categories: int) -> int:
    """The number of categories, checked; 1 is allowed."""
    return validate.integer(minimum=1, maximum=MOST_CATEGORIES, categories=categories)


def _beyond(law: CountLaw, share: float) -> float:
    """Distance from the mean that a count exceeds with probability at most ``share``; or inf."""
    table = count_table(law)
    off = np.abs(table.counts - law.expectation)
    order = np.argsort(-off)
    beyond = np.cumsum(table.probabilities[order]) + table.cut
    reached = int(np.searchsorted(beyond, share, side="right"))
    return float(off[order[reached]]) if table.cut <= share else math.inf


@lru_cache(maxsize=64)
def _loss(law: CountLaw, kept: float, categories: int) -> PrivacyLoss:
    return dummy_loss(law, kept, categories=categories)
