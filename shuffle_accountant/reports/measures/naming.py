"""Re-identification: the chance that an adversary names the target's message."""

from __future__ import annotations

from collections.abc import Iterator

from shuffle_accountant.leakage import reidentification
from shuffle_accountant.reports.measures.adversaries import NAMES
from shuffle_accountant.reports.measures.registry import MEASURES, RoundMeasure
from shuffle_accountant.reports.rows import ReportRow
from shuffle_accountant.rounds.shuffle import ShuffleRound


def _rows(one: ShuffleRound, scope: str) -> Iterator[ReportRow]:
    named = reidentification.bracket(one.randomizer, users=one.plain_users)
    yield ReportRow(
        measure="naming the message",
        scope=scope,
        lower=named.lower,
        upper=named.upper,
        unit="probability",
        nothing=1.0 / one.plain_users,
        everything=1.0,
        adversary=NAMES,
        source=named.reduction,
    )


MEASURES.register(RoundMeasure(name="naming the message", rows=_rows, rank=10))
