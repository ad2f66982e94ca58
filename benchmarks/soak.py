"""Random protocols of all kinds, each answered in several ways: `python -m benchmarks.soak`.

No answer is known beforehand; what is known is how answers must lie to one another. One protocol,
drawn at random, is a case, and these are its checks:

* *meet*: all brackets of one question hold the same number, whatever the tolerance, the memory
  limit, what was asked before, and however many threads ask;
* *inverse*: delta at the upper end of epsilon is not certainly above the delta asked about, and at
  the lower end not certainly below it;
* *monotone*: no less epsilon for a smaller delta, one round more, a larger eps0 or more colluders,
  no more of it for more users or a larger population, no less delta for a smaller epsilon;
* *attained*: what explicit datasets certainly lose is not above an upper end;
* *enumerated*: a few users' real protocol, over all datasets in exact fractions, neither;
* *certified*, *close*: the claim of a certificate is verified, not below the bracket, and at most
  1 % above it;
* *refused*: a state of any format with something in it changed is read, or refused in one line.

Comparisons of brackets are strict. Besides, no call may raise, or warn of anything but a loose
bracket or a floor, and the process must not grow beyond a few times the memory limit. A call that
takes a minute of the processor's time is stopped and named. Ctrl-C prints what there is so far.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np

import shuffle_accountant as sa
from benchmarks.claims import clear_caches
from benchmarks.fuzz import TooLong, at_most

_TESTS = str(Path(__file__).resolve().parent.parent / "tests")
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)
crowds = importlib.import_module("oracles.crowds")
mutated = importlib.import_module("oracles.mutated")

# No call may take longer, seconds of the processor's time: other processes are not its fault.
LONGEST = 60.0
# Bytes that the process may grow to: the largest memory limit asked for, caches and libraries.
MOST_MEMORY = 4 << 30
# By which share a certificate's claim may be above the bracket.
_ABOVE = 0.01
# Certificates take seconds to make and to check.
_CERTIFIED = 0.04
# Mutated states after each case.
_STATES = 20
# Of the enumeration's fractions, when they become doubles, and of e^eps0 within the oracle.
_ROUNDED = 1e-12

Generator = np.random.Generator
Parts = list[tuple[Any, int]]
# A protocol's rounds with counts, and the other question that must give no less epsilon.
Worse = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A random round.

    Attributes:
        kind: what was drawn.
        round: the round.
        worse: rounds of no less privacy loss, by what was changed.
        truths: exact values, as functions of epsilon, that its delta must not be below.
    """

    kind: str
    round: Any
    worse: dict[str, Worse] = field(default_factory=dict)
    truths: dict[str, Callable[[float], float]] = field(default_factory=dict)


@dataclass
class Judge:
    """Asks, compares and keeps the books.

    Attributes:
        cases: protocols drawn, by kind.
        checks: comparisons made, by sort.
        contradictions: what does not go together, with the lines that ask again.
        slow: calls that were stopped; no contradiction, but worth a look.
        slowest: seconds of the longest call, and the call.
        end: on the clock; nothing more is asked then.
    """

    cases: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    contradictions: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    end: float = math.inf

    def ask(self, call: Callable[[], Any], line: str) -> Any:
        """The answer, or None if there is none; a check of its own."""
        self.checks["answered"] += 1
        start = time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with at_most(LONGEST):
                    answer = call()
            except TooLong:
                self.slow.append(f"more than {LONGEST:g} s: {line}")
                return None
            except Exception as error:
                self.contradictions.append(f"{type(error).__name__}: {error!s:.120}: {line}")
                return None
        taken = time.process_time() - start
        self.slowest = max(self.slowest, (taken, line))
        for warning in caught:
            known = sa.LooseBracketWarning | sa.FloorWarning | sa.WeakPrivacyWarning
            if not issubclass(warning.category, known):
                self.contradictions.append(f"warns {warning.message!s:.120}: {line}")
        return answer

    def ordered(self, sort: str, low: float, high: float, line: str) -> None:
        """A certain lower bound is not above a certain upper bound of no less."""
        self.checks[sort] += 1
        if not low <= high:  # neither is NaN
            self.contradictions.append(f"{sort}: {low!r} > {high!r}: {line}")


# ------------------------------------------------------------------------------- what is drawn


def _pick(rng: Generator, *values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def _log(rng: Generator, low: float, high: float) -> float:
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")


def _number(rng: Generator, low: float, high: float) -> int:
    return int(_log(rng, low, high + 0.5))


def _mechanism(rng: Generator) -> Any:
    return _pick(
        rng,
        lambda: sa.GaussianMechanism(noise_multiplier=_log(rng, 0.4, 20.0)),
        lambda: sa.GaussianMechanism(noise_multiplier=_log(rng, 0.4, 20.0)),
        lambda: sa.LaplaceMechanism(scale=_log(rng, 0.3, 20.0)),
        lambda: sa.PureMechanism(epsilon=_log(rng, 0.05, 3.0)),
    )()


def _allocation(rng: Generator) -> Case:
    steps = _number(rng, 1, 3000)
    more: dict[str, Any] = {}
    if steps > 1 and rng.random() < 0.3:
        more["selected"] = int(rng.integers(1, min(steps, 5) + 1))
    elif steps > 1 and rng.random() < 0.3:
        more["released"] = int(rng.integers(1, steps + 1))
    elif rng.random() < 0.3:
        more["passes"] = int(rng.integers(2, 5))
    return Case("allocation", sa.RandomAllocation(_mechanism(rng), steps=steps, **more))


def _batches(rng: Generator) -> Case:
    noise, steps = _log(rng, 0.5, 20.0), _number(rng, 1, 3000)
    passes = 1 if rng.random() < 0.7 else 2
    return Case(
        "shuffled batches", sa.ShuffledBatches(noise_multiplier=noise, steps=steps, passes=passes)
    )


def _poisson(rng: Generator) -> Case:
    mechanism, rate = _mechanism(rng), _log(rng, 1e-4, 0.9)
    worse = {"rate": lambda: sa.PoissonSampled(mechanism, rate=min(1.5 * rate, 1.0))}
    return Case("Poisson sampling", sa.PoissonSampled(mechanism, rate=rate), worse)


def _matrix(rng: Generator) -> list[list[float]]:
    inputs, letters = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    rows = rng.integers(1, 9, size=(inputs, letters))
    return [[int(c) / int(row.sum()) for c in row] for row in rows]


def _family(rng: Generator) -> tuple[str, Callable[[float], Any]]:
    """Randomizers of which the one with a smaller eps0 only adds noise."""
    k = _number(rng, 2, 40)
    return _pick(
        rng,
        ("general", lambda eps0: sa.GeneralRandomizer(eps0=eps0)),
        ("randomized response", lambda eps0: sa.RandomizedResponse(eps0=eps0, categories=k)),
        ("randomized response", lambda eps0: sa.RandomizedResponse(eps0=eps0, categories=k)),
        ("RAPPOR", lambda eps0: sa.RAPPOR(eps0=eps0, categories=k)),
        ("Hadamard", lambda eps0: sa.HadamardResponse(eps0=eps0, categories=k)),
    )


def _any_randomizer(rng: Generator, eps0: float) -> tuple[str, Any]:
    return _pick(
        rng,
        lambda: ("channel", sa.DiscreteRandomizer(_matrix(rng))),
        lambda: ("Laplace", sa.LaplaceRandomizer(eps0=eps0)),
        lambda: ("subset selection", sa.SubsetSelection(eps0=eps0, categories=12)),
        lambda: ("local hashing", sa.LocalHashing(eps0=eps0, categories=30)),
    )()


def _sizes(rng: Generator, users: int) -> dict[str, Any]:
    found: dict[str, Any] = {"users": users}
    if rng.random() < 0.35:
        found["population"] = users * int(rng.integers(1, 30)) + 1
    if users > 2 and rng.random() < 0.2:
        found["colluding"] = int(rng.integers(1, users))
    return found


def _shuffled(rng: Generator) -> Case:
    eps0, users = _log(rng, 0.05, 7.0), _number(rng, 1, 1e6)
    sizes = _sizes(rng, users)
    if rng.random() < 0.6:
        name, make = _family(rng)
        one = make(eps0)
        worse: dict[str, Worse] = {
            "eps0": lambda: sa.ShuffleRound(make(1.1 * eps0), **sizes),
        }
    else:
        name, one = _any_randomizer(rng, eps0)
        worse = {}
    if "population" in sizes and "colluding" not in sizes:
        smaller = {**sizes, "population": max(sizes["population"] // 2, users)}
        worse["population"] = lambda: sa.ShuffleRound(one, **smaller)
    elif "population" not in sizes and users > 1 and "colluding" not in sizes:
        worse["users"] = lambda: sa.ShuffleRound(one, users=users // 2)
        worse["colluding"] = lambda: sa.ShuffleRound(one, users=users, colluding=users // 2)
    kind = "sampled round" if "population" in sizes else "shuffled round"
    return Case(f"{kind}, {name}", sa.ShuffleRound(one, **sizes), worse)


def _few_channels(rng: Generator) -> Case:
    """Crowds so small that the real protocol can be enumerated."""
    inputs, letters = 2, int(rng.integers(2, 4))

    def rows() -> list[list[Fraction]]:
        counts = rng.integers(1, 9, size=(inputs, letters)).tolist()
        return [[Fraction(c, sum(row)) for c in row] for row in counts]

    def randomizer(matrix: list[list[Fraction]]) -> Any:
        return sa.DiscreteRandomizer([[float(p) for p in row] for row in matrix])

    own, other = rows(), rows()
    if rng.random() < 0.4:
        people, chance = int(rng.integers(1, 5)), Fraction(int(rng.integers(1, 8)), 8)
        one = sa.ShuffleRound(
            randomizer(own), users=sa.Binomial(trials=people, probability=float(chance))
        )
        return Case(
            "few people, randomly",
            one,
            truths={
                "enumerated": lambda epsilon: float(
                    crowds.taking_part(own, people, chance, Fraction(math.exp(epsilon)))
                )
            },
        )
    users, more = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    colluding = int(rng.integers(0, 2))
    one = sa.ShuffleRound(
        randomizer(own), users=users, others={randomizer(other): more}, colluding=colluding
    )
    return Case(
        "few users, mixed",
        one,
        truths={
            "enumerated": lambda epsilon: float(
                crowds.replaced(
                    own,
                    [own] * (users - 1) + [other] * more,
                    colluding,
                    Fraction(math.exp(epsilon)),
                )
            )
        },
    )


def _mixed(rng: Generator) -> Case:
    k, eps0 = _pick(rng, 2, 3, 10, 100), _log(rng, 0.2, 5.0)
    users, more = _number(rng, 2, 1e5), _number(rng, 1, 1e5)
    level = _log(rng, 0.2, 5.0)
    level = level if level != eps0 else 1.1 * level
    own = sa.RandomizedResponse(eps0=eps0, categories=k)
    other = sa.RandomizedResponse(eps0=level, categories=k)
    colluding = int(rng.integers(0, (users + more) // 4 + 1)) if rng.random() < 0.5 else 0

    def crowd(users: int, more: int, colluding: int) -> Any:
        return sa.ShuffleRound(own, users=users, others={other: more}, colluding=colluding)

    worse: dict[str, Worse] = {"colluding": lambda: crowd(users, more, colluding + 1)}
    if colluding == 0:
        worse["others"] = lambda: crowd(users, more // 2 + more % 2, 0)
        worse["users"] = lambda: sa.ShuffleRound(own, users=users)
    return Case("mixed crowd", crowd(users, more, colluding), worse)


def _random_crowd(rng: Generator) -> Case:
    eps0, chance = _log(rng, 0.2, 5.0), _log(rng, 0.01, 0.95)
    people = _number(rng, 1, 3e6) if rng.random() < 0.5 else _number(rng, 1, 60)
    _, make = (
        ("general", lambda eps0: sa.GeneralRandomizer(eps0=eps0))
        if rng.random() < 0.6 or people > 60
        else _family(rng)
    )

    def crowd(eps0: float, people: int) -> Any:
        who = sa.Binomial(trials=people, probability=chance)
        return sa.ShuffleRound(make(eps0), users=who)

    return Case("random crowd", crowd(eps0, people), {"eps0": lambda: crowd(1.1 * eps0, people)})


def _null(rng: Generator) -> Case:
    eps0, users = _log(rng, 0.1, 5.0), _number(rng, 1, 1e6)
    fate = rng.random()
    if fate < 0.4:
        delta0 = _log(rng, 1e-16, 1e-7)
        return Case(
            "approximate",
            sa.ShuffleRound(sa.ApproximateRandomizer(eps0=eps0, delta0=delta0), users=users),
            {
                "delta0": lambda: sa.ShuffleRound(
                    sa.ApproximateRandomizer(eps0=eps0, delta0=2.0 * delta0), users=users
                )
            },
        )
    if fate < 0.95:
        zero_out = sa.Adjacency.ZERO_OUT
        return Case(
            "null law",
            sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0, adjacency=zero_out), users=users),
            {
                "users": lambda: sa.ShuffleRound(
                    sa.GeneralRandomizer(eps0=eps0, adjacency=zero_out), users=(users + 1) // 2
                )
            },
        )
    vectors = sa.GaussianVectors(noise_multiplier=_log(rng, 0.5, 10.0))
    return Case("Gaussian vectors", sa.ShuffleRound(vectors, users=_number(rng, 1, 3e4)))


def _noise(rng: Generator) -> Case:
    k = _number(rng, 2, 1000)
    dummies = _pick(
        rng,
        lambda: sa.Poisson(mean=_log(rng, 0.5, 500.0)),
        lambda: sa.Binomial(trials=_number(rng, 1, 2000), probability=_log(rng, 0.05, 0.95)),
        lambda: sa.NegativeBinomial(size=_log(rng, 0.5, 20.0), probability=_log(rng, 0.02, 0.9)),
    )()
    if rng.random() < 0.3:
        one = sa.AugmentedShuffle(categories=k, keep=_log(rng, 0.1, 1.0), dummies=dummies)
        return Case("augmented shuffle", one)
    return Case("noise messages", sa.NoiseMessages(categories=k, dummies=dummies))


KINDS: tuple[Callable[[Generator], Case], ...] = (
    _allocation,
    _batches,
    _poisson,
    _shuffled,
    _shuffled,
    _shuffled,
    _few_channels,
    _mixed,
    _random_crowd,
    _null,
    _noise,
)


# ------------------------------------------------------------------------------ what is checked


def _accountant(parts: Parts, rng: Generator) -> Any:
    accountant = sa.FourierAccountant(
        tolerance=_pick(rng, 1e-2, 3e-3, 1e-3, 1e-3, 3e-4),
        memory_limit=_pick(rng, 1 << 24, 1 << 26, 1 << 30, 1 << 30),
    )
    for one, count in parts:
        accountant.compose(one, count=count)
    return accountant


def _threaded(question: Callable[[], Any]) -> Callable[[], Any]:
    """Two threads ask at once; the first one's answer, and the second one's kept beside."""

    def both() -> Any:
        with ThreadPoolExecutor(2) as pool:
            found = [pool.submit(question) for _ in range(2)]
            return [answer.result() for answer in found]

    return both


def _several(
    judge: Judge, rng: Generator, parts: Parts, name: str, value: float, attempts: int = 1
) -> tuple[float, float] | None:
    """The intersection of a few brackets of one question, which must not be empty."""
    found = []
    if time.monotonic() > judge.end:
        return None
    for attempt in range(attempts):
        accountant = _accountant(parts, rng)
        line = (
            f"{parts!r}, {name}={value!r}, tolerance={accountant.tolerance!r}, "
            f"memory_limit={accountant.memory_limit!r}"
        )
        asked = {"delta": accountant.epsilon, "epsilon": accountant.delta}[name]

        def question(asked: Any = asked) -> Any:
            return asked(**{name: value})

        if attempt == 0 and rng.random() < 0.3:
            clear_caches()
        threads = attempt > 0 and rng.random() < 0.3
        answer = judge.ask(_threaded(question) if threads else question, line)
        if answer is None:
            return None
        found += answer if threads else [answer]
        for bracket in found:
            judge.ordered("bracket", 0.0, bracket.lower, line)
            judge.ordered("bracket", bracket.lower, bracket.upper, line)
    low, high = max(b.lower for b in found), min(b.upper for b in found)
    judge.ordered("meet", low, high, f"{parts!r}, {name}={value!r}")
    return low, high


def check(judge: Judge, rng: Generator, case: Case, others: Sequence[Case]) -> None:
    """All checks of one protocol."""
    count = _pick(rng, 1, 1, 2, 7, _number(rng, 1, 3000))
    parts: Parts = [(case.round, count), *((other.round, 1 + count // 2) for other in others)]
    delta = _log(rng, 1e-12, 0.2)
    found = _several(judge, rng, parts, "delta", delta, attempts=3)
    if found is None:
        return
    low, high = found
    line = f"{parts!r}, delta={delta!r}"
    smaller = _several(judge, rng, parts, "delta", 0.3 * delta)
    if smaller is not None:
        judge.ordered("monotone in delta", low, smaller[1], line)
    _inverse(judge, rng, parts, delta, low, high)
    longer = _several(judge, rng, [(case.round, count + 1), *parts[1:]], "delta", delta)
    if longer is not None:
        judge.ordered("monotone in rounds", low, longer[1], line)
    for name, make in case.worse.items():
        if rng.random() < 0.3:
            continue
        worse = judge.ask(make, f"{case.round!r}, worse in {name}")
        if worse is None:
            continue
        answer = _several(judge, rng, [(worse, count), *parts[1:]], "delta", delta)
        if answer is not None:
            judge.ordered(f"monotone in {name}", low, answer[1], f"{line}, worse: {worse!r}")
    _attained(judge, rng, case)
    if rng.random() < _CERTIFIED:
        _verified(judge, parts, delta, found)


def _inverse(
    judge: Judge, rng: Generator, parts: Parts, delta: float, low: float, high: float
) -> None:
    """Delta at both ends of epsilon."""
    line = f"{parts!r}, delta={delta!r}, epsilon in ({low!r}, {high!r})"
    if high < math.inf:
        above = _several(judge, rng, parts, "epsilon", high, attempts=2)
        if above is not None:
            judge.ordered("inverse", above[0], delta, line)
            further = _several(judge, rng, parts, "epsilon", 1.5 * high)
            if further is not None:
                judge.ordered("monotone in epsilon", further[0], above[1], line)
    if 0.0 < low < math.inf:
        below = _several(judge, rng, parts, "epsilon", low)
        if below is not None:
            judge.ordered("inverse", delta, below[1], line)


def _attained(judge: Judge, rng: Generator, case: Case) -> None:
    """What a single round certainly loses, and what the enumeration says."""
    one = case.round
    epsilon = _log(rng, 0.01, 3.0)
    found = _several(judge, rng, [(one, 1)], "epsilon", epsilon)
    if found is None:
        return
    line = f"{one!r}, epsilon={epsilon!r}"
    for name, truth in case.truths.items():
        value = judge.ask(lambda: truth(epsilon), f"oracle of {line}")  # noqa: B023
        if value is not None:
            judge.ordered(name, value * (1.0 - _ROUNDED), found[1], line)
    finite = case.kind.endswith(("channel", "randomized response", "subset selection"))
    if finite and one.plain and one.users <= 10**4:
        attained = judge.ask(lambda: one.attained(epsilon=epsilon), f"attained, {line}")
        if attained is not None:
            judge.ordered("attained", attained.lower, found[1], line)


def _verified(judge: Judge, parts: Parts, delta: float, found: tuple[float, float]) -> None:
    """The certificate's claim, which is at most a hundredth above the bracket."""
    accountant = sa.FourierAccountant()
    for one, count in parts:
        accountant.compose(one, count=count)
    line = f"certificate of {parts!r}, delta={delta!r}"
    try:
        with at_most(LONGEST):
            certificate = accountant.certificate(delta=delta)
            outcome = sa.certificates.verify(certificate)
    except (ImportError, ValueError, TooLong):
        return  # not every round has one, nor can every one be had in a minute
    judge.checks["certified"] += 1
    if not outcome.verified:
        judge.contradictions.append(f"not verified, {outcome.reason!s:.200}: {line}")
    judge.ordered("certified", found[0], certificate.epsilon, line)
    judge.ordered("close", certificate.epsilon, (1.0 + _ABOVE) * found[1], line)


def _hostile(judge: Judge, rng: Generator) -> None:
    """Mutated states of one format."""
    name = _pick(rng, *mutated.FORMATS)
    made = mutated.FORMATS[name]

    @hypothesis.seed(int(rng.integers(2**31)))
    @hypothesis.settings(
        max_examples=_STATES,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(mutated.mutations(made.state))
    def reads(state: Any) -> None:
        judge.checks["refused"] += 1
        fault = mutated.refusal(lambda: made.read(state))
        if fault:
            judge.contradictions.append(f"{name}: {fault}: {state!r:.400}")

    reads()


def _drawn(rng: Generator) -> tuple[Case, list[Case]]:
    """A case, and others of its adjacency to compose it with."""
    while True:
        cases = [_pick(rng, *KINDS)(rng) for _ in range(_pick(rng, 1, 1, 1, 1, 1, 1, 2, 3))]
        if all(case.round.adjacency is cases[0].round.adjacency for case in cases):
            return cases[0], cases[1:]


def run(judge: Judge, seed: int, seconds: float) -> Iterator[int]:
    """Cases until the time is over, one at a time; the numbers of those that are done."""
    judge.end, number, large = time.monotonic() + seconds, 0, False
    while time.monotonic() < judge.end:
        rng = np.random.default_rng([seed, number])
        case, others = _drawn(rng)
        judge.cases[case.kind] += 1
        for other in others:
            judge.cases[f"with {other.kind}"] += 1
        before = len(judge.contradictions)
        check(judge, rng, case, others)
        if not large and (grown := _peak()) > MOST_MEMORY:
            large = True
            judge.contradictions.append(f"the process grew to {grown / 2**30:.1f} GiB: {case!r}")
        _hostile(judge, rng)
        for i in range(before, len(judge.contradictions)):
            judge.contradictions[i] = f"case {number}: {judge.contradictions[i]}"
        number += 1
        yield number


def _peak() -> int:
    """Bytes that the process has used at most; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


def report(judge: Judge, number: int) -> str:
    """Cases by kind, checks by sort, then contradictions."""
    lines = []
    for counts in (judge.cases, judge.checks):
        width = max(map(len, counts), default=0)
        lines += [f"{name:{width}}  {counts[name]:9,}" for name in sorted(counts)]
        lines.append("")
    lines += judge.slow + judge.contradictions
    seconds, line = judge.slowest
    lines.append(f"longest call: {seconds:.2f} s: {line}")
    lines.append(
        f"{number:,} cases, {judge.checks.total():,} checks, "
        f"{len(judge.contradictions):,} contradictions"
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run for some minutes, print what was checked and what does not go together.

    Args:
        arguments: the command line without the program's name; that of the process if None.

    Returns:
        1 if there is any contradiction, else 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak",
        description="Hold answers about random protocols against one another.",
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--case", type=int, help="this one alone")
    options = parser.parse_args(arguments)
    judge, number = Judge(), 0
    if options.case is not None:
        rng = np.random.default_rng([options.seed, options.case])
        check(judge, rng, *_drawn(rng))
        number = 1
    else:
        try:
            for done in run(judge, options.seed, 60.0 * options.minutes):
                number = done
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
    print(report(judge, number))
    return 1 if judge.contradictions else 0


if __name__ == "__main__":
    sys.exit(main())
