"""Exact profiles of rounds, or bounds from above, at points alpha, in both orders of the datasets.

The forward order is ``H(α) = sup over events of P - αQ``, the backward one that of (Q, P):
``H'(α) = 1 - α + α H(1/α)``. A symmetric profile is its own backward one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from flint import arb

from shuffle_accountant.certificates.balls import Effort, at_least
from shuffle_accountant.certificates.composition import LossTable
from shuffle_accountant.certificates.work import Work, left, spend

Values = Callable[[list[arb], Effort], list[arb]]


class Target(Protocol):
    """A pair of distributions whose divergences are known."""

    def definite(self, effort: Effort) -> bool:
        """Whether divergences are enclosed; else bounded from above."""

    def work(self, count: int, effort: Effort) -> Work:
        """Work and memory of `divergences`, given the number of α."""

    def divergences(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """``H(α)``, or upper bounds of it."""


@dataclass(frozen=True)
class MixedTarget:
    """A mixture of pairs whose component is seen: its divergences are the means of theirs.

    Attributes:
        parts: probabilities and the pairs.
    """

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


class OrderedTarget(Protocol):
    """A pair whose two orders differ."""

    def definite(self, effort: Effort) -> bool:
        """Whether divergences are enclosed; else bounded from above."""

    def work(self, forward: int, backward: int, effort: Effort) -> Work:
        """Work and memory of `forward` and `backward`, given the number of α."""

    def forward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """``H(α)`` of the pair at each α >= 1."""

    def backward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """``H(α)`` of the exchanged pair at each α >= 1."""


class Profile(ABC):
    """The profile of a round's pair."""

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether both orders have one profile."""

    @abstractmethod
    def definite(self, effort: Effort) -> bool:
        """Whether values enclose the truth; else their upper ends bound it, and no more."""

    @abstractmethod
    def work(self, below: int, above: int, effort: Effort) -> Work:
        """Work and memory of each order: of consecutive ``e^(k h)`` below 1, and of other α."""

    @abstractmethod
    def forward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Balls of the profile at ascending alphas > 0."""

    @abstractmethod
    def backward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Balls of the exchanged pair's profile at ascending alphas > 0."""


@dataclass(frozen=True)
class SymmetricProfile(Profile):
    """The largest of the profiles of targets that are closed under exchange.

    Attributes:
        targets: pairs of distributions.
        active: probability that the target's message tells anything at all.
        fraction: probability g that the target takes part; then ``H(α) = g H(1 + (α - 1)/g)`` for
            α >= 1.
    """

    targets: Sequence[Target]
    active: arb
    fraction: arb

    @property
    def symmetric(self) -> bool:
        """True."""
        return True

    def definite(self, effort: Effort) -> bool:
        """Whether divergences of all are enclosed."""
        return all(target.definite(effort) for target in self.targets)

    def work(self, below: int, above: int, effort: Effort) -> Work:
        """Work and memory of all targets, at the distinct alphas and inverses."""
        count = above + max(below - max(above - 1, 0), 0)
        work = Work(_compared(below, above))
        for target in self.targets:
            work += target.work(count, effort)
            if work.units > left():  # too much already, whatever the others take
                break
        return work

    def forward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Values at ascending alphas, those below one from their inverses."""
        below = [alpha for alpha in alphas if alpha < 1]
        above = [alpha for alpha in alphas if not alpha < 1]
        mirrored = [1 / alpha for alpha in reversed(below)]
        spend(_compared(len(below), len(above)))
        # inverses that are asked for anyway are not computed twice
        known = list(above)
        known += [alpha for alpha in mirrored if not any(alpha.overlaps(one) for one in above)]
        found = self._beyond_one(known, effort)

        def at(alpha: arb) -> arb:
            return next(v for one, v in zip(known, found, strict=True) if one.overlaps(alpha))

        left = [1 - alpha + alpha * at(1 / alpha) for alpha in below]
        return left + found[: len(above)]

    def backward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Values of the exchanged pair, which are those of `forward`."""
        return self.forward(alphas, effort)

    def _beyond_one(self, alphas: list[arb], effort: Effort) -> list[arb]:
        inner = [1 + (alpha - 1) / self.fraction for alpha in alphas]
        rows = [target.divergences(inner, effort) for target in self.targets]
        largest = rows[0]
        for row in rows[1:]:
            largest = [a.max(b) for a, b in zip(largest, row, strict=True)]
        return [self.fraction * self.active * at_least(0, value) for value in largest]


@dataclass(frozen=True)
class OrderedProfile(Profile):
    """A pair's two profiles, from its divergences at α >= 1."""

    target: OrderedTarget

    @property
    def symmetric(self) -> bool:
        """False."""
        return False

    def definite(self, effort: Effort) -> bool:
        """Whether divergences are enclosed."""
        return self.target.definite(effort)

    def work(self, below: int, above: int, effort: Effort) -> Work:
        """Work and memory of the target's orders, either of which may be asked at any alpha."""
        return self.target.work(below + above, below + above, effort)

    def forward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Balls of the profile of the dataset with the record against the one without."""
        return self._mirrored(self.target.forward, self.target.backward, alphas, effort)

    def backward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Balls of the profile of the dataset without the record against the one with it."""
        return self._mirrored(self.target.backward, self.target.forward, alphas, effort)

    def _mirrored(self, own: Values, other: Values, alphas: list[arb], effort: Effort) -> list[arb]:
        """The own order's values from one on, below it those of the other one."""
        below = [alpha for alpha in alphas if alpha < 1]
        above = [alpha for alpha in alphas if not alpha < 1]
        values = other([1 / alpha for alpha in below], effort)
        mirrored = [1 - a + a * value for a, value in zip(below, values, strict=True)]
        return mirrored + own(above, effort)


@dataclass(frozen=True)
class TableProfile(Profile):
    """The profile of a pair that is given by two loss tables, which are taken as true."""

    remove: LossTable
    add: LossTable
    same: bool

    @property
    def symmetric(self) -> bool:
        """Whether one table is given for both orders."""
        return self.same

    def definite(self, effort: Effort) -> bool:
        """True."""
        return True

    def work(self, below: int, above: int, effort: Effort) -> Work:
        """Work and memory of the table that takes more."""
        tables = (self.remove.work(below + above, effort), self.add.work(below + above, effort))
        return max(tables, key=lambda one: one.units)

    def forward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Balls of the profile of the table for "remove", which is never below ``1 - α``."""
        return _lawful(self.remove.divergences(alphas, effort), alphas)

    def backward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Balls of the profile of the table for "add"."""
        return _lawful(self.add.divergences(alphas, effort), alphas)


def _compared(below: int, above: int) -> float:
    """Units of finding inverses among alphas, each compared with all."""
    return float(below) * (2.0 * above + below)


def _lawful(values: list[arb], alphas: list[arb]) -> list[arb]:
    return [value.max(1 - alpha) for value, alpha in zip(values, alphas, strict=True)]
