"""The product of independent likelihood ratios: several steps that all use the record.

The logarithms add up, on a lattice of them. A ratio between two lattice points is split over both
so that its mass and its mean are kept (PESSIMISTIC), neighbouring ratios are merged until their
mean is on the lattice (OPTIMISTIC): up or down in convex order, which products of independent
positive values keep.

Ratios of Gaussian steps whose noise differs: a sum of independent lognormal values.

The mean of the ratios of t steps, step i with noise of deviation sigma_i, is the likelihood ratio
of an epoch in which a record is dealt to one of them; see `losses.steps.mean_ratio`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np

from shuffle_accountant.lattice.discretize import discretize
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.positive import LOST, SCALE, positive_sum
from shuffle_accountant.losses.settings import COMBINED, PRODUCT_RATIO
from shuffle_accountant.losses.steps.gaussian import GaussianRatio
from shuffle_accountant.losses.steps.mean_ratio import RatioSource
from shuffle_accountant.losses.steps.table_ratio import least_profile
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    BELOW_ONE,
    ELEMENTARY,
    LIMITS,
    NORMAL,
    Array,
    Bound,
    roundings,
    share,
)
from shuffle_accountant.sums.doubling import SumLaw, add, power


def gathered_noise(
    counts: Sequence[tuple[float, int]], side: Bound
) -> tuple[tuple[float, int], ...]:
    """At most 32 deviations with counts, from ascending ones with the steps that have them.

    PESSIMISTIC lowers deviations, so that an epoch reveals more; OPTIMISTIC raises them.
    """
    if len(counts) <= PRODUCT_RATIO.most:
        return tuple(counts)
    low, high = counts[0][0], counts[-1][0]
    width = math.log(high / low) / PRODUCT_RATIO.most
    end = min if side is Bound.PESSIMISTIC else max
    cells = groupby(
        counts, lambda one: min(int(math.log(one[0] / low) / width), PRODUCT_RATIO.most - 1)
    )
    found = [tuple(zip(*cell, strict=True)) for _, cell in cells]
    return tuple((end(sigmas), sum(numbers)) for sigmas, numbers in found)


@dataclass(frozen=True)
class UnequalRatios(RatioSource):
    """Distribution of the sum of likelihood ratios of Gaussian steps with different noise.

    Parts are deviations of the noise with the numbers of steps that have them. What is asked about
    one ratio is answered about that of a step drawn uniformly at random.
    """

    parts: tuple[tuple[float, int], ...]

    @property
    def deviation(self) -> float:
        """Root of the mean variance of the ratios."""
        return math.sqrt(self._mean([GaussianRatio(one).deviation ** 2 for one, _ in self.parts]))

    @property
    def complete(self) -> bool:
        """Cells hold all but the tails, of P and of Q."""
        return True

    def ratios(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Not defined: steps differ, and only the sum of all of them is used."""
        raise NotImplementedError("steps with different noise have no common ratio")

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Distribution of the sum over all steps; arguments as in `RatioSource.sums`."""
        budget = 0.25 * tail / len(self.parts)
        laws = []
        for sigma, count in self.parts:
            one = GaussianRatio(sigma).ratios(side, users=users, width=width, tail=budget)
            laws.append(power(one, count, side, width=width, tail=budget))
        # pair by pair, so that a value goes through few additions
        while len(laws) > 1:
            pairs = zip(laws[::2], laws[1::2], strict=False)
            added = [add(a, b, side, width=width, budget=budget, users=users) for a, b in pairs]
            laws = added + laws[len(laws) - len(laws) % 2 :]
        return laws[0]

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        """Bound of ``H_alpha`` of the message of a step drawn at random and then revealed."""
        each = [GaussianRatio(one).alone(epsilon, side, swapped) for one, _ in self.parts]
        slack = roundings(2 * len(each) + 4)
        return self._mean(each) * (1.0 + slack if side is Bound.PESSIMISTIC else 1.0 - slack)

    def below(self, log_ratio: float) -> float:
        """Upper bound of the Q-probability of ratios with no larger logarithm, for any step."""
        return max(GaussianRatio(one).below(log_ratio) for one, _ in self.parts)

    def _mean(self, values: Sequence[float]) -> float:
        """Mean over the steps of a value for each deviation."""
        steps = sum(count for _, count in self.parts)
        shares = zip(self.parts, values, strict=True)
        return math.fsum(count * value for (_, count), value in shares) / steps


@dataclass(frozen=True)
class ProductRatio(RatioSource):
    """Distribution of a product of ``passes >= 2`` independent likelihood ratios."""

    one: RatioSource
    passes: int

    @property
    def deviation(self) -> float:
        """Standard deviation: second moments are multiplied."""
        log_second = self.passes * math.log1p(min(self.one.deviation, 1e150) ** 2)
        return math.sqrt(math.expm1(min(log_second, 690.0)))

    @property
    def largest(self) -> float:
        """Largest log-ratio of the product, nats: that of one ratio times the number of passes."""
        return self.passes * self.one.largest * (1.0 + roundings(2))

    @property
    def infinite(self) -> float:
        """Lower bound of the P-probability that at least one ratio is infinite."""
        none = self.passes * math.log1p(-min(self.one.infinite, BELOW_ONE))
        return -math.expm1(none) * (1.0 - roundings(2 * ELEMENTARY + 2))

    def ratios(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Distribution of the product on its lattice; the arguments after ``side`` are ignored."""
        return _law(self, side)

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        """Bound of the divergence of one product, a sum over the lattice, in either order."""
        if epsilon >= self.largest:
            return 0.0
        return _law(self, side).divergence(epsilon, side, swapped)


@lru_cache(maxsize=32)
def _law(ratio: ProductRatio, side: Bound) -> SumLaw:
    one = ratio.one.ratios(side, users=1, width=PRODUCT_RATIO.width, tail=LIMITS.underflow)
    passes, upper = ratio.passes, side is Bound.PESSIMISTIC
    sign = 1.0 if upper else -1.0
    held = one.value > 0.0
    value, q = one.value[held], one.mass[held]
    loss, p = rounded(np.log(value), ELEMENTARY), rounded(q * value)
    spacing, first, last = _lattice(loss, p, q, passes, side)
    infinite = one.lost_gain if upper else ratio.one.infinite
    # each logarithm is rounded, as are a product's and what is computed from it
    loss_error = one.moved + roundings(2 * ELEMENTARY) * (1.0 + float(np.max(np.abs(loss))))
    grid = discretize(PldAtoms(side, p, loss, infinite, 0.0, 0.0, loss_error), spacing)
    first = max(first, passes * grid.offset)
    last = min(last, passes * (grid.offset + grid.mass.size - 1))
    law = positive_sum([(grid, passes)], side, first, last)
    logs = spacing * (law.offset + np.arange(law.scaled.size, dtype=np.float64))
    scaled, held = law.scaled, law.scaled > 0.0
    # Q-masses of all that underflow took away
    unseen = float(np.max(np.exp(-logs))) * LOST / SCALE
    logs, scaled = logs[held], scaled[held]
    mass = scaled * rounded(np.exp(-logs), ELEMENTARY + 4.0 * np.abs(logs)) / SCALE
    # numbers that underflow are off by more than their share: such ratios go up to infinity, or go
    normal = (mass >= NORMAL) & (upper | (scaled >= NORMAL * SCALE))
    above = law.scaled_infinite + (float(np.sum(scaled[~normal])) if upper else 0.0)
    unseen += NORMAL * np.count_nonzero(~normal)
    logs, scaled, mass = logs[normal], scaled[normal], mass[normal]
    # what was raised into the window, or cut off below it, is negligible under Q as well
    moved = math.expm1(passes * grid.loss_error)
    slack = np.full(logs.size, law.relative + moved)
    value, p = rounded(np.exp(logs), ELEMENTARY), scaled / SCALE
    if not upper:  # putting mass at a lower ratio asks for more of Q than there is
        value, mass, slack, moved = least_profile(value, p, mass, slack, 0.0, moved)
    left = max(1.0 - math.fsum(mass * (1.0 + slack)), 0.0)
    mass = mass * np.maximum(1.0 + sign * slack, 0.0)
    never = float(one.mass[one.value == 0.0].sum())  # Q-probability of a ratio of 0
    if never > 0.0:
        some = rounded(-math.expm1(passes * math.log1p(-min(never, BELOW_ONE))), ELEMENTARY)
        some *= 1.0 + sign * roundings(2 * ELEMENTARY + 2)
        # lower ratios may have asked for some of it
        value, mass = np.append(0.0, value), np.append(some if upper else min(some, left), mass)
    if value.size == 0:  # all of P is infinite, but for what is left
        value, mass = np.zeros(1), np.zeros(1)
    # a sum of pairs, which is off by less than each of the law's own
    lost_gain = min(share(rounded(above), 1.0 / SCALE, 2.0 * law.relative, upper=upper), 1.0)
    # Q-masses below the window: a tail of the product under Q
    lost = passes * one.lost + LIMITS.underflow + unseen if upper else 0.0
    return SumLaw(value, mass, 1, lost_gain, lost, moved, float(value[-1]))


def _lattice(loss: Array, p: Array, q: Array, passes: int, side: Bound) -> tuple[float, int, int]:
    """Spacing of the lattice, and the indices between which the product lies under P and Q.

    Bernstein's inequality: with terms no further than b from their mean, of variance v, the sum of
    m strays by ``(b/3) g + sqrt((b g / 3)^2 + 2 m v g)`` with probability ``e^-g`` at most.
    """
    largest = float(np.max(np.abs(loss))) or 1.0  # all ratios may be 1
    goal = -math.log(LIMITS.underflow)
    low, high, deviation = math.inf, -math.inf, 0.0
    for mass in (p, q):
        total = float(mass.sum())
        mean = float(np.sum(mass * loss)) / total
        variance = float(np.sum(mass * (loss - mean) ** 2)) / total
        bound = 2.0 * largest * goal / 3.0
        far = bound + math.sqrt(bound**2 + 2.0 * passes * variance * goal)
        low, high = min(low, passes * mean - far), max(high, passes * mean + far)
        deviation = deviation or math.sqrt(variance)
    low = max(low, -passes * largest, -LIMITS.largest_log)
    high = min(high, passes * largest, LIMITS.largest_log)
    finest = max((high - low) / COMBINED.most_cells, 1e-9 * largest)
    wanted = max(PRODUCT_RATIO.spacing * deviation, finest)
    spacing = largest / math.ceil(largest / wanted)  # the largest logarithm stays on the lattice
    return spacing, math.floor(low / spacing), math.ceil(high / spacing)
