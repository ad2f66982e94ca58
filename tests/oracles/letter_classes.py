"""Messages of a channel grouped by their likelihood ratios, in plain Python; checks of samples.

A message is a sequence of masses, one per input asked for and the blanket's last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

# Chance that one sampling test fails on correct code, were its seed drawn anew.
FALSE_ALARM = 1e-6

Groups = dict[tuple[float, ...], list[float]]


def grouped(messages: Iterable[Sequence[float]]) -> Groups:
    """Total masses per vector of ratios (their logarithms, relative to the largest mass)."""
    totals: dict[tuple[float, ...], list[Sequence[float]]] = {}
    for masses in messages:
        largest = max(masses)
        if largest > 0.0:
            key = tuple(_log_ratio(mass, largest) for mass in masses)
            totals.setdefault(key, []).append(masses)
    return {key: [math.fsum(m) for m in zip(*rows, strict=True)] for key, rows in totals.items()}


def _log_ratio(mass: float, largest: float) -> float:
    return round(math.log(mass / largest), 8) + 0.0 if mass > 0.0 else -math.inf


def listed(columns: Iterable[Sequence[float]], inputs: Sequence[int]) -> Groups:
    """The same for a channel given by its columns; the blanket is a column's smallest entry."""
    return grouped([*(column[x] for x in inputs), min(column)] for column in columns)


def same(left: Groups, right: Groups) -> bool:
    """Whether two groupings have the same ratios and masses.

    Masses of these small channels are sums of at most a few hundred products of a few factors.
    """
    return left.keys() == right.keys() and all(
        left[key] == pytest.approx(right[key], rel=1e-12) for key in left
    )


def some_inputs(count: int) -> list[tuple[int, ...]]:
    """All pairs and triples of inputs, equal ones included."""
    return [chosen for size in (2, 3) for chosen in product(range(count), repeat=size)]


def check_frequencies(
    counts: NDArray[np.int64], chances: NDArray[np.float64], comparisons: int
) -> None:
    """Bernstein's inequality for each count, the false alarms shared among all comparisons."""
    trials = counts.sum()
    log_chance = math.log(2 * comparisons / FALSE_ALARM)
    deviation = np.sqrt(2 * trials * chances * (1 - chances) * log_chance) + log_chance * 2 / 3
    assert np.all(np.abs(counts - trials * chances) <= deviation)
    assert np.all(counts[chances == 0.0] == 0)


def check_distribution(sample: NDArray[np.float64], cdf: NDArray[np.float64]) -> None:
    """The Dvoretzky-Kiefer-Wolfowitz inequality (Massart's constant).

    Args:
        sample: independent draws, sorted.
        cdf: the distribution function at these.
    """
    count = sample.size
    gap = np.abs(cdf - (np.arange(count) + 0.5) / count).max() + 0.5 / count
    assert gap <= math.sqrt(math.log(2 / FALSE_ALARM) / (2 * count))
