"""The "specialised clones" formula for k-ary randomized response. NOT a valid bound for k >= 4.

Feldman, McMillan and Talwar 2022 ("Stronger privacy amplification by shuffling") and the
variation-ratio tables that follow it write k-ary randomized response as a mixture of three letters.
With E = e^eps0 and p = 1/(E + k - 1), the target's message and the others' are

    p0 = (E p, p, w),   p1 = (p, E p, w),   q = (p, p, 1 - 2p),   w = 1 - (E + 1) p = (k - 2) p,

so the third letter carries what the target's two laws share. The step that makes the target's
leftover message look like the others' is where the proof fails (the paper's erratum): in truth the
two are distinguishable.

*Counterexample.* 4-ary randomized response, eps0 = 1, ten users, of whom the nine others all hold
one same third value. At epsilon = 0.6 the true delta, by exact enumeration, is 0.0032713329; this
formula gives 0.0029836429.

For k = 2 nothing is left over, w = 0, and the formula is that of the sound reduction "clones". It
is here to be compared with; use ``reduction="blanket"`` instead.

By the density lemma (`shuffle_accountant.reductions.base`) the formula's value at alpha =
e^epsilon is

    (1/n) E[ (A (E - alpha) + B (1 - alpha E) + (n - A - B) (1 - alpha) w/(1 - 2p))_+ ]

with (A, B, n - A - B) multinomial of n trials and law q. It is evaluated as that sum, of terms of
one sign, so that small delta keep relative accuracy; what is left out is below 1e-12 of the value.
"""

from __future__ import annotations

import math

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines.closed_forms import OneRoundBound
from shuffle_accountant.baselines.question import check_protocol, register
from shuffle_accountant.numerics.binomial import log_pmf

__all__ = ["MOST_EPS0", "MOST_USERS", "delta", "epsilon", "name", "sound", "source", "valid"]

name = "specialised_clones"
source = "Feldman, McMillan and Talwar 2022"

sound = False
"""The formula is no upper bound: see the counterexample above."""

MOST_USERS = 10**4
"""Largest number of users; the time of the sum is proportional to it."""

MOST_EPS0 = 700.0
"""Beyond it e^eps0 overflows."""

# Terms more than exp(-40) below the largest are left out.
_NEGLIGIBLE = 40.0
# Standard deviations of a binomial law outside of which it has a mass below exp(-40) (Hoeffding).
_DEVIATIONS = 9.0


def valid(*, eps0: float, categories: int, users: int, delta: float) -> str | None:
    """The condition for evaluating the formula that is not met, or None. Soundness is not checked.

    Args:
        eps0: local privacy parameter, nats, finite, >= 0.
        categories: number k of values, >= 2.
        users: messages in the round, >= 1.
        delta: in (0, 1).
    """
    eps0, users = check_protocol(eps0=eps0, users=users)
    validate.integer(minimum=2, maximum=2**53, categories=categories)
    validate.open_unit(delta=delta)
    if users > MOST_USERS:
        return f"users <= {MOST_USERS}, got {users}"
    if eps0 > MOST_EPS0:
        return f"eps0 <= {MOST_EPS0:g}, got {eps0:g}"
    return None


def delta(*, eps0: float, categories: int, users: int, epsilon: float) -> float:
    """Delta of one round of k-ary randomized response by the formula: NO upper bound for k >= 4.

    Args:
        eps0: local privacy parameter, nats, in [0, 700].
        categories: number k of values, >= 2.
        users: messages in the round, 1 … 10,000.
        epsilon: nats, finite, >= 0.

    Returns:
        The formula's value with a relative error below 1e-10 (0 below the least positive float).
    """
    eps0, categories, users = _checked(eps0, categories, users)
    return _delta(eps0, categories, users, validate.finite_nonnegative(epsilon=epsilon))


def epsilon(*, eps0: float, categories: int, users: int, delta: float) -> float:
    """Epsilon of one round by the formula, by root finding: NO upper bound for k >= 4.

    Args:
        eps0: local privacy parameter, nats, in [0, 700].
        categories: number k of values, >= 2.
        users: messages in the round, 1 … 10,000.
        delta: in (0, 1).

    Returns:
        The epsilon in [0, eps0] at which the formula gives ``delta``, or 0 where it is below
        ``delta`` everywhere.
    """
    eps0, categories, users = _checked(eps0, categories, users)
    target = math.log(validate.open_unit(delta=delta))

    def excess(point: float) -> float:
        # below all logarithms of doubles where delta is 0, as at the end point eps0
        found = _delta(eps0, categories, users, point)
        return (math.log(found) if found > 0.0 else -800.0) - target

    if excess(0.0) <= 0.0:
        return 0.0
    from scipy.optimize import brentq

    return float(brentq(excess, 0.0, eps0, xtol=1e-13))


def _checked(eps0: float, categories: int, users: int) -> tuple[float, int, int]:
    eps0 = validate.finite_nonnegative(eps0=eps0)
    if eps0 > MOST_EPS0:
        raise ValueError(f"eps0 must be a finite number in [0, {MOST_EPS0:g}], got {eps0!r}")
    categories = validate.integer(minimum=2, maximum=2**53, categories=categories)
    return eps0, categories, validate.integer(minimum=1, maximum=MOST_USERS, users=users)


def _delta(eps0: float, categories: int, users: int, epsilon: float) -> float:
    if epsilon >= eps0:
        return 0.0
    # everything is divided by E, so that nothing overflows
    small, alpha = math.exp(-eps0), math.exp(epsilon)
    first = -math.expm1(epsilon - eps0)  # value of letter a
    second = small - alpha  # of letter b
    leftover = (categories - 2) * small
    idle = leftover - math.expm1(-eps0)  # E + k - 3, over E
    third = -math.expm1(epsilon) * small * leftover / idle if leftover > 0.0 else 0.0
    rate = 2.0 * small / (1.0 + leftover + small)  # chance of a letter a or b
    idle /= 1.0 + leftover + small

    c = np.arange(1.0, users + 1.0)  # how many of the n messages are a or b
    # with b letters b the sum is best - (first - second) b: positive for b up to ``last``
    best = c * first + (users - c) * third
    last = np.minimum(np.ceil(best / (first - second)) - 1.0, c)
    c, last = c[last >= 0.0], last[last >= 0.0]
    log_c = log_pmf(c, float(users), rate, idle)

    # for each c the most likely b that counts, less one, where the sum is not close to 0
    peak = np.maximum(np.minimum(last - 1.0, np.floor(0.5 * c)), 0.0)
    weight = log_c + log_pmf(peak, c, 0.5, 0.5)
    # up to c + 1 terms near the peak, times sums whose ratios are about as large
    keep = weight > weight.max(initial=-math.inf) - _NEGLIGIBLE - 4.0 * math.log(users + 1.0)
    log_c, c, last = log_c[keep], c[keep], last[keep]
    reach, middle = 0.5 * _DEVIATIONS * np.sqrt(c), np.minimum(last, 0.5 * c)
    begin = np.maximum(np.floor(middle - reach), 0.0)
    sizes = (np.minimum(last, np.ceil(middle + reach)) - begin).astype(np.intp) + 1
    # all b of all c in one row
    row = np.repeat(np.arange(c.size), sizes)
    b = begin[row] + (np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes))
    trials = c[row]
    value = (trials - b) * first + b * second + (users - trials) * third
    terms = np.exp(log_c[row] + log_pmf(b, trials, 0.5, 0.5)) * np.maximum(value, 0.0)
    return min(math.exp(eps0) * float(terms.sum()) / users, 1.0)


register(
    OneRoundBound,
    __name__,
    about="one round of k-ary randomized response",
    response=True,
    response_alone=True,
    rank=90,
)
