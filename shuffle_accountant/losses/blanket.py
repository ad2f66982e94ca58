"""The loss of a target among decoys with any alphabet, from its profile at chosen points.

The profile at one alpha is an expectation over a sum of n i.i.d. values (see
`shuffle_accountant.reductions.decoys`), taken exactly over all multisets of messages where these
are few and by Fourier transforms over the users where they are not. Several pairs of inputs share
one profile, the pointwise maximum over ordered pairs, which is that of a dominating pair (Zhu et
al. 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar

import numpy as np

from shuffle_accountant.lattice.discretize import SUBCELLS
from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.lattice.profile import profile_atoms
from shuffle_accountant.losses.base import CellEdges, Effort
from shuffle_accountant.losses.divergence import HOCKEY_STICK, Divergence
from shuffle_accountant.losses.letter_divergence import LARGEST_EPSILON, LetterDivergence
from shuffle_accountant.losses.letters import LetterPair
from shuffle_accountant.numerics.rounding import Array

__all__ = ["BlanketLoss", "LetterSource", "most_distinguishable"]

# The profile's points are this many deviations times sqrt(resolution) apart near 0; the width of a
# bracket falls with the square of their distance.
_STEP_IN_DEVIATIONS = 1.4
# So many kinks are followed one by one, with points beside them at this relative distance.
_MOST_KINKS = 1024
_BESIDE = 2.0**-16
_APART = 2.0**-24
# From so many deviations on, the distance of points grows with the square of the loss.
_CENTRE = 2.5


class LetterSource(Protocol):
    """A target among decoys that can be given as finitely many letters, in either direction."""

    def __hash__(self) -> int:
        """By value, so that answers can be remembered."""

    def letters(self, side: Bound, effort: Effort) -> LetterPair:
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
    def divergence(self) -> Divergence:
        """The hockey-stick divergence."""
        return HOCKEY_STICK

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``H_alpha(P‖Q)``, alpha = e^epsilon, epsilon >= 0."""
        return _largest(self.pairs, self.users, epsilon, side, effort)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The pair with the polygon through (PESSIMISTIC) or below (OPTIMISTIC) the profile."""
        end = self._end(effort)
        step = _STEP_IN_DEVIATIONS * math.sqrt(effort.resolution) * self.deviation
        losses = _points(edges(end), step, _CENTRE * self.deviation, side)
        losses = np.union1d(losses, self._kinks(end, side, effort))
        # slopes between points that are closer would be round-off
        losses = losses[np.append(True, np.diff(losses) > _APART * losses[1:])]
        sides = Bound.OPTIMISTIC, Bound.PESSIMISTIC
        if side is Bound.PESSIMISTIC:
            sides = Bound.PESSIMISTIC, Bound.PESSIMISTIC  # the hull needs no lower bounds

        def profile(pairs: tuple[LetterSource, ...]) -> tuple[Array, Array]:
            low, high = (
                np.array([_largest(pairs, self.users, x, side, effort) for x in losses.tolist()])
                for side in sides
            )
            return np.minimum(low, high), high

        forward = profile(self.pairs)
        backward = forward if self.backward == self.pairs else profile(self.backward)
        certain = _largest(self.pairs, self.users, math.inf, Bound.OPTIMISTIC, effort)
        return profile_atoms(losses, forward, backward, certain, side)

    def _kinks(self, end: float, side: Bound, effort: Effort) -> Array:
        """Losses up to the end at which the profile has kinks, each with a neighbour on both sides.

        Rare messages far above all others make it bend where no law of many messages would.
        """
        kinks = np.unique(
            np.concatenate([_letters(p, side, effort).kinks(self.users) for p in self.pairs])
        )
        if kinks.size > _MOST_KINKS:
            return np.zeros(0)
        around = np.multiply.outer(kinks, 1.0 + _BESIDE * np.array([-1.0, 0.0, 1.0])).ravel()
        return np.asarray(around[(around > 0.0) & (around < end)])

    def _end(self, effort: Effort) -> float:
        """A loss above which the profile is below the tail that may be cut off, or the largest."""
        certain = _largest(self.pairs, self.users, math.inf, Bound.OPTIMISTIC, effort)
        low, high = 0.0, 4.0 * self.deviation
        cheap = Effort(tail=effort.tail, resolution=1e-3)

        def above(loss: float) -> bool:
            both = self.pairs, self.backward
            found = max(_largest(p, self.users, loss, Bound.PESSIMISTIC, cheap) for p in set(both))
            return found - certain > max(0.25 * effort.tail, 1e-9 * certain)

        while high < self.largest and high < LARGEST_EPSILON and above(high):
            low, high = high, 1.5 * high
        if high >= self.largest:
            return min(self.largest, LARGEST_EPSILON)
        for _ in range(4):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if above(middle) else (low, middle)
        return min(high, LARGEST_EPSILON)


def _points(edges: Array, step: float, centre: float, side: Bound) -> Array:
    """Some of the edges: about ``step`` apart up to ``centre``, then ever further apart."""
    # edges are finer on the lower side; the points of both sides should be the same
    unit = SUBCELLS if side is Bound.OPTIMISTIC else 1
    edges = edges[::unit] if edges.size > unit else np.unique(edges[[0, -1]])
    if edges.size < 3:
        return edges
    stride = max(round(step / float(edges[1])), 1)
    picked, last = [0], edges.size - 1
    while picked[-1] < last:
        growth = max(1.0, float(edges[picked[-1]]) / centre) ** 2
        picked.append(min(picked[-1] + round(stride * growth), last))
    return np.asarray(edges[np.array(picked)])


@lru_cache(maxsize=512)
def _letters(source: LetterSource, side: Bound, effort: Effort) -> LetterPair:
    """The source's letters; a profile asks for the same ones at each of its points."""
    return source.letters(side, effort)


@lru_cache(maxsize=1 << 15)
def _largest(
    pairs: tuple[LetterSource, ...],
    users: int,
    epsilon: float,
    side: Bound,
    effort: Effort,
) -> float:
    """Bound of the largest divergence of the pairs; infinite epsilon gives the profile's limit."""
    questions = [_divergence(pair, users, epsilon, side, effort) for pair in pairs]
    if len(questions) > 1:
        questions.sort(key=lambda question: -question.chernoff)
    best = 0.0
    for question in questions:
        if question.chernoff <= best:
            break
        best = max(best, question.bound(effort))
    return best


Source = TypeVar("Source", bound=LetterSource)


def most_distinguishable(
    pairs: tuple[Source, ...], users: int, epsilon: float
) -> tuple[Source, float, float]:
    """The pair with the largest certified lower bound of its divergence, and its bracket."""
    effort = Effort(tail=1e-300, resolution=1e-5)
    lower = [(_divergence(pair, users, epsilon, Bound.OPTIMISTIC, effort), pair) for pair in pairs]
    lower.sort(key=lambda item: -item[0].chernoff)
    best, found = lower[0][1], -1.0
    for question, pair in lower:
        if question.chernoff <= found:
            break
        value = question.bound(effort)
        if value > found:
            best, found = pair, value
    upper = _divergence(best, users, epsilon, Bound.PESSIMISTIC, effort)
    return best, found, upper.bound(effort)


def _divergence(
    source: LetterSource, users: int, epsilon: float, side: Bound, effort: Effort
) -> LetterDivergence:
    return LetterDivergence(_letters(source, side, effort), users, epsilon, side)
