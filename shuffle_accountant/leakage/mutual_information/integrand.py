"""The integrand whose integral is the shuffled divergence, with a bound of its rounding error.

With ``phi_Q(u) = E_Q e^(-u w)`` and ``phi_P`` alike, w = P/Q, the integrand over v = log s is

    F = e^(-s) - G,    G = phi_Q(u)^(n-1) phi_P(u),    u = s/n.

Where w is near 1 both terms are near e^(-s), so their ratio is computed instead. With c = w - 1,

    A = E_Q[e^(-uc) - 1 + uc],    C = E_Q[c (1 - e^(-uc))]

are sums of terms >= 0 (the mean of c is 0, exactly), ``e^u phi_Q = 1 + A``, ``e^u phi_P = 1 + A -
C``, and ``F = -e^(-s) expm1((n-1) log1p(A) + log1p(A - C))``: the error is relative to C and to
``(n-1) A``, which are as small as F. Where s is large, e^(-s) is nothing, and log G is computed
from ``1 - phi_Q``, a sum of terms >= 0 too: its error is relative to log G.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shuffle_accountant.numerics.rounding import (
    BELOW_ONE,
    ELEMENTARY,
    Array,
    roundings,
    sequential_sum,
)

# Largest s at which e^-s is computed: there it is 1e-260.
_LARGE_S = 600.0
# Relative error of exp, expm1, log and log1p.
_ELEMENTARY = roundings(ELEMENTARY)


@dataclass(frozen=True, eq=False)
class Problems:
    """Several pairs of distributions over as many messages each; messages of no mass fill up.

    Attributes:
        p: probabilities of the target's message, shape (b, m).
        q: those of a decoy's, shape (b, m).
        gap: ``p - q``, shape (b, m).
        centred: ``p/q - 1``, shape (b, m).
        users: number n of messages.
    """

    p: Array
    q: Array
    gap: Array
    centred: Array
    users: int


def integrand(problems: Problems, v: Array) -> tuple[Array, Array]:
    """``F`` at points v = log s, and a bound of the error of each value.

    The points themselves are rounded, so s is off by a relative ``(|v| + 4)`` units; that error is
    included, as one of every exponent. Sensitivities: with |x| = |uc| off by a relative r, ``e^(-x)
    - 1 + x`` is off by ``(2 + u) r`` and ``1 - e^(-x)`` by ``(1 + u) r`` at most, because x >= -u.

    Args:
        v: shape (b, k).

    Returns:
        Values and error bounds, each of shape (b, k).
    """
    others = float(problems.users - 1)
    s = np.exp(v)
    u = s / problems.users
    moved = roundings(np.abs(v) + 10.0)  # of every x = uc, relative
    rounding = sequential_sum(problems.q.shape[1], own=96)  # of the sums and their terms
    direct = s > _LARGE_S
    if direct.all():
        log_g, error = _far(problems, u, others, moved, rounding)
        return _difference(s, log_g, error, moved)
    near_s = np.minimum(s, _LARGE_S)
    log_ratio, error = _near(problems, near_s / problems.users, others, moved, rounding)
    log_g = log_ratio - near_s
    if direct.any():
        far, far_error = _far(problems, u, others, moved, rounding)
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
    problems: Problems, u: Array, others: float, moved: Array, rounding: float
) -> tuple[Array, Array]:
    """``log(e^s G)`` and a bound of its error, for s that are not large."""
    gap, q = problems.gap[:, :, None], problems.q[:, :, None]
    x = u[:, None, :] * problems.centred[:, :, None]
    small = np.abs(x) < 0.5
    curved = _curved(np.where(small, x, 0.0))
    power = np.exp(-x)
    change = np.where(small, curved - x, power - 1.0)
    a = np.sum(q * np.where(small, curved, change + x), axis=1)
    c = np.sum(-gap * change, axis=1)
    weighted = problems.p[:, :, None] * power
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
    problems: Problems, u: Array, others: float, moved: Array, rounding: float
) -> tuple[Array, Array]:
    """``log G`` and a bound of its error, from phi_Q and phi_P themselves."""
    with np.errstate(over="ignore"):  # e^-800 is 0 as well
        x = np.minimum(u[:, None, :] * (problems.p / problems.q)[:, :, None], 800.0)
    power = np.exp(-x)
    total, error = np.zeros_like(u), np.zeros_like(u)
    for law, count in ((problems.q, others), (problems.p, 1.0)):
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
