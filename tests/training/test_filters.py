"""Rényi filters: against exact enumeration of moving protocols, and beside fixed ones."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.precision import MP, Real, exact
from scipy import integrate, stats

import shuffle_accountant as sa
from shuffle_accountant.baselines.moments import epsilon_of
from shuffle_accountant.training import BudgetExceeded, PersonalFilter, PrivacyFilter, plans
from shuffle_accountant.training.plans import log_moment_cost

DELTA = 1e-6


def rr(users: int, eps0: float, categories: int = 2) -> sa.ShuffleRound:
    return sa.ShuffleRound(sa.RandomizedResponse(categories=categories, eps0=eps0), users=users)


def law(round: sa.ShuffleRound, values: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """Exact law of the histogram, by multiplying out what every user may send."""
    k = round.randomizer.categories  # type: ignore[attr-defined]
    e = Fraction(math.exp(round.randomizer.eps0))
    keep, other = e / (e + k - 1), 1 / (e + k - 1)
    found: Counter[tuple[int, ...]] = Counter({(0,) * k: Fraction(1)})  # type: ignore[dict-item]
    for value in values:
        after: Counter[tuple[int, ...]] = Counter()
        for counts, chance in found.items():
            for message in range(k):
                new = list(counts)
                new[message] += 1
                after[tuple(new)] += chance * (keep if message == value else other)  # type: ignore[assignment]
        found = after
    return {counts: float(chance) for counts, chance in found.items()}


def neighbours(users: int, categories: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    pairs = []
    for others in itertools.combinations_with_replacement(range(categories), users - 1):
        for x0, x1 in itertools.permutations(range(categories), 2):
            pairs.append(((x0, *others), (x1, *others)))
    return pairs


def hockey_stick(p: float, q: float, epsilon: float) -> float:
    return max(p - math.exp(epsilon) * q, 0.0)


def worst_delta(
    budget: PrivacyFilter, first: sa.ShuffleRound, menu: list[sa.ShuffleRound]
) -> float:
    """Delta of the adversary who picks, after each output, the worst allowed second round."""
    budget.step(first)
    allowed = [one for one in menu if not budget.would_exceed(one)]
    worst = 0.0
    for one, other in neighbours(first.users, 2):
        p1, q1 = law(first, one), law(first, other)
        laws = [(law(second, one), law(second, other)) for second in allowed]
        delta = 0.0
        for seen, p in p1.items():
            stop = hockey_stick(p, q1[seen], budget.epsilon)
            moves = [
                sum(hockey_stick(p * p2[s], q1[seen] * q2[s], budget.epsilon) for s in p2)
                for p2, q2 in laws
            ]
            delta += max([stop, *moves])
        worst = max(worst, delta)
    return worst


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    users=st.integers(2, 4),
    eps0=st.floats(0.3, 4.0),
    menu=st.lists(st.floats(0.1, 5.0), min_size=1, max_size=4),
    epsilon=st.floats(0.5, 5.0),
    delta=st.sampled_from([0.3, 0.1, 0.02]),
    order=st.sampled_from([None, 1.5, 3.0, 10.0]),
)
def test_moving_protocols_stay_within_the_budget(
    users: int,
    eps0: float,
    menu: list[float],
    epsilon: float,
    delta: float,
    order: float | None,
) -> None:
    budget = PrivacyFilter(epsilon=epsilon, delta=delta, order=order)
    first = rr(users, eps0)
    if budget.would_exceed(first):
        with pytest.raises(BudgetExceeded, match=r"^round 1 would exceed the filter"):
            budget.step(first)
        assert budget.spent == 0.0
        return
    # 1e-12 for the doubles of this enumeration
    assert worst_delta(budget, first, [rr(users, one) for one in menu]) <= delta + 1e-12
    assert 0.0 <= budget.spent <= epsilon


def test_the_enumeration_sees_a_filter_that_lets_everything_pass() -> None:
    menu = [rr(2, 4.0), rr(2, 5.0)]
    strict = PrivacyFilter(epsilon=1.2, delta=0.02, order=8.0)
    assert all(strict.would_exceed(one) for one in menu)
    assert worst_delta(strict, rr(2, 0.3), menu) <= 0.02
    lax = PrivacyFilter(epsilon=1.2, delta=0.02, order=8.0)
    lax.would_exceed = lambda round, count=1: False  # type: ignore[method-assign]
    assert worst_delta(lax, rr(2, 0.3), menu) > 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    ("round", "epsilon"),
    [
        (sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=10_000), 1.0),
        (sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=100_000), 3.0),
        (rr(10_000, 2.0, 10), 1.0),
        (sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=1000, population=50_000), 0.5),
    ],
)
def test_equal_rounds_get_most_of_what_fixed_ones_do(
    round: sa.ShuffleRound, epsilon: float
) -> None:
    budget = PrivacyFilter(epsilon=epsilon, delta=DELTA, kind="renyi")
    fixed = sa.max_rounds(round=round, target_epsilon=epsilon, delta=DELTA)
    count = fixed
    while budget.would_exceed(round, count):
        count = math.floor(0.995 * count) if count > 400 else count - 1
    budget.step(round, count)
    print(f"\nfilter {count} rounds, fixed beforehand {fixed}: {count / fixed:.0%}")
    assert 0.6 * fixed <= count <= fixed
    assert 0.9 * epsilon < budget.spent <= epsilon


@pytest.mark.parametrize("order", [1.25, 2.0, 8.0])
def test_sampled_gaussian_steps_cost_what_quadrature_says(order: float) -> None:
    sigma, rate, t = 1.5, 0.05, order - 1.0
    round = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=sigma), rate=rate)

    def moment(mixture_first: bool) -> float:
        def density(x: float) -> float:
            q = stats.norm.pdf(x, 0.0, sigma)
            p = (1.0 - rate) * q + rate * stats.norm.pdf(x, 1.0, sigma)
            top, bottom = (p, q) if mixture_first else (q, p)
            return float(top * (top / bottom) ** t)

        return math.log(integrate.quad(density, -20.0, 40.0, epsabs=1e-13, limit=400)[0])

    exact = max(moment(True), moment(False))
    # the quadrature is good to 1e-12; the grid is good to a percent or so
    assert exact - 1e-11 <= log_moment_cost(round, t) <= exact * 1.02 + 1e-11


def test_without_sampling_it_is_the_closed_form_of_normal_noise() -> None:
    for sigma, t in [(0.5, 3.0), (2.0, 0.1), (10.0, 500.0)]:
        one = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=sigma), rate=1.0)
        exact = t * (t + 1.0) / (2.0 * sigma**2)
        assert exact * (1 - 1e-9) <= log_moment_cost(one, t) <= exact * (1 + 1e-9)


@pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_worse_direction_is_paid_for(order: float, swapped: bool) -> None:
    """Removing a record costs much more than adding it, or the other way round."""
    p, q = np.array([0.9, 0.1]), np.array([0.9999, 0.0001])
    t = order - 1.0
    exact = [math.log(math.fsum(a * (a / b) ** t)) for a, b in ((p, q), (q, p))]
    assert exact[0] > 3.0 * exact[1] > 0.0
    tables = [
        sa.LossTable(losses=np.log(p / q), probabilities=p),
        sa.LossTable(losses=np.log(q / p)[::-1], probabilities=q[::-1]),
    ]
    remove, add = reversed(tables) if swapped else tables
    round = sa.PldRound.from_tables(remove, add=add, adjacency=sa.Adjacency.ZERO_OUT)
    # two losses are on the grid's nodes or beside them: 2 % above the exact moment at most
    assert exact[0] * (1.0 - 1e-12) <= log_moment_cost(round, t) <= 1.02 * exact[0]

    budget = PrivacyFilter(epsilon=40.0, delta=DELTA, order=order)
    count = 0
    while not budget.would_exceed(round, count + 1):
        count += 1
    assert count > 2
    people = PersonalFilter(epsilon=40.0, delta=DELTA, people=1, order=order)
    for _ in range(count):
        assert people.step(round).tolist() == [0]
    assert people.step(round).tolist() == []
    assert epsilon_of(count * exact[0], t, DELTA) <= budget.epsilon
    assert epsilon_of(1.02 * (count + 1) * exact[0], t, DELTA) > budget.epsilon


def test_allocations_pay_for_the_worse_direction() -> None:
    """The null law over the mixture, with a moment of its own: 8.5 nats, not 3.7."""
    steps, loss, t = 10, 3.0, 3.0
    share = 1.0 / (1.0 + math.exp(loss))
    exact = []
    for mixture_first in (True, False):
        total = []
        for ones in range(steps + 1):
            # of the steps that released the larger message, `ones`
            null = (1.0 - share) ** (steps - ones) * share**ones * math.comb(steps, ones)
            ratio = (ones * math.exp(loss) + (steps - ones) * math.exp(-loss)) / steps
            top = null * ratio if mixture_first else null
            total.append(top * (ratio if mixture_first else 1.0 / ratio) ** t)
        exact.append(math.log(math.fsum(total)))
    one = sa.RandomAllocation(sa.PureMechanism(epsilon=loss), steps=steps)
    assert exact[1] > 2.0 * exact[0]
    assert exact[1] * (1.0 - 1e-12) <= log_moment_cost(one, t) <= 1.02 * exact[1]


def test_rounds_of_infinite_divergence_are_refused() -> None:
    budget = PrivacyFilter(epsilon=3.0, delta=DELTA, order=4.0)
    for round in (
        sa.ShuffleRound(
            sa.RandomizedResponse(categories=3, eps0=2.0), users=100, reduction="strong"
        ),
        sa.NoiseMessages(categories=3, dummies=sa.Poisson(mean=50.0)),
    ):
        with pytest.raises(ValueError, match=r"^a Rényi filter is valid for"):
            budget.step(round)
    assert len(budget) == 0


def test_arguments() -> None:
    with pytest.raises(ValueError, match=r"order must be a finite number > 1, got 1\.0"):
        PrivacyFilter(epsilon=1.0, delta=DELTA, order=1.0)
    with pytest.raises(ValueError, match="without planned"):
        PrivacyFilter(epsilon=1.0, delta=DELTA, order=2.0, planned=rr(10, 1.0))
    with pytest.raises(ValueError, match=r"delta must be a number in \(0, 1\)"):
        PrivacyFilter(epsilon=1.0, delta=0.0)
    infinite = sa.NoiseMessages(categories=3, dummies=sa.Poisson(mean=50.0))
    with pytest.raises(ValueError, match=r"^a Rényi filter is valid for"):
        PrivacyFilter(epsilon=1.0, delta=DELTA, kind="renyi", planned=infinite)
    budget = PrivacyFilter(epsilon=1.0, delta=DELTA, kind="renyi")
    assert (budget.order, budget.spent, len(budget), bool(budget)) == (None, 0.0, 0, True)
    with pytest.raises(TypeError, match="round must be a Round, got 3"):
        budget.step(3)  # type: ignore[arg-type]


COSTS = (0.1, 0.7, 1.0 / 3.0, 2.0**-70, 1e9 / 7.0)


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Iterator[float]:
    """Log moments of the rounds that are asked about, one after the other, over and over."""
    found = itertools.cycle(COSTS)
    monkeypatch.setattr(plans, "log_moment_cost", lru_cache(lambda round, t: next(found)))
    return itertools.cycle(COSTS)


def test_sums_of_log_moments_are_rounded_up(costs: Iterator[float]) -> None:
    budget = PrivacyFilter(epsilon=1e13, delta=DELTA, order=2.0)
    people = PersonalFilter(epsilon=1e13, delta=DELTA, people=1, order=2.0)
    truth = Fraction(0)
    for count in range(3, 103):
        whole = Fraction(budget._spent[0]) + count * Fraction(next(costs))
        budget.step(rr(count, 1.0), count)  # costs of one round are worked out once
        assert whole <= budget._spent[0] <= whole * (1 + Fraction(2, 10**12))
    for noise in range(1, 101):
        people.step(sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=noise), rate=1))
        truth += Fraction(next(costs))
        assert truth <= people._sums[0][0] <= truth * (1 + Fraction(1, 10**9))


def converted(log_moment: float, t: float) -> Real:
    """Epsilon at DELTA, in fifty digits."""
    order = 1 + exact(t)
    factor = order * MP.log(1 - 1 / order) - MP.log(exact(t))
    return (exact(log_moment) - MP.log(exact(DELTA)) + factor) / exact(t)


def test_limits_are_rounded_down_and_epsilons_up() -> None:
    for epsilon in (0.3, 1.0, 7.0, 40.0):
        for t in np.geomspace(0.7, 4e4, 40).tolist():
            budget = plans.RenyiPlan(epsilon, DELTA, t)
            limit = budget.limits[0]
            assert converted(limit, t) <= epsilon
            assert converted(limit + 1e-10 * (1.0 + abs(limit)), t) > epsilon * (1.0 - 1e-9)
            for part in (0.1, 0.6, 0.9):
                truth = converted(part * limit, t)
                if limit > 0.0 and truth > 0:
                    spent = budget.spent(part * limit, 0.0)
                    assert truth <= spent <= truth + 1e-11 * (1 + truth)


def test_what_does_not_fit_is_refused_and_not_recorded(costs: Iterator[float]) -> None:
    budget = PrivacyFilter(epsilon=30.0, delta=DELTA, order=2.0)
    budget.step(rr(10, 1.0))
    assert budget.would_exceed(rr(10, 1.0), 1000)
    with pytest.raises(BudgetExceeded, match=r"^round 1001 would exceed the filter of eps"):
        budget.step(rr(10, 1.0), 1000)
    assert (len(budget), budget._spent[0]) == (1, pytest.approx(0.1))
    with pytest.raises(ValueError, match="as those before"):
        budget.step(sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=2.0), rate=0.1))


@pytest.mark.slow
def test_the_order_is_fixed_by_the_planned_round() -> None:
    planned = rr(10_000, 2.0)
    budget = PrivacyFilter(epsilon=1.0, delta=DELTA, kind="renyi", planned=planned)
    order = budget.order
    budget.step(rr(500, 0.5))
    assert (
        order
        == budget.order
        == PrivacyFilter(epsilon=1.0, delta=DELTA, kind="renyi", planned=planned).order
    )
    cost = log_moment_cost(rr(500, 0.5), order - 1.0)
    assert budget.spent == pytest.approx(epsilon_of(cost, order - 1.0, DELTA), rel=1e-9)


def test_people_stop_one_by_one() -> None:
    step = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=8.0), rate=1.0)
    people = PersonalFilter(epsilon=3.0, delta=DELTA, people=4, order=8.0)
    alone = PrivacyFilter(epsilon=3.0, delta=DELTA, order=8.0)
    fits = 0
    while not alone.would_exceed(step):
        alone.step(step)
        fits += 1
    assert fits > 2
    for number in range(fits + 2):
        taking_part = people.step(step, people=[0, 1, 3] if number == 0 else [0, 1])
        expected = ([0, 1] if number < fits else []) + ([3] if number == 0 else [])
        assert taking_part.tolist() == expected
    assert people.step(step).tolist() == [2, 3]
    assert np.all(people.spent <= 3.0)
    assert people.spent[0] == pytest.approx(alone.spent, rel=1e-9)
    with pytest.raises(ValueError, match="adjacency ZERO_OUT"):
        people.step(rr(10, 1.0))
    with pytest.raises(ValueError, match="people must be an integer >= 0 and <= 3, got 4"):
        people.step(step, people=[4])
