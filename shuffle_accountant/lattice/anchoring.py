"""Making an anchored law: its tilt, windows, lattices and stages.

What is proved of these is in `shuffle_accountant.lattice.anchored`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.anchored import AnchoredLaw
from shuffle_accountant.lattice.moments import MomentRows, MomentSpectrum, coarser, sharpened
from shuffle_accountant.lattice.tilting import Letters, saddle
from shuffle_accountant.numerics.budget import budget, rounded
from shuffle_accountant.numerics.fft import good_length
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = ["anchored_law"]

Indices = NDArray[np.int64]

_FEWEST_POINTS = 1 << 10
_MOST_POINTS = 1 << 18
# Roundings may need more; beyond this there is no law.
_LONGEST = 1 << 21
# What a stage costs besides its points, in points.
_STAGE_COST = 4000.0
# A divisor of the number of messages is looked for no further than this from a power.
_MOST_TRIED = 1 << 20
_MOST_STAGES = 6
# Weights times places are at most this.
_LARGEST_WEIGHT = 1e280
# Letters of a smaller part than that count as this part of all.
_LEAST_OFF = 1e-6
# Part of the points at which a transform that does not fade is rounded.
_UNFADED = 0.3
# So few letters are brought onto the lattice by the choice of its spacing.
_FEW_LETTERS = 64
# Tilted laws of heavy letters are tilted no further than where their variance has grown by this.
_GROWTH = 2.0


def anchored_law(
    ratios: tuple[Array, Array, Array],
    users: int,
    excess: float,
    *,
    variance: float,
    steep: bool = False,
    most_stages: int = _MOST_STAGES,
) -> AnchoredLaw | None:
    """The law at an anchor.

    Args:
        ratios: ``(r0, r1, q)`` of the letters, shape (m,) each.
        users: number n of messages.
        excess: the anchor ``alpha`` as ``alpha - 1``, >= 0 but for rounding.
        variance: share of the variance of L that rounding may add.
        steep: whether to tilt all the way even where far letters take over the tilted law.
        most_stages: fewer stages have more points and lose less to rounding.

    Returns:
        The law, or None if there is nothing to be found (no letter is positive) or its numbers
        leave double precision.
    """
    try:
        with np.errstate(over="raise", invalid="raise"):
            law = _Anchor(ratios, users, excess, variance, steep, most_stages).law()
            if law is not None:  # sums of these are formed, times places and numbers of messages
                largest = float(np.max(np.abs(law.weight), initial=0.0))
                reach = float(np.max(law.place, initial=0.0)) + users * law.mean + law.shift + 1.0
                if not largest < _LARGEST_WEIGHT / reach:
                    return None
            return law
    except (FloatingPointError, OverflowError):
        return None


@dataclass(frozen=True, eq=False)
class _Unit:
    """A partial sum of ``size`` letters, its lattice, and the rounding behind it.

    Attributes:
        law: rows on integers, which stand for multiples of ``spacing``; None for a letter, whose
            points may lie too far apart for a window.
        centre: the integer next to the mean.
        spacing: a number of few bits, so that its multiples are exact.
        size: number of letters.
        noise: sum of the squared spacings of all roundings of partial sums.
        reach: sum of the spacings of all roundings.
    """

    law: MomentRows | None
    centre: int
    spacing: float
    size: int
    noise: float
    reach: float

    def rounded(self, factor: int, tilt: float) -> _Unit:
        """On a lattice that is ``factor`` times coarser."""
        if factor == 1 or self.law is None:
            return self
        spacing = factor * self.spacing
        law = coarser(self.law, factor, self.spacing, tilt)
        return replace(
            self,
            law=law,
            centre=law.centre,
            spacing=spacing,
            noise=self.noise + spacing**2,
            reach=self.reach + spacing,
        )


@dataclass(frozen=True, eq=False)
class _Points:
    """One letter's law as points of a lattice, however far apart.

    Attributes:
        index: integers, shape (m,), in any order.
        rows: shape (4, m); see `shuffle_accountant.lattice.moments`.
        exponent: what weights were tilted by.
    """

    index: Indices
    rows: Array
    exponent: Array

    def law(self, size: int, centre: int) -> tuple[MomentRows, float]:
        """The law on a circle, and the relative error of each of its weights.

        Weights are off by a few u of themselves, and so is any expectation of something positive,
        once per letter: that is an error of the scale. Relative to the weights as computed, what
        else a row holds is off by a few u.
        """
        first = centre - size // 2
        place = np.asarray((self.index - first) % size)
        met = np.bincount(place)[place]
        relative = budget().roundoff * float(np.max(40.0 + 3.0 * np.abs(self.exponent) + met))
        error = budget().roundoff * np.sum(np.abs(self.rows) * (8.0 + 2.0 * met), axis=1)
        error[0] = 0.0
        folded = np.stack([_totals(place, row, size) for row in self.rows])
        return MomentRows(first, folded, error, error, np.zeros((4, 0)), 1.0), relative


class _Anchor:
    """The making of one law."""

    points: _Points

    def __init__(
        self,
        ratios: tuple[Array, Array, Array],
        users: int,
        excess: float,
        variance: float,
        steep: bool,
        most_stages: int,
    ) -> None:
        r0, r1, q = ratios
        self.users, self.excess, self.variance, self.steep = users, excess, variance, steep
        self.most_stages = most_stages
        value = (r0 - r1) - excess * r1
        # no sum with a lower letter is positive, at the anchor or above: without it they are fewer
        kept = value > -(1.0 + 1e-9) * users * max(float(value.max()), 0.0)
        self.value, self.r1, self.q = value[kept], r1[kept], q[kept]
        self.letters = Letters(self.value, self.q, users)
        self.theta = self.centre = self.scale = 0.0
        self.full = True
        self.left = 0.0  # tilted probability of leaving some window
        self.fixed = 0.0  # part of the reach that is of letters which lie on the lattice
        self.relative = 0.0  # of each letter's weight

    def law(self) -> AnchoredLaw | None:
        """The law, or None if no letter is positive."""
        if self.value.size == 0:
            return None
        theta = saddle(self.letters)
        if not 0.0 < theta < math.inf:
            return None
        self.theta = theta if self.steep else self._gentle(theta)
        self.full = self.theta == theta
        _, self.centre, spread = self.letters.cumulants(self.theta)
        self.scale = math.sqrt(min(spread, self.letters.cumulants(0.0)[2]))
        if not self.scale > 0.0:
            return None
        self._prepare_windows(math.sqrt(spread))
        powers = self._plan()
        unit, log_scale, mean = self._letter(powers)
        rest: list[_Unit] = []
        count = self.users
        for step, power in enumerate(powers[:-1]):
            unit, left = self._partial(unit, power, count)
            count //= power
            if left is not None:
                rest.append(left)
            unit = unit.rounded(self._coarsening(unit, powers, step + 1), self.theta)
        law = self._final(unit, count, rest, log_scale, mean)
        return replace(law, stages=len(powers))

    def _gentle(self, theta: float) -> float:
        """The tilt, or the least one at which far letters have doubled the variance."""
        most = _GROWTH * self.letters.cumulants(0.0)[2]
        if self.letters.cumulants(theta)[2] <= most:
            return theta
        tilts = theta * np.geomspace(1e-4, 1.0, 60)
        grown = [self.letters.cumulants(tilt)[2] > most for tilt in tilts.tolist()]
        return float(tilts[max(grown.index(True) - 1, 0)])

    # Windows

    def _prepare_windows(self, spread: float) -> None:
        """Cumulant generating functions of one centred letter at steps either way from the tilt."""
        ends = 0.02 / (spread * math.sqrt(self.users)), 9.0 / spread
        self.steps = np.geomspace(*ends, 8 + math.ceil(3.0 * math.log(ends[1] / ends[0])))
        exponent = self.theta * self.value
        weight = self.q * np.exp(exponent - float(exponent.max()))
        self.weight = weight / float(weight.sum())
        self._letters_at(self.value, self.weight)

    def _letters_at(self, value: Array, weight: Array) -> None:
        """Note the functions of letters with these values and tilted weights."""
        moved = np.multiply.outer(self.steps, value - self.centre)
        self.ahead, self.back = _log_moments(moved, weight), _log_moments(-moved, weight)

    def _window(self, size: int, noise: float, reach: float, copies: float) -> tuple[float, float]:
        """Where the tilted sum of ``size`` letters lies, but for a little in all copies (Chernoff).

        Letters are taken as rounded, once they are. Splitting a partial sum over a cell of width h
        multiplies ``E e^(sx)`` by ``e^(s^2 h^2 / 8)`` at most (Hoeffding), and by 1 at least
        (Jensen).
        """
        level = -budget().outside + math.log(copies) + 1e-3
        grown = (self.theta + self.steps) ** 2 * (noise / 8.0) + level
        up = float(np.min((size * self.ahead + grown) / self.steps))
        down = float(np.min((size * self.back + grown) / self.steps))
        centre = size * self.centre
        up = min(up, size * float(self.value.max()) - centre + reach)
        down = min(down, centre - size * float(self.value.min()) + reach)
        slack = 1e-9 * (abs(up) + abs(down) + abs(centre))
        return centre - down - slack, centre + up + slack

    def _goal(self, size: int, stages: int) -> float:
        """The spacing to which sums of so many letters may be rounded."""
        return self.scale * math.sqrt(6.0 * self.variance / stages * size)

    def _letter_goal(self, stages: int) -> float:
        """The spacing to which letters may be rounded: most may lie at 0, which is on any lattice.

        A value x < h splits over a cell of width h with a variance of at most ``x h``.
        """
        goal = self._goal(1, stages)
        off = float(np.sum(self.weight * np.minimum(4.0 * np.abs(self.value) / goal, 1.0)))
        return goal / math.sqrt(max(off, _LEAST_OFF))

    def _plan(self) -> list[int]:
        """The powers whose product is about the number of messages, the last one included."""
        best, cheapest = [self.users], math.inf
        for stages in range(1, self.most_stages + 1):
            power = max(round(self.users ** (1.0 / stages)), 1)
            if stages > 1 and power < 4:
                break
            points = []
            for stage in range(stages):
                size = power ** (stage + 1) if stage + 1 < stages else self.users
                low, high = self._window(size, 0.0, 0.0, self.users / size)
                goal = self._goal(power**stage, stages) if stage else self._letter_goal(stages)
                points.append((high - low) / goal)
            cost = sum(points) + stages * _STAGE_COST
            # each stage multiplies the rounding of what came before
            noise = 36.0 * 25.0 ** (stages - 3) * self.users * UNIT_ROUNDOFF
            if stages > 1:  # sums that may be 0 have a transform that does not fade
                noise *= 1.0 + _UNFADED * points[0] * self._nothing_of(power)
            cost *= 1.0 + 10.0 * noise / self.variance
            if cost < cheapest:
                best, cheapest = self._powers(power, stages), cost
        return best

    def _nothing_of(self, count: int) -> float:
        """About the probability that so many letters add up to 0, as it is rounded."""
        seen = np.abs(self.value) > self._letter_goal(2)
        return math.exp(-count * float(self.weight[seen].sum()))

    def _powers(self, power: int, stages: int) -> list[int]:
        """About equal powers that leave few copies over."""
        count, powers = self.users, []
        for _ in range(stages - 1):
            below, above = (min(power // part, _MOST_TRIED) for part in (4, 2))
            near = np.arange(max(power - below, 2), power + above + 1)
            whole = near[count % near == 0]
            pool = whole if whole.size else near
            chosen = int(pool[np.argmin(np.abs(pool - power))])
            powers.append(chosen)
            count //= chosen
        return [*powers, count]

    # Stages

    def _letter(self, powers: list[int]) -> tuple[_Unit, float, float]:
        """One letter, the logarithm of its scale, and the tilted mean of r1."""
        size = powers[0]
        low, high = self._window(size, 0.0, 0.0, self.users / size)
        spacing = min(self._letter_goal(len(powers)), (high - low) / _FEWEST_POINTS)
        spacing = _few_bits(max(spacing, (high - low) / _MOST_POINTS))
        spacing = self._commensurate(spacing)
        if not 0.0 < float(np.max(np.abs(self.value))) / spacing < 2.0**50:
            raise OverflowError
        scaled = self.value / spacing
        cell = np.floor(scaled)
        inside = scaled - cell
        place = np.concatenate([cell, cell + 1.0])
        share = np.concatenate([1.0 - inside, inside])
        left = spacing * np.concatenate([inside, inside - 1.0])
        exponent = self.theta * spacing * place
        weight = rounded(np.tile(self.q, 2) * share * np.exp(exponent), 32)
        total = float(weight.sum())
        weight /= total
        r1 = np.tile(self.r1, 2)
        mean = float(np.sum(weight * r1))
        other = r1 - mean
        rows = np.stack([weight, weight * left, weight * other, weight * other**2])
        self.points = _Points(place.astype(np.int64), rows, exponent)
        self._letters_at(spacing * place, weight)
        on = np.tile(inside == 0.0, 2)
        self.fixed = self.users * spacing * float(weight[on].sum()) * (1.0 - 1e-9)
        centre = round(self.centre / spacing)
        unit = _Unit(None, centre, spacing, 1, 0.0, spacing)
        return unit, self.users * math.log(total), mean

    def _spectrum(self, unit: _Unit, size: int, count: int) -> MomentSpectrum:
        """Transforms of one copy, of which ``count`` are to be added up."""
        if unit.law is not None:
            return unit.law.spectrum(size, unit.centre)
        law, self.relative = self.points.law(size, unit.centre)
        return sharpened(law, size, unit.centre, count)

    def _commensurate(self, spacing: float) -> float:
        """A spacing at most this one, for which few letters lie close to the lattice."""
        if self.value.size > _FEW_LETTERS:
            return spacing
        spacings = spacing * np.linspace(0.7, 1.0, 129)
        scaled = np.multiply.outer(1.0 / spacings, self.value)
        inside = scaled - np.floor(scaled)
        noise = np.sum(inside * (1.0 - inside) * self.q, axis=1) * spacings**2
        return _few_bits(float(spacings[np.argmin(noise)]))

    def _coarsening(self, unit: _Unit, powers: list[int], step: int) -> int:
        """By how much the lattice may become coarser before a stage."""
        goal = self._goal(unit.size, len(powers))
        size = unit.size * powers[step] if step + 1 < len(powers) else self.users
        low, high = self._window(size, unit.noise * (size / unit.size), 0.0, self.users / size)
        goal = max(min(goal, (high - low) / _FEWEST_POINTS), (high - low) / _MOST_POINTS)
        return max(math.floor(goal / unit.spacing), 1)

    def _partial(self, unit: _Unit, power: int, count: int) -> tuple[_Unit, _Unit | None]:
        """``power`` copies, and those that are left over when all are taken so many at a time."""
        left = count % power
        low, high = self._bounds(unit, power, count / power)
        reach = (high - low) / unit.spacing
        if left:
            lowest, highest = self._bounds(unit, left, 1.0)
            reach = max(reach, (highest - lowest) / unit.spacing)
        size = _circle(reach)
        spectrum = self._spectrum(unit, size, power)

        def summed(copies: int, low: float) -> _Unit:
            start = math.floor(low / unit.spacing) - 1
            law = spectrum.power(copies).rows(start, copies * unit.centre)
            return _Unit(
                law,
                law.centre,
                unit.spacing,
                copies * unit.size,
                copies * unit.noise,
                copies * unit.reach,
            )

        return summed(power, low), summed(left, lowest) if left else None

    def _bounds(self, unit: _Unit, copies: int, of: float) -> tuple[float, float]:
        """The window of a sum of units, of which there are so many; what it misses is noted."""
        self.left += 2.0 * math.exp(budget().outside)
        size = copies * unit.size
        return self._window(size, copies * unit.noise, copies * unit.reach, max(of, 1.0))

    def _scale_error(self, log_scale: float) -> float:
        """Bound of the relative error of all weights together."""
        total = 1.01 * self.users * self.relative
        return total + budget().roundoff * (256.0 + 8.0 * abs(log_scale))

    def _final(
        self, unit: _Unit, count: int, rest: list[_Unit], log_scale: float, mean: float
    ) -> AnchoredLaw:
        spacing = unit.spacing
        rest = [part.rounded(round(spacing / part.spacing), self.theta) for part in rest]
        noise = count * unit.noise + sum(part.noise for part in rest)
        reach = count * unit.reach + sum(part.reach for part in rest)
        low, high = self._window(self.users, noise, reach, 1.0)
        self.left += 2.0 * math.exp(budget().outside)
        size = _circle((high - low) / spacing)
        spectrum = self._spectrum(unit, size, count).power(count)
        centre = count * unit.centre
        for part in rest:
            spectrum = spectrum.times(self._spectrum(part, size, 1))
            centre += part.centre
        law = spectrum.rows(math.floor(low / spacing) - 1, centre)
        if not (np.isfinite(law.pointwise).all() and np.isfinite(law.rows).all()):
            raise OverflowError
        first = max(1 - law.first, 0)
        reached = budget().reach  # points further above 0 than this over theta are left out
        stop = min(size, max(math.ceil(reached / (self.theta * spacing)) - law.first, first))
        place = spacing * np.arange(law.first + first, law.first + stop, dtype=np.float64)
        faded = np.exp(-self.theta * place)
        largest = 1.0 / (math.e * self.theta)
        far = 1.01 * reached * math.exp(-reached) / self.theta
        # each rounding adds to the total of the tilted weights
        total = math.exp(self.theta**2 * noise / 8.0) * (1.0 + 1e-6)
        return AnchoredLaw(
            excess=self.excess,
            users=self.users,
            place=place,
            weight=law.rows[:, first:stop] * faded,
            mean=mean,
            error=law.pointwise,
            norm=law.error / math.sqrt(size),
            faded=faded,
            scale=math.exp(log_scale) / self.users,
            relative=self._scale_error(log_scale),
            missing=total * (self.left * largest + far),
            overstated=total * self.left * (largest + reach),
            spurious=total * self.left * self.users * float(self.r1.max()),
            shift=4 * UNIT_ROUNDOFF * (reach - self.fixed) * total,
            full=self.full,
            stages=1,
        )


def _log_moments(exponent: Array, weight: Array) -> Array:
    """``log E e^x``, rows of exponents at a time; inf where it leaves double precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.log1p(np.sum(np.expm1(exponent) * weight, axis=1))
    return np.where(np.isnan(found), math.inf, found)


def _totals(index: Indices, weight: Array, size: int) -> Array:
    return np.asarray(np.bincount(index, weight, size), dtype=np.float64)


def _circle(points: float) -> int:
    """Length of a circle with room for so many points."""
    if not points <= _LONGEST:
        raise OverflowError
    return good_length(math.ceil(points) + 4)


def _few_bits(spacing: float) -> float:
    """The number, rounded down to 20 bits: its multiples by integers below 2^33 are exact."""
    mantissa, exponent = math.frexp(spacing)
    return math.ldexp(math.floor(mantissa * 2.0**20), exponent - 20)
