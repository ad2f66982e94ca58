"""An inference attack that guesses a user's value from the released values of the nearest users."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import (
    IntArray,
    RandomSource,
    any_array,
    located,
    random_source,
    renamed,
    summed,
    values_below,
)
from shuffle_accountant.order.arguments import permutation as checked_permutation
from shuffle_accountant.order.experiments.data import randomize
from shuffle_accountant.order.leavers import share


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
    """Success counts of the attack, by user.

    Attributes:
        successes: how many of the trials named the user's value, shape (n,).
        trials: how many there were.
        least: successes from which a user counts as vulnerable.
    """

    successes: IntArray
    trials: int
    least: int

    @property
    def vulnerable(self) -> NDArray[np.bool_]:
        """Whether each user is vulnerable: at least ``least`` successes; shape (n,)."""
        return self.successes >= self.least

    @property
    def rho(self) -> float:
        """Share of the users who are vulnerable."""
        return float(self.vulnerable.mean())

    @property
    def accuracy(self) -> float:
        """Share of all guesses that were right."""
        return float(self.successes.mean() / self.trials)


@renamed(eps="eps0")
def inference_attack(
    values: ArrayLike,
    neighbours: ArrayLike,
    permutation: ArrayLike,
    *,
    categories: int,
    eps0: float,
    trials: int = 50,
    threshold: float | Fraction | Decimal = 0.9,
    rng: RandomSource = None,
) -> AttackResult:
    """Guess everyone's value by the majority of what was released for the people around them.

    The attack of Meehan et al., section 5: the noise of randomized response is drawn anew in every
    trial, the permutation is one and the same. Ties are broken at random.

    An interruption from the keyboard ends the trials; the result is then of those that were done.

    Args:
        neighbours: for every user the slots that vote, shape (n, m), for example `nearest_users`.
        permutation: of the shuffle: slot i releases the report of user ``permutation[i]``.
        threshold: share of the trials from which on a user is vulnerable, in [0, 1].
    """
    categories = validate.integer(minimum=2, categories=categories)
    eps0 = validate.finite_nonnegative(eps0=eps0)
    truth = values_below(categories, values=values)
    order = checked_permutation(truth.size, permutation=permutation)
    voters = any_array(neighbours=neighbours)
    if voters.ndim != 2 or voters.shape[0] != truth.size or not voters.size:
        raise ValueError(
            f"neighbours must have shape ({truth.size}, m) with m >= 1, got {voters.shape}"
        )
    voters = values_below(truth.size, neighbours=voters.ravel()).reshape(voters.shape)
    trials = validate.integer(minimum=1, maximum=10**9, trials=trials)
    generator = random_source(rng)

    def right() -> NDArray[np.bool_]:
        reports = randomize(truth, categories=categories, eps0=eps0, rng=generator)
        return np.equal(_majority(reports[order][voters], generator), truth)

    successes, done = summed("attack", trials, right)
    return AttackResult(successes=successes, trials=done, least=math.ceil(_share(threshold) * done))


def nearest_users(points: ArrayLike, *, count: int = 25) -> IntArray:
    """The users nearest to each user, themselves not counted: shape (n, count), nearest first."""
    from scipy.spatial import cKDTree

    places = located(points=points)
    count = validate.integer(minimum=1, maximum=places.shape[0] - 1, count=count)
    _, found = cKDTree(places).query(places, k=count + 1)
    # among users in one place somebody else may come first, or all but oneself
    own = found == np.arange(places.shape[0])[:, None]
    own[~own.any(axis=1), -1] = True
    return np.asarray(found[~own].reshape(places.shape[0], count), dtype=np.int64)


def _majority(votes: IntArray, rng: np.random.Generator) -> IntArray:
    """The most frequent value of each row; one of them at random if there are several."""
    cast = np.unique(votes)  # there may be many more values than votes
    counts = np.stack([(votes == value).sum(axis=1) for value in cast], axis=1)
    return np.asarray(cast[np.argmax(counts + rng.random(counts.shape), axis=1)])


def _share(threshold: float | Fraction | Decimal) -> Fraction:
    """A share, with its own name in the message."""
    try:
        return share(threshold)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("eta", "threshold", 1)) from None
