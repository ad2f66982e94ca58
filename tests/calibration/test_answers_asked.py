"""How many questions a calibration asks, for every randomizer with categories or none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant.calibration import search as target

MOST_ANSWERS = 15
WITH_CATEGORIES = (
    sa.RandomizedResponse,
    sa.RAPPOR,
    sa.HadamardResponse,
    sa.SubsetSelection,
    sa.LocalHashing,
)
MAKERS: dict[str, Callable[..., Any]] = {
    "general": sa.GeneralRandomizer,
    "binary": sa.BinaryRandomizedResponse,
    "Laplace": sa.LaplaceRandomizer,
    **{
        f"{maker.__name__}, k = {categories}": functools.partial(maker, categories=categories)
        for maker in WITH_CATEGORIES
        for categories in (20, 1000)
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_few_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    users, rounds = (10**6, 30) if name.endswith("1000") else (10**4, 4)
    asked = []
    certified = target.certified_at

    def counted(*arguments: Any, **question: Any) -> Any:
        asked.append(arguments)
        return certified(*arguments, **question)

    monkeypatch.setattr(target, "certified_at", counted)
    found = sa.max_eps0(
        users=users, rounds=rounds, target_epsilon=1.0, delta=1e-8, randomizer=MAKERS[name]
    )
    assert found.evidence.bracket.upper <= 1.0
    assert 1 < len(asked) <= MOST_ANSWERS
