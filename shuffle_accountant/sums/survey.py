"""What is looked up of a pair before its messages are summed, and the rule that chooses the way.

For the tilted message value Y with characteristic function phi, the function
``u(t) = sqrt(1 - |phi(t)|^2)`` is Lipschitz with the standard deviation of Y as its constant: with
D the difference of two independent copies, ``|phi|^2 = E cos(t D)`` has a derivative of at most
``sqrt(E D^2) sqrt(E sin^2 (t D)) <= sqrt(2 Var Y) sqrt(2 (1 - |phi|^2))``. So phi at the middle of
an interval bounds its modulus all over it; intervals where ``|phi|^(n-1)`` is negligible are left
out, with their bound, and all others halved.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.angles import cos_sin
from shuffle_accountant.numerics.rounding import LIMITS, UNIT_ROUNDOFF, Array
from shuffle_accountant.sums import settings
from shuffle_accountant.sums.lists import listable
from shuffle_accountant.sums.settings import DOUBLING, NODES
from shuffle_accountant.sums.tilted import Tilted


class Way(Enum):
    """A way to bound the profile of a target among decoys; brackets name the one that answered."""

    LISTS = "lists"
    MOMENTS = "moments"
    NODES = "nodes"
    HEAVY = "heavy tails"


def choose(
    q: Array,
    users: tuple[int, int],
    tail: float,
    *,
    known: tuple[float, float] = (0.0, 1.0),
    wide: bool = False,
) -> Way:
    """Choose the way by the first line of this table whose condition holds.

    | condition | way | file |
    | --- | --- | --- |
    | one number of messages, whose likely histograms are at most 2^17 | lists | `lists` |
    | one alpha, profile known to be below 1e-50, within a factor 1e3 | moments | `letter_moments` |
    | one alpha, wide from nodes, at most 2^13 messages | heavy tails | `heavy_tails` |
    | otherwise | nodes | `nodes`, with `far_messages` |

    Lists are exact but for rounding and the tail, and one list serves all alpha. Moments bound a
    profile so far out from above, single messages from below: a factor 1000 changes epsilon by a
    few percent there, and few sums are closer, none as fast. Nodes serve any number of messages,
    and all numbers in a range. Heavy tails have relative accuracy whatever the likelihood ratios
    are, but take ten to a hundred times as long, and minutes for larger message spaces. They gain
    nothing where the errors of all messages' probabilities may add up to one, or the tail is below
    the range of doubles.

    Args:
        q: probabilities of the messages among decoys, shape (m,).
        users: least and largest number of messages n.
        tail: probability that may be left out, the requested accuracy.
        known: bounds of the profile at the single alpha asked for, from single messages and from
            moments; the trivial ones where several alpha are asked for.
        wide: whether a single alpha is asked for, and the bounds from nodes are wider than asked.
    """
    if users[0] == users[1] and listable(q, users[0], tail):
        return Way.LISTS
    if known[1] <= NODES.deep and known[0] >= NODES.deep_ratio * known[1]:
        return Way.MOMENTS
    accurate = users[1] * 16 * UNIT_ROUNDOFF <= 1.0 and tail >= LIMITS.underflow
    return Way.HEAVY if wide and accurate and q.size <= DOUBLING.most_cells else Way.NODES


class _Survey:
    """Intervals of nodes that are left out, or kept as blocks: see `find_blocks`.

    Attributes:
        work: number of frequencies at which phi was evaluated, of each row, shape (k,).
    """

    def __init__(self, rows: Tilted, users: tuple[int, int], most: float) -> None:
        self.rows, self.users, self._most = rows, users, most
        every = np.arange(rows.theta.size)
        self.work = np.zeros(every.size)
        self.kept = [every], [np.zeros(every.size)]
        self.dropped = np.zeros((3, every.size))

    def examine(
        self, index: NDArray[np.intp], begin: Array, length: Array
    ) -> tuple[NDArray[np.intp], Array, Array]:
        """Leave out intervals where the modulus is small, keep blocks, and halve all others.

        Intervals are given, and what is to be examined next returned, by the row, the first node
        and the number of nodes of each, shape (i,).
        """
        rows = self.rows
        self.work += np.bincount(index, minlength=self.work.size)
        step = rows.step[index]
        half, low = 0.5 * length * step, begin * step
        top = _largest_modulus(rows, index, low + half, half)
        rest = log_power(top, self.users[0]) - 0.5 * low**2 * rows.variance[index]
        out = rest <= -rows.level[index]
        gone = index[out]
        bound = np.minimum(length, rows.last[index] - begin + 1.0)[out] * np.exp(rest[out])
        for i, size in enumerate(transform(rows.theta[gone], low[out])):
            self.dropped[i] += np.bincount(gone, bound * size, rows.theta.size)
        whole = ~out & (length <= settings.NODES.block)
        blocks = np.maximum(length[whole] / settings.NODES.block, 1.0).astype(int)
        row, start = np.repeat(index[whole], blocks), np.repeat(begin[whole], blocks)
        number = np.arange(row.size) - np.repeat(np.cumsum(blocks) - blocks, blocks)
        start += settings.NODES.block * number
        there = start <= rows.last[row]
        self.kept[0].append(row[there])
        self.kept[1].append(start[there])
        split = ~out & ~whole
        index, begin, length = index[split], begin[split], 0.5 * length[split]
        index, begin = np.tile(index, 2), np.concatenate([begin, begin + length])
        length = np.tile(length, 2)
        inside = (begin <= rows.last[index]) & (self.work <= self._most)[index]
        return index[inside], begin[inside], length[inside]


def find_blocks(
    rows: Tilted, users: tuple[int, int], most: float
) -> tuple[tuple[NDArray[np.intp], Array], Array, NDArray[np.bool_]]:
    """Find the blocks of nodes that matter, by halving intervals of frequencies.

    Returns:
        The row and the first node of each such block; what all others add to the three sums, shape
        (3, k); and whether ``most`` frequencies were enough, shape (k,): else blocks are missing.
    """
    survey, every = _Survey(rows, users, most), np.arange(rows.theta.size)
    # over this many nodes phi may move by about one
    longest = 1.0 / (rows.step * np.sqrt(rows.spread) + 1e-300)
    reach, waiting = np.full(every.size, float(settings.NODES.block)), []
    while np.any(far := (rows.last >= reach) & (reach < longest)):
        # intervals that are as long as they are far away
        waiting.append((every[far], reach[far], reach[far]))
        reach[far] *= 2.0
    for row in every[rows.last >= reach].tolist():
        length, begin = reach[row], np.arange(reach[row], rows.last[row] + 1.0, reach[row])
        waiting.append((np.full(begin.size, row), begin, np.full(begin.size, length)))
    while waiting:
        index, begin, length = (np.concatenate(x) for x in zip(*waiting, strict=True))
        if not index.size:
            break
        waiting = [survey.examine(index, begin, length)]
    kept = np.concatenate(survey.kept[0]), np.concatenate(survey.kept[1])
    return kept, survey.dropped, survey.work <= most


def _moduli(rows: Tilted, index: NDArray[np.intp], t: Array) -> tuple[Array, Array]:
    """``|phi|`` and ``|phi'|`` of the rows given by index, at one t each."""
    phi, slope = np.empty((2, t.size))
    size = max(LIMITS.at_once // (4 * rows.y.shape[1]), 1)
    for first in range(0, t.size, size):
        some = slice(first, first + size)
        row = index[some]
        y = rows.y[row]
        angle = t[some, None] * y
        cosine, sine = cos_sin(angle)
        weight = rows.weight[row]
        cosine *= weight
        sine *= weight
        phi[some] = np.hypot(cosine.sum(axis=1), sine.sum(axis=1))
        slope[some] = np.hypot(np.einsum("kj,kj->k", cosine, y), np.einsum("kj,kj->k", sine, y))
    return phi, slope


def _largest_modulus(rows: Tilted, index: NDArray[np.intp], t: Array, half: Array) -> Array:
    """Upper bounds of ``|phi|`` within ``half`` of t, from ``|phi|`` and ``|phi'|`` at t.

    The smaller one of two: by the lemma of this module, and by Taylor's theorem, as the second
    derivative of phi is at most the variance of Y.
    """
    phi, slope = _moduli(rows, index, t)
    spread = rows.spread[index] * (1.0 + 1e-9)
    own = rows.rounding * rows.size[index] * (t + half)
    own += UNIT_ROUNDOFF * (128.0 + 8.0 * rows.y.shape[1])
    largest = np.max(np.abs(rows.y), axis=1, initial=0.0)[index]
    phi = np.minimum(phi + own, 1.0)
    u = np.sqrt((1.0 - phi) * (1.0 + phi)) - half * np.sqrt(spread)
    by_lemma = np.sqrt(np.maximum(1.0 - np.maximum(u, 0.0) ** 2, 0.0))
    by_taylor = phi + half * (slope + own * largest + 0.5 * half * spread)
    return np.asarray(np.clip(np.minimum(by_lemma, by_taylor) * (1.0 + 1e-15), 1e-15, 1.0))


def log_power(top: Array, n: int) -> Array:
    """Upper bound of the logarithm of ``|phi|^(n - 1)``, where ``|phi|`` is at most ``top``."""
    found = (n - 1.0) * np.log1p(top - 1.0)
    return np.asarray(found + 1e-9 * (1.0 + np.abs(found)))


def transform(theta: Array, t: Array) -> Array:
    """Moduli of the three transforms at ``theta + i t``, for arrays that broadcast."""
    size = np.hypot(theta, t)
    return np.stack([1.0 / size**2, np.ones(size.shape), 1.0 / size])
