"""Before any node: message spaces and alpha row by row, far messages, and tilts.

Sums with a far message are known in closed form (`shuffle_accountant.sums.far_messages`). All
others are left to the nodes: a non-negative measure, for which both ends of
`shuffle_accountant.sums.nodes` hold as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.sums import settings
from shuffle_accountant.sums.far_messages import FarMessages, far_messages


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
        nothing: rows without a positive value among messages that are not far.
    """

    rows: MessageRows
    users: tuple[int, int]
    far: FarMessages
    value: Array
    mass: Array
    theta: Array
    nothing: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: MessageRows, users: tuple[int, int], width: Array) -> Question:
        """Find the far messages and the tilts."""
        r0, r1, q = rows.each
        value = (r0 - r1) - rows.anchor[:, None] * r1
        value, mass = _kept(value, np.broadcast_to(q, value.shape), users[1])
        far = far_messages(r0, r1, mass, value, users, settings.NODES.left_out * width)
        # once more, as far messages no longer count
        value, mass = _kept(value, np.where(far.far, 0.0, mass), users[1])
        top = value.max(axis=1, initial=0.0)
        some, theta = top > 0.0, np.ones(top.shape)
        theta[some] = _saddles(value[some], mass[some], math.sqrt(users[0] * users[1]), top[some])
        return cls(rows, users, far, value, mass, theta, ~some)


def tilted_weights(theta: Array, value: Array, mass: Array) -> tuple[Array, Array]:
    """Tilted probabilities, shape (k, m), and logarithms of the sums that normalise them, (k,)."""
    exponent = theta[:, None] * value
    shift = np.where(mass > 0.0, exponent, -math.inf).max(axis=1, initial=-math.inf)
    weight = mass * np.exp(exponent - shift[:, None])
    total = weight.sum(axis=1)
    return weight / total[:, None], np.log(total) + shift


def _kept(value: Array, mass: Array, users: int) -> tuple[Array, Array]:
    """Values and masses, shape (k, m), without messages of which no sum is positive.

    That is exact: E[S_+] is the same without them, as far as they make every sum negative.
    """
    top = np.where(mass > 0.0, value, 0.0).max(axis=1, initial=0.0)
    kept = (mass > 0.0) & (value > -(1.0 + 1e-9) * users * top[:, None])
    return np.where(kept, value, 0.0), np.where(kept, mass, 0.0)


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
