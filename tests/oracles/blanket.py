"""The exact divergence of a target among decoys that send the blanket or nothing, by counting.

The law of the shuffled multiset is written down: multinomial counts of the n-1 decoys, then the
target's letter added. No likelihood ratio by the decoys' law is taken, so letters which decoys
never send (a column of the channel with a zero in it) need no care.

``lemma`` is the other way to the same number: the density lemma, a sum over the counts of n
messages that are all drawn from the decoys' law. The two must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from math import comb

from .clones import Atom
from .enumeration import Histogram, Law, Row, with_message
from .enumeration import blanket as blanket_rows
from .precision import MP, Real, exact


def rows(channel: Sequence[Row], first: int, second: int) -> tuple[list[Real], ...]:
    """(p0, p1, q) of the blanket: the smallest entry of each column, and "nothing" at the end.

    Args:
        channel: rows are inputs, columns are letters, floats taken at their binary values.
        first: the target's input under the first dataset.
        second: the target's input under the second dataset.

    Returns:
        Three laws over the letters of the channel and one more.
    """
    p0, p1, q = blanket_rows([[exact(mass) for mass in row] for row in channel], first, second)
    q[-1] = max(q[-1], exact(0))  # columns may sum to 1 + round-off
    return p0, p1, q


def counts(total: int, letters: int) -> Iterator[Histogram]:
    """All histograms of ``total`` messages over so many letters."""
    if letters == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for others in counts(total - first, letters - 1):
            yield (first, *others)


def decoy_law(q: Sequence[Real], decoys: int) -> Law:
    """Multinomial law of the histogram of independent decoys, reachable histograms only."""
    law: Law = {}
    for histogram in counts(decoys, len(q)):
        if any(count and not mass for count, mass in zip(histogram, q, strict=True)):
            continue
        left, probability = decoys, exact(1)
        for count, mass in zip(histogram, q, strict=True):
            probability *= comb(left, count) * (mass**count if count else 1)
            left -= count
        law[histogram] = probability
    return law


def delta(channel: Sequence[Row], users: int, epsilons: Sequence[float]) -> list[Real]:
    """The largest divergence over ordered pairs of inputs, at each epsilon.

    Args:
        channel: rows are inputs, columns are letters.
        users: number of messages n.
        epsilons: any real numbers.

    Returns:
        One value per epsilon.
    """
    worst = [exact(0)] * len(epsilons)
    alphas = [MP.exp(exact(epsilon)) for epsilon in epsilons]
    decoys = decoy_law(rows(channel, 0, 0)[2], users - 1)
    seen = [with_message(decoys, rows(channel, x, x)[0]) for x in range(len(channel))]
    for p, q in permutations(seen, 2):
        for i, alpha in enumerate(alphas):
            excess = (mass - alpha * q.get(outcome, 0) for outcome, mass in p.items())
            worst[i] = max(worst[i], MP.fsum(x for x in excess if x > 0))
    return worst


def pair(p0: Row, p1: Row, q: Row, users: int) -> list[Atom]:
    """The two laws of the shuffled multiset as atoms, to be composed by ``clones.composed``.

    Args:
        p0: law of the target's message under the first dataset.
        p1: law of the target's message under the second dataset.
        q: law of each decoy; zeros are allowed in all three.
        users: number of messages n, the target's included.

    Returns:
        One atom per distinct loss; those that rule one of the datasets out have a zero.
    """
    decoys = decoy_law([exact(mass) for mass in q], users - 1)
    law = with_message(decoys, [exact(mass) for mass in p0])
    neighbour = with_message(decoys, [exact(mass) for mass in p1])
    return [
        (law.get(outcome, exact(0)), neighbour.get(outcome, exact(0)))
        for outcome in law.keys() | neighbour.keys()
    ]


def lemma(p0: Row, p1: Row, q: Row, users: int, alpha: float | Real) -> Real:
    """The divergence by the density lemma: E over n draws from q of max(mean of l_alpha, 0).

    Letters with q = 0 are what only a target sends. Seeing one tells the adversary that it is the
    target's and makes the others worthless, so it adds its own max(p0 - alpha p1, 0).

    Args:
        p0: law of the target's message under the first dataset.
        p1: law of the target's message under the second dataset.
        q: law of each decoy.
        users: number of messages n.
        alpha: e^epsilon, any value >= 0.

    Returns:
        H_alpha of the pair ``(p0, p1, q, users)``.
    """
    triples = [(exact(a), exact(b), exact(c)) for a, b, c in zip(p0, p1, q, strict=True)]
    alone = MP.fsum(max(a - alpha * b, exact(0)) for a, b, c in triples if not c)
    common = [(a, b, c) for a, b, c in triples if c]
    slopes = [(a - alpha * b) / c for a, b, c in common]
    total = exact(0)
    for histogram, mass in decoy_law([c for _, _, c in common], users).items():
        excess = MP.fsum(n * slope for n, slope in zip(histogram, slopes, strict=True))
        total += mass * max(excess, exact(0))
    return alone + total / users
