"""Every bound against the truth, for small random channels and all datasets of the other users.

The truth is the hockey-stick divergence between the exact laws of the shuffled multiset, listed
outcome by outcome. For each channel it is maximised over all neighbouring datasets, which must give

    attained <= truth <= blanket <= clones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from oracles import blanket, channels, clones, enumeration
from oracles.channels import Channel
from oracles.precision import MP, exact

import shuffle_accountant as sa

# Relative difference of two values with every outcome listed: round-off of up to a few thousand
# additions and of powers of rounded probabilities, with much to spare.
RELATIVE = 1e-9

# Each seed's first channels in every run, the others before a release.
SEEDS = [(0, 8), *(pytest.param(seed, 24, marks=pytest.mark.release) for seed in range(4))]

# Rows of a channel sum to 1 up to 1e-16 per entry, and max(p - alpha q, 0) of some hundred outcomes
# leaves some hundred units of round-off of p: deltas below that are not comparable.
ABSOLUTE = 2e-14


@dataclass(frozen=True)
class Truth:
    """The largest divergences of a protocol at one epsilon."""

    any_dataset: float
    others_equal: float
    by_dataset: dict[tuple[int, int, int], float]  # (x0, x1, value of all others)


def truths(channel: Channel, users: int, epsilons: tuple[float, ...]) -> list[Truth]:
    """List all neighbouring datasets: ordered pairs for the target, multisets for the others."""
    largest = [0.0] * len(epsilons)
    uniform: list[dict[tuple[int, int, int], float]] = [{} for _ in epsilons]
    inputs = range(len(channel))
    nobody: enumeration.Law = {(0,) * len(channel[0]): 1.0}
    for others in itertools.combinations_with_replacement(inputs, users - 1):
        crowd = enumeration.shuffled_output(channel, others) if others else nobody
        laws = [enumeration.with_message(crowd, row) for row in channel]
        for x0, x1 in itertools.permutations(inputs, 2):
            for i, epsilon in enumerate(epsilons):
                value = float(enumeration.hockey_stick(laws[x0], laws[x1], math.exp(epsilon)))
                largest[i] = max(largest[i], value)
                if len(set(others)) == 1:
                    uniform[i][x0, x1, others[0]] = value
                elif not others:  # nobody else: whatever they hold
                    uniform[i].update({(x0, x1, z): value for z in inputs})
    return [
        Truth(any_dataset=value, others_equal=max(table.values()), by_dataset=table)
        for value, table in zip(largest, uniform, strict=True)
    ]


def with_zeros(rng: np.random.Generator) -> Channel:
    """A channel some of whose letters rule inputs out: no local privacy, but a blanket at times."""
    inputs, letters = (int(x) for x in rng.integers(2, 5, size=2))
    table = rng.dirichlet(np.full(letters, 1.0), size=inputs)
    table[rng.random(table.shape) < 0.3] = 0.0
    for row in range(inputs):  # no row and no column of zeros
        table[row, row % letters] += 0.25
    table[0] += 0.05
    channel: Channel = (table / table.sum(axis=1, keepdims=True)).tolist()
    return channel


def cases(seed: int, count: int) -> Iterator[tuple[Channel, int]]:
    """Channels of 2 to 4 inputs and letters, and numbers of users from 1 to 5."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        if rng.random() < 0.3:
            channel = with_zeros(rng)
        else:
            channel = channels.random_channel(rng, float(rng.choice([0.2, 1.0, 2.0, 4.0])))
        yield channel, int(rng.integers(1, 6))


def asked(channel: Channel) -> tuple[float, ...]:
    """Epsilons that matter for a channel."""
    eps0 = channels.local_epsilon(channel)
    scale = eps0 if math.isfinite(eps0) else 3.0
    return (0.0, 0.1 * scale, 0.4 * scale, 0.8 * scale)


def at_most(small: float, large: float) -> bool:
    """small <= large, up to what the arithmetic above can tell."""
    return small <= large * (1 + RELATIVE) + ABSOLUTE


def same(a: float, b: float) -> bool:
    return at_most(a, b) and at_most(b, a)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "count"), SEEDS)
def test_attained_truth_blanket_clones(seed: int, count: int) -> None:
    """The whole chain, and the values of its ends by enumeration."""
    for channel, users in cases(seed, count):
        epsilons = asked(channel)
        randomizer = sa.DiscreteRandomizer(channel)
        tight = sa.ShuffleRound(randomizer, users=users, reduction="blanket")
        exact = blanket.delta(channel, users, epsilons)
        for epsilon, truth, reduced in zip(
            epsilons, truths(channel, users, epsilons), exact, strict=True
        ):
            where = (channel, users, epsilon)
            bound = tight.delta(epsilon=epsilon)
            assert at_most(truth.any_dataset, bound.upper), where
            assert 0.0 <= bound.lower <= bound.upper, where
            assert same(bound.lower, float(reduced)), where
            assert same(bound.upper, float(reduced)), where

            found = tight.attained(epsilon=epsilon)
            assert found == found.lower, where
            assert at_most(found.lower, truth.any_dataset), where
            assert same(found.lower, truth.others_equal), where
            assert same(found.upper, truth.others_equal), where
            # the dataset it names is one of the largest
            assert same(truth.by_dataset[found.dataset], truth.others_equal), where

            if math.isfinite(randomizer.eps0):
                general = sa.ShuffleRound(randomizer, users=users, reduction="clones")
                assert at_most(bound.upper, general.delta(epsilon=epsilon).upper), where
                assert randomizer.eps0 == pytest.approx(channels.local_epsilon(channel), rel=1e-12)


@pytest.mark.parametrize(("seed", "count"), SEEDS)
def test_auto_is_the_smaller_bound(seed: int, count: int) -> None:
    """It is above the truth, and below what each theorem gives alone."""
    for channel, users in cases(seed + 100, count):
        randomizer = sa.DiscreteRandomizer(channel)
        auto = sa.ShuffleRound(randomizer, users=users)
        epsilons = asked(channel)
        for epsilon, truth in zip(epsilons, truths(channel, users, epsilons), strict=True):
            bound = auto.delta(epsilon=epsilon)
            assert at_most(truth.any_dataset, bound.upper), (channel, users, epsilon)
            for name in ("blanket", "clones") if math.isfinite(randomizer.eps0) else ("blanket",):
                other = sa.ShuffleRound(randomizer, users=users, reduction=name)
                upper = other.delta(epsilon=epsilon).upper
                assert at_most(bound.upper, upper), (channel, users, epsilon, name)


@pytest.mark.parametrize(("seed", "count"), SEEDS)
def test_epsilon_is_enough_for_the_truth(seed: int, count: int) -> None:
    """At the upper end of epsilon no pair of datasets exceeds the delta it was asked for."""
    for channel, users in cases(seed + 200, count // 3):
        one = sa.ShuffleRound(sa.DiscreteRandomizer(channel), users=users)
        for delta in (0.2, 1e-2, 1e-4):
            bracket = one.epsilon(delta=delta)
            assert 0.0 <= bracket.lower <= bracket.upper
            if math.isinf(bracket.upper):
                # letters that rule an input out have more than delta in the blanket pair
                assert float(blanket.delta(channel, users, (60.0,))[0]) > delta
                continue
            (truth,) = truths(channel, users, (bracket.upper,))
            assert at_most(truth.any_dataset, delta), (channel, users, delta)


@pytest.mark.parametrize(("seed", "count"), SEEDS)
def test_subsampled_truth_is_below_the_blanket(seed: int, count: int) -> None:
    """Users drawn without replacement: all subsets averaged, against the amplified bound."""
    rng = np.random.default_rng(seed + 300)
    for _ in range(count):
        channel = channels.random_channel(rng, float(rng.choice([0.5, 2.0])))
        population = int(rng.integers(2, 6))
        users = int(rng.integers(1, min(population, 3) + 1))
        one = sa.ShuffleRound(
            sa.DiscreteRandomizer(channel), users=users, population=population, reduction="blanket"
        )
        for _ in range(4):
            dataset, other = channels.random_dataset(rng, len(channel), population)
            laws = [
                enumeration.subsampled_output(channel, [value, *dataset[1:]], users)
                for value in (dataset[0], other)
            ]
            for epsilon in asked(channel)[:3]:
                bound = one.delta(epsilon=epsilon).upper
                for p, q in itertools.permutations(laws):
                    truth = float(enumeration.hockey_stick(p, q, math.exp(epsilon)))
                    assert at_most(truth, bound), (channel, users, population, epsilon)


def test_sampling_oracle_is_the_mean_over_subsets() -> None:
    """Everybody drawn is no sampling."""
    channel = channels.randomized_response(1.0, 3)
    everyone = enumeration.subsampled_output(channel, [0, 1, 2], 3)
    assert everyone == pytest.approx(enumeration.shuffled_output(channel, [0, 1, 2]))


# ------------------------------------------------ where the specialised formula is no bound

# The values are printed with 10 decimals.
PRINTED = 1e-9


@pytest.mark.parametrize(
    "randomizer",
    [
        sa.RandomizedResponse(categories=4, eps0=1.0),
        sa.DiscreteRandomizer(channels.randomized_response(1.0, 4)),
    ],
    ids=["randomized response", "channel"],
)
def test_four_values_ten_users(randomizer: sa.RandomizedResponse | sa.DiscreteRandomizer) -> None:
    """4-RR, eps0 = 1, epsilon = 0.6: the truth is above the specialised formula's 0.0029836429."""
    rounds = {
        name: sa.ShuffleRound(randomizer, users=10, reduction=name)
        for name in ("blanket", "clones")
    }
    attained = rounds["blanket"].attained(epsilon=0.6)
    tight, general = (rounds[name].delta(epsilon=0.6) for name in ("blanket", "clones"))
    for value, printed in (
        (attained, 0.0032713329),
        (tight, 0.0041801826),
        (general, 0.0173188141),
    ):
        assert value.lower == pytest.approx(printed, abs=PRINTED)
        assert value.upper == pytest.approx(printed, abs=PRINTED)
    assert attained.lower > 0.0029836429
    x0, x1, others = attained.dataset
    assert len({x0, x1, others}) == 3


# -------------------------------------------------- mechanisms against their own channel matrix


def subset_channel(eps0: float, categories: int, size: int) -> Channel:
    """A message is a set of so many values, e^eps0 times as likely if the true one is in it."""
    sets = list(itertools.combinations(range(categories), size))
    table = np.array([[math.exp(eps0 * (x in s)) for s in sets] for x in range(categories)])
    channel: Channel = (table / table.sum(axis=1, keepdims=True)).tolist()
    return channel


def hadamard_channel(eps0: float, categories: int) -> Channel:
    """A message is a column, e^eps0 times as likely where the row of the true value has +1."""
    matrix = np.array([[1]])
    while len(matrix) <= categories:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    table = np.exp(eps0 * (matrix[1 : categories + 1] > 0))  # the first row is all +1: not used
    channel: Channel = (table / table.sum(axis=1, keepdims=True)).tolist()
    return channel


@pytest.mark.slow
@pytest.mark.parametrize("eps0", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("users", [1, 2, 5, 12])
@pytest.mark.parametrize("kind", ["subset selection", "hadamard response"])
def test_mechanism_is_its_channel(kind: str, users: int, eps0: float) -> None:
    """The package groups letters by formula; all of them, listed, have the same blanket."""
    randomizer: sa.SubsetSelection | sa.HadamardResponse
    if kind == "subset selection":
        randomizer = sa.SubsetSelection(categories=4, eps0=eps0, size=2)
        channel = subset_channel(eps0, 4, 2)
    else:
        randomizer = sa.HadamardResponse(categories=3, eps0=eps0)
        channel = hadamard_channel(eps0, 3)
    matrix = sa.DiscreteRandomizer(channel)
    assert matrix.eps0 == pytest.approx(eps0, rel=1e-12)  # probabilities are rounded
    known, listed = (
        sa.ShuffleRound(r, users=users, reduction="blanket") for r in (randomizer, matrix)
    )
    epsilons = tuple(fraction * eps0 for fraction in (0.0, 0.1, 0.4, 0.8))
    small = users <= 2
    exact = blanket.delta(channel, users, epsilons) if small else [None] * len(epsilons)
    for epsilon, value in zip(epsilons, exact, strict=True):
        a, b = known.delta(epsilon=epsilon), listed.delta(epsilon=epsilon)
        assert same(a.lower, b.lower)
        assert same(a.upper, b.upper)
        if value is not None:
            assert same(a.upper, float(value))
        assert same(known.attained(epsilon=epsilon).lower, listed.attained(epsilon=epsilon).lower)
    if small:
        for epsilon, truth in zip(epsilons, truths(channel, users, epsilons), strict=True):
            assert at_most(truth.any_dataset, known.delta(epsilon=epsilon).upper)
            assert same(truth.others_equal, known.attained(epsilon=epsilon).lower)


# ---------------------------------------------------------------- the density lemma, and more users

# 50 digits, of which a sum of some thousand terms below 1 loses a few.
FIFTY_DIGITS = 1e-44


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_blanket_oracle_three_ways(seed: int) -> None:
    """Multinomial decoys plus the target, message after message, and the density lemma.

    Letters with q = 0 are among them: no likelihood ratio by q exists there.
    """
    impossible = 0
    for channel, users in cases(seed + 400, 12):
        for x0, x1 in itertools.permutations(range(len(channel)), 2):
            p0, p1, q = blanket.rows(channel, x0, x1)
            impossible += any(not c and (a or b) for a, b, c in zip(p0, p1, q, strict=True))
            atoms = blanket.pair(p0, p1, q, users)
            laws = enumeration.target_among_decoys(p0, p1, q, users)
            for epsilon in (-0.5, 0.0, 0.2, 0.9):
                alpha = MP.exp(exact(epsilon))
                counted = clones.delta(atoms, epsilon)
                assert abs(enumeration.hockey_stick(*laws, alpha) - counted) < FIFTY_DIGITS
                assert abs(blanket.lemma(p0, p1, q, users, alpha) - counted) < FIFTY_DIGITS
    assert impossible > 0


@pytest.mark.parametrize("users", [6, 7])
@pytest.mark.parametrize("eps0", [0.5, 2.0])
def test_chain_for_more_users(users: int, eps0: float) -> None:
    """As above, for the two families in which bounds are tightest; datasets of three values."""
    rng = np.random.default_rng(users)
    for channel in (channels.randomized_response(eps0, 3), channels.extremal(rng, eps0, 3)):
        epsilons = asked(channel)
        tight, general = (
            sa.ShuffleRound(sa.DiscreteRandomizer(channel), users=users, reduction=name)
            for name in ("blanket", "clones")
        )
        for epsilon, truth in zip(epsilons, truths(channel, users, epsilons), strict=True):
            where = (channel, users, epsilon)
            found, bound = tight.attained(epsilon=epsilon), tight.delta(epsilon=epsilon)
            assert same(found.lower, truth.others_equal), where
            assert at_most(truth.any_dataset, bound.upper), where
            assert at_most(bound.upper, general.delta(epsilon=epsilon).upper), where


def test_two_rounds_are_products_of_blankets() -> None:
    """Every outcome of one round with every outcome of another, in 50 digits."""
    first, second = channels.randomized_response(1.0, 3), [[0.7, 0.2, 0.1], [0.3, 0.2, 0.5]]
    pairs = [blanket.pair(*blanket.rows(channel, 0, 1), 4) for channel in (first, second)]
    swapped = [[(q, p) for p, q in pair] for pair in pairs]
    accountant = sa.FourierAccountant()
    for channel in (first, second):
        one = sa.ShuffleRound(sa.DiscreteRandomizer(channel), users=4, reduction="blanket")
        accountant.compose(one)
    for epsilon in (0.0, 0.4, 1.0):
        # randomised response has one pair up to relabelling, so two orders cover all datasets;
        # the accountant may use the worse order of each round
        orders = [clones.composed(pairs[0], other) for other in (pairs[1], swapped[1])]
        truth = max(float(clones.delta(atoms, epsilon)) for atoms in orders)
        assert at_most(truth, accountant.delta(epsilon=epsilon).upper), epsilon
