"""Protocols: several rounds as one value, about which accountants, reports and plots are asked."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.engine.evaluation import MEMORY_LIMIT
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.trade_off import refined_trade_off
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.rounds.base import Round, certified, conditions_of
from shuffle_accountant.rounds.capped import capped
from shuffle_accountant.rounds.registry import round_from_dict

__all__ = ["MAX_ROUNDS", "Protocol", "Rounds", "as_protocol", "conditions", "trade_off_of"]

MAX_ROUNDS = 10**12
"""No protocol has more rounds."""


# Delta down to which points of the profile make up a trade-off curve.
_CURVE_DELTA = 1e-10


class Protocol:
    """Rounds with their counts, all of one adjacency; immutable, hashable, compared by value.

    The rounds compose adaptively, so their order does not matter, and protocols that differ in
    nothing else are equal. Equal rounds are one round with the sum of their counts; rounds that
    never happen are left out.

        survey = sa.Protocol([(weekly, 52), (yearly, 1)])
        sa.epsilon(survey * 3, delta=1e-6)  # three years

    Iteration gives the pairs (round, count), in the order of their first appearance; ``len`` is the
    number of rounds. ``+`` joins two protocols, ``*`` repeats one.

    Args:
        rounds: pairs (round, count), count >= 0.
        rounds_per_user: number of the rounds that each user takes part in at most (is eligible for,
            if users are sampled), >= 1, at times that may be chosen adaptively; clients must
            enforce it. The protocol is then that of one user: its rounds are the costliest that
            many. Different rounds must be ordered by what they cost, whoever chooses.
    """

    __slots__ = ("_counts", "_total")

    def __init__(
        self, rounds: Iterable[tuple[Round, int]] = (), *, rounds_per_user: int | None = None
    ) -> None:
        counts: dict[Round, int] = {}
        total = 0
        given = rounds.distinct if isinstance(rounds, Protocol) else rounds
        for pair in validate.items(rounds=given):
            one, count = _pair(pair)
            count = validate.integer(minimum=0, maximum=MAX_ROUNDS - total, count=count)
            if count > 0:
                counts[one] = counts.get(one, 0) + count
                total += count
        if rounds_per_user is not None:
            most = validate.integer(minimum=1, maximum=MAX_ROUNDS, rounds_per_user=rounds_per_user)
            counts = dict(capped(tuple(counts.items()), most)) if most < total else counts
            total = sum(counts.values())
        self._counts, self._total = counts, total
        kinds = dict.fromkeys(one.adjacency for one in counts)
        if len(kinds) > 1:
            raise ValueError(
                "rounds must be of one adjacency to compose, got "
                + " and ".join(kind.named for kind in kinds)
            )

    @property
    def adjacency(self) -> Adjacency | None:
        """The adjacency of all its rounds; None if there are none."""
        return next((one.adjacency for one in self._counts), None)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions under which answers about the protocol hold, see `conditions`."""
        return conditions_of(self._counts)

    @property
    def distinct(self) -> tuple[tuple[Round, int], ...]:
        """The pairs (round, count), in the order of their first appearance.

        As ``tuple(protocol)``, which would make room for as many pairs as there are rounds.
        """
        return tuple(self._counts.items())

    @property
    def in_order(self) -> list[tuple[Round, int]]:
        """Pairs (round, count) in a canonical order, so that equal protocols round the same."""
        return sorted(self._counts.items(), key=lambda item: repr(item[0]))

    def __iter__(self) -> Iterator[tuple[Round, int]]:
        return iter(self._counts.items())

    def __len__(self) -> int:
        """Number of rounds, each counted as often as it happens."""
        return self._total

    def __eq__(self, other: object) -> bool:
        return self._counts == other._counts if isinstance(other, Protocol) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._counts.items()))

    def __repr__(self) -> str:
        return f"Protocol({list(self._counts.items())!r})"

    def __add__(self, other: Protocol) -> Protocol:
        if not isinstance(other, Protocol):
            return NotImplemented
        kinds = (self.adjacency, other.adjacency)
        if self._total + other._total > MAX_ROUNDS or (None not in kinds and len({*kinds}) > 1):
            return Protocol(self.distinct + other.distinct)  # which says what is wrong
        joined = Protocol()
        joined._counts, joined._total = dict(self._counts), self._total + other._total
        for one, count in other:
            joined._counts[one] = joined._counts.get(one, 0) + count
        return joined

    def __mul__(self, times: int) -> Protocol:
        most = MAX_ROUNDS // max(self._total, 1)
        try:
            times = validate.integer(minimum=0, maximum=most, times=times)
        except TypeError:
            return NotImplemented
        return Protocol([(one, times * count) for one, count in self])

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return Protocol, (self.distinct,)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal protocol."""
        adjacency = self.adjacency
        return {
            "adjacency": None if adjacency is None else adjacency.value,
            "rounds": [{"round": one.to_dict(), "count": count} for one, count in self],
        }

    @classmethod
    def from_dict(cls, state: Any) -> Protocol:
        """Inverse of `to_dict`; a JSON text round trip in between changes nothing."""
        state = validate.instance(dict, state=state)
        wanted = ["adjacency", "rounds"]
        if sorted(map(str, state)) != wanted:
            raise ValueError(
                f"state must have fields {wanted}, got {sorted(map(str, state))!r:.200}"
            )
        protocol = cls.from_list(state["rounds"])
        known, stated = protocol.to_dict()["adjacency"], state["adjacency"]
        if stated != known:
            raise ValueError(f"adjacency must be that of the rounds, {known!r}, got {stated!r:.60}")
        return protocol

    @classmethod
    def from_list(cls, state: Any) -> Protocol:
        """The protocol whose `to_dict` has this as its ``rounds``."""
        if not isinstance(state, list):
            raise TypeError(f"rounds must be a list, got {type(state).__name__}")
        pairs = []
        for entry in state:
            if not isinstance(entry, dict) or set(entry) != {"round", "count"}:
                text = json.dumps(entry, default=repr)
                raise ValueError(f"rounds must hold objects with round and count, got {text:.80}")
            pairs.append((round_from_dict(entry["round"]), entry["count"]))
        return cls(pairs)


# Types that describe which rounds happen.
Rounds: TypeAlias = Round | Protocol | Sequence[tuple[Round, int]]


def as_protocol(value: Rounds, *, name: str = "rounds") -> Protocol:
    """The protocol that a round, a protocol or a list of pairs (round, count) stands for.

    Args:
        value: what was given.
        name: of the argument, for messages.
    """
    if isinstance(value, Protocol):
        return value
    if isinstance(value, Round):
        return Protocol([(value, 1)])
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise TypeError(
            f"{name} must be a round, a Protocol or a list of pairs (round, count), got "
            f"{validate.shown(value)} of type {type(value).__name__}"
        )
    for entry in value:
        _check_pair(entry, name)
    return Protocol(value)


def conditions(protocol_or_round: Rounds) -> tuple[str, ...]:
    """Assumptions under which answers about these rounds hold, a sentence each with its theorem.

    Brackets, reports, statements and what the command line prints carry the same sentences.

    Args:
        protocol_or_round: a round, a `Protocol`, or a list of pairs (round, count).

    Returns:
        The sentences, each once; none for no rounds, of which nothing is released.
    """
    return as_protocol(protocol_or_round, name="protocol_or_round").conditions


def _check_pair(value: Any, name: str) -> None:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise TypeError(f"{name} must hold pairs (round, count), got {validate.shown(value)}")
    if not isinstance(value[0], Round):
        raise TypeError(
            f"{name} must hold pairs (round, count), got {validate.shown(value[0])} of type "
            f"{type(value[0]).__name__} as a round"
        )


def _pair(value: Any) -> tuple[Round, Any]:
    _check_pair(value, "rounds")
    return value[0], value[1]


def trade_off_of(
    protocol: Protocol, rates: Array, tolerance: float, memory_limit: int = MEMORY_LIMIT
) -> tuple[Array, Array, str]:
    """Ends of the trade-off curve at false positive rates, and the theorems used; never warns.

    Args:
        protocol: the rounds.
        rates: false positive rates, in [0, 1], shape (m,).
        tolerance: relative width of epsilon's brackets, and of a test's gain over guessing, to aim
            for, > 0.
        memory_limit: bytes.

    Returns:
        Lower and upper ends, each of shape (m,), and the reductions' names.
    """

    def bracket(query: Query, width: float) -> Bracket:
        return certified(protocol.distinct, query, width, memory_limit)[0]

    laws: dict[Hashable, Any] = {}

    def delta(epsilon: float) -> tuple[float, float]:
        found = bracket(Query(epsilon=epsilon, laws=laws), tolerance)
        return found.lower, found.upper

    reach = bracket(Query(delta=_CURVE_DELTA), 0.1)
    last = reach.upper
    if math.isinf(last):
        # what is lost at no epsilon; before that, the loss of the bulk
        last = min(bracket(Query(delta=0.5), 0.1).upper, 30.0) + 10.0
    width = 0.5 * min(tolerance, 1.0)
    return *refined_trade_off(delta, max(last, 1e-9), rates, width), reach.reduction
