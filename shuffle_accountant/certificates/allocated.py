"""Random allocation: the mean of the steps' likelihood ratios, from above in convex order.

With X = dP/dQ of one step under Q, an epoch's ratio is ``1 - s/t + (X_1 + … + X_s)/t``, so that

    H(α)  = E(X_1 + … + X_s - (tα - t + s))_+ / t,
    H'(α) = α E(t/α - t + s - X_1 - … - X_s)_+ / t,

the second for the other order. X is replaced by a law on an additive grid that has the same
``E(X - x)_+`` at chosen points of it: chords of that function. Beyond the last point what is left
is an excess in the first case; in the second the ratio is cut there, which only adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from flint import arb, fmpq

from shuffle_accountant.certificates.additive import AdditiveLaw, power
from shuffle_accountant.certificates.balls import Effort, at_least, ceiling

__all__ = ["AllocatedSteps", "gaussian_excess", "two_valued_excess"]

# Cells of the grid in a standard deviation of one ratio.
_CELLS = 64.0
# Points grow apart by this power of a half of their distance from where the ratio mostly is.
_FALLING = 6
# The fewer steps, the nearer to 0 ratios are whose sum is small.
_FEW_STEPS = 2048.0
# No spacing is a smaller share of the largest ratio.
_FINEST = 2.0**-20

# E(X - x)_+ as a function of x >= 0.
Excess = Callable[[arb], arb]


@dataclass(frozen=True, eq=False)
class AllocatedSteps:
    """The pair of an epoch.

    Attributes:
        excess: ``E(X - x)_+`` of one step's ratio.
        deviation: rough standard deviation of X.
        steps: number t of steps.
        released: number s of steps whose outputs are seen.
        smallest: X is at least this, >= 0.
        largest: X is at most this, or inf.
    """

    excess: Excess
    deviation: float
    steps: int
    released: int
    smallest: arb
    largest: arb

    def forward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Upper bounds of ``H(α)`` at each α >= 1."""
        if self.released == 1:  # one ratio needs no grid
            return [self.excess(self.steps * (alpha - 1) + 1) / self.steps for alpha in alphas]
        law, unit = _sum(self, effort)
        offsets = [self.steps * (alpha - 1) + self.released for alpha in alphas]
        values = law.beyond([_lower(a) for a in offsets], unit)
        return [
            arb(0) if a >= self.released * self.largest else value / self.steps
            for a, value in zip(offsets, values, strict=True)
        ]

    def backward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Upper bounds of ``H'(α)`` at each α >= 1."""
        if self.released == 1:
            return [self._single_backward(alpha) for alpha in alphas]
        law, unit = _reflected_sum(self, effort)
        offsets = [self.steps * (1 - 1 / alpha) - self.released for alpha in alphas]
        values = law.beyond([_lower(a) for a in offsets], unit)
        return [
            arb(0) if a >= -self.released * self.smallest else alpha * value / self.steps
            for alpha, a, value in zip(alphas, offsets, values, strict=True)
        ]

    def _single_backward(self, alpha: arb) -> arb:
        """``α E(c - X)_+ / t`` at ``c = t/α - t + 1``; ``E(c - X)_+ = c - 1 + E(X - c)_+``."""
        c = self.steps * (1 / alpha - 1) + 1
        if not c > 0:
            return at_least(0, alpha * c / self.steps)
        return alpha * at_least(0, c - 1 + self.excess(c)) / self.steps

    def end(self, negligible: float) -> float:
        """A point beyond which the excess is below a number."""
        away = 2.0 * min(self.deviation, 1.0)
        while not self.excess(arb(1.0 + away)) <= negligible and away < 1e300:
            away *= 1.25
        return 1.0 + away

    def _start(self, negligible: float) -> float:
        """A point below which ``E(x - X)_+ = x - 1 + E(X - x)_+`` is below a number."""
        away = 2.0 * self.deviation
        while away < 1.0:
            x = arb(1.0 - away)
            if x - 1 + self.excess(x) <= negligible:
                return 1.0 - away
            away *= 1.25
        return 0.0

    def one_step(self, top: float, effort: Effort, finer: float = 1.0) -> tuple[AdditiveLaw, fmpq]:
        """X on a grid: changes of slope of its excess are the masses."""
        start = self._start(2.0 ** -(effort.cut + 8))
        wanted = max(
            self.deviation / (_CELLS * finer), 2.0 * (top - start) / effort.cells, top * _FINEST
        )
        exponent = math.frexp(wanted)[1] - 1
        unit = fmpq(1 << exponent) if exponent >= 0 else fmpq(1, 1 << -exponent)
        width = float(arb(unit))
        count = max(math.ceil(top / width), 2)
        # all that lies below the start is split between it and 0
        places = sorted({0, min(math.floor(start / width), count)})
        centre = round((1.0 + self.deviation) / width)
        while places[-1] < count:
            step = max(1, (places[-1] - centre) >> _FALLING)
            places.append(min(places[-1] + step, count))
        spacing = arb(unit)
        values = [arb(1), *(self.excess(j * spacing) for j in places[1:])]
        slopes = [arb(-1)]
        for i in range(1, len(places)):
            slopes.append((values[i] - values[i - 1]) / ((places[i] - places[i - 1]) * spacing))
        slopes.append(arb(0))
        bits = effort.bits + 16
        masses = [0] * (count + 1)
        for i, place in enumerate(places):
            masses[place] = max(ceiling(slopes[i + 1] - slopes[i], bits), 0)
        law = AdditiveLaw(
            level=0,
            first=0,
            masses=masses,
            excess=max(ceiling(values[-1] / spacing, bits), 0),
            bits=bits,
        )
        return law, unit


@lru_cache(maxsize=4)
def _sum(pair: AllocatedSteps, effort: Effort) -> tuple[AdditiveLaw, fmpq]:
    """The sum of the steps' ratios, from above."""
    law, unit = pair.one_step(pair.end(2.0 ** -(effort.cut - 8)), effort)
    return power(law, pair.released, effort), unit


@lru_cache(maxsize=4)
def _reflected_sum(pair: AllocatedSteps, effort: Effort) -> tuple[AdditiveLaw, fmpq]:
    """The negative of the sum, from above."""
    # ratios that large may count for less: the mean falls by nothing to speak of
    negligible = min(pair.deviation, 1.0) * 2.0**-14 / math.sqrt(pair.released)
    # those above the number of steps leave nothing of ``t/α - t + s``
    top = min(pair.end(negligible), float(pair.released))
    finer = min(max(_FEW_STEPS / pair.released, 1.0), 32.0) * max(pair.deviation, 1.0)
    law, unit = pair.one_step(top, effort, finer)
    return power(law.reflected(), pair.released, effort), unit


def _lower(value: arb) -> fmpq:
    """The lower end of a ball, exactly."""
    mantissa, exponent = value.lower().man_exp()
    man, exp = int(mantissa), int(exponent)
    return fmpq(man << exp) if exp >= 0 else fmpq(man, 1 << -exp)


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
