"""Closed-form brackets of the shuffled divergence and of the position leakage, for any n."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger, in_order
from shuffle_accountant.leakage.mutual_information.exposure import Exposure
from shuffle_accountant.leakage.mutual_information.positions import MOST_USERS, given_laws
from shuffle_accountant.leakage.mutual_information.ratios import Ratios
from shuffle_accountant.leakage.mutual_information.shuffled import shuffled_divergences
from shuffle_accountant.numerics.rounding import Array, lowered, raised, roundings

__all__ = ["closed_form", "shuffled_divergence"]


def shuffled_divergence(p: ArrayLike, q: ArrayLike, *, users: int) -> Bracket:
    """Certified ``Phi_n(P, Q)``: relative entropy of the shuffled messages to n decoys.

    Falls from ``D(P‖Q)`` at one user to ``chi^2(P‖Q) / 2n``, and is convex in p. Infinite unless P
    << Q. See `shuffle_accountant.leakage.mutual_information.shuffled` for the certificate.

    Args:
        p: law of the target's message, shape (letters,).
        q: law of every other message, same shape.
        users: number n of messages, the target's included, 1 <= n <= 2^53.

    Raises:
        ValueError: a message that decoys send with a probability below 1e-280 or 1e-150 of the
            target's.
    """
    target, decoys = given_laws(p, q)
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    if np.any((target > 0.0) & (decoys <= 0.0)):
        return Bracket(lower=math.inf, upper=math.inf, reduction="target among decoys")
    pair = _moderate(target, decoys)
    return shuffled_divergences([pair], users)[0].bracket("target among decoys")


def closed_form(p: ArrayLike, q: ArrayLike, *, users: int) -> Bracket:
    """``Phi_n(P, Q)`` between Taylor polynomials, for any n >= 1.

    With m_k = ``E_Q[(P/Q - 1)^k]`` (m_2 is the chi-squared divergence),

        max(m_2/2n - m_3/6n^2, n D((1 - 1/n) Q + P/n ‖ Q)) <= Phi_n
            <= min(log(1 + m_2/n), m_2/2n - m_3/6n^2 + m_2^2/n^2 + (m_4 - 3 m_2^2)/3n^3, D(P‖Q)).

    The fourth derivative of x log x is positive and falls, which bounds the polynomial's remainder
    from below by 0 and from above by a third of the fourth power; ``log(1 + m_2/n)`` is Jensen's
    inequality; the sum of the messages' own divergences is what independence leaves. Hence also
    ``D - log(1 + m_2/n) <= I(K; Z) <= D``.

    Args:
        p: law of the target's message, shape (letters,).
        q: law of every other message, same shape.
        users: number n of messages, 1 <= n <= 2^53.

    Raises:
        ValueError: a message that decoys send with a probability below 1e-280 or 1e-150 of the
            target's.
    """
    target, decoys = given_laws(p, q)
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    if np.any((target > 0.0) & (decoys <= 0.0)):
        return Bracket(lower=math.inf, upper=math.inf, reduction="closed form")
    pair = _moderate(target, decoys)
    divergence = pair.divergence
    lows, highs = [0.0, pair.least_divergence(users)], [divergence.value + divergence.error]
    m2 = pair.moment(2)
    highs.append(math.log1p(m2 / users))
    if pair.moment(4) < math.inf:
        m3, m4 = pair.moment(3), pair.moment(4)
        cubic = m2 / (2 * users) - m3 / 6 / users / users
        size = m2 / users + abs(m3) / users / users
        lows.append(cubic - roundings(64) * size)
        quartic = m2**2 / users / users + (m4 - 3 * m2**2) / 3 / users / users / users
        size += m2**2 / users / users + (m4 + m2**2) / users / users / users
        highs.append(cubic + quartic + roundings(64) * size)
    # moments are exact sums of terms good to a few roundings
    upper = raised(min(highs), roundings(64))
    lower, upper = in_order(lowered(max(lows), roundings(64)), upper)
    ledger = ErrorLedger(truncation=upper - lower)
    return Bracket(lower=lower, upper=upper, ledger=ledger, reduction="closed form")


def _moderate(p: Array, q: Array) -> Ratios:
    exposed = Exposure.of(p, q).exposed
    if exposed.any():
        worst = int(np.flatnonzero(exposed)[0])
        raise ValueError(
            f"q must be at least p/1e150 and 1e-280 where p > 0, got q={float(q[worst])!r} and "
            f"p={float(p[worst])!r} at letter {worst}"
        )
    return Ratios.of(p, q)
