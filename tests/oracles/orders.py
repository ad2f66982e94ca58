"""Permutations, their distances and shuffles of up to six users, by the definitions.

Everything is a tuple of plain integers and a loop over all permutations; probabilities are in 50
digits. A distance is that between a permutation and the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, permutations

from .precision import MP, Real, exact

Order = tuple[int, ...]


def kendall(s: Sequence[int]) -> int:
    return sum(s[i] > s[j] for i, j in combinations(range(len(s)), 2))


def hamming(s: Sequence[int]) -> int:
    return sum(value != place for place, value in enumerate(s))


def cayley(s: Sequence[int]) -> int:
    """Transpositions are done one at a time until nothing is out of place."""
    row, count = list(s), 0
    for place in range(len(row)):
        while row[place] != place:
            there = row[place]
            row[place], row[there] = row[there], row[place]
            count += 1
    return count


def footrule(s: Sequence[int]) -> int:
    return sum(abs(value - place) for place, value in enumerate(s))


def spearman(s: Sequence[int]) -> int:
    return sum((value - place) ** 2 for place, value in enumerate(s))


def ulam(s: Sequence[int]) -> int:
    """n less the longest increasing subsequence, by the quadratic recursion."""
    longest: list[int] = []
    for place, value in enumerate(s):
        longest.append(1 + max((longest[k] for k in range(place) if s[k] < value), default=0))
    return len(s) - max(longest)


DISTANCES: dict[str, Callable[[Sequence[int]], int]] = {
    "kendall": kendall,
    "hamming": hamming,
    "cayley": cayley,
    "footrule": footrule,
    "spearman": spearman,
    "ulam": ulam,
}


def mallows(n: int, theta: float, distance: str) -> dict[Order, Real]:
    """The law with mass proportional to e^(-theta d), over all permutations."""
    measure = DISTANCES[distance]
    mass = {s: MP.exp(-exact(theta) * measure(s)) for s in permutations(range(n))}
    total = sum(mass.values())
    return {s: weight / total for s, weight in mass.items()}


def log_normaliser(n: int, theta: float, distance: str) -> Real:
    measure = DISTANCES[distance]
    return MP.log(sum(MP.exp(-exact(theta) * measure(s)) for s in permutations(range(n))))


def within_group(s: Sequence[int], group: Sequence[int]) -> Iterable[Order]:
    """All of what permuting the values of the group's members makes of an output."""
    for image in permutations(group):
        change = dict(zip(group, image, strict=True))
        yield tuple(change.get(value, value) for value in s)


def sensitivity(sigma0: Sequence[int], groups: Iterable[Sequence[int]], distance: str) -> int:
    """Largest difference of distances between outputs that a group's permutation joins.

    An output s of the mechanism comes from the draw rho with s[sigma0[k]] = sigma0[rho[k]].
    """
    n, measure = len(sigma0), DISTANCES[distance]
    rank = {user: k for k, user in enumerate(sigma0)}

    def drawn(s: Order) -> int:
        return measure([rank[s[user]] for user in sigma0])

    value = {s: drawn(s) for s in permutations(range(n))}
    return max(
        abs(value[s] - value[other])
        for group in groups
        for s in value
        for other in within_group(s, group)
    )


def output_law(
    sigma0: Sequence[int], theta: float, distance: str, y: Sequence[object]
) -> dict[tuple[object, ...], Real]:
    """Law of the released data z[sigma0[k]] = y[sigma0[rho[k]]], rho around the identity."""
    law: dict[tuple[object, ...], Real] = {}
    for rho, mass in mallows(len(sigma0), theta, distance).items():
        z = [y[0]] * len(sigma0)
        for k, user in enumerate(sigma0):
            z[user] = y[sigma0[rho[k]]]
        law[tuple(z)] = law.get(tuple(z), exact(0)) + mass
    return law


def alpha(
    sigma0: Sequence[int],
    groups: Iterable[Sequence[int]],
    theta: float,
    distance: str,
    y: Sequence[object],
) -> Real:
    """Largest log ratio of an output's probabilities between data that a group's members permute.

    Compared are the data as they are and as permuted; over all starting orders of distinct values
    that covers all neighbours.
    """
    base = output_law(sigma0, theta, distance, y)
    worst = exact(0)
    for group in groups:
        for image in permutations(group):
            other = list(y)
            for user, source in zip(group, image, strict=True):
                other[user] = y[source]
            law = output_law(sigma0, theta, distance, other)
            for z in base:
                worst = max(worst, abs(MP.log(base[z] / law[z])))
    return worst
