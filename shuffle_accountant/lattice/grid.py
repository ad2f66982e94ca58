"""Discretised privacy losses, off and on the grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shuffle_accountant.numerics.rounding import Array, Bound


@dataclass(frozen=True, eq=False)
class PldAtoms:
    """A pair of laws (P, Q) as finitely many atoms of the privacy loss ``log(P/Q)``.

    The pair bounds the true one in ``side``: its hockey-stick divergence is, for every
    ``alpha >= 0``, not below (PESSIMISTIC) or not above (OPTIMISTIC) the true divergence, once the
    losses are moved by ``loss_error`` in that direction. Masses already carry their rounding error.

    Attributes:
        side: side of the truth that the pair lies on.
        mass: P-masses, shape (m,), >= 0; the Q-mass of an atom is ``mass * exp(-loss)``.
        loss: privacy losses in nats, shape (m,), finite.
        infinite: P-mass at loss +inf.
        truncated: the part of ``infinite`` (PESSIMISTIC), or the dropped mass (OPTIMISTIC), that is
            there only because a tail was cut off.
        round_off: P-mass by which rounding was allowed for, in total.
        loss_error: bound on the error of every loss, nats.
        limited: whether much of the profile is known less closely than was asked for: asked for
            more, it would not be known better.
    """

    side: Bound
    mass: Array
    loss: Array
    infinite: float
    truncated: float
    round_off: float
    loss_error: float
    limited: bool = False


@dataclass(frozen=True, eq=False)
class PldGrid:
    """A privacy loss distribution on the grid ``x_j = j * spacing``.

    Same meaning as `PldAtoms`; ``mass[i]`` sits at loss ``(offset + i) * spacing``.
    """

    side: Bound
    spacing: float
    offset: int
    mass: Array
    infinite: float
    truncated: float
    round_off: float
    loss_error: float
    limited: bool = False

    @property
    def losses(self) -> Array:
        """Grid points that carry ``mass``, nats, shape of ``mass``."""
        return np.arange(self.offset, self.offset + self.mass.size, dtype=np.float64) * self.spacing
