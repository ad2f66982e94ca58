"""Counts of two letters under stress: sums, cells and tables that err by all that they state.

The truth is in fractions, or has 50 digits. One rounding is a millionth, and what a bound allows
for besides is exact here, so that no allowance hides another one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from oracles.precision import MP, Real, exact

from shuffle_accountant.lattice.grid import Array
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.counts import count_blocks
from shuffle_accountant.losses.decoy_counts import Decoys, NumberOfClones
from shuffle_accountant.losses.two_letters import (
    atoms,
    binary,
    clone_table,
    mixed_responses,
    tail,
)
from shuffle_accountant.losses.two_letters.binary import BinaryBlocks, BinaryLoss
from shuffle_accountant.losses.two_letters.tail import ProbabilisticDpLoss
from shuffle_accountant.numerics.binomial import log_pmf, log_pmf_error, tail_ratio_error
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

UNIT = 2.0**-20
SIDES = pytest.mark.parametrize("side", list(Bound))
ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 1.0])


def bounds(found: Any, truth: Any, side: Bound) -> bool:
    return bool(found >= truth if side is Bound.PESSIMISTIC else found <= truth)


def real(value: Fraction) -> Real:
    return MP.mpf(value.numerator) / value.denominator


def edges(spacing: float) -> Any:
    def made(largest: float) -> Array:
        return spacing * np.arange(math.ceil(largest / spacing) + 2)

    return made


def binomial(m: int, a: int) -> Fraction:
    return Fraction(math.comb(m, a), 2**m)


# ------------------------------------------------------------------------------------ given blocks


@dataclass(frozen=True, eq=False)
class Given:
    """Counts in given blocks."""

    given: BinaryBlocks
    largest: float = math.inf
    deviation: float = 1.0
    table: None = None

    def blocks(self, side: Bound, effort: Effort) -> BinaryBlocks:
        return self.given

    def tabled(self, side: Bound, edges: Any, effort: Effort) -> None:
        return None


def blocks_of(weight: Any, count: Any, gap: float, **more: float) -> BinaryBlocks:
    weight, count = np.array(weight, dtype=float), np.array(count, dtype=float)
    log_rest = math.log1p(-gap) if gap < 1.0 else -math.inf
    gaps, rests = np.full(count.size, gap), np.full(count.size, log_rest)
    parts = {"silent": 0.0, "missing": 0.0, "round_off": 0.0, **more}
    return BinaryBlocks(weight, count, gaps, rests, **parts)


@SIDES
@ADVERSE
def test_sums_over_counts_may_err(
    adverse: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of divergences given each count that are known exactly."""
    value = np.array([0.75, 0.5, 0.125])
    given = blocks_of([0.25, 0.5, 0.125], [3, 4, 5], 0.5, missing=0.0625)
    monkeypatch.setattr(binary, "_conditional", lambda *_: (value, value))
    with stress(roundoff=UNIT, adverse=adverse):
        found = BinaryLoss(Given(given)).delta(0.1, side, Effort(1e-12, 0.0))
    truth = 0.25 * 0.75 + 0.5 * 0.5 + 0.125 * 0.125
    truth += 0.0625 if side is Bound.PESSIMISTIC else 0.0
    assert bounds(found, truth, side)
    assert found == pytest.approx(truth, rel=1e-3)


@SIDES
@pytest.mark.parametrize("share", [0.4, 0.6])
def test_products_below_all_normal_doubles(
    share: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight products, all of which are rounded by much of themselves, the same way."""
    value = np.full(8, share * 2.0**-74)
    given = blocks_of(np.full(8, 2.0**-1000), np.full(8, 3.0), 0.5)
    monkeypatch.setattr(binary, "_conditional", lambda *_: (value, value))
    found = BinaryLoss(Given(given)).delta(0.1, side, Effort(1e-12, 0.0))
    assert bounds(exact(found), 8 * exact(float(value[0])) * exact(2) ** -1000, side)


def test_a_gap_below_all_doubles_tells_next_to_nothing() -> None:
    given = blocks_of([1.0], [3], 0.0)
    for side in Bound:
        assert 0.0 <= BinaryLoss(Given(given)).delta(0.5, side, Effort(1e-12, 0.0)) <= 1e-300


@ADVERSE
@pytest.mark.parametrize("moved", [-500.0, -100.0, 0.0, 100.0, 400.0, 500.0, 900.0])
def test_counts_whose_loss_is_next_to_epsilon(moved: float, adverse: float) -> None:
    """Rounding decides whether one is above; what it adds, or takes off, is no matter of others."""
    m = 64
    epsilon = math.log(m - 1.0) + moved * UNIT
    with stress(roundoff=UNIT, adverse=adverse):
        low, high = binary._conditional(epsilon, blocks_of([1.0], [m], 1.0))
    alpha, truth = MP.exp(exact(epsilon)), exact(0)
    for a in range(m + 1):
        z = exact(2 * a - m) / m
        truth += math.comb(m, a) * max(1 + z - alpha * (1 - z), 0)
    truth /= exact(2) ** m
    assert exact(float(low[0])) <= truth <= exact(float(high[0]))


@ADVERSE
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_divergences_where_alpha_is_large_may_err(share: float, adverse: float) -> None:
    """That all messages are alike is all there is, and alpha times next to nothing."""
    m, gap = 64, 1.0 - 2.0**-43
    epsilon = math.log(2.0 * share) + 43.0 * math.log(2.0)
    with stress(roundoff=2.0**-30, adverse=adverse):
        low, high = binary._conditional(epsilon, blocks_of([1.0], [m], gap))
    truth = (1 + exact(gap) - MP.exp(exact(epsilon)) * (1 - exact(gap))) / exact(2) ** m
    assert exact(float(low[0])) <= truth <= exact(float(high[0])) <= 2 * exact(2) ** -m


@SIDES
@ADVERSE
def test_probabilities_of_infinite_losses_and_of_ties_may_err(adverse: float, side: Bound) -> None:
    given = blocks_of([0.5, 0.25], [3, 8], 1.0, missing=0.0625, round_off=0.03125)
    with stress(roundoff=UNIT, adverse=adverse):
        atoms = BinaryLoss(Given(given)).atoms(side, edges(0.01), Effort(1e-30, 0.0))
    truth = 0.5 * 2.0**-2 + 0.25 * 2.0**-7 + (0.0625 if side is Bound.PESSIMISTIC else 0.0)
    assert bounds(atoms.infinite, truth, side)
    assert atoms.infinite == pytest.approx(truth, rel=1e-3)
    assert atoms.loss[-1] == 0.0
    assert bounds(atoms.mass[-1], 0.25 * float(binomial(8, 4)), side)
    assert atoms.truncated == 0.0625
    assert atoms.round_off >= 0.03125 + UNIT


@SIDES
@ADVERSE
def test_atoms_say_by_how_much_their_losses_are_off(adverse: float, side: Bound) -> None:
    """Of eleven messages, one by one: logarithms of quotients, which err one way."""
    gap = exact(0.5)
    atoms._unit_atoms.cache_clear()
    with stress(roundoff=UNIT, adverse=adverse):
        found = BinaryLoss(Given(blocks_of([1.0], [11], 0.5))).atoms(
            side, edges(0.01), Effort(1e-30, 0.0)
        )
    atoms._unit_atoms.cache_clear()
    assert found.loss.size == 13
    for i, a in enumerate(range(6, 12)):
        z = gap * (2 * a - 11) / 11
        truth = MP.log((1 + z) / (1 - z))
        assert 0 < abs(exact(found.loss[i]) - truth) <= exact(found.loss_error)
        assert found.loss[6 + i] == -found.loss[i]


@SIDES
def test_what_is_cut_off_counts_besides_what_is_missing(side: Bound) -> None:
    given = blocks_of([0.5, 0.25], [3, 100], 0.5, missing=0.0625)
    atoms = BinaryLoss(Given(given)).atoms(side, edges(0.01), Effort(0.1, 0.0))
    assert atoms.truncated == 0.0625 + 0.5 * 0.1
    assert atoms.infinite == pytest.approx(0.1125 if side is Bound.PESSIMISTIC else 0.0)


def test_infinite_losses_whose_probability_is_no_double() -> None:
    """That of 1200 messages alike is lost; those of eight counts are raised by more than half."""
    for count, weight in (([1200.0], [1.0]), (np.full(8, 1075.0), np.full(8, 0.6))):
        given = blocks_of(weight, count, 1.0)
        truth = sum(exact(w) * 2 * exact(2) ** -int(m) for w, m in zip(weight, count, strict=True))
        for side in Bound:
            atoms = BinaryLoss(Given(given)).atoms(side, edges(0.5), Effort(1e-320, 0.0))
            assert bounds(exact(atoms.infinite), truth, side)
            assert atoms.infinite <= 1e-300


@SIDES
def test_clones_say_what_their_number_was_rounded_by(side: Bound) -> None:
    clones = NumberOfClones.from_eps0(1.0, decoys=50, rate=0.25, idle=0.75)
    effort = Effort(1e-12, 0.3)
    blocks = count_blocks(50, 0.25, 0.75, side, tail=effort.tail, resolution=effort.resolution)
    assert clones.blocks(side, effort).round_off == blocks.round_off > 0.0


@SIDES
@pytest.mark.parametrize("chance", [2.0**-10, 0.25, 0.5, 1.0 - 2.0**-50, 1.0])
def test_chances_that_were_rounded_are_moved(chance: float, side: Bound) -> None:
    """By 64 roundings, and what is left of one by as much: doubles as they are."""
    found = Decoys(5, chance, 1.0 - chance).moved(side)
    share, rest = Fraction(chance), 1 - Fraction(chance)
    off = Fraction(64, 2**53) * share * (1 if side is Bound.OPTIMISTIC else -1)
    near, unit = abs(off) / 32, Fraction(1, 2**53)  # two of the roundings, and one of the result
    assert abs(Fraction(found.chance) - min(share + off, Fraction(1))) <= near + unit * share
    assert abs(Fraction(found.idle) - max(rest - off, Fraction(0))) <= near + unit * rest
    assert found.users == 5


# ---------------------------------------------------------------------------------- masses of cells


@ADVERSE
@pytest.mark.parametrize("gap", [0.25, 1.0])
def test_masses_of_cells_state_their_error(
    gap: float, adverse: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tails at the two ends of a cell err opposite ways."""
    m, ratio = 400, atoms.upper_tail_ratio

    def wrong(a: Array, n: float, p: float, q: float) -> Any:
        with stress():
            found = ratio(a, n, p, q)
        signs = np.where(np.arange(a.size) % 2 == 0, adverse, -adverse)
        return found * (1.0 + signs * tail_ratio_error())

    def logs(a: Array, n: float, p: float, q: float) -> Any:
        with stress():
            found = log_pmf(a, n, p, q)
        signs = np.where(np.arange(a.size) % 2 == 0, adverse, -adverse)
        return found + signs * log_pmf_error(a, n, p, found)

    monkeypatch.setattr(atoms, "upper_tail_ratio", wrong)
    monkeypatch.setattr(atoms, "log_pmf", logs)
    blocks, first, last = blocks_of([0.5], [m], gap), 201.0, 300.0
    grid = np.arange(0.0, 1.3, 0.01) * gap
    with stress(roundoff=2.0**-30):
        found = atoms._celled(blocks, 0, first, last, grid)
    assert np.all(found.slack < 1e-2)
    reach = np.minimum(np.tanh(0.5 * grid) / gap, 1.0)
    ends = np.clip(np.ceil(0.5 * m * (1.0 + reach)), first, last + 1.0)
    ends[-1] = last + 1.0
    ends = np.unique(ends).astype(int).tolist()
    for i, (start, stop) in enumerate(pairwise(ends)):
        base = sum(binomial(m, a) for a in range(start, stop)) / 2
        tilt = sum(binomial(m, a) * Fraction(gap) * (2 * a - m) / m for a in range(start, stop)) / 2
        for given, truth in (
            (found.mass, base + tilt),
            (found.other, base - tilt),
            (found.difference, 2 * tilt),
        ):
            assert abs(Fraction(given[i]) - truth) <= Fraction(found.slack[i]) * truth
        off = abs(exact(found.loss[i]) - MP.log(real((base + tilt) / (base - tilt))))
        assert off <= exact(found.loss_error[i])


# ------------------------------------------------------------------------------ the table of counts


def kept_nowhere() -> None:
    for function in (clone_table._rows, clone_table._weights):
        function.cache_clear()


@ADVERSE
@pytest.mark.parametrize("before", [0, 120])
def test_rows_of_the_table_state_their_error(before: int, adverse: float) -> None:
    """The last row of a piece, alone or after so many without a weight: of 127 messages."""
    table = clone_table.CloneTable(8, 1e-3, 1e-30)
    weight = np.append(np.zeros(before), 1.0)
    kept_nowhere()
    with stress(roundoff=UNIT, adverse=adverse):
        up, down, tied, relative = table.law(126 - before, weight)
        _, _, half, error = table.law(127, np.ones(1))
    kept_nowhere()
    assert relative < 1e-2
    truth = [Fraction(0)] * (up.size + 1)
    for a in range(64, 128):
        truth[(2 * a - 127) * 8 // 127] += binomial(127, a)
    for found, mass in zip((up + down).tolist(), truth, strict=False):
        assert abs(Fraction(found) - mass) <= Fraction(relative) * mass
    assert tied == 0.0
    assert abs(Fraction(half) - binomial(128, 64)) <= Fraction(error) * binomial(128, 64)


@ADVERSE
@pytest.mark.parametrize("rate", [2.0**-6, 0.5])
def test_weights_of_rows_state_their_error(rate: float, adverse: float) -> None:
    kept_nowhere()
    with stress(roundoff=UNIT, adverse=adverse):
        found = clone_table._weights(30, rate, 1.0 - rate, 1e-3, 1e-300)
    kept_nowhere()
    p = Fraction(rate)
    assert found.error < 1e-2
    for i, mass in enumerate(found.weight.tolist()):
        k = found.first + i
        truth = math.comb(30, k) * p**k * (1 - p) ** (30 - k)
        assert abs(Fraction(mass) - truth) <= Fraction(found.error) * truth


@SIDES
@ADVERSE
@pytest.mark.parametrize("relative", [0.0, 2.0**-7])
@pytest.mark.parametrize("gap", [0.125, 1.0 - 2.0**-10])
def test_atoms_of_the_table_state_their_error(
    gap: float, relative: float, adverse: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shares of cells that are off, one up and one down, and points that round."""
    upper, tail = side is Bound.PESSIMISTIC, 2.0**-20
    up, down = np.array([0.0, 0.0, 0.0625, 0.125]), np.array([0.125, 0.0, 0.0625, 2.0**-12])
    weights = clone_table._Weights(0, np.ones(1), 0.25, 2.0**-6, 2.0**-7)
    monkeypatch.setattr(clone_table, "_weights", lambda *_: weights)
    monkeypatch.setattr(clone_table.CloneTable, "law", lambda *_: (up, down, 0.25, relative))
    with stress(roundoff=UNIT if relative == 0.0 else 2.0**-53, adverse=adverse):
        atoms = clone_table.tabled_atoms(
            clone_table.CloneTable(4, 0.5, tail),
            side,
            trials=9,
            rate=0.5,
            idle=0.5,
            gap=gap,
            log_rest=math.log1p(-gap),
        )
    assert atoms is not None
    left = 2.0**-6 + (0.0 if upper else 2.0**-7) + 0.25 * tail
    assert atoms.truncated == pytest.approx(left, rel=1e-12)
    assert bounds(atoms.infinite, left if upper else 0.0, side)
    assert atoms.infinite == pytest.approx(left if upper else 0.0, rel=1e-4)
    assert atoms.round_off >= 0.25 + relative * 0.25
    half = (atoms.mass.size - 1) // 2
    for more, less in ((relative, -relative), (-relative, relative), (relative, relative)):
        mine, other = (
            [Fraction(x) * (1 + Fraction(moved)) for x in part.tolist()]
            for part, moved in ((up, more), (down, less))
        )
        if upper:
            pairs = [
                (Fraction(k + 1, 4), mine[k] + (other[k + 1] if k < 3 else 0)) for k in range(4)
            ]
            zero = Fraction(0.25) * (1 + Fraction(relative)) + 2 * other[0]
        else:
            pairs = [
                ((k + a / (a + b)) / 4, a + b)
                for k, (a, b) in enumerate(zip(mine, other, strict=True))
                if a + b > 0
            ]
            zero = Fraction(0.25) * (1 - Fraction(relative)) + 2 * pairs[0][1]
            pairs = pairs[1:]
        pairs = [pair for pair in pairs if pair[1] > 0]
        assert bounds(Fraction(float(atoms.mass[-1])), zero, side)
        assert len(pairs) == half
        z = Fraction(gap)
        for i, (y, mass) in enumerate(pairs):
            p, q = mass * (1 + z * y), mass * (1 - z * y)
            assert bounds(Fraction(float(atoms.mass[i])), p, side)
            assert bounds(Fraction(float(atoms.mass[half + i])), q, side)
            off = abs(exact(float(atoms.loss[i])) - MP.log(real(p / q)))
            assert off <= exact(atoms.loss_error)


# --------------------------------------------------------------------------- what k-RR has besides


@SIDES
@ADVERSE
def test_values_taken_together_may_err(adverse: float, side: Bound) -> None:
    """Forty values of J in a few blocks: no less likely and no more of them, or the other way."""
    number = np.arange(100.0, 140.0)
    rng = np.random.default_rng(2)
    weight = rng.integers(1, 2**20, (40, 2)) / 2.0**26
    with stress(roundoff=UNIT, adverse=adverse):
        values, mass = mixed_responses._gathered(number, weight, 0.1, side)
    assert mass.shape[0] < 12
    for column in range(2):
        true = [Fraction(x) for x in weight[:, column].tolist()]
        mean = sum(x * p for x, p in zip(map(Fraction, number.tolist()), true, strict=True)) / sum(
            true
        )
        found = [Fraction(x) for x in mass[:, column].tolist()]
        places = map(Fraction, values[:, column].tolist())
        assert bounds(sum(found), sum(true), side)
        average = sum(x * p for x, p in zip(places, found, strict=True)) / sum(found)
        assert average <= mean if side is Bound.PESSIMISTIC else average >= mean
        assert abs(average - mean) <= Fraction(1, 2)


@SIDES
def test_blocks_of_many_answers_take_the_end_of_their_direction(side: Bound) -> None:
    """Fewer answers are worse; all answers of a block are taken for as many as that."""
    source = mixed_responses.NumberOfMixedResponses(5, 0.5, 0.5, 1.5, (Decoys(3000, 0.5, 0.5),))
    mixed_responses._blocks.cache_clear()
    effort = Effort(1e-9, 0.3)
    fine, coarse = (source.blocks(side, replace(effort, resolution=r)) for r in (0.0, 0.3))
    mixed_responses._blocks.cache_clear()
    for epsilon in (0.05, 0.1):
        found = [
            BinaryLoss(Given(blocks)).delta(epsilon, side, effort) for blocks in (fine, coarse)
        ]
        assert bounds(
            found[1], found[0] * (1.0 + (-1e-9 if side is Bound.PESSIMISTIC else 1e-9)), side
        )


# ------------------------------------------------------------------------------- probabilistic loss


@SIDES
def test_the_probabilistic_loss_says_what_rounding_was_allowed_for(side: Bound) -> None:
    loss = ProbabilisticDpLoss(NumberOfClones(1.0, -math.inf, math.inf, 9, 0.25, 0.75))
    effort = Effort(1e-12, 1e-3)
    blocks = loss._blocks(side, 0.25 * effort.tail, effort.resolution)
    with stress(roundoff=UNIT):
        atoms = loss.atoms(side, edges(0.05), effort)
    assert blocks.round_off > 0.0
    assert atoms.round_off >= UNIT
    more = replace(blocks, round_off=0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProbabilisticDpLoss, "_blocks", lambda *_: more)
        assert loss.atoms(side, edges(0.05), effort).round_off >= 0.5


@SIDES
@ADVERSE
def test_cells_of_walks_whose_tails_err(
    adverse: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 400 steps: tails at the two ends of a cell err opposite ways, by all that they may."""
    exact_tail, unit, upper = tail.log_upper_tail, 2.0**-30, side is Bound.PESSIMISTIC

    def wrong(a: Array, n: Array, p: float, q: float) -> Any:
        with stress():
            found = exact_tail(a, n, p, q)
        signs = np.where(np.arange(a.shape[-1]) % 2 == 0, adverse, -adverse)
        return found + np.log1p(signs * 0.99 * tail._tail_error())

    monkeypatch.setattr(tail, "log_upper_tail", wrong)
    with stress(roundoff=unit):
        values = np.arange(0.0, 81.0, 4.0)
        (found,) = tail._half_law(np.array([400.0]), values, 4.0, upper=upper)
        error = tail._tail_error()
    for r, chance in zip(values.astype(int).tolist(), found.tolist(), strict=True):
        truth = (binomial(400, 200 + r // 2) if r else binomial(400, 200) / 2) + binomial(
            400, 201 + r // 2
        )
        assert bounds(Fraction(chance), truth, side)
        assert abs(Fraction(chance) - truth) <= 4 * Fraction(error)
