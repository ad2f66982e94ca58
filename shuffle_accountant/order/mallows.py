"""Permutations, their distances from the identity, and Mallows distributions.

There a permutation at distance d from the identity has mass ~ e^(-theta d).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.compiled import compiled
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.order.arguments import IntArray, RandomSource, random_source
from shuffle_accountant.order.arguments import permutation as checked_permutation

MOST_USERS = 10**8
"""Largest number of users: longer permutations do not fit into memory."""


def kendall(permutation: IntArray) -> int:
    """Number of inversions: pairs of entries of which the larger stands first."""
    count = 0
    for size, pair, right in _pairs_of_blocks(permutation.size):
        key = pair * permutation.size + permutation
        left = np.sort(key[~right])
        # entries of left blocks up to and including this pair's, less those that are smaller
        upto = np.minimum((pair[right] + 1) * size, left.size)
        count += int((upto - np.searchsorted(left, key[right])).sum())
    return count


def _pairs_of_blocks(n: int) -> Iterator[tuple[int, IntArray, NDArray[np.bool_]]]:
    """Sizes of blocks, doubled until they hold all places; of each place the pair, and its side."""
    place, size = np.arange(n), 1
    while size < n:
        yield size, place // (2 * size), (place // size) % 2 == 1
        size *= 2


def hamming(permutation: IntArray) -> int:
    """Number of entries that are not in their own place."""
    return int(np.count_nonzero(permutation != np.arange(permutation.size)))


def cayley(permutation: IntArray) -> int:
    """Length less the number of cycles: how many transpositions sort it."""
    # each entry learns the smallest entry of its cycle, from twice as far along it at each step
    smallest, ahead = np.arange(permutation.size), permutation
    for _ in range(permutation.size.bit_length()):
        smallest = np.minimum(smallest, smallest[ahead])
        ahead = ahead[ahead]
    return int(np.count_nonzero(smallest != np.arange(permutation.size)))


def footrule(permutation: IntArray) -> int:
    """Sum of displacements."""
    return int(np.abs(permutation - np.arange(permutation.size)).sum())


def spearman(permutation: IntArray) -> int:
    """Sum of squared displacements."""
    return int(((permutation - np.arange(permutation.size)) ** 2).sum())


def ulam(permutation: IntArray) -> int:
    """Length less that of the longest increasing subsequence, by patience sorting."""
    tops: list[int] = []
    for entry in permutation.tolist():
        pile = bisect_left(tops, entry)
        if pile == len(tops):
            tops.append(entry)
        else:
            tops[pile] = entry
    return permutation.size - len(tops)


DISTANCES: dict[str, Callable[[IntArray], int]] = {
    distance.__name__: distance for distance in (kendall, hamming, cayley, footrule, spearman, ulam)
}


def decode(codes: IntArray) -> IntArray:
    """The permutation whose i-th entry is the ``codes[i]``-th smallest value not used before."""
    loop = compiled(_loop)
    if loop is _loop:  # Python itself would take a minute at a million
        return decode_by_doubling(codes)
    levels = int(codes.size - 1).bit_length()
    # node v counts the unused values below its left child; all leaves beyond n-1 stay unused
    unused = np.empty(1 << levels, dtype=np.int32)
    for level in range(levels):
        unused[1 << level : 2 << level] = 1 << (levels - 1 - level)
    out = np.empty(codes.size, dtype=np.int64)
    loop(codes, unused, levels, out)
    return out


def _loop(
    codes: IntArray, unused: np.ndarray[tuple[int], np.dtype[np.int32]], levels: int, out: IntArray
) -> None:
    """Down a tree over the values, one user after the other."""
    for i in range(codes.size):
        code = codes[i]
        node = 1
        for _ in range(levels):
            left = unused[node]
            # without a branch: which way a code goes cannot be predicted
            right = int(code >= left)
            unused[node] = left - 1 + right
            code -= left * right
            node = 2 * node + right
        out[i] = node - (1 << levels)


def decode_by_doubling(codes: IntArray) -> IntArray:
    """`decode` by NumPy, in O(n log² n): blocks of entries are joined in pairs.

    Within a block, entries are counted among the values that are unused when the block begins. An
    entry x of the right block is then value x + t of the left block's count, where t is how many
    of the left block's values v_0 < v_1 < ... have ``v_k - k <= x``. One search serves all pairs.
    """
    n, values = codes.size, codes.astype(np.int64)
    for size, pair, right in _pairs_of_blocks(n):
        left = np.sort(values[~right] + pair[~right] * n)
        passed = left - np.arange(left.size) % size
        found = np.searchsorted(passed, values[right] + pair[right] * n, side="right")
        values[right] += found - pair[right] * size
    return values


@dataclass(frozen=True)
class Mallows(ABC):
    """A distribution on permutations s of 0..n-1 with mass ``exp(-theta d(s)) / psi``.

    d is a distance from the identity. Sampling is exact up to the rounding of double precision; it
    is not hardened against attacks on floating-point samplers.

    Args:
        theta: concentration, >= 0. 0 is the uniform distribution, infinity the identity alone.
    """

    distance: ClassVar[str]

    users: int
    theta: float

    def __post_init__(self) -> None:
        users = validate.integer(minimum=1, maximum=MOST_USERS, users=self.users)
        object.__setattr__(self, "users", users)
        object.__setattr__(self, "theta", validate.nonnegative(theta=self.theta))

    def sample(self, rng: RandomSource = None) -> IntArray:
        """A random permutation in one-line form, shape (n,).

        Args:
            rng: generator or seed; None is the operating system's source.
        """
        source = random_source(rng)
        if self._concentration == 0.0:
            return source.permutation(self.n)
        if self._concentration == math.inf:
            return np.arange(self.n)
        return self._draw(source)

    def logpmf(self, permutation: ArrayLike) -> float:
        """Natural logarithm of a permutation's mass; -inf if it has none."""
        distance = DISTANCES[self.distance](checked_permutation(self.n, permutation=permutation))
        # at infinite theta, 0 times infinity is meant to be 0
        return -self.theta * distance - self.log_psi() if distance else -self.log_psi()

    @property
    def n(self) -> int:
        """Number of users."""
        return self.users

    @abstractmethod
    def log_psi(self) -> float:
        """Natural logarithm of the normaliser, the sum of ``exp(-theta d(s))`` over all s."""

    @abstractmethod
    def mean_distance(self) -> float:
        """Expected distance from the identity."""

    @abstractmethod
    def var_distance(self) -> float:
        """Variance of the distance from the identity."""

    @property
    def nearly_uniform(self) -> bool:
        """Whether so little of the order survives that a uniform shuffle would be no worse.

        That less than a quarter of the entries stay, of which there are about e^theta; for Cayley's
        distance, that fewer than one in four of the first n/4 users begin a cycle of their own.
        """
        return self.theta < math.log(self.n / 4.0) if self.n > 4 else self.theta == 0.0

    @abstractmethod
    def _draw(self, rng: np.random.Generator) -> IntArray:
        """A permutation at a finite positive concentration."""

    @property
    def _concentration(self) -> float:
        """Theta, or its limit, 0 or infinity, where doubles cannot distinguish them."""
        # a distance is at most n², and masses are equal to the last digit; beyond 1000 + log(n) no
        # double is small enough for the mass of all permutations but the identity
        if self.theta * self.n**2 < 1e-18:
            return 0.0
        return math.inf if self.theta > 1000.0 + 2.0 * math.log(self.n) else self.theta


# B_2k / (2k)!, for k = 1, ..., 12: x/(e^x - 1) is 1 - x/2 + the sum of these times x^2k.
# At x <= 1 terms fall by (2 pi)², so twelve leave less than 1e-19.
_BERNOULLI = np.array([
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138, -236364091 / 2730,
]) / [float(math.factorial(2 * k)) for k in range(1, 13)]  # fmt: skip


class MallowsKendall(Mallows):
    """Mass proportional to ``exp(-theta * inversions)``; entries move about ``1/theta`` places.

    The numbers of smaller entries behind each entry are independent and (truncated) geometric:
    inserted one after the other they give the permutation, in O(n log n).
    """

    distance: ClassVar[str] = "kendall"

    def log_psi(self) -> float:
        """Natural logarithm of the normaliser: of the product over i <= n of (1-q^i)/(1-q)."""
        theta, i = self._concentration, np.arange(1.0, self.n + 1.0)
        if theta == 0.0:
            return math.lgamma(self.n + 1.0)
        if theta == math.inf:
            return 0.0
        if theta < 1.0:
            return float(np.log(np.expm1(-theta * i) / math.expm1(-theta)).sum())
        return float((np.log1p(-np.exp(-theta * i)) - math.log1p(-math.exp(-theta))).sum())

    def mean_distance(self) -> float:
        """Expected number of inversions."""
        if self._concentration == 0.0:
            return self.n * (self.n - 1) / 4.0
        # 1/(e^x - 1) is 1/x - 1/2 + rest(x), and 1/theta cancels from the differences
        return self._summed(1, 2.0, _odd)

    def var_distance(self) -> float:
        """Variance of the number of inversions."""
        if self._concentration == 0.0:
            return self.n * (self.n - 1) * (2 * self.n + 5) / 72.0
        # e^x/(e^x - 1)² is 1/x² - 1/12 + rest(x), and 1/theta² cancels from the differences
        return self._summed(2, 12.0, _even)

    def _summed(self, power: int, divisor: float, rest: Callable[[Array], Array]) -> float:
        """Sum over i <= n of ``f(theta) - i^power f(i theta)``, f = g (1 + g)^(power - 1).

        Here g = 1/(e^x - 1); divisor and rest are for small x.
        """
        if self._concentration == math.inf:
            return 0.0
        theta, i = np.array([self._concentration]), np.arange(1.0, self.n + 1.0)
        x, scale = theta * i, i**power
        near = x <= 1.0
        out = np.empty(self.n)
        at = rest(theta)[0] if theta[0] <= 1.0 else 0.0
        out[near] = (scale[near] - 1.0) / divisor + at - scale[near] * rest(x[near])
        # as e^-x / (1 - e^-x), which does not overflow
        once, far = (np.exp(-one) / -np.expm1(-one) for one in (theta, x[~near]))
        first = once * (1.0 + once) ** (power - 1)
        out[~near] = first - scale[~near] * far * (1.0 + far) ** (power - 1)
        return float(out.sum())

    @property
    def nearly_uniform(self) -> bool:
        """Whether entries move by more than a quarter of the length: ``1/theta > n/4``."""
        return self.theta * self.n < 4.0

    def _draw(self, rng: np.random.Generator) -> IntArray:
        theta = self._concentration
        choices = np.arange(self.n, 0, -1)
        # the inverse of P(c < k) = (1 - q^k) / (1 - q^choices)
        codes = rng.random(self.n)
        codes *= np.expm1(-theta * choices)
        np.log1p(codes, out=codes)
        codes /= -theta
        return decode(np.minimum(codes.astype(np.int64), choices - 1))


def _odd(x: Array) -> Array:
    """1/(e^x - 1) - 1/x + 1/2 for 0 < x <= 1."""
    return np.asarray(np.polynomial.polynomial.polyval(x * x, _BERNOULLI) * x)


def _even(x: Array) -> Array:
    """e^x/(e^x - 1)² - 1/x² + 1/12 for 0 < x <= 1: the derivative of `_odd`, subtracted."""
    terms = _BERNOULLI * -(2.0 * np.arange(1, _BERNOULLI.size + 1) - 1.0)
    return np.asarray(np.polynomial.polynomial.polyval(x * x, terms[1:]) * x * x)


class MallowsHamming(Mallows):
    """Mass proportional to ``exp(-theta * entries moved)``, sampled in O(n) without derangements.

    Write the factor e^-theta of a moved entry as q, and the factor 1 of a fixed one as q + (1-q).
    Expanded, that is a mixture: pin f entries, permute the others uniformly (which may fix some
    more). f is Poisson with mean ``e^theta - 1``, given that it is at most n, and the pinned
    entries are any f.
    """

    distance: ClassVar[str] = "hamming"

    def log_psi(self) -> float:
        """Natural logarithm of the normaliser."""
        from scipy.special import gammaincc

        theta, n = self._concentration, self.n
        if theta == 0.0:
            return math.lgamma(n + 1.0)
        if theta == math.inf:
            return 0.0
        if self._log_mean < math.log(n):  # the Poisson law reaches less than n half of the time
            mean = math.expm1(theta)
            return math.lgamma(n + 1.0) - theta * n + mean + math.log(float(gammaincc(n + 1, mean)))
        _, relative = self._free
        # masses relative to that of all entries pinned, which is (1-q)^n
        # (round-off may not take the normaliser below the identity's one)
        return max(n * math.log1p(-math.exp(-theta)) + math.log(float(relative.sum())), 0.0)

    def mean_distance(self) -> float:
        """Expected number of entries moved: one less than are permuted, if any are."""
        free, mass = self._law
        return float((np.maximum(free - 1, 0) * mass).sum())

    def var_distance(self) -> float:
        """Variance of the number of entries moved."""
        free, mass = self._law
        squares = (np.maximum(free - 1, 0) - self.mean_distance()) ** 2
        # a uniform permutation of two or more has one fixed entry on average, with variance one
        return float((squares * mass).sum() + mass[free >= 2].sum())

    def _draw(self, rng: np.random.Generator) -> IntArray:
        free, mass = self._law
        # inversion by hand: it draws one number, whatever the length of the distribution
        place = int(np.searchsorted(np.cumsum(mass), rng.random(), side="right"))
        count = int(free[min(place, free.size - 1)])
        movers = rng.permutation(self.n)[:count]
        out = np.arange(self.n)
        out[np.sort(movers)] = movers  # a uniform choice, in an order that is uniform too
        return out

    @property
    def _log_mean(self) -> float:
        """Logarithm of ``e^theta - 1``."""
        return self._concentration + math.log(-math.expm1(-self._concentration))

    @cached_property
    def _free(self) -> tuple[IntArray, Array]:
        """Numbers of entries that are not pinned, ascending, and masses relative to the largest."""
        if self._concentration == 0.0:
            return np.array([self.n]), np.array([1.0])
        if self._concentration == math.inf:
            return np.array([0]), np.array([1.0])
        log_mean, n = self._log_mean, self.n
        mode = n if log_mean >= math.log(n) else int(math.exp(log_mean))
        reach = 40 + int(10.0 * math.sqrt(mode))  # beyond is less than 1e-18 of a Poisson law
        above = np.arange(mode + 1, min(n, mode + reach) + 1)
        below = np.arange(mode, max(0, mode - reach), -1)
        up = np.cumsum(log_mean - np.log(above))  # P(f) / P(f-1) = mean / f
        down = np.cumsum(np.log(below) - log_mean)
        pinned = np.concatenate([above[::-1], [mode], below - 1])
        return n - pinned, np.exp(np.concatenate([up[::-1], [0.0], down]))

    @property
    def _law(self) -> tuple[IntArray, Array]:
        free, relative = self._free
        return free, relative / relative.sum()


class MallowsCayley(Mallows):
    """Mass proportional to ``exp(theta * cycles)``: Ewens' distribution with parameter e^theta.

    A uniform listing of the entries is cut into cycles; with i entries still to come, the cycle
    closes with probability ``1 / (1 + i e^-theta)`` (Feller's coupling), independently. O(n).
    """

    distance: ClassVar[str] = "cayley"

    def log_psi(self) -> float:
        """Natural logarithm of the normaliser: of the product over i < n of 1 + i e^-theta."""
        return float(np.log1p(self._weights()).sum())

    def mean_distance(self) -> float:
        """Expected length less the number of cycles."""
        weights = self._weights()
        return float((weights / (1.0 + weights)).sum())

    def var_distance(self) -> float:
        """Variance of the number of cycles."""
        weights = self._weights()
        return float((weights / (1.0 + weights) ** 2).sum())

    def _weights(self) -> Array:
        """``i e^-theta`` for i = 0, ..., n-1."""
        return np.arange(float(self.n)) * math.exp(-self.theta)

    def _draw(self, rng: np.random.Generator) -> IntArray:
        listing = rng.permutation(self.n)
        closes = rng.random(self.n) * (1.0 + self._weights()[::-1]) < 1.0
        closes[-1] = True
        # each entry leads to the one after it, the last of a cycle to the cycle's first
        place = np.arange(self.n)
        begins = np.concatenate([[True], closes[:-1]])
        first = np.maximum.accumulate(np.where(begins, place, 0))
        out = np.empty(self.n, dtype=np.int64)
        out[listing] = listing[np.where(closes, first, np.minimum(place + 1, self.n - 1))]
        return out


LAWS: dict[str, type[Mallows]] = {
    law.distance: law for law in (MallowsKendall, MallowsHamming, MallowsCayley)
}
"""Each law by its distance."""
