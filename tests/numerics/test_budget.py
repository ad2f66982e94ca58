"""The budget itself, and primitives that err as much as they say."""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys

import numpy as np
import pytest
from oracles.precision import MP, exact

import shuffle_accountant as sa
from shuffle_accountant.numerics import binomial, probabilities
from shuffle_accountant.numerics import rounding as lemma
from shuffle_accountant.numerics.budget import Budget, budget, disturbed, rounded, stress
from shuffle_accountant.numerics.roots import find_crossing
from shuffle_accountant.numerics.rounding import log_ratio_above


def clear_caches() -> None:
    """Forget what the package has kept."""
    for name, module in list(sys.modules.items()):
        if name.startswith("shuffle_accountant"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear") and not isinstance(value, type):
                    value.cache_clear()


def test_the_default_is_what_answers_are_made_with() -> None:
    assert budget() == Budget()
    assert dataclasses.astuple(Budget()) == (
        -40.0,  # e^-40 = 4e-18 is left outside of windows
        45.0,
        2.0**-49,
        1e-12,
        2.0**-53,
        1e-11,
        0.0,
    )


def test_a_stress_ends_with_its_block() -> None:
    with stress(outside=-3.0, adverse=1.0) as found:
        assert budget() is found
        assert (found.outside, found.reach) == (-3.0, Budget().reach)
        with stress(reach=2.0):
            assert budget() == Budget(reach=2.0)
        assert budget() is found
    assert budget() == Budget()
    with pytest.raises(ZeroDivisionError), stress(outside=-1.0):
        raise ZeroDivisionError
    assert budget() == Budget()
    with pytest.raises(TypeError, match="windows"), stress(windows=1.0):
        pass


def test_nothing_is_computed_unless_primitives_err() -> None:
    """The very objects come back: no number changes, and next to no time passes."""
    values = np.array([0.25, -3.0])
    assert rounded(values) is values
    assert disturbed(values, lambda: 1 / 0) is values
    with stress(roundoff=2.0**-10):
        assert rounded(values, 7) is values


@pytest.mark.parametrize("adverse", [-1.0, -0.5, 0.5, 1.0])
def test_adverse_primitives_err_by_what_they_say(adverse: float) -> None:
    with stress(roundoff=2.0**-10, adverse=adverse):
        found = rounded(8.0, 4)
        expected = (
            8.0 * (1.0 + adverse * 2.0**-8) if adverse > 0 else 8.0 / (1.0 - adverse * 2.0**-8)
        )
        assert found == pytest.approx(expected, rel=1e-15)
        assert (found > 8.0) == (adverse > 0.0)
        assert abs(found - 8.0) <= 8.0 * lemma.roundings(4.0)
        assert disturbed(np.array([1.0, 2.0]), 0.25).tolist() == [1 + adverse / 4, 2 + adverse / 4]
        assert disturbed(1.0, lambda: 0.25) == 1.0 + 0.25 * adverse


def test_lemmas_follow_the_budget() -> None:
    with stress(roundoff=2.0**-10):
        assert 2.0**-8 < lemma.roundings(4.0) < 1.01 * 2.0**-8
        assert lemma.exponential(3 * 2.0**-10) == pytest.approx(lemma.roundings(11.0), rel=1e-12)
        assert binomial.tail_ratio_error() > 0.06


def test_lemmas_count_all_that_errs() -> None:
    unit = 2.0**-53
    # of equal numbers, each with three roundings
    assert lemma.difference(1.0, 1.0, 3.0) >= 8 * unit
    # 38 halvings, and 26 additions in a block
    assert lemma.pairwise_sum() >= 64 * unit


@pytest.mark.slow
def test_no_number_depends_on_whether_the_budget_is_looked_at() -> None:
    """The default put in force once more: the same bits."""

    def answers() -> list[float]:
        clear_caches()
        one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=500)
        other = sa.ShuffleRound(sa.RandomizedResponse(categories=4, eps0=1.0), users=300)
        brackets = [
            sa.epsilon(one, delta=1e-6, rounds=3),
            sa.delta(one, epsilon=0.3),
            sa.delta(other, epsilon=0.1, rounds=2),
        ]
        return [end for found in brackets for end in (found.lower, found.upper)]

    plain = answers()
    with stress():
        assert answers() == plain
    with stress(roundoff=2.0**-30):  # and it is looked at
        assert answers() != plain
    clear_caches()


@pytest.mark.parametrize("adverse", [-1.0, 1.0])
def test_binomial_logarithms_err_within_their_bound(adverse: float) -> None:
    """All of the stated error, besides what double precision adds: the sum is still close to 1."""
    for n, p in itertools.product((9, 200), (0.5, 0.25)):
        k = np.arange(n + 1.0)
        with stress(roundoff=2.0**-30, adverse=adverse):
            logs = binomial.log_pmf(k, float(n), p, 1 - p)
            bound = binomial.log_pmf_error(k, float(n), p, logs)
        for i, (found, error) in enumerate(zip(logs.tolist(), bound.tolist(), strict=True)):
            truth = MP.log(math.comb(n, i) * exact(p) ** i * (1 - exact(p)) ** (n - i))
            # the bound is taken where the logarithm would be without the error
            assert 0 < abs(exact(found) - truth) <= error * (1 + 1e-6)


@pytest.mark.parametrize("roundoff", [None, 2.0**-30])
@pytest.mark.parametrize("adverse", [-1.0, 1.0])
@pytest.mark.parametrize("p", [0.5, 0.25, 2.0**-6])
def test_binomial_probabilities_in_rows(p: float, adverse: float, roundoff: float | None) -> None:
    """Rising and falling rows, rows that begin beyond the last count or below all doubles."""
    n = np.array([[3.0], [40.0], [1000.0], [3000.0], [20000.0]])
    first = np.array([0.0, 1.0, 30.0, 64.0, 985.0, 1490.0, 2980.0, 4900.0])
    with stress(**({} if roundoff is None else {"roundoff": roundoff, "adverse": adverse})):
        law, error = binomial.pmf_runs(first, n, p, 1.0 - p)
    assert law.shape == (5, 8, binomial.RUN)
    seen = 0
    for i, j in itertools.product(range(5), range(8)):
        for place, found in enumerate(law[i, j].tolist()):
            trials, count = int(n[i, 0]), int(first[j]) + place
            if count > trials:
                assert found == 0.0
                continue
            truth = MP.binomial(trials, count) * exact(p) ** count
            truth *= (1 - exact(p)) ** (trials - count)
            if truth < 1e-305:  # about to lose digits
                assert found <= 1e-304
                continue
            seen += 1
            # the exponential has a few roundings of its own
            allowed = error[i, j] * (1 + 1e-6) + 8.0 * (roundoff or 2.0**-53)
            assert abs(MP.log(exact(found) / truth)) <= allowed < 1e-3
            if place == 0 and roundoff is not None:  # all of what is stated, without the steps
                steps = (3 if p == 0.5 else 4 + 2 * binomial.CHANCE) * binomial.RUN * roundoff
                assert abs(MP.log(exact(found) / truth)) >= 0.9 * (error[i, j] - steps)
    assert seen > 100


@pytest.mark.parametrize(("n", "p"), [(10, 0.5), (80, 0.25), (80, 0.75)])
def test_upper_tails_on_both_sides_of_the_mean(n: int, p: float) -> None:
    k = np.arange(-1.0, n + 3.0)
    found = np.exp(binomial.log_upper_tail(k, float(n), p, 1.0 - p)).tolist()
    for i, tail in zip(k.astype(int).tolist(), found, strict=True):
        first = max(i, 0)
        truth = MP.fsum(
            math.comb(n, j) * exact(p) ** j * (1 - exact(p)) ** (n - j) for j in range(first, n + 1)
        )
        assert abs(tail - truth) <= 1e-12 * truth


@pytest.mark.parametrize("mean", [0.3, 4.0, 250.0])
def test_poisson_windows_hold_all_that_counts(mean: float) -> None:
    found = probabilities.window(mean)
    law = [
        MP.exp(-exact(mean)) * exact(mean) ** k / MP.factorial(k)
        for k in range(int(mean + 20 * math.sqrt(mean)) + 80)
    ]
    asked = np.array([-1, *range(0, 700, 7), 10**6])
    above = found.tail(asked, probabilities.Side.ABOVE).tolist()
    below = found.tail(asked, probabilities.Side.BELOW).tolist()
    for k, more, less in zip(asked.tolist(), above, below, strict=True):
        assert abs(exact(more) - MP.fsum(law[k + 1 :])) <= 1e-12 * MP.fsum(law[k + 1 :]) + 1e-40
        assert abs(exact(less) - MP.fsum(law[: max(k, 0)])) <= 1e-12
    assert 1.0 - math.fsum(found.masses.tolist()) <= 1e-13
    # Bernstein: e^-112 on each side
    for place in (found.first - 1, found.first + found.masses.size):
        assert not 0 <= place < len(law) or law[place] <= MP.exp(-112)


def test_log_ratios_are_not_below_the_exact_ones() -> None:
    rng = np.random.default_rng(3)
    p0 = np.concatenate([rng.random(400), 10.0 ** rng.uniform(-300, 0, 400), [0.5, 0.0, 0.25]])
    p1 = np.concatenate(
        [p0[:400] * (1 - rng.random(400) ** 8), 10.0 ** rng.uniform(-300, 0, 400), [0.0, 0.0, 0.25]]
    )
    for a, b, found in zip(p0.tolist(), p1.tolist(), log_ratio_above(p0, p1).tolist(), strict=True):
        if b == 0.0:
            assert found == (math.inf if a > 0.0 else 0.0)
            continue
        truth = max(MP.log(exact(a) / exact(b)), exact(0))
        assert truth <= found <= truth * (1 + exact("1e-14"))
    with stress(roundoff=2.0**-30, adverse=-1.0):
        (low,) = log_ratio_above(np.array([0.5]), np.array([0.125])).tolist()
    assert MP.log(4) <= low <= MP.log(4) * (1 + 10 * exact(2.0**-30))


@pytest.mark.parametrize("root", [1e-9, 0.3, 7.0])
@pytest.mark.parametrize("high", [10.0, math.inf])
def test_crossings_are_enclosed(root: float, high: float) -> None:
    """On the left the function is positive, on the right it is not, flat as it may be."""
    functions = (
        lambda x: root - x,
        lambda x: 1e-4 * math.tanh(1e3 * (root - x)),
        lambda x: math.exp(-x) - math.exp(-root),
        lambda x: 1.0 if x < root else -1.0,
    )
    for falling in functions:
        found = find_crossing(falling, high, 1.0, 0.1)
        assert found.left < found.right
        assert found.left == 0.0 or falling(found.left) > 0.0
        assert found.right == high or falling(found.right) <= 0.0
        assert found.right - found.left <= 1e-6 * root + 1e-9
