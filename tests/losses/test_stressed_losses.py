"""Losses under stress: tails of a tenth, losses that are off, probabilities that err all one way.

The truth is enumerated in fractions, or has 50 digits; containment is strict unless a line says
what its tolerance is for.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from oracles.atoms import divergence
from oracles.precision import MP, Real, exact

import shuffle_accountant as sa
from shuffle_accountant.lattice.grid import Array, PldAtoms
from shuffle_accountant.losses import counts
from shuffle_accountant.losses.base import HOCKEY_STICK, Effort
from shuffle_accountant.losses.combined.mixture import MixtureLoss, Part
from shuffle_accountant.losses.combined.subsampled import DilutedLoss, SubsampledLoss
from shuffle_accountant.losses.counts import CountBlocks, count_blocks
from shuffle_accountant.losses.decoy_counts import Decoys, NumberOfClones, count_law, joined
from shuffle_accountant.losses.steps import antipodal, null_clones
from shuffle_accountant.losses.steps.antipodal import AntipodalLoss
from shuffle_accountant.losses.steps.gaussian import GaussianRatio, gaussian_profile
from shuffle_accountant.losses.tabulated import LossBounds, PldTable, TabulatedLoss
from shuffle_accountant.losses.two_letters import atoms, binary, clone_table
from shuffle_accountant.losses.two_letters import tail as tail_module
from shuffle_accountant.losses.two_letters.atoms import CellSums, HalfAtoms
from shuffle_accountant.losses.two_letters.binary import BinaryBlocks, BinaryLoss
from shuffle_accountant.losses.two_letters.tail import ProbabilisticDpLoss
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.probabilities import normal_cells
from shuffle_accountant.numerics.rounding import Bound, roundings
from shuffle_accountant.sums.doubling import SumLaw
from shuffle_accountant.sums.statistic import Hypotheses

UNIT = 2.0**-34
SIDES = pytest.mark.parametrize("side", list(Bound))
ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 1.0])
BUDGETS: dict[str, dict[str, float]] = {
    "as it is": {},
    "roundings up": {"roundoff": UNIT, "adverse": 1.0},
    "roundings down": {"roundoff": UNIT, "adverse": -1.0},
}
budgets = pytest.mark.parametrize("name", BUDGETS)

KEPT = (
    counts.count_blocks,
    count_law,
    atoms._unit_atoms,
    clone_table._weights,
    clone_table._rows,
    antipodal._atoms,
    null_clones._envelope,
)


@contextmanager
def stressed(name: str, **more: float) -> Iterator[None]:
    """A budget, and nothing that was kept from another one before and after."""
    for function in KEPT:
        function.cache_clear()
    with stress(**BUDGETS.get(name, {}), **more):
        yield
    for function in KEPT:
        function.cache_clear()


def real(value: Fraction) -> Real:
    return MP.mpf(value.numerator) / value.denominator


def bounds(found: Any, truth: Any, side: Bound) -> bool:
    return bool(found >= truth if side is Bound.PESSIMISTIC else found <= truth)


def edges(spacing: float) -> Any:
    def made(largest: float) -> Array:
        return spacing * np.arange(math.ceil(largest / spacing) + 2)

    return made


# --------------------------------------------------------------------------------- counts of decoys


@cache
def binomial(trials: int, rate: Fraction) -> tuple[Fraction, ...]:
    return tuple(
        math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(trials + 1)
    )


def check_blocks(blocks: Any, truth: tuple[Fraction, ...], side: Bound, *, whole: bool) -> None:
    """Fewer decoys are worse: stochastically no more of them (PESSIMISTIC), or no fewer."""
    weight = list(map(Fraction, blocks.weight.tolist()))
    missing = Fraction(blocks.missing)
    for k in range(len(truth)):
        below = sum(truth[: k + 1])
        if side is Bound.PESSIMISTIC:
            kept = sum(w for w, low in zip(weight, blocks.low.tolist(), strict=True) if low <= k)
            assert kept + missing >= below
        else:
            kept = sum(w for w, high in zip(weight, blocks.high.tolist(), strict=True) if high <= k)
            assert kept <= below
    total = sum(weight)
    if side is Bound.PESSIMISTIC:
        assert total + missing >= 1
    elif whole:
        assert total <= 1 <= total + missing + 2 * Fraction(blocks.round_off) + Fraction(1, 10**12)


@pytest.mark.slow
@budgets
@SIDES
@pytest.mark.parametrize("by_tails", [False, True])
def test_blocks_of_counts(
    by_tails: bool, side: Bound, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_tails:
        monkeypatch.setattr(counts, "COUNTS", replace(counts.COUNTS, added=0))
    for trials, rate in ((9, 0.25), (40, 0.5), (200, 0.0625)):
        truth = binomial(trials, Fraction(rate))
        for tail, resolution in ((0.2, 0.0), (0.05, 0.3), (1e-20, 0.0)):
            with stressed(name):
                blocks = count_blocks(
                    trials, rate, 1 - rate, side, tail=tail, resolution=resolution
                )
            check_blocks(blocks, truth, side, whole=True)


@budgets
@SIDES
def test_counts_of_groups(side: Bound, name: str) -> None:
    groups = Decoys(30, 0.25, 0.75), Decoys(12, 0.5, 0.5), Decoys(3, 1.0, 0.0)
    truth = [Fraction(1)]
    for group in groups:
        one = binomial(group.users, Fraction(group.chance))
        truth = [
            sum(
                (truth[i] * one[k - i] for i in range(len(truth)) if 0 <= k - i < len(one)),
                Fraction(0),
            )
            for k in range(len(truth) + group.users)
        ]
    for tail, resolution in ((0.2, 0.0), (0.05, 0.3), (1e-20, 0.0)):
        with stressed(name):
            blocks = count_law(groups, side, tail=tail, resolution=resolution)
        check_blocks(blocks, tuple(truth), side, whole=False)


@pytest.mark.parametrize("resolution", [0.0, 0.3])
def test_laws_of_groups_say_what_they_added_and_left_out(resolution: float) -> None:
    """Nothing errs: what the total is above one was added for rounding, and all of it is stated."""
    groups = Decoys(30, 0.25, 0.75), Decoys(12, 0.5, 0.5)
    with stressed("", roundoff=UNIT):
        blocks = count_law(groups, Bound.PESSIMISTIC, tail=1e-300, resolution=resolution)
    added = sum(map(Fraction, blocks.weight.tolist())) - 1
    assert 0.5 * blocks.round_off <= added <= blocks.round_off
    assert blocks.missing >= 1.9e-300  # as much again for products below all doubles
    assert (blocks.weight.size < 43) == (resolution > 0.0)
    certain = count_law((Decoys(5, 1.0, 0.0),), Bound.PESSIMISTIC, tail=0.1, resolution=0.0)
    assert (certain.missing, certain.low.tolist()) == (0.0, [5.0])


@budgets
@SIDES
def test_blocks_taken_together_are_on_their_side(side: Bound, name: str) -> None:
    """Weights that are exact, so that only their sums err."""
    low = np.arange(40.0)
    given = CountBlocks(np.arange(1.0, 41.0) / 1024.0, low, low, 0.125, 0.25)
    with stressed(name):
        found = joined(given, side, 0.3)
        error = roundings(40.0)
    assert found.weight.size < 20
    for weight, first, last in zip(found.weight, found.low, found.high, strict=True):
        truth = sum(range(int(first) + 1, int(last) + 2))
        assert bounds(Fraction(weight) * 1024, truth, side)
    assert found.missing == 0.125
    assert found.round_off == 0.25 + error


# ----------------------------------------------------------------------------------- binary targets


@dataclass(frozen=True)
class Binary:
    """The pair of a binary target among clones, in fractions."""

    gap: Fraction
    decoys: int
    rate: Fraction

    @cache  # noqa: B019 - of three oracles
    def delta(self, epsilon: float) -> Real:
        alpha = MP.exp(exact(epsilon)) if epsilon < math.inf else None
        total = exact(0)
        for c, weight in enumerate(binomial(self.decoys, self.rate)):
            m = c + 1
            for a in range(m + 1):
                z = self.gap * (2 * a - m) / m
                p, q = real(1 + z), real(1 - z)
                above = (p if q == 0 else 0) if alpha is None else max(p - alpha * q, 0)
                total += real(weight * math.comb(m, a)) / 2**m * above
        return total


SOURCES = {
    "two letters": (
        NumberOfClones.from_chances(0.75, 0.25, decoys=12, rate=0.5, idle=0.5),
        Binary(Fraction(1, 2), 12, Fraction(1, 2)),
    ),
    "all of them": (
        NumberOfClones.from_chances(0.75, 0.25, decoys=63, rate=1.0, idle=0.0),
        Binary(Fraction(1, 2), 63, Fraction(1)),
    ),
    "nearly all": (
        NumberOfClones.from_chances(0.75, 0.25, decoys=12, rate=0.875, idle=0.125),
        Binary(Fraction(1, 2), 12, Fraction(7, 8)),
    ),
    "never lies": (
        NumberOfClones(1.0, -math.inf, math.inf, 9, 0.25, 0.75),
        Binary(Fraction(1), 9, Fraction(1, 4)),
    ),
    "many": (
        NumberOfClones.from_chances(0.625, 0.375, decoys=30, rate=0.75, idle=0.25),
        Binary(Fraction(1, 4), 30, Fraction(3, 4)),
    ),
}
# nothing is cut off; far tails; blocks; both
EFFORTS = (Effort(1e-30, 0.0), Effort(0.9, 0.0), Effort(1e-30, 0.4), Effort(0.05, 0.4))
EPSILONS = (0.0, 0.1, 0.35, 0.8, 1.5)


@budgets
@SIDES
@pytest.mark.parametrize("source", SOURCES)
def test_binary_deltas(source: str, side: Bound, name: str) -> None:
    clones, oracle = SOURCES[source]
    for epsilon in (*EPSILONS, math.inf):
        truth = oracle.delta(epsilon)
        for effort in EFFORTS:
            with stressed(name):
                found = BinaryLoss(clones).delta(epsilon, side, effort)
            assert bounds(exact(found), truth, side), (epsilon, effort)


@pytest.mark.slow
@budgets
@SIDES
@pytest.mark.parametrize("celled", [False, True])
@pytest.mark.parametrize("source", SOURCES)
def test_binary_atoms(source: str, celled: bool, side: Bound, name: str) -> None:
    clones, oracle = SOURCES[source]
    for effort in EFFORTS:
        effort = replace(effort, most_atoms=1 if celled else 1 << 20)
        with stressed(name):
            atoms = BinaryLoss(clones).atoms(side, edges(0.01), effort)
        for epsilon in (*EPSILONS, -0.5):
            # the mirror image of the divergence: 1 - alpha + alpha H(1/alpha), of a symmetric pair
            truth = oracle.delta(abs(epsilon))
            if epsilon < 0.0:
                truth = 1 - MP.exp(exact(epsilon)) * (1 - truth)
            if celled and side is Bound.OPTIMISTIC:
                truth += exact("1e-12")  # losses of cells are quotients of sums
            assert bounds(divergence(atoms, epsilon), truth, side), (epsilon, effort)
        assert bounds(exact(atoms.infinite), oracle.delta(math.inf), side)
        total = sum(map(Fraction, [*atoms.mass.tolist(), atoms.infinite]))
        assert bounds(total, 1, side)


@ADVERSE
@pytest.mark.parametrize(("gap", "rest"), [(1.0, 0.0), (0.875, 0.125)])
def test_divergences_given_counts_far_from_the_mean(
    gap: float, rest: float, adverse: float
) -> None:
    """The rounding of a probability grows with its logarithm, beyond that of anything else."""
    m = np.array([64.0, 400.0, 1000.0])
    log_rest = math.log(rest) if rest else -math.inf
    blocks = BinaryBlocks(np.ones(3), m, np.full(3, gap), np.full(3, log_rest), 0.0, 0.0, 0.0)
    for epsilon in (0.0, 0.5, 2.0, 2.6, *((5.0, 8.0) if rest == 0.0 else ())):
        with stressed("", roundoff=2.0**-30, adverse=adverse):
            low, high = binary._conditional(epsilon, blocks)
        alpha = MP.exp(exact(epsilon))
        for total, below, above in zip(m.tolist(), low.tolist(), high.tolist(), strict=True):
            whole, truth = int(total), exact(0)
            for a in range(whole + 1):
                z = exact(gap) * (2 * a - whole) / whole
                truth += math.comb(whole, a) * max(1 + z - alpha * (1 - z), 0)
            truth /= exact(2) ** whole
            assert exact(below) <= truth <= exact(above) <= truth * exact("1.01")


def test_few_messages_that_all_may_tell_are_not_merged_with_others() -> None:
    """Little memory, and no block whose last atom is finite: the infinite ones stay infinite."""
    randomizer = sa.RandomizedResponse(categories=2, eps0=0.1)
    one = sa.ShuffleRound(randomizer, users=160, reduction="strong", variant="paper")
    wide, narrow = (
        sa.FourierAccountant(memory_limit=limit).compose(one, count=2).delta(epsilon=9.0)
        for limit in (2**20, 2**30)
    )
    assert wide.lower <= narrow.upper
    assert narrow.lower <= wide.upper <= 1.01 * narrow.upper


@budgets
def test_atoms_listed_in_runs_state_their_error(name: str) -> None:
    """One by one: masses, what they differ by, and losses."""
    m, gap = np.array([7.0, 400.0, 401.0]), np.array([0.5, 0.25, 0.75])
    first, last = np.array([4.0, 201.0, 201.0]), np.array([7.0, 330.0, 401.0])
    arrays = m, gap, np.log1p(-gap), first, last
    with stressed(name):
        lengths, found = atoms._unit_atoms(*(x.tobytes() for x in arrays))
        rest = np.exp(np.log1p(-gap))
    place = 0
    for i, length in enumerate(lengths.tolist()):
        z, total = Fraction(gap[i]), int(m[i])
        for a in range(int(first[i]), int(last[i]) + 1):
            assert rest[i] == pytest.approx(float(1 - z), rel=1e-15)
            chance = Fraction(math.comb(total, a), 2**total)
            p, q = (chance * (1 + s * z * (2 * a - total) / total) for s in (1, -1))
            slack = Fraction(found.slack[place])
            for given, truth in (
                (found.mass, p),
                (found.other, q),
                (found.difference, p - q),
            ):
                assert abs(Fraction(given[place]) - truth) <= slack * truth
            off = abs(exact(found.loss[place]) - MP.log(real(p / q)))
            assert off <= exact(found.loss_error[place])
            place += 1
        assert length == last[i] - first[i] + 1


@budgets
def test_sums_of_cells_state_their_error(name: str) -> None:
    """Masses that are off by a fiftieth and losses by a hundredth, in sums of many."""
    rng = np.random.default_rng(8)
    loss = rng.uniform(0.01, 6.0, 400)
    other = rng.integers(1, 2**20, 400) / 2.0**20
    difference = rng.integers(1, 2**20, 400) / 2.0**20 * np.round(64.0 * np.exp(loss)) / 64.0
    with stressed(name):
        sums = CellSums(0.5 * np.arange(13))
        for part in np.split(np.arange(400), 4):
            p, q = difference[part], other[part]
            half = HalfAtoms(q + p, q, p, loss[part], np.full(100, 0.02), np.full(100, 0.01))
            sums.add(half)
        alone = HalfAtoms(*(np.array([x]) for x in (0.5, 0.0, 0.5, math.inf, 0.0, 0.0)))
        sums.add(alone)
        far = HalfAtoms(*(np.array([x]) for x in (0.75, 0.25, 0.5, 9.0, 0.0, 0.0)))
        sums.add(far)
        found = sums.atoms()
    assert found.loss[-1] == math.inf
    assert found.mass[-1] <= 0.5 * (1.0 + found.slack[-1])
    cells = np.append(np.searchsorted(0.5 * np.arange(13), loss, side="right"), 13)
    other, difference = np.append(other, 0.25), np.append(difference, 0.5)
    for i, cell in enumerate(np.unique(cells).tolist()):
        q = sum(map(Fraction, other[cells == cell].tolist()))
        d = sum(map(Fraction, difference[cells == cell].tolist()))
        # of the exact sums of what was given, besides what that was off
        slack, moved = exact(found.slack[i]) - exact(0.02), exact(found.loss_error[i]) - exact(0.01)
        assert slack > 0
        assert abs(exact(found.mass[i]) - real(q + d)) <= slack * real(q + d)
        assert abs(exact(found.other[i]) - real(q)) <= slack * real(q)
        assert abs(exact(found.loss[i]) - MP.log(real((q + d) / q))) <= moved


@budgets
@SIDES
def test_atoms_from_the_table_of_counts(side: Bound, name: str) -> None:
    source, oracle = SOURCES["many"]
    for tail in (1e-20, 0.05):
        with stressed(name):
            atoms = source.tabled(side, edges(0.01), Effort(tail, 0.01, many=True))
        assert atoms is not None
        for epsilon in (*EPSILONS[:4], -0.3):
            truth = oracle.delta(abs(epsilon))
            if epsilon < 0.0:
                truth = 1 - MP.exp(exact(epsilon)) * (1 - truth)
            assert bounds(divergence(atoms, epsilon), truth, side), (epsilon, tail)


@SIDES
def test_rows_of_the_table_of_counts_may_err(side: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows are off by a hundredth, the worse way, and cells are far narrower."""
    law, error = clone_table.CloneTable.law, 0.01

    def wrong(table: Any, first: int, weight: Array) -> Any:
        up, down, tied, relative = law(table, first, weight)
        by = 1.0 / (1.0 + error) if side is Bound.PESSIMISTIC else 1.0 + error
        return up * by, down * by, tied * by, error + 1.1 * relative

    monkeypatch.setattr(clone_table.CloneTable, "law", wrong)
    source, oracle = SOURCES["many"]
    atoms = source.tabled(side, edges(1e-4), Effort(1e-20, 0.01, many=True))
    assert atoms is not None
    for epsilon in (*EPSILONS[:4], -0.3):
        truth = oracle.delta(abs(epsilon))
        if epsilon < 0.0:
            truth = 1 - MP.exp(exact(epsilon)) * (1 - truth)
        assert bounds(divergence(atoms, epsilon), truth, side), epsilon


@budgets
@SIDES
def test_rows_of_the_table_of_counts_have_the_right_weights(
    side: Bound, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, Array]] = []
    law = clone_table.CloneTable.law

    def noted(table: Any, first: int, weight: Array) -> Any:
        given.append((first, weight))
        return law(table, first, weight)

    monkeypatch.setattr(clone_table.CloneTable, "law", noted)
    source, _ = SOURCES["many"]
    truth = binomial(30, Fraction(3, 4))
    for tail, resolution in ((1e-20, 0.01), (0.3, 0.01), (0.3, 0.2)):
        with stressed(name):
            atoms = source.tabled(side, edges(0.01), Effort(tail, resolution, many=True))
            found = clone_table._weights(30, 0.75, 0.25, resolution, tail)
        assert atoms is not None
        first, weight = given[-1]
        counts_ = clone_table.block_edges(resolution)[first : first + weight.size].tolist()
        for k in range(31):
            kept = sum(Fraction(w) for w, c in zip(weight.tolist(), counts_, strict=True) if c <= k)
            if side is Bound.PESSIMISTIC:
                assert kept + Fraction(found.below) >= sum(truth[: k + 1])
            else:
                assert kept <= sum(truth[: k + 1])
        total = sum(map(Fraction, weight.tolist()))
        left = found.below + (0.0 if side is Bound.PESSIMISTIC else found.above) + 0.25 * tail
        assert left <= atoms.truncated <= left * (1.0 + 1e-6)
        if side is Bound.PESSIMISTIC:
            assert total >= 1 - sum(truth[: int(counts_[0])])
            assert atoms.infinite >= left
        else:
            assert total + Fraction(found.below) + Fraction(found.above) >= 1 - Fraction(1e-6)
        assert tail < 0.1 or found.below + found.above > 0.1


# ---------------------------------------------------------------------- losses made of other losses


@dataclass(frozen=True)
class Symmetric:
    """A pair with atoms (p, p e^-x), their mirror images and one at 0; losses may be off."""

    losses: tuple[float, ...]
    masses: tuple[float, ...]
    infinite: float
    loss_error: float = 0.0
    truncated: float = 0.0
    largest: float = math.inf
    deviation: float = 1.0

    def pair(self, moved: Any = 0) -> list[tuple[Real, Real]]:
        """(P, Q) of all atoms, the losses moved away from 0."""
        ends = [(exact(p), exact(p) * MP.exp(-exact(x) - moved)) for x, p in self._atoms()]
        pairs = [*ends, *((q, p) for p, q in ends)]
        pairs += [(exact(self.infinite), exact(0)), (exact(0), exact(self.infinite))]
        rest = 1 - MP.fsum(p for p, _ in pairs)
        return [*pairs, (rest, rest)]

    def _atoms(self) -> Iterator[tuple[float, float]]:
        return zip(self.losses, self.masses, strict=True)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        alpha = MP.exp(exact(epsilon)) if epsilon < math.inf else None
        found = MP.fsum(
            max(p - alpha * q, 0) if alpha is not None else (p if q == 0 else 0)
            for p, q in self.pair()
        )
        value = float(found)
        if bounds(exact(value), found, side):
            return value
        return math.nextafter(value, 2.0 if side is Bound.PESSIMISTIC else 0.0)

    def atoms(self, side: Bound, edges: Any, effort: Effort) -> PldAtoms:
        mass, loss = np.array(self.masses), np.array(self.losses)
        rest = 1.0 - float(np.sum(mass * (1.0 + np.exp(-loss)))) - self.infinite
        edges(float(loss.max()))
        return PldAtoms(
            side,
            np.concatenate([mass, mass * np.exp(-loss), [rest]]),
            np.concatenate([loss, -loss, [0.0]]),
            self.infinite,
            self.truncated,
            0.0625,
            self.loss_error,
        )

    @property
    def reversed(self) -> Symmetric:
        return self


INNER = Symmetric((0.3, 1.0, 2.0, 40.0), (0.125, 0.125, 0.0625, 0.03125), 0.03125)


def mixed(pair: list[tuple[Real, Real]], g: float, epsilon: float) -> Real:
    """The larger divergence of g P + (1 - g) Q from Q, and of P from g Q + (1 - g) P."""
    alpha, share = MP.exp(exact(epsilon)), exact(g)
    return max(
        MP.fsum(max(share * p + (1 - share) * q - alpha * q, 0) for p, q in pair),
        MP.fsum(max(p - alpha * (share * q + (1 - share) * p), 0) for p, q in pair),
    )


@budgets
@SIDES
@pytest.mark.parametrize("g", [0.01, 0.3, 0.9])
def test_subsampled_deltas(g: float, side: Bound, name: str) -> None:
    for epsilon in (0.0, 1e-3, 0.1, 0.5, 1.5, 35.0):
        with stressed(name):
            found = SubsampledLoss(INNER, g).delta(epsilon, side, EFFORTS[0])  # type: ignore[arg-type]
        assert bounds(exact(found), mixed(INNER.pair(), g, epsilon), side), epsilon


@budgets
@SIDES
@pytest.mark.parametrize("error", [0.0, 0.01])
@pytest.mark.parametrize("g", [0.01, 0.3, 0.9])
def test_subsampled_atoms(g: float, error: float, side: Bound, name: str) -> None:
    """The inner losses may be further from 0 by all of their error, or nearer."""
    inner = replace(INNER, loss_error=error, truncated=0.03125)
    with stressed(name):
        atoms = SubsampledLoss(inner, g).atoms(side, edges(0.1), EFFORTS[0])  # type: ignore[arg-type]
        added = 0.9 * roundings(20.0)
    assert atoms.truncated == 0.03125
    assert atoms.round_off >= 0.0625 + added
    for sign in (-1, 1):
        pair = inner.pair(sign * exact(error))
        for epsilon in (-0.7, -0.1, 0.0, 0.05, 0.2, 0.5, 1.5, 35.0, 39.5):
            truth = mixed(pair, g, epsilon)
            # Q-masses of the atoms below 0, given as doubles, are off by a unit in their last place
            slack = exact("1e-15") if side is Bound.OPTIMISTIC else exact("-1e-15")
            assert bounds(divergence(atoms, epsilon), truth + slack, side), (epsilon, sign)


@ADVERSE
@SIDES
def test_subsampled_masses_that_err(side: Bound, adverse: float) -> None:
    """Tiny losses, so that the error of losses says nothing about masses."""
    tiny = Symmetric((1e-3, 2e-3), (0.25, 0.125), 0.0)
    with stress(roundoff=UNIT, adverse=adverse):
        atoms = SubsampledLoss(tiny, 0.3).atoms(side, edges(1e-4), EFFORTS[0])  # type: ignore[arg-type]
    for epsilon in (-2.0, -1.0, -0.5):
        truth = mixed(tiny.pair(), 0.3, epsilon)
        slack = exact("1e-15") if side is Bound.OPTIMISTIC else exact("-1e-15")
        assert bounds(divergence(atoms, epsilon), truth + slack, side)


@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
def test_largest_losses_of_samples_are_rounded_up(adverse: float) -> None:
    """Down to the last double, a fraction of which is none."""
    for largest in (5e-324, 1e-310, 1e-12, 0.1, 3.0, 29.0, 31.0, 700.0):
        for g in (0.001, 0.3, 0.7, 0.999):
            inner = replace(INNER, largest=largest)
            truth = MP.log1p(exact(g) * MP.expm1(exact(largest)))
            with stress(roundoff=UNIT, adverse=adverse):
                found = exact(SubsampledLoss(inner, g).largest)  # type: ignore[arg-type]
            assert truth <= found <= truth * (1 + 60 * exact(UNIT)) + exact(1e-323)


@budgets
@SIDES
def test_diluted_losses(side: Bound, name: str) -> None:
    diluted = DilutedLoss(replace(INNER, loss_error=0.01, truncated=0.03125), 0.25, 0.75)  # type: ignore[arg-type]
    with stressed(name):
        atoms = diluted.atoms(side, edges(0.1), EFFORTS[0])
        error = roundings(16.0)
    assert (atoms.loss_error, atoms.truncated) == (0.01, 0.03125)
    assert atoms.round_off == 0.0625 + error
    assert bounds(exact(atoms.infinite), 0.25 * exact(INNER.infinite), side)
    for epsilon in (0.0, 0.2, 0.9, 1.5, 30.0, math.inf):
        truth = 0.25 * exact(INNER.delta(epsilon, side, EFFORTS[0]))
        with stressed(name):
            found = diluted.delta(epsilon, side, EFFORTS[0])
        assert bounds(exact(found), truth, side)
        if epsilon < math.inf:
            assert bounds(divergence(atoms, epsilon), truth, side)
    total = math.fsum(atoms.mass.tolist()) + atoms.infinite
    assert total >= 1.0 if side is Bound.PESSIMISTIC else total <= 1.0


@dataclass(frozen=True)
class Two:
    """Two rounds, harmless ones, and what is left out."""

    largest: float = math.inf
    deviation: float = 1.0
    error: float = 0.002

    def parts(self, side: Bound, effort: Effort) -> tuple[tuple[Part, ...], float]:
        near = replace(INNER, loss_error=self.error, truncated=0.25)
        far = Symmetric((0.5, 3.0), (0.25, 0.125), 0.0, 5.0 * self.error)
        return (Part(0.25, near), Part(0.5, far), Part(0.125, None)), 0.125  # type: ignore[arg-type]


@budgets
@SIDES
@pytest.mark.parametrize("error", [0.0, 0.002])
@pytest.mark.parametrize("largest", [math.inf, 40.0])
def test_mixtures_count_what_they_leave_out(
    largest: float, error: float, side: Bound, name: str
) -> None:
    """Side by side, or added up cell by cell; losses that are off or not."""
    source, upper = Two(largest=largest, error=error), side is Bound.PESSIMISTIC
    (near, far, _), missing = source.parts(side, EFFORTS[0])
    with stressed(name):
        mixture = MixtureLoss(source)
        atoms = mixture.atoms(side, edges(0.1), EFFORTS[0])
    if largest == math.inf:
        assert atoms.loss_error == 5.0 * error
    else:  # and sums in cells are rounded, at the largest loss of about 3 too
        with stressed(name):
            assert atoms.loss_error >= 5.0 * error + 4.0 * roundings(8.0) * 2.9
    assert atoms.truncated == pytest.approx(0.25 * 0.25 + 0.125)
    with stressed(name):
        least = 0.75 * roundings(8.0)
    assert atoms.round_off >= 0.75 * 0.0625 + least
    for epsilon in (-2.5, -0.7, 0.0, 0.2, 0.9, 1.5, 2.9):
        truth = exact(missing) if upper else exact(0)
        for part in (near, far):
            value = exact(part.loss.delta(abs(epsilon), side, EFFORTS[0]))  # type: ignore[union-attr]
            if epsilon < 0.0:
                value = 1 - MP.exp(exact(epsilon)) * (1 - value)
            truth += exact(part.weight) * value
        if epsilon < 0.0:
            truth += exact(0.125) * -MP.expm1(exact(epsilon))
        known = exact(0.25 * 0.03125 + (missing if upper else 0.0))
        assert bounds(exact(atoms.infinite), known, side)
        # of the exact sides of parts, whose masses were given as doubles
        slack = exact("-1e-15") if upper else exact("1e-15")
        assert bounds(divergence(atoms, epsilon), truth + slack, side), epsilon
        if epsilon >= 0.0:
            with stressed(name):
                found = mixture.delta(epsilon, side, EFFORTS[0])
            assert bounds(exact(found), truth, side)


def test_losses_too_large_to_be_added_up_keep_their_error() -> None:
    """Of a part of which nothing is added to others, as no ratio above e^650 is."""

    @dataclass(frozen=True)
    class NearAndFar(Two):
        def parts(self, side: Bound, effort: Effort) -> tuple[tuple[Part, ...], float]:
            far = Symmetric((660.0,), (0.25,), 0.0, 0.01)
            return (Part(0.5, INNER), Part(0.5, far)), 0.0  # type: ignore[arg-type]

    for largest in (math.inf, 660.0):
        atoms = MixtureLoss(NearAndFar(largest=largest)).atoms(
            Bound.PESSIMISTIC, edges(0.1), EFFORTS[0]
        )
        assert atoms.loss.max() == 660.0
        assert 0.01 <= atoms.loss_error < 0.011


@SIDES
@pytest.mark.parametrize("tail", [1e-30, 0.3])
def test_tables_count_what_is_missing_and_cut(tail: float, side: Bound) -> None:
    losses, masses = [-1.0, -0.25, 0.5, 1.5], [0.0625, 0.25, 0.25, 0.125]
    low = PldTable(losses, masses, infinity_mass=0.125)  # an eighth of a half is missing
    bounds_ = LossBounds(low, low)
    loss = TabulatedLoss(bounds_, bounds_)
    atoms = loss.atoms(side, edges(0.1), Effort(tail, 0.0))
    infinite = exact(0.125) + (exact(0.1875) if side is Bound.PESSIMISTIC else 0)
    for epsilon in (-1.2, -0.5, 0.0, 0.3, 1.2):
        truth = infinite + MP.fsum(
            exact(p) * -MP.expm1(exact(epsilon) - exact(x))
            for x, p in zip(losses, masses, strict=True)
            if x > epsilon
        )
        assert bounds(divergence(atoms, epsilon), truth, side)
        if epsilon >= 0.0:
            assert bounds(exact(loss.delta(epsilon, side, Effort(tail, 0.0))), truth, side)
    assert tail < 0.1 or atoms.truncated > 0.05


# --------------------------------------------------------------------------------- probabilistic DP


@cache
def tail_atoms(decoys: int, rate: Fraction) -> list[tuple[Real, Fraction]]:
    """Losses log(a/b), a = 1 + A of m = C + 1 letters, A ~ Bin(C, 1/2), and probabilities."""
    found: dict[Fraction | None, Fraction] = {}
    for c, weight in enumerate(binomial(decoys, rate)):
        for more in range(c + 1):
            ratio = Fraction(more + 1, c - more) if more < c else None
            found[ratio] = found.get(ratio, Fraction(0)) + weight * Fraction(
                math.comb(c, more), 2**c
            )
    return [(MP.inf if x is None else MP.log(real(x)), p) for x, p in found.items()]


@cache
def tail_sums(decoys: int, rate: Fraction) -> tuple[list[Real], list[Real]]:
    """Losses in descending order, and the probability of the first ones, as many as the index."""
    atoms = sorted(tail_atoms(decoys, rate), reverse=True)
    sums = accumulate((p for _, p in atoms), initial=Fraction(0))
    return [x for x, _ in atoms], [real(total) for total in sums]


@cache
def tail_probability(decoys: int, rate: Fraction, epsilon: float) -> Real:
    """``P(log(a/b) >= epsilon)``."""
    losses, sums = tail_sums(decoys, rate)
    level = exact(epsilon)
    return sums[bisect_right(losses, -level, key=lambda x: -x)]


def tail_loss(decoys: int, rate: float) -> ProbabilisticDpLoss:
    """The loss of a target that never lies among that many decoys."""
    return ProbabilisticDpLoss(NumberOfClones(1.0, -math.inf, math.inf, decoys, rate, 1.0 - rate))


def check_tails(atoms: PldAtoms, decoys: int, rate: float, epsilons: Any) -> None:
    """``P(loss >= x)`` of atoms whose losses are moved by their error is on its side."""
    upper = atoms.side is Bound.PESSIMISTIC
    above = atoms.loss + (1.0 if upper else -1.0) * atoms.loss_error
    for epsilon in epsilons:
        kept = MP.fsum(exact(p) for p in atoms.mass[above >= epsilon].tolist())
        truth = tail_probability(decoys, Fraction(rate), epsilon)
        assert bounds(kept + exact(atoms.infinite), truth, atoms.side), epsilon


# The engine's own limits; limits at which small examples take each other way of listing the law.
BLOCKS = {"COUNTS": replace(tail_module.COUNTS, added=-1)}
CELLS = {"TAIL": replace(tail_module.TAIL, listed=1, shared=4)}
WAYS: dict[str, dict[str, object]] = {
    "single counts": {},
    "blocks of both parities": {**BLOCKS},
    "cells of many values": {**CELLS},
    "both": {**BLOCKS, **CELLS},
}
THIRD = math.log(3.0)  # above and below what three of four letters say
LOSSES = (-0.4, 0.0, 0.07, 0.31, 0.72, THIRD, math.nextafter(THIRD, 0), 2.5, 4.0, 9.0)


@pytest.mark.slow
@budgets
@SIDES
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("decoys", "rate"), [(1, 0.25), (3, 0.75), (9, 0.25), (60, 0.25), (60, 1.0)]
)
def test_probabilistic_losses(
    decoys: int, rate: float, way: str, side: Bound, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, value in WAYS[way].items():
        monkeypatch.setattr(tail_module, limit, value)
    loss = tail_loss(decoys, rate)
    for effort in (Effort(1e-20, 1e-3), Effort(1e-20, 1.0), Effort(0.9, 1.0), Effort(0.01, 0.1)):
        with stressed(name):
            atoms = loss.atoms(side, edges(0.05), effort)
        check_tails(atoms, decoys, rate, (*LOSSES, -1.5, -3.0, -9.0))
        for epsilon in LOSSES[1:]:
            with stressed(name):
                found = loss.delta(epsilon, side, effort)
            truth = tail_probability(decoys, Fraction(rate), epsilon)
            assert bounds(exact(found), truth, side), (epsilon, effort)


@SIDES
def test_what_the_probabilistic_loss_leaves_out_is_stated(side: Bound) -> None:
    """Of the counts (a quarter of the tail on either side), and of their majorities."""
    upper = side is Bound.PESSIMISTIC
    for rate, left in ((1.0, 0.675 if upper else 0.45), (0.25, 0.9)):
        atoms = tail_loss(60, rate).atoms(side, edges(0.05), Effort(0.9, 1e-3))
        assert atoms.truncated >= (1.0 - 1e-9) * left
        assert not upper or atoms.infinite >= atoms.truncated


@budgets
@SIDES
@pytest.mark.parametrize(
    ("decoys", "rate", "tail"),
    [(400, 0.5, 1e-3), (400, 0.5, 0.5), (60, 0.02, 0.5), (60, 0.02, 1e-9), (1000, 0.25, 1e-20)],
)
def test_blocks_of_the_probabilistic_loss(
    decoys: int, rate: float, tail: float, side: Bound, name: str
) -> None:
    """Weights of counts of one parity, block by block, and what is in no block."""
    with stressed(name):
        blocks = tail_loss(decoys, rate)._blocks(side, tail, 0.5)
    truth = binomial(decoys, Fraction(rate))
    inside = [Fraction(0)] * (decoys + 1)
    last = int(blocks.high.max())
    for weight, low, high in zip(blocks.weight, blocks.low, blocks.high, strict=True):
        held = range(int(low), int(high) + 1, 2)
        for count in held:
            inside[count] += truth[count]
        if last not in held:  # those above the last one have joined it
            assert bounds(Fraction(weight), sum(truth[count] for count in held), side)
        assert high <= 1.5 * low + 2.0
    assert Fraction(blocks.missing) >= 1 - sum(inside)


@budgets
@SIDES
@pytest.mark.parametrize("factor", [1.0 - 7e-10, 1.0 - 1e-10, 1.0, 1.0 + 1e-10, 1.0 + 7e-10])
def test_probabilistic_losses_at_points_of_the_grid(factor: float, side: Bound, name: str) -> None:
    """The largest loss is so near a point that rounding decides which one it goes to."""
    finer = 1.0 if side is Bound.PESSIMISTIC else 0.25
    spacing = finer * factor * THIRD / 20.0
    with stressed(name):
        atoms = tail_loss(3, 0.25).atoms(side, edges(spacing), Effort(1e-20, 1e-3))
    near = [THIRD * (1.0 + x * 1e-11) for x in range(-100, 101, 4)]
    check_tails(atoms, 3, 0.25, [*near, *(-x for x in near)])


@pytest.mark.parametrize(("tail", "least"), [(1e-300, 1e-301), (2e-323, 1e-316)])
def test_probabilities_below_all_doubles_are_above_none(tail: float, least: float) -> None:
    """That all of 1200 messages are alike; products that small have lost their digits."""
    loss, effort = tail_loss(1200, 1.0), Effort(tail, 1e-3)
    assert least < loss.delta(math.inf, Bound.PESSIMISTIC, effort) <= 1e-300
    assert loss.delta(math.inf, Bound.OPTIMISTIC, effort) == 0.0
    assert 1e-300 < loss.atoms(Bound.PESSIMISTIC, edges(0.05), effort).infinite <= 1e-290
    assert loss.atoms(Bound.OPTIMISTIC, edges(0.05), effort).infinite == 0.0


@pytest.mark.slow
@ADVERSE
@SIDES
def test_far_tails_of_the_probabilistic_loss_in_cells(
    side: Bound, adverse: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At ends of cells of two values of R each, 25 to 35 deviations out."""
    count, upper = 4000, side is Bound.PESSIMISTIC
    cells = replace(tail_module.TAIL, listed=1, shared=900)
    monkeypatch.setattr(tail_module, "TAIL", cells)
    with stressed("", roundoff=UNIT, adverse=adverse):
        atoms = tail_loss(count, 1.0).atoms(side, edges(1e-5), Effort(1e-290, 1e-3))
    tails = np.cumsum(np.array([math.comb(count, k) for k in range(count // 2)], dtype=object))
    above = atoms.loss + (1.0 if upper else -1.0) * atoms.loss_error
    masses = np.array([exact(mass) for mass in atoms.mass.tolist()], dtype=object)
    for least in range(1600, 2200, 40):
        # a cell's values are taken for its largest one, or for its smallest
        value = least if upper else least - 2
        loss = math.log((count + 2 + value) / (count - value))
        x = loss * (1.0 - 1e-8) if upper else loss * (1.0 + 1e-8)
        kept = MP.fsum(masses[above >= x]) + exact(atoms.infinite)
        assert bounds(kept, MP.mpf(int(tails[(count - least) // 2])) / MP.mpf(2) ** count, side)


def test_lower_ends_of_probabilities_that_lose_digits() -> None:
    """Products down to the smallest doubles stay there, however small what they stand for."""
    count = 20_000
    law, tails, total = 1, [], 0
    for more in range(count + 1):  # from all messages alike to half of them
        total += law
        tails.append((count - 2 * more, total))
        law = law * (count - more) // (more + 1)
        if 2 * more > count:
            break
    atoms = tail_loss(count, 1.0).atoms(Bound.OPTIMISTIC, edges(1e-3), Effort(1e-321, 1e-3))
    above = atoms.loss - atoms.loss_error
    for majority, ways in tails:
        if not 5000 <= majority <= 5450:
            continue
        # the next smaller majority has a smaller loss
        epsilon = MP.log(exact(majority) - 1 + count + 1) - MP.log(exact(count - majority + 2))
        kept = MP.fsum(map(exact, atoms.mass[above > float(epsilon) * (1 + 1e-12)].tolist()))
        truth = MP.mpf(ways) / MP.mpf(2) ** count
        assert kept <= truth


def test_wide_blocks_of_the_probabilistic_loss_have_ordered_ends() -> None:
    for decoys in (10**3, 10**5, 10**7):
        source = NumberOfClones(1.0, -math.inf, math.inf, decoys, 0.25, 0.75)
        loss, scale = ProbabilisticDpLoss(source), 2.0 / math.sqrt(0.25 * decoys)
        for z in (0.5, 2.0, 4.0):
            low, high = (
                loss.delta(z * scale, side, Effort(1e-30, 1e-2))
                for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
            )
            # a block is 0.04 wide at most, and delta falls like e^(-z^2 / 2)
            assert 0.0 < low < high < 1.1 * math.exp(0.08 * z**2) * low


# ------------------------------------------------------------------------------------ normal masses


def phi(x: Any) -> Real:
    return MP.ncdf(exact(x))


def call(sigma: float, strike: float) -> tuple[Real, Real]:
    """``E(W - K)_+`` and ``E(K - W)_+`` of the lognormal ratio, by the normal law."""
    place = (MP.log(exact(strike)) + exact(0.5) / exact(sigma) ** 2) * exact(sigma)
    gain, cost = phi(1 / exact(sigma) - place), phi(-place)
    return gain - exact(strike) * cost, exact(strike) * (1 - cost) - (1 - gain)


@SIDES
@pytest.mark.parametrize("tail", [1e-20, 1e-3, 0.3])
@pytest.mark.parametrize("users", [1, 1000])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_normal_ratios_that_leave_much_out(
    sigma: float, users: int, tail: float, side: Bound
) -> None:
    law = GaussianRatio(sigma).ratios(side, users=users, width=0.05, tail=tail)
    value = list(map(exact, law.value.tolist()))
    mass = list(map(exact, law.mass.tolist()))
    sign = 1 if side is Bound.PESSIMISTIC else -1
    moved = exact(law.moved) * sign
    for strike in (0.05, 0.5, 0.9, 1.0, 1.3, 3.0, 20.0):
        calls, puts = call(sigma, strike)
        level = exact(strike)
        found = MP.fsum(
            p * max(x * (1 + moved) - level, 0) for x, p in zip(value, mass, strict=True)
        )
        other = MP.fsum(
            p * max(level - x * (1 - moved), 0) for x, p in zip(value, mass, strict=True)
        )
        if side is Bound.PESSIMISTIC:
            assert found + exact(law.lost_gain) >= calls
            assert other + level * exact(law.lost) >= puts
        else:
            assert found <= calls
            assert other <= puts
    assert exact(law.lost) + MP.fsum(mass) >= 1 - exact("1e-12")
    if side is Bound.PESSIMISTIC:  # whose values are the ends of the scores
        shift = 1 / exact(sigma)
        low, high = (MP.log(x) / shift + shift / 2 for x in (value[0], value[-1]))
        nearly = 1 - exact("1e-10")
        assert exact(law.lost) >= nearly * (phi(low) + phi(-high))
        assert exact(law.lost_gain) >= nearly * (phi(low - shift) + phi(shift - high))


@SIDES
@pytest.mark.parametrize("sigma", [0.1, 1.0, 5.0])
def test_the_gaussian_profile_is_on_its_side(sigma: float, side: Bound) -> None:
    for epsilon in (0.0, 1e-6, 0.3, 2.0, 20.0):
        shift = 1 / exact(sigma)
        place = exact(epsilon) / shift
        truth = phi(shift / 2 - place) - MP.exp(exact(epsilon)) * phi(-shift / 2 - place)
        found = exact(gaussian_profile(sigma, epsilon, side))
        assert bounds(found, truth, side)
        assert abs(found - truth) <= exact("1e-9") * truth + exact("1e-299")


@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
def test_cells_of_normal_mass_are_within_their_error(adverse: float) -> None:
    scores = np.linspace(-20.0, 25.0, 451)
    with stress(normal=1e-9 if adverse else 1e-11, adverse=adverse):
        cells = normal_cells(scores).tolist()
    with MP.workdps(120):
        for a, b, found in zip(scores[:-1].tolist(), scores[1:].tolist(), cells, strict=True):
            truth = phi(b) - phi(a) if a < 0.0 else phi(-a) - phi(-b)
            assert abs(exact(found) - truth) <= exact(1.02e-9 if adverse else 1e-11) * truth


@pytest.mark.parametrize("adverse", [-1.0, 1.0])
@pytest.mark.parametrize("sigma", [0.7, 2.0])
def test_letters_of_the_antipodal_pair_may_err(sigma: float, adverse: float) -> None:
    """One batch: the pair is that of two normal laws, a deviation apart."""
    for swapped in (False, True):
        loss = AntipodalLoss(sigma, 1, swapped=swapped)
        for epsilon in (0.0, 0.2, 0.6, 1.2):
            shift, place = 1 / exact(sigma), exact(epsilon) * exact(sigma)
            truth = phi(shift / 2 - place) - MP.exp(exact(epsilon)) * phi(-shift / 2 - place)
            with stressed("", normal=0.03, adverse=adverse):
                found = loss.delta(epsilon, Bound.OPTIMISTIC, Effort(1e-12, 1e-4))
            assert exact(found) <= truth
            assert exact(found) >= truth * exact("0.9") - exact("0.1")


# -------------------------------------------------------------------------------------- null clones


@ADVERSE
def test_what_letters_may_err_is_taken_off_a_statistic(adverse: float) -> None:
    first, second = np.array([0.125, 0.25, 0.625]), np.array([0.5, 0.25, 0.25])
    with stress(normal=0.01):
        assert antipodal._letters(1.0, 0.5, 1e-9).error == 0.01
    null, number, error = np.full(3, 0.25), np.arange(3.0), 2.0**-7
    # one law errs one way and the other the other way
    p, q = first * (1.0 + adverse * error), second * (1.0 - adverse * error)
    loss = np.array([-math.inf, -0.3, 0.0, 0.4])
    low, high = antipodal._profile(Hypotheses(number, null, p, q, 1, error), loss)
    for x, below, above in zip(loss.tolist()[1:], low.tolist()[1:], high.tolist()[1:], strict=True):
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        truth = MP.fsum(max(exact(a) - MP.exp(exact(x)) * exact(b), 0) for a, b in pairs)
        truth -= max(1 - MP.exp(exact(x)), 0)
        assert below <= truth <= above


def test_what_a_statistic_dropped_is_an_outcome() -> None:
    """It is one more outcome, and counts where its likelihood ratio says so."""
    first, second = np.array([0.25, 0.5, 0.25]), np.array([0.375, 0.5, 0.125])
    loss = np.array([-math.inf, -3.0, -0.3, 0.0, 0.3, 3.0])
    for at in (0, 2):
        kept = np.arange(3) != at
        laws = np.full(2, 0.25), first[kept], second[kept]
        lost = float(max(first[at], second[at]))
        low, high = antipodal._profile(Hypotheses(np.arange(2.0), *laws, 1, 0.0, lost), loss)
        for x, below, above in zip(
            loss.tolist()[1:], low.tolist()[1:], high.tolist()[1:], strict=True
        ):
            pairs = zip(first.tolist(), second.tolist(), strict=True)
            truth = MP.fsum(max(exact(a) - MP.exp(exact(x)) * exact(b), 0) for a, b in pairs)
            truth -= max(1 - MP.exp(exact(x)), 0)
            assert exact(below) <= truth <= exact(above)


@budgets
@SIDES
@pytest.mark.parametrize("log_odds", [-2.0, 0.0, 1.5])
def test_weights_of_numbers_of_clones(log_odds: float, side: Bound, name: str) -> None:
    steps = 60
    p = 1 / (1 + MP.exp(-exact(log_odds)))
    law = [
        math.comb(steps - 1, k) * p**k * (1 - p) ** (steps - 1 - k) for k in range(steps)
    ]  # of K - 1
    for grid in ([*range(1, 61)], [1, 10, 20, 30, 40, 50, 60], [1, 25, 26, 27, 28]):
        places = np.array(grid, dtype=np.float64)
        with stressed(name):
            weights = null_clones._weights(steps, log_odds, places, side, 1e-3)
        for k in grid if side is Bound.OPTIMISTIC else range(1, steps + 1):
            truth = MP.fsum(law[:k])  # of at most k places
            kept = MP.fsum(map(exact, weights[places <= k].tolist()))
            assert bounds(kept, truth, side)
        total = MP.fsum(map(exact, weights.tolist()))
        assert bounds(total, 1, side)


@budgets
@SIDES
def test_the_charge_for_clones(side: Bound, name: str) -> None:
    for sigma, clones, log_odds in ((1.0, 9, 0.3), (3.0, 1000, -2.0), (0.5, 3, 2.0)):
        h = MP.log1p(MP.exp(-exact(log_odds)))
        shift = 1 / exact(sigma)
        part = phi(shift / 2 - h / shift) - MP.exp(h) * phi(-shift / 2 - h / shift)
        truth = -MP.expm1(clones * MP.log1p(-MP.exp(-h) * part))
        with stressed(name):
            found = exact(null_clones.charge(sigma, clones, log_odds, side))
        assert bounds(found, truth, side)


@SIDES
def test_divergences_of_means_count_what_is_lost_and_moved(side: Bound) -> None:
    """Sums from the far ends against atoms one by one; an atom is missing, values are off."""
    upper = side is Bound.PESSIMISTIC
    sign = 1 if upper else -1
    value, mass = np.array([0.25, 0.75, 1.5, 4.0]), np.array([0.375, 0.25, 0.3125, 0.0625])
    losses = np.array([0.0, 0.1, 0.5, 1.2])
    for at, moved in ((0, 2.0**-6), (3, 2.0**-6), (0, 0.0), (3, 0.0)):
        kept = np.arange(4) != at
        lost, gain = float(mass[at]), float(mass[at] * value[at] * (1.0 + moved))
        if not upper:
            kept, lost, gain = np.full(4, True), 0.0, 0.0
        law = SumLaw(value[kept], mass[kept], 1, gain, lost, moved, 4.0)
        forward, backward = null_clones._divergences(law, losses, side)
        for i, epsilon in enumerate(losses.tolist()):
            alpha = MP.exp(exact(epsilon))
            pairs = [
                (exact(x), exact(p)) for x, p in zip(value.tolist(), mass.tolist(), strict=True)
            ]
            up = MP.fsum(p * max(x * (1 + sign * exact(moved)) - alpha, 0) for x, p in pairs)
            down = MP.fsum(p * max(1 - alpha * x * (1 - sign * exact(moved)), 0) for x, p in pairs)
            assert bounds(exact(float(forward[i])), up, side)
            assert bounds(exact(float(backward[i])), down, side)


@SIDES
@pytest.mark.parametrize("adverse", [-1.0, 1.0])
def test_exchanged_profiles_of_null_clones(side: Bound, adverse: float) -> None:
    """``H_alpha(Q‖P) - (1 - alpha)_+`` is alpha times the same of (P, Q) at 1/alpha."""
    ahead = np.array([0.0, 0.25, 1.5, 40.0])
    loss = np.concatenate([[-np.inf], -ahead[:0:-1], ahead])
    value = np.array([0.0, 1e-30, 0.01, 0.1, 0.25, 0.2, 0.125, 1e-12])
    with stress(roundoff=2.0**-30, adverse=adverse):
        found = null_clones._exchanged(value, loss, side)
    assert found[0] == 0.0
    for i in range(1, loss.size):
        truth = MP.exp(exact(loss[i])) * exact(value[loss.size - i])
        assert bounds(exact(found[i]), truth, side)


def test_hockey_stick_norms_bound_their_sums() -> None:
    """Of the tilted weight over grid points, wherever the grid begins."""
    for lam in (0.0, 0.1, 1.0, 20.0):
        for spacing in (0.01, 0.3, 2.0):
            for start in np.linspace(0.0, spacing, 7).tolist():
                y = start + spacing * np.arange(400)
                weight = np.exp(-lam * y) * HOCKEY_STICK.weight(y)
                assert math.sqrt(float(np.sum(weight**2))) <= HOCKEY_STICK.norm(lam, spacing, 400)
                assert float(weight.max()) <= HOCKEY_STICK.largest(lam)
