"""Estimates from messages: mergeable tallies, and unbiased estimates with standard errors.

A *tally* of messages is an array of a size that does not grow with the users. Tallies of parts of
the messages merge by ``+``, in any order. The estimate is made of the tally alone.

*Frequencies.* A message of a frequency oracle says yes to some categories: to one's own with
probability p, to another one with probability q, whichever it is. Of n messages, a category that a
share f of the users holds gets a yes from ``n (f p + (1 - f) q)`` on average, so ``(count/n - q)/(p
- q)`` is an unbiased estimate of f. Messages are independent, so its variance, given what the users
hold, is exactly ``(f p (1 - p) + (1 - f) q (1 - q)) / (n (p - q)^2)`` (Wang et al. 2017, "Locally
differentially private protocols for frequency estimation", for f = 0 and f = 1).

Dask is not imported before it is met: who passes a collection has done so already.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.checks import array_of
from shuffle_accountant.randomizers.error_bounds import largest_deviation, shares_between

# Number of tallies added up by one task, so that no machine holds those of all chunks.
_TOGETHER = 8

Tallied = tuple[NDArray[Any], int]
Ends = tuple[Array, Array]


def _tallied_chunks(counted: Callable[[Any], Tallied], messages: Any, message_axes: int) -> Tallied:
    """Tally and number of messages of a Dask array, bag or series, or of one delayed chunk."""
    from dask.delayed import Delayed, delayed

    if isinstance(messages, Delayed):  # has every attribute that it is asked for
        tally, number = delayed(_one_chunk)(counted, messages).compute()
        return tally, number
    if hasattr(messages, "rechunk") and message_axes:
        whole = dict.fromkeys(range(messages.ndim - message_axes, messages.ndim), -1)
        messages = messages.rechunk(whole)
    chunks = np.ravel(np.asarray(messages.to_delayed(), dtype=object)).tolist()
    if not chunks:
        raise ValueError("messages must have at least one chunk, got none")
    one, many = delayed(_one_chunk), delayed(_added)
    parts = [one(counted, chunk) for chunk in chunks]
    while len(parts) > 1:
        parts = [many(parts[i : i + _TOGETHER]) for i in range(0, len(parts), _TOGETHER)]
    tally, number = parts[0].compute()
    return tally, number


def _one_chunk(counted: Callable[[Any], Tallied], chunk: Any) -> Tallied:
    # chunks of bags may be iterators, of series they are pandas' own
    return counted(chunk if hasattr(chunk, "__array__") else list(chunk))


def _added(parts: list[Tallied]) -> Tallied:
    tallies, numbers = zip(*parts, strict=True)
    return sum(tallies[1:], start=tallies[0]), sum(numbers)


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Unbiased estimates with their standard errors.

    Attributes:
        values: one number for each category or coordinate, shape (k,). Frequencies may come out
            below 0 or above 1: cutting them off would make them biased.
        standard_errors: standard deviation of each value over the randomness of the messages, shape
            (k,); infinite where a single message says nothing about it.
        users: number of users who sent the messages.
        ends: from a failure probability, and whether it is that of all values at once or of each,
            to lower and upper ends of the true values; None where no bound is known.
    """

    values: Array
    standard_errors: Array
    users: int
    ends: Callable[[float, bool], Ends] | None = None

    def interval(
        self, *, confidence: float = 0.95, simultaneous: bool = True, rounds: int = 1
    ) -> Ends:
        """Intervals that contain the true shares or means, whatever the users hold.

        They are proved in `shuffle_accountant.randomizers.error_bounds`, for any number of users,
        and hold at least as often as they say. Those of frequency oracles depend on the counts: a
        rare category's are the narrowest. Those of other estimates are as wide as the worst data
        ask for.

        Args:
            confidence: probability, in (0, 1), that they hold.
            simultaneous: whether all of them hold at once with that probability, or each by itself.
            rounds: number of estimates, in [1, 1e12], whose intervals are to hold at once.

        Returns:
            Lower and upper ends, shape (k,) each. Those of shares lie in [0, 1].

        Raises:
            ValueError: the estimator gave no bound on its errors.
        """
        confidence = validate.open_unit(confidence=confidence)
        simultaneous = validate.flag(simultaneous=simultaneous)
        rounds = validate.integer(minimum=1, maximum=10**12, rounds=rounds)
        return self._ends((1.0 - confidence) / rounds, simultaneous)

    def _ends(self, failure: float, together: bool) -> Ends:
        if self.ends is None:
            raise ValueError("ends of the estimate must be given for intervals, got None")
        return self.ends(failure, together)

    def _ends_of_change(self, earlier: Estimate, failure: float, together: bool) -> Ends:
        after, before = (one._ends(0.5 * failure, together) for one in (self, earlier))
        least, most = after[0] - before[1], after[1] - before[0]
        return np.nextafter(least, -np.inf), np.nextafter(most, np.inf)

    def projected(self) -> Array:
        """The histogram (numbers >= 0 of sum 1, shape (k,)) nearest to the values in the 2-norm.

        Never farther from the true histogram than the values are, in the 2-norm; but biased: rare
        categories come out too large on average, and frequent ones too small, as all values below 0
        are raised. Sums over many categories are better taken of the values.
        """
        ordered = np.sort(self.values)[::-1]
        excess = (np.cumsum(ordered) - 1.0) / np.arange(1, ordered.size + 1)
        last = int(np.flatnonzero(ordered > excess)[-1])
        return np.asarray(np.maximum(self.values - excess[last], 0.0))

    def change_since(self, earlier: Estimate) -> Estimate:
        """How much each share changed since an earlier estimate with messages of their own.

        Its intervals hold, at a confidence of 1 - t, because both estimates' hold at 1 - t/2.

        Args:
            earlier: of the same categories.

        Returns:
            The differences; their standard errors take the two estimates for independent.
        """
        earlier = validate.instance(Estimate, earlier=earlier)
        if earlier.values.shape != self.values.shape:
            raise ValueError(
                f"earlier must have {self.values.size} categories, got {earlier.values.size}"
            )
        return Estimate(
            self.values - earlier.values,
            np.hypot(self.standard_errors, earlier.standard_errors),
            min(self.users, earlier.users),
            partial(self._ends_of_change, earlier),
        )

    def frequent(self, share: float, *, confidence: float = 0.95) -> NDArray[np.intp]:
        """Categories that certainly more than a share of the users hold, the largest first.

        With the stated probability none of them is wrong, as all intervals hold at once.

        Args:
            share: in [0, 1].
            confidence: probability, in (0, 1), that no category is named wrongly.
        """
        share = validate.closed_unit(share=share)
        lower, _ = self.interval(confidence=confidence)
        named = np.flatnonzero(lower > share)
        return named[np.argsort(-self.values[named], kind="stable")]

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{value:.4g} ± {error:.2g}"
            for value, error in zip(self.values[:3], self.standard_errors[:3], strict=True)
        )
        more = ", …" if self.values.size > 3 else ""
        return f"Estimate([{shown}{more}], users={self.users})"


class Tallying(ABC):
    """Base of randomizers and rounds that tally their messages and estimate from the tally.

    Attributes:
        message_axes: number of an array's last axes that one message takes.
    """

    message_axes: ClassVar[int] = 0

    def tally(self, messages: Any) -> NDArray[Any]:
        """Tally of messages, from which estimates are made; tallies of parts add up.

        Args:
            messages: as `randomize` returns them, in any order; or a Dask array, bag or series of
                them, which is gone through chunk by chunk, on the cluster of Dask's current client
                if there is one.
        """
        return self._tallied(messages)[0]

    @abstractmethod
    def estimate_from(self, tally: ArrayLike, users: int) -> Estimate:
        """Unbiased estimates from the sum of the tallies of all messages of ``users`` >= 1."""

    @abstractmethod
    def _counted(self, messages: Any) -> Tallied:
        """Tally and number of messages that are an array, or become one."""

    def _tallied(self, messages: Any) -> Tallied:
        base = sys.modules.get("dask.base")  # without importing Dask
        if base is not None and base.is_dask_collection(messages):
            return _tallied_chunks(self._counted, messages, self.message_axes)
        return self._counted(messages)


class Estimator(Tallying):
    """Base of randomizers that estimate from one message of each user."""

    def estimate(self, messages: Any) -> Estimate:
        """Unbiased estimates from one message of each user.

        Args:
            messages: see `tally`.
        """
        return self.estimate_from(*self._tallied(messages))

    def estimate_from(self, tally: ArrayLike, users: int) -> Estimate:
        """Unbiased estimates from the tally of all messages.

        Args:
            tally: the sum of the tallies of all messages; the class says what it holds.
            users: number of users who sent them, >= 1.

        Raises:
            ValueError: the messages do not say what is estimated.
        """
        return self._estimated(tally, validate.integer(minimum=1, users=users))

    @abstractmethod
    def _estimated(self, tally: ArrayLike, users: int) -> Estimate:
        """The estimates from a tally that is not yet checked."""


class Frequencies(Estimator):
    """Frequencies of categories from one message of each user."""

    @property
    @abstractmethod
    def inputs(self) -> int:
        """Number of categories."""

    def frequency_error(self, *, users: int, frequency: float = 0.0) -> float:
        """Standard deviation of the estimated frequency of a category, the largest there is.

        Args:
            users: number of messages, >= 1.
            frequency: share of users who hold the category, in [0, 1].

        Raises:
            ValueError: the messages say nothing about the input, or not enough (rows of a channel
                that depend on each other).
        """
        users = validate.integer(minimum=1, users=users)
        shares = np.array([validate.closed_unit(frequency=frequency)])
        return float(self._errors(shares, users)[0])

    def largest_frequency_error(
        self, *, users: int, confidence: float = 0.95, categories: int | None = None
    ) -> float:
        """Bound on the largest error of all estimated frequencies, for any histogram.

        All categories at once; a bound, proved in `shuffle_accountant.randomizers.error_bounds`.

        Args:
            users: number of messages, >= 1.
            confidence: probability that it holds, in (0, 1).
            categories: number of categories that are estimated; by default the randomizer's. It
                may be another where each category has messages of its own.

        Raises:
            ValueError: as `frequency_error`.
        """
        users = validate.integer(minimum=1, users=users)
        confidence = validate.open_unit(confidence=confidence)
        count = self.inputs if categories is None else categories
        count = validate.integer(minimum=1, categories=count)
        return self._largest_error(users, 1.0 - confidence, count)

    @abstractmethod
    def _errors(self, shares: Array, users: int) -> Array:
        """For each share, the largest standard deviation over categories of which it is one."""

    @abstractmethod
    def _largest_error(self, users: int, failure: float, count: int) -> float:
        """Bound on the largest error of some of the categories."""


class FrequencyEstimator(Frequencies):
    """Frequencies of categories from messages that say yes to some of them.

    The tally is the number of messages that say yes to each category, shape (k,). Standard errors
    take the estimated shares, cut off at 0 and 1, for the true ones.
    """

    categories: int

    @property
    @abstractmethod
    def yes_probabilities(self) -> tuple[float, float]:
        """Probabilities of a yes to one's own category, and to any one other category."""

    def _largest_error(self, users: int, failure: float, count: int) -> float:
        own, other = self._informative()
        off = largest_deviation(own, other, users=users, categories=count, failure=failure)
        return off / (users * (own - other))

    def _estimated(self, tally: ArrayLike, users: int) -> Estimate:
        counts = tally_of(tally, (self.categories,))
        wrong = counts[(counts < 0) | (counts > users)]
        if wrong.size:
            got = wrong[0].item()
            raise ValueError(f"tally must hold counts in [0, users = {users}], got {got!r}")
        own, other = self._informative()
        values = (counts / users - other) / (own - other)
        errors = self._errors(np.clip(values, 0.0, 1.0), users)
        return Estimate(values, errors, users, partial(self._ends_of_shares, counts, users))

    def _errors(self, shares: Array, users: int) -> Array:
        own, other = self._informative()
        variance = shares * (own * (1.0 - own)) + (1.0 - shares) * (other * (1.0 - other))
        return np.asarray(np.sqrt(variance / users) / (own - other))

    def _ends_of_shares(self, counts: Array, users: int, failure: float, together: bool) -> Ends:
        each = failure / counts.size if together else failure
        return shares_between(counts, *self.yes_probabilities, users=users, failure=each)

    def _informative(self) -> tuple[float, float]:
        """The probabilities of a yes; raises ValueError if they are the same."""
        own, other = self.yes_probabilities
        if not own > other:
            raise ValueError(
                f"eps0 must be > 0 for messages that say something, got {getattr(self, 'eps0', 0)}"
            )
        return own, other


def tally_of(tally: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """The tally as an array, its shape checked."""
    array = array_of(tally, f"tally must have shape {shape}")
    if array.dtype.kind not in "iuf":
        raise TypeError(f"tally must be numbers, got an array of {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"tally must have shape {shape}, got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"tally must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def estimated(
    values: Array, squares: Array, users: int, ends: Callable[[float, bool], Ends]
) -> Estimate:
    """Means of the messages' terms, with standard errors from the terms' spread.

    Their sample variance, from the means of their ``squares``, is on average the variance of their
    noise and the spread of the users' own values together: standard errors are not too small, and
    too large by that spread at most.
    """
    spread = np.maximum(squares - values**2, 0.0)
    errors = np.sqrt(spread / (users - 1)) if users > 1 else np.full(values.size, math.inf)
    return Estimate(values, errors, users, ends)


def ends_around(
    values: Array,
    largest_error: Callable[[float, int], float],
    cut: bool,
    failure: float,
    together: bool,
) -> Ends:
    """Intervals of one width for all values: `Estimate.ends`, once the first three are given.

    Args:
        values: shape (k,).
        largest_error: from a failure probability and a number of values to a bound on their largest
            error.
        cut: whether true values are shares, in [0, 1].
        failure: probability that the intervals do not hold, all at once if ``together``, or each.
    """
    off = largest_error(failure, values.size if together else 1)
    lower, upper = np.nextafter(values - off, -np.inf), np.nextafter(values + off, np.inf)
    return (np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)) if cut else (lower, upper)
