"""Exact profiles of rounds, or bounds from above, at points alpha, for each order of the datasets.

The forward order is ``H(α) = sup over events of P - αQ``, the backward one that of (Q, P):
``H'(α) = 1 - α + α H(1/α)``. A symmetric profile is its own backward one.

Every class here and every pair has ``definite``, whether values enclose the truth (else their upper
ends bound it, and no more), and ``work``, an estimate of the work and memory of its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb

from shuffle_accountant.certificates.allocated import AllocatedSteps
from shuffle_accountant.certificates.balls import Effort, at_least
from shuffle_accountant.certificates.binary_target import BinaryTarget
from shuffle_accountant.certificates.composition import LossTable
from shuffle_accountant.certificates.letters import LettersAmongDecoys
from shuffle_accountant.certificates.thresholds import Thresholded
from shuffle_accountant.certificates.work import Work, left, spend


@dataclass(frozen=True)
class MixedTarget:
    """A mixture of pairs whose component is seen: its divergences are the means of theirs."""

    parts: Sequence[tuple[arb, Target]]

    def definite(self, effort: Effort) -> bool:
        """Whether divergences of all are enclosed."""
        return all(target.definite(effort) for _, target in self.parts)

    def work(self, count: int, effort: Effort) -> Work:
        """Work and memory of `divergences`, given the number of α."""
        return sum((target.work(count, effort) for _, target in self.parts), Work())

    def divergences(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """``H(α)``, or upper bounds of it."""
        found = [arb(0)] * len(alphas)
        for chance, target in self.parts:
            values = target.divergences(alphas, effort)
            found = [a + chance * at_least(0, b) for a, b in zip(found, values, strict=True)]
        return found


# One order of a pair, or both if they are alike, by its divergences at α >= 1.
Target = BinaryTarget | LettersAmongDecoys | MixedTarget | AllocatedSteps | Thresholded


@dataclass(frozen=True)
class Largest:
    """The largest of the profiles of targets that are closed under exchange: of both orders.

    Attributes:
        targets: pairs of distributions.
        active: probability that the target's message tells anything at all.
        fraction: probability g that the target takes part; then ``H(α) = g H(1 + (α - 1)/g)`` for
            α >= 1.
    """

    targets: Sequence[Target]
    active: arb
    fraction: arb

    def definite(self, effort: Effort) -> bool:
        """Whether divergences of all are enclosed."""
        return all(target.definite(effort) for target in self.targets)

    def work(self, below: int, above: int, effort: Effort) -> Work:
        """Of all targets, at the distinct ones of alphas, consecutive ``e^(k h)``, and inverses."""
        count = above + max(below - max(above - 1, 0), 0)
        work = Work(_compared(below, above))
        for target in self.targets:
            work += target.work(count, effort)
            if work.units > left():  # too much already, whatever the others take
                break
        return work

    def values(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Values at ascending alphas, those below one from their inverses."""
        below, above = _parted(alphas)
        mirrored = [1 / alpha for alpha in reversed(below)]
        spend(_compared(len(below), len(above)))
        # inverses that are asked for anyway are not computed twice
        known = list(above)
        known += [alpha for alpha in mirrored if not any(alpha.overlaps(one) for one in above)]
        inner = [1 + (alpha - 1) / self.fraction for alpha in known]
        largest, *others = [target.divergences(inner, effort) for target in self.targets]
        for row in others:
            largest = [a.max(b) for a, b in zip(largest, row, strict=True)]
        found = [self.fraction * self.active * at_least(0, value) for value in largest]

        def at(alpha: arb) -> arb:
            return next(v for one, v in zip(known, found, strict=True) if one.overlaps(alpha))

        return [1 - alpha + alpha * at(1 / alpha) for alpha in below] + found[: len(above)]


@dataclass(frozen=True)
class Mirrored:
    """The profile of one order of a pair, from the divergences of both at α >= 1."""

    own: Target
    other: Target

    def definite(self, effort: Effort) -> bool:
        """Whether divergences are enclosed: those of both orders, or neither's."""
        return self.own.definite(effort)

    def work(self, below: int, above: int, effort: Effort) -> Work:
        """Work and memory of both orders, either of which may be asked at any alpha."""
        return self.own.work(below + above, effort) + self.other.work(below + above, effort)

    def values(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """The own order's values at alphas from one on, below it those of the other one."""
        below, above = _parted(alphas)
        values = self.other.divergences([1 / alpha for alpha in below], effort)
        mirrored = [1 - a + a * value for a, value in zip(below, values, strict=True)]
        return mirrored + self.own.divergences(above, effort)


@dataclass(frozen=True)
class Tabulated:
    """The profile of one order of a pair with loss tables of both, which are taken as true."""

    table: LossTable
    other: LossTable

    def definite(self, effort: Effort) -> bool:
        """True."""
        return True

    def work(self, below: int, above: int, effort: Effort) -> Work:
        """Work and memory of the table that takes more."""
        tables = (table.work(below + above, effort) for table in (self.table, self.other))
        return max(tables, key=lambda one: one.units)

    def values(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Balls at ascending alphas, never below ``1 - α``."""
        values = self.table.divergences(alphas, effort)
        return [value.max(1 - alpha) for value, alpha in zip(values, alphas, strict=True)]


Profile = Largest | Mirrored | Tabulated


def _parted(alphas: list[arb]) -> tuple[list[arb], list[arb]]:
    """The alphas below one, and all others."""
    below = [alpha for alpha in alphas if alpha < 1]
    return below, [alpha for alpha in alphas if not alpha < 1]


def _compared(below: int, above: int) -> float:
    """Units of finding inverses among alphas, each compared with all."""
    return float(below) * (2.0 * above + below)
