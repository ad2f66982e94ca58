"""Channels on datasets as dictionaries of fractions, from their definitions.

Datasets are tuples of values, histograms tuples of counts. A channel maps each input to a
dictionary from outputs to probabilities.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction

Dataset = tuple[int, ...]
Channel = dict[Hashable, dict[Hashable, Fraction]]


def datasets(users: int, values: int) -> list[Dataset]:
    return list(itertools.product(range(values), repeat=users))


def histogram(dataset: Dataset, values: int) -> tuple[int, ...]:
    counts = Counter(dataset)
    return tuple(counts[value] for value in range(values))


def krr(values: int, p: Fraction) -> list[list[Fraction]]:
    lie = (1 - p) / (values - 1)
    return [[p if x == y else lie for y in range(values)] for x in range(values)]


def local(channel: Sequence[Sequence[Fraction]], users: int) -> Channel:
    """N: users send messages independently."""
    inputs, messages = len(channel), len(channel[0])
    return {
        x: {
            y: math.prod((channel[a][b] for a, b in zip(x, y, strict=True)), start=Fraction(1))
            for y in datasets(users, messages)
        }
        for x in datasets(users, inputs)
    }


def shuffle(users: int, values: int) -> Channel:
    """S: the mean over all permutations of the users, one after another."""
    orders = list(itertools.permutations(range(users)))
    result: Channel = {}
    for x in datasets(users, values):
        row: dict[Hashable, Fraction] = {y: Fraction(0) for y in datasets(users, values)}
        for order in orders:
            row[tuple(x[i] for i in order)] += Fraction(1, len(orders))
        result[x] = row
    return result


def reduced_shuffle(users: int, values: int) -> Channel:
    """Sr: the histogram."""
    return {x: {histogram(x, values): Fraction(1)} for x in datasets(users, values)}


def reduced_local(channel: Sequence[Sequence[Fraction]], users: int) -> Channel:
    """Nr: the mean over all datasets of a histogram of the law of the messages' histogram."""
    inputs, messages = len(channel), len(channel[0])
    full = local(channel, users)
    members: dict[Hashable, list[Dataset]] = {}
    for x in datasets(users, inputs):
        members.setdefault(histogram(x, inputs), []).append(x)
    result: Channel = {}
    for z, rows in members.items():
        law: dict[Hashable, Fraction] = {}
        for x in rows:
            for y, probability in full[x].items():
                seen = histogram(y, messages)  # type: ignore[arg-type]
                law[seen] = law.get(seen, Fraction(0)) + probability / len(rows)
        result[z] = law
    return result


def cascade(first: Channel, second: Channel) -> Channel:
    result: Channel = {}
    for x, row in first.items():
        law: dict[Hashable, Fraction] = {}
        for y, probability in row.items():
            for z, further in second[y].items():
                law[z] = law.get(z, Fraction(0)) + probability * further
        result[x] = law
    return result


def target_vulnerability(
    channel: Channel, prior: Callable[[Dataset], Fraction], values: int
) -> Fraction:
    """Chance to guess the first user's value from an output of a channel on datasets."""
    joint: dict[Hashable, list[Fraction]] = {}
    for x, row in channel.items():
        assert isinstance(x, tuple)
        for y, probability in row.items():
            joint.setdefault(y, [Fraction(0)] * values)[x[0]] += prior(x) * probability
    return sum((max(gains) for gains in joint.values()), Fraction(0))


def independent(theta: Sequence[Fraction]) -> Callable[[Dataset], Fraction]:
    """The prior of users who draw their values from one law."""
    return lambda x: math.prod((theta[value] for value in x), start=Fraction(1))


def posteriors(channel: Channel) -> Mapping[tuple[Fraction, ...], Fraction]:
    """The canonical form: columns over their sums, with the sums, proportional ones together."""
    columns: dict[Hashable, list[Fraction]] = {}
    for i, row in enumerate(channel.values()):
        for y, probability in row.items():
            columns.setdefault(y, [Fraction(0)] * len(channel))[i] += probability
    result: dict[tuple[Fraction, ...], Fraction] = {}
    for column in columns.values():
        total = sum(column, Fraction(0))
        if total:
            shape = tuple(entry / total for entry in column)
            result[shape] = result.get(shape, Fraction(0)) + total
    return result
