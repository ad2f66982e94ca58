"""Claim: crowds as they are cost a bounded multiple of the clones' time, up to a billion users.

Users who choose their own level, users whom the adversary knows, a random number of users, messages
that are close to a null law: single rounds and a hundred of them, over all sizes with randomized
response, and with every randomizer of the catalogue that such a crowd can apply. Times are the
processor's, of a process that remembers nothing, as multiples of the clones' answer that is timed
before and after each question; what takes more than half of what is claimed is asked three times,
like the clones.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import shuffle_accountant as sa
from benchmarks.catalogue import randomizers
from benchmarks.claims import (
    STATED_CLONES,
    Claim,
    Note,
    Outcome,
    clones_seconds,
    compact,
    processor_seconds,
    relative_width,
)
from shuffle_accountant.randomizers.base import LocalRandomizer

DELTA, TOLERANCE = 1e-6, 1e-3
ROUNDS = (1, 100)
SIZES = (10**3, 10**4, 10**5, 10**6, 10**9)
# Of the catalogue.
CATALOGUE_SIZES = (10**3, 10**5, 10**9)

# One second on the machine that goals are stated for, in times the clones' time.
_SECOND = float(round(1.0 / STATED_CLONES))

# What is claimed of each group of questions, and how many times the clones' time is enough.
_GROUPS = {
    "mixed": ("levels of their own and colluders", _SECOND),
    "random": ("random participation", _SECOND),
    "null": ("messages with a null law, or with one up to delta0", _SECOND),
    "catalogue": ("every randomizer, in every crowd that can apply it", 1.5 * _SECOND),
}


@dataclass(frozen=True)
class _Question:
    """A crowd, and what it is an example of."""

    group: str
    kind: str
    users: int
    round: sa.ShuffleRound


def _response(eps0: float, categories: int) -> LocalRandomizer:
    return sa.RandomizedResponse(eps0=eps0, categories=categories)


def sizes(users: int) -> Iterator[_Question]:
    """Every kind of crowd of so many users, of the randomizers that are asked about most."""
    half, quarter = users // 2, users // 4

    def asked(group: str, kind: str, randomizer: LocalRandomizer, **crowd: Any) -> _Question:
        return _Question(group, kind, users, sa.ShuffleRound(randomizer, **crowd))

    for categories in (2, 10, 1000):
        own, one, other = (_response(eps0, categories) for eps0 in (2.0, 1.0, 4.0))
        others = {one: quarter, other: quarter}
        for known in (0, users // 100):
            kind = f"three levels, k = {categories}" + (", 1 % known" if known else "")
            yield asked("mixed", kind, own, users=half, others=others, colluding=known)
    general = sa.GeneralRandomizer(eps0=2.0)
    known = users // 100
    yield asked("mixed", "any randomizer, 1 % known", general, users=users, colluding=known)
    for randomizer, name in ((general, "any randomizer"), (_response(2.0, 10), "k = 10")):
        for chance in (0.1, 0.5):
            random = sa.Binomial(trials=users, probability=chance)
            yield asked("random", f"{name}, chance {chance}", randomizer, users=random)
    zero_out = sa.GeneralRandomizer(eps0=2.0, adjacency=sa.Adjacency.ZERO_OUT)
    yield asked("null", "null law", zero_out, users=users)
    near = sa.ApproximateRandomizer(eps0=2.0, delta0=1e-10 / users)
    yield asked("null", "null law up to delta0", near, users=users)


def catalogue(users: int) -> Iterator[_Question]:
    """Every randomizer in every crowd that can apply it; what no theorem covers is refused."""
    few = {"categories": (10,), "eps0": (2.0,), "sigma": (2.0,), "delta0": (1e-10 / users,)}
    own, other = (dict(randomizers(few | {"eps0": (eps0,)})) for eps0 in (2.0, 1.0))
    crowds: dict[str, dict[str, Any]] = {
        "1 % known": {"users": users, "colluding": users // 100},
        "chance 0.1": {"users": sa.Binomial(trials=users, probability=0.1)},
    }
    for (name, randomizer), lower in zip(own.items(), other.values(), strict=True):
        mixed = {"other levels": {"users": users // 2, "others": {lower: users // 2}}}
        for crowd, arguments in (crowds | (mixed if lower != randomizer else {})).items():
            try:
                one = sa.ShuffleRound(randomizer, **arguments)
            except ValueError:
                continue
            kind = name.partition(", ")[0]
            yield _Question("catalogue", f"{kind}, {crowd}", users, one)


def run(quick: bool, note: Note) -> Outcome:
    """Ask every question, once."""
    every = itertools.chain.from_iterable(map(sizes, SIZES[::2] if quick else SIZES))
    some = CATALOGUE_SIZES[1:2] if quick else CATALOGUE_SIZES
    questions = [
        *itertools.product(every, ROUNDS),
        *itertools.product(itertools.chain.from_iterable(map(catalogue, some)), ROUNDS),
    ]
    # loops are compiled, or loaded, once
    sa.epsilon(sa.ShuffledBatches(noise_multiplier=3.0, steps=10), delta=DELTA)
    rows, before = [], clones_seconds()
    for question, rounds in questions:
        note(f"{question.kind}, n = {compact(question.users)}, T = {rounds}")
        asked, most = [], _GROUPS[question.group][1]
        # what comes near the claim is asked as often as the clones
        while not asked or (len(asked) < 3 and 2.0 * asked[-1]["times"] > most):
            row = _asked(question, rounds)
            after = clones_seconds()
            asked.append(row | {"times": round(2.0 * row["seconds"] / (before + after), 2)})
            before = after
        rows.append(min(asked, key=lambda row: float(row["times"])))
    claims = []
    for name in dict.fromkeys(row["group"] for row in rows):
        text, most = _GROUPS[name]
        some = [row for row in rows if row["group"] == name]
        slowest = max(some, key=lambda row: row["times"])
        users = [row["users"] for row in some]
        spent = " and ".join(map(str, sorted({row["rounds"] for row in some})))
        span = " to ".join(map(compact, dict.fromkeys((min(users), max(users)))))
        claims.append(
            Claim(
                name=name,
                text=f"{text}, n = {span}, T = {spent}: at most {most:g} times the clones' time",
                measured=f"{slowest['times']:.1f} times, {slowest['seconds']:.2f} s at "
                f"{_place(slowest)}, of {len(some)} questions; "
                f"median {statistics.median(row['times'] for row in some):.1f} times",
                holds=slowest["times"] <= most,
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


def _asked(question: _Question, rounds: int) -> dict[str, Any]:
    seconds, found = processor_seconds(
        lambda: sa.epsilon(question.round, delta=DELTA, rounds=rounds, tolerance=TOLERANCE)
    )
    return {
        "group": question.group,
        "kind": question.kind,
        "users": question.users,
        "rounds": rounds,
        "delta": DELTA,
        "lower": found.lower,
        "upper": found.upper,
        "relative_width": relative_width(found),
        "seconds": round(seconds, 4),
    }


def _place(row: dict[str, Any]) -> str:
    return f"{row['kind']}, n = {compact(row['users'])}, T = {row['rounds']}"
