"""Terms of plans and filters that whole answers do not show: one at a time, beside stand-ins."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.special
from oracles.precision import MP, Real, exact

import shuffle_accountant as sa
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.training import filters, plans
from shuffle_accountant.training.filters import Odometer
from shuffle_accountant.training.plans import GaussianPlan, Plan, UnitPlan, worst_gap

Profile = Callable[[float], float]

STEP = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=1.0), rate=0.25)
OTHER = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=2.0), rate=0.25)


def gaussian(mu: float, epsilon: float) -> Real:
    """The profile of N(mu, 1) against N(0, 1) in fifty digits."""
    place = exact(epsilon) / exact(mu)
    half = exact(mu) / 2
    return MP.ncdf(half - place) - MP.exp(exact(epsilon)) * MP.ncdf(-half - place)


# ----------------------------------------------------------------------------------- Gaussian plans


@pytest.mark.parametrize("adverse", [-1.0, 1.0])
def test_mu_and_epsilon_are_certified_if_profiles_err(adverse: float) -> None:
    with stress(roundoff=2.0**-30, adverse=adverse):
        for epsilon, delta in ((0.3, 1e-3), (2.0, 1e-8)):
            assert gaussian(plans.largest_mu(epsilon, delta), epsilon) <= delta
        for mu, delta in ((0.3, 1e-3), (2.0, 1e-8)):
            assert gaussian(mu, plans.epsilon_of_mu(mu, delta)) <= delta


def true_gap(alpha: list[Any], deltas: list[Any], value: list[Any], tail: list[Any]) -> Any:
    """The largest excess of a chord over two tangents, over all steps, of numbers as they are."""
    worst = max(d - v for d, v in zip(deltas, value, strict=True))
    for i in range(len(alpha) - 1):
        run = alpha[i + 1] - alpha[i]
        meet, bend = value[i + 1] + tail[i + 1] * run - value[i], (tail[i + 1] - tail[i]) * run
        share = min(max(meet / bend, 0), 1) if bend < 0 else Fraction(1, 2)
        chord = deltas[i] + share * (deltas[i + 1] - deltas[i])
        left = value[i] - tail[i] * share * run
        right = value[i + 1] + tail[i + 1] * (1 - share) * run
        worst = max(worst, chord - max(left, right))
    return worst


@pytest.mark.parametrize("slack", [2.0**-12, 2.0**-6, None])
@pytest.mark.parametrize("signs", list(itertools.product((-1.0, 1.0), repeat=4)), ids=str)
def test_gaps_are_seen_if_distribution_functions_err(
    signs: tuple[float, ...], slack: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both logarithms by nearly all that is allowed for them, at two points, all ways.

    Or by as much as a hundred roundings of their squared scores, which is allowed as it is.
    """
    real = scipy.special.log_ndtr
    if slack is not None:
        monkeypatch.setattr(plans, "_SLACK", slack)
    off = 2.0**-46 if slack is None else 0.95 * slack
    ways = itertools.cycle((np.array(signs[:2]), np.array(signs[2:])))
    for mu, last in itertools.product((0.3, 1.0, 3.0), (0.25, 2.0, 4.0)):
        epsilons = np.array([0.0, last * mu])
        size = 1.0 + (0.5 * mu + epsilons / mu) ** 2
        monkeypatch.setattr(
            scipy.special,
            "log_ndtr",
            lambda score, size=size: real(score) + off * next(ways) * size,
        )
        value = [gaussian(mu, epsilon) for epsilon in epsilons.tolist()]
        alpha = [MP.exp(exact(epsilon)) for epsilon in epsilons.tolist()]
        tail = [MP.ncdf(-exact(mu) / 2 - exact(e) / exact(mu)) for e in epsilons.tolist()]
        for share, end in itertools.product((1.0, 0.9, 0.5), (0.0, 1.0, 0.9)):
            deltas = np.array([float(value[0]) * share, float(value[1]) * end])
            truth = [exact(d) for d in deltas.tolist()]
            truth = max(true_gap(alpha, truth, value, tail), truth[-1])
            found = worst_gap(epsilons, deltas, mu)
            # twice what is allowed for two terms, of which the larger one is alpha at most
            allowed = 4.0 * plans._SLACK * size[-1] * float(alpha[-1])
            assert truth <= found <= truth + allowed


def test_lines_are_rounded_outwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """With distribution functions that are what they are, in fractions."""
    monkeypatch.setattr(plans, "_SLACK", 0.0)
    for i in range(200):
        first = np.log([0.5 + 0.001 * i, 0.3 + 0.0007 * i, 1e-9])
        tail = np.log([0.25 + 0.0003 * i, 0.1 + 0.00013 * i, 1e-11])
        epsilons = np.array([0.0, 0.3 + 0.003 * i, 2.0])
        answers = iter((first, tail))
        monkeypatch.setattr(scipy.special, "log_ndtr", lambda score, a=answers: next(a))
        alpha, tails = ([Fraction(x) for x in np.exp(row)] for row in (epsilons, tail))
        value = np.maximum(np.exp(first) - np.exp(epsilons) * np.exp(tail), 0.0)
        deltas = value * [0.99, 0.99, 0.0]
        truth = true_gap(alpha, list(map(Fraction, deltas)), list(map(Fraction, value)), tails)
        assert truth > 0.01
        assert truth <= worst_gap(epsilons, deltas, 1.0) <= truth + Fraction(1, 10**12)


def test_beyond_the_last_point_profiles_may_be_as_large_as_there() -> None:
    assert worst_gap(np.array([0.0, 1.0]), np.array([0.1, 0.0625]), 30.0) >= 0.0625


def test_mu_is_no_larger_than_it_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The total variation distance, less what is left out, decides: nothing is beyond it."""
    mu, slack = 0.5, 2.0**-6
    deltas = np.array([float(gaussian(mu, 0.0)) + slack, 0.0])
    monkeypatch.setattr(plans, "_points", lambda *_: (np.array([0.0, 1e-3]), deltas))
    found, left = plans.gaussian_cost.__wrapped__(STEP, slack)
    # bisection is as good as its accuracy
    assert mu * (1.0 - 1e-9) <= found <= mu * (1.0 + 2.0 * plans._ACCURACY)
    assert left <= slack


def test_limits_of_gaussian_plans_are_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squared mu and the two parts of delta, in fractions; a sum is raised by `ROUNDING`."""
    asked: list[float] = []
    monkeypatch.setattr(plans, "largest_mu", lambda epsilon, delta: asked.append(delta) or 0.7)
    down = 1 - Fraction(plans.ROUNDING) / 2
    for i in range(50):
        delta = 1e-6 * (1.0 + i / 7.0)
        for share in plans._SHARES:
            limits = GaussianPlan(1.0, delta, share).limits
            assert Fraction(limits[0]) <= Fraction(0.7) ** 2 * down
            assert Fraction(limits[1]) <= Fraction(delta) * Fraction(share) * down
            assert Fraction(limits[1]) + Fraction(asked[-1]) <= Fraction(delta)


def gaussian_plan(most: float, left: float) -> GaussianPlan:
    """A plan with these limits."""
    plan = GaussianPlan(1.0, 1e-6, 0.3)
    plan.limits = most, left
    return plan


def test_costs_in_gaussian_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is in balance with mu; for an infinite one ten times more is tried."""
    plan, slacks = gaussian_plan(0.9, 3e-7), []

    def cost(one: Any, slack: float) -> tuple[float, float]:
        slacks.append(slack)
        return (0.07, slack) if slack > 1e-9 else (math.inf, 0.0)

    monkeypatch.setattr(plans, "gaussian_cost", cost)
    amount, out = plan.cost(STEP)
    squared = Fraction(0.07) ** 2
    assert squared * (1 + Fraction(plans.ROUNDING) / 2) <= amount
    assert amount <= squared * (1 + 2 * Fraction(plans.ROUNDING))
    assert slacks[0] == pytest.approx(3e-10, rel=1e-12)
    assert slacks[1] == pytest.approx(3e-9, rel=1e-12)
    # the share of the squared mu in its limit, of what is left
    assert slacks[2:] == [pytest.approx(3e-7 * 0.0049 / 0.9, rel=1e-9)] * 2
    assert out == slacks[2]


def test_what_is_spent_of_gaussian_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, float]] = []
    monkeypatch.setattr(plans, "epsilon_of_mu", lambda *given: asked.append(given) or 0.25)
    plan = gaussian_plan(0.9, 3e-7)
    for amount in (0.1, 0.3, 0.77):
        assert plan.spent(amount, 2.0**-23) == 0.25
        mu, delta = asked[-1]
        assert Fraction(mu) ** 2 >= Fraction(amount) * (1 + Fraction(plans.ROUNDING))
        assert delta == pytest.approx(1e-6 - 2.0**-23, rel=1e-14)


class Fixed(Plan):
    """A plan of costs that are given."""

    kind, field, limits = "fixed", "costs", (0.3, 6.0)

    def cost(self, one: Any) -> tuple[float, float]:
        return self.fixed

    def spent(self, amount: float, slack: float) -> float:
        return 0.0


@pytest.mark.parametrize("costs", [(0.1, 0.0), (0.0, 2.0), (0.1, 2.0)])
def test_no_more_rounds_are_allowed_than_filters_record(costs: tuple[float, float]) -> None:
    """Three would fit exactly; their sum is raised."""
    plan = Fixed(1.0, 1e-6, costs)
    budget = filters.PrivacyFilter(epsilon=1.0, delta=1e-6)
    budget._budget.plan = plan
    assert plans.allowed(plan, STEP) == budget.remaining(STEP) == 2


# --------------------------------------------------------------------------------------- unit plans


def test_orders_are_what_they_are_called() -> None:
    """A record is removed, or added: the mean of a normal likelihood ratio and 1."""
    rate, epsilon = exact(0.25), 0.2
    alpha = MP.exp(exact(epsilon))
    removed = rate * gaussian(1.0, MP.log1p((alpha - 1) / rate))
    strike = (1 - alpha * (1 - rate)) / (alpha * rate)
    added = alpha * rate * (strike - 1 + gaussian(1.0, MP.log(strike)))
    for swapped, truth in ((False, removed), (True, added)):
        low, high = plans._ends(STEP, 1, swapped, epsilon)
        assert low <= truth <= high <= 1.01 * low


def test_units_and_what_they_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile above the unit's by nearly all that may be left out, and no more."""
    slack, mu = 2.0**-6, 0.5

    def ends(one: Any, count: int, swapped: bool, epsilon: float) -> tuple[float, float]:
        found = float(gaussian(mu * math.sqrt(count), epsilon))
        if one is STEP:  # convex in alpha
            found += 0.9 * slack * max(1.0 - 0.1 * math.expm1(epsilon), 0.0)
        return found, found

    monkeypatch.setattr(plans, "_ends", ends)
    epsilons = np.linspace(0.0, 2.5, 100)
    for swapped in (False, True):
        assert plans._covered(STEP, OTHER, 1, slack, epsilons, swapped)
        assert not plans._covered(STEP, OTHER, 1, 0.8 * slack, epsilons, swapped)
    assert plans.unit_cost.__wrapped__(STEP, OTHER, 10, slack) == 1


@pytest.mark.parametrize("used", [0.75e-6, 1e-6, 1.25e-6])
def test_limits_of_unit_plans(used: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What units leave of delta, rounded down, is shared among them."""
    asked: list[Any] = []

    def certified(parts: Any, tolerance: float, **named: float) -> list[Any]:
        asked.append((parts, named))
        return [SimpleNamespace(upper=0.25 if "delta" in named else used)]

    monkeypatch.setattr(plans, "certified_at", certified)
    monkeypatch.setattr(plans, "max_rounds", lambda *_, **__: 7)
    plan = UnitPlan(1.0, 1e-6, STEP)
    left = Fraction(1e-6) - Fraction(used)
    if left < 0:  # not even one
        assert plan.limits == (0.5, 0.0)
        return
    assert plan.limits[0] == 7.5
    assert plan.limits[1] <= left * (1 - Fraction(plans.ROUNDING) / 2)
    assert plan.limits[1] == pytest.approx(float(left), rel=1e-9)
    monkeypatch.setattr(plans, "unit_cost", lambda one, unit, most, slack: 3)
    assert plan.cost(OTHER) == ((3.0, plan.limits[1] / 7.5) if left > 0 else (math.inf, 0.0))
    assert plan.spent(3.0, 2.0**-24) == 0.25
    assert asked[-1] == ([(STEP, 3)], {"delta": 1e-6 - 2.0**-24})


# ------------------------------------------------------------------------------------------ filters


def test_sums_of_what_is_left_out_are_limited_and_rounded_up() -> None:
    budget = filters.PrivacyFilter(epsilon=1.0, delta=1e-6)
    budget._budget.plan = Fixed(1.0, 1e-6, (0.0, 0.7))
    truth = Fraction(0)
    for count in (1, 2, 5):
        budget.step(STEP, count)
        truth += count * Fraction(0.7)
        assert truth * (1 + Fraction(plans.ROUNDING) / 2) <= budget._spent[1]
        assert budget._spent[1] <= truth * (1 + 4 * Fraction(plans.ROUNDING))
    assert not budget.allows(STEP)
    with pytest.raises(filters.BudgetExceeded):
        budget.step(STEP)


def test_readings_of_an_odometer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits from above, their share of delta from below; amounts and what is left out add up."""
    asked: list[tuple[float, float]] = []
    monkeypatch.setattr(filters, "epsilon_of_mu", lambda *given: asked.append(given) or 0.25)
    delta, mu = 1e-6, 0.3
    most = filters._SHARE * delta / filters._LIMITS
    monkeypatch.setattr(filters, "gaussian_cost", lambda *_: (mu, 0.3 * most))
    meter = Odometer(delta=delta)
    up = 1 + Fraction(plans.ROUNDING) / 2
    for steps in (1, 2, 3):
        assert meter.step(STEP).upper == 0.25
        asked_mu, left = asked[-1]
        limit = Fraction(min(one for one in meter._limits if one >= meter._amount))
        assert steps > 1 or limit == Fraction(meter._limits[0])  # which one round is within
        assert Fraction(asked_mu) ** 2 >= limit * up**2
        assert Fraction(meter._amount) >= steps * Fraction(mu) ** 2 * up
        assert Fraction(meter._slack) >= steps * Fraction(0.3 * most)
        assert Fraction(left) * up <= Fraction(delta * (1.0 - filters._SHARE)) / filters._LIMITS
    assert len(asked) > 1
    # three tenths of the share that is kept for additive deltas, four times
    assert meter.step(STEP).upper == math.inf


@pytest.mark.parametrize("kind", ["renyi", "gaussian"])
def test_stored_plans_have_their_fields_and_no_others(kind: str) -> None:
    """One that lacks its plan would be planned anew."""
    made = {"renyi": plans.RenyiPlan, "gaussian": GaussianPlan}[kind](1.0, 1e-6, 0.5)
    stored = made.to_dict()
    assert plans.read_plan(stored, 1.0, 1e-6).limits == made.limits
    for wrong in ({"kind": kind}, {**stored, "more": 1}):
        with pytest.raises(ValueError, match=f"plan must have fields kind and {made.field}, got"):
            plans.read_plan(wrong, 1.0, 1e-6)
    config = filters.PrivacyFilter(epsilon=1.0, delta=1e-6, order=1.5)._budget.to_dict()
    assert filters.FilterBudget.from_dict(config).to_dict() == config
    without = {field: value for field, value in config.items() if field != "plan"}
    for wrong in (without, {**config, "more": 1}):
        with pytest.raises(ValueError, match="configuration must have fields"):
            filters.FilterBudget.from_dict(wrong)
