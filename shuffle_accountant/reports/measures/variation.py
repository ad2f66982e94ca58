"""Total variation of all rounds together, and the chance to tell two values apart."""

from __future__ import annotations

import math
from collections.abc import Iterator

from shuffle_accountant.losses.divergence import HOCKEY_STICK
from shuffle_accountant.reports.measures.adversaries import EITHER, NEIGHBOURS
from shuffle_accountant.reports.measures.registry import ALL_ROUNDS, MEASURES, Measure, Subject
from shuffle_accountant.reports.rows import ReportRow


def _rows(subject: Subject) -> Iterator[ReportRow]:
    lower, upper, condition = None, None, None
    if any(one.reduced().loss.divergence is not HOCKEY_STICK for one, _ in subject.protocol):
        condition = "needs hockey-stick divergences, got variant='tail'"
    else:
        variation = subject.accountant.delta(epsilon=0.0)
        lower, upper = variation.lower, variation.upper
    for measure, chance, adversary in (
        ("total variation", 0.0, NEIGHBOURS),
        ("telling two values apart", 0.5, EITHER),
    ):
        # the better of two equally likely guesses is right with probability (1 + variation)/2
        lowest, highest = (
            end if end is None or chance == 0.0 else _even_odds(end, away)
            for end, away in ((lower, 0.0), (upper, 1.0))
        )
        yield ReportRow(
            measure=measure,
            scope=ALL_ROUNDS,
            lower=lowest,
            upper=highest,
            unit="probability",
            nothing=chance,
            everything=1.0,
            adversary=adversary,
            source=subject.epsilon.reduction,
            condition=condition,
            adjacency=subject.adjacency,
        )


def _even_odds(variation: float, away: float) -> float:
    """``(1 + variation)/2``, rounded towards ``away``; without a variation it is exact."""
    chance = 0.5 + 0.5 * variation
    return chance if variation in (0.0, 1.0) else max(math.nextafter(chance, away), 0.5)


MEASURES.register(Measure(name="total variation", rows=_rows, rank=30))
