"""Expected number of n balls in the fullest, or the emptiest, of k bins.

    E[max_j N_j] = sum over m >= 0 of P(not all N_j <= m),    N ~ Multinomial(n, theta),

with the chances of `shuffle_accountant.leakage.qif.occupancy`. Below n/k the chance is 1, so the
sum begins there; it is smooth in m from there on (the counts of points in a growing simplex), so
that a hundred thresholds do for any n.

Beside this there are two short cuts, both exact to the stated accuracy: two bins have the closed
form of the binomial distribution's mean deviation; and bins of equal means lambda >= 10^8 have

    E[max] = lambda + e sqrt(lambda) + (E[M^2] - 1)/6 + O(1/sqrt(lambda)),

with M the maximum of that many standard normal variables and e = E[M] (the Cornish-Fisher expansion
of a Poisson count; the total changes the mean of what is conditioned on it alone). Bins that cannot
be the fullest, but with a chance below e^-50/n, are left without a threshold.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.arguments import MOST_USERS, checked_sizes, law
from shuffle_accountant.leakage.qif.occupancy import Bins, Occupancy, sum_over_integers
from shuffle_accountant.numerics.binomial import deviance, log_pmf, log_upper_tail
from shuffle_accountant.numerics.probabilities import Side, window
from shuffle_accountant.numerics.rounding import Array

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

    def missing(thresholds: NDArray[np.int64]) -> Array:
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


def _tail_exponent(counts: NDArray[np.int64], mean: float, side: Side) -> Array:
    """Minus the log of Chernoff's bound on P(N >= count), or P(N <= count) for the side BELOW.

    N is binomial of the given mean, or Poisson; 0 where the bound is 1, inf where no N can be.
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
