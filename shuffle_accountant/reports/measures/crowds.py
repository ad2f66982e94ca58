"""Differential privacy of each group of a mixed crowd."""

from __future__ import annotations

from collections.abc import Iterator

from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.reports.measures.adversaries import NEIGHBOURS
from shuffle_accountant.reports.measures.registry import ALL_ROUNDS, MEASURES, Measure, Subject
from shuffle_accountant.reports.rows import ReportRow
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.shuffle import ShuffleRound


def _rows(subject: Subject) -> Iterator[ReportRow]:
    """Every other group's epsilon: in each round that has it, of its users."""
    groups = dict.fromkeys(kind for one, _ in subject.shuffled for kind, _ in one.others)
    for group in groups:
        accountant = FourierAccountant(tolerance=subject.accountant.tolerance)
        for one, count in subject.protocol:
            accountant.compose(_seen_by(one, group), count=count)
        found = accountant.epsilon(delta=subject.delta)
        yield ReportRow(
            measure=f"epsilon at delta = {subject.delta:g}",
            scope=f"{ALL_ROUNDS}, users of {group!r}",
            lower=found.lower,
            upper=found.upper,
            unit="nats",
            nothing=0.0,
            adversary=NEIGHBOURS,
            source=found.reduction,
            adjacency=subject.adjacency,
        )


def _seen_by(one: Round, group: LocalRandomizer) -> Round:
    if isinstance(one, ShuffleRound) and group in one.kinds_of_users:
        return one.for_user_of(group)
    return one


MEASURES.register(Measure(name="epsilon of each group", rows=_rows, rank=15))
