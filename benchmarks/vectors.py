"""Claim: randomizing large gradients is quick, and keeping the ledger costs next to nothing.

1e4 vectors of dimension 1e4 in 32-bit floats, eps0 = 4 (quick: 500 of them in half a second). The
ledger's steps against the private mean of a small batch, 256 vectors of dimension 650.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np

from benchmarks.claims import Claim, Note, Outcome, Timing, compact, interleave
from shuffle_accountant.training import (
    DuchiL2,
    DuchiLInf,
    PrivUnit,
    SampledCoordinates,
    ShuffleLedger,
    VectorRandomizer,
    private_mean,
)

KINDS: tuple[type[VectorRandomizer], ...] = (PrivUnit, DuchiL2, DuchiLInf, SampledCoordinates)
DIMENSION, EPS0 = 10**4, 4.0
MOST_SECONDS, MOST_SECONDS_QUICK = 2.0, 0.5
SMALL_BATCH, SMALL_DIMENSION = 256, 650
STEPS = 10_000
MOST_SHARE = 0.01
MILLION = 10**6
USERS, POPULATION, DELTA = 1000, 10**5, 1e-6


def run(quick: bool, note: Note) -> Outcome:
    """Time the randomizers side by side, then steps of a ledger and its answer after a million."""
    count = 500 if quick else 10**4
    rng = np.random.default_rng(1)
    rows = np.full((count, DIMENSION), 0.5 / DIMENSION**0.5, dtype=np.float32)
    calls = {
        kind.__name__: functools.partial(
            _randomize, kind(dimension=DIMENSION, eps0=EPS0), rows, rng
        )
        for kind in KINDS
    }
    timings = interleave(calls, 1 if quick else 2, note=note)
    slowest = max(timings, key=lambda name: timings[name].median)
    limit = MOST_SECONDS_QUICK if quick else MOST_SECONDS

    note("ledger")
    small = PrivUnit(dimension=SMALL_DIMENSION, eps0=EPS0)
    batch = np.zeros((SMALL_BATCH, SMALL_DIMENSION), dtype=np.float32)
    ledger = ShuffleLedger(small, users=USERS, population=POPULATION)
    mean = _seconds(lambda: private_mean(batch, small, rng=rng), 20)
    step = _seconds(ledger.step, STEPS)
    ledger.step(MILLION - len(ledger))
    ends: dict[str, Timing] = interleave(
        {"epsilon": functools.partial(ledger.epsilon, delta=DELTA)}, 1 if quick else 5, note=note
    )
    answer = ends["epsilon"]

    claims = [
        Claim(
            name="randomizers",
            text=f"{compact(count)} vectors of dimension {compact(DIMENSION)} in under {limit:g} s",
            measured=", ".join(f"{name}: {timings[name]}" for name in timings),
            holds=timings[slowest].median < limit,
        ),
        Claim(
            name="ledger, step",
            text=f"a step of the ledger takes under {MOST_SHARE:.0%} of the mean of {SMALL_BATCH} "
            f"vectors of dimension {SMALL_DIMENSION}",
            measured=f"{step * 1e6:.1f} microseconds of {mean * 1e3:.2g} ms: {step / mean:.3%}",
            holds=step < MOST_SHARE * mean,
        ),
        Claim(
            name="ledger, a million steps",
            text="after 1e6 steps epsilon takes under 1 s",
            measured=str(answer),
            holds=answer.median < 1.0,
        ),
    ]
    table = [
        {"what": name, "vectors": count, "dimension": DIMENSION, **timing.as_row()}
        for name, timing in timings.items()
    ]
    return Outcome(claims, table)


def _randomize(randomizer: VectorRandomizer, rows: Any, rng: np.random.Generator) -> float:
    """Returns one number only: keeping several results would take gigabytes."""
    return float(randomizer.randomize(rows, rng)[0, 0])


def _seconds(call: Any, times: int) -> float:
    """Mean seconds of a call, the first of which does not count."""
    call()
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times
