"""Claim: random allocation is bracketed within tolerance from 1 to 1e7 steps, in half a second.

A sweep over noise multipliers from 0.2 to 100, delta from 0.5 to 1e-60 and up to 1e5 epochs: every
bracket is finite and ordered, and as narrow as asked for or comes with a warning. Shuffled batches
from 2 to 1e6 steps take less than ten seconds. Caches are cleared before each question; seconds are
those of the processor, all threads together, whatever else the machine does, and both goals are
stated for a machine that answers for the clones in 13 ms: what is claimed are multiples of that.
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import shuffle_accountant as sa
from benchmarks.claims import (
    STATED_CLONES,
    Claim,
    Note,
    Outcome,
    clear_caches,
    clones_seconds,
    relative_width,
)

TOLERANCE = 1e-3
# (noise multiplier, steps, epochs, delta)
Setting = tuple[float, int, int, float]
CENTRE: Setting = (1.0, 1000, 10, 1e-6)
SETTINGS: tuple[Setting, ...] = (
    CENTRE,
    *((1.0, steps, 10, 1e-6) for steps in (1, 2, 10, 100, 10**4, 10**5, 10**6, 10**7)),
    *((sigma, 1000, 10, 1e-6) for sigma in (0.2, 0.3, 0.5, 2.0, 5.0, 20.0, 100.0)),
    *((1.0, 1000, 10, delta) for delta in (0.5, 0.1, 1e-3, 1e-12, 1e-20, 1e-40, 1e-60)),
    *((1.0, 1000, epochs, 1e-6) for epochs in (1, 100, 1000, 10**4, 10**5)),
    *((sigma, 1000, 1, 1e-60) for sigma in (0.2, 1.0, 100.0)),
    *((sigma, 10**7, epochs, 1e-8) for sigma in (0.2, 100.0) for epochs in (1, 10**5)),
)
QUICK_SETTINGS: tuple[Setting, ...] = (CENTRE, (100.0, 10**7, 1, 1e-8), (0.2, 1000, 10, 1e-6))
SHUFFLED: tuple[Setting, ...] = (
    (1.0, 2, 1, 1e-8),
    (1.0, 1000, 1, 1e-8),
    (2.0, 1000, 20, 1e-8),
    (0.5, 10**5, 3, 1e-6),
    (1.0, 10**6, 1, 1e-8),
)
QUICK_SHUFFLED = SHUFFLED[:1]
MOST_SECONDS, MOST_SECONDS_SHUFFLED = 0.5, 10.0


def run(quick: bool, note: Note) -> Outcome:
    """Each question once, after one that pays for imports."""
    rows: list[dict[str, Any]] = []
    _ask(_allocation, CENTRE)
    before = clones_seconds()
    for kind, make, settings in (
        ("allocation", _allocation, QUICK_SETTINGS if quick else SETTINGS),
        ("shuffle", _shuffled, QUICK_SHUFFLED if quick else SHUFFLED),
    ):
        for setting in settings:
            note(f"{kind} {setting}")
            row = {"sampling": kind, **_ask(make, setting)}
            after = clones_seconds()
            rows.append(row | {"times": round(2.0 * row["seconds"] / (before + after), 2)})
            before = after
    dealt, shuffled = (
        [row for row in rows if row["sampling"] == kind] for kind in ("allocation", "shuffle")
    )
    claims = [
        _sound(rows),
        _tolerance(rows),
        _fast("allocation", dealt, MOST_SECONDS),
        _fast("shuffled batches", shuffled, MOST_SECONDS_SHUFFLED),
    ]
    return Outcome(claims, rows)


def _allocation(sigma: float, steps: int) -> sa.RandomAllocation:
    return sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=sigma), steps=steps)


def _shuffled(sigma: float, steps: int) -> sa.ShuffledBatches:
    return sa.ShuffledBatches(noise_multiplier=sigma, steps=steps)


def _ask(make: Callable[[float, int], Any], setting: Setting) -> dict[str, Any]:
    sigma, steps, epochs, delta = setting
    clear_caches()
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = sa.epsilon(make(sigma, steps), delta=delta, rounds=epochs)
    seconds = time.process_time() - start
    return {
        "noise_multiplier": sigma,
        "steps": steps,
        "epochs": epochs,
        "delta": delta,
        "lower": found.lower,
        "upper": found.upper,
        "width": relative_width(found),
        "warned": bool(caught),
        "seconds": round(seconds, 4),
    }


def _which(row: dict[str, Any]) -> str:
    return (
        f"sigma = {row['noise_multiplier']:g}, t = {row['steps']:g}, E = {row['epochs']:g}, "
        f"delta = {row['delta']:g}"
    )


def _sound(rows: list[dict[str, Any]]) -> Claim:
    bad = [row for row in rows if not 0.0 <= row["lower"] <= row["upper"] < math.inf]
    return Claim(
        name="finite",
        text="every bracket is finite and ordered",
        measured=f"{len(rows) - len(bad)} of {len(rows)}" + (f"; {_which(bad[0])}" if bad else ""),
        holds=not bad,
    )


def _tolerance(rows: list[dict[str, Any]]) -> Claim:
    silent = [row for row in rows if row["width"] > TOLERANCE * 1.001 and not row["warned"]]
    # an epsilon far below the losses' spread is 0 for all purposes
    silent = [row for row in silent if row["upper"] > 1e-6]
    warned = sum(row["warned"] for row in rows)
    widest = max(rows, key=lambda row: row["width"])
    return Claim(
        name="tolerance",
        text="every bracket is within the tolerance of 1e-3, or warns",
        measured=f"{len(rows) - len(silent)} of {len(rows)}, {warned} with a warning; widest "
        f"{widest['width']:.1e} ({_which(widest)})",
        holds=not silent,
    )


def _fast(what: str, rows: list[dict[str, Any]], limit: float) -> Claim:
    most = limit / STATED_CLONES
    slowest = max(rows, key=lambda row: row["times"])
    slow = sum(row["times"] > most for row in rows)
    return Claim(
        name=f"speed, {what}",
        text=f"{what}: a new question takes at most {most:.0f} times the clones' time, {limit:g} s "
        f"where that is {1000.0 * STATED_CLONES:g} ms",
        measured=f"{slowest['times']:.1f} times, {slowest['seconds']:.2f} s ({_which(slowest)}); "
        f"{slow} of {len(rows)} take longer; median "
        f"{statistics.median(row['times'] for row in rows):.1f} times",
        holds=slow == 0,
    )
