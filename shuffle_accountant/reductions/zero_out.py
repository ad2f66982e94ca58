"""Messages close to a null law: null draws of others hide the target's.

Every randomizer's law is (eps0, delta0)-close, both ways, to one null law w. Then each other
message is within total variation ``eta = e^-eps0 delta0`` of ``p w + (1 - p) r``, ``p = e^-eps0``:
all others are replaced, and who is not a draw of w is revealed. The pair (R(x), w) is dominated by

    P = (delta0, (1 - delta0) E/(1 + E), (1 - delta0)/(1 + E), 0),  Q = P backwards,  E = e^eps0

(Kairouz, Oh and Viswanath 2015), and the kernel that takes Q to w and P to R(x) takes a whole bag
of P, or Q, among draws of Q to what is left to be seen. Hence for both orders and alpha >= 0

    H_alpha <= E_K[H_alpha(P or Q among K - 1 draws of Q)] + (1 + alpha) (n - 1) eta,

``K = 1 + Bin(n - 1, e^-eps0)``. No theorem about clones is needed. Adjacency: zero-out. Bound: an
upper bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from shuffle_accountant.losses.base import PrivacyLoss
from shuffle_accountant.losses.combined.revealed import DilutedLoss
from shuffle_accountant.losses.two_letters.zero_out import LARGEST_EPS0, ZeroOutLoss, among_draws
from shuffle_accountant.reductions.clones import clones


@dataclass(frozen=True)
class NullLawPair:
    """The dominating pair whose profile is the bound, or the envelope of the bounds."""

    name: ClassVar[str] = "null law"
    two_sided: ClassVar[bool] = True

    loss: PrivacyLoss


def null_law(eps0: float, delta0: float, users: int) -> NullLawPair:
    """The dominating pair for a round of messages that are close to a null law.

    Args:
        eps0: how close, nats, >= 0; at most `LARGEST_EPS0` unless ``delta0`` is 0.
        delta0: up to what, in [0, 1).
        users: messages, >= 1.
    """
    if delta0 > 0.0 and eps0 == 0.0:
        # the target alone: it is given away with probability delta0, and else hides nothing
        return NullLawPair(DilutedLoss(clones(math.inf, 1).loss, delta0, 1.0 - delta0))
    if delta0 > 0.0:
        return NullLawPair(ZeroOutLoss(eps0, delta0, users))
    if eps0 == 0.0 or eps0 > LARGEST_EPS0:  # nothing to hide, or nobody to hide among
        return NullLawPair(clones(eps0, 1).loss)
    return NullLawPair(among_draws(eps0, 0.0, users))
