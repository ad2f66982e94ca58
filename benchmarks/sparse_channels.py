"""Claim: channels of few likely messages are answered, by anyone's numbers.

Drawn at random, always the same: the rows of 3 x 8 and 6 x 20 channels from Dirichlet distributions
with concentration 0.03 to 1, 30 to a million people, up to a hundred rounds, delta down to 1e-12.
Such rows have messages that only one input sends and others that nearly all send: what hides a
message is a handful of people or nobody. Seconds are the processor's, scaled to a machine whose
clones take `STATED_CLONES`; what takes longer than a limit is given up.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import shuffle_accountant as sa
from benchmarks.claims import (
    STATED_CLONES,
    Claim,
    Note,
    Outcome,
    answered,
    clones_seconds,
    compact,
)

SEED, QUESTIONS, TOLERANCE = 20261125, 200, 1e-3
# Seconds of any question, and of 95 in a hundred; losses of up to this many nats have brackets
# within the tolerance; seconds after which a question is given up.
_MOST, _USUAL, _SHARE, _LARGE, _LIMIT = 10.0, 2.0, 0.95, 50.0, 20.0

_SHAPES = ((3, 8), (6, 20))
_ROUNDS = (1, 10, 100)


def questions(seed: int) -> Iterator[dict[str, Any]]:
    """Channels with users, rounds and delta, without an end."""
    rng = np.random.default_rng(seed)
    while True:
        inputs, messages = _SHAPES[int(rng.integers(len(_SHAPES)))]
        concentration = 10.0 ** rng.uniform(np.log10(0.03), 0.0)
        rows = rng.dirichlet(np.full(messages, concentration), size=inputs)
        users, rounds = int(10.0 ** rng.uniform(np.log10(30.0), 6.0)), int(rng.choice(_ROUNDS))
        delta = float(10.0 ** -rng.integers(3, 13))
        randomizer = sa.DiscreteRandomizer(rows / rows.sum(axis=1, keepdims=True))
        kind = f"{inputs} x {messages}, Dirichlet({concentration:.3f})"
        asked = {"kind": kind, "users": users, "rounds": rounds, "delta": delta}
        yield {**asked, "round": sa.ShuffleRound(randomizer, users=users)}


def run(quick: bool, note: Note) -> Outcome:
    """Ask the questions, once."""
    rows, before = [], clones_seconds()
    for asked in itertools.islice(questions(SEED), 12 if quick else QUESTIONS):
        row = {key: value for key, value in asked.items() if key != "round"}
        note(_place(row))
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            row |= answered(asked, tolerance=TOLERANCE, limit=_LIMIT * before / STATED_CLONES)
        row["warned"] = any(issubclass(one.category, sa.LooseBracketWarning) for one in issued)
        after = clones_seconds()
        row["scaled"] = round(row["seconds"] * 2.0 * STATED_CLONES / (before + after), 4)
        rows.append(row)
        before = after
    slow = [row for row in rows if row["scaled"] > _MOST]
    usual = sum(row["scaled"] <= _USUAL for row in rows) / len(rows)
    silent = [
        row
        for row in rows
        if row["upper"] is None
        or (row["relative_width"] > TOLERANCE and (row["upper"] <= _LARGE or not row["warned"]))
    ]
    slowest = max(rows, key=lambda row: row["scaled"])
    widest = max(rows, key=lambda row: row["relative_width"])
    claims = [
        Claim(
            name="sparse channels",
            text=f"3 x 8 and 6 x 20 channels, Dirichlet(0.03) to (1), n = 30 to 1e6, T = 1 to 100: "
            f"within {_MOST:g} s, {100.0 * _SHARE:g} of 100 within {_USUAL:g} s",
            measured=f"{len(rows) - len(slow)} of {len(rows)}, {100.0 * usual:.0f} of 100; longest "
            f"{slowest['scaled']:.1f} s at {_place(slowest)}",
            holds=not slow and usual >= _SHARE,
        ),
        Claim(
            name="brackets of sparse channels",
            text=f"within {TOLERANCE:g}, relative, where epsilon is at most {_LARGE:g}; above with "
            "a warning at worst",
            measured=f"all but {len(silent)}; widest {widest['relative_width']:.1e} at "
            f"{_place(widest)}",
            holds=not silent,
        ),
    ]
    return Outcome(claims=claims, rows=rows)


def _place(row: dict[str, Any]) -> str:
    return (
        f"{row['kind']}, n = {compact(row['users'])}, T = {row['rounds']}, delta = {row['delta']:g}"
    )
