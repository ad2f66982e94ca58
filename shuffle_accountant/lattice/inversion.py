"""Profiles of sums of i.i.d. letters for a whole range of their number, by a few frequencies each.

With ``S0 = sum r0(Y_i)``, ``S1 = sum r1(Y_i)`` and ``L = S0 - alpha S1`` over n i.i.d. messages the
profile is ``n H_alpha = E L_+``. Let Z be normal with mean 0 and variance v, independent of Y, and
``T = L + Z``. Then

* Upper. ``E L_+ <= E T_+`` (Jensen).
* Lower. T is a randomised function of the messages, so for the event A = {0 < T < B}
  ``n H_alpha >= E[L; A] = E[T; A] - E[Z; A]``, and ``E[Z; A] <= v p_T(0)`` with the density of T
  (Stein). With ``E[S1; A]`` this is a point ``(Q(A), P(A))`` of the error region, valid for every
  alpha.

All of them are integrals over a vertical line ``z = theta + i s`` (Laplace inversion): with M the
moment generating function of one letter's value,

    E T_+ = (1/2 pi) int M(z)^n e^(v z^2/2) F(z) ds,   F(z) = int_0^B t e^(-z t) dt

and the like. A trapezoidal sum of step ``2 pi / W`` is exact for the law of T modulo W, which is
that of T but for what lies outside a window of that length. Numbers of messages enter by a power
alone, so that what is tabulated serves all of a range; the normal makes high frequencies vanish,
however the letters lie, so that there is no lattice. Of theta any value > 0 is valid; the saddle
point keeps relative accuracy, at any depth of the tail.

Errors, all of them part of both ends:

* Window. The tilted probability that T leaves it is at most ``2 e^-45`` (Chernoff, for the largest
  number of messages); ``t e^(-theta t) <= 1/(e theta)``.
* Frequencies that are left out: those where the modulus is next to nothing for the smallest number
  of messages, added up, and those beyond the last one, by a geometric series.
* Rounding: each spectrum less one is off by a few u of ``s E|Y|``, its powers by n times that,
  relative to the modulus.
* Scale: weights are off by a few u of themselves, once per letter; so is any expectation of
  something positive.
* Letters: r0, r1, and their differences are off by a few u relative to ``r0 + alpha r1``, which is
  a few u of alpha; alpha is moved by as much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shuffle_accountant.lattice.waves import MOST_WAVES, WAVE_ERROR, Complex, waves
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = ["Ends", "Inversion", "inversion"]

# Tilted mass that the window leaves outside on either side: e^-45.
_LEVEL = 45.0
# Frequencies whose modulus is smaller than this, relative to the share of the variance that the
# normal adds, are left out.
_LEFT_OUT = 1e-3
# alpha moves by this much for the rounding of ratios.
_RATIO_ERROR = 64 * UNIT_ROUNDOFF
# The normal's own spectrum ends so many times further out than it has to.
_LAST = 1.05
_MOST_FREQUENCIES = MOST_WAVES // 2
_MOST_KEPT = 1 << 12
_BLOCK = 64
# No term of a row's sum is rounded more often, however many there are (`numpy.sum` adds pairs).
_PAIRWISE = 128
# A tilt of at least this over the deviation keeps what lies outside a window harmless.
_LEAST_TILT = 0.2
_LARGEST_EXPONENT = 600.0
# Letters times steps of a Chernoff bound, at once.
_AT_ONCE = 1 << 19


@dataclass(frozen=True, eq=False)
class Ends:
    """Bounds for one number of messages, at each alpha; nan where there are none.

    Attributes:
        upper: of ``H_alpha``.
        lower: of it.
        q: Q-probabilities of events, from above.
        d: what their P-probabilities are above these, from below: ``d - (alpha - 1) q`` is a lower
            bound of the profile at every alpha.
    """

    upper: Array
    lower: Array
    q: Array
    d: Array


@dataclass(frozen=True, eq=False)
class _Line:
    """What one alpha has tabulated: kept frequencies and their coefficients.

    Attributes:
        log: logarithm of the spectrum, and i s times the tilted mean, shape (k,).
        terms: coefficients of ``E[T; A]``, of the density at 0, and of ``E[S1; A] / n``,
            shape (3, k).
        doubt: bounds of what these coefficients are off, shape (3, k).
        relative: what the spectrum is off, relative to it, shape (k,).
        phase: the size of logarithms and phases per message, shape (k,).
        dropped: what other frequencies can add to each of the three.
        log_scale: logarithm of the moment generating function of one letter.
        log_smooth: the same of the normal.
        theta: the tilt.
        variance: that of the normal.
        per_letter: relative error of a letter's weight.
        sent: largest ratio r1.
    """

    log: Complex
    terms: Complex
    doubt: Array
    relative: Array
    phase: Array
    dropped: Array
    log_scale: float
    log_smooth: float
    theta: float
    variance: float
    per_letter: float
    sent: float


class Inversion:
    """Bounds at some alpha for every number of messages in a range; see `inversion`."""

    def __init__(self, excess: Array, users: tuple[int, int], lines: list[_Line | None]) -> None:
        self.users, self._excess = users, excess
        self._known = np.array([line is not None for line in lines], dtype=bool)
        some = [line for line in lines if line is not None]
        #: where each alpha's frequencies start: they stand one behind the other
        self._starts = np.cumsum([0, *(line.log.size for line in some)])

        if some:

            def joined(name: str) -> Any:
                return np.concatenate([getattr(line, name) for line in some], axis=-1)

            # real and imaginary parts: a complex exponential takes several times as long
            self._log, terms, self._doubt = joined("log"), joined("terms"), joined("doubt")
            self._real, self._imag, self._size = terms.real.copy(), terms.imag.copy(), np.abs(terms)
            self._relative, self._phase = joined("relative"), joined("phase")
            self._dropped = np.array([line.dropped for line in some])
            (
                self._log_scale,
                self._log_smooth,
                self._theta,
                self._variance,
                self._per_letter,
                self._sent,
            ) = np.array(
                [
                    (x.log_scale, x.log_smooth, x.theta, x.variance, x.per_letter, x.sent)
                    for x in some
                ]
            ).T

    @property
    def frequencies(self) -> float:
        """How many are kept for each alpha on average; one number of messages costs as much."""
        return float(self._starts[-1]) / max(self._starts.size - 1, 1)

    def ends(self, users: int) -> Ends:
        """The bounds for that many messages, a number in the range."""
        if not self.users[0] <= users <= self.users[1]:
            raise ValueError(f"users must lie in {self.users}, got {users!r}")
        result = np.full((4, self._excess.size), math.nan)
        if self._known.any():
            with np.errstate(over="ignore", invalid="ignore"):
                found = self._bounds(users, self._excess[self._known])
            good = np.isfinite(found).all(axis=0)
            found[:, ~good] = math.nan
            result[:, self._known] = found
        return Ends(*result)

    def _sums(self, n: int) -> tuple[Array, Array]:
        """The three integrals, and bounds of their errors, shape (3, lines) each."""
        modulus, angle = np.exp(n * self._log.real), n * self._log.imag
        value = modulus * (np.cos(angle) * self._real - np.sin(angle) * self._imag)
        # ((m + e)^n - m^n) <= n e m^(n-1) e^(n e / m)
        moved = np.minimum(n * self._relative, 1.0)
        off = np.where(n * self._relative > 1.0, math.inf, math.e * moved)
        often = 160.0 + 2.0 * float(np.diff(self._starts).max())
        off = off + UNIT_ROUNDOFF * (often + 64.0 * n * self._phase)
        error = modulus * (off * self._size + (1.0 + off) * self._doubt)
        value, error = (np.add.reduceat(x, self._starts[:-1], axis=1) for x in (value, error))
        value[2] *= n
        error[2] *= n
        return value, error + self._dropped.T

    def _bounds(self, n: int, excess: Array) -> Array:
        value, error = self._sums(n)
        log_scale = n * self._log_scale + self._log_smooth
        relative = 1.01 * n * self._per_letter + UNIT_ROUNDOFF * (256.0 + 8.0 * np.abs(log_scale))
        relative = np.where(relative < 0.1, relative, math.nan)
        scale = np.exp(log_scale) / n
        outside = 2.0 * math.exp(-_LEVEL)
        most = outside / (math.e * self._theta)
        above = (value[0] + error[0] + most) * (1.0 + relative)
        upper = scale * above * (1.0 + 128 * UNIT_ROUNDOFF) + 1e-305
        # the event {0 < T < B}
        sum_low = (value[0] - error[0] - most) * (1.0 - relative)
        noise = self._variance * (value[1] + error[1]) * (1.0 + relative)
        gain = sum_low - noise
        high = np.maximum(value[2] + error[2], 0.0) * (1.0 + relative)
        low = (value[2] - error[2] - n * self._sent * outside) * (1.0 - relative)
        low = np.maximum(low, 0.0)
        anchor = _anchor(excess)
        # ratios, and a few roundings here
        slack = 4.0 * _RATIO_ERROR * (np.abs(sum_low) + noise + 2.0 * (1.0 + excess) * high)
        lower = scale * (gain - (excess - anchor) * high - slack)
        d = scale * (gain + np.where(anchor > 0.0, anchor * low, anchor * high) - slack)
        q = scale * high * (1.0 + 64 * UNIT_ROUNDOFF) + 1e-305
        return np.stack([upper, np.maximum(lower, 0.0), q, d])


def _anchor(excess: Array) -> Array:
    """A little below, so that rounding leaves what was asked for above the anchor."""
    return excess - 4.0 * _RATIO_ERROR * (1.0 + excess)


def inversion(
    ratios: tuple[Array, Array, Array], users: tuple[int, int], excess: Array, variance: float
) -> Inversion:
    """Tabulate what bounds the profile for all numbers of messages in a range.

    Args:
        ratios: ``(r0, r1, q)`` of the letters, shape (m,) each.
        users: least and largest number of messages.
        excess: ``alpha - 1 >= 0``, shape (k,).
        variance: share of the variance of L that the normal may add, for the least number.
    """
    lines: list[_Line | None] = []
    size = max(_AT_ONCE // max(ratios[2].size * _steps().size, 1), 1)
    for first in range(0, excess.size, size):
        part = excess[first : first + size]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            lines += _lines(ratios, users, _anchor(part), variance)
    return Inversion(excess, users, lines)


def _steps() -> Array:
    """Steps of Chernoff bounds, in inverse deviations of the sum."""
    return np.geomspace(0.02, 9.5, 14)


def _lines(
    ratios: tuple[Array, Array, Array], users: tuple[int, int], anchor: Array, share: float
) -> list[_Line | None]:
    """Tilts and windows at several alpha at once, then the frequencies of each."""
    r0, r1, q = ratios
    value = (r0 - r1) - anchor[:, None] * r1
    top = value.max(axis=1, initial=-math.inf)
    # no sum with a lower letter is positive, for any of the numbers: without it they are fewer
    kept = value > -(1.0 + 1e-9) * users[1] * np.maximum(top, 0.0)[:, None]
    mass = np.where(kept, q, 0.0)
    value = np.where(kept, value, 0.0)
    theta = _saddles(value, mass, users[0], top)
    exponent = theta[:, None] * value
    shift = np.where(kept, exponent, -math.inf).max(axis=1, initial=-math.inf)
    weight = mass * np.exp(exponent - shift[:, None])
    total = weight.sum(axis=1)
    weight /= total[:, None]
    mean = np.sum(weight * value, axis=1)
    spread = np.sum(weight * (value - mean[:, None]) ** 2, axis=1)
    plain = np.sum(mass * value, axis=1)
    still = np.maximum(np.sum(mass * value**2, axis=1) - plain**2, 0.0)
    smooth = share * users[0] * np.minimum(spread, still)
    centred = value - mean[:, None]
    low, high = _windows(centred, weight, users, theta, mean, spread, smooth)
    high = np.maximum(high, 2.0 / theta)
    # a narrower normal has too many frequencies
    reach = _LAST * math.sqrt(2.0 * _level(share)) / (2.0 * math.pi * _MOST_FREQUENCIES)
    least = 1.1 * (reach * (high - low)) ** 2
    if np.any((smooth > 0.0) & (smooth < least)):
        smooth = np.where(smooth > 0.0, np.maximum(smooth, least), smooth)
        low, high = _windows(centred, weight, users, theta, mean, spread, smooth)
        high = np.maximum(high, 2.0 / theta)
    log_scale = np.log(total) + shift
    size = np.where(weight > 0.0, np.abs(exponent), 0.0).max(axis=1, initial=0.0)
    often = 64.0 + min(q.size, _PAIRWISE)
    per_letter = UNIT_ROUNDOFF * (often + 4.0 * size + 8.0 * np.abs(log_scale))
    lines: list[_Line | None] = []
    for i in range(anchor.size):
        good = 0.0 < theta[i] < math.inf and smooth[i] > 0.0 and low[i] <= 0.0
        if not (good and high[i] - low[i] < math.inf and math.isfinite(log_scale[i])):
            lines.append(None)
            continue
        held = weight[i] > 0.0
        numbers = (theta, mean, low, high, smooth, log_scale, per_letter)
        letter = _Tilted(
            value[i][held] - mean[i],
            weight[i][held],
            r1[held],
            _level(share),
            *(float(x[i]) for x in numbers),
        )
        lines.append(_line(letter, users))
    return lines


def _level(share: float) -> float:
    """Exponent of the moduli that are left out, for that share of the variance."""
    return -math.log(_LEFT_OUT * share)


def _saddles(value: Array, mass: Array, users: int, top: Array) -> Array:
    """Tilts at which sums have mean about 0, or a fifth of their deviation; nan if there is none.

    See `shuffle_accountant.lattice.tilting`; the same for rows.
    """
    total = mass.sum(axis=1)
    mean = np.sum(mass * value, axis=1) / total
    variance = np.sum(mass * (value - mean[:, None]) ** 2, axis=1) / total
    deviation = np.sqrt(users * variance)
    good = (top > 0.0) & (variance > 0.0)
    cap = _LARGEST_EXPONENT / top
    theta = _tilts(value, mass, np.zeros(top.size), np.maximum(-mean, 0.0) / variance, cap)
    theta = np.where(mean < 0.0, theta, 0.0)
    wanted = _LEAST_TILT / deviation
    few = theta < wanted
    if few.any():
        goal = _LEAST_TILT * deviation / users
        found = _tilts(value, mass, goal, wanted, cap)
        found = np.maximum(found, 1e-2 * wanted)
        theta = np.where(few, np.maximum(theta, np.minimum(found, wanted)), theta)
    return np.asarray(np.where(good, np.minimum(theta, cap), math.nan))


def _tilts(value: Array, mass: Array, goal: Array, guess: Array, cap: Array) -> Array:
    """The tilts at which one letter has the given mean, to a few per mille; at most the cap."""

    def moments(theta: Array) -> tuple[Array, Array]:
        exponent = theta[:, None] * value
        exponent -= np.where(mass > 0.0, exponent, -math.inf).max(axis=1)[:, None]
        weight = mass * np.exp(np.minimum(exponent, 0.0))
        total = weight.sum(axis=1)
        mean = np.sum(weight * value, axis=1) / total
        return mean, np.sum(weight * (value - mean[:, None]) ** 2, axis=1) / total

    low, high = np.zeros(goal.size), np.minimum(np.maximum(guess, 1e-9 * cap), cap)
    for _ in range(64):
        short = (moments(high)[0] < goal) & (high < cap)
        if not short.any():
            break
        low = np.where(short, high, low)
        high = np.where(short, np.minimum(2.0 * high, cap), high)
    theta = high.copy()
    for _ in range(60):
        mean, variance = moments(theta)
        low, high = np.where(mean < goal, theta, low), np.where(mean < goal, high, theta)
        step = (mean - goal) / variance
        newton = theta - step
        inside = (low < newton) & (newton < high)
        theta = np.where(inside, newton, 0.5 * (low + high))
        done = (high - low <= 1e-3 * high) | (np.abs(step) <= 1e-3 * theta) | np.isnan(step)
        if done.all():
            break
    return np.minimum(theta, cap)


def _windows(
    centred: Array,
    weight: Array,
    users: tuple[int, int],
    theta: Array,
    mean: Array,
    spread: Array,
    smooth: Array,
) -> tuple[Array, Array]:
    """Where T lies under the tilt but for e^-45 on either side (Chernoff).

    The logarithm of a centred letter's moment generating function is not negative, so the bound for
    the largest number of messages holds for all.
    """
    steps = _steps()[None, :] / np.sqrt(users[1] * spread)[:, None]
    moved = steps[:, :, None] * centred[:, None, :]
    growth = np.expm1(moved)
    # e^-x - 1 from e^x - 1, unless that is close to -1
    shrunk, far = -1.0 / (1.0 + 1.0 / growth), moved < -1.0
    shrunk[far] = np.expm1(-moved[far])
    grown = (theta[:, None] + steps) ** 2 * (0.5 * smooth)[:, None] + (_LEVEL + 1e-3)

    def reach(growth: Array) -> Array:
        found = np.log1p(np.sum(weight[:, None, :] * growth, axis=2))
        # weights add up to 1 but for rounding
        found = np.maximum(found, 0.0) + UNIT_ROUNDOFF * (64.0 + centred.shape[1])
        found = np.where(np.isnan(found), math.inf, found)
        return np.asarray(np.min((users[1] * found + grown) / steps, axis=1))

    up, down = reach(growth), reach(shrunk)
    centres = np.stack([users[0] * mean, users[1] * mean])
    slack = 1e-9 * (up + down + np.abs(centres).max(axis=0))
    low = np.minimum(centres.min(axis=0) - down - slack, 0.0)
    return low, centres.max(axis=0) + up + slack


@dataclass(frozen=True)
class _Tilted:
    """One letter under the tilt, and where sums of them lie.

    Attributes:
        y: values less their mean, shape (m,).
        weight: tilted probabilities, shape (m,).
        r1: ratios, shape (m,).
        level: what is left out has a modulus of ``e^-level`` at most.
        theta: the tilt.
        mean: tilted mean of the values.
        low: lower end of the window, at most 0.
        high: upper end of it.
        smooth: variance of the normal.
        log_scale: logarithm of the moment generating function of one letter.
        per_letter: relative error of a letter's weight.
    """

    y: Array
    weight: Array
    r1: Array
    level: float
    theta: float
    mean: float
    low: float
    high: float
    smooth: float
    log_scale: float
    per_letter: float

    @property
    def step(self) -> float:
        """Distance of frequencies."""
        return 2.0 * math.pi / (self.high - self.low)

    @property
    def last(self) -> int:
        """Multiples of the step from where on the normal leaves nothing."""
        return math.ceil(_LAST * math.sqrt(2.0 * self.level / self.smooth) / self.step)

    @cached_property
    def size(self) -> float:
        """Tilted mean of the values' distance from their mean, from above."""
        return float(np.sum(self.weight * np.abs(self.y))) * (1.0 + 1e-9)

    @property
    def rounding(self) -> float:
        """What sums of products of two waves less one are off, relative to their arguments."""
        return UNIT_ROUNDOFF * (9.0 * self.y.size + 256.0 + 2.0 * WAVE_ERROR)

    def doubt(self, s: Array) -> Array:
        """What a spectrum less one is off at s: waves, their sums, and values less their mean."""
        own = self.rounding * self.size + 16.0 * UNIT_ROUNDOFF * abs(self.mean)
        return np.asarray(own * s)

    def log_bound(self, modulus: Array, s: Array, users: int) -> Array:
        """Logarithms of bounds of the sum's spectrum but for one letter, at such a modulus."""
        most = np.minimum(modulus + self.doubt(s) + 8.0 * UNIT_ROUNDOFF, 1.0)
        return np.asarray((users - 1) * np.log(most) - 0.5 * s**2 * self.smooth)

    def transforms(self, s: Array) -> Array:
        """Bounds of the moduli of the three transforms."""
        faded, size = math.exp(-self.theta * self.high), np.hypot(self.theta, s)
        first = (1.0 + (1.0 + size * self.high) * faded) / size**2
        return np.stack([first, np.ones(s.size), (1.0 + faded) / size])

    @property
    def sent(self) -> float:
        """Tilted mean of r1, from above."""
        return float(np.sum(self.weight * self.r1)) * (1.0 + 1e-9)


def _line(letter: _Tilted, users: tuple[int, int]) -> _Line | None:
    """The frequencies of one alpha; None where they are too many."""
    step = letter.step
    if not letter.last < _MOST_FREQUENCIES:
        return None
    starts, y, weight = np.arange(0.0, letter.last + 1.0, _BLOCK), letter.y, letter.weight
    coarse, fine = waves(_BLOCK * step, starts.size, y), waves(step, _BLOCK, y)
    # within a block the spectrum moves by its slope at the middle and half of E y^2 at most, or by
    # E|y|
    middle = weight * (1.0 + fine[_BLOCK // 2])
    there = np.array([[1.0 + weight @ fine[_BLOCK // 2]], [middle @ y]])
    value, slope = np.abs(there + np.einsum("am,jm->ja", coarse, np.stack([middle, middle * y])))
    apart, end = 0.5 * _BLOCK * step, step * (starts + _BLOCK)
    blur = letter.rounding * letter.size * (1.0 + end * float(np.max(np.abs(y))))
    bent = apart * (slope + blur + 0.5 * apart * float(np.sum(weight * y**2)))
    most = value + np.minimum(bent, apart * letter.size) * (1.0 + 1e-9) + letter.doubt(end)
    far = letter.log_bound(most, step * starts, users[0])
    near = far > -letter.level - math.log(_BLOCK)
    less = _less_one(weight, coarse[near], fine)
    s = np.asarray(step * np.add.outer(starts[near], np.arange(_BLOCK)).ravel())
    modulus = np.abs(1.0 + less)
    log_rest = letter.log_bound(modulus, s, users[0])
    held = log_rest > -letter.level
    own = letter.doubt(s)[held]
    few = 0 < int(held.sum()) <= _MOST_KEPT
    if not few or users[1] * float(np.max(own / modulus[held])) > 1.0:
        return None
    share = step / math.pi  # two of each, but for 0
    others = letter.transforms(s[~held]) * np.exp(log_rest[~held])
    blocks = letter.transforms(step * starts[~near]) * (_BLOCK * np.exp(far[~near]))
    # beyond the last one s^2 grows by at least 2 s step each time
    out = step * (float(starts[-1]) + _BLOCK)
    series = math.exp(-0.5 * out**2 * letter.smooth) / -math.expm1(-out * step * letter.smooth)
    dropped = others.sum(axis=1) + blocks.sum(axis=1)
    dropped += series * letter.transforms(np.full(1, out))[:, 0]
    dropped *= 1.01 * share * np.array([1.0, 1.0, users[1] * letter.sent])
    sent = _less_one(weight * letter.r1, coarse[near], fine)
    return _tabulated(letter, s[held], less[held], sent[held], own, dropped)


def _less_one(weight: Array, coarse: Complex, fine: Complex) -> Complex:
    """Sums of weighted waves less one, of all pairs of two rows of waves less one."""
    alone = [np.einsum("am,m->a", waves, weight) for waves in (coarse, fine)]
    # a product of matrices as small as this would only wake a second thread
    both = np.einsum("am,bm->ab", coarse * weight, fine)
    return np.asarray((np.add.outer(*alone) + both).ravel())


def _tabulated(
    letter: _Tilted, s: Array, less: Complex, sent: Complex, own: Array, dropped: Array
) -> _Line:
    """The coefficients at kept frequencies, from spectra less their values at 0."""
    z, high, smooth = letter.theta + 1j * s, letter.high, letter.smooth
    spectrum, share_of_r1 = 1.0 + less, letter.weight * letter.r1
    reach, limits, modulus = np.abs(z) * high, letter.transforms(s), np.abs(spectrum)
    relative = own / modulus
    ratio = (float(np.sum(share_of_r1)) + sent) / spectrum
    fading = np.exp(-z * high)
    box = (1.0 - fading) / z
    transforms = np.stack([(1.0 - fading * (1.0 + z * high)) / z**2, np.ones(z.size), box * ratio])
    share = (letter.step / (2.0 * math.pi)) * np.where(s > 0.0, 2.0, 1.0)
    share = share * np.exp(-0.5 * s**2 * smooth)
    terms = share * np.exp(1j * (letter.theta * smooth * s)) * transforms
    doubt = share * limits * UNIT_ROUNDOFF * (64.0 + 16.0 * reach)
    doubt[2] *= np.abs(ratio)
    off: Array = s * (letter.rounding * float(np.sum(share_of_r1 * np.abs(letter.y))))
    off = off + letter.sent * (letter.rounding + 16.0 * UNIT_ROUNDOFF * s * abs(letter.mean))
    doubt[2] += 2.0 * share * limits[2] * (off + letter.sent * relative) / modulus
    doubt += np.abs(terms) * UNIT_ROUNDOFF * (64.0 + 8.0 * letter.theta * smooth * s)
    log = _log_one_more(less)
    return _Line(
        log=log + 1j * (s * letter.mean),
        terms=terms,
        doubt=doubt,
        relative=relative,
        phase=np.abs(log) + np.abs(less.real) + np.abs(less) ** 2 + s * abs(letter.mean),
        dropped=dropped,
        log_scale=letter.log_scale,
        log_smooth=0.5 * letter.theta**2 * smooth,
        theta=letter.theta,
        variance=smooth,
        per_letter=letter.per_letter,
        sent=float(letter.r1.max(initial=0.0)),
    )


def _log_one_more(less: Complex) -> Complex:
    """``log(1 + x)``: off by a few roundings of the parts of x near 0, else of the sum."""
    x, y = less.real, less.imag
    small = np.abs(less) < 0.5
    square = np.where(small, x * (2.0 + x) + y * y, 0.0)
    found = 0.5 * np.log1p(square) + 1j * np.arctan2(y, 1.0 + x)
    return np.asarray(np.where(small, found, np.log(1.0 + less)))
