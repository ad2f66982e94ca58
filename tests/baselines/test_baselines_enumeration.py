"""Lemma 11's listing of the clones' pair beside all pairs of counts, and beside the accountant."""

from __future__ import annotations

import math
from typing import Any

import pytest
from oracles import clones as clones_oracle
from scipy import optimize

import shuffle_accountant as sa
from shuffle_accountant.baselines import clones_enumeration


@pytest.mark.parametrize("users", [1, 2, 7, 25])
def test_delta_against_exact_enumeration(users: int) -> None:
    truth = clones_oracle.pair(1.5, users)
    for epsilon in (0.0, 0.2, 1.0):
        exact = float(clones_oracle.delta(truth, epsilon))
        found = clones_enumeration.delta(eps0=1.5, users=users, epsilon=epsilon, tau=1e-9)
        # an upper bound that neglects at most tau, here counted in full; 1e-12 for rounding
        assert exact * (1 - 1e-12) <= found <= exact * (1 + 2e-11) + 1e-9


@pytest.mark.parametrize("eps0", [1e-9, 1e-3, 3.0])
def test_delta_where_losses_have_few_digits(eps0: float) -> None:
    """Next to the largest loss delta is what rounding leaves of a difference of losses."""
    truth = clones_oracle.pair(eps0, 3)
    for share in (0.2, 0.6, 0.9, 0.99, 0.999, 1.0 - 1e-9):
        exact = clones_oracle.delta(truth, share * eps0)
        found = clones_enumeration.delta(eps0=eps0, users=3, epsilon=share * eps0, tau=1e-300)
        # losses are off by some forty roundings
        assert exact <= found <= exact * (1 + 3e-11) + 1e-14


@pytest.mark.parametrize(("eps0", "delta"), [(1e-9, 1e-13), (1e-4, 3e-6), (1.0, 0.05), (9.0, 0.3)])
def test_epsilon_is_above_the_root(eps0: float, delta: float) -> None:
    """Delta is no more than asked for, by enumeration; the root may be off by 1e-11 nats."""
    truth = clones_oracle.pair(eps0, 4)
    found = clones_enumeration.epsilon(eps0=eps0, users=4, delta=delta)
    assert clones_oracle.delta(truth, found) <= delta
    # a thousandth of delta is left to what is not listed
    assert clones_oracle.delta(truth, max(found * (1 - 1e-3) - 2e-11, 0.0)) >= 0.99 * delta


def test_a_root_found_too_low_is_no_lower_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search may end below the root, by all that it is allowed."""
    search, roots = optimize.brentq, []

    def low(function: Any, *ends: float, xtol: float) -> float:
        roots.append(search(function, *ends, xtol=xtol))
        return float(roots[-1]) * (1.0 - 4.0 * 2.0**-52) - xtol

    monkeypatch.setattr(optimize, "brentq", low)
    for eps0, delta in ((1e-4, 3e-6), (1.0, 0.05), (600.0, 1e-6)):
        found = clones_enumeration.epsilon(eps0=eps0, users=4, delta=delta)
        assert roots[-1] <= found <= roots[-1] + 2e-11


def test_sums_of_masses_are_rounded_up() -> None:
    """Nearly all that counts is told apart for certain, so that losses do not matter."""
    for users in (2, 3, 5, 9, 13, 17):
        exact = clones_oracle.delta(clones_oracle.pair(12.0, users), 0.0)
        found = clones_enumeration.delta(eps0=12.0, users=users, epsilon=0.0, tau=1e-300)
        assert exact <= found <= exact * (1 + 2e-11)


@pytest.mark.parametrize(
    ("eps0", "users", "delta"), [(0.5, 200, 1e-3), (2.0, 500, 1e-6), (4.0, 10_000, 1e-8)]
)
def test_epsilon_is_just_above_the_accountant_s(eps0: float, users: int, delta: float) -> None:
    certified = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users).epsilon(delta=delta)
    found = clones_enumeration.epsilon(eps0=eps0, users=users, delta=delta)
    # a thousandth of delta is left out: less than a hundredth of epsilon at these slopes
    assert certified.lower <= found <= 1.01 * certified.upper
    at = clones_enumeration.delta(eps0=eps0, users=users, epsilon=found, tau=1e-3 * delta)
    assert at == pytest.approx(delta, rel=1e-6)


def test_nothing_is_lost_where_nothing_can_be() -> None:
    assert clones_enumeration.epsilon(eps0=0.0, users=10, delta=0.1) == 0.0
    assert clones_enumeration.epsilon(eps0=1.0, users=100, delta=0.9) == 0.0
    assert clones_enumeration.delta(eps0=1.0, users=10, epsilon=1.0) == 0.0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"eps0": 701.0}, "eps0 <= 700"),
        ({"users": 10**6}, "at most 200000 pairs of counts"),
        ({"delta": 5e-324}, "thousandth"),
    ],
)
def test_outside_its_range_it_says_so(arguments: dict[str, Any], named: str) -> None:
    asked: dict[str, Any] = {"eps0": 1.0, "users": 100, "delta": 1e-6} | arguments
    condition = clones_enumeration.valid(**asked)
    assert condition is not None
    assert named in condition
    with pytest.raises(ValueError, match=f"^clones_enumeration is valid for .*{named}"):
        clones_enumeration.epsilon(**asked)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"eps0": -1.0}, "eps0"), ({"users": 0}, "users"), ({"delta": 1.0}, "delta")],
)
def test_bad_values_are_named(arguments: dict[str, Any], name: str) -> None:
    asked: dict[str, Any] = {"eps0": 1.0, "users": 100, "delta": 1e-6} | arguments
    with pytest.raises(ValueError, match=f"^{name} must be"):
        clones_enumeration.epsilon(**asked)
    with pytest.raises(ValueError, match=r"^tau must be"):
        clones_enumeration.delta(eps0=1.0, users=100, epsilon=0.1, tau=math.nan)
