"""Ratios of Gaussian steps whose noise differs: a sum of independent lognormal values.

The mean of the ratios of t steps, step i with noise of deviation sigma_i, is the likelihood ratio
of an epoch in which a record is dealt to one of them; see `losses.steps.mean_ratio`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.steps.gaussian import GaussianRatio
from shuffle_accountant.losses.steps.mean_ratio import RatioSource
from shuffle_accountant.numerics.rounding import roundings
from shuffle_accountant.sums.doubling import SumLaw, add, power

# Most different deviations that are added up as they are; more than that are gathered in cells of
# equal ratios first, which costs the bracket half a cell's width.
_MOST = 32


def gathered_noise(
    counts: Sequence[tuple[float, int]], side: Bound
) -> tuple[tuple[float, int], ...]:
    """At most 32 deviations with counts, whose epoch reveals more (PESSIMISTIC) or less.

    Args:
        counts: ascending deviations with the numbers of steps that have them.
        side: PESSIMISTIC lowers deviations, OPTIMISTIC raises them.
    """
    if len(counts) <= _MOST:
        return tuple(counts)
    low, high = counts[0][0], counts[-1][0]
    width = math.log(high / low) / _MOST
    cells: dict[int, list[tuple[float, int]]] = {}
    for sigma, count in counts:
        cells.setdefault(min(int(math.log(sigma / low) / width), _MOST - 1), []).append(
            (sigma, count)
        )
    end = 0 if side is Bound.PESSIMISTIC else -1
    return tuple((sorted(cell)[end][0], sum(count for _, count in cell)) for cell in cells.values())


@dataclass(frozen=True)
class UnequalRatios(RatioSource):
    """Distribution of the sum of likelihood ratios of Gaussian steps with different noise.

    What is asked about one ratio is answered about that of a step drawn uniformly at random.

    Attributes:
        parts: deviations of the noise with the numbers of steps that have them.
    """

    parts: tuple[tuple[float, int], ...]

    @property
    def deviation(self) -> float:
        """Root of the mean variance of the ratios."""
        return math.sqrt(self._mean([GaussianRatio(one).deviation ** 2 for one, _ in self.parts]))

    @property
    def complete(self) -> bool:
        """Cells hold all but the tails, of P and of Q."""
        return True

    def ratios(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Not defined: steps differ, and only the sum of all of them is used."""
        raise NotImplementedError("steps with different noise have no common ratio")

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Distribution of the sum over all steps; arguments as in `RatioSource.sums`."""
        budget = 0.25 * tail / len(self.parts)
        laws = []
        for sigma, count in self.parts:
            one = GaussianRatio(sigma).ratios(side, users=users, width=width, tail=budget)
            laws.append(power(one, count, side, width=width, tail=budget))
        # pair by pair, so that a value goes through few additions
        while len(laws) > 1:
            pairs = zip(laws[::2], laws[1::2], strict=False)
            added = [add(a, b, side, width=width, budget=budget, users=users) for a, b in pairs]
            laws = added + laws[len(laws) - len(laws) % 2 :]
        return laws[0]

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        """Bound of ``H_alpha`` of the message of a step drawn at random and then revealed."""
        each = [GaussianRatio(one).alone(epsilon, side, swapped) for one, _ in self.parts]
        slack = roundings(2 * len(each) + 4)
        return self._mean(each) * (1.0 + slack if side is Bound.PESSIMISTIC else 1.0 - slack)

    def below(self, log_ratio: float) -> float:
        """Upper bound of the Q-probability of ratios with no larger logarithm, for any step."""
        return max(GaussianRatio(one).below(log_ratio) for one, _ in self.parts)

    def _mean(self, values: Sequence[float]) -> float:
        """Mean over the steps of a value for each deviation."""
        steps = sum(count for _, count in self.parts)
        shares = zip(self.parts, values, strict=True)
        return math.fsum(count * value for (_, count), value in shares) / steps
