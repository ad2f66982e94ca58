"""Mutual information between the messages and the place of the target's."""

from __future__ import annotations

import math
from collections.abc import Iterator

from shuffle_accountant.leakage import mutual_information
from shuffle_accountant.reports.measures.adversaries import PLACES
from shuffle_accountant.reports.measures.registry import MEASURES, RoundMeasure
from shuffle_accountant.reports.rows import ReportRow
from shuffle_accountant.rounds.shuffle import ShuffleRound


def _rows(one: ShuffleRound, scope: str) -> Iterator[ReportRow]:
    upper, condition = None, None
    if one.randomizer.interactive:
        condition = "needs a randomizer that is not interactive"
    else:
        upper = mutual_information.position_bounds(one.randomizer, users=one.plain_users).least
    yield ReportRow(
        measure="information on the position",
        scope=scope,
        upper=upper,
        unit="nats",
        nothing=0.0,
        everything=math.log(one.plain_users),
        adversary=PLACES,
        source="least of the bounds for any inputs",
        condition=condition,
    )


MEASURES.register(RoundMeasure(name="information on the position", rows=_rows, rank=20))
