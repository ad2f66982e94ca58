"""Base class of the rounds that the accountant composes: those with a dominating pair."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any, ClassVar, Self, TypeVar

from shuffle_accountant import bracket
from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket, ErrorLedger, WeakPrivacyWarning, warn_loose
from shuffle_accountant.engine.classes import Member, gathered
from shuffle_accountant.engine.evaluation import evaluate, largest_loss, theorems
from shuffle_accountant.engine.groups import group_loss
from shuffle_accountant.engine.question import Query, warn_if_below_floor, warn_if_loose
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.engine.single import single_answer, upper_delta
from shuffle_accountant.losses.base import HOCKEY_STICK, DominatingPair
from shuffle_accountant.numerics.rounding import LIMITS, raised, roundings
from shuffle_accountant.registry import Kinds, Stored

R = TypeVar("R")
P = TypeVar("P", bound=DominatingPair)

# Largest relative width that is aimed for: wider brackets say nothing, and have no grid spacing.
_LOOSEST = 10.0
# Width of a class of rounds that are evaluated together, relative to the tolerance; factor by which
# it shrinks while brackets are too wide; width at which rounds are no longer put together.
_CLASS_WIDTH, _CLASS_REFINED, _CLASS_FINEST = 0.7, 0.25, 0.01
# A condition of every answer, about one round or a composition, and one of answers about groups.
_FIXED = (
    "The rounds, their number and their parameters are fixed beforehand: they depend neither on "
    "the data nor on what earlier rounds released (adaptive composition)."
)
_GROUPS = (
    "The data of no more people than the group has change at once, each to any other data that the "
    "adjacency allows for one person (group privacy)."
)
LARGEST_GROUP = 10**5
"""Most people that one group has."""

# Modules of the kinds of rounds that are read back, imported when a state names one.
_MODULES = {
    "allocation": "allocation",
    "augmented-shuffle": "messages",
    "capped": "protocol",
    "cyclic-poisson": "batches",
    "fixed-size": "batches",
    "matrix": "matrix",
    "memoised": "memoised",
    "noise-messages": "messages",
    "pld": "pld",
    "poisson-sampling": "batches",
    "sample-and-threshold": "thresholds",
    "shuffle": "shuffle",
    "shuffled-batches": "batches",
}


@dataclass(frozen=True)
class Drawn:
    """A part of a round that is drawn once for all rounds, with bounds of its probability.

    Attributes:
        most: upper bound of the probability with which the round ``above`` is an upper bound.
        least: lower bound of the probability with which the round ``below`` is what happens.
    """

    most: float
    least: float
    above: Round
    below: Round


class Round(Stored, ABC):
    """One round of a protocol; implementations are immutable, hashable and compared by value.

    A subclass with a ``kind`` is registered when it is made, and read back from states by it. If
    it is a frozen dataclass of numbers and texts, `to_dict` and `from_dict` are there already.

    Attributes:
        kinds: the classes of rounds by their kind; the states of a `ShuffleRound` name none.
    """

    kinds: ClassVar[Kinds[Round]] = Kinds(
        "round", {kind: f"{__package__}.{module}" for kind, module in _MODULES.items()}
    )

    def __init_subclass__(cls, **options: Any) -> None:
        """Register the class under its ``kind``, if it has one."""
        super().__init_subclass__(**options)
        Round.kinds.add(cls)

    def _hold(self, **values: Any) -> None:
        """Set checked fields, of a frozen dataclass as well."""
        vars(self).update(values)

    @property
    @abstractmethod
    def adjacency(self) -> Adjacency:
        """Adjacency: what neighbouring datasets, between which the round hides, may differ in."""

    @property
    @abstractmethod
    def conditions(self) -> tuple[str, ...]:
        """Assumptions under which the round's answers hold, a sentence each with its theorem.

        They name no numbers, so that rounds of one kind that differ in numbers have the same ones.
        """

    @abstractmethod
    def reduced(self) -> DominatingPair:
        """The dominating pair of this round, with where it comes from."""

    @property
    def member(self) -> Member | None:
        """The round as a member of a family, in which many different rounds cost little; or None.

        None, which is always safe, means that the round is composed as it is.
        """
        return None

    @property
    def floor(self) -> Bracket | None:
        """Bracket of the delta left at every epsilon, for rounds with dummies; else None."""
        return None

    def in_blocks(self, group: int) -> Round | None:
        """A round whose answers about one person hold for a group of two or more, or None.

        It bounds what this round reveals of the group, by a theorem of its own.
        """
        return None

    @property
    def has_profile(self) -> bool:
        """Whether its delta is a hockey-stick divergence; not with ``variant="tail"``."""
        return self.reduced().loss.divergence is HOCKEY_STICK

    @property
    def drawn_once(self) -> tuple[Drawn, ...]:
        """What is drawn once for all rounds, if anything; such a round is composed as its parts."""
        return ()

    @property
    def exposed(self) -> float:
        """About how much an imperfect shuffler adds to delta of one round at a small epsilon.

        That is the probability that a message is recognised, times the total variation distance
        between the laws of one message.
        """
        return 0.0

    def other_end(self, count: int, query: Query) -> float | None:
        """An upper end for ``count`` rounds and no others, by a theorem of its own, or None."""
        return None

    @property
    def wide(self) -> str | None:
        """Why the round's brackets are wide whatever the tolerance; None if they are not."""
        return None

    @property
    def people(self) -> int | None:
        """Number of people whose data the round may use; None if it is not known."""
        return None

    @property
    def weaknesses(self) -> tuple[str, ...]:
        """Reasons why the round protects little whatever its answers are, a line each; or ()."""
        return ()

    def delta(self, *, epsilon: float) -> Bracket:
        """Bracket of delta at epsilon for this round alone: a finite sum, exact to round-off.

        Args:
            epsilon: nats, finite, >= 0.
        """
        return answered([(self, 1)], Query(epsilon=validate.finite_nonnegative(epsilon=epsilon)))

    def epsilon(self, *, delta: float) -> Bracket:
        """Bracket of epsilon (nats) at delta for this round alone.

        Args:
            delta: in (0, 1).
        """
        return answered([(self, 1)], Query(delta=validate.open_unit(delta=delta)))


Counted = Sequence[tuple[Round, int]]
"""Distinct rounds of one adjacency, with their counts."""


class RoundOfParts(Round):
    """A frozen dataclass some of whose fields are no plain JSON types.

    Attributes:
        parts: what rebuilds these from their state, by name; fields of tuples need none.
        later: fields that are stored only if the first of them is not 1, its default, as states of
            earlier versions know none of them.
    """

    parts: ClassVar[Mapping[str, Callable[[Any], Any]]]
    later: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        left_out = self.later if self.later and getattr(self, self.later[0]) == 1 else ()
        return {name: one for name, one in super().to_dict().items() if name not in left_out}

    @classmethod
    def from_dict(cls, state: Any) -> Self:
        """Inverse of `to_dict`."""
        wanted = ["kind", *(one.name for one in fields(cls))]  # type: ignore[arg-type]
        if not isinstance(state, dict) or not set(cls.later[:1]) <= set(state):
            wanted = [name for name in wanted if name not in cls.later]
        held = dict(validate.fields(wanted, kind=cls.kind, round=state))
        held |= {name: read(held[name]) for name, read in cls.parts.items()}
        return cls(**{name: held[name] for name in wanted[1:]})


def adjacency_named(state: Any) -> Adjacency:
    """The adjacency that a state names."""
    return Adjacency(validate.choice([one.value for one in Adjacency], adjacency=state))


def reduced_once(method: Callable[[R], P]) -> Callable[[R], P]:
    """A round's `Round.reduced`, whose pair is kept for equal rounds."""
    return lru_cache(maxsize=128)(method)


def certified(
    rounds: Counted,
    query: Query,
    tolerance: float,
    memory_limit: int = SETTINGS.memory_limit,
    group: int = 1,
) -> tuple[Bracket, str | None]:
    """`answered` without its warnings, and what kept it wider than the tolerance, or None."""
    if any(one.drawn_once for one, _ in rounds):
        if group > 1:
            raise ValueError(f"group must be 1 with a persistent shuffler, got {group}")
        return _drawn_once(rounds, query, tolerance, memory_limit)
    if group > 1 and rounds:
        return _of_group(rounds, query, tolerance, memory_limit, group)
    goal = min(tolerance, _LOOSEST)
    width = _CLASS_WIDTH * min(goal, 1.0)
    while True:
        parts = gathered(rounds, width)
        answer = evaluate(parts.above, query, goal, memory_limit, parts.below)
        if answer.cause is None or parts.exact:
            break
        width = _CLASS_REFINED * width if width > _CLASS_FINEST * goal else 0.0
    if len(rounds) == 1 and (other := rounds[0][0].other_end(rounds[0][1], query)) is not None:
        answer = answer.at_most(other)
    regroup = partial(answered, tuple(rounds), query, tolerance, memory_limit)
    ends, name = (answer.lower, answer.upper, answer.ledger), theorems(parts.above)
    return _bracket(rounds, ends, name, regroup=regroup), answer.cause


def _bracket(
    rounds: Counted,
    ends: tuple[float, float, ErrorLedger | None],
    name: str,
    *further: str,
    regroup: Callable[..., Bracket] | None = None,
) -> Bracket:
    """A bracket about rounds, with further conditions."""
    lower, upper, ledger = ends
    return Bracket(
        lower=lower,
        upper=upper,
        ledger=ledger,
        reduction=name,
        adjacency=rounds[0][0].adjacency if rounds else None,
        conditions=partial(conditions_of, tuple(one for one, _ in rounds), *further),
        regroup=regroup,
    )


def certified_at(
    rounds: Counted,
    tolerance: float,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    laws: dict[Hashable, Any] | None = None,
) -> tuple[Bracket, str | None]:
    """`certified` for the question at an epsilon (nats), or at a delta; laws are as in `Query`."""
    return certified(rounds, Query(epsilon=epsilon, delta=delta, laws=laws), tolerance)


def by_its_pair(rounds: Counted, epsilon: float) -> bool:
    """Whether it is a single round, whose dominating pair alone gives the answer of `certified`."""
    if len(rounds) != 1 or rounds[0][1] != 1:
        return False
    one = rounds[0][0]
    return not one.drawn_once and one.other_end(1, Query(epsilon=epsilon)) is None


def delta_by_pair(one: Round, tolerance: float, *, epsilon: float, delta: float) -> float:
    """Upper end of delta at epsilon > 0 (nats) of a round `by_its_pair`, tight near ``delta``.

    It is above ``delta`` where epsilon at ``delta`` is larger, which takes `certified` more work.
    """
    tolerance = min(tolerance, _LOOSEST)
    return upper_delta(one.reduced().loss, epsilon=epsilon, delta=delta, tolerance=tolerance)


def _of_group(
    rounds: Counted, query: Query, tolerance: float, memory_limit: int, group: int
) -> tuple[Bracket, str | None]:
    """As `certified`, for a group of two or more people.

    The smaller of two upper bounds: the best chain of one person's profile, and the rounds' own
    theorems about groups where all of them have one.
    """

    def ask(inner: Query) -> tuple[float, float]:
        found = certified(rounds, inner, tolerance, memory_limit)[0]
        return found.lower, found.upper

    if not all(one.has_profile for one, _ in rounds):
        raise ValueError(f"group must be 1 with variant='tail', got {group}")
    largest = largest_loss([(one.reduced(), count) for one, count in rounds])
    alone = certified(rounds, query, tolerance, memory_limit)[0]
    name = f"{alone.reduction}, group of {group}"
    if largest == 0.0:  # nothing is revealed of one person, and so of any group
        return _bracket(rounds, (alone.lower, alone.upper, alone.ledger), name, _GROUPS), None
    chain = group_loss(ask, query, group, largest)
    # a second route makes answers no wider than this
    answer = single_answer(chain, query, max(tolerance, 1e-2), SETTINGS.rough)
    lower, upper, ledger = max(answer.lower, alone.lower), answer.upper, answer.ledger
    cause = answer.cause
    blocks = [
        (block, count) for one, count in rounds if (block := one.in_blocks(group)) is not None
    ]
    if len(blocks) == len(rounds):
        other, why = certified(blocks, query, tolerance, memory_limit)
        lower = min(lower, other.lower)
        if other.upper < upper:
            upper, ledger, name, cause = other.upper, other.ledger, other.reduction, why
    if query.delta is not None and upper > group * largest:
        upper = raised(group * largest, roundings(2))
    if upper == math.inf:
        cause = "the range of double precision"
    return _bracket(rounds, (min(lower, upper), upper, ledger), name, _GROUPS), cause


def _drawn_once(
    rounds: Counted, query: Query, tolerance: float, memory_limit: int
) -> tuple[Bracket, str | None]:
    """As `certified`, for rounds of which a part is drawn once: deltas of all parts, averaged."""
    every = {one: [(part.least, part.most) for part in one.drawn_once] for one, _ in rounds}
    weights = next(filter(None, every.values()))
    for one, held in every.items():
        if held and held != weights:
            raise ValueError(
                "rounds with a persistent shuffler must have the same exposure and, if every user "
                f"may be exposed, the same number of users, got {one!r:.120}"
            )

    above, below = (
        [
            [
                (getattr(one.drawn_once[place], side) if one.drawn_once else one, count)
                for one, count in rounds
            ]
            for place in range(len(weights))
        ]
        for side in ("above", "below")
    )
    error = roundings(2.0 * len(weights) + 4.0)
    laws: list[dict[Hashable, Any]] = [{} for _ in weights]
    # a part's delta far below the target need not be known to the tolerance
    negligible = 0.0 if query.delta is None else 0.05 * tolerance * query.delta / len(weights)

    def delta(epsilon: float, upper: bool) -> float:
        total = 0.0
        for part, law, (least, most) in zip(above if upper else below, laws, weights, strict=True):
            one = Query(epsilon=epsilon, laws=law)
            found = certified(part, one, 1.0 if negligible else tolerance, memory_limit)[0]
            if negligible and most * (found.upper - found.lower) > negligible:
                found = certified(part, one, tolerance, memory_limit)[0]
            total += most * found.upper if upper else least * found.lower
        return min(total * (1.0 + error if upper else 1.0 - error), 1.0)

    if query.delta is None:
        low, high = delta(query.required, False), delta(query.required, True)
    else:
        low, high = _crossing(delta, query.delta, tolerance)
    first = certified(above[0], query, max(tolerance, 1.0), memory_limit)[0]
    ledger = ErrorLedger(discretisation=high - min(low, high), method="grid")
    ends, name = (min(low, high), high, ledger), f"{first.reduction}, exposure"
    wide = high - low > tolerance * max(high, 1e-300)
    return _bracket(rounds, ends, name), "discretisation" if wide else None


def _crossing(
    delta: Callable[[float, bool], float], target: float, tolerance: float
) -> tuple[float, float]:
    """Ends of the epsilon at which delta is the target: above it is not, below it is more."""
    if delta(0.0, True) <= target:
        return 0.0, 0.0
    high = 1.0
    while delta(high, True) > target:
        high *= 2.0
        if high > LIMITS.largest_log:
            return 0.0, math.inf
    low, width = 0.0, 0.25 * tolerance
    while high - low > width * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if delta(middle, True) > target else (low, middle)
    # the lower deltas are a little less: where they are above the target, so is epsilon
    step = 0.25 * tolerance * high
    while low > 0.0 and delta(low, False) <= target:
        low, step = max(low - step, 0.0), 2.0 * step
    return low, high


def answered(
    rounds: Counted,
    query: Query,
    tolerance: float = 1e-3,
    memory_limit: int = SETTINGS.memory_limit,
    group: int = 1,
) -> Bracket:
    """Bracket of the answer about distinct rounds of one adjacency; warns of what is to be said.

    It aims for this relative width in epsilon, with this many bytes, about a group of people.
    """
    group = validate.integer(minimum=1, maximum=LARGEST_GROUP, group=group)
    found, cause = certified(rounds, query, tolerance, memory_limit, group)
    if cause is not None:
        cause = next((one.wide for one, _ in rounds if one.wide is not None), cause)
    warn_if_loose(found, cause, min(tolerance, _LOOSEST))
    warn_if_below_floor(found, query, [(one.floor, count) for one, count in rounds])
    people = [one.people for one, _ in rounds if one.people is not None]
    bracket.warn_if_delta_is_large(query.delta, max(people, default=None))
    for reason in dict.fromkeys(reason for one, _ in rounds for reason in one.weaknesses):
        warn_loose(reason, WeakPrivacyWarning)
    exposed = math.fsum(one.exposed * (1 if one.drawn_once else count) for one, count in rounds)
    if query.delta is not None and exposed >= query.delta:
        warn_loose(
            f"messages are recognised with a probability that adds {exposed:.2g} to delta, which "
            f"is {query.delta:g}: the shuffler hides hardly more than no shuffler",
            WeakPrivacyWarning,
        )
    return found


def needed(theorem: str, *sentences: str) -> tuple[str, ...]:
    """Assumptions of a theorem, each sentence followed by the theorem's name."""
    return tuple(f"{sentence} ({theorem})." for sentence in sentences)


def conditions_of(rounds: Iterable[Round], *further: str) -> tuple[str, ...]:
    """Assumptions of an answer about these rounds together, each sentence once; () for none."""
    every = [sentence for one in rounds for sentence in one.conditions]
    return tuple(dict.fromkeys((_FIXED, *every, *further))) if every else ()
