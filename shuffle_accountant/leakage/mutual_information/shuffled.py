"""Divergence ``Phi_n(P, Q)`` of n shuffled messages, one of them from P: certified for any n.

``Phi_n = D(law of the shuffled messages ‖ Q^n) = E[X log X]``, X the mean of n i.i.d. likelihood
ratios (see `shuffle_accountant.reductions.base`). It falls from ``D(P‖Q)`` at n = 1 to about
``chi^2 / 2n``, and every mutual information of this package is a difference of such numbers.

As ``x log x = int_0^inf (x e^-t - x e^-tx) dt/t``, it is an integral over v = log s, a real number,
of the function F of `integrand`, here by the trapezoidal rule. Its errors are bounded as follows.

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

*Round-off.* `integrand` bounds the error of each value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from shuffle_accountant.leakage.mutual_information.estimate import Estimate
from shuffle_accountant.leakage.mutual_information.integrand import Problems, integrand
from shuffle_accountant.leakage.mutual_information.ratios import Ratios
from shuffle_accountant.numerics.rounding import Array, sequential_sum

# Half-width a of the strip: 1/cos(a) is 14, and a is near pi/2.
_STRIP = 1.5
# Most numbers in an array, so that it fits into the processor's cache.
_BLOCK = 1 << 17


def shuffled_divergences(pairs: Sequence[Ratios], users: int) -> list[Estimate]:
    """``Phi_n(P, Q)`` of each pair, with relative accuracy."""
    if users == 1:
        return [_given(pair, pair.divergence, users) for pair in pairs]
    found: list[Estimate] = [Estimate(0.0)] * len(pairs)
    by_size: dict[int, list[int]] = {}
    for i, pair in enumerate(pairs):
        if np.any(pair.gap != 0.0):
            by_size.setdefault(pair.q.size, []).append(i)
        else:
            found[i] = _given(pair, found[i], users)
    for size, indices in by_size.items():
        step = max(_BLOCK // (16 * size), 1)
        for start in range(0, len(indices), step):
            chosen = indices[start : start + step]
            for i, one in zip(chosen, _integrals([pairs[i] for i in chosen], users), strict=True):
                found[i] = _given(pairs[i], one, users)
    return found


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
    problems = Problems(
        p=np.stack([pair.p for pair in pairs]),
        q=np.stack([pair.q for pair in pairs]),
        gap=np.stack([pair.gap for pair in pairs]),
        centred=np.stack([pair.centred for pair in pairs]),
        users=users,
    )
    total, size, error = (np.zeros(len(pairs)) for _ in range(3))
    step = max(_BLOCK // problems.q.size, 1)
    for first in range(0, count, step):
        k = np.arange(first, min(first + step, count))
        value, off = integrand(problems, start + spacing * k)
        total += value.sum(axis=1)
        size += np.abs(value).sum(axis=1)
        error += off.sum(axis=1)
    blocks = 1 + count // step
    estimates = []
    for i, plan in enumerate(plans):
        h = float(spacing[i, 0])
        rounding = h * float(error[i]) + sequential_sum(blocks, own=64) * h * float(size[i])
        estimates.append(
            Estimate(
                h * float(total[i]),
                discretisation=plan.discretisation(h),
                truncation=plan.left + plan.right,
                round_off=rounding * (1.0 + 1e-6),
            )
        )
    return estimates


class _Plan:
    """First and last node of the quadrature of one integral, and their number.

    Attributes:
        start: first node.
        end: last node.
        nodes: how many are enough.
        left: bound of what is left out before the first node.
        right: bound of what is left out after the last one.
    """

    def __init__(self, pair: Ratios, users: int) -> None:
        chi2 = pair.moment(2)
        at_most = math.log1p(chi2 / users)
        # below `Ratios.least_divergence`, by (1 + t) log(1 + t) - t >= t^2 / (2 + 2t/3)
        t = pair.centred / users
        scale = float(np.sum(pair.gap * t / (2.0 + t / 1.5)))
        # error of the discretisation and of each truncation, relative to the result;
        # chi^2 that small is lost to underflow; so are all errors relative to it
        wanted = max(2.0**-56 * scale, 1e-290)
        self._size = (at_most + 1.0) / math.cos(_STRIP)  # 2/e < 1
        self.start = min(math.log(wanted * users) - math.log(max(chi2, 1e-300)), -1.0)
        self.left = math.exp(self.start) * chi2 / users * (1.0 + 1e-6)
        self.end, self.right = _right_end(pair, users, wanted)
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
    u = s / users
    with np.errstate(over="ignore"):  # e^-800 is 0 as well
        all_x, x = (np.minimum(np.multiply.outer(u, w), 800.0) for w in (pair.p / pair.q, w))
    missing = -np.expm1(-all_x) @ pair.q
    decoys = np.exp(-np.minimum((users - 1) * missing * (1.0 - 1e-9), 700.0))
    left_out = _exponential_integral(s) + decoys * (_exponential_integral(x) @ p)
    enough = np.flatnonzero(left_out <= wanted)
    chosen = int(enough[0]) if enough.size else v.size - 1
    return float(v[chosen]), float(left_out[chosen]) * (1.0 + 1e-6) + 1e-290


def _exponential_integral(x: Array) -> Array:
    """Upper bound of ``E_1(x) = int_x^inf e^-t dt/t``."""
    return np.asarray(np.exp(-np.minimum(x, 700.0)) * np.log1p(1.0 / np.maximum(x, 1e-300)))
