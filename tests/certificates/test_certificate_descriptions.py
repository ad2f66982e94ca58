"""Protocols whose fields contradict each other, or that no theorem covers, are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("flint", reason="python-flint is the extra 'verify'")

import shuffle_accountant as sa
from shuffle_accountant.certificates.balls import working_precision
from shuffle_accountant.certificates.description import UnsupportedError, parts_of

GENERAL = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=10, population=20)
RESPONSE = sa.ShuffleRound(sa.RandomizedResponse(categories=3, eps0=1.0), users=10)
ANYONE = sa.GeneralRandomizer(eps0=1.0)
SEVERAL = sa.ShuffleRound(ANYONE, users=10, messages_per_user=2)
OF_ALL = sa.ShuffleRound(ANYONE, users=10, messages=15)
EXPOSED = sa.ShuffleRound(ANYONE, users=10, shuffler=sa.Shuffler(exposure=0.1))
GAMMA = sa.ShuffleRound(sa.RandomizedResponse.from_gamma(categories=3, gamma=0.5), users=10)
STRONG = sa.ShuffleRound(RESPONSE.randomizer, users=10, reduction="strong", variant="paper")
SUBSETS = sa.ShuffleRound(sa.SubsetSelection(categories=5, eps0=1.0), users=10)
MATRIX = sa.ShuffleRound(sa.DiscreteRandomizer([[0.5, 0.5], [0.25, 0.75]]), users=10)
GAUSSIAN = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.0), steps=6)
TABLE = sa.PldRound.from_tables(sa.LossTable([0.0, 0.5], [0.5, 0.5]))


def state_of(*rounds: Any) -> Any:
    """The protocol's description."""
    return sa.Protocol([(one, 1) for one in rounds]).to_dict()


CASES: list[tuple[Any, dict[str, Any], str]] = [
    (GENERAL, {"population": 9}, r"population must be at least users, got 9 < 10"),
    (SUBSETS, {"randomizer.size": 5}, r"size must be less than categories, got 5 of 5"),
    (MATRIX, {"randomizer.channel": [[0.5, 0.5], [1.0]]}, "rows of one length"),
    (MATRIX, {"randomizer.channel": [[0.5, 0.5 + 1e-7], [0.25, 0.75]]}, "rows of sum 1"),
    (SEVERAL, {"messages": 1}, "messages must be at least messages_per_user, and population"),
    (SEVERAL, {"population": 20}, "population be null where either is given"),
    (SEVERAL, {"randomizer.interactive": True}, "interactive must be false where users send"),
    (OF_ALL, {"randomizer.interactive": True}, "interactive must be false where users send"),
    (EXPOSED, {"population": 20}, "population be null where either is given"),
    (RESPONSE, {"variant": "paper"}, "variant is for the strong reduction only"),
    (GAMMA, {"reduction": "clones"}, "eps0 must be given for the clones"),
    (MATRIX, {"reduction": "clones"}, "no certificate for discrete with reduction 'clones'"),
    (SUBSETS, {"reduction": "strong"}, "no certificate for subset-selection with reduction"),
    (GENERAL, {"reduction": "blanket"}, "no certificate for a randomizer of kind 'general'"),
    (GAMMA, {"randomizer.gamma": 0.0}, "randomized response that never lies"),
    (STRONG, {"variant": "tail"}, "variant must be 'exact' or 'paper'"),
    (GAUSSIAN, {"selected": 7}, "selected must be at most steps, got 7 > 6"),
    (GAUSSIAN, {"released": 7}, "released must be at most steps, got 7 > 6"),
    (GAUSSIAN, {"released": 3, "selected": 2}, "released goes with one selected step and one pass"),
    (GAUSSIAN, {"released": 3, "passes": 2}, "released goes with one selected step and one pass"),
    (GAUSSIAN, {"mechanism.noise_multiplier": 1e-3}, "noise_multiplier must be at least"),
    (TABLE, {"remove.losses": [0.0]}, "remove must have as many losses as probabilities"),
    (TABLE, {"remove.losses": [0.5, 0.5]}, "losses of remove must ascend"),
]


@pytest.mark.parametrize(("round", "fields", "match"), CASES, ids=lambda x: str(x)[:40])
def test_fields_that_contradict_each_other(round: Any, fields: dict[str, Any], match: str) -> None:
    state = state_of(round)
    with working_precision(128):
        assert parts_of(state)
        for path, value in fields.items():
            *outer, last = path.split(".")
            node = state["rounds"][0]["round"]
            for name in outer:
                node = node[name]
            node[last] = value
        with pytest.raises(UnsupportedError, match=match) as caught:
            parts_of(state)
    assert "\n" not in str(caught.value)


def test_a_channel_of_too_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shuffle_accountant.certificates.description._MOST_ENTRIES", 3)
    with (
        working_precision(128),
        pytest.raises(UnsupportedError, match="rows of one length and at most 3 entries"),
    ):
        parts_of(state_of(MATRIX))


def test_rounds_of_two_adjacencies() -> None:
    state = state_of(GENERAL)
    state["rounds"] += state_of(GAUSSIAN)["rounds"]
    with working_precision(128):
        with pytest.raises(UnsupportedError, match="adjacency must be that of all rounds"):
            parts_of(state)
        state = state_of(GENERAL)
        state["adjacency"] = "zero-out"
        with pytest.raises(UnsupportedError, match="adjacency must be that of all rounds"):
            parts_of(state)
