"""Bags of a target and draws of its own null law, against sums of fifty digits over all counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from oracles.precision import MP, Real, exact

from shuffle_accountant.lattice.grid import Array, Bound
from shuffle_accountant.losses.two_letters import null_bags, zero_out
from shuffle_accountant.losses.two_letters.null_bags import BagCounts
from shuffle_accountant.numerics.budget import stress

SIDES = pytest.mark.parametrize("side", list(Bound))
BUDGETS: dict[str, dict[str, float]] = {
    "as it is": {},
    "roundings up": {"roundoff": 2.0**-34, "adverse": 1.0},
    "roundings down": {"roundoff": 2.0**-34, "adverse": -1.0},
}
# eps0, values of K with their weights, number of last letters.
BAGS: dict[str, tuple[float, list[float], list[float], int]] = {
    "one letter": (1.0, [1.0], [1.0], 0),
    "the last letter alone": (1.0, [1.0], [0.25], 1),
    "few": (0.3, [2.0, 3.0, 7.0], [0.5, 0.3, 0.2], 1),
    "many": (0.5, [90.0, 150.0], [0.4, 0.6], 0),
    "rare letters": (6.0, [300.0, 340.0], [0.5, 0.25], 2),
    "probabilities below all doubles": (80.0, [5.0, 12.0], [0.5, 0.5], 0),
}


def truth(name: str, alpha: Real) -> tuple[Real, Real]:
    """Both divergences, count by count."""
    eps0, count, weight, last = BAGS[name]
    odds = MP.exp(exact(eps0))
    forward = backward = MP.mpf(0)
    for k, mass in zip(count, weight, strict=True):
        m = max(int(k) - last, 0)
        for a in range(m + 1):
            chance = exact(mass) * MP.binomial(m, a) * odds ** (m - a) / (1 + odds) ** m
            ratio = (a * odds + (m - a) / odds) / int(k)
            forward += chance * max(ratio - alpha, 0)
            backward += chance * max(1 - alpha * ratio, 0)
    return forward, backward


def found(name: str, points: Array, side: Bound, tail: float = 1e-30) -> Array:
    eps0, count, weight, last = BAGS[name]
    bags = BagCounts(eps0, int(max(count)), tail)
    return bags.profiles(points, np.array(count), np.array(weight), float(last), side)


@pytest.mark.slow
@SIDES
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", BAGS)
def test_profiles_are_on_their_side(name: str, budget: str, side: Bound) -> None:
    """Strictly, and but for round-off no further away than what may be left out."""
    eps0 = BAGS[name][0]
    points = np.array([0.0, 0.05, 0.2, 0.5 * eps0, 0.9 * eps0])
    points.sort()
    with stress(**BUDGETS[budget]):
        values = found(name, points, side)
    sign = 1 if side is Bound.PESSIMISTIC else -1
    for i, x in enumerate(points.tolist()):
        for value, true in zip(values[:, i].tolist(), truth(name, MP.exp(exact(x))), strict=True):
            assert sign * (exact(value) - true) >= 0
            if budget == "as it is":
                assert abs(exact(value) - true) <= 1e-9 * true + 1e-13 * math.exp(x)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(
    ("eps0", "letters", "most"),
    [(0.5, 70, 70), (6.0, 300, 300), (25.0, 40, 40), (80.0, 12, 12), (0.5, 1600, 10**6)],
)
def test_probabilities_are_as_good_as_stated(
    eps0: float, letters: int, most: int, budget: str
) -> None:
    """A run of products may start with what is below all doubles."""
    with stress(**BUDGETS[budget]):
        counts, law, error = BagCounts(eps0, most, 1e-250)._law(np.array([float(letters)]))
    counts, law = counts[:, :1000], law[:, :1000]
    odds, seen = MP.exp(exact(eps0)), 0
    for a, chance in zip(counts[0].tolist(), law[0].tolist(), strict=True):
        if a > letters:
            assert chance == 0.0
            continue
        true = MP.binomial(letters, int(a)) * odds ** (letters - int(a)) / (1 + odds) ** letters
        if true > 1e-300:
            assert abs(exact(chance) - true) <= exact(error) * true
            seen += 1
        else:
            assert chance <= 1e-299
    assert seen >= 5


@SIDES
def test_probabilities_that_err_are_followed(side: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are off by a tenth, the wrong way."""
    law = BagCounts._law
    factor = 0.9 if side is Bound.PESSIMISTIC else 1.1

    def off(self: BagCounts, m: Array) -> tuple[Array, Array, float]:
        a, mass, _ = law(self, m)
        return a, mass * factor, 0.12

    monkeypatch.setattr(BagCounts, "_law", off)
    test_profiles_are_on_their_side("few", "roundings up", side)
    test_profiles_are_on_their_side("many", "roundings up", side)


@pytest.mark.slow
@SIDES
@pytest.mark.parametrize("kept", [2, 4])
def test_counts_that_are_left_out(kept: int, side: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the first few, or all but some in the middle."""
    monkeypatch.setattr(null_bags, "RUN", 1)
    name = "rare letters" if kept == 4 else "many"
    eps0, count, weight, last = BAGS[name]
    bags = BagCounts(eps0, int(max(count)), 1e-30)
    m, s = np.array(count) - last, null_bags.chances(eps0)[0]
    # windows from a little below each mean on, with so few counts
    bags._below, bags._above = 4.5, kept - 9.5
    start = np.maximum(np.floor(m * s - bags._below) - 1.0, 0.0)
    bags.left_out = 0.0
    for letters, first in zip(m.astype(int).tolist(), start.astype(int).tolist(), strict=True):
        law = [math.comb(letters, a) * s**a * (1 - s) ** (letters - a) for a in range(letters + 1)]
        ends = sum(law[:first]), sum(law[first + bags.width :])
        bags.left_out = max(bags.left_out, *ends)
    assert bags.width == kept
    assert bags.left_out > 1e-6
    points = np.linspace(0.0, 0.9 * eps0, 7)
    values = bags.profiles(points, np.array(count), np.array(weight), float(last), side)
    sign = 1 if side is Bound.PESSIMISTIC else -1
    for i, x in enumerate(points.tolist()):
        for value, true in zip(values[:, i].tolist(), truth(name, MP.exp(exact(x))), strict=True):
            assert sign * (exact(value) - true) >= 0


@pytest.mark.parametrize(("eps0", "most"), [(0.3, 5000), (2.0, 10**6), (6.0, 400), (0.01, 10**9)])
def test_windows_hold_all_but_what_is_stated(eps0: float, most: int) -> None:
    """For the most letters and for fewer."""
    bags = BagCounts(eps0, most, 1e-12)
    s, _ = null_bags.chances(eps0)
    for letters in (most, most // 3, 3):
        start = max(math.floor(letters * s - bags._below) - 1, 0)
        below = scipy.stats.binom.cdf(start - 1, letters, s)
        above = scipy.stats.binom.sf(start + bags.width - 1, letters, s)
        assert max(below, above) <= bags.left_out


@SIDES
def test_single_questions_agree(side: Bound) -> None:
    """Bags too large for an enumeration; the other way has tails of the binomial law."""
    points = np.linspace(0.0, 0.2, 9)
    count, weight = np.array([2.0e4, 2.1e4]), np.array([0.5, 0.5])
    bags = BagCounts(2.0, int(count.max()), 1e-30)
    for last in (0.0, 3.0):
        values = bags.profiles(points, count, weight, last, side)
        parts = [zero_out._given_last(2.0, points, count, last, order, side) for order in (0, 1)]
        other = np.einsum("i,kij->kj", weight, np.stack(parts))
        near = other > 1e-18
        assert np.allclose(values[near], other[near], rtol=1e-8, atol=0.0)
        assert near.sum() >= 8
