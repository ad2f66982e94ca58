"""The real protocol of small crowds, by enumeration in fractions: nothing is reduced.

Every user has a channel of its own. A dataset's output is the law of the multiset of messages; with
users that the adversary knows, of the others' multiset; with random participation, of the multiset
of those who take part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

Row = Sequence[Fraction]
Matrix = Sequence[Row]
Bags = dict[tuple[int, ...], Fraction]


def bags(rows: Sequence[Row]) -> Bags:
    """Law of the multiset (counts of the messages) of users with these laws."""
    size = len(rows[0]) if rows else 0
    found: Bags = {(0,) * size: Fraction(1)}
    for row in rows:
        after: Bags = {}
        for counts, mass in found.items():
            for message, chance in enumerate(row):
                if chance:
                    key = (*counts[:message], counts[message] + 1, *counts[message + 1 :])
                    after[key] = after.get(key, Fraction(0)) + mass * chance
        found = after
    return found


def hockey_stick(p: Bags, q: Bags, alpha: Fraction) -> Fraction:
    return sum(
        (max(mass - alpha * q.get(key, Fraction(0)), Fraction(0)) for key, mass in p.items()),
        Fraction(0),
    )


def honest_crowds(channels: Sequence[Matrix], colluding: int) -> Iterator[list[Matrix]]:
    """The others who are left after so many of them are known, whoever these are."""
    if colluding == 0:
        yield list(channels)
        return
    for i in range(len(channels)):
        yield from honest_crowds([*channels[:i], *channels[i + 1 :]], colluding - 1)


def replaced(target: Matrix, others: Sequence[Matrix], colluding: int, alpha: Fraction) -> Fraction:
    """Largest divergence over all datasets, pairs of the target's values, and colluders."""
    worst = Fraction(0)
    for crowd in honest_crowds(others, colluding):
        for held in product(*(range(len(channel)) for channel in crowd)):
            rows = [channel[x] for channel, x in zip(crowd, held, strict=True)]
            laws = [bags([own, *rows]) for own in target]
            for p, q in product(laws, repeat=2):
                worst = max(worst, hockey_stick(p, q, alpha))
    return worst


def nulled(channel: Matrix, null: Row, users: int, alpha: Fraction) -> Fraction:
    """Largest divergence, both orders, of one value against the null record, over all datasets."""
    worst = Fraction(0)
    every = [*channel, null]
    for held in product(range(len(every)), repeat=users - 1):
        rows = [every[x] for x in held]
        without = bags([null, *rows])
        for own in channel:
            p = bags([own, *rows])
            worst = max(worst, hockey_stick(p, without, alpha), hockey_stick(without, p, alpha))
    return worst


def taking_part(channel: Matrix, people: int, chance: Fraction, alpha: Fraction) -> Fraction:
    """Largest divergence over datasets if each of the people takes part with that chance."""
    worst = Fraction(0)
    for held in product(range(len(channel)), repeat=people - 1):
        laws = []
        for own in range(len(channel)):
            law: Bags = {}
            for present in product((False, True), repeat=people):
                values = [x for x, here in zip((own, *held), present, strict=True) if here]
                mass = Fraction(1)
                for here in present:
                    mass *= chance if here else 1 - chance
                for key, part in bags([channel[x] for x in values]).items():
                    law[key] = law.get(key, Fraction(0)) + mass * part
            laws.append(law)
        for p, q in product(laws, repeat=2):
            worst = max(worst, hockey_stick(p, q, alpha))
    return worst
