"""Lists of histograms, where everything that is stated to err does, one source at a time.

What a table holds is chosen; the truth is that, moved by all that one source may move it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from shuffle_accountant.lattice.grid import Array
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.sums import lists as module
from shuffle_accountant.sums.lists import (
    Histograms,
    ListedProfile,
    counted_histograms,
    every_histogram,
)

USERS, OFF, TINY = 4, 2.0**-8, 1e-13
EXCESS = np.array([0.0, 0.25, 1.0, 4.0])
WAYS = pytest.mark.parametrize("one_by_one", [1 << 20, 0])


def table(seed: int, **errors: float) -> Histograms:
    rng = np.random.default_rng(seed)
    s0, s1 = 4.0 * np.exp(rng.standard_normal((2, 24)))
    # one of them is as likely under both laws at alpha = 2, but for round-off
    s0[0], s1[0] = 8.0, 4.0 * (1.0 + 0.5 * errors.get("slack", 0.0))
    mass = rng.dirichlet(np.ones(24))
    mass[0] = 0.5
    stated = {"slack": 0.0, "sums": 0.0} | errors
    return Histograms(s0, s1, mass, **stated)


def truth(s0: Array, s1: Array, mass: Array) -> Array:
    value = s0 - (1.0 + EXCESS)[:, None] * s1
    return np.asarray(np.maximum(value, 0.0) @ mass / USERS)


def check(law: ListedProfile, exact: Array) -> None:
    assert np.all(law.upper(EXCESS) >= exact - TINY)
    assert np.all(law.lower(EXCESS) <= exact + TINY)


def ways(monkeypatch: pytest.MonkeyPatch, one_by_one: int, **more: float) -> None:
    monkeypatch.setattr(module, "_SET", replace(module._SET, one_by_one=one_by_one, **more))


@WAYS
@pytest.mark.parametrize("source", ["slack", "sums"])
def test_masses_and_sums_that_are_off(
    source: str, one_by_one: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways(monkeypatch, one_by_one)
    for seed in range(8):
        # a sum is no better known than the slack says
        found = table(seed, slack=OFF, sums=OFF if source == "sums" else 0.0)
        law = ListedProfile.of(found, USERS)
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], (2, found.mass.size))
        for one, other in ((1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (*signs,)):
            s0, s1, mass = found.s0, found.s1, found.mass
            if source == "slack":
                mass = mass * (1.0 + np.asarray(one) * OFF)
            else:
                s0, s1 = s0 * (1.0 + np.asarray(one) * OFF), s1 * (1.0 + np.asarray(other) * OFF)
            check(law, truth(s0, s1, mass))
            q, d = law.events(EXCESS)
            for i, x in enumerate(EXCESS.tolist()):
                inside = found.s0 >= (1.0 + x) * found.s1
                assert q[i] >= (mass * s1)[inside].sum() / USERS - TINY
                assert d[i] <= (mass * (s0 - s1))[inside].sum() / USERS + TINY


@WAYS
def test_what_is_not_listed_may_all_be_positive(
    one_by_one: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways(monkeypatch, one_by_one)
    found = table(0, missing=OFF)
    law = ListedProfile.of(found, USERS)
    exact = truth(found.s0, found.s1, found.mass)
    assert np.all(law.upper(EXCESS) >= exact + OFF - TINY)
    assert np.all(law.lower(EXCESS) <= exact + TINY)


@WAYS
def test_products_below_all_normal_doubles(
    one_by_one: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways(monkeypatch, one_by_one)
    monkeypatch.setattr(module, "LIMITS", replace(module.LIMITS, underflow=OFF))
    found = replace(table(0), mass=np.zeros(24))
    assert np.all(ListedProfile.of(found, USERS).upper(EXCESS) >= OFF)


@WAYS
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_masses_that_are_subnormal_numbers(
    sign: float, one_by_one: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mass is off by twice the least double, whatever it is times."""
    ways(monkeypatch, one_by_one)
    monkeypatch.setattr(module, "LIMITS", replace(module.LIMITS, underflow=0.0))
    monkeypatch.setattr(module, "SMALLEST", OFF)
    found = replace(table(1), mass=np.full(24, 4.0 * OFF))
    law = ListedProfile.of(found, USERS)
    check(law, truth(found.s0, found.s1, found.mass + sign * 2.0 * OFF))


def test_sums_of_subnormal_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both probabilities of an event, each off by its own products, one up and one down."""
    ways(monkeypatch, 0)
    monkeypatch.setattr(module, "LIMITS", replace(module.LIMITS, underflow=1.0))
    monkeypatch.setattr(module, "SMALLEST", 2.0**-16)
    small = Histograms(np.array([8.0, 6.0]), np.array([0.5, 1.0]), np.full(2, 2.0**-6), 0.0, 0.0)
    law = ListedProfile.of(small, 1)
    # a mass by two of them, whatever it is times, and a product by eight
    p, q = (float((small.mass * s).sum()) for s in (small.s0, small.s1))
    off_p, off_q = (2.0**-16 * (2.0 * s.sum() + 8.0 * s.size) for s in (small.s0, small.s1))
    high, low = law.upper(EXCESS), law.lower(EXCESS)
    most, least = law.events(EXCESS)
    for i, x in enumerate(EXCESS.tolist()):
        for first in (-off_p, 0.0, off_p):
            for second in (-off_q, 0.0, off_q):
                exact = p + first - (1.0 + x) * (q + second)
                assert low[i] - TINY <= exact <= high[i] + TINY
                assert most[i] >= q + second - TINY
                assert least[i] <= p + first - q - second + TINY


@WAYS
def test_sums_whose_roundings_err(one_by_one: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences by three roundings of what is taken off, totals by sixty-four of themselves."""
    unit = 2.0**-16
    ways(monkeypatch, one_by_one)
    monkeypatch.setattr(module, "UNIT_ROUNDOFF", unit)
    found = table(2)
    law = ListedProfile.of(found, USERS)
    alpha = (1.0 + EXCESS)[:, None]
    for sign in (-1.0, 1.0):
        value = found.s0 - alpha * found.s1 + sign * 3.0 * unit * (found.s0 + alpha * found.s1)
        check(law, np.asarray(np.maximum(value, 0.0) @ found.mass / USERS))
    alone = replace(found, s1=np.zeros(24))
    law, whole = ListedProfile.of(alone, USERS), float(found.mass @ found.s0) / USERS
    for sign in (-1.0, 1.0):
        check(law, whole * (1.0 + sign * 64.0 * unit))


# Of all messages but the commonest, four at most.
COUNTS = np.array([(a, b) for a in range(USERS + 1) for b in range(USERS + 1 - a)]).T
RATIOS = np.array([0.5, 1.5, 2.0]), np.array([1.5, 0.5, 1.0]), np.array([0.625, 0.25, 0.125])


def made(every: bool) -> Histograms:
    if every:
        return every_histogram(*RATIOS, USERS)
    return counted_histograms(RATIOS, USERS, COUNTS)


@pytest.mark.parametrize("every", [False, True])
def test_messages_whose_probabilities_are_off(every: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by its error: a mass by that of all its messages, a sum by that of one."""
    ways(monkeypatch, 0, message_error=OFF)
    found = made(every)
    assert found.slack >= (1.0 + OFF) ** USERS - 1.0
    assert found.sums >= OFF


@pytest.mark.parametrize("every", [False, True])
def test_logarithms_whose_roundings_err(every: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every term of a logarithm by one rounding, every term of a sum by as many as there are."""
    ways(monkeypatch, 0, message_error=0.0)
    unit = 2.0**-20
    with stress(roundoff=unit):
        found = made(every)
    counts = np.vstack([USERS - COUNTS.sum(axis=0), COUNTS])
    sizes = [
        math.lgamma(USERS + 1)
        + sum(
            c * abs(math.log(q)) + math.lgamma(c + 1) for c, q in zip(row, RATIOS[2], strict=True)
        )
        for row in counts.T.tolist()
    ]
    assert found.slack >= math.expm1(unit * max(sizes))
    assert found.sums >= 4.0 * unit


def test_probabilities_of_messages_have_room_for_their_roundings() -> None:
    """Of the few sums, products and quotients that made them."""
    assert module._SET.message_error >= 16.0 * 2.0**-53
