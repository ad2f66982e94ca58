"""Random allocation of two-valued steps, transcript by transcript in exact arithmetic.

A step outputs 0 or 1, and its law may depend on the outputs before it. The record's steps are a
uniform k-subset; the others are null steps. Nothing here reads the package.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product

__all__ = ["History", "Laws", "divergences", "transcripts"]

History = tuple[int, ...]
# (probability of 1 with the record, probability of 1 without it) after a history
Laws = Callable[[History], tuple[Fraction, Fraction]]


def transcripts(
    laws: Laws, steps: int, selected: int, released: int
) -> tuple[list[Fraction], list[Fraction]]:
    """Probabilities of all transcripts of the released steps, with the record and without."""
    subsets = list(combinations(range(steps), selected))
    with_record, without = [], []
    for outputs in product((0, 1), repeat=released):
        present, null = [], Fraction(1)
        for i, output in enumerate(outputs):
            p, q = laws(outputs[:i])
            present.append((p, q) if output else (1 - p, 1 - q))
            null *= present[-1][1]
        total = Fraction(0)
        for subset in subsets:
            chance = Fraction(1)
            for i, (p, q) in enumerate(present):
                chance *= p if i in subset else q
            total += chance
        with_record.append(total / len(subsets))
        without.append(null)
    return with_record, without


def divergences(
    with_record: list[Fraction], without: list[Fraction], alpha: Fraction
) -> tuple[Fraction, Fraction]:
    """Hockey-stick divergences at alpha: record removed, and record added."""
    pairs = list(zip(with_record, without, strict=True))
    remove = sum((max(p - alpha * q, Fraction(0)) for p, q in pairs), Fraction(0))
    add = sum((max(q - alpha * p, Fraction(0)) for p, q in pairs), Fraction(0))
    return remove, add
