"""Claim: questions about crowds that nobody chose are answered as fast as those of `crowds`.

Drawn at random, always the same: every randomizer of the catalogue with any level, noise and number
of categories, in every kind of crowd, a hundred to a billion people, up to a thousand rounds, delta
down to 1e-12. Times are the processor's, as multiples of the clones' answer that is timed before
and after each question; what takes longer than a limit is given up and counts as slow.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import warnings
from collections.abc import Iterator
from typing import Any

import shuffle_accountant as sa
from benchmarks.catalogue import randomizers
from benchmarks.claims import (
    STATED_CLONES,
    Claim,
    Note,
    Outcome,
    answered,
    clones_seconds,
    compact,
)

SEED, QUESTIONS, TOLERANCE = 20261123, 300, 1e-3
# One second on the machine that goals are stated for, in times the clones' time; what share of the
# questions takes no longer; and seconds after which a question is given up.
_MOST_TIMES, _SHARE, _LIMIT = float(round(1.0 / STATED_CLONES)), 0.97, 20.0

_CATEGORIES = (2, 3, 10, 50, 300, 1000)
_LEVELS = (0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
_NOISE = (0.8, 1.0, 1.5, 2.0, 3.0, 5.0)
_CHANCES = (0.01, 0.05, 0.1, 0.3, 0.5, 0.9, 0.99)
_ROUNDS = (1, 1, 10, 100, 1000)
_DELTAS = (1e-3, 1e-5, 1e-6, 1e-8, 1e-10, 1e-12)
# Fewer messages on average are no crowd.
_LEAST_USERS = 50.0


def questions(seed: int) -> Iterator[dict[str, Any]]:
    """Crowds that some theorem covers, with rounds and delta, without an end."""
    draw = random.Random(seed)
    while True:
        users, chance = math.floor(10.0 ** draw.uniform(2.0, 9.0)), draw.choice(_CHANCES)
        given = {
            "categories": (draw.choice(_CATEGORIES),),
            "sigma": (draw.choice(_NOISE),),
            "delta0": (1e-10 / users,),
        }
        own, other = (
            list(randomizers({**given, "eps0": (draw.choice(_LEVELS),)})) for _ in range(2)
        )
        which = draw.randrange(len(own))
        (name, randomizer), (_, others) = own[which], other[which]
        crowds: dict[str, dict[str, Any]] = {
            "1 % known": {"users": users, "colluding": users // 100},
            "other levels": {"users": users - users // 2, "others": {others: users // 2}},
            f"chance {chance}": {"users": sa.Binomial(trials=users, probability=chance)},
        }
        # half of them random: that is where laws are many
        kind = draw.choice([*crowds, list(crowds)[-1]])
        rounds, delta = draw.choice(_ROUNDS), draw.choice(_DELTAS)
        if kind.startswith("chance") and users * chance < _LEAST_USERS:
            continue
        try:
            one = sa.ShuffleRound(randomizer, **crowds[kind])
        except ValueError:
            continue
        asked = {"kind": f"{name}, {kind}", "users": users, "rounds": rounds, "delta": delta}
        yield {**asked, "round": one}


def run(quick: bool, note: Note) -> Outcome:
    """Ask the questions, once."""
    # loops are compiled, or loaded, once
    sa.epsilon(sa.ShuffledBatches(noise_multiplier=3.0, steps=10), delta=1e-6)
    rows, before = [], clones_seconds()
    for asked in itertools.islice(questions(SEED), 12 if quick else QUESTIONS):
        row = {key: value for key, value in asked.items() if key != "round"}
        note(_place(row))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sa.LooseBracketWarning)
            row |= answered(asked, tolerance=TOLERANCE, limit=_LIMIT)
        after = clones_seconds()
        row["times"] = round(2.0 * row["seconds"] / (before + after), 2)
        rows.append(row)
        before = after
    slow = [row for row in rows if row["times"] > _MOST_TIMES]
    wide = [row for row in rows if row["relative_width"] > TOLERANCE]
    slowest = max(rows, key=lambda row: row["times"])
    share = 1.0 - len(slow) / len(rows)
    wanted = f"at least {100.0 * _SHARE:g} of 100"
    claims = [
        Claim(
            name="crowds at random",
            text=f"any crowd, any randomizer, eps0 0.1 to 8, noise 0.8 to 5, n = 100 to 1e9, T = 1 "
            f"to 1000: {wanted} questions take at most {_MOST_TIMES:g} times the clones' time",
            measured=f"{len(rows) - len(slow)} of {len(rows)}; median "
            f"{statistics.median(row['times'] for row in rows):.1f} times; longest "
            f"{slowest['times']:.0f} times, {slowest['seconds']:.1f} s at {_place(slowest)}",
            holds=share >= _SHARE,
        ),
        Claim(
            name="brackets of crowds at random",
            text=f"{wanted} brackets of those that are answered are within {TOLERANCE:g}, relative",
            measured=f"all but {len(wide)}; widest "
            f"{max(row['relative_width'] for row in rows):.1e}",
            holds=1.0 - len(wide) / len(rows) >= _SHARE,
        ),
    ]
    return Outcome(claims=claims, rows=rows)


def _place(row: dict[str, Any]) -> str:
    return (
        f"{row['kind']}, n = {compact(row['users'])}, T = {row['rounds']}, delta = {row['delta']:g}"
    )
