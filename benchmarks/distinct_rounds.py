"""Claim: rounds that all differ cost about as little as rounds that are all alike.

A thousand cohorts of different sizes, three hundred different eps0, three hundred cohorts of named
randomizers and ten thousand cohorts in one accountant: the first answer, caches cleared, and the
next one after one more round. And a ledger
that steps ten thousand times, every time with another number of users. All as ratios to the general
randomizer's answer for equal rounds in the same run.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import shuffle_accountant as sa
from benchmarks.claims import (
    Claim,
    Note,
    Outcome,
    Timing,
    answer,
    clear_caches,
    interleave,
    relative_width,
)
from shuffle_accountant.randomizers.base import LocalRandomizer

DELTA, TOLERANCE = 1e-6, 1e-3
# Seconds that goals are stated in are those of a machine that answers for the clones in this time.
CLONES_SECONDS = 0.007
CLONES = "clones"

STEPS, SEED = 10**4, 0
BUDGET = 6.7  # nats; about what so many steps spend
STEP_SECONDS = 0.04  # a small training step
MOST_SHARE = 0.02  # of a step


@dataclass(frozen=True)
class Goal:
    """Many rounds, one more, and the seconds for the first and for the next answer."""

    name: str
    rounds: Callable[[], list[sa.ShuffleRound]]
    further: sa.ShuffleRound
    first: float
    following: float


def _cohort(users: int, eps0: float = 1.0) -> sa.ShuffleRound:
    return sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users)


def _named(randomizer: LocalRandomizer, first: float, following: float = 0.2) -> Goal:
    """Three hundred cohorts whose users all apply this randomizer."""

    def rounds() -> list[sa.ShuffleRound]:
        return [sa.ShuffleRound(randomizer, users=5000 + i) for i in range(300)]

    further = sa.ShuffleRound(randomizer, users=5777)
    name = f"300 numbers of users, {randomizer!r}"
    return Goal(name, rounds, further, first, following)


def _levels(kind: Callable[..., LocalRandomizer]) -> Goal:
    """A hundred different eps0 of one randomizer."""

    def cohort(eps0: float) -> sa.ShuffleRound:
        return sa.ShuffleRound(kind(categories=20, eps0=eps0), users=10**4)

    def rounds() -> list[sa.ShuffleRound]:
        return [cohort(0.5 + 0.015 * i) for i in range(100)]

    return Goal(f"100 eps0, {kind.__name__}", rounds, cohort(1.2345), 0.5, 0.05)


def _channel() -> sa.DiscreteRandomizer:
    spread = np.random.default_rng(SEED).dirichlet(np.ones(6), size=4)
    return sa.DiscreteRandomizer(0.5 * spread + 0.5 / 6.0)


NAMED = (
    _named(sa.RAPPOR(categories=20, eps0=2.0), 1.0),
    _named(sa.RandomizedResponse(categories=10, eps0=1.0), 1.0),
    _named(sa.HadamardResponse(categories=20, eps0=2.0), 1.0),
    _named(sa.LocalHashing(categories=20, eps0=2.0), 1.0),
    _named(sa.LaplaceRandomizer(eps0=1.0), 1.0),
    _named(_channel(), 2.0),
    _named(sa.RandomizedResponse(categories=1000, eps0=1.0), 1.0),  # ten messages hide the target
)

GOALS = (
    Goal(
        "1000 numbers of users",
        lambda: [_cohort(5000 + i) for i in range(1000)],
        _cohort(7777),
        0.5,
        0.05,
    ),
    Goal(
        "300 eps0",
        lambda: [_cohort(10**4, 0.5 + 0.005 * i) for i in range(300)],
        _cohort(10**4, 1.2345),
        0.5,
        0.05,
    ),
    Goal(
        "10000 numbers of users",
        lambda: [_cohort(10**4 + i) for i in range(10**4)],
        _cohort(30000),
        2.0,
        0.2,
    ),
    *NAMED,
    *(_levels(kind) for kind in (sa.RAPPOR, sa.RandomizedResponse)),
)


def run(quick: bool, note: Note) -> Outcome:
    """Time each goal next to the clones, then the ledger."""
    repetitions = 1 if quick else 3
    claims, rows = [], []
    clones = functools.partial(answer, 1.0, 10**6, 10, DELTA)
    for goal in (*GOALS[:2], NAMED[0]) if quick else GOALS:
        further: list[float] = []
        calls = {CLONES: clones, goal.name: functools.partial(_ask, goal, further)}
        timings = interleave(calls, repetitions, note=note)
        base, first = timings[CLONES], timings[goal.name]
        following = Timing(tuple(further[-repetitions:]), first.result)
        width = relative_width(first.result)
        for kind, timing, seconds in (
            ("first answer", Timing(_less(first, following), first.result), goal.first),
            ("after one round more", following, goal.following),
        ):
            times, most = timing.times(base), seconds / CLONES_SECONDS
            rows.append({"what": goal.name, "which": kind, "width": width, **timing.as_row()})
            claims.append(
                Claim(
                    name=f"{goal.name}, {kind}",
                    text=f"{goal.name}, {kind}: within {TOLERANCE:g} in at most {most:.3g} times "
                    "the clones' time",
                    measured=f"{times}, {timing}; width {width:.1e}",
                    holds=times.median <= most and width <= TOLERANCE,
                )
            )
    claims.append(_ledger(quick, note, rows))
    return Outcome(claims, rows)


def _ask(goal: Goal, further: list[float]) -> sa.Bracket:
    """The first answer; the time of the next one is noted, and taken off later."""
    accountant = sa.FourierAccountant(tolerance=TOLERANCE)
    for one in goal.rounds():
        accountant.compose(one)
    found = accountant.epsilon(delta=DELTA)
    start = time.perf_counter()
    accountant.compose(goal.further).epsilon(delta=DELTA)
    further.append(time.perf_counter() - start)
    return found


def _less(both: Timing, second: Timing) -> tuple[float, ...]:
    return tuple(x - y for x, y in zip(both.seconds, second.seconds, strict=True))


def _ledger(quick: bool, note: Note, rows: list[dict[str, Any]]) -> Claim:
    """A loop that asks its budget before every step, until that is spent."""
    steps = STEPS // 10 if quick else STEPS
    users = np.random.default_rng(SEED).permutation(steps) + steps // 2
    users = (users * (10**4 / steps)).astype(int)
    base = []
    for _ in range(5):
        note(CLONES)
        clear_caches()
        start = time.perf_counter()
        answer(1.0, 10**6, 10, DELTA)
        base.append(time.perf_counter() - start)
    note("ledger")
    clear_caches()
    ledger = sa.training.ShuffleLedger(
        sa.GeneralRandomizer(1.0), users=10**4, target_delta=DELTA, max_epsilon=BUDGET
    )
    start = time.perf_counter()
    try:
        for one in users.tolist():
            ledger.step(users=one)
    except sa.training.BudgetExceeded:
        pass
    done = len(ledger)
    seconds = (time.perf_counter() - start) / done
    times = seconds / statistics.median(base)
    most = MOST_SHARE * STEP_SECONDS / CLONES_SECONDS
    width = relative_width(ledger.epsilon())
    timing = Timing((seconds,), None)
    rows.append({"what": "ledger", "which": f"{done} steps", "width": width, **timing.as_row()})
    return Claim(
        name="ledger",
        text=f"a ledger with a budget, every step of another size: on average at most "
        f"{most:.2g} times the clones' time ({MOST_SHARE:.0%} of a step of {STEP_SECONDS:g} s)",
        measured=f"{times:.2g} times, {1e3 * seconds:.2g} ms a step over {done} steps",
        holds=times <= most,
    )
