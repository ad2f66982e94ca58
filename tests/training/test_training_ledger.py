"""The ledger, the private mean, the samplers and the NumPy demonstration; no PyTorch here."""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import shuffle_accountant as sa
from shuffle_accountant.registry import sealed
from shuffle_accountant.training import (
    BudgetExceeded,
    DuchiL2,
    DuchiLInf,
    PrivUnit,
    Receipt,
    SampledCoordinates,
    ShuffleLedger,
    clip,
    private_mean,
)
from shuffle_accountant.training.budget import BudgetCache, CohortBudget
from shuffle_accountant.training.sampling import UserBatches

RARE = 1e-6  # significance of every statistical test; seeds are fixed
DELTA = 1e-5
OPEN_UNIT = r"delta must be a number in \(0, 1\)"
RANDOMIZER = PrivUnit(dimension=30, eps0=2.0)


def ledger(**options: Any) -> ShuffleLedger:
    return ShuffleLedger(RANDOMIZER, **{"users": 200, "population": 2000, **options})


def after(steps: int) -> sa.Bracket:
    """What the library says of as many rounds, by the randomizer's eps0 alone."""
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=200, population=2000)
    return sa.epsilon(one, delta=DELTA, rounds=steps)


def spend(spent: ShuffleLedger) -> None:
    while True:
        spent.step()


# The ledger


def test_it_counts_and_answers_as_the_library_does() -> None:
    spent = ledger()
    assert len(spent) == 0
    assert spent
    assert spent.epsilon(delta=DELTA).ends() == ("0.0", "0.0") or spent.epsilon(delta=DELTA) == 0.0
    for steps in range(1, 6):
        spent.step()
        assert len(spent) == spent.num_releases == steps
        assert spent.epsilon(delta=DELTA) == after(steps)
    spent.step(100)
    assert spent.epsilon(delta=DELTA) == after(105)
    one = sa.ShuffleRound(RANDOMIZER, users=200, population=2000)
    assert spent.round == one
    assert spent.delta(epsilon=0.5) == sa.delta(one, epsilon=0.5, rounds=105)


@pytest.mark.parametrize("limit", [0.0, 0.05, 0.31, 0.7, 1.5])
def test_would_exceed_is_what_brackets_say(limit: float) -> None:
    spent = ledger()
    cache = BudgetCache(spent.round, limit, DELTA, 1e-3)
    for steps in range(12):
        assert spent.would_exceed(epsilon=limit, delta=DELTA) == (after(steps + 1) > limit)
        # whatever was asked before
        assert cache.exceeded_by((7 * steps) % 12 + 1) == (after((7 * steps) % 12 + 1) > limit)
        spent.step()
    assert not spent.would_exceed(epsilon=1e9, delta=DELTA, count=10)
    assert spent.would_exceed(epsilon=limit, delta=DELTA, count=10**6)


def test_a_budget_is_never_exceeded_and_never_wasted() -> None:
    spent = ledger(target_delta=DELTA, max_epsilon=0.5)
    refused = r"step \d+ would exceed epsilon = 0.5 at delta = 1e-05"
    with pytest.raises(BudgetExceeded, match=refused) as error:
        spend(spent)
    steps = len(spent)
    assert after(steps) <= 0.5 < after(steps + 1)
    with pytest.raises(BudgetExceeded):
        spent.step(2)
    assert "\n" not in str(error.value)
    assert len(spent) == steps
    assert spent.would_exceed()
    assert not spent.would_exceed(count=0)
    spent.step(0)
    assert spent.epsilon() == after(steps)


def test_a_budget_of_nothing() -> None:
    none = ledger(target_delta=DELTA, max_epsilon=0.0)
    with pytest.raises(BudgetExceeded):
        none.step()
    free = ShuffleLedger(
        sa.GeneralRandomizer(eps0=0.0), users=10, target_delta=DELTA, max_epsilon=0.0
    )
    free.step(1000)
    assert free.epsilon() == 0.0


def test_state_is_json_and_resumes() -> None:
    spent = ledger(target_delta=DELTA, max_epsilon=1.0)
    spent.step(7)
    state = json.loads(json.dumps(spent.state_dict()))
    for resumed in (
        ShuffleLedger.from_state_dict(state),
        pickle.loads(pickle.dumps(spent)),
        copy.deepcopy(spent),
    ):
        assert resumed.state_dict() == spent.state_dict()
        assert resumed.epsilon() == spent.epsilon()
    fresh = ledger()
    fresh.load_state_dict(state)
    assert len(fresh) == 7
    assert fresh.receipt == spent.receipt
    assert fresh.state_dict()["max_epsilon"] is None  # a ledger keeps its own budget


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"users": 100}, ValueError, "state is of another configuration"),
        ({"schema": 4}, ValueError, "schema must be an integer >= 1 and <= 3, got 4"),
        ({"cohorts": 1}, TypeError, "rounds must be a list, got int"),
        ({"steps": -1}, ValueError, "steps must be an integer >= 0"),
        ({"steps": 1.5}, TypeError, "steps must be an integer"),
        ({"tolerance": 0.0}, ValueError, "tolerance must be a finite number > 0"),
        ({"more": 1}, ValueError, "must have fields"),
        ({"round": {}}, ValueError, "round must be an object"),
        ({"receipt": "3"}, ValueError, "receipt must be a receipt, NUMBER:DIGEST"),
    ],
)
def test_another_state_changes_nothing(change: Any, error: Any, message: str) -> None:
    other = ledger(**change) if "users" in change else ledger()
    state = other.state_dict()
    if "users" not in change:
        del state["digest"]
        state = sealed({**state, **change})
    mine = ledger()
    mine.step(3)
    with pytest.raises(error, match=message) as raised:
        mine.load_state_dict(state)
    assert "\n" not in str(raised.value)
    assert len(mine) == 3
    with pytest.raises(TypeError, match="state must be a dict"):
        mine.load_state_dict([])  # type: ignore[arg-type]


def test_receipts_of_a_ledger_in_memory() -> None:
    spent = ledger()
    start = spent.receipt
    first = spent.step()
    assert (start.number, first.number, spent.step(0), spent.receipt) == (0, 1, first, first)
    assert Receipt.read(receipt=str(first)) == first
    resumed = ShuffleLedger.from_state_dict(json.loads(json.dumps(spent.state_dict())))
    assert resumed.receipt == first
    assert resumed.step(3) == spent.step(3) != ledger().step(3)
    # the configuration, what was recorded, its order and its numbers of users all count
    steps: list[list[dict[str, int]]] = [
        [{}, {"users": 150}],
        [{"users": 150}, {}],
        [{}, {"users": 150, "count": 2}],
        [{}, {"users": 150, "population": 1000}],
    ]
    ends = []
    for one in steps:
        other = ledger()
        ends.append([other.step(**step) for step in one][-1])
    ends.append(ledger(users=201).receipt)
    ends.append(ledger(tolerance=2e-3).receipt)
    assert len({end.digest for end in [start, *ends]}) == len(steps) + 3


# Cohorts of different sizes


def full(rounds: list[tuple[sa.ShuffleRound, int]]) -> sa.Bracket:
    return sa.FourierAccountant().compose(sa.Protocol(rounds)).epsilon(delta=DELTA)


@pytest.mark.slow
@pytest.mark.parametrize(("population", "seed"), [(None, 0), (900, 1)])
def test_grants_decide_as_the_full_question_does(population: int | None, seed: int) -> None:
    """Of each step, accepted or refused, and of steps of several rounds."""
    rng = np.random.default_rng(seed)
    randomizer = sa.GeneralRandomizer(1.0)
    budget = 1.0 if population is None else 0.5
    spent = ShuffleLedger(
        randomizer, users=300, population=population, target_delta=DELTA, max_epsilon=budget
    )
    done: list[tuple[sa.ShuffleRound, int]] = []
    refused = 0
    while refused < 3:
        users, count = int(rng.integers(150, 800)), int(rng.integers(1, 3))
        one = sa.ShuffleRound(randomizer, users=users, population=population)
        answer = full([*done, (one, count)])
        before = len(spent)
        if spent.would_exceed(one, count=count):
            assert answer.upper > budget
            with pytest.raises(BudgetExceeded, match=f"step {before + count} would exceed"):
                spent.step(count, users=users)
            assert len(spent) == before
            refused += 1
        else:
            assert answer.lower <= budget  # what was granted is true, if not by this very bracket
            spent.step(count, users=users)
            done.append((one, count))
            assert len(spent) == before + count
    assert len(done) > 5
    assert spent.epsilon() == full(done)
    assert spent.epsilon().lower <= budget


@pytest.mark.slow
def test_most_steps_of_different_sizes_ask_for_no_bracket(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    answer = CohortBudget._upper

    def counted(self: CohortBudget, protocol: sa.Protocol, tolerance: float) -> float:
        asked.append(len(protocol))
        return answer(self, protocol, tolerance)

    monkeypatch.setattr(CohortBudget, "_upper", counted)
    spent = ShuffleLedger(
        sa.GeneralRandomizer(1.0), users=3000, target_delta=DELTA, max_epsilon=1.0
    )
    rng = np.random.default_rng(0)
    while not spent.would_exceed(sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=2000)):
        spent.step(users=int(rng.integers(2000, 4000)))
    assert len(spent) > 80
    assert len(asked) < len(spent) / 2
    assert 0.98 < spent.epsilon() <= 1.0


@pytest.mark.slow
def test_cohorts_survive_states_and_copies() -> None:
    spent = ledger(target_delta=DELTA, max_epsilon=3.0)
    spent.step(2)
    spent.step(users=150)
    spent.step(3, users=100, population=1000)
    assert len(spent) == spent.num_releases == 6
    for other in (
        ShuffleLedger.from_state_dict(json.loads(json.dumps(spent.state_dict()))),
        pickle.loads(pickle.dumps(spent)),
        copy.deepcopy(spent),
    ):
        assert other.state_dict() == spent.state_dict()
        assert other.epsilon() == spent.epsilon()
        other.step(users=120)
        assert len(other) == 7
    foreign = sa.Protocol([(sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=9), 1)])
    state = {**spent.state_dict(), "cohorts": foreign.to_dict()["rounds"]}
    del state["digest"]
    with pytest.raises(ValueError, match="event must be a round of this ledger's randomizer"):
        ShuffleLedger.from_state_dict(sealed(state))
    with pytest.raises(ValueError, match="population must be an integer >= 3000"):
        spent.step(users=3000)
    assert len(spent) == 6


def test_many_threads_lose_no_step() -> None:
    spent, budget = ledger(), ledger(target_delta=DELTA, max_epsilon=0.5)
    refused = threading.Semaphore(0)

    def work() -> None:
        for _ in range(500):
            spent.step()
        try:
            for _ in range(500):
                budget.step()
        except BudgetExceeded:
            refused.release()

    threads = [threading.Thread(target=work) for _ in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads do interrupt one another
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(spent) == 8 * 500
    assert after(len(budget)) <= 0.5 < after(len(budget) + 1)
    assert all(refused.acquire(blocking=False) for _ in range(8))


def test_a_million_steps() -> None:
    spent = ledger()
    spent.step(10**6)
    assert spent.epsilon(delta=DELTA) > 10.0


def test_a_step_is_next_to_nothing() -> None:
    """Under a tenth of the private mean of a small batch, of which it takes about a hundredth."""
    randomizer, rng = PrivUnit(dimension=650, eps0=2.0), np.random.default_rng(1)
    spent = ShuffleLedger(randomizer, users=10**6, target_delta=DELTA, max_epsilon=100.0)
    spent.step(500)  # some brackets are computed here, and none for fewer steps
    counted = ShuffleLedger(randomizer, users=10**6, target_delta=DELTA, max_epsilon=100.0)
    gradients = np.zeros((256, 650), np.float32)
    start = time.process_time()
    for _ in range(5):
        private_mean(gradients, randomizer, rng=rng)
    means = (time.process_time() - start) / 5
    start = time.process_time()
    for _ in range(500):
        counted.step()
    assert (time.process_time() - start) / 500 < 0.1 * means


def test_it_composes_rounds_of_its_randomizer_alone() -> None:
    accountant = ledger(target_delta=DELTA, max_epsilon=1.0)
    event = ledger().round
    accountant.compose(event, 2)
    accountant.compose(event)
    assert accountant.num_releases == 3
    assert accountant.epsilon() == after(3)
    assert not accountant.would_exceed(event)
    assert accountant.would_exceed(event, epsilon=0.1)
    assert accountant.would_exceed(event, count=10**6)
    with pytest.raises(TypeError, match="event must be a ShuffleRound"):
        accountant.compose("gaussian")  # type: ignore[arg-type]
    other = sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=200, population=2000)
    with pytest.raises(ValueError, match="event must be a round of this ledger's randomizer"):
        accountant.compose(other)
    assert accountant.num_releases == 3
    accountant.compose(ledger(users=100).round)
    assert accountant.num_releases == 4


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ledger(users=2001), ValueError, "population must be an integer >= 2001"),
        (lambda: ledger(users=0), ValueError, "users must be an integer >= 1"),
        (lambda: ShuffleLedger(2.0, users=5), TypeError, "randomizer must be a Local"),  # type: ignore[arg-type]
        (lambda: ledger().epsilon(delta=0.0), ValueError, OPEN_UNIT),
        (lambda: ledger().epsilon(delta=1.0), ValueError, OPEN_UNIT),
        (lambda: ledger().epsilon(delta=math.nan), ValueError, OPEN_UNIT),
        (lambda: ledger().epsilon(), ValueError, "delta must be given"),
        (lambda: ledger().step(-1), ValueError, "count must be an integer >= 0"),
        (lambda: ledger().step(1.5), TypeError, "count must be an integer"),  # type: ignore[arg-type]
        (lambda: ledger().would_exceed(delta=DELTA), ValueError, "epsilon must be given"),
        (
            lambda: ledger().would_exceed(epsilon=-1.0, delta=DELTA),
            ValueError,
            "epsilon must be a finite number >= 0",
        ),
        (lambda: ledger(max_epsilon=1.0), ValueError, "max_epsilon needs a target_delta"),
        (lambda: ledger(max_epsilon=-1.0, target_delta=DELTA), ValueError, "max_epsilon must be"),
        (lambda: ledger(target_delta=2.0), ValueError, "target_" + OPEN_UNIT),
    ],
)
def test_bad_input(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


# The private mean


@pytest.mark.slow
def test_the_mean_is_that_of_the_clipped_gradients() -> None:
    rng = np.random.default_rng(3)
    randomizer = PrivUnit(dimension=6, eps0=4.0, radius=0.5)
    gradients = rng.standard_normal((50, 6)) * np.array([0.01, 3.0] * 25)[:, None]
    truth = clip(gradients, 0.5).mean(axis=0)
    means = np.array([private_mean(gradients, randomizer, rng=rng) for _ in range(2000)])
    for j in range(6):
        assert stats.ttest_1samp(means[:, j], truth[j]).pvalue > RARE
    smaller = private_mean(gradients, randomizer, max_norm=1e-9, rng=rng)
    assert np.linalg.norm(smaller) > 0.0  # clipped to next to nothing, the noise remains


@given(st.floats(1e-300, 1e300), st.sampled_from([np.float32, np.float64]))
def test_clipping(size: float, precision: Any) -> None:
    # what 32-bit floats cannot hold is no gradient
    size = min(max(size, 1e-37), 1e37) if precision == np.float32 else size
    rows = np.array([[3.0, -4.0], [0.0, 0.0], [0.6, 0.8]], precision)
    rows[0] *= precision(size / 5)
    clipped = clip(rows, 1.0)
    assert clipped.dtype == precision
    norms = np.hypot(clipped[:, 0].astype(float), clipped[:, 1].astype(float))
    rounding = 1e-6 if precision == np.float32 else 1e-14
    assert norms == pytest.approx([min(size, 1.0), 0.0, 1.0], rel=rounding)
    if size > 1e-30:
        assert clipped[0, 1] / clipped[0, 0] == pytest.approx(-4 / 3, rel=rounding)


@pytest.mark.parametrize("kind", [PrivUnit, DuchiL2, DuchiLInf, SampledCoordinates])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.filterwarnings("error")
def test_gradients_that_are_not_finite_count_as_zero(kind: Any, precision: Any) -> None:
    """Message for message what zero vectors give: nothing tells of such a user."""
    largest = np.finfo(precision).max
    rows = np.random.default_rng(2).standard_normal((8, 3)).astype(precision)
    rows[1] = [math.nan, 0.0, 1.0]
    rows[3] = [largest, math.inf, -largest]
    rows[4] = [-math.inf, math.nan, math.inf]
    rows[6] = -math.inf
    zeroed = rows.copy()
    zeroed[[1, 3, 4, 6]] = 0.0
    clipped = clip(rows, 0.5)
    assert clipped.dtype == precision
    assert np.array_equal(clipped, clip(zeroed, 0.5))
    assert np.linalg.norm(clipped, axis=1).max() == pytest.approx(0.5, rel=1e-6)  # 32-bit floats
    randomizer = kind(dimension=3, eps0=1.0)
    means = [private_mean(r, randomizer, rng=np.random.default_rng(3)) for r in (rows, zeroed)]
    assert np.array_equal(means[0], means[1])
    assert np.linalg.norm(means[0]) > 0.0
    # also if there is nobody else
    alone = private_mean(rows[:1] * 0 + math.nan, randomizer, rng=np.random.default_rng(3))
    assert np.isfinite(alone).all()


def test_bad_gradients() -> None:
    rng = np.random.default_rng(1)
    for bad, message in (
        ([[0.0]], r"shape \(batch, 2\), got shape \(1, 1\)"),
        (np.zeros((0, 2)), "at least one row"),
    ):
        with pytest.raises(ValueError, match=message):
            private_mean(bad, PrivUnit(dimension=2, eps0=1.0), rng=rng)
    with pytest.raises(ValueError, match="max_norm must be at most the radius"):
        private_mean([[0.0, 0.0]], PrivUnit(dimension=2, eps0=1.0), max_norm=2.0, rng=rng)
    with pytest.raises(TypeError, match="randomizer must be a VectorRandomizer"):
        private_mean([[0.0]], sa.GeneralRandomizer(1.0), rng=rng)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_norm must be a finite number > 0"):
        clip([[0.0]], 0.0)


# Who takes part


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 2**32))
@settings(max_examples=60)
def test_passes(population: int, users: int, seed: int) -> None:
    users = min(users, population)
    rng = np.random.default_rng(seed)
    for sampling in ("fixed", "epoch"):
        batches = UserBatches(population=population, users=users, sampling=sampling, rng=rng)
        drawn = list(batches)
        assert [len(batch) for batch in drawn] == list(batches.sizes)
        assert len(drawn) == len(batches) == population // users
        for batch in drawn:
            assert len(set(batch)) == len(batch)
            assert set(batch) <= set(range(population))
            assert len(batch) >= users
        if sampling == "epoch":  # everyone once
            assert sorted(itertools.chain(*drawn)) == list(range(population))


def test_fixed_batches_are_drawn_anew() -> None:
    """Inclusion in the second batch does not depend on inclusion in the first."""
    batches = UserBatches(population=10, users=3, rng=np.random.default_rng(4))
    table = np.zeros((2, 2), int)
    for _ in range(5000):
        first, second, _ = batches
        table[int(0 in first), int(0 in second)] += 1
    assert stats.chi2_contingency(table).pvalue > RARE
    assert stats.binomtest(int(table[1].sum()), 5000, 0.3).pvalue > RARE


def test_what_a_pass_costs() -> None:
    rng = np.random.default_rng(1)
    fixed = UserBatches(population=100, users=30, rng=rng)
    assert fixed.round(RANDOMIZER) == sa.ShuffleRound(RANDOMIZER, users=30, population=100)
    assert fixed.rounds(5) == 15
    epoch = UserBatches(population=100, users=30, sampling="epoch", rng=rng)
    assert epoch.sizes == (34, 33, 33)
    assert epoch.round(RANDOMIZER) == sa.ShuffleRound(RANDOMIZER, users=33)
    assert epoch.rounds(5) == 5
    everyone = UserBatches(population=100, users=100, rng=rng)
    assert everyone.round(RANDOMIZER) == sa.ShuffleRound(RANDOMIZER, users=100)


def test_an_epoch_by_enumeration() -> None:
    """Two disjoint batches of two users, the second randomized with a turned coin if the first
    batch says so: the exact divergence of the whole epoch is that of one batch, and within the
    bracket.
    """
    p = math.exp(1.0) / (math.exp(1.0) + 1.0)

    def batch(bits: tuple[int, int], turn: int) -> dict[int, float]:
        law = {0: 0.0, 1: 0.0, 2: 0.0}  # how many ones the server sees
        for a in (0, 1):
            for b in (0, 1):
                one = p if a == bits[0] ^ turn else 1 - p
                other = p if b == bits[1] ^ turn else 1 - p
                law[a + b] += one * other
        return law

    def epoch(users: tuple[int, ...]) -> dict[tuple[int, int], float]:
        first = batch((users[0], users[1]), 0)
        return {
            (s, t): chance * then
            for s, chance in first.items()
            for t, then in batch((users[2], users[3]), int(s > 1)).items()
        }

    def divergence(a: dict[Any, float], b: dict[Any, float], epsilon: float) -> float:
        return sum(max(0.0, a[y] - math.exp(epsilon) * b[y]) for y in a)

    one = UserBatches(population=4, users=2, sampling="epoch", rng=np.random.default_rng(1))
    bracket = one.round(sa.GeneralRandomizer(eps0=1.0)).delta(epsilon=0.3)
    whole = max(
        divergence(epoch(x), epoch(y), 0.3)
        for x in np.ndindex(2, 2, 2, 2)
        for y in np.ndindex(2, 2, 2, 2)
        if sum(a != b for a, b in zip(x, y, strict=True)) == 1
    )
    alone = max(
        divergence(batch(x, 0), batch(y, 0), 0.3)
        for x in np.ndindex(2, 2)
        for y in np.ndindex(2, 2)
        if sum(a != b for a, b in zip(x, y, strict=True)) == 1
    )
    assert whole == pytest.approx(alone, rel=1e-12)
    assert 0.0 < whole <= bracket.upper * (1 + 1e-12)


def test_samplers_that_are_not_covered() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(
        ValueError, match=r"sampling must be one of 'fixed', 'epoch'.*got 'poisson'"
    ):
        UserBatches(population=10, users=2, sampling="poisson", rng=rng)
    with pytest.raises(ValueError, match="users must be an integer >= 1 and <= 10, got 11"):
        UserBatches(population=10, users=11, rng=rng)
    with pytest.raises(TypeError, match="rng must be a Generator"):
        UserBatches(population=10, users=2, rng=1)  # type: ignore[arg-type]


# The demonstration


@pytest.mark.slow
def test_the_digits_are_learned_within_the_budget() -> None:
    pytest.importorskip("sklearn", reason="the demonstration trains on scikit-learn's digits")
    from shuffle_accountant.training import experiments

    data = experiments.load()
    told = list(experiments.train(data, eps0=2.0, epsilon=1.0, delta=1e-5, seed=1))
    untrained, last = told[0], told[-1]
    assert untrained.epsilon == 0.0
    assert untrained.accuracy < 0.2
    assert last.accuracy > 0.5  # a guess is right in a tenth of the cases
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=data.users)
    for epoch in told:
        assert epoch.epsilon == sa.epsilon(one, delta=1e-5, rounds=epoch.steps)
    assert last.epsilon <= 1.0 < sa.epsilon(one, delta=1e-5, rounds=last.steps + 1)


def test_the_gradients_of_the_demonstration() -> None:
    """Against differences of the loss."""
    from shuffle_accountant.training import experiments

    rng = np.random.default_rng(1)
    features, labels = rng.standard_normal((4, 3)), np.array([0, 9, 3, 3])
    weights = rng.standard_normal((3, 10))

    def losses(at: Any) -> Any:
        scores = features @ at
        return np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(4), labels]

    gradients = experiments.per_user_gradients(weights, features, labels).reshape(4, 3, 10)
    step = 1e-6
    for i, j in np.ndindex(3, 10):
        moved = np.zeros_like(weights)
        moved[i, j] = step
        slope = (losses(weights + moved) - losses(weights - moved)) / (2 * step)
        # differences of doubles over 2e-6
        assert gradients[:, i, j] == pytest.approx(slope, abs=1e-8)


def test_the_demonstration_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn", reason="the demonstration trains on scikit-learn's digits")
    from benchmarks.training import digits_numpy

    assert digits_numpy.main(["--epsilon", "0.4", "--seed", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "epoch  steps  accuracy  epsilon at delta = 1e-05"
    assert lines[-1] == "stopped: another step would exceed epsilon = 0.4"
    assert digits_numpy.main(["--eps0", "-1"]) == 2
    assert "eps0 must be" in capsys.readouterr().err


def test_importing_the_ledger_needs_no_framework() -> None:
    code = """
import sys, shuffle_accountant as sa
sa.training.ShuffleLedger
print(*sorted({"torch", "opacus", "sklearn", "flwr", "tqdm"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_other_randomizers_work_too() -> None:
    spent = ShuffleLedger(DuchiLInf(dimension=3, eps0=1.0), users=100)
    spent.step(3)
    krr = ShuffleLedger(sa.RandomizedResponse(categories=10, eps0=1.0), users=100)
    krr.step(3)
    assert krr.epsilon(delta=DELTA) < spent.epsilon(delta=DELTA)


def test_without_torch_the_plug_in_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [name for name in sys.modules if name.startswith("opacus.")]
    for name in ("torch", "opacus", *parts):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
    for name in [n for n in sys.modules if n.startswith("shuffle_accountant.training.opacus")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(vars(sa.training), "opacus", raising=False)
    with pytest.raises(ImportError, match=r"needs PyTorch and Opacus: .*\[opacus\]"):
        _ = sa.training.opacus
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = sa.training.nothing
