"""The privacy blanket through Hoeffding's inequality.

Balle, Bell, Gascón and Nissim 2019. With the loss variable of
`shuffle_accountant.baselines.privacy_blanket`, of range b and mean -a,

    delta(epsilon) = b^2 / (4 a gamma n) (1 - gamma (1 - e^(-2 a^2/b^2)))^n.

Upper bound, one round, replacement; for k-ary randomized response if ``categories`` is given, else
for any eps0-LDP randomizer.
"""

from __future__ import annotations

import math

from shuffle_accountant.baselines.one_round import OneRoundBound
from shuffle_accountant.baselines.privacy_blanket import BlanketBound, BlanketLoss
from shuffle_accountant.baselines.registry import BOUNDS
from shuffle_accountant.facades.calls import explain_calls

__all__ = ["delta", "epsilon", "name", "sound", "source", "valid"]

name = "blanket_hoeffding"
source = "Balle, Bell, Gascón and Nissim 2019, Hoeffding"
sound = True


def _log_delta(loss: BlanketLoss, users: int) -> float:
    decay = loss.gamma * -math.expm1(-2.0 * (loss.excess / loss.width) ** 2)
    log_scale = 2.0 * math.log(loss.width) - math.log(4.0 * users)
    log_scale -= math.log(loss.excess) + math.log(loss.gamma)
    return log_scale + users * math.log1p(-decay)


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
        rank=70,
    )
)

explain_calls(__name__)
