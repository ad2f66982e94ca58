"""Mutual information ``I(Y1; Z)`` of the target's message and the shuffled messages."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.leakage.mutual_information.blanket_information import information
from shuffle_accountant.leakage.mutual_information.estimate import Estimate
from shuffle_accountant.leakage.mutual_information.exposure import Exposure, entropy
from shuffle_accountant.leakage.mutual_information.positions import MOST_USERS, given_laws
from shuffle_accountant.leakage.mutual_information.ratios import Ratios
from shuffle_accountant.numerics.rounding import Array, raised, roundings

__all__ = ["message", "message_estimate"]


def message(p: ArrayLike, q: ArrayLike, *, users: int) -> Bracket:
    """Certified ``I(Y1; Z)`` of one target among decoys, for any number of users.

    The target's message Y1 has law p, those of all others are i.i.d. from q, Z is all of them in
    random order. For P << Q

        I(Y1; Z) = sum_y P(y) Phi_n(delta_y, Q) - Phi_n(P, Q),    Phi_n(P, Q) = D(law of Z ‖ Q^n),

    without the cancellation of the textbook form ``I(K; Z) + H(P) - log n + E[log N_Y1]``. Letters
    that only the target sends, of probability a, are seen: with P' the law P given any other one,

        I(Y1; Z) = h(a) + a H(P | exposed) + (1 - a) (the same for P').

    Exact for every n; 'Mutual Information Bounds in the Shuffle Model', Theorems 3, 5 and 8, has
    the expansions.

    Args:
        p: law of the target's message, shape (letters,), sums to one within 1e-9.
        q: law of every other message, same shape.
        users: number n of messages, the target's included, 1 <= n <= 2^53.

    Returns:
        Bracket in nats, in [0, H(P)]. Its width is about 1e-13 of the two terms.
    """
    target, decoys = given_laws(p, q)
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    sent = raised(entropy(target), roundings(16))
    return message_estimate(target, decoys, users).bracket("target among decoys", most=sent)


def message_estimate(p: Array, q: Array, users: int) -> Estimate:
    """The estimate that `message` turns into a bracket, from checked masses; nats."""
    exposure = Exposure.of(p, q)
    share, rest = exposure.rest(p, q)
    total = math.fsum(p.tolist())
    told = entropy(np.append(p[exposure.exposed] / total, share))
    if users == 1:
        told, rest = entropy(p), None
    estimate = Estimate(
        told,
        truncation=exposure.error(users, p.size),
        round_off=roundings(16) * told if exposure.exposed.any() or users == 1 else 0.0,
    )
    if rest is None:
        return estimate
    heard = (p > 0.0) & ~exposure.exposed
    # letters of one q are one row
    chances, index = np.unique(q[heard], return_inverse=True)
    weights = np.asarray(np.bincount(index.ravel(), p[heard], chances.size), dtype=np.float64)
    weights /= math.fsum(weights.tolist())
    over = math.fsum([*q.tolist(), -1.0])
    rows = [_one_letter(chance, math.fsum([1.0, -chance, over])) for chance in chances.tolist()]
    return estimate + information(weights.tolist(), rows, rest, users).times(share)


def _one_letter(chance: float, others: float) -> Ratios:
    """A target that always sends one letter: ratio ``1/q`` there, else 0."""
    if others <= 0.0:
        return Ratios.of(np.ones(1), np.ones(1))
    return Ratios.of(np.array([1.0, 0.0]), np.array([chance, others]))
