"""Channels, their cascades, equivalence and refinement, against fractions from the definitions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from oracles import exact_channels as exact

from shuffle_accountant.leakage import qif

# Sums of up to a hundred products of numbers in [0, 1].
ROUND_OFF = 1e-13

CASES = [
    (3, 2, Fraction(3, 4)),
    (2, 3, Fraction(3, 5)),
    (3, 3, Fraction(1, 2)),
    (3, 2, Fraction(1, 10)),
]


def agrees(channel: qif.Channel, truth: exact.Channel) -> bool:
    assert list(channel.inputs) == list(truth)
    return all(
        abs(channel.matrix[i, j] - float(row.get(output, Fraction(0)))) <= ROUND_OFF
        for i, row in enumerate(truth.values())
        for j, output in enumerate(channel.outputs)
    )


def four(users: int, k: int, p: Fraction) -> dict[str, qif.Channel]:
    return {
        "N": qif.krr_channel(users=users, categories=k, p=float(p)),
        "S": qif.shuffle_channel(users=users, categories=k),
        "Sr": qif.reduced_shuffle_channel(users=users, categories=k),
        "Nr": qif.reduced_krr_channel(users=users, categories=k, p=float(p)),
    }


def four_exact(users: int, k: int, p: Fraction) -> dict[str, exact.Channel]:
    one = exact.krr(k, p)
    found = {
        "N": exact.local(one, users),
        "S": exact.shuffle(users, k),
        "Sr": exact.reduced_shuffle(users, k),
        "Nr": exact.reduced_local(one, users),
    }
    histograms = qif.reduced_krr_channel(users=users, categories=k, p=0.5).inputs
    found["Nr"] = {z: found["Nr"][z] for z in histograms}
    return found


@pytest.mark.parametrize(("users", "k", "p"), CASES)
def test_the_four_channels_and_their_cascades_are_the_definitions(users, k, p):
    mine, truth = four(users, k, p), four_exact(users, k, p)
    for name, channel in mine.items():
        assert agrees(channel, truth[name]), name
    for one, two in (("N", "S"), ("S", "N"), ("N", "Sr"), ("Sr", "Nr")):
        assert agrees(mine[one] @ mine[two], exact.cascade(truth[one], truth[two])), (one, two)


@pytest.mark.parametrize(("users", "k", "p"), CASES[:3])
def test_propositions_9_11_12_26_and_28(users, k, p):
    c = four(users, k, p)
    assert c["S"].is_equivalent_to(c["Sr"])
    assert np.allclose((c["N"] @ c["S"]).matrix, (c["S"] @ c["N"]).matrix, rtol=0, atol=ROUND_OFF)
    assert np.allclose(
        (c["N"] @ c["Sr"]).matrix, (c["Sr"] @ c["Nr"]).matrix, rtol=0, atol=ROUND_OFF
    )
    assert (c["N"] @ c["S"]).is_equivalent_to(c["N"] @ c["Sr"])
    assert (c["S"] @ c["N"]).is_equivalent_to(c["Sr"] @ c["Nr"])
    assert not c["N"].is_equivalent_to(c["N"] @ c["S"])
    truth = four_exact(users, k, p)
    assert exact.posteriors(truth["S"]) == exact.posteriors(truth["Sr"])


@pytest.mark.parametrize(("users", "k", "p"), [CASES[0], CASES[1]])
def test_shuffling_refines_and_is_not_refined(users, k, p):
    c = four(users, k, p)
    both = c["N"] @ c["Sr"]
    assert c["N"].is_refined_by(both)
    assert c["Sr"].is_refined_by(both)
    assert not both.is_refined_by(c["N"])
    assert not both.is_refined_by(c["Sr"])


def test_fair_bits_leak_nothing():
    c = four(3, 2, Fraction(1, 2))
    nothing = qif.Channel(np.ones((8, 1)), inputs=c["N"].inputs)
    assert (c["N"] @ c["Sr"]).is_equivalent_to(nothing)
    assert nothing.is_refined_by(c["N"])  # then N refines everything constant
    assert c["N"].min_capacity() == pytest.approx(0.0, abs=ROUND_OFF)


def test_table_v_and_the_rows_that_table_iv_should_have():
    p, q = 0.75, 0.25
    reduced = qif.reduced_krr_channel(users=3, categories=2, p=p)
    row = [p * p * q, p**3 + 2 * p * q * q, 2 * p * p * q + q**3, p * q * q]
    mine = [reduced.probability(z, given=(2, 1)) for z in ((3, 0), (2, 1), (1, 2), (0, 3))]
    assert mine == pytest.approx(row, abs=ROUND_OFF)
    assert mine[1] == pytest.approx(0.515625, abs=ROUND_OFF)
    assert reduced.probability((0, 3), given=(3, 0)) == pytest.approx(0.015625, abs=ROUND_OFF)


def test_min_capacities():
    c = four(3, 2, Fraction(3, 4))
    assert c["N"].min_capacity() == pytest.approx(3 * math.log2(1.5), abs=1e-12)
    assert c["S"].min_capacity() == pytest.approx(2.0, abs=1e-12)  # log2 C(n + k - 1, k - 1)
    # the column maxima are p^3, p^3 + 2 p q^2, and mirrored
    column = Fraction(27, 64) + Fraction(33, 64)
    both = (c["N"] @ c["Sr"]).min_capacity()
    assert both == pytest.approx(math.log2(2 * column), abs=1e-12)


def test_vulnerabilities_and_leakages_by_hand():
    channel = qif.Channel([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], inputs="xy", outputs="abc")
    prior, gain = [0.25, 0.75], [[1.0, 0.0], [0.0, 2.0], [0.5, 0.5]]
    assert channel.prior_vulnerability(prior) == 0.75
    # max(.125, 0) + max(.125, .375) + max(0, .375)
    assert channel.posterior_vulnerability(prior) == 0.875
    assert channel.additive_leakage(prior) == 0.125
    assert channel.multiplicative_leakage(prior) == pytest.approx(7 / 6)
    assert channel.min_entropy_leakage(prior) == pytest.approx(math.log2(7 / 6))
    assert channel.prior_vulnerability(prior, gain) == 1.5
    assert channel.posterior_vulnerability(prior, gain) == 0.125 + 0.75 + 0.75
    assert channel.posterior_vulnerability(prior, qif.identity_gain(2)) == 0.875
    assert channel.probability("c", given="y") == 0.5
    assert repr(channel) == "Channel(2 inputs, 3 outputs)"


def test_canonical_form_merges_and_drops():
    channel = qif.Channel([[0.2, 0.3, 0.4, 0.1, 0.0], [0.1, 0.6, 0.2, 0.1, 0.0]], outputs="abcde")
    small = channel.canonical()
    assert small.outputs == (("a", "c"), ("b",), ("d",))
    assert small.matrix.tolist() == pytest.approx(np.array([[0.6, 0.3, 0.1], [0.3, 0.6, 0.1]]))
    assert small.is_equivalent_to(channel)


def test_the_post_processing_is_found():
    fine = qif.krr_channel(users=2, categories=2, p=0.8)
    coarse = qif.reduced_shuffle_channel(users=2, categories=2)
    way, distance = fine.post_processing_to(fine @ coarse)
    assert distance < 1e-8  # ten times the solver's tolerance
    assert np.allclose((fine @ way).matrix, (fine @ coarse).matrix, rtol=0, atol=1e-8)
    _, far = (fine @ coarse).post_processing_to(fine)
    assert far > 0.01


def test_keep_probability_and_single_target_gain():
    assert qif.keep_probability(eps0=math.log(3.0), categories=2) == pytest.approx(0.75)
    assert qif.keep_probability(eps0=0.0, categories=5) == pytest.approx(0.2)
    assert qif.keep_probability(eps0=math.inf, categories=5) == 1.0
    gain = qif.single_target_gain(users=2, categories=2, target=1)
    assert gain.tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]


def stochastic(rows: int, columns: int) -> st.SearchStrategy[np.ndarray]:
    entries = hnp.arrays(np.float64, (rows, columns), elements=st.floats(0.0, 1.0, width=16))
    return entries.map(lambda a: (a + 1e-3) / (a + 1e-3).sum(axis=1, keepdims=True))


SIZES = st.tuples(*[st.integers(1, 4)] * 4)


@settings(max_examples=60, deadline=None)
@given(SIZES, st.data())
def test_post_processing_never_raises_vulnerability(sizes, data):
    x, y, z, guesses = sizes
    first, second = data.draw(stochastic(x, y)), data.draw(stochastic(y, z))
    prior = data.draw(stochastic(1, x))[0]
    gain = data.draw(hnp.arrays(np.float64, (guesses, x), elements=st.floats(0.0, 4.0)))
    fine = qif.Channel(first)
    coarse = fine @ qif.Channel(second)
    before = fine.prior_vulnerability(prior, gain)
    after = coarse.posterior_vulnerability(prior, gain)
    slack = ROUND_OFF * (1.0 + before)
    assert before <= after + slack
    assert after <= fine.posterior_vulnerability(prior, gain) + slack
    assert coarse.min_capacity() <= fine.min_capacity() + slack
    if before > 1e-6:
        leakage = math.log2(fine.multiplicative_leakage(prior, gain))
        assert leakage <= fine.min_capacity() + 1e-9  # 1e-13 over 1e-6, and to spare


@settings(max_examples=15, deadline=None)
@given(st.tuples(*[st.integers(2, 4)] * 3), st.data())
def test_a_cascade_refines_its_first_channel(sizes, data):
    x, y, z = sizes
    fine = qif.Channel(data.draw(stochastic(x, y)))
    coarse = fine @ qif.Channel(data.draw(stochastic(y, z)))
    assert fine.is_refined_by(coarse)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_splitting_and_reordering_outputs_is_an_equivalence(x, y, data):
    matrix = data.draw(stochastic(x, y))
    shares = data.draw(hnp.arrays(np.float64, y, elements=st.floats(0.1, 0.9)))
    split = np.hstack([matrix * shares, np.zeros((x, 1)), matrix * (1.0 - shares)])
    order = data.draw(st.permutations(range(2 * y + 1)))
    one, other = qif.Channel(matrix), qif.Channel(split[:, order])
    assert one.is_equivalent_to(other)
    assert other.is_equivalent_to(one)
    assert len(other.canonical().outputs) <= y


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 3), st.integers(2, 3), st.integers(1, 3), st.data())
def test_shuffling_commutes_with_any_local_channel(values, messages, users, data):
    one = data.draw(stochastic(values, messages))
    full, reduced = qif.local_channel(one, users=users), qif.reduced_local_channel(one, users=users)
    before, after = (
        qif.shuffle_channel(users=users, categories=size) for size in (values, messages)
    )
    assert np.allclose((full @ after).matrix, (before @ full).matrix, rtol=0, atol=ROUND_OFF)
    before, after = (
        qif.reduced_shuffle_channel(users=users, categories=size) for size in (values, messages)
    )
    assert np.allclose((full @ after).matrix, (before @ reduced).matrix, rtol=0, atol=ROUND_OFF)
