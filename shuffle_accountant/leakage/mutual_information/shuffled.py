"""Divergence ``Phi_n(P, Q)`` of n shuffled messages, one of them from P: certified for any n.

``Phi_n = D(law of the shuffled messages ‖ Q^n) = E[X log X]``, X the mean of n i.i.d. likelihood
ratios (see `shuffle_accountant.reductions.base`). It falls from ``D(P‖Q)`` at n = 1 to about
``chi^2 / 2n``, and every mutual information of this package is a difference of such numbers.

As ``x log x = int_0^inf (x e^-t - x e^-tx) dt/t``, it is an integral over v = log s, a real number,
here by the trapezoidal rule, of the function

    F = e^(-s) - G,    G = phi_Q(u)^(n-1) phi_P(u),    u = s/n,

with ``phi_Q(u) = E_Q e^(-u w)`` and ``phi_P`` alike, w = P/Q. Its errors are bounded as follows.

*Discretisation.* In the strip |Im v| < a < pi/2 F is analytic and goes to 0 at both ends. With E~
the expectation under the shuffled distribution (of density X), ``F = E~[e^-s - e^-sX]``. On the ray
of angle b, ``|e^-s - e^-sx| <= |int_1^x |s| e^(-|s| t cos b) dt|``, whose integral over v is ``|log
x| / cos b``. So that of |F| is at most ``M = E~|log X| / cos a``, and ``E~|log X| = E[X |log X|] <=
Phi_n + 2/e``. By Trefethen and Weideman (2014, Theorem 5.1) the rule is off by at most ``2 M /
(e^(2 pi a/h) - 1)``; the spacing h makes that smaller than rounding.

*Truncation, left.* For s <= 1, ``x e^-sx`` is below its tangent at 1, so F >= 0; by Jensen's
inequality ``F <= e^-s - e^(-s(1 + chi^2/n)) <= s chi^2/n``. The nodes left out before s_0 sum to
``s_0 chi^2/n`` at most.

*Truncation, right.* Both terms of F decrease in v, so the rest of the sum is at most the integral:
``E_1(s) + phi_Q(u)^(n-1) sum_y P(y) E_1(u w(y))``, with ``phi_Q <= e^(phi_Q - 1)`` and ``E_1(x) <=
e^-x log(1 + 1/x)``.

*Round-off.* Where w is near 1 both terms of F are near e^(-s), so their ratio is computed instead.
With c = w - 1,

    A = E_Q[e^(-uc) - 1 + uc],    C = E_Q[c (1 - e^(-uc))]

are sums of terms >= 0 (the mean of c is 0, exactly), ``e^u phi_Q = 1 + A``, ``e^u phi_P = 1 + A -
C``, and ``F = -e^(-s) expm1((n-1) log1p(A) + log1p(A - C))``: the error is relative to C and to
``(n-1) A``, which are as small as F. Where s is large, e^(-s) is nothing, and log G is computed
from ``1 - phi_Q``, a sum of terms >= 0 too: its error is relative to log G.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.bracket import Bracket, ErrorLedger
from shuffle_accountant.numerics.rounding import (
    BELOW_ONE,
    ELEMENTARY,
    Array,
    raised,
    roundings,
    sequential_sum,
)

# Likelihood ratio above which a message counts as one that decoys never send, at any number of
# users that doubles can count (up to an error of 1e-130, see `Exposure`).
HUGE_RATIO = 1e150

# So does a message of a smaller probability among decoys; products of other ratios are doubles.
TINY = 1e-280

# Below this |t| the divergence's integrand is a series.
_SERIES_BELOW = 0.25


@dataclass(frozen=True)
class Estimate:
    """The exact number is ``value`` up to the sum of the three errors.

    Attributes:
        value: nats.
        discretisation: bound of what a quadrature or cells of messages move it by.
        truncation: bound of what was not followed.
        round_off: bound of what floating-point arithmetic moves it by.
    """

    value: float
    discretisation: float = 0.0
    truncation: float = 0.0
    round_off: float = 0.0

    @property
    def error(self) -> float:
        """Bound of the distance of the exact number from ``value``."""
        return self.discretisation + self.truncation + self.round_off

    def __add__(self, other: Estimate) -> Estimate:
        value = self.value + other.value
        return Estimate(
            value,
            self.discretisation + other.discretisation,
            self.truncation + other.truncation,
            self.round_off + other.round_off + roundings(1) * abs(value),
        )

    def __sub__(self, other: Estimate) -> Estimate:
        return self + other.times(-1.0)

    def times(self, factor: float) -> Estimate:
        """The product with a factor that is itself off by 4 units in its last place at most."""
        value, size = self.value * factor, raised(abs(factor), roundings(5))
        return Estimate(
            value,
            self.discretisation * size,
            self.truncation * size,
            self.round_off * size + roundings(6) * abs(value),
        )

    def end(self, sign: float) -> float:
        """A number that the exact one is not above (for sign 1.0) or not below (-1.0)."""
        error = raised(self.error, roundings(8)) + roundings(1) * abs(self.value)
        if error == 0.0:
            return self.value
        return math.nextafter(self.value + sign * error, sign * math.inf)

    def bracket(self, reduction: str, *, most: float = math.inf) -> Bracket:
        """The bracket of a number that is known to be in [0, ``most``]."""
        return between(self, self, reduction, most)


def between(lower: Estimate, upper: Estimate, reduction: str, most: float) -> Bracket:
    """The bracket of a number between two, and in [0, ``most``], which is off by rounding alone."""
    ledger = ErrorLedger(
        discretisation=lower.discretisation
        + upper.discretisation
        + max(upper.value - lower.value, 0.0),
        truncation=lower.truncation + upper.truncation,
        round_off=lower.round_off + upper.round_off,
    )
    return Bracket(
        lower=max(lower.end(-1.0), 0.0),
        upper=min(max(upper.end(1.0), 0.0), raised(most, roundings(4))),
        ledger=ledger,
        reduction=reduction,
    )


@dataclass(frozen=True, eq=False)
class Ratios:
    """Likelihood ratios of a law P to a law Q with P << Q, one per class of letters.

    Attributes:
        p: probabilities under P, shape (m,).
        q: probabilities under Q, all > 0, shape (m,).
        gap: ``p - q``, to a few units in the last place of the *difference*.
        inexact: relative error of the entries of ``p`` that the distributions were given with.
    """

    p: Array
    q: Array
    gap: Array
    inexact: float = 0.0

    @staticmethod
    def of(p: Array, q: Array, inexact: float = 0.0) -> Ratios:
        """The ratios of two vectors of masses, each of which is a law once divided by its sum.

        What the two sums miss to one is known exactly, and so are ratios near one. p is 0 where q
        is.
        """
        sent = q > 0.0
        p, q = _near_one(p[sent]), _near_one(q[sent])
        heard = p > 0.0
        if np.count_nonzero(~heard) > 1:  # messages of ratio zero are one message
            p = np.append(p[heard], 0.0)
            q = np.append(q[heard], math.fsum(q[~heard].tolist()))
        over_p, over_q = (math.fsum([*x.tolist(), -1.0]) for x in (p, q))
        scale_p, scale_q = 1.0 + over_p, 1.0 + over_q
        gap = ((p - q) + (p * over_q - q * over_p)) / (scale_p * scale_q)
        return Ratios(p / scale_p, q / scale_q, gap, inexact)

    @cached_property
    def centred(self) -> Array:
        """``p/q - 1``, shape (m,)."""
        return self.gap / self.q

    def moment(self, order: int) -> float:
        """``E_Q[(p/q - 1)^order]``; infinite for orders above 2 of ratios above 1e100."""
        if order == 2:
            return math.fsum((self.gap * self.centred).tolist())
        if float(self.centred.max()) > 1e100:
            return math.inf
        return math.fsum((self.gap * self.centred * self.centred ** (order - 2)).tolist())

    @cached_property
    def divergence(self) -> Estimate:
        """``D(P‖Q) = sum_y Q(y) g(p/q - 1)``, ``g(t) = (1 + t) log(1 + t) - t``: terms >= 0."""
        near = np.abs(self.centred) < _SERIES_BELOW
        terms = self.q * _entropy_term(np.where(near, self.centred, 0.0))
        heard = ~near & (self.p > 0.0)
        logs = np.zeros_like(terms)
        logs[heard] = self.p[heard] * np.log(self.p[heard] / self.q[heard])
        terms = np.where(near, terms, logs - self.gap)
        size = np.where(near, terms, np.abs(logs) + np.abs(self.gap))
        error = roundings(2 * ELEMENTARY) * math.fsum(size.tolist())
        return Estimate(max(math.fsum(terms.tolist()), 0.0), round_off=error)

    def least_divergence(self, users: int) -> float:
        """``n D((1 - 1/n) Q + P/n ‖ Q)``, a lower bound of the shuffled divergence.

        Each message of the shuffled output has the distribution in it, and relative entropy to a
        product is at least the sum over the marginals.
        """
        t = self.centred / users
        near = np.abs(t) < _SERIES_BELOW
        far = np.where(near, 1.0, t)
        whole = (1.0 + far) * np.log1p(np.where(far > -1.0, far, 0.0)) - far
        terms = np.where(near, _entropy_term(np.where(near, t, 0.0)), whole)
        return users * math.fsum((self.q * terms).tolist())


def _entropy_term(t: Array) -> Array:
    """``(1 + t) log(1 + t) - t`` for |t| < 1/4, a few units in the last place."""
    total = np.zeros_like(t)
    for k in range(28, 1, -1):  # what follows is below 4^-28
        total = total * -t + 1.0 / (k * (k - 1))
    return np.asarray(t * t * total)


def _near_one(masses: Array) -> Array:
    """The masses, divided by their sum unless it is one up to what normalised laws miss."""
    total = math.fsum(masses.tolist())
    return masses if abs(total - 1.0) <= 1e-6 else masses / total


@dataclass(frozen=True, eq=False)
class Exposure:
    """Messages that decoys never send, or with negligible probability.

    A message that the target sends 1e150 times as often as a decoy, or a decoy with a probability
    below 1e-280, counts as one that decoys never send: the two worlds differ only if some decoy
    sends it, with probability ``tau <= n sum q``, below 1e-130. A conditional entropy over k
    values moves by at most ``tau log k + (1 + tau) h(tau/(1 + tau))`` (Winter 2016, Lemma 2), for
    such a tau less than ``tau log k + 2 sqrt(tau)``.
    """

    p: Array
    q: Array

    @cached_property
    def exposed(self) -> NDArray[np.bool_]:
        """Whether each message is one, shape (messages,)."""
        rare = (self.q < TINY) | (self.q < self.p / HUGE_RATIO)
        return np.asarray((self.p > 0.0) & rare)

    @cached_property
    def rare(self) -> float:
        """Total probability of those among them that decoys do send."""
        return math.fsum(self.q[self.exposed].tolist())

    @cached_property
    def chance(self) -> float:
        """Probability that the target sends one of them."""
        return math.fsum(self.p[self.exposed].tolist()) / math.fsum(self.p.tolist())

    @cached_property
    def share(self) -> float:
        """Probability that the target sends another message."""
        if not self.exposed.any():
            return 1.0
        return math.fsum(self.p[~self.exposed].tolist()) / math.fsum(self.p.tolist())

    @cached_property
    def rest(self) -> Ratios | None:
        """The target's distribution given another message; None where there is no such message."""
        if self.share == 0.0:
            return None
        inexact = roundings(4) if self.exposed.any() else 0.0
        return Ratios.of(self.p[~self.exposed], self.q[~self.exposed], inexact)

    @property
    def seen(self) -> float:
        """Entropy of the message if it is one of them, or else that it is not; nats."""
        sent = self.p[self.exposed] / math.fsum(self.p.tolist())
        return entropy(np.append(sent, self.share))

    def error(self, users: int, values: float) -> float:
        """Bound (nats) on the change of a conditional entropy over ``values`` values."""
        if self.rare == 0.0:
            return 0.0
        tau = users * self.rare
        return tau * math.log(max(values, 2.0)) + 2.0 * math.sqrt(tau)


def entropy(masses: Array) -> float:
    """``-sum x log x`` in nats, x the masses over their sum; relative error below 16 roundings."""
    total = math.fsum(masses.tolist())
    # the largest is taken from the others: near one its logarithm is as small as they are
    rest = np.delete(masses, int(np.argmax(masses))) / total
    others = math.fsum(rest.tolist())
    rest = rest[rest > 0.0]
    terms = (-rest * np.log(rest)).tolist()
    if others < 1.0:
        terms.append(-(1.0 - others) * math.log1p(-others))
    return math.fsum(terms)


# Half-width a of the strip: 1/cos(a) is 14, and a is near pi/2.
_STRIP = 1.5
# Most numbers in an array, so that it fits into the processor's cache.
_BLOCK = 1 << 17
# Largest s at which e^-s is computed: there it is 1e-260.
_LARGE_S = 600.0
# Relative error of exp, expm1, log and log1p.
_ELEMENTARY = roundings(ELEMENTARY)


def information(
    weights: Sequence[float], rows: Sequence[Ratios], mean: Ratios, users: int
) -> Estimate:
    """Mutual information ``sum_x pi(x) Phi_n(R_x, Q) - Phi_n(Rbar, Q)``, nats; pi sums to one."""
    *given, average = shuffled_divergences([*rows, mean], users)
    total = Estimate(0.0)
    for weight, one in zip(weights, given, strict=True):
        total += one.times(weight)
    return total - average


def shuffled_divergences(pairs: Sequence[Ratios], users: int) -> list[Estimate]:
    """``Phi_n(P, Q)`` of each pair, with relative accuracy."""
    if users == 1:
        return [_given(pair, pair.divergence, users) for pair in pairs]
    found = [Estimate(0.0)] * len(pairs)
    by_size: dict[int, list[int]] = {}
    for i, pair in enumerate(pairs):
        if np.any(pair.gap != 0.0):
            by_size.setdefault(pair.q.size, []).append(i)
    for size, indices in by_size.items():
        step = max(_BLOCK // (16 * size), 1)
        for start in range(0, len(indices), step):
            chosen = indices[start : start + step]
            for i, one in zip(chosen, _integrals([pairs[i] for i in chosen], users), strict=True):
                found[i] = one
    return [_given(pair, one, users) for pair, one in zip(pairs, found, strict=True)]


def _given(pair: Ratios, found: Estimate, users: int) -> Estimate:
    """Add what the entries of P are off by: ``P = (1 - 2r) P' + 2r P''`` with P'' <= 1.6 P.

    Phi_n is convex in P, at least 0, and at most ``log(1 + chi^2/n)``, here of P''.
    """
    if pair.inexact == 0.0:
        return found
    moved = 2.0 * pair.inexact * math.log1p(2.6 * (1.0 + pair.moment(2)) / users)
    moved += 2.0 * pair.inexact * abs(found.value)
    return found + Estimate(0.0, round_off=moved)


def _integrals(pairs: list[Ratios], users: int) -> list[Estimate]:
    """The integrals of pairs with equally many messages, P != Q, n >= 2."""
    plans = [_Plan(pair, users) for pair in pairs]
    count = max(plan.nodes for plan in plans)
    start = np.array([plan.start for plan in plans])[:, None]
    spacing = np.array([(plan.end - plan.start) / (count - 1) for plan in plans])[:, None]
    p, q = np.stack([one.p for one in pairs]), np.stack([one.q for one in pairs])
    stacked = Ratios(p, q, np.stack([one.gap for one in pairs]))
    total, size, error = (np.zeros(len(pairs)) for _ in range(3))
    step = max(_BLOCK // stacked.q.size, 1)
    for first in range(0, count, step):
        k = np.arange(first, min(first + step, count))
        value, off = integrand(stacked, start + spacing * k, users)
        total += value.sum(axis=1)
        size += np.abs(value).sum(axis=1)
        error += off.sum(axis=1)
    terms = sequential_sum(1 + count // step, own=64)
    h = spacing[:, 0]
    rounding = (h * error + terms * h * size) * (1.0 + 1e-6)
    found = zip(plans, h.tolist(), (h * total).tolist(), rounding.tolist(), strict=True)
    return [
        Estimate(value, plan.discretisation(step), plan.truncation, round_off)
        for plan, step, value, round_off in found
    ]


class _Plan:
    """First and last node of the quadrature of one integral, and how many are enough."""

    def __init__(self, pair: Ratios, users: int) -> None:
        chi2 = pair.moment(2)
        # below `Ratios.least_divergence`, by (1 + t) log(1 + t) - t >= t^2 / (2 + 2t/3)
        t = pair.centred / users
        scale = float(np.sum(pair.gap * t / (2.0 + t / 1.5)))
        # error of the discretisation and of each truncation, relative to the result;
        # chi^2 that small is lost to underflow; so are all errors relative to it
        wanted = max(2.0**-56 * scale, 1e-290)
        self._size = (math.log1p(chi2 / users) + 1.0) / math.cos(_STRIP)  # 2/e < 1
        self.start = min(math.log(wanted * users) - math.log(max(chi2, 1e-300)), -1.0)
        left = math.exp(self.start) * chi2 / users * (1.0 + 1e-6)
        self.end, right = _right_end(pair, users, wanted)
        self.truncation = left + right  # before the first node and after the last one
        h = 2.0 * math.pi * _STRIP / math.log1p(2.0 * self._size / wanted)
        self.nodes = math.ceil((self.end - self.start) / h) + 2

    def discretisation(self, h: float) -> float:
        """Bound of the trapezoidal rule's error at spacing h."""
        return 2.0 * self._size / math.expm1(min(2.0 * math.pi * _STRIP / h, 700.0))


def _right_end(pair: Ratios, users: int, wanted: float) -> tuple[float, float]:
    """The first of some places after which at most ``wanted`` is left out, and that bound."""
    heard = pair.p > 0.0
    p, w = pair.p[heard], pair.p[heard] / pair.q[heard]
    last = math.log(800.0 * users) - math.log(min(float(w.min()), 1.0))
    last = min(last, 700.0)  # where s ends; the bound holds wherever that is
    v = np.linspace(1.0, last, 64)
    s = np.exp(v)
    with np.errstate(over="ignore"):  # e^-800 is 0 as well
        all_x, x = (
            np.minimum(np.multiply.outer(s / users, one), 800.0) for one in (pair.p / pair.q, w)
        )
    missing = -np.expm1(-all_x) @ pair.q
    decoys = np.exp(-np.minimum((users - 1) * missing * (1.0 - 1e-9), 700.0))
    left_out = _exponential_integral(s) + decoys * (_exponential_integral(x) @ p)
    enough = np.flatnonzero(left_out <= wanted)
    chosen = int(enough[0]) if enough.size else v.size - 1
    return float(v[chosen]), float(left_out[chosen]) * (1.0 + 1e-6) + 1e-290


def _exponential_integral(x: Array) -> Array:
    """Upper bound of ``E_1(x) = int_x^inf e^-t dt/t``."""
    return np.asarray(np.exp(-np.minimum(x, 700.0)) * np.log1p(1.0 / np.maximum(x, 1e-300)))


def integrand(pairs: Ratios, v: Array, users: int) -> tuple[Array, Array]:
    """``F`` at points v = log s, shape (b, k), of b pairs, and a bound of the error of each value.

    The points themselves are rounded, so s is off by a relative ``(|v| + 4)`` units; that error is
    included, as one of every exponent. Sensitivities: with |x| = |uc| off by a relative r, ``e^(-x)
    - 1 + x`` is off by ``(2 + u) r`` and ``1 - e^(-x)`` by ``(1 + u) r`` at most, because x >= -u.
    """
    others = float(users - 1)
    s = np.exp(v)
    moved = roundings(np.abs(v) + 10.0)  # of every x = uc, relative
    rounding = sequential_sum(pairs.q.shape[1], own=96)  # of the sums and their terms
    direct = s > _LARGE_S
    if direct.all():
        return _difference(s, *_far(pairs, s / users, others, moved, rounding), moved)
    near_s = np.minimum(s, _LARGE_S)
    log_ratio, error = _near(pairs, near_s / users, others, moved, rounding)
    log_g = log_ratio - near_s
    if direct.any():
        far, far_error = _far(pairs, s / users, others, moved, rounding)
        log_g, error = np.where(direct, far, log_g), np.where(direct, far_error, error)
    value, bound = _difference(s, log_g, error, moved)
    close = ~direct & (log_ratio < 1.0)
    e, log_ratio = np.exp(-near_s), np.where(close, log_ratio, 0.0)
    value = np.where(close, -e * np.expm1(log_ratio), value)
    scale = near_s * moved + 2 * _ELEMENTARY  # of e^-s
    of_ratio = e * np.exp(log_ratio) * np.expm1(np.minimum(error, 600.0))
    return value, np.where(close, of_ratio + np.abs(value) * scale, bound)


def _difference(s: Array, log_g: Array, error: Array, moved: Array) -> tuple[Array, Array]:
    """``e^-s - G`` where the two are far apart, and a bound of its error."""
    e, g = np.exp(-np.minimum(s, 700.0)), np.exp(np.minimum(log_g, 0.0))
    off = g * (np.expm1(np.minimum(error, 600.0)) + 2 * _ELEMENTARY)
    near = np.minimum(s, _LARGE_S)  # beyond, neither s nor e^-s matters to G and F
    return e - g, off + (e + g) * (near * moved + 2 * _ELEMENTARY)


def _near(
    pairs: Ratios, u: Array, others: float, moved: Array, rounding: float
) -> tuple[Array, Array]:
    """``log(e^s G)`` and a bound of its error, for s that are not large."""
    q = pairs.q[:, :, None]
    x = u[:, None, :] * pairs.centred[:, :, None]
    small = np.abs(x) < 0.5
    curved = _curved(np.where(small, x, 0.0))
    power = np.exp(-x)
    change = np.where(small, curved - x, power - 1.0)
    a = np.sum(q * np.where(small, curved, change + x), axis=1)
    c = np.sum(-pairs.gap[:, :, None] * change, axis=1)
    weighted = pairs.p[:, :, None] * power
    # e^-690 stands for anything below it
    heard = np.maximum(np.sum(weighted, axis=1), 1e-300)
    spread = np.sum(weighted * np.abs(x), axis=1)

    relative = rounding + (2.0 + u) * moved
    b = np.maximum(a - c, -BELOW_ONE)
    by_change = relative * (a + c) / (1.0 + b)
    by_value = rounding + moved * spread / heard
    log_p = np.where(by_change < by_value, np.log1p(b), np.log(heard))
    log_q = np.log1p(a)
    total = others * log_q + log_p
    error = others * (relative * a / (1.0 + a) + _ELEMENTARY * log_q)
    error += np.minimum(by_change, by_value) + 2 * _ELEMENTARY * np.abs(log_p)
    return total, error + roundings(1) * np.abs(total)


def _far(
    pairs: Ratios, u: Array, others: float, moved: Array, rounding: float
) -> tuple[Array, Array]:
    """``log G`` and a bound of its error, from phi_Q and phi_P themselves."""
    with np.errstate(over="ignore"):  # e^-800 is 0 as well
        x = np.minimum(u[:, None, :] * (pairs.p / pairs.q)[:, :, None], 800.0)
    power = np.exp(-x)
    total, error = np.zeros_like(u), np.zeros_like(u)
    for law, count in ((pairs.q, others), (pairs.p, 1.0)):
        weighted = law[:, :, None] * power
        phi = np.sum(weighted, axis=1)
        missing = np.sum(law[:, :, None] * -np.expm1(-x), axis=1)
        lowest = np.maximum(phi, 1e-300)  # e^-690 stands for anything below it
        logs = np.where(missing < 0.5, np.log1p(-np.minimum(missing, 0.5)), np.log(lowest))
        spread = moved * np.sum(weighted * x, axis=1)
        off = (spread + rounding * np.minimum(missing, phi)) / lowest
        total += count * logs
        error += count * (off + _ELEMENTARY * np.abs(logs))
    return total, error


def _curved(x: Array) -> Array:
    """``e^(-x) - 1 + x`` for |x| < 1/2, a few units in the last place."""
    total = np.zeros_like(x)
    for k in range(16, 1, -1):  # what follows is below 2^-15 * 2 / 17!
        total = 1.0 - x / (k + 1) * total if k > 2 else 0.5 * (1.0 - x / 3.0 * total)
    return np.asarray(x * x * total)
