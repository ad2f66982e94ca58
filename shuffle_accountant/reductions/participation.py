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

import numpy as np

from shuffle_accountant.losses.alphabets.blanket import BlanketLoss
from shuffle_accountant.losses.alphabets.letters import MessagePair, MessageSource
from shuffle_accountant.losses.alphabets.random_users import RandomUsersLoss, Sample
from shuffle_accountant.losses.alphabets.settings import MIXTURES
from shuffle_accountant.losses.base import DominatingPair, Effort, PrivacyLoss
from shuffle_accountant.losses.combined.mixture import MixtureLoss, Part
from shuffle_accountant.losses.combined.subsampled import SubsampledLoss
from shuffle_accountant.losses.decoy_counts import Decoys, count_law, starts_of
from shuffle_accountant.losses.two_letters.binary import BinaryLoss
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import Bound, outwards, roundings, sequential_sum
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.reductions.base import Pair, Reduction, TargetAmongDecoys
from shuffle_accountant.reductions.choice import reduce

# Blocks of numbers of users: most; most if each number has its own; fewest, if there are as many.
_MOST_PARTS, _ALL_PARTS, _FEWEST_PARTS = 440, 160, 12
# Relative width of the likeliest blocks: half of it is what it costs. One round is asked about much
# more closely than its answer has to be.
_WIDTH, _LEAST_WIDTH = 3e-4, 4e-5
# Exponent: other blocks are wider by their relative density to minus this power. Rare numbers of
# users may matter more than their probability.
_SHARE = 0.25


def participation(
    randomizer: LocalRandomizer,
    trials: int,
    probability: float,
    reduction: str,
    variant: str | None,
) -> Pair:
    """Reduce a round in which each of N >= 1 ``trials`` takes part with probability q in (0, 1)."""
    users = max(round(trials * probability), 1)
    inner = reduce(randomizer, users, users, reduction, variant)
    source = _Takers(randomizer, trials, probability, reduction, variant)
    listed, name = MixtureLoss(source), f"{inner.name}, random participation"
    pairs = _letters(inner, randomizer.eps0)
    if not pairs:
        return Pair(name, listed, two_sided=True)
    most = MIXTURES.most_terms[0 if isinstance(inner.loss, BinaryLoss) else 1]
    return Pair(name, RandomUsersLoss(pairs, source, listed, most), two_sided=True)


def _letters(inner: DominatingPair, eps0: float) -> tuple[MessageSource, ...]:
    """The target's pairs of inputs in letters that do not depend on the number of users, if any."""
    if not isinstance(inner, Reduction):
        return ()
    if isinstance(inner.loss, BlanketLoss):
        return inner.loss.pairs
    if isinstance(inner.loss, BinaryLoss) and isinstance(inner.decoys, TargetAmongDecoys):
        # two letters that mirror one another, so one order stands for both
        p0, p1, q = map(np.array, (inner.decoys.p0, inner.decoys.p1, inner.decoys.q))
        return (MessagePair(p0, p1, q, eps0),)
    return ()


@dataclass(frozen=True)
class _Takers:
    """The sampled rounds, one for each block of numbers of users: a `PartSource`."""

    randomizer: LocalRandomizer
    trials: int
    probability: float
    reduction: str
    variant: str | None

    @property
    def largest(self) -> float:
        # that of a user who takes part alone
        return self._drawn(1).largest

    @property
    def deviation(self) -> float:
        users = max(round(self.expected), 1)
        return self._drawn(users, users / self.trials).deviation

    @property
    def expected(self) -> float:
        return self.trials * self.probability

    def parts(self, side: Bound, effort: Effort) -> tuple[tuple[Part, ...], float]:
        samples, missing = self.samples(side, effort)
        return tuple(self._part(one) for one in samples), missing

    def samples(self, side: Bound, effort: Effort) -> tuple[tuple[Sample, ...], float]:
        """A sample for nobody, and one or two for each block of numbers of users."""
        blocks, missing = self._blocks(side, effort)
        return tuple(one for block in blocks for one in self._ends(*block, side)), missing

    def _blocks(
        self, side: Bound, effort: Effort
    ) -> tuple[list[tuple[float, int, int, float]], float]:
        """Mass, least, most and mean of blocks of numbers of users, and what is in none."""
        every = Decoys(self.trials, self.probability, 1.0 - self.probability)
        law = count_law((every,), side, tail=0.5 * effort.tail, resolution=0.0)
        width = min(
            max(1.3 * effort.resolution, _WIDTH), max(40.0 * effort.resolution, _LEAST_WIDTH)
        )
        if effort.rounds > 1.0:  # as close as what is asked for
            width = max(0.5 * effort.resolution, _LEAST_WIDTH)
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
        blocks = []
        for first, last in pairwise([*starts.tolist(), law.low.size]):
            some = slice(first, last)
            mass = rounded(math.fsum(law.weight[some].tolist()))
            if mass > 0.0:
                mean = rounded(float(np.average(number[some], weights=law.weight[some])), last)
                mass, mean = (outwards(x, noise, upper=upper) for x in (mass, mean))
                blocks.append((mass, int(law.low[first]), int(law.high[last - 1]), mean))
        return blocks, law.missing

    def _ends(self, mass: float, low: int, high: int, mean: float, side: Bound) -> list[Sample]:
        """Samples that bound those of ``low`` to ``high`` users, ``mean`` of them on average.

        Given the decoys, ``x H_(1 + (alpha - 1)/x)`` is convex in the fraction x: at the mean it is
        no larger, at the ends with that mean no smaller.
        """
        if high == 0:
            return [Sample(mass, 0, 1.0)]
        if side is Bound.OPTIMISTIC:
            # a block with nobody in it counts as nobody
            return [self._sample(mass, high, mean, side) if low > 0 else Sample(mass, 0, 1.0)]
        fewest = max(low, 1)
        if high == fewest:
            return [self._sample(mass, fewest, high, side)]
        share = min(max((mean - fewest) / (high - fewest), 0.0), 1.0)
        ends = ((1.0 - share, fewest), (share, high))
        return [self._sample(mass * part, fewest, end, side) for part, end in ends]

    def _sample(self, weight: float, users: int, drawn: float, side: Bound) -> Sample:
        """A sample of ``users`` users, of whom each person is one with chance ``drawn/N``."""
        moved = roundings(2) * (1.0 if side is Bound.PESSIMISTIC else -1.0)
        fraction = min(drawn / self.trials * (1.0 + moved), math.nextafter(1.0, 0.0))
        return Sample(weight, users, fraction if drawn < self.trials else 1.0)

    def _part(self, sample: Sample) -> Part:
        drawn = self._drawn(sample.users, sample.fraction) if sample.users else None
        return Part(sample.weight, drawn)

    def _drawn(self, users: int, fraction: float = 1.0) -> PrivacyLoss:
        """The loss of a round of this many users, a fraction of all."""
        inner = reduce(self.randomizer, users, users, self.reduction, self.variant).loss
        return SubsampledLoss(inner, fraction) if fraction < 1.0 else inner
