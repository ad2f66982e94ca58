"""Messages that outweigh all smaller ones, against all sequences of messages, in fractions."""

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
    """Five messages: four of them far out, of sizes two of which are close, to both sides."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(5)) * [1.0, 5e-3, 5e-3, 2e-3, 2e-3]
    far = rng.uniform([30.0, 700.0], [60.0, 2000.0], (2, 2))
    r0 = np.append(rng.uniform(0.5, 1.5, 1), [*far[0], 0.1, 0.2])
    r1 = np.append(rng.uniform(0.5, 1.5, 1), [0.1, 0.2, *far[1]])
    return r0, r1, q * (mass / q.sum())


def made(ratios: Ratios, users: tuple[int, int], anchor: np.ndarray) -> FarMessages:
    value = (ratios[0] - ratios[1]) - anchor[:, None] * ratios[1]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return far_messages(*ratios, value, users, np.full(anchor.size, 1e9))


def sequences(
    ratios: Ratios, n: int, order: list[int], anchor: float
) -> Iterator[tuple[bool, Fraction, Fraction, Fraction]]:
    """Whether the first far message has a positive value; probability, S0 - S1 and S1."""
    r0, r1, q = (list(map(Fraction, x.tolist())) for x in ratios)
    for some in itertools.product(range(len(q)), repeat=n):
        first = next((i for i in order if i in some), None)
        if first is not None:
            up = r0[first] - r1[first] > Fraction(anchor) * r1[first]
            chance = math.prod((q[i] for i in some), start=Fraction(1))
            yield up, chance, sum(r0[i] - r1[i] for i in some), Fraction(sum(r1[i] for i in some))


@pytest.mark.parametrize("mass", [1.0, 0.6])
@pytest.mark.parametrize("groups", [3, 48])
@pytest.mark.parametrize("seed", range(6))
def test_both_probabilities_and_what_is_missed(
    seed: int, groups: int, mass: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message in a group, or several of one sign."""
    monkeypatch.setattr(module, "_SET", replace(module._SET, groups=groups))
    ratios, anchor = messages(seed, mass), np.array([0.0, 0.2, 1.0])
    value = (ratios[0] - ratios[1]) - anchor[:, None] * ratios[1]
    group = module._Groups.of(np.broadcast_to(ratios[2], value.shape), value).group
    found = made(ratios, (1, 4), anchor)
    assert found.far.any()
    for n in (1, 2, 4):
        gain, sent, off, off_sent = found.probabilities(n)
        for k, x in enumerate(anchor.tolist()):
            order = [i for i in np.argsort(group[k], kind="stable").tolist() if found.far[k, i]]
            rows = list(sequences(ratios, n, order, x))
            held = [(p, s, s1) for up, p, s, s1 in rows if up]
            p_less_q = sum((p * s for p, s, _ in held), start=Fraction(0)) / n
            q_of_it = sum((p * s for p, _, s in held), start=Fraction(0)) / n
            assert abs(Fraction(gain[k]) - p_less_q) <= Fraction(off[k])
            assert abs(Fraction(sent[k]) - q_of_it) <= Fraction(off_sent[k])
            assert off[k] + off_sent[k] <= 1e-8
            values = [(up, p, s - Fraction(x) * s1) for up, p, s, s1 in rows]
            wrong = [p * abs(v) for up, p, v in values if (v < 0) == up]
            assert sum(wrong, start=Fraction(0)) / n <= Fraction(found.missed[k])


@pytest.mark.parametrize("groups", [3, 48])
@pytest.mark.parametrize("users", [(2, 5), (5, 5)])
@pytest.mark.parametrize("seed", range(6))
def test_each_group_has_its_own_error(
    seed: int, users: tuple[int, int], groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missed where a group's message is the first, group by group, for all numbers."""
    monkeypatch.setattr(module, "_SET", replace(module._SET, groups=groups))
    r0, r1, q = messages(seed, 1.0)
    value = (r0 - r1) - 0.5 * r1
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        made = module._Groups.of(q[None], value[None])
        found = made.errors(users)[0]
    group, positive = made.group[0], made.positive[0]
    assert np.isfinite(found[made.mass[0] > 0.0]).any()
    for n in users:
        missed = np.zeros(found.size)
        for some in itertools.product(range(q.size), repeat=n):
            first, total = group[list(some)].min(), value[list(some)].sum()
            if (total < 0.0) == positive[first]:
                missed[first] += math.prod(q[list(some)]) * abs(total) / n
        assert np.all(missed <= found * (1.0 + 1e-9))


def test_nothing_is_far_where_too_much_would_be_missed() -> None:
    """And where all messages are alike."""
    far, alike = messages(0, 1.0), (np.ones(5), np.ones(5), messages(0, 1.0)[2])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for share, (r0, r1, q) in ((0.0, far), (1e9, alike)):
            found = far_messages(r0, r1, q, (r0 - r1)[None], (10, 20), np.array([share]))
            assert not found.far.any()
            assert all(float(x[0]) == 0.0 for x in found.probabilities(15))
            assert found.missed[0] == 0.0
    assert found[:1].far.shape == (1, 5)


@pytest.mark.parametrize("far", [1e3, 1e5])
def test_a_message_is_far_if_hardly_anything_is_missed(far: float) -> None:
    """One message in a billion, among a million of two others: a millionth may be missed."""
    r0, r1 = np.array([1.5, 0.5, far]), np.array([0.5, 1.5, 1.0 / far])
    q = np.array([0.5, 0.5, 1e-9])
    q = q / q.sum()
    value = (r0 - r1)[None] - 1e-3 * r1
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = far_messages(r0, r1, q, value, (10**6, 10**6), np.array([1e-6]))
    # a thousand deviations of one are one of the sum, which is down by one on average
    assert found.far[0].tolist() == [False, False, far > 1e4]
