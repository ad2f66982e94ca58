"""Protection of groups by a shuffler of the order, in the place of an amplified epsilon."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from shuffle_accountant.order import reidentification_bound
from shuffle_accountant.reports.measures.registry import (
    ALL_ROUNDS,
    MEASURES,
    NEIGHBOURS,
    UP,
    Measure,
    Stage,
    Subject,
)
from shuffle_accountant.reports.rows import ReportRow

MEMBERS = "knows a group's values without their order, and all others"


def _rows(subject: Subject) -> Iterator[ReportRow]:
    order, rounds = subject.order, len(subject.protocol)
    if order is None:
        return
    alpha = UP * rounds * order.alpha if rounds else 0.0
    eps0 = UP * subject.local_epsilon
    if not subject.uniform:
        yield ReportRow(
            measure="epsilon",
            scope=ALL_ROUNDS,
            upper=eps0,
            unit="nats",
            nothing=0.0,
            everything=eps0,
            adversary=NEIGHBOURS,
            source="local randomizers, basic composition",
            adjacency=subject.adjacency,
        )
    yield ReportRow(
        measure="alpha of the order",
        scope=ALL_ROUNDS,
        upper=alpha,
        unit="nats",
        nothing=0.0,
        everything=math.inf,
        adversary=MEMBERS,
        source="Meehan et al., Theorems 4.1 and 4.3",
    )
    sizes = order.groups.sizes
    if np.any(sizes > 1):
        size = int(sizes[sizes > 1].min())
        yield ReportRow(
            measure=f"naming one message in a group of {size}",
            scope=ALL_ROUNDS,
            upper=reidentification_bound(size, 1, eps0, alpha).win_cap,
            unit="probability",
            nothing=1.0 / size,
            everything=1.0,
            adversary=MEMBERS,
            source="Meehan et al., Theorem 4.2, refined",
        )


MEASURES.register(
    Measure(name="alpha of the order", rows=_rows, rank=20, stage=Stage.SUMS, uniform=False)
)
