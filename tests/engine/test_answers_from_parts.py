"""What an answer and a sum of two ends take over from their parts, term by term."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from shuffle_accountant.engine import refinement
from shuffle_accountant.engine.rare_losses import RareLosses, SplitSum
from shuffle_accountant.numerics.budget import stress

UNIT = 2.0**-30


def terms(value: float, truncation: float, aliasing: float, round_off: float) -> Any:
    return SimpleNamespace(
        value=value, truncation=truncation, aliasing=aliasing, round_off=round_off
    )


def ends(low: float, high: float, under: Any, over: Any) -> Any:
    return SimpleNamespace(
        lower=SimpleNamespace(value=low, delta=under),
        upper=SimpleNamespace(value=high, delta=over, slope=lambda: 4.0),
    )


@pytest.mark.parametrize("delta", [None, 0.5])
def test_an_answer_names_all_errors_once(
    monkeypatch: pytest.MonkeyPatch, delta: float | None
) -> None:
    """In the unit of what was asked for: over slope and delta for an epsilon."""
    monkeypatch.setattr(refinement, "_excess", lambda *_: 0.0)
    problem: Any = SimpleNamespace(query=SimpleNamespace(delta=delta))
    unit = 1.0 if delta is None else 0.5
    both = ends(0.25, 0.5, terms(0, 0.04, 0.004, 0.0004), terms(0, 0.02, 0.002, 0.0002))
    found = refinement._answer(problem, both)
    assert (found.lower, found.upper) == (0.25, 0.5)
    ledger = found.ledger
    assert ledger.truncation == pytest.approx(0.06 * unit)
    assert ledger.aliasing == pytest.approx(0.006 * unit)
    assert ledger.round_off == pytest.approx(0.0006 * unit)
    assert ledger.discretisation == pytest.approx(0.25 - 0.0666 * unit)


@pytest.mark.parametrize(
    ("width", "shares"),
    [(0.01, (0.01, 0.0, 0.0)), (0.063, (0.06, 0.003, 0.0)), (0.0662, (0.06, 0.006, 0.0002))],
)
def test_errors_are_no_more_than_the_width(
    monkeypatch: pytest.MonkeyPatch, width: float, shares: tuple[float, float, float]
) -> None:
    monkeypatch.setattr(refinement, "_excess", lambda *_: 0.0)
    problem: Any = SimpleNamespace(query=SimpleNamespace(delta=None))
    both = ends(0.25, 0.25 + width, terms(0, 0.04, 0.004, 0.0004), terms(0, 0.02, 0.002, 0.0002))
    ledger = refinement._answer(problem, both).ledger
    assert (ledger.truncation, ledger.aliasing, ledger.round_off) == pytest.approx(shares)
    assert ledger.discretisation == pytest.approx(0.0, abs=1e-15)


def test_an_infinite_end_is_due_to_what_was_cut_off() -> None:
    problem: Any = SimpleNamespace(query=SimpleNamespace(delta=0.5))
    both = ends(0.25, math.inf, terms(0, 0.5, 0, 0), terms(0, 0.5, 0, 0))
    found = refinement._answer(problem, both)
    assert found.upper == found.ledger.truncation == math.inf


@pytest.mark.parametrize("upper", [True, False])
def test_sums_of_two_ends(upper: bool) -> None:
    """Rounded once, to the side of both."""
    one: Any = SimpleNamespace(delta=lambda epsilon: terms(0.25, 0.01, 0.02, 0.04))
    rare: Any = SimpleNamespace(delta=lambda epsilon: terms(0.125, 0.0, 0.08, 0.16), upper=upper)
    with stress(roundoff=UNIT):
        found = SplitSum(one, rare).delta(1.0)
    assert found.value * 8.0 / 3.0 - 1.0 == pytest.approx(UNIT if upper else -UNIT, rel=1e-4)
    assert (found.truncation, found.aliasing, found.round_off) == pytest.approx((0.01, 0.1, 0.2))


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("opposite", [-math.inf, math.log(0.0625)])
def test_rare_losses_from_their_chances(
    monkeypatch: pytest.MonkeyPatch, upper: bool, opposite: float
) -> None:
    """P less alpha Q and what is missed, each moved by its own error."""
    rare = object.__new__(RareLosses)
    log_p, log_missed, epsilon = math.log(0.25), math.log(2.0**-6), math.log(2.0)
    for name, value in {
        "upper": upper,
        "_loss_error": 0.0,
        "_opposite": math.exp(opposite),
        "_p": (log_p, 8.0 * UNIT),
        "_q": (opposite, 16.0 * UNIT),
        "_missed": {0.0: (log_missed, 32.0 * UNIT)},
    }.items():
        monkeypatch.setattr(rare, name, value, raising=False)
    with stress(roundoff=UNIT):
        found = rare.delta(epsilon)
    # of exponentials: nine roundings, and four of the sizes of logarithms
    p, missed = 0.25, 2.0**-6
    q = 0.0 if opposite == -math.inf else 0.125
    p_error = (8.0 + 9.0 + 4.0 * -log_p) * UNIT
    q_error = (16.0 + 9.0 + 4.0 * (-opposite + epsilon)) * UNIT if q else 0.0
    m_error = (32.0 + 9.0 + 4.0 * -log_missed) * UNIT
    least = 0.999 * (p * p_error + q * q_error)
    size = 4.0 * UNIT * (p + missed + (0.0 if upper else q))
    if upper:
        exact = p - q + (missed if q else 0.0)
        moved = least + size + (missed * m_error if q else 0.0)
        exact, moved = (exact, moved) if exact < p else (p, p * p_error + size)
        assert exact + 0.999 * moved <= found.value <= exact + 1.2 * moved
    else:
        exact = p - q - (0.0 if q else missed)
        moved = least + size + (0.0 if q else missed * m_error)
        assert exact - 1.2 * moved <= found.value <= exact - 0.999 * moved
    assert found.aliasing == pytest.approx(missed, rel=1e-3)
    assert found.round_off == pytest.approx(p * p_error + q * q_error, rel=1e-2)
