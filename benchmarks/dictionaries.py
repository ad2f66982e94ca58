"""The clones pair as the users of other accountants would write it: outcome to log probability.

Outcomes are (c, a), c informative decoys and a letters 0 among the c + 1 messages that are not
blank. All c would be n^2/2 outcomes, so c is cut to where Chernoff leaves at most 5e-16 outside;
1e-15 becomes an outcome of the upper dictionary alone, so it ends up at infinity.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "EPS0",
    "GRID",
    "PROBABILISTIC_DP",
    "USERS",
    "Pmf",
    "deltas_on_grid",
    "losses",
    "write_dictionaries",
]

EPS0, USERS = 4.0, 10**4
PROBABILISTIC_DP = 1e-15
GRID = 1e-4  # dp-accounting's default

Pmf = dict[tuple[int, int] | str, float]


def write_dictionaries(cut_twice: bool = False) -> tuple[Pmf, Pmf]:
    """The pair as its user would write it: (upper, lower), outcome to log probability."""
    others = USERS - 1
    truth = 1.0 / (1.0 + math.exp(-EPS0))  # the target's chance to send its own letter
    lie = 1.0 / (1.0 + math.exp(EPS0))
    rate = 2.0 * lie  # a decoy's chance not to be blank
    fewest, most = _cut_binomial(others, rate, 0.25 * PROBABILISTIC_DP)
    upper: Pmf = {"cut off": math.log(PROBABILISTIC_DP)}
    lower: Pmf = {}
    for c in range(fewest, most + 1):
        log_c = _log_choose(others, c) + c * math.log(rate) + (others - c) * math.log1p(-rate)
        log_c -= c * math.log(2.0)
        first, last = 0, c + 1
        if cut_twice:
            reach = math.sqrt(0.5 * c * math.log(4.0 / PROBABILISTIC_DP))
            first = max(first, math.floor(0.5 * c - reach))
            last = min(last, math.ceil(0.5 * c + reach) + 1)
        for a in range(first, last + 1):
            # the target sent letter 0, or it did not
            sent = math.exp(_log_choose(c, a - 1) + log_c) if a >= 1 else 0.0
            unsent = math.exp(_log_choose(c, a) + log_c) if a <= c else 0.0
            upper[c, a] = math.log(truth * sent + lie * unsent)
            lower[c, a] = math.log(lie * sent + truth * unsent)
    return upper, lower


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _cut_binomial(trials: int, rate: float, tail: float) -> tuple[int, int]:
    """Counts outside of which a binomial law has at most ``tail`` on each side, by Chernoff."""

    def exponent(count: int) -> float:
        share = count / trials
        gain = share * math.log(share / rate) if count > 0 else 0.0
        return trials * (gain + (1.0 - share) * (math.log1p(-share) - math.log1p(-rate)))

    fewest = most = round(trials * rate)
    while fewest > 0 and exponent(fewest - 1) < -math.log(tail):
        fewest -= 1
    while most < trials - 1 and exponent(most + 1) < -math.log(tail):
        most += 1
    return fewest, most


def deltas_on_grid(upper: Pmf, lower: Pmf) -> tuple[int, int, np.ndarray]:
    """First and last index of a grid that covers every finite loss, and delta at its points."""
    log_q = np.fromiter(lower.values(), float, len(lower))
    log_p = np.fromiter(map(upper.__getitem__, lower), float, len(lower))
    infinite = math.fsum(
        math.exp(value) for outcome, value in upper.items() if outcome not in lower
    )
    loss = log_p - log_q
    order = np.argsort(loss)
    loss = loss[order]
    above_p = np.append(np.cumsum(np.exp(log_p[order])[::-1])[::-1], 0.0)
    above_q = np.append(np.cumsum(np.exp(log_q[order])[::-1])[::-1], 0.0)
    first, last = math.floor(loss[0] / GRID), math.ceil(loss[-1] / GRID)
    epsilons = GRID * np.arange(first, last + 1)
    start = np.searchsorted(loss, epsilons, side="right")
    deltas = above_p[start] - np.exp(epsilons) * above_q[start] + infinite
    return first, last, np.clip(deltas, 0.0, 1.0)


def losses(upper: Pmf, lower: Pmf) -> tuple[np.ndarray, np.ndarray]:
    """Finite privacy losses ``log(upper/lower)``, ascending, and their masses under ``upper``."""
    log_q = np.fromiter(lower.values(), float, len(lower))
    log_p = np.fromiter(map(upper.__getitem__, lower), float, len(lower))
    order = np.argsort(log_p - log_q)
    return (log_p - log_q)[order], np.exp(log_p[order])
