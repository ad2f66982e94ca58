"""Expected number of n balls in the fullest, or the emptiest, of k bins.

    E[max_j N_j] = sum over m >= 0 of P(not all N_j <= m),    N ~ Multinomial(n, theta).

Below n/k the chance is 1, so the sum begins there; it is smooth in m from there on (the counts of
points in a growing simplex), so that a hundred thresholds do for any n.

*Chances of a threshold.* Independent Poisson counts X_j of the means ``n theta_j``, given that they
add up to n, have the distribution of N, so that

    P(N_j <= m for all j) = P(X_j <= m for all j, sum_j X_j = n) / P(Poi(n) = n).

The numerator is a coefficient of a product of power series: a mean over L equidistant frequencies
t of ``prod_j Z_j(t)``, where ``Z_j(t) = E[e^(it(X_j - n theta_j)); X_j <= m]``. Totals n - L,
n + L, … are taken for n; with L = 13 sqrt(n) + 60 they have less than 1e-30 of the chance of n.

Z is the characteristic function of the whole distribution, whose logarithm is ``n theta_j (e^it - 1
- it)``, less the transform of the tail that is excluded. So rounding in the product over a trillion
bins is a multiple of their tails, which are small where the chance is not.

*Short cuts*, both exact to the stated accuracy: two bins have the closed form of the binomial
distribution's mean deviation; and bins of equal means lambda >= 10^8 have

    E[max] = lambda + e sqrt(lambda) + (E[M^2] - 1)/6 + O(1/sqrt(lambda)),

with M the maximum of that many standard normal variables and e = E[M] (the Cornish-Fisher expansion
of a Poisson count; the total changes the mean of what is conditioned on it alone). Bins that cannot
be the fullest, but with a chance below e^-50/n, are left without a threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.arguments import MOST_USERS, checked_sizes, law
from shuffle_accountant.numerics.binomial import (
    deviance,
    log_pmf,
    log_upper_tail,
    stirling_error,
)
from shuffle_accountant.numerics.fft import good_length, real_fft
from shuffle_accountant.numerics.probabilities import Side, Window, window
from shuffle_accountant.numerics.rounding import LIMITS, Array

Complex = NDArray[np.complex128]
Integers = NDArray[np.int64]

# Absolute error of a probability that all frequencies left out may cause.
_NEGLECTED = 1e-17
# Most terms of the direct transform per frequency of the fast one; above, the fast one is used. The
# cost of the first are its terms, of the second its length times the thresholds and a logarithm.
_DIRECT = 500
# Entries of the table of phases that its blocks share, and of arrays of thresholds by frequencies.
_BLOCK = 1 << 16

MOST_TIED_USERS = 10**10
"""Largest n for bins of means that differ by less than a few deviations, but do differ."""

# The next term of the expansion is -0.02/sqrt(mean) for 3 bins, -0.3 for 100, -2.7 for 1e8: here it
# is below 3e-12 of the mean.
_LARGE_MEAN = 1e8


def expected_maximum_load(*, users: int, categories: int) -> float:
    """``E[max_j N_j]`` for n balls that fall independently and uniformly into k bins.

    In [max(1, n/k), n]; absolute error below 1e-11 n/k.
    """
    users, categories = checked_sizes(users, categories)
    return _expected(users, [(1.0 / categories, categories)], Side.ABOVE)


def expected_minimum_load(*, users: int, categories: int) -> float:
    """``E[min_j N_j]`` for n balls that fall independently and uniformly into k bins.

    In [0, n/k]; absolute error below 1e-11 n/k.
    """
    users, categories = checked_sizes(users, categories)
    return _expected(users, [(1.0 / categories, categories)], Side.BELOW)


def expected_maximum_load_of(theta: ArrayLike, *, users: int) -> float:
    """``E[max_j N_j]`` for n balls that fall independently into bins by a distribution.

    In [n max(theta), n]; absolute error below 1e-11 n max(theta). Time grows with the number of
    different probabilities that may yield the fullest bin.

    Args:
        users: number n of balls, in [1, 2^53]; at most 10^10 if the largest probabilities differ
            but too little to identify the fullest bin.
    """
    return _expected_of(theta, users, Side.ABOVE)


def expected_minimum_load_of(theta: ArrayLike, *, users: int) -> float:
    """``E[min_j N_j]`` for n balls that fall independently into bins by a distribution.

    In [0, n min(theta)]; absolute error below 1e-11 n/k.

    Args:
        users: see `expected_maximum_load_of`, here of the smallest probabilities.
    """
    return _expected_of(theta, users, Side.BELOW)


def _expected_of(theta: ArrayLike, users: int, side: Side) -> float:
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    values, counts = np.unique(law(theta=theta), return_counts=True)
    return _expected(users, list(zip(values.tolist(), counts.tolist(), strict=True)), side)


def _expected(users: int, groups: list[tuple[float, int]], side: Side) -> float:
    """The expectation for bins given as pairs of a probability and how many bins have it."""
    chances = [chance for chance, _ in groups]
    extreme = max(chances) if side is Side.ABOVE else min(chances)
    if extreme == 0.0:
        return 0.0
    all_bins = sum(count for _, count in groups)
    if all_bins == 2:
        return _two_bins(users, max(chances), side)
    # P(N_i >= N_j) <= (1 - (sqrt(theta_i) - sqrt(theta_j))^2)^n for the less likely i (Chernoff)
    cut = 50.0 + math.log(users) + math.log(all_bins)
    rivals = [
        (chance, count)
        for chance, count in groups
        if users * (math.sqrt(extreme) - math.sqrt(chance)) ** 2 <= cut and chance > 0.0
    ]
    mean, number = users * extreme, sum(count for _, count in rivals)
    if number == 1:
        return mean
    if len(rivals) == 1 and mean >= _LARGE_MEAN:
        first, second = maximum_moments(number)
        spread = first * math.sqrt(mean)
        return mean + (spread if side is Side.ABOVE else -spread) + (second - 1.0) / 6.0
    if len(rivals) > 1 and users > MOST_TIED_USERS:
        raise ValueError(
            f"users must be <= {MOST_TIED_USERS} for probabilities as close as "
            f"{rivals[0][0]!r} and {rivals[1][0]!r}, got {users}"
        )
    return _by_thresholds(users, rivals, number == all_bins, side)


def _two_bins(users: int, larger: float, side: Side) -> float:
    """Two bins: ``n theta + E[(n - 2N)_+]`` for N ~ Bin(n, theta), theta the larger probability.

    By de Moivre ``E[(n theta - N); N <= h] = (h + 1)(1 - theta) P(N = h + 1)``.
    """
    half = (users + 1) // 2 - 1
    smaller = 1.0 - larger
    at = math.exp(float(log_pmf(half + 1.0, users, larger, smaller)))
    surplus = 2.0 * (half + 1) * smaller * at
    if larger > 0.5:
        below = math.exp(float(log_upper_tail(users - half, users, smaller, larger)))
        surplus = max(surplus - users * (larger - smaller) * below, 0.0)
    if side is Side.ABOVE:
        return users * larger + surplus
    return max(users * smaller - surplus, 0.0)


def _by_thresholds(users: int, rivals: list[tuple[float, int]], every: bool, side: Side) -> float:
    """The sum over thresholds; ``every`` says whether the rivals are all bins there are."""
    bins = [Bins(window(users * chance), count) for chance, count in rivals]
    number = sum(count for _, count in rivals)
    free = 0.0 if every else max(users - math.fsum(b.law.mean * b.count for b in bins), 0.0)
    occupancy = Occupancy(users, bins, free, side)

    def missing(thresholds: Integers) -> Array:
        return 1.0 - occupancy.chances(thresholds)

    first = min(b.law.first for b in bins)
    last = max(b.law.first + b.law.masses.size for b in bins)
    thresholds = np.arange(first, min(last, users) + 1)
    excluded, allowed = np.zeros(thresholds.size), np.zeros(thresholds.size)
    step, within = (1, Side.BELOW) if side is Side.ABOVE else (-1, Side.ABOVE)
    for b in bins:
        excluded += b.count * b.law.tail(thresholds, side)
        kept = b.law.tail(thresholds + step, within)
        allowed -= b.count * np.log(np.maximum(kept, 1e-300))
    # P(N_j <= m for all j) <= prod P(X_j <= m)/P(Poi(n) = n), and the bins without a threshold must
    # take what is left over; below e^-38 a probability counts as 0
    impossible = allowed > 38.0 + 0.5 * math.log(users)
    impossible |= _tail_exponent(users - thresholds * number, free, side) > 38.0
    certain = excluded < 1e-17  # sum of the excluded tails
    if side is Side.ABOVE:
        low = first + int(np.count_nonzero(impossible))
        high = first + int(np.count_nonzero(~certain)) - 1
        return low + sum_over_integers(missing, low, high, tolerance=1e-12)
    low = max(first + int(np.count_nonzero(certain)), 1)
    high = first + int(np.count_nonzero(~impossible)) - 1
    return max(high - sum_over_integers(missing, low, high, tolerance=1e-12), 0.0)


def _tail_exponent(counts: Integers, mean: float, side: Side) -> Array:
    """Minus the log of Chernoff's bound on P(N >= count), or P(N <= count) for the side BELOW.

    N is binomial, or Poisson, of the given mean.
    """
    far = counts > mean if side is Side.ABOVE else counts < mean
    if mean == 0.0:
        return np.where(far, np.inf, 0.0)
    exponent = deviance(np.maximum(counts, 0).astype(np.float64), mean)
    return np.where(counts < 0, np.inf if side is Side.BELOW else 0.0, np.where(far, exponent, 0.0))


@cache
def maximum_moments(count: int) -> tuple[float, float]:
    """``(E[M], E[M^2])`` for the maximum M of ``count`` independent N(0, 1) variables."""
    from scipy.special import log_ndtr

    # The density is analytic and vanishes at both ends, where the trapezoidal rule converges
    # geometrically: at this step to the last place, for k up to 2^53.
    step, reach = 1.0 / 64.0, 40.0
    x = np.arange(-reach, reach + step, step)
    exponent = math.log(count) - 0.5 * math.log(2.0 * math.pi) - 0.5 * x * x
    density = np.exp(exponent + (count - 1) * log_ndtr(x))
    return step * math.fsum(x * density), step * math.fsum(x * x * density)


def sum_over_integers(
    function: Callable[[Integers], Array], first: int, last: int, *, tolerance: float
) -> float:
    """``function(first) + function(first + 1) + … + function(last)``.

    The function is sampled near the Chebyshev points of the range, more of them each time, until a
    polynomial with a third fewer coefficients than samples passes within the absolute tolerance of
    all of them; the polynomial is summed. A function that is not smooth is summed as it is.
    """
    if last < first:
        return 0.0
    for size in (96, 192, 384):
        if last - first < 2 * size:
            break
        points = 0.5 * (first + last) + 0.5 * (last - first) * np.cos(
            math.pi * (np.arange(size) + 0.5) / size
        )
        # near the ends points may share an integer, and one of them is left
        sampled = np.unique(np.rint(points).astype(np.int64))
        values = function(sampled)
        fit = np.polynomial.Chebyshev.fit(
            sampled, values, 2 * sampled.size // 3 - 1, domain=[first, last]
        )
        if np.max(np.abs(fit(sampled) - values)) <= tolerance:
            starts = range(first, last + 1, LIMITS.at_once)
            chunks = (np.arange(start, min(start + LIMITS.at_once, last + 1)) for start in starts)
            return math.fsum(float(fit(chunk).sum()) for chunk in chunks)
    return math.fsum(function(np.arange(first, last + 1)))


@dataclass(frozen=True, slots=True)
class Bins:
    """Bins that balls hit equally often: the Poisson law of one, and how many there are."""

    law: Window
    count: int


def log_characteristic(mean: float, angles: Array) -> Complex:
    """``mean (e^it - 1 - it)``: log-characteristic function of a centred Poisson law."""
    square = angles * angles
    factor = np.ones_like(angles)
    # 2k (2k + 1), from the last that matters below t = 1/2
    for denominator in (12 * 13, 10 * 11, 8 * 9, 6 * 7, 4 * 5):
        factor = 1.0 - square / denominator * factor
    # the difference cancels for small t, the series does not
    skew = np.where(angles < 0.5, -angles * square / 6.0 * factor, np.sin(angles) - angles)
    return np.asarray(mean * (-2.0 * np.sin(0.5 * angles) ** 2 + 1j * skew))


class Occupancy:
    """Chances of thresholds for some bins: that none has more (ABOVE), or fewer (BELOW), than m.

    ``free`` >= 0 is the mean number of balls in all other bins.
    """

    def __init__(self, users: int, bins: Sequence[Bins], free: float, side: Side) -> None:
        self._bins, self._free, self._side = tuple(bins), free, side
        self._length = good_length(math.ceil(13.0 * math.sqrt(users)) + 60)
        self._scale = math.exp(float(stirling_error(float(users))))
        self._scale *= math.sqrt(2.0 * math.pi * users) / self._length

    def chances(self, thresholds: Integers) -> Array:
        """The chance for each of some distinct ascending thresholds; absolute error some 1e-14."""
        # in the order of growing tails, so that each adds to the one before
        ordered = thresholds[::-1] if self._side is Side.ABOVE else thresholds
        count = self._frequencies(ordered[-1:])
        angles = np.asarray(np.arange(count) * (2.0 * math.pi / self._length), dtype=np.float64)
        weights = np.full(count, 2.0)
        weights[0] = 1.0
        if 2 * (count - 1) == self._length:
            weights[-1] = 1.0
        terms = count * sum(bins.law.masses.size for bins in self._bins)
        transform = self._direct if terms <= _DIRECT * self._length else self._fast
        rest = log_characteristic(self._free, angles)
        wholes = [_Whole(bins.law.mean, angles) for bins in self._bins]
        tails = [transform(bins.law, ordered, angles) for bins in self._bins]
        found = np.empty(ordered.size)
        batch = max(_BLOCK // count, 1)
        for start in range(0, ordered.size, batch):
            part = found[start : start + batch]
            exponent = np.tile(rest, (part.size, 1))
            for bins, whole, tail in zip(self._bins, wholes, tails, strict=True):
                exponent += bins.count * whole.log_less(np.stack([next(tail) for _ in part]))
            part[:] = np.sum(weights * np.exp(exponent).real, axis=1)
        chances = np.clip(self._scale * found, 0.0, 1.0)
        return chances[::-1] if self._side is Side.ABOVE else chances

    def _frequencies(self, worst: Integers) -> int:
        """Number of frequencies that matter, 0 included, at the threshold with the largest tails.

        |Z(t)| is at most |characteristic function| + tail and, because a cut Poisson distribution
        is unimodal, at most (largest mass)/sin(t/2), by parts. Both fall in t, so the first
        frequency of a block bounds the others.
        """
        most = self._length // 2
        starts = np.unique(np.rint(np.geomspace(1, most + 1, 400)).astype(np.int64))
        half = math.pi / self._length * starts[:-1]
        sine = np.sin(half)
        exponent = -2.0 * self._free * sine * sine
        for bins in self._bins:
            law = bins.law
            kept = np.exp(-2.0 * law.mean * sine * sine) + law.tail(worst, self._side)
            factor = np.minimum(kept, law.masses.max() / sine)
            exponent += bins.count * np.log(np.minimum(factor, 1.0))
        blocks = 2.0 * self._scale * np.diff(starts) * np.exp(exponent)
        left = np.cumsum(blocks[::-1])[::-1]  # from each start on
        small = np.flatnonzero(left <= _NEGLECTED)
        return int(starts[small[0]]) if small.size else most + 1

    def _edge(self, law: Window, threshold: int) -> int:
        """Place in the window of a law where the counts that a threshold excludes begin or end."""
        beyond = threshold + 1 if self._side is Side.ABOVE else threshold
        return min(max(beyond - law.first, 0), law.masses.size)

    def _direct(self, law: Window, ordered: Integers, angles: Array) -> Iterator[Complex]:
        """Transforms of growing tails, at each angle by adding up what is new, block by block."""
        block = min(max(_BLOCK // angles.size, 1), law.masses.size)
        # real and imaginary parts side by side, for products of real arrays
        table = np.exp(1j * np.outer(np.arange(block), angles)).view(np.float64)
        total = np.zeros(angles.size, dtype=np.complex128)
        before = law.masses.size if self._side is Side.ABOVE else 0
        for threshold in ordered.tolist():
            edge = self._edge(law, threshold)
            low, high = min(edge, before), max(edge, before)
            for start in range(low, high, block):
                part = law.masses[start : min(start + block, high)]
                shift = np.exp(1j * (law.first + start - law.mean) * angles)
                # einsum, because the threads of a BLAS cost more than such small products
                found = np.einsum("i,ij->j", part, table[: part.size])
                total = total + shift * found.view(np.complex128)
            before = edge
            yield total

    def _fast(self, law: Window, ordered: Integers, angles: Array) -> Iterator[Complex]:
        """Transforms of tails, at all frequencies by the FFT of what is excluded."""
        place = np.arange(law.masses.size) % self._length
        shift = np.exp(1j * (law.first - law.mean) * angles)
        for threshold in ordered.tolist():
            edge = self._edge(law, threshold)
            part = slice(edge, None) if self._side is Side.ABOVE else slice(0, edge)
            folded = np.bincount(place[part], law.masses[part], self._length).astype(np.float64)
            yield np.conj(real_fft(folded)[: angles.size]) * shift


class _Whole:
    """The characteristic function of a distribution, and its log, at some angles."""

    def __init__(self, mean: float, angles: Array) -> None:
        self.log = log_characteristic(mean, angles)
        self.value = np.exp(self.log)
        # how many angles have a value above a tenth; it falls with the angle
        self.large = int(np.count_nonzero(self.log.real > math.log(0.1)))

    def log_less(self, tail: Complex) -> Complex:
        """``log(value - tail)``, but for multiples of 2 pi i; shape (thresholds, angles).

        Good to units in the last place of the tail, or else small: then its power vanishes.
        """
        result = np.empty_like(tail)
        few = self.large
        difference = self.value[few:] - tail[:, few:]
        difference[difference == 0.0] = 1e-300
        result[:, few:] = np.log(difference)
        ratio = -tail[:, :few] / self.value[:few]
        near = np.abs(ratio) <= 0.5
        x, y = np.where(near, ratio.real, 0.0), np.where(near, ratio.imag, 0.0)
        # NumPy's log1p of complex numbers rounds 1 + x first
        close = 0.5 * np.log1p(x * (2.0 + x) + y * y) + 1j * np.arctan2(y, 1.0 + x)
        apart = np.where(near | (ratio == -1.0), 1.0, 1.0 + ratio)
        vanishing = np.where(ratio == -1.0, -700.0, 0.0)
        result[:, :few] = self.log[:few] + np.where(near, close, np.log(apart) + vanishing)
        return result
