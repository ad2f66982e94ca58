"""Random protocols, each answer compared with the exact one: `python -m benchmarks.fuzz`.

Channels of the styles that rounding errs on (tiny entries, zeros, rows that are equal, almost equal
or all but certain), few users, and epsilons at, next to and beyond the largest loss. The exact
value of every question is enumerated in integers by ``tests/oracles/rational.py``, which shares
nothing with the package. Comparisons are strict: the lower end is not above the exact value, the
upper end not below it, without a tolerance. The one allowance is for channels whose rows of floats
do not add up to one: four times users times that defect times 1 + e^epsilon.

Steps and rounds of one user are asked by their closed forms, in both orders, and states and
certificates are altered (see `benchmarks.fuzz_steps`). Several messages of a user, groups of people
and shufflers as they are deployed are enumerated too (see `benchmarks.fuzz_people`).

A check is one comparison of an answer with an exact value. Besides, no call may warn of anything
but a loose bracket, raise, answer NaN, or take 20 seconds of the processor's time.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import math
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import shuffle_accountant as sa
from benchmarks import fuzz_people, fuzz_steps

_TESTS = str(Path(__file__).resolve().parent.parent / "tests")
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)
exact = importlib.import_module("oracles.rational")

# No call may take longer, seconds of the processor's time: other processes are not its fault.
LONGEST = 20.0
# The smallest double.
_LEAST = 5e-324
_UNIT = 2**53
# Altered files are as likely as this after a random protocol.
_FILES = 0.2

Matrix = list[list[float]]


@dataclass(frozen=True)
class Failure:
    """An answer that is wrong.

    Attributes:
        style: of channels.
        kind: what is wrong, in a few words that group failures of one sort.
        said: the answer and the exact value.
        line: Python that asks the question again.
    """

    style: str
    kind: str
    said: str
    line: str

    def __str__(self) -> str:
        return f"{self.style}: {self.kind}: {self.said}\n    {self.line}"


class TooLong(BaseException):
    """A call was stopped; no `Exception`, so that nothing on the way takes it for its own."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Stop what takes more of the processor's time, where the system can."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TooLong

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


@dataclass
class Judge:
    """Asks, compares and keeps the books.

    Attributes:
        checks: comparisons made, by style.
        failures: what was wrong.
        slowest: seconds of the longest call, and the call.
    """

    checks: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    style: str = ""

    def fail(self, kind: str, said: str, line: str) -> None:
        """Note what is wrong."""
        self.failures.append(Failure(self.style, kind, said, line))

    def ask(self, call: Callable[[], Any], line: str) -> Any:
        """The answer, or None if there is none; a check of its own."""
        self.checks[self.style] += 1
        start = time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with at_most(LONGEST):
                    answer = call()
            except TooLong:
                self.fail("too long", f"more than {LONGEST:g} s", line)
                return None
            except Exception as error:
                said = f"{type(error).__name__}: {error!s:.120}"
                self.fail(f"raises {said[:48]}", said, line)
                return None
        taken = time.process_time() - start
        if taken > self.slowest[0]:
            self.slowest = taken, line
        for warning in caught:
            if not issubclass(warning.category, sa.LooseBracketWarning | sa.WeakPrivacyWarning):
                where = f"{Path(warning.filename).name}:{warning.lineno}"
                said = f"{warning.category.__name__}: {warning.message} ({where})"
                self.fail(f"warns {said}", said, line)
                break
        if not 0.0 <= answer.lower <= answer.upper:
            self.fail("no bracket", f"({answer.lower!r}, {answer.upper!r})", line)
            return None
        return answer

    def above(self, kind: str, answer: Any, truth: Any, line: str) -> None:
        """The upper end is not below what is true."""
        self.checks[self.style] += 1
        if not truth.may_stay_below(min(answer.upper, 1e308)):
            said = f"({answer.lower!r}, {answer.upper!r}), exact {truth}"
            self.fail(f"{kind}: upper end too low", said, line)

    def below(self, kind: str, answer: Any, truth: Any, line: str) -> None:
        """The lower end is not above what is true."""
        self.checks[self.style] += 1
        if not truth.may_reach(answer.lower):
            said = f"({answer.lower!r}, {answer.upper!r}), exact {truth}"
            self.fail(f"{kind}: lower end too high", said, line)

    def contains(self, kind: str, answer: Any, truth: Any, line: str) -> None:
        """Both."""
        self.above(kind, answer, truth, line)
        self.below(kind, answer, truth, line)

    def enough(self, kind: str, answer: Any, delta: float, profile: Any, line: str) -> None:
        """The epsilon of a delta: the profile crosses it between the ends.

        Args:
            kind: of pair.
            answer: the bracket of epsilon.
            delta: the delta asked about.
            profile: the exact divergence as a function of epsilon.
            line: the question.
        """
        self.checks[self.style] += 2
        said = f"({answer.lower!r}, {answer.upper!r})"
        if answer.upper < math.inf:
            value = profile(answer.upper)
            if not value.may_stay_below(delta):
                self.fail(f"{kind}: epsilon too low", f"{said}, delta there exactly {value}", line)
        if answer.lower == math.inf:
            value = profile(math.inf)
            if not value.may_reach(delta):
                self.fail(f"{kind}: infinite epsilon", f"{said}, limit exactly {value}", line)
        elif answer.lower > 0.0:
            value = profile(answer.lower)
            if not value.may_reach(delta):
                self.fail(
                    f"{kind}: lower epsilon too high", f"{said}, delta there exactly {value}", line
                )


# ------------------------------------------------------------------------------- channels


def _exact_row(rng: np.random.Generator, weights: Sequence[float]) -> list[float]:
    """A row in proportion to the weights, of multiples of 2^-53 that add up to one exactly."""
    total = math.fsum(weights)
    units = [int(w / total * _UNIT) for w in weights]
    units[int(np.argmax(units))] += _UNIT - sum(units)
    return [unit / _UNIT for unit in units]


def _spread(rng: np.random.Generator, letters: int) -> list[float]:
    return [float(x) for x in rng.dirichlet(np.full(letters, rng.choice([0.3, 1.0, 5.0])))]


def _shape(rng: np.random.Generator) -> tuple[int, int]:
    return int(rng.integers(2, 5)), int(rng.integers(2, 5))


def plain(rng: np.random.Generator) -> Matrix:
    """Rows of multiples of 2^-53 that add up to one."""
    inputs, letters = _shape(rng)
    return [_exact_row(rng, _spread(rng, letters)) for _ in range(inputs)]


def close(rng: np.random.Generator) -> Matrix:
    """Rows that differ by a few units of 2^-53, or by parts in 10^k, or not at all."""
    inputs, letters = _shape(rng)
    base = _exact_row(rng, _spread(rng, letters))
    size = int(10.0 ** rng.uniform(0.0, 12.0))
    rows = []
    for _ in range(inputs):
        units = [int(p * _UNIT) for p in base]
        if rng.random() < 0.8:
            a, b = (int(x) for x in rng.choice(letters, size=2, replace=False))
            step = min(int(rng.integers(0, size + 1)), units[a])
            units[a] -= step
            units[b] += step
        rows.append([unit / _UNIT for unit in units])
    return rows


def certain(rng: np.random.Generator) -> Matrix:
    """Rows that all but always send one message."""
    inputs, letters = _shape(rng)
    rows = []
    for x in range(inputs):
        places = rng.integers(1, 54, size=letters)
        weights = [int(2 ** (53 - j)) if rng.random() < 0.8 else 0 for j in places]
        own = int(rng.integers(letters)) if rng.random() < 0.3 else x % letters
        weights[own] = 0
        weights = [min(w, _UNIT // letters // 2) for w in weights]
        weights[own] = _UNIT - sum(weights)
        rows.append([w / _UNIT for w in weights])
    return rows


def coarse(rng: np.random.Generator) -> Matrix:
    """Multiples of 1/8 or 1/16: ties, equal columns, zeros and losses that many events share."""
    inputs, letters = _shape(rng)
    unit = int(rng.choice([4, 8, 16]))
    return [
        [count / unit for count in rng.multinomial(unit, np.full(letters, 1 / letters)).tolist()]
        for _ in range(inputs)
    ]


def zeros(rng: np.random.Generator) -> Matrix:
    """Letters that rule inputs out."""
    inputs, letters = _shape(rng)
    rows = []
    for x in range(inputs):
        weights = [0.0 if rng.random() < 0.35 else w for w in _spread(rng, letters)]
        weights[x % letters] += 0.1
        rows.append(_exact_row(rng, weights))
    return rows


def point_mass(rng: np.random.Generator) -> Matrix:
    """One row that always sends one message."""
    channel = plain(rng) if rng.random() < 0.5 else zeros(rng)
    row, letter = int(rng.integers(len(channel))), int(rng.integers(len(channel[0])))
    channel[row] = [float(y == letter) for y in range(len(channel[0]))]
    return channel


def mirrored(rng: np.random.Generator) -> Matrix:
    """Two rows that are each other's mirror image, perhaps with a letter they share."""
    shared = int(rng.integers(0, _UNIT // 2)) if rng.random() < 0.4 else 0
    a = int((_UNIT - shared) * 10.0 ** -rng.choice([0.31, 0.5, 1.0, 4.0, 12.0]))
    if rng.random() < 0.3:
        a = (_UNIT - shared) // 2 - int(rng.integers(0, 1000))
    b = _UNIT - shared - a
    rows = [[a / _UNIT, b / _UNIT], [b / _UNIT, a / _UNIT]]
    return [[*row, shared / _UNIT] for row in rows] if shared else rows


def tiny(rng: np.random.Generator) -> Matrix:
    """Entries down to the smallest double, beside others that add up to one."""
    base = [plain, certain, zeros, point_mass, coarse][int(rng.integers(5))](rng)
    for row in base:
        for y, entry in enumerate(row):
            if entry == 0.0 and rng.random() < 0.7:
                row[y] = _little(rng)
    if rng.random() < 0.5:  # a letter that is hardly ever sent
        for row in base:
            row.append(_little(rng) if rng.random() < 0.8 else 0.0)
    return base


def _little(rng: np.random.Generator) -> float:
    if rng.random() < 0.1:
        return _LEAST
    return max(float(10.0 ** -rng.uniform(20.0, 323.0)), _LEAST)


def uneven_sums(rng: np.random.Generator) -> Matrix:
    """Floats as they come, whose rows add up to one but for rounding."""
    inputs, letters = _shape(rng)
    if rng.random() < 0.5:
        return [_spread(rng, letters) for _ in range(inputs)]
    low = float(10.0 ** -rng.uniform(1.0, 15.0))
    rows = [[low * float(x), 1.0 - low * float(x)] for x in rng.random(inputs)]
    return rows


STYLES: dict[str, Callable[[np.random.Generator], Matrix]] = {
    "plain": plain,
    "close rows": close,
    "near-deterministic": certain,
    "coarse": coarse,
    "zeros": zeros,
    "point mass": point_mass,
    "mirrored": mirrored,
    "tiny": tiny,
    "uneven sums": uneven_sums,
}

_DELTAS = (0.5, 0.1, 1e-2, 1e-3, 1e-6, 1e-9, 1e-12, 1e-16, 1e-30, 1e-100, 1e-300)


def _proper(channel: Matrix) -> Matrix:
    """Without the columns of zeros."""
    used = [y for y in range(len(channel[0])) if any(row[y] for row in channel)]
    return [[row[y] for y in used] for row in channel]


def _around(rng: np.random.Generator, loss: float) -> float:
    """A loss, or something next to it."""
    choice = int(rng.integers(9))
    near = [
        loss,
        np.nextafter(loss, 0.0),
        np.nextafter(loss, math.inf),
        loss * (1 - 1e-16 * rng.integers(1, 9)),
        loss * (1 + 1e-16 * rng.integers(1, 9)),
        loss - 1e-6,
        loss * (1 - 10.0 ** -rng.uniform(1.0, 16.0)),
        loss + 1e-6,
        loss * (1 - 1e-13),
    ][choice]
    return max(float(near), 0.0)


def epsilons(rng: np.random.Generator, eps0: float, losses: Sequence[float]) -> list[float]:
    """Epsilons to ask about: near the losses that letters have, and far from them."""
    top = eps0 if eps0 < math.inf else max(losses, default=3.0)
    found = [
        _around(rng, top),
        _around(rng, top),
        max(top * (1.0 - 10.0 ** -rng.uniform(0.0, 17.0)), 0.0),
        top * float(rng.random()),
        float(rng.choice([0.0, _LEAST, 1e-300, 1e-17, 1e-10, 1e-5])),
    ]
    if losses:
        found.append(_around(rng, float(rng.choice(losses))))
    if rng.random() < 0.5:
        found.append(float(rng.choice([1.5 * top, 30.0, 300.0, 690.0, 700.0, 709.9, 745.0, 800.0])))
    return found


# --------------------------------------------------------------------------- finite channels


def _allowed(channel: Any, users: int, epsilon: float) -> Fraction:
    """What rows that do not add up to one excuse."""
    if channel.excused == 0:
        return Fraction(0)
    alpha = Fraction(exact.exponential(min(epsilon, 5000.0)), 1 << exact.PLACES)
    return 4 * users * channel.excused * (2 + alpha)


class Given:
    """A channel, its randomizer and the line that makes it."""

    def __init__(self, matrix: Matrix, uneven: bool = False) -> None:
        self.matrix = matrix
        self.channel = exact.Channel.of_floats(matrix)
        self.channel.excused = self.channel.defect if uneven else Fraction(0)
        self.randomizer: Any = sa.DiscreteRandomizer(matrix)
        self.line = f"sa.DiscreteRandomizer({matrix!r})"


def one_channel(
    judge: Judge, rng: np.random.Generator, style: str, matrix: Matrix, users: int | None = None
) -> None:
    """Single rounds of a channel, everybody taking part."""
    judge.style = style
    given = Given(_proper(matrix), uneven=style == "uneven sums")
    channel, randomizer = given.channel, given.randomizer
    users = users or int(rng.integers(1, 7))
    eps0 = _local(judge, given)
    finite = channel.ratio is not None
    asked = epsilons(rng, eps0, channel.kinks)
    single_channel(judge, rng, given, randomizer, users, asked, finite=finite)


def _local(judge: Judge, given: Given) -> float:
    """The local parameter of the randomizer, which is not below the true one."""
    judge.checks[judge.style] += 1
    channel, eps0 = given.channel, float(given.randomizer.eps0)
    line = f"{given.line}.eps0"
    if channel.ratio is None:
        if eps0 != math.inf:
            judge.fail("eps0", f"{eps0!r}, exact inf", line)
    else:
        alpha = Fraction(exact.exponential(eps0) + 4, 1 << exact.PLACES)
        if alpha < channel.ratio:
            judge.fail("eps0 too low", f"{eps0!r}, ratio {channel.ratio!s:.60}", line)
    return eps0


def single_channel(
    judge: Judge,
    rng: np.random.Generator,
    given: Any,
    randomizer: Any,
    users: int,
    asked: Sequence[float],
    *,
    finite: bool,
) -> None:
    """The bounds of one round against its own pair and against real datasets."""
    channel = given.channel
    reduction = str(rng.choice(["blanket", "auto"]))
    text = f"sa.ShuffleRound({given.line}, users={users}, reduction={reduction!r})"
    tight = sa.ShuffleRound(randomizer, users=users, reduction=reduction)
    own = channel.blanket_pairs(users)
    triples = list(itertools.product(channel.inputs, repeat=3))
    triples = [(a, b, c) for a, b, c in triples if a != b]
    if len(triples) > 18:
        triples = [triples[i] for i in rng.choice(len(triples), size=18, replace=False)]
    others = [(c,) * (users - 1) for *_, c in triples]
    real = [
        (channel.dataset(a, b, rest), (a, b, rest))
        for (a, b, _), rest in zip(triples, others, strict=True)
    ]
    if users > 2:
        rest = tuple(int(x) for x in rng.integers(len(channel.rows), size=users - 1))
        a, b = (int(x) for x in rng.choice(len(channel.rows), size=2, replace=False))
        real.append((channel.dataset(a, b, rest), (a, b, rest)))
    slight = 1 / (1 + 2 * channel.defect) ** users
    general = None
    if finite and rng.random() < 0.7:
        general = sa.ShuffleRound(randomizer, users=users, reduction="clones")
        theirs, doubt = exact.power_of_e(float(randomizer.eps0))
        clones_pair = exact.clones(theirs, users, doubt)
    for epsilon in asked:
        excuse = _allowed(channel, users, epsilon)
        line = f"sa.delta({text}, epsilon={epsilon!r})"
        bound = judge.ask(lambda e=epsilon: sa.delta(tight, epsilon=e), line)
        truth = exact.largest(pair.divergence(epsilon) for pair in own).widened(excuse)
        if bound is not None:
            judge.contains("blanket's own pair", bound, truth, line)
        wide, wide_line = None, line.replace(repr(reduction), "'clones'")
        if general is not None:
            wide = judge.ask(lambda e=epsilon: sa.delta(general, epsilon=e), wide_line)
            if wide is not None:
                judge.contains("clones' own pair", wide, clones_pair.divergence(epsilon), wide_line)
        values = {}
        for pair, dataset in real:
            value = values[dataset] = pair.divergence(epsilon).scaled(slight).widened(excuse)
            if bound is not None:
                judge.above("real dataset", bound, value, f"{line}  # {dataset}")
            if wide is not None:
                judge.above("real dataset, clones", wide, value, f"{wide_line}  # {dataset}")
        attained_line = f"{text}.attained(epsilon={epsilon!r})"
        found = judge.ask(lambda e=epsilon: tight.attained(epsilon=e), attained_line)
        if found is not None:
            a, b, c = found.dataset
            value = channel.dataset(a, b, (c,) * (users - 1)).divergence(epsilon).widened(excuse)
            judge.contains("attained", found, value, attained_line)
    for _ in range(2):
        delta = float(rng.choice(_DELTAS))
        if rng.random() < 0.3:
            delta = float(rng.uniform(0.0, 1.0)) or 0.5
        line = f"sa.epsilon({text}, delta={delta!r})"
        bracket = judge.ask(lambda d=delta: sa.epsilon(tight, delta=d), line)
        if bracket is not None:

            def profile(epsilon: float) -> Any:
                found = exact.largest(pair.divergence(epsilon) for pair in own)
                return found.widened(_allowed(channel, users, epsilon))

            judge.enough("blanket's own pair", bracket, delta, profile, line)
        if general is not None:
            line = line.replace(repr(reduction), "'clones'")
            bracket = judge.ask(lambda d=delta: sa.epsilon(general, delta=d), line)
            if bracket is not None:
                judge.enough("clones' own pair", bracket, delta, clones_pair.divergence, line)


def sampled_channel(judge: Judge, rng: np.random.Generator, style: str, matrix: Matrix) -> None:
    """Single rounds of a few users of a population."""
    judge.style = f"sampled, {style}"
    given = Given(_proper(matrix), uneven=style == "uneven sums")
    channel, randomizer = given.channel, given.randomizer
    users = int(rng.integers(1, 5))
    population = users + int(rng.choice([1, 2, 3, 7, 100, 10**6, 10**12]))
    text = (
        f"sa.ShuffleRound({given.line}, users={users}, population={population}, "
        "reduction='blanket')"
    )
    one = sa.ShuffleRound(randomizer, users=users, population=population, reduction="blanket")
    own = [pair.mixed(users, population) for pair in channel.blanket_pairs(users)]
    triples = [t for t in itertools.product(channel.inputs, repeat=3) if t[0] != t[1]]
    if len(triples) > 12:
        triples = [triples[i] for i in rng.choice(len(triples), size=12, replace=False)]

    def sample(a: int, b: int, c: int) -> Any:
        if users == 1:
            return channel.sample_of_one(a, b, c, population)
        return channel.dataset(a, b, (c,) * (users - 1), population)

    general = None
    if channel.ratio is not None and rng.random() < 0.5:
        general = sa.ShuffleRound(
            randomizer, users=users, population=population, reduction="clones"
        )
        theirs, doubt = exact.power_of_e(float(randomizer.eps0))
        clones_pair = exact.clones(theirs, users, doubt).mixed(users, population)
    eps0 = float(randomizer.eps0)
    losses = [math.log1p(users / population * math.expm1(min(x, 700.0))) for x in channel.kinks]
    if eps0 < 700.0:
        eps0 = math.log1p(users / population * math.expm1(eps0))
    slight = 1 / (1 + 2 * channel.defect) ** users
    for epsilon in epsilons(rng, eps0, losses):
        excuse = _allowed(channel, users, epsilon)
        line = f"sa.delta({text}, epsilon={epsilon!r})"
        bound = judge.ask(lambda e=epsilon: sa.delta(one, epsilon=e), line)
        truth = exact.largest(pair.divergence(epsilon) for pair in own).widened(excuse)
        if bound is not None:
            judge.contains("blanket's own pair", bound, truth, line)
        wide, wide_line = None, line.replace("'blanket'", "'clones'")
        if general is not None:
            wide = judge.ask(lambda e=epsilon: sa.delta(general, epsilon=e), wide_line)
            if wide is not None:
                judge.contains("clones' own pair", wide, clones_pair.divergence(epsilon), wide_line)
        for triple in triples:
            value = sample(*triple).divergence(epsilon).scaled(slight).widened(excuse)
            if bound is not None:
                judge.above("real dataset", bound, value, f"{line}  # {triple}")
            if wide is not None:
                judge.above("real dataset, clones", wide, value, f"{wide_line}  # {triple}")
        attained_line = f"{text}.attained(epsilon={epsilon!r})"
        found = judge.ask(lambda e=epsilon: one.attained(epsilon=e), attained_line)
        if found is not None:
            value = sample(*found.dataset).divergence(epsilon).widened(excuse)
            judge.contains("attained", found, value, attained_line)
    delta = float(rng.choice(_DELTAS))
    line = f"sa.epsilon({text}, delta={delta!r})"
    bracket = judge.ask(lambda: sa.epsilon(one, delta=delta), line)
    if bracket is not None:

        def profile(epsilon: float) -> Any:
            found = exact.largest(pair.divergence(epsilon) for pair in own)
            return found.widened(_allowed(channel, users, epsilon))

        judge.enough("blanket's own pair", bracket, delta, profile, line)


def composed_channel(judge: Judge, rng: np.random.Generator, style: str, matrix: Matrix) -> None:
    """Two or three rounds, sampled now and then, of at most three inputs and messages."""
    judge.style = f"composed, {style}"
    matrix = _proper([row[:] for row in matrix[:3]])
    given = Given(matrix, uneven=style == "uneven sums")
    channel, randomizer = given.channel, given.randomizer
    few = len(matrix[0]) <= 3
    users = int(rng.integers(1, 4 if few else 3))
    population = users + int(rng.integers(1, 5)) if rng.random() < 0.3 else None
    name = "clones" if channel.ratio is not None and rng.random() < 0.4 else "blanket"
    sampled = "" if population is None else f"population={population}, "
    text = f"sa.ShuffleRound({given.line}, users={users}, {sampled}reduction={name!r})"
    one = sa.ShuffleRound(randomizer, users=users, population=population, reduction=name)
    if name == "clones":
        theirs, doubt = exact.power_of_e(float(randomizer.eps0))
        single = exact.clones(theirs, users, doubt)
    else:
        single = channel.blanket_dominating(users)
    if population is not None:
        single = single.sampled(users, population)
    single = single.merged()
    rounds = 3 if len(single.atoms) <= 12 and rng.random() < 0.5 else 2
    if len(single.atoms) > 150:
        return
    own = (single @ single).merged()
    if rounds == 3:
        own = (own @ single).merged()
    eps0 = float(randomizer.eps0)
    asked = epsilons(rng, rounds * eps0, [rounds * x for x in channel.kinks])
    real = []
    for _ in range(4):
        a, b = (int(x) for x in rng.choice(len(channel.rows), size=2, replace=False))
        pairs = []
        for _ in range(rounds):
            c = int(rng.integers(len(channel.rows)))
            if population is None:
                pair = channel.dataset(a, b, (c,) * (users - 1))
            elif users == 1:
                pair = channel.sample_of_one(a, b, c, population)
            else:
                pair = channel.dataset(a, b, (c,) * (users - 1), population)
            pairs.append(pair.merged())
        product = pairs[0]
        for pair in pairs[1:]:
            product = (product @ pair).merged()
        real.append(product)
    slight = 1 / (1 + 2 * channel.defect) ** (users * rounds)
    pick = rng.choice(len(asked), size=2, replace=False)
    for epsilon in (asked[i] for i in pick):
        excuse = _allowed(channel, users * rounds, epsilon)
        line = f"sa.delta({text}, epsilon={epsilon!r}, rounds={rounds})"
        bound = judge.ask(lambda e=epsilon: sa.delta(one, epsilon=e, rounds=rounds), line)
        if bound is not None:
            judge.contains(f"{name}, own", bound, own.divergence(epsilon).widened(excuse), line)
            for product in real:
                value = product.divergence(epsilon).scaled(slight).widened(excuse)
                judge.above("real dataset", bound, value, line)
    if rounds == 2 and excuse == 0:
        _beside_clones(judge, rng, one, text, single, float(rng.choice(asked)))
    delta = float(rng.choice(_DELTAS[:9]))
    line = f"sa.epsilon({text}, delta={delta!r}, rounds={rounds})"
    bracket = judge.ask(lambda: sa.epsilon(one, delta=delta, rounds=rounds), line)
    if bracket is not None:

        def profile(epsilon: float) -> Any:
            return own.divergence(epsilon).widened(_allowed(channel, users * rounds, epsilon))

        judge.enough(f"{name}, own", bracket, delta, profile, line)


def _beside_clones(
    judge: Judge, rng: np.random.Generator, one: Any, text: str, single: Any, epsilon: float
) -> None:
    """A round beside one of another randomizer."""
    eps0, users = _eps0(rng), int(rng.integers(1, 4))
    odds, doubt = exact.power_of_e(eps0)
    other = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users)
    line = (
        f"sa.FourierAccountant().compose({text})"
        f".compose(sa.ShuffleRound(sa.GeneralRandomizer({eps0!r}), users={users}))"
        f".delta(epsilon={epsilon!r})"
    )
    accountant = sa.FourierAccountant().compose(one).compose(other)
    bound = judge.ask(lambda: accountant.delta(epsilon=epsilon), line)
    if bound is not None:
        truth = (single @ exact.clones(odds, users, doubt)).divergence(epsilon)
        judge.contains("two randomizers", bound, truth, line)


# ---------------------------------------------------------------------- named randomizers


def _eps0(rng: np.random.Generator) -> float:
    return float(rng.choice([rng.uniform(0.0, 4.0) + 0.01, 10.0 ** rng.uniform(-9.0, 1.5)]))


def named_mechanism(judge: Judge, rng: np.random.Generator) -> None:
    """RAPPOR, subset selection, Hadamard response and randomized response by their parameters."""
    kind = int(rng.integers(5))
    eps0 = _eps0(rng)
    given: Any = type("Named", (), {})()
    if kind == 0:
        k = int(rng.integers(2, 4))
        given.channel, given.randomizer = exact.rappor(k, eps0), sa.RAPPOR(categories=k, eps0=eps0)
        given.line = f"sa.RAPPOR(categories={k}, eps0={eps0!r})"
    elif kind == 1:
        k = int(rng.integers(2, 5))
        size = int(rng.integers(1, k))
        given.channel = exact.subset_selection(k, eps0, size)
        given.randomizer = sa.SubsetSelection(categories=k, eps0=eps0, size=size)
        given.line = f"sa.SubsetSelection(categories={k}, eps0={eps0!r}, size={size})"
    elif kind == 2:
        k = int(rng.integers(2, 5))
        given.channel = exact.hadamard(k, eps0)
        given.randomizer = sa.HadamardResponse(categories=k, eps0=eps0)
        given.line = f"sa.HadamardResponse(categories={k}, eps0={eps0!r})"
    else:
        k = int(rng.integers(2, 5))
        if kind == 3:
            gamma, doubt = Fraction(_gamma(rng)), Fraction(0)
            given.randomizer = sa.RandomizedResponse.from_gamma(categories=k, gamma=float(gamma))
        else:
            odds, doubt = exact.power_of_e(eps0)
            gamma = k / (odds + k - 1)
            given.randomizer = sa.RandomizedResponse(categories=k, eps0=eps0)
        given.channel = exact.randomized_response(k, gamma, doubt)
        given.line = f"sa.{given.randomizer!r}"
    judge.style = type(given.randomizer).__name__
    channel = given.channel
    channel.excused = Fraction(0)
    most = 3 if len(channel.rows[0]) > 6 else 5
    users = int(rng.integers(1, most + 1))
    finite = channel.ratio is not None
    asked = epsilons(rng, float(given.randomizer.eps0), channel.kinks)
    single_channel(judge, rng, given, given.randomizer, users, asked, finite=finite)
    if kind >= 3:
        _strong(judge, rng, given, k, gamma, doubt, users, asked)


def _gamma(rng: np.random.Generator) -> float:
    return float(
        rng.choice(
            [rng.random(), 10.0 ** -rng.uniform(0.0, 300.0), 1.0 - 10.0 ** -rng.uniform(1.0, 15.5)]
        )
    )


def _strong(
    judge: Judge,
    rng: np.random.Generator,
    given: Any,
    k: int,
    gamma: Fraction,
    doubt: Fraction,
    users: int,
    asked: Sequence[float],
) -> None:
    """The three variants of the adversary who sees who answered at random."""
    judge.style = "strong"
    pair = exact.strong_pair(k, gamma, users, doubt)
    losses = [math.log(a / b) for a, b in itertools.combinations(range(users, 0, -1), 2)]
    more = [_around(rng, x) for x in losses[:3]]
    for variant in ("exact", "paper", "tail"):
        text = (
            f"sa.ShuffleRound({given.line}, users={users}, reduction='strong', variant={variant!r})"
        )
        one = sa.ShuffleRound(given.randomizer, users=users, reduction="strong", variant=variant)
        for epsilon in [*asked, *more]:
            line = f"sa.delta({text}, epsilon={epsilon!r})"
            bound = judge.ask(lambda e=epsilon, r=one: sa.delta(r, epsilon=e), line)
            if bound is None:
                continue
            if variant == "tail":
                truth = pair.tail(epsilon)
            else:
                truth = pair.divergence(epsilon)
                if variant == "exact":
                    truth = truth.scaled(1 - gamma).widened(2 * doubt)
            judge.contains(variant, bound, truth, line)


def general_randomizer(judge: Judge, rng: np.random.Generator) -> None:
    """What is known by its eps0 alone, interactive or not, sampled or not."""
    judge.style = "general"
    eps0, users = _eps0(rng), int(rng.integers(1, 8))
    interactive = bool(rng.random() < 0.5)
    population = users + int(rng.integers(1, 9)) if rng.random() < 0.4 else None
    randomizer = f"sa.GeneralRandomizer({eps0!r}, interactive={interactive})"
    text = f"sa.ShuffleRound({randomizer}, users={users}, population={population})"
    one = sa.ShuffleRound(
        sa.GeneralRandomizer(eps0, interactive=interactive), users=users, population=population
    )
    odds, doubt = exact.power_of_e(eps0)
    pair = (exact.interactive_clones if interactive else exact.clones)(odds, users, doubt)
    largest = eps0
    if population is not None:
        pair = pair.mixed(users, population)
        largest = math.log1p(users / population * math.expm1(eps0))
    for epsilon in epsilons(rng, largest, [largest]):
        line = f"sa.delta({text}, epsilon={epsilon!r})"
        bound = judge.ask(lambda e=epsilon: sa.delta(one, epsilon=e), line)
        if bound is not None:
            judge.contains("own pair", bound, pair.divergence(epsilon), line)
    delta = float(rng.choice(_DELTAS))
    line = f"sa.epsilon({text}, delta={delta!r})"
    bracket = judge.ask(lambda: sa.epsilon(one, delta=delta), line)
    if bracket is not None:
        judge.enough("own pair", bracket, delta, pair.divergence, line)


# ------------------------------------------------------------------------------------ runs


def step(judge: Judge, rng: np.random.Generator) -> None:
    """One random protocol."""
    what = rng.random()
    style = str(rng.choice(list(STYLES)))
    if what < 0.15:
        named_mechanism(judge, rng)
    elif what < 0.22:
        general_randomizer(judge, rng)
    elif what < 0.37:
        sampled_channel(judge, rng, style, STYLES[style](rng))
    elif what < 0.42:
        composed_channel(judge, rng, style, STYLES[style](rng))
    else:
        one_channel(judge, rng, style, STYLES[style](rng))


def run(
    seed: Sequence[int], *, seconds: float, checks: float = math.inf, hostile: bool = False
) -> Judge:
    """Random protocols until the time or the number of checks is reached.

    Args:
        seed: of the generator.
        seconds: to go on for.
        checks: to make.
        hostile: whether hostile arguments to bounds, measures and calibration are among them, and
            altered files.
    """
    judge, rng = Judge(), np.random.default_rng(list(seed))
    end = time.monotonic() + seconds
    strange = hostile_arguments(rng) if hostile else None
    while time.monotonic() < end and judge.checks.total() < checks:
        step(judge, rng)
        fuzz_steps.steps(judge, rng)
        fuzz_people.people(judge, rng)
        if strange is not None:
            if rng.random() < _FILES:
                fuzz_steps.files(judge, rng)
            judge.style = "hostile arguments"
            for kind, said, line in itertools.islice(strange, 4):
                judge.checks[judge.style] += 1
                if said is not None:
                    judge.fail(kind, said, line)
    return judge


def hostile_arguments(rng: np.random.Generator) -> Iterator[tuple[str, str | None, str]]:
    """Calls with arguments that nobody means, of ``tests/oracles/hostile.py``: what is wrong."""
    others = importlib.import_module("oracles.hostile")
    for case in others.cases(rng):
        yield f"hostile arguments of {case.entry.name}", others.check(case), str(case)


def _process(task: tuple[int, int, float]) -> Judge:
    seed, number, seconds = task
    return run((seed, number), seconds=seconds, hostile=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run for some minutes, print what was checked and what failed.

    Args:
        arguments: the command line without the program's name; that of the process if None.

    Returns:
        1 if anything failed, else 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz",
        description="Compare the answers about random protocols with the exact ones.",
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    tasks = [(options.seed, i, 60.0 * options.minutes) for i in range(options.processes)]
    if options.processes == 1:
        judges = [_process(tasks[0])]
    else:
        with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
            judges = pool.map(_process, tasks, chunksize=1)
    checks: Counter[str] = sum((judge.checks for judge in judges), Counter())
    failures = [failure for judge in judges for failure in judge.failures]
    print(report(checks, failures))
    seconds, line = max(judge.slowest for judge in judges)
    print(f"longest call: {seconds:.2f} s\n    {line}")
    return 1 if failures else 0


def report(checks: Counter[str], failures: Sequence[Failure]) -> str:
    """Checks by style, then failures, one example of each sort first."""
    wrong = Counter(failure.style for failure in failures)
    width = max(map(len, checks), default=0)
    lines = [f"{style:{width}}  {checks[style]:9,}  {wrong[style]:6,}" for style in sorted(checks)]
    lines.append(f"{'all':{width}}  {checks.total():9,}  {len(failures):6,}")
    shortest: dict[str, Failure] = {}
    for failure in failures:
        known = shortest.get(failure.kind)
        if known is None or len(failure.line) < len(known.line):
            shortest[failure.kind] = failure
    sorts = Counter(failure.kind for failure in failures)
    lines += [f"{count} x {shortest[kind]}" for kind, count in sorts.most_common()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
