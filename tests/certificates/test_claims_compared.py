"""A claim is met if delta is certainly no larger in either order, else refuted or undecided."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flint", reason="python-flint is the extra 'verify'")

from flint import arb

from shuffle_accountant.certificates import verification as checking
from shuffle_accountant.certificates.balls import UndecidedError

GRID = checking.Grid(1, 6, 60, 64)
CLAIM = {"epsilon": 0.5, "delta": 0.25}


def compared(monkeypatch: pytest.MonkeyPatch, *deltas: str) -> checking.Verification:
    """The verdict on compositions that have these deltas, one for each order."""
    laws: Any = [[SimpleNamespace(delta=lambda *_, d=delta: arb(d)) for delta in deltas]]
    monkeypatch.setattr(checking, "composed", lambda chosen, effort: chosen[0][0])
    parts: Any = [SimpleNamespace(count=1)]
    return checking._compared(CLAIM, parts, laws, GRID, GRID.effort(0))


@pytest.mark.parametrize("deltas", [("0.25",), ("0.2 +/- 0.01", "0.25")])
def test_what_is_no_larger_is_verified(
    deltas: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compared(monkeypatch, *deltas)
    assert found == checking.Verification(True, 0.25, "verified")


@pytest.mark.parametrize("deltas", [("0.26",), ("0.2", "0.3 +/- 0.01"), ("7",)])
def test_what_is_larger_in_one_order_is_refuted(
    deltas: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compared(monkeypatch, *deltas)
    assert not found.verified
    assert min(float(arb(deltas[-1]).mid()), 1.0) <= found.delta <= 1.0
    assert "the witnesses compose to delta <= " in found.reason


@pytest.mark.parametrize("deltas", [("0.25 +/- 0.01",), ("0.2", "0.2 +/- 0.051")])
def test_what_may_be_larger_is_not_verified(
    deltas: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UndecidedError, match="whether delta is at most the claim"):
        compared(monkeypatch, *deltas)
