"""The profile of a target among decoys by few laws, each for a range of alpha.

`shuffle_accountant.lattice.anchored` bounds a profile from both sides near and above an anchor. A
walk takes a law at the first alpha, uses it as far as its own bracket is narrow enough, and starts
the next one there. Of several ordered pairs of inputs most are never the largest: they are told
apart by bounds from moments, then by coarse walks, and only the rest are walked in detail. What
bounds a pair that was left out joins the final maximum, so nothing depends on why it was.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from shuffle_accountant.lattice.anchored import AnchoredLaw
from shuffle_accountant.lattice.anchoring import anchored_law
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.lattice.smoothed import smoothed_law
from shuffle_accountant.losses.alphabets.letter_moments import (
    TINY,
    LetterSource,
    moment_bounds,
    row_bounds,
    source_letters,
)
from shuffle_accountant.losses.alphabets.letters import LetterPair, gains_above, largest_multisets
from shuffle_accountant.losses.alphabets.likely_multisets import likely_multisets
from shuffle_accountant.losses.alphabets.listed_law import ListedLaw
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = ["OrderedLetters", "Profile", "bracket_at", "listable", "profile", "with_exposed"]

# Widths are measured by the variance of the loss that would make them: where the profile is z
# deviations out, a share s of the variance is (1 + z^2) s/2 of the profile. Laws may use this many
# resolutions, and their roundings that many.
_WIDTH = 5.0
_ROUNDING = 1.2
_FINER = 0.2
# An alpha further from the anchor than so many points is not tried at first.
_FIRST_SPAN = 12
# Points of the error region between two points of the profile.
_BETWEEN = 4
# Up to so many multisets of all messages the error region is listed.
_EXACT = 1 << 17
# Multisets that are not listed may take this share of the tail.
_UNLISTED = 1e-2
# Coarse walks that tell pairs apart.
_COARSE_POINTS = 24
_COARSE = 30.0
# Anchors of single questions are multiples of this many deviations of the loss.
_ANCHOR_STEP = 0.02
# Losses further above the largest than this, relative to their size, are above it.
_BEYOND = 2.0**-42
# Laws made at one anchor before it is given up.
_ATTEMPTS = 5
# Finer laws are given up when they are not narrower than this part of the one before.
_NO_NARROWER = 0.9
_MOST_STAGES = 6
# Single questions that may fail before their laws are given up, and how many times too wide a
# bracket may be so that finer laws for the same pair are still tried.
_PATIENCE, _HOPELESS = 2, 10.0
# Single questions take brackets this many times wider than wanted where nothing else helps.
_LOOSE, _LOOSE_SHARE = 20.0, 0.01
_BLURRED = 0.1


class _Law(Protocol):
    """What bounds a profile from both sides at and above some alpha."""

    def upper(self, excess: Array) -> Array: ...

    def lower(self, excess: Array) -> Array: ...

    def curve(self, excess: Array) -> tuple[Array, Array]: ...


@dataclass(frozen=True, eq=False)
class Profile:
    """Certified bounds of a profile for alpha >= 1.

    Attributes:
        upper: bounds at the points asked for, shape (m,).
        q: Q-probabilities of events, shape (k,).
        d: what their P-probabilities are above these, shape (k,): ``d - (alpha - 1) q`` is a lower
            bound for every alpha >= 1.
    """

    upper: Array
    q: Array
    d: Array

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return int(self.upper.nbytes + self.q.nbytes + self.d.nbytes)


# Laws


def listable(pair: LetterPair, users: int) -> bool:
    """Whether that many messages have few enough multisets to be listed."""
    return largest_multisets(pair.decoyed[2].size, users, _EXACT) == users


@lru_cache(maxsize=4)
def _listed(pair: LetterPair, users: int, tail: float) -> ListedLaw | None:
    """All multisets but for that much of the probability, if they are few enough."""
    found = likely_multisets(pair, users, tail)
    return None if found is None else ListedLaw.of(found, users)


@lru_cache(maxsize=64)
def _law(
    pair: LetterPair, users: int, excess: float, variance: float, steep: bool, stages: int
) -> AnchoredLaw | None:
    # a smoothed law uses all that it may, others about half of it
    smooth = None if steep else smoothed_law(pair.decoyed, users, excess, 0.5 * variance)
    if smooth is not None:
        return smooth
    return anchored_law(
        pair.decoyed, users, excess, variance=variance, steep=steep, most_stages=stages
    )


def _anchor(excess: float) -> float:
    """A little below, so that rounding leaves what was asked for above the anchor."""
    return excess - 256 * UNIT_ROUNDOFF * (1.0 + excess)


class OrderedLetters:
    """One ordered pair of inputs, in letters for either end.

    The letters serve as ``most`` messages too, if that is more than ``users``.
    """

    def __init__(self, source: LetterSource, users: int, effort: Effort, most: int = 0) -> None:
        self.users, self.effort = users, effort
        self.stages = _MOST_STAGES
        self.high, self.low = (
            source_letters(source, side, effort).settled(side, max(users, most))
            for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
        )
        self.deviation = self.low.deviation(users)

    def at(self, effort: Effort) -> OrderedLetters:
        """The same letters, with other laws."""
        other = copy(self)
        other.effort = effort
        return other

    def allowed(self, excess: Array, upper: Array) -> Array:
        """Widths that are narrow enough."""
        z = np.log1p(excess) / self.deviation
        share = _WIDTH * self.effort.resolution * (1.0 + z**2)
        return np.asarray(np.minimum(share, 0.5) * upper + 0.1 * self.effort.tail)

    def bounds(self, excess: Array) -> Array:
        """Upper bounds from moments, without exposed letters, shape of ``excess``."""
        r0, r1, q = self.high.decoyed
        return row_bounds(r0, r1, q, self.users, excess[:, None]) * 1.001 + TINY

    def exposed(self, excess: Array) -> tuple[Array, Array]:
        """What exposed letters add, from below and above."""
        low, high = self.low.exposure_bounds(excess)[0], self.high.exposure_bounds(excess)[1]
        return low, high * (1.0 + 8 * UNIT_ROUNDOFF)

    def alone(self, excess: float) -> float:
        """The positive parts of single letters, an upper bound."""
        r0, r1, q = self.high.decoyed
        value = gains_above(r0, r1, excess, Bound.PESSIMISTIC)
        return float(np.sum(q * np.maximum(value, 0.0))) * (1.0 + 64 * UNIT_ROUNDOFF) + TINY

    def at_one(self, users: int) -> float:
        """Upper bound for alpha = 1 without exposed letters, where multisets are few; else inf.

        Messages that are no likelier from one input are an atom there, which no smoothing spares.
        """
        found = likely_multisets(self.high.told_apart, users, _UNLISTED * self.effort.tail)
        if found is None:
            return math.inf
        return float(ListedLaw.of(found, users).upper(np.zeros(1))[0])

    def nothing(self, excess: float) -> bool:
        """Whether no letter is positive, so that the profile without exposed letters is 0."""
        return all(_top(pair, _anchor(excess)) <= 0.0 for pair in (self.high, self.low))

    def listed(self) -> tuple[ListedLaw, ListedLaw] | None:
        """Laws for the upper and the lower end for every alpha, where multisets are few."""
        tail = _UNLISTED * self.effort.tail
        high, low = (_listed(pair, self.users, tail) for pair in (self.high, self.low))
        return None if high is None or low is None else (high, low)

    def laws(self, excess: float) -> Iterator[tuple[_Law, _Law]]:
        """Laws for the upper and the lower end, as long as what came before was too wide."""
        few = self.listed()
        if few is not None:
            yield few
            return
        x = np.array([excess])
        variance, steep, last = _ROUNDING * self.effort.resolution, False, math.inf
        for _ in range(_ATTEMPTS):
            high, low = (
                _law(pair, self.users, _anchor(excess), variance, steep, self.stages)
                for pair in (self.high, self.low)
            )
            if high is not None and low is not None:
                yield high, low
            if high is not None and high.stages > 1 and self._blurred(high, excess):
                self.stages = high.stages - 1  # from now on
            elif not steep and (high is None or not high.full):
                steep = True
            elif high is None or low is None:
                return  # narrower cells are more, and rounded no less
            else:
                width = float((high.upper(x) - low.lower(x))[0])
                if width > _NO_NARROWER * last:
                    return
                variance, last = _FINER * variance, width

    def _blurred(self, law: AnchoredLaw, excess: float) -> bool:
        """Whether the rounding of transforms takes a good part of the width."""
        x = np.array([excess])
        return law.errors.transform > _BLURRED * float(self.allowed(x, law.upper(x))[0])


@dataclass(frozen=True, eq=False)
class _Walk:
    """One pair's bounds at all points, and events; without exposed letters."""

    upper: Array
    lower: Array
    q: Array
    d: Array


def _walk(pair: OrderedLetters, excess: Array) -> _Walk | None:
    """Bounds of one pair; None if no law is narrow enough somewhere."""
    upper, lower = np.full(excess.shape, TINY), np.zeros(excess.shape)
    q, d = [np.zeros(0)], [np.zeros(0)]
    start, span = 0, _FIRST_SPAN
    while start < excess.size and not pair.nothing(float(excess[start])):
        alone = pair.alone(float(excess[start]))
        if alone <= 0.1 * pair.effort.tail:
            upper[start], start = alone, start + 1
            continue
        for laws in pair.laws(float(excess[start])):
            done = _use(pair, laws, excess, start, span, upper, lower)
            if done:
                events = laws[1].curve(_between(excess, start, start + done))
                q.append(events[0])
                d.append(events[1])
                break
        else:
            bound = float(pair.bounds(excess[start : start + 1])[0])
            if bound > pair.effort.tail:
                return None
            upper[start], done = bound, 1
        start += done
        span = max(2 * done, 4)
    return _Walk(upper, lower, np.concatenate(q), np.concatenate(d))


def _use(
    pair: OrderedLetters,
    laws: tuple[_Law, _Law],
    excess: Array,
    start: int,
    span: int,
    upper: Array,
    lower: Array,
) -> int:
    """Fill in bounds from ``start`` on while they are narrow; returns how many points were."""
    done = start
    while done < excess.size:
        stop = min(done + span, excess.size)
        x = excess[done:stop]
        high, low = laws[0].upper(x), laws[1].lower(x)
        wide = np.flatnonzero(~(high - low <= pair.allowed(x, high)))
        good = int(wide[0]) if wide.size else stop - done
        upper[done : done + good], lower[done : done + good] = high[:good], low[:good]
        done += good
        if wide.size:
            break
        span *= 2
    return done - start


def _between(excess: Array, start: int, stop: int) -> Array:
    """A few alpha between each two points, up to the first that the next law answers for."""
    last = min(stop, excess.size - 1)
    if last <= start:
        return excess[start : start + 1]
    steps = np.arange(start, last, 1.0 / _BETWEEN)
    return np.append(np.interp(steps, np.arange(excess.size), excess), excess[last])


def _top(pair: LetterPair, excess: float) -> float:
    """The largest value of a letter."""
    r0, r1, _ = pair.decoyed
    return float(np.max(gains_above(r0, r1, excess, Bound.PESSIMISTIC), initial=-math.inf))


# Profiles


def profile(
    pairs: tuple[LetterSource, ...], users: int, excess: Array, effort: Effort
) -> Profile | None:
    """Bounds of the largest profile of all pairs, a set closed under exchanging the datasets.

    Args:
        pairs: ordered pairs of inputs.
        users: number n of messages.
        excess: ascending ``alpha - 1 >= 0``, shape (m,).
        effort: how closely.

    Returns:
        The bounds, or None where a pair's letters are too uneven for these laws.
    """
    ready = [OrderedLetters(source, users, effort) for source in pairs]
    if len(ready) == 1:
        candidates, upper = [(ready[0], np.full(excess.shape, math.inf))], np.zeros(excess.shape)
    else:
        candidates, upper = _candidates(ready, users, excess)
    q, d = [np.zeros(0)], [np.zeros(0)]
    for pair, bounds in candidates:
        wanted = np.flatnonzero(bounds > upper)
        if wanted.size == 0:
            continue
        part = slice(int(wanted[0]), int(wanted[-1]) + 1)
        found = _walk(pair, excess[part])
        if found is None:
            return None
        bounds = bounds.copy()
        bounds[part] = np.minimum(bounds[part], found.upper + pair.exposed(excess[part])[1])
        upper = np.maximum(upper, bounds)
        events = with_exposed(pair.low, found.q, found.d)
        q.append(events[0])
        d.append(events[1])
    largest = max(pair.high.largest for pair in ready)
    if largest < math.inf:  # logarithms are off by far less
        upper = np.where(np.log1p(excess) >= largest + _BEYOND * (1.0 + largest), 0.0, upper)
    return Profile(np.minimum(upper, 1.0), np.concatenate(q), np.concatenate(d))


def with_exposed(pair: LetterPair, q: Array, d: Array) -> tuple[Array, Array]:
    """Events joined with exposed letters; any choice is valid, this one about the best."""
    p0, p1, _ = pair.scarce
    if not p0.any():
        return q, d
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p1 > 0.0, p0 / p1, math.inf)
    telling = np.argsort(-ratio, kind="stable")
    telling = telling[p0[telling] > 0.0]
    slack = UNIT_ROUNDOFF * (2.0 * telling.size + 64.0)
    sums = np.cumsum(p0[telling]) * (1.0 - slack) - np.cumsum(p1[telling]) * (1.0 + slack)
    gain = np.append(0.0, sums)
    cost = np.append(0.0, np.cumsum(p1[telling])) * (1.0 + slack)
    q, d = np.append(0.0, q), np.append(0.0, d)
    order = np.argsort(q)
    q, d = q[order], d[order]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.append(1.0 + np.diff(d) / np.diff(q), 1.0)
    # letters that are more telling than what the next event adds
    taken = np.searchsorted(-ratio[telling], -np.nan_to_num(slope, nan=1.0))
    return q + cost[taken], d + gain[taken]


def _candidates(
    pairs: list[OrderedLetters], users: int, excess: Array
) -> tuple[list[tuple[OrderedLetters, Array]], Array]:
    """Pairs that may be the largest somewhere, each with upper bounds, and a bound of the others.

    The likeliest to be the largest come first.
    """
    picked = np.unique(np.linspace(0, excess.size - 1, _COARSE_POINTS).round().astype(int))
    few = excess[picked]
    letters = [pair.high for pair in pairs]
    moments = moment_bounds(letters, users, few)
    coarse = Effort(pairs[0].effort.tail, _COARSE * pairs[0].effort.resolution)
    best, rest = np.zeros(excess.shape), np.zeros(excess.shape)
    known: list[tuple[OrderedLetters, Array, float]] = []
    for i in np.argsort(-moments[:, few.size // 4]).tolist():
        pair = pairs[i]
        # profiles are convex, so below their chords
        bounds = np.interp(excess, few, moments[i]) * (1.0 + 16 * UNIT_ROUNDOFF)
        low, high = pair.exposed(excess)
        if np.any(bounds > best):
            bounds = np.minimum(bounds, pair.bounds(excess) + high)
        reached = 0.0
        if np.any(bounds > best):
            found = _walk(pair.at(coarse), excess)
            if found is not None:
                bounds = np.minimum(bounds, found.upper + high)
                best = np.maximum(best, found.lower + low)
                reached = float(np.sum(found.lower >= best))
        known.append((pair, bounds, reached))
    kept = [item for item in known if np.any(item[1] > best)]
    for _, bounds, _ in known:
        if not np.any(bounds > best):
            rest = np.maximum(rest, bounds)
    kept.sort(key=lambda item: -item[2])
    return [(pair, bounds) for pair, bounds, _ in kept], rest


class _Failures:
    """How often a pair's single questions were answered by no law."""

    def __init__(self) -> None:
        self._tries: dict[Effort, int] = {}
        self._hopeless: list[float] = []

    def add(self, effort: Effort, width: float) -> None:
        """Note a question whose bracket is so many times as wide as wanted."""
        self._tries[effort] = self._tries.get(effort, 0) + 1
        if width > _HOPELESS:
            self._hopeless.append(effort.resolution)

    def enough(self, effort: Effort) -> bool:
        """Whether further questions are tried in vain: any that asks for as much or more."""
        hopeless = sum(resolution >= effort.resolution for resolution in self._hopeless)
        return max(self._tries.get(effort, 0), hopeless) >= _PATIENCE


@lru_cache(maxsize=64)
def _failures(source: LetterSource, users: int) -> _Failures:
    """Those of one pair."""
    return _Failures()


@lru_cache(maxsize=1 << 12)
def bracket_at(
    source: LetterSource, users: int, epsilon: float, effort: Effort
) -> tuple[float, float] | None:
    """Bracket of one pair's divergence at one alpha, or None where no law is narrow enough."""
    pair = OrderedLetters(source, users, effort)
    if epsilon >= pair.high.largest:  # which is rounded up
        return 0.0, 0.0
    excess = math.expm1(epsilon)
    x = np.array([excess])
    low, high = (float(bound[0]) for bound in pair.exposed(x))
    if pair.nothing(excess):
        return min(low, 1.0), min(high + TINY, 1.0)
    failed = _failures(source, users)
    if failed.enough(effort):
        return None
    step = _ANCHOR_STEP * pair.deviation
    near = min(math.expm1(step * math.floor(epsilon / step)), excess)
    best, last, missed = (0.0, math.inf), math.inf, math.inf
    attempts = itertools.islice(pair.laws(near), 1), itertools.islice(pair.laws(excess), 3)
    for laws in itertools.chain(*attempts):
        above, below = laws[0].upper(x), laws[1].lower(x)
        best = max(best[0], float(below[0])), min(best[1], float(above[0]))
        width, wanted = best[1] - best[0], float(pair.allowed(x, np.array([best[1]]))[0])
        # where letters of continuous messages make the width, finer laws do not help
        enough = min(_LOOSE * wanted, max(wanted, _LOOSE_SHARE * best[1]))
        if width <= wanted or (width <= enough and width > 0.7 * last):
            slack = 4 * UNIT_ROUNDOFF
            low, high = low + best[0], high + best[1]
            return min(low * (1.0 - slack), 1.0), min(high * (1.0 + slack), 1.0)
        last, missed = width, width / wanted if best[0] > 0.0 else math.inf
    failed.add(effort, missed)
    return None
