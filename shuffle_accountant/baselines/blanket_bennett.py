"""The privacy blanket through Bennett's inequality.

Balle, Bell, Gascón and Nissim 2019. With the loss variable of
`shuffle_accountant.baselines.privacy_blanket`, of maximum b, second moment c and mean -a,

    delta(epsilon) = b / (gamma n log(1 + a b/c)) E[e^(-M (c/b^2) phi(a b/c)); M >= 1],

M ~ Bin(n, gamma) and ``phi(u) = (1 + u) log(1 + u) - u``; the expectation has a closed form.

Upper bound, one round, replacement; for k-ary randomized response if ``categories`` is given, else
for any eps0-LDP randomizer.
"""

from __future__ import annotations

import math

from shuffle_accountant.baselines.one_round import OneRoundBound
from shuffle_accountant.baselines.privacy_blanket import BlanketBound, BlanketLoss
from shuffle_accountant.baselines.registry import BOUNDS
from shuffle_accountant.facades.calls import explain_calls
from shuffle_accountant.numerics.binomial import log1p_minus

__all__ = ["delta", "epsilon", "name", "sound", "source", "valid"]

name = "blanket_bennett"
source = "Balle, Bell, Gascón and Nissim 2019, Bennett"
sound = True


def _log_delta(loss: BlanketLoss, users: int) -> float:
    reach = loss.excess / loss.spread
    if reach == 0.0:  # no double, and no bound at so small an epsilon
        return math.inf
    rate = loss.spread / loss.largest * _phi(reach)
    some = users * math.log1p(loss.gamma * math.expm1(-rate))
    log_scale = math.log(loss.largest) - math.log(loss.gamma) - math.log(users)
    log_scale -= math.log(math.log1p(reach))
    # the moment of M >= 1 is e^some - rest^n = e^some (1 - e^-gap)
    log_odds = math.log(loss.gamma / loss.rest) - rate
    gap = users * math.log1p(math.exp(log_odds)) if log_odds < 700.0 else math.inf
    log_share = math.log(-math.expm1(-gap)) if gap > 1e-290 else math.log(users) + log_odds
    return log_scale + some + log_share


def _phi(u: float) -> float:
    """``(1 + u) log(1 + u) - u`` without cancellation near 0."""
    return u * math.log1p(u) + float(log1p_minus(u))


_bound = BlanketBound(name, _log_delta)
valid, epsilon, delta = _bound.valid, _bound.epsilon, _bound.delta

BOUNDS.register(
    OneRoundBound(
        name=name,
        source=source,
        sound=sound,
        about="one round of one randomizer",
        valid=valid,
        epsilon=epsilon,
        delta=delta,
        response=True,
        rank=60,
    )
)

explain_calls(__name__)
