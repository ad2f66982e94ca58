"""Differential privacy of all rounds together, by Rényi accounting of the same pairs."""

from __future__ import annotations

from collections.abc import Iterator

from shuffle_accountant.baselines import rdp
from shuffle_accountant.baselines.base import OutsideValidityError
from shuffle_accountant.reports.measures.adversaries import NEIGHBOURS
from shuffle_accountant.reports.measures.registry import ALL_ROUNDS, MEASURES, Measure, Subject
from shuffle_accountant.reports.rows import ReportRow


def _rows(subject: Subject) -> Iterator[ReportRow]:
    upper, condition = None, None
    if not subject.all_shuffled:
        condition = "needs shuffled rounds"
    else:
        try:
            upper = rdp.epsilon(subject.shuffled, delta=subject.delta)
        except OutsideValidityError as refused:
            condition = f"needs {refused.condition}"
    yield ReportRow(
        measure=f"Rényi epsilon at delta = {subject.delta:g}",
        scope=ALL_ROUNDS,
        upper=upper,
        unit="nats",
        nothing=0.0,
        everything=subject.local_epsilon,
        adversary=NEIGHBOURS,
        source=rdp.source,
        condition=condition,
        adjacency=subject.adjacency,
    )


MEASURES.register(Measure(name="Rényi epsilon", rows=_rows, rank=20))
