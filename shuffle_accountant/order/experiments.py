"""Experiments on the effect of shuffling in groups on an attacker and on an analyst.

The attack and the measures of learning are those of Meehan et al., 'Privacy Implications of
Shuffling', section 5; the data are synthetic, or a table that the user points to. The attacker
guesses a user's value from those of the nearest users; the analyst boosts trees: `learnability` and
`distribution_error` train a model with scikit-learn (extra "learn"), imported on first use.
"""

from __future__ import annotations

import csv
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.facades import explain_calls
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.order.arguments import (
    IntArray,
    RandomSource,
    any_array,
    coordinates,
    located,
    random_source,
    renamed,
    summed,
    values_below,
)
from shuffle_accountant.order.arguments import permutation as checked_permutation
from shuffle_accountant.order.groups import Groups
from shuffle_accountant.order.preservation import Eta, share
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

__all__ = [
    "AdultTable",
    "AttackResult",
    "Crescents",
    "crescents",
    "distribution_error",
    "grid_blocks",
    "inference_attack",
    "learnability",
    "local_distributions",
    "nearest_users",
    "randomize",
    "read_adult",
]

MISSING = "learnability needs scikit-learn: pip install '.[learn]' in a clone"
"""Error message for a missing scikit-learn."""

# Most numbers in a table of distributions (128 MiB).
_MOST_ENTRIES = 1 << 24

# Folds of the cross-validation for Platt's calibration.
_FOLDS = 3


class Crescents(NamedTuple):
    """Points and their labels.

    Attributes:
        points: public places, shape (n, 2).
        labels: private values, 0 … 7, shape (n,): 4 cluster + 2 crescent + half. Shifted right by
            one bit they name the crescent (4 values), by two bits the cluster (2 values).
    """

    points: NDArray[np.float64]
    labels: NDArray[np.int64]


@renamed(n="users")
def crescents(
    users: int, *, noise: float = 0.1, gap: float = 4.5, rng: RandomSource = None
) -> Crescents:
    """Two clusters of two interleaved half-moons of two halves, as in Meehan et al., figure 1.

    Args:
        noise: standard deviation around the half-moons, in [0, 1e300]; their radius is 1.
        gap: from one cluster to the next, in [0, 1e300].
    """
    n = validate.integer(minimum=1, maximum=10**8, users=users)
    noise, gap = validate.finite_nonnegative(noise=noise), validate.finite_nonnegative(gap=gap)
    farthest = 1e300  # above, coordinates may be no doubles
    if max(noise, gap) > farthest:
        name, value = ("noise", noise) if noise > farthest else ("gap", gap)
        raise ValueError(f"{name} must be a number in [0, {farthest:g}], got {value!r}")
    generator = random_source(rng)
    cluster, moon = generator.integers(2, size=(2, n))
    angle = math.pi * generator.random(n)
    half = (angle > 0.5 * math.pi).astype(np.int64)
    x = np.where(moon == 0, np.cos(angle), 1.0 - np.cos(angle)) + gap * cluster
    y = np.where(moon == 0, np.sin(angle), 0.5 - np.sin(angle))
    points = np.stack([x, y], axis=1) + noise * generator.standard_normal((n, 2))
    return Crescents(points, 4 * cluster + 2 * moon + half)


# Names in use for the last column, with hyphens for blanks, dots and underscores.
_INCOMES = ("income", "income-per-year", "class", "salary", "target")


class AdultTable(NamedTuple):
    """The columns that the experiments need, one entry per person.

    Attributes:
        age: public, years, shape (n,).
        marital_status: what an attacker knows besides, shape (n,).
        income: private; 1 above 50,000 dollars a year, else 0, shape (n,).
    """

    age: NDArray[np.int64]
    marital_status: NDArray[np.str_]
    income: NDArray[np.int64]


def read_adult(path: str | os.PathLike[str]) -> AdultTable:
    """Read a CSV file of the table, as distributed (no header) or with a header."""
    source = Path(path)
    if not source.is_file():
        raise ValueError(f"path must be a CSV file of the Adult table, got {str(path)!r}")
    with source.open(newline="", encoding="utf-8") as file:
        rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(file, skipinitialspace=True)
            # empty lines, and the comment at the head of the test part
            if any(cell.strip() for cell in row) and not row[0].startswith("|")
        ]
    if not rows:
        raise ValueError(f"path must be a CSV file of the Adult table, got the empty {str(path)!r}")
    places = [0, 5, 14]  # in the file as distributed, which has no header
    if not _is_number(rows[0][0]):
        header = [re.sub("[ _.]", "-", cell.lower()) for cell in rows.pop(0)]
        names = ["age", "marital-status", next((x for x in _INCOMES if x in header), "income")]
        for name in names:
            if name not in header:
                columns = ", ".join(header)
                raise ValueError(f"path must have a column {name!r}, got columns {columns}")
        places = [header.index(name) for name in names]
    for number, row in enumerate(rows, 1):
        if len(row) <= max(places) or not _is_number(row[places[0]]):
            raise ValueError(f"path must hold rows of the Adult table, got {row!r} as row {number}")
    age, marital, earned = ([row[place] for row in rows] for place in places)
    return AdultTable(
        np.array([int(float(value)) for value in age], dtype=np.int64),
        np.array(marital, dtype=np.str_),
        np.array([_above(value) for value in earned], dtype=np.int64),
    )


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _above(text: str) -> int:
    """1 for ">50K" (with a full stop in the test part), 0 for "<=50K"."""
    word = text.rstrip(".").upper()
    if word not in (">50K", "<=50K", "1", "0"):
        raise ValueError(f"path must have incomes '>50K' or '<=50K', got {text!r}")
    return int(word in (">50K", "1"))


def grid_blocks(points: ArrayLike, *, width: float) -> Groups:
    """The cells of a grid of that width as disjoint groups, for `BlockShuffler`.

    That shuffle has alpha = 0 for its blocks, and keeps all that an analyst learns of blocks. It
    protects nobody from those beyond a border: groups around everyone need `DSigmaShuffler`.

    Args:
        width: of a cell along every axis, > 0.
    """
    places = located(points=points)
    width = validate.positive(width=width)
    with np.errstate(over="ignore"):
        cells = np.floor((places - places.min(axis=0)) / width)
    if not np.all(np.isfinite(cells)):
        raise ValueError(f"width must be large enough to number the cells, got {width!r}")
    _, block = np.unique(cells, axis=0, return_inverse=True)
    block = block.ravel()
    members = np.argsort(block, kind="stable")
    return Groups.from_lists(np.split(members, np.cumsum(np.bincount(block))[:-1]))


@renamed(eps="eps0")
def randomize(
    values: ArrayLike, *, categories: int, eps0: float, rng: RandomSource = None
) -> IntArray:
    """Reports by k-ary randomized response: each value, or now and then a uniformly random one."""
    categories = validate.integer(minimum=2, maximum=MOST_CATEGORIES, categories=categories)
    eps0 = validate.finite_nonnegative(eps0=eps0)
    response = RandomizedResponse(categories=categories, eps0=eps0)
    return response.randomize(values_below(categories, values=values), random_source(rng))


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
    threshold: Eta = 0.9,
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
    least = math.ceil(share(threshold=threshold) * done)
    return AttackResult(successes=successes, trials=done, least=least)


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


def learnability(
    points: ArrayLike,
    released: ArrayLike,
    test_points: ArrayLike,
    test_values: ArrayLike,
    *,
    iterations: int = 50,
    seed: int = 0,
) -> float:
    """Accuracy on other people of a model that was trained on places and shuffled reports.

    The measure of Meehan et al. for their synthetic data.

    Args:
        released: value in each of their slots, integers >= 0, shape (n,).
        test_points: places of other people, shape (m,) or (m, d).
        test_values: their true values, shape (m,).

    Returns:
        Share of the test values that are named right.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    places, labels = _sample(points, released)
    others = located(test_points=test_points)
    if others.shape[1] != places.shape[1]:
        raise ValueError(
            f"test_points must have {places.shape[1]} coordinates, got {others.shape[1]}"
        )
    truth = values_below(2**31, others.shape[0], test_values=test_values)
    classes, chances = _predicted(places, labels, others, iterations, seed)
    return float((classes[np.argmax(chances, axis=1)] == truth).mean())


@renamed(eps="eps0")
def distribution_error(
    points: ArrayLike,
    released: ArrayLike,
    truth: ArrayLike,
    *,
    categories: int,
    eps0: float | None = None,
    iterations: int = 50,
    seed: int = 0,
) -> float:
    """Error of the predicted distributions of values, relative to guessing the uniform one: lambda.

    The measure of Meehan et al. for their real data: the mean total variation distance of the
    model's prediction at each place from what is true there, over that of the uniform distribution.
    0 is perfect, 1 no better than not looking.

    To predict inputs give their distributions as ``truth``, and ``eps0``, so that the noise is
    taken out of the prediction; to predict reports give theirs, and no ``eps0``.

    Args:
        released: value in each of their slots, in 0 … categories - 1, shape (n,).
        truth: distribution at each place, shape (n, categories); see `local_distributions`.
        eps0: of the randomized response that made the reports, nats, > 0.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    categories = validate.integer(minimum=2, maximum=_MOST_ENTRIES, categories=categories)
    places, labels = _sample(points, released)
    labels = values_below(categories, released=labels)
    target = coordinates((2,), truth=truth)
    if target.shape != (places.shape[0], categories):
        raise ValueError(
            f"truth must have shape {(places.shape[0], categories)}, got {target.shape}"
        )
    gamma = 0.0
    if eps0 is not None:
        eps0 = validate.positive(eps0=eps0)
        gamma = RandomizedResponse(categories=categories, eps0=eps0).gamma
    # many may live in one place
    distinct, place = np.unique(places, axis=0, return_inverse=True)
    classes, chances = _predicted(places, labels, distinct, iterations, seed)
    predicted = np.zeros(target.shape)
    predicted[:, classes] = chances[place.ravel()]
    # a report is uniform with chance gamma
    cleaned = np.maximum(predicted - gamma / categories, 0.0)
    left = cleaned.sum(axis=1, keepdims=True)
    # where noise explains all, nothing is known
    cleaned = np.where(left > 0.0, cleaned, 1.0) / np.where(left > 0.0, left, categories)
    uniform = np.abs(target - 1.0 / categories).sum()
    if uniform == 0.0:
        raise ValueError("truth must not be uniform everywhere, got nothing to learn")
    return float(np.abs(target - cleaned).sum() / uniform)


def local_distributions(
    points: ArrayLike, values: ArrayLike, *, radius: float, categories: int
) -> Array:
    """Distribution of the values within a radius of each point, that point included.

    Returns:
        Shape (n, categories), at most 2^24 numbers; rows add up to 1.
    """
    from scipy.spatial import cKDTree

    places = located(points=points)
    most = _MOST_ENTRIES // places.shape[0]
    categories = validate.integer(minimum=1, maximum=max(most, 1), categories=categories)
    labels = values_below(categories, places.shape[0], values=values)
    radius = validate.finite_nonnegative(radius=radius)
    # many people may share a place
    distinct, place = np.unique(places, axis=0, return_inverse=True)
    place, counts = place.ravel(), np.zeros((distinct.shape[0], categories))
    np.add.at(counts, (place, labels), 1.0)
    around = cKDTree(distinct).query_ball_point(distinct, radius)
    totals = np.stack([counts[near].sum(axis=0) for near in around])
    return np.asarray((totals / totals.sum(axis=1, keepdims=True))[place])


def _sample(points: ArrayLike, released: ArrayLike) -> tuple[Array, IntArray]:
    places = located(points=points)
    labels = values_below(2**31, places.shape[0], released=released)
    if np.bincount(np.unique(labels, return_inverse=True)[1]).min() < _FOLDS:
        raise ValueError(f"released must hold every value at least {_FOLDS} times, got fewer")
    if labels.min() == labels.max():
        raise ValueError(f"released must hold two values at least, got only {int(labels[0])}")
    return places, labels


def _predicted(
    places: Array, labels: IntArray, at: Array, iterations: int, seed: int
) -> tuple[IntArray, Array]:
    """Classes, and their chances at other places, by gradient boosting with Platt's calibration."""
    iterations = validate.integer(minimum=1, maximum=10**9, iterations=iterations)
    try:
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise ImportError(MISSING) from None
    seed = validate.integer(minimum=0, maximum=2**32 - 1, seed=seed)
    trees = HistGradientBoostingClassifier(max_iter=iterations, random_state=seed)
    model = CalibratedClassifierCV(trees, method="sigmoid", cv=_FOLDS, ensemble=False)
    # on a busy machine small trees wait for threads, not for work
    with threadpool_limits(limits=1, user_api="openmp"):
        chances: Array = model.fit(places, labels).predict_proba(at)
    return model.classes_, chances


explain_calls(__name__)
