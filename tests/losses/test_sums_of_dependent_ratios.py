"""Sums of dependent ratios from laws that are known: what each step of a bound adds to errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.losses.dealt import correlated
from shuffle_accountant.losses.dealt.correlated import (
    ChainRatios,
    ChainsBelow,
    CorrelatedLoss,
    TreeRatios,
    UnknownRatios,
)
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums.chain_law import ChainSum
from shuffle_accountant.sums.doubling import SumLaw

UNIT = 2.0**-30
SIDES = pytest.mark.parametrize("side", list(Bound))
LAW = SumLaw(np.array([1.0, 4.0]), np.array([0.5, 0.25]), 2, 2.0**-5, 2.0**-6, 2.0**-20, 8.0)


@SIDES
def test_revealed_bins_have_less_noise_by_eight_roundings(
    side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a root and a quotient; and no divergence is known from a single message."""
    asked = []
    monkeypatch.setattr(
        correlated, "gaussian_profile", lambda sigma, *given: asked.append((sigma, *given))
    )
    source = TreeRatios(variance=0.25, order=False, step=0.125)
    with stress(roundoff=UNIT):
        source.alone(0.5, side)
    ((sigma, *rest),) = asked
    sign = -1.0 if side is Bound.PESSIMISTIC else 1.0
    assert rest == [0.5, side]
    assert 8.0 * UNIT <= sign * (sigma / 2.0 - 1.0) <= 9.0 * UNIT
    assert CorrelatedLoss(source, 8)._pointed_out(40.0, side) == (side is Bound.PESSIMISTIC)


@pytest.mark.parametrize("order", [False, True])
def test_a_chain_is_raised_in_one_order_only(order: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product rounds values and what is left out by two roundings at most."""
    monkeypatch.setattr(correlated, "_chain", lambda *_: ChainSum(LAW, 1.5))
    source = ChainRatios(0.25, order, 0.25, 0.5, 0.0, 1.0)
    with stress(roundoff=UNIT):
        found = source.sums(Bound.PESSIMISTIC, users=2, width=0.01, tail=1e-12)
    factor = 1.0 if order else 1.5
    assert found.value.tolist() == [factor, 4.0 * factor]
    assert found.mass.tolist() == LAW.mass.tolist()
    assert LAW.moved + 2.0 * UNIT <= found.moved <= LAW.moved + 3.0 * UNIT
    gain = found.lost_gain / (LAW.lost_gain * factor) - 1.0
    assert 2.0 * UNIT <= gain <= 3.0 * UNIT
    assert (found.lost, found.reach) == (LAW.lost, LAW.reach * factor)


def test_only_one_side_of_a_chain_is_known() -> None:
    """The side is checked; the mean alone is below every law."""
    unknown = UnknownRatios(0.25, False)
    law = unknown.sums(Bound.OPTIMISTIC, users=5, width=0.01, tail=1e-12)
    assert (law.value.tolist(), law.mass.tolist(), law.count) == ([5.0], [1.0], 5)
    for source, side in (
        (unknown, Bound.PESSIMISTIC),
        (ChainRatios(0.25, False, 0.25, 0.5, 0.0, 1.0), Bound.OPTIMISTIC),
        (ChainsBelow(0.25, False, (1.0,), ((1, 0.25, 0.5, 0.0),)), Bound.PESSIMISTIC),
    ):
        with pytest.raises(AssertionError):
            source.sums(side, users=5, width=0.01, tail=1e-12)


@pytest.mark.parametrize("bins", [128, 300])
@SIDES
def test_a_line_is_cut_into_blocks_from_below_only(
    side: Bound, bins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What blocks share is lost between them, so that they are no bound from above."""
    asked: list[int] = []

    def line(count: int, *given: Any, **_: Any) -> SumLaw:
        asked.append(count)
        assert given[-1] is side
        one = np.ones(1)
        return SumLaw(count * one, one, count, 0.0, 0.0, 0.0, float(count))

    monkeypatch.setattr(correlated, "pair_sum", line)
    law = correlated._pairs.__wrapped__(bins, 0.1, 0.1, 0.1, side, False, 1e-12, 1.0, 0.5)
    whole = bins == 128 or side is Bound.PESSIMISTIC
    assert asked == ([bins] if whole else [150])
    assert law.count == bins
    assert float(law.mass @ law.value) == pytest.approx(bins, rel=1e-9)


@pytest.mark.parametrize(("order", "spare"), [(False, 0.0), (True, 0.25)])
def test_only_the_order_of_the_smaller_epsilon_has_some_to_spare(
    order: bool, spare: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its nodes may be as far apart as the other order's epsilon allows."""
    asked: list[Any] = []

    def line(count: int, *_: Any, **given: Any) -> SumLaw:
        asked.append((given["powers"], given["epsilon"], given["spare"]))
        return SumLaw(np.full(1, float(count)), np.ones(1), count, 0.0, 0.0, 0.0, float(count))

    monkeypatch.setattr(correlated, "pair_sum", line)
    for other in (0.75, 1.25):
        parts = 10, 0.1, 0.1, 0.1, Bound.PESSIMISTIC, order, 1e-12, 1.0
        correlated._pairs.__wrapped__(*parts, other)
    assert asked == [(order, 1.0, spare), (order, 1.0, 0.0)]


@pytest.mark.parametrize(("sigma", "bins"), [(0.7, 20), (1.0, 60), (3.0, 100)])
def test_where_to_look_is_near_epsilon(sigma: float, bins: int) -> None:
    """Wide cells and nodes raise epsilon by a few hundredths of a nat in either order."""
    parts = bins, *(size / sigma / math.sqrt(1.25) for size in (1.0, 0.5, 0.5))
    forward, backward = correlated._rough_of_pairs(*parts, 1e-6)
    assert 0.0 < backward < forward + 0.01  # much noise: both are nearly the same
    one = sa.MatrixMechanism(coefficients=[1.0, 0.5], noise_multiplier=sigma, bins=bins)
    exact = sa.epsilon(one, delta=1e-6)
    assert exact.lower < forward < exact.upper + 0.06


def test_roundings_of_a_deviation_are_looked_at_once() -> None:
    assert correlated._few_digits(0.1) == correlated._few_digits(0.1 * (1.0 + 1e-13)) == 0.1


def test_blocks_from_below_add_up_to_less_in_convex_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blocks of ratios 0.6 and 1.4 each, the last one and 32 others, against binomial chances."""
    block = np.array([math.comb(10, k) for k in range(11)]) / 1024.0
    one = SumLaw(6.0 + 0.8 * np.arange(11.0), block, 10, 0.0, 0.0, 0.0, 14.0)
    monkeypatch.setattr(correlated, "chain_below", lambda *_, whole, **__: [one] * (1 + len(whole)))
    source = ChainsBelow(0.25, False, (1.0,) * 330, ())
    law = correlated._of_blocks.__wrapped__(source, (10, 0.25, 0.5, 0.0), 330, 1e-12)
    chance = np.array([math.comb(330, k) / 2**330 for k in range(331)])
    total = 198.0 + 0.8 * np.arange(331.0)
    near = False
    for level in np.arange(280.0, 380.0, 3.7):
        truth = float(chance @ np.maximum(total - level, 0.0))
        found = float(law.mass @ np.maximum(law.value - level, 0.0))
        # cells of 0.02 deviations move it by less than a thousandth of them; the rest is rounding
        assert truth - 0.01 <= found <= truth + 1e-9 * level
        near = near or found < truth - 1e-7
    assert near  # so that a law from above would be seen


class Lognormal:
    """A normal ratio in two atoms, remembered with its deviation."""

    asked: float
    law = SumLaw(np.array([0.5, 2.0]), np.array([0.5, 0.25]), 1, 2.0**-3, 2.0**-4, 2.0**-21, 2.0)

    def __init__(self, sigma: float) -> None:
        Lognormal.asked = sigma

    def ratios(self, side: Bound, **_: Any) -> SumLaw:
        return self.law


@SIDES
def test_a_node_multiplies_its_leaves(side: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors and what is left out of a product are sums, each of two factors of mean one."""
    monkeypatch.setattr(correlated, "GaussianRatio", Lognormal)
    with stress(roundoff=UNIT):
        found = correlated._times(LAW, 0.25, side, 1e-3, 1e-12, 2)
    sign = 1.0 if side is Bound.PESSIMISTIC else -1.0
    # a root and a quotient round, and the square is what counts
    assert 8.0 * UNIT <= -sign * (Lognormal.asked / 2.0 - 1.0) <= 9.0 * UNIT
    assert found.value.tolist() == [0.5, 2.0, 2.0, 8.0]
    masses = np.array([0.25, 0.125, 0.125, 0.0625])
    moved = sign * (found.mass / masses - 1.0)
    assert np.all((moved >= 2.0 * UNIT - 1e-15) & (moved <= 3.0 * UNIT))
    assert found.lost_gain == LAW.lost_gain + 2.0**-3
    assert found.lost == LAW.lost + 2.0**-4
    least = LAW.moved + 2.0**-21 + 4.0 * UNIT
    assert least <= found.moved <= least + UNIT
    assert (found.reach, found.count) == (16.0, 2)
