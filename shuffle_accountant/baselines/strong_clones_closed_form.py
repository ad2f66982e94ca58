"""The closed form of "stronger privacy amplification by shuffling".

Feldman, McMillan and Talwar 2022, in closed form. With ``E = e^eps0`` and ``r = 1/(E + 1)``,

    epsilon = log(1 + (E - 1)/(E + 1) (sqrt(32 log(4/delta) / (r (n - 1))) + 4 / (r (n - 1)))).

The paper's erratum concerns its mixtures with a third component. For one randomizer common to all
users of the round the bound stands; see `shuffle_accountant.reductions.clones`. Upper bound, one
round, replacement.
"""

from __future__ import annotations

import math

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines.base import check_protocol, require
from shuffle_accountant.baselines.one_round import OneRoundBound
from shuffle_accountant.baselines.registry import BOUNDS
from shuffle_accountant.facades.calls import explain_calls

__all__ = ["epsilon", "name", "sound", "source", "valid"]

name = "strong_clones_closed_form"
source = "Feldman, McMillan and Talwar 2022, closed form"
sound = True


def valid(*, eps0: float, users: int, delta: float) -> str | None:
    """The condition of the theorem if it is not met, or None.

    Args:
        eps0: local privacy parameter, nats, finite, >= 0.
        users: messages in the round, >= 1.
        delta: in (0, 1).
    """
    eps0, users = check_protocol(eps0=eps0, users=users)
    delta = validate.open_unit(delta=delta)
    # in logarithms, because e^eps0 may overflow
    log_least = (
        math.log(8.0 * (math.log(4.0) - math.log(delta))) + eps0 + math.log1p(math.exp(-eps0))
    )
    if math.log(users) <= log_least:
        least = f"{math.exp(log_least):.4g}" if log_least < 700.0 else "1e304"
        return f"users > 8 (e^eps0 + 1) log(4/delta) = {least}, got {users}"
    return None


def epsilon(*, eps0: float, users: int, delta: float) -> float:
    """Epsilon (nats) of one round.

    Args:
        eps0: local privacy parameter, nats, finite, >= 0.
        users: messages in the round, >= 1.
        delta: in (0, 1).
    """
    require(name, valid(eps0=eps0, users=users, delta=delta))
    eps0, users = check_protocol(eps0=eps0, users=users)
    log_term = math.log(4.0) - math.log(validate.open_unit(delta=delta))
    clones = (users - 1.0) / (math.exp(eps0) + 1.0)
    deviation = math.sqrt(32.0 * log_term / clones) + 4.0 / clones
    return math.log1p(math.tanh(0.5 * eps0) * deviation)


BOUNDS.register(
    OneRoundBound(
        name=name,
        source=source,
        sound=sound,
        about="one round of one randomizer",
        valid=valid,
        epsilon=epsilon,
        rank=40,
    )
)

explain_calls(__name__)
