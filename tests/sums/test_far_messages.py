"""Sums with a message far above all others, against all sequences of messages, in fractions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from shuffle_accountant.sums import far_messages as module
from shuffle_accountant.sums.far_messages import FarMessages, far_messages

Ratios = tuple[np.ndarray, np.ndarray, np.ndarray]


def messages(seed: int, mass: float) -> Ratios:
    """Four messages, the last two of them far out, one to each side."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(4)) * [1.0, 1.0, 0.05, 0.05]
    r0 = np.append(rng.uniform(0.5, 1.5, 2), [rng.uniform(8.0, 60.0), rng.uniform(0.0, 0.1)])
    r1 = np.append(rng.uniform(0.5, 1.5, 2), [rng.uniform(0.0, 0.1), rng.uniform(8.0, 60.0)])
    return r0, r1, q * (mass / q.sum())


def sequences(ratios: Ratios, n: int, cut: float, anchor: float) -> Iterator[tuple[Fraction, ...]]:
    """Probability, S0 - S1 and S1 of those with a value above the cut."""
    r0, r1, q = (list(map(Fraction, x.tolist())) for x in ratios)
    value = (ratios[0] - ratios[1]) - anchor * ratios[1]
    far = {i for i in range(len(q)) if value[i] > cut}
    for some in itertools.product(range(len(q)), repeat=n):
        if far & set(some):
            chance = math.prod((q[i] for i in some), start=Fraction(1))
            yield chance, sum(r0[i] - r1[i] for i in some), Fraction(sum(r1[i] for i in some))


def made(ratios: Ratios, users: tuple[int, int], anchor: np.ndarray) -> FarMessages:
    value = (ratios[0] - ratios[1]) - anchor[:, None] * ratios[1]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return far_messages(*ratios, value, users, np.full(anchor.size, 1e9))


@pytest.mark.parametrize("mass", [1.0, 0.6])
@pytest.mark.parametrize("cuts", [(0.2,), (0.4, 0.8)])
@pytest.mark.parametrize("seed", range(8))
def test_both_probabilities_and_what_is_missed(
    seed: int, cuts: tuple[float, ...], mass: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SET", replace(module._SET, cuts=cuts))
    ratios, anchor = messages(seed, mass), np.array([0.0, 0.2, 1.0])
    found = made(ratios, (1, 5), anchor)
    assert np.isfinite(found.cut).any()
    for n in (1, 2, 5):
        gain, sent, off, off_sent = found.probabilities(n)
        for k, x in enumerate(anchor.tolist()):
            rows = list(sequences(ratios, n, float(found.cut[k]), x))
            p_less_q = sum((p * s for p, s, _ in rows), start=Fraction(0)) / n
            q_of_it = sum((p * s for p, _, s in rows), start=Fraction(0)) / n
            assert abs(Fraction(gain[k]) - p_less_q) <= Fraction(off[k])
            assert abs(Fraction(sent[k]) - q_of_it) <= Fraction(off_sent[k])
            assert off[k] + off_sent[k] <= 1e-9
            values = [(p, s - Fraction(x) * s1) for p, s, s1 in rows]
            missed = sum((p * max(-v, Fraction(0)) for p, v in values), start=Fraction(0)) / n
            assert missed <= Fraction(found.missed[k])


@pytest.mark.parametrize("mass", [1.0, 0.6])
@pytest.mark.parametrize("users", [(2, 5), (5, 5)])
@pytest.mark.parametrize("seed", range(6))
def test_what_others_take_away(seed: int, users: tuple[int, int], mass: float) -> None:
    """Their generating function for any of the numbers, and the negative parts next to low ones."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(4))
    q *= mass / q.sum()
    value = np.append(rng.uniform(-1.0, 1.0, 2), [2.0, -rng.uniform(1.5, 3.0)])
    deviation, lowest = np.array([0.7]), np.array([-1.2])
    log_power, below = module._others(value[None], q[None], users, deviation, lowest)
    for i, step in enumerate(module._SET.steps):
        kept = value >= -1.2
        each = max(
            math.fsum((q[kept] * np.exp(-step / 0.7 * value[kept])).tolist()), 0.01
        )  # less is not told apart
        most = max((n - 1) * math.log(each) for n in users)
        assert most - 1e-12 * abs(most) <= log_power[0, i] <= most + 1e-9 * (1.0 + abs(most))
    for n in users:
        exact = 0.0
        for some in itertools.product(range(4), repeat=n - 1):
            if any(value[j] < -1.2 for j in some):
                exact += math.prod(q[list(some)]) * sum(max(-value[j], 0.0) for j in some)
        assert exact <= below[0] * (1.0 + 1e-12)
    # at most so many pairs are counted although their messages are one
    assert below[0] <= exact * users[1] ** 2 / min(mass, 1.0) ** users[1] / 0.02


def test_nothing_is_apart_where_too_much_would_be_missed() -> None:
    """And where there is no such letter."""
    far, alike = messages(0, 1.0), (np.ones(4), np.ones(4), messages(0, 1.0)[2])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for share, (r0, r1, q) in ((0.0, far), (1e9, alike)):
            found = far_messages(r0, r1, q, (r0 - r1)[None], (10, 20), np.array([share]))
            assert found.cut[0] == math.inf
            assert all(float(x[0]) == 0.0 for x in found.probabilities(15))
            assert found.missed[0] == 0.0
    assert found[:1].cut.shape == (1,)


@pytest.mark.parametrize("far", [1e3, 1e5])
def test_the_cut_is_where_next_to_nothing_is_missed(far: float) -> None:
    """One letter in a billion, among a million of two: a millionth of its part is missed."""
    r0, r1 = np.array([1.5, 0.5, far]), np.array([0.5, 1.5, 1.0 / far])
    q = np.array([0.5, 0.5, 1e-9])
    q = q / q.sum()
    value = (r0 - r1)[None] - 1e-3 * r1
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = far_messages(r0, r1, q, value, (10**6, 10**6), np.array([1e-6]))
    apart = bool(found.cut[0] < math.inf)
    # a thousand deviations of one are one of the sum, which is down by one on average
    assert apart is (far > 1e4)
    if apart:
        assert found.missed[0] <= 1e-6 * 10.0**6 * found.gain[0]
        assert found.chance[0] == pytest.approx(1e-9)
