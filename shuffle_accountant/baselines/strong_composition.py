"""Composition of one round's guarantee, whatever the mechanism behind it.

Kairouz, Oh and Viswanath 2015, "The composition theorem for differential privacy", Theorem 3.3: T
mechanisms that are (eps1, delta1)-private each are together, for every i = 0, …, floor(T/2),

    epsilon = (T - 2i) eps1,   delta = 1 - (1 - delta1)^T (1 - delta_i),
    delta_i = sum_{l < i} C(T, l) (e^((T - l) eps1) - e^((T - 2i + l) eps1)) / (1 + e^eps1)^T

private. It cannot be improved for mechanisms known by one such pair alone; what is lost is the rest
of their curve. Upper bound, any adjacency.

With ``q = 1/(1 + e^eps1)`` the terms of delta_i are binomial probabilities of l successes at rate
q, times ``1 - e^(-2(i - l) eps1)``: they are summed as such, all of one sign, without cancellation
or overflow for any T.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines.question import ProtocolBound, Question, register, require
from shuffle_accountant.numerics.binomial import log_pmf

__all__ = ["MOST_ROUNDS", "delta", "epsilon", "name", "sound", "source", "split_epsilon", "valid"]

name = "strong_composition"
source = "Kairouz, Oh and Viswanath 2015, Theorem 3.3"
sound = True

MOST_ROUNDS = 10**9
"""Most rounds: the sums take time in proportion to the root of their number."""

# Shares of delta given to the rounds' own deltas that are tried, on both sides of one half.
_SHARES = 1.0 / (1.0 + np.logspace(3.0, -3.0, 13))


def valid(*, eps1: float, delta1: float, rounds: int = 1, delta: float) -> str | None:
    """The condition that is not met, or None: the rounds' own deltas must leave something over.

    The arguments are those of `epsilon`.
    """
    eps1, delta1, rounds = _checked(eps1, delta1, rounds)
    delta = validate.open_unit(delta=delta)
    spent = _together(delta1, rounds, 0.0)
    if spent > delta:
        return f"1 - (1 - delta1)^rounds <= delta = {delta:g}, got {spent:g}"
    return None


def epsilon(*, eps1: float, delta1: float, rounds: int = 1, delta: float) -> float:
    """Epsilon (nats) of all rounds: ``(T - 2i) eps1`` for the largest i that delta allows.

    Args:
        eps1: epsilon of each round, nats, finite, >= 0.
        delta1: delta of each round, in [0, 1].
        rounds: number T of rounds, in [0, 10^9].
        delta: of all rounds together, in (0, 1).
    """
    require(name, valid(eps1=eps1, delta1=delta1, rounds=rounds, delta=delta))
    eps1, delta1, rounds = _checked(eps1, delta1, rounds)
    delta = validate.open_unit(delta=delta)  # as a double: short floats round what is compared
    return (rounds - 2 * _most_steps(eps1, delta1, rounds, delta)) * eps1


def delta(*, eps1: float, delta1: float, rounds: int = 1, epsilon: float) -> float:
    """Delta of all rounds at the largest ``(T - 2i) eps1`` that is at most epsilon.

    Args:
        eps1: epsilon of each round, nats, finite, >= 0.
        delta1: delta of each round, in [0, 1].
        rounds: number T of rounds, in [0, 10^9].
        epsilon: of all rounds together, nats, finite, >= 0.

    Returns:
        In [0, 1]; 1 where even ``i = floor(T/2)`` asks for more than epsilon.
    """
    eps1, delta1, rounds = _checked(eps1, delta1, rounds)
    epsilon = validate.finite_nonnegative(epsilon=epsilon)
    # how many of eps1 epsilon has room for: all, even where the quotient is no double
    room = epsilon / eps1 if epsilon < rounds * eps1 else rounds
    steps = math.ceil(0.5 * (rounds - room))
    # the quotient is rounded, the guarantee must not be
    if (rounds - 2 * steps) * eps1 > epsilon:
        steps += 1
    elif steps > 0 and (rounds - 2 * (steps - 1)) * eps1 <= epsilon:
        steps -= 1
    if 2 * steps > rounds:
        return 1.0
    return _together(delta1, rounds, _delta_of(steps, eps1, rounds))


def split_epsilon(curve: Callable[[float], float], *, rounds: int = 1, delta: float) -> float:
    """Epsilon (nats) of rounds known by a curve, at the best split of delta found.

    Part of delta is spent on the deltas of the rounds, the rest on composing them. Every split is
    a valid bound; the best one is searched for among many, and then pushed as far as its i allows.

    Args:
        curve: epsilon of one round at a given delta, non-increasing. It may raise `ValueError`
            where it does not apply.
        rounds: number T of rounds, in [1, 10^9].
        delta: of all rounds together, in (0, 1).

    Raises:
        ValueError: the curve's own error, if it applies nowhere.
    """
    curve = validate.function(curve=curve)
    rounds = validate.integer(minimum=1, maximum=MOST_ROUNDS, rounds=rounds)
    delta = validate.open_unit(delta=delta)
    most = -math.expm1(math.log1p(-delta) / rounds) * (1.0 - 1e-15)
    if rounds == 1:
        return float(curve(delta))
    if not _SHARES.min() * most > 0.0:
        raise ValueError(f"delta must be large enough to be split, got {delta!r}")
    best, steps, place, error = math.inf, 0, 0, ValueError("curve must be finite for some delta")
    shares = [*_SHARES.tolist(), 1.0]
    for i, share in enumerate(shares):
        try:
            eps1 = float(curve(share * most))
        except ValueError as refused:
            error = refused
            continue
        allowed = _most_steps(eps1, share * most, rounds, delta)
        if (rounds - 2 * allowed) * eps1 < best:
            best, steps, place = (rounds - 2 * allowed) * eps1, allowed, i
    if best == math.inf:
        raise error
    # with this i the largest share that it allows is best
    low, high = shares[place], shares[min(place + 1, len(shares) - 1)]
    for _ in range(16 if high > low else 0):
        middle = 0.5 * (low + high)
        eps1 = float(curve(middle * most))
        if _together(middle * most, rounds, _delta_of(steps, eps1, rounds)) <= delta:
            low, best = middle, min(best, (rounds - 2 * steps) * eps1)
        else:
            high = middle
    return best


def _checked(eps1: float, delta1: float, rounds: int) -> tuple[float, float, int]:
    eps1 = validate.finite_nonnegative(eps1=eps1)
    delta1 = validate.closed_unit(delta1=delta1)
    return eps1, delta1, validate.integer(minimum=0, maximum=MOST_ROUNDS, rounds=rounds)


def _together(delta1: float, rounds: int, composed: float) -> float:
    """``1 - (1 - delta1)^T (1 - composed)``."""
    if (rounds > 0 and delta1 == 1.0) or composed >= 1.0:
        return 1.0
    return -math.expm1((rounds * math.log1p(-delta1) if rounds else 0.0) + math.log1p(-composed))


def _most_steps(eps1: float, delta1: float, rounds: int, delta: float) -> int:
    """The largest i whose delta is at most the given one, known to be true of i = 0."""

    def above(steps: int) -> bool:
        return _together(delta1, rounds, _delta_of(steps, eps1, rounds)) > delta

    return bisect_left(range(1, rounds // 2 + 1), True, key=above)


def _delta_of(steps: int, eps1: float, rounds: int) -> float:
    """``delta_i``, i = steps: a sum over l from i - 1 down to where terms no longer count."""
    if steps == 0 or eps1 == 0.0:
        return 0.0
    ratio = math.exp(-eps1)
    q, p = ratio / (1.0 + ratio), 1.0 / (1.0 + ratio)
    # the law is log-concave with second differences of at most -4/T: below its mode, or below i,
    # terms fall at least like e^(-2 d^2/T), their factors grow at most like d
    top, reach = min(steps - 1, math.ceil(rounds * q)), math.ceil(math.sqrt(30.0 * rounds)) + 4
    landed = np.arange(max(top - reach, 0), min(steps - 1, top + reach) + 1.0)
    mass = np.exp(log_pmf(landed, float(rounds), q, p))
    with np.errstate(over="ignore"):  # e^-inf is 0
        kept = -np.expm1(-2.0 * (steps - landed) * eps1)
    return min(float(np.sum(mass * kept)), 1.0)


def _of_protocol(question: Question) -> float:
    kinds = question.protocol.distinct
    if len(kinds) != 1:
        require(name, f"rounds of one kind, got {len(kinds)}")
    ((one, count),) = kinds
    if count > MOST_ROUNDS:
        require(name, f"rounds <= {MOST_ROUNDS}, got {count}")
    return split_epsilon(
        lambda delta: one.epsilon(delta=delta).upper, rounds=count, delta=question.delta
    )


register(
    ProtocolBound,
    __name__,
    about="equal rounds of any kind",
    forms={"certified curve of one round": _of_protocol},
    rank=30,
)
