"""Noise messages and the augmented shuffle: enumeration, values from other code, simulations."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import messages as oracle
from oracles.containment import assert_contains, assert_narrow

import shuffle_accountant as sa
from shuffle_accountant.rounds.messages import DummyMessages
from shuffle_accountant.rounds.protocol import round_from_dict

REFERENCES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "refs" / "messages.json").read_text()
)
# e^epsilon of a rational number is rounded, and so is its logarithm.
ROUNDED = 1e-12
ALPHAS = (Fraction(1), Fraction(11, 10), Fraction(2), Fraction(7, 2))
# Of some hundred normal numbers; seeds are fixed.
SIGMAS = 4.0

LAWS = {
    "NegativeBinomial": ("size", "probability"),
    "Poisson": ("mean",),
    "Binomial": ("trials", "probability"),
    "AsymmetricGeometric": ("mode", "left", "right"),
}


def law_of(entry: dict[str, Any]) -> Any:
    names = LAWS[entry["dummies"]]
    return getattr(sa, entry["dummies"])(**{name: entry[name] for name in names})


def round_of(entry: dict[str, Any]) -> DummyMessages:
    if entry["kind"] == "NoiseMessages":
        return sa.NoiseMessages(categories=5, dummies=law_of(entry), honest=entry["honest"])
    return sa.AugmentedShuffle(categories=5, keep=entry["keep"], dummies=law_of(entry))


@pytest.mark.parametrize("entry", REFERENCES, ids=lambda entry: entry["id"])
def test_values_of_other_code_are_in_the_bracket(entry: dict[str, Any]) -> None:
    accuracy = entry["relative_accuracy"]
    found = sa.delta(round_of(entry), epsilon=entry["epsilon"], rounds=entry["rounds"])
    if accuracy <= 1e-3:
        assert_contains(found, entry["delta"], rtol=accuracy)
    else:  # lost to cancellation there; both agree on what is negligible
        assert found.upper < 1e-20
    if entry["rounds"] == 1:  # finite sums
        assert_narrow(found, 1e-11)


# ------------------------------------------------------------------------ message by message


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("others", [(2, 2), (0, 1), (0, 0)])
def test_noise_messages_are_exact_whatever_others_hold(
    alpha: Fraction, others: tuple[int, int]
) -> None:
    """Three users, each with one coin per category; one of them goes from 0 to 1."""
    coins, chance = (1, 1, 1), Fraction(1, 4)
    laws = [oracle.noise_bits((own, *others), 3, coins, chance) for own in (0, 1)]
    truth = oracle.worse_divergence(*laws, alpha)
    found = sa.NoiseMessages(categories=3, dummies=sa.Binomial(trials=3, probability=0.25)).delta(
        epsilon=math.log(alpha)
    )
    assert_contains(found, float(truth), rtol=ROUNDED)
    assert_narrow(found, 1e-11)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_dummies_of_dishonest_users_do_not_count(alpha: Fraction) -> None:
    """One of three users tells the dummies: what is left are the coins of the other two."""
    laws = [oracle.noise_bits((own, 2, 2), 3, (1, 1, 0), Fraction(1, 2)) for own in (0, 1)]
    truth = oracle.worse_divergence(*laws, alpha)
    dummies = sa.Binomial(trials=3, probability=0.5)
    found = sa.NoiseMessages(categories=3, dummies=dummies, honest=0.7).delta(
        epsilon=math.log(alpha)
    )
    assert_contains(found, float(truth), rtol=ROUNDED)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("others", [(0, 0), (1, 0)])
def test_bits_are_one_category(alpha: Fraction, others: tuple[int, int]) -> None:
    laws = [oracle.noise_bits((own, *others), 1, (2, 3, 2), Fraction(3, 8)) for own in (0, 1)]
    truth = oracle.worse_divergence(*laws, alpha)
    bits = sa.NoiseMessages(categories=1, dummies=sa.Binomial(trials=7, probability=0.375))
    found = bits.delta(epsilon=math.log(alpha))
    assert_contains(found, float(truth), rtol=ROUNDED)
    assert_narrow(found, 1e-11)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("keep", [Fraction(1, 2), Fraction(7, 8), Fraction(1)])
def test_the_augmented_shuffle_is_exact_among_others(alpha: Fraction, keep: Fraction) -> None:
    dummies = oracle.binomial_law(3, Fraction(1, 4))
    laws = [oracle.augmented((own, 2, 2), 3, keep, dummies) for own in (0, 1)]
    truth = oracle.worse_divergence(*laws, alpha)
    found = sa.AugmentedShuffle(
        categories=3, keep=float(keep), dummies=sa.Binomial(trials=3, probability=0.25)
    ).delta(epsilon=math.log(alpha))
    assert_contains(found, float(truth), rtol=ROUNDED)
    assert_narrow(found, 1e-11)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("others", [(0, 2), (0, 0), (0, 1)])
def test_others_with_the_same_values_add_noise(alpha: Fraction, others: tuple[int, int]) -> None:
    dummies = oracle.binomial_law(3, Fraction(1, 4))
    laws = [oracle.augmented((own, *others), 3, Fraction(1, 2), dummies) for own in (0, 1)]
    truth = oracle.worse_divergence(*laws, alpha)
    found = sa.AugmentedShuffle(
        categories=3, keep=0.5, dummies=sa.Binomial(trials=3, probability=0.25)
    ).delta(epsilon=math.log(alpha))
    assert float(truth) <= found.upper * (1.0 + ROUNDED)
    if alpha == 2:  # the bracket is of the worst case
        assert truth < 0.999 * found.lower


@pytest.mark.parametrize("alpha", ALPHAS[:3])
def test_rounds_compose(alpha: Fraction) -> None:
    dummies = oracle.binomial_law(4, Fraction(1, 2))
    laws = [oracle.augmented((own,), 2, Fraction(3, 4), dummies) for own in (0, 1)]
    truth = oracle.worse_divergence(*laws, alpha, rounds=2)
    one = sa.AugmentedShuffle(
        categories=2, keep=0.75, dummies=sa.Binomial(trials=4, probability=0.5)
    )
    found = sa.delta(one, epsilon=math.log(alpha), rounds=2)
    assert_contains(found, float(truth), rtol=ROUNDED)
    assert_narrow(found, 0.01)


def test_they_compose_with_other_rounds() -> None:
    one = sa.NoiseMessages(categories=9, dummies=sa.Poisson(mean=300.0))
    other = sa.ShuffleRound(sa.RandomizedResponse(categories=9, eps0=2.0), users=10_000)
    together = sa.epsilon([(one, 2), (other, 3)], delta=1e-6)
    alone = [sa.epsilon(part, delta=1e-6, rounds=n) for part, n in ((one, 2), (other, 3))]
    assert max(alone) < together.lower
    assert together.upper < sum(alone)
    with pytest.raises(ValueError, match="replace"):
        sa.epsilon([(one, 1), (sa.ShuffledBatches(noise_multiplier=1.0, steps=9), 1)], delta=1e-6)


# --------------------------------------------------------------------------------- properties


@settings(max_examples=40, deadline=None)
@given(
    mean=st.floats(0.5, 200.0),
    keep=st.floats(0.05, 1.0),
    epsilon=st.floats(0.0, 5.0),
)
def test_both_counts_cost_less_than_two_rounds_of_one(
    mean: float, keep: float, epsilon: float
) -> None:
    """The pair of counts is the composition of one count with its reverse."""
    dummies = sa.Poisson(mean=mean)
    two = sa.AugmentedShuffle(categories=3, keep=keep, dummies=dummies)
    one = sa.AugmentedShuffle(categories=1, keep=keep, dummies=dummies)
    found, part = two.delta(epsilon=epsilon), one.delta(epsilon=epsilon)
    half = one.delta(epsilon=0.5 * epsilon)
    assert part.lower <= found.upper
    assert found.lower <= 2.0 * half.upper * (1.0 + math.exp(0.5 * epsilon))
    assert 0.0 <= found.lower <= found.upper <= 1.0


@settings(max_examples=30, deadline=None)
@given(share=st.floats(0.1, 1.0), size=st.floats(0.2, 30.0), epsilon=st.floats(0.0, 3.0))
def test_fewer_honest_users_hide_less(share: float, size: float, epsilon: float) -> None:
    dummies = sa.NegativeBinomial(size=size, probability=0.2)
    all_honest = sa.NoiseMessages(categories=4, dummies=dummies).delta(epsilon=epsilon)
    some = sa.NoiseMessages(categories=4, dummies=dummies, honest=share).delta(epsilon=epsilon)
    assert some.upper >= all_honest.lower


@pytest.mark.parametrize("mean", [3.0, 700.0, 5e4])
def test_many_dummies_are_a_gaussian_mechanism(mean: float) -> None:
    """The central limit: two counts of variance ``mean`` each, both shifted by one."""
    mu = math.sqrt(2.0 / mean)
    half = 0.5 * mu
    gaussian = math.erf(half / math.sqrt(2.0))  # total variation of normal laws mu apart
    found = sa.NoiseMessages(categories=2, dummies=sa.Poisson(mean=mean)).delta(epsilon=0.0)
    # skewness is what is left, of relative size 1/mean
    assert float(found) == pytest.approx(gaussian, rel=0.3 / mean + 1e-3)


def test_tables_too_large_for_all_pairs_are_bounded_on_a_grid() -> None:
    dummies = sa.Poisson(mean=3e5)
    one = sa.NoiseMessages(categories=3, dummies=dummies)
    found = one.epsilon(delta=1e-6)
    mu = math.sqrt(2.0 / 3e5)
    limit = mu * math.sqrt(-2.0 * math.log(1e-6))  # of the right order
    assert 0.5 * limit < found.lower <= found.upper < 1.2 * limit
    assert_narrow(found, 2e-3)


# -------------------------------------------------------------------------------------- floor


@pytest.mark.parametrize("trials", [2, 5])
def test_the_floor_is_what_no_epsilon_hides(trials: int) -> None:
    one = sa.NoiseMessages(categories=3, dummies=sa.Binomial(trials=trials, probability=0.25))
    none, most = Fraction(3, 4) ** trials, Fraction(1, 4) ** trials
    truth = 1 - (1 - none) * (1 - most)
    assert_contains(one.floor, float(truth), rtol=ROUNDED)
    assert_contains(one.delta(epsilon=500.0), float(truth), rtol=ROUNDED)


def test_a_delta_below_the_floor_is_told() -> None:
    one = sa.NoiseMessages(categories=3, dummies=sa.Poisson(mean=5.0))
    floor = math.exp(-5.0)
    assert_contains(one.floor, floor, rtol=ROUNDED)
    with pytest.warns(sa.FloorWarning, match="delta = 1e-06 is below the floor of 0.00673795"):
        assert one.epsilon(delta=1e-6).lower == math.inf
    with pytest.warns(sa.FloorWarning, match="below the floor of 0.0134"):
        assert sa.epsilon(one, delta=1e-6, rounds=2).lower == math.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sa.epsilon(one, delta=0.1).upper < math.inf


def test_who_drops_messages_has_no_floor_but_the_largest_count() -> None:
    poisson = sa.AugmentedShuffle(categories=3, keep=0.5, dummies=sa.Poisson(mean=5.0))
    assert poisson.floor.lower == 0.0
    assert poisson.floor.upper < 1e-50
    bounded = sa.AugmentedShuffle(
        categories=3, keep=0.5, dummies=sa.Binomial(trials=2, probability=0.5)
    )
    assert_contains(bounded.floor, 0.125, rtol=ROUNDED)


def test_other_rounds_have_no_floor() -> None:
    assert sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=10).floor is None


# ------------------------------------------------------------------------ samplers, estimates

ROUNDS = [
    sa.NoiseMessages(categories=4, dummies=sa.NegativeBinomial(size=3.5, probability=0.3)),
    sa.NoiseMessages(categories=4, dummies=sa.Poisson(mean=6.0), honest=0.5),
    sa.NoiseMessages(categories=1, dummies=sa.Binomial(trials=20, probability=0.5)),
    sa.AugmentedShuffle(categories=4, keep=0.6, dummies=sa.Poisson(mean=4.0)),
    sa.AugmentedShuffle(
        categories=4, keep=0.8, dummies=sa.AsymmetricGeometric(mode=5, left=0.5, right=0.7)
    ),
    sa.AugmentedShuffle(
        categories=3, keep=0.8, dummies=sa.AsymmetricGeometric(mode=0, left=0.5, right=0.7)
    ),
    sa.AugmentedShuffle(categories=3, keep=1.0, dummies=sa.DiscreteGaussian(mode=70, sigma=4.0)),
    sa.AugmentedShuffle(categories=3, keep=0.7, dummies=sa.DiscreteGaussian(mode=1, sigma=1.5)),
]


@pytest.mark.slow
@pytest.mark.parametrize("one", ROUNDS, ids=repr)
def test_estimates_are_unbiased_and_vary_as_stated(one: DummyMessages) -> None:
    users, runs = 50, 4000
    values = np.minimum(np.arange(users) % 5, max(one.categories, 2) - 2)
    if one.categories == 1:
        values = (np.arange(users) % 3 == 0).astype(int)
    shares = np.bincount(values, minlength=max(one.categories, 2)) / users
    shares = shares[1:] if one.categories == 1 else shares
    rng = np.random.default_rng(12)
    found = [one.estimate(one.shuffled(values, rng), users=users) for _ in range(runs)]
    samples = np.array([estimate.values for estimate in found])
    stated = np.array([one.frequency_error(users=users, frequency=f) for f in shares]) ** 2
    off = samples - shares
    assert np.all(np.abs(off.mean(axis=0)) <= SIGMAS * np.sqrt(stated / runs))
    squares = off**2
    spread = squares.std(axis=0) / math.sqrt(runs)
    assert np.all(np.abs(squares.mean(axis=0) - stated) <= SIGMAS * spread)


@pytest.mark.parametrize("one", ROUNDS, ids=repr)
def test_messages_per_user(one: DummyMessages) -> None:
    users, runs = 50, 2000
    rng = np.random.default_rng(9)
    values = np.ones(users, dtype=int)
    sizes = np.array([one.shuffled(values, rng).size for _ in range(runs)]) / users
    expected = one.messages_per_user(users=users)
    assert abs(sizes.mean() - expected) <= SIGMAS * sizes.std() / math.sqrt(runs)


def test_tallies_add_up_and_the_order_is_random() -> None:
    one = ROUNDS[0]
    messages = one.shuffled(np.arange(400) % 4, np.random.default_rng(1))
    tally = one.tally(messages[:100]) + one.tally(messages[100:])
    assert np.array_equal(tally, one.tally(messages))
    assert np.any(np.diff(messages[:50]) < 0)
    assert one.estimate_from(tally, 400).users == 400


@pytest.mark.parametrize(
    "law",
    [
        sa.AsymmetricGeometric(mode=6, left=0.6, right=0.8),
        sa.AsymmetricGeometric(mode=1, left=0.9, right=0.3),
        sa.AsymmetricGeometric(mode=0, left=0.9, right=0.3),
    ],
    ids=repr,
)
def test_asymmetric_geometric_numbers_follow_their_law(law: sa.AsymmetricGeometric) -> None:
    counts = np.arange(400)
    weights = np.where(
        counts < law.mode,
        law.left ** np.maximum(law.mode - counts, 0.0),
        law.right ** np.maximum(counts - law.mode, 0.0),
    )
    chances = weights / weights.sum()
    mean = float(chances @ counts)
    assert law.expectation == pytest.approx(mean, rel=1e-9, abs=1e-9)
    assert law.variance == pytest.approx(float(chances @ (counts - mean) ** 2), rel=1e-9)
    size = 200_000
    drawn = np.bincount(law.draw(np.random.default_rng(3), size), minlength=400)[:400] / size
    assert np.all(np.abs(drawn - chances) <= SIGMAS * np.sqrt(chances / size) + 5.0 / size)


@pytest.mark.parametrize(
    "law",
    [
        sa.DiscreteGaussian(mode=90, sigma=5.0),
        sa.DiscreteGaussian(mode=2, sigma=2.5),
        sa.DiscreteGaussian(mode=7, sigma=0.4),
    ],
    ids=repr,
)
def test_discrete_gaussian_numbers_follow_their_law(law: sa.DiscreteGaussian) -> None:
    counts = np.arange(400)
    weights = [
        mpmath.exp(-((mpmath.mpf(int(c)) - law.mode) ** 2) / 2 / law.sigma**2) for c in counts
    ]
    chances = np.array([float(weight / mpmath.fsum(weights)) for weight in weights])
    mean = float(chances @ counts)
    assert law.expectation == pytest.approx(mean, rel=1e-9)
    assert law.variance == pytest.approx(float(chances @ (counts - mean) ** 2), rel=1e-9)
    size = 200_000
    drawn = np.bincount(law.draw(np.random.default_rng(4), size), minlength=400)[:400] / size
    assert np.all(np.abs(drawn - chances) <= SIGMAS * np.sqrt(chances / size) + 5.0 / size)


@cache
def sums_of_two(sigma: float) -> dict[int, mpmath.mpf]:
    """Law of the sum of two discrete Gaussian numbers, in 80 digits."""
    reach = math.ceil(20.0 * sigma) + 2  # less than 1e-86 is beyond
    with mpmath.workdps(80):
        square = 2 * mpmath.mpf(sigma) ** 2
        weights = [mpmath.exp(-(mpmath.mpf(z) ** 2) / square) for z in range(-reach, reach + 1)]
        total = mpmath.fsum(weights) ** 2
        return {
            s: mpmath.fsum(
                weights[i] * weights[s + 2 * reach - i]
                for i in range(max(0, s), min(2 * reach, s + 2 * reach) + 1)
            )
            / total
            for s in range(-2 * reach, 2 * reach + 1)
        }


@pytest.mark.parametrize("sigma", [0.3, 0.8, 3.0, 11.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0, 4.0])
def test_discrete_gaussian_counts_are_a_sum_in_many_digits(sigma: float, epsilon: float) -> None:
    """Two counts on all whole numbers, one moved up by one and the other down."""
    law = sa.DiscreteGaussian(mode=math.ceil(17.0 * sigma), sigma=sigma)
    one = sa.AugmentedShuffle(categories=3, keep=1.0, dummies=law)
    with mpmath.workdps(80):
        square = 2 * mpmath.mpf(sigma) ** 2
        truth = mpmath.fsum(
            mass * (1 - mpmath.exp(epsilon - (2 * s + 2) / square))
            for s, mass in sums_of_two(sigma).items()
            if 2 * s + 2 > epsilon * square
        )
    found = one.delta(epsilon=epsilon)
    # counts less likely than 1e-60 are not listed; what they may add stays below 1e-58
    assert found.lower - 1e-58 <= float(truth) <= found.upper + 1e-58
    # losses and masses are off by some hundred roundings
    assert found.width <= 1e-9 * found.upper + 1e-58


def test_discrete_gaussian_counts_have_next_to_no_floor() -> None:
    law = sa.DiscreteGaussian(mode=170, sigma=10.0)
    one = sa.AugmentedShuffle(categories=3, keep=1.0, dummies=law)
    assert one.floor.upper < 1e-58
    # with a mode of one deviation it is the chance of none, in many digits
    near = sa.DiscreteGaussian(mode=3, sigma=3.0)
    weights = [mpmath.exp(-(mpmath.mpf(c - 3) ** 2) / 18) for c in range(120)]
    floor = sa.AugmentedShuffle(categories=3, keep=1.0, dummies=near).floor
    assert_contains(floor, float(weights[0] / mpmath.fsum(weights)), rtol=ROUNDED)


# ---------------------------------------------------------------------------- states, errors


@pytest.mark.parametrize("one", ROUNDS, ids=repr)
def test_states(one: DummyMessages) -> None:
    state = json.loads(json.dumps(one.to_dict()))
    again = round_from_dict(state)
    assert again == one
    assert hash(again) == hash(one)
    accountant = sa.FourierAccountant().compose(one, count=2)
    loaded = sa.FourierAccountant.from_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert loaded.rounds == accountant.rounds


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sa.Poisson(mean=0.0), ValueError, "mean must be a finite number > 0"),
        (lambda: sa.Binomial(trials=2.5, probability=0.5), TypeError, "trials must be an integer"),
        (lambda: sa.Binomial(trials=2, probability=1.5), ValueError, "probability must be"),
        (
            lambda: sa.NegativeBinomial(size=-1.0, probability=0.5),
            ValueError,
            "size must be a finite number > 0",
        ),
        (
            lambda: sa.AsymmetricGeometric(mode=-1, left=0.5, right=0.5),
            ValueError,
            "mode must be an integer >= 0",
        ),
        (
            lambda: sa.AsymmetricGeometric(mode=1, left=0.5, right=1.0),
            ValueError,
            "right must be a number in",
        ),
        (
            lambda: sa.NoiseMessages(categories=0, dummies=sa.Poisson(mean=1.0)),
            ValueError,
            "categories must be an integer >= 1",
        ),
        (lambda: sa.NoiseMessages(categories=2, dummies=3.0), TypeError, "dummies must be a"),
        (
            lambda: sa.NoiseMessages(categories=2, dummies=sa.Poisson(mean=1.0), honest=0.0),
            ValueError,
            r"honest must be a number in \(0, 1\]",
        ),
        (
            lambda: sa.NoiseMessages(
                categories=2, dummies=sa.AsymmetricGeometric(mode=1, left=0.5, right=0.5)
            ),
            ValueError,
            "dummies must be a law that users can share",
        ),
        (
            lambda: sa.DiscreteGaussian(mode=1, sigma=0.01),
            ValueError,
            r"sigma must be a number in \[0.05, 262144\]",
        ),
        (
            lambda: sa.DiscreteGaussian(mode=-1, sigma=1.0),
            ValueError,
            "mode must be an integer >= 0",
        ),
        (
            lambda: sa.DiscreteGaussian(mode=1, sigma=1.0).honest(0.5),
            ValueError,
            "honest must be 1 with DiscreteGaussian",
        ),
        (
            lambda: sa.AugmentedShuffle(categories=2, keep=0.0, dummies=sa.Poisson(mean=1.0)),
            ValueError,
            r"keep must be a number in \(0, 1\]",
        ),
        (
            lambda: sa.NoiseMessages(categories=2, dummies=sa.Poisson(mean=1e14)).delta(
                epsilon=1.0
            ),
            ValueError,
            "dummies must have at most",
        ),
        (lambda: ROUNDS[0].estimate([0, 4], users=3), ValueError, "messages must be integers"),
        (lambda: ROUNDS[0].estimate([0, 1], users=0), ValueError, "users must be an integer"),
        (lambda: ROUNDS[0].estimate_from([-1, 1, 1, 1], 3), ValueError, "tally must hold counts"),
        (lambda: ROUNDS[0].shuffled([9], np.random.default_rng(1)), ValueError, "values must be"),
        (
            lambda: round_from_dict({"kind": "noise messages", "categories": 3}),
            ValueError,
            "round must be an object of kind 'noise-messages'",
        ),
        (
            lambda: round_from_dict(ROUNDS[3].to_dict() | {"dummies": {"kind": "uniform"}}),
            ValueError,
            "dummies must be an object with a kind of",
        ),
    ],
)
def test_bad_input_is_one_line(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
