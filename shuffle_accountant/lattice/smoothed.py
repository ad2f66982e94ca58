"""Anchored laws of smoothed sums, from the few frequencies that such a sum has.

`shuffle_accountant.lattice.anchored` says what these laws are for, and which rounding of the sum L
is allowed: any T with ``E[T | Y] = L``. Here ``X = L + Z`` with Z normal of mean 0 and variance v,
independent of the messages, and T is X, rounded at random to one of its two neighbours on a lattice
of spacing h such that its mean is kept. Under a tilt theta the rows are then, with M the moment
generating function of X, ``z = theta - i s`` and ``S(z) = (sinh(z h/2) / (z h/2))^2``,

    P(T = t) e^(theta t) = (h / 2 pi) int M(z) S(z) e^(i s t) ds,

because ``h S`` is the transform of the hat function that shares X between neighbours; ``-h S'`` is
that of the hat times its argument, so with Stein's ``E[Z e^(z X)] = v z M(z)``

    E[L - T; T = t]  has  M (-S' - v z S)  in the place of  M S,

and the moments of S1 have those of the letters. On a circle of N points the integral is a sum over
the multiples j of ``2 pi / (N h)``; all but a few dozen of them have a power of next to nothing.

Errors, all of them counted in the law:

* Window. X is outside with a tilted probability of at most ``p = 2 e^-40`` (Chernoff); T is one h
  further out at most, which multiplies its weight by ``e^(theta h)`` at most. What is wrapped is as
  in `shuffle_accountant.lattice.anchored`, but that T is ``Z`` away from L, and not a bounded
  distance: ``E[|L - T|; outside]`` is at most ``h p`` and, by Cauchy and Schwarz, ``sqrt(p E Z^2)``
  under the tilt, where Z has mean ``theta v`` and variance v.
* Frequencies that are left out: each row is off by their mean modulus at most. Beyond the last one
  that is looked at, the normal's transform is below a geometric series.
* Rounding of spectra and powers: `shuffle_accountant.lattice.moments`.
* The sum's tilted mean is a multiple of h and a rest, known to a few u of itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.anchored import AnchoredLaw
from shuffle_accountant.lattice.moments import MomentSpectrum, transform_error
from shuffle_accountant.lattice.tilting import Letters, saddle
from shuffle_accountant.lattice.waves import WAVE_ERROR, Complex, waves
from shuffle_accountant.numerics.budget import budget, disturbed, rounded
from shuffle_accountant.numerics.fft import good_length
from shuffle_accountant.numerics.rounding import ELEMENTARY, UNIT_ROUNDOFF, Array

__all__ = ["smoothed_law"]

Number = TypeVar("Number", float, Array)

# Of the variance that may be added, the share of the normal; the lattice adds about the rest.
_NORMAL = 0.75
# The normal's own transform ends so many of its deviations out: e^-50.
_LAST = 10.0
_BLOCK = 64
# More points, frequencies or letters times frequencies are better done by stages.
_MOST_POINTS = 1 << 13
_MOST_FREQUENCIES = 1 << 13
_MOST_KEPT = 1 << 10
_MOST_TERMS = 1 << 20
# Logarithm of powers that are left out.
_LEAST = -45.0
# Tilted laws of heavier letters have another tilt.
_GROWTH = 2.0
# Steps of Chernoff bounds, in inverse deviations of the sum.
_STEPS = np.geomspace(0.02, 10.0, 28)


def smoothed_law(
    ratios: tuple[Array, Array, Array], users: int, excess: float, variance: float
) -> AnchoredLaw | None:
    """The law at an anchor.

    Args:
        ratios: ``(r0, r1, q)`` of the letters, shape (m,) each.
        users: number n of messages.
        excess: the anchor ``alpha`` as ``alpha - 1``, >= 0 but for rounding.
        variance: share of the variance of L that may be added.

    Returns:
        The law; None if no letter is positive, or where the sum is not smooth: then it has too many
        frequencies.
    """
    letter = _tilted(ratios, users, excess)
    if letter is None:
        return None
    scale = users * min(letter.spread, letter.still)
    smooth, spacing = variance * _NORMAL * scale, math.sqrt(6.0 * variance * (1 - _NORMAL) * scale)
    spacing = _few_bits(spacing)
    low, high = letter.window(users, smooth)
    points = (high - low) / spacing + 6.0 if spacing > 0.0 else math.inf
    if not points <= _MOST_POINTS:
        return None
    size = good_length(math.ceil(points))
    step = 2.0 * math.pi / (size * spacing)
    last = math.ceil(_LAST / (math.sqrt(smooth) * step))
    if last > _MOST_FREQUENCIES or last * letter.y.size > _MOST_TERMS:
        return None
    smoothing = _Smoothing(letter.theta, smooth, spacing)
    found = _Frequencies.of(letter, users, smoothing, step, last)
    if found is None:
        return None
    start = math.floor(low / spacing) - 2
    rows, error = _rows(letter, users, smoothing, size, start, found)
    first = max(1 - start, 0)
    theta, reached = letter.theta, budget().reach
    # places further above 0 than this over theta are left out
    stop = min(size, max(math.ceil(reached / (theta * spacing)) - start, first))
    place = spacing * np.arange(start + first, start + stop, dtype=np.float64)
    faded = np.exp(-theta * place)
    log_scale = users * letter.log_scale + 0.5 * theta**2 * smooth
    growth = math.exp(theta * spacing) * (1.0 + 1e-9)
    left = 2.0 * math.exp(budget().outside) * growth
    largest = 1.0 / (math.e * theta)
    total = math.exp(theta**2 * spacing**2 / 8.0) * (1.0 + 1e-6)
    far = 1.01 * reached * math.exp(-reached) / theta
    away = growth * math.sqrt((smooth + (theta * smooth) ** 2) * left) + spacing * left
    return AnchoredLaw(
        excess=excess,
        users=users,
        place=place,
        weight=rows[:, first:stop] * faded,
        mean=letter.mean_r1,
        error=error,
        norm=error * math.sqrt(size),
        faded=faded,
        scale=math.exp(log_scale) / users,
        relative=1.01 * users * letter.relative
        + budget().roundoff * (256.0 + 8.0 * abs(log_scale)),
        missing=left * largest + total * far,
        overstated=left * largest + away,
        spurious=left * users * float(letter.r1.max()),
        shift=0.0,
        full=True,
        stages=1,
    )


@dataclass(frozen=True, eq=False)
class _Letter:
    """One letter under the tilt.

    Attributes:
        y: values less their mean, shape (m,).
        weight: tilted probabilities, shape (m,).
        r1: ratios, shape (m,).
        theta: the tilt.
        mean: tilted mean of the values.
        spread: tilted variance.
        still: variance without the tilt.
        log_scale: logarithm of the moment generating function.
        relative: relative error of a weight, before they were divided by their sum.
        largest: of the values, in size.
    """

    y: Array
    weight: Array
    r1: Array
    theta: float
    mean: float
    spread: float
    still: float
    log_scale: float
    relative: float
    largest: float

    @property
    def mean_r1(self) -> float:
        """Tilted mean of r1, about."""
        return float(np.sum(self.weight * self.r1))

    def window(self, users: int, smooth: float) -> tuple[float, float]:
        """Where X lies but for a little on either side (Chernoff)."""
        steps = _STEPS / math.sqrt(users * self.spread)
        moved = np.multiply.outer(steps, self.y)
        # under the tilt the normal has mean theta v
        grown = steps * (self.theta + 0.5 * steps) * smooth - budget().outside + 1e-3
        slack = UNIT_ROUNDOFF * (64.0 + self.y.size)

        def reach(sign: float) -> float:
            with np.errstate(over="ignore", invalid="ignore"):
                log = np.log1p(np.sum(self.weight * np.expm1(sign * moved), axis=1))
            log = np.where(np.isnan(log), math.inf, np.maximum(log, 0.0) + slack)
            return float(np.min((users * log + grown) / steps))

        centre, up, down = users * self.mean, reach(1.0), reach(-1.0)
        more = 1e-9 * (up + down + abs(centre))
        return centre - down - more, centre + up + more


def _tilted(ratios: tuple[Array, Array, Array], users: int, excess: float) -> _Letter | None:
    r0, r1, q = ratios
    value = (r0 - r1) - excess * r1
    # no sum with a lower letter is positive, at the anchor or above: without it they are fewer
    kept = value > -(1.0 + 1e-9) * users * max(float(value.max(initial=0.0)), 0.0)
    value, r1, q = value[kept], r1[kept], q[kept]
    if value.size < 2:
        return None
    letters = Letters(value, q, users)
    theta = saddle(letters)
    if not 0.0 < theta < math.inf:
        return None
    _, mean, spread = letters.cumulants(theta)
    still = letters.cumulants(0.0)[2]
    if not 0.0 < spread <= _GROWTH * still:
        return None
    exponent = theta * value
    top = float(exponent.max())
    weight = rounded(q * np.exp(exponent - top), ELEMENTARY + 2)
    total = float(weight.sum())
    weight /= total
    log_scale, size = top + math.log(total), float(np.max(np.abs(exponent)))
    relative = budget().roundoff * (64.0 + q.size + 4.0 * size + 8.0 * abs(log_scale))
    return _Letter(
        value - mean,
        weight,
        r1,
        theta,
        mean,
        spread,
        still,
        log_scale,
        relative,
        float(np.max(np.abs(value))) + abs(mean),
    )


@dataclass(frozen=True, eq=False)
class _Smoothing:
    """What is added to the sum.

    Attributes:
        theta: the tilt.
        smooth: variance v of the normal.
        spacing: of the lattice.
    """

    theta: float
    smooth: float
    spacing: float

    def transforms(self, s: Array) -> tuple[Complex, Complex]:
        """``S`` and ``-S' - v z S`` at ``theta - i s``, times the normal's own transform."""
        z = self.theta - 1j * s
        x = (0.5 * self.spacing) * z
        small = np.abs(x) < 0.3
        safe, square = np.where(small, 1.0, x), np.where(small, x, 0.0) ** 2
        mean = np.where(small, 0.0, np.sinh(safe) / safe)
        slope = np.where(small, 0.0, (np.cosh(safe) - mean) / safe)
        # sum of x^2k / (2k + 1)!, and its derivative over x
        series = derivative = np.zeros(s.shape, dtype=complex)
        for k in range(7, -1, -1):
            series = series * square + 1.0 / math.factorial(2 * k + 1)
            if k:
                derivative = derivative * square + 2.0 * k / math.factorial(2 * k + 1)
        mean = np.where(small, series, mean)
        slope = np.where(small, derivative * x, slope)
        normal = np.exp(-0.5 * self.smooth * s**2 - 1j * (self.theta * self.smooth) * s)
        shared = mean * mean
        return normal * shared, normal * (-self.spacing * mean * slope - self.smooth * z * shared)

    def sizes(self, weight: Number, moment: Number) -> tuple[Number, Number]:
        """Bounds of the moduli of ``S`` and ``-S' - v z S``, weighted.

        ``sinh(x)/x`` is the mean of cosh(x t), and ``-S'`` that of the distance to a neighbour.

        Args:
            weight: of frequencies.
            moment: the same times the frequencies.
        """
        shared = math.cosh(0.5 * self.theta * self.spacing) ** 2
        apart = self.spacing * math.exp(self.theta * self.spacing)
        own = self.smooth * shared
        return shared * weight, (apart + own * self.theta) * weight + own * moment


@dataclass(frozen=True, eq=False)
class _Frequencies:
    """The spectra of the sum, and what is left out.

    Attributes:
        index: multiples j of the step that are kept, shape (k,).
        s: the frequencies.
        power: powers of the letter's four rows there, without the normal and the lattice.
        dropped: bound of the sum of the moduli of all others, on both sides of 0, shape (4,).
    """

    index: NDArray[np.intp]
    s: Array
    power: MomentSpectrum
    dropped: Array

    @classmethod
    def of(
        cls, letter: _Letter, users: int, smoothing: _Smoothing, step: float, last: int
    ) -> _Frequencies | None:
        """Those that count up to ``last``; None if they are too many."""
        # a wave less one and one
        coarse = (1.0 + waves(_BLOCK * step, last // _BLOCK + 1, letter.y)) * letter.weight
        fine = 1.0 + waves(step, _BLOCK, letter.y)
        # a product of matrices as small as this would only wake a second thread
        modulus = np.abs(np.einsum("am,bm->ab", coarse, fine)).ravel()
        s = step * np.arange(modulus.size)
        # the arguments of both add up to s y
        own = 3.0 * letter.y.size + 96.0 + (16.0 + 2.0 * WAVE_ERROR) * letter.largest * s
        most = np.clip(modulus + budget().roundoff * own, 1e-300, 1.0)
        exponent = max(users - 2, 0) * np.log(most) - 0.5 * smoothing.smooth * s**2
        held = exponent > _LEAST
        index = np.flatnonzero(held)
        if index.size > _MOST_KEPT:
            return None
        other = letter.r1 - letter.mean_r1
        b, bb = (float(np.sum(letter.weight * np.abs(other) ** k)) for k in (1, 2))
        n, away = float(users), np.exp(exponent[~held])
        total, moment = float(np.sum(away)), float(np.sum(away * s[~held]))
        # beyond the last one all fall like e^(-s^2 v / 2) times s at most
        end = step * modulus.size
        fall = -math.expm1(-0.98 * end * step * smoothing.smooth)
        total += math.exp(-0.5 * smoothing.smooth * end**2) / fall
        moment += end * math.exp(-0.5 * smoothing.smooth * end**2) / fall
        shared, distance = smoothing.sizes(total, moment)
        dropped = np.array([shared, distance, n * b * shared, n * (bb + n * b * b) * shared])
        s = s[index]
        return cls(index, s, _power(letter, users, s, other), 2.02 * dropped)


def _power(letter: _Letter, users: int, s: Array, other: Array) -> MomentSpectrum:
    """The power of the letter's rows at the frequencies s."""
    half = 0.5 * np.multiply.outer(s, letter.y)
    sine, cosine = np.sin(half), np.cos(half)
    wave = -2.0 * sine * (sine + 1j * cosine)  # e^(-i s y) - 1
    columns = letter.weight * np.stack([np.ones(other.size), other, other**2])
    less = np.einsum("kj,rj->rk", wave, columns)
    totals, norms = columns.sum(axis=1)[:, None], np.abs(columns).sum(axis=1)[:, None]
    size = np.einsum("kj,rj->rk", np.abs(wave), np.abs(columns))
    unit = budget().roundoff
    # sums of so many terms, and their arguments
    error = unit * ((32.0 + other.size) * size + 16.0 * letter.largest * s * norms)
    less = disturbed(less, error)
    error[1:] += unit * (8.0 + other.size) * (norms[1:] + size[1:])
    nothing = np.zeros((1, s.size))
    values = np.concatenate([1.0 + less[:1], nothing, less[1:] + totals[1:]])
    bounds = np.concatenate([error[:1], nothing, error[1:]])
    return MomentSpectrum(2 * s.size, values, bounds, np.abs(less[0]) < 0.5, less[0]).power(users)


def _rows(
    letter: _Letter,
    users: int,
    smoothing: _Smoothing,
    size: int,
    start: int,
    found: _Frequencies,
) -> tuple[Array, Array]:
    """The four rows on the window of ``size`` places from ``start``, and bounds of their errors."""
    from scipy.fft import irfft

    s, unit = found.s, budget().roundoff
    shared, away = smoothing.transforms(s)
    centre = round(users * letter.mean / smoothing.spacing)
    rest = users * letter.mean - centre * smoothing.spacing
    turned = np.exp(-1j * s * rest)
    factor = turned * np.stack([shared, away, shared, shared])
    values = found.power.values[[0, 0, 2, 3]] * factor
    error = found.power.error[[0, 0, 2, 3]] * np.abs(factor)
    # exponents, and of differences in the second factor what they may lose
    moved = 64.0 + 8.0 * s * (
        abs(rest) + abs(users * letter.mean) + letter.theta * smoothing.smooth
    )
    moved += 4.0 * smoothing.smooth * s**2
    normal = np.exp(-0.5 * smoothing.smooth * s**2)
    bounds = np.stack(smoothing.sizes(normal, normal * s))[[0, 1, 0, 0]]
    own = unit * moved * np.abs(found.power.values[[0, 0, 2, 3]]) * bounds
    values, error = disturbed(values, own), error + own
    circle = np.zeros((4, size // 2 + 1), dtype=complex)
    # each frequency and its negative one, where they are on the circle
    for place, own in (
        (found.index % size, values),
        (-found.index[found.index > 0] % size, values[:, found.index > 0].conj()),
    ):
        seen = place <= size // 2
        for row, part in zip(circle, own[:, seen], strict=True):
            np.add.at(row, place[seen], part)
    rows = np.roll(irfft(circle, n=size, axis=1), -((start - centre) % size), axis=1)
    own = transform_error(size) * np.abs(values)
    rows = disturbed(rows, own.sum(axis=1, keepdims=True) / size)
    error = 2.0 * (error + own).sum(axis=1) + found.dropped
    pointwise = np.asarray(error * ((1.0 + 64 * UNIT_ROUNDOFF) / size))
    return rows, pointwise


def _few_bits(spacing: float) -> float:
    """The number, rounded down to 20 bits: its multiples by integers below 2^33 are exact."""
    mantissa, exponent = math.frexp(spacing)
    return math.ldexp(math.floor(mantissa * 2.0**20), exponent - 20)
