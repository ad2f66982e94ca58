"""Exact laws of shuffled messages for small finite protocols, by listing every outcome.

A shuffler reveals the multiset of the messages, that is the histogram of letters. Everything here
is a plain sum over histograms (or, for the density lemma, over message sequences) and works in
whatever arithmetic the probabilities come in: ``float``, ``fractions.Fraction`` or mpmath.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

Row = Sequence[Any]
"""Probabilities of the letters 0, 1, 2, ... of one message."""

Histogram = tuple[int, ...]
Law = dict[Histogram, Any]


def shuffled_law(rows: Sequence[Row]) -> Law:
    """The law of the histogram of independent messages, the i-th drawn from ``rows[i]``.

    Args:
        rows: one probability vector per message, all over the same letters.

    Returns:
        Histogram of letters -> probability, listing reachable histograms only.
    """
    law: Law = {(0,) * len(rows[0]): 1}
    for row in rows:
        law = with_message(law, row)
    return law


def with_message(crowd: Mapping[Histogram, Any], row: Row) -> Law:
    """The law of the histogram with one more message, drawn from ``row``."""
    law: Law = {}
    for histogram, mass in crowd.items():
        for letter, probability in enumerate(row):
            if probability:
                seen = (*histogram[:letter], histogram[letter] + 1, *histogram[letter + 1 :])
                law[seen] = law.get(seen, 0) + mass * probability
    return law


def shuffled_output(channel: Sequence[Row], dataset: Sequence[int]) -> Law:
    """What the analyst sees when user i holds input ``dataset[i]`` and answers through ``channel``.

    Args:
        channel: rows are inputs, columns are letters.
        dataset: the input of each user; the order does not matter to the result.

    Returns:
        The law of the shuffled multiset.
    """
    return shuffled_law([channel[value] for value in dataset])


def subsampled_output(channel: Sequence[Row], dataset: Sequence[int], users: int) -> Law:
    """As ``shuffled_output``, when a uniformly random ``users`` of the dataset answer.

    Args:
        channel: rows are inputs, columns are letters.
        dataset: the input of every member of the population.
        users: how many of them are drawn, without replacement, unknown to the analyst.

    Returns:
        The average of the laws of all subsets of that size.
    """
    chosen = list(combinations(range(len(dataset)), users))
    law: Law = {}
    for subset in chosen:
        for histogram, mass in shuffled_output(channel, [dataset[i] for i in subset]).items():
            law[histogram] = law.get(histogram, 0) + mass / len(chosen)
    return law


def hockey_stick(p: Mapping[Histogram, Any], q: Mapping[Histogram, Any], alpha: Any) -> Any:
    """H_alpha(P || Q) = sum over outcomes of max(P - alpha Q, 0), for any alpha >= 0."""
    excess: Any = 0
    for outcome, mass in p.items():
        excess += max(mass - alpha * q.get(outcome, 0), 0)
    return excess


def target_among_decoys(p0: Row, p1: Row, q: Row, users: int) -> tuple[Law, Law]:
    """The exact pair of TargetAmongDecoys(p0, p1, q, users).

    Args:
        p0: law of the target's message under the first dataset.
        p1: law of the target's message under the second dataset.
        q: law of each of the ``users - 1`` decoys.
        users: number of messages, the target's included.

    Returns:
        Laws of the shuffled multiset under the first and under the second dataset.
    """
    decoys = [q] * (users - 1)
    return shuffled_law([p0, *decoys]), shuffled_law([p1, *decoys])


def density_lemma(p0: Row, p1: Row, q: Row, users: int, alpha: Any) -> Any:
    """E over y ~ q^n of max(mean of l_alpha(y_i), 0), with l_alpha = (p0 - alpha p1) / q.

    This is the right-hand side of the density lemma, summed over all message *sequences*; the left
    side is ``hockey_stick(*target_among_decoys(...), alpha)``. Letters need q > 0.

    Args:
        p0: law of the target's message under the first dataset.
        p1: law of the target's message under the second dataset.
        q: law of the decoys, positive on every letter.
        users: number of messages n.
        alpha: e^epsilon, any value >= 0.

    Returns:
        The expectation, in the arithmetic of the inputs.
    """
    slopes = [(a - alpha * b) / c for a, b, c in zip(p0, p1, q, strict=True)]
    total: Any = 0
    for letters in product(range(len(q)), repeat=users):
        mean = sum(slopes[y] for y in letters) / users
        if mean > 0:
            mass: Any = 1
            for y in letters:
                mass = mass * q[y]
            total += mass * mean
    return total


def blanket(channel: Sequence[Row], first: int, second: int) -> tuple[list[Any], ...]:
    """(p0, p1, q) of the blanket reduction: decoys send min over inputs, else the letter "nothing".

    Args:
        channel: rows are inputs, columns are letters.
        first: the target's input under the first dataset.
        second: the target's input under the second dataset.

    Returns:
        Three rows over the letters of the channel and one more, which the target never sends.
    """
    common = [min(column) for column in zip(*channel, strict=True)]
    return [*channel[first], 0], [*channel[second], 0], [*common, 1 - sum(common)]
