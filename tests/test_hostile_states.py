"""Every state format and public callable under hostile input: one line, at once, or an answer.

What is drawn is in `tests.oracles.mutated`; it is the same in every run. ``python -m
benchmarks.soak`` goes on with that at random.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.oracles import mutated

# Found at random they are printed as they are: shrinking would take longer than the test.
DRAWN = settings(
    max_examples=20,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def assert_in_order(read: Callable[[], Any], what: object) -> None:
    fault = mutated.refusal(read)
    assert not fault, f"{fault}\n    of {what!r:.2000}"


@pytest.mark.slow
@pytest.mark.parametrize("name", mutated.FORMATS)
def test_mutated_states(name: str) -> None:
    made = mutated.FORMATS[name]
    assert mutated.refusal(lambda: made.read(made.state)) == ""

    @DRAWN
    @given(mutated.mutations(made.state))
    def reads(state: Any) -> None:
        assert_in_order(lambda: made.read(state), state)

    reads()


@pytest.mark.parametrize("name", mutated.FORMATS)
def test_mutated_texts(name: str) -> None:
    made = mutated.FORMATS[name]

    @settings(DRAWN, max_examples=15)
    @given(mutated.texts(made.state))
    def reads(text: str) -> None:
        assert_in_order(lambda: made.read_text(text), text)

    reads()


@pytest.fixture(scope="module")
def certificates() -> dict[str, mutated.Format]:
    pytest.importorskip("flint", reason="certificates need python-flint (extra verify)")
    return mutated.certificate_formats()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["certificate", "verified"])
@pytest.mark.parametrize("name", ["clones", "allocation"])
def test_mutated_certificates(
    certificates: dict[str, mutated.Format], kind: str, name: str
) -> None:
    made = certificates[f"{kind}, {name}"]

    @settings(DRAWN, max_examples=100)
    @given(mutated.mutations(made.state))
    def reads(state: Any) -> None:
        assert_in_order(lambda: made.read(state), state)

    @settings(DRAWN, max_examples=30)
    @given(mutated.texts(made.state))
    def reads_text(text: str) -> None:
        assert_in_order(lambda: made.read_text(text), text)

    reads()
    reads_text()


@pytest.mark.parametrize("name", mutated.CALLS)
def test_hostile_calls(name: str) -> None:
    call, usual = mutated.CALLS[name]
    if name not in mutated.LONG | {"verify", "from_json"}:
        call(**usual)

    @settings(DRAWN, max_examples=10 if name in mutated.LONG else 40)
    @given(st.sampled_from(sorted(usual)), mutated.arguments(name))
    def calls(argument: str, value: Any) -> None:
        given_ = {**usual, argument: value}
        assert_in_order(lambda: call(**given_), {argument: value})

    calls()


def test_the_check_sees_faults() -> None:
    def lines() -> None:
        raise ValueError("one line\nand another")

    def other() -> None:
        raise KeyError("x")

    assert "2 lines" in mutated.refusal(lines)
    assert "KeyError" in mutated.refusal(other)
    assert mutated.refusal(lambda: json.loads("{")) == ""
