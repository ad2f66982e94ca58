"""From a question to a bracket: choose a grid, answer from both sides, refine until close enough.

The width of a bracket falls with the square of the grid's spacing and linearly with the width of
the blocks of decoy counts; both are chosen from the whole composition and from the question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shuffle_accountant.bracket import ErrorLedger
from shuffle_accountant.engine.composition import Composition, DirectSum, TiltedSum
from shuffle_accountant.engine.loss_grids import GridTooFine, loss_grid
from shuffle_accountant.engine.question import Query
from shuffle_accountant.lattice.convolve import BYTES_PER_POINT
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.numerics.roots import find_crossing

__all__ = ["Refinement"]

_MOST_REFINEMENTS = 12
# A finer grid that leaves this much of the width says that something else decides it.
_STALLED = 0.95
_HOPELESS = 3  # grids on which delta's lower end is 0
_ENDLESS = 2  # grids on which epsilon's upper end is infinite
# Peak memory of putting a loss on a grid, per cell between 0 and its largest loss.
_BYTES_PER_CELL = 256
# Grids of direct convolution, in cells up to the end of its window: milliseconds to a second each.
_DIRECT_CELLS = (2000, 4000, 8000, 12000)
# A window of this many points is transformed in a few milliseconds.
_FREE_POINTS = 1 << 17
# Peak memory of listing one atom, and a number of atoms that takes a few milliseconds.
_BYTES_PER_ATOM = 400
_MOST_ATOMS = 1 << 20
# Blocks of decoy counts are not made narrower than this: about 1e8 atoms in the worst case.
_FINEST_RESOLUTION = 2e-6


@dataclass(frozen=True)
class _Side:
    """One end's answer, its slope ``-d log(delta) / d epsilon``, and what limits it, in delta."""

    value: float
    delta: float
    slope: float
    truncation: float
    aliasing: float
    round_off: float


class Refinement:
    """One question's search for a grid."""

    def __init__(
        self,
        losses: Sequence[tuple[PrivacyLoss, int]],
        query: Query,
        tolerance: float,
        memory_limit: int,
    ) -> None:
        self.losses, self.query, self.tolerance = tuple(losses), query, tolerance
        self.memory_limit = memory_limit
        self.most_cells = memory_limit / _BYTES_PER_CELL
        self.rounds = sum(count for _, count in losses)
        # relative to the largest, because squares of tiny losses underflow
        top = max(loss.deviation for loss, _ in losses)
        variance = sum(count * (loss.deviation / top) ** 2 for loss, count in losses)
        self.deviation = top * math.sqrt(variance)
        # Connecting the dots adds about spacing^2/6 to the variance of each round and the chords
        # take away as much; epsilon moves by at most that share of itself.
        self.coarse = top * math.sqrt(1.5 * tolerance * variance / self.rounds)
        # Finer than asked for while that costs next to nothing.
        fine = max(0.25 * self.coarse, 18.0 * self.deviation / _FREE_POINTS)
        self.spacing = min(self.coarse, fine)
        self.resolution = 0.25 * tolerance
        self.most_atoms = max(min(memory_limit // _BYTES_PER_ATOM, _MOST_ATOMS), 1024)
        # what may be cut off in all rounds together, relative to delta
        self.share = 1e-3 * min(tolerance, 1e-3)
        self.delta = query.delta if query.delta is not None else 1e-30
        self.limited = False
        self.top: float | None = None  # end of the window of direct convolution, when that is used
        self.last: tuple[float, float] | None = None  # spacing and excess of the previous grid

    def run(self, largest: float) -> tuple[float, float, ErrorLedger, str | None]:
        """Refine until the bracket is narrow enough, or memory or patience ends.

        Args:
            largest: no sum of losses is larger, nats.

        Returns:
            ``(lower, upper, ledger, cause)``; ``cause`` says what kept it wider than the tolerance,
            and is None if it is not.
        """
        best: tuple[_Side, _Side] | None = None
        hopeless = endless = 0
        for _ in range(_MOST_REFINEMENTS):
            upper = self._answer(Bound.PESSIMISTIC, largest)
            lower = self._answer(Bound.OPTIMISTIC, largest)
            if best is not None:  # every bracket is valid, so their intersection is
                upper = min(upper, best[0], key=lambda side: side.value)
                lower = max(lower, best[1], key=lambda side: side.value)
            best = upper, lower
            excess = self._excess(upper, lower)
            hopeless += lower.value == 0.0
            if self.query.delta is None and hopeless >= _HOPELESS:
                break  # delta there is below what double precision can tell from 0
            endless += upper.value == math.inf
            if endless >= _ENDLESS:
                break  # more mass than delta is nowhere but at infinity, on a finer grid too
            if self._too_coarse_a_tail(upper, lower):
                continue
            stalled = self.last is not None and excess > _STALLED * self.last[1]
            if excess <= 1.0 or stalled or self.limited or self._out_of_reach(upper, lower):
                break
            order = self._order(excess)
            shrink = min(max((0.5 / excess) ** (1.0 / order), 0.02), 0.8)
            self.spacing *= shrink
            self.resolution = max(self.resolution * shrink**2, _FINEST_RESOLUTION)
        assert best is not None
        if self._excess(*best) > 1.0:
            best = self._without_transform(*best, largest)
        return self._finish(*best)

    def _out_of_reach(self, upper: _Side, lower: _Side) -> bool:
        """Whether the transform's rounding, and not the grid, decides the bracket."""
        noise = upper.round_off + upper.aliasing + lower.round_off + lower.aliasing
        return noise > 0.1 * max(upper.delta, lower.delta)

    def _without_transform(self, upper: _Side, lower: _Side, largest: float) -> tuple[_Side, _Side]:
        """Direct convolution on a grid that resolves epsilon rather than one round's loss."""
        for cells in _DIRECT_CELLS:
            end = upper.value if self.query.delta is not None else self.query.required
            self.top = min(4.0 * max(end, self.deviation), largest)
            if not 0.0 < self.top < math.inf:
                break
            self.spacing = self.top / cells
            self.resolution = 0.25 * self.tolerance
            try:
                sides = (
                    self._answer(Bound.PESSIMISTIC, largest),
                    self._answer(Bound.OPTIMISTIC, largest),
                )
            except GridTooFine:
                break
            upper = min(upper, sides[0], key=lambda side: side.value)
            lower = max(lower, sides[1], key=lambda side: side.value)
            if self._excess(upper, lower) <= 1.0:
                break
        return upper, lower

    def _order(self, excess: float) -> float:
        """At which power of the spacing the width falls, from the last two grids.

        It is 2 where atoms lie closer than grid points, and falls to 1 where they lie so far apart
        that the chords have to merge distant ones.
        """
        order = 2.0
        if self.last is not None and self.last[0] > self.spacing and excess < math.inf:
            order = math.log(self.last[1] / excess) / math.log(self.last[0] / self.spacing)
        self.last = (self.spacing, excess) if excess < math.inf else None
        return min(max(order, 0.9), 2.0)

    def _excess(self, upper: _Side, lower: _Side) -> float:
        """Width of the bracket over the width allowed; both measured in epsilon."""
        if upper.value == math.inf:
            return math.inf
        if self.query.delta is not None:
            # an epsilon far below the spread of the loss is 0 for all purposes
            allowed = self.tolerance * max(upper.value, 1e-3 * self.deviation)
            return (upper.value - lower.value) / allowed
        if upper.value <= 5e-324:
            return 0.0
        allowed = self.tolerance * max(1.0, upper.slope * self.query.required)
        return (math.log(upper.value / lower.value) / allowed) if lower.value > 0 else math.inf

    def _too_coarse_a_tail(self, upper: _Side, lower: _Side) -> bool:
        """Whether delta turned out so small that less must be cut off, which is then arranged."""
        if self.query.delta is not None or self.delta <= 1e-290:
            return False
        if upper.truncation <= 0.1 * self.tolerance * upper.value:
            return False
        # what is certainly there, or, if nothing is, far less than was assumed
        found = lower.value if lower.value > 0 else self.delta**3
        self.delta = max(min(found, 1e-6 * self.delta), 1e-300)
        return True

    def _composition(self, side: Bound) -> Composition:
        # quantised, so that neighbouring questions share grids
        tail = 10.0 ** math.floor(math.log10(max(self.share * self.delta / self.rounds, 1e-305)))
        resolution = 2.0 ** (math.floor(2.0 * math.log2(self.resolution)) / 2.0)
        effort = Effort(
            tail=max(tail, 1e-305),
            resolution=max(resolution, _FINEST_RESOLUTION),
            most_atoms=self.most_atoms,
        )
        spacing = self._aligned(self.spacing)
        return Composition(
            [
                (loss_grid(loss, side, spacing, effort, self.most_cells), count)
                for loss, count in self.losses
            ],
            self.losses[0][0].divergence,
        )

    def _aligned(self, spacing: float) -> float:
        """The spacing, a little smaller, so that the largest loss of all lies on the grid."""
        largest = max(loss.largest for loss, _ in self.losses)
        if not largest < 1e7 * spacing:
            return float(2.0 ** (math.floor(4 * math.log2(spacing)) / 4))
        return largest / math.ceil(largest / spacing)

    def _tilted(self, side: Bound) -> tuple[Composition, TiltedSum, float]:
        """The composition under the tilt that suits the question, within the memory limit."""
        while True:
            try:
                composition = self._composition(side)
            except GridTooFine as error:
                self.limited = True
                self.spacing *= 1.1 * error.factor
                continue
            if self.query.delta is not None:
                rest = self.query.delta - (composition.infinite if side is Bound.PESSIMISTIC else 0)
                tilt = composition.saddle_for_delta(max(rest, 0.01 * self.query.delta))
            else:
                tilt = composition.saddle_for_epsilon(self.query.required)
            first, last, _, _ = composition.window(tilt)
            points = last - first + 1
            allowed = self.memory_limit / BYTES_PER_POINT / 1.2
            if points <= allowed:
                return composition, composition.tilted(tilt), tilt
            self.limited = True
            self.spacing *= 1.1 * points / allowed

    def _answer(self, side: Bound, largest: float) -> _Side:
        law: TiltedSum | DirectSum
        if self.top is None:
            composition, law, tilt = self._tilted(side)
            near = composition.cumulants(tilt)[1]  # the epsilon that the tilt was made for
        else:
            composition = self._composition(side)
            law, tilt, near = DirectSum(composition, self.top), 1.0 / self.top, 0.25 * self.top
        if self.query.epsilon is not None:
            value = self.query.epsilon
            terms = law.delta(value)
        else:
            target = self.query.delta
            assert target is not None

            def excess(epsilon: float) -> float:
                found = law.delta(epsilon).value
                return math.log(found / target) if found > 0 else -math.inf

            near = max(near, 0.01 * self.spacing)
            step = 0.5 / max(tilt, 1.0 / self.deviation)  # delta changes by about a factor e^0.5
            rtol = 1e-5 * self.tolerance  # far below the grid's share of the bracket
            if side is Bound.PESSIMISTIC:
                if composition.infinite > target:
                    value = largest
                else:
                    value = find_crossing(excess, largest, near, step, rtol).right
            else:
                value = find_crossing(excess, largest, near, step, rtol).left
            if value == math.inf:
                known = composition.truncated
                return _Side(math.inf, composition.infinite, 1.0 / self.deviation, known, 0.0, 0.0)
            terms = law.delta(value)
        step = 0.01 / max(tilt, 0.1 / self.deviation)
        beyond = law.delta(value + step).value
        slope = math.log(terms.value / beyond) / step if 0 < beyond < terms.value else tilt
        return _Side(
            value=value if self.query.delta is not None else terms.value,
            delta=terms.value,
            slope=max(slope, tilt),
            truncation=terms.truncation,
            aliasing=terms.aliasing,
            round_off=terms.round_off,
        )

    def _finish(self, upper: _Side, lower: _Side) -> tuple[float, float, ErrorLedger, str | None]:
        low, high = min(lower.value, upper.value), upper.value
        if high == math.inf:  # what was cut off may be more than delta
            limit = "the memory limit" if self.limited else "truncation"
            return low, high, ErrorLedger(truncation=math.inf), limit
        width = high - low
        # the ledger's unit is the answer's: delta's errors become epsilon's through the slope
        unit = 1.0
        if self.query.delta is not None:
            unit = 1.0 / max(max(upper.slope, 1e-300) * self.query.delta, 1e-300)
        truncation = min((upper.truncation + lower.truncation) * unit, width)
        aliasing = min((upper.aliasing + lower.aliasing) * unit, width - truncation)
        round_off = min((upper.round_off + lower.round_off) * unit, width - truncation - aliasing)
        ledger = ErrorLedger(
            discretisation=max(width - truncation - aliasing - round_off, 0.0),
            truncation=truncation,
            aliasing=max(aliasing, 0.0),
            round_off=max(round_off, 0.0),
        )
        cause = None
        if self._excess(upper, lower) > 1.0:
            cause = "the memory limit" if self.limited else ledger.limited_by
        return low, high, ledger, cause
