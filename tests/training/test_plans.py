"""Plans of filters: exact dynamic programming over all adaptive analysts, references, relations."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import shuffle_accountant as sa
from shuffle_accountant.training import (
    BudgetExceeded,
    Odometer,
    PersonalFilter,
    PrivacyFilter,
    plans,
)
from shuffle_accountant.training.plans import (
    GaussianPlan,
    Plan,
    UnitPlan,
    allowed,
    gaussian_cost,
    unit_cost,
    worst_gap,
)

REFS = Path(__file__).resolve().parent.parent / "refs" / "adaptive"


def general(eps0: float, users: int) -> sa.ShuffleRound:
    return sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=users)


def alone(eps0: float) -> sa.ShuffleRound:
    """One user's randomized response: losses eps0 and -eps0."""
    return sa.ShuffleRound(sa.RandomizedResponse(categories=2, eps0=eps0), users=1)


SAMPLED = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=1.0), rate=0.01)
SIXTEEN = sa.ShuffleRound(sa.RandomizedResponse(categories=16, eps0=3.0), users=10**5)


def entries(name: str) -> list[dict[str, Any]]:
    return json.loads((REFS / f"{name}.json").read_text(encoding="utf-8"))


def composed(counts: tuple[int, ...], sizes: tuple[int, ...], epsilon: float) -> float:
    """Delta of some numbers of randomized responses with losses of whole tenths, exactly."""
    law = np.ones(1)
    for count, size in zip(counts, sizes, strict=True):
        up = 1.0 / (1.0 + math.exp(-0.1 * size))
        one = np.zeros(2 * size * count + 1)
        one[:: 2 * size] = binom.pmf(np.arange(count + 1), count, up)
        law = np.convolve(law, one) if count else law
    reach = law.size // 2
    losses = 0.1 * np.arange(-reach, reach + 1)
    return float(law @ np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0))


def worst_analyst(
    sizes: tuple[int, ...],
    epsilon: float,
    may: Callable[[tuple[int, ...]], bool],
    most: tuple[int, ...],
) -> float:
    """The largest delta at epsilon that any adaptive choice within a rule reaches.

    ``V(counts, loss) = max(stop, max over allowed rounds of E V)`` on the lattice of losses.
    """
    reach = sum(size * count for size, count in zip(sizes, most, strict=True))
    losses = 0.1 * np.arange(-reach, reach + 1)
    stop = np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0)
    values: dict[tuple[int, ...], np.ndarray] = {}
    for counts in itertools.product(*(range(count, -1, -1) for count in most)):
        if not may(counts):
            continue
        best = stop.copy()
        for place, size in enumerate(sizes):
            after = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
            if after not in values:
                continue
            up = 1.0 / (1.0 + math.exp(-0.1 * size))
            rise = np.append(values[after][size:], np.full(size, stop[-1]))
            fall = np.append(np.full(size, 0.0), values[after][:-size])
            best = np.maximum(best, up * rise + (1.0 - up) * fall)
        values[counts] = best
    return float(values[(0,) * len(sizes)][reach])


def reaches(plan: Plan, rounds: list[sa.ShuffleRound]) -> tuple[int, ...]:
    return tuple(min(allowed(plan, one), 400) for one in rounds)


def test_the_composed_profile_is_no_filter() -> None:
    """Stopping when the fixed composition reaches delta allows nearly twice that."""
    sizes, epsilon, delta = (1, 5), 1.5, 1e-3

    def may(counts: tuple[int, ...]) -> bool:
        return composed(counts, sizes, epsilon) <= delta

    most = tuple(
        next(n for n in range(1000) if not may((n, 0) if place == 0 else (0, n)))
        for place in range(2)
    )
    found = worst_analyst(sizes, epsilon, may, most)
    assert found == pytest.approx(1.913e-3, rel=1e-3)


@pytest.mark.parametrize("entry", entries("adaptive_menu"), ids=lambda entry: entry["id"])
def test_references_of_menus(entry: dict[str, Any]) -> None:
    texts = entry["menu"].replace("one type", "").replace(" and ", ", ").split(",")
    sizes = tuple(round(10.0 * float(text.split("RR")[1])) for text in texts)

    def may(counts: tuple[int, ...]) -> bool:
        return composed(counts, sizes, entry["epsilon"]) <= entry["delta"]

    def single(place: int, n: int) -> tuple[int, ...]:
        return tuple(n if other == place else 0 for other in range(len(sizes)))

    most = tuple(
        next(n for n in range(1000) if not may(single(place, n))) for place in range(len(sizes))
    )
    found = worst_analyst(sizes, entry["epsilon"], may, most)
    assert found == pytest.approx(entry["worst_adaptive"], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("kind", ["gaussian", "unit"])
@pytest.mark.parametrize(
    ("sizes", "epsilon", "delta"),
    [((1, 5), 1.5, 1e-3), ((1, 2, 4), 1.0, 1e-3), ((1, 3), 1.0, 1e-4), ((2, 7), 2.0, 1e-2)],
)
def test_no_analyst_exceeds_a_plan(
    kind: str, sizes: tuple[int, ...], epsilon: float, delta: float
) -> None:
    """Exact dynamic programming over all adaptive choices that the plan's limits allow."""
    rounds = [alone(0.1 * size) for size in sizes]
    plan: Plan = (
        GaussianPlan.of(epsilon, delta, rounds[0])
        if kind == "gaussian"
        else UnitPlan(epsilon, delta, rounds[0])
    )
    costs = [plan.cost(one) for one in rounds]
    assert math.isfinite(costs[0][0])
    used = [i for i, cost in enumerate(costs) if math.isfinite(cost[0])]

    def may(counts: tuple[int, ...]) -> bool:
        sums = [
            sum(n * costs[i][part] for n, i in zip(counts, used, strict=True)) for part in (0, 1)
        ]
        return sums[0] <= plan.limits[0] and sums[1] <= plan.limits[1]

    most = tuple(min(reaches(plan, [rounds[i]])[0], 200) for i in used)
    found = worst_analyst(tuple(sizes[i] for i in used), epsilon, may, most)
    assert found <= delta


@pytest.mark.parametrize(
    ("one", "epsilon", "delta", "fixed", "gaussian"),
    [
        (general(2.0, 10**5), 1.0, 1e-8, 394, 390),
        (SIXTEEN, 1.0, 1e-8, 185, 184),
        (SAMPLED, 2.0, 1e-6, 874, 10),
    ],
    ids=["general", "16-RR", "Poisson"],
)
def test_what_plans_allow(
    one: Any, epsilon: float, delta: float, fixed: int, gaussian: int
) -> None:
    """A fixed plan's rounds, which a filter of equal rounds loses nearly nothing of."""
    assert allowed(GaussianPlan.of(epsilon, delta, one), one) >= gaussian
    free = PrivacyFilter(epsilon=epsilon, delta=delta)
    assert free.remaining(one) == fixed
    assert free.kind == "unit"
    free.step(one, fixed - 3)
    assert free.spent < epsilon
    assert free.remaining(one) == 3
    assert free.allows(one, 3)
    assert not free.allows(one, 4)
    with pytest.raises(BudgetExceeded):
        free.step(one, 4)


def test_other_rounds_in_units() -> None:
    """References of what a round costs in smaller ones."""
    unit = general(2.0, 10**6)
    plan = UnitPlan(1.0, 1e-8, unit)
    assert plan.limits[0] == 3949.5
    assert plan.cost(unit) == (1.0, 0.0)
    assert plan.cost(general(2.0, 10**5))[0] == 11.0
    assert plan.cost(general(1.0, 10**4))[0] in (17.0, 18.0)
    assert unit_cost(general(4.0, 10**3), unit, 100, 1e-12) is None
    free = PrivacyFilter(epsilon=1.0, delta=1e-8, kind="unit", unit=unit)
    assert free.remaining(general(2.0, 10**5)) == 359


@pytest.mark.parametrize("one", [general(2.0, 1000), SAMPLED, alone(0.5)])
def test_gaussian_costs_by_many_points(one: Any) -> None:
    """The profile is below the Gaussian one plus the additive delta, at points in between."""
    mu, slack = gaussian_cost(one, 1e-7)
    assert slack <= 1e-7
    for epsilon in np.linspace(0.0, 3.0, 61) + 0.013:
        bound = norm.cdf(0.5 * mu - epsilon / mu) - math.exp(epsilon) * norm.cdf(
            -0.5 * mu - epsilon / mu
        )
        assert one.delta(epsilon=float(epsilon)).lower <= bound + slack + 1e-15


def test_a_gap_between_points_is_seen() -> None:
    """A chord of the profile above two tangents of the Gaussian one."""
    mu, epsilons = 1.0, np.asarray([0.0, 1.5, 3.0, 6.0])
    exact = norm.cdf(0.5 - epsilons) - np.exp(epsilons) * norm.cdf(-0.5 - epsilons)
    gap = worst_gap(epsilons, exact, mu)
    between = np.linspace(0.0, 1.5, 1001)
    alpha = np.exp(between)
    chord = np.interp(alpha, np.exp(epsilons), exact)
    real = chord - (norm.cdf(0.5 - between) - alpha * norm.cdf(-0.5 - between))
    assert gap >= float(real.max()) - 1e-12
    assert gap <= 0.5


def test_personal_filters_of_every_kind() -> None:
    step = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=4.0), rate=0.1)
    for kind in ("gaussian", "unit"):
        people = PersonalFilter(epsilon=0.5, delta=1e-6, people=3, kind=kind, planned=step)
        single = PrivacyFilter(epsilon=0.5, delta=1e-6, kind=kind, planned=step)
        fits = single.remaining(step)
        for _ in range(fits):
            assert people.step(step, people=[0, 2]).tolist() == [0, 2]
        assert people.step(step).tolist() == [1]
        assert people.spent[1] < people.spent[0] <= 0.5


def test_odometer() -> None:
    """Valid at all times, so above the fixed composition; never falls; a filter costs less."""
    one = general(2.0, 10**5)
    meter = Odometer(delta=1e-8)
    assert meter.reading.upper == 0.0
    last = 0.0
    for count in (1, 9, 90, 300):
        reading = meter.step(one, count)
        assert reading.upper >= last
        last = reading.upper
        assert reading.upper > sa.epsilon(one, delta=1e-8, rounds=len(meter)).upper
    assert last < 1.5 * sa.epsilon(one, delta=1e-8, rounds=400).upper
    assert reading.conditions[1:] == one.conditions
    with pytest.raises(ValueError, match="adjacency"):
        meter.step(SAMPLED)


def test_odometer_is_valid_for_stopping_rules() -> None:
    """P(E) <= E_Q[e^reading 1_E] + delta, for the worst event of many adaptive choices, exactly.

    The analyst stops when the loss is as large as it gets; events are compared path by path.
    """
    small, delta = alone(0.3), 0.05
    meter = Odometer(delta=delta)
    readings = [meter.step(small).upper for _ in range(60)]
    up = 1.0 / (1.0 + math.exp(-0.3))
    # value of (P - e^reading Q) on the best event, by backward induction over steps and losses
    value = np.zeros(121)
    for step in range(59, -1, -1):
        losses = 0.3 * np.arange(-60, 61)
        stop = np.maximum(-np.expm1(np.minimum(readings[step] - losses, 0.0)), 0.0)
        value = np.maximum(stop, value)
        rise, fall = np.append(value[1:], value[-1]), np.append(0.0, value[:-1])
        value = up * rise + (1.0 - up) * fall
    assert value[60] <= delta


def test_a_million_steps_of_an_odometer() -> None:
    """O(1) each: a step does no more than add; counted in calls, not in seconds."""
    one, meter = general(2.0, 10**5), Odometer(delta=1e-8)
    meter.step(one)
    start = time.process_time()
    for _ in range(20_000):
        meter.step(one)
    spent = time.process_time() - start
    assert len(meter) == 20_001
    # a fiftieth of the 10 s that a million may take, of processor time, with room for slow machines
    assert spent < 5.0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kind": "other"}, "kind"),
        ({"kind": "renyi", "unit": alone(0.1)}, "unit"),
        ({"kind": "gaussian", "order": 3.0}, "order"),
        ({"order": 3.0, "unit": alone(0.1)}, "order"),
    ],
)
def test_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        PrivacyFilter(epsilon=1.0, delta=1e-6, **options)


def test_limits_of_nothing_and_infinite_costs() -> None:
    """No division by a budget of 0, and no undefined sum where an infinite cost is paid 0 times."""
    tiny = PrivacyFilter(epsilon=0.0, delta=1e-13, kind="gaussian")
    assert tiny.remaining(alone(0.5)) == 0
    open_end = sa.NoiseMessages(categories=3, dummies=sa.Poisson(mean=2.0))
    meter = Odometer(delta=1e-8)
    assert meter.step(open_end, 0).upper == 0.0
    assert meter.step(open_end).upper == math.inf
    assert meter.step(open_end, 0).upper == math.inf


def test_a_tail_is_no_unit_for_others() -> None:
    response = sa.RandomizedResponse(categories=3, eps0=0.5)
    tail = sa.ShuffleRound(response, users=1000, reduction="strong", variant="tail")
    plan = UnitPlan(1.0, 1e-6, tail)
    assert plan.cost(tail) == (1.0, 0.0)
    with pytest.raises(ValueError, match="variant='tail'"):
        plan.cost(general(0.5, 2000))


def test_a_stored_plan_is_the_same_to_the_last_bit() -> None:
    """Sums of one order are no sums of another: 1 + t would not give t back."""
    stored: list[Plan] = [plans.RenyiPlan(3.0, 1e-6, t) for t in plans._ORDERS.tolist()]
    stored += [plans.GaussianPlan(3.0, 1e-6, share) for share in plans._SHARES]
    for plan in stored:
        again = plans.read_plan(json.loads(json.dumps(plan.to_dict())), 3.0, 1e-6)
        assert again.limits == plan.limits
        assert again.to_dict() == plan.to_dict()
