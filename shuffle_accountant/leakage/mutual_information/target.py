"""Mutual information on the position and on the message of a target among decoys."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger, in_order
from shuffle_accountant.leakage.arguments import MOST_USERS, two_laws
from shuffle_accountant.leakage.mutual_information.blanket_information import information
from shuffle_accountant.leakage.mutual_information.estimate import Estimate
from shuffle_accountant.leakage.mutual_information.ratios import Exposure, Ratios, entropy
from shuffle_accountant.leakage.mutual_information.shuffled import shuffled_divergences
from shuffle_accountant.numerics.rounding import Array, lowered, raised, roundings


def position(p: ArrayLike, q: ArrayLike, *, users: int) -> Bracket:
    """Certified ``I(K; Z)`` of one target among decoys, for any number of users.

    The target's message has distribution p, those of all others are i.i.d. from q, and K is the
    place of the target's message in their random order Z. For P << Q

        I(K; Z) = D(P‖Q) - Phi_n(P, Q),    Phi_n = D(Z ‖ Q^n),

    which rises to ``D(P‖Q)``. A message that only the target sends gives its place away: with a
    their probability and P' the distribution P given any other message,

        I(K; Z) = a log n + (1 - a) (D(P'‖Q) - Phi_n(P', Q)).

    Both are exact for every n; 'Mutual Information Bounds in the Shuffle Model', Theorems 2, 4 and
    7, has their expansions. `Phi_n` is an integral with a certified error, see
    `shuffle_accountant.leakage.mutual_information.shuffled`.

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
    """Two checked distributions, as close to what was given as floats are.

    A distribution that sums to one up to round-off is not divided by its sum: `Ratios` does so
    exactly.
    """
    two_laws(p, q)
    return np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)


def message(p: ArrayLike, q: ArrayLike, *, users: int) -> Bracket:
    """Certified ``I(Y1; Z)`` of one target among decoys, for any number of users.

    The target's message Y1 has distribution p, those of all others are i.i.d. from q, Z is all of
    them in random order. For P << Q

        I(Y1; Z) = sum_y P(y) Phi_n(delta_y, Q) - Phi_n(P, Q),    Phi_n(P, Q) = D(Z ‖ Q^n),

    without the cancellation of the textbook form ``I(K; Z) + H(P) - log n + E[log N_Y1]``. Messages
    that only the target sends, of probability a, are seen: with P' the distribution P given any
    other one,

        I(Y1; Z) = h(a) + a H(P | exposed) + (1 - a) (the same for P').

    Exact for every n; 'Mutual Information Bounds in the Shuffle Model', Theorems 3, 5 and 8, has
    the expansions.

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
    # messages of one q are one row
    chances, index = np.unique(q[heard], return_inverse=True)
    weights = np.asarray(np.bincount(index.ravel(), p[heard], chances.size), dtype=np.float64)
    weights /= math.fsum(weights.tolist())
    over = math.fsum([*q.tolist(), -1.0])
    rows = [_one_letter(chance, math.fsum([1.0, -chance, over])) for chance in chances.tolist()]
    return estimate + information(weights.tolist(), rows, rest, users).times(share)


def _one_letter(chance: float, others: float) -> Ratios:
    """A target that always sends one message: ratio ``1/q`` there, else 0."""
    if others <= 0.0:
        return Ratios.of(np.ones(1), np.ones(1))
    return Ratios.of(np.array([1.0, 0.0]), np.array([chance, others]))


def shuffled_divergence(p: ArrayLike, q: ArrayLike, *, users: int) -> Bracket:
    """Certified ``Phi_n(P, Q)``: relative entropy of the shuffled messages to n decoys.

    Falls from ``D(P‖Q)`` at one user to ``chi^2(P‖Q) / 2n``, and is convex in p. Infinite unless P
    << Q. See `shuffle_accountant.leakage.mutual_information.shuffled` for the certificate.
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
