"""Profiles of sums of i.i.d. letters for a whole range of their number, by a few frequencies each.

With ``S0 = sum r0(Y_i)``, ``S1 = sum r1(Y_i)`` and ``L = S0 - alpha S1`` over n i.i.d. messages the
profile is ``n H_alpha = E L_+``. Let Z be normal with mean 0 and variance v, independent of Y, and
``T = L + Z``. Then

* Upper. ``E L_+ <= E T_+`` (Jensen).
* Lower. T is a randomised function of the messages, so for the event A = {0 < T < B}
  ``n H_alpha >= E[L; A] = E[T; A] - E[Z; A]``, and ``E[Z; A] <= v p_T(0)`` with the density of T
  (Stein). With ``E[S1; A]`` this is a point ``(Q(A), P(A))`` of the error region, valid for every
  alpha. Where letters are added up by themselves, A holds all sums with one of these, too.

All of them are integrals over a vertical line ``z = theta + i s`` (Laplace inversion): with M the
moment generating function of one letter's value,

    E T_+ = (1/2 pi) int M(z)^n e^(v z^2/2) F(z) ds,   F(z) = int_0^B t e^(-z t) dt

and the like. A trapezoidal sum of step ``2 pi / W`` is exact for the law of T modulo W, which is
that of T but for what lies outside a window of that length. Numbers of messages enter by a power
alone, so that what is tabulated serves all of a range; the normal makes high frequencies vanish,
however the letters lie, so that there is no lattice. Of theta any value > 0 is valid; the saddle
point keeps relative accuracy, at any depth of the tail.

Errors, all of them part of both ends:

* Window. The tilted probability that T leaves it is next to nothing (Chernoff, for the largest
  number of messages); ``t e^(-theta t) <= 1/(e theta)``.
* Rare letters that are left out: `shuffle_accountant.lattice.rare_letters`; what is missed of
  those that are added up by themselves: `shuffle_accountant.lattice.letters_apart`.
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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.letters_apart import LettersApart
from shuffle_accountant.lattice.power_sums import MANY_NUMBERS, Interpolation, PowerSums
from shuffle_accountant.lattice.spectra import Spectra, spectra
from shuffle_accountant.lattice.tilted_letters import Levels, tilted_letters
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = ["Ends", "Inversion", "inversion"]

# Frequencies whose modulus is smaller than this, relative to what the normal may add, are left out;
# what lies outside of windows, by its logarithm; and rare letters that have less than that part of
# it.
_LEFT_OUT, _OUTSIDE, _RARE = 1e-3, 22.0, 0.1
# Where they add more than so many parts of it, as much less is left out, at most by that factor,
# and so often; unless bounds are no wider than so many parts.
_POOR, _LEAST, _MOST_TIMES, _WIDE = 0.5, 1e12, 2, 3.0
# One of so many alpha is settled first, in more attempts; the others start from what it has left
# out.
_PILOT, _MOST_TIMES_FIRST = 16, 6
# What tabulating a frequency costs, in frequencies: there are letters, and others are looked at.
_TABULATED = 30.0
# alpha moves by this much for the rounding of ratios.
_RATIO_ERROR = 64 * UNIT_ROUNDOFF


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


class Inversion:
    """Bounds at some alpha for every number of messages in a range; see `inversion`."""

    def __init__(self, excess: Array, users: tuple[int, int], found: Spectra) -> None:
        self.users, self._excess, self._found = users, excess, found
        self._powers = PowerSums(found)
        self._apart = LettersApart(*found.apart)

    @classmethod
    def joined(cls, tables: Sequence[Inversion]) -> Inversion:
        """Tables for the same numbers of messages, the alpha of one behind those of the other."""
        firsts = np.cumsum([0, *(table._excess.size for table in tables[:-1])])
        found = [
            replace(table._found, index=table._found.index + first)
            for table, first in zip(tables, firsts.tolist(), strict=True)
        ]
        excess = np.concatenate([table._excess for table in tables])
        return cls(excess, tables[0].users, Spectra.joined(found))

    def cost(self, numbers: int) -> float:
        """What each of so many numbers of messages costs for each alpha, in frequencies."""
        few = self._interpolation if numbers >= MANY_NUMBERS else None
        plain = self._powers.frequencies
        each = plain if few is None else few.cost + few.place.size * plain / numbers
        return each + _TABULATED * plain / numbers

    def ends(self, users: int, *, many: bool = False) -> Ends:
        """The bounds for that many messages, a number in the range.

        Args:
            users: the number.
            many: whether so many numbers are asked for that a few are made to tell all.
        """
        if not self.users[0] <= users <= self.users[1]:
            raise ValueError(f"users must lie in {self.users}, got {users!r}")
        result = np.full((4, self._excess.size), math.nan)
        if self._found.index.size:
            with np.errstate(over="ignore", invalid="ignore"):
                found = self._bounds(users, self._excess[self._found.index], many)
            good = np.isfinite(found).all(axis=0)
            found[:, ~good] = math.nan
            result[:, self._found.index] = found
        return Ends(*result)

    def _sums(self, n: int, many: bool = False) -> tuple[Array, Array]:
        """The three integrals, and bounds of their errors, shape (3, lines) each."""
        few = self._interpolation if many else None
        value, error = (few or self._powers).at(n)
        value[2] *= n
        error[2] *= n
        return value, error + self._found.dropped

    @cached_property
    def _interpolation(self) -> Interpolation | None:
        """The integrals of all numbers of messages from those of a few."""
        return self._powers.interpolated(self.users)

    def left_out(self) -> Array:
        """What was left out may add, relative to what is there, by row, shape (3, rows).

        Of windows, frequencies, and rare letters, for the number of messages where it is most.
        """
        return np.asarray(np.max([self._left_out(n) for n in {*self.users}], axis=0))

    def _left_out(self, n: int) -> Array:
        found = self._found
        if not found.index.size:
            return np.zeros((3, 0))
        value = self._sums(n)[0][0]
        log_scale = n * found.log_scale + found.log_smooth
        gain, sent, *_ = self._apart.sums(n)
        rare = n * (found.rare * value + found.rare_gain * np.exp(-log_scale))
        anchor = _anchor(self._excess[found.index])
        value = value + n * np.maximum(gain - anchor * sent, 0.0) * np.exp(-log_scale)
        # what S1 is off moves the lower end
        outside = self._outside + anchor * (n * found.sent * found.outside)
        part = np.stack([outside, found.dropped[0] + anchor * found.dropped[2], rare])
        part /= value
        return np.asarray(np.where((part >= 0.0) & (part < math.inf), part, math.inf))

    @cached_property
    def widths(self) -> Array:
        """How far bounds are apart, relative to the upper one; inf without any.

        Of the least and the most messages the larger one, at each alpha.
        """
        found = [self.ends(n) for n in {*self.users}]
        widths = [(ends.upper - ends.lower) / ends.upper for ends in found]
        return np.asarray(np.nan_to_num(np.max(widths, axis=0), nan=math.inf))

    @property
    def _outside(self) -> Array:
        """What may lie outside of windows."""
        return np.asarray(self._found.outside / (math.e * self._found.theta))

    def _bounds(self, n: int, excess: Array, many: bool) -> Array:
        value, error = self._sums(n, many)
        found = self._found
        log_scale = n * found.log_scale + found.log_smooth
        relative = 1.01 * n * found.per_letter + UNIT_ROUNDOFF * (256.0 + 8.0 * np.abs(log_scale))
        relative = np.where(relative < 0.1, relative, math.nan)
        scale = np.exp(log_scale) / n
        most = self._outside
        above = (value[0] + error[0] + most) * (1.0 + relative)
        upper = scale * above * (1.0 + 128 * UNIT_ROUNDOFF) + 1e-305
        # messages that are left out
        upper = (upper + found.rare_gain) * (1.0 + 16 * UNIT_ROUNDOFF)
        upper /= np.where(n * found.rare < 0.5, 1.0 - 1.01 * n * found.rare, math.nan)
        # letters that are added up by themselves
        anchor = _anchor(excess)
        more, sent, off, off_sent = self._apart.sums(n)
        apart = more - anchor * sent + off + (1.0 + excess) * off_sent
        upper = (upper + np.maximum(apart, 0.0) + self._apart.missed) * (1.0 + 16 * UNIT_ROUNDOFF)
        # the event {0 < T < B}
        sum_low = (value[0] - error[0] - most) * (1.0 - relative)
        noise = found.variance * (value[1] + error[1]) * (1.0 + relative)
        gain = sum_low - noise
        high = np.maximum(value[2] + error[2], 0.0) * (1.0 + relative)
        low = (value[2] - error[2] - n * found.sent * found.outside) * (1.0 - relative)
        low = np.maximum(low, 0.0)
        # ratios, and a few roundings here
        slack = 4.0 * _RATIO_ERROR * (np.abs(sum_low) + noise + 2.0 * (1.0 + excess) * high)
        d = scale * (gain + np.where(anchor > 0.0, anchor * low, anchor * high) - slack)
        q = scale * high * (1.0 + 64 * UNIT_ROUNDOFF) + 1e-305
        # and with them all events of the others
        d, q = d + more - off, (q + sent + off_sent) * (1.0 + 4 * UNIT_ROUNDOFF)
        lower = (d - excess * q) * (1.0 - 16 * UNIT_ROUNDOFF) - 16 * UNIT_ROUNDOFF * excess * q
        return np.stack([upper, np.maximum(lower, 0.0), q, d])


def _anchor(excess: Array) -> Array:
    """A little below, so that rounding leaves what was asked for above the anchor."""
    return excess - 4.0 * _RATIO_ERROR * (1.0 + excess)


def inversion(
    ratios: tuple[Array, Array, Array], users: tuple[int, int], excess: Array, width: float | Array
) -> Inversion:
    """Tabulate what bounds the profile for all numbers of messages in a range.

    Args:
        ratios: ``(r0, r1, q)`` of the letters, shape (m,) each.
        users: least and largest number of messages.
        excess: ``alpha - 1 >= 0``, shape (k,).
        width: what smoothing may add to the profile, relative to it and about, shape (k,) or one
            for all.
    """
    tables = _Tables(ratios, users, excess, np.broadcast_to(width, excess.shape))
    levels = tables.usual()
    every = np.arange(excess.size)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if excess.size < 2 * _PILOT:
            return Inversion(excess, users, tables.settled(every, levels, _MOST_TIMES))
        first = every % _PILOT == 0
        found = tables.settled(every[first], levels, _MOST_TIMES_FIRST)
        levels.spread(first, tables.width)
        rest = tables.settled(every[~first], levels, _MOST_TIMES)
    return Inversion(excess, users, Spectra.joined([found, rest]))


@dataclass(frozen=True, eq=False)
class _Tables:
    """What is tabulated, as the arguments of `inversion`."""

    ratios: tuple[Array, Array, Array]
    users: tuple[int, int]
    excess: Array
    width: Array

    def usual(self) -> Levels:
        """What is left out first, at each alpha."""
        return Levels(
            outside=np.full(self.excess.size, _OUTSIDE),
            left_out=-np.log(_LEFT_OUT * self.width),
            rare=_RARE * self.width,
        )

    def at(self, alpha: NDArray[np.intp], levels: Levels) -> Spectra:
        """The frequencies of some alpha."""
        some = levels[alpha]
        anchor, width = _anchor(self.excess[alpha]), self.width[alpha]
        found = spectra(tilted_letters(self.ratios, self.users, anchor, width, some), self.users)
        return replace(found, index=alpha[found.index])

    def settled(self, alpha: NDArray[np.intp], levels: Levels, times: int) -> Spectra:
        """The same with less left out wherever that is too much; levels are kept."""
        found, share = self.at(alpha, levels), np.ones(self.excess.size)
        for _ in range(times):
            table = Inversion(self.excess, self.users, found)
            width = self.width[found.index]
            over = table.left_out() / (_POOR * width)
            poor = (over.sum(axis=0) > 1.0) & (table.widths[found.index] > _WIDE * width)
            if not poor.any():
                break
            again = found.index[poor]
            tried = levels.less(again, np.clip(3.0 * over[:, poor], 1.0, _LEAST) ** share[again])
            more = self.at(again, tried)
            then = Inversion(self.excess, self.users, more)
            better = then.widths[again] < table.widths[again]
            closer = again[better]
            levels.put(closer, tried[closer])
            # less of a change, where that was too much
            share[again[~better]] *= 0.5
            found = Spectra.joined(
                [found.only(~np.isin(found.index, closer)), more.only(np.isin(more.index, closer))]
            )
        return found
