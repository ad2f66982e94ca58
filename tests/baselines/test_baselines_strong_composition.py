"""Composition of one (epsilon, delta): the theorem term by term, and the law it comes from.

The theorem's sum is written down again in 50-digit arithmetic. That it is a bound is checked
against the composition of the worst mechanism there is (an exposed message with probability delta1,
else randomized response), listed outcome by outcome.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.precision import MP, Real, exact

import shuffle_accountant as sa
from shuffle_accountant.baselines import strong_clones_closed_form, strong_composition
from shuffle_accountant.baselines.question import OutsideValidityError

ROUND_OFF = 1e-12


def guarantee(eps1: float, delta1: float, rounds: int, i: int) -> tuple[Real, Real]:
    """Epsilon and delta of the theorem for one i."""
    e = exact(eps1)
    inner = (
        sum(
            MP.binomial(rounds, k) * (MP.exp((rounds - k) * e) - MP.exp((rounds - 2 * i + k) * e))
            for k in range(i)
        )
        / (1 + MP.exp(e)) ** rounds
    )
    return (rounds - 2 * i) * e, 1 - (1 - exact(delta1)) ** rounds * (1 - inner)


def worst(eps1: float, delta1: float, rounds: int, epsilon: Real) -> Real:
    """Delta at epsilon of T worst mechanisms, by listing all their outputs."""
    e, d = MP.exp(exact(eps1)), exact(delta1)
    u, v = e / (e + 1), 1 / (e + 1)
    letters = [(d, exact(0)), ((1 - d) * u, (1 - d) * v), ((1 - d) * v, (1 - d) * u), (exact(0), d)]
    total = exact(0)
    for word in product(letters, repeat=rounds):
        p, q = (MP.fprod(letter[side] for letter in word) for side in (0, 1))
        total += max(p - MP.exp(epsilon) * q, 0)
    return total


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("eps1", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("delta1", [0.0, 1e-3])
def test_few_rounds_directly(rounds: int, eps1: float, delta1: float) -> None:
    for i in range(rounds // 2 + 1):
        epsilon, delta = guarantee(eps1, delta1, rounds, i)
        # the theorem is tight, so the enumeration gives the same number
        assert float(worst(eps1, delta1, rounds, epsilon)) == pytest.approx(
            float(delta), rel=1e-30, abs=1e-40
        )
        found = strong_composition.delta(
            eps1=eps1, delta1=delta1, rounds=rounds, epsilon=(rounds - 2 * i) * eps1
        )
        assert found == pytest.approx(float(delta), rel=ROUND_OFF, abs=1e-300)
    for target in (2e-2, 0.3):
        allowed = [
            float(epsilon)
            for epsilon, delta in (
                guarantee(eps1, delta1, rounds, i) for i in range(rounds // 2 + 1)
            )
            if delta <= target
        ]
        found = strong_composition.epsilon(eps1=eps1, delta1=delta1, rounds=rounds, delta=target)
        assert found == pytest.approx(min(allowed), rel=ROUND_OFF, abs=1e-300)


@pytest.mark.parametrize(("rounds", "i"), [(100, 30), (1000, 400), (1000, 500), (3000, 1490)])
@pytest.mark.parametrize("eps1", [1e-3, 0.1])
def test_many_rounds_directly(rounds: int, i: int, eps1: float) -> None:
    _, delta = guarantee(eps1, 0.0, rounds, i)
    found = strong_composition.delta(
        eps1=eps1, delta1=0.0, rounds=rounds, epsilon=(rounds - 2 * i) * eps1 * (1 + 1e-15)
    )
    # relative accuracy, also of tiny values
    assert found == pytest.approx(float(delta), rel=1e-11)


def test_a_million_rounds() -> None:
    """The sum of T losses of size eps1 is normal by then: a check of scale, 1e-3 wide."""
    rounds, eps1 = 10**6, 1e-3
    mean, deviation = rounds * eps1 * math.tanh(eps1 / 2), eps1 * math.sqrt(rounds)
    found = strong_composition.epsilon(eps1=eps1, delta1=0.0, rounds=rounds, delta=1e-6)
    z = (found - mean) / deviation
    ahead = 0.5 * math.erfc(z / math.sqrt(2))
    behind = math.exp(found) * 0.5 * math.erfc((z + 2 * mean / deviation) / math.sqrt(2))
    assert ahead - behind == pytest.approx(1e-6, rel=2e-2)


@settings(max_examples=60, deadline=None)
@given(
    eps1=st.floats(1e-6, 5.0),
    delta1=st.sampled_from([0.0, 1e-12, 1e-9]),
    rounds=st.integers(1, 10**6),
    delta=st.sampled_from([1e-2, 1e-4]),
)
def test_epsilon_and_delta_agree(eps1: float, delta1: float, rounds: int, delta: float) -> None:
    setting = {"eps1": eps1, "delta1": delta1, "rounds": rounds}
    if strong_composition.valid(**setting, delta=delta) is not None:
        return
    found = strong_composition.epsilon(**setting, delta=delta)
    assert 0.0 <= found <= rounds * eps1
    assert strong_composition.delta(**setting, epsilon=found) <= delta * (1 + 1e-9)
    if found >= 2 * eps1:
        assert strong_composition.delta(**setting, epsilon=found - 1.5 * eps1) > delta


def test_trivial_compositions() -> None:
    zero = {"delta1": 0.0, "delta": 0.1}
    assert strong_composition.epsilon(eps1=1.0, rounds=0, **zero) == 0.0
    assert strong_composition.epsilon(eps1=0.0, rounds=10, **zero) == 0.0
    assert strong_composition.epsilon(eps1=1.0, rounds=1, **zero) == 1.0
    assert strong_composition.delta(eps1=1.0, delta1=0.0, rounds=3, epsilon=0.5) == 1.0
    assert strong_composition.delta(eps1=1.0, delta1=1.0, rounds=3, epsilon=5.0) == 1.0
    assert strong_composition.delta(eps1=0.0, delta1=0.25, rounds=2, epsilon=0.0) == 0.4375


def closed_form(delta: float) -> float:
    return float(strong_clones_closed_form.epsilon(eps0=1.0, users=10**6, delta=delta))


@pytest.mark.parametrize("rounds", [1, 2, 5, 40, 1000])
def test_the_split_is_a_bound_and_about_the_best(rounds: int) -> None:
    found = strong_composition.split_epsilon(closed_form, rounds=rounds, delta=1e-6)
    most = -math.expm1(math.log1p(-1e-6) / rounds)
    splits = [most * (0.5 + 0.5 * math.cos(x / 100.0 * math.pi)) * (1 - 1e-12) for x in range(100)]
    epsilons = [
        strong_composition.epsilon(
            eps1=closed_form(delta1), delta1=delta1, rounds=rounds, delta=1e-6
        )
        for delta1 in splits
    ]
    # some split gives it, and none of a hundred is better by more than a hundredth
    assert found <= min(epsilons) * 1.01
    assert found >= min(epsilons) * 0.99


def test_two_rounds_are_the_sum_of_two_halves() -> None:
    found = strong_composition.split_epsilon(closed_form, rounds=2, delta=1e-6)
    assert found == pytest.approx(2 * closed_form(-math.expm1(math.log1p(-1e-6) / 2)), rel=1e-12)


@pytest.mark.parametrize("rounds", [2, 4, 30])
def test_it_is_not_below_the_certified_bracket(rounds: int) -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(2.0), users=1000)
    found = strong_composition.split_epsilon(
        lambda delta: one.epsilon(delta=delta), rounds=rounds, delta=1e-6
    )
    assert found >= sa.epsilon(one, delta=1e-6, rounds=rounds).lower


def test_a_curve_that_applies_nowhere_says_why() -> None:
    def refuse(delta: float) -> float:
        raise ValueError("not here")

    with pytest.raises(ValueError, match=r"^not here$"):
        strong_composition.split_epsilon(refuse, rounds=3, delta=1e-6)


def test_a_delta_that_the_rounds_have_spent() -> None:
    setting = {"eps1": 1.0, "delta1": 1e-6, "rounds": 10}
    told = strong_composition.valid(**setting, delta=1e-6)
    assert told is not None
    assert told.startswith("1 - (1 - delta1)^rounds <= delta = 1e-06, got 9.99996e-06")
    with pytest.raises(OutsideValidityError, match=r"^strong_composition is valid for 1 - "):
        strong_composition.epsilon(**setting, delta=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"eps1": -1.0}, ValueError, "eps1"),
        ({"eps1": math.inf}, ValueError, "eps1"),
        ({"delta1": 1.5}, ValueError, "delta1"),
        ({"delta1": math.nan}, ValueError, "delta1"),
        ({"rounds": -1}, ValueError, "rounds"),
        ({"rounds": 2.5}, TypeError, "rounds"),
        ({"delta": 0.0}, ValueError, "delta"),
    ],
)
def test_bad_values_are_named(change: dict[str, Any], error: type[Exception], named: str) -> None:
    setting = {"eps1": 1.0, "delta1": 0.0, "rounds": 2, "delta": 1e-6} | change
    with pytest.raises(error, match=f"^{named} must be ") as caught:
        strong_composition.epsilon(**setting)
    assert "\n" not in str(caught.value)
