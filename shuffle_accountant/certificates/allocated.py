"""Random allocation: the mean of the steps' likelihood ratios, from above in convex order.

With X = dP/dQ of one step under Q, an epoch's ratio is ``1 - s/t + (X_1 + … + X_s)/t``, so that

    H(α)  = E(X_1 + … + X_s - (tα - t + s))_+ / t,
    H'(α) = α E(t/α - t + s - X_1 - … - X_s)_+ / t,

the second for the other order. X is replaced by a distribution on a graded grid that has the same
``E(X - x)_+`` at all points of it: chords of that function. In the first case ratios below the
first point are moved up to it, and beyond the last point what is left is an excess. In the second
one ratios below the first point are split between it and 0, where the whole epoch counts as seen,
and those beyond the last one are cut there, which only adds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise

from flint import arb, ctx, fmpq

from shuffle_accountant.certificates import balls
from shuffle_accountant.certificates.additive import Falling, Rising, graded, power, power_work
from shuffle_accountant.certificates.balls import Effort
from shuffle_accountant.certificates.work import BINOMIAL, ERFC, EXP, Work, price, spend

# Finest resolution of a grid, relative to ratios of about 1.
_FINEST = 2.0**-40
# Ratio below which the search for the start of a grid ends.
_SMALLEST = 2.0**-1000
# Factor by which the distance from 1 grows in the searches for the ends of a grid.
_STEP = 1.25


@dataclass(frozen=True, eq=False)
class GaussianExcess:
    """``E(X - x)_+``, x >= 0, of ``X = exp(Z/σ - 1/(2σ²))``, Z standard normal: Black and Scholes.

    The noise is σ.
    """

    noise: arb

    @property
    def units(self) -> float:
        """Units of work of one value, times the price: two error functions and a logarithm."""
        return 2.0 * ERFC + EXP + 10.0

    def farthest(self, bits: int) -> float:
        """Bound of ``|log X|`` by the Gaussian tail, except with a chance of ``2**-bits``."""
        ratio = float((1 / self.noise).mid())
        return ratio * math.sqrt(2.0 * math.log(2.0) * bits) + 0.5 * ratio**2

    def __call__(self, x: arb) -> arb:
        """Expected excess of the ratio over x, ``E(X - x)_+``."""
        root = arb(2).sqrt()
        far = self.noise * x.log()
        half = 1 / (2 * self.noise)
        return (((far - half) / root).erfc() - x * ((far + half) / root).erfc()) / 2


def two_valued_ratios(epsilon: arb, passes: int) -> list[tuple[arb, arb]]:
    """Products of ``passes`` ratios ``e^±ε`` of mean one each, with their probabilities."""
    spend((BINOMIAL + 3.0 * EXP) * (passes + 1.0) * price(ctx.prec))
    likely = 1 / (1 + (-epsilon).exp())
    rare = 1 / (1 + epsilon.exp())
    chances = (
        arb.bin_uiui(passes, j) * rare**j * likely ** (passes - j) for j in range(passes + 1)
    )
    return [(((2 * j - passes) * epsilon).exp(), chance) for j, chance in enumerate(chances)]


@dataclass(frozen=True, eq=False)
class TwoValuedExcess:
    """``E(X - x)_+``, x >= 0, of a product X of ratios, see `two_valued_ratios`."""

    epsilon: arb
    passes: int

    @cached_property
    def atoms(self) -> list[tuple[arb, arb]]:
        """The products with their probabilities."""
        return two_valued_ratios(self.epsilon, self.passes)

    @property
    def units(self) -> float:
        """Units of work of one value, a sum over the products, times the price."""
        return 5.0 * (self.passes + 1.0)

    def farthest(self, bits: int) -> float:
        """Bound of ``|log X|`` by Hoeffding's inequality, except with a chance of ``2**-bits``."""
        epsilon, n = min(float(self.epsilon.mid()), 1e100), self.passes
        beyond = epsilon * math.sqrt(2.0 * n * math.log(2.0) * bits)
        return min(n * epsilon, n * epsilon * math.tanh(epsilon / 2.0) + beyond)

    def __call__(self, x: arb) -> arb:
        """Expected excess of the ratio over x, ``E(X - x)_+``."""
        return sum((q * arb(0).max(value - x) for value, q in self.atoms), arb(0))


Excess = GaussianExcess | TwoValuedExcess


@dataclass(frozen=True, eq=False)
class AllocatedSteps:
    """The dominating pair of an epoch of random allocation, by its steps' likelihood ratios.

    Values enclose the truth for one released step; sums are only bounded from above.

    Attributes:
        excess: ``E(X - x)_+`` of one step's ratio.
        deviation: rough standard deviation of X.
        steps: number t of steps.
        released: number s of steps whose outputs are seen.
        smallest: X is at least this, >= 0.
        largest: X is at most this, or inf.
        exchanged: whether the divergences are ``H'``, of the other order, in place of ``H``.
    """

    excess: Excess
    deviation: float
    steps: int
    released: int
    smallest: arb
    largest: arb
    exchanged: bool = False

    def definite(self, effort: Effort) -> bool:
        """Whether values are enclosed."""
        return self.released == 1

    def work(self, count: int, effort: Effort) -> Work:
        """Work and memory of `divergences`, given the number of α."""
        each = self.excess.units * price(effort.precision)
        if self.released == 1:
            return Work(count * 2.0 * each)
        far = max(self.excess.farthest(effort.cut + 8), math.log1p(2.5 * self.deviation), _FINEST)
        far = min(far + math.log(_STEP), 700.0)
        inside = math.log(-math.expm1(-far))
        searched = 60.0 + 2.0 * far / math.log(_STEP)
        # logarithms of what the grid goes over and of what its first block resolves
        if self.exchanged:
            span, reach = min(far, math.log(self.released)), min(inside, -far)
            fine = effort.often(self.released)
        else:
            span, reach = far, inside
            fine = replace(effort, further=math.ceil(far / math.log(2.0)))
        first = max((span + inside - reach) / math.log(2.0), 0.0) + 4.0
        units = (searched + 0.5 * effort.cells * (first + 1.0)) * each
        adding = power_work(lambda many: first + 0.5 * math.log2(many), self.released, fine)
        return Work(units + count * 30.0 * price(effort.precision)) + adding

    def divergences(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Upper bounds of the divergence at each α >= 1."""
        if self.released == 1:  # one ratio needs no grid
            spend(len(alphas) * self.excess.units * price(ctx.prec))
            if self.exchanged:
                return [self._single_backward(alpha) for alpha in alphas]
            return [self.excess(self.steps * (alpha - 1) + 1) / self.steps for alpha in alphas]
        return (self._backward if self.exchanged else self._forward)(alphas, effort)

    def _forward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        law, unit = _rising_sum(self, effort)
        offsets = [self.steps * (alpha - 1) + self.released for alpha in alphas]
        values = law.beyond(list(map(balls.lower, offsets)), unit)
        return [
            arb(0) if a >= self.released * self.largest else value / self.steps
            for a, value in zip(offsets, values, strict=True)
        ]

    def _backward(self, alphas: list[arb], effort: Effort) -> list[arb]:
        law, unit = _falling_sum(self, effort)
        offsets = [self.steps * (1 / alpha - 1) + self.released for alpha in alphas]
        values = law.below([balls.upper(c) for c in offsets], unit)
        # with a ratio of 0, ``α c / t`` is at most one
        given_up = balls.dyadic(law.cost, law.bits)
        return [
            arb(0) if c <= self.released * self.smallest else alpha * value / self.steps + given_up
            for alpha, c, value in zip(alphas, offsets, values, strict=True)
        ]

    def _single_backward(self, alpha: arb) -> arb:
        """``α E(c - X)_+ / t`` at ``c = t/α - t + 1``; ``E(c - X)_+ = c - 1 + E(X - c)_+``."""
        c = self.steps * (1 / alpha - 1) + 1
        if not c > 0:
            return balls.at_least(0, alpha * c / self.steps)
        return alpha * balls.at_least(0, c - 1 + self.excess(c)) / self.steps

    def end(self, negligible: float) -> float:
        """A point beyond which the excess is below a number."""
        away = 2.0 * min(self.deviation, 1.0)
        while not self.excess(arb(1.0 + away)) <= negligible and away < 1e300:
            spend(self.excess.units * price(ctx.prec))
            away *= _STEP
        return 1.0 + away

    def start(self, negligible: float) -> float:
        """A point x below which ``E(x - X)_+ = x - 1 + E(X - x)_+`` is below a share of x."""
        away, x = max(2.0 * self.deviation, _FINEST), arb(1)
        while x > _SMALLEST:
            spend(self.excess.units * price(ctx.prec))
            away *= _STEP
            x = arb(1.0 / (1.0 + away))
            if x - 1 + self.excess(x) <= negligible * x:
                break
        return float(x)

    def chords(
        self, start: float, reach: float, end: float, effort: Effort
    ) -> tuple[list[int], list[arb], fmpq]:
        """Places of a graded grid from start to end, the excess there, and their unit.

        The first block of the grid resolves the reach.
        """
        unit = balls.scaled(1, math.frexp(reach / effort.cells)[1] - 1)
        width = float(arb(unit))
        last = math.ceil(end / width)
        found: list[int] = []
        for x in graded(math.floor(start / width), 1, max(effort.cells // 2, 1)):
            found.append(x)
            if x >= last and len(found) > 1:
                break
        spend(len(found) * self.excess.units * price(ctx.prec))
        return found, [self.excess(x * arb(unit)) if x else arb(1) for x in found], unit


@lru_cache(maxsize=4)
def _rising_sum(pair: AllocatedSteps, effort: Effort) -> tuple[Rising, fmpq]:
    """A law that bounds the sum of ratios for nondecreasing convex functions, and its unit."""
    start = pair.start(2.0 ** -(effort.cut + 8))
    reach = max(1.0 - start, _FINEST)
    end = pair.end(2.0**-effort.cut)
    effort = replace(effort, further=math.ceil(math.log2(end)))
    places, values, unit = pair.chords(start, reach, end, effort)
    excess = max(balls.ceiling(values[-1] / unit, effort.fine_bits), 0)
    atoms = _atoms(places, values, unit, arb(-1), effort.fine_bits)
    law = Rising.of(atoms, excess, effort)
    return power(law, pair.released, effort), unit


@lru_cache(maxsize=4)
def _falling_sum(pair: AllocatedSteps, effort: Effort) -> tuple[Falling, fmpq]:
    """A law that bounds the sum of ratios for nonincreasing convex functions, and its unit."""
    start = pair.start(2.0 ** -(effort.cut + 8))
    # ratios above the number of steps leave nothing of ``t/α - t + s``
    end = min(pair.end(2.0**-effort.cut), float(pair.released))
    reach = min(start, max(1.0 - start, _FINEST))
    places, values, unit = pair.chords(start, reach, end, effort)
    first = (values[0] - 1) / (places[0] * arb(unit))
    often = effort.often(pair.released)
    lost = max(balls.ceiling(1 + first, often.fine_bits), 0)
    law = Falling.of(_atoms(places, values, unit, first, often.fine_bits), lost, often)
    return power(law, pair.released, often), unit


def _atoms(
    places: list[int], values: list[arb], unit: fmpq, first: arb, bits: int
) -> list[tuple[int, int]]:
    """Places with masses, the changes of slope of the values' chords, rounded up over ``2**bits``.

    The slope before the first place is given; after the last one it is 0.
    """
    points = zip(places, values, strict=True)
    chords = [(d - c) / ((b - a) * arb(unit)) for (a, c), (b, d) in pairwise(points)]
    slopes = pairwise([first, *chords, arb(0)])
    masses = [max(balls.ceiling(after - before, bits), 0) for before, after in slopes]
    return list(zip(places, masses, strict=True))
