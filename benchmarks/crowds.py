"""Claim: crowds as they are cost about what plain ones do, from a thousand users to a billion.

Users who choose their own level, users whom the adversary knows, a random number of users, messages
that are close to a null law: single rounds and a hundred of them. Times are the processor's, of a
process that remembers nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, clear_caches, compact, relative_width

DELTA, TOLERANCE = 1e-6, 1e-3
ROUNDS = (1, 100)
SIZES = tuple(10**k for k in range(3, 10))
# Seconds of the processor's time for an answer.
MOST_SECONDS = 1.0
# Where delta0 is charged for every user, rare large losses make composed windows long.
MOST_SECONDS_OF_CHARGES = 10.0
# Of random participation the likely numbers of messages are listed, each with a round of its own.
MOST_SECONDS_OF_RANDOM, MOST_SECONDS_OF_RESPONSES = 2.5, 15.0


def _response(eps0: float, categories: int) -> Any:
    return sa.RandomizedResponse(eps0=eps0, categories=categories)


def kinds(users: int) -> Iterator[tuple[str, str, Any]]:
    """The claim a round belongs to, its kind, and the round."""
    half, quarter = users // 2, users // 4
    for categories in (2, 3, 10, 1000):
        own, one, other = (_response(eps0, categories) for eps0 in (2.0, 1.0, 4.0))
        others = {one: quarter, other: quarter}
        mixed = sa.ShuffleRound(own, users=half, others=others)
        yield "mixed", f"three levels, k = {categories}", mixed
        known = sa.ShuffleRound(own, users=half, others=others, colluding=users // 100)
        yield "mixed", f"three levels, k = {categories}, 1 % known", known
    general = sa.GeneralRandomizer(eps0=2.0)
    yield (
        "mixed",
        "any randomizer, 1 % known",
        sa.ShuffleRound(general, users=users, colluding=users // 100),
    )
    for chance in (0.1, 0.5):
        random = sa.ShuffleRound(general, users=sa.Binomial(trials=users, probability=chance))
        yield "random", f"any randomizer, chance {chance}", random
    responses = sa.ShuffleRound(
        _response(2.0, 10), users=sa.Binomial(trials=users, probability=0.1)
    )
    yield "responses", "k = 10, chance 0.1", responses
    zero_out = sa.GeneralRandomizer(eps0=2.0, adjacency=sa.Adjacency.ZERO_OUT)
    yield "null", "null law", sa.ShuffleRound(zero_out, users=users)
    near = sa.ApproximateRandomizer(eps0=2.0, delta0=1e-10 / users)
    yield "charged", "null law up to delta0", sa.ShuffleRound(near, users=users)


_CLAIMS = {
    "mixed": ("mixed levels and colluders", MOST_SECONDS),
    "random": ("random participation, any randomizer", MOST_SECONDS_OF_RANDOM),
    "responses": ("random participation, randomized response", MOST_SECONDS_OF_RESPONSES),
    "null": ("messages with a null law", MOST_SECONDS),
    "charged": ("messages with a null law up to delta0", MOST_SECONDS_OF_CHARGES),
}


def run(quick: bool, note: Note) -> Outcome:
    """Ask every kind at every size, once."""
    sizes = (SIZES[0], SIZES[3], SIZES[-1]) if quick else SIZES
    rows: list[dict[str, Any]] = []
    for users in sizes:
        for claim, kind, one in kinds(users):
            for rounds in ROUNDS:
                note(f"{kind}, n = {compact(users)}, T = {rounds}")
                rows.append(_asked(claim, kind, one, users, rounds))
    claims = []
    for claim, (name, most) in _CLAIMS.items():
        slowest = max((row for row in rows if row["claim"] == claim), key=lambda r: r["seconds"])
        claims.append(
            Claim(
                name=name,
                text=f"n = 1e3 to 1e9, T = 1 and 100: under {most:g} s of the processor",
                measured=f"{slowest['seconds']:.2f} s at {_place(slowest)}",
                holds=slowest["seconds"] < most,
            )
        )
    widest = max(rows, key=lambda row: row["relative_width"])
    claims.append(
        Claim(
            name="brackets of crowds",
            text=f"relative brackets at most {TOLERANCE:g}",
            measured=f"{widest['relative_width']:.1e} at {_place(widest)}",
            holds=widest["relative_width"] <= TOLERANCE,
        )
    )
    return Outcome(claims=claims, rows=rows)


def _asked(claim: str, kind: str, one: Any, users: int, rounds: int) -> dict[str, Any]:
    clear_caches()
    start = time.process_time()
    found = sa.epsilon(one, delta=DELTA, rounds=rounds, tolerance=TOLERANCE)
    return {
        "claim": claim,
        "kind": kind,
        "users": users,
        "rounds": rounds,
        "delta": DELTA,
        "lower": found.lower,
        "upper": found.upper,
        "relative_width": relative_width(found),
        "seconds": round(time.process_time() - start, 4),
    }


def _place(row: dict[str, Any]) -> str:
    return f"{row['kind']}, n = {compact(row['users'])}, T = {row['rounds']}"
