"""Differential privacy of all rounds together, as the accountant brackets it."""

from __future__ import annotations

from collections.abc import Iterator

from shuffle_accountant.reports.measures.adversaries import NEIGHBOURS
from shuffle_accountant.reports.measures.registry import ALL_ROUNDS, MEASURES, Measure, Subject
from shuffle_accountant.reports.rows import ReportRow


def _rows(subject: Subject) -> Iterator[ReportRow]:
    yield ReportRow(
        measure=f"epsilon at delta = {subject.delta:g}",
        scope=ALL_ROUNDS,
        lower=subject.epsilon.lower,
        upper=subject.epsilon.upper,
        unit="nats",
        nothing=0.0,
        everything=subject.local_epsilon,
        adversary=NEIGHBOURS,
        source=subject.epsilon.reduction,
        adjacency=subject.adjacency,
    )


MEASURES.register(Measure(name="epsilon", rows=_rows, rank=10))
