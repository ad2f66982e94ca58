"""Protocols: several rounds as one value, about which accountants, reports and plots are asked.

And rounds read back from a state, whatever their kind.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any, ClassVar, TypeAlias, TypeVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.engine.trade_off import refined_trade_off
from shuffle_accountant.losses.base import DominatingPair
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.channel import GeneralRandomizer
from shuffle_accountant.registry import Kinds
from shuffle_accountant.rounds.base import Round, RoundOfParts, certified, conditions_of, needed
from shuffle_accountant.rounds.shuffle import ShuffleRound

MAX_ROUNDS = 10**12
"""No protocol has more rounds."""

C = TypeVar("C", bound=type[LocalRandomizer] | type[Round])


def register(cls: C) -> C:
    """Make a class of randomizers or rounds known by its ``kind`` to states and the command line.

    A class with a ``kind`` in its body is known when it is made; this gives the others one, their
    name in lower case with hyphens, and checks that the class is complete. Frequency oracles and
    vector randomizers are candidates of `shuffle_accountant.design` from then on, if their
    constructor takes ``eps0`` and ``categories`` or ``dimension``.

    Args:
        cls: a subclass of `LocalRandomizer` or of `Round`.

    Returns:
        The class, so that this is a decorator, too.

    Raises:
        TypeError: no such class, or one with abstract methods left.
    """
    if not isinstance(cls, type) or not issubclass(cls, LocalRandomizer | Round):
        raise TypeError(f"cls must be a class of randomizers or rounds, got {validate.shown(cls)}")
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise TypeError(f"cls must have {', '.join(missing)}, which {cls.__name__} has not")
    if "kind" not in cls.__dict__:
        cls.kind = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()
    kinds: Kinds[Any] = cls.kinds
    kinds.add(cls)
    return cls


def round_from_dict(state: Any) -> Round:
    """The round that `Round.to_dict` wrote as this."""
    named = state if isinstance(state, dict) and "kind" in state else {"kind": "shuffle"}
    return Round.kinds.of(named, "round").from_dict(state)


@dataclass(frozen=True)
class CappedRound(RoundOfParts):
    """One of the rounds that a user takes part in no more often than a protocol counts it."""

    kind: ClassVar[str] = "capped"
    parts: ClassVar = {"round": round_from_dict}
    adjacency = property(attrgetter("round.adjacency"))
    floor = property(attrgetter("round.floor"))
    member = property(attrgetter("round.member"))
    people = property(attrgetter("round.people"))
    weaknesses = property(attrgetter("round.weaknesses"))

    round: Round

    @property
    def conditions(self) -> tuple[str, ...]:
        """Those of the round, and that clients enforce the limit."""
        return self.round.conditions + needed(
            self.reduced().name,
            "No user is eligible for more of the rounds than rounds_per_user says, which clients "
            "enforce; when they take part may depend on all but their own data",
        )

    def reduced(self) -> DominatingPair:
        """The dominating pair of the round."""
        return self.round.reduced()

    def in_blocks(self, group: int) -> Round | None:
        """The theorem of the round on groups."""
        return self.round.in_blocks(group)


def _capped(rounds: Sequence[tuple[Round, int]], most: int) -> list[tuple[Round, int]]:
    """The costliest rounds, as many as a user takes part in.

    Equal rounds compose as often as the user takes part, whenever that is. Of different ones each
    must dominate the next, so that the costliest dominate all choices: shuffled rounds with fewer
    users, or with a larger eps0 of any randomizer, cost more.

    Raises:
        ValueError: rounds whose order is not known.
    """
    kept = [(one.round if isinstance(one, CappedRound) else one, count) for one, count in rounds]
    if len(kept) > 1:
        kept.sort(key=lambda item: _place(item[0]))
        for (before, _), (after, _) in pairwise(kept):
            if not _dominates(before, after):
                raise ValueError(
                    "rounds_per_user needs equal rounds, or shuffled rounds of which each has no "
                    "more users and no smaller eps0 than the next, got "
                    f"{before!r:.80} and {after!r:.80}"
                )
    starts = accumulate((count for _, count in kept), initial=0)
    return [
        (CappedRound(one), min(count, most - start))
        for (one, count), start in zip(kept, starts, strict=False)
        if start < most
    ]


def _place(one: Round) -> tuple[float, float]:
    if not isinstance(one, ShuffleRound) or not one.plain:
        raise ValueError(
            f"rounds_per_user needs equal rounds, or shuffled rounds of all users, got {one!r:.120}"
        )
    return (float(one.plain_users), -one.randomizer.eps0)


def _dominates(first: Round, second: Round) -> bool:
    """Whether the first round reveals at least as much as the second, at every alpha."""
    assert isinstance(first, ShuffleRound)
    assert isinstance(second, ShuffleRound)
    drawn = first.population is not None or second.population is not None
    fewer = first.plain_users <= second.plain_users
    if drawn or not fewer or first.reduction != second.reduction:
        return False
    one, other = first.randomizer, second.randomizer
    general = isinstance(one, GeneralRandomizer) and isinstance(other, GeneralRandomizer)
    alike = general and one.adjacency is other.adjacency and one.interactive == other.interactive
    return one == other or (alike and one.eps0 >= other.eps0)


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
        known = rounds if isinstance(rounds, Protocol) else None
        self._counts: dict[Round, int] = dict(known._counts) if known else {}
        self._total: int = known._total if known else 0
        if known is None:
            self._take(rounds)
        if rounds_per_user is not None:
            most = validate.integer(minimum=1, maximum=MAX_ROUNDS, rounds_per_user=rounds_per_user)
            if most < self._total:
                self._counts = dict(_capped(self.distinct, most))
                self._total = sum(self._counts.values())

    def _take(self, rounds: Iterable[tuple[Round, int]]) -> None:
        """Count further pairs (round, count)."""
        for pair in validate.items(rounds=rounds):
            _check_pair(pair, "rounds")
            one, count = pair
            count = validate.integer(minimum=0, maximum=MAX_ROUNDS - self._total, count=count)
            if count > 0:
                self._counts[one] = self._counts.get(one, 0) + count
                self._total += count
        kinds = dict.fromkeys(one.adjacency for one in self._counts)
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
        if not self._counts:
            return other
        joined = Protocol(self)
        joined._take(other.distinct)
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
        names = sorted(map(str, validate.instance(dict, state=state)))
        if names != ["adjacency", "rounds"]:
            raise ValueError(f"state must have fields ['adjacency', 'rounds'], got {names!r:.200}")
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
    """The protocol that a round, a protocol or a list of pairs (round, count) stands for."""
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


def trade_off_of(
    protocol: Protocol, rates: Array, tolerance: float, memory_limit: int = SETTINGS.memory_limit
) -> tuple[Array, Array, str]:
    """Ends of the trade-off curve at false positive rates, and the theorems used; never warns.

    Args:
        rates: in [0, 1], shape (m,).
        tolerance: relative width of epsilon's brackets, and of a test's gain over guessing, > 0.

    Returns:
        Lower and upper ends, each of shape (m,), and the reductions' names.
    """

    def bracket(width: float, **asked: Any) -> Bracket:
        return certified(protocol.distinct, Query(**asked), width, memory_limit)[0]

    laws: dict[Hashable, Any] = {}

    def delta(epsilon: float) -> tuple[float, float]:
        found = bracket(tolerance, epsilon=epsilon, laws=laws)
        return found.lower, found.upper

    # delta down to which points of the profile make up the curve
    reach = bracket(0.1, delta=1e-10)
    last = reach.upper
    if math.isinf(last):
        # what is lost at no epsilon; before that, the loss of the bulk
        last = min(bracket(0.1, delta=0.5).upper, 30.0) + 10.0
    width = 0.5 * min(tolerance, 1.0)
    return *refined_trade_off(delta, max(last, 1e-9), rates, width), reach.reduction
