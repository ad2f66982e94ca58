"""The strong adversary of k-ary randomized response: it knows who answered at random.

'Numerical Accounting in the Shuffle Model', Section 4. With probability gamma the target answered
at random; the adversary sees that, and both datasets look alike. Else the target's message is its
true value, 1 under X and 2 under X', among decoys that show each of the two with probability
gamma/k; the loss is ``log(N1/N2)`` of the counts, taken jointly. Three variants, ordered exact <=
paper <= tail:

* ``exact``: the mixture of both cases.
* ``paper``: the second case alone, as in the paper's Figure 4; it drops the factor 1 - gamma.
* ``tail``: ``P(loss >= epsilon)`` in the second case, the paper's equation (4.2); it also drops
  the factor ``1 - e^(epsilon - loss)``.

This adversary is stronger than one that sees the messages alone, so all three are upper bounds for
that one, and not tight. Adjacency: one user's value is replaced.
"""

from __future__ import annotations

import math

from shuffle_accountant.losses.base import PrivacyLoss
from shuffle_accountant.losses.combined.revealed import DilutedLoss
from shuffle_accountant.losses.decoy_counts import NumberOfClones
from shuffle_accountant.losses.two_letters.binary import BinaryLoss
from shuffle_accountant.losses.two_letters.tail import ProbabilisticDpLoss
from shuffle_accountant.randomizers.base import Mixture
from shuffle_accountant.reductions.base import Reduction, TargetAmongDecoys

VARIANTS = ("exact", "paper", "tail")


def strong(mixture: Mixture, users: int, variant: str) -> Reduction:
    """Reduce a round of k-ary randomized response against the strong adversary.

    Args:
        mixture: what every user applies: the truth, or a uniformly random value.
        users: messages in the round, >= 1.
        variant: one of `VARIANTS`.
    """
    k, gamma = mixture.categories, mixture.gamma
    single = gamma / k
    idle = mixture.truthful + gamma * ((k - 2) / k)
    # a target that never lies
    clones = NumberOfClones.from_eps0(math.inf, decoys=users - 1, rate=2.0 * single, idle=idle)
    loss: PrivacyLoss = BinaryLoss(clones)
    if variant == "exact":
        loss = DilutedLoss(loss, active=mixture.truthful, harmless=gamma)
    elif variant == "tail":
        loss = ProbabilisticDpLoss(clones)
    decoys = TargetAmongDecoys(
        p0=(1.0, 0.0, 0.0), p1=(0.0, 1.0, 0.0), q=(single, single, idle), n=users
    )
    return Reduction(f"strong, {variant}", decoys, loss)
