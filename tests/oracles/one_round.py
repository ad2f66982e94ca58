"""One round of clones for thousands of users, as a sum over the number of speaking decoys.

Given that C = c decoys speak, m = c+1 messages are seen and a of them are 0. With
P(c, a) ~ u binom(c, a-1) + v binom(c, a) the event P > alpha Q is a > t m, where
t = (alpha u - v) / ((u - v)(1 + alpha)), hence with a* = floor(t m) + 1 and the fair-coin tail
S(j) = 2^-c sum_{i >= j} binom(c, i)

    delta(eps | c) = (u - alpha v) S(a* - 1) - (alpha u - v) S(a*),
    delta(eps)     = sum_c Bin(c; n-1, r) delta(eps | c).

The tails are exact integers, so relative accuracy holds for values as small as 1e-300.
"""

from __future__ import annotations

from math import comb

from .clones import letters
from .precision import MP, Real, exact

LEFT_OUT = exact("1e-40")
"""The sum stops when what is left is below this fraction of it (far below every tolerance)."""


def coin_tail(tosses: int, at_least: int) -> int:
    """2^tosses times the chance that ``tosses`` fair coins show ``at_least`` heads or more."""
    if at_least <= 0:
        return 1 << tosses
    if at_least > tosses:
        return 0
    term = comb(tosses, at_least)
    total = term
    for heads in range(at_least, tosses):
        term = term * (tosses - heads) // (heads + 1)  # exact: binom(tosses, heads + 1)
        total += term
    return total


def delta_given_clones(eps0: float, clones: int, epsilon: float | Real) -> Real:
    """delta(epsilon), epsilon >= 0, when exactly ``clones`` decoys speak."""
    u, v, _ = letters(eps0)
    alpha = MP.exp(exact(epsilon))
    gain, loss = u - alpha * v, alpha * u - v
    if gain <= 0:
        return exact(0)
    threshold = loss * (clones + 1) / ((u - v) * (1 + alpha))
    first = int(MP.floor(threshold)) + 1
    tail = coin_tail(clones, first)
    head = tail + (comb(clones, first - 1) if first >= 1 else 0)
    return (gain * head - loss * tail) / exact(2) ** clones


def delta(eps0: float, users: int, epsilon: float, interactive: bool = False) -> Real:
    """delta(epsilon) of one round, to about 40 digits.

    The given-c value decreases in c, so past the mode the terms fall faster than the binomial
    masses; the sum stops when a geometric bound on the rest is below ``LEFT_OUT`` of it.

    Args:
        eps0: local privacy parameter, > 0.
        users: number of messages n; cost grows like (number of speaking decoys)^2.
        epsilon: privacy parameter, >= 0.
        interactive: use the decoys of the sequential case.

    Returns:
        The exact hockey-stick divergence of the clones pair at e^epsilon.
    """
    r = letters(eps0, interactive)[2]
    others = users - 1
    mass = (1 - r) ** others
    total = exact(0)
    for c in range(users):
        total += mass * delta_given_clones(eps0, c, epsilon)
        ratio = exact(others - c) / (c + 1) * r / (1 - r)
        mass *= ratio
        if ratio < 1:
            rest = mass / (1 - ratio) * delta_given_clones(eps0, c + 1, epsilon)
            if rest <= LEFT_OUT * total:
                break
    return total
