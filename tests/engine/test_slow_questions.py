"""Questions that once took a minute: how much is computed for each, and that answers still hold.

Work is counted, not timed: pairs of values that are added when laws of sums are doubled, and nodes
times messages of inversions. What is allowed is some twice what is needed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import mpmath
import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.losses.alphabets.letters import MessagePair, far_bounds, lone_message
from shuffle_accountant.losses.alphabets.profiles import _by_moments
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums import doubling, nodes, settings

pytestmark = pytest.mark.filterwarnings("ignore::shuffle_accountant.LooseBracketWarning")

# Pairs of values that are added.
PAIRS = 2.5e9
# Nodes times messages.
NODES = 2e8
# Questions that still take ten seconds or more.
LONG = ("rappor", "vectors", "bits near one", "allocation")


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


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.release] if name in LONG else []) for name in QUESTIONS],
)
def test_work(name: str, work: Counter[str]) -> None:
    make, question = QUESTIONS[name]
    round = make()
    found = round.epsilon(**question) if "delta" in question else round.delta(**question)
    assert 0.0 <= found.lower <= found.upper
    assert work["pairs"] <= PAIRS, work
    assert work["nodes"] <= NODES, work


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("bits far out", 0.03),  # from single messages
        pytest.param("vectors", 0.001, marks=pytest.mark.release),
        pytest.param("bits near one", 0.0, marks=pytest.mark.release),  # both ends are zero
    ],
)
def test_answers_are_no_wider_than_they_were(name: str, width: float) -> None:
    make, question = QUESTIONS[name]
    found = make().epsilon(**question)
    assert found.upper <= (1.0 + width) * found.lower
    assert (found.upper == 0.0) == (name == "bits near one")


# ------------------------------------------------------------ bounds from single messages, exactly
def divergence(pair: MessagePair, users: int, epsilon: float) -> mpmath.mpf:
    """``E[(mean of r0 - alpha r1)_+]`` over all multisets of messages, with 60 digits."""
    p0, p1, q = ([mpmath.mpf(x) for x in row.tolist()] for row in (pair.p0, pair.p1, pair.q))
    alpha, total = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(0)
    value = [(a - alpha * b) / c for a, b, c in zip(p0, p1, q, strict=True)]
    for some in combinations_with_replacement(range(len(q)), users):
        chance = mpmath.mpf(math.factorial(users))
        for letter, count in Counter(some).items():
            chance *= q[letter] ** count / math.factorial(count)
        total += chance * max(sum(value[letter] for letter in some) / users, 0)
    return total


def test_bounds_from_single_messages_enclose_the_sum_over_multisets() -> None:
    """Letters of any unevenness; where one message outweighs the others both bounds are close."""
    near = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        letters, users = int(rng.integers(3, 6)), int(rng.integers(2, 7))
        p0, p1 = rng.dirichlet(np.full(letters, 0.3), 2)
        q = 0.5 * np.minimum(p0, p1) + 1e-9 * rng.random(letters)
        p0, p1, q = np.append(p0, 0.0), np.append(p1, 0.0), np.append(q, 1.0 - q.sum())
        pair = MessagePair(p0, p1, q).settled(Bound.PESSIMISTIC, users)
        with mpmath.workdps(60):
            for epsilon in (0.0, 0.1, 1.0, 3.0, 6.0, 9.0, 14.0, 30.0):
                truth = divergence(pair, users, epsilon)
                low = lone_message(pair, users, epsilon)
                high = float(far_bounds([pair], users, np.array([math.expm1(epsilon)]))[0])
                assert mpmath.mpf(low) <= truth <= mpmath.mpf(high), (seed, epsilon)
                near += low > 0.5 * truth > 0
    assert near >= 20


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0, 11.0])
def test_bounds_from_single_messages_agree_with_sums(epsilon: float) -> None:
    """By a second route, where that is quick."""
    loss: Any = sa.ShuffleRound(sa.GaussianRandomizer(0.396), users=1000).reduced().loss
    effort = Effort(tail=1e-40, resolution=1e-3)
    low, high = _by_moments(loss.pairs, 1000, epsilon, effort)
    assert 0.0 < low <= loss.delta(epsilon, Bound.PESSIMISTIC, effort)
    assert high >= loss.delta(epsilon, Bound.OPTIMISTIC, effort)
