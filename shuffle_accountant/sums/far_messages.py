"""Rare messages whose value exceeds all that others can take away, summed in closed form.

Let S be the sum of n i.i.d. values ``v(Y_i)``, and let a message be *far* if its value is above a
cut f. With R the event that at least one message is far,

    E[S_+] = E[S_+; not R] + E[S; R] + E[S_-; R].

* The first term is the sum of the other messages, whose probabilities add up to less than 1.
* The second is linear. With mass Q of all messages, M of those that are not far, and for any
  function h of a message its sums ``h_far`` and ``h_rest`` of ``q h`` over both kinds,

      E[h(Y_1) + … + h(Y_n); R] = n (h_far Q^(n-1) + h_rest (Q^(n-1) - M^(n-1))).

  So R, joined to any event of the other messages, is an event whose two probabilities are known.
* The third is at most a small error: the far message adds f, and a negative part of a sum is at
  most the sum of the negative parts,

      E[S_-; R] <= n q_far ( E(f + A)_- + (n-1) low_- + (n-1)(n-2) q_low rest_- ),

  where A is the sum of n - 1 messages that are not extremely low, ``q_low`` and ``low_-`` are the
  probability and mean negative part of those that are, and ``rest_-`` is the mean negative part of
  all others; ``E(f + A)_- <= e^(-s f) (E e^(-s v))^(n-1) / (e s)`` for every s > 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.normal import normal_excess
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = ["FarMessages", "far_messages"]


@dataclass(frozen=True)
class _Settings:
    """Settings of the search for cuts, and error bounds of sums.

    Attributes:
        cuts: candidates for the cut, in standard deviations of the sum above its mean decrease.
        usual: where the scale of the sum of all messages finds no cut, that of messages expected at
            least this many times is tried.
        steps: exponents s of the bound of the negative part, in inverse standard deviations.
        sum_error: relative error of sums of ``q h``: masses, values, and at most 128 additions.
        mass_error: relative error of the total mass of all messages.
    """

    cuts: tuple[float, ...] = (5.0, 6.0, 7.0, 8.5, 10.0, 13.0, 17.0, 23.0, 30.0, 1e2, 1e4)
    usual: float = 0.05
    steps: tuple[float, ...] = tuple(np.geomspace(0.3, 30.0, 12).tolist())
    sum_error: float = 1024.0 * UNIT_ROUNDOFF
    mass_error: float = 512.0 * UNIT_ROUNDOFF


_SET = _Settings()


@dataclass(frozen=True, eq=False)
class FarMessages:
    """Sums in which at least one message is far, for several alpha; arrays of shape (k,).

    Attributes:
        cut: messages of a larger value are far; inf where none is.
        log_mass: logarithm of Q.
        chance: probability of a far message, relative to Q.
        gain: sum of ``q (r0 - r1)`` over far messages.
        sent: sum of ``q r1`` over them.
        rest_gain: sum of ``q (r0 - r1)`` over all others.
        rest_sent: sum of ``q r1`` over all others.
        rest_size: sum of ``q (r0 + r1)`` over all others.
        missed: upper bound of ``E[S_-; R] / n`` for every number of messages asked for.
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

    def __getitem__(self, rows: slice | NDArray[np.bool_] | NDArray[np.intp]) -> FarMessages:
        """The table of some alpha, given by a slice, mask or indices of rows."""
        return FarMessages(*(getattr(self, x.name)[rows] for x in fields(self)))

    @classmethod
    def joined(cls, parts: list[FarMessages]) -> FarMessages:
        """Concatenate the rows of several tables."""
        return cls(*(np.concatenate([getattr(p, x.name) for p in parts]) for x in fields(cls)))

    def probabilities(self, n: int) -> tuple[Array, Array, Array, Array]:
        """``P(R) - Q(R)`` and ``Q(R)`` among n messages, and bounds of their absolute errors."""
        power = np.exp((n - 1) * self.log_mass)
        some = -np.expm1((n - 1) * np.log1p(-self.chance))  # probability of another far message
        gain, sent = self.gain + some * self.rest_gain, self.sent + some * self.rest_sent
        size = (self.gain + self.sent) + some * self.rest_size
        each = self.gain + some * np.abs(self.rest_gain)
        off = 4.0 * _SET.sum_error * size + n * _SET.mass_error * each
        off_sent = 4.0 * _SET.sum_error * size + n * _SET.mass_error * sent
        return power * gain, power * sent, power * off, power * off_sent


def far_messages(
    r0: Array, r1: Array, q: Array, value: Array, users: tuple[int, int], share: Array
) -> FarMessages:
    """Choose the lowest cut at each alpha for which the negative part is negligible.

    Args:
        r0: likelihood ratios of the messages under X, shape (m,) or (k, m).
        r1: likelihood ratios of the messages under X'.
        q: the messages' probabilities among decoys.
        value: ``r0 - alpha r1`` at each alpha, shape (k, m).
        users: least and largest number of messages n.
        share: about how large the negative part may be, relative to the positive one, shape (k,).
    """
    n, rows = users[1], value.shape[0]
    mass = np.broadcast_to(q, value.shape)
    total = np.maximum(mass.sum(axis=1), 1e-300)  # no message at all
    cut, missed = np.full(rows, math.inf), np.zeros(rows)
    for least in (0.0, _SET.usual):
        usual = np.where(n * mass >= least, mass, 0.0)
        mean = np.sum(usual * value, axis=1)
        deviation = np.sqrt(n * np.maximum(np.sum(usual * value**2, axis=1) - mean**2, 0.0))
        deviation = np.maximum(deviation, 1e-300)
        drift = np.maximum(-n * mean, 0.0)
        possible = value.max(axis=1, initial=-math.inf) > drift + _SET.cuts[0] * deviation
        some = np.flatnonzero(possible & (cut == math.inf))
        if some.size:
            # moments of all messages also give an approximate least value of the positive part
            normal = deviation * normal_excess(-n * mean / deviation) * (least == 0.0)
            scale = total[some], deviation[some], drift[some], normal[some]
            lower, lost = _cuts(mass[some], value[some], users, scale, share[some])
            cut[some], missed[some] = lower, lost
    far = value > cut[:, None]
    mine, others = np.where(far, mass, 0.0), np.where(far, 0.0, mass)
    r0, r1 = np.broadcast_to(r0, value.shape), np.broadcast_to(r1, value.shape)
    return FarMessages(
        cut=cut,
        log_mass=np.log(total),
        chance=mine.sum(axis=1) / total,
        gain=np.sum(mine * (r0 - r1), axis=1),
        sent=np.sum(mine * r1, axis=1),
        rest_gain=np.sum(others * (r0 - r1), axis=1),
        rest_sent=np.sum(others * r1, axis=1),
        rest_size=np.sum(others * (r0 + r1), axis=1),
        missed=missed,
    )


def _cuts(
    mass: Array,
    value: Array,
    users: tuple[int, int],
    moments: tuple[Array, Array, Array, Array],
    share: Array,
) -> tuple[Array, Array]:
    """Cuts, inf where there is none, and bounds of the negative part missed, shape (k,) each."""
    (total, deviation, drift, usual), n = moments, users[1]
    cut, missed = np.full(total.shape, math.inf), np.zeros(total.shape)
    log_power, below = _others(value, mass, users, deviation, -(drift + _SET.cuts[0] * deviation))
    steps = np.array(_SET.steps)
    for reach in reversed(_SET.cuts):
        tried = drift + reach * deviation
        far = value > tried[:, None]
        chance = np.sum(np.where(far, mass, 0.0), axis=1)
        gain = np.sum(np.where(far, mass * value, 0.0), axis=1)
        bound = np.min(
            log_power - steps * (tried / deviation)[:, None] - np.log(math.e * steps), axis=1
        )
        found = chance * (np.exp(bound) * deviation + below) * (1.0 + 1e-9)
        good = (chance > 0.0) & (chance < 0.5 * total)
        good &= n * found <= share * np.maximum(usual, n * gain)
        cut, missed = np.where(good, tried, cut), np.where(good, found, missed)
    return cut, missed


def _others(
    value: Array, mass: Array, users: tuple[int, int], deviation: Array, lowest: Array
) -> tuple[Array, Array]:
    """Bounds of what the messages other than a far one take away from a sum.

    Returns:
        ``log E[e^(-s v)]^(n-1)`` without extremely low messages at each step s, shape (k, steps);
        and what the extremely low ones take away, shape (k,).
    """
    low = value < lowest[:, None]
    chance = np.sum(np.where(low, mass, 0.0), axis=1)
    kept, negative = np.where(low, 0.0, mass), np.maximum(-value, 0.0)
    total = mass.sum(axis=1)
    log_power = np.empty((deviation.size, len(_SET.steps)))
    for i, step in enumerate(_SET.steps):
        with np.errstate(over="ignore"):
            grown = np.expm1(np.where(low, 0.0, -value * (step / deviation)[:, None]))
        change, size = np.sum(kept * grown, axis=1), np.sum(kept * np.abs(grown), axis=1)
        less = change - chance + (total - 1.0)
        least = np.maximum(less + _SET.sum_error * (size + chance) + _SET.mass_error, -0.99)
        log = np.log1p(least)
        log_power[:, i] = np.where(log > 0.0, users[1] - 1.0, users[0] - 1.0) * log
    others = users[1] - 1.0
    below = others * np.sum(np.where(low, mass * negative, 0.0), axis=1)
    below += others * max(others - 1.0, 0.0) * chance * np.sum(kept * negative, axis=1)
    return log_power, below * np.maximum(np.exp(others * np.log(total)), 1.0)
