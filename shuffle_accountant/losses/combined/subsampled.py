"""Rounds whose target takes part with some probability only.

*Dilution*: with what is left of the probability the round is harmless, which is revealed.

*A random subset of fixed size* takes part. Lemma 7 of 'Numerical Accounting in the Shuffle Model'
(after Zhu et al. 2022) bounds the profile of the subsampled round by the maximum of two
hockey-stick divergences. For a symmetric pair that maximum has an explicit dominating pair, with g
the sampling fraction: an atom with p > q becomes ``(g p + (1-g) q, q)``, one with p < q becomes
``(p, g q + (1-g) p)``, and what is missing to total mass one, the same on both sides, goes to one
atom at loss 0.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import (
    CellEdges,
    Effort,
    PrivacyLoss,
    SymmetricLoss,
    Tabled,
    way_of,
)
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.hockey_stick import LARGEST_EXPONENT, unsampled
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    Bound,
    outwards,
    raised,
    roundings,
    share,
    underflow,
)


@dataclass(frozen=True)
class _Partial(SymmetricLoss):
    """Base of losses that are another symmetric one's but for a probability."""

    inner: PrivacyLoss

    @property
    def table(self) -> Hashable:
        """Key of the inner loss's table, or None."""
        return self.inner.table if isinstance(self.inner, Tabled) else None


@dataclass(frozen=True)
class DilutedLoss(_Partial):
    """The mixture of a symmetric ``inner`` loss with an atom at loss 0.

    Attributes:
        inner: loss of the round when it is not harmless.
        active: probability that it is not harmless, a function of eps0.
        harmless: ``1 - active``.
    """

    active: float
    harmless: float

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats."""
        return self.inner.largest if self.active > 0.0 else 0.0

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self.inner.deviation * float(np.sqrt(self.active))

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return way_of(self.inner, epsilon, effort)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of delta at epsilon >= 0: ``active`` times the inner loss's."""
        value = rounded(self.inner.delta(epsilon, side, effort), ELEMENTARY)
        error, upper = roundings(ELEMENTARY + 8), side is Bound.PESSIMISTIC
        return min(share(value, self.active, error, upper=upper), 1.0)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The inner atoms, times the probability ``active``, and one at loss 0."""
        inner = self.inner.atoms(side, edges, effort)
        mass = rounded(np.append(self.active * inner.mass, self.harmless), ELEMENTARY)
        infinite = rounded(self.active * inner.infinite, ELEMENTARY)
        error, upper = roundings(ELEMENTARY + 8), side is Bound.PESSIMISTIC
        return replace(
            inner,
            mass=outwards(mass, error, upper=upper),
            loss=np.append(inner.loss, 0.0),
            infinite=outwards(infinite, error, upper=upper),
            round_off=inner.round_off + error,
        )


@dataclass(frozen=True)
class SubsampledLoss(_Partial):
    """Privacy loss of a subsampled round, for a symmetric ``inner`` pair.

    Attributes:
        inner: loss of the round given that the target takes part.
        fraction: users / population, in (0, 1].
    """

    fraction: float

    @property
    def largest(self) -> float:
        """Largest loss, nats, rounded up."""
        if self.inner.largest <= 0.0:
            return 0.0
        # a product with the fraction may be rounded to 0
        found = rounded(float(self._shrink(np.asarray(self.inner.largest))), ELEMENTARY)
        found = max(found, underflow(1))
        return raised(found, roundings(2 * ELEMENTARY + 4)) + self._cancelled(self.inner.largest)

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return float(self._shrink(np.asarray(self.inner.deviation)))

    def _shrink(self, loss: Array) -> Array:
        """``log(1 + g (e^loss - 1))``, without overflow."""
        far = loss + np.log(self.fraction + (1.0 - self.fraction) * np.exp(-loss))
        near = np.log1p(self.fraction * np.expm1(np.minimum(loss, LARGEST_EXPONENT)))
        return np.asarray(np.where(loss > LARGEST_EXPONENT, far, near))

    @staticmethod
    def _cancelled(loss: float) -> float:
        """Absolute error of `_shrink` for losses up to this one: above 700 nats, terms cancel."""
        return roundings(2 * ELEMENTARY + 4) * loss if loss > LARGEST_EXPONENT else 0.0

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return way_of(self.inner, float(unsampled(np.asarray(epsilon), self.fraction)), effort)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound at e^epsilon, epsilon >= 0: ``g H_a'`` of the inner pair, a' = 1 + (a - 1)/g."""
        inner = float(unsampled(np.asarray(epsilon), self.fraction))
        # the rounding of the mapped epsilon moves the divergence less than this move does
        error, upper = roundings(2 * ELEMENTARY + 4), side is Bound.PESSIMISTIC
        inner = outwards(rounded(inner, ELEMENTARY), error, upper=not upper)
        value = self.inner.delta(inner, side, effort)
        return min(share(value, self.fraction, error, upper=upper), 1.0)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The explicit dominating pair's atoms: inner atoms moved towards loss 0, and one at 0."""
        g = self.fraction

        def inner_edges(largest: float) -> Array:
            return unsampled(edges(float(self._shrink(np.asarray(largest)))), g)

        inner = self.inner.atoms(side, inner_edges, effort)
        size = np.abs(inner.loss)
        gains = inner.loss > 0
        kept = np.where(gains, g + (1.0 - g) * np.exp(-size), 1.0)
        rest = float(np.sum(np.where(gains, inner.mass * -np.expm1(-size), 0.0))) * (1.0 - g)
        upper = side is Bound.PESSIMISTIC
        slack = roundings(2 * ELEMENTARY + 4)
        moved = rounded(self._shrink(size), ELEMENTARY)
        rest += (1.0 - g) * inner.infinite
        mass = rounded(np.concatenate([inner.mass * kept, [rest]]), ELEMENTARY)
        return PldAtoms(
            side=side,
            mass=outwards(mass, slack, upper=upper),
            loss=np.concatenate([np.copysign(moved, inner.loss), [0.0]]),
            infinite=outwards(rounded(g * inner.infinite), slack, upper=upper),
            truncated=inner.truncated,
            round_off=inner.round_off + slack * float(mass.sum()),
            # d(moved)/d(loss) is at most 1. If a gain's loss is off by s, of size e at most, then
            # (1 - g) q (e^s - 1) of its mass belongs at 0 as well, or not; but the move of its loss
            # by e makes up for that: H_alpha is off by alpha q ((e^s - e^-e) - (1 - g)(e^s - 1))
            # or more on the upper side, alpha q ((e^e - e^s) + (1 - g)(e^s - 1)) on the lower one
            loss_error=inner.loss_error
            + slack * float(moved.max(initial=0.0))
            + self._cancelled(float(size.max(initial=0.0))),
            limited=inner.limited,
        )
