"""Certified probabilities of counts, against mpmath."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import mpmath
import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.losses import dummies
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.counts import CountTable, count_table
from shuffle_accountant.losses.settings import COUNTS
from shuffle_accountant.losses.tabulated import LossBounds, PldTable, TabulatedLoss
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound, roundings
from shuffle_accountant.randomizers.count_laws import CountLaw


def gaussian_weight(law: sa.DiscreteGaussian, count: int) -> mpmath.mpf:
    return mpmath.exp(-(mpmath.mpf(count - law.mode) ** 2) / (2 * mpmath.mpf(law.sigma) ** 2))


@cache
def gaussian_total(law: sa.DiscreteGaussian) -> mpmath.mpf:
    """Beyond 25 deviations there is less than 1e-130."""
    reach = math.ceil(25 * law.sigma) + 1
    counts = range(max(law.mode - reach, 0), law.mode + reach + 1)
    return mpmath.fsum(gaussian_weight(law, count) for count in counts)


def exact(law: CountLaw, count: int) -> mpmath.mpf:
    """The probability in 90 digits, by gamma functions."""
    match law:
        case sa.Poisson():
            mean = mpmath.mpf(law.mean)
            return mpmath.exp(-mean) * mean**count / mpmath.gamma(count + 1)
        case sa.Binomial():
            p = mpmath.mpf(law.probability)
            return mpmath.binomial(law.trials, count) * p**count * (1 - p) ** (law.trials - count)
        case sa.NegativeBinomial():
            p, size = mpmath.mpf(law.probability), mpmath.mpf(law.size)
            chosen = mpmath.gamma(count + size) / mpmath.gamma(size) / mpmath.gamma(count + 1)
            return chosen * p**size * (1 - p) ** count
        case sa.AsymmetricGeometric():
            left, right = mpmath.mpf(law.left), mpmath.mpf(law.right)
            total = 1 / (1 - right) + left * (1 - left**law.mode) / (1 - left)
            below = left ** (law.mode - count) if count < law.mode else 1
            return (below if count < law.mode else right ** (count - law.mode)) / total
        case sa.DiscreteGaussian():
            return gaussian_weight(law, count) / gaussian_total(law)
    raise AssertionError(law)


LAWS = [
    sa.Poisson(mean=0.01),
    sa.Poisson(mean=50.0),
    sa.Poisson(mean=12_345.6),
    sa.Binomial(trials=0, probability=0.3),
    sa.Binomial(trials=12, probability=0.4),
    sa.Binomial(trials=5000, probability=0.01),
    sa.Binomial(trials=400, probability=0.999),
    sa.NegativeBinomial(size=1e-3, probability=0.1),
    sa.NegativeBinomial(size=0.3, probability=0.01),
    sa.NegativeBinomial(size=2.0, probability=0.1),
    sa.NegativeBinomial(size=900.0, probability=0.6),
    sa.AsymmetricGeometric(mode=0, left=0.5, right=0.5),
    sa.AsymmetricGeometric(mode=10, left=0.7, right=0.8),
    sa.AsymmetricGeometric(mode=2000, left=0.9, right=0.2),
    sa.DiscreteGaussian(mode=0, sigma=3.0),
    sa.DiscreteGaussian(mode=40, sigma=0.05),
    sa.DiscreteGaussian(mode=40, sigma=0.7),
    sa.DiscreteGaussian(mode=60, sigma=12.3),
    sa.DiscreteGaussian(mode=6000, sigma=321.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_probabilities_are_as_good_as_stated(law: CountLaw) -> None:
    table = count_table(law)
    with mpmath.workdps(90):
        listed = range(0, table.probabilities.size, max(table.probabilities.size // 97, 1))
        for i in listed:
            truth = exact(law, table.first + i)
            found = mpmath.mpf(float(table.probabilities[i]))
            bound = 1 + mpmath.mpf(float(table.error[i]))
            assert found <= truth * bound
            assert truth <= found * bound
        total = mpmath.fsum(exact(law, table.first + i) for i in range(table.probabilities.size))
        assert 1 - total <= table.cut
    assert table.cut < 1e-55
    assert table.error.max() < 1e-9


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_counts_that_do_not_exist_have_no_mass(law: CountLaw) -> None:
    table = count_table(law)
    assert table.first >= 0
    assert table.counts[-1] <= law.most


# ------------------------------------------------------------------ under stress: all of it may err

FEW = [
    sa.Poisson(mean=3.0),
    sa.Binomial(trials=12, probability=0.4),
    sa.NegativeBinomial(size=2.0, probability=0.5),
    sa.AsymmetricGeometric(mode=10, left=0.7, right=0.5),
    sa.DiscreteGaussian(mode=6, sigma=1.5),
]
# One count makes nearly all of the total, or a hundred that are far from each other do.
NARROW_AND_WIDE = [sa.Poisson(mean=1e-3), sa.DiscreteGaussian(mode=90, sigma=30.0)]
UNIT = 2.0**-34
ROUNDINGS = pytest.mark.parametrize("adverse", [-1.0, 1.0])
SIDES = pytest.mark.parametrize("side", list(Bound))


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    """What functions keep does not know the budget, nor how much is cut off."""
    kept = count_table, dummies._single
    for function in kept:
        function.cache_clear()
    yield
    for function in kept:
        function.cache_clear()


@ROUNDINGS
@pytest.mark.parametrize("least", [1e-60, 1e-3, 0.1])
@pytest.mark.parametrize("law", FEW + NARROW_AND_WIDE, ids=repr)
def test_tables_that_err_and_are_cut(
    law: CountLaw, least: float, adverse: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shuffle_accountant.losses.counts.COUNTS", replace(COUNTS, least=least))
    with stress(roundoff=UNIT, adverse=adverse):
        table = count_table(law)
    with mpmath.workdps(90):
        for i in range(table.probabilities.size):
            truth = exact(law, table.first + i)
            found = mpmath.mpf(float(table.probabilities[i]))
            bound = 1 + mpmath.mpf(float(table.error[i]))
            assert found <= truth * bound
            assert truth <= found * bound
        total = mpmath.fsum(exact(law, table.first + i) for i in range(table.probabilities.size))
        assert 1 - total <= table.cut
    assert table.cut <= 0.9 or least > 0.01


@cache
def pair_of(law: CountLaw, keep: float) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
    """Probabilities of the counts 0 to 200 with the target's message and without."""
    with mpmath.workdps(60):
        without = [exact(law, c) if c <= law.most else mpmath.mpf(0) for c in range(200)]
        moved = mpmath.mpf(keep)
        present = [(1 - moved) * without[0]]
        present += [(1 - moved) * b + moved * a for a, b in itertools.pairwise(without)]
        return list(zip(present, without, strict=True))


def hockey_stick(pairs: list[tuple[mpmath.mpf, mpmath.mpf]], epsilon: float) -> mpmath.mpf:
    alpha = mpmath.exp(mpmath.mpf(epsilon)) if epsilon < math.inf else None
    if alpha is None:
        return mpmath.fsum(p for p, q in pairs if q == 0)
    return mpmath.fsum(p - alpha * q for p, q in pairs if p > alpha * q)


@cache
def divergence_of(kind: str, law: CountLaw, keep: float, epsilon: float) -> mpmath.mpf:
    """Of one category with the message from without it, the other order, and of two categories."""
    with mpmath.workdps(60):
        pairs = pair_of(law, keep)
        if kind == "both":
            likely = [(p, q) for p, q in pairs if max(p, q) > 1e-35]
            pairs = [(p * b, q * a) for p, q in likely for a, b in likely]
        return hockey_stick([(q, p) for p, q in pairs] if kind == "without" else pairs, epsilon)


@SIDES
@ROUNDINGS
@pytest.mark.parametrize("least", [1e-60, 1e-3])  # whatever is left out, at most 1 is listed
@pytest.mark.parametrize("keep", [1.0, 0.75])
@pytest.mark.parametrize("law", FEW, ids=repr)
def test_dummies_that_err_and_are_cut(
    law: CountLaw,
    keep: float,
    least: float,
    adverse: float,
    side: Bound,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One category, both orders; two categories, both at once."""
    monkeypatch.setattr("shuffle_accountant.losses.counts.COUNTS", replace(COUNTS, least=least))
    upper, effort = side is Bound.PESSIMISTIC, Effort(tail=1e-300, resolution=0.0)
    left = 1e-30 if upper else 0.0  # of what is left out of the sum over both counts
    for epsilon in (0.0, 0.3, 1.1, 2.4, math.inf):
        with stress(roundoff=UNIT, adverse=adverse):
            one = dummies.dummy_loss(law, keep, categories=1)
            two = dummies.dummy_loss(law, keep, categories=2)
            found = [loss.delta(epsilon, side, effort) for loss in (one, one.reversed, two)]
        truths = [divergence_of(kind, law, keep, epsilon) for kind in ("with", "without", "both")]
        for value, truth in zip(found, truths, strict=True):
            assert value >= truth - left if upper else value <= truth
    low, high = dummies.infinite_mass(two)
    known = divergence_of("both", law, keep, math.inf)
    assert low <= known + mpmath.mpf(1e-30)
    assert known <= high


@SIDES
@pytest.mark.parametrize("adverse", [-1.0, 1.0])
def test_steep_profiles_of_sums_of_losses_that_err(side: Bound, adverse: float) -> None:
    """Losses of twenty, whose sum rounds by more than masses do where delta falls steeply."""
    law, keep = sa.Poisson(mean=1e-4), 1.0
    with mpmath.workdps(60):
        likely = [(p, q) for p, q in pair_of(law, keep) if max(p, q) > 1e-45]
        both = [(p * b, q * a) for p, q in likely for a, b in likely]
        kinks = sorted({float(mpmath.log(p / q)) for p, q in both if q > 0 and p > 0})
        for x in [x for x in kinks if x > 12.0]:
            epsilon = x * (1.0 - 1e-6)
            truth = hockey_stick(both, epsilon)
            with stress(roundoff=UNIT, adverse=adverse):
                two = dummies.dummy_loss(law, keep, categories=2)
                found = two.delta(epsilon, side, Effort(tail=1e-300, resolution=0.0))
            if side is Bound.PESSIMISTIC:
                assert found >= truth - mpmath.mpf(1e-40)
            else:
                assert found <= truth


@SIDES
@ROUNDINGS
@pytest.mark.parametrize("infinite", [0.0, 0.0625])
def test_pairs_of_counts_err_by_no_more_than_is_allowed(
    infinite: float, side: Bound, adverse: float
) -> None:
    """Tables that are exact, so that what the sum over pairs allows for is all there is."""
    losses = [-1.5, -0.25, 0.5, 9.0, 20.0]
    masses = [0.125, 0.25, 0.25, 0.25, 0.0625]
    table = PldTable(losses, masses, infinity_mass=infinite)
    one = TabulatedLoss(LossBounds(table, table), LossBounds(table, table))
    loss = dummies.ReplacedValue(((one, 1), (one, 1)))
    upper = side is Bound.PESSIMISTIC
    with mpmath.workdps(60):
        atoms = [(mpmath.mpf(x), mpmath.mpf(p)) for x, p in zip(losses, masses, strict=True)]
        known = 1 - (1 - mpmath.mpf(infinite)) ** 2
        for epsilon in (0.0, 0.4, 3.0, 28.999, 39.9999, math.inf):
            truth = known + mpmath.fsum(
                p * q * -mpmath.expm1(epsilon - x - y)
                for x, p in atoms
                for y, q in atoms
                if x + y > epsilon
            )
            with stress(roundoff=UNIT, adverse=adverse):
                found = loss.delta(epsilon, side, Effort(tail=1e-300, resolution=0.0))
            assert found >= truth if upper else found <= truth
            # a hundred roundings, of a divergence and of losses up to forty
            assert abs(found - truth) <= 2e3 * UNIT * (truth + 1)
        with stress(roundoff=UNIT, adverse=adverse):
            low, high = dummies.infinite_mass(loss)
        assert low <= known <= high <= low + mpmath.mpf(1e-6)


@ROUNDINGS
def test_a_table_with_the_message_errs_by_no_more_than_it_says(adverse: float) -> None:
    """Of a table that is exact, so that only the mixture of its counts errs."""
    given = np.array([0.125, 0.5, 0.25])
    table = CountTable(3, given, np.zeros(3), 0.125)
    with stress(roundoff=UNIT, adverse=adverse):
        counts, found, error = dummies._with_message(table, 0.75)
    assert counts.tolist() == [3.0, 4.0, 5.0, 6.0]
    truth = 0.25 * np.append(given, 0.0) + 0.75 * np.append(0.0, given)
    assert np.all(found <= truth * (1.0 + error))
    assert np.all(truth <= found * (1.0 + error))


@SIDES
@ROUNDINGS
def test_losses_of_counts_are_on_their_side(side: Bound, adverse: float) -> None:
    """Ratios and masses that are exact: two counts that tell for certain, two of equal ratio."""
    ratio = np.array([math.inf, 0.5, 2.0, math.inf, 2.0, 0.0])
    mass = np.array([0.125, 0.25, 0.0625, 0.0625, 0.25, 0.125])
    upper, cut = side is Bound.PESSIMISTIC, 0.03125
    with stress(roundoff=UNIT, adverse=adverse):
        # what a ratio is off by pays for the doubles of this test as well
        table = dummies._bound(ratio, roundings(1.0), mass, np.zeros(6), cut, side)
    found = [table.infinity_mass, *table.probabilities.tolist(), *table.losses.tolist()]
    with mpmath.workdps(60):
        losses = [mpmath.log(mpmath.mpf(0.5)), mpmath.log(2)]
        truth = [0.1875 + (cut if upper else 0.0), 0.25, 0.3125, *losses]
        for value, true in zip(found, truth, strict=True):
            assert value >= true if upper else value <= true
            assert abs(value - true) <= 200 * UNIT


def test_the_worse_order_may_be_infinite() -> None:
    """Each end is that of the order in which it is larger."""

    def table(infinite: float) -> PldTable:
        return PldTable([0.5], [0.25], infinity_mass=infinite)

    forward = LossBounds(table(0.5), table(0.125))
    backward = LossBounds(table(0.375), table(0.25))
    for loss in (TabulatedLoss(forward, backward), TabulatedLoss(backward, forward)):
        assert dummies.infinite_mass(loss) == (0.25, 0.5)
