"""Exact laws of what is seen where people send more than a message or a shuffler hides less.

Each law lists every outcome, in fractions. A dataset is the input of each user, or of each message,
a row of the channel; the first one is the target's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from math import comb, factorial, prod
from typing import Any

from oracles.enumeration import Row, shuffled_output

Law = Counter[Any]


def sequences(channel: Sequence[Row], dataset: Sequence[int]) -> Iterator[tuple[Any, Fraction]]:
    """What all say, in the order of the users, and how likely it is."""
    letters = range(len(channel[0]))
    for said in product(letters, repeat=len(dataset)):
        chances = (channel[value][letter] for value, letter in zip(dataset, said, strict=True))
        yield said, prod(chances, start=Fraction(1))


def exposed(
    channel: Sequence[Row], dataset: Sequence[int], exposure: Fraction, everyone: bool
) -> Law:
    """Whose message is recognised, what it says, and the bag of the others."""
    seen: Law = Counter()
    users = len(dataset) if everyone else 1
    for said, chance in sequences(channel, dataset):
        for caught in product((False, True), repeat=users):
            both = prod((exposure if one else 1 - exposure for one in caught), start=chance)
            shown = tuple((i, said[i]) for i in range(users) if caught[i])
            hidden = [said[i] for i in range(len(said)) if i >= users or not caught[i]]
            seen[shown, tuple(sorted(hidden))] += both
    return seen


def in_places(
    channel: Sequence[Row], dataset: Sequence[int], weights: Sequence[Fraction], colluding: int
) -> Law:
    """The messages by place, and the places of the last users, who collude.

    The target's place has the law of the weights; given that, the others are arranged uniformly.
    """
    users = len(dataset)
    seen: Law = Counter()
    for order in permutations(range(users)):  # the user in each place
        arranged = weights[order.index(0)] / factorial(users - 1)
        known = tuple(order.index(one) for one in range(users - colluding, users))
        for said, chance in sequences(channel, dataset):
            seen[known, tuple(said[i] for i in order)] += arranged * chance
    return seen


def in_batches(
    channel: Sequence[Row], dataset: Sequence[int], sizes: Sequence[int], random: bool
) -> Law:
    """Who is in which batch, and the bag of each; if not at random, in the order of the users."""
    users = len(dataset)
    orders = list(permutations(range(users))) if random else [tuple(range(users))]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    seen: Law = Counter()
    for order in orders:
        batches = [
            tuple(sorted(order[at : at + size])) for at, size in zip(starts, sizes, strict=True)
        ]
        laws = [shuffled_output(channel, [dataset[i] for i in batch]) for batch in batches]
        for bags in product(*(law.items() for law in laws)):
            chance = prod((mass for _, mass in bags), start=Fraction(1, len(orders)))
            seen[tuple(batches), tuple(bag for bag, _ in bags)] += chance
    return seen


def memoised(
    permanent: Sequence[Row], copies: Sequence[Row], dataset: Sequence[int], rounds: int
) -> Law:
    """The bag of every round, of copies of the answers that users keep."""
    seen: Law = Counter()
    for kept, chance in sequences(permanent, dataset):
        single = shuffled_output(copies, kept)
        for bags in product(single, repeat=rounds):
            seen[bags] += prod((single[bag] for bag in bags), start=chance)
    return seen


def released(users: int, probability: Fraction, threshold: int) -> Law:
    """The count of those who report, 0 below a threshold."""
    seen: Law = Counter()
    for count in range(users + 1):
        chance = comb(users, count) * probability**count * (1 - probability) ** (users - count)
        seen[count if count >= threshold else 0] += chance
    return seen
