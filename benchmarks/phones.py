"""Claim: the page "Three million phones" is answered in two minutes, with all of its phones.

The page's question, from the design to the second week: a deployment, three million messages by the
simulated devices, a server that receives, charges and estimates, a week of 2.7 million, and what
both cost. Messages are drawn by NumPy's generator: devices draw their own, by the system's source.
"""

from __future__ import annotations

import functools
import tempfile
import time
from typing import Any

import numpy as np

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, compact

PHONES, REPORT_AT_LEAST, CATEGORIES, WEEKS = 3_000_000, 2_850_000, 50, 52
LOW_WEEK = 2_700_000
EPSILON, DELTA = 1.0, 1e-9
QUICK_SHARE = 100  # a hundredth of the phones when quick
PART = 10_000  # messages that the server receives at once
MOST_SECONDS = 120.0


def run(quick: bool, note: Note) -> Outcome:
    """Go through the page; a hundredth of the phones when quick."""
    share = QUICK_SHARE if quick else 1
    phones, fewest, low = (number // share for number in (PHONES, REPORT_AT_LEAST, LOW_WEEK))
    rows: list[dict[str, Any]] = []
    step = functools.partial(_timed, rows, note)
    design = step(
        "design",
        lambda: sa.design.frequency(
            users=phones,
            min_users=fewest,
            categories=CATEGORIES,
            rounds=WEEKS,
            target_epsilon=EPSILON,
            delta=DELTA,
        ),
    )
    deployment = design.recommended.deployment()
    checked = step("check of the deployment", deployment.check)
    rng = np.random.default_rng(1)
    held = np.minimum(rng.zipf(1.5, size=phones) - 1, CATEGORIES - 1)
    with tempfile.TemporaryDirectory() as folder:
        server = sa.deployment.Server(
            f"sqlite:///{folder}/survey.db", deployment, minimum_batch=low
        )
        estimates, inside = [], []
        for week, values in (("first", held), ("low", held[:low])):
            messages = step(f"{week} week: devices", lambda v=values: deployment.randomize(v, rng))
            parts = np.array_split(messages, len(messages) // PART)
            step(f"{week} week: receive", lambda p=parts: [server.receive(part) for part in p])
            found = step(f"{week} week: close", server.close_round)
            lower, upper = step(f"{week} week: intervals", found.interval)
            truth = np.bincount(values, minlength=CATEGORIES) / values.size
            inside.append(bool(np.all((lower <= truth) & (truth <= upper))))
            estimates.append(found)
        change = estimates[1].change_since(estimates[0])
        step("change", change.interval)
        spent = step("both weeks' epsilon", server.ledger.epsilon)
    seconds = sum(row["seconds"] for row in rows)
    full = sa.epsilon(deployment.round, delta=DELTA, rounds=2)
    claims = [
        Claim(
            name="seconds",
            text=f"from the question to two weeks of {compact(phones)} phones in less than "
            f"{MOST_SECONDS:g} s",
            measured=f"{seconds:.1f} s; " + _slowest(rows),
            holds=seconds < MOST_SECONDS,
        ),
        Claim(
            name="intervals",
            text=f"all {CATEGORIES} shares of both weeks lie in their intervals of 95 %",
            measured=f"{sum(inside)} of 2 weeks",
            holds=all(inside),
        ),
        Claim(
            name="budget",
            text="the deployment is certified, and a low week costs more than a full one",
            measured=f"a year at most {checked.upper:.5f}; two weeks {spent.upper:.5f}, full ones "
            f"{full.upper:.5f}",
            holds=checked.upper <= EPSILON and spent.lower > full.upper,
        ),
    ]
    return Outcome(claims, rows)


def _timed(rows: list[dict[str, Any]], note: Note, name: str, work: Any) -> Any:
    """Do a step, and add its time to the rows."""
    note(name)
    start = time.perf_counter()
    done = work()
    rows.append({"step": name, "seconds": time.perf_counter() - start})
    return done


def _slowest(rows: list[dict[str, Any]]) -> str:
    """The three steps that take longest, with their times."""
    order = sorted(rows, key=lambda row: -row["seconds"])[:3]
    return ", ".join(f"{row['step']} {row['seconds']:.1f} s" for row in order)
