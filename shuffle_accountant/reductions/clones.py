"""The clones bound: any eps0-LDP randomizer is dominated by binary randomized response.

Adjacency: one user's value is replaced. Bound: an upper bound on what the shuffled messages
reveal. Write E = e^eps0, u = E/(E+1), v = 1/(E+1).

*Common randomizer* (Feldman, McMillan and Talwar 2022, "Stronger privacy amplification by
shuffling"): target (u, v) against (v, u), decoys (v, v, 1 - 2v) with a blank. The published proof
of the paper's general Lemma 3.5 carries an erratum, it fails for mixtures with a third component;
for one common randomizer per round the bound holds by this argument.

1. LDP gives R(x)(y) >= max(R0, R1)(y)/E =: D(y) for every x, so every other message is with
   probability sum(D) a draw from D normalised. Telling which are not (the blank) can only help the
   adversary: (R0, R1, D, n) dominates.
2. The law of ``(R0 - alpha R1)/D`` under the decoys is a mixture of laws with two atoms and the
   rest at 0, one for each pair of likelihood ratios e^s, e^-t with 0 <= s, t <= eps0, all of mean
   1 - alpha.
3. For 1 <= alpha <= E each of them is below the one with s = t = eps0, randomized response, in
   convex order, and convex order is kept by sums of independent variables.
4. By the density lemma the hockey-stick divergence is the mean of a convex function of such a sum.
   alpha > E gives 0; alpha < 1 follows by exchanging the roles of X and X'.

*Interactive* (Feldman, McMillan and Talwar 2021, "Hiding among the clones", Theorem 3.2): the
randomizer may look at earlier messages of the same round; decoys (1/(2E), 1/(2E), 1 - 1/E).
"""

from __future__ import annotations

import math

from shuffle_accountant.losses.decoy_counts import NumberOfClones
from shuffle_accountant.losses.two_letters.binary import BinaryLoss
from shuffle_accountant.reductions.base import Reduction, TargetAmongDecoys


def clones(eps0: float, users: int, *, interactive: bool = False) -> Reduction:
    """Reduce a round of any eps0-LDP randomizer to binary randomized response among clones.

    Args:
        eps0: local privacy parameter, nats, finite, >= 0.
        users: messages in the round, >= 1.
        interactive: whether the randomizer may depend on earlier messages of the same round.
    """
    ratio = math.exp(-eps0)
    u, v = 1.0 / (1.0 + ratio), ratio / (1.0 + ratio)
    if interactive:
        rate, idle = ratio, -math.expm1(-eps0)
    else:
        rate, idle = 2.0 * v, math.tanh(0.5 * eps0)
    return Reduction(
        name="interactive clones" if interactive else "clones",
        decoys=TargetAmongDecoys(
            p0=(u, v, 0.0), p1=(v, u, 0.0), q=(0.5 * rate, 0.5 * rate, idle), n=users
        ),
        loss=BinaryLoss(NumberOfClones.from_eps0(eps0, decoys=users - 1, rate=rate, idle=idle)),
    )
