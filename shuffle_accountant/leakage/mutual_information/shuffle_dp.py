"""Upper bounds of ``I(K; Z | X)``, of the target's position and the output, all users randomized.

``I(K; Z | X)`` bounds ``I(K; Z)``, because K does not depend on the inputs X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.leakage.mutual_information.blanket_information import Signal
from shuffle_accountant.leakage.mutual_information.positions import MOST_USERS, position_estimate
from shuffle_accountant.leakage.mutual_information.signals import signals
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import FiniteRandomizer, LocalRandomizer

__all__ = ["PositionBounds", "position_bounds"]


@dataclass(frozen=True)
class PositionBounds:
    """Upper bounds of ``I(K; Z | X)`` for any inputs, nats.

    Attributes:
        entropy: ``log n``, the entropy of K.
        paper: ``2 eps0``: Z is ``2 eps0``-DP with respect to K. 'Mutual Information Bounds in the
            Shuffle Model', Theorem 11 and Corollary 2. Tight as a level of privacy, not here.
        refined: ``2 eps0 tanh(eps0)``: the largest divergence of a ``2 eps0``-DP pair.
        local: ``eps0``: the divergence of a message from the blanket.
        swap: ``(1 - 1/n) 2 eps0 tanh(eps0/2)``: exchanging the target's place with another one's
            changes two messages, each of divergence at most ``eps0 tanh(eps0/2)``.
        blanket: the largest over inputs of ``D(R_x‖B) - Phi_n(R_x, B)``, B the blanket and its
            blank; None unless the randomizer has finitely many inputs.
        alike: ``eps0 tanh(eps0/2)``: holds only if all others' messages have one law.
    """

    entropy: float
    paper: float
    refined: float
    local: float
    swap: float
    blanket: float | None
    alike: float

    @property
    def least(self) -> float:
        """The smallest of those that hold for any inputs."""
        always = [self.entropy, self.paper, self.refined, self.local, self.swap]
        return min(always if self.blanket is None else [*always, self.blanket])


def position_bounds(randomizer: LocalRandomizer, *, users: int) -> PositionBounds:
    """Every bound of the position leakage side by side; each is rounded up.

    Args:
        randomizer: any local randomizer that all users apply.
        users: number n of messages, the target's included, 1 <= n <= 2^53.

    Raises:
        ValueError: an interactive randomizer, for which the place of a message in the order decides
            which randomizer is applied.
    """
    randomizer = validate.instance(LocalRandomizer, randomizer=randomizer)  # type: ignore[type-abstract]
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    if randomizer.interactive:
        raise ValueError("randomizer must not be interactive, got interactive=True")
    eps0, up = randomizer.eps0, 1.0 + 1e-14
    alike = up * eps0 * math.tanh(0.5 * eps0)
    return PositionBounds(
        entropy=math.log(users) * up,
        paper=2.0 * eps0,
        refined=2.0 * up * eps0 * math.tanh(eps0),
        local=eps0 * up,
        swap=2.0 * alike * ((users - 1) / users) if users > 1 else 0.0,
        blanket=_blanket(randomizer, users),
        alike=alike,
    )


def _blanket(randomizer: LocalRandomizer, users: int) -> float | None:
    if not isinstance(randomizer, FiniteRandomizer) or not randomizer.representable:
        return None
    _, signal = signals(randomizer, None)
    decoys = signal.decoys(Bound.PESSIMISTIC)
    return max(_of_row(signal, row, decoys, users) for row in signal.rows)


def _of_row(signal: Signal, row: Array, decoys: Array, users: int) -> float:
    """``I(K; Z)`` is convex in the channel: what the row is off by counts log n."""
    estimate = position_estimate(np.append(row, 0.0), decoys, users)
    slack = 4.0 * signal.inexact * (1.0 + math.log(users))
    return min(estimate.bracket("blanket").upper + slack, math.log(users) * (1.0 + 1e-14))
