"""Adaptive composition of discretised losses: the law of the sum, tilted to the question asked.

``delta(eps) = sum over x > eps of p(x) (1 - e^(eps - x))`` with p the law of the sum of all losses
(or another weight of the losses above epsilon, see `shuffle_accountant.losses.base`).
A plain transform knows p to an absolute 1e-16 only. The tilted law ``a(x) = p(x) e^(lam x - K)``
concentrates around its mean ``K'(lam)``; with lam the saddle point of the question that is where
the answer comes from, so delta has relative accuracy, down to the smallest double.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.convolve import Factor, WindowedSum, power_sum
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.losses.base import HOCKEY_STICK, Divergence
from shuffle_accountant.numerics.budget import budget, disturbed, rounded
from shuffle_accountant.numerics.roots import find_crossing
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    SMALLEST,
    Array,
    Bound,
    exponential,
    lowered,
    pairwise_sum,
    raised,
    roundings,
    sequential_sum,
    share,
    underflow,
)

# Tilts at which Chernoff's bound is tried, relative to the best one of a normal distribution, and
# smaller ones that are tried if the smallest is the best.
_STEPS, _SMALLER_STEPS = 2.0 ** np.arange(-5.0, 4.5, 0.5), 2.0 ** np.arange(-4.5, 0.0, 0.5)


@dataclass(frozen=True)
class DeltaTerms:
    """One side's certified end of delta, and what it contains of each source of error, absolute.

    Attributes:
        truncation: contribution of tails cut off before the composition.
        aliasing: bound on wrapped and missing mass of the window.
        round_off: bound on floating-point error.
    """

    value: float
    truncation: float
    aliasing: float
    round_off: float


class Composition:
    """The sum of grid losses, each with its number of rounds, all of one spacing and direction."""

    def __init__(
        self, parts: Sequence[tuple[PldGrid, int]], divergence: Divergence = HOCKEY_STICK
    ) -> None:
        self.parts, self.divergence = tuple(parts), divergence
        first = self.parts[0][0]
        self.side, self.spacing = first.side, first.spacing
        self.infinite = self._at_least_one([grid.infinite for grid, _ in self.parts])
        self.truncated = min(sum(count * grid.truncated for grid, count in self.parts), 1.0)
        self.loss_error = sum(count * grid.loss_error for grid, count in self.parts)
        self.limited = any(grid.limited for grid, _ in self.parts)

    @cached_property
    def cells(self) -> list[tuple[NDArray[np.intp], Array, Array]]:
        """Indices of cells with mass, their losses (nats) and logarithms of masses, by round.

        Grids of heavy tails are mostly empty.
        """
        found = []
        for grid, _ in self.parts:
            held = np.flatnonzero(grid.mass)
            losses = np.asarray(self.spacing * (grid.offset + held), dtype=np.float64)
            # of logarithms <= 0, up is towards 0
            found.append((held, losses, rounded(np.log(grid.mass[held]), -ELEMENTARY)))
        return found

    def _at_least_one(self, chances: Sequence[float]) -> float:
        """Bound of the probability that some round's loss is infinite: ``1 - prod (1 - p)^T``."""
        log_none = 0.0
        for (_, count), chance in zip(self.parts, chances, strict=True):
            one = math.log1p(-chance) if chance < 1.0 else -math.inf
            log_none += count * rounded(one, ELEMENTARY)
        value = rounded(-math.expm1(log_none), ELEMENTARY)
        # the logarithms are off by their functions' error, their sum by one more each
        moved = abs(log_none) * math.exp(log_none) if log_none > -math.inf else 0.0
        error = roundings(ELEMENTARY) * value
        error += sequential_sum(len(self.parts), own=ELEMENTARY + 2) * moved
        upper = self.side is Bound.PESSIMISTIC
        return min(max(value + (error if upper else -error), 0.0), 1.0)

    def cumulants(self, lam: float) -> tuple[float, float, float]:
        """Log-moment generating function of the finite part at lam, and two derivatives."""
        value = mean = variance = 0.0
        for (_, count), (_, losses, logs) in zip(self.parts, self.cells, strict=True):
            exponent = logs + lam * losses
            top = float(exponent.max())
            weight = np.exp(exponent - top)
            total = float(weight.sum())
            first = float(np.sum(weight * losses)) / total
            value += count * (top + math.log(total))
            mean += count * first
            variance += count * float(np.sum(weight * (losses - first) ** 2)) / total
        return value, mean, variance

    def _log_mgf(self, lams: Array) -> Array:
        """Log-moment generating function at several points, shape of ``lams``."""
        value = np.zeros(lams.size)
        for (_, count), (_, losses, logs) in zip(self.parts, self.cells, strict=True):
            for i, lam in enumerate(lams.tolist()):
                value[i] += count * _log_total(logs + lam * losses)
        return value

    def saddle_for_delta(self, delta: float) -> float:
        """A tilt at which the law concentrates near epsilon(delta); 0 if delta is that large."""
        goal = math.log(max(delta, 5e-324))
        return self._solve(lambda lam: self.log_delta(lam) - goal)

    def log_delta(self, lam: float) -> float:
        """Roughly the logarithm of delta at the mean of the law under that tilt."""
        value, mean, variance = self.cumulants(lam)
        overshoot = self.divergence.overshoot(lam, math.sqrt(variance))
        return value - lam * mean + math.log(max(overshoot, 1e-300))

    def saddle_for_epsilon(self, epsilon: float) -> float:
        """The tilt whose mean is epsilon; 0 if the untilted mean is already larger."""
        return self._solve(lambda lam: epsilon - self.cumulants(lam)[1])

    def _solve(self, falling: Callable[[float], float]) -> float:
        """Root of a decreasing function of the tilt in [0, cap], to a per cent."""
        _, _, variance = self.cumulants(0.0)
        scale = 1.0 / max(math.sqrt(variance), self.spacing)
        if falling(1e-3 * scale) <= 0:
            return 0.0
        return find_crossing(falling, 60.0 / self.spacing, scale, scale, rtol=1e-2).right

    def window(self, lam: float) -> tuple[int, int, float, float]:
        """First and last likely grid index of the tilted sum, and the masses outside (Chernoff)."""
        value, _, variance = self.cumulants(lam)
        bottom = sum(count * grid.offset for grid, count in self.parts)
        top = bottom + sum(count * (grid.mass.size - 1) for grid, count in self.parts)
        log_outside = budget().outside
        scale = math.sqrt(-2 * log_outside) / max(math.sqrt(variance), 1e-3 * self.spacing)

        def least(sign: float) -> float:
            """The largest distance from 0 of the likely sums on that side, nats."""
            found, steps = math.inf, scale * _STEPS
            while True:
                bounds = (self._log_mgf(lam + sign * steps) - value - log_outside) / steps
                if float(bounds.min()) < found and int(np.argmin(bounds)) == 0:
                    # rare large losses are best bounded by far smaller tilts than the others
                    found, steps = float(bounds[0]), steps[0] * _SMALLER_STEPS
                    continue
                return min(found, float(bounds.min()))

        # one more cell on each side covers the rounding of these bounds
        last = min(top, math.ceil(least(1.0) / self.spacing) + 1)
        first = max(bottom, math.floor(-least(-1.0) / self.spacing) - 1)
        if last < first:  # only for a law of a single point
            first, last = bottom, top
        outside = math.exp(log_outside)
        return first, last, 0.0 if first == bottom else outside, 0.0 if last == top else outside

    def tilted(self, lam: float) -> TiltedSum:
        """The law of the sum under the tilt, on its window."""
        first, last, below, above = self.window(lam)
        factors, scales = [], []
        for (grid, count), (held, losses, logs) in zip(self.parts, self.cells, strict=True):
            exponent = logs + lam * losses
            log_scale = _log_total(exponent)
            tilted = rounded(np.exp(exponent - log_scale), ELEMENTARY)
            size = np.abs(logs) + lam * np.abs(losses)
            # the weights are exponentials of sums, and their total one more
            moved = 1.0 + abs(log_scale) + float(np.sum(tilted * size))
            error = exponential(roundings(ELEMENTARY) * moved)
            mass = np.zeros(grid.mass.size)
            mass[held] = tilted
            factors.append(Factor(grid.offset, mass, count, error))
            scales.append(count * log_scale)
        log_total = math.fsum(scales)  # rounded once, however many rounds differ
        law = power_sum(factors, first, last - first + 1)
        return TiltedSum(self, lam, log_total, law, below, above, last)


def _log_total(exponents: Array) -> float:
    """Logarithm of the sum of exponentials."""
    top = float(exponents.max())
    return top + math.log(float(np.exp(exponents - top).sum()))


@dataclass(frozen=True, eq=False)
class TiltedSum:
    """The tilted sum: bounds delta(epsilon) closely near the tilt's epsilon, validly everywhere."""

    _composition: Composition
    _lam: float
    _log_total: float
    _law: WindowedSum
    _below: float
    _above: float
    _last: int

    def masses(self) -> tuple[int, Array]:
        """First grid point of the window, and upper bounds (PESSIMISTIC) of its untilted P-masses.

        Mass outside the window is left out, or wrapped into it.
        """
        law, lam = self._law, self._lam
        losses = self._composition.spacing * np.arange(law.start, self._last + 1)
        size = 8 * abs(self._log_total) + 8 * lam * np.abs(losses)
        scale = np.exp(np.minimum(self._log_total - lam * losses, 700.0))
        bound = np.maximum(law.mass[: losses.size], 0.0) + law.error
        return law.start, raised(bound * scale, roundings(128.0 + size))

    def beyond(self) -> tuple[float, float]:
        """Bounds of the untilted P-mass below (at tilt 0 only, else inf) and above the window.

        Masses of the window that fell below all doubles count as above it.
        """
        lam, last = self._lam, self._composition.spacing * self._last
        scale = 1.01 * math.exp(min(self._log_total - lam * last, 700.0))
        below = share(self._below, scale, 0.0, upper=True) if lam == 0.0 else math.inf
        above = share(self._above, scale, 0.0, upper=True)
        return below, min(above + underflow(2 * self._law.mass.size), 1.0)

    def delta(self, epsilon: float) -> DeltaTerms:
        """The certified end of delta at epsilon (any real number)."""
        source, lam, law = self._composition, self._lam, self._law
        upper = source.side is Bound.PESSIMISTIC
        epsilon += -source.loss_error if upper else source.loss_error
        spacing, size = source.spacing, law.mass.size
        place = min(max(epsilon / spacing, -sys.float_info.max), sys.float_info.max)
        first = min(max(math.floor(place) - law.start, 0), size)
        if first == size:  # no point of the window is as large as epsilon
            outside = self.beyond()[1] if upper else 0.0
            value = min(outside + source.infinite, 1.0)
            return DeltaTerms(value, source.truncated, aliasing=outside, round_off=0.0)
        stop, beyond = size, 0.0
        if lam > 0:
            furthest = (epsilon + budget().reach / lam) / spacing
            reach = math.ceil(min(furthest, sys.float_info.max)) - law.start
            if reach < size:  # terms further above epsilon have negligible weight
                stop, beyond = max(reach, first), math.exp(-budget().reach) * 1.01
        above = spacing * np.arange(law.start + first, law.start + stop) - epsilon
        divergence = source.divergence
        exponent = disturbed(
            -lam * np.maximum(above, 0.0),
            lambda: roundings(4) * lam * (abs(epsilon) + spacing * size),
        )
        weight = np.exp(exponent) * divergence.weight(above)
        weight *= law.mass[first:stop]
        body = float(np.sum(weight))  # pairwise, so that its rounding is within `relative`
        rounding = law.error * divergence.norm(lam, spacing, size)
        log_scale = disturbed(self._log_total - lam * epsilon, roundings(8) * abs(self._log_total))
        # roundings of the exponents: a unit of round-off there is one rounding of the exponential
        exponents = 8 * abs(self._log_total) + 8 * lam * (abs(epsilon) + spacing * size)
        # capped where it is not a double: the upper end is trivial then
        relative = min(pairwise_sum(own=64 + exponents), 1e300)
        wrapped = (self._below + self._above) * divergence.largest(lam)
        # mass above the window: each such loss x has tilted weight e^(-lam (x - eps)) at most
        distance = max(spacing * self._last - epsilon, 0.0)
        missing = self._above * math.exp(-min(lam * distance, 700.0))
        if epsilon < spacing * law.start:
            # mass below the window counts too, and was wrapped to where it weighs less
            missing += self._below * divergence.largest(lam)
        scale = math.exp(min(log_scale, 700.0))
        if upper:
            # neither a scale nor a product below the smallest double is zero
            scale = max(scale, SMALLEST)
            value = raised(scale * (body + rounding + missing + beyond) + underflow(1), relative)
        else:
            value = lowered(max(0.0, scale * (body - rounding - wrapped)), relative)
        value = min(max(value, 0.0) + source.infinite, 1.0)  # in this order NaN is kept
        return DeltaTerms(
            value=value,
            truncation=source.truncated,
            aliasing=scale * (missing + beyond if upper else wrapped),
            round_off=scale * (rounding + abs(body) * relative),
        )
