"""Mutual information ``I(K; Z)`` of the target's position and the shuffled messages."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.leakage.laws import two_laws
from shuffle_accountant.leakage.mutual_information.estimate import Estimate
from shuffle_accountant.leakage.mutual_information.exposure import Exposure
from shuffle_accountant.leakage.mutual_information.shuffled import shuffled_divergences
from shuffle_accountant.numerics.rounding import Array, roundings

__all__ = ["MOST_USERS", "given_laws", "position", "position_estimate"]

# Largest number of users: counts are exact in double precision up to it.
MOST_USERS = 2**53


def position(p: ArrayLike, q: ArrayLike, *, users: int) -> Bracket:
    """Certified ``I(K; Z)`` of one target among decoys, for any number of users.

    The target's message has law p, those of all others are i.i.d. from q, and K is the place of the
    target's message in their random order Z. For P << Q

        I(K; Z) = D(P‖Q) - Phi_n(P, Q),    Phi_n = D(law of Z ‖ Q^n),

    which rises to ``D(P‖Q)``. A letter that only the target sends gives its place away: with a
    their probability and P' the law P given any other letter,

        I(K; Z) = a log n + (1 - a) (D(P'‖Q) - Phi_n(P', Q)).

    Both are exact for every n; 'Mutual Information Bounds in the Shuffle Model', Theorems 2, 4 and
    7, has their expansions. `Phi_n` is an integral with a certified error, see
    `shuffle_accountant.leakage.mutual_information.shuffled`.

    Args:
        p: law of the target's message, shape (letters,), sums to one within 1e-9.
        q: law of every other message, same shape.
        users: number n of messages, the target's included, 1 <= n <= 2^53.

    Returns:
        Bracket in nats, in [0, log n]. Its width is about 1e-13 of ``Phi_n`` and 1e-15 of D.
    """
    target, decoys = given_laws(p, q)
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    estimate = position_estimate(target, decoys, users)
    return estimate.bracket("target among decoys", most=math.log(users))


def position_estimate(p: Array, q: Array, users: int) -> Estimate:
    """The estimate that `position` turns into a bracket, from checked masses; nats."""
    if users == 1:
        return Estimate(0.0)
    exposure = Exposure.of(p, q)
    share, rest = exposure.rest(p, q)
    hidden = Estimate(0.0, truncation=exposure.error(users, users))
    if rest is not None:
        (shuffled,) = shuffled_divergences([rest], users)
        divergence = rest.divergence
        if rest.inexact:
            divergence += Estimate(0.0, round_off=roundings(4) * (1.0 + divergence.value))
        hidden += (divergence - shuffled).times(share)
    exposed = math.fsum(p[exposure.exposed].tolist()) / math.fsum(p.tolist())
    return hidden + Estimate(math.log(users), round_off=2e-16 * math.log(users)).times(exposed)


def given_laws(p: ArrayLike, q: ArrayLike) -> tuple[Array, Array]:
    """Two checked laws, as close to what was given as floats are.

    A law that sums to one up to round-off is not divided by its sum: `Ratios` does so exactly.
    """
    two_laws(p, q)
    return np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
