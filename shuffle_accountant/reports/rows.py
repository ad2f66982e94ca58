"""The rows of a report (what messages give away, and to whom), and the measures they are of.

Each row is one measure of the leakage of the same rounds. What its adversary knows, not the
measure, is what makes the numbers of two rows differ most. A report goes through all measures that
are registered: this package's when the registry is first read, and anybody's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

from shuffle_accountant import order as orders
from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket, format_ends
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.registry import Registry
from shuffle_accountant.reports.drawing import protocol_told
from shuffle_accountant.reports.tables import Tabular, only_if, rounded_up, rows_of_lines, under
from shuffle_accountant.rounds.protocol import Protocol, Rounds, as_protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

# Relative width up to which a bracket is shown as one number, rounded up, and its digits.
_SAME, _DIGITS = 1e-7, 7
_HEADER = ("measure", "value", "no leak", "all")


ALL_ROUNDS = "all rounds"
"""Scope of what is measured of all rounds together."""

NEIGHBOURS = "knows all others' values; tells two apart"
"""Adversary of differential privacy: knowledge and goal."""

UP = 1.0 + 2e-15
"""Factor that raises an upper bound by more than a few roundings can lower it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """One row of a report: a measure of leakage with its certified ends.

    Attributes:
        measure: name of the measure, in a few words.
        scope: the rounds it is about: "all rounds", or one kind of round, each time it happens.
        lower: certified lower end of the measure; None if only an upper bound is known.
        upper: upper end, the number to report; None if the measure does not apply.
        unit: "nats" or "probability".
        nothing: its value if nothing leaked.
        everything: its value if everything leaked; None if that is not known, inf if there is no
            limit.
        adversary: knowledge and goal of the adversary.
        source: the theorem or method behind it.
        condition: why the measure does not apply; None if it does.
        adjacency: which datasets are neighbours, where the measure is about two datasets.
    """

    measure: str
    scope: str
    lower: float | None = None
    upper: float | None = None
    unit: str
    nothing: float
    everything: float | None = None
    adversary: str
    source: str
    condition: str | None = None
    adjacency: str | None = None

    def value(self) -> str:
        """Both ends as text, or the upper bound, or why there is none."""
        if self.upper is None:
            return f"n/a: {self.condition}"
        if self.lower is None:
            return f"at most {rounded_up(self.upper, _DIGITS)}"
        if self.upper - self.lower <= _SAME * self.upper < math.inf:
            return rounded_up(self.upper, _DIGITS)
        return " to ".join(format_ends(self.lower, self.upper))

    @property
    def share(self) -> float | None:
        """Upper end as a share of the way from ``nothing`` (0) to ``everything`` (1), or None."""
        if self.upper is None or self.everything is None:
            return None
        span = self.everything - self.nothing
        if not 0.0 < span < math.inf:
            return None
        return min(max((self.upper - self.nothing) / span, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Report(Tabular):
    """The measures of one protocol; its text is a table.

    Attributes:
        delta: of the differential privacy, over all rounds.
        rows: one for each measure.
        conditions: what must hold in reality for the numbers, a sentence each with its theorem.
        about: the protocol in one line.
    """

    delta: float
    rows: tuple[ReportRow, ...]
    conditions: tuple[str, ...] = ()
    about: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain Python types; infinities are floats."""
        conditions = list(self.conditions)
        return {"delta": self.delta, "rows": self.records(), "conditions": conditions}

    as_dict = to_dict  # its name up to version 0.2.0

    def records(self) -> list[dict[str, Any]]:
        """Every field of each row."""
        return [asdict(row) for row in self.rows]

    def cells(self) -> list[tuple[str, ...]]:
        """Short texts of the table, the header first."""
        return [(*_HEADER, "about"), *((*_numbers(row), _about(row)) for row in self.rows)]

    def __str__(self) -> str:
        first, *numbers = rows_of_lines([_HEADER, *map(_numbers, self.rows)])
        below = zip(numbers, self.rows, strict=True)
        table = [under("\n".join(lines), _about(row)) for lines, row in below]
        return "\n".join([*first, *table, *only_if(self.conditions)])


def _numbers(row: ReportRow) -> tuple[str, ...]:
    return (
        row.measure,
        row.value(),
        f"{row.nothing:.4g}",
        "?" if row.everything is None else f"{row.everything:.4g}",
    )


def _about(row: ReportRow) -> str:
    """Line below a row's numbers: scope, unit, adjacency and adversary."""
    about = ", ".join(word for word in (row.scope, row.unit, row.adjacency) if word)
    return f"{about}: {row.adversary}"


@dataclass(frozen=True)
class Subject:
    """Rounds that an accountant has recorded, delta, and the shuffler of the order, if any.

    That shuffler is in the place of the uniform one.
    """

    accountant: FourierAccountant
    delta: float
    order: orders.DSigmaShuffler | None = None

    @cached_property
    def protocol(self) -> Protocol:
        """The rounds."""
        return Protocol(self.accountant.rounds)

    @cached_property
    def shuffled(self) -> list[tuple[ShuffleRound, int]]:
        """The shuffled rounds among them, with their counts."""
        return [(one, count) for one, count in self.protocol if isinstance(one, ShuffleRound)]

    @property
    def all_shuffled(self) -> bool:
        """Whether all rounds are shuffled rounds."""
        return len(self.shuffled) == len(self.accountant.rounds)

    @property
    def uniform(self) -> bool:
        """Whether the messages are shuffled uniformly."""
        return self.order is None or self.order.alpha == 0.0

    @property
    def adjacency(self) -> str | None:
        """Adjacency of all rounds, in a word; None if there are no rounds."""
        adjacency = self.protocol.adjacency
        return None if adjacency is None else adjacency.value

    @property
    def local_epsilon(self) -> float:
        """Epsilon of all rounds without any shuffling, nats; inf where it is not known."""
        if not self.all_shuffled or any(one.randomizer.delta0 > 0.0 for one, _ in self.shuffled):
            return math.inf
        return math.fsum(count * one.randomizer.eps0 for one, count in self.shuffled)

    @cached_property
    def epsilon(self) -> Bracket:
        """Certified epsilon of all rounds at delta."""
        return self.accountant.epsilon(delta=self.delta)


class Stage(IntEnum):
    """Position in a report of the rows about all rounds: before or after those of each round."""

    TOGETHER = 1
    """Before the rows about each round."""

    SUMS = 2
    """After them: sums over rounds of what each may tell."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure of all rounds together: a function that makes its rows.

    Attributes:
        rows: the rows for a subject; none if there is nothing to say.
        rank: place among the measures of its stage; those without one come last.
        stage: where the rows stand.
        uniform: whether it is about messages that are shuffled uniformly; it is left out where a
            shuffler of the order with alpha > 0 takes that place.
    """

    name: str
    rows: Callable[[Subject], Iterable[ReportRow]]
    rank: float = 1000.0
    stage: Stage = Stage.TOGETHER
    uniform: bool = True


@dataclass(frozen=True, kw_only=True)
class RoundMeasure:
    """A measure of one round, given that the target takes part: a function that makes its rows.

    Attributes:
        rows: the rows for a round and the text that says which rounds it stands for.
        rank: place among the measures of a round; those without one come last.
    """

    name: str
    rows: Callable[[ShuffleRound, str], Iterable[ReportRow]]
    rank: float = 1000.0


MEASURES: Registry[Measure | RoundMeasure] = Registry(f"{__package__}.measures")
"""All measures, in the order of a report."""


def largest_entropy(randomizer: LocalRandomizer) -> float | None:
    """Largest entropy of the input, nats; None if its number of values is not known."""
    return None if randomizer.values is None else math.log(randomizer.values)


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
    measured = Subject(accountant, delta, order)
    if order is not None:
        _check_order(measured, validate.instance(orders.DSigmaShuffler, order=order))
    about = protocol_told(accountant.protocol)
    return Report(delta, tuple(_rows(measured)), accountant.protocol.conditions, about)


def accountant_of(
    subject: Rounds | FourierAccountant, *, tolerance: float = 1e-3
) -> FourierAccountant:
    """The accountant, or a new one that has recorded the rounds."""
    if isinstance(subject, FourierAccountant):
        return subject
    return FourierAccountant(tolerance=tolerance).compose(as_protocol(subject, name="subject"))


def _check_order(subject: Subject, order: orders.DSigmaShuffler) -> None:
    """Raise ValueError unless the order's shuffler can replace the uniform one in all rounds."""
    if not subject.all_shuffled or any(
        one.users != order.n or one.population not in (None, one.users)
        for one, _ in subject.shuffled
    ):
        raise ValueError(
            f"order must be a shuffler of all users of each round, got one of {order.n} users for "
            f"{[one for one, _ in subject.protocol]!r:.80}"
        )


def _rows(subject: Subject) -> Iterator[ReportRow]:
    of_all = [one for one in MEASURES if isinstance(one, Measure)]
    of_round = [one for one in MEASURES if isinstance(one, RoundMeasure)]
    for stage in Stage:
        for measure in of_all:
            if measure.stage is stage and (subject.uniform or not measure.uniform):
                yield from measure.rows(subject)
        if stage is Stage.TOGETHER and subject.uniform:
            for kind, scope in _kinds(subject):
                for each in of_round:
                    yield from each.rows(kind, scope)


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
