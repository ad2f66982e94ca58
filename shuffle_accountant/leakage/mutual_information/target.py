"""Mutual information on the position and on the message of a target among decoys.

Certified for any number of users, and in powers of 1/n; and the decoys that hide a message best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger, in_order
from shuffle_accountant.leakage.arguments import MOST_USERS, law, two_laws
from shuffle_accountant.leakage.mutual_information.ratios import (
    Estimate,
    Exposure,
    Ratios,
    entropy,
)
from shuffle_accountant.leakage.mutual_information.shuffled import (
    information,
    shuffled_divergences,
)
from shuffle_accountant.numerics.rounding import Array, lowered, raised, roundings

_NAME = "target among decoys"


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
    return position_bracket(*_given(p, q, users), _NAME)


def position_bracket(p: Array, q: Array, users: int, reduction: str) -> Bracket:
    """What `position` returns, from checked masses."""
    if users == 1:
        return Bracket(lower=0.0, upper=0.0, reduction=reduction)
    exposure = Exposure(p, q)
    hidden = Estimate(0.0, truncation=exposure.error(users, users))
    rest = exposure.rest
    if rest is not None:
        (shuffled,) = shuffled_divergences([rest], users)
        divergence = rest.divergence
        if rest.inexact:
            divergence += Estimate(0.0, round_off=roundings(4) * (1.0 + divergence.value))
        hidden += (divergence - shuffled).times(exposure.share)
    most = math.log(users)
    hidden += Estimate(most, round_off=2e-16 * most).times(exposure.chance)
    return hidden.bracket(reduction, most=most)


def given_laws(p: ArrayLike, q: ArrayLike) -> tuple[Array, Array]:
    """Two checked distributions, as close to what was given as floats are.

    A distribution that sums to one up to round-off is not divided by its sum: `Ratios` does so
    exactly.
    """
    two_laws(p, q)
    return np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)


def _given(p: ArrayLike, q: ArrayLike, users: int) -> tuple[Array, Array, int]:
    laws = given_laws(p, q)
    return *laws, validate.integer(minimum=1, maximum=MOST_USERS, users=users)


def message(p: ArrayLike, q: ArrayLike, *, users: int) -> Bracket:
    """Certified ``I(Y1; Z)`` of one target among decoys, for any number of users.

    The target's message Y1 has distribution p, the others and Z are as in `position`. For P << Q

        I(Y1; Z) = sum_y P(y) Phi_n(delta_y, Q) - Phi_n(P, Q),

    without the cancellation of the textbook form ``I(K; Z) + H(P) - log n + E[log N_Y1]``. Messages
    that only the target sends, of probability a, are seen: with P' the distribution P given any
    other one,

        I(Y1; Z) = h(a) + a H(P | exposed) + (1 - a) (the same for P').

    Exact for every n; 'Mutual Information Bounds in the Shuffle Model', Theorems 3, 5 and 8, has
    the expansions.

    Returns:
        Bracket in nats, in [0, H(P)]. Its width is about 1e-13 of the two terms.
    """
    return message_bracket(*_given(p, q, users), _NAME)


def message_bracket(p: Array, q: Array, users: int, reduction: str) -> Bracket:
    """What `message` returns, from checked masses."""
    most = raised(entropy(p), roundings(16))
    exposure = Exposure(p, q)
    seen, rest = (entropy(p), None) if users == 1 else (exposure.seen, exposure.rest)
    estimate = Estimate(
        seen,
        truncation=exposure.error(users, p.size),
        round_off=roundings(16) * seen if exposure.exposed.any() or users == 1 else 0.0,
    )
    if rest is None:
        return estimate.bracket(reduction, most=most)
    heard = (p > 0.0) & ~exposure.exposed
    # messages of one q are one row
    chances, index = np.unique(q[heard], return_inverse=True)
    weights = np.asarray(np.bincount(index.ravel(), p[heard], chances.size), dtype=np.float64)
    weights /= math.fsum(weights.tolist())
    over = math.fsum([*q.tolist(), -1.0])
    rows = [_one_letter(chance, math.fsum([1.0, -chance, over])) for chance in chances.tolist()]
    estimate += information(weights.tolist(), rows, rest, users).times(exposure.share)
    return estimate.bracket(reduction, most=most)


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
    pair, users = _absolutely_continuous(p, q, users)
    if pair is None:
        return Bracket(lower=math.inf, upper=math.inf, reduction=_NAME)
    return shuffled_divergences([pair], users)[0].bracket(_NAME)


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
    pair, users = _absolutely_continuous(p, q, users)
    if pair is None:
        return Bracket(lower=math.inf, upper=math.inf, reduction="closed form")
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


def _absolutely_continuous(p: ArrayLike, q: ArrayLike, users: int) -> tuple[Ratios | None, int]:
    """The ratios, None unless P << Q, and the checked number of users."""
    target, decoys, users = _given(p, q, users)
    if np.any((target > 0.0) & (decoys <= 0.0)):
        return None, users
    exposed = Exposure(target, decoys).exposed
    if exposed.any():
        worst = int(np.argmax(exposed))
        raise ValueError(
            "q must be at least p/1e150 and 1e-280 where p > 0, got "
            f"q={float(decoys[worst])!r} and p={float(target[worst])!r} at letter {worst}"
        )
    return Ratios.of(target, decoys), users


def optimal_decoy(p: ArrayLike) -> Array:
    """The distribution of decoys that, for many users, reveals least about the target's message.

    It is proportional to ``sqrt(p (1 - p))``, neither to p nor to ``sqrt(p)``: that minimises the
    `leading_constant`, to ``(sum_y sqrt(P(1 - P)))^2 / 2`` (Cauchy and Schwarz). For two messages
    it is uniform. A message that is always the same has nothing to hide, and its decoys are copies.

    'Mutual Information Bounds in the Shuffle Model', Theorem 6 and Corollary 1.
    """
    target = law(p=p)
    others = math.fsum(target.tolist()) - target
    spread = np.sqrt(target * np.maximum(others, 0.0))
    total = math.fsum(spread.tolist())
    return target if total == 0.0 else np.asarray(spread / total)


def leading_constant(p: ArrayLike, q: ArrayLike | None = None) -> float:
    """The limit of ``n I(Y1; Z)``: ``sum_y P(1 - P)/Q / 2``, nats; infinite unless P << Q.

    Args:
        q: distribution of every other message, same shape; by default the optimal one.
    """
    target, decoys = two_laws(p, optimal_decoy(p) if q is None else q)
    spread = target * (1.0 - target)
    if np.any((spread > 0.0) & (decoys <= 0.0)):
        return math.inf
    kept = spread > 0.0
    with np.errstate(over="ignore"):  # beyond a double it is infinite
        return 0.5 * float(np.sum(spread[kept] / decoys[kept]))


@dataclass(frozen=True)
class Expansion:
    """``limit + exposed log n + first/n + second/n^2 + O(n^-3)``, not certified.

    Good only where n times the least probability of a decoy's message, and n over the chi-squared
    divergence, are large. Nothing is rounded in a direction.

    Attributes:
        limit: nats, as n grows (beside the logarithm).
        exposed: factor of ``log n``: probability of messages that only the target sends.
        first: coefficient of 1/n.
        second: coefficient of 1/n^2; infinite where ratios above 1e100 leave no double.
    """

    limit: float
    exposed: float
    first: float
    second: float

    def deviation(self, *, users: int) -> float:
        """``first/n + second/n^2``: distance from the limit, with relative accuracy."""
        n = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
        return (self.first + self.second / n) / n

    def at(self, *, users: int) -> float:
        """The expansion's value for n users, nats."""
        n = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
        return self.limit + self.exposed * math.log(n) + self.deviation(users=n)


def position_expansion(p: ArrayLike, q: ArrayLike) -> Expansion:
    """Expansion of ``I(K; Z)``: ``D - chi^2/2n - (chi^2^2/4 - m_3/6)/n^2``.

    'Mutual Information Bounds in the Shuffle Model', Theorems 4 and 7, with one more term; m_3 is
    ``E_Q[(P/Q - 1)^3]``. The remainder is ``O(n^-3)``.
    """
    exposure = Exposure(*given_laws(p, q))
    rest = exposure.rest
    if rest is None:
        return Expansion(0.0, exposure.chance, 0.0, 0.0)
    share, (first, second) = exposure.share, _shuffled(rest)
    return Expansion(
        share * rest.divergence.value, exposure.chance, -share * first, -share * second
    )


def message_expansion(p: ArrayLike, q: ArrayLike) -> Expansion:
    """Expansion of ``I(Y1; Z)``, whose first term is ``sum_y P(1 - P)/Q / 2n``.

    'Mutual Information Bounds in the Shuffle Model', Theorems 3, 5 and 8, with one more term,

        (sum_y P(1 - Q^2)/Q^2 / 12 - chi^2^2/4 + m_3/6) / n^2,

    so the remainder is ``O(n^-3)``.
    """
    exposure = Exposure(*given_laws(p, q))
    limit = exposure.seen if exposure.exposed.any() else 0.0
    rest = exposure.rest
    if rest is None:
        return Expansion(limit, 0.0, 0.0, 0.0)
    heard = rest.p > 0.0
    p_heard, q_heard = rest.p[heard], rest.q[heard]
    first = 0.5 * math.fsum((p_heard * (1.0 - p_heard) / q_heard).tolist())
    second = math.inf
    if rest.moment(3) < math.inf:  # then no ratio is above 1e100
        shape = np.minimum(p_heard / q_heard * (1.0 - q_heard**2), 1e100)
        letters = math.fsum((shape / np.maximum(q_heard, 1e-200)).tolist()) / 12.0
        second = letters - _shuffled(rest)[1]
    return Expansion(limit, 0.0, exposure.share * first, exposure.share * second)


def _shuffled(pair: Ratios) -> tuple[float, float]:
    """Coefficients of 1/n and 1/n^2 in ``Phi_n``."""
    chi2, third = pair.moment(2), pair.moment(3)
    if third == math.inf:
        return 0.5 * chi2, math.inf
    return 0.5 * chi2, 0.25 * chi2 * chi2 - third / 6.0
