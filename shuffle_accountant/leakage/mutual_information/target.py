"""Mutual information on the position and on the message of a target among decoys.

Certified for any number of users, and in powers of 1/n; and the decoys that hide a message best.
Upper bounds for users with different message distributions, by what the others' share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger, in_order
from shuffle_accountant.leakage.arguments import MOST_USERS, law, two_laws
from shuffle_accountant.leakage.mutual_information.shuffled import (
    HUGE_RATIO,
    Estimate,
    Exposure,
    Ratios,
    entropy,
    information,
    shuffled_divergences,
)
from shuffle_accountant.numerics.rounding import ELEMENTARY, Array, lowered, raised, roundings

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


def _given(p: ArrayLike, q: ArrayLike, users: int = 1) -> tuple[Array, Array, int]:
    """Two distributions and the number of users, checked; `Ratios` divides by sums exactly."""
    two_laws(p, q)
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    return np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64), users


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

    The fourth derivative of x log x is positive and falls, so the polynomial's remainder is between
    0 and a third of the fourth power; ``log(1 + m_2/n)`` is Jensen's inequality; the sum of the
    messages' own divergences is what independence leaves. Hence also ``D - log(1 + m_2/n) <= I(K;
    Z) <= D``.
    """
    pair, users = _absolutely_continuous(p, q, users)
    if pair is None:
        return Bracket(lower=math.inf, upper=math.inf, reduction="closed form")
    divergence, m2, m3, m4 = pair.divergence, *(pair.moment(order) for order in (2, 3, 4))
    lows = [0.0, pair.least_divergence(users)]
    highs = [divergence.value + divergence.error, math.log1p(m2 / users)]
    if m4 < math.inf:
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
    kept = spread > 0.0
    with np.errstate(divide="ignore", over="ignore"):  # beyond a double it is infinite
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
        deviation = self.deviation(users=users)
        return self.limit + self.exposed * math.log(users) + deviation


def position_expansion(p: ArrayLike, q: ArrayLike) -> Expansion:
    """Expansion of ``I(K; Z)``: ``D - chi^2/2n - (chi^2^2/4 - m_3/6)/n^2``.

    'Mutual Information Bounds in the Shuffle Model', Theorems 4 and 7, with one more term; m_3 is
    ``E_Q[(P/Q - 1)^3]``. The remainder is ``O(n^-3)``.
    """
    exposure = Exposure(*_given(p, q)[:2])
    rest = exposure.rest
    if rest is None:
        return Expansion(0.0, exposure.chance, 0.0, 0.0)
    limit, (first, second) = rest.divergence.value, _shuffled(rest)
    share = exposure.share
    return Expansion(share * limit, exposure.chance, -share * first, -share * second)


def message_expansion(p: ArrayLike, q: ArrayLike) -> Expansion:
    """Expansion of ``I(Y1; Z)``, whose first term is ``sum_y P(1 - P)/Q / 2n``.

    'Mutual Information Bounds in the Shuffle Model', Theorems 3, 5 and 8, with one more term,
    ``(sum_y P(1 - Q^2)/Q^2 / 12 - chi^2^2/4 + m_3/6) / n^2``. The remainder is ``O(n^-3)``.
    """
    exposure = Exposure(*_given(p, q)[:2])
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


@dataclass(frozen=True)
class HeterogeneousPosition:
    """Upper bounds of ``I(K; Z)`` for independent users with distributions of their own, nats.

    Attributes:
        entropy: ``log n``.
        blanket: the position leakage among n - 1 decoys that send what all others' distributions
            share.
        swap: ``(1/n) sum_l (D(P_1‖P_l) + D(P_l‖P_1))`` over all others: divergences are convex and
            an exchange of two places changes two messages.
        paper: ``2 eps``, e^eps the largest ratio of any two users' probabilities of one message:
            'Mutual Information Bounds in the Shuffle Model', Theorem 12.
    """

    entropy: float
    blanket: Bracket
    swap: float
    paper: float

    @property
    def least(self) -> float:
        """The smallest of them."""
        return min(self.entropy, self.blanket.upper, self.swap, self.paper)


def heterogeneous_message(
    laws: Sequence[ArrayLike] | Array, *, among: Sequence[int] | None = None
) -> Bracket:
    """Upper bound of ``I(Y1; Z)`` for independent users, user 0 the target; itself as a bracket.

    The others' messages are draws from ``mu(y) = min_l P_l(y)`` or else blank: Theorems 9 and 10 of
    'Mutual Information Bounds in the Shuffle Model'. Users who are unlike the rest shrink mu. They
    may be left out: whoever knows their distributions can add their messages again.

    Args:
        among: which other users hide the target, none twice; by default all.
    """
    table = _table(laws)
    chosen = _others(among, len(table))
    return message_bracket(*_shared(table, chosen), len(chosen) + 1, "blanket")


def heterogeneous_position(laws: Sequence[ArrayLike] | Array) -> HeterogeneousPosition:
    """Upper bounds of ``I(K; Z)`` for independent users, user 0 the target.

    Here nobody may be left out: without some messages K has fewer values.
    """
    table = _table(laws)
    others = _others(None, len(table))
    swaps = [_symmetric(table[0], table[i]) for i in others]
    error = roundings(2 * ELEMENTARY)
    return HeterogeneousPosition(
        entropy=raised(math.log(len(table)), error),
        blanket=position_bracket(*_shared(table, others), len(table), "blanket"),
        swap=raised(math.fsum(swaps) / len(table), error),
        paper=raised(2.0 * _largest_ratio(table), error),
    )


def _table(laws: Sequence[ArrayLike] | Array) -> Array:
    checked = [law(laws=one) for one in validate.items(laws=laws)]
    if not checked:
        raise ValueError("laws must have one law per user, got none")
    first = checked[0].size
    for one in checked:
        if one.size != first:
            raise ValueError(
                f"laws must be over the same letters, got {first} and {one.size} letters"
            )
    return np.stack(checked)


def _others(among: Sequence[int] | None, users: int) -> list[int]:
    if among is None:
        return list(range(1, users))
    chosen = [
        validate.integer(minimum=1, maximum=users - 1, among=user)
        for user in validate.items(among=among)
    ]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"among must name each user once, got {validate.shown(chosen)}")
    return chosen


def _shared(table: Array, others: list[int]) -> tuple[Array, Array]:
    """The target's law and the decoys', the blank last; what they share is rounded down."""
    target = np.append(table[0], 0.0)
    if not others:
        return target, np.append(np.zeros(table.shape[1]), 1.0)
    shared = table[others].min(axis=0)
    if not np.array_equal(table[others].max(axis=0), shared):  # a smaller blanket hides less
        shared = lowered(shared, roundings(8))
    return target, np.append(shared, max(1.0 - math.fsum(shared.tolist()), 0.0))


def _symmetric(one: Array, other: Array) -> float:
    """``D(P‖Q) + D(Q‖P)``, rounded up."""
    total = 0.0
    for p, q in ((one, other), (other, one)):
        if np.any((p > 0.0) & (q < p / HUGE_RATIO)):
            return math.inf
        divergence = Ratios.of(p, q).divergence
        total += divergence.value + divergence.error
    return total


def _largest_ratio(table: Array) -> float:
    """Largest log-ratio of two users' probabilities of one message."""
    high, low = table.max(axis=0), table.min(axis=0)
    if np.any((high > 0.0) & (low == 0.0)):
        return math.inf
    sent = high > 0.0
    return float(np.max(np.log(high[sent]) - np.log(low[sent])))
