"""Profiles and moments of counts above a threshold, whose tails err by all that they may.

The truth is that of SciPy's binomial laws: its errors of 1e-12 are far below those put in here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from scipy.stats import binom

from shuffle_accountant.losses.settings import THRESHOLDS
from shuffle_accountant.losses.steps import thresholds
from shuffle_accountant.losses.steps.thresholds import ThresholdMoments, ThresholdPair
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Array

ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 1.0])
P, K = 0.3, 3
LOSSES = np.array([0.0, 0.05, 0.3, 0.357, 1.0, 3.0])


@contextmanager
def stressed(roundoff: float, adverse: float) -> Iterator[None]:
    for function in (thresholds._tails, thresholds.threshold_moments):
        function.cache_clear()
    with stress(roundoff=roundoff, adverse=adverse):
        yield
    for function in (thresholds._tails, thresholds.threshold_moments):
        function.cache_clear()


def laws(others: int, threshold: int = K, chance: float = P) -> tuple[Array, Array]:
    """What is seen with the target's report and without: nothing, or a count."""
    counts = np.arange(others + 2)
    p, q = binom.pmf(counts, others + 1, chance), binom.pmf(counts, others, chance)
    few = counts < threshold
    p, q = (np.append(row[few].sum(), row[~few]) for row in (p, q))
    return p, q


def excess(p: Array, q: Array, loss: float) -> float:
    return float(np.maximum(p - math.exp(loss) * q, 0.0).sum())


# ---------------------------------------------------------------------------------------- profiles


@ADVERSE
@pytest.mark.parametrize(("chance", "others"), [(P, 2), (P, 3), (P, 9), (P, 26), (0.005, 2)])
def test_profiles_of_one_number_of_others(chance: float, others: int, adverse: float) -> None:
    """The last of a table of 2400 rows, whose tails take more roundings than places are off."""
    p, q = laws(others, K, chance)
    with stressed(2.0**-24, adverse):
        pair = ThresholdPair(chance, K, others)
        ends = pair.forward(LOSSES), pair.backward(LOSSES)
    for (low, high), first, second in zip(ends, (p, q), (q, p), strict=True):
        for loss, below, above in zip(LOSSES, low, high, strict=True):
            value = excess(first, second, loss)
            assert below <= value * (1 + 1e-9)
            assert above >= value * (1 - 1e-9)
            assert above - below <= 0.01


@ADVERSE
@pytest.mark.parametrize("side", [-0.9, -0.4, 0.4, 0.9])
@pytest.mark.parametrize(
    ("chance", "threshold", "others"),
    [(P, K, 9), (P, K, 26), (0.99, K, 9), (0.99, K, 12), (0.501, 1, 1)],
)
def test_places_that_err_cost_no_count(
    chance: float, threshold: int, others: int, side: float, adverse: float
) -> None:
    """Ratios that differ from alpha by less than its place is off."""
    p, q = laws(others, threshold, chance)
    with stressed(2.0**-24, adverse):
        pair = ThresholdPair(chance, threshold, others)
        off = (others + 1) * 128.0 * 2.0**-24
        counts = np.arange(threshold, others + 1.0) + side * off
        gain = np.log((others + 1) * (1 - chance) / (others + 1 - counts))
        gained, lost = gain[gain > 0.0], -gain[gain < 0.0]
        ends = pair.forward(gained), pair.backward(lost)
    for (low, high), asked, first, second in zip(ends, (gained, lost), (p, q), (q, p), strict=True):
        for loss, below, above in zip(asked, low, high, strict=True):
            value = excess(first, second, loss)
            assert below <= value * (1 + 1e-9) + 1e-16
            assert above >= value * (1 - 1e-9) - 1e-16


@ADVERSE
def test_no_loss_is_larger_than_that_of_no_report(adverse: float) -> None:
    with stressed(2.0**-24, adverse):
        assert ThresholdPair(P, K).largest_reversed >= -math.log1p(-P)
    assert ThresholdPair(P, K).largest_reversed <= -math.log1p(-P) * (1 + 1e-14)


def test_what_no_table_holds_is_charged() -> None:
    """Counts above the table have less than 1e-150 of all mass, which no end leaves out."""
    low, high = ThresholdPair(0.005, 2, 1500).forward(np.array([5.0]))
    assert low[0] == 0.0
    assert 1e-150 <= high[0] <= 1e-100
    assert ThresholdPair(1e-200, 1, 0).forward(np.zeros(1))[0][0] == 0.0
    table = ThresholdPair(0.005, 2).table
    assert thresholds._errors(table) >= 3 * table.shape[0] + table.shape[1]


# ----------------------------------------------------------------------------------------- moments


def truth(others: list[tuple[int, int]]) -> ThresholdMoments:
    """The moments themselves, of numbers of others with their thresholds, 0 for none."""
    orders, limits = thresholds._ORDERS, thresholds._LIMITS
    gained = np.empty((orders.size, limits.size, len(others)))
    lost, beyond = np.empty((orders.size, len(others))), np.empty((limits.size, len(others)))
    for place, (m, threshold) in enumerate(others):
        p, q = laws(m, threshold)
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = np.log(p) - np.log(q)
        if threshold == 0:  # `laws` has nothing suppressed in front
            p, q, loss = p[1:], q[1:], loss[1:]
        for j, limit in enumerate(limits):
            beyond[j, place] = p[loss > limit].sum()
        finite = np.isfinite(loss)
        for i, order in enumerate(orders):
            with np.errstate(over="ignore"):
                terms = p[finite] * np.exp(order * loss[finite])
                lost[i, place] = np.log(np.sum(q[finite] * np.exp(-order * loss[finite])))
            for j, limit in enumerate(limits):
                gained[i, j, place] = np.log(np.sum(terms[loss[finite] <= limit]))
    return ThresholdMoments(gained, lost, beyond)


SCANNED = ThresholdPair(P, K).scanned.tolist()
# of every number of others that is scanned and of all larger ones
TRUTH = truth([*((m, K) for m in SCANNED), (SCANNED[-1], 0)])


@ADVERSE
def test_moments_are_bounds_where_tails_err(adverse: float) -> None:
    with stressed(2.0**-38, adverse):
        found = thresholds.threshold_moments(P, K)
    assert found is not None
    assert np.all(found.gained >= TRUTH.gained - 1e-10)
    assert np.all(found.lost >= TRUTH.lost - 1e-10)
    assert np.all(found.beyond >= TRUTH.beyond * (1 - 1e-10))
    # 10,000 roundings of 2^-38 are 4e-8, and what is hidden may be a ten-thousandth
    near = thresholds._ORDERS < 3.0
    assert np.all(found.gained[near] <= TRUTH.gained[near] + 1e-2)
    assert np.all(found.lost[near] <= TRUTH.lost[near] + 1e-2)


def test_losses_of_counts_beyond_the_table_are_charged() -> None:
    """A table of 362 counts for up to 1,600 others, of whom five in a thousand report."""
    found = thresholds.threshold_moments(0.005, 2)
    assert found is not None
    assert found.beyond.min() >= 1e-150


@pytest.mark.parametrize("off", [-1.0, 1.0])
@pytest.mark.parametrize("least", [1, K])
def test_moments_of_what_is_suppressed_where_its_tail_errs(
    least: int, off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tail at the threshold is off by all that tails may be off, which is its complement."""
    pair = ThresholdPair(P, least)
    others = pair.scanned[:6]
    real = truth([(m, least) for m in others.tolist()])
    table, most = pair.table.copy(), thresholds._errors(pair.table) * 2.0**-38
    table[:, least] = np.minimum(table[:, least] * (1.0 + off * 0.99 * most), 1.0)
    monkeypatch.setattr(thresholds, "_tails", lambda probability, threshold: table)
    with stress(roundoff=2.0**-38):
        gained, lost, _ = thresholds._moments(pair, least, others)
    assert np.all(gained >= real.gained - 1e-10)
    assert np.all(lost >= real.lost - 1e-10)


@ADVERSE
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(("rounds", "delta"), [(2, 1e-4), (2, 0.15), (2, 0.25), (50, 1e-4)])
def test_bounds_of_moments_where_sums_err(
    rounds: int, delta: float, replaced: bool, adverse: float
) -> None:
    """The least bound over all orders and limits, each as it is written."""
    t, epsilon = thresholds._ORDERS, 0.8
    assert THRESHOLDS.bound_error > 1000.0  # one bound takes fewer roundings
    log_c = t * np.log(t) - (1.0 + t) * np.log1p(t)
    if replaced:
        sides = [(TRUTH.gained + TRUTH.lost[:, None, :], TRUTH.beyond)]
    else:
        sides = [(TRUTH.gained, TRUTH.beyond), (TRUTH.lost[:, None, :], 0.0 * TRUTH.beyond[:1])]
    epsilons, deltas = [], []
    for moment, beyond in sides:
        left = delta - rounds * beyond
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = (rounds * moment + log_c[:, None, None] - np.log(left)) / t[:, None, None]
        epsilons.append(np.where(left > 0.0, cost, np.inf).min(axis=(0, 1)))
        power = rounds * moment + log_c[:, None, None] - (t * epsilon)[:, None, None]
        deltas.append((np.exp(np.minimum(power, 1.0)) + rounds * beyond).min(axis=(0, 1)))
    with stress(roundoff=2.0**-36, adverse=adverse):  # 2^26 of them are a thousandth
        found = TRUTH.epsilon(delta, rounds, replaced=replaced)
        above = TRUTH.delta(epsilon, rounds, replaced=replaced)
    least = np.maximum(np.max(epsilons, axis=0), 0.0)
    assert np.all(found >= least)
    assert np.all(found <= least * 1.01 + 1e-2)
    most = np.minimum(np.max(deltas, axis=0), 1.0)
    assert np.all(above >= most * (1 - 1e-12))
    assert np.all(above <= most * 1.01)
