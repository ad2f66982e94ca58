"""The soak finds what does not go together, and nothing where all does."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shuffle_accountant as sa


@pytest.fixture
def soak(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("soak")


def small(soak: ModuleType) -> Any:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=50)
    fewer = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=20)
    return soak.Case("shuffled round, general", one, {"users": lambda: fewer})


def test_what_goes_together(soak: ModuleType) -> None:
    judge = soak.Judge()
    for seed in range(3):
        soak.check(judge, np.random.default_rng(seed), small(soak), [])
    assert judge.checks["meet"] > 10
    assert not judge.contradictions, soak.report(judge, 3)


def test_a_bracket_that_is_wrong(soak: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upper ends a tenth too small: the inverse question contradicts them."""
    right = sa.FourierAccountant.epsilon

    def wrong(self: sa.FourierAccountant, *, delta: float) -> sa.Bracket:
        found = right(self, delta=delta)
        return sa.Bracket(
            lower=0.9 * found.lower,
            upper=0.9 * found.upper,
            reduction=found.reduction,
            ledger=found.ledger,
        )

    monkeypatch.setattr(sa.FourierAccountant, "epsilon", wrong)
    judge = soak.Judge()
    soak.check(judge, np.random.default_rng(0), small(soak), [])
    assert any(line.startswith("inverse") for line in judge.contradictions)
    assert "contradictions" in soak.report(judge, 1)
