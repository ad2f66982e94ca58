"""The bounds of one round: each formula in 50-digit arithmetic, and none below the truth.

The formulas are written down again here from their papers, term by term and without rearrangement;
the sums over the number of users in the blanket, which the package has in closed form, are done
term by term.
"""

from __future__ import annotations

import inspect
import math
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.precision import MP, Real, exact

import shuffle_accountant as sa
from shuffle_accountant import baselines
from shuffle_accountant.baselines.question import OutsideValidityError

# a few dozen roundings, at exponents up to a few hundred
ROUND_OFF = 1e-12

ONE_ROUND = [
    baselines.erlingsson,
    baselines.clones_closed_form,
    baselines.strong_clones_closed_form,
    baselines.blanket_hoeffding,
    baselines.blanket_bennett,
]
BLANKETS = [baselines.blanket_hoeffding, baselines.blanket_bennett]


# ---------------------------------------- formulas


@pytest.mark.parametrize(("eps0", "users", "delta"), [(0.5, 1000, 9e-3), (0.1, 10**6, 1e-8)])
def test_erlingsson(eps0: float, users: int, delta: float) -> None:
    wanted = 12 * exact(eps0) * MP.sqrt(MP.log(1 / exact(delta)) / users)
    found = baselines.erlingsson.epsilon(eps0=eps0, users=users, delta=delta)
    assert found == pytest.approx(float(wanted), rel=ROUND_OFF)


@pytest.mark.parametrize(("eps0", "users", "delta"), [(0.01, 500, 1e-3), (3.0, 10**6, 1e-8)])
def test_clones_closed_form(eps0: float, users: int, delta: float) -> None:
    e = MP.exp(exact(eps0))
    a = 8 * MP.sqrt(e * MP.log(4 / exact(delta)) / users)
    c = 8 * e / users
    gap = (1 - 1 / e) / (1 + MP.exp(-exact(eps0) - MP.log(1 + a + c)))
    wanted = MP.log(1 + gap * (a + c))
    found = baselines.clones_closed_form.epsilon(eps0=eps0, users=users, delta=delta)
    assert found == pytest.approx(float(wanted), rel=ROUND_OFF)


@pytest.mark.parametrize(("eps0", "users", "delta"), [(0.01, 500, 1e-3), (4.0, 10**4, 1e-6)])
def test_strong_clones_closed_form(eps0: float, users: int, delta: float) -> None:
    e = MP.exp(exact(eps0))
    r = 1 / (e + 1)
    deviation = MP.sqrt(32 * MP.log(4 / exact(delta)) / (r * (users - 1))) + 4 / (r * (users - 1))
    wanted = MP.log(1 + (e - 1) / (e + 1) * deviation)
    found = baselines.strong_clones_closed_form.epsilon(eps0=eps0, users=users, delta=delta)
    assert found == pytest.approx(float(wanted), rel=ROUND_OFF)


def loss_variable(eps0: float, epsilon: float, categories: int | None) -> dict[str, Real]:
    """Gamma, mean, largest value, range and second moment of L, from its values where known."""
    e, alpha = MP.exp(exact(eps0)), MP.exp(exact(epsilon))
    if categories is None:
        # the paper's bounds for any eps0-LDP randomizer, gamma between 1/e and 1
        return {
            "gamma": 1 / e,
            "largest": e * (1 - alpha / e**2),
            "range": (alpha + 1) * (e - 1 / e),
            "square": e * (alpha**2 + 1) - 2 / e * alpha / e**2,
            "mean": 1 - alpha,
        }
    # the blanket of k-RR is uniform; a value's likelihood under its own input is e times another's
    other = 1 / (e + categories - 1)
    values = [e * other * categories - alpha * other * categories]
    values.append(other * categories - alpha * e * other * categories)
    values += [(1 - alpha) * other * categories] * (categories - 2)
    return {
        "gamma": categories * other,
        "largest": max(values),
        "range": max(values) - min(values),
        "square": sum(value**2 for value in values) / categories,
        "mean": sum(values) / categories,
    }


def expected(gamma: Real, users: int, least: int, function: Any) -> Real:
    """``E[function(M); M >= least]``, M ~ Bin(users, gamma)."""
    return sum(
        MP.binomial(users, m) * gamma**m * (1 - gamma) ** (users - m) * function(m)
        for m in range(least, users + 1)
    )


def hoeffding(law: dict[str, Real], users: int) -> Real:
    a, b = -law["mean"], law["range"]
    bounded = expected(
        law["gamma"], users, 0, lambda m: b**2 / (4 * a) * MP.exp(-2 * m * a**2 / b**2)
    )
    return bounded / (law["gamma"] * users)


def bennett(law: dict[str, Real], users: int) -> Real:
    a, b, c = -law["mean"], law["largest"], law["square"]
    u = a * b / c
    phi = (1 + u) * MP.log(1 + u) - u
    bounded = expected(
        law["gamma"], users, 1, lambda m: b / MP.log(1 + u) * MP.exp(-m * c / b**2 * phi)
    )
    return bounded / (law["gamma"] * users)


@pytest.mark.parametrize("categories", [None, 2, 3, 10])
@pytest.mark.parametrize(("eps0", "users"), [(0.1, 3), (1.0, 150), (3.0, 150)])
@pytest.mark.parametrize("fraction", [1e-3, 0.3, 0.9])
def test_blanket_bounds(categories: int | None, eps0: float, users: int, fraction: float) -> None:
    epsilon = fraction * eps0
    law = loss_variable(eps0, epsilon, categories)
    assert float(law["mean"]) == pytest.approx(-math.expm1(epsilon), rel=ROUND_OFF)
    for module, formula in ((BLANKETS[0], hoeffding), (BLANKETS[1], bennett)):
        found = module.delta(eps0=eps0, users=users, epsilon=epsilon, categories=categories)
        wanted = min(float(formula(law, users)), 1.0)
        assert found == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("module", BLANKETS)
@pytest.mark.parametrize("categories", [None, 5])
def test_blanket_epsilon_is_the_first_that_reaches_delta(
    module: ModuleType, categories: int | None
) -> None:
    setting = {"eps0": 1.0, "users": 20_000, "categories": categories}
    found = module.epsilon(**setting, delta=1e-6)
    assert module.delta(**setting, epsilon=found) <= 1e-6
    assert module.delta(**setting, epsilon=found * (1 - 1e-9)) > 1e-6
    assert all(
        module.delta(**setting, epsilon=fraction * found) > 1e-6 for fraction in (0.0, 0.1, 0.5)
    )


# ---------------------------------------- validity


@pytest.mark.parametrize(
    ("name", "setting", "condition"),
    [
        ("erlingsson", {"eps0": 0.6, "users": 1000, "delta": 1e-6}, "eps0 <= 0.5, got 0.6"),
        ("erlingsson", {"eps0": 0.5, "users": 999, "delta": 1e-6}, "users >= 1000, got 999"),
        ("erlingsson", {"eps0": 0.5, "users": 1000, "delta": 0.01}, "delta < 0.01, got 0.01"),
        ("clones_closed_form", {"eps0": 4.0, "users": 10_000, "delta": 1e-6}, "eps0 <= log"),
        ("strong_clones_closed_form", {"eps0": 4.0, "users": 999, "delta": 1e-6}, "users > 8"),
        ("strong_clones_closed_form", {"eps0": 1e5, "users": 9, "delta": 1e-6}, "users > 8"),
        ("blanket_hoeffding", {"eps0": 4.0, "users": 100, "delta": 1e-6}, "epsilon < eps0 = 4"),
        ("blanket_bennett", {"eps0": 4.0, "users": 100, "delta": 1e-6}, "epsilon < eps0 = 4"),
        ("blanket_bennett", {"eps0": 0.0, "users": 100, "delta": 1e-6}, "eps0 in [1e-300, 150]"),
        (
            "blanket_hoeffding",
            {"eps0": 151.0, "users": 100, "delta": 1e-6},
            "eps0 in [1e-300, 150]",
        ),
    ],
)
def test_outside_its_range_a_bound_names_the_condition(
    name: str, setting: dict[str, Any], condition: str
) -> None:
    module = getattr(baselines, name)
    told = module.valid(**setting)
    assert told.startswith(condition)
    with pytest.raises(OutsideValidityError) as caught:
        module.epsilon(**setting)
    assert str(caught.value) == f"{name} is valid for {told}"
    assert caught.value.condition == told


def test_the_ends_of_the_ranges() -> None:
    assert baselines.erlingsson.valid(eps0=0.5, users=1000, delta=0.0099) is None
    most = math.log(1e4 / (16 * math.log(4e6)))
    clones = baselines.clones_closed_form
    assert clones.valid(eps0=most * (1 - 1e-12), users=10**4, delta=1e-6) is None
    assert clones.valid(eps0=most * (1 + 1e-12), users=10**4, delta=1e-6) is not None
    least = 8 * (math.exp(2.0) + 1) * math.log(4e6)
    strong = baselines.strong_clones_closed_form
    assert strong.valid(eps0=2.0, users=math.ceil(least), delta=1e-6) is None
    assert strong.valid(eps0=2.0, users=math.floor(least), delta=1e-6) is not None


@pytest.mark.parametrize("module", BLANKETS)
def test_blanket_delta_is_for_epsilon_below_eps0(module: ModuleType) -> None:
    with pytest.raises(OutsideValidityError, match="epsilon < eps0 = 1, got 1"):
        module.delta(eps0=1.0, users=10, epsilon=1.0)
    assert module.delta(eps0=1.0, users=10, epsilon=0.0) == 1.0


BAD = [
    ({"eps0": -1.0}, ValueError, "eps0"),
    ({"eps0": math.nan}, ValueError, "eps0"),
    ({"eps0": "1"}, TypeError, "eps0"),
    ({"users": 0}, ValueError, "users"),
    ({"users": 1e4 + 0.5}, TypeError, "users"),
    ({"delta": 0.0}, ValueError, "delta"),
    ({"delta": 1.0}, ValueError, "delta"),
    ({"delta": math.nan}, ValueError, "delta"),
]


@pytest.mark.parametrize("module", ONE_ROUND)
@pytest.mark.parametrize(("change", "error", "named"), BAD)
def test_bad_values_are_named(
    module: ModuleType, change: dict[str, Any], error: type[Exception], named: str
) -> None:
    setting = {"eps0": 0.4, "users": 10_000, "delta": 1e-6} | change
    for function in (module.valid, module.epsilon):
        with pytest.raises(error, match=f"^{named} must be ") as caught:
            function(**setting)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("module", BLANKETS)
@pytest.mark.parametrize("categories", [1, 2.5, "4"])
def test_bad_categories_are_named(module: ModuleType, categories: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^categories must be "):
        module.epsilon(eps0=1.0, users=1000, delta=1e-6, categories=categories)


# ---------------------------------------- the interface


def _plain(function: Any) -> Any:
    """A function or method without what is wrapped around it."""
    function = inspect.unwrap(function)
    return getattr(function, "__func__", function)


def test_every_bound_has_the_interface() -> None:
    bounds = [getattr(baselines, name) for name in baselines.__all__ if name != "BOUNDS"]
    assert len(bounds) == 14
    for module in bounds:
        assert getattr(baselines, module.name) is module
        assert isinstance(module.source, str)
        assert isinstance(module.sound, bool)
        assert module.__doc__
        if module is not baselines.alpha_grid:  # a construction
            assert callable(module.valid)
            assert callable(module.epsilon)
    assert [module.name for module in bounds if not module.sound] == ["specialised_clones"]
    # the same things, as objects
    for bound in baselines.BOUNDS:
        module = getattr(baselines, bound.name)
        assert (bound.source, bound.sound) == (module.source, module.sound)
        # the module's own functions say which call was meant
        for name in ("valid", "epsilon", "delta"):
            own, public = (getattr(owner, name, None) for owner in (bound, module))
            assert _plain(own) is _plain(public)
    assert {bound.name for bound in baselines.BOUNDS} == set(baselines.__all__) - {
        "BOUNDS",
        "alpha_grid",
    }


# ---------------------------------------- soundness

SETTINGS = {
    "eps0": st.floats(0.05, 5.0),
    "users": st.integers(2, 200_000),
    "delta": st.floats(-10.0, -2.5).map(lambda x: 10.0**x),
}


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(**SETTINGS)
def test_bounds_of_any_randomizer_are_not_below_the_clones(
    eps0: float, users: int, delta: float
) -> None:
    """They rest on a decomposition that the clones refine, so they cannot be below it."""
    certified = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users).epsilon(delta=delta)
    for module in ONE_ROUND:
        if module.valid(eps0=eps0, users=users, delta=delta) is None:
            assert module.epsilon(eps0=eps0, users=users, delta=delta) >= certified.lower


@settings(max_examples=10, deadline=None)
@given(**SETTINGS | {"users": st.integers(2, 300)}, categories=st.integers(2, 6))
def test_bounds_of_randomized_response_are_not_below_the_blanket(
    eps0: float, users: int, delta: float, categories: int
) -> None:
    krr = sa.RandomizedResponse(categories=categories, eps0=eps0)
    one = sa.ShuffleRound(krr, users=users, reduction="blanket")
    # at an epsilon that matters, and its delta
    epsilon = min(sa.epsilon(one, delta=delta, tolerance=1e-2).lower, 0.99 * eps0)
    certified = sa.delta(one, epsilon=epsilon, tolerance=1e-2)
    for module in BLANKETS:
        setting = {"eps0": eps0, "users": users, "categories": categories}
        assert module.delta(**setting, epsilon=epsilon) >= certified.lower
        if module.valid(**setting, delta=delta) is None:
            assert module.epsilon(**setting, delta=delta) >= epsilon
