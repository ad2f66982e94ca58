"""The comparison with an older revision sees what has changed, and its questions can be asked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REFS = Path(__file__).with_name("refs")


@pytest.fixture
def shared(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("same_answers")


def line(*numbers: Any, question: str = "", error: str | None = None) -> dict[str, Any]:
    found = {"question": question, "seconds": 0.0, "kind": "any"}
    return found | ({"answer": [["", *numbers]]} if error is None else {"error": error})


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (line(0.25), line(0.25), "same"),
        (line(math.inf), line(math.inf), "same"),
        (line(0.25), line(0.25 * (1 + 1e-14)), "rounding"),
        (line(0.25), line(0.2501), "differs"),
        (line(0.25), line(math.inf), "differs"),
        (line(7), line(8), "differs"),
        (line(0.1, 0.2), line(0.1, 0.2 * (1 + 1e-14)), "rounding"),
        # narrower, and still around the same number
        (line(0.1, 0.2), line(0.12, 0.2), "within its width"),
        # wider
        (line(0.1, 0.2), line(0.05, 0.2), "differs"),
        # beside each other
        (line(0.1, 0.2), line(0.2001, 0.25), "differs"),
        (line(0.1, 0.2), line(0.1), "differs"),
        (line(0.1), line(error="ValueError: x"), "differs"),
        (line(error="ValueError: x"), line(error="TypeError: x"), "differs"),
        (line(error="ValueError: x"), line(error="ValueError: y"), "same"),
        (line(error="ValueError: x"), line(0.1), "answered now"),
    ],
)
def test_verdicts(shared: ModuleType, old: Any, new: Any, verdict: str) -> None:
    assert shared.compare(old, new).verdict == verdict


def test_what_is_expected_has_its_reason(shared: ModuleType) -> None:
    question = "delta(ShuffleRound(..., variant='tail'), epsilon=0.1)"
    old, new = line(0.1, 0.11, question=question), line(0.1, 0.1001, question=question)
    assert shared.compare(old, new).verdict in {"within its width", shared.EXPECTED[0].text}
    # an end outside of the old bracket is a difference whatever was asked
    outside = line(0.08, 0.1001, question=question)
    assert shared.compare(old, outside).verdict == "differs"


def test_the_questions_are_the_same_every_time(
    benchmark_script: Callable[[str], ModuleType],
) -> None:
    questions = benchmark_script("questions")
    first, again = ([(kind, text) for kind, (text, _) in questions.at_random()] for _ in range(2))
    assert first == again
    assert len(first) == questions.RANDOM == 200
    assert {kind for kind, _ in first} == set(questions._KINDS)
    files = {kind for kind, _ in questions.of_references(REFS)}
    assert files == {f"refs/{path.name}" for path in REFS.glob("*.json")}


@pytest.mark.slow
def test_verified_values_are_answered(benchmark_script: Callable[[str], ModuleType]) -> None:
    """Nothing is refused, and every answer is made of numbers."""
    questions = benchmark_script("questions")
    for _, (text, call) in itertools.islice(questions.of_references(REFS), 0, None, 8):
        answer = questions.plain(call())
        assert answer, text
        assert all(isinstance(number, int | float) for entry in answer for number in entry[1:])
