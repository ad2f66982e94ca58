"""Binomial probabilities and tails against 90-digit integrals, up to 1e12 trials."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from oracles import binomial as oracle

from shuffle_accountant.numerics import binomial
from shuffle_accountant.numerics.binomial import gauss_legendre
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF

U = UNIT_ROUNDOFF


def points(n: int, p: float) -> list[int]:
    """Counts at the mean and up to 37 standard deviations (1e-300) on both sides."""
    sd = math.sqrt(n * p * (1 - p))
    found = {round(n * p + t * sd) for t in (-37, -8, -1, 0, 0.3, 1, 3, 8, 20, 37)}
    return sorted({min(max(k, 0), n) for k in found} | {0, n})


CASES = [
    (n, p)
    for n in (1, 2, 15, 16, 300, 10_000, 10**8, 10**12)
    for p in (0.5, 0.036, 2.0**-30, 1 - 2.0**-20)
]


@pytest.mark.parametrize(("n", "p"), CASES)
def test_probability_is_within_its_stated_error(n: int, p: float) -> None:
    for k in points(n, p):
        found = float(binomial.log_pmf(k, n, p, 1 - p))
        if found < -1e6:  # beyond the size the error bound is stated for, and of any use
            continue
        error = abs(float(mpmath.log(oracle.pmf(k, n, p)) - found))
        assert error <= float(binomial.log_pmf_error(k, n, p, found))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), CASES)
def test_tail_has_relative_accuracy(n: int, p: float) -> None:
    for k in points(n, p):
        found = float(binomial.log_upper_tail(k, n, p, 1 - p))
        if found < -800:
            continue
        truth = oracle.upper_tail(k, n, p)
        # the pmf's bound, the tail ratio's, and the rounding of p in the latter
        bound = float(binomial.log_pmf_error(k, n, p, found)) + binomial.tail_ratio_error()
        bound += 8 * U * math.sqrt(n * min(p, 1 - p)) + 16 * U
        assert abs(float(mpmath.log(truth) - found)) <= bound, (k, n, p)


def test_terms_that_cancel_are_rounded_at_their_own_size() -> None:
    """Three corrections, two deviances and a logarithm, each below 1: eight roundings at least."""
    for k, n in ((1, 2), (2, 4), (8, 16)):
        found = float(binomial.log_pmf(k, n, 0.5, 0.5))
        least = (8.0 + 6.0 * abs(found)) * U
        assert float(binomial.log_pmf_error(k, n, 0.5, found)) >= least


def test_certain_outcomes() -> None:
    assert binomial.log_pmf([0, 1, 5], 5, 0.0, 1.0).tolist() == [0.0, -math.inf, -math.inf]
    assert binomial.log_pmf([0, 5], 5, 1.0, 0.0).tolist() == [-math.inf, 0.0]
    assert binomial.log_upper_tail([0, 1], 5, 0.0, 1.0).tolist() == [0.0, -math.inf]
    assert binomial.log_upper_tail([0, 6], 5, 0.3, 0.7).tolist() == [0.0, -math.inf]


def test_log1p_minus_near_and_far_from_zero() -> None:
    x = np.array([-0.9, -0.5, -1e-3, -1e-9, 0.0, 1e-300, 1e-12, 1e-5, 0.49, 0.51, 3.0, 1e9])
    truth = [float(mpmath.log1p(mpmath.mpf(v)) - mpmath.mpf(v)) for v in x.tolist()]
    with mpmath.workdps(60):
        truth = [float(mpmath.log1p(mpmath.mpf(v)) - mpmath.mpf(v)) for v in x.tolist()]
    # a handful of roundings; underflow near 1e-300
    assert binomial.log1p_minus(x) == pytest.approx(truth, rel=2e-15, abs=1e-320)


def test_stirling_error_small_and_large() -> None:
    k = np.array([1.0, 2, 5, 15, 16, 17, 100, 1e6, 1e12])
    with mpmath.workdps(60):
        truth = []
        for v in k.tolist():
            x = mpmath.mpf(v)
            stirling = (x + 0.5) * mpmath.log(x) - x + mpmath.log(2 * mpmath.pi) / 2
            truth.append(float(mpmath.loggamma(x + 1) - stirling))
    assert binomial.stirling_error(k) == pytest.approx(truth, rel=4 * U * 2)


def test_deviance_where_the_ratio_is_lost() -> None:
    # x/mean = 1e20: log(mean/x) must not be computed as log(1 - 1)
    assert float(binomial.deviance(1.0, 1e-20)) == pytest.approx(math.log(1e20) - 1, rel=1e-15)
    assert float(binomial.deviance(0.0, 3.5)) == 3.5


@pytest.mark.parametrize("order", [2, 7, 48])
def test_quadrature_is_exact_for_polynomials(order: int) -> None:
    nodes, weights = gauss_legendre(order)
    for degree in range(2 * order):
        total = math.fsum((nodes**degree * weights).tolist())
        # each node's relative error of one unit counts `degree` times
        assert total == pytest.approx(1 / (degree + 1), rel=2 * U * (degree + 2))
