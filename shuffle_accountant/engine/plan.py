"""Plans: the grid that a question is answered on, and the steps from one to the next.

The width of a bracket falls with the square of the grid's spacing and linearly with the width of
the blocks of decoy counts; both are chosen from the whole composition and from the question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.losses.base import PrivacyLoss
from shuffle_accountant.numerics.rounding import Bound


@dataclass(frozen=True)
class Problem:
    """One question about one composition: what does not change while grids are tried.

    Attributes:
        losses: losses of the distinct rounds, with their counts, for the upper end.
        below: losses of the distinct rounds, with their counts, for the lower end.
        query: the question.
        tolerance: relative width in epsilon to aim for.
        memory_limit: bytes.
        largest: no sum of losses is larger, nats.
        rounds: number of rounds.
        deviation: standard deviation of the sum, roughly, nats.
        coarse: spacing at which the grid should cost no more than the tolerance, nats.
    """

    losses: tuple[tuple[PrivacyLoss, int], ...]
    below: tuple[tuple[PrivacyLoss, int], ...]
    query: Query
    tolerance: float
    memory_limit: int
    largest: float
    rounds: int
    deviation: float
    coarse: float

    @classmethod
    def of(
        cls,
        losses: Sequence[tuple[PrivacyLoss, int]],
        query: Query,
        tolerance: float,
        memory_limit: int,
        largest: float,
        below: Sequence[tuple[PrivacyLoss, int]] | None = None,
    ) -> Problem:
        """The problem of these losses, with the quantities that follow from it."""
        rounds = sum(count for _, count in losses)
        # relative to the largest, because squares of tiny losses underflow
        top = max(loss.deviation for loss, _ in losses)
        variance = sum(count * (loss.deviation / top) ** 2 for loss, count in losses)
        deviation = top * math.sqrt(variance)
        if losses[0][0].divergence.continuous:
            # Connecting the dots adds about spacing^2/6 to the variance of each round and the
            # chords take away as much; epsilon moves by at most that share of itself.
            coarse = top * math.sqrt(1.5 * tolerance * variance / rounds)
        else:
            # both ends together are a spacing apart in each round
            coarse = 0.5 * tolerance * _expected_epsilon(query, deviation) / rounds
        return cls(
            losses=tuple(losses),
            below=tuple(losses if below is None else below),
            query=query,
            tolerance=tolerance,
            memory_limit=memory_limit,
            largest=largest,
            rounds=rounds,
            deviation=deviation,
            coarse=coarse,
        )

    @property
    def many(self) -> bool:
        """Whether enough losses differ that what they share is tabulated."""
        return len(self.losses) >= SETTINGS.many_losses

    @property
    def alike(self) -> float:
        """Number of rounds of the largest deviation that would give the sum's deviation, >= 1."""
        top = max(loss.deviation for loss, _ in self.losses)
        return max((self.deviation / top) ** 2, 1.0)

    @property
    def gathered(self) -> bool:
        """Whether the ends are those of different losses: then no grid makes them meet."""
        return self.below != self.losses

    def on(self, side: Bound) -> tuple[tuple[PrivacyLoss, int], ...]:
        """The losses whose sum bounds the true one on that side."""
        return self.losses if side is Bound.PESSIMISTIC else self.below

    @property
    def most_cells(self) -> float:
        """Largest number of cells between 0 and the largest loss that memory allows."""
        return self.memory_limit / SETTINGS.bytes_per_cell

    @property
    def most_atoms(self) -> int:
        """Largest number of atoms of one loss that memory allows."""
        return max(self.memory_limit // (4 * SETTINGS.bytes_per_cell), 1024)

    @property
    def share(self) -> float:
        """Probability mass that may be cut off in all rounds together, relative to delta."""
        return 1e-3 * min(self.tolerance, 1e-3)


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

    def coarser(self, factor: float) -> Plan:
        """The plan within the memory limit, which this one exceeds by the factor."""
        return replace(self, spacing=self.spacing * (1.1 * factor), limited=True)

    def tried(self, points: int) -> Plan:
        """The plan on a coarser grid, of at most about `most_points`, where this has ``points``."""
        assert self.most_points is not None
        return replace(self, spacing=self.spacing * (1.1 * points / self.most_points))


def _expected_epsilon(query: Query, deviation: float) -> float:
    """Rough value of the epsilon asked about or to be found, nats; a tenth of a deviation or more.

    Below that, the first grid aims for absolute instead of relative accuracy.
    """
    if query.delta is None:
        return max(query.required, 0.1 * deviation)
    # where a normal law of the deviation has about such a tail
    return deviation * max(math.sqrt(-2.0 * math.log(query.delta)) - 1.0, 0.1)


def first_plan(problem: Problem) -> Plan:
    """The plan of the first grid."""
    # for few losses finer than asked for, while 18 deviations have no more points than are cheap
    finest = 1.0 if problem.many else SETTINGS.first_spacing
    fine = max(finest * problem.coarse, 18.0 * problem.deviation / SETTINGS.long_window)
    delta = problem.query.delta
    return Plan(
        spacing=_settled(problem, min(problem.coarse, fine)),
        resolution=(0.5 if problem.many else 0.25) * problem.tolerance,
        delta=min(SETTINGS.least_tail, problem.query.least or 1.0) if delta is None else delta,
        most_points=2 * SETTINGS.long_window,
    )


def _settled(problem: Problem, spacing: float) -> float:
    """The spacing; of many rounds a little smaller, so that one round more asks for the same."""
    if not problem.many:
        return spacing
    return float(2.0 ** (math.floor(4.0 * math.log2(spacing)) / 4.0))


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

    Args:
        problem: the question.
        plan: the last one with a transform.
        epsilon: rough value of the epsilon that the answer comes from, nats.
        cells: number of cells of the grid, up to the end of its window.

    Returns:
        The plan; None if there is no window of such a size.
    """
    top = min(4.0 * max(epsilon, problem.deviation), problem.largest)
    if not 0.0 < top < math.inf:
        return None
    resolution = 0.25 * problem.tolerance
    return replace(plan, spacing=top / cells, resolution=resolution, top=top)
