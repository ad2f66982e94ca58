"""Sums of independent values by positive sums, against exact rational arithmetic."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums import pairs
from shuffle_accountant.sums.doubling import SumLaw, additions, power
from shuffle_accountant.sums.heavy_tails import heavy_positive_part
from shuffle_accountant.sums.pairs import marked_sums, pair_sums

Law = dict[Fraction, Fraction]


def exact_power(law: Law, count: int) -> Law:
    total: Law = {Fraction(0): Fraction(1)}
    for _ in range(count):
        added: Law = defaultdict(Fraction)
        for x, p in total.items():
            for y, q in law.items():
                added[x + y] += p * q
        total = added
    return total


def exact_positive_part(law: Law, strike: Fraction) -> Fraction:
    return sum((p * max(x - strike, Fraction(0)) for x, p in law.items()), Fraction(0))


def exact_law(value: np.ndarray, mass: np.ndarray) -> Law:
    law: Law = defaultdict(Fraction)
    for x, p in zip(value.tolist(), mass.tolist(), strict=True):
        law[Fraction(x)] += Fraction(p)
    return law


def likelihood_ratios(seed: int, letters: int) -> tuple[np.ndarray, np.ndarray]:
    """Positive values of mean about 1 over many orders of magnitude, and probabilities."""
    rng = np.random.default_rng(seed)
    value = np.sort(np.exp(4.0 * rng.standard_normal(letters)))
    mass = rng.dirichlet(np.full(letters, 0.5)) + 1e-12
    mass /= mass.sum()
    value /= mass @ value
    return value, mass


WAYS = pytest.mark.parametrize("way", ["one thread", "three threads", "vectorised", "blocks"])


def take(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the ways in which pairs are added up."""
    if way == "blocks":  # not compiled, so that blocks can be as small as the laws ask for
        monkeypatch.setattr(pairs, "compiled", lambda loop, *parts: lambda *given: loop(*given))
        monkeypatch.setattr(pairs, "BLOCK", 3)
    if way == "three threads":
        monkeypatch.setattr(pairs, "thread_count", lambda parts: 3)
        parts = pairs._parts

        def three(*given: Any) -> list[Any]:
            found = parts(*given)
            assert len(found) == 3
            return found

        monkeypatch.setattr(pairs, "_parts", three)
    if way == "vectorised":
        monkeypatch.setattr(pairs, "compiled", lambda loop, *parts: loop)
        monkeypatch.setattr(pairs, "LIMITS", replace(pairs.LIMITS, at_once=64))


@WAYS
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("power", [1.0, 12.0])
def test_pair_sums(way: str, same: bool, power: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of one size, and over many orders of magnitude, where blocks share a cell."""
    take(way, monkeypatch)
    rng = np.random.default_rng(1)
    u, v = np.sort(rng.random(40)) ** power, np.sort(rng.random(25)) ** power
    f, g = rng.random(40) ** 20, rng.random(25) ** 20
    if same:
        v, g = u, f
    edges = np.sort(np.append(rng.random(12) ** power * 2.0, u[0] + v[0]))
    edges = edges[edges >= u[0] + v[0]]
    mass, moment, error = pair_sums(u, f, v, g, edges)
    exact_mass, exact_moment = [Fraction(0)] * edges.size, [Fraction(0)] * edges.size
    for x, p in zip(u.tolist(), f.tolist(), strict=True):
        for y, q in zip(v.tolist(), g.tolist(), strict=True):
            # the sum itself is rounded, as documented
            k = int(np.searchsorted(edges, x + y, side="right")) - 1
            exact_mass[k] += Fraction(p) * Fraction(q)
            exact_moment[k] += Fraction(p) * Fraction(q) * Fraction(x + y - float(edges[k]))
    for found, truth in ((mass, exact_mass), (moment, exact_moment)):
        for a, b, p in zip(found.tolist(), truth, exact_mass, strict=True):
            # compensated or counted: the stated error, and one more product in the moment
            allowed = Fraction(error + 1e-15) * b
            if way == "blocks" and truth is exact_moment:
                # distances in a block and from the cell's end: u + v is rounded in two steps
                allowed += Fraction(2.0**-52 * float(u[-1] + v[-1])) * p
            assert abs(Fraction(a) - b) <= allowed


def test_how_often_a_sum_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty values in one row: three in a cell, one after the other, or all of them in one."""
    found: list[int] = []

    def loop(*given: Any) -> int:
        found.append(pairs._loop(*given))
        return found[-1]

    monkeypatch.setattr(pairs, "compiled", lambda *_: loop)
    monkeypatch.setattr(pairs, "BLOCK", 64)
    v, one = np.arange(40.0), np.ones(40)
    for edges in (np.arange(100.0, 142.0, 3.0), np.full(1, 100.0)):
        pair_sums(np.full(1, 100.0), np.ones(1), v, one, edges)
    # terms that were added up first, and additions to a cell; the other half has no pair
    assert [max(found[:2]), max(found[2:])] == [3 + 1, 40 + 1]


@WAYS
@pytest.mark.parametrize("same", [False, True])
def test_marked_sums(way: str, same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs one of which is marked, whichever; the usual law as in `pair_sums`."""
    take(way, monkeypatch)
    rng = np.random.default_rng(2)
    u, v = np.sort(rng.random(40)) ** 12.0, np.sort(rng.random(25)) ** 12.0
    f, g = rng.random((3, 40)) ** 20, rng.random((3, 25)) ** 20
    if same:
        v, g = u, f
    edges = np.append(u[0] + v[0], np.sort(u[0] + v[0] + rng.random(12) ** 12.0))
    sums, error = marked_sums(u, f, v, g, edges)
    mass, moment, _ = pair_sums(u, f[0].copy(), v, g[0].copy(), edges)
    # the stated error of either
    np.testing.assert_allclose(sums[:2], [mass, moment], rtol=2.0 * error)
    for law in (1, 2):
        truth = [Fraction(0)] * edges.size
        for i, j in itertools.product(range(u.size), range(v.size)):
            k = int(np.searchsorted(edges, u[i] + v[j], side="right")) - 1
            for p, q in ((f[law, i], g[0, j]), (f[0, i], g[law, j])):
                truth[k] += Fraction(float(p)) * Fraction(float(q))
        for a, b in zip(sums[law + 1].tolist(), truth, strict=True):
            assert abs(Fraction(a) - b) <= Fraction(error) * b


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    letters=st.integers(1, 4),
    count=st.integers(1, 7),
    width=st.sampled_from([0.005, 0.05]),
    side=st.sampled_from(list(Bound)),
)
def test_power_is_a_bound_in_convex_order(
    seed: int, letters: int, count: int, width: float, side: Bound
) -> None:
    """Calls and puts at any strike, for values over many orders of magnitude."""
    value, mass = likelihood_ratios(seed, letters)
    one = SumLaw(value, mass, 1, 0.0, 0.0, 0.0, float(value[-1]))
    law = power(one, count, side, width=width, tail=1e-30)
    truth = exact_power(exact_law(value, mass), count)
    upper = side is Bound.PESSIMISTIC
    for strike in {*list(truth)[:20], Fraction(count), Fraction(count) * 3 / 2}:
        k = float(strike)
        exact = exact_positive_part(truth, strike)
        raised = law.value * (1.0 + (law.moved if upper else -law.moved))
        found = float(np.sum(law.mass * np.maximum(raised - k, 0.0)))
        # the sum of products here is good to 1e-13; what was left out is below 1e-29
        if upper:
            assert found * (1 + 1e-13) + count * law.lost_gain >= exact * Fraction(1 - 1e-15)
        else:
            assert found * (1 - 1e-13) <= exact
        put = exact_positive_part({-x: p for x, p in truth.items()}, -strike)
        lowered = law.value * (1.0 - (law.moved if upper else -law.moved))
        found = float(np.sum(law.mass * np.maximum(k - lowered, 0.0)))
        if upper:
            assert found * (1 + 1e-13) + k * law.lost >= put * Fraction(1 - 1e-15)
        else:
            assert found * (1 - 1e-13) <= put


def test_power_is_narrow() -> None:
    """Seven values with a heavy tail, at a strike where one of them decides."""
    value, mass = likelihood_ratios(3, 4)
    one = SumLaw(value, mass, 1, 0.0, 0.0, 0.0, float(value[-1]))
    truth = float(exact_positive_part(exact_power(exact_law(value, mass), 7), Fraction(10)))
    ends = []
    for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC):
        law = power(one, 7, side, width=0.005, tail=1e-30)
        ends.append(float(np.sum(law.mass * np.maximum(law.value - 10.0, 0.0))))
    assert ends[0] * (1 - 1e-12) <= truth <= ends[1] * (1 + 1e-12)
    assert ends[1] - ends[0] <= 1e-3 * truth


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), letters=st.integers(2, 4), count=st.integers(1, 7))
def test_heavy_positive_part(seed: int, letters: int, count: int) -> None:
    """Values of both signs."""
    value, mass = likelihood_ratios(seed, letters)
    value = value - 1.5 * value[np.random.default_rng(seed).permutation(letters)]
    truth = exact_positive_part(exact_power(exact_law(value, mass), count), Fraction(0))
    low = heavy_positive_part(value, mass, count, Bound.OPTIMISTIC, resolution=1e-5, tail=1e-30)
    high = heavy_positive_part(value, mass, count, Bound.PESSIMISTIC, resolution=1e-5, tail=1e-30)
    assert low <= truth <= high


def test_additions() -> None:
    """Doublings, and one for each further binary digit."""
    assert [additions(n) for n in (1, 2, 3, 4, 7, 8, 10**9)] == [1, 1, 2, 2, 4, 3, 41]


@pytest.mark.slow
@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("count", [3, 45, 1023])
def test_power_of_a_law_of_many_atoms(side: Bound, count: int) -> None:
    """Sums of Poisson variables are Poisson; single ones are added in wider and wider cells."""
    mean = 900
    atoms = range(mean - 11 * 30, mean + 11 * 30)
    logs = [k * math.log(mean) - mean - math.lgamma(k + 1) for k in atoms]
    # lgamma is good to 1e-12 here, so masses are moved by more, and each of all copies counts
    off = 2e-12 if side is Bound.PESSIMISTIC else -2e-12
    one = SumLaw(
        value=np.array(atoms, dtype=float) / mean,
        mass=np.exp(logs) * (1.0 + off),
        count=1,
        lost_gain=1e-20,
        lost=1e-20,
        moved=1e-15,
        reach=2.0,
    )
    law = power(one, count, side, width=0.01, tail=1e-18)
    sd = math.sqrt(count * mean)
    for score in (-4.0, 0.0, 2.0, 6.0):
        strike = count + round(score * sd) / mean
        exact = poisson_call(count * mean, round(strike * mean)) / mean
        moved = law.value * (1.0 + (law.moved if side is Bound.PESSIMISTIC else -law.moved))
        found = float(np.sum(law.mass * np.maximum(moved - strike, 0.0)))
        if side is Bound.PESSIMISTIC:
            assert exact <= found + count * law.lost_gain
        else:
            assert found <= exact
        # a call moves by about half its gamma times the variance that additions leave behind
        assert found == pytest.approx(exact, rel=0.02)
    # the variance of all additions and of all single values, against the promise of either
    gap = abs(float(law.mass @ (law.value - count) ** 2) * mean / count - 1.0)
    assert gap <= 0.6 * additions(count) * 0.01**2 + 1e-8


def poisson_call(mean: int, strike: int) -> float:
    """``E(N - k)_+`` of a Poisson variable, by adding up its terms from k on."""
    with mpmath.workdps(30):
        p = mpmath.exp(strike * mpmath.log(mean) - mean - mpmath.loggamma(strike + 1))
        total, k = mpmath.mpf(0), strike
        while k < mean or p * (k - strike) > total * mpmath.mpf(10) ** -20 or k == strike:
            total += p * (k - strike)
            k += 1
            p *= mpmath.mpf(mean) / k
        return float(total)
