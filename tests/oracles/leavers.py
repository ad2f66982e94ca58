"""Leavers of a set of slots: by listing permutations, slot by slot, and by moved points.

Nothing here is shared with the package. Arithmetic is that of q: exact for a `Fraction`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import permutations
from typing import Any


def inversions(s: tuple[int, ...]) -> int:
    return sum(s[i] > s[j] for i in range(len(s)) for j in range(i + 1, len(s)))


def moved(s: tuple[int, ...]) -> int:
    return sum(value != i for i, value in enumerate(s))


def cycles_missing(s: tuple[int, ...]) -> int:
    """Cayley's distance from the identity."""
    seen: set[int] = set()
    count = 0
    for i in range(len(s)):
        count += i not in seen
        while i not in seen:
            seen.add(i)
            i = s[i]
    return len(s) - count


DISTANCES = {"kendall": inversions, "hamming": moved, "cayley": cycles_missing}


@cache
def law(n: int, slots: frozenset[int], q: Any, distance: str) -> tuple[Any, ...]:
    """Pr[j leavers], j = 0 … n, when a permutation has weight q to the power of its distance."""
    masses: list[Any] = [0] * (n + 1)
    for s in permutations(range(n)):
        masses[sum(s[i] not in slots for i in slots)] += q ** DISTANCES[distance](s)
    total = sum(masses)
    return tuple(mass / total for mass in masses)


def kendall_by_slots(n: int, start: int, size: int, q: Any) -> list[Any]:
    """Pr[j leavers] of an interval: every slot takes the c-th smallest value left, c ~ q^c.

    All that counts of the past is how many values of each of the three blocks are left.
    """
    states: dict[tuple[int, int, int], Any] = {(start, size, n - start - size): q**0}
    leavers: dict[tuple[tuple[int, int, int], int], Any] = {(s, 0): p for s, p in states.items()}
    for slot in range(n):
        inside = start <= slot < start + size
        weights = [q**c for c in range(n - slot)]
        total = sum(weights)
        after: dict[tuple[tuple[int, int, int], int], Any] = {}
        for (left, j), mass in leavers.items():
            first = 0
            for block in range(3):
                chance = sum(weights[first : first + left[block]])
                first += left[block]
                if left[block]:
                    rest = list(left)
                    rest[block] -= 1
                    key = (rest[0], rest[1], rest[2]), j + (inside and block != 1)
                    after[key] = after.get(key, 0) + mass * chance / total
        leavers = after
    return [sum(mass for (_, j), mass in leavers.items() if j == k) for k in range(n + 1)]


def arrangements(p: int, m: int) -> int:
    """Orders of p + m values in which p of them avoid one place each (the paper's f)."""
    return sum((-1) ** t * math.comb(p, t) * math.factorial(p + m - t) for t in range(p + 1))


def moving(n: int, size: int, leavers: int, h: int) -> int:
    """Permutations with h moved points and at least so many leavers, mended from theorem A.4."""
    count = 0
    for j in range(leavers, min(size, n - size, h // 2) + 1):
        ways = 0
        for i in range(h - 2 * j + 1):
            if i <= size - j and h - 2 * j - i <= n - size - j:
                ways += (
                    math.comb(size - j, i)
                    * arrangements(i, j)
                    * math.comb(n - size - j, h - 2 * j - i)
                    * arrangements(h - 2 * j - i, j)
                )
        count += math.comb(size, j) * math.comb(n - size, j) * ways
    return count


def hamming_by_moved_points(n: int, size: int, leavers: int, q: Fraction) -> Fraction:
    """Pr[at least so many leavers] as the sum over the number h of moved points."""
    bad = sum(moving(n, size, leavers, h) * q**h for h in range(n + 1))
    whole = sum(math.comb(n, h) * arrangements(h, 0) * q**h for h in range(n + 1))
    return bad / whole
