"""Protocols are values: what counts is which rounds happen and how often."""

from __future__ import annotations

import json
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shuffle_accountant as sa
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, as_protocol

A = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=100)
B = sa.ShuffleRound(sa.GeneralRandomizer(eps0=0.5), users=100)
C = sa.ShuffleRound(sa.RandomizedResponse(categories=3, eps0=1.0), users=50)
EVEN = sa.LossTable([-0.5, 0.5], [1.0 / (1.0 + np.exp(0.5)), 1.0 / (1.0 + np.exp(-0.5))])
ZERO = sa.PldRound.from_tables(EVEN, adjacency=sa.Adjacency.ZERO_OUT)

pairs = st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(0, 5)), max_size=8)
quick = settings(max_examples=50, deadline=None)


def counted(rounds):
    """The same as a dictionary: code that shares nothing with the class."""
    total = {one: sum(n for other, n in rounds if other == one) for one, _ in rounds}
    return {one: n for one, n in total.items() if n}


@quick
@given(pairs, st.randoms(use_true_random=False))
def test_order_and_splitting_do_not_matter(rounds, random):
    shuffled = [(one, 1) for one, count in rounds for _ in range(count)]
    random.shuffle(shuffled)
    first, second = sa.Protocol(rounds), sa.Protocol(shuffled)
    assert first == second
    assert hash(first) == hash(second)
    assert dict(first) == counted(rounds)
    assert len(first) == sum(count for _, count in rounds)
    assert first.in_order == second.in_order


@quick
@given(pairs, pairs, st.integers(0, 4))
def test_sums_and_products(left, right, times):
    first, second = sa.Protocol(left), sa.Protocol(right)
    assert dict(first + second) == counted(left + right)
    assert first + second == second + first
    repeated = sum([first] * times, sa.Protocol())
    assert first * times == times * first == repeated
    assert (first != second) == (counted(left) != counted(right))


@quick
@given(pairs)
def test_round_trips(rounds):
    protocol = sa.Protocol(rounds)
    assert sa.Protocol.from_dict(json.loads(json.dumps(protocol.to_dict()))) == protocol
    assert pickle.loads(pickle.dumps(protocol)) == protocol


def test_population_equal_to_users_is_none():
    drawn = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=100, population=100)
    assert drawn.population is None
    assert drawn == A
    assert list(sa.Protocol([(A, 1), (drawn, 2)])) == [(A, 3)]


def test_it_goes_wherever_rounds_do():
    protocol = sa.Protocol([(A, 2), (B, 1)])
    expected = sa.FourierAccountant().compose(A, count=2).compose(B).epsilon(delta=1e-5)
    for rounds in (protocol, [(B, 1), (A, 1), (A, 1)]):
        assert sa.epsilon(rounds, delta=1e-5) == expected
        assert sa.FourierAccountant().compose(rounds).epsilon(delta=1e-5) == expected
    assert sa.delta(protocol, epsilon=0.5, rounds=2) == sa.delta(protocol * 2, epsilon=0.5)
    rdp = sa.baselines.rdp
    assert rdp.epsilon(protocol, delta=1e-5) == rdp.epsilon(list(protocol), delta=1e-5)
    assert rdp.epsilon(sa.Protocol([(A, 3)]), delta=1e-5) == rdp.epsilon(A, rounds=3, delta=1e-5)


def test_calibration_repeats_a_protocol():
    once = sa.max_rounds(A, target_epsilon=1.0, delta=1e-5)
    assert sa.max_rounds(sa.Protocol([(A, 3)]), target_epsilon=1.0, delta=1e-5) == once // 3


def test_mixed_adjacency_is_refused_in_one_line():
    for mixed in (
        lambda: sa.Protocol([(A, 1), (ZERO, 1)]),
        lambda: sa.Protocol([(A, 1)]) + sa.Protocol([(ZERO, 1)]),
        lambda: sa.FourierAccountant().compose(ZERO).compose(A),
        lambda: sa.epsilon([(A, 1), (ZERO, 1)], delta=0.1),
        lambda: sa.baselines.rdp.epsilon([(A, 1), (ZERO, 1)], delta=0.1),
    ):
        with pytest.raises(ValueError, match="adjacency") as refused:
            mixed()
        text = str(refused.value)
        kinds = (sa.Adjacency.REPLACE_ONE, sa.Adjacency.ZERO_OUT)
        assert "\n" not in text
        assert all(kind.name in text and kind.value in text for kind in kinds)


def test_what_was_refused_is_not_recorded():
    accountant = sa.FourierAccountant().compose(A)
    with pytest.raises(ValueError, match="adjacency"):
        accountant.compose(ZERO)
    assert accountant.rounds == ((A, 1),)


def test_every_answer_says_its_adjacency():
    assert A.epsilon(delta=0.1).adjacency is sa.Adjacency.REPLACE_ONE
    assert ZERO.epsilon(delta=0.1).adjacency is sa.Adjacency.ZERO_OUT
    composed = sa.epsilon(ZERO, delta=0.1, rounds=3)
    assert composed.adjacency is sa.Adjacency.ZERO_OUT
    assert pickle.loads(pickle.dumps(composed)).adjacency is sa.Adjacency.ZERO_OUT
    assert sa.FourierAccountant().epsilon(delta=0.1).adjacency is None
    record = json.loads(json.dumps(composed.as_dict()))
    assert record["adjacency"] == "zero-out"
    assert set(record) == {
        "lower",
        "upper",
        "reduction",
        "adjacency",
        "conditions",
        "ledger",
        "version",
    }
    assert record["version"] == sa.__version__


def test_a_pld_round_keeps_its_adjacency():
    assert sa.PldRound.from_tables(EVEN) != ZERO
    assert "zero-out" in repr(ZERO)
    state = json.loads(json.dumps(ZERO.to_dict()))
    assert sa.PldRound.from_dict(state) == ZERO
    del state["adjacency"]  # as version 0.1.0 wrote it
    assert sa.PldRound.from_dict(state).adjacency is sa.Adjacency.REPLACE_ONE
    accountant = sa.FourierAccountant().compose(ZERO)
    assert accountant.state_dict()["adjacency"] == "zero-out"


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: sa.Protocol([(A, -1)]), ValueError, "count"),
        (lambda: sa.Protocol([(A, 1.5)]), TypeError, "count"),
        (lambda: sa.Protocol([(A, MAX_ROUNDS), (B, 1)]), ValueError, "count"),
        (lambda: sa.Protocol([("A", 1)]), TypeError, "round"),
        (lambda: sa.Protocol([A]), TypeError, "rounds"),
        (lambda: sa.Protocol(A), TypeError, "rounds"),
        (lambda: sa.Protocol([(A, 1)]) * -1, ValueError, "times"),
        (lambda: sa.Protocol([(A, 2)]) * MAX_ROUNDS, ValueError, "times"),
        (lambda: sa.Protocol([(A, 2)]) * 1.5, TypeError, ""),
        (lambda: sa.Protocol([(A, 2)]) + A, TypeError, ""),
        (lambda: sa.Protocol.from_dict({"rounds": []}), ValueError, "adjacency"),
        (
            lambda: sa.Protocol.from_dict({"rounds": [], "adjacency": "zero-out"}),
            ValueError,
            "adjacency",
        ),
        (lambda: sa.PldRound.from_tables(EVEN, adjacency="zero-out"), TypeError, "adjacency"),
        (lambda: as_protocol("AB", name="event"), TypeError, "event"),
        (lambda: sa.epsilon(3, delta=0.1), TypeError, "round"),
    ],
)
def test_bad_values_are_named(make, error, named):
    with pytest.raises(error) as refused:
        make()
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_as_many_rounds_as_there_may_be_take_no_room() -> None:
    """A tuple of a protocol would make room for as many pairs as it has rounds."""
    one = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=10**9)
    tracemalloc.start()
    try:
        many = sa.FourierAccountant(tolerance=0.1).compose(one, count=10**9)
        found = many.epsilon(delta=1e-6)
        most = sa.Protocol([(one, 10**12)])
        again = pickle.loads(pickle.dumps(sa.Protocol(most)))
        accountant = sa.FourierAccountant().compose(again)
        assert accountant.rounds == most.distinct == ((one, 10**12),)
        with pytest.raises(ValueError, match="count must be"):
            most + most
        assert sa.FourierAccountant.from_state_dict(accountant.state_dict()).rounds == most.distinct
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # basic composition
    assert 0.0 < found.lower <= found.upper <= 1e9
    # 8 bytes for each of 1e9 rounds would be far more than the memory limit
    assert peak < 2**30
