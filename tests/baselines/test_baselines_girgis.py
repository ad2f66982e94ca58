"""The closed-form Rényi bound: the published numbers, and the theorem's sum term by term.

The sum is written down again in 50-digit arithmetic, with binomials and the gamma function.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.precision import MP, Real, exact

import shuffle_accountant as sa
from shuffle_accountant.baselines import girgis

# The script's curve: eps0 = 3, 1,000 of 100,000 users, delta = 1e-5, half the factor in Upsilon.
SCRIPT = {
    10: 0.7308,
    31: 1.1310,
    100: 1.7482,
    316: 2.7038,
    1000: 4.2873,
    3162: 7.0395,
    10_000: 11.8788,
}
PRINTED = 5e-5  # the last digit


def moment(eps0: float, users: int, population: int, order: int, factor: float = 1.0) -> Real:
    """The whole argument of the logarithm."""
    e = MP.exp(exact(eps0))
    g = exact(users) / population
    k = MP.floor((users - 1) / (2 * e)) + 1
    total = 1 + 4 * MP.binomial(order, 2) * g**2 * (e - 1) ** 2 / (k * e)
    for j in range(3, order + 1):
        inner = 2 * (e**2 - 1) ** 2 / (k * e**2)
        total += MP.binomial(order, j) * g**j * j * MP.gamma(exact(j) / 2) * inner ** (exact(j) / 2)
    y = exact(factor) * g * (e**2 - 1) / e
    return total + ((1 + y) ** order - 1 - order * y) * MP.exp(-(users - 1) / (8 * e))


@pytest.mark.parametrize(("rounds", "printed"), SCRIPT.items())
def test_the_script_s_curve(rounds: int, printed: float) -> None:
    setting = {"eps0": 3.0, "users": 1000, "population": 100_000, "delta": 1e-5}
    found = girgis.epsilon(**setting, rounds=rounds, upsilon_factor=0.5)
    assert found == pytest.approx(printed, abs=PRINTED)
    assert girgis.epsilon(**setting, rounds=rounds) > found  # the theorem's own factor is larger


@pytest.mark.parametrize(
    ("eps0", "users", "population"),
    [(1e-3, 10, 10), (1.0, 1, 1), (0.5, 100, 10**4), (3.0, 1000, 10**5), (6.0, 10**4, 10**9)],
)
@pytest.mark.parametrize("order", [2, 3, 7, 60])
@pytest.mark.parametrize("factor", [0.5, 1.0])
def test_the_divergence_is_the_theorem_s(
    eps0: float, users: int, population: int, order: int, factor: float
) -> None:
    wanted = MP.log(moment(eps0, users, population, order, factor)) / (order - 1)
    found = girgis.renyi_divergence(
        eps0=eps0, users=users, population=population, order=order, upsilon_factor=factor
    )
    # logarithms of a few hundred at most, exponentiated
    assert found == pytest.approx(float(wanted), rel=1e-11)


@pytest.mark.parametrize(("rounds", "users"), [(1, 20), (5, 1000), (50, 100_000)])
def test_no_integer_order_is_better(rounds: int, users: int) -> None:
    def at(order: int) -> float:
        rho = girgis.renyi_divergence(eps0=1.0, users=users, order=order)
        t = order - 1
        spent = math.log(1e6) + t * math.log1p(-1 / order) - math.log(order)
        return rounds * rho + spent / t

    found = girgis.epsilon(eps0=1.0, users=users, rounds=rounds, delta=1e-6)
    assert found == pytest.approx(min(map(at, range(2, 1500))), rel=1e-12)


def test_large_orders_are_reached_in_little_time() -> None:
    """A million users at a small eps0: the best order is above 10,000."""
    found = girgis.epsilon(eps0=0.1, users=10**6, rounds=1, delta=1e-6)
    others = []
    for order in (10**3, 10**4, 3 * 10**4):
        rho = girgis.renyi_divergence(eps0=0.1, users=10**6, order=order)
        t = order - 1
        others.append(rho + (math.log(1e6) + t * math.log1p(-1 / order) - math.log(order)) / t)
    assert found <= min(others)
    assert found < others[0]


def test_trivial_protocols() -> None:
    assert girgis.epsilon(eps0=1.0, users=10, rounds=0, delta=1e-6) == 0.0
    assert girgis.renyi_divergence(eps0=0.0, users=10, order=5) == 0.0
    assert math.isfinite(girgis.epsilon(eps0=1000.0, users=10, delta=1e-6))
    everyone = girgis.epsilon(eps0=1.0, users=100, delta=1e-6)
    assert girgis.epsilon(eps0=1.0, users=100, population=100, delta=1e-6) == everyone


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    eps0=st.floats(0.05, 4.0),
    users=st.integers(2, 20_000),
    dilution=st.sampled_from([1, 10, 1000]),
    rounds=st.sampled_from([1, 3, 30]),
)
def test_it_is_not_below_the_certified_bracket(
    eps0: float, users: int, dilution: int, rounds: int
) -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users, population=users * dilution)
    certified = sa.epsilon(one, delta=1e-6, rounds=rounds, tolerance=1e-2)
    found = girgis.epsilon(
        eps0=eps0, users=users, population=users * dilution, rounds=rounds, delta=1e-6
    )
    assert found >= certified.lower


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"eps0": -1.0}, ValueError, "eps0"),
        ({"eps0": math.inf}, ValueError, "eps0"),
        ({"users": 0}, ValueError, "users"),
        ({"population": 9}, ValueError, "population"),
        ({"rounds": -1}, ValueError, "rounds"),
        ({"rounds": 1.5}, TypeError, "rounds"),
        ({"delta": 0.0}, ValueError, "delta"),
        ({"upsilon_factor": 0.0}, ValueError, "upsilon_factor"),
    ],
)
def test_bad_values_are_named(change: dict[str, Any], error: type[Exception], named: str) -> None:
    setting = {"eps0": 1.0, "users": 10, "population": 100, "rounds": 2, "delta": 1e-6} | change
    with pytest.raises(error, match=f"^{named} must be ") as caught:
        girgis.epsilon(**setting)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("order", [1, 2.5, 2**20 + 1])
def test_orders_are_integers(order: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^order must be "):
        girgis.renyi_divergence(eps0=1.0, users=10, order=order)
