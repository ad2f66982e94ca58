"""The closed form of "hiding among the clones".

Feldman, McMillan and Talwar 2021, Theorem 3.1, in the form that its authors' code evaluates, which
is a little above that of the text. With ``E = e^eps0``,

    a = 8 sqrt(E log(4/delta) / n),   c = 8 E / n,
    epsilon = log(1 + (1 - 1/E) / (1 + 1/(E (1 + a + c))) (a + c)).

It also holds for sequences of randomizers that look at the messages before them. Upper bound, one
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

name = "clones_closed_form"
source = "Feldman, McMillan and Talwar 2021, Theorem 3.1"
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
    most = math.log(users / (16.0 * (math.log(4.0) - math.log(delta))))
    if eps0 > most:
        return f"eps0 <= log(users / (16 log(4/delta))) = {most:.4g}, got {eps0:g}"
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
    size = math.exp(eps0)
    deviation = 8.0 * math.sqrt(size * log_term / users) + 8.0 * size / users
    gap = -math.expm1(-eps0) / (1.0 + 1.0 / (size * (1.0 + deviation)))
    return math.log1p(gap * deviation)


BOUNDS.register(
    OneRoundBound(
        name=name,
        source=source,
        sound=sound,
        about="one round, interactive too",
        valid=valid,
        epsilon=epsilon,
        interactive=True,
        rank=50,
    )
)

explain_calls(__name__)
