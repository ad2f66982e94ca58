"""A round whose number of messages is random: each of N people takes part independently.

The number m of messages is visible, and given m the target is one of them with chance m/N: who
takes part is a sample of fixed size. So the round is the mixture, m revealed, of the sampled rounds
of m users from N, and ``H_alpha = E_m[H_alpha^(m)]``, m ~ Bin(N, q), where m = 0 costs nothing.
With more takers the target is hidden better and takes part more often; a block of m is bounded by
its fewest decoys, or its most from below.

People the adversary knows are known to take part or not: N is that of the others. Who else took
part must stay hidden, and must not depend on the data. Adjacency: one value among the N is
replaced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.losses.combined.mixture import MixtureLoss, Part
from shuffle_accountant.losses.combined.subsampled import SubsampledLoss
from shuffle_accountant.losses.decoys.decoy_counts import Decoys, count_law, starts_of
from shuffle_accountant.numerics.rounding import outwards, roundings, sequential_sum
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.reductions.choice import reduce

__all__ = ["ParticipationPair", "participation"]

# So many numbers of users are told apart; up to a few, all are.
_MOST_PARTS, _ALL_PARTS, _FEWEST_PARTS = 440, 256, 12
# Relative width of the likeliest blocks: half of it is what it costs.
_WIDTH = 6.5e-4
# The others are as much wider as this power of their density is smaller: what is rare may matter
# more than it weighs.
_SHARE = 0.25


@dataclass(frozen=True)
class ParticipationPair:
    """The mixture over the number of users."""

    two_sided: ClassVar[bool] = True

    name: str
    loss: PrivacyLoss


def participation(
    randomizer: LocalRandomizer,
    trials: int,
    probability: float,
    reduction: str,
    variant: str | None,
) -> ParticipationPair:
    """Reduce a round with random participation.

    Args:
        randomizer: what every user applies.
        trials: number N of people who might take part, >= 1.
        probability: q, that one of them does, in (0, 1).
        reduction: theorem for a round of so many users.
        variant: its variant.
    """
    inner = reduce(randomizer, 1, 1, reduction, variant)
    source = _Takers(randomizer, trials, probability, reduction, variant)
    return ParticipationPair(f"{inner.name}, random participation", MixtureLoss(source))


@dataclass(frozen=True)
class _Takers:
    """The sampled rounds, one for each block of numbers of users."""

    randomizer: LocalRandomizer
    trials: int
    probability: float
    reduction: str
    variant: str | None

    @property
    def largest(self) -> float:
        """That of one who takes part alone, nats."""
        return self._inner(1).largest

    @property
    def deviation(self) -> float:
        """That at the expected number of users, nats."""
        users = max(round(self.trials * self.probability), 1)
        if users == self.trials:
            return self._inner(users).deviation
        return SubsampledLoss(self._inner(users), users / self.trials).deviation

    def parts(self, side: Bound, effort: Effort) -> tuple[tuple[Part, ...], float]:
        """A part for nobody, and one or two for each block of numbers of users."""
        every = Decoys(self.trials, self.probability, 1.0 - self.probability)
        law = count_law((every,), side, tail=0.5 * effort.tail, resolution=0.0)
        width = _width(effort.resolution)
        starts = np.arange(law.low.size)
        if starts.size > _ALL_PARTS:
            starts = starts_of(law, width, _SHARE, spare=1.0)
        while starts.size < min(_FEWEST_PARTS, law.low.size):
            width *= 0.5
            starts = starts_of(law, width, _SHARE, spare=1.0)
        while starts.size > _MOST_PARTS:
            width *= 1.25
            starts = starts_of(law, width, _SHARE, spare=1.0)
        upper = side is Bound.PESSIMISTIC
        noise = sequential_sum(law.low.size, own=4)
        number = law.high if upper else law.low
        parts: list[Part] = []
        for first, last in pairwise([*starts.tolist(), law.low.size]):
            some = slice(first, last)
            mass = outwards(math.fsum(law.weight[some].tolist()), noise, upper=upper)
            if mass > 0.0:
                mean = float(np.average(number[some], weights=law.weight[some]))
                mean *= 1.0 + (noise if upper else -noise)
                parts += self._block(mass, int(law.low[first]), int(law.high[last - 1]), mean, side)
        return tuple(parts), law.missing

    def _block(self, mass: float, low: int, high: int, mean: float, side: Bound) -> list[Part]:
        """Rounds that bound those of ``low`` to ``high`` users, ``mean`` of them on average.

        Given the decoys, ``x H_(1 + (alpha - 1)/x)`` is convex in the fraction x: at the mean it is
        no larger, at the ends with that mean no smaller.
        """
        if high == 0:
            return [Part(mass, None)]
        if side is Bound.OPTIMISTIC:
            # a block with nobody in it counts as nobody
            return [Part(mass, self._sampled(high, mean, side) if low > 0 else None)]
        fewest = max(low, 1)
        if high == fewest:
            return [Part(mass, self._sampled(fewest, high, side))]
        share = min(max((mean - fewest) / (high - fewest), 0.0), 1.0)
        ends = ((1.0 - share, fewest), (share, high))
        return [Part(mass * part, self._sampled(fewest, end, side)) for part, end in ends]

    def _sampled(self, users: int, drawn: float, side: Bound) -> PrivacyLoss:
        """The loss among so many users, of one who is drawn with chance ``drawn/N``."""
        if drawn >= self.trials:
            return self._inner(users)
        moved = roundings(2) * (1.0 if side is Bound.PESSIMISTIC else -1.0)
        fraction = min(drawn / self.trials * (1.0 + moved), math.nextafter(1.0, 0.0))
        return SubsampledLoss(self._inner(users), fraction)

    def _inner(self, users: int) -> PrivacyLoss:
        return reduce(self.randomizer, users, users, self.reduction, self.variant).loss


def _width(resolution: float) -> float:
    """Relative width of the likeliest blocks."""
    return min(max(4.0 * resolution, _WIDTH), max(40.0 * resolution, _WIDTH / 16.0))
