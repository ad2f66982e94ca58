"""Bounds on adversaries against adversaries that are played out in full.

Independent re-derivation: `oracles.pointing_out` lists every report, every permutation and every
guess; alpha is measured there. The counts are repeated here in exact rational arithmetic.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import pointing_out as oracle
from oracles.order_references import references
from scipy.optimize import linprog

from shuffle_accountant.order.bounds import (
    COUNTS,
    METHODS,
    posterior_odds_bound,
    reidentification_bound,
)

# Logarithms of factorials up to 1000!, in doubles.
RTOL = 1e-10


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("reid_odds_paper", "paper"),
        ("reid_odds_fullswap", "full swaps"),
        ("reid_odds_lp", "layers"),
    ],
)
def test_reference_odds(name: str, method: str) -> None:
    for reference in references(name):
        found = reidentification_bound(**reference["inputs"], method=method)
        assert found.odds == pytest.approx(reference["value"], abs=reference["abs_tol"])
        assert found.odds <= reference["value"] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("arguments", "odds", "cap"),
    [
        ((50, 5, 0.2, 2.0), (0.165, 2.80, 1.26, 10.55), 0.087),
        ((50, 5, 1.0, 1.0), (0.00015, 0.0026, 0.61, 1.14), 0.468),
    ],
)
def test_all_counts_of_two_examples(
    arguments: tuple[Any, ...], odds: tuple[float, ...], cap: float
) -> None:
    found = [reidentification_bound(*arguments, method=count) for count in COUNTS]
    # known to two or three digits
    assert [bound.odds for bound in found] == pytest.approx(list(odds), rel=2e-2)
    best = reidentification_bound(*arguments)
    assert best.win_cap == pytest.approx(cap, abs=5e-4)
    assert best.method == "layers"
    assert best.odds == max(bound.odds for bound in found)


def test_the_paper_s_threshold() -> None:
    # eps = 0.2, k = 5: alpha matters from 2 k eps = 2 on, where both count alike
    at = reidentification_bound(1000, 5, 0.2, 2.0, "paper").odds
    assert at == pytest.approx(199 * math.exp(-4.0), rel=1e-12)


def exact_costs(r: int, k: int, factor: Fraction) -> dict[tuple[int, int], Fraction]:
    """The c_wv with e^(2 eps) = factor and alpha = 0, in whole numbers."""
    return {
        (w, v): factor ** (w - v)
        * math.comb(k - v, w - v) ** 2
        / (math.comb(w, w - v) * Fraction(math.comb(r - 2 * k + w, w - v)))
        for w in range(k // 2 + 1, k + 1)
        for v in range(k // 2 + 1)
    }


def primal(costs: dict[tuple[int, int], Fraction]) -> float:
    """The linear program itself: least s with s_v >= p_w/c_wv; its dual is what is solved."""
    ws, vs = sorted({w for w, _ in costs}), sorted({v for _, v in costs})
    rows = []
    for (w, v), cost in costs.items():
        row = [0.0] * (len(ws) + len(vs))
        row[ws.index(w)] = 1.0 / float(cost)
        row[len(ws) + vs.index(v)] = -1.0
        rows.append(row)
    answer = linprog(
        [0.0] * len(ws) + [1.0] * len(vs),
        A_ub=rows,
        b_ub=[0.0] * len(rows),
        A_eq=[[1.0] * len(ws) + [0.0] * len(vs)],
        b_eq=[1.0],
    )
    return float(answer.fun)


@pytest.mark.parametrize(("r", "k"), [(2, 1), (9, 1), (6, 3), (12, 5), (50, 5), (40, 20), (300, 7)])
@pytest.mark.parametrize("factor", [Fraction(1), Fraction(3, 2), Fraction(20)])
def test_counts_in_exact_arithmetic(r: int, k: int, factor: Fraction) -> None:
    eps = 0.5 * math.log(factor)

    def odds(method: str) -> float:
        return reidentification_bound(r, k, eps, 0.7, method).odds * math.exp(0.7)

    assert odds("paper") == pytest.approx(float((r - k) // k / factor**k), rel=RTOL)
    most = max(
        sum(
            math.comb(h, t) * math.comb(r - k - h, k - t)
            for t in range(k // 2 + 1, k + 1)
            if r - k - h >= k - t
        )
        for h in range(min(k, r - k) + 1)
    )
    swaps = Fraction(math.comb(r - k, k), most) / factor**k
    assert odds("full swaps") == pytest.approx(float(swaps), rel=RTOL)
    costs = exact_costs(r, k, factor)
    layer = 1 / sum(cost for (_, v), cost in costs.items() if v == k // 2)
    assert odds("one layer") == pytest.approx(float(layer), rel=RTOL)
    # HiGHS works to 1e-7; what we return is proved, so never above by more than that
    assert odds("layers") == pytest.approx(primal(costs), rel=1e-6)
    assert odds("layers") >= odds("one layer") * (1 - RTOL)


GAMES = [
    # n, group, wanted, theta, eps, inputs
    (3, (0, 1, 2), (1,), 0.4, 0.5, (0, 1, 1)),
    (4, (0, 1, 2, 3), (0,), 0.2, 0.3, (0, 1, 0, 1)),
    (4, (0, 1, 2, 3), (0, 1), 0.1, 0.1, (0, 0, 1, 1)),
    (4, (0, 2, 3), (2,), 0.3, 0.8, (1, 0, 1, 0)),
    (5, (0, 1, 2, 3, 4), (0, 1), 0.1, 0.2, (0, 0, 1, 1, 1)),
    (5, (0, 1, 3, 4), (3, 4), 0.15, 0.05, (0, 1, 0, 1, 1)),
    (5, (0, 1, 2, 3, 4), (2,), 0.0, 1.0, (0, 0, 1, 0, 0)),
]


@pytest.mark.parametrize("game", GAMES)
def test_no_adversary_beats_any_count(game: tuple[Any, ...]) -> None:
    n, group, wanted, theta, eps, inputs = game
    law = oracle.mallows(n, theta)
    alpha = oracle.alpha_of(law, group)
    average, largest = oracle.best_win(law, inputs, oracle.response(eps, 2), wanted)
    assert 0.0 < average <= largest + 1e-12
    for method in METHODS:
        bound = reidentification_bound(len(group), len(wanted), eps, alpha, method)
        # sums of 1e4 doubles
        assert largest <= bound.win_cap * (1 + 1e-12)
        assert bound.win_cap == pytest.approx(1.0 / (1.0 + bound.odds), rel=1e-12)


def test_one_of_all_without_noise_is_tight() -> None:
    # uniform shuffle, no information in the reports: one in n
    law = oracle.mallows(4, 0.0)
    average, _ = oracle.best_win(law, (0, 0, 1, 1), oracle.response(0.0, 2), (2,))
    assert reidentification_bound(4, 1, 0.0, 0.0).win_cap == pytest.approx(average, rel=1e-12)
    assert average == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_prior_gains_more_than_theorem_4_1_says(values: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    law = oracle.mallows(3, 0.3)
    group = (0, 2) if seed else (0, 1, 2)
    alpha = oracle.alpha_of(law, group)
    inputs = list(itertools.product(range(values), repeat=3))
    # spiky: some joint inputs hardly ever happen
    weights = rng.dirichlet(np.full(len(inputs), 0.2)) + 1e-6
    prior = dict(zip(inputs, (weights / weights.sum()).tolist(), strict=True))
    shift = oracle.largest_shift(law, group, prior, oracle.response(1.0, values), 0)
    assert shift > 0.05
    assert math.exp(shift) <= posterior_odds_bound(alpha) * (1 + 1e-12)


def test_the_bound_on_odds_is_attained_without_noise_before() -> None:
    # distinct reports: the odds change by as much as the law of the shuffle does
    law = oracle.mallows(3, 0.3)
    group = (0, 1, 2)
    # two orders of three values, told apart by user 0's
    prior = {(0, 1, 2): 0.5, (2, 1, 0): 0.5}
    channel = np.eye(3).tolist()
    shift = oracle.largest_shift(law, group, prior, channel, 0)
    assert math.exp(shift) == pytest.approx(
        posterior_odds_bound(oracle.alpha_of(law, group)), rel=1e-9
    )


@settings(max_examples=60, deadline=None)
@given(
    r=st.integers(2, 400),
    data=st.data(),
    eps=st.floats(0.0, 5.0),
    alpha=st.floats(0.0, 10.0),
    more=st.floats(0.0, 3.0),
)
def test_more_noise_and_more_company_hide_better(
    r: int, data: st.DataObject, eps: float, alpha: float, more: float
) -> None:
    k = data.draw(st.integers(1, r // 2))
    here = reidentification_bound(r, k, eps, alpha)
    assert 0.0 <= here.odds < math.inf
    assert 0.0 < here.win_cap <= 1.0
    # the linear program is solved to 1e-7, and may stop at another corner; chances below that may
    # differ by a factor from one corner to the next, and all of them are bounds
    slack, least = 1 + 1e-5, 1e-7
    noisier = reidentification_bound(r, k, eps + more, alpha).win_cap
    looser = reidentification_bound(r, k, eps, alpha + more).win_cap
    assert min(noisier, looser) >= here.win_cap / slack - least
    assert reidentification_bound(r + 1, k, eps, alpha).win_cap <= here.win_cap * slack + least


def test_without_a_shuffle_everything_is_found() -> None:
    for method in METHODS:
        found = reidentification_bound(50, 5, 1.0, math.inf, method)
        assert (found.odds, found.win_cap) == (0.0, 1.0)
    assert reidentification_bound(50, 5, math.inf, 0.0).win_cap == 1.0
    assert posterior_odds_bound(math.inf) == math.inf


def test_large_groups() -> None:
    huge = reidentification_bound(10**6, 5 * 10**5, 0.0, 0.0)
    assert 0.0 < huge.win_cap <= 1.0
    many = reidentification_bound(10**6, 1000, 0.0, 0.0)
    assert 0.0 < many.win_cap < 1e-100


def test_posterior_odds() -> None:
    assert posterior_odds_bound(0.0) == 1.0
    assert posterior_odds_bound(1.0) == pytest.approx(math.e)
    assert posterior_odds_bound(1.0) >= math.e
    assert posterior_odds_bound(800.0) == math.inf


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"r": 1}, ValueError, "r must"),
        ({"r": 10**6 + 1}, ValueError, "r must"),
        ({"r": 10.5}, TypeError, "r must"),
        ({"k": 0}, ValueError, "k must"),
        ({"k": 6}, ValueError, "k must"),
        ({"eps0": -1.0}, ValueError, "eps0 must"),
        ({"eps0": math.nan}, ValueError, "eps0 must"),
        ({"alpha": -1.0}, ValueError, "alpha must"),
        ({"alpha": "1"}, TypeError, "alpha must"),
        ({"method": "swaps"}, ValueError, "method must"),
    ],
)
def test_bad_values_are_named(change: dict[str, Any], error: type[Exception], named: str) -> None:
    arguments = {"r": 10, "k": 2, "eps0": 1.0, "alpha": 1.0} | change
    with pytest.raises(error, match=named) as caught:
        reidentification_bound(**arguments)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="alpha must"):
        posterior_odds_bound(-0.5)
