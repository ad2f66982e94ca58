"""A round that is revealed to be one of several, each with a loss of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import (
    CellEdges,
    Divergence,
    Effort,
    PrivacyLoss,
    SymmetricLoss,
    way_of,
)
from shuffle_accountant.losses.settings import COMBINED
from shuffle_accountant.losses.two_letters.atoms import CellSums, HalfAtoms
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    Array,
    Bound,
    outwards,
    pairwise_sum,
    roundings,
    sequential_sum,
)


@dataclass(frozen=True)
class PatternsLoss:
    """Privacy loss of a mixture whose part is revealed: divergences are averages of the parts'.

    Parts are probabilities, which add up to 1, with losses.
    """

    parts: tuple[tuple[float, PrivacyLoss], ...]

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats."""
        return max(loss.largest for _, loss in self.parts)

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return float(np.sqrt(sum(weight * loss.deviation**2 for weight, loss in self.parts)))

    @property
    def reversed(self) -> PatternsLoss:
        """The loss of (Q, P)."""
        backward = tuple((weight, loss.reversed) for weight, loss in self.parts)
        same = all(back is loss for (_, back), (_, loss) in zip(backward, self.parts, strict=True))
        return self if same else PatternsLoss(backward)

    @property
    def divergence(self) -> Divergence:
        """The divergence of the parts."""
        return self.parts[0][1].divergence

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return "table"

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of the divergence at ``alpha = e^epsilon``, epsilon >= 0."""
        total = sum(weight * loss.delta(epsilon, side, effort) for weight, loss in self.parts)
        total = rounded(total, len(self.parts) + 3.0)
        error = sequential_sum(len(self.parts), own=4)  # of products with rounded fractions
        return min(outwards(total, error, upper=side is Bound.PESSIMISTIC), 1.0)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The atoms of all parts, weighted."""
        upper = side is Bound.PESSIMISTIC
        every = [(weight, loss.atoms(side, edges, effort)) for weight, loss in self.parts]
        infinite = sum(weight * atoms.infinite for weight, atoms in every)
        infinite = rounded(infinite, len(every) + 3.0)
        # a product: a probability is rounded once from a fraction, and what it multiplies
        error, of_each = sequential_sum(len(every), own=4), roundings(4)
        masses = np.concatenate([rounded(weight * atoms.mass, 4) for weight, atoms in every])
        return PldAtoms(
            side=side,
            mass=outwards(masses, of_each, upper=upper),
            loss=np.concatenate([atoms.loss for _, atoms in every]),
            infinite=min(outwards(infinite, error, upper=upper), 1.0),
            truncated=sum(weight * atoms.truncated for weight, atoms in every),
            round_off=max(atoms.round_off for _, atoms in every) + of_each,
            loss_error=max(atoms.loss_error for _, atoms in every),
            limited=sum(weight * atoms.limited for weight, atoms in every) > COMBINED.limited,
        )


@dataclass(frozen=True)
class Part:
    """One of the rounds in a mixture.

    Attributes:
        weight: probability of this round, rounded in the direction.
        loss: privacy loss of this round, or None if it reveals nothing.
    """

    weight: float
    loss: PrivacyLoss | None


class PartSource(Protocol):
    """The rounds of a mixture and their probabilities; hashed by value."""

    def __hash__(self) -> int: ...

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats."""

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""

    def parts(self, side: Bound, effort: Effort) -> tuple[tuple[Part, ...], float]:
        """Rounds whose mixture bounds the true one, and the probability of what is left out."""


@dataclass(frozen=True)
class MixtureLoss(SymmetricLoss):
    """Privacy loss of a mixture of rounds with symmetric losses; the round is revealed."""

    source: PartSource

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats."""
        return self.source.largest

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self.source.deviation

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of delta at epsilon >= 0: the mean of the parts' bounds."""
        upper = side is Bound.PESSIMISTIC
        parts, missing = self.source.parts(side, effort)
        effort = _of_each(effort, len(parts))
        values = np.array(
            [p.weight * p.loss.delta(epsilon, side, effort) for p in parts if p.loss is not None]
        )
        total = outwards(rounded(float(np.sum(values)), 4), pairwise_sum(own=4), upper=upper)
        if upper and (epsilon < self.largest or self.largest == math.inf):
            total += missing
        return min(total, 1.0)

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon for the likeliest round with a loss."""
        parts = [part for part in self.source.parts(Bound.PESSIMISTIC, effort)[0] if part.loss]
        likeliest = max(parts, key=lambda part: part.weight, default=None)
        if likeliest is None or likeliest.loss is None:
            return "exact"
        return way_of(likeliest.loss, epsilon, effort)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The parts' atoms, weighted by their probabilities; what reveals nothing is at loss 0."""
        parts, missing = self.source.parts(side, effort)
        effort = _of_each(effort, len(parts))
        upper = side is Bound.PESSIMISTIC
        gathered = len(parts) > 1 and self.largest < math.inf
        sums = _Sums(edges(self.largest) if gathered else None)
        for part in parts:
            if part.loss is None:
                sums.harmless += part.weight
            else:
                sums.add(part.weight, part.loss.atoms(side, edges, effort))
        gains, losses = (half.atoms() for half in sums.halves)
        far_mass, far_loss = (np.concatenate(one) for one in zip(*sums.far, strict=True))
        error = sequential_sum(len(parts), own=8)
        everything = np.concatenate([gains.mass, losses.other, [sums.harmless], far_mass])
        slack = np.concatenate([gains.slack, losses.slack, np.full(1 + far_mass.size, error)])
        return PldAtoms(
            side=side,
            mass=outwards(everything, slack, upper=upper),
            loss=np.concatenate([gains.loss, -losses.loss, [0.0], far_loss]),
            infinite=outwards(sums.infinite, error, upper=upper) + (missing if upper else 0.0),
            truncated=sums.truncated + missing,
            round_off=sums.round_off + float(np.sum(everything * slack)),
            loss_error=max(
                sums.loss_error,
                *(float(half.loss_error.max(initial=0.0)) for half in (gains, losses)),
            ),
            limited=sums.limited > COMBINED.limited,
        )


class _Sums:
    """Pairs added up with their weights, cell by cell if there are cells.

    Halves: atoms of positive loss, and those of negative loss, which are atoms of positive loss of
    the exchanged pair.
    """

    def __init__(self, edges: Array | None) -> None:
        self.halves = CellSums(edges), CellSums(edges)
        # masses and losses of the atoms that are not merged in cells
        self.far: list[tuple[Array, Array]] = [(np.zeros(0), np.zeros(0))]
        self.harmless = self.infinite = self.truncated = self.round_off = self.loss_error = 0.0
        self.limited = 0.0  # probability of the limited pairs

    def add(self, weight: float, atoms: PldAtoms) -> None:
        """Add a pair."""
        self.infinite += rounded(weight * atoms.infinite)
        self.truncated += weight * atoms.truncated
        self.limited += weight * atoms.limited
        self.round_off += weight * atoms.round_off
        self.harmless += weight * float(np.sum(atoms.mass[atoms.loss == 0.0]))
        self.loss_error = max(self.loss_error, atoms.loss_error)
        mass = rounded(weight * atoms.mass)
        with np.errstate(divide="ignore"):
            logs = np.log(mass)
        # the other mass of each, or its own, may be below all doubles
        near = (logs - np.maximum(atoms.loss, 0.0) >= math.log(LIMITS.underflow)) & (
            np.abs(atoms.loss) <= LIMITS.largest_log
        )
        far = ~near & (mass > 0.0) & (atoms.loss != 0.0)
        self.far.append((mass[far], atoms.loss[far]))
        for sums, sign in zip(self.halves, (1.0, -1.0), strict=True):
            some = (sign * atoms.loss > 0.0) & near
            mine, loss = mass[some], atoms.loss[some]
            other = rounded(np.exp(logs[some] - loss), ELEMENTARY * (1.0 + np.abs(logs[some])))
            larger, smaller = (mine, other) if sign > 0.0 else (other, mine)
            half = HalfAtoms(
                mass=larger,
                other=smaller,
                difference=larger * -np.expm1(-np.abs(loss)),
                loss=np.abs(loss),
                # of a logarithm of at most 690 in size, of its difference from the loss, and of a
                # few more operations
                slack=roundings(ELEMENTARY * (800.0 + np.abs(loss))),
                loss_error=np.full(loss.size, atoms.loss_error),
            )
            sums.add(half)


def _of_each(effort: Effort, parts: int) -> Effort:
    """The accuracy requested of each of that many parts: coarser where there are many."""
    few = replace(effort, most_atoms=max(effort.most_atoms // (2 * parts), 1 << 15))
    if parts <= 8:
        return few
    # blocks of decoy counts may be four times as wide, but no wider than 4e-4 of their counts
    wider = min(4.0 * effort.resolution, 4e-4)
    return replace(few, resolution=max(effort.resolution, wider))
