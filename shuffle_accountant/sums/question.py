"""Before any node: far messages, tilts, and the histograms that are listed.

A sum of n messages is split three ways. Sums with a far message are known in closed form
(`shuffle_accountant.sums.far_messages`). Of all others, histograms nearly all of whose messages are
the commonest one are listed (`shuffle_accountant.sums.lists`): such sums have atoms, next to 0 as
well, which a smoothed sum would need many nodes to resolve. Nodes are left with the rest, a
non-negative measure, for which both ends of `shuffle_accountant.sums.nodes` hold as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array
from shuffle_accountant.sums import settings
from shuffle_accountant.sums.far_messages import FarMessages, far_messages
from shuffle_accountant.sums.lists import (
    ListedProfile,
    counted_histograms,
    counts_of_others,
    few_others,
)


@dataclass(frozen=True, eq=False)
class MessageRows:
    """Message spaces and alpha, row by row: one message space for all rows, or one for each.

    Attributes:
        spaces: likelihood ratios of the messages under X to decoys, the same under X', and
            probabilities of the messages among decoys; 0 for padding; shape (3, s, m).
        excess: ``alpha - 1 >= 0``, shape (k,).
        space: index of the row's message space among the s, shape (k,).
    """

    spaces: Array
    excess: Array
    space: NDArray[np.intp]

    @classmethod
    def of(cls, messages: tuple[Array, Array, Array], excess: Array) -> MessageRows:
        """One message space for all rows: r0, r1 and q of its messages, shape (m,) each."""
        return cls(np.stack(messages)[:, None, :], excess, np.zeros(excess.size, dtype=np.intp))

    def __getitem__(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> MessageRows:
        """Some of the rows."""
        return MessageRows(self.spaces, self.excess[rows], self.space[rows])

    @cached_property
    def each(self) -> Array:
        """r0, r1 and q of every row, shape (3, 1, m) of one space, (3, k, m) of several."""
        return self.spaces if self.spaces.shape[1] == 1 else self.spaces[:, self.space]

    @property
    def anchor(self) -> Array:
        """``alpha - 1``, lowered by what rounding of the ratios may hide."""
        return self.excess - 4.0 * settings.NODES.ratio_error * (1.0 + self.excess)


@dataclass(frozen=True, eq=False)
class Ends:
    """Bounds for one number of messages, row by row; nan where there are none.

    Attributes:
        upper: upper bounds of ``H_alpha``.
        lower: lower bounds of it.
        q: upper bounds of the Q-probabilities of events.
        d: lower bounds of P- less Q-probability of these events: ``d - (alpha - 1) q`` bounds the
            profile from below at every alpha >= 1.
    """

    upper: Array
    lower: Array
    q: Array
    d: Array


class Lists:
    """Listed histograms of each message space: those with few messages other than the commonest.

    Attributes:
        rows: message spaces and alpha.
        users: least and largest number of messages.
        others: largest number of messages other than the commonest, one for each space.
    """

    def __init__(self, rows: MessageRows, users: tuple[int, int]) -> None:
        self.rows, self.users = rows, users
        count = rows.spaces.shape[1]
        self.common = np.argmax(rows.spaces[2], axis=1)
        sizes = np.count_nonzero(rows.spaces[2], axis=1).tolist()
        most = settings.NODES.histograms // count
        self.others = np.array(
            [few_others(size, users[0] - 1, most // size) if size else -1 for size in sizes]
        )
        self._known: dict[tuple[int, bytes, int], ListedProfile] = {}

    def ends(self, used: NDArray[np.bool_], far: NDArray[np.bool_], users: int) -> Array:
        """Upper and lower bounds, q and d of listed histograms, shape (4, k); 0 in other rows.

        Args:
            used: rows of which histograms are listed.
            far: each row's far messages, of which they have none, shape (k, m).
            users: number of messages.
        """
        found = np.zeros((4, used.size))
        rows: dict[tuple[int, bytes], list[int]] = {}
        for row in np.flatnonzero(used).tolist():
            rows.setdefault((int(self.rows.space[row]), far[row].tobytes()), []).append(row)
        for (space, apart), here in rows.items():
            excess = self.rows.excess[here]
            listed = self._profile(space, apart, users)
            found[:2, here] = listed.upper(excess), listed.lower(excess)
            found[2:, here] = listed.events(excess)
        return found

    def _profile(self, space: int, far: bytes, users: int) -> ListedProfile:
        if (space, far, users) not in self._known:
            while len(self._known) > settings.NODES.remembered:
                self._known.pop(next(iter(self._known)))
            some = (self.rows.spaces[2, space] > 0.0) & ~np.frombuffer(far, dtype=bool)
            ratios = self.rows.spaces[0, space, some], self.rows.spaces[1, space, some]
            q = self.rows.spaces[2, space, some]
            counts = counts_of_others(q.size, int(self.others[space]))
            table = counted_histograms((*ratios, q), users, counts)
            self._known[space, far, users] = ListedProfile.of(table, users)
        return self._known[space, far, users]


@dataclass(frozen=True, eq=False)
class Question:
    """Rows to be bounded, with everything about them that does not depend on sigma.

    Attributes:
        rows: message spaces and alpha, k of them.
        users: least and largest number of messages.
        far: far messages.
        value: values of the other messages, 0 where the mass is, shape (k, m).
        mass: their probabilities among decoys, shape (k, m).
        theta: tilts, shape (k,).
        lists: listed histograms.
        listed: rows of which histograms are listed, shape (k,).
        apart: mask of the far messages, shape (k, m).
        in_lists: upper and lower bounds, q and d of the listed histograms, shape (4, k); 0 in other
            rows. Histograms are listed for a single number of messages only.
        settled: upper bounds of the profile's other part where it is negligible; else nan.
        nothing: rows without a positive value among messages that are not far.
    """

    rows: MessageRows
    users: tuple[int, int]
    far: FarMessages
    value: Array
    mass: Array
    theta: Array
    lists: Lists
    listed: NDArray[np.bool_]
    apart: NDArray[np.bool_]
    in_lists: Array
    settled: Array
    nothing: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: MessageRows, users: tuple[int, int], width: Array) -> Question:
        """Find the far messages, the tilts, and the rows whose histograms are listed."""
        value, mass = _values(rows, users)
        share = settings.NODES.missed * width
        far = far_messages(rows.each[0], rows.each[1], mass, value, users, share)
        apart = far.far
        near = ~apart & (mass > 0.0)
        top = np.where(near, value, 0.0).max(axis=1, initial=0.0)
        # once more without messages of which no sum is positive, as far ones no longer count
        kept = near & (value > -(1.0 + 1e-9) * users[1] * top[:, None])
        mass, value = np.where(kept, mass, 0.0), np.where(kept, value, 0.0)
        nothing = top <= 0.0
        theta = np.ones(top.shape)
        some = ~nothing
        theta[some] = _saddles(value[some], mass[some], math.sqrt(users[0] * users[1]), top[some])
        lists = Lists(rows, users)
        listed, settled = np.zeros(top.shape, dtype=bool), np.full(top.shape, math.nan)
        in_lists = np.zeros((4, top.size))
        every = np.arange(top.size)
        # lists serve one number of messages only: in a range, each number would need its own
        tried = some & (mass[every, lists.common[rows.space]] > 0.0) & (users[0] == users[1])
        if tried.any():
            index = np.flatnonzero(tried)
            weight, log_scale = tilted_weights(theta[index], value[index], mass[index])
            common, others = lists.common[rows.space[index]], lists.others[rows.space[index]]
            held = of_others(weight, common)
            good = users[1] * held <= settings.NODES.listed * (others + 1.0)
            good &= held <= 1.0 - settings.NODES.least_common
            index, held, others = index[good], held[good], others[good]
            listed[index] = True
            in_lists = lists.ends(listed, apart, users[0])
            # (x)_+ <= e^(theta x) / (e theta), and a histogram that is not listed has more others
            rest = log_binomial(float(users[1]), others + 1) + (others + 1.0) * np.log(held)
            scale = np.max(np.multiply.outer(np.array(users), log_scale[good]), axis=0)
            # relative error of one message's weight; the product of n is off by n times that
            size = np.max(np.abs(theta[index, None] * value[index]), axis=1)
            off = UNIT_ROUNDOFF * (256.0 + 4.0 * size + 8.0 * np.abs(log_scale[good]))
            off = np.where(users[1] * off < 0.1, users[1] * off, math.inf)
            most = np.exp(np.minimum(rest, 0.0) + scale + off + 1e-6 * (1.0 + np.abs(scale)))
            most *= (1.0 + 1e-3) / (math.e * theta[index] * users[0])
            most += settings.NODES.underflow
            gain, sent, _, _ = far[index].probabilities(users[0])
            known = in_lists[1, index] + np.maximum(gain - rows.excess[index] * sent, 0.0)
            enough = (held == 0.0) | (most <= settings.NODES.left_out * width[index] * known)
            settled[index[enough]] = most[enough]
        found = value, mass, theta, lists, listed, apart, in_lists, settled, nothing
        return cls(rows, users, far, *found)

    @property
    def open(self) -> NDArray[np.bool_]:
        """Mask of the rows that need nodes, shape (k,)."""
        return np.asarray(~self.nothing & np.isnan(self.settled))


def of_others(weight: Array, common: NDArray[np.intp]) -> Array:
    """Probability of all messages but one of each row, (k,): a sum, as 1 minus it would cancel."""
    others = weight.copy()
    others[np.arange(common.size), common] = 0.0
    return np.asarray(others.sum(axis=1))


def tilted_weights(theta: Array, value: Array, mass: Array) -> tuple[Array, Array]:
    """Tilted probabilities, shape (k, m), and logarithms of the sums that normalise them, (k,)."""
    exponent = theta[:, None] * value
    shift = np.where(mass > 0.0, exponent, -math.inf).max(axis=1, initial=-math.inf)
    weight = mass * np.exp(exponent - shift[:, None])
    total = weight.sum(axis=1)
    return weight / total[:, None], np.log(total) + shift


def _values(rows: MessageRows, users: tuple[int, int]) -> tuple[Array, Array]:
    """Values and masses, shape (k, m), without messages of which no sum is positive.

    That is exact: E[S_+] is the same without them, as far as they make every sum negative.
    """
    r0, r1, q = rows.each
    value = (r0 - r1) - rows.anchor[:, None] * r1
    top = np.where(q > 0.0, value, 0.0).max(axis=1, initial=0.0)
    kept = (q > 0.0) & (value > -(1.0 + 1e-9) * users[1] * top[:, None])
    return np.where(kept, value, 0.0), np.where(kept, q, 0.0)


def _saddles(value: Array, mass: Array, n: float, top: Array) -> Array:
    """Minimisers of ``n log M(theta) - 2 log theta`` to a few percent, by Newton's method."""
    total = mass.sum(axis=1)
    mean = np.sum(mass * value, axis=1) / total
    spread = np.sum(mass * (value - mean[:, None]) ** 2, axis=1) / total
    root = np.sqrt(mean**2 + 8.0 * spread / n)
    theta = np.where(mean > 0.0, 4.0 / n / (mean + root), 0.5 * (root - mean) / spread)
    # beyond the second, only the largest value is left
    theta = np.minimum(np.where(theta > 0.0, theta, 1.0 / top), 1e4 / top + 2.0 / (n * top))
    low, high = np.zeros(theta.shape), np.full(theta.shape, math.inf)
    active = np.arange(theta.size)
    for _ in range(80):
        here, v, p = theta[active], value[active], mass[active]
        exponent = here[:, None] * v
        exponent -= np.where(p > 0.0, exponent, -math.inf).max(axis=1)[:, None]
        weight = p * np.exp(np.minimum(exponent, 0.0))
        weight /= weight.sum(axis=1)[:, None]
        mean = np.sum(weight * v, axis=1)
        spread = np.sum(weight * (v - mean[:, None]) ** 2, axis=1)
        slope = n * mean - 2.0 / here
        low[active] = np.where(slope < 0.0, here, low[active])
        high[active] = np.where(slope < 0.0, high[active], here)
        newton = here - slope / (n * spread + 2.0 / here**2)
        inside = (newton > low[active]) & (newton < high[active])
        middle = np.where(
            high[active] < math.inf,
            np.where(low[active] > 0.0, np.sqrt(low[active] * high[active]), 0.1 * high[active]),
            4.0 * here,
        )
        then = np.where(inside, newton, middle)
        theta[active] = then
        active = active[np.abs(then - here) > 0.02 * here]
        if not active.size:
            break
    return theta


def log_binomial(n: Array | float, k: Array | NDArray[np.intp]) -> Array:
    """Logarithm of the binomial coefficient, -inf if k > n."""
    from scipy.special import gammaln

    n, k = np.asarray(n, dtype=np.float64), np.asarray(k, dtype=np.float64)
    inside = np.minimum(k, n)
    found = gammaln(n + 1.0) - gammaln(inside + 1.0) - gammaln(n - inside + 1.0)
    return np.where(k > n, -math.inf, found + 1e-14 * (gammaln(n + 2.0) + 1.0))
