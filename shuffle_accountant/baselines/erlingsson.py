"""The first amplification bound: ``epsilon = 12 eps0 sqrt(log(1/delta) / n)``.

Erlingsson, Feldman, Mironov, Raghunathan, Talwar and Thakurta 2019, "Amplification by shuffling:
from local to central differential privacy via anonymity". It also holds for sequences of
randomizers that look at the messages before them. Upper bound, one round, replacement.
"""

from __future__ import annotations

import math

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines.base import check_protocol, require
from shuffle_accountant.baselines.one_round import OneRoundBound
from shuffle_accountant.baselines.registry import BOUNDS
from shuffle_accountant.facades.calls import explain_calls

__all__ = ["LEAST_USERS", "MOST_DELTA", "MOST_EPS0", "epsilon", "name", "sound", "source", "valid"]

name = "erlingsson"
source = "Erlingsson et al. 2019"
sound = True

MOST_EPS0 = 0.5
LEAST_USERS = 1000
MOST_DELTA = 0.01


def valid(*, eps0: float, users: int, delta: float) -> str | None:
    """The first condition of the theorem that is not met, or None.

    Args:
        eps0: local privacy parameter, nats, finite, >= 0.
        users: messages in the round, >= 1.
        delta: in (0, 1).
    """
    eps0, users = check_protocol(eps0=eps0, users=users)
    delta = validate.open_unit(delta=delta)
    if eps0 > MOST_EPS0:
        return f"eps0 <= {MOST_EPS0:g}, got {eps0:g}"
    if users < LEAST_USERS:
        return f"users >= {LEAST_USERS}, got {users}"
    if delta >= MOST_DELTA:
        return f"delta < {MOST_DELTA:g}, got {delta:g}"
    return None


def epsilon(*, eps0: float, users: int, delta: float) -> float:
    """Epsilon (nats) of one round.

    Args:
        eps0: local privacy parameter, nats, in [0, 1/2].
        users: messages in the round, >= 1000.
        delta: in (0, 1/100).
    """
    require(name, valid(eps0=eps0, users=users, delta=delta))
    eps0, users = check_protocol(eps0=eps0, users=users)
    return 12.0 * eps0 * math.sqrt(-math.log(validate.open_unit(delta=delta)) / users)


BOUNDS.register(
    OneRoundBound(
        name=name,
        source=source,
        sound=sound,
        about="one round, interactive too",
        valid=valid,
        epsilon=epsilon,
        interactive=True,
        rank=80,
    )
)

explain_calls(__name__)
