"""Messages whose value outweighs all smaller ones, one after the other, summed in closed form.

Let S be the sum of n i.i.d. values ``v(Y_i)``. Messages are taken in order of ``|v|``, the largest
first, in groups of one sign. With ``R_g`` the event that a message of group g is sent and none of
an earlier one,

    E[S_+] = E[S_+; no message of the groups] + sum over groups of E[S_+; R_g].

* Groups of positive value. ``E[S_+; R_g] = E[S; R_g] + E[S_-; R_g]``, the first of which is linear:
  with mass Q of the group and all later messages, M of the later ones, and for any function h of a
  message its sums ``h_group`` and ``h_rest`` of ``q h`` over both,

      E[h(Y_1) + … + h(Y_n); R_g] = n (h_group Q^(n-1) + h_rest (Q^(n-1) - M^(n-1))).

  So the union of these ``R_g``, joined to any event of the other messages, is an event whose two
  probabilities are known. The second is at most a small error: one message adds at least b, and
  what n - 1 others of the group or later take away is more than that hardly ever,

      E[S_-; R_g] <= n q_group e^(-s b) (E e^(-s v))^(n-1) / (e s)   for every s > 0.

* Groups of negative value: ``E[S_+; R_g]`` is such an error itself, with the signs exchanged.

The groups are the first ones whose errors are negligible together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.probabilities import normal_excess
from shuffle_accountant.numerics.rounding import LIMITS, UNIT_ROUNDOFF, Array


@dataclass(frozen=True)
class _Settings:
    """Settings of the search for far messages, and error bounds of sums.

    Attributes:
        groups: messages of a larger space are taken together, those of similar size and one sign.
        steps: exponents s of the bounds of errors, relative to ``1 / b``.
        sum_error: relative error of sums of ``q h``: masses, values, and at most 128 additions.
        mass_error: relative error of the mass of a group and all later messages.
    """

    groups: int = 48
    steps: tuple[float, ...] = (1.5, 3.0, 6.0, 9.0, 13.0, 18.0, 25.0, 35.0, 50.0, 90.0, 2e2, 6e2)
    sum_error: float = 1024.0 * UNIT_ROUNDOFF
    mass_error: float = 512.0 * UNIT_ROUNDOFF


_SET = _Settings()


@dataclass(frozen=True, eq=False)
class FarMessages:
    """Sums in which at least one message is far, for several alpha.

    Attributes:
        far: mask of the far messages, shape (k, m).
        log_mass: logarithm of Q for each far group of positive value, else -inf, shape (k, g).
        chance: probability of such a group, relative to Q, shape (k, g).
        gain: sum of ``q (r0 - r1)`` over the group, shape (k, g).
        sent: sum of ``q r1`` over it.
        rest_gain: sum of ``q (r0 - r1)`` over all later messages.
        rest_sent: sum of ``q r1`` over them.
        rest_size: sum of ``q (r0 + r1)`` over them.
        missed: upper bound of all errors divided by n, for every number of messages asked for,
            shape (k,).
    """

    far: NDArray[np.bool_]
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

    def probabilities(self, n: int) -> tuple[Array, Array, Array, Array]:
        """``P(R) - Q(R)`` and ``Q(R)`` among n messages, and bounds of their absolute errors.

        R is the union of the events ``R_g`` of positive value; arrays of shape (k,).
        """
        power = np.exp((n - 1) * self.log_mass) if n > 1 else (self.log_mass > -math.inf) * 1.0
        some = -np.expm1((n - 1) * np.log1p(-self.chance))  # another message of the group
        gain, sent = self.gain + some * self.rest_gain, self.sent + some * self.rest_sent
        size = (self.gain + self.sent) + some * self.rest_size
        each = self.gain + some * np.abs(self.rest_gain)
        off = 4.0 * _SET.sum_error * size + n * _SET.mass_error * each
        off_sent = (4.0 * _SET.sum_error + n * _SET.mass_error) * sent  # no term is negative
        found = [np.sum(power * x, axis=1) for x in (gain, sent, off, off_sent)]
        error = UNIT_ROUNDOFF * (self.log_mass.shape[1] + 8.0)
        size = np.sum(power * np.abs(gain), axis=1)
        return found[0], found[1], found[2] + error * size, found[3] + error * found[1]


def far_messages(
    r0: Array, r1: Array, q: Array, value: Array, users: tuple[int, int], share: Array
) -> FarMessages:
    """Find the far messages of each alpha: as many groups as have negligible errors together.

    Args:
        r0: likelihood ratios of the messages under X, shape (m,) or (k, m).
        r1: likelihood ratios of the messages under X'.
        q: the messages' probabilities among decoys.
        value: ``r0 - alpha r1`` at each alpha, shape (k, m).
        users: least and largest number of messages n.
        share: about how large the errors may be, relative to the profile, shape (k,).
    """
    mass = np.broadcast_to(q, value.shape)
    groups = _Groups.of(mass, value)
    error = np.cumsum(groups.errors(users), axis=1)
    last = np.sum(error <= (share * groups.about(users[1]))[:, None], axis=1)
    taken = np.arange(error.shape[1]) < last[:, None]
    kept = taken & groups.positive
    gain, sent, both = (groups.summed(mass * x) for x in (r0 - r1, r1, r0 + r1))
    missed = np.where(last > 0, np.take_along_axis(error, np.maximum(last - 1, 0)[:, None], 1).T, 0)
    return FarMessages(
        far=groups.group < last[:, None],
        log_mass=np.where(kept, np.log(np.where(kept, groups.later, 1.0)), -math.inf),
        chance=np.where(kept, groups.chance, 0.0),
        gain=np.where(kept, gain, 0.0),
        sent=np.where(kept, sent, 0.0),
        rest_gain=np.where(kept, _after(gain), 0.0),
        rest_sent=np.where(kept, _after(sent), 0.0),
        rest_size=np.where(kept, _after(both), 0.0),
        missed=missed[0] * (1.0 + 1e-9),
    )


def _after(x: Array) -> Array:
    """Sums over all later groups, shape (k, g)."""
    found = np.zeros(x.shape)
    found[:, :-1] = np.cumsum(x[:, :0:-1], axis=1)[:, ::-1]
    return found


@dataclass(frozen=True, eq=False)
class _Groups:
    """Messages in groups of one sign, in the order of their size, for several alpha.

    Attributes:
        group: each message's group, shape (k, m).
        positive: whether the group's values are positive, shape (k, g).
        least: smallest size of its values, shape (k, g).
        ends: smallest and largest value of the group, shape (2, k, g).
        mass: probability, shape (k, g).
        gain: sum of ``q v``, shape (k, g).
        square: sum of ``q v^2``, shape (k, g).
    """

    group: NDArray[np.intp]
    positive: NDArray[np.bool_]
    least: Array
    ends: Array
    mass: Array
    gain: Array
    square: Array

    @classmethod
    def of(cls, mass: Array, value: Array) -> _Groups:
        """The groups: each message by itself, or those of neighbouring ranks and the same sign."""
        rows, messages = value.shape
        size = np.where(mass > 0.0, np.abs(value), 0.0)
        order = np.argsort(-size, axis=1, kind="stable")
        rank = np.empty(order.shape, dtype=np.intp)
        np.put_along_axis(rank, order, np.arange(messages)[None, :], axis=1)
        size = np.take_along_axis(size, order, axis=1)
        together = -(-messages // _SET.groups)
        if together == 1:
            group, positive = rank, np.take_along_axis(value, order, axis=1) > 0.0
            least, most = size, size
        else:  # positive ones first: next to them, negative ones of their size are seldom sent
            first = np.arange(0, messages, together)
            group = 2 * (rank // together) + (value <= 0.0)
            positive = np.broadcast_to(np.arange(2 * first.size) % 2 == 0, (rows, 2 * first.size))
            least = np.repeat(size[:, np.minimum(first + together, messages) - 1], 2, axis=1)
            most = np.repeat(size[:, first], 2, axis=1)
        ends = np.where(positive, [least, most], [-most, -least])
        found = cls(group, positive, least, ends, *np.zeros((3, 1, 1)))
        sums = [found.summed(x) for x in (mass, mass * value, mass * value**2)]
        return cls(group, positive, least, ends, *sums)

    def summed(self, x: Array) -> Array:
        """Sums over each group of numbers of messages, shape (k, m), as an array (k, g)."""
        rows, groups = self.positive.shape
        place = self.group + groups * np.arange(rows)[:, None]
        found = np.bincount(place.ravel(), x.ravel(), rows * groups).reshape(rows, groups)
        return np.asarray(found, dtype=np.float64)

    @property
    def later(self) -> Array:
        """Q, the mass of each group and of all later ones, shape (k, g)."""
        return np.asarray(np.cumsum(self.mass[:, ::-1], axis=1)[:, ::-1])

    @property
    def chance(self) -> Array:
        """Probability of each group, relative to Q, shape (k, g)."""
        return np.asarray(np.minimum(self.mass / np.maximum(self.later, 1e-300), 1.0 - 2.0**-53))

    def about(self, n: int) -> Array:
        """About the positive part of the sum of n messages, over n, shape (k,)."""
        some = -np.expm1((n - 1) * np.log1p(-self.chance))
        power = np.exp((n - 1) * np.log(self.later))
        sure = np.where(self.positive, power * (self.gain + some * _after(self.gain)), 0.0)
        sure = np.cumsum(sure, axis=1)
        # as if the others were normal, which is too much if some of them are far
        spread = np.sqrt(np.maximum(_after(self.square) / n, 1e-300))
        mean = _after(self.gain)
        usual = np.exp(n * np.log(self.later - self.mass)) * spread * normal_excess(-mean / spread)
        usual = np.where(np.isnan(usual), 0.0, usual)
        return np.asarray(np.maximum(sure.max(axis=1), (sure + usual).min(axis=1)))

    def errors(self, users: tuple[int, int]) -> Array:
        """Bounds of what each group may add to the errors, over n, shape (k, g); inf if unknown."""
        rows, groups = self.mass.shape
        found = np.full((rows, groups), math.inf)
        # no smaller messages' sum is as large, but rarely: else nothing is gained by trying
        apart = self.least > np.sqrt(users[1] * _after(self.square))
        tried = int(np.sum(np.logical_and.accumulate(apart, axis=1), axis=1).max(initial=0))
        size = max(LIMITS.at_once // (tried * groups + 1), 1)
        for first in range(0, rows if tried else 0, size):
            some = slice(first, first + size)
            found[some, :tried] = self._errors(some, tried, users)
        return np.where(self.mass == 0.0, 0.0, np.where(np.isnan(found), math.inf, found))

    def _errors(self, rows: slice, tried: int, users: tuple[int, int]) -> Array:
        mass, (low, high) = self.mass[rows, None, :], self.ends[:, rows, None, :]
        mean = self.gain[rows, None, :] / np.maximum(mass, 1e-300)
        share = np.where(high > low, np.clip((mean - low) / (high - low), 0.0, 1.0), 0.0)
        least = self.least[rows, :tried, None]
        sign = np.where(self.positive[rows, :tried, None], -1.0, 1.0)
        counted = np.arange(self.mass.shape[1]) >= np.arange(tried)[:, None]
        before = np.cumsum(self.mass[rows], axis=1)[:, :tried] - self.mass[rows, :tried]
        lost = self.mass[rows].sum(axis=1)[:, None] - 1.0
        best = np.full(before.shape, math.inf)
        for step in _SET.steps:
            turn = sign * (step / least)
            # an exponential is convex: below its chord between the ends of a group
            grown = (1.0 - share) * np.expm1(turn * low) + share * np.expm1(turn * high)
            grown = np.where(counted & (mass > 0.0), mass * grown, 0.0)
            size = np.abs(grown).sum(axis=2) + before
            less = grown.sum(axis=2) - before + lost + _SET.sum_error * size + _SET.mass_error
            log = np.log1p(np.maximum(less, -0.99))
            power = np.where(log > 0.0, users[1] - 1.0, users[0] - 1.0) * log
            power += 1e-9 * np.abs(power)
            best = np.fmin(best, np.exp(power - step) / (math.e * step))
        return np.asarray(best * self.mass[rows, :tried] * self.least[rows, :tried] * (1.0 + 1e-6))
