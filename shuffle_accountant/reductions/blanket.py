"""The privacy blanket: what all inputs share hides the target (Balle, Bell, Gascon, Nissim 2019).

With probability ``sum_y m(y)``, ``m(y) = min over x of R(x)(y)``, a user's message is a draw from
the blanket whatever its value. Telling the adversary which users' messages are not is a
pre-processing of the real output, so the pair (R(x0), R(x1)) among n - 1 decoys that are draws from
m, or blank, dominates the round. Adjacency: one user's value is replaced; the profile is the
largest over ordered pairs of inputs, which bounds both directions. Bound: upper bound; no
decomposition does better (Su et al. 2025). For k-ary randomized response it is exactly the weak
adversary of 'Numerical Accounting in the Shuffle Model', Theorem 15.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch

import numpy as np

from shuffle_accountant.lattice.grid import Array, Bound
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.binary import BinaryLoss
from shuffle_accountant.losses.blanket import BlanketLoss, LetterSource
from shuffle_accountant.losses.clones import CloneCrowd
from shuffle_accountant.losses.gaussian import GaussianRatio
from shuffle_accountant.losses.letters import LetterPair
from shuffle_accountant.losses.mean_ratio import MeanRatioLoss
from shuffle_accountant.losses.response import ResponseCrowd
from shuffle_accountant.losses.sources import (
    FinitePair,
    GaussianBlanketPair,
    LaplacePair,
)
from shuffle_accountant.numerics.binomial import UNIT_ROUNDOFF
from shuffle_accountant.randomizers.base import FiniteRandomizer, LocalRandomizer
from shuffle_accountant.randomizers.gaussian import GaussianRandomizer
from shuffle_accountant.randomizers.laplace import LaplaceRandomizer
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse
from shuffle_accountant.reductions.base import Reduction
from shuffle_accountant.reductions.clones import clones
from shuffle_accountant.reductions.decoys import DensitiesAmongDecoys, TargetAmongDecoys

__all__ = ["blanket", "gaussian_example"]

# How closely letters are needed for a rough deviation.
_ROUGH = Effort(tail=1e-12, resolution=1e-3)


@singledispatch
def blanket(randomizer: LocalRandomizer, users: int) -> Reduction:
    """Reduce a round of a known randomizer to its blanket.

    Args:
        randomizer: what every user applies.
        users: messages in the round, >= 1.

    Raises:
        ValueError: nothing but its local privacy parameter is known of the randomizer.
    """
    raise ValueError(
        f"reduction 'blanket' needs a known randomizer, got {type(randomizer).__name__}"
    )


@blanket.register
def _(randomizer: RandomizedResponse, users: int) -> Reduction:
    k, gamma = randomizer.categories, randomizer.gamma
    truthful = randomizer.truthful
    single = gamma / k
    if k == 2:  # for two values the blanket is their clones
        loss = clones(randomizer.eps0, users).loss
    elif gamma in (0.0, 1.0):
        loss = BinaryLoss(
            CloneCrowd.from_eps0(randomizer.eps0, decoys=users - 1, rate=gamma, idle=truthful)
        )
    else:
        loss = BinaryLoss(ResponseCrowd(k, gamma, truthful, users - 1, randomizer.eps0))
    keep, other = truthful + single, gamma * ((k - 2) / k)
    decoys = TargetAmongDecoys(
        p0=(keep, single, other, 0.0),
        p1=(single, keep, other, 0.0),
        q=(single, single, other, truthful),
        n=users,
    )
    return Reduction("blanket", decoys, loss)


@blanket.register
def _(randomizer: FiniteRandomizer, users: int) -> Reduction:
    pairs = []
    for inputs in randomizer.input_pairs():
        classes = randomizer.classes(inputs)
        # rounded once, so that its relative error is that of the blanket's masses
        blank = max(math.fsum([1.0, *(-classes.blanket).tolist()]), 0.0)
        first, second = (np.append(row, 0.0) for row in classes.probabilities)
        masses = np.append(classes.blanket, blank)
        pairs.append(LetterPair(first, second, masses, randomizer.eps0))
    worst = max(pairs, key=lambda pair: pair.spread)
    decoys = TargetAmongDecoys(
        p0=tuple(worst.p0.tolist()),
        p1=tuple(worst.p1.tolist()),
        q=tuple(worst.q.tolist()),
        n=users,
    )
    if len(pairs) == 1 and randomizer.symmetric:
        crowd = _binary(worst, users, randomizer.eps0)
        if crowd is not None:
            return Reduction("blanket", decoys, BinaryLoss(crowd))
    else:
        pairs = [ordered for pair in pairs for ordered in (pair, pair.reversed)]
    return Reduction("blanket", decoys, _letters_loss(pairs, users))


@blanket.register
def _(randomizer: LaplaceRandomizer, users: int) -> Reduction:
    eps0 = randomizer.eps0

    def laplace(mean: float, y: Array) -> Array:
        return np.asarray(0.5 * eps0 * np.exp(-eps0 * np.abs(y - mean)))

    decoys = DensitiesAmongDecoys(
        p0=lambda y: laplace(0.0, y),
        p1=lambda y: laplace(1.0, y),
        q=lambda y: np.minimum(laplace(0.0, y), laplace(1.0, y)),
        blank=-math.expm1(-0.5 * eps0),
        n=users,
    )
    return Reduction("blanket", decoys, _source_loss(LaplacePair(eps0), users, eps0))


@blanket.register
def _(randomizer: GaussianRandomizer, users: int) -> Reduction:
    normal = _normal(randomizer.sigma)
    decoys = DensitiesAmongDecoys(
        p0=lambda y: normal(0.0, y),
        p1=lambda y: normal(1.0, y),
        q=lambda y: np.minimum(normal(0.0, y), normal(1.0, y)),
        blank=1.0 - randomizer.blanket_mass,
        n=users,
    )
    loss = _source_loss(GaussianBlanketPair(randomizer.sigma), users, math.inf)
    return Reduction("blanket", decoys, loss)


def gaussian_example(randomizer: GaussianRandomizer, users: int, population: int) -> Reduction:
    """The example pair of 'Numerical Accounting in the Shuffle Model', Section 5: exact.

    The target holds 1 (P) or 0 (Q) and every other user holds 0. This is one pair of datasets, not
    the worst. Of a population, the users of a round are drawn without replacement; when the target
    is not drawn, another 0 takes its place.

    Args:
        randomizer: Gaussian noise on 0 or 1.
        users: messages in the round.
        population: from how many they are drawn.
    """
    normal = _normal(randomizer.sigma)
    decoys = DensitiesAmongDecoys(
        p0=lambda y: normal(1.0, y),
        p1=lambda y: normal(0.0, y),
        q=lambda y: normal(0.0, y),
        blank=0.0,
        n=users,
    )
    fraction = users / population
    name = "gaussian example" if users == population else "gaussian example, subsampled"
    loss = MeanRatioLoss(GaussianRatio(randomizer.sigma), users, fraction)
    return Reduction(name, decoys, loss)


def _normal(sigma: float) -> Callable[[float, Array], Array]:
    """The normal density, as a function of its mean and the point."""

    def density(mean: float, y: Array) -> Array:
        scale = sigma * math.sqrt(2.0 * math.pi)
        return np.asarray(np.exp(-0.5 * ((y - mean) / sigma) ** 2) / scale)

    return density


def _source_loss(source: LetterSource, users: int, largest: float) -> BlanketLoss:
    """Loss of one continuous pair, which is symmetric."""
    deviation = source.letters(Bound.OPTIMISTIC, _ROUGH).deviation(users)
    return BlanketLoss((source,), (source,), users, deviation, largest)


def _letters_loss(pairs: list[LetterPair], users: int) -> BlanketLoss:
    """Loss of finite pairs, closed under exchanging the datasets."""
    sources = tuple(FinitePair(pair) for pair in dict.fromkeys(pairs))
    largest = max(pair.largest for pair in pairs)
    deviation = max(pair.deviation(users) for pair in pairs)
    return BlanketLoss(sources, sources, users, deviation, largest)


def _binary(pair: LetterPair, users: int, eps0: float) -> CloneCrowd | None:
    """The crowd, if the letters are two mirrored ones and a blank: then they are clones.

    Probabilities computed from eps0 are off by a unit in their last place each, which for a small
    eps0 is much of their difference; eps0 itself is not.
    """
    heard = (pair.p0 > 0.0) | (pair.p1 > 0.0)
    p0, p1, q = pair.p0[heard], pair.p1[heard], pair.q[heard]
    if p0.size != 2 or p0[0] != p1[1] or p0[1] != p1[0] or q[0] != q[1] or q[0] == 0.0:
        return None
    crowd = CloneCrowd.from_chances(
        float(p0.max()),
        float(p0.min()),
        decoys=users - 1,
        rate=2.0 * float(q[0]),
        idle=float(pair.q[~heard].sum()),
    )
    if 0.0 < abs(crowd.largest - eps0) <= 64 * UNIT_ROUNDOFF * (1.0 + eps0):
        return CloneCrowd.from_eps0(eps0, decoys=users - 1, rate=crowd.rate, idle=crowd.idle)
    return crowd
