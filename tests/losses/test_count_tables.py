"""Certified probabilities of counts, against mpmath."""

from __future__ import annotations

import math
from functools import cache

import mpmath
import pytest

import shuffle_accountant as sa
from shuffle_accountant.losses.decoys.count_tables import count_table
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
