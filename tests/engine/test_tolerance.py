"""One judge of the tolerance, for one round and for many, whose warnings point at the caller."""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import replace
from functools import partial

import pytest

import shuffle_accountant as sa
from shuffle_accountant.engine.ends import Plan, Problem, finer, first_plan
from shuffle_accountant.engine.question import Query, excess
from shuffle_accountant.rounds import base
from shuffle_accountant.training import ShuffleLedger

RANDOMIZER = sa.GeneralRandomizer(eps0=2.0)
ONE = sa.ShuffleRound(RANDOMIZER, users=100)
# A tolerance far below what double precision can tell.
IMPOSSIBLE = 1e-18


def loose(**options):
    return sa.FourierAccountant(tolerance=IMPOSSIBLE, **options).compose(ONE)


def loose_round(monkeypatch):
    monkeypatch.setattr(base, "answered", partial(base.answered, tolerance=IMPOSSIBLE))
    return ONE


ENTRIES = {
    "sa.epsilon": lambda patch: sa.epsilon(ONE, delta=1e-6, tolerance=IMPOSSIBLE),
    "sa.delta": lambda patch: sa.delta(ONE, epsilon=0.5, tolerance=IMPOSSIBLE),
    "accountant.epsilon": lambda patch: loose().epsilon(delta=1e-6),
    "accountant.delta": lambda patch: loose().delta(epsilon=0.5),
    "accountant.profile": lambda patch: loose().profile([0.5]),
    "report": lambda patch: sa.report(loose(), delta=1e-6),
    "round.epsilon": lambda patch: loose_round(patch).epsilon(delta=1e-6),
    "round.delta": lambda patch: loose_round(patch).delta(epsilon=0.5),
    "max_rounds": lambda patch: sa.max_rounds(
        ONE, target_epsilon=3.0, delta=1e-6, tolerance=IMPOSSIBLE
    ),
    "ledger": lambda patch: _stepped().epsilon(delta=1e-6),
}


def _stepped():
    ledger = ShuffleLedger(RANDOMIZER, users=100, tolerance=IMPOSSIBLE)
    ledger.step()
    return ledger


@pytest.mark.parametrize("name", ENTRIES)
def test_the_warning_points_at_the_caller_s_line(name, monkeypatch):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", sa.LooseBracketWarning)
        ENTRIES[name](monkeypatch)
    loose_ones = [w for w in caught if issubclass(w.category, sa.LooseBracketWarning)]
    assert loose_ones
    assert {w.filename for w in loose_ones} == {__file__}
    if name != "ledger":  # which has a line of its own, and so have helpers of these tests
        line = ENTRIES[name].__code__.co_firstlineno
        assert all(line <= w.lineno <= line + 2 for w in loose_ones)


def test_one_round_that_misses_its_tolerance_warns():
    one = sa.ShuffleRound(
        sa.RandomizedResponse(categories=4, eps0=3.0),
        users=100_000,
        reduction="strong",
        variant="tail",
    )
    with pytest.warns(sa.LooseBracketWarning, match="wider than tolerance"):
        sa.delta(one, epsilon=0.05, tolerance=IMPOSSIBLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for found in (sa.delta(one, epsilon=0.05), one.delta(epsilon=0.05)):
            assert found.upper <= found.lower * 1.001


@pytest.mark.parametrize(
    ("query", "lower", "upper", "expected"),
    [
        (Query(delta=0.1), 1.0, 1.0, 0.0),
        (Query(delta=0.1), math.inf, math.inf, 0.0),
        (Query(delta=0.1), 1.0, math.inf, math.inf),
        (Query(delta=0.1), 1.998, 2.0, 1.0),
        # an epsilon below a thousandth of the spread counts as that
        (Query(delta=0.1), 0.0, 1e-3, 1e3),
        (Query(epsilon=0.5), 0.0, 5e-324, 0.0),
        (Query(epsilon=0.5), 0.0, 1e-9, math.inf),
        (Query(epsilon=0.5), 1e-9, 1e-9 * math.exp(4e-3), 4.0 / 2.0),
        (Query(epsilon=0.01), 1e-9, 1e-9 * math.exp(4e-3), 4.0),
    ],
)
def test_width_is_measured_in_epsilon(query, lower, upper, expected):
    found = excess(query, lower, upper, tolerance=1e-3, deviation=1.0, slope=lambda: 4.0)
    # the logarithm of a ratio near 1 has lost a few digits
    assert found == pytest.approx(expected, rel=1e-9)


def test_plans_are_values():
    loss = ONE.reduced().loss
    problem = Problem(((loss, 5),), ((loss, 5),), Query(delta=1e-6), 1e-3, 2**30, 10.0)
    plan = first_plan(problem)
    before = Plan(**vars(plan))
    # at order 2 a bracket four times too wide needs the spacing by sqrt(1/8), the blocks by 1/8
    second = finer(problem, plan, 4.0)
    assert second.spacing == pytest.approx(plan.spacing * math.sqrt(1 / 8), rel=1e-12)
    assert second.resolution == pytest.approx(plan.resolution / 8, rel=1e-12)
    assert second.previous == (plan.spacing, 4.0)
    # at order 1 twice too wide needs a quarter of the spacing
    third = finer(problem, second, 4.0 * second.spacing / plan.spacing)
    wide = 4.0 * second.spacing / plan.spacing
    assert third.spacing == pytest.approx(second.spacing * min(0.5 / wide, 0.8), rel=1e-9)
    # of many different rounds, spacings are those that one round more asks for too
    many = replace(problem, losses=problem.losses * 24, below=problem.below * 24)
    coarse = finer(many, plan, 4.0).spacing
    assert coarse <= second.spacing < 1.2 * coarse
    assert 4.0 * math.log2(coarse) == pytest.approx(round(4.0 * math.log2(coarse)), abs=1e-9)
    assert plan == before
    assert first_plan(problem) == plan


def test_the_package_s_own_frames_do_not_count():
    level = sys._getframe().f_lineno + 3
    with pytest.warns(sa.LooseBracketWarning) as caught:
        # through a sweep the caller's line is the one that calls the accountant
        sa.sweep(lambda eps: sa.delta(ONE, epsilon=eps, tolerance=IMPOSSIBLE), {"eps": [0.5]})
    assert (caught[0].filename, caught[0].lineno) == (__file__, level)
