"""Rounds with dummy messages, listed message by message in rational arithmetic.

Users draw their dummies one by one: nothing here knows of counts' laws, of likelihood ratios or of
which categories matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product

Law = dict[tuple[int, ...], Fraction]


def histogram(messages: Iterable[int], categories: int) -> tuple[int, ...]:
    """How often each category was sent: what is left of messages in random order."""
    counts = Counter(messages)
    return tuple(counts[c] for c in range(categories))


def noise_bits(
    values: Sequence[int], categories: int, coins: Sequence[int], probability: Fraction
) -> Law:
    """Every user sends the value, and for each category a dummy for each of the user's coins.

    With one category users send a message where their bit is one.

    Args:
        values: one for each user.
        categories: number of values.
        coins: number of trials of each user, per category.
        probability: of a dummy.
    """
    law: Law = {}
    owners = [c for c in range(categories) for number in coins for _ in range(number)]
    own = [0] * sum(values) if categories == 1 else list(values)
    for flips in product((0, 1), repeat=len(owners)):
        chance = Fraction(1)
        for flip in flips:
            chance *= probability if flip else 1 - probability
        sent = own + [c for c, flip in zip(owners, flips, strict=True) if flip]
        seen = histogram(sent, categories)
        law[seen] = law.get(seen, Fraction(0)) + chance
    return law


def augmented(
    values: Sequence[int], categories: int, keep: Fraction, dummies: Sequence[Fraction]
) -> Law:
    """Every value is kept or dropped, and every category gets its dummies.

    Args:
        values: one for each user.
        categories: number of values.
        keep: probability that a message is kept.
        dummies: probabilities of 0, 1, … dummies.
    """
    law: Law = {}
    for kept in product((False, True), repeat=len(values)):
        chance = Fraction(1)
        for one in kept:
            chance *= keep if one else 1 - keep
        own = [value for value, one in zip(values, kept, strict=True) if one]
        for numbers in product(range(len(dummies)), repeat=categories):
            weight = chance
            for number in numbers:
                weight *= dummies[number]
            added = [c for c, number in enumerate(numbers) for _ in range(number)]
            seen = histogram(own + added, categories)
            law[seen] = law.get(seen, Fraction(0)) + weight
    return law


def worse_divergence(first: Law, second: Law, alpha: Fraction, rounds: int = 1) -> Fraction:
    """The larger hockey-stick divergence of both orders, of so many independent rounds."""
    seen = sorted({*first, *second})
    pairs = [(first.get(s, Fraction(0)), second.get(s, Fraction(0))) for s in seen]
    merged: Counter[tuple[Fraction, Fraction]] = Counter({(Fraction(1), Fraction(1)): 1})
    for _ in range(rounds):
        further: Counter[tuple[Fraction, Fraction]] = Counter()
        for (p, q), times in merged.items():
            for a, b in pairs:
                further[p * a, q * b] += times
        merged = further
    zero = Fraction(0)
    one = sum((n * max(p - alpha * q, zero) for (p, q), n in merged.items()), zero)
    other = sum((n * max(q - alpha * p, zero) for (p, q), n in merged.items()), zero)
    return max(one, other)


def binomial_law(trials: int, probability: Fraction) -> list[Fraction]:
    """Probabilities of 0 … trials successes, added up coin by coin."""
    law = [Fraction(1)]
    for _ in range(trials):
        law = [
            (law[i] if i < len(law) else 0) * (1 - probability)
            + (law[i - 1] if i > 0 else 0) * probability
            for i in range(len(law) + 1)
        ]
    return law
