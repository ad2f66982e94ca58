"""Claim: Ctrl-C ends any question within half a second.

Long questions of every kind are interrupted at random moments, caches cleared. A delay is processor
time from the signal to where the interruption arrives, so that other work on the machine does not
count; it is what Python cannot interrupt: one long call of a library.
"""

from __future__ import annotations

import functools
import math
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, clear_caches
from shuffle_accountant.calibration.calibrate import max_eps0

DELTA = 1e-6
MOST_SECONDS = 0.5
MOMENTS = 12
# Of processor time into a question, at random; what ends before is interrupted earlier next time.
EARLIEST, LATEST = 0.02, 8.0
SEED = 0


def _compose(round: sa.ShuffleRound | sa.RandomAllocation, count: int) -> Callable[[], object]:
    return lambda: sa.epsilon(round, delta=DELTA, rounds=count)


def _distinct(randomizer: Any, ratio: float) -> Callable[[], object]:
    users = (1000 * ratio ** np.arange(1000)).astype(int)
    accountant = sa.FourierAccountant()
    for n in users.tolist():
        accountant.compose(sa.ShuffleRound(randomizer, users=n))
    return lambda: accountant.epsilon(delta=DELTA)


def _questions() -> dict[str, Callable[[], object]]:
    """Questions that last, by name."""
    rng = np.random.default_rng(SEED)
    channel = sa.DiscreteRandomizer(0.5 * rng.dirichlet(np.ones(64), size=16) + 0.5 / 64)
    rappor = sa.RAPPOR(categories=20, eps0=2.0)
    return {
        "clones, T = 1e9": _compose(sa.ShuffleRound(sa.GeneralRandomizer(4.0), users=10**6), 10**9),
        "clones, T = 1e12": _compose(
            sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=10**6), 10**12
        ),
        "blanket of a channel": _compose(sa.ShuffleRound(channel, users=10**5), 10),
        "Laplace": _compose(sa.ShuffleRound(sa.LaplaceRandomizer(eps0=6.0), users=1000), 4),
        "Gaussian blanket": _compose(
            sa.ShuffleRound(sa.GaussianRandomizer(sigma=1.0), users=1000), 10
        ),
        "1000 numbers of users": _distinct(rappor, 1.003),
        "1000 numbers of users, clones": _distinct(sa.GeneralRandomizer(1.0), 1.003),
        "random allocation": _compose(
            sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=0.5), steps=10**4), 10
        ),
        "calibration": functools.partial(
            max_eps0,
            users=1000,
            population=10**9,
            rounds=10**5,
            target_epsilon=5.0,
            delta=1e-12,
        ),
    }


def run(quick: bool, note: Note) -> Outcome:
    """Interrupt every question a few times."""
    if not hasattr(signal, "setitimer"):
        text = f"interrupting takes at most {MOST_SECONDS:g} s"
        return Outcome([Claim("delay", text, "no timers of processor time here", None)])
    rng = np.random.default_rng(SEED)
    claims, rows = [], []
    for name, question in _questions().items():
        delays: list[float] = []
        latest = LATEST
        for _ in range(2 if quick else MOMENTS):
            note(f"{name}, {len(delays)}")
            moment = math.exp(rng.uniform(math.log(EARLIEST), math.log(latest)))
            delay = _delay(question, moment)
            if delay is None:
                latest = max(0.5 * moment, 2.0 * EARLIEST)
                continue
            delays.append(delay)
            rows.append({"question": name, "moment": moment, "delay": delay})
        longest = max(delays, default=math.nan)
        claims.append(
            Claim(
                name=name,
                text=f"{name}: interrupted within {MOST_SECONDS:g} s of processor time",
                measured=f"at most {longest:.2g} s after {len(delays)} moments",
                holds=longest <= MOST_SECONDS if delays else None,
            )
        )
    return Outcome(claims, rows)


def _delay(question: Callable[[], object], moment: float) -> float | None:
    """How long the question goes on after a signal; None if it was answered before that."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    clear_caches()
    before = signal.signal(signal.SIGPROF, stop)
    try:
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, moment)
        question()
    except KeyboardInterrupt:
        return max(time.process_time() - start - moment, 0.0)
    else:
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
