"""Random allocation: the mean of the steps' likelihood ratios, from above in convex order.

With X = dP/dQ of one step under Q, an epoch's ratio is ``1 - s/t + (X_1 + … + X_s)/t``, so that
``H(α) = E(X_1 + … + X_s - (tα - t + s))_+ / t`` and, for the other order,
``1 - α + α H(1/α)``, since the ratio's mean is one. X is replaced by a law on an additive grid that
has the same ``E(X - x)_+`` at every point of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from flint import arb, fmpq

from shuffle_accountant.certificates.additive import AdditiveLaw, power
from shuffle_accountant.certificates.balls import Effort, ceiling

__all__ = ["AllocatedSteps", "gaussian_excess", "two_valued_excess"]

# E(X - x)_+ as a function of x >= 0.
Excess = Callable[[arb], arb]


@dataclass(frozen=True)
class AllocatedSteps:
    """The pair of an epoch.

    Attributes:
        excess: ``E(X - x)_+`` of one step's ratio.
        deviation: rough standard deviation of X.
        steps: number t of steps.
        released: number s of steps whose outputs are seen.
    """

    excess: Excess
    deviation: float
    steps: int
    released: int

    def divergences(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Upper bounds of ``H(α)`` at each α > 0."""
        law, unit = self._one_step(effort)
        law = power(law, self.released, effort)
        points = []
        for alpha in alphas:
            mantissa, exponent = (self.steps * (alpha - 1) + self.released).lower().man_exp()
            man, exp = int(mantissa), int(exponent)
            points.append(fmpq(man << exp) if exp >= 0 else fmpq(man, 1 << -exp))
        return [value / self.steps for value in law.beyond(points, unit)]

    def _one_step(self, effort: Effort) -> tuple[AdditiveLaw, fmpq]:
        """X on a grid: second differences of its excess are the masses."""
        negligible = arb(2) ** -effort.cut
        top = 2.0
        while self.excess(arb(top)).upper() > negligible and top < 1e300:
            top *= 1.25
        wanted = max(self.deviation / 64.0, 2.0 * top / effort.cells)
        exponent = math.frexp(wanted)[1] - 1
        unit = fmpq(1 << exponent) if exponent >= 0 else fmpq(1, 1 << -exponent)
        count = max(math.ceil(top / float(arb(unit))), 2)
        spacing = arb(unit)
        values = [arb(1), *(self.excess(j * spacing) for j in range(1, count + 1))]
        falls = [(values[j] - values[j + 1]) / spacing for j in range(count)]
        masses = [1 - falls[0], *(a - b for a, b in zip(falls, falls[1:], strict=False)), falls[-1]]
        bits = effort.bits + 16
        law = AdditiveLaw(
            level=0,
            first=0,
            masses=[max(ceiling(mass, bits), 0) for mass in masses],
            excess=ceiling(values[-1] / spacing, bits),
            bits=bits,
        )
        return law, unit


def gaussian_excess(noise: arb) -> Excess:
    """Of ``X = exp(Z/σ - 1/(2σ²))``, Z standard normal: the formula of Black and Scholes."""
    root = arb(2).sqrt()

    def excess(x: arb) -> arb:
        far = noise * x.log()
        half = 1 / (2 * noise)
        return (((far - half) / root).erfc() - x * ((far + half) / root).erfc()) / 2

    return excess


def two_valued_excess(epsilon: arb, passes: int) -> Excess:
    """Of a product of ratios ``e^ε`` or ``e^-ε`` of mean one each."""
    likely = 1 / (1 + (-epsilon).exp())
    rare = 1 / (1 + epsilon.exp())
    atoms = [
        (
            ((2 * j - passes) * epsilon).exp(),
            arb.bin_uiui(passes, j) * rare**j * likely ** (passes - j),
        )
        for j in range(passes + 1)
    ]

    def excess(x: arb) -> arb:
        return sum((q * arb(0).max(value - x) for value, q in atoms), arb(0))

    return excess
