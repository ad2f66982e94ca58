"""The loss of a target among decoys with any message space, from its profile at chosen points.

The profile at one alpha is an expectation over a sum of n i.i.d. values (see
`shuffle_accountant.reductions.base`), taken exactly over all histograms of messages where these
are few, and from a few distributions, each for a range of alpha, where they are not; alpha by alpha
where likelihood ratios are too uneven for either. Several pairs of inputs share one profile, the
pointwise maximum over ordered pairs, which is that of a dominating pair (Zhu et al. 2022).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from shuffle_accountant.lattice.discretize import SUBCELLS
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.profile import profile_atoms, symmetric_atoms
from shuffle_accountant.losses.alphabets.letters import (
    MessageSource,
    far_bounds,
    moment_bounds,
    source_messages,
)
from shuffle_accountant.losses.alphabets.profiles import (
    OrderedMessages,
    Profile,
    divergence_bounds,
    profile_table,
    ways_of,
)
from shuffle_accountant.losses.alphabets.settings import PROFILES
from shuffle_accountant.losses.base import CellEdges, Effort, SymmetricLoss
from shuffle_accountant.numerics.hockey_stick import LARGEST_EXPONENT
from shuffle_accountant.numerics.rounding import LIMITS, Array, Bound
from shuffle_accountant.sums.survey import Way


@dataclass(frozen=True)
class BlanketLoss(SymmetricLoss):
    """Privacy loss of a round of ``users`` messages.

    Attributes:
        pairs: the ordered pairs of inputs, each with its reverse or as hard to distinguish as that;
            the profile is the largest of theirs.
        users: number n of messages.
        deviation: rough standard deviation of the loss, nats.
        largest: upper bound of the finite losses, nats.
    """

    pairs: tuple[MessageSource, ...]
    users: int
    deviation: float
    largest: float

    @property
    def table(self) -> Hashable:
        """Key of the table: the pairs of inputs and the range of numbers of messages."""
        return self.pairs, users_range(self.users)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``H_alpha(P‖Q)``, alpha = e^epsilon, epsilon >= 0."""
        if effort.tail < LIMITS.underflow:
            effort = replace(effort, resolution=max(effort.resolution, 1e-3))
        return largest_divergence(self.pairs, self.users, epsilon, side, effort)

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        plain = Effort(effort.tail, effort.resolution)
        return divergence_bounds(self.pairs, self.users, epsilon, plain)[2].value

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The pair with the polygon through (PESSIMISTIC) or below (OPTIMISTIC) the profile."""
        if effort.shared and (shared := self.shared_atoms(side, edges, effort)) is not None:
            return shared
        losses = self.points(side, edges, effort, PROFILES.step)
        table = profile_table(self.pairs, (self.users, self.users), losses.tobytes(), effort)
        return self._atoms(losses, table.profile(self.users), side, effort)

    def shared_atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms | None:
        """The same from a table for similar numbers of users; None if its bounds are too wide."""
        least, most = users_range(self.users)
        deviation = max(
            source_messages(pair, Bound.OPTIMISTIC, effort).deviation(most) for pair in self.pairs
        )
        base = replace(self, users=least, deviation=deviation)
        losses = base.spaced_points(side, edges, effort, PROFILES.step_shared)
        table = profile_table(self.pairs, (least, most), losses.tobytes(), effort)
        found = table.profile(self.users)
        if not found.narrow.all():
            return None
        return self._atoms(losses, found, side, effort)

    def _atoms(self, losses: Array, found: Profile, side: Bound, effort: Effort) -> PldAtoms:
        """The atoms of the polygon through (or below) a profile's bounds."""
        certain = _limit(self.pairs, self.users, effort)
        if side is Bound.OPTIMISTIC:
            atoms = symmetric_atoms(found.q, found.d, certain)
        else:
            sides = found.upper, found.upper  # the hull needs no lower bounds
            atoms = profile_atoms(losses, sides, sides, certain, side)
        return replace(atoms, limited=float(np.mean(found.narrow)) < 0.9)

    def points(self, side: Bound, edges: CellEdges, effort: Effort, step: float) -> Array:
        """Points of the profile, the same for both directions; the step is in deviations."""
        if ways_of(self.pairs, self.users, effort) != {Way.LISTS}:
            return self.spaced_points(side, edges, effort, step)
        # lists answer any number of points at once: some thousands
        inside, _ = self._inside(side, edges, effort)
        return self._settled(inside[:: -(-inside.size // 4096)], effort)

    def spaced_points(self, side: Bound, edges: CellEdges, effort: Effort, step: float) -> Array:
        """The same points, no more of them than the profile's curvature needs."""
        inside, centre = self._inside(side, edges, effort)
        apart = step * math.sqrt(effort.resolution) * self._scale(inside, effort)
        return self._settled(_points(inside, apart, centre), effort)

    def _scale(self, losses: Array, effort: Effort) -> Array:
        """Distance over which the profile changes, at ascending losses, nats, shape of ``losses``.

        One deviation in the bulk of a normal distribution: the length over which the profile falls
        by a factor e, times the number of deviations, as an epsilon depends the less on a profile
        the deeper in the tail. Where the likelihood ratio of a single message outweighs all others,
        that length is larger, and the number of deviations would be too large a factor: it is
        capped at 6, or for a small message space replaced by the root of loss over length. The
        distance is larger where the profile is below 1e5 tails. Half or twice as large numbers
        change widths and times of brackets little.
        """
        if losses[-1] <= PROFILES.bulk * self.deviation:
            return np.full(losses.shape, self.deviation)
        letters = [source_messages(pair, Bound.PESSIMISTIC, effort) for pair in self.pairs]
        few = np.geomspace(self.deviation, float(losses[-1]), 48)
        found = np.minimum.accumulate(far_bounds(letters, self.users, np.expm1(few)))
        logs = np.log(np.maximum(found, LIMITS.underflow))
        length = -1.0 / np.minimum(np.gradient(logs, few), -2.0 / few)
        if self._few_letters(effort):
            scale = 0.45 * np.sqrt(few * length)
        else:
            scale = 0.6 * length * np.minimum(np.hypot(1.0, few / self.deviation), 6.0)
        scale *= np.sqrt(1.0 + 1e5 * effort.tail * np.exp(-logs))
        return np.asarray(np.maximum(np.interp(losses, few, scale), self.deviation))

    def _few_letters(self, effort: Effort) -> bool:
        """Whether the message space is small, so that single messages bend the profile."""
        letters = (source_messages(pair, Bound.PESSIMISTIC, effort) for pair in self.pairs)
        return max(one.decoyed[2].size for one in letters) <= 16

    def _inside(self, side: Bound, edges: CellEdges, effort: Effort) -> tuple[Array, float]:
        """Cell edges where points may be, and the loss up to which points are evenly apart."""
        end = _end(self, effort)
        # edges are finer on the lower side
        places = edges(end)[:: SUBCELLS if side is Bound.OPTIMISTIC else 1]
        # the smaller the tail, the further out what counts may lie, unless its places are known
        share = 0.0 if self._finite_losses(effort).size else 0.25
        centre = max(PROFILES.centre * self.deviation, share * end)
        if end >= self.largest and self._few_letters(effort):
            centre = math.inf  # up to its end the profile counts, by bends of its own
        apart = PROFILES.beyond * (1.0 + end)
        return np.append(0.0, places[(places > 0.0) & (places < end - apart)]), centre

    def _settled(self, picked: Array, effort: Effort) -> Array:
        """The picked points together with those at kinks and at the profile's end."""
        end = _end(self, effort)
        apart = PROFILES.beyond * (1.0 + end)
        picked = np.union1d(picked, self._kinks(end - apart, effort))
        # slopes between points that are closer would be round-off
        picked = picked[np.append(True, np.diff(picked) > 2.0**-24 * picked[1:])]
        # clearly above the largest loss nothing is left, whatever the rounding
        return np.append(picked, end + apart if end >= self.largest else end)

    def _kinks(self, end: float, effort: Effort) -> Array:
        """Losses up to the end at which the profile has kinks, each with a neighbour on both sides.

        Rare messages far above all others make it bend where no law of many messages would.
        """
        kinks = self._finite_losses(effort)
        around = np.multiply.outer(
            kinks, 1.0 + PROFILES.beside * np.array([-1.0, 0.0, 1.0])
        ).ravel()
        return np.asarray(around[(around > 0.0) & (around < (1.0 - PROFILES.beside) * end)])

    def _finite_losses(self, effort: Effort) -> Array:
        """All finite losses > 0, nats, if there are at most ``kinks``, else none."""
        letters = (source_messages(pair, side, effort) for pair in self.pairs for side in Bound)
        kinks = np.unique(np.concatenate([one.kinks(self.users) for one in letters]))
        kinks = kinks[(kinks > 0.0) & np.isfinite(kinks)]
        return kinks if kinks.size <= PROFILES.kinks else np.zeros(0)


@lru_cache(maxsize=256)
def _end(loss: BlanketLoss, effort: Effort) -> float:
    """Loss above which the profile is below the tail that may be cut off, or the largest.

    Remembered: grids of any spacing ask for it, on both sides.
    """
    kinks = loss._finite_losses(effort)
    if loss.largest == math.inf and kinks.size:  # beyond them the profile is at its limit
        return min(float(kinks[-1]) * (1.0 + 4.0 * PROFILES.beside), LARGEST_EXPONENT)
    certain = _limit(loss.pairs, loss.users, effort)
    letters = [source_messages(pair, Bound.PESSIMISTIC, effort) for pair in loss.pairs]

    def first_below(losses: Array, *, far: bool = False) -> int:
        """Index of the first loss above which the profile is below the tail; size if none."""
        excess = np.expm1(losses)
        if far:
            found = far_bounds(letters, loss.users, excess)
        else:
            found = np.max(moment_bounds(letters, loss.users, excess), axis=0)
        below = found - certain <= max(0.25 * effort.tail, 1e-9 * certain)
        return int(np.argmax(below)) if below.any() else losses.size

    end = min(loss.largest, LARGEST_EXPONENT)
    steps = math.log(end / (4.0 * loss.deviation)) / math.log(1.5) if end > 0.0 else 0.0
    tried: Array = 4.0 * loss.deviation * 1.5 ** np.arange(max(math.ceil(steps), 0), dtype=float)
    at = first_below(tried)
    if at < tried.size:
        least = float(tried[at - 1]) if at else 0.0
        few = np.linspace(least, float(tried[at]), PROFILES.tried + 1)[1:]
        end = float(few[min(first_below(few), PROFILES.tried - 1)])
    bulk = PROFILES.bulk * loss.deviation
    if end <= bulk:
        return end
    # where the ratio of a single message may outweigh all others, moments say little
    few = np.geomspace(bulk, end, 4 * PROFILES.tried)
    return float(few[min(first_below(few, far=True), few.size - 1)])


def users_range(users: int) -> tuple[int, int]:
    """The range of numbers of messages that share a table with this one."""
    place = math.floor(math.log(users) / math.log(PROFILES.shared))
    low, high = (math.ceil(PROFILES.shared ** (place + end)) for end in (0, 1))
    return min(low, users), max(high - 1, users)


def _points(places: Array, step: Array, centre: float) -> Array:
    """Some of the places: about ``step`` apart up to ``centre``, then ever further apart."""
    picked, last = [0], places.size - 1
    while picked[-1] < last:
        here = float(places[picked[-1]])
        goal = here + float(step[picked[-1]]) * max(1.0, here / centre) ** 2
        picked.append(min(max(int(np.searchsorted(places, goal)), picked[-1] + 1), last))
    return np.asarray(places[np.array(picked)])


def _limit(pairs: tuple[MessageSource, ...], users: int, effort: Effort) -> float:
    """Lower bound of the profile's limit for alpha to infinity."""
    return largest_divergence(pairs, users, math.inf, Bound.OPTIMISTIC, effort)


def largest_divergence(
    pairs: tuple[MessageSource, ...],
    users: int,
    epsilon: float,
    side: Bound,
    effort: Effort,
) -> float:
    """Bound of the largest divergence of the pairs; infinite epsilon gives the profile's limit."""
    plain = Effort(effort.tail, effort.resolution)
    low, high, _ = divergence_bounds(pairs, users, epsilon, plain)
    return high if side is Bound.PESSIMISTIC else low


Source = TypeVar("Source", bound=MessageSource)


def most_distinguishable(
    pairs: tuple[Source, ...], users: int, epsilon: float
) -> tuple[Source, float, float]:
    """The pair with the largest certified lower bound of its divergence, and its bracket."""
    effort = Effort(tail=1e-300, resolution=1e-5)
    excess = np.array([math.expm1(min(epsilon, LARGEST_EXPONENT))])
    both = users, users
    ready = [OrderedMessages(pair, both, effort) for pair in pairs]
    most = [float((pair.moments(excess) + pair.exposed(excess)[1])[0]) for pair in ready]
    order = np.argsort(-np.array(most), kind="stable").tolist()
    best, found = pairs[order[0]], -1.0
    for i in order:
        if most[i] <= found:
            break
        value = largest_divergence((pairs[i],), users, epsilon, Bound.OPTIMISTIC, effort)
        if value > found:
            best, found = pairs[i], value
    return best, found, largest_divergence((best,), users, epsilon, Bound.PESSIMISTIC, effort)
