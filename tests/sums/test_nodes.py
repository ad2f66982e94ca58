"""Bounds by Laplace inversion, against sums over all histograms of messages.

The oracle lists every histogram of n messages and adds up positive parts: it shares no tilt, no
transform and no smoothing with what is tested.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import blanket as exact_blanket
from oracles.letter_pairs import Truth, pair_of, random_rows, users_for
from oracles.precision import exact

import shuffle_accountant as sa
from shuffle_accountant.lattice.grid import Array
from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Bound
from shuffle_accountant.sums import nodes as module
from shuffle_accountant.sums import question, spectra, survey, tilted
from shuffle_accountant.sums import settings as chosen
from shuffle_accountant.sums.heavy_tails import heavy_positive_part
from shuffle_accountant.sums.nodes import NodeTable, node_table
from shuffle_accountant.sums.question import Ends, MessageRows

fixed = settings(derandomize=True, deadline=None, max_examples=100)

THREE = MessagePair(np.array([0.6, 0.3, 0.1]), np.array([0.3, 0.6, 0.1]), np.array([0.3, 0.3, 0.4]))


def tabled(pair: MessagePair, users: tuple[int, int], excess: Array, width: float) -> NodeTable:
    rows = MessageRows.of(pair.decoyed, excess)
    return node_table(rows, users, np.full(excess.size, width))


def tilted_rows(rows: MessageRows, users: tuple[int, int], width: Array) -> Any:
    """The messages under the tilts of some rows."""
    unknown = np.full(width.shape, math.nan)
    aims = tilted.Aims(width, unknown, unknown)
    asked = question.Question.of(rows, users, width)
    return tilted.tilt_rows(asked, aims, np.arange(width.size), 1e5)


def check(found: Ends, truth: Truth, excess: Array) -> int:
    """Containment at every alpha, and of every event at every alpha; how many there were."""
    there = np.isfinite(found.upper)
    rows = zip(excess[there].tolist(), found.upper[there], found.lower[there], strict=True)
    for x, high, low in rows:
        value, error = truth.decoyed(x)
        assert low <= value + error
        assert high >= value - error
    for x in [0.0, 0.5 * float(excess[0]), *excess.tolist(), 3.0 * float(excess[-1])]:
        value, error = truth.decoyed(x)
        lines = found.d[there] - x * found.q[there]
        assert np.all(lines <= value + error)
    return int(there.sum())


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [30, pytest.param(300, marks=pytest.mark.release)])
def test_random_messages_contain_the_truth(pairs: int) -> None:
    """Pairs of all kinds, for the least, a middle and the largest number."""
    answered, asked = 0, 0
    for seed in range(pairs):
        rng = np.random.default_rng(seed)
        pair = pair_of(random_rows(rng), float(rng.choice([1.0, rng.random()])))
        most = users_for(rng, pair.decoyed[2].size)
        least = max(int(most / rng.choice([1.0, 1.25, 4.0])), 1)
        z = np.array([0.0, 1e-6, 0.3, 1.0, 2.0, 4.0])
        excess = np.unique(np.expm1(np.minimum(z * pair.deviation(least), 8.0)))
        table = tabled(pair, (least, most), excess, 10.0 ** rng.uniform(-4.0, -1.0))
        for users in {least, (least + most) // 2, most}:
            answered += check(table.ends(users), Truth(pair, users), excess)
            asked += excess.size
    assert answered > 0.98 * asked


def with_a_rare_message(seed: int) -> MessagePair:
    """Three messages, and two that mirror one another, are hardly sent, and have large ratios."""
    rng = np.random.default_rng(seed)
    p, p_prime = 0.6 * rng.dirichlet(np.ones(3), size=2) + 0.4 / 3.0
    rare, ratio = 10.0 ** rng.uniform(-7.0, -4.0), 10.0 ** rng.uniform(1.0, 3.0)
    rows = [np.append(row, [ratio * rare, rare]) for row in (p, p_prime)]
    rows[1][3:] = rows[1][3:][::-1]
    q = np.append(np.minimum(p, p_prime), [rare, rare])
    return MessagePair(*(row / row.sum() for row in rows), np.append(q, 0.0)[:5] / (1.0 + q.sum()))


def test_rare_messages_far_above_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where what their negative parts add is most of the answer."""
    answered, far, found = 0, 0, question.far_messages
    for more in (1.0, 2e5):
        monkeypatch.setattr(
            question, "far_messages", lambda *args, more=more: found(*args[:-1], more * args[-1])
        )
        for seed in range(12):
            pair = with_a_rare_message(seed)
            excess = np.expm1(np.array([0.0, 0.5, 1.5, 3.0]) * pair.deviation(20))
            table = tabled(pair, (20, 24), excess, 0.05)
            far += int(table.question.far.far.any(axis=1).sum())
            for users in (20, 24):
                answered += check(table.ends(users), Truth(pair, users), excess)
    assert answered == 2 * 12 * 2 * 4
    assert far > 20


# What may be left out, in parts of the width, and the size of blocks of nodes.
LIMITS = {"little": (1e-9, 16), "half": (0.5, 4), "thirty times": (30.0, 2)}


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_aliases_and_left_out_nodes_are_part_of_both_ends(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large they are."""
    left_out, block = LIMITS[name]
    monkeypatch.setattr(chosen, "NODES", replace(chosen.NODES, left_out=left_out, block=block))
    answered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        pair = pair_of(0.6 * rng.dirichlet(np.ones(3), size=2) + 0.4 / 3.0)
        least, most = (12, 40) if seed % 2 else (30, 36)
        excess = np.expm1(np.array([0.0, 0.5, 1.5, 3.0]) * pair.deviation(least))
        table = tabled(pair, (least, most), excess, 10.0 ** rng.uniform(-3.0, 0.0))
        for users in (least, most):
            answered += check(table.ends(users), Truth(pair, users), excess)
    assert answered > 100


@pytest.mark.parametrize("block", [1, 2, 4])
def test_the_survey_of_blocks_bounds_every_node(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All left-out nodes, added up one by one, are below what the survey says of them."""
    monkeypatch.setattr(chosen, "NODES", replace(chosen.NODES, block=block))
    rng = np.random.default_rng(5)
    for size, users in ((3, 200), (12, 40), (30, 1000)):
        pair = pair_of(rng.dirichlet(np.ones(size), size=2))
        rows = MessageRows.of(pair.decoyed, np.array([0.0, 0.02, 0.1]))
        both, width = (users, users), np.full(3, 1e-3)
        with np.errstate(all="ignore"):
            found = tilted_rows(rows, both, width)
            (row, first), dropped, _ = survey.find_blocks(found, both, math.inf)
        left = 0
        for k in range(3):
            j = np.arange(int(found.last[k]) + 1.0)
            kept = np.isin(block * np.floor(j / block), first[row == k])
            t = j * found.step[k]
            phi = np.abs(np.exp(1j * np.multiply.outer(t, found.y[k])) @ found.weight[k])
            size_of = phi ** (users - 1) * np.exp(-0.5 * t**2 * found.variance[k])
            z = np.hypot(found.theta[k], t)
            for i, transform in enumerate((1.0 / z**2, 1.0 + 0.0 * z, 1.0 / z)):
                exact_sum = float(np.sum((size_of * transform)[~kept]))
                assert exact_sum <= dropped[i, k] * (1.0 + 1e-9) + 1e-300
            left += int((~kept).sum())
        assert left > 0


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_nodes_that_are_off_by_all_that_is_stated(
    sign: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round-off of 2^-24, every sum off the same way by its whole allowance."""
    for part_of in (module, question, spectra, survey, tilted):
        monkeypatch.setattr(part_of, "UNIT_ROUNDOFF", 2.0**-24, raising=False)
    answered = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pair = pair_of(0.6 * rng.dirichlet(np.ones(3), size=2) + 0.4 / 3.0)
        excess = np.expm1(np.array([0.0, 1.0, 2.0]) * pair.deviation(40))
        table = tabled(pair, (40, 40), excess, 1e-2)
        for nodes in table._parts:
            value, error = nodes.sums(40)
            nodes._known[40] = value + sign * error
        answered += check(table.ends(40), Truth(pair, 40), excess)
    assert answered == 60


def test_phi_is_as_close_as_it_says() -> None:
    """Against 50 digits, on nodes near and far, for messages of very different values."""
    mp = pytest.importorskip("mpmath").mp.clone()
    mp.dps = 50
    pair = pair_of(np.array([[0.7, 0.2, 0.0999, 1e-4], [0.2, 0.7, 0.0001, 0.0999]]))
    rows, both = MessageRows.of(pair.decoyed, np.array([0.3])), (300, 300)
    with np.errstate(all="ignore"):
        found = tilted_rows(rows, both, np.full(1, 1e-3))
        (_, first), _, _ = survey.find_blocks(found, both, math.inf)
    fine = spectra._waves(
        np.multiply.outer(found.step, np.arange(16))[:, :, None] * found.y[:, None, :]
    )
    starts = spectra._waves((found.step[:, None] * first)[:, :, None] * found.y[:, None, :])
    less = spectra._less_one(starts, fine, [found.weight])[0].ravel()
    t = found.step[0] * (first[:, None] + np.arange(16.0)).ravel()
    off = found.off(t[None])[0]
    for place, value, error in zip(t.tolist(), less.tolist(), off.tolist(), strict=True):
        truth = sum(
            mp.mpf(float(w)) * (mp.expj(mp.mpf(place) * mp.mpf(float(y))) - 1)
            for w, y in zip(found.weight[0], found.y[0], strict=True)
        )
        assert abs(truth - mp.mpc(value)) <= error
        assert error <= 1e-12 * (1.0 + place * found.size[0])


@fixed
@given(seed=st.integers(0, 10**6), users=st.integers(2, 6), z=st.floats(0.0, 3.0))
def test_strict_containment_in_exact_arithmetic(seed: int, users: int, z: float) -> None:
    """No tolerance: masses are exact binary numbers, the truth has 50 digits."""
    rng = np.random.default_rng(seed)
    pair = pair_of(0.5 * rng.dirichlet(np.ones(3), size=2) + 0.5 / 3.0)
    excess = np.array([math.expm1(z * pair.deviation(users))])
    found = tabled(pair, (users - 1, users), excess, 1e-3).ends(users)
    masses = pair.p0.tolist(), pair.p1.tolist(), pair.q.tolist()
    truth = exact_blanket.lemma(*masses, users, 1 + exact(float(excess[0])))
    assert exact(float(found.lower[0])) <= truth
    assert exact(float(found.upper[0])) >= truth
    line = exact(float(found.d[0])) - exact(float(excess[0])) * exact(float(found.q[0]))
    assert line <= truth


@pytest.mark.parametrize("z", [0.0, 1.0, 4.0, 8.0, 15.0, 20.0])
def test_far_tails_are_relatively_accurate(z: float) -> None:
    """Down to 1e-85 for all numbers of a range; the sum over counts is good to 1e-10."""
    excess = np.array([math.expm1(z * THREE.deviation(900))])
    table = tabled(THREE, (800, 1000), excess, 1e-3)
    for users in (800, 900, 1000):
        found = table.ends(users)
        assert check(found, Truth(THREE, users), excess) == 1
        # one tilt serves all numbers of the range
        assert float(found.upper[0] - found.lower[0]) <= 5e-3 * float(found.upper[0])
        assert z < 20.0 or users < 900 or found.upper[0] < 1e-80


@pytest.mark.parametrize("users", [10**3, 10**5, 10**7])
def test_against_doubling(users: int) -> None:
    """Many messages; the other way shares no rounding, no tilt and no transform."""
    pair = pair_of(np.random.default_rng(users).dirichlet(np.full(5, 3.0), size=2))
    r0, r1, q = pair.decoyed
    excess = np.expm1(np.array([0.0, 2.0, 6.0]) * pair.deviation(users))
    found = tabled(pair, (users, 2 * users), excess, 1e-4).ends(users)
    for i, x in enumerate(excess.tolist()):
        value = (r0 - r1) - x * r1
        value = np.maximum(value, -2.0 * users * value.max())
        top = value.max()
        low, high = (
            heavy_positive_part(value / top, q, users, side, resolution=4e-3, tail=1e-300)
            * top
            / users
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        assert found.lower[i] <= high * (1.0 + 1e-12)
        assert found.upper[i] >= low * (1.0 - 1e-12)
        # rounding of the weights grows with the number of messages
        width = (4e-4 + 1e-12 * users) * found.upper[i]
        assert found.upper[i] - found.lower[i] <= width


def test_far_tails_of_uneven_messages() -> None:
    """Likelihood ratios up to 3e4: one message decides; against doubling."""
    users, effort = 306, Effort(tail=1e-20, resolution=2.5e-4)
    loss: Any = sa.ShuffleRound(sa.GaussianRandomizer(sigma=1.0), users=users).reduced().loss
    pair = loss.pairs[0].letters(Bound.PESSIMISTIC, effort)
    r0, r1, q = pair.decoyed
    excess, width = np.expm1(np.array([0.37, 1.28, 2.04])), np.array([1e-3, 1e-2, 2.5e-2])
    found = node_table(MessageRows.of((r0, r1, q), excess), (users, users), width).ends(users)
    for i, x in enumerate(excess.tolist()):
        value = (r0 - r1) - x * r1
        value = np.maximum(value, -2.0 * users * value.max())
        top = value.max()
        low, high = (
            heavy_positive_part(value / top, q, users, side, resolution=1e-2, tail=1e-20)
            * top
            / users
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        assert found.lower[i] <= high
        assert found.upper[i] >= low
        assert found.upper[i] - found.lower[i] <= 2.0 * width[i] * found.upper[i]
    assert 1e-14 < found.upper[2] < 1e-13


def test_rows_of_several_message_spaces_answer_like_each() -> None:
    """Padded with messages that nobody sends."""
    two = MessagePair(np.array([0.7, 0.3]), np.array([0.4, 0.6]), np.array([0.5, 0.5]))
    stacked = np.zeros((3, 2, 3))
    for i, pair in enumerate((THREE, two)):
        for row, column in enumerate(pair.decoyed):
            stacked[row, i, : column.size] = column
    excess, width = np.array([0.1, 0.2]), np.full(2, 1e-3)
    both = node_table(MessageRows(stacked, excess, np.arange(2)), (30, 60), width).ends(45)
    for i, pair in enumerate((THREE, two)):
        alone = tabled(pair, (30, 60), excess[i : i + 1], 1e-3).ends(45)
        for name in ("upper", "lower", "q", "d"):
            # sums are longer: allowances for their rounding grow
            assert getattr(both, name)[i] == pytest.approx(getattr(alone, name)[0], rel=1e-9)


def test_numbers_outside_the_range_are_refused() -> None:
    table = tabled(THREE, (10, 20), np.array([0.1]), 1e-3)
    with pytest.raises(ValueError, match=r"users must lie in \(10, 20\), got 21"):
        table.ends(21)


def test_one_message_and_no_positive_value() -> None:
    """Above the largest ratio the profile is 0, from both sides."""
    table = tabled(THREE, (1, 1), np.array([0.0, 5.0]), 1e-3)
    found = table.ends(1)
    assert check(found, Truth(THREE, 1), np.array([0.0, 5.0])) == 2
    assert (found.upper[1], found.lower[1]) == (0.0, 0.0)


def test_a_tilt_is_found_where_one_message_takes_over() -> None:
    """From this start Newton's steps go to and fro between the bulk and a rare message."""
    loss: Any = sa.ShuffleRound(sa.GaussianRandomizer(sigma=0.8), users=100).reduced().loss
    messages = loss.pairs[0].letters(Bound.PESSIMISTIC, Effort(1e-14, 1e-4))
    excess = np.expm1(np.array([0.03481997, 0.03507229, 0.0353]))
    found = tabled(messages, (92643, 96930), excess, 4.4e-3).ends(94786)
    assert np.isfinite(found.upper).all()
    assert np.all(np.diff(found.upper) < 0.0)


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1.0, 50.0])
def test_waves_lose_nothing_near_zero(size: float) -> None:
    """Against 50 digits: the error is relative to the angle."""
    mp = pytest.importorskip("mpmath").mp.clone()
    mp.dps = 50
    angle = size * np.random.default_rng(1).uniform(-1.0, 1.0, 200)
    for x, wave in zip(angle.tolist(), spectra._waves(angle).tolist(), strict=True):
        truth = mp.expj(mp.mpf(x)) - 1
        error = abs(truth - mp.mpc(wave))
        assert error <= 32.0 * UNIT_ROUNDOFF * abs(x)


@pytest.mark.parametrize("users", [10**4, 10**6])
def test_one_rare_message_among_many(users: int) -> None:
    """Expected twice, and its probability no difference from 1: against a binomial sum."""
    stats = pytest.importorskip("scipy.stats")
    chance = 2.0 / users
    pair = MessagePair(np.array([0.3, 0.7]), np.array([0.9, 0.1]), np.array([1.0 - chance, chance]))
    excess = np.array([0.0, 0.5, 2.0])
    found = tabled(pair, (users, users), excess, 1e-3).ends(users)
    r0, r1, _ = pair.decoyed
    count = np.arange(60.0)
    law = stats.binom.pmf(count, users, chance)
    for i, x in enumerate(excess.tolist()):
        value = r0 - r1 - x * r1
        total = value[0] * (users - count) + value[1] * count
        truth = float(np.sum(law * np.maximum(total, 0.0))) / users
        # SciPy's probabilities are off by some 1e-11 relative, what is beyond 60 by less
        assert found.lower[i] <= truth * (1.0 + 1e-9)
        assert found.upper[i] >= truth * (1.0 - 1e-9)
        assert found.upper[i] - found.lower[i] <= 2e-2 * truth
