"""Pairs of distributions that dominate a round, as reduction theorems return them.

Proofs that are not here are in `docs/understand/soundness.md`.

Density lemma. Of n shuffled messages one (the target's) is drawn from p0 or p1 and the others, its
decoys, i.i.d. from q. The hockey-stick divergence between the two laws at alpha is

    E[ ((1/n) sum_i (p0(Y_i) - alpha p1(Y_i)) / q(Y_i))_+ ],   Y_i i.i.d. from q.

Sampling. Lemma 7 of 'Numerical Accounting in the Shuffle Model' (Zhu et al. 2022, Proposition 30);
see `losses.combined.subsampled` for the explicit pair. Adjacency: one user's value among the N is
replaced. Bound: upper bound.

Colluders. If the adversary knows c of those drawn among m' people it knows in all, the others are
``m - c`` drawn from ``N - m'``. Whatever c, that is at least ``m - m' - 1`` decoys and a fraction
of at most ``m / (N - m')``; more decoys and a smaller fraction are more private.

Blocks. Of N shuffled messages m are the target's. The hockey-stick divergence between any two
datasets that differ in the target's m values is at most that of m independent rounds of floor(N/m)
messages with one of the target's each, by any theorem for such a round. *Proof.* Divide the
messages into m blocks of floor(N/m) with one message of the target in each, and tell the observer
all others. Shuffling every block and telling which message is in which block reveals more than
shuffling them all, because shuffling the whole undoes it. Blocks are independent. QED. The same
holds for m users whose data change at once. Adjacency: that of the theorem for one message. Bound:
upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.losses.base import DominatingPair, PrivacyLoss
from shuffle_accountant.losses.combined.product import ProductLoss
from shuffle_accountant.losses.combined.subsampled import SubsampledLoss

Density = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Pair:
    """A pair of distributions (P, Q) that dominates a round.

    Attributes:
        name: the theorem, as brackets report it.
        loss: the pair's privacy loss.
        two_sided: whether Q has no mass where P has none.
    """

    name: str
    loss: PrivacyLoss
    two_sided: bool = False


@dataclass(frozen=True)
class TargetAmongDecoys:
    """A finite alphabet's target laws, decoy law and number of messages.

    Attributes:
        p0: law of the target's message under the dataset X, one probability per letter.
        p1: law of the target's message under the neighbour X' (the target's value replaced).
        q: law of each of the ``n - 1`` decoys. Its last letter may be a blank that the target
            never sends: a message that depends on no input.
        n: number of shuffled messages, the target's included.
    """

    p0: tuple[float, ...]
    p1: tuple[float, ...]
    q: tuple[float, ...]
    n: int

    def __post_init__(self) -> None:
        if not len(self.p0) == len(self.p1) == len(self.q):
            raise ValueError(
                f"p0, p1, q must have one length, got {len(self.p0)}, {len(self.p1)}, {len(self.q)}"
            )
        for name in ("p0", "p1", "q"):
            law = getattr(self, name)
            # as closely as the rows of a channel must add up to one
            if min(law) < 0 or abs(math.fsum(law) - 1.0) > 2e-9:
                raise ValueError(f"{name} must be a probability law, got sum {math.fsum(law)!r}")


@dataclass(frozen=True)
class DensitiesAmongDecoys:
    """A continuous alphabet's target densities, decoy density and number of messages.

    Attributes:
        p0: density of the target's message under the dataset X, a function of arrays.
        p1: the same under the neighbour X'.
        q: density of each of the ``n - 1`` decoys that are not blank; its integral is
            ``1 - blank``.
        blank: probability that a decoy is blank.
        n: number of shuffled messages, the target's included.
    """

    p0: Density
    p1: Density
    q: Density
    blank: float
    n: int


@dataclass(frozen=True)
class Reduction:
    """A pair that dominates a round, from a named theorem.

    Attributes:
        name: the theorem, as brackets report it.
        decoys: the pair as one target among decoys, given that the target takes part; of several
            pairs of inputs the one whose likelihood ratios differ most.
        loss: the privacy loss of the round, subsampling included.
    """

    two_sided: ClassVar[bool] = True

    name: str
    decoys: TargetAmongDecoys | DensitiesAmongDecoys
    loss: PrivacyLoss


def subsampled(inner: Reduction, users: int, population: int) -> Reduction:
    """The reduction of a round on m users drawn anew every round from N >= m.

    The pair of ``inner``, the reduction given who takes part, must be symmetric.
    """
    return inner if population == users else fraction_of(inner, users / population)


def fraction_of(inner: Reduction, fraction: float) -> Reduction:
    """As `subsampled`, for the fraction of the population that takes part, in (0, 1]."""
    loss = SubsampledLoss(inner=inner.loss, fraction=fraction)
    return replace(inner, name=f"{inner.name}, subsampled", loss=loss)


def among_colluders(
    inner: DominatingPair, users: int, population: int, colluding: int
) -> DominatingPair:
    """The reduction of such a round if the adversary knows some of the population, not all.

    ``inner`` is that of a round of as many users as are certainly not known, at least one.
    """
    if not isinstance(inner, Reduction) or population - colluding <= users:
        return inner
    return subsampled(inner, users, population - colluding)


def in_blocks(block: DominatingPair, messages: int) -> DominatingPair:
    """The dominating pair of a round in which the target sends m >= 1 messages.

    ``block`` is that of a round in which the target sends one message among floor(N/m).
    """
    if messages == 1:
        return block
    loss = ProductLoss(((block.loss, messages),))
    return Pair(f"{block.name}, blocks", loss, block.two_sided)
