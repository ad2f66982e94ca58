"""Privacy losses that come as tables: atoms of ``log(P/Q)`` with their P-masses.

A table is taken at its word. What is enclosed is the divergence of exactly these numbers; whether
they bound a mechanism is the business of whoever made them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import HOCKEY_STICK, CellEdges, Divergence, Effort
from shuffle_accountant.losses.settings import TABULATED
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    Bound,
    lowered,
    outwards,
    pairwise_sum,
    raised,
    roundings,
)


@dataclass(frozen=True, init=False, repr=False)
class PldTable:
    """Distribution of a privacy loss ``log(P/Q)`` under P, compared and hashed by value.

    Args:
        losses: nats, of size 1e6 at most, ascending, shape (m,).
        probabilities: their P-masses, >= 0, shape (m,); an atom's Q-mass is ``p e^-loss``.
        infinity_mass: P-mass at loss +inf, in [0, 1].

    The total may pass 1 by rounding (at most 1e-3). If it falls short, an upper end counts what is
    missing as infinite loss, and a lower end leaves it out.

    Raises:
        TypeError: an argument that is not made of numbers.
        ValueError: an argument outside its range, or two shapes.
    """

    infinity_mass: float
    _losses: bytes
    _masses: bytes

    def __init__(
        self, losses: ArrayLike, probabilities: ArrayLike, *, infinity_mass: float = 0.0
    ) -> None:
        x, p = _numbers("losses", losses), _numbers("probabilities", probabilities)
        if x.shape != p.shape:
            raise ValueError(
                f"probabilities must have the shape of losses, {x.shape}, got {p.shape}"
            )
        far = ~(np.abs(x) <= TABULATED.largest)  # NaN is outside too
        if np.any(far):
            raise ValueError(
                f"losses must be numbers in [-{TABULATED.largest:g}, {TABULATED.largest:g}] "
                f"(infinity_mass is for what is above), got {x[far][0]!s}"
            )
        if np.any(np.diff(x) <= 0.0):
            at = int(np.argmax(np.diff(x) <= 0.0))
            raise ValueError(f"losses must ascend, got {x[at]!s} before {x[at + 1]!s}")
        wrong = ~((p >= 0.0) & (p <= 1.0 + TABULATED.excess))  # NaN is outside too
        if np.any(wrong):
            raise ValueError(f"probabilities must be numbers in [0, 1], got {p[wrong][0]!s}")
        infinite = validate.closed_unit(infinity_mass=infinity_mass)
        total = float(np.sum(p)) + infinite
        if total > 1.0 + TABULATED.excess:
            raise ValueError(f"probabilities and infinity_mass must sum to <= 1, got {total!r}")
        held = p > 0.0
        object.__setattr__(self, "infinity_mass", infinite)
        object.__setattr__(self, "_losses", (x[held] + 0.0).tobytes())  # no negative zero
        object.__setattr__(self, "_masses", p[held].tobytes())

    @property
    def losses(self) -> Array:
        """Losses that carry mass, nats, ascending, read-only."""
        return np.frombuffer(self._losses)

    @property
    def probabilities(self) -> Array:
        """P-masses of the losses, > 0, read-only."""
        return np.frombuffer(self._masses)

    @cached_property
    def missing(self) -> float:
        """One minus the total mass, or 0 if rounding explains the difference."""
        short = 1.0 - math.fsum([*self.probabilities.tolist(), self.infinity_mass])
        return short if short > roundings(8) else 0.0  # of masses, once each, and their sum

    @cached_property
    def largest(self) -> float:
        """Upper bound of the losses, nats, >= 0; inf if mass is infinite or missing."""
        if self.infinity_mass > 0.0 or self.missing > 0.0:
            return math.inf
        return max(float(self.losses.max(initial=0.0)), 0.0)

    @cached_property
    def deviation(self) -> float:
        """Rough standard deviation of the finite part, nats, > 0."""
        x, p = self.losses, self.probabilities
        if x.size == 0:
            return 1.0
        mean = float(np.average(x, weights=p))
        spread = math.sqrt(float(np.average((x - mean) ** 2, weights=p)))
        if spread > 1e-6 * abs(mean):
            return spread
        return abs(mean) or 1.0  # a single point

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, from which the constructor makes an equal table."""
        return {
            "losses": self.losses.tolist(),
            "probabilities": self.probabilities.tolist(),
            "infinity_mass": self.infinity_mass,
        }


@dataclass(frozen=True)
class LossBounds:
    """Tables of one order of the neighbours: one above the truth, one below; possibly the same."""

    upper: PldTable
    lower: PldTable

    def side(self, side: Bound) -> PldTable:
        """The table on that side of the truth."""
        return self.upper if side is Bound.PESSIMISTIC else self.lower


@dataclass(frozen=True)
class TabulatedLoss:
    """Privacy loss bounded by tables from above and below, in both orders.

    Attributes:
        bounds: the loss of (P, Q).
        backward: the loss of (Q, P); equal to ``bounds`` for a symmetric pair.
    """

    bounds: LossBounds
    backward: LossBounds

    @property
    def largest(self) -> float:
        """Upper bound of the losses of either order, nats; inf if some are infinite."""
        return max(self.bounds.upper.largest, self.backward.upper.largest)

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return max(self.bounds.upper.deviation, self.backward.upper.deviation)

    @property
    def reversed(self) -> TabulatedLoss:
        """The loss of (Q, P)."""
        return self if self.backward == self.bounds else TabulatedLoss(self.backward, self.bounds)

    @property
    def divergence(self) -> Divergence:
        """The hockey-stick divergence."""
        return HOCKEY_STICK

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return "table"

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``H_alpha(P‖Q)``, alpha = e^epsilon, epsilon >= 0: a sum of positive terms."""
        value = _delta(self.bounds.side(side), epsilon, side)
        if side is Bound.OPTIMISTIC:
            # two libraries' worth of rounding may put far tails in the wrong order
            value = min(value, _delta(self.bounds.upper, epsilon, Bound.PESSIMISTIC))
        return value

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The table's atoms, but for tails that may be cut off."""
        table, upper = self.bounds.side(side), side is Bound.PESSIMISTIC
        loss, mass = table.losses, table.probabilities
        first = int(np.searchsorted(np.cumsum(mass), 0.5 * effort.tail, side="right"))
        top = int(np.searchsorted(np.cumsum(mass[::-1]), 0.5 * effort.tail, side="right"))
        last = max(mass.size - top, first)
        below, above = float(mass[:first].sum()), float(mass[last:].sum())
        loss, mass = loss[first:last], mass[first:last].copy()
        edges(float(np.max(np.abs(loss), initial=0.0)))  # whether a grid of these losses is allowed
        slack = pairwise_sum(own=4)  # of what tails are added to
        infinite = table.infinity_mass
        if upper:
            if mass.size:
                mass[0] += below  # raised to a larger loss
            else:
                above += below
            infinite += table.missing + above
        mass, infinite = rounded(mass, 4), rounded(infinite, 4)
        return PldAtoms(
            side=side,
            mass=outwards(mass, slack, upper=upper),
            loss=loss,
            infinite=min(outwards(infinite, slack, upper=upper), 1.0),
            truncated=below + above,
            round_off=slack,
            loss_error=0.0,
        )


def _delta(table: PldTable, epsilon: float, side: Bound) -> float:
    """Bound of the table's hockey-stick divergence at ``e^epsilon``, rounded to the side."""
    start = int(np.searchsorted(table.losses, epsilon, side="right"))
    gain = -np.expm1(epsilon - table.losses[start:])
    finite = rounded(float(np.sum(table.probabilities[start:] * gain)), ELEMENTARY + 6)
    error = pairwise_sum(own=ELEMENTARY + 6)
    if side is Bound.OPTIMISTIC:
        return max(lowered(finite + table.infinity_mass, error) - 1e-315, 0.0)
    total = finite + table.infinity_mass + table.missing
    # a table without losses above epsilon has nothing to round
    return min(raised(total, error) + (1e-315 if total > 0.0 else 0.0), 1.0)


def _numbers(name: str, values: ArrayLike) -> Array:
    try:
        array: NDArray[Any] = np.asarray(values)
    except ValueError:  # nested lists of different lengths
        raise ValueError(f"{name} must be a sequence of numbers, got a ragged one") from None
    if array.dtype.kind not in "iuf" and array.size:
        raise TypeError(f"{name} must be numbers, got an array of {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    return array.astype(np.float64)
