"""What is asked of the privacy loss of one round, and of the loss of a composition.

Delta is a functional of the loss L of a composition, E[w(L - epsilon); L >= epsilon]. The
accountant tilts the law by ``e^(lam L)``, so each functional also says how large and how spread its
tilted weight ``e^(-lam y) w(y)`` is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    Between,
    Bound,
    outwards,
    pairwise_sum,
    roundings,
)


class Divergence(Protocol):
    """A weight of losses above epsilon, between 0 and 1.

    Attributes:
        continuous: whether the weight has no jump, so that losses may be spread with their mean
            kept; else they are rounded, and all roundings add up.
        opposite: the weight is ``1 - opposite e^-y`` for all y >= 0; in [0, 1].
    """

    continuous: bool
    opposite: float

    def weight(self, above: NDArray[np.floating[Any]]) -> Array:
        """``w(y)`` at y = loss - epsilon; 0 for y < 0."""

    def largest(self, lam: float) -> float:
        """Maximum of the tilted weight over y >= 0."""

    def norm(self, lam: float, spacing: float, points: int) -> float:
        """Bound on the 2-norm of the tilted weight over ``points`` grid points y >= 0."""

    def overshoot(self, lam: float, sd: float) -> float:
        """``E[tilted weight of Y; Y > 0]`` for Y ~ N(0, sd^2), roughly."""


class _HockeyStick:
    """``w(y) = 1 - e^-y``: delta is the hockey-stick divergence at ``e^epsilon``."""

    continuous = True
    opposite = 1.0

    def weight(self, above: NDArray[np.floating[Any]]) -> Array:
        return np.asarray(-np.expm1(-np.maximum(above, 0.0)))

    def largest(self, lam: float) -> float:
        return 1.0 if lam == 0 else float((lam / (lam + 1)) ** lam / (lam + 1))

    def norm(self, lam: float, spacing: float, points: int) -> float:
        # the square is unimodal: its sum is at most its maximum plus its integral over the spacing,
        # and the integral is the beta function B(2 lam, 3)
        top = self.largest(lam) ** 2
        if lam == 0:
            return math.sqrt(top * points)
        integral = 1 / (lam * (2 * lam + 1) * (2 * lam + 2))
        return math.sqrt(min(top * points, top + integral / spacing))

    def overshoot(self, lam: float, sd: float) -> float:
        from scipy.special import erfcx  # here, because it is most of the package's import time

        root = sd / math.sqrt(2.0)
        return 0.5 * float(erfcx(lam * root) - erfcx((lam + 1.0) * root))


class _Tail:
    """``w(y) = 1``: delta is the probability that the loss is at least epsilon."""

    continuous = False
    opposite = 0.0

    def weight(self, above: NDArray[np.floating[Any]]) -> Array:
        return np.where(above >= 0.0, 1.0, 0.0)

    def largest(self, lam: float) -> float:
        return 1.0

    def norm(self, lam: float, spacing: float, points: int) -> float:
        if lam == 0:
            return math.sqrt(points)
        return math.sqrt(min(float(points), 1.0 + 1.0 / (2.0 * lam * spacing)))

    def overshoot(self, lam: float, sd: float) -> float:
        from scipy.special import erfcx

        return 0.5 * float(erfcx(lam * sd / math.sqrt(2.0)))


HOCKEY_STICK: Divergence = _HockeyStick()
PROBABILISTIC_DP: Divergence = _Tail()


def divergence_of(atoms: PldAtoms, epsilon: float) -> float:
    """Bound of the hockey-stick divergence at ``e^epsilon`` on the side of the atoms, in [0, 1]."""
    upper = atoms.side is Bound.PESSIMISTIC
    # a loss and its error are rounded where they are added up, by a share of the loss
    error = atoms.loss_error + roundings(2) * float(np.max(np.abs(atoms.loss), initial=0.0))
    weight = HOCKEY_STICK.weight((atoms.loss + (error if upper else -error)) - epsilon)
    total = rounded(float(np.sum(atoms.mass * weight)), ELEMENTARY + 2) + atoms.infinite
    return min(outwards(total, pairwise_sum(own=ELEMENTARY + 4), upper=upper), 1.0)


class GridTooFine(Exception):
    """The spacing must grow by this factor for the grid to fit into memory."""

    def __init__(self, factor: float) -> None:
        super().__init__(factor)
        self.factor = factor


# Edges of the cells that atoms may be merged in: from the largest loss to increasing edges that
# start at 0 and end above it.
CellEdges = Callable[[float], Array]


@dataclass(frozen=True)
class EqualCells:
    """Edges 0, step, 2 step, … of the cells that atoms may be merged in.

    Attributes:
        step: width of a cell, nats.
        most: cells between 0 and the largest loss that memory allows.
    """

    step: float
    most: float = math.inf

    def __call__(self, largest: float) -> Array:
        """The edges up to the first above the largest loss, or `GridTooFine`."""
        if largest > self.step * self.most:
            raise GridTooFine(largest / (self.step * self.most))
        return np.arange(math.ceil(largest / self.step) + 2, dtype=np.float64) * self.step


@dataclass(frozen=True)
class Effort:
    """Requested accuracy of a loss: probability that may be cut off, and resolution.

    Attributes:
        tail: probability that may be cut off, > 0; it goes to +inf (PESSIMISTIC) or is dropped
            (OPTIMISTIC).
        resolution: relative width of blocks of decoy counts that are treated as one; 0 for exact.
        most_atoms: more atoms than this are added up cell by cell, in pieces of this size.
        many: whether many different rounds are composed.
        shared: whether enough of them share one table for it to pay off; see `Tabled`.
        rounds: number of rounds like this one that share the exponent of the delta asked about,
            >= 1.
    """

    tail: float
    resolution: float
    most_atoms: int = 1 << 20
    many: bool = False
    shared: bool = False
    rounds: float = 1.0

    @property
    def kept_tail(self) -> float:
        """The tail rounded down to one of a few powers of ten, so that calls share their results.

        From 1e-12 on, each has a quarter more digits than the one before, down to 1e-288.
        """
        longer = math.log(max(-math.log10(self.tail) / 12.0, 1.0), 1.25)
        return math.pow(10.0, -min(12.0 * 1.25 ** math.ceil(longer - 1e-9), 288.0))

    @property
    def single(self) -> Effort:
        """The accuracy requested for delta of one round, whose tail is all that is left out."""
        return replace(self, tail=min(1e6 * self.tail, 1e-12))


@runtime_checkable
class Tabled(Protocol):
    """A loss that may be read from a table it shares with other losses."""

    @property
    def table(self) -> Hashable:
        """Key of the table: equal for losses that share one; None if there is no table."""


@runtime_checkable
class Ways(Protocol):
    """A loss whose delta may be found in several ways."""

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon, as brackets report it."""


def way_of(loss: PrivacyLoss, epsilon: float, effort: Effort) -> str:
    """Name of the way that answers at epsilon: that of the loss, or "sum" where it has one only."""
    return loss.way(epsilon, effort) if isinstance(loss, Ways) else "sum"


class PrivacyLoss(Protocol):
    """A dominating pair (P, Q) of one round, seen through its privacy loss ``log(P/Q)``.

    Implementations are immutable and hashable.
    """

    def __hash__(self) -> int:
        """By value, so that grids can be cached."""

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats; ``inf`` when there is none."""

    @property
    def deviation(self) -> float:
        """Rough standard deviation of the loss, nats: a starting point for choosing a grid."""

    @property
    def divergence(self) -> Divergence:
        """The divergence delta stands for: hockey-stick, but for one named loose bound."""

    @property
    def reversed(self) -> PrivacyLoss:
        """The loss of the exchanged pair (Q, P); the loss itself if the pair is symmetric."""

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of delta at epsilon >= 0: the hockey-stick divergence at ``alpha = e^epsilon``."""

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The pair as atoms; atoms are merged only between two edges, or their mirror images."""


class DominatingPair(Protocol):
    """A pair of laws (P, Q) that dominates a round, wherever it comes from."""

    @property
    def name(self) -> str:
        """The theorem that the pair comes from, as brackets report it."""

    @property
    def loss(self) -> PrivacyLoss:
        """The pair's privacy loss."""

    @property
    def two_sided(self) -> bool:
        """Whether a largest loss L means ``Q <= e^L P`` besides ``P <= e^L Q``."""


@runtime_checkable
class SumOfLosses(Protocol):
    """A loss that is the sum of independent losses."""

    @property
    def parts(self) -> tuple[tuple[PrivacyLoss, int], ...]:
        """The independent losses, with their counts."""

    @property
    def exact(self) -> bool:
        """Whether delta of the whole is a finite sum over all atoms."""


def factors(loss: PrivacyLoss, *, alone: bool) -> tuple[tuple[PrivacyLoss, int], ...]:
    """The independent parts of a loss, with their counts; most losses have only themselves.

    ``alone`` says that nothing else is composed with it: what is exact as a whole stays whole.
    """
    if not isinstance(loss, SumOfLosses) or (alone and loss.exact):
        return ((loss, 1),)
    return loss.parts


class _PlainLoss:
    """Base of losses whose delta is the hockey-stick divergence."""

    @property
    def divergence(self) -> Divergence:
        """The hockey-stick divergence."""
        return HOCKEY_STICK


@dataclass(frozen=True)
class OrderedLoss(_PlainLoss):
    """Base of losses without a bound, of a pair (P, Q) or, if ``swapped``, of (Q, P)."""

    swapped: bool = field(default=False, kw_only=True)

    @property
    def largest(self) -> float:
        """Infinity: losses are not bounded."""
        return math.inf

    @property
    def reversed(self) -> Self:
        """The loss of the exchanged pair."""
        return replace(self, swapped=not self.swapped)

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return "doubling"


class SymmetricLoss(_PlainLoss):
    """Base of losses whose dominating pair (P, Q) may be exchanged for (Q, P)."""

    @property
    def reversed(self) -> Self:
        """The loss of (Q, P): itself."""
        return self


@dataclass(frozen=True)
class LossBySide:
    """Privacy loss whose upper bounds are those of one loss, its lower bounds those of another.

    Attributes:
        above: a loss whose divergence is nowhere below the true one, in either order.
        below: a loss whose divergence is nowhere above it.
    """

    above: PrivacyLoss
    below: PrivacyLoss

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats."""
        return self.above.largest

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self.above.deviation

    @property
    def divergence(self) -> Divergence:
        """The divergence of both losses."""
        return self.above.divergence

    @property
    def reversed(self) -> LossBySide:
        """The loss of (Q, P)."""
        return LossBySide(self.above.reversed, self.below.reversed)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of delta at epsilon >= 0 from the side's loss."""
        return self._of(side).delta(epsilon, side, effort)

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return way_of(self.above, epsilon, effort)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """Atoms of the side's loss."""
        return self._of(side).atoms(side, edges, effort)

    def _of(self, side: Bound) -> PrivacyLoss:
        return self.above if side is Bound.PESSIMISTIC else self.below


def by_side(make: Callable[[Bound], PrivacyLoss]) -> PrivacyLoss:
    """The loss that lies between the two that a function makes; theirs if they are one.

    It rounds every parameter to the side: PESSIMISTIC to what reveals more.
    """
    above, below = make(Bound.PESSIMISTIC), make(Bound.OPTIMISTIC)
    return above if above == below else LossBySide(above, below)


def noise_of(parameter: Between, side: Bound) -> float:
    """The end of a parameter that bounds the side, where less of it (noise) reveals more."""
    return parameter.low if side is Bound.PESSIMISTIC else parameter.high


def share_of(parameter: Between, side: Bound) -> float:
    """The end of a parameter that bounds the side, where more of it (a share) reveals more."""
    return parameter.high if side is Bound.PESSIMISTIC else parameter.low
