"""Plans, the grids that a question is answered on, and one end of a bracket on the grid of a plan.

The width of a bracket falls with the square of the grid's spacing and linearly with the width of
the blocks of decoy counts; both are chosen from the whole composition and from the question.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shuffle_accountant.engine.composition import Composition, DeltaTerms, TiltedSum
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.rare_losses import (
    DirectSum,
    RareLosses,
    SplitSum,
    without_rare_losses,
)
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.engine.stacked import StackedComposition
from shuffle_accountant.lattice.discretize import SUBCELLS, discretize
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.lattice.settings import LATTICE
from shuffle_accountant.losses.base import Effort, EqualCells, GridTooFine, PrivacyLoss, Tabled
from shuffle_accountant.numerics.kept import kept
from shuffle_accountant.numerics.roots import find_crossing
from shuffle_accountant.numerics.rounding import LIMITS, Bound
from shuffle_accountant.progress import share_of_bar


@dataclass(frozen=True)
class Problem:
    """One question about one composition: what does not change while grids are tried.

    Attributes:
        losses: losses of the distinct rounds, with their counts, for the upper end.
        below: the same for the lower end.
        query: the question.
        tolerance: relative width in epsilon to aim for.
        memory_limit: bytes.
        largest: no sum of losses is larger, nats.
    """

    losses: tuple[tuple[PrivacyLoss, int], ...]
    below: tuple[tuple[PrivacyLoss, int], ...]
    query: Query
    tolerance: float
    memory_limit: int
    largest: float

    @cached_property
    def rounds(self) -> int:
        """Number of rounds."""
        return sum(count for _, count in self.losses)

    @cached_property
    def _top(self) -> float:
        """The largest deviation of a round's loss, nats."""
        return max(loss.deviation for loss, _ in self.losses)

    @cached_property
    def _variance(self) -> float:
        """Variance of the sum over the largest of a round, because squares of tiny ones vanish."""
        return sum(count * (loss.deviation / self._top) ** 2 for loss, count in self.losses)

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of the sum, roughly, nats."""
        return self._top * math.sqrt(self._variance)

    @cached_property
    def coarse(self) -> float:
        """Spacing at which the grid should cost no more than the tolerance, nats."""
        if self.losses[0][0].divergence.continuous:
            # Connecting the dots adds about spacing^2/6 to the variance of each round and the
            # chords take away as much; epsilon moves by at most that share of itself.
            return self._top * math.sqrt(1.5 * self.tolerance * self._variance / self.rounds)
        # Both ends together are a spacing apart in each round. At a delta, epsilon is about where a
        # normal law of the deviation has such a tail; below a tenth of the deviation the first grid
        # aims for absolute instead of relative accuracy.
        if self.query.delta is None:
            epsilon = max(self.query.required, 0.1 * self.deviation)
        else:
            normal = math.sqrt(-2.0 * math.log(self.query.delta))
            epsilon = self.deviation * max(normal - 1.0, 0.1)
        return 0.5 * self.tolerance * epsilon / self.rounds

    @property
    def many(self) -> bool:
        """Whether enough losses differ that what they share is tabulated."""
        return len(self.losses) >= SETTINGS.many_losses

    @property
    def alike(self) -> float:
        """Number of rounds of the largest deviation that would give the sum's deviation, >= 1."""
        return max((self.deviation / self._top) ** 2, 1.0)

    @property
    def gathered(self) -> bool:
        """Whether the ends are those of different losses: then no grid makes them meet."""
        return self.below != self.losses

    def on(self, side: Bound) -> tuple[tuple[PrivacyLoss, int], ...]:
        """The losses whose sum bounds the true one on that side."""
        return self.losses if side is Bound.PESSIMISTIC else self.below


@dataclass(frozen=True)
class Plan:
    """The grid on which one bracket is computed, with its accuracy.

    Attributes:
        spacing: distance of grid points, nats.
        resolution: relative width of blocks of decoy counts.
        delta: rough value expected for delta, which decides how much may be cut off.
        limited: whether the memory limit chose the spacing.
        top: end of the window of direct convolution, nats; None for a transform.
        previous: spacing and excess of the grid before, if it had a finite excess.
        most_points: a window has no more points than this, whatever the spacing; None for any.
    """

    spacing: float
    resolution: float
    delta: float
    limited: bool = False
    top: float | None = None
    previous: tuple[float, float] | None = None
    most_points: int | None = None


def _power(value: float, parts: int) -> float:
    """The largest power of ``2^(1/parts)`` up to the value: close questions ask for the same."""
    return float(2.0 ** (math.floor(parts * math.log2(value)) / parts))


def first_plan(problem: Problem) -> Plan:
    """The plan of the first grid."""
    # for few losses finer than asked for, while 18 deviations have no more points than are cheap
    finest = 1.0 if problem.many else SETTINGS.first_spacing
    fine = max(finest * problem.coarse, 18.0 * problem.deviation / SETTINGS.long_window)
    delta = problem.query.delta
    return Plan(
        spacing=_settled(problem, min(problem.coarse, fine)),
        resolution=0.25 * problem.tolerance,
        delta=min(SETTINGS.least_tail, problem.query.least or 1.0) if delta is None else delta,
        most_points=2 * SETTINGS.long_window,
    )


def _settled(problem: Problem, spacing: float) -> float:
    """The spacing; of many rounds a little smaller, so that one round more asks for the same."""
    return _power(spacing, 4) if problem.many else spacing


def finer(problem: Problem, plan: Plan, excess: float) -> Plan:
    """The next grid after one whose bracket was wider than allowed by the factor ``excess``.

    The width falls with the spacing to a power: 2 where atoms lie closer than grid points, down to
    1 where they lie so far apart that the chords have to merge distant ones.
    """
    linear = not problem.losses[0][0].divergence.continuous
    # the excess of classes includes a part that no grid changes
    order = 1.0 if linear or problem.gathered else 2.0
    if plan.previous is not None and plan.previous[0] > plan.spacing and excess < math.inf:
        spacing, before = plan.previous
        order = math.log(before / excess) / math.log(spacing / plan.spacing)
    order = min(max(order, 0.9), 2.0)
    shrink = min(max((SETTINGS.aim / excess) ** (1.0 / order), 0.02), 0.8)
    return replace(
        plan,
        spacing=_settled(problem, plan.spacing * shrink),
        resolution=max(
            plan.resolution * shrink ** (1 if linear else 2), SETTINGS.finest_resolution
        ),
        previous=(plan.spacing, excess) if excess < math.inf else None,
    )


def direct_plan(problem: Problem, plan: Plan, epsilon: float, cells: int) -> Plan | None:
    """A grid without a transform, which resolves epsilon rather than one round's loss.

    It has ``cells`` cells up to the end of its window, which is some times the rough epsilon that
    the answer comes from (nats); None if there is no window of such a size.
    """
    top = min(4.0 * max(epsilon, problem.deviation), problem.largest)
    if not 0.0 < top < math.inf:
        return None
    return replace(plan, spacing=top / cells, resolution=0.25 * problem.tolerance, top=top)


# The cache holds the grids of a few questions about a thousand different rounds, usually.
@kept(1 << 26, lambda grid: grid.mass.nbytes)
def loss_grid(
    loss: PrivacyLoss, side: Bound, spacing: float, effort: Effort, most_cells: float
) -> PldGrid:
    """The loss on the grid of a spacing (nats); cached, as neighbouring questions ask for the same.

    Raises:
        GridTooFine: more than ``most_cells`` cells between 0 and the losses would be needed.
    """
    finer = 1 if side is Bound.PESSIMISTIC else SUBCELLS
    edges = EqualCells(spacing / finer, most_cells * finer)
    atoms = loss.atoms(side, edges, effort)
    # a few atoms are not merged in cells, and may be far apart
    cells = float(np.ptp(np.append(atoms.loss, 0.0))) / spacing
    if cells > most_cells:
        raise GridTooFine(cells / most_cells)
    grid = discretize(atoms, spacing)
    if not grid.mass.any():
        # all mass is at infinity: something to take averages over, too little to be seen
        return replace(grid, offset=0, mass=np.full(1, LIMITS.underflow))
    return grid


@dataclass(frozen=True)
class End:
    """One end of the bracket, and what its error is made of.

    Attributes:
        value: the end of epsilon or delta, whichever was asked for.
        delta: the end of delta at that epsilon.
        slope: computes ``-d log(delta) / d epsilon`` there.
        limited: whether what is known of single rounds decides, and no grid.
    """

    value: float
    delta: DeltaTerms
    slope: Callable[[], float]
    limited: bool = False


@dataclass(frozen=True, eq=False)
class Law:
    """The law of the sum on the grid of one side: a bound of delta at any epsilon.

    Attributes:
        tilt: by which the sum is known relative to itself near one epsilon.
        near: that epsilon, nats.
        points: of the grid that the sum is held on.
    """

    composition: Composition
    law: TiltedSum | SplitSum | DirectSum
    tilt: float
    near: float
    points: int

    def end(self, problem: Problem, value: float) -> End:
        """The end at an epsilon; its value is that epsilon if epsilon is asked for, else delta."""
        terms = self.law.delta(value)

        def slope() -> float:
            step = 0.01 / max(self.tilt, 0.1 / problem.deviation)
            beyond = self.law.delta(value + step).value
            falls = 0 < beyond < terms.value
            found = math.log(terms.value / beyond) / step if falls else 0.0
            return max(found, self.tilt) if value >= self.near else found

        asked = terms.value if problem.query.delta is None else value
        return End(asked, terms, slope, self.composition.limited)


def find_end(problem: Problem, plan: Plan, side: Bound) -> tuple[End, Plan]:
    """The end of a side on the plan's grid, and the plan with the spacing that memory allowed.

    Raises:
        GridTooFine: memory does not allow the spacing of direct convolution.
    """
    if plan.top is None:
        law, plan = _tilted(problem, plan, side)
    else:
        composition = _composition(problem, plan, side)
        found = DirectSum(composition, plan.top)
        cells = math.ceil(plan.top / composition.spacing)
        law = Law(composition, found, 1.0 / plan.top, 0.25 * plan.top, cells)
    if problem.query.epsilon is not None:
        _remember(problem, side, law)
        return law.end(problem, problem.query.epsilon), plan
    value = _epsilon(problem, plan, law)
    if value == math.inf:
        terms = DeltaTerms(law.composition.infinite, law.composition.truncated, 0.0, 0.0)
        return End(math.inf, terms, lambda: 1.0 / problem.deviation), plan
    return law.end(problem, value), plan


def earlier_end(problem: Problem, side: Bound) -> End | None:
    """The end that an earlier question's law gives; None if there is no such law."""
    laws, epsilon = problem.query.laws, problem.query.epsilon
    law = None if laws is None else laws.get((problem.on(side), side))
    return None if law is None or epsilon is None else law.end(problem, epsilon)


def _remember(problem: Problem, side: Bound, law: Law) -> None:
    """Keep the newest laws, of both sides in both orders, in at most half of the memory."""
    laws = problem.query.laws
    room = 2 * 4 * LATTICE.bytes_per_point * law.points
    if laws is None or room > problem.memory_limit:
        return
    key = (problem.on(side), side)
    laws.pop(key, None)
    laws[key] = law
    while len(laws) > 4:
        laws.pop(next(iter(laws)))


def _epsilon(problem: Problem, plan: Plan, law: Law) -> float:
    """The epsilon at which delta is the one asked about, rounded to the safe side."""
    target, largest = problem.query.delta, problem.largest
    assert target is not None
    upper = law.composition.side is Bound.PESSIMISTIC
    if upper and law.composition.infinite > target:
        return largest

    def log_ratio(epsilon: float) -> float:
        found = law.law.delta(epsilon).value
        return math.log(found / target) if found > 0 else -math.inf

    near = max(law.near, 0.01 * plan.spacing)
    step = 0.5 / max(law.tilt, 1.0 / problem.deviation)  # delta changes by about a factor e^0.5
    rtol = 1e-5 * problem.tolerance  # far below the grid's share of the bracket
    crossing = find_crossing(log_ratio, largest, near, step, rtol)
    return crossing.right if upper else crossing.left


def _composition(problem: Problem, plan: Plan, side: Bound) -> Composition:
    """The composition of all losses of a side, each on its grid."""
    # what may be cut off in all rounds together, relative to delta
    share = 1e-3 * min(problem.tolerance, 1e-3)
    # quantised, so that neighbouring questions share grids
    share = max(share * plan.delta / problem.rounds, LIMITS.underflow)
    # for many losses, as few powers of ten as possible: a new one is a new table
    powers = 4 if problem.many else 1
    tail = 10.0 ** (powers * math.floor(math.log10(share / 1.5 ** (powers - 1)) / powers))
    effort = Effort(
        tail=max(tail, LIMITS.underflow),
        resolution=max(_power(plan.resolution, 2), SETTINGS.finest_resolution),
        most_atoms=max(problem.memory_limit // (4 * SETTINGS.bytes_per_cell), 1024),
        many=problem.many,
        rounds=_power(problem.alike, 1),
    )
    spacing, cells = _aligned(problem, plan.spacing), problem.memory_limit / SETTINGS.bytes_per_cell
    tables = [
        loss.table if problem.many and isinstance(loss, Tabled) else None
        for loss, _ in problem.on(side)
    ]
    often = Counter(tables)
    parts = []
    for (loss, count), table in zip(_shown(problem, side), tables, strict=True):
        shared = bool(table) and often[table] >= SETTINGS.many_losses // 2
        own = replace(effort, shared=True) if shared else effort
        parts.append((loss_grid(loss, side, spacing, own, cells), count))
    divergence = problem.losses[0][0].divergence
    if problem.many and StackedComposition.fits(parts, problem.memory_limit):
        return StackedComposition(parts, divergence)
    return Composition(parts, divergence)


def _shown(problem: Problem, side: Bound) -> Iterator[tuple[PrivacyLoss, int]]:
    """Iterate over the losses of a side; if they are many, advance the progress bar by half."""
    losses = problem.on(side)
    if not problem.many:
        yield from losses
        return
    start = 0.0 if side is Bound.PESSIMISTIC else 0.5
    with share_of_bar() as report:
        for done, item in enumerate(losses):
            report(start + 0.5 * done / len(losses))
            yield item


def _aligned(problem: Problem, spacing: float) -> float:
    """The spacing, a little smaller, so that the largest loss of all lies on the grid."""
    if problem.many:
        return spacing  # whose grids the next question asks for, and no one loss decides
    largest = max(loss.largest for loss, _ in problem.losses)
    if not spacing <= largest < 1e7 * spacing:
        return _power(spacing, 4)
    return largest / math.ceil(largest / spacing)


def _tilted(problem: Problem, plan: Plan, side: Bound) -> tuple[Law, Plan]:
    """The law under the tilt that suits the question (but for rare losses), and its plan."""
    while True:
        try:
            composition = _composition(problem, plan, side)
        except GridTooFine as error:
            plan = replace(plan, spacing=plan.spacing * (1.1 * error.factor), limited=True)
            continue
        tilt, rare = _tilt(problem, composition), None
        points = _points(composition, tilt)
        if points > SETTINGS.long_window:
            found = _split(problem, composition)
            if found is not None and 1.5 * found[3] < points:  # shorter by enough to pay
                composition, rare, tilt, points = found
        if plan.most_points is not None and points > 4 * plan.most_points:
            plan = replace(plan, spacing=plan.spacing * (1.1 * points / plan.most_points))
            continue
        allowed = problem.memory_limit / LATTICE.bytes_per_point / 1.2
        if points <= allowed:
            whole = composition.tilted(tilt)
            law = whole if rare is None else SplitSum(whole, rare)
            return Law(composition, law, tilt, composition.cumulants(tilt)[1], points), plan
        plan = replace(plan, spacing=plan.spacing * (1.1 * (points / allowed)), limited=True)


def _tilt(problem: Problem, composition: Composition) -> float:
    """The tilt of the question: the saddle point for its epsilon or delta."""
    delta = problem.query.delta
    if delta is None:
        return composition.saddle_for_epsilon(problem.query.required)
    infinite = composition.infinite if composition.side is Bound.PESSIMISTIC else 0.0
    return composition.saddle_for_delta(max(delta - infinite, 0.01 * delta))


def _split(
    problem: Problem, composition: Composition
) -> tuple[Composition, RareLosses, float, int] | None:
    """All but rare losses, those, the tilt, and the points of the window; None if none are rare.

    The cut begins six deviations above epsilon and moves up until what is missed is at most a tenth
    of the relative error allowed in delta; None as well if eight cuts do not do.
    """
    query = problem.query
    cut = (query.required if query.delta is None else problem.deviation) + 6.0 * problem.deviation
    for _ in range(8):
        others = without_rare_losses(composition, cut)
        if others is None:
            return None
        tilt = _tilt(problem, others)
        near = query.required if query.delta is None else others.cumulants(tilt)[1]
        rare = RareLosses(composition, others, near)
        delta = query.delta
        if delta is None:
            delta = math.exp(min(others.log_delta(tilt), 0.0)) + rare.delta(near).value
        if near < cut and rare.delta(near).aliasing <= 0.1 * problem.tolerance * delta:
            return others, rare, tilt, _points(others, tilt)
        cut *= 1.5
    return None


def _points(composition: Composition, tilt: float) -> int:
    first, last, _, _ = composition.window(tilt)
    return last - first + 1
