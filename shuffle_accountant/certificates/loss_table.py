"""A privacy loss distribution that is given as a table: its profile, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb

from shuffle_accountant.certificates.balls import Effort, at_least, exact
from shuffle_accountant.certificates.work import EXP, Work, price, spend


@dataclass(frozen=True)
class LossTable:
    """Losses, their P-masses, and the P-mass at loss +inf; what is missing is infinite too.

    Attributes:
        losses: nats, ascending.
        masses: of the losses.
        infinite: at +inf.
    """

    losses: Sequence[float]
    masses: Sequence[float]
    infinite: float

    def work(self, count: int, effort: Effort) -> Work:
        """Work and memory of `divergences`, given the number of α."""
        return Work(price(effort.precision) * (count + 2.0 * len(self.losses)) * (2.0 * EXP + 8.0))

    def divergences(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Balls of ``H(α)``, at most 1, at ascending α."""
        spend(self.work(len(alphas), effort).units)
        masses = [exact(mass) for mass in self.masses]
        missing = at_least(0, 1 - sum(masses, exact(self.infinite)))
        total = exact(self.infinite) + missing
        weighted, i = arb(0), len(masses) - 1
        found: list[arb] = []
        for alpha in reversed(alphas):
            level = alpha.log()
            while i >= 0 and exact(self.losses[i]) > level:
                total += masses[i]
                weighted += masses[i] * (-exact(self.losses[i])).exp()
                i -= 1
            value, j = total - alpha * weighted, i
            while j >= 0 and exact(self.losses[j]) > level.lower():  # above alpha, or not
                gain = masses[j] * (1 - alpha * (-exact(self.losses[j])).exp())
                value += at_least(0, gain)
                j -= 1
            found.append(arb(1).min(value))
        return found[::-1]
