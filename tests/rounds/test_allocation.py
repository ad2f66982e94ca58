"""Random allocation: against enumeration, values from other code, sampling and a peer.

Gaussian steps of few t are also checked as the example pair in `test_gaussian_far_tail`.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import allocation as oracle
from oracles.containment import assert_contains, assert_narrow, assert_overlaps
from scipy.stats import binomtest

import shuffle_accountant as sa
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.steps import mean_ratio, null_clones
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.reports.comparison import compare
from shuffle_accountant.rounds.mechanisms import Mechanism

ZERO_OUT = sa.Adjacency.ZERO_OUT

REFERENCES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "refs" / "allocation.json").read_text()
)
# e^epsilon of a rational number is rounded, and so is its logarithm.
ROUNDED = 1e-12


def gaussian(sigma: float) -> sa.GaussianMechanism:
    return sa.GaussianMechanism(noise_multiplier=sigma)


# --------------------------------------------------------------------- step by step, exactly


@pytest.mark.parametrize("ratio", [2, 5])
@pytest.mark.parametrize(("steps", "released"), [(1, 1), (2, 2), (5, 5), (5, 3), (7, 1)])
def test_pure_steps_are_exact(ratio: int, steps: int, released: int) -> None:
    """Randomized response attains the bound, whole epochs and parts of them."""
    laws = (Fraction(ratio, ratio + 1), Fraction(1, ratio + 1))
    pair = oracle.transcripts(lambda history: laws, steps, 1, released)
    step = sa.PureMechanism(epsilon=math.log(ratio))
    epoch = sa.RandomAllocation(step, steps=steps, released=released)
    for alpha in (Fraction(1), Fraction(11, 10), Fraction(3, 2)):
        truth = max(oracle.divergences(*pair, alpha))
        found = epoch.delta(epsilon=math.log(alpha))
        assert_contains(found, float(truth), rtol=ROUNDED)
        if truth > 0:
            assert_narrow(found, 1e-11)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(data=st.data(), steps=st.integers(2, 4), selected=st.integers(1, 2))
def test_adaptive_steps_are_bounded(data: st.DataObject, steps: int, selected: int) -> None:
    """Each step's law may be any 3-private one, chosen by looking at the outputs so far.

    Whole epochs, k of t, and epochs that end early.
    """
    released = data.draw(st.integers(1, steps)) if selected == 1 else steps
    table: dict[oracle.History, tuple[Fraction, Fraction]] = {}

    def laws(history: oracle.History) -> tuple[Fraction, Fraction]:
        if history not in table:
            q = data.draw(st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50))
            low = max(q / 3, 1 - 3 * (1 - q))
            high = min(3 * q, 1 - (1 - q) / 3)
            share = data.draw(st.fractions(0, 1, max_denominator=20))
            table[history] = low + share * (high - low), q
        return table[history]

    pair = oracle.transcripts(laws, steps, selected, released)
    step = sa.PureMechanism(epsilon=math.log(3))
    ends = {"released": released} if selected == 1 else {"selected": selected}
    epoch = sa.RandomAllocation(step, steps=steps, **ends)
    for alpha in (Fraction(1), Fraction(5, 4), Fraction(2)):
        truth = max(oracle.divergences(*pair, alpha))
        assert epoch.delta(epsilon=math.log(alpha)).upper >= float(truth) * (1 - ROUNDED)


@pytest.mark.parametrize(("steps", "selected"), [(4, 2), (5, 2), (6, 3), (4, 4)])
def test_blocks_are_above_the_subset(steps: int, selected: int) -> None:
    """The product over blocks bounds the pair of a uniform subset, and is near it."""
    laws = (Fraction(2, 3), Fraction(1, 3))
    pair = oracle.transcripts(lambda history: laws, steps, selected, steps)
    epoch = sa.RandomAllocation(
        sa.PureMechanism(epsilon=math.log(2)), steps=steps, selected=selected
    )
    for alpha in (Fraction(1), Fraction(5, 4), Fraction(2)):
        truth = float(max(oracle.divergences(*pair, alpha)))
        found = epoch.delta(epsilon=math.log(alpha))
        assert found.reduction == "allocation, blocks"
        assert found.upper >= truth * (1 - ROUNDED)
        if steps == selected:  # every step uses the record: nothing is random
            assert_contains(found, truth, rtol=ROUNDED)


# --------------------------------------------------------------------- values of other code


@pytest.mark.slow
@pytest.mark.parametrize("entry", REFERENCES, ids=lambda entry: entry["id"])
def test_references(entry: dict[str, Any]) -> None:
    mechanism: Mechanism
    if entry["kind"] == "pure":
        mechanism = sa.PureMechanism(epsilon=entry["eps0"])
    else:
        mechanism = gaussian(entry["noise_multiplier"])
    options = {name: entry.get(name, 1) for name in ("selected", "passes")}
    if entry["released"] is not None and options["passes"] > 1:
        with pytest.raises(ValueError, match=r"^released is for one pass"):
            sa.RandomAllocation(mechanism, steps=entry["steps"], released=1, **options)
        return
    epoch = sa.RandomAllocation(
        mechanism, steps=entry["steps"], released=entry["released"], **options
    )
    found = sa.delta(epoch, epsilon=entry["epsilon"], rounds=entry.get("rounds", 1))
    assert_contains(found, entry["delta"], rtol=max(entry["relative_accuracy"], 1e-13))
    assert_narrow(found, 2e-3)  # a delta moves several times as much as an epsilon
    for order in ("tight_remove", "tight_add"):
        assert found.upper >= entry.get(order, 0.0)


@pytest.mark.parametrize(
    ("sigma", "options", "delta", "rounds", "ends"),
    [
        (1.0, {"steps": 8}, 1e-8, 1, (3.71848, 3.71858)),
        (1.0, {"steps": 64}, 1e-8, 1, (1.79862, 1.79873)),
        (2.0, {"steps": 64}, 1e-8, 1, (0.32953, 0.32955)),
        (1.0, {"steps": 1000}, 1e-8, 5, (0.484786, 0.484862)),
        (1.0, {"steps": 16, "passes": 2}, 1e-8, 1, (5.76413, 5.76422)),
        (2.0, {"steps": 32, "passes": 4}, 1e-8, 1, (2.40373, 2.40381)),
        (1.0, {"steps": 16, "selected": 2}, 1e-8, 1, (4.68526, 4.68618)),
    ],
)
def test_epsilons(
    sigma: float, options: dict[str, int], delta: float, rounds: int, ends: tuple[float, float]
) -> None:
    found = sa.epsilon(sa.RandomAllocation(gaussian(sigma), **options), delta=delta, rounds=rounds)
    assert_overlaps(found, *ends)
    assert_narrow(found, 5e-4)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.001, 0.02, 0.049, 0.051, 0.2])
@pytest.mark.parametrize("delta", [0.5, 1e-6, 1e-60])
def test_next_to_no_noise(sigma: float, delta: float) -> None:
    """Between the record's own step with and without its place, which is worth log t at most."""
    steps = 1000
    found = sa.RandomAllocation(gaussian(sigma), steps=steps).epsilon(delta=delta)
    alone = sa.RandomAllocation(gaussian(sigma), steps=1).epsilon(delta=delta)
    assert_narrow(found, 1e-3)
    assert found.lower <= alone.upper
    assert found.upper >= alone.lower - math.log(steps)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 10])
def test_less_noise_is_less_private(rounds: int) -> None:
    """Also where the way of computing changes."""
    ends = [
        sa.epsilon(sa.RandomAllocation(gaussian(s), steps=100), delta=1e-6, rounds=rounds)
        for s in (0.0495, 0.0499, 0.0501, 0.0505)
    ]
    for left, right in pairwise(ends):
        assert left.upper > right.lower


# --------------------------------------------------------------------- other steps


@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("steps", [1, 20])
def test_laplace_is_no_worse_than_any_pure_step(steps: int, passes: int) -> None:
    for epsilon in (0.1, 0.7):
        laplace = sa.RandomAllocation(sa.LaplaceMechanism(scale=0.5), steps=steps, passes=passes)
        pure = sa.RandomAllocation(sa.PureMechanism(epsilon=2.0), steps=steps, passes=passes)
        assert laplace.delta(epsilon=epsilon).lower <= pure.delta(epsilon=epsilon).upper


@pytest.mark.parametrize(
    ("steps", "options"), [(20, {}), (20, {"released": 3}), (9, {"passes": 3})]
)
def test_tables_of_known_steps(steps: int, options: dict[str, int]) -> None:
    """Randomized response as a table of two losses is randomized response."""
    eps0 = 1.0
    truth = 1.0 / (1.0 + math.exp(-eps0))
    table = sa.PldRound.from_tables(
        sa.LossTable([-eps0, eps0], [1.0 - truth, truth]), adjacency=ZERO_OUT
    )
    for epsilon in (0.05, 0.3):
        pure = sa.RandomAllocation(sa.PureMechanism(epsilon=eps0), steps=steps, **options)
        found = sa.RandomAllocation(table, steps=steps, **options).delta(epsilon=epsilon)
        expected = pure.delta(epsilon=epsilon)
        assert_overlaps(found, expected.lower, expected.upper)
        if expected.lower > 0.0:
            assert_narrow(found, 5e-3)


@pytest.mark.parametrize("steps", [1, 10])
def test_what_without_the_record_never_happens(steps: int) -> None:
    """A mass m that Q does not have is seen with probability m, s of t steps with (s/t) m."""
    table = sa.PldRound.from_tables(
        sa.LossTable([0.0], [0.99], infinity_mass=0.01), adjacency=ZERO_OUT
    )
    whole = sa.RandomAllocation(table, steps=steps).delta(epsilon=5.0)
    assert_contains(whole, 0.01, rtol=ROUNDED)
    passes = sa.RandomAllocation(table, steps=steps, passes=3).delta(epsilon=5.0)
    assert_contains(passes, 1.0 - 0.99**3, rtol=1e-9)
    if steps > 1:
        part = sa.RandomAllocation(table, steps=steps, released=4).delta(epsilon=5.0)
        assert_contains(part, 0.4 * 0.01, rtol=ROUNDED)


@pytest.mark.slow
def test_a_peers_distribution() -> None:
    """One step of dp_accounting's own, and 50 beside the closed form."""
    pld = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution", reason="a peer of these rounds"
    )
    made = [
        pld.from_gaussian_mechanism(
            1.0, value_discretization_interval=1e-3, pessimistic_estimate=pessimistic
        )
        for pessimistic in (True, False)
    ]
    table = sa.PldRound(made[0], optimistic=made[1], adjacency=ZERO_OUT)
    one = sa.RandomAllocation(table, steps=1).epsilon(delta=1e-6)
    assert one.upper >= made[0].get_epsilon_for_delta(1e-6) * (1 - 1e-6)
    exactly = sa.RandomAllocation(gaussian(1.0), steps=50).epsilon(delta=1e-6)
    assert_overlaps(
        sa.RandomAllocation(table, steps=50).epsilon(delta=1e-6), exactly.lower, exactly.upper
    )


def test_sampled_epochs() -> None:
    """Three epochs of Gaussian steps, by drawing their losses: Clopper-Pearson at 1e-9."""
    sigma, steps, epsilon, draws = 1.0, 6, 1.0, 200_000
    rng = np.random.default_rng(5)
    loss = np.zeros(draws)
    for _ in range(3):
        outputs = sigma * rng.standard_normal((steps, draws))
        outputs[0] += 1.0
        loss += np.log(np.exp((outputs - 0.5) / sigma**2).mean(axis=0))
    # delta is the chance that the loss passes epsilon by an exponential variable
    hits = int(np.sum(loss > epsilon + rng.exponential(size=draws)))
    interval = binomtest(hits, draws).proportion_ci(1.0 - 1e-9)
    found = sa.delta(sa.RandomAllocation(gaussian(sigma), steps=steps), epsilon=epsilon, rounds=3)
    assert_overlaps(found, interval.low, interval.high)


def test_beside_other_rounds() -> None:
    """A table and a mechanism of one pair of laws compose alike; replaced values do not."""
    epoch = sa.RandomAllocation(gaussian(2.0), steps=20)
    truth = 1.0 / (1.0 + math.exp(-0.5))
    table = sa.PldRound.from_tables(
        sa.LossTable([-0.5, 0.5], [1.0 - truth, truth]), adjacency=ZERO_OUT
    )
    pure = sa.RandomAllocation(sa.PureMechanism(epsilon=0.5), steps=1)
    found, same = (sa.delta([(epoch, 2), (one, 1)], epsilon=0.5) for one in (table, pure))
    assert_overlaps(found, same.lower, same.upper)
    assert found.lower > sa.delta(epoch, epsilon=0.5, rounds=2).upper
    assert found.adjacency is ZERO_OUT
    replaced = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=100)
    with pytest.raises(ValueError, match=r"got ZERO_OUT \(zero-out\) and REPLACE_ONE"):
        sa.Protocol([(epoch, 1), (replaced, 1)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "one",
    [
        sa.RandomAllocation(gaussian(2.0), steps=20, selected=2),
        sa.ShuffleRound(sa.GaussianVectors(noise_multiplier=4.0), users=50),
    ],
    ids=repr,
)
def test_what_reads_a_protocol_takes_them_or_says_why_not(one: sa.ShuffleRound) -> None:
    found = sa.report(one, delta=1e-5)
    epsilon = sa.epsilon(one, delta=1e-5)
    assert found.rows[0].upper == epsilon.upper
    assert found.rows[0].adjacency == "zero-out"
    assert {row.scope for row in found.rows} == {"all rounds"}
    rows = {row.name: row for row in compare(one, delta=1e-5) if "overstated" not in row.form}
    assert rows["certified"].epsilon == epsilon.upper
    renyi = sa.baselines.rdp.epsilon(one, delta=1e-5)
    assert rows["rdp"].epsilon == renyi
    assert renyi > epsilon.upper
    assert rows["girgis"].condition in ("shuffled rounds alone", "neighbours that replace-one")
    assert sa.max_rounds(one, target_epsilon=2.0 * epsilon.upper, delta=1e-5) >= 2


def test_out_to_dp_accounting() -> None:
    """Its distribution is above ours, by the interval at most."""
    pytest.importorskip("dp_accounting", reason="the bridge to dp_accounting needs it")
    from shuffle_accountant.interop.dp_accounting import to_privacy_loss_distribution

    blocks = sa.RandomAllocation(gaussian(2.0), steps=20, selected=2)
    ours = sa.epsilon(blocks, delta=1e-5)
    theirs = to_privacy_loss_distribution(blocks).get_epsilon_for_delta(1e-5)
    assert ours.lower <= theirs <= ours.upper * (1.0 + 1e-3) + 1e-4


# --------------------------------------------------------------------- the object


ROUNDS = [
    sa.RandomAllocation(gaussian(1.5), steps=100),
    sa.RandomAllocation(gaussian(1.5), steps=100, selected=3, passes=2),
    sa.RandomAllocation(sa.LaplaceMechanism(scale=2.0), steps=10, released=4),
    sa.RandomAllocation(sa.PureMechanism(epsilon=0.5), steps=10, passes=7),
    sa.RandomAllocation(
        sa.PldRound.from_tables(sa.LossTable([-1.0, 1.0], [0.25, 0.75]), adjacency=ZERO_OUT),
        steps=10,
    ),
]


@pytest.mark.parametrize("one", ROUNDS, ids=repr)
def test_states(one: sa.RandomAllocation) -> None:
    accountant = sa.FourierAccountant().compose(one, count=3)
    text = json.dumps(accountant.state_dict())
    back = sa.FourierAccountant.from_state_dict(json.loads(text))
    assert back.rounds == accountant.rounds
    assert hash(back.rounds[0][0]) == hash(one)
    assert one.adjacency is sa.Adjacency.ZERO_OUT


@pytest.mark.parametrize(
    "one",
    [
        sa.RandomAllocation(gaussian(1.0), steps=1000),
        sa.RandomAllocation(gaussian(1.0), steps=1000, released=10),
        sa.PoissonSampled(gaussian(1.0), rate=0.1),
        sa.ShuffledBatches(noise_multiplier=1.0, steps=1000),
    ],
    ids=repr,
)
def test_no_law_is_made_to_know_that_losses_are_finite(
    one: sa.RandomAllocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be a second or third one, and most of the time that an answer takes."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a law was asked for")

    monkeypatch.setattr(mean_ratio, "_law", refuse)
    monkeypatch.setattr(null_clones, "_envelope", refuse)
    effort = Effort(tail=1e-12, resolution=1e-5)
    assert one.reduced().loss.delta(math.inf, Bound.OPTIMISTIC, effort) == 0.0
    with pytest.raises(AssertionError, match="a law was asked for"):
        one.reduced().loss.delta(0.5, Bound.OPTIMISTIC, effort)


def test_all_released_is_a_whole_epoch() -> None:
    assert sa.RandomAllocation(gaussian(1.0), steps=5, released=5) == sa.RandomAllocation(
        gaussian(1.0), steps=5
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: sa.RandomAllocation(1.0, steps=3), TypeError, "mechanism must be a"),
        (lambda: sa.RandomAllocation(gaussian(1.0), steps=0), ValueError, "steps must be"),
        (lambda: sa.RandomAllocation(gaussian(1.0), steps=3, selected=4), ValueError, "selected"),
        (lambda: sa.RandomAllocation(gaussian(1.0), steps=3, released=4), ValueError, "released"),
        (
            lambda: sa.RandomAllocation(gaussian(1.0), steps=3, released=2, selected=2),
            ValueError,
            "released is for one pass",
        ),
        (
            lambda: sa.RandomAllocation(sa.PureMechanism(epsilon=400.0), steps=3, passes=2),
            ValueError,
            "passes times the largest loss",
        ),
        (
            lambda: sa.RandomAllocation(
                sa.PldRound.from_tables(sa.LossTable([0.0], [1.0])), steps=3
            ),
            ValueError,
            r"mechanism must be of adjacency ZERO_OUT \(zero-out\), got a PldRound of REPLACE_ONE",
        ),
        (lambda: gaussian(0.0), ValueError, "noise_multiplier must be"),
        (lambda: sa.LaplaceMechanism(scale=1e-4), ValueError, "scale must be at least"),
        (lambda: sa.PureMechanism(epsilon=501.0), ValueError, "epsilon must be at most"),
        (lambda: sa.RandomAllocation.from_dict({"kind": "allocation"}), ValueError, "round must"),
    ],
)
def test_refusals(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"^{message}") as caught:
        make()
    assert "\n" not in str(caught.value)
