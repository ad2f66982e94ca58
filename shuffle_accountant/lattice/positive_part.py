"""``E[(X_1 + … + X_n)_+]`` for i.i.d. real X, by Fourier transforms over the users.

The law of X is tilted (``p e^(theta x)``) so that the sum concentrates where it turns positive,
rounded to a lattice without moving its mean, and raised to a power. A single lattice that is fine
enough for one value and long enough for their sum has of the order of sqrt(n) points, so large
powers are taken in stages: the law of a partial sum is rounded again, to a lattice as coarse as
its own spread allows. Every rounding goes one way, up or down in convex order, and ``(·)_+`` is
convex and increasing, so the result is a bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shuffle_accountant.lattice.convex_order import round_to_lattice
from shuffle_accountant.lattice.convolve import Factor, power_sum
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.lattice.tilting import Letters
from shuffle_accountant.numerics.budget import budget, disturbed
from shuffle_accountant.numerics.fft import good_length
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    SMALLEST,
    Array,
    exponential,
    lowered,
    pairwise_sum,
    product,
    raised,
    roundings,
    underflow,
)

__all__ = ["Summand", "expected_positive_part", "positive_part_and_noise"]

# A window of this many points is transformed in about a millisecond; finer costs nothing.
_FREE_POINTS = 1 << 13
# Partial sums are rounded again rather than followed on more points than this.
_STAGE_POINTS = 1 << 15
_MOST_POINTS = 1 << 20
# Sums of so few X are far from normal: they are followed on more points.
_SMALL_SUM = 64
# Of a sum without spread windows are not looked for that far.
_LARGEST_TILT = 1e100
# So few letters are brought onto the lattice by the choice of its spacing.
_FEW_LETTERS = 16


@dataclass(frozen=True, eq=False)
class Summand:
    """Part of the sum: ``count`` independent copies of a variable that adds up ``size`` of the X.

    Attributes:
        value: values, shape (m,), any order.
        mass: probabilities, shape (m,); tilted weights (sum about 1) once ``tilted``.
        size: how many X one copy stands for.
        count: copies, >= 1.
        drift: bound on the 1-norm of the error of the tilted weights.
        log_scale: logarithm of what the tilted weights were divided by.
        plain: whether these are sums of letters that were not rounded yet.
        noise: sum of the squared spacings of all roundings behind one copy.
        moved: bound on how far they can have moved it.
    """

    value: Array
    mass: Array
    size: int
    count: int
    drift: float = 0.0
    log_scale: float = 0.0
    plain: bool = True
    noise: float = 0.0
    moved: float = 0.0


def expected_positive_part(
    letters: Letters,
    summands: Sequence[Summand],
    theta: float,
    side: Bound,
    *,
    variance: float,
) -> float:
    """Bound of ``E[(sum)_+]``.

    Args:
        letters: the law of one X, for bounds.
        summands: what to add up; sizes times counts add up to ``letters.count``.
        theta: tilt, > 0 (see `saddle`).
        side: whether the result is an upper or a lower bound.
        variance: share of the sum's variance that rounding may add or remove, in total.
    """
    return positive_part_and_noise(letters, summands, theta, side, variance=variance)[0]


def positive_part_and_noise(
    letters: Letters,
    summands: Sequence[Summand],
    theta: float,
    side: Bound,
    *,
    variance: float,
    scale: float = math.inf,
) -> tuple[float, float]:
    """`expected_positive_part`, and how much of it allows for rounding.

    Args:
        letters: the law of one X, for bounds.
        summands: what to add up; sizes times counts add up to ``letters.count``.
        theta: tilt, > 0.
        side: whether the result is an upper or a lower bound.
        variance: share of the sum's variance that rounding may add or remove, in total.
        scale: deviation of the sum that counts, if less than its own.
    """
    sums = _Sums(letters, theta, side, variance, scale)
    return sums.positive_part([_tilted(summand, theta) for summand in summands])


def _tilted(summand: Summand, theta: float) -> Summand:
    """The summand with tilted weights of sum one."""
    exponent = theta * summand.value
    top = float(exponent.max())
    # an exponent is off by a unit of its own
    moved = disturbed(exponent - top, lambda: roundings(1) * np.abs(exponent))
    weight = summand.mass * np.exp(moved)
    total = float(weight.sum())
    weight /= total
    # of the masses, of the exponentials and of their exponents
    size = 16.0 + ELEMENTARY + 2.0 * abs(top) + 4.0 * float(np.sum(weight * np.abs(exponent - top)))
    lost = product(summand.drift, roundings(size))
    return replace(summand, mass=weight, drift=lost, log_scale=top + math.log(total))


class _Sums:
    """One question's sums: all share the letters, the tilt and the direction."""

    def __init__(
        self, letters: Letters, theta: float, side: Bound, variance: float, scale: float
    ) -> None:
        self.letters, self.theta, self.side = letters, theta, side
        self.value, self.mean, self.spread = letters.cumulants(theta)
        # a heavy tail may widen the tilted law far beyond the scale that matters
        self.scale = math.sqrt(min(self.spread, letters.cumulants(0.0)[2]))
        self.scale = min(self.scale, scale / math.sqrt(letters.count))
        self.variance = variance
        self.largest = float(np.max(np.abs(letters.value)))
        self.steps = math.sqrt(-2.0 * budget().outside) * np.array([0.05, 0.2, 0.6, 1.0, 3.0, 10.0])

    def positive_part(self, summands: Sequence[Summand]) -> tuple[float, float]:
        """Bound of ``E[(sum)_+]`` from tilted summands, and how much of it is for rounding."""
        main = summands[0]
        stages = self._stages(main)
        rest: list[Summand] = list(summands[1:])
        share = self.variance / len(stages)
        for power in stages[:-1]:
            partial = replace(main, count=power)
            left = main.count % power
            if left:
                rest.append(replace(main, count=left))
            main = replace(self._law([partial], share), count=main.count // power)
        return self._final([main, *rest], share)

    def _stages(self, main: Summand) -> list[int]:
        """The powers whose product is about the main summand's count."""
        count, stages = main.count, 1
        while stages < 6:
            factor = math.sqrt(stages / (6.0 * self.variance))
            points = 20.0 * factor * count ** (0.5 / stages)
            if points <= _STAGE_POINTS or count ** (1.0 / stages) < 64.0:
                break
            stages += 1
        powers = []
        for left in range(stages - 1, 0, -1):
            centre = round(count ** (1.0 / (left + 1)))
            # few copies should be left over, for they meet a coarse lattice
            power = min(range(centre, centre + max(centre // 4, 1)), key=lambda p: (count % p, p))
            powers.append(power)
            count //= power
        return [*powers, count]

    def _window(
        self, size: int, noise: float, log_scale: float, reach: float
    ) -> tuple[float, float]:
        """Where the tilted sum of ``size`` letters lies, but for a little on each side (Chernoff).

        Args:
            size: number of letters.
            noise: sum over all roundings so far of the squared spacings.
            log_scale: log-moment generating function of the rounded sum at theta.
            reach: bound on how far rounding can have moved the sum.
        """
        spread = math.sqrt(size * self.spread + noise)
        upper = size * float(self.letters.value.max()) + reach
        lower = size * float(self.letters.value.min()) - reach
        # Hoeffding: splitting a value over a cell multiplies e^(s x) by e^(s^2 h^2 / 8) at most
        # a step down beyond a tilt of 0 makes much of a long lower tail
        ahead = [(1.0, step) for step in self.steps / max(spread, 1e-300)]
        back = [(-1.0, step) for _, step in ahead] + [(-1.0, c * self.theta) for c in (0.3, 0.9)]
        with np.errstate(over="ignore"):
            for sign, step in (*ahead, *back):
                point = self.theta + sign * step
                if abs(point) > _LARGEST_TILT:
                    continue
                grown = size * self.letters.cumulants(point)[0] + point**2 * noise / 8.0
                distance = (grown - log_scale - budget().outside) / step
                if sign > 0:
                    upper = min(upper, distance)
                else:
                    lower = max(lower, -distance)
        slack = 1e-9 * (abs(upper) + abs(lower)) + 1e-9 * spread
        return lower - slack, upper + slack

    def _summed(
        self, summands: Sequence[Summand], share: float
    ) -> tuple[float, float, Array, float, float, float]:
        """The tilted law of the sum on a window of a lattice.

        Returns:
            ``(origin, spacing, weights, error, drift, log_scale)``: weight i sits at ``origin +
            i * spacing``; ``error`` is the 2-norm bound of the transform, ``drift`` the 1-norm
            bound of what came before and of what the window misses.
        """
        main = summands[0]
        size = sum(s.size * s.count for s in summands)
        copies = sum(s.count for s in summands)
        spacing = self.scale * math.sqrt(main.size * 6.0 * share)
        log_scale = sum(s.count * s.log_scale for s in summands)
        noise, moved = self._disturbance(summands, spacing)
        low, high = self._window(size, noise, log_scale, moved)
        finest = (high - low) / (_FREE_POINTS if size > _SMALL_SUM else 8 * _FREE_POINTS)
        # memory is bounded, whatever the values: the bracket gets wider instead
        longest = max(float(np.ptp(s.value)) for s in summands)
        spacing = max(min(spacing, finest), max(high - low, 0.5 * longest) / _MOST_POINTS)
        if main.plain:
            spacing = self._commensurate(spacing)
        length = good_length(math.ceil((high - low) / spacing) + 4)
        factors, anchors, scale = [], 0.0, 0.0
        for summand in summands:
            factor, anchor, log_total = self._factor(summand, spacing, length)
            factors.append(factor)
            anchors += summand.count * anchor
            scale += summand.count * (summand.log_scale + log_total)
        noise, moved = self._disturbance(summands, spacing)
        low, high = self._window(size, noise, scale, moved)
        start = math.floor((low - anchors) / spacing) - 1
        length = max(math.ceil((high - anchors) / spacing) + 2 - start, 16)
        law = power_sum(factors, start, length)
        drift = sum(s.count * s.drift for s in summands)
        drift += copies * (2.0 * math.exp(budget().outside) + roundings(32))
        return anchors + start * spacing, spacing, law.mass, law.error, drift, scale

    @staticmethod
    def _disturbance(summands: Sequence[Summand], spacing: float) -> tuple[float, float]:
        """Noise and displacement of the sum once all are rounded to the spacing."""
        noise = sum(s.count * (s.noise + spacing**2) for s in summands)
        return noise, sum(s.count * (s.moved + spacing) for s in summands)

    def _commensurate(self, spacing: float) -> float:
        """A spacing at most this one, for which the letters lie close to the lattice.

        The lattice runs through the mean. Where few letters lie far apart, moving one by d to the
        lattice must be made up for by letters far away, which costs the lower side a share of the
        variance that is first order in d.
        """
        letters = self.letters
        if letters.value.size > _FEW_LETTERS:
            return spacing
        distance = letters.value - float(np.sum(letters.mass * letters.value))
        moment = letters.mass * distance**2
        candidates = [spacing * np.linspace(0.4, 1.0, 400)]
        # spacings for which the letter that counts most, or the most likely one, is on the lattice
        for letter in (np.argmax(moment), np.argmax(letters.mass)):
            steps = np.ceil(abs(distance[letter]) / spacing) + np.arange(400)
            found = abs(distance[letter]) / np.maximum(steps, 1.0)
            candidates.append(found[(found >= 0.4 * spacing) & (found <= spacing)])
        spacings = np.concatenate(candidates)
        scaled = distance[:, None] / spacings
        off = np.abs(scaled - np.rint(scaled)) * spacings
        typical = float(moment.sum()) / float(np.sum(letters.mass * np.abs(distance)))
        return float(spacings[np.argmin((letters.mass * (np.abs(distance) + typical)) @ off)])

    def _factor(self, summand: Summand, spacing: float, length: int) -> tuple[Factor, float, float]:
        """The summand on a lattice through its mean; returns the anchor and log of the total.

        Through the mean, because the lower side moves down what it cannot merge.
        """
        with np.errstate(divide="ignore"):
            exponent = np.log(summand.mass) - self.theta * summand.value
        plain = np.exp(exponent - float(exponent.max()))
        anchor = float(np.sum(plain * summand.value)) / float(plain.sum())
        first, mass = round_to_lattice(
            (summand.value - anchor) / spacing, summand.mass, self.theta * spacing, self.side
        )
        total = float(mass.sum())
        mass = mass / total
        used = np.flatnonzero(mass)
        if mass.size > 4 * length:
            # a few far values: only their place on the circle matters
            centre = first + int(np.sum(mass * np.arange(mass.size)))
            place = (used + first - centre + length // 2) % length
            mass = np.asarray(np.bincount(place, mass[used], length), dtype=np.float64)
            first = centre - length // 2
        slack = roundings(32.0 + 2.0 * self.theta * spacing)
        return Factor(first, mass, summand.count, slack), anchor, math.log(total)

    def _law(self, summands: Sequence[Summand], share: float) -> Summand:
        """The tilted law of a partial sum, as a new summand."""
        origin, spacing, mass, error, drift, scale = self._summed(summands, share)
        noise, moved = self._disturbance(summands, spacing)
        drift += math.sqrt(mass.size) * error
        value = origin + spacing * np.arange(mass.size, dtype=np.float64)
        held = mass > 0.0
        size = sum(s.size * s.count for s in summands)
        return Summand(value[held], mass[held], size, 1, drift, scale, False, noise, moved)

    def _final(self, summands: Sequence[Summand], share: float) -> tuple[float, float]:
        origin, spacing, mass, error, drift, scale = self._summed(summands, share)
        theta, upper = self.theta, self.side is Bound.PESSIMISTIC
        # positions: every letter's rounding, as often as it is added, and the lattice's own
        _, moved = self._disturbance(summands, spacing)
        shift = roundings(64) * self.letters.count * self.largest + budget().lattice_snap * moved
        value = (
            origin + spacing * np.arange(mass.size, dtype=np.float64) + (shift if upper else -shift)
        )
        positive = np.maximum(value, 0.0)
        body = float(np.sum(mass * positive * np.exp(-theta * positive)))
        largest = 1.0 / (math.e * theta)
        norm = math.sqrt(largest**2 + 0.25 / (theta**3 * spacing))
        noise = error * norm + drift * largest
        # the scale is off by as much as the weights are, relatively
        exponents = 8.0 * abs(scale) + 4.0 * theta * float(np.max(np.abs(value)))
        # a place that is off by the shift has a weight that is off as well
        relative = product(
            drift, pairwise_sum(own=192.0 + exponents), exponential(2.0 * theta * shift)
        )
        if scale > 600.0:
            return (math.inf if upper else 0.0), math.inf
        factor = math.exp(scale)
        blur = factor * (noise + relative * abs(body))
        if upper:
            found = raised(max(factor, SMALLEST) * (body + noise), relative)
            return found + underflow(1), blur
        return max(lowered(factor * (body - noise), relative), 0.0), blur
