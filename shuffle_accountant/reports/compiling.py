"""One protocol, every measure: the rows of all measures that are registered."""

from __future__ import annotations

from collections.abc import Iterator

from shuffle_accountant import order as orders
from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.reports.drawing import protocol_told
from shuffle_accountant.reports.rows import (
    MEASURES,
    Measure,
    Report,
    ReportRow,
    RoundMeasure,
    Stage,
    Subject,
)
from shuffle_accountant.rounds.protocol import Rounds, as_protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound


def report(
    subject: Rounds | FourierAccountant,
    *,
    delta: float,
    order: orders.DSigmaShuffler | None = None,
    tolerance: float = 1e-3,
) -> Report:
    """Report of one protocol: every measure of leakage that applies to it.

    Args:
        subject: a round, a `shuffle_accountant.Protocol`, a list of pairs (round, count), or
            everything that an accountant has recorded.
        order: the shuffler of the order (`shuffle_accountant.order`) that is used in each round in
            the place of the uniform one. Unless its alpha is 0, nothing is amplified: epsilon is
            that of the local randomizers, and what the order protects is reported beside it.
    """
    delta = validate.open_unit(delta=delta)
    accountant = accountant_of(subject, tolerance=tolerance)
    if order is not None:
        order = validate.instance(orders.DSigmaShuffler, order=order)
    measured = Subject(accountant, delta, order)
    _check_order(measured)
    about = protocol_told(accountant.protocol)
    return Report(delta, tuple(_rows(measured)), accountant.protocol.conditions, about)


def accountant_of(
    subject: Rounds | FourierAccountant, *, tolerance: float = 1e-3
) -> FourierAccountant:
    """The accountant, or a new one that has recorded the rounds."""
    if isinstance(subject, FourierAccountant):
        return subject
    return FourierAccountant(tolerance=tolerance).compose(as_protocol(subject, name="subject"))


def _check_order(subject: Subject) -> None:
    """Raise ValueError unless the order's shuffler can replace the uniform one in all rounds."""
    order = subject.order
    if order is None:
        return
    if not subject.all_shuffled or any(
        one.users != order.n or one.population not in (None, one.users)
        for one, _ in subject.shuffled
    ):
        raise ValueError(
            f"order must be a shuffler of all users of each round, got one of {order.n} users for "
            f"{[one for one, _ in subject.protocol]!r:.80}"
        )


def _rows(subject: Subject) -> Iterator[ReportRow]:
    measures = list(MEASURES)
    yield from _of_all(subject, measures, Stage.TOGETHER)
    if subject.uniform:
        of_round = [measure for measure in measures if isinstance(measure, RoundMeasure)]
        for one, scope in _kinds(subject):
            for measure in of_round:
                yield from measure.rows(one, scope)
    yield from _of_all(subject, measures, Stage.SUMS)


def _of_all(
    subject: Subject, measures: list[Measure | RoundMeasure], stage: Stage
) -> Iterator[ReportRow]:
    for measure in measures:
        if not isinstance(measure, Measure) or measure.stage is not stage:
            continue
        if subject.uniform or not measure.uniform:
            yield from measure.rows(subject)


def _kinds(subject: Subject) -> Iterator[tuple[ShuffleRound, str]]:
    """Each kind of shuffled round that the measures of one round apply to, with its scope in words.

    Left out are rounds that hide a null record alone, of which no distribution is known that these
    measures could be computed from, and rounds with several randomizers, random participation, or
    colluders.
    """
    kinds = subject.shuffled
    for i, (one, _) in enumerate(kinds, 1):
        if one.adjacency is not Adjacency.REPLACE_ONE or not one.plain:
            continue
        scope = "each round" if len(kinds) == 1 else f"each round of kind {i}"
        sampled = one.population is not None and one.population > one.plain_users
        yield one, f"{scope} taken part in" if sampled else scope
