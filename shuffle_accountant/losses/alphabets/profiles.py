"""The profile of a target among decoys: the largest of several ordered pairs of inputs.

Each pair is bounded from both sides by the way that `shuffle_accountant.sums.survey` names, for
one number of messages or for all numbers of a range. Of many pairs those that are nowhere the
largest are left out: bounds from moments, then coarse tables at few alpha tell; their upper bounds
join the final maximum, so that nothing depends on why a pair was left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.losses.alphabets.letters import (
    MessagePair,
    MessageSource,
    far_bounds,
    gains,
    lone_message,
    moment_bounds,
    row_bounds,
    source_messages,
    stacked,
)
from shuffle_accountant.losses.alphabets.settings import PROFILES
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.hockey_stick import LARGEST_EXPONENT
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    Array,
    Bound,
    exponential,
    lowered,
    outwards,
    pairwise_sum,
    raised,
    roundings,
)
from shuffle_accountant.sums.heavy_tails import heavy_positive_part, one_large
from shuffle_accountant.sums.lists import ListedProfile, likely_histograms
from shuffle_accountant.sums.nodes import NodeTable, node_table
from shuffle_accountant.sums.question import Ends, MessageRows
from shuffle_accountant.sums.settings import NODES
from shuffle_accountant.sums.survey import Way, choose


@dataclass(frozen=True, eq=False)
class Profile:
    """Certified bounds of a profile at some alpha >= 1.

    Attributes:
        excess: ``alpha - 1``, ascending, shape (k,).
        upper: upper bounds there, shape (k,).
        lower: lower bounds there, shape (k,).
        q: Q-probabilities of events, from above, shape (j,).
        d: P- less Q-probability of these, from below, shape (j,): ``d - (alpha - 1) q`` is a lower
            bound for every alpha >= 1.
        narrow: mask of bounds that are as close as requested, shape (k,).
    """

    excess: Array
    upper: Array
    lower: Array
    q: Array
    d: Array
    narrow: NDArray[np.bool_]

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return int(4 * self.upper.nbytes + 2 * self.q.nbytes)


class OrderedMessages:
    """One ordered pair of inputs: its messages for upper and for lower bounds.

    Args:
        source: the pair.
        users: least and largest number of messages.
        effort: requested accuracy of its profile.
    """

    def __init__(self, source: MessageSource, users: tuple[int, int], effort: Effort) -> None:
        self.users, self.effort = users, effort
        self.high, self.low = (
            source_messages(source, side, effort).settled(side, users[1])
            for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
        )
        self.deviation = self.low.deviation(users[0])

    @property
    def ends(self) -> tuple[MessagePair, ...]:
        """The messages for upper and lower ends, once if they are the same."""
        return (self.high,) if self.high == self.low else (self.high, self.low)

    def way(self, known: tuple[float, float] = (0.0, 1.0), *, wide: bool = False) -> Way:
        """The way that bounds sums of the pair's messages; see `choose`."""
        tail = PROFILES.unlisted * self.effort.tail
        ways = {
            choose(pair.decoyed[2], self.users, tail, known=known, wide=wide) for pair in self.ends
        }
        return next(way for way in reversed(Way) if way in ways)

    def allowed(self, excess: Array, upper: Array) -> Array:
        """Largest distance of the profile's bounds that is narrow enough, shape of ``excess``."""
        z = np.log1p(excess) / self.deviation
        share = PROFILES.width * self.effort.resolution * (1.0 + z**2)
        least = np.minimum(share, 0.5) * upper
        return np.asarray(least + PROFILES.tail_share * self.effort.tail)

    def moments(self, excess: Array) -> Array:
        """Upper bounds from moments, without messages that decoys never send."""
        r0, r1, q = self.high.decoyed
        return row_bounds(r0, r1, q, self.users[0], excess[:, None])

    def exposed(self, excess: Array) -> tuple[Array, Array]:
        """Lower and upper bounds of what messages that decoys never send add to the profile."""
        return self.low.exposure_bounds(excess)[0], self.high.exposure_bounds(excess)[1]


class ProfileTable:
    """Bounds of the largest profile of all pairs, for every number of messages in a range.

    Args:
        pairs: ordered pairs of inputs, a set closed under exchanging the datasets.
        users: least and largest number of messages.
        excess: ascending ``alpha - 1 >= 0``, shape (k,).
        effort: requested accuracy.
    """

    def __init__(
        self,
        pairs: tuple[MessageSource, ...],
        users: tuple[int, int],
        excess: Array,
        effort: Effort,
    ) -> None:
        every = [OrderedMessages(source, users, effort) for source in pairs]
        self.excess, self.users, self.effort = excess, users, effort
        self._largest = max(pair.high.largest for pair in every)
        # profiles fall with the number of messages: upper bounds are those for the least number,
        # the largest lower bound that for the largest; below a quarter of the tail no pair counts,
        # nor where moments bound it by no more than what they add for underflow
        self._best = np.full(excess.shape, max(0.25 * effort.tail, 2.0 * LIMITS.underflow))
        upper = np.full((1, excess.size), math.inf) if len(every) == 1 else self._compared(every)
        self._ends: list[_PairEnds] = []
        # upper bound of all pairs where they are not the largest
        self.rest = np.zeros(excess.shape)
        for i in np.argsort(-upper.min(axis=1, initial=math.inf), kind="stable").tolist():
            open_ = upper[i] > self._best
            self.rest = np.maximum(self.rest, np.where(open_, 0.0, upper[i]))
            if not open_.any():
                continue
            ends = _PairEnds(every[i], excess, np.flatnonzero(open_))
            self._ends.append(ends)
            if len(every) > 1:
                last = ends.ends(users[1])[0]
                self._known(last.q, last.d)

    def _compared(self, every: list[OrderedMessages]) -> Array:
        """Upper bounds of all pairs, shape (pairs, k).

        From moments at few alpha, then from coarse tables where a pair may be the largest there.
        """
        few = np.unique(np.linspace(0, self.excess.size - 1, 24).round().astype(int))
        place = self.excess[few]
        above = moment_bounds([pair.high for pair in every], self.users[0], place)
        waiting, step = np.argsort(-above[:, few.size // 4]).tolist(), 1
        while waiting:
            some, waiting = waiting[:step], waiting[step:]
            step = 32  # once the likeliest is known
            open_ = above[some] > self._best[few]
            looked = [(i, row) for i, row in zip(some, open_, strict=True) if row.any()]
            asked = [(every[i], place[row]) for i, row in looked]
            found = _coarse_bounds(asked, self.users) if asked else []
            for (i, row), (most, q, d) in zip(looked, found, strict=True):
                above[i, row] = np.minimum(above[i, row], most)
                self._known(q, d)
        # profiles are convex, so below their chords
        chords = np.stack([np.interp(self.excess, place, bound) for bound in above])
        return np.asarray(chords * (1.0 + roundings(16)))

    def _known(self, q: Array, d: Array) -> None:
        """Raise the largest lower bound to that of some events."""
        if q.size:
            lines = np.max(d - np.multiply.outer(self.excess, q), axis=1)
            self._best = np.maximum(self._best, lines * (1.0 - roundings(16)))

    @property
    def pairs(self) -> list[OrderedMessages]:
        """The pairs that may be the largest somewhere."""
        return [pair.pair for pair in self._ends]

    def each(self, users: int) -> list[tuple[OrderedMessages, float, float]]:
        """Pairs with lower and upper bounds of their profiles, at the first alpha."""
        found = [(pair.pair, pair.ends(users)[0]) for pair in self._ends if pair.rows[0] == 0]
        return [(pair, float(ends.lower[0]), float(ends.upper[0])) for pair, ends in found]

    @property
    def ways(self) -> set[Way]:
        """The ways that bound the pairs in this table."""
        return {pair.way for pair in self._ends}

    @property
    def nodes(self) -> float:
        """Nodes of each alpha, on average, of all pairs: one more number of messages costs them."""
        return sum(pair.nodes for pair in self._ends)

    def profile(self, users: int) -> Profile:
        """The bounds for that many messages, a number in the range."""
        upper, lower = np.zeros(self.excess.shape), np.zeros(self.excess.shape)
        q, d = [np.zeros(0)], [np.zeros(0)]
        narrow = np.ones(self.excess.shape, dtype=bool)
        for pair in self._ends:
            ends, close = pair.ends(users)
            upper[pair.rows] = np.maximum(upper[pair.rows], ends.upper)
            lower[pair.rows] = np.maximum(lower[pair.rows], ends.lower)
            narrow[pair.rows] &= close
            q.append(ends.q)
            d.append(ends.d)
        narrow &= self.rest <= np.maximum(upper, self.effort.tail)
        upper = np.maximum(upper, self.rest)
        if self._largest < math.inf:  # logarithms are off by far less
            above = np.log1p(self.excess) >= self._largest + 0.25 * PROFILES.beyond * (
                1.0 + self._largest
            )
            upper = np.where(above, 0.0, upper)
            narrow |= above
        upper = np.minimum(upper, 1.0)
        return Profile(
            self.excess,
            upper,
            np.minimum(lower, upper),
            np.concatenate(q),
            np.concatenate(d),
            narrow,
        )


class _PairEnds:
    """Bounds of one ordered pair's profile at some alpha, with messages that decoys never send.

    Args:
        pair: the ordered pair.
        excess: ``alpha - 1`` of the whole table.
        rows: at which of these the pair may be the largest.
    """

    def __init__(self, pair: OrderedMessages, excess: Array, rows: NDArray[np.intp]) -> None:
        excess = excess[rows]
        self.pair, self.rows, self._excess, self.way = pair, rows, excess, pair.way()
        self._moments = pair.moments(excess)
        self._exposed = pair.exposed(excess)
        self._tables: list[ListedProfile | NodeTable] = []
        share = pair.allowed(excess, self._moments) / self._moments
        share *= 0.1 if excess.size == 1 else 1.0  # a single alpha costs little
        # the distance of messages for upper ends from those for lower ones needs the rest
        share *= 0.7 if len(pair.ends) > 1 else 1.0
        for messages in pair.ends:
            if self.way is Way.LISTS:
                tail = PROFILES.unlisted * pair.effort.tail
                self._tables.append(_listed(messages, pair.users[0], tail))
            else:
                asked = MessageRows.of(messages.decoyed, excess)
                self._tables.append(node_table(asked, pair.users, np.minimum(share, 1.0)))

    @property
    def nodes(self) -> float:
        """Number of nodes for each alpha, on average, of all tables of this pair."""
        return sum(table.nodes for table in self._tables if isinstance(table, NodeTable))

    def ends(self, users: int) -> tuple[Ends, NDArray[np.bool_]]:
        """The bounds for that many messages, and a mask of those that are narrow enough."""
        high = self._found(self._tables[0], users)
        low = high if len(self._tables) == 1 else self._found(self._tables[-1], users)
        upper = np.minimum(np.nan_to_num(high.upper, nan=1.0), self._moments)
        kept = (low.d > 0.0) & (low.q > 0.0)  # and no nan
        narrow = upper - np.nan_to_num(low.lower) <= self.pair.allowed(self._excess, upper)
        narrow |= self._moments <= self.pair.effort.tail
        least, most = self._exposed
        q, d = with_exposed(self.pair.low, low.q[kept], low.d[kept])
        lower = (np.nan_to_num(low.lower) + least) * (1.0 - roundings(4))
        return Ends(raised(upper + most, roundings(2)), lower, q, d), narrow

    def _found(self, table: ListedProfile | NodeTable, users: int) -> Ends:
        if isinstance(table, NodeTable):
            return table.ends(users)
        excess = self._excess
        q, d = table.events(_between(excess))
        return Ends(table.upper(excess), table.lower(excess), q, d)


def _between(excess: Array, steps: int = 4) -> Array:
    """The points, with ``steps - 1`` more between each two."""
    if excess.size < 2:
        return excess
    places = np.arange(0.0, excess.size - 1.0, 1.0 / steps)
    return np.append(np.interp(places, np.arange(excess.size), excess), excess[-1])


def with_exposed(pair: MessagePair, q: Array, d: Array) -> tuple[Array, Array]:
    """Events joined with messages that decoys never send.

    Any choice of these messages is valid; a message joins an event if its ratio P/Q is above that
    of what the next event adds.
    """
    p0, p1, _ = pair.scarce
    if not p0.any():
        return q, d
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p1 > 0.0, p0 / p1, math.inf)
    order = np.argsort(-ratio, kind="stable")
    order = order[p0[order] > 0.0]
    slack = roundings(2.0 * order.size + 64.0)
    sums = np.cumsum(p0[order]) * (1.0 - slack) - np.cumsum(p1[order]) * (1.0 + slack)
    gain = np.append(0.0, sums)
    cost = np.append(0.0, np.cumsum(p1[order])) * (1.0 + slack)
    q, d = np.append(0.0, q), np.append(0.0, d)
    ascending = np.argsort(q)
    q, d = q[ascending], d[ascending]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = np.append(1.0 + np.diff(d) / np.diff(q), 1.0)
    taken = np.searchsorted(-ratio[order], -np.nan_to_num(slope, nan=1.0))
    # the sums of what was joined are rounded once more
    rest = roundings(4)
    moved = rest * (np.abs(d) + np.abs(gain[taken]))
    return (q + cost[taken]) * (1.0 + rest), d + gain[taken] - moved


@lru_cache(maxsize=4)
def _listed(messages: MessagePair, users: int, tail: float) -> ListedProfile:
    """The likely histograms of that many messages, which are the same at every alpha."""
    return ListedProfile.of(likely_histograms(*messages.decoyed, users, tail), users)


@lru_cache(maxsize=64)
def profile_table(
    pairs: tuple[MessageSource, ...], users: tuple[int, int], losses: bytes, effort: Effort
) -> ProfileTable:
    """`ProfileTable` at losses ``log(alpha)``, nats, given as the bytes of an array of doubles."""
    return ProfileTable(pairs, users, np.expm1(np.frombuffer(losses)), effort)


@lru_cache(maxsize=1024)
def ways_of(
    pairs: tuple[MessageSource, ...],
    users: int,
    effort: Effort,
    known: tuple[float, float] = (0.0, 1.0),
) -> frozenset[Way]:
    """The ways that bound the pairs' profile for that many messages; see `choose`."""
    both = users, users
    return frozenset(OrderedMessages(source, both, effort).way(known) for source in pairs)


def _coarse_bounds(
    asked: Sequence[tuple[OrderedMessages, Array]], users: tuple[int, int]
) -> list[tuple[Array, Array, Array]]:
    """Coarse upper bounds for the least number of messages, and events for the largest, by pair."""
    space = np.repeat(np.arange(len(asked)), [excess.size for _, excess in asked])
    spaces = stacked(tuple(pair.high for pair, _ in asked))
    rows = MessageRows(spaces, np.concatenate([excess for _, excess in asked]), space)
    table = node_table(rows, users, np.full(rows.excess.size, 0.3))
    high, low, found = table.ends(users[0]), table.ends(users[1]), []
    for i, (pair, excess) in enumerate(asked):
        part = space == i
        # messages for upper ends say nothing of lower ones
        kept = part & (low.q > 0.0) & (low.d > 0.0) & (len(pair.ends) == 1)
        q, d = with_exposed(pair.low, low.q[kept], low.d[kept])
        upper = np.nan_to_num(high.upper[part], nan=1.0) + pair.exposed(excess)[1]
        found.append((upper, q, d))
    return found


# Bounds at a single alpha


@lru_cache(maxsize=1 << 14)
def divergence_bounds(
    pairs: tuple[MessageSource, ...], users: int, epsilon: float, effort: Effort
) -> tuple[float, float, Way]:
    """Lower and upper bound of the largest ``H_alpha`` of the pairs, and the way that answered.

    Epsilon is ``log(alpha) >= 0``, nats, and may be infinite; ``users`` is the number of messages.
    """
    if epsilon > LARGEST_EXPONENT:
        low, high = (
            max(certain_loss(_messages(pair, side, users, effort), users, side) for pair in pairs)
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        if epsilon < math.inf:
            high = divergence_bounds(pairs, users, LARGEST_EXPONENT, effort)[1]
        return low, high, Way.LISTS
    if effort.tail <= NODES.deep:
        known = _by_moments(pairs, users, epsilon, effort)
        if Way.MOMENTS in ways_of(pairs, users, effort, known):
            return *known, Way.MOMENTS
    losses = np.array([float(epsilon)]).tobytes()
    table = profile_table(pairs, (users, users), losses, effort)
    found = table.profile(users)
    low, high = float(found.lower[0]), float(found.upper[0])
    way = next((way for way in reversed(Way) if way in table.ways), Way.MOMENTS)
    if found.narrow[0]:
        return min(low, high), high, way
    most = float(table.rest[0])
    # the likeliest first: most pairs are then known to be below it without sums of heavy tails
    for pair, below, above in sorted(table.each(users), key=lambda found: -found[1]):
        allowed = float(pair.allowed(table.excess, np.array([above]))[0])
        share = 0.1 * allowed / above if above > 0.0 else 0.0
        # doubling takes longest
        for doubled in (False, True):
            if above <= low or above - below <= allowed or pair.way(wide=True) is not Way.HEAVY:
                break
            below = max(below, _heavy(pair, epsilon, Bound.OPTIMISTIC, share, doubled=doubled))
            above = min(above, _heavy(pair, epsilon, Bound.PESSIMISTIC, share, doubled=doubled))
            low, way = max(low, below), Way.HEAVY
        most = max(most, above)
    high = min(high, most)
    return min(low, high), high, way


def _by_moments(
    pairs: tuple[MessageSource, ...], users: int, epsilon: float, effort: Effort
) -> tuple[float, float]:
    """Bounds of the largest ``H_alpha`` from single messages and from moments, without sums."""
    low, high = (
        [_messages(pair, side, users, effort) for pair in pairs]
        for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
    )
    above = float(far_bounds(high, users, np.array([math.expm1(epsilon)]))[0])
    return min(max(lone_message(pair, users, epsilon) for pair in low), above), above


def _messages(source: MessageSource, side: Bound, users: int, effort: Effort) -> MessagePair:
    return source_messages(source, side, effort).settled(side, users)


def certain_loss(pair: MessagePair, users: int, side: Bound) -> float:
    """Bound of the profile's limit for alpha to infinity: all messages are impossible under X'."""
    p0, p1, _ = pair.scarce
    r0, r1, q = pair.decoyed
    upper = side is Bound.PESSIMISTIC
    total = math.fsum(p0[p1 == 0.0].tolist())
    alone = r1 == 0.0
    if alone.any():
        mass = min(math.fsum(q[alone].tolist()), 1.0)
        exponent = (users - 1) * math.log(mass)
        moved = roundings(float(ELEMENTARY)) * abs(exponent) + users * roundings(16.0)
        together = math.fsum((r0 * q)[alone].tolist()) * math.exp(exponent)
        total += outwards(together, exponential(moved, own=16.0), upper=upper)
    return min(outwards(total, roundings(32.0), upper=upper), 1.0)


def _heavy(
    pair: OrderedMessages, epsilon: float, side: Bound, share: float, *, doubled: bool
) -> float:
    """Bound of ``H_alpha`` of one pair of uneven messages, alpha = e^epsilon.

    It comes from sums that one large value decides, whose width aimed for is ``share`` of the
    profile, or from doubling.
    """
    upper, n = side is Bound.PESSIMISTIC, pair.users[0]
    messages = pair.high if upper else pair.low
    r0, r1, q = messages.decoyed
    value = gains(r0, r1, epsilon, side)
    top = float(value.max(initial=0.0))
    exposed = float(pair.exposed(np.array([math.expm1(epsilon)]))[upper][0])
    if top <= 0.0:
        return min(exposed + LIMITS.underflow, 1.0) if upper else exposed
    # values below make every sum negative
    value = np.maximum(value, -2.0 * n * top) / top
    effort = pair.effort
    # changes of the sum's variance that are far below the width of bounds
    resolution, tail = 40.0 * effort.resolution, effort.tail / top
    if doubled:
        found = heavy_positive_part(value, q, n, side, resolution=resolution, tail=tail)
    elif (large := one_large(value, q, n, side, width=share)) is not None:
        found = large
    else:
        return 1.0 if upper else 0.0
    found = outwards(top * found / n, roundings(8.0), upper=upper)
    if upper:
        return min(raised(exposed + found, pairwise_sum(own=2)) + LIMITS.underflow, 1.0)
    return min(lowered(exposed + found, roundings(2.0)), 1.0)
