"""The clones' pair, listed within Hoeffding's range of both counts.

'Numerical Accounting in the Shuffle Model', Lemma 11: the number C of informative decoys is kept
within ``c (n - 1)`` of its mean, ``c = sqrt(log(4/tau) / (2 (n - 1)))``, and the number A of them
that say 0 within ``sqrt(C log(4/tau) / 2)`` of C/2; each leaves out at most tau/2. The target's own
letter adds 0 or 1 to A, and both are kept. (The appendix of the paper prints p for the rate 2p, in
Lemma A.4 and in the range of C.) That is some ``2 log(4/tau) n`` pairs of counts where all would be
n^2; the accountant itself uses tighter tails and needs far fewer.

Upper bound, one round of one randomizer, replacement.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines.closed_forms import OneRoundBound
from shuffle_accountant.baselines.question import check_protocol, register, require
from shuffle_accountant.numerics.binomial import log_pmf
from shuffle_accountant.numerics.rounding import ELEMENTARY, Array, logarithm, roundings

__all__ = ["MOST_EPS0", "MOST_PAIRS", "delta", "epsilon", "name", "sound", "source", "valid"]

name = "clones_enumeration"
source = "Numerical Accounting in the Shuffle Model, Lemma 11"
sound = True

MOST_EPS0 = 700.0
"""Beyond it e^eps0 overflows."""

MOST_PAIRS = 200_000
"""Most pairs of counts that are listed."""

# Share of delta that the mass not listed may have.
_SHARE = 1e-3
# Bounds the relative error of the masses' sum, and the absolute one of the root (nats) that is
# found to within 1e-13 and four units in the last place of at most 700.
_ERROR = 1e-11


def valid(*, eps0: float, users: int, delta: float) -> str | None:
    """The condition under which the pairs can be listed, if it is not met; else None.

    Args:
        eps0: local privacy parameter, nats, finite, >= 0.
        users: messages in the round, >= 1.
        delta: in (0, 1).
    """
    eps0, users = check_protocol(eps0=eps0, users=users)
    return _unmet(eps0, users, _SHARE * validate.open_unit(delta=delta))


def epsilon(*, eps0: float, users: int, delta: float) -> float:
    """Epsilon (nats) of one round: the smallest at which `delta` is reached, from above.

    A thousandth of delta is left to what is not listed.

    Args:
        eps0: local privacy parameter, nats, in [0, 700].
        users: messages in the round, >= 1.
        delta: in (0, 1).
    """
    require(name, valid(eps0=eps0, users=users, delta=delta))
    eps0, users = check_protocol(eps0=eps0, users=users)
    delta = validate.open_unit(delta=delta)
    tau = _SHARE * delta
    if eps0 == 0.0 or _delta(eps0, users, 0.0, tau) <= delta:
        return 0.0
    from scipy.optimize import brentq

    found = brentq(lambda at: _delta(eps0, users, at, tau) - delta, 0.0, eps0, xtol=1e-13)
    return min(float(found) + _ERROR, eps0)


def delta(*, eps0: float, users: int, epsilon: float, tau: float = 1e-12) -> float:
    """Delta of one round at epsilon, at most 1; what is not listed counts in full.

    Args:
        eps0: local privacy parameter, nats, in [0, 700].
        users: messages in the round, >= 1.
        epsilon: nats, finite, >= 0.
        tau: bound on the mass that is not listed, in (0, 1).

    Raises:
        ValueError: more than `MOST_PAIRS` pairs of counts.
    """
    eps0, users = check_protocol(eps0=eps0, users=users)
    epsilon, tau = validate.finite_nonnegative(epsilon=epsilon), validate.open_unit(tau=tau)
    require(name, _unmet(eps0, users, tau))
    return 0.0 if epsilon >= eps0 else _delta(eps0, users, epsilon, tau)


def _unmet(eps0: float, users: int, tau: float) -> str | None:
    if eps0 > MOST_EPS0:
        return f"eps0 <= {MOST_EPS0:g}, got {eps0:g}"
    if tau == 0.0:
        return "a delta whose thousandth is a double"
    ((low,), (high,)) = _range(np.array([users - 1.0]), _rate(eps0), tau)
    pairs = (high - low + 1.0) * (2.0 * math.sqrt(0.5 * high * math.log(4.0 / tau)) + 2.0)
    return None if pairs <= MOST_PAIRS else f"at most {MOST_PAIRS} pairs of counts, got {pairs:.3g}"


def _delta(eps0: float, users: int, epsilon: float, tau: float) -> float:
    mass, loss = _atoms(eps0, users, tau)
    gain = -np.expm1(np.minimum(epsilon - loss, 0.0))
    return min(float(np.sum(mass * gain)) * (1.0 + _ERROR) + tau, 1.0)


@lru_cache(maxsize=4)
def _atoms(eps0: float, users: int, tau: float) -> tuple[Array, Array]:
    """Masses under P, and losses from above, of the listed pairs of counts that lose something."""
    ratio = math.exp(-eps0)
    ((low,), (high,)) = _range(np.array([users - 1.0]), _rate(eps0), tau)
    count = np.arange(low, high + 1)
    first, last = _range(count, 0.5, tau)
    lengths = (last - first + 2).astype(np.intp)
    owner = np.repeat(np.arange(count.size), lengths)
    a = first[owner] + np.arange(owner.size) - (np.cumsum(lengths) - lengths)[owner]
    m = count[owner] + 1.0
    b = m - a
    log_count = log_pmf(count, users - 1.0, _rate(eps0), math.tanh(0.5 * eps0))
    mass = np.exp(log_count[owner] + log_pmf(a, m, 0.5, 0.5)) * 2.0 / (m * (1.0 + ratio))
    mass *= a + ratio * b
    some = a > b
    a, b = a[some], b[some]
    loss = np.log((a + ratio * b) / (ratio * a + b))
    # the ratio is rounded six times besides its exponentials
    return mass[some], loss + logarithm(loss, roundings(6.0 + 2 * ELEMENTARY))


def _rate(eps0: float) -> float:
    """Probability that a decoy says 0 or 1."""
    ratio = math.exp(-eps0)
    return 2.0 * ratio / (1.0 + ratio)


def _range(trials: Array, rate: float, tau: float) -> tuple[Array, Array]:
    """Integers within Hoeffding's distance of the mean of Bin(trials, rate), for tau/2."""
    distance = np.sqrt(0.5 * trials * math.log(4.0 / tau))
    low = np.maximum(np.ceil(rate * trials - distance), 0.0)
    return low, np.minimum(np.floor(rate * trials + distance), trials)


register(OneRoundBound, __name__, about="one round of one randomizer", rank=35)
