"""A round that only a random fixed-size subset of the population takes part in.

Lemma 7 of 'Numerical Accounting in the Shuffle Model' (after Zhu et al. 2022) bounds the profile of
the subsampled round by the maximum of two hockey-stick divergences. For a symmetric pair that
maximum has an explicit dominating pair, with g the sampling fraction: an atom with p > q becomes
``(g p + (1-g) q, q)``, one with p < q becomes ``(p, g q + (1-g) p)``, and what is missing to total
mass one, the same on both sides, goes to one atom at loss 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

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
class SubsampledLoss(SymmetricLoss):
    """Privacy loss of a subsampled round, for a symmetric ``inner`` pair.

    Attributes:
        inner: loss of the round given that the target takes part.
        fraction: users / population, in (0, 1].
    """

    inner: PrivacyLoss
    fraction: float

    @property
    def largest(self) -> float:
        """Largest loss, nats, rounded up."""
        if self.inner.largest <= 0.0:
            return 0.0
        # a product with the fraction may be rounded to 0
        found = max(rounded(self._shrink(self.inner.largest), ELEMENTARY), underflow(1))
        return raised(found, roundings(2 * ELEMENTARY + 4))

    @property
    def table(self) -> Hashable:
        """Key of the inner loss's table, or None."""
        return self.inner.table if isinstance(self.inner, Tabled) else None

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self._shrink(self.inner.deviation)

    def _shrink(self, loss: float) -> float:
        """``log(1 + g (e^loss - 1))``, without overflow."""
        if loss > 30.0:
            return loss + math.log(self.fraction + (1.0 - self.fraction) * math.exp(-loss))
        return math.log1p(self.fraction * math.expm1(loss))

    def _grown(self, epsilon: float) -> float:
        """``log(1 + (e^epsilon - 1) / g)``, without overflow."""
        if epsilon > 30.0:
            rest = math.log1p(-(1.0 - self.fraction) * math.exp(-epsilon))
            return epsilon + rest - math.log(self.fraction)
        return math.log1p(math.expm1(epsilon) / self.fraction)

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return way_of(self.inner, self._grown(epsilon), effort)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound at e^epsilon, epsilon >= 0: ``g H_a'`` of the inner pair, a' = 1 + (a - 1)/g."""
        inner = self._grown(epsilon)
        # the rounding of the mapped epsilon moves the divergence less than this move does
        error, upper = roundings(2 * ELEMENTARY + 4), side is Bound.PESSIMISTIC
        inner = outwards(rounded(inner, ELEMENTARY), error, upper=not upper)
        value = self.inner.delta(inner, side, effort)
        return min(share(value, self.fraction, error, upper=upper), 1.0)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The explicit dominating pair's atoms: inner atoms moved towards loss 0, and one at 0."""

        def inner_edges(largest: float) -> Array:
            with np.errstate(over="ignore"):
                outer = edges(self._shrink(largest))
                wide = outer + np.log1p(-(1.0 - self.fraction) * np.exp(-outer))
                return np.where(
                    outer > 30.0,
                    wide - math.log(self.fraction),
                    np.log1p(np.expm1(np.minimum(outer, 30.0)) / self.fraction),
                )

        inner = self.inner.atoms(side, inner_edges, effort)
        g = self.fraction
        size = np.abs(inner.loss)
        small = np.minimum(size, 30.0)
        moved = np.where(
            size > 30.0,
            size + np.log(g + (1.0 - g) * np.exp(-size)),
            np.log1p(g * np.expm1(small)),
        )
        gains = inner.loss > 0
        kept = np.where(gains, g + (1.0 - g) * np.exp(-size), 1.0)
        rest = float(np.sum(np.where(gains, inner.mass * -np.expm1(-size), 0.0))) * (1.0 - g)
        upper = side is Bound.PESSIMISTIC
        slack = roundings(2 * ELEMENTARY + 4)
        moved = rounded(moved, ELEMENTARY)
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
            loss_error=inner.loss_error + slack * float(moved.max(initial=0.0)),
        )
