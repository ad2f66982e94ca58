"""Questions that once took a minute: how much is computed for each, and that answers still hold.

Work is counted, not timed: pairs of values that are added when laws of sums are doubled, and nodes
times messages of inversions. What is allowed is some twice what is needed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant.sums import doubling, nodes, settings

pytestmark = pytest.mark.filterwarnings("ignore::shuffle_accountant.LooseBracketWarning")

# Pairs of values that are added.
PAIRS = 2.5e9
# Nodes times messages.
NODES = 2e8


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What is computed from here on."""
    counted: Counter[str] = Counter()
    pair_sums, evaluated = doubling.pair_sums, nodes.of_blocks

    def sums(a: Any, b: Any, c: Any, d: Any, edges: Any) -> Any:
        counted["pairs"] += a.size * c.size
        return pair_sums(a, b, c, d, edges)

    def blocks(rows: Any, users: Any, first: Any, left_out: Any) -> Any:
        counted["nodes"] += first.size * settings.NODES.block * rows.y.shape[1]
        return evaluated(rows, users, first, left_out)

    monkeypatch.setattr(doubling, "pair_sums", sums)
    monkeypatch.setattr(nodes, "of_blocks", blocks)
    return counted


QUESTIONS: dict[str, tuple[Callable[[], Any], dict[str, float]]] = {
    "rappor": (
        lambda: sa.ShuffleRound(sa.RAPPOR(categories=10, eps0=6.76), users=10**9),
        {"delta": 5e-324},
    ),
    "vectors": (
        lambda: sa.ShuffleRound(sa.GaussianVectors(noise_multiplier=1.83), users=10**5),
        {"delta": 1.2e-57},
    ),
    "vectors far out": (
        lambda: sa.ShuffleRound(sa.GaussianVectors(noise_multiplier=1.95), users=30),
        {"epsilon": 1e308},
    ),
    "bits far out": (
        lambda: sa.ShuffleRound(sa.GaussianRandomizer(0.396), users=10**6),
        {"delta": 1.9e-64},
    ),
    "bits near one": (
        lambda: sa.ShuffleRound(sa.GaussianRandomizer(0.2), users=10**6),
        {"delta": math.nextafter(1.0, 0.0)},
    ),
    "allocation": (
        lambda: sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.99), steps=10**9),
        {"delta": 1.3e-92},
    ),
    "hadamard": (
        lambda: sa.ShuffleRound(sa.HadamardResponse(categories=2, eps0=5.09), users=2**53),
        {"delta": 2.4e-9},
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_work(name: str, work: Counter[str]) -> None:
    make, question = QUESTIONS[name]
    round = make()
    found = round.epsilon(**question) if "delta" in question else round.delta(**question)
    assert 0.0 <= found.lower <= found.upper
    assert work["pairs"] <= PAIRS, work
    assert work["nodes"] <= NODES, work


def test_answers_are_no_wider_than_they_were() -> None:
    """Far out a bracket from single messages: two in a hundred wide."""
    make, question = QUESTIONS["bits far out"]
    found = make().epsilon(**question)
    assert found.upper <= 1.03 * found.lower
    make, question = QUESTIONS["vectors"]
    found = make().epsilon(**question)
    assert found.upper <= 1.001 * found.lower
    make, question = QUESTIONS["bits near one"]
    assert make().epsilon(**question).upper == 0.0
