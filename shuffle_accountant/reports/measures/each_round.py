"""Measures of one shuffled round that the target takes part in: its message, place and value."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from shuffle_accountant.leakage import mutual_information, qif, reidentification
from shuffle_accountant.order import reidentification_bound
from shuffle_accountant.reports.rows import (
    ALL_ROUNDS,
    MEASURES,
    NEIGHBOURS,
    UP,
    Measure,
    ReportRow,
    RoundMeasure,
    Stage,
    Subject,
    largest_entropy,
)
from shuffle_accountant.rounds.shuffle import ShuffleRound

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


def _naming(one: ShuffleRound, scope: str) -> Iterator[ReportRow]:
    """Re-identification: the chance that an adversary names the target's message."""
    named = reidentification.bracket(one.randomizer, users=one.plain_users)
    yield ReportRow(
        measure="naming the message",
        scope=scope,
        lower=named.lower,
        upper=named.upper,
        unit="probability",
        nothing=1.0 / one.plain_users,
        everything=1.0,
        adversary="knows all values; names the message",
        source=named.reduction,
    )


def _place(one: ShuffleRound, scope: str) -> Iterator[ReportRow]:
    """Mutual information between the messages and the place of the target's."""
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
        adversary="knows all values; asks for the place",
        source="least of the bounds for any inputs",
        condition=condition,
    )


def _input(one: ShuffleRound, scope: str) -> Iterator[ReportRow]:
    """Mutual information between the messages and the target's value."""
    found = mutual_information.input_bound(one.randomizer, users=one.plain_users)
    yield ReportRow(
        measure="information on the input",
        scope=scope,
        upper=found.upper,
        unit="nats",
        nothing=0.0,
        everything=largest_entropy(one.randomizer),
        adversary="knows all others' values; asks for one, uniform prior",
        source=found.reduction,
    )


def _vulnerability(one: ShuffleRound, scope: str) -> Iterator[ReportRow]:
    """Posterior vulnerability: the chance of a right guess of the target's value."""
    mixture, value = one.randomizer.mixture, None
    if mixture is not None:
        value = qif.posterior_vulnerability_krr_shuffle(
            users=one.plain_users, categories=mixture.categories, p=mixture.keep_probability
        )
    yield ReportRow(
        measure="posterior vulnerability",
        scope=scope,
        lower=value,
        upper=value,
        unit="probability",
        nothing=0.5 if mixture is None else 1.0 / mixture.categories,
        everything=1.0,
        adversary="knows nothing; guesses a value, uniform data",
        source="expected largest load",
        condition="needs randomized response" if mixture is None else None,
    )


for _measure in (
    RoundMeasure(name="naming the message", rows=_naming, rank=10),
    RoundMeasure(name="information on the position", rows=_place, rank=20),
    RoundMeasure(name="information on the input", rows=_input, rank=30),
    RoundMeasure(name="posterior vulnerability", rows=_vulnerability, rank=40),
):
    MEASURES.register(_measure)
