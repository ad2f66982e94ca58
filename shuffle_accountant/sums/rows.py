"""Input and output of sums over nodes: message spaces with alpha, and bounds of the profile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.sums import settings


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
