"""Letters at several alpha, tilted so that their sum lies about where it turns positive.

With ``S0 = sum r0(Y_i)``, ``S1 = sum r1(Y_i)`` and ``L = S0 - alpha S1`` over n i.i.d. messages, a
tilt makes a letter of value v ``e^(theta v)`` times as likely, up to a constant. Any theta > 0 is
valid: the saddle point keeps relative accuracy, at any depth of the tail. A normal of a share of
the variance is added, and the window holds the tilted sum but for next to nothing on either side.

Rare letters whose value is far out would need wide windows, where frequencies are many. Those above
all others' reach are added up by themselves (`shuffle_accountant.lattice.letters_apart`), and of
the others those that next to nothing depends on are left out
(`shuffle_accountant.lattice.rare_letters`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.letters_apart import LettersApart, letters_apart
from shuffle_accountant.lattice.rare_letters import rare_letters
from shuffle_accountant.lattice.waves import MOST_WAVES, WAVE_ERROR
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = ["Levels", "TiltedLetters", "tilted_letters"]

# The normal's own spectrum ends so many times further out than it has to.
_LAST = 1.05
_MOST_FREQUENCIES = MOST_WAVES // 2
# No term of a row's sum is rounded more often, however many there are (`numpy.sum` adds pairs).
_PAIRWISE = 128
# A tilt of at least this over the deviation keeps what lies outside a window harmless.
_LEAST_TILT = 0.2
_LARGEST_EXPONENT = 600.0
# After so many of Newton's steps every other one halves the interval.
_NEWTON = 4
# Weights below this are 0.
_LEAST_WEIGHT = 1e-250
# Steps of Chernoff bounds, in inverse deviations of the sum.
_STEPS = np.geomspace(0.02, 9.5, 14)
# Letters far below are left out if a sum has one with a probability below that part of a width.
_LOW = 0.1
# Letters times steps of a Chernoff bound, at once.
_AT_ONCE = 1 << 19


@dataclass(frozen=True, eq=False)
class Levels:
    """What is left out at each alpha.

    Attributes:
        outside: the window leaves a tilted mass of ``e^-outside`` outside on either side, (k,).
        left_out: frequencies whose modulus is ``e^-left_out`` at most, shape (k,).
        rare: letters far above with that part of the sum's positive part, about, shape (k,).
    """

    outside: Array
    left_out: Array
    rare: Array

    def __getitem__(self, some: slice | NDArray[np.intp]) -> Levels:
        """Those of some of the alpha."""
        return Levels(self.outside[some], self.left_out[some], self.rare[some])

    def less(self, some: NDArray[np.intp], factors: Array) -> Levels:
        """The same with less left out at some alpha, by factors of shape (3, some)."""
        outside, left_out, rare = self.outside.copy(), self.left_out.copy(), self.rare.copy()
        outside[some] += np.log(factors[0])
        left_out[some] += np.log(factors[1])
        rare[some] /= factors[2]
        return Levels(outside, left_out, rare)

    def put(self, some: NDArray[np.intp], other: Levels) -> None:
        """Replace those of some of the alpha."""
        self.outside[some], self.left_out[some] = other.outside, other.left_out
        self.rare[some] = other.rare

    def spread(self, known: NDArray[np.bool_], width: Array) -> None:
        """Leave out no more than either known neighbour does, in alpha and relative to widths."""
        last = np.maximum.accumulate(np.where(known, np.arange(known.size), 0))
        then = np.minimum.accumulate(np.where(known, np.arange(known.size), known.size)[::-1])[::-1]
        then = np.where(then < known.size, then, last)
        self.outside[:] = np.maximum(self.outside[last], self.outside[then])
        log = np.log(width)
        left_out, rare = self.left_out + log, self.rare / width
        self.left_out[:] = np.maximum(left_out[last], left_out[then]) - log
        self.rare[:] = np.minimum(rare[last], rare[then]) * width


@dataclass(frozen=True, eq=False)
class TiltedLetters:
    """The letters under the tilts of several alpha, and where sums of them lie.

    Attributes:
        index: which alpha each row is for, shape (k,).
        y: values less their mean, shape (k, m); 0 where the weight is.
        weight: tilted probabilities, shape (k, m).
        sent: the same times r1, shape (k, m).
        largest: the largest r1 of each row, shape (k,).
        level: frequencies that are left out have a modulus of ``e^-level`` at most, shape (k,).
        theta: the tilts, shape (k,).
        mean: tilted means of the values, shape (k,).
        low: lower ends of the windows, at most 0, shape (k,).
        high: upper ends of them, shape (k,).
        smooth: variance of the normal, shape (k,).
        log_scale: logarithm of the moment generating function of one letter, shape (k,).
        per_letter: relative error of a letter's weight, shape (k,).
        outside: tilted probability that the sum lies outside of its window, shape (k,).
        rare: with ``n rare`` times the profile, and
        rare_gain: with this, letters that are left out add no more to it, shape (k,) each.
        apart: letters that are added up by themselves.
    """

    index: NDArray[np.intp]
    y: Array
    weight: Array
    sent: Array
    largest: Array
    level: Array
    theta: Array
    mean: Array
    low: Array
    high: Array
    smooth: Array
    log_scale: Array
    per_letter: Array
    outside: Array
    rare: Array
    rare_gain: Array
    apart: LettersApart

    def __getitem__(self, rows: slice | NDArray[np.bool_] | NDArray[np.intp]) -> TiltedLetters:
        """Some of the rows."""
        values = {x.name: getattr(self, x.name) for x in fields(self)}
        return TiltedLetters(**{k: x[rows] for k, x in values.items()})

    def used(self) -> TiltedLetters:
        """The same without letters that no row has."""
        some = self.weight.any(axis=0)
        y, weight, sent = (x[:, some] for x in (self.y, self.weight, self.sent))
        return replace(self, y=y, weight=weight, sent=sent)

    @cached_property
    def step(self) -> Array:
        """Distance of frequencies."""
        return np.asarray(2.0 * math.pi / (self.high - self.low))

    @cached_property
    def last(self) -> Array:
        """Multiples of the step from where on the normal leaves nothing."""
        return np.asarray(np.ceil(_LAST * np.sqrt(2.0 * self.level / self.smooth) / self.step))

    @cached_property
    def size(self) -> Array:
        """Tilted mean of the values' distance from their mean, from above."""
        return np.asarray(np.sum(self.weight * np.abs(self.y), axis=1) * (1.0 + 1e-9))

    @cached_property
    def total_sent(self) -> Array:
        """Tilted mean of r1, from above."""
        return np.asarray(np.sum(self.sent, axis=1) * (1.0 + 1e-9))

    @property
    def rounding(self) -> float:
        """What sums of products of three waves less one are off, relative to their arguments."""
        letters = float(self.y.shape[1])
        return UNIT_ROUNDOFF * (9.0 * letters + 256.0 + 3.0 * WAVE_ERROR)

    def doubt(self, s: Array) -> Array:
        """What spectra less one are off at s, shape (k, j): waves, their sums, and the means."""
        own = self.rounding * self.size + 16.0 * UNIT_ROUNDOFF * np.abs(self.mean)
        return np.asarray(own[:, None] * s)

    def log_bound(self, modulus: Array, s: Array, users: int) -> Array:
        """Logarithms of bounds of the sums' spectra but for one letter, at such moduli."""
        most = np.minimum(modulus + self.doubt(s) + 8.0 * UNIT_ROUNDOFF, 1.0)
        return np.asarray((users - 1) * np.log(most) - 0.5 * s**2 * self.smooth[:, None])


def tilted_letters(
    ratios: tuple[Array, Array, Array],
    users: tuple[int, int],
    anchor: Array,
    width: Array,
    levels: Levels,
) -> Iterator[TiltedLetters]:
    """Tilt letters at several alpha, wherever a window is found.

    Args:
        ratios: ``(r0, r1, q)`` of the letters, shape (m,) each.
        users: least and largest number of messages.
        anchor: ``alpha - 1``, shape (k,).
        width: what the normal may add to the profile, relative to it and about, shape (k,).
        levels: what may lie outside, and which frequencies will be left out.

    Yields:
        Rows for some of the alpha, in order.
    """
    size = max(_AT_ONCE // max(ratios[2].size * _STEPS.size, 1), 1)
    for first in range(0, max(anchor.size, 1), size):
        some = slice(first, first + size)
        yield _rows(ratios, users, anchor[some], first, width[some], levels[some])


def _rows(
    ratios: tuple[Array, Array, Array],
    users: tuple[int, int],
    anchor: Array,
    first: int,
    width: Array,
    levels: Levels,
) -> TiltedLetters:
    (r0, r1, q), level = ratios, levels.left_out
    value = (r0 - r1) - anchor[:, None] * r1
    apart = letters_apart(ratios, value, users, levels.rare)
    near = value <= apart.cut[:, None]
    left_out = rare_letters(value, np.where(near, q, 0.0), users, _LOW * width, levels.rare)
    often = near & left_out.kept
    top = np.where(often, value, -math.inf).max(axis=1, initial=-math.inf)
    # no sum with a lower letter is positive, for any of the numbers: without it they are fewer
    kept = often & (value > -(1.0 + 1e-9) * users[1] * np.maximum(top, 0.0)[:, None])
    mass = np.where(kept, q, 0.0)
    value = np.where(kept, value, 0.0)
    theta = _saddles(value, mass, users[0], top)
    exponent = theta[:, None] * value
    shift = np.where(kept, exponent, -math.inf).max(axis=1, initial=-math.inf)
    weight = mass * np.exp(exponent - shift[:, None])
    # far less than roundings of all others; numbers this small take ten times as long
    weight[weight < _LEAST_WEIGHT] = 0.0
    total = weight.sum(axis=1)
    weight /= total[:, None]
    mean = np.sum(weight * value, axis=1)
    spread = np.sum(weight * (value - mean[:, None]) ** 2, axis=1)
    plain = np.sum(mass * value, axis=1)
    still = np.maximum(np.sum(mass * value**2, axis=1) - plain**2, 0.0)
    # a positive part that falls as e^(-theta x) grows by about theta^2 / 2 of the variance, one
    # around 0 by a share of it
    smooth = users[0] * np.minimum(spread, still)
    smooth *= width / (1.0 + theta**2 * smooth)
    centred = value - mean[:, None]
    low, high = _windows(centred, weight, users, theta, mean, spread, smooth, levels.outside)
    high = np.maximum(high, 2.0 / theta)
    # a narrower normal has too many frequencies
    reach = _LAST * np.sqrt(2.0 * level) / (2.0 * math.pi * _MOST_FREQUENCIES)
    least = 1.1 * (reach * (high - low)) ** 2
    if np.any((smooth > 0.0) & (smooth < least)):
        smooth = np.where(smooth > 0.0, np.maximum(smooth, least), smooth)
        low, high = _windows(centred, weight, users, theta, mean, spread, smooth, levels.outside)
        high = np.maximum(high, 2.0 / theta)
    log_scale = np.log(total) + shift
    size = np.where(weight > 0.0, np.abs(exponent), 0.0).max(axis=1, initial=0.0)
    rounded = 64.0 + min(q.size, _PAIRWISE)
    every = TiltedLetters(
        index=first + np.arange(anchor.size),
        y=np.where(weight > 0.0, centred, 0.0),
        weight=weight,
        sent=weight * r1,
        largest=np.where(weight > 0.0, r1, 0.0).max(axis=1, initial=0.0),
        level=level,
        theta=theta,
        mean=mean,
        low=low,
        high=high,
        smooth=smooth,
        log_scale=log_scale,
        per_letter=UNIT_ROUNDOFF * (rounded + 4.0 * size + 8.0 * np.abs(log_scale)),
        outside=2.0 * np.exp(-levels.outside),
        rare=left_out.rare,
        rare_gain=left_out.gain,
        apart=apart,
    )
    good = (theta > 0.0) & (theta < math.inf) & (smooth > 0.0) & (low <= 0.0)
    good &= (high - low < math.inf) & np.isfinite(log_scale) & (every.last < _MOST_FREQUENCIES)
    return every if good.all() else every[good]


def _saddles(value: Array, mass: Array, users: int, top: Array) -> Array:
    """Tilts at which sums have mean about 0, or a fifth of their deviation; nan if there is none.

    See `shuffle_accountant.lattice.tilting`; the same for rows.
    """
    total = mass.sum(axis=1)
    mean = np.sum(mass * value, axis=1) / total
    variance = np.sum(mass * (value - mean[:, None]) ** 2, axis=1) / total
    deviation = np.sqrt(users * variance)
    good = (top > 0.0) & (variance > 0.0)
    cap, theta = _LARGEST_EXPONENT / top, np.where(good, 0.0, math.nan)
    below = good & (mean < 0.0)
    theta[below] = _tilts(
        value[below], mass[below], np.zeros(top.size)[below], (-mean / variance)[below], cap[below]
    )
    wanted = _LEAST_TILT / deviation
    few = theta < wanted
    goal = _LEAST_TILT * deviation / users
    found = _tilts(value[few], mass[few], goal[few], wanted[few], cap[few])
    found = np.minimum(np.maximum(found, 1e-2 * wanted[few]), wanted[few])
    theta[few] = np.maximum(theta[few], found)
    return np.asarray(np.minimum(theta, cap))


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
    for i in range(60):
        mean, variance = moments(theta)
        low, high = np.where(mean < goal, theta, low), np.where(mean < goal, high, theta)
        step = (mean - goal) / variance
        newton = theta - step
        # where one letter takes over, Newton's steps go to and fro
        inside = (low < newton) & (newton < high) & (i < _NEWTON or i % 2 == 0)
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
    level: Array,
) -> tuple[Array, Array]:
    """Where T lies under the tilt but for e^-level on either side (Chernoff).

    The logarithm of a centred letter's moment generating function is not negative, so the bound for
    the largest number of messages holds for all.
    """
    steps = _STEPS[None, :] / np.sqrt(users[1] * spread)[:, None]
    moved = steps[:, :, None] * centred[:, None, :]
    growth = np.expm1(moved)
    # e^-x - 1 from e^x - 1, unless that is close to -1
    shrunk, far = -1.0 / (1.0 + 1.0 / growth), moved < -1.0
    shrunk[far] = np.expm1(-moved[far])
    grown = (theta[:, None] + steps) ** 2 * (0.5 * smooth)[:, None] + (level + 1e-3)[:, None]

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
