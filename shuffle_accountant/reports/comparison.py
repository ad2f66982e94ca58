"""Every published bound side by side with the certified bracket, for one protocol.

Bounds that are about one round are extended by named theorems, and the rows say so; see
`shuffle_accountant.baselines.closed_forms`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, overload

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.baselines import strong_composition
from shuffle_accountant.baselines.question import BOUNDS, Question
from shuffle_accountant.bracket import format_ends
from shuffle_accountant.randomizers.channel import GeneralRandomizer
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse
from shuffle_accountant.reports.rows import accountant_of
from shuffle_accountant.reports.tables import Tabular, columns, interval
from shuffle_accountant.rounds.protocol import Protocol, Rounds, as_protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

CERTIFIED = "certified"
"""Name of the rows that are this package's own brackets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """Epsilon by one bound, or why the bound gives none.

    Attributes:
        name: of the bound; "certified" for this package's bracket.
        form: which of the bound's forms, in a few words; the reduction for a bracket; may be empty.
        via: the theorems that extend a bound of one round to the protocol; may be empty.
        epsilon: nats, the upper end for a bracket; None if the bound does not apply.
        lower: lower end, for a bracket only.
        condition: why the bound does not apply; None if it does.
        sound: whether the bound holds for all it accepts.
        source: authors, year, theorem; for a bracket the reduction.
    """

    name: str
    form: str = ""
    via: tuple[str, ...] = ()
    epsilon: float | None = None
    lower: float | None = None
    condition: str | None = None
    sound: bool
    source: str

    def value(self) -> str:
        """Epsilon as text: both ends of a bracket, or why there is none."""
        if self.epsilon is None:
            return f"n/a: {self.condition}"
        if self.lower is None:
            return f"{self.epsilon:.6g}"
        return interval(format_ends(self.lower, self.epsilon))


@dataclass(frozen=True)
class Comparison(Tabular, Sequence[ComparisonRow]):
    """Rows of all bounds; a sequence of them, and its text is a table.

    Attributes:
        delta: of all rounds together.
        rows: the certified bracket first.
    """

    delta: float
    rows: tuple[ComparisonRow, ...]

    @overload
    def __getitem__(self, index: int) -> ComparisonRow: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ComparisonRow, ...]: ...

    def __getitem__(self, index: int | slice) -> ComparisonRow | tuple[ComparisonRow, ...]:
        return self.rows[index]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def __str__(self) -> str:
        return columns(self.cells())

    def to_dict(self) -> dict[str, Any]:
        """Plain Python types; infinities are floats."""
        return {"delta": self.delta, "rows": [asdict(row) for row in self.rows]}

    def records(self) -> list[dict[str, Any]]:
        """Every field of each row, the theorems that extend a bound as one text."""
        return [asdict(row) | {"via": ", ".join(row.via)} for row in self.rows]

    def cells(self) -> list[tuple[str, ...]]:
        """Short texts of the table, the header first."""
        header = ("bound", "form", "sound", f"epsilon at delta = {self.delta:g}")
        rows = []
        for row in self.rows:
            form = ", ".join(word for word in (row.form, *row.via) if word)
            rows.append((row.name, form, "yes" if row.sound else "no", row.value()))
        return [header, *rows]


def compare(
    rounds_or_protocol: Rounds | None = None,
    /,
    *,
    eps0: float | None = None,
    users: int | None = None,
    delta: float,
    rounds: int = 1,
    population: int | None = None,
    categories: int | None = None,
    tolerance: float = 1e-3,
) -> Comparison:
    """Epsilon of one protocol by this package and by every published bound.

    Args:
        rounds_or_protocol: a round, a `shuffle_accountant.Protocol` or a list of pairs (round,
            count); or None, and ``eps0`` and ``users`` say what happens.
        categories: if given, the randomizer is randomized response over this many values;
            otherwise any.

    Returns:
        A sequence of rows: the certified bracket first (for a randomizer that is more than its eps0
        also that of the clones), then each bound of `shuffle_accountant.baselines.BOUNDS`.
    """
    asked = asked_round(
        rounds_or_protocol, eps0=eps0, users=users, population=population, categories=categories
    )
    rounds = validate.integer(minimum=0, maximum=strong_composition.MOST_ROUNDS, rounds=rounds)
    question = Question(protocol=asked * rounds, delta=validate.open_unit(delta=delta))
    tolerance = validate.positive(tolerance=tolerance)
    rows = []
    for protocol in _readings(question):
        found = accountant_of(protocol, tolerance=tolerance).epsilon(delta=question.delta)
        rows.append(
            ComparisonRow(
                name=CERTIFIED,
                form=found.reduction,
                epsilon=found.upper,
                lower=found.lower,
                sound=True,
                source="this package",
            )
        )
    rows += [
        ComparisonRow(name=one.name, sound=one.sound, source=one.source, **asdict(answer))
        for one in BOUNDS
        for answer in one.answers(question)
    ]
    return Comparison(question.delta, tuple(rows))


def asked_round(
    rounds_or_protocol: Rounds | None,
    *,
    eps0: float | None,
    users: int | None,
    population: int | None,
    categories: int | None,
) -> Protocol:
    """The protocol to compare bounds for: the given rounds, or one made from its parameters."""
    if rounds_or_protocol is not None:
        if (eps0, users, population, categories) != (None,) * 4:
            raise ValueError(
                "eps0, users, population and categories must be None beside rounds that say them, "
                f"got {(eps0, users, population, categories)}"
            )
        return as_protocol(rounds_or_protocol)
    eps0 = validate.finite_nonnegative(eps0=eps0)
    randomizer = (
        GeneralRandomizer(eps0)
        if categories is None
        else RandomizedResponse(categories=categories, eps0=eps0)
    )
    users = validate.integer(minimum=1, users=users)
    return Protocol([(ShuffleRound(randomizer, users=users, population=population), 1)])


def _readings(question: Question) -> Iterator[Protocol]:
    """The protocol as it is, and as if nothing but eps0 were known, if that is another pair."""
    yield question.protocol
    kinds = question.shuffled
    if len(kinds) < len(question.protocol.distinct) or not all(
        one.adjacency is Adjacency.REPLACE_ONE and one.randomizer.eps0 < math.inf and one.plain
        for one, _ in kinds
    ):
        return
    clones = [(replace(one, reduction="clones", variant=None), count) for one, count in kinds]
    if any(a.reduced() != b.reduced() for (a, _), (b, _) in zip(kinds, clones, strict=True)):
        yield Protocol(clones)
