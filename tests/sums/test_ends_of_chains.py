"""Sums of dependent ratios: roundings, each made large enough to see, and what is left out.

Bounds are compared with the same bound of usual roundings, relative to which they are 1e-12 off:
with a unit round-off of 2^-30 they have to differ by all that is stated, and by little more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from oracles.precision import MP

from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.probabilities import normal_cells
from shuffle_accountant.numerics.rounding import Array, Bound
from shuffle_accountant.sums import chain_below, chain_cells, chain_law, pair_law
from shuffle_accountant.sums.doubling import SumLaw
from shuffle_accountant.sums.settings import CHAINS

UNIT = 2.0**-30
# Of stated terms: the rest is what they are rounded by.
NEARLY = 0.999
MODULES = (chain_law, chain_below, pair_law)


@pytest.fixture
def err(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A budget in which roundings or normal cells err, and nothing else."""

    def choose(*, unit: float = 2.0**-53, own: float = 0.0) -> Any:
        for module in MODULES:
            monkeypatch.setattr(module, "CHAINS", replace(CHAINS, own_error=own))
        return stress(roundoff=unit)

    return choose


def check(found: Any, usual: Any, error: float) -> None:
    """A bound is above the usual one by this relative error, or below it."""
    quotient = np.asarray(found) / np.asarray(usual)
    least, most = sorted((1.0 + NEARLY * error, 1.0 + (error + 1e-12) / NEARLY))
    assert np.all((quotient >= least) & (quotient <= most))


# ------------------------------------------------------------------------------------- two bands

EDGES, EVEN = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.5]), 5
HERE, CHANCE = np.array([0.0, 0.5, 1.0]), np.array([0.25, 0.5, 0.25])
END = np.array([0.5, 2.0, 3.0]), np.ones(1), np.ones(1)
BINS = 3


def two_bands(follow: Callable[..., SumLaw]) -> SumLaw:
    """The sum of three ratios of two bands, of which some leave the cells."""
    return follow(BINS, HERE, 0.5 * HERE, CHANCE, 0.25, END, EDGES, EVEN, 1e-30)


@pytest.mark.parametrize(("unit", "own"), [(UNIT, 0.0), (2.0**-53, UNIT)])
def test_two_bands_whose_roundings_are_large(
    unit: float, own: float, err: Callable[..., Any]
) -> None:
    """Three bins of products over three states, and the normal cells of four values."""
    with err():
        above, below = two_bands(pair_law._above), two_bands(pair_law._below)
    with err(unit=unit, own=own):
        high, low = two_bands(pair_law._above), two_bands(pair_law._below)
    error = (BINS + 1) * own + BINS * (4.0 * 3.0 + 32.0) * (UNIT if not own else 0.0)
    check(high.mass, above.mass, error)
    check(high.lost, above.lost, error)
    check(high.lost_gain, above.lost_gain, error)
    assert above.lost > 0.01
    assert high.moved >= NEARLY * BINS * (own if own else 16.0 * UNIT)
    less = (BINS + 1) * own + BINS * (4.0 * 3.0 + 64.0) * (UNIT if not own else 0.0)
    check(low.mass, below.mass, -less)
    assert low.lost >= below.lost + NEARLY * less
    assert low.moved >= 2.0 * NEARLY * less


def test_sums_of_two_bands_beyond_their_cells() -> None:
    """What leaves them is followed with its mean: nothing of either is lost."""
    law = two_bands(pair_law._above)
    ratios = np.exp(np.add.outer(HERE, 0.5 * HERE) - 0.125)
    mean = 2.0 * CHANCE @ ratios @ CHANCE + END[0] @ CHANCE
    assert float(law.mass.sum()) + law.lost == pytest.approx(1.0, rel=1e-9)
    assert float(law.mass @ law.value) + BINS * law.lost_gain == pytest.approx(mean, rel=1e-9)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, ...]]:
    """What the two ways of following two bands are asked; the law of either is a point."""
    found: dict[str, tuple[Any, ...]] = {}
    point = SumLaw(np.ones(1), np.ones(1), 2, 0.25, 0.125, 0.0625, 1.0)
    for name in ("_above", "_below"):

        def follow(*given: Any, name: str = name) -> SumLaw:
            found[name] = given
            return point

        monkeypatch.setattr(pair_law, name, follow)
    return found


@pytest.mark.parametrize("powers", [False, True])
@pytest.mark.parametrize("side", list(Bound))
def test_values_of_two_bands_are_spread_or_replaced_by_means(
    side: Bound, powers: bool, asked: dict[str, tuple[Any, ...]]
) -> None:
    """The mean of ``e^(2 x)`` is too large from above, and too small from below."""
    pair_law.pair_sum(4, 0.5, 0.5, 0.5, side, powers=powers, tail=1e-12, epsilon=1.0)
    ((name, given),) = asked.items()
    _, here, there, chance, *_ = given
    over = float(chance @ np.exp(2.0 * (here + there))) * math.exp(-0.5 * 2.0**2) - 1.0
    assert name == ("_above" if side is Bound.PESSIMISTIC else "_below")
    # a step is about a tenth of a deviation, of a variance of 4: a sixth of its square from above
    # and a twelfth from below, twice where two values are rounded, and far above the tails' 1e-8
    assert 1e-4 < (over if name == "_above" else -over) < 1.5e-2


BANDS = pytest.mark.parametrize(
    ("first", "second", "last"),
    [(0.5, 0.5, 0.5), (0.9, 0.3, 0.2), (0.3, 0.9, 0.6), (1.2, 0.5, 0.0)],
)


@BANDS
@pytest.mark.parametrize("powers", [False, True])
def test_ratios_of_two_bands_from_below_have_mean_1(
    first: float, second: float, last: float, powers: bool, asked: dict[str, tuple[Any, ...]]
) -> None:
    """Each power of a value is replaced by its mean in the value's cell, whatever the order."""
    pair_law.pair_sum(
        4, first, second, last, Bound.OPTIMISTIC, powers=powers, tail=1e-12, epsilon=1.0
    )
    _, here, there, chance, _, end, *_ = asked["_below"]
    for one, size in ((here, first), (there, second)):
        mean = float(chance @ np.exp(one - 0.5 * size**2))
        assert 1.0 - 1e-6 < mean <= 1.0 + 1e-12  # tails are left out
    mean = float(end[1] @ end[2] if last > 0.0 else end[1][0])
    assert 1.0 - 1e-6 < mean <= 1.0 + 1e-12


@pytest.mark.parametrize("deviation", [0.0, 0.3, 2.0])
def test_means_of_powers_in_cells(deviation: float) -> None:
    """Against quadrature, far out too."""
    score = np.array([-7.0, -6.9, -1.0, 0.0, 0.125, 2.0, 7.5, 8.0])
    found = np.exp(pair_law._log_means(score, normal_cells(score), deviation))
    for mean, low, high in zip(found, score[:-1], score[1:], strict=True):
        x = MP.mpf(float(low)), MP.mpf(float(high))
        weight = MP.quad(lambda t: MP.exp(deviation * t - t * t / 2), x)
        usual = weight / MP.quad(lambda t: MP.exp(-t * t / 2), x)
        # differences of two normal probabilities that are close to one another
        assert mean == pytest.approx(float(usual), rel=1e-11)


@BANDS
def test_what_powers_are_lowered_by_is_made_up_for(
    first: float, second: float, last: float, asked: dict[str, tuple[Any, ...]]
) -> None:
    """The factor of all values is at least what a bin's ratio is too small by, and hardly more."""
    law = pair_law.pair_sum(
        4, first, second, last, Bound.PESSIMISTIC, powers=False, tail=1e-12, epsilon=1.0
    )
    nodes = asked["_above"][1] / first
    steps = np.diff(nodes)
    at = int(np.argmax(steps < 1.0005 * steps.min()))
    largest = max(first, second)
    x = np.linspace(nodes[at], nodes[at + 1], 1001)
    part = np.expm1(largest * (x - x[0])) / np.expm1(largest * (x[-1] - x[0]))
    lowered = {
        one: float(
            np.max(1.0 - (1.0 + part * np.expm1(one * (x[-1] - x[0]))) * np.exp(one * (x[0] - x)))
        )
        for one in (first, second, last)
    }
    # a bin's ratio is a power of one value times the next power of another
    needed = 1.0 / ((1.0 - lowered[first]) * (1.0 - max(lowered[second], lowered[last])))
    factor = law.value[0]
    assert needed - 1e-12 <= factor <= 1.0 + 1.2 * (needed - 1.0) + 1e-12


@pytest.mark.parametrize("powers", [False, True])
def test_what_nodes_of_two_bands_leave_out(
    powers: bool, asked: dict[str, tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its sum and what is beyond the nodes; equal bands take no part of other powers."""
    off = 2.0**-5
    monkeypatch.setattr(pair_law, "beyond", lambda *_: off)
    with stress(roundoff=UNIT):
        law = pair_law.pair_sum(
            2, 0.5, 0.5, 0.5, Bound.PESSIMISTIC, powers=powers, tail=1e-12, epsilon=1.0
        )
    assert "_above" in asked
    factor = 1.0 if powers else 1.0 + 16.0 * NEARLY * UNIT
    assert factor <= law.value[0] <= factor + UNIT
    assert law.lost_gain >= (0.25 + off) * factor * (1.0 + 4.0 * NEARLY * UNIT)
    assert law.lost_gain <= (0.25 + 1.01 * off) * factor * (1.0 + 5.0 * UNIT)
    assert law.lost >= (0.125 + off) * (1.0 + 4.0 * NEARLY * UNIT)
    assert law.lost <= (0.125 + 1.01 * off) * (1.0 + 5.0 * UNIT)
    assert law.moved >= 0.0625 + 2.0 * NEARLY * UNIT


# --------------------------------------------------------------------------------------- a chain


def line(**chosen: Any) -> chain_law._Line:
    """Two nodes, three values of the independent part, and few cells."""
    values = {
        "common": 0.5,
        "theta": 0.5,
        "spread": 1.0,
        "step": 0.5,
        "nodes": np.array([-0.5, 0.5]),
        "other": np.array([-2.0, 0.0, 3.0]),
        "ratio": np.array([0.5, 2.0]),
        "apart": np.array([0.5, 1.0]),
        "chance": np.array([0.5, 0.5]),
        "edges": EDGES,
        "even": EVEN,
    }
    return chain_law._Line(**values | chosen)


def ends(**chosen: Any) -> chain_law.ChainSum:
    mass = np.array([0.0, 0.5, 0.25, 0.0, 0.0, 0.0])
    return chain_law._bounded(line(**chosen), 2, 7, mass, 0.0625, 0.5, 0.125, 0.25)


@pytest.mark.parametrize(("unit", "own"), [(UNIT, 0.0), (2.0**-53, UNIT)])
def test_chains_whose_roundings_are_large(unit: float, own: float, err: Callable[..., Any]) -> None:
    """Each step's sums over two nodes and three values of the independent part."""
    with err(unit=unit, own=own):
        found = ends(spread=0.0)
    error = 7.0 * (own if own else UNIT * (2.0 * 5.0 + 16.0))
    check(found.law.mass, np.array([0.5, 0.25]), error)
    check(found.law.lost, 0.0625 + 0.125, error)
    check(found.law.lost_gain, 0.5 / 2.0 + 0.125, error)
    assert found.law.moved >= NEARLY * 2.0 * (own if own else 16.0 * UNIT)
    if not own:
        check(found.raised, math.exp(0.25), 64.0 * UNIT)


def test_independent_parts_beyond_their_values() -> None:
    """Either tail of either bin, and the upper one where a record has moved it."""
    outside = 2.0 * float(MP.ncdf(-2.0) + MP.ncdf(-3.0) + MP.ncdf(-2.0))
    one, none = ends().law, ends(spread=0.0).law
    assert none.lost + outside <= one.lost <= none.lost + 1.001 * outside
    assert one.lost_gain >= none.lost_gain + outside


def test_chains_beyond_their_nodes() -> None:
    """A single value that is hardly rounded: either tail, and the upper one where it is moved."""
    nodes = np.array([-2.5, 0.0, 4.0])
    outside = float(MP.ncdf(-2.5) + MP.ncdf(-4.0)), float(MP.ncdf(-3.0))
    found = chain_law.outside(1, 1.0, nodes, 1e-9, 0.0)
    # by Chernoff's bound, which is a few times as large
    assert max(outside) <= found <= 20.0 * max(outside)


@pytest.mark.parametrize("ring", [False, True])
def test_chains_lose_what_leaves_their_nodes(ring: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first value of a ring has nodes of its own."""
    off = 2.0**-6
    monkeypatch.setattr(chain_law, "outside", lambda bins, *_: off if bins > 1 else 0.25 * off)
    follow = chain_law.ring_sum if ring else chain_law.chain_sum
    law = follow(3, 0.5, 0.5, 0.0, tail=1e-2, epsilon=1.0).law
    least = 1.25 * off if ring else off
    assert least <= law.lost <= 1.2 * off + 0.25 * off
    assert least <= law.lost_gain


def test_sums_that_leave_the_cells_of_a_chain() -> None:
    """They are followed by their probability and their mean, which stay exact."""
    turn = np.array([[0.75, 0.25], [0.25, 0.75]])
    start = np.array([0.5, 0.5])
    mass = np.zeros((2, EDGES.size))
    mass[:, 0] = start
    held = chain_law._Held(mass, np.zeros(2), np.zeros(2), 1)
    one = line()
    found = chain_law._followed(one, held, 4, lambda place: turn, 0.0)
    mass, left, gain = found.totals
    mean = float(one.apart @ one.chance) * sum(
        float(one.ratio @ np.linalg.matrix_power(turn, k) @ start) for k in range(4)
    )
    assert left > 0.1
    assert float(mass.sum()) + left == pytest.approx(1.0, rel=1e-12)
    assert float(mass @ EDGES) + gain == pytest.approx(mean, rel=1e-12)


def test_cells_that_are_cleared_are_left_out() -> None:
    """With their probability and their mean."""
    mass = np.array([[0.25, 0.0, 0.5, 0.125], [0.5, 2.0**-40, 0.0, 2.0**-40]])
    edges, none = np.array([0.0, 1.0, 2.0, 4.0]), np.zeros(2)
    total, mean = mass.sum(axis=1), mass @ edges
    kept, left, gain = mass.copy(), none.copy(), none.copy()
    chain_cells.window(kept, edges, 0, 4, left, gain, np.ones(2), 2.0**-20)
    assert left[1] > 0.0
    assert np.array_equal(kept.sum(axis=1) + left, total)
    assert np.array_equal(kept @ edges + gain, mean)


def test_ratios_beyond_even_cells_have_no_shift() -> None:
    """They are added as they are."""
    width = 1.0
    edges = np.append(width * np.arange(6.0), [8.0, 16.0])
    _, _, shifts, values, weights, uppers = chain_cells.entries_of(
        np.array([2.0, 1.5]), np.array([1.0, 3.0]), np.array([0.5, 0.25]), edges, 6
    )
    far = values >= 4.0
    assert np.array_equal(shifts[far], [-1, -1])
    assert np.array_equal(values[far], [6.0, 4.5])
    assert np.array_equal(uppers[far], [0.0, 0.0])
    assert np.array_equal(shifts[~far], [2, 1])
    assert np.array_equal(weights, [0.5, 0.25, 0.5, 0.25])


# ---------------------------------------------------------------------------------- from below


@pytest.mark.parametrize(("unit", "own"), [(UNIT, 0.0), (2.0**-53, UNIT)])
def test_laws_from_below_whose_roundings_are_large(
    unit: float, own: float, err: Callable[..., Any]
) -> None:
    """What masses may be too large by is taken off, and what is taken off is lost."""
    held = np.array([[[0.25, 0.0, 0.5]], [[0.25, 0.0, 1.0]]])
    with err(unit=unit, own=own):
        law = chain_below.law_of(held, 4, 8.0 * UNIT)
    error = (8.0 + (4.0 if own else 0.0)) * UNIT
    check(law.mass, np.array([0.25, 0.5]), -error)
    assert np.array_equal(law.value, [1.0, 2.0])
    assert law.lost >= 0.25 + NEARLY * error
    assert law.moved >= 2.0 * NEARLY * error


def test_chains_from_below_are_rounded_in_sums_over_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of each bin: those over nodes and, but for none here, over the independent part."""
    found: list[tuple[int, int, float]] = []

    def law_of(held: Array, bins: int, rounding: float) -> SumLaw:
        found.append((held.shape[1], bins, rounding))
        return SumLaw(np.ones(1), np.ones(1), bins, 0.0, 0.0, 0.0, 1.0)

    monkeypatch.setattr(chain_below, "law_of", law_of)
    with stress(roundoff=UNIT):
        chain_below.chain_below(
            np.ones(3), 0.5, 0.5, 0.0, powers=False, tail=1e-2, far=3.0, whole=(2,)
        )
    assert len(found) == 2
    for states, _, rounding in found:
        assert rounding >= NEARLY * 3.0 * (4.0 * (states + 1.0) + 64.0) * UNIT
