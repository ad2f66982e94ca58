"""Rounds whose shuffler hides less than a uniformly random order does.

Exposure. With probability p the observer recognises the target's message, and a coin says so:
``(1 - p) H^(n) + p H^(1)``, H^(m) the divergence of a round of m users. If every message may be
recognised, each independently, the target is hidden among those that are not:
``p H^(1) + (1 - p) E H^(n - X)``, X the number of others that are, binomial. H^(m) falls with m, so
the ends of a range of numbers bound it, and the mass of large X may be put to H^(1) above.

Posterior weights. With psi_i the probability that message i is the target's, the divergence is a
Schur-convex function of psi: at least H^(k), of k weights that are not zero, and, as none is above
w, at most H^(floor(1/w)).

Batches. Assigned at random, the target is in a batch with a probability in proportion to its size;
otherwise the smallest batch bounds the others.

Adjacency: that of the round. Bound: an upper bound above, and for weights a lower one below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np

from shuffle_accountant.losses.base import DominatingPair, by_side
from shuffle_accountant.losses.combined.mixture import PatternsLoss
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import Bound, lowered, raised, roundings
from shuffle_accountant.reductions.base import Pair

# Numbers of other exposed messages are distinguished in ranges of at most this share of all users,
# over which epsilon changes by less than the share, or in this many ranges where those are too
# short. Numbers that are rarer than a share _RARE of the target's exposure are put to it.
_RANGE, _RANGES, _RARE = 2e-4, 12, 1e-6
# Relative error of binomial tails, which come from a library, in roundings: this many, and _SPREAD
# for each of the law's deviations. They are off by up to 2000, and 10 for each.
_TAIL, _SPREAD = 2.0**17, 64.0

Inner = Callable[[int], DominatingPair]
"""The pair of a round of a number of users."""


def exposed(inner: Inner, users: int, exposure: float, everyone: bool) -> DominatingPair:
    """The pair of a round in which the target's message is recognised with a probability.

    Or every message, if ``everyone``. The ``users`` are the honest ones.
    """
    alone, whole = inner(1), inner(users)
    name = f"{whole.name}, exposure"
    if exposure == 0.0:
        return Pair(name, whole.loss, whole.two_sided)
    if exposure == 1.0 or users == 1:
        return Pair(name, PatternsLoss(((1.0, alone.loss),)), whole.two_sided)
    hidden, rare = [(dict.fromkeys(Bound, 1.0), 0, 0)], 0.0
    if everyone:
        hidden, rare = _others(users, exposure)

    def parts(side: Bound) -> PatternsLoss:
        upper = side is Bound.PESSIMISTIC
        found = [
            ((1.0 - exposure) * mass[side], inner(users - (last if upper else first)).loss)
            for mass, first, last in hidden
        ]
        rest = (1.0 - exposure) * rare if upper else 0.0
        return PatternsLoss((*found, (min(exposure + rest, 1.0), alone.loss)))

    return Pair(name, by_side(parts), whole.two_sided)


def _others(users: int, exposure: float) -> tuple[list[tuple[dict[Bound, float], int, int]], float]:
    """Ranges of numbers of others who are exposed, and the probability of larger numbers, raised.

    Of each range the probability by side, the least and the largest number.
    """
    from scipy.stats import binom  # not quick to import

    law = binom(users - 1, exposure)
    far = min(int(law.isf(_RARE * exposure)) + 1, users - 1)
    least = max(int(law.ppf(_RARE * exposure)) - 1, 0)
    numbers = far + 1 - least
    count = min(math.ceil(numbers / (_RANGE * users)), numbers, _RANGES)
    edges = np.linspace(least, far + 1, count + 1).astype(np.int64)
    edges[0] = 0
    # neighbouring tails may be off in opposite ways
    off = _TAIL + _SPREAD * float(law.std())
    tail = rounded(law.sf(edges - 1.0), off * (1.0 - 2.0 * (np.arange(edges.size) % 2)))
    error = roundings(off)
    high = raised(tail[:-1], error) - lowered(tail[1:], error)
    low = np.maximum(lowered(tail[:-1], error) - raised(tail[1:], error), 0.0)
    ranges = [
        ({Bound.PESSIMISTIC: above, Bound.OPTIMISTIC: below}, first, end - 1)
        for above, below, (first, end) in zip(
            high.tolist(), low.tolist(), pairwise(edges.tolist()), strict=True
        )
    ]
    return ranges, raised(float(tail[-1]), error)


def fewest_hidden(users: int, exposure: float) -> tuple[int, float]:
    """The fewest users who are hidden with the target, and the probability of its exposure.

    A mass of larger numbers of exposed users is put to the latter.
    """
    if users == 1 or exposure == 1.0:
        return 1, exposure
    kept, rest = _others(users, exposure)
    return users - kept[-1][2], min(exposure + (1.0 - exposure) * rest, 1.0)


def among_weighted(
    inner: Inner, users: int, weights: tuple[float, ...], colluding: int
) -> DominatingPair:
    """The pair of a round after which the target's place has a posterior law, a weight for each.

    Who colludes may know its own place: at worst those of the likeliest others.
    """
    shares = np.sort(np.array(weights))[::-1]
    largest = float(shares[0])
    left = [largest, *shares[1 + colluding :].tolist()]
    fewest = round(math.fsum(left) / largest)
    while fewest > 1 and not _at_most(fewest, largest, left):
        fewest -= 1
    some = min(int(np.count_nonzero(shares)), users)
    few, many = inner(max(min(fewest, some), 1)), inner(some)
    loss = by_side(lambda side: (few if side is Bound.PESSIMISTIC else many).loss)
    return Pair(f"{many.name}, weights", loss, many.two_sided)


def _at_most(count: int, largest: float, weights: list[float]) -> bool:
    """Whether ``count * largest`` is at most the sum of the weights, in exact arithmetic."""
    exact = count * Fraction(largest)
    high = float(exact)
    return math.fsum([*weights, -high, -float(exact - Fraction(high))]) >= 0.0


def in_batches(
    inner: Inner, batches: tuple[int, ...], colluding: int, random: bool
) -> DominatingPair:
    """The pair of a round whose messages are shuffled in batches of these sizes, ascending.

    All who work with the observer may be in the target's batch.
    """
    if not random:
        smallest = inner(max(batches[0] - colluding, 1))
        return Pair(f"{smallest.name}, batches", smallest.loss, smallest.two_sided)
    total = sum(batches)
    sizes = {size: batches.count(size) * size / total for size in batches}
    parts = [(weight, inner(max(size - colluding, 1)).loss) for size, weight in sizes.items()]
    first = inner(max(batches[-1] - colluding, 1))
    return Pair(f"{first.name}, batches", PatternsLoss(tuple(parts)), first.two_sided)
