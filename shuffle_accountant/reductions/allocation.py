"""Random allocation: every record takes part in one uniformly chosen step of t.

Adjacency: zero-out. Bound: an upper bound on what the steps' outputs reveal, and the exact
value for mechanisms whose pair some query attains.

*Theorem* (Feldman and Shenfeld 2025, Theorem 3.1; Chua et al. 2024 for Gaussian steps). If (P, Q)
dominates every step given whatever came before, for all alpha >= 0, then an epoch is dominated by
``(1/t) sum_i Q^(i-1) P Q^(t-i)`` against ``Q^t`` (proof: `docs/understand/soundness.md`). The
likelihood ratio of that pair is the mean of t i.i.d. ratios X = dP/dQ under Q.

* *Part of an epoch*: of s released steps out of t the ratio is ``1 - s/t`` plus 1/t times the sum
  of s ratios. s must not depend on the outputs.
* *Several passes over one deal*: a record's steps in all passes are one step whose ratio is the
  product of independent ratios (for Gaussian steps: with less noise).
* *k of t*: a uniform k-subset is a uniform partition of the steps in t mod k blocks of ceil(t/k)
  and the rest of floor(t/k), with one step in each. Given the partition the blocks are independent
  allocations; their product dominates (Lemma 3.2 there). It is an upper bound of the k-subset's own
  pair, whose ratio is the elementary symmetric polynomial of the X over its number of terms.
* *Several records of one user*, m of them. All in one bin: a step of m times the sensitivity. In
  independent bins, two bounds. (a) That step too, for Gaussian noise: given the distances between
  the bins, the outputs are ``M Y / m`` plus noise for the output Y of that step, with M a sum of m
  signed shifts, and ``1 - M M'/m^2`` is a covariance. (b) Which records share a bin and a random
  partition of the steps into d blocks are revealed, d the number of bins in use: given that, the
  bins are independent allocations to blocks, and the whole is a mixture over the patterns.
* *Noise that differs between steps*: the ratios X_i are independent, each with its own noise.
  Where they are too many, similar ones are replaced by a common one, of the least noise among them
  for an upper bound and of the most for a lower one: adding noise to a step is a postprocessing.
* *Poisson sampling*: a step that a record takes part in with probability q, independently of all
  else, has the ratio ``1 - q + q X`` (Zhu, Dong and Wang 2022, Theorem 11: one of the two orders,
  and the other by exchange): the first released step of an epoch of 1/q, so to speak.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from shuffle_accountant.losses.base import Effort, PrivacyLoss, by_side, noise_of, share_of
from shuffle_accountant.losses.combined.mixture import PatternsLoss
from shuffle_accountant.losses.combined.product import ProductLoss
from shuffle_accountant.losses.steps.gaussian import GaussianRatio, gaussian_mean_loss
from shuffle_accountant.losses.steps.mean_ratio import MeanRatioLoss, RatioSource
from shuffle_accountant.losses.steps.product_ratio import UnequalRatios, gathered_noise
from shuffle_accountant.numerics.rounding import Between, Bound, over_root, quotient
from shuffle_accountant.reductions.base import Pair

# Accuracy at which the two bounds for several records are compared, and the delta at which.
_ROUGH, _USUAL = Effort(tail=1e-12, resolution=1e-3), 1e-6

_WHOLE = Between(1.0, 1.0)

Ratio = Callable[[Bound], RatioSource]
"""Law of the likelihood ratio of one step, with its parameters rounded to a side."""


def allocation(ratio: Ratio, steps: int, released: int) -> Pair:
    """The dominating pair of one epoch of t steps, of which the first s in 1 … t are released."""
    return Pair("allocation", _mean(ratio, released, quotient(released, steps)))


def allocation_of_unequal(noise_multipliers: Sequence[float], steps: int, passes: int) -> Pair:
    """The dominating pair of an epoch whose Gaussian steps each have their own noise.

    The ``noise_multipliers``, at least 0.05 each, are those of the steps whose outputs are seen;
    the same deal is gone through in a number of ``passes``.
    """
    counts, users = tuple(sorted(Counter(noise_multipliers).items())), len(noise_multipliers)

    def unequal(side: Bound) -> PrivacyLoss:
        gathered = gathered_noise(counts, side)
        parts = tuple((noise_of(over_root(sigma, passes), side), n) for sigma, n in gathered)
        part = share_of(quotient(users, steps), side)
        if len(parts) == 1:
            return gaussian_mean_loss(parts[0][0], users, part)
        return MeanRatioLoss(UnequalRatios(parts), users, part)

    return Pair("allocation", by_side(unequal))


def allocation_in_blocks(ratio: Ratio, steps: int, selected: int) -> Pair:
    """The dominating pair of k selected steps in 2 … t: a product over blocks with one each."""
    size, longer = divmod(steps, selected)
    blocks = ((size + 1, longer), (size, selected - longer))
    parts = ((_mean(ratio, block), count) for block, count in blocks if count > 0)
    return Pair("allocation, blocks", ProductLoss(tuple(parts)))


def allocation_of_several(ratio: Callable[[int], Ratio], steps: int, records: int) -> Pair:
    """The dominating pair of an epoch in which m >= 2 records of a user are dealt independently.

    The better of the two bounds where delta is about 1e-6; ``ratio`` is by the number of records in
    one step.
    """
    one = _mean(ratio(records), steps)
    weighted = []
    for sizes in _partitions(records):
        if len(sizes) > steps:
            continue
        size, longer = divmod(steps, len(sizes))
        parts = tuple(
            (_mean(ratio(count), size + (place < longer)), 1) for place, count in enumerate(sizes)
        )
        chance = _chance(sizes, steps, records)
        weighted.append((float(chance), parts[0][0] if len(sizes) == 1 else ProductLoss(parts)))
    patterns = PatternsLoss(tuple(weighted))
    epsilon = one.deviation
    while min(_upper(one, epsilon), _upper(patterns, epsilon)) > _USUAL and epsilon < 1e3:
        epsilon *= 1.5
    better = one if _upper(one, epsilon) <= _upper(patterns, epsilon) else patterns
    return Pair("allocation of several records", better)


def _upper(loss: PrivacyLoss, epsilon: float) -> float:
    """Upper end of delta in the worse order."""
    return max(one.delta(epsilon, Bound.PESSIMISTIC, _ROUGH) for one in (loss, loss.reversed))


def _partitions(total: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a sum, the largest terms first."""
    if total == 0:
        yield ()
        return
    for first in range(min(total, largest or total), 0, -1):
        for rest in _partitions(total - first, first):
            yield (first, *rest)


def _chance(sizes: tuple[int, ...], steps: int, records: int) -> Fraction:
    """Probability that independent uniform bins share records in groups of these sizes."""
    ways = math.factorial(records)
    for count in sizes:
        ways //= math.factorial(count)
    for count in set(sizes):
        ways //= math.factorial(sizes.count(count))
    return Fraction(ways * math.perm(steps, len(sizes)), steps**records)


def poisson_sampling(ratio: Ratio, rate: float) -> Pair:
    """The dominating pair of one step in which a record is with a probability in (0, 1]."""
    return Pair("Poisson sampling", _mean(ratio, 1, Between(rate, rate)))


def _mean(ratio: Ratio, steps: int, fraction: Between = _WHOLE) -> PrivacyLoss:
    """The loss of a mean of ratios; a larger fraction reveals more, in both orders.

    Who draws from Q instead now and then, independently, turns the pair of a fraction into that of
    a smaller one.
    """

    def mean(side: Bound) -> PrivacyLoss:
        one, part = ratio(side), share_of(fraction, side)
        if isinstance(one, GaussianRatio):  # which may be beyond the range of doubles
            return gaussian_mean_loss(one.sigma, steps, part)
        return MeanRatioLoss(one, steps, part)

    return by_side(mean)
