"""Letters whose value is further above 0 than all others together fall, added up by themselves.

Windows of sums that hold such letters are long, however rare they are. With L the sum of n i.i.d.
values, R the event that one of them at least is above a cut f, Q the mass of a value's law (1, but
for what letters leave out), and M that of values up to f,

    E L_+ = E[L_+; not R] + E[L; R] + E[L_-; R].

The first term is that of the other letters, whose masses add up to M. A sum over letters that comes
with R is linear: for any h,

    E[h(Y_1) + … + h(Y_n); R] = n (h_far Q^(n - 1) + h_rest (Q^(n - 1) - M^(n - 1))),

h_far and h_rest the sums of ``q h`` over letters above the cut and all others. So R with any event
of the others is an event whose two probabilities are known. The last term is little: one value is
above f, and a negative part of a sum is no more than the sum of those of its parts, so

    E[L_-; R] <= n Q_far (E(f + A)_- + (n - 1) low_- + (n - 1) (n - 2) Q_low rest_-),

A the sum of n - 1 letters that are not far below 0, Q_low and low_- the probability and the
negative part of those that are, and ``E(f + A)_- <= e^(-s f) (E e^(-s Y))^(n - 1) / (e s)`` for
every s > 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.normal import normal_excess
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = ["LettersApart", "letters_apart"]

# Cuts that are tried, in deviations of the sum above what it falls by on average.
_CUTS = (5.0, 6.0, 7.0, 8.5, 10.0, 13.0, 17.0, 23.0, 30.0)
# Exponents of bounds, in inverse deviations of the sum.
_STEPS = np.geomspace(0.3, 30.0, 12)
# More than masses, values, and their sums are off, relative to the sizes of what is added up; no
# sum by NumPy rounds its terms more often than 128 times.
_ERROR = 1024.0 * UNIT_ROUNDOFF
# The same of all masses together.
_MASS_ERROR = 512.0 * UNIT_ROUNDOFF


@dataclass(frozen=True, eq=False)
class LettersApart:
    """Sums with at least one letter above a cut, by row; arrays of shape (k,).

    Attributes:
        cut: values above this are far; inf where none is.
        log_mass: logarithm of Q.
        chance: probability of a far letter, relative to Q.
        gain: sum of ``q (r0 - r1)`` over far letters.
        sent: sum of ``q r1`` over them.
        rest_gain: the same as ``gain`` over all other letters.
        rest_sent: the same as ``sent`` over them.
        rest_size: sum of ``q (r0 + r1)`` over them.
        missed: bound of ``E[L_-; R] / n``, for all numbers of messages.
    """

    cut: Array
    log_mass: Array
    chance: Array
    gain: Array
    sent: Array
    rest_gain: Array
    rest_sent: Array
    rest_size: Array
    missed: Array

    def __getitem__(self, rows: slice | NDArray[np.bool_] | NDArray[np.intp]) -> LettersApart:
        """Some of the rows."""
        return LettersApart(*(getattr(self, x.name)[rows] for x in fields(self)))

    def sums(self, n: int) -> tuple[Array, Array, Array, Array]:
        """``P(R) - Q(R)`` and ``Q(R)`` among n messages, and bounds of what these are off."""
        power = np.exp((n - 1) * self.log_mass)
        # a share's relative error is no smaller than that of the probability of at least one
        some = -np.expm1((n - 1) * np.log1p(-self.chance))
        gain, sent = self.gain + some * self.rest_gain, self.sent + some * self.rest_sent
        size = (self.gain + self.sent) + some * self.rest_size
        # masses are off once per message, too
        each = self.gain + some * np.abs(self.rest_gain)
        off = 4.0 * _ERROR * size + n * _MASS_ERROR * each
        off_sent = 4.0 * _ERROR * size + n * _MASS_ERROR * sent
        return power * gain, power * sent, power * off, power * off_sent


def letters_apart(
    ratios: tuple[Array, Array, Array],
    value: Array,
    users: tuple[int, int],
    share: Array,
) -> LettersApart:
    """Cut off letters wherever what is missed by it is next to nothing.

    Args:
        ratios: ``(r0, r1, q)`` of the letters, shape (m,) each.
        value: their values at each alpha, shape (k, m).
        users: least and largest number of messages.
        share: of the positive part what is missed may be, about, shape (k,).
    """
    (r0, r1, q), n = ratios, users[1]
    rows = value.shape[0]
    mean = value @ q
    deviation = np.sqrt(n * np.maximum(value**2 @ q - mean**2, 0.0))
    drift = np.maximum(-n * mean, 0.0)
    cut, missed = np.full(rows, math.inf), np.zeros(rows)
    lowest = -(drift + _CUTS[0] * deviation)
    log_power, below = _others(value, q, users, deviation, lowest)
    total = float(q.sum())
    usual = deviation * normal_excess(-n * mean / deviation)
    for reach in reversed(_CUTS):
        tried = drift + reach * deviation
        far = value > tried[:, None]
        chance, gain = far @ q, np.where(far, value, 0.0) @ q
        bound = np.min(
            log_power - _STEPS * (tried / deviation)[:, None] - np.log(math.e * _STEPS), axis=1
        )
        found = chance * (np.exp(bound) * deviation + below) * (1.0 + 1e-9)
        good = (chance > 0.0) & (chance < 0.5 * total)
        good &= n * found <= share * np.maximum(usual, n * gain)
        cut, missed = np.where(good, tried, cut), np.where(good, found, missed)
    far = value > cut[:, None]
    mine, others = np.where(far, q, 0.0), np.where(far, 0.0, q)
    return LettersApart(
        cut=cut,
        log_mass=np.full(rows, math.log(total)),
        chance=mine.sum(axis=1) / total,
        gain=mine @ (r0 - r1),
        sent=mine @ r1,
        rest_gain=others @ (r0 - r1),
        rest_sent=others @ r1,
        rest_size=others @ (r0 + r1),
        missed=missed,
    )


def _others(
    value: Array, q: Array, users: tuple[int, int], deviation: Array, lowest: Array
) -> tuple[Array, Array]:
    """What other letters take away at most, but for a cut.

    Returns:
        The logarithm of the n - 1st power of the moment generating function, without letters below
        the lowest value, at each step, shape (k, steps); and what those below take away, shape
        (k,).
    """
    low = value < lowest[:, None]
    chance = low @ q
    kept, negative = np.where(low, 0.0, q), np.maximum(-value, 0.0)
    log_power = np.empty((deviation.size, _STEPS.size))
    for i, step in enumerate(_STEPS.tolist()):
        grown = np.expm1(np.where(low, 0.0, -value * (step / deviation)[:, None]))
        change, size = np.sum(kept * grown, axis=1), np.sum(kept * np.abs(grown), axis=1)
        less = change - chance + (float(q.sum()) - 1.0)
        log = np.log1p(np.maximum(less + _ERROR * (size + chance) + _MASS_ERROR, -0.99))
        log_power[:, i] = np.where(log > 0.0, users[1] - 1.0, users[0] - 1.0) * log
    others = users[1] - 1.0
    below = others * (np.where(low, negative, 0.0) @ q)
    below += others * max(others - 1.0, 0.0) * chance * np.sum(kept * negative, axis=1)
    return log_power, below * max(math.exp(others * math.log(float(q.sum()))), 1.0)
