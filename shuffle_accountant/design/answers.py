"""Answers of a design: rows of mechanisms, errors and evidence, as a table, JSON or picture."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffle_accountant.bracket import Bracket
from shuffle_accountant.calibration.search import Evidence
from shuffle_accountant.deployment.description import Deployment
from shuffle_accountant.design.question import Question
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.estimation import FrequencyEstimator
from shuffle_accountant.reports import drawing
from shuffle_accountant.reports.tables import WIDTH, Tabular, rounded_up, rows_of_lines, under

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class DesignRow:
    """One mechanism that meets the target, and how accurate it is.

    Attributes:
        name: of the mechanism, in words.
        place: "shuffle", "local" (no shuffler) or "central" (a trusted curator).
        mechanism: ready to use: a randomizer whose messages are shuffled, a round with dummies, or
            the curator's noise.
        eps0: local privacy parameter of a message, nats; None where messages alone hide nothing.
        rmse: root mean squared error of a frequency that is 0, of a category that nobody holds; or
            of a mean vector, in its 2-norm.
        rmse_average: that of frequencies, averaged over all categories; of a mean, the same as
            ``rmse``.
        largest_error: with probability 95 %, no category's error is larger, or no coordinate's of
            a mean, all at once and whatever the data are (a bound that is proved).
        bits: bits that a user sends, on average, to name the messages.
        messages: messages that reach the analyst, per user, on average.
        evidence: certified brackets of epsilon at the parameters and one step further.
        candidate: the mechanisms of one kind, of which this is one.
        question: the question of the design.
    """

    name: str
    place: str
    mechanism: Any
    eps0: float | None
    rmse: float
    rmse_average: float
    largest_error: float
    bits: float
    messages: float
    evidence: Evidence
    candidate: Any = field(repr=False)
    question: Question = field(repr=False)

    @property
    def interval(self) -> float:
        """Half width of intervals that hold for every histogram, all categories at once (95 %)."""
        return self.largest_error

    @property
    def average_interval(self) -> float | None:
        """Half width of the interval of a share of 1/k, all k categories at once (95 %).

        None where all shares' intervals are of one width, or no message is about all categories.
        """
        users, size, mechanism = self.question.senders, self.question.size, self.mechanism
        if not isinstance(mechanism, FrequencyEstimator) or mechanism.categories != size:
            return None
        own, other = mechanism.yes_probabilities
        count = round(users * (other + (own - other) / size))
        found = mechanism.estimate_from(np.full(size, count), users)
        lower, upper = found.interval(confidence=self.question.confidence)
        return float(0.5 * (upper[0] - lower[0]))

    @property
    def _of_one_message(self) -> bool:
        return isinstance(self.mechanism, LocalRandomizer) and self.messages == 1.0

    @property
    def _eps0_shown(self) -> str:
        return "" if self.eps0 is None or not math.isfinite(self.eps0) else f"{self.eps0:.4g}"

    def deployment(self) -> Deployment:
        """The deployment of the row's mechanism: one file for devices, shuffler and analysts.

        Raises:
            ValueError: a mechanism that is not shuffled, or that devices cannot run.
        """
        asked = self.question
        if self.place != "shuffle" or not self._of_one_message:
            raise ValueError(
                "deployment needs a randomizer whose messages are shuffled, one of each user, got "
                f"{self.name}, {self.place}"
            )
        return Deployment(
            round=asked.shuffled(self.mechanism),
            rounds=asked.rounds,
            target_epsilon=asked.target_epsilon,
            delta=asked.delta,
        )

    @property
    def bracket(self) -> Bracket:
        """Certified bracket of epsilon of all rounds."""
        return self.evidence.bracket

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        bracket = self.bracket
        return {
            "name": self.name,
            "place": self.place,
            "mechanism": self.mechanism.to_dict(),
            "eps0": None if self.eps0 is None else float(self.eps0),
            "rmse": self.rmse,
            "rmse_average": self.rmse_average,
            "largest_error": self.largest_error,
            "average_interval": self.average_interval,
            "bits": self.bits,
            "messages": self.messages,
            "epsilon": {name: getattr(bracket, name) for name in ("lower", "upper", "reduction")},
            "adjacency": None if bracket.adjacency is None else bracket.adjacency.value,
            "conditions": list(bracket.conditions),
        }


@dataclass(frozen=True, kw_only=True)
class Excluded:
    """A candidate that does not meet the target, and why, in a line."""

    name: str
    place: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Design(Tabular):
    """Everything that meets a target, sorted by error.

    Attributes:
        question: the question that the design answers.
        rows: shuffled mechanisms, the smallest error first; empty if none meets the target.
        local: the same randomizers without a shuffler, by error.
        central: a trusted curator's noise, by error.
        excluded: candidates that do not meet the target, each with the reason.
    """

    question: Question
    rows: tuple[DesignRow, ...]
    local: tuple[DesignRow, ...]
    central: tuple[DesignRow, ...]
    excluded: tuple[Excluded, ...]

    def __len__(self) -> int:
        """Number of shuffled mechanisms that meet the target."""
        return len(self.rows)

    @property
    def recommended(self) -> DesignRow:
        """The row to deploy: the smallest error of all categories or coordinates at once.

        Among randomizers of one message a user, which `DesignRow.deployment` describes to devices,
        if any meets the target; otherwise among all shuffled mechanisms.

        Raises:
            ValueError: no shuffled mechanism meets the target.
        """
        if not self.rows:
            raise ValueError("no shuffled mechanism meets the target: see excluded for the reasons")
        single = [row for row in self.rows if row._of_one_message]
        return min(single or self.rows, key=lambda row: row.largest_error)

    @property
    def advice(self) -> str:
        """What to deploy, how accurate it is and what must hold, in a sentence; empty if nothing.

        The accuracy is `DesignRow.interval`, and `DesignRow.average_interval`.
        """
        if not self.rows:
            return ""
        row, asked = self.recommended, self.question
        own = f" with eps0 = {row._eps0_shown}" if row._eps0_shown else ""
        what = "any share" if asked.of == "categories" else "each coordinate of the mean"
        if (usual := row.average_interval) is not None:
            what = f"a share of 1/{asked.size} to within ± {usual:.2g}, {what}"
        if asked.participation is None:
            fewest = asked.users if asked.min_users is None else asked.min_users
            only = f"at least {fewest:,} report in every round"
        else:
            share = f"{asked.participation:g}"
            only = f"each of {asked.users:,} reports with probability {share}, in secret"
        return (
            f"Deploy {row.name}{own}: {what} to within ± {row.interval:.2g} (95 %, all "
            f"{asked.size} at once), ε ≤ {rounded_up(row.bracket.upper, 5)} at "
            f"δ = {asked.delta:g}, if {only}."
        )

    @property
    def proof(self) -> str:
        """Epsilon of what is recommended, and one step further, in a sentence; empty if nothing."""
        if not self.rows:
            return ""
        evidence = self.recommended.evidence
        low, high = evidence.bracket.ends()
        here = f"ε is certified to lie in [{low}, {high}] there"
        if evidence.next_bracket is None or evidence.next_value is None:
            return f"{here}, and the search ends there."
        low, high = evidence.next_bracket.ends()
        how = "misses the target" if evidence.proven else "is not certified to meet the target"
        return (
            f"{here}; one step further, at {evidence.next_value:.6g}, it lies in [{low}, {high}], "
            f"which {how}."
        )

    def __str__(self) -> str:
        of_what = _COLUMNS[self.question.of]
        first = (self.advice, self.proof) if self.rows else ()
        advice = [textwrap.fill(sentence, WIDTH) for sentence in first]
        lines = rows_of_lines(self.cells())
        shuffled, others = lines[: 1 + len(self.rows)], lines[1 + len(self.rows) :]
        table = [line for row in shuffled for line in row]
        table += [_COMPARISON, *(line for row in others for line in row)] if others else []
        parts = [*advice, textwrap.fill(self.question.told, WIDTH), *table, *of_what, *_UNITS]
        if self.excluded:
            parts.append("left out:")
            parts += [under(f"  {one.name} ({one.place})", one.reason) for one in self.excluded]
        return "\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "question": self.question.to_dict(),
            "errors": " ".join(_COLUMNS[self.question.of]),
            "recommended": self.recommended.to_dict() if self.rows else None,
            "evidence": self.proof,
            "rows": [row.to_dict() for row in self.rows],
            "local": [row.to_dict() for row in self.local],
            "central": [row.to_dict() for row in self.central],
            "excluded": [asdict(one) for one in self.excluded],
        }

    @property
    def all_rows(self) -> tuple[DesignRow, ...]:
        """Rows of the shuffler, of devices alone and of a trusted curator, in this order."""
        return (*self.rows, *self.local, *self.central)

    def cells(self) -> list[tuple[str, ...]]:
        """Short texts of the table, the header first."""
        header = ("mechanism", "where", "eps0", "RMSE", "largest", "bits", "messages")
        rows = []
        for one in self.all_rows:
            errors = f"{one.rmse:.3g}", f"{one.largest_error:.3g}"
            sent = f"{one.bits:.4g}", f"{one.messages:.4g}"
            rows.append((one.name, one.place, one._eps0_shown, *errors, *sent))
        return [header, *rows]

    def records(self) -> list[dict[str, Any]]:
        """Fields of each row, with both ends of epsilon and the mechanism as it is written."""
        records = []
        for row in self.all_rows:
            record = row.to_dict() | {"mechanism": repr(row.mechanism)}
            del record["conditions"]
            records.append(record | {"epsilon": row.bracket.upper, "lower": row.bracket.lower})
        return records

    def plot(
        self, *, factors: Sequence[float] = (0.5, 0.7, 1.0, 1.4, 2.0), ax: Axes | None = None
    ) -> Axes:
        """Draw error against epsilon, a line for each mechanism, around the target.

        Every point is a certified epsilon (its upper end) of a mechanism with other parameters. The
        legend has the errors at the target: of one category or of the mean, and the largest of all
        categories or coordinates (95 %), to which a band reaches for the best shuffled mechanism.
        Mechanisms that do not meet the target are named with the reason.

        Args:
            factors: by which mechanisms' own parameters (ε0, or the noise) are changed, each > 0.
        """
        ax = drawing.new_axes(ax)
        question = self.question
        drawing.titled(ax, question.told)
        of = "a frequency" if question.of == "categories" else "the mean vector, 2-norm"
        ax.set(
            xlabel=f"ε of all rounds (nats) at δ = {question.delta:g}",
            ylabel=f"root mean squared error of {of}",
        )
        left_out = [f"{one.name} ({one.place}): {one.reason}" for one in self.excluded]
        shown = (*self.central[:1], *self.rows, *self.local[:1])
        for number, row in enumerate(shown):
            points = sorted(row.candidate.curve(row.mechanism, question, factors))
            if points:
                _draw(ax, number, row, points, band=row in self.rows[:1])
            else:
                left_out.append(f"{row.name}: no ε around the target")
        if not ax.get_lines():
            drawing.nothing_drawn(ax, "no mechanism meets the target with an error below 1")
        else:
            ax.set(xscale="log", yscale="log")
            drawing.plain_ticks(ax.xaxis)
            drawing.plain_ticks(ax.yaxis)
            ax.grid(alpha=0.25)
            target = question.target_epsilon
            ax.axvline(target, color="0.4", linestyle=":", label=f"target, ε = {target:g}")
        drawing.legend_beside(ax, left_out)
        return ax


# What stands between the mechanisms to choose from and those they are compared with.
_COMPARISON = "for comparison, without a shuffler (local) or with a trusted curator (central):"
_UNITS = ("eps0: nats, of one message. bits, messages: that a user sends in a round.",)
_COLUMNS = {
    "categories": (
        "RMSE: of a category that nobody holds. largest: with probability 95 %, no",
        "category is off by more, whatever the data are.",
    ),
    "dimension": (
        "RMSE: of the mean vector, 2-norm. largest: with probability 95 %, no",
        "coordinate is off by more, whatever the data are.",
    ),
}
"""What data the columns of errors are for, in lines below the table."""


def _draw(
    ax: Axes, number: int, row: DesignRow, points: list[tuple[float, float, float]], *, band: bool
) -> None:
    """Draw a mechanism's errors against epsilon, and a band from them to the largest errors."""
    epsilons, errors, largest = zip(*points, strict=True)
    where = "" if row.place == "shuffle" else f" ({row.place})"
    label = f"{row.name}{where}: {row.rmse:.3g} at the target, largest {row.largest_error:.3g}"
    style = drawing.curve_style(number)
    ax.plot(epsilons, errors, **style, label=label)
    if band:
        label = f"{row.name}: to the largest error of all categories or coordinates (95 %)"
        color = style["color"]
        ax.fill_between(epsilons, errors, largest, color=color, alpha=0.15, label=label)
