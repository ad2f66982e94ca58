"""Mutual information of shuffled messages by listing every outcome, in 50 digits.

Nothing here knows of likelihood ratios: joint laws are listed and ``I = sum p log(p / (a b))`` is
summed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import permutations, product
from typing import Any

from oracles.enumeration import shuffled_law, with_message
from oracles.precision import MP, Real, exact

Joint = Mapping[tuple[Hashable, Hashable], Any]


def normalised(law: Sequence[float]) -> list[Real]:
    """The law that floats stand for, once divided by their sum."""
    masses = [exact(float(value)) for value in law]
    total = sum(masses)
    return [mass / total for mass in masses]


def information(joint: Joint) -> Real:
    """Mutual information of the two coordinates, nats."""
    rows: dict[Hashable, Any] = defaultdict(lambda: MP.mpf(0))
    columns: dict[Hashable, Any] = defaultdict(lambda: MP.mpf(0))
    for (a, b), mass in joint.items():
        rows[a] += mass
        columns[b] += mass
    return sum(
        (
            mass * MP.log(mass / (rows[a] * columns[b]))
            for (a, b), mass in joint.items()
            if mass > 0
        ),
        MP.mpf(0),
    )


def position(laws: Sequence[Sequence[float]]) -> Real:
    """``I(K; Z)``: user i has ``laws[i]``, K is the place of user 0, all n! orders are listed."""
    users, letters = [normalised(law) for law in laws], range(len(laws[0]))
    joint: dict[Any, Any] = defaultdict(lambda: MP.mpf(0))
    orders = math.factorial(len(users))
    for order in permutations(range(len(users))):
        for z in product(letters, repeat=len(users)):
            mass = MP.mpf(1) / orders
            for user, letter in zip(order, z, strict=True):
                mass *= users[user][letter]
            joint[order.index(0), z] += mass
    return information(joint)


def message(laws: Sequence[Sequence[float]]) -> Real:
    """``I(Y1; Z)``: Y1 the message of user 0, Z the histogram of all."""
    users = [normalised(law) for law in laws]
    identity = [[MP.mpf(int(i == j)) for j in range(len(users[0]))] for i in range(len(users[0]))]
    return _signal(users[0], identity, users[1:])


def signal(
    prior: Sequence[float],
    rows: Sequence[Sequence[float]],
    others: Sequence[Sequence[float]],
) -> Real:
    """``I(X; Z)``: X of the prior sends a message of ``rows[x]``, ``others`` are independent."""
    return _signal(normalised(prior), [normalised(row) for row in rows], [*map(normalised, others)])


def _signal(prior: Sequence[Real], rows: Sequence[Sequence[Real]], others: Any) -> Real:
    crowd = shuffled_law(others) if others else {(0,) * len(rows[0]): MP.mpf(1)}
    return information(
        {
            (x, histogram): weight * mass
            for x, weight in enumerate(prior)
            if weight > 0
            for histogram, mass in with_message(crowd, rows[x]).items()
        }
    )


def shuffled_divergence(p: Sequence[float], q: Sequence[float], users: int, digits: int) -> Real:
    """``D(law of Z ‖ Q^n)`` over two letters, by the number of messages that are letter 1."""
    with MP.workdps(digits):
        (p0, p1), (q0, q1) = normalised(p), normalised(q)
        total = MP.mpf(0)
        for k in range(users + 1):
            mass = MP.binomial(users, k) * q1**k * q0 ** (users - k)
            ratio = (k * p1 / q1 + (users - k) * p0 / q0) / users
            if mass > 0 and ratio > 0:
                total += mass * ratio * MP.log(ratio)
        return total


def integrand(p: Sequence[float], q: Sequence[float], users: int, v: float, digits: int) -> Real:
    """``e^-s - E_Q[e^-uw]^(n-1) E_P[e^-uw]`` at s = e^v, u = s/n."""
    with MP.workdps(digits):
        target, decoys = normalised(p), normalised(q)
        s = MP.exp(exact(v))
        powers = [MP.exp(-s / users * a / b) for a, b in zip(target, decoys, strict=True)]
        of_q = sum(b * x for b, x in zip(decoys, powers, strict=True))
        of_p = sum(a * x for a, x in zip(target, powers, strict=True))
        return MP.exp(-s) - of_q ** (users - 1) * of_p
