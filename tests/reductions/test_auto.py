"""The default reduction is never above one that can be asked for: ends compared exactly."""

from __future__ import annotations

import pytest

import shuffle_accountant as sa

USERS = 1000

RANDOMIZERS = [
    sa.RandomizedResponse(categories=2, eps0=1.0),
    sa.RandomizedResponse(categories=2, eps0=3.0),
    sa.RandomizedResponse(categories=4, eps0=1.0),
    sa.RandomizedResponse(categories=4, eps0=3.0),
    sa.DiscreteRandomizer([[0.75, 0.25], [0.25, 0.75]]),
    sa.DiscreteRandomizer([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]]),
    sa.RAPPOR(categories=4, eps0=2.0),
    sa.SubsetSelection(categories=6, eps0=2.0),
    sa.LocalHashing(categories=5, eps0=2.0),
    sa.HadamardResponse(categories=4, eps0=2.0),
]


def named(randomizer: sa.DiscreteRandomizer) -> str:
    return repr(randomizer)


def bounds(randomizer: sa.DiscreteRandomizer) -> dict[str, sa.ShuffleRound]:
    names = ("auto", "clones", "blanket")
    return {name: sa.ShuffleRound(randomizer, users=USERS, reduction=name) for name in names}


# Compositions take seconds: one or two of each kind.
COMPOSED = [
    (RANDOMIZERS[0], 1),
    (RANDOMIZERS[0], 4),
    (RANDOMIZERS[3], 4),
    (RANDOMIZERS[4], 1),
    (RANDOMIZERS[4], 4),
    (RANDOMIZERS[6], 4),
]


@pytest.mark.slow
@pytest.mark.parametrize(("randomizer", "rounds"), COMPOSED, ids=repr)
def test_auto_is_the_smallest_composed(randomizer: sa.DiscreteRandomizer, rounds: int) -> None:
    made = bounds(randomizer)
    found = {k: sa.epsilon(r, delta=1e-6, rounds=rounds).upper for k, r in made.items()}
    assert found["auto"] <= found["clones"]
    assert found["auto"] <= found["blanket"]
    found = {k: sa.delta(r, epsilon=0.1, rounds=rounds).upper for k, r in made.items()}
    assert found["auto"] <= found["clones"]
    assert found["auto"] <= found["blanket"]


@pytest.mark.slow
@pytest.mark.parametrize("randomizer", RANDOMIZERS, ids=named)
def test_auto_is_the_smallest_for_one_round(randomizer: sa.DiscreteRandomizer) -> None:
    made = bounds(randomizer)
    for delta in (1e-4, 1e-8):
        found = {k: r.epsilon(delta=delta).upper for k, r in made.items()}
        assert found["auto"] <= found["clones"], delta
        assert found["auto"] <= found["blanket"], delta
    for epsilon in (0.0, 0.05, 0.3, 1.5):
        found = {k: r.delta(epsilon=epsilon).upper for k, r in made.items()}
        assert found["auto"] <= found["clones"], epsilon
        assert found["auto"] <= found["blanket"], epsilon
