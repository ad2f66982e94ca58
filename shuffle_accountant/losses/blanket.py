"""The loss of a target among decoys with any alphabet, from its profile at chosen points.

The profile at one alpha is an expectation over a sum of n i.i.d. values (see
`shuffle_accountant.decoys`), taken exactly over all multisets of messages where these are few and
by Fourier transforms over the users where they are not. Several pairs of inputs share one profile,
the pointwise maximum over ordered pairs, which is that of a dominating pair (Zhu et al. 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, TypeVar

import numpy as np

from shuffle_accountant.binomial import UNIT_ROUNDOFF
from shuffle_accountant.functionals import HOCKEY_STICK, Functional
from shuffle_accountant.lattice.discretize import SUBCELLS
from shuffle_accountant.lattice.excess import Summand, expected_excess
from shuffle_accountant.lattice.grid import Array, Atoms, Direction
from shuffle_accountant.lattice.heavy import heavy_excess
from shuffle_accountant.lattice.profile import profile_atoms
from shuffle_accountant.lattice.tilting import Letters, saddle
from shuffle_accountant.losses.base import CellEdges, Effort
from shuffle_accountant.losses.letters import LetterPair, largest_multisets, multisets

__all__ = ["BlanketLoss", "LetterSource", "most_distinguishable"]

# Up to so many multisets of all messages the profile is a plain sum.
_EXACT = 1 << 18
# So many multisets of a few messages make the values dense enough to be merged on a lattice.
_DENSE = 1 << 14
# A letter that outweighs all others this many times is clipped; the upper side counts the rest of
# it in full, which is too much by about the inverse.
_LINEAR = 1e4
# More than what numbers below the smallest normal double can lose.
_UNDERFLOW = 1e-305
# A tilt that multiplies the variance by this much has met a heavy tail.
_UNEVEN = 100.0
# Beyond this loss e^epsilon overflows; the profile there is bounded by its value here.
_LARGEST_EPSILON = 700.0
# The profile's points are this many deviations times sqrt(resolution) apart near 0; the width of a
# bracket falls with the square of their distance.
_STEP_IN_DEVIATIONS = 1.4
# Rounding may change the variance of a sum by this times the resolution; the lower side of a
# profile multiplies the width of its points.
_ROUNDING = 0.4
# From so many deviations on, the distance of points grows with the square of the loss.
_CENTRE = 2.5


class LetterSource(Protocol):
    """A target among decoys that can be given as finitely many letters, in either direction."""

    def __hash__(self) -> int:
        """By value, so that answers can be remembered."""

    def letters(self, direction: Direction, effort: Effort) -> LetterPair:
        """Letters whose profile bounds the true one for any number of decoys."""


@dataclass(frozen=True)
class BlanketLoss:
    """Privacy loss of a round of ``users`` messages.

    Attributes:
        pairs: the ordered pairs of inputs; the profile is the largest of theirs.
        backward: the pairs whose profile is that of ``(Q, P)``; the same for a symmetric loss.
        users: number n of messages.
        deviation: rough standard deviation of the loss, nats.
        largest: no finite loss is larger, nats.
    """

    pairs: tuple[LetterSource, ...]
    backward: tuple[LetterSource, ...]
    users: int
    deviation: float
    largest: float

    @property
    def reversed(self) -> BlanketLoss:
        """The loss of (Q, P)."""
        if self.backward == self.pairs:
            return self
        return BlanketLoss(self.backward, self.pairs, self.users, self.deviation, self.largest)

    @property
    def functional(self) -> Functional:
        """The hockey-stick divergence."""
        return HOCKEY_STICK

    def delta(self, epsilon: float, direction: Direction, effort: Effort) -> float:
        """Bound of ``H_alpha(P‖Q)``, alpha = e^epsilon, epsilon >= 0."""
        return _largest(self.pairs, self.users, epsilon, direction, effort)

    def atoms(self, direction: Direction, edges: CellEdges, effort: Effort) -> Atoms:
        """The pair whose profile is the polygon through (UPPER) or below (LOWER) the profile."""
        end = self._end(effort)
        step = _STEP_IN_DEVIATIONS * math.sqrt(effort.resolution) * self.deviation
        losses = _points(edges(end), step, _CENTRE * self.deviation, direction)
        sides = Direction.LOWER, Direction.UPPER
        if direction is Direction.UPPER:
            sides = Direction.UPPER, Direction.UPPER  # the hull needs no lower bounds

        def profile(pairs: tuple[LetterSource, ...]) -> tuple[Array, Array]:
            low, high = (
                np.array([_largest(pairs, self.users, x, side, effort) for x in losses.tolist()])
                for side in sides
            )
            return np.minimum(low, high), high

        forward = profile(self.pairs)
        backward = forward if self.backward == self.pairs else profile(self.backward)
        certain = _largest(self.pairs, self.users, math.inf, Direction.LOWER, effort)
        return profile_atoms(losses, forward, backward, certain, direction)

    def _end(self, effort: Effort) -> float:
        """A loss above which the profile is below the tail that may be cut off, or the largest."""
        certain = _largest(self.pairs, self.users, math.inf, Direction.LOWER, effort)
        low, high = 0.0, 4.0 * self.deviation
        cheap = Effort(tail=effort.tail, resolution=1e-3)

        def above(loss: float) -> bool:
            both = self.pairs, self.backward
            found = max(_largest(p, self.users, loss, Direction.UPPER, cheap) for p in set(both))
            return found - certain > max(0.25 * effort.tail, 1e-9 * certain)

        while high < self.largest and high < _LARGEST_EPSILON and above(high):
            low, high = high, 1.5 * high
        if high >= self.largest:
            return self.largest
        for _ in range(4):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if above(middle) else (low, middle)
        return high


def _points(edges: Array, step: float, centre: float, direction: Direction) -> Array:
    """Some of the edges: about ``step`` apart up to ``centre``, then ever further apart."""
    # edges are finer on the lower side; the points of both sides should be the same
    unit = SUBCELLS if direction is Direction.LOWER else 1
    edges = edges[::unit]
    stride = max(round(step / float(edges[1])), 1)
    picked, last = [0], edges.size - 1
    while picked[-1] < last:
        growth = max(1.0, float(edges[picked[-1]]) / centre) ** 2
        picked.append(min(picked[-1] + round(stride * growth), last))
    return np.asarray(edges[np.array(picked)])


@lru_cache(maxsize=512)
def _letters(source: LetterSource, direction: Direction, effort: Effort) -> LetterPair:
    """The source's letters; a profile asks for the same ones at each of its points."""
    return source.letters(direction, effort)


@lru_cache(maxsize=1 << 15)
def _largest(
    pairs: tuple[LetterSource, ...],
    users: int,
    epsilon: float,
    direction: Direction,
    effort: Effort,
) -> float:
    """Bound of the largest divergence of the pairs; infinite epsilon gives the profile's limit."""
    questions = [_Divergence(_letters(pair, direction, effort), users, epsilon) for pair in pairs]
    if len(questions) > 1:
        questions.sort(key=lambda question: -question.chernoff)
    best = 0.0
    for question in questions:
        if question.chernoff <= best:
            break
        best = max(best, question.bound(direction, effort))
    return best


Source = TypeVar("Source", bound=LetterSource)


def most_distinguishable(
    pairs: tuple[Source, ...], users: int, epsilon: float
) -> tuple[Source, float, float]:
    """The pair with the largest certified lower bound of its divergence, and its bracket."""
    effort = Effort(tail=1e-300, resolution=1e-5)
    lower = [
        (_Divergence(_letters(pair, Direction.LOWER, effort), users, epsilon), pair)
        for pair in pairs
    ]
    lower.sort(key=lambda item: -item[0].chernoff)
    best, found = lower[0][1], -1.0
    for question, pair in lower:
        if question.chernoff <= found:
            break
        value = question.bound(Direction.LOWER, effort)
        if value > found:
            best, found = pair, value
    letters = _letters(best, Direction.UPPER, effort)
    return best, found, _Divergence(letters, users, epsilon).bound(Direction.UPPER, effort)


class _Divergence:
    """``H_alpha`` of one pair of letters."""

    def __init__(self, pair: LetterPair, users: int, epsilon: float) -> None:
        self.pair, self.users = pair, users
        self.excess = math.expm1(min(epsilon, _LARGEST_EPSILON))
        self.exposed = pair.exposure(math.inf if epsilon == math.inf else self.excess)
        self.trivial = epsilon >= pair.largest or pair.decoyed[2].size == 0
        self.letters: Letters | None = None
        if not self.trivial:
            r0, r1, q = pair.decoyed
            value = self._value(r0, r1)
            top = float(value.max())
            # sums with a letter this high are all but linear in it
            high = _LINEAR * users * (1.0 + self.excess)
            # no sum with a letter this low is positive, so how low it is does not matter
            low = -2.0 * users * max(min(top, high), 0.0)
            clipped = np.clip(value, low, max(high, 0.0)) if top > 0.0 else value
            self.clipped = bool(np.any(clipped != value))
            self.lost = float(np.sum(q * np.maximum(value - clipped, 0.0)))
            self.letters = Letters(clipped, q, users)

    def _value(self, s0: Array, s1: Array) -> Array:
        """``s0 - alpha s1`` without cancellation for small losses."""
        return (s0 - s1) - self.excess * s1

    @cached_property
    def theta(self) -> float:
        assert self.letters is not None
        return saddle(self.letters)

    @cached_property
    def chernoff(self) -> float:
        """Upper bound from the moment generating function alone: cheap, a few times too large."""
        if self.trivial or self.letters is None:
            return self.exposed
        if math.isinf(self.theta):
            return self.exposed + self.lost + max(float(self.letters.value.max()), 0.0)
        exponent = self.users * self.letters.cumulants(self.theta)[0]
        if exponent > _LARGEST_EPSILON:
            return 1.0
        excess = math.exp(exponent) * 1.001 / (math.e * self.theta * self.users)
        return self.exposed + self.lost + excess + _UNDERFLOW

    @property
    def _uneven(self) -> bool:
        """Whether the tilted law has far values besides its bulk: no lattice suits both."""
        assert self.letters is not None
        spread = self.letters.cumulants(self.theta)[2]
        return self.clipped or spread > _UNEVEN * self.letters.cumulants(0.0)[2]

    def bound(self, direction: Direction, effort: Effort) -> float:
        """The divergence, bounded in the given direction."""
        sign = 1.0 if direction is Direction.UPPER else -1.0
        exposed = self.exposed * (1.0 + sign * 64 * UNIT_ROUNDOFF)
        if self.trivial or self.letters is None:
            return min(exposed, 1.0)
        if math.isinf(self.theta):
            rounding = max(float(self.letters.value.max()), 0.0)
            return min(exposed + (rounding if direction is Direction.UPPER else 0.0), 1.0)
        size = largest_multisets(self.letters.mass.size, self.users, _EXACT)
        if size == self.users:
            return min(exposed + self._enumerated(direction) / self.users, 1.0)
        if self._uneven:
            found = heavy_excess(
                self.letters, direction, resolution=effort.resolution, tail=effort.tail
            )
        else:
            found = self._transformed(direction, effort)
        if direction is Direction.UPPER:
            # E(sum)_+ is at most that with clipped letters plus what was clipped off
            found = found * (1.0 + 8 * UNIT_ROUNDOFF) + self.users * self.lost
            return min(exposed + found / self.users + _UNDERFLOW, self.chernoff, 1.0)
        return min(exposed + found / self.users, 1.0)

    def _enumerated(self, direction: Direction) -> float:
        """The plain sum over all multisets of messages."""
        table = multisets(self.pair, self.users)
        value = self._value(table.s0, table.s1)
        # sums of n ratios, and their difference
        size = table.s0 + (1.0 + self.excess) * table.s1
        error = UNIT_ROUNDOFF * (2.0 * self.users + 16.0) * size
        if direction is Direction.UPPER:
            total = float(np.sum(table.mass * np.maximum(value + error, 0.0)))
            return total * (1.0 + table.slack + 64 * UNIT_ROUNDOFF) + self.users * _UNDERFLOW
        total = float(np.sum(table.mass * np.maximum(value - error, 0.0)))
        return max(total * (1.0 - table.slack - 64 * UNIT_ROUNDOFF), 0.0)

    def _transformed(self, direction: Direction, effort: Effort) -> float:
        assert self.letters is not None
        if self.clipped:
            one = Summand(self.letters.value, self.letters.mass, 1, self.users, UNIT_ROUNDOFF)
            return expected_excess(
                self.letters,
                [one],
                self.theta,
                direction,
                variance=_ROUNDING * effort.resolution,
            )
        group = largest_multisets(self.letters.mass.size, max(self.users // 64, 1), _DENSE)
        summands = []
        for size, count in ((group, self.users // group), (self.users % group, 1)):
            if size:
                table = multisets(self.pair, size)
                value = self._value(table.s0, table.s1)
                summands.append(Summand(value, table.mass, size, count, drift=table.slack))
        return expected_excess(
            self.letters, summands, self.theta, direction, variance=_ROUNDING * effort.resolution
        )
