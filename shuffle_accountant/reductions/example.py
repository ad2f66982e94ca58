"""Normal noise on one bit: an example pair of datasets, exact, and no bound for other datasets.

'Numerical Accounting in the Shuffle Model', Section 5. The target holds 1 (P) or 0 (Q) and every
other user holds 0. Of a population, the users of a round are drawn without replacement; when the
target is not drawn, another 0 takes its place. Adjacency: the target's value is replaced.
"""

from __future__ import annotations

from functools import partial

from shuffle_accountant.losses.combined.by_side import by_side, share_of
from shuffle_accountant.losses.steps.far_apart import gaussian_mean_loss
from shuffle_accountant.numerics.between import quotient
from shuffle_accountant.randomizers.gaussian import GaussianRandomizer
from shuffle_accountant.reductions.base import DensitiesAmongDecoys, Reduction


def example(sigma: float, users: int, population: int) -> Reduction:
    """The example pair of normal noise.

    Args:
        sigma: standard deviation of the noise on 0 or 1.
        users: messages in the round.
        population: from how many they are drawn.
    """
    density = GaussianRandomizer(sigma).density
    zero, one = partial(density, 0.0), partial(density, 1.0)
    fraction = quotient(users, population)
    name = "gaussian example" if users == population else "gaussian example, subsampled"
    return Reduction(
        name,
        DensitiesAmongDecoys(p0=one, p1=zero, q=zero, blank=0.0, n=users),
        by_side(lambda side: gaussian_mean_loss(sigma, users, share_of(fraction, side))),
    )
