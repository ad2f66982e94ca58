"""Lower bounds on the truth: one concrete dataset, evaluated exactly.

If all other users hold one value z, the messages are those of the target among n - 1 decoys with
law R(z), with no blank: the pair (R(x0), R(x1), R(z), n) is the real output of two real
neighbouring datasets. Nothing below its divergence can be a bound of the round.

Normal noise on one bit: an example pair of datasets, exact, and no bound for other datasets.

'Numerical Accounting in the Shuffle Model', Section 5. The target holds 1 (P) or 0 (Q) and every
other user holds 0. Of a population, the users of a round are drawn without replacement; when the
target is not drawn, another 0 takes its place. Adjacency: the target's value is replaced.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from shuffle_accountant.losses.alphabets.blanket import most_distinguishable
from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.base import by_side, share_of
from shuffle_accountant.losses.steps.gaussian import gaussian_mean_loss
from shuffle_accountant.losses.steps.profiled import OrderedPairLoss
from shuffle_accountant.numerics.rounding import Array, quotient
from shuffle_accountant.randomizers.base import FiniteRandomizer
from shuffle_accountant.randomizers.noise import GaussianRandomizer
from shuffle_accountant.reductions.base import DensitiesAmongDecoys, Reduction


def example(sigma: float, users: int, population: int) -> Reduction:
    """The example pair of normal noise of deviation sigma on 0 or 1."""
    density = GaussianRandomizer(sigma).density
    zero, one = partial(density, 0.0), partial(density, 1.0)
    fraction = quotient(users, population)
    name = "gaussian example" if users == population else "gaussian example, subsampled"
    decoys = DensitiesAmongDecoys(p0=one, p1=zero, q=zero, blank=0.0, n=users)
    loss = by_side(lambda side: gaussian_mean_loss(sigma, users, share_of(fraction, side)))
    return Reduction(name, decoys, loss)


def attained(
    randomizer: FiniteRandomizer, users: int, population: int, epsilon: float
) -> tuple[float, float, tuple[int, int, int]]:
    """The largest divergence over datasets of which all others hold one value: a bracket.

    And that dataset, ``(x0, x1, others)``.
    """
    pairs = _pairs(randomizer, users, population)
    pair, low, high = most_distinguishable(tuple(pairs), users, epsilon)
    return low, high, pairs[pair]


def dataset_losses(
    randomizer: FiniteRandomizer, users: int, population: int
) -> dict[OrderedPairLoss, tuple[int, int, int]]:
    """The datasets ``(x0, x1, others)`` of which all others hold one value, by their loss.

    Both orders of x0 and x1 are one loss.
    """
    losses: dict[OrderedPairLoss, tuple[int, int, int]] = {}
    for pair, triple in _pairs(randomizer, users, population).items():
        losses.setdefault(OrderedPairLoss(pair, users), triple)
    return losses


def _pairs(
    randomizer: FiniteRandomizer, users: int, population: int
) -> dict[MessagePair, tuple[int, int, int]]:
    """The datasets by their pairs of laws; another user takes the target's place if not drawn."""
    pairs: dict[MessagePair, tuple[int, int, int]] = {}
    for triple in randomizer.datasets():
        first, second, others, _ = randomizer.classes(triple)
        if users < population:
            drawn, idle = users / population, (population - users) / population
            first, second = (_mixture(drawn, law, idle, others) for law in (first, second))
        letters = MessagePair(np.array(first), np.array(second), others, randomizer.eps0)
        pairs.setdefault(letters, triple)
    return pairs


def _mixture(drawn: float, law: Array, idle: float, others: Array) -> Array:
    """The law of a message of the target or, if it is not drawn, of another user.

    A sum of positive terms: off by a few units in the last place, or the smallest double, and never
    0 where it is not. Where both laws agree so does the mixture.
    """
    mixed = np.where(law == others, others, drawn * law + idle * others)
    return np.where((mixed <= 0.0) & (law + others > 0.0), 5e-324, mixed)
