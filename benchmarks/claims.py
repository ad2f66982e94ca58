"""What the benchmark scripts share: claims with their verdicts, timing, and the text table."""

from __future__ import annotations

import functools
import itertools
import signal
import statistics
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import shuffle_accountant as sa

__all__ = [
    "STATED_CLONES",
    "Claim",
    "Note",
    "Outcome",
    "Ratio",
    "Timing",
    "answer",
    "answered",
    "clear_caches",
    "clones_seconds",
    "compact",
    "format_table",
    "interleave",
    "processor_seconds",
    "relative_width",
    "unmet",
]

# Told what is being measured, for the progress bar.
Note = Callable[[str], None]

# Goals in seconds are stated for a machine where `clones_seconds` says this.
STATED_CLONES = 0.013

_VERDICTS = {True: "yes", False: "NO", None: "n/a"}
_HEADER = ("script", "claim", "measured", "holds")
# What these modules remember depends on the question; constants and compiled code stay elsewhere.
_FORGETFUL = tuple(
    f"shuffle_accountant.{part}"
    for part in ("engine.", "lattice.", "losses.", "randomizers.", "reductions.", "rounds.")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim and what became of it.

    Attributes:
        name: a few words, unique within its script.
        text: the claim, as a sentence that is true or false.
        measured: the figures it was judged by.
        holds: the verdict; None when it could not be put to the test.
    """

    name: str
    text: str
    measured: str
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a script returns.

    Attributes:
        claims: the verdicts.
        rows: the measurements behind them, one mapping per row of the CSV file, same keys in each.
        draw: writes the figure to a PNG file, with Matplotlib; None when there is no figure.
    """

    claims: list[Claim]
    rows: list[dict[str, Any]] = field(default_factory=list)
    draw: Callable[[Path], None] | None = None


class Ratio(NamedTuple):
    """Median, least and most of the ratios of interleaved times."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.1f} times ({self.least:.1f} to {self.most:.1f})"


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall times of the repetitions of one call, seconds, and what the last one returned."""

    seconds: tuple[float, ...]
    result: Any

    @property
    def median(self) -> float:
        """Median time, seconds."""
        return statistics.median(self.seconds)

    def times(self, other: Timing) -> Ratio:
        """How many times as long as the other, call by call of an interleaved run."""
        pairs = zip(self.seconds, other.seconds, strict=True)
        ratios = [mine / its for mine, its in pairs]
        return Ratio(statistics.median(ratios), min(ratios), max(ratios))

    def __add__(self, other: Timing) -> Timing:
        """One call and then the other, with the result of the first."""
        pairs = zip(self.seconds, other.seconds, strict=True)
        return Timing(tuple(map(sum, pairs)), self.result)

    def as_row(self) -> dict[str, float | int]:
        """Median, least and most seconds and the number of repetitions, for a CSV row."""
        return {
            "seconds": round(self.median, 6),
            "least": round(min(self.seconds), 6),
            "most": round(max(self.seconds), 6),
            "repetitions": len(self.seconds),
        }

    def __str__(self) -> str:
        return f"{self.median:.3g} s ({min(self.seconds):.3g} to {max(self.seconds):.3g})"


def clear_caches() -> None:
    """Forget every answer, grid and crowd, so that an answer is computed from its parameters."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_FORGETFUL) and not name.endswith(".compiled"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear") and value.__module__ == name:
                    value.cache_clear()


def interleave(
    calls: Mapping[str, Callable[[], Any]],
    repetitions: int,
    *,
    note: Note,
    before: Callable[[], object] = clear_caches,
    warm_up: bool = True,
) -> dict[str, Timing]:
    """Time calls side by side: all of them once, and again, so that a busy spell hits them alike.

    Every other round runs backwards.

    Args:
        calls: what to time, by name.
        repetitions: rounds that count, >= 1.
        note: told the name of each call.
        before: runs before each call, outside the clock.
        warm_up: one more round that does not count goes first: it pays for imports.
    """
    names = list(calls)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    results: dict[str, Any] = {}
    for turn in range(0 if warm_up else 1, repetitions + 1):
        for name in names if turn % 2 == 0 else reversed(names):
            note(name)
            before()
            start = time.perf_counter()
            results[name] = calls[name]()
            elapsed = time.perf_counter() - start
            if turn > 0:
                seconds[name].append(elapsed)
    return {name: Timing(tuple(seconds[name]), results[name]) for name in names}


def answer(
    eps0: float, users: int, rounds: int, delta: float, tolerance: float = 1e-3
) -> sa.Bracket:
    """The whole answer, from parameters to certified bracket of epsilon."""
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=users)
    return sa.FourierAccountant(tolerance=tolerance).compose(one, count=rounds).epsilon(delta=delta)


def processor_seconds(ask: Callable[[], sa.Bracket]) -> tuple[float, sa.Bracket]:
    """Seconds of the processor, all threads together, of an answer that nothing is known of."""
    clear_caches()
    start = time.process_time()
    found = ask()
    return time.process_time() - start, found


def clones_seconds() -> float:
    """Seconds of the processor of a thousand rounds of clones, the least of three.

    Goals in seconds are stated for a machine where it takes `STATED_CLONES`.
    """
    ask = functools.partial(answer, 1.0, 10**5, 1000, 1e-6)
    return min(processor_seconds(ask)[0] for _ in range(3))


def relative_width(bracket: sa.Bracket) -> float:
    """Width over upper end; 0 for the bracket [0, 0]."""
    return bracket.width / bracket.upper if bracket.upper > 0 else 0.0


def unmet(met: bool, why: str) -> str:
    """Why a goal is not met, to be shown behind its figures; nothing if it is met."""
    return "" if met else f"; not met: {why or 'other work on this machine, or a step backwards'}"


def compact(number: int) -> str:
    """A count as text: 1000 as itself, 10**12 as 1e12."""
    return str(number) if number < 10**4 else f"{number:.0e}".replace("+0", "").replace("+", "")


def format_table(claims: Sequence[tuple[str, Claim]], columns: int | None = None) -> str:
    """Claims of scripts, as pairs (script, claim), in a table that is Markdown as well.

    Args:
        claims: what to show, one row each.
        columns: wrap long cells, so that the table is about this wide; None for one line per row.
    """
    cells = [_HEADER] + [(s, c.text, c.measured, _VERDICTS[c.holds]) for s, c in claims]
    fixed = sum(max(len(row[i]) for row in cells) for i in (0, 3)) + 13  # 13 of lines and spaces
    most = None if columns is None else max((columns - fixed) // 2, 24)
    lines = [line for row in cells for line in _wrap(row, most)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEADER))]

    def join(row: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return "\n".join([join(lines[0]), rule, *map(join, lines[1:])])


def _wrap(row: Sequence[str], most: int | None) -> Iterator[Sequence[str]]:
    if most is None:
        yield row
        return
    wrapped = [textwrap.wrap(cell, most) for cell in row]
    yield from itertools.zip_longest(*wrapped, fillvalue="")


class _TooLong(Exception):
    """A question that is given up."""


@contextmanager
def _limited(limit: float) -> Iterator[None]:
    """Raise after that many seconds of the processor."""

    def give_up(*_: Any) -> None:
        raise _TooLong

    earlier = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, earlier)


def answered(asked: Mapping[str, Any], *, tolerance: float, limit: float) -> dict[str, Any]:
    """Seconds and bracket of epsilon; no bracket where the question is given up.

    Args:
        asked: with ``round``, ``delta`` and ``rounds``.
        tolerance: relative width of the bracket that is asked for.
        limit: processor seconds after which the question is given up.
    """
    try:
        with _limited(limit):
            seconds, found = processor_seconds(
                lambda: sa.epsilon(
                    asked["round"],
                    delta=asked["delta"],
                    rounds=asked["rounds"],
                    tolerance=tolerance,
                )
            )
    except _TooLong:
        return {"lower": None, "upper": None, "relative_width": 0.0, "seconds": limit}
    return {
        "lower": found.lower,
        "upper": found.upper,
        "relative_width": relative_width(found),
        "seconds": round(seconds, 4),
    }
