"""Re-identification from its definition: words, positions and Bayes' rule, term by term.

Works in whatever arithmetic the probabilities come in, exactly so in ``fractions.Fraction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product
from math import comb, factorial
from typing import Any

from oracles.precision import MP, Real, exact

Row = Sequence[Any]


def success(p: Row, q: Row, users: int, guesses: int = 1) -> Any:
    """One message from p, the others from q: the best k positions of every word, added up."""
    total: Any = 0
    for word in product(range(len(p)), repeat=users):
        joint = []
        for place in range(users):
            mass = p[word[place]]
            for other, letter in enumerate(word):
                if other != place:
                    mass = mass * q[letter]
            joint.append(mass / users)
        total += sum(sorted(joint, reverse=True)[:guesses])
    return total


def dataset_success(rows: Sequence[Row], guesses: int = 1) -> Any:
    """The same for messages of different laws, the target's first, by all orders of the users."""
    users = len(rows)
    orders = list(permutations(range(users)))
    total: Any = 0
    for word in product(range(len(rows[0])), repeat=users):
        joint: list[Any] = [0] * users
        for order in orders:
            mass: Any = 1
            for place, user in enumerate(order):
                mass = mass * rows[user][word[place]]
            joint[order.index(0)] += mass
        total += sum(sorted(joint, reverse=True)[:guesses])
    return total / len(orders)


def tie_formula(p: Row, q: Row, users: int, guesses: int = 1) -> Any:
    """By ranks: with A decoys above the target's class and B in it, (k - A)/(B + 1) is the chance.

    ``sum_j f_j sum_(A<k) sum_B multinomial(n-1; A, B, C) h_j^A g_j^B l_j^C min(1, (k-A)/(B+1))``.
    """
    others = users - 1
    total: Any = sum(a for a, b in zip(p, q, strict=True) if b == 0)
    pairs = [(a, b) for a, b in zip(p, q, strict=True) if b != 0]
    ratios = sorted({a / b for a, b in pairs})
    for ratio in ratios:
        own = sum(a for a, b in pairs if a / b == ratio)
        tied = sum(b for a, b in pairs if a / b == ratio)
        above = sum(b for a, b in pairs if a / b > ratio)
        below = sum(b for a, b in pairs if a / b < ratio)
        for a in range(min(guesses, others + 1)):
            for b in range(others - a + 1):
                ways = comb(others, a) * comb(others - a, b)
                share = min(tied * 0 + 1, (tied * 0 + guesses - a) / (b + 1))
                total += own * ways * above**a * tied**b * below ** (others - a - b) * share
    return total


def hits(users: int, chance: float, guesses: int) -> Real:
    """``E min(k, Bin(n, q))`` in 200 digits, by the masses below k."""
    with MP.workdps(200):
        q = exact(chance)
        mass, total = (1 - q) ** users, exact(0)
        for j in range(min(guesses, users + 1)):
            total += (guesses - j) * mass
            mass = mass * (users - j) / (j + 1) * q / (1 - q)
        return guesses - total


def layered(p: Row, q: Row, users: int, guesses: int = 1) -> Real:
    """The layer integral in 200 digits, over the distinct ratios of laws given as doubles."""
    with MP.workdps(200):
        top = [exact(a) / sum(map(exact, p)) for a in p]
        low = [exact(b) / sum(map(exact, q)) for b in q]
        total = sum((a for a, b in zip(top, low, strict=True) if b == 0), exact(0))
        letters = sorted((a / b, b) for a, b in zip(top, low, strict=True) if b != 0)
        before = exact(0)
        for i, (ratio, _) in enumerate(letters):
            above = min(sum((b for _, b in letters[i:]), exact(0)), exact(1))
            if ratio > before:
                full = above == 1
                value = exact(min(users, guesses)) if full else _hits(users, above, guesses)
                total += (ratio - before) * value / users
            before = ratio
        return total


def _hits(users: int, q: Real, guesses: int) -> Real:
    mass, total = (1 - q) ** users, exact(0)
    for j in range(min(guesses, users + 1)):
        total += (guesses - j) * mass
        mass = mass * (users - j) / (j + 1) * q / (1 - q)
    return guesses - total


def thinned(p: Row, common: Row, users: int, guesses: int = 1) -> Any:
    """Psi as its theorem has it: a binomial number of decoys, each drawn from the common law."""
    gamma = sum(common)
    total: Any = 0
    for decoys in range(users):
        chance = comb(users - 1, decoys) * gamma**decoys * (1 - gamma) ** (users - 1 - decoys)
        if decoys + 1 <= guesses:
            total += chance
        else:
            law = [mass / gamma for mass in common]
            total += chance * tie_formula(p, law, decoys + 1, guesses)
    return total


def beta_limit(users: int, exponent: float, guesses: int) -> Real:
    """Zipf's law among infinitely many letters: the sum of Beta functions, in 50 digits."""
    a = exact(exponent)
    return sum(
        (1 - a)
        * exact(factorial(users - 1))
        / factorial(j - 1)
        / factorial(users - j)
        * MP.beta(j - a, users + 1 - j)
        for j in range(1, guesses + 1)
    )
