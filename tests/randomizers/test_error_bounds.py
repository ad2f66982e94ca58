"""Bounds on the errors of frequencies hold for every histogram, and are not much too large."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import binom, norm

import shuffle_accountant as sa
from shuffle_accountant.randomizers.error_bounds import largest_deviation, shares_between
from shuffle_accountant.randomizers.vectors import (
    DuchiL2,
    DuchiLInf,
    PrivUnit,
    SampledCoordinates,
)

USERS, RUNS = 1000, 40
# Three standard errors of the share of runs in which a bound of 95 % holds.
SLACK = 3.0 * math.sqrt(0.05 * 0.95 / RUNS)

ORACLES: dict[str, Callable[..., Any]] = {
    "randomized response": sa.RandomizedResponse,
    "RAPPOR": sa.RAPPOR,
    "Hadamard": sa.HadamardResponse,
    "subset selection": sa.SubsetSelection,
    "local hashing": sa.LocalHashing,
}


def histograms(k: int) -> dict[str, Any]:
    """Values of all users: uniform, Zipf, all on one category, and half on one."""
    zipf = 1.0 / np.arange(1, k + 1)
    ends = np.round(USERS * np.cumsum(zipf / zipf.sum())).astype(int)
    return {
        "uniform": np.arange(USERS) % k,
        "zipf": np.searchsorted(ends, np.arange(USERS), side="right"),
        "point": np.full(USERS, k - 1),
        "half": np.where(np.arange(USERS) % 2 == 0, 0, np.arange(USERS) % k),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("k", [2, 17, 1000])
@pytest.mark.parametrize("eps0", [1.0, 5.0])
def test_oracles_by_simulation(name: str, k: int, eps0: float) -> None:
    oracle = ORACLES[name](categories=k, eps0=eps0)
    bound = oracle.largest_frequency_error(users=USERS)
    rng = np.random.default_rng([k, round(eps0), len(name)])
    for data, values in histograms(k).items():
        truth = np.bincount(values, minlength=k) / USERS
        held = [
            np.abs(oracle.estimate(oracle.randomize(values, rng)).values - truth).max() <= bound
            for _ in range(RUNS)
        ]
        assert np.mean(held) >= 0.95 - SLACK, data


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 17, 1000])
@pytest.mark.parametrize("keep", [None, 0.5, 0.9])
@pytest.mark.parametrize(
    "dummies",
    [
        sa.Poisson(mean=60.0),
        sa.Binomial(trials=200, probability=0.5),
        sa.NegativeBinomial(size=2.0, probability=0.1),
        sa.AsymmetricGeometric(mode=40, left=0.8, right=0.85),
        sa.DiscreteGaussian(mode=120, sigma=7.0),
    ],
    ids=lambda law: law.kind,
)
def test_rounds_with_dummies_by_simulation(k: int, keep: float | None, dummies: Any) -> None:
    if keep is None and not dummies.divisible:
        keep = 1.0
    one = (
        sa.NoiseMessages(categories=k, dummies=dummies)
        if keep is None
        else sa.AugmentedShuffle(categories=k, keep=keep, dummies=dummies)
    )
    bound = one.largest_frequency_error(users=USERS)
    rng = np.random.default_rng(k)
    for data, values in histograms(k).items():
        truth = np.bincount(values, minlength=k) / USERS
        held = []
        for _ in range(RUNS):
            # counts as the round makes them, without the messages
            kept = rng.binomial(np.bincount(values, minlength=k), one.kept)
            counts = kept + dummies.draw(rng, k)
            off = np.abs(one.estimate_from(counts, USERS).values - truth)
            held.append(off.max() <= bound * (1.0 + 1e-12))
        assert np.mean(held) >= 0.95 - SLACK, data


@pytest.mark.parametrize("confidence", [0.3, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("eps0", [0.5, 2.0, 4.0])
def test_every_histogram_of_few_users_exactly(eps0: float, confidence: float) -> None:
    """Randomized response of three values by eight users: all messages, all histograms."""
    users, k = 8, 3
    response = sa.RandomizedResponse(categories=k, eps0=eps0)
    bound = response.largest_frequency_error(users=users, confidence=confidence)
    own, other = response.keep_probability, response.lie_probability

    @functools.cache
    def law(held: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        """Law of the counts of messages, one user at a time."""
        if sum(held) == 0:
            return {(0,) * k: 1.0}
        value = next(i for i in range(k) if held[i])
        rest = law(tuple(n - (i == value) for i, n in enumerate(held)))
        found: Counter[tuple[int, ...]] = Counter()
        for counts, mass in rest.items():
            for message in range(k):
                more = tuple(n + (i == message) for i, n in enumerate(counts))
                found[more] += mass * (own if message == value else other)
        return dict(found)

    for held in itertools.product(range(users + 1), repeat=k):
        if sum(held) != users:
            continue
        wrong = 0.0
        for counts, mass in law(held).items():
            off = max(
                abs((count / users - other) / (own - other) - n / users)
                for count, n in zip(counts, held, strict=True)
            )
            wrong += mass if off > bound * (1.0 + 1e-12) else 0.0
        assert wrong <= 1.0 - confidence


@pytest.mark.parametrize("users", [1, 10, 1000, 10**6, 10**12])
@pytest.mark.parametrize("p", [1e-9, 0.01, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("failure", [0.5, 0.05, 1e-6])
def test_one_count_against_binomial_tails(users: int, p: float, failure: float) -> None:
    off = largest_deviation(p, p, users=users, categories=1, failure=failure)
    # whole numbers strictly further from the mean; its last place is that of n p
    mean, slack = users * p, 1e-9 + users * p * 1e-12
    above = binom.sf(math.floor(mean + off + slack), users, p)
    below = binom.cdf(math.ceil(mean - off - slack) - 1, users, p)
    assert above + below <= failure


@pytest.mark.parametrize("k", [2, 50, 1000])
@pytest.mark.parametrize("eps0", [1.0, 4.0])
@pytest.mark.parametrize("name", ORACLES)
def test_not_much_above_a_normal_law_at_the_worst_corner(name: str, eps0: float, k: int) -> None:
    oracle = ORACLES[name](categories=k, eps0=eps0)
    users = 10**6
    bound = oracle.largest_frequency_error(users=users)
    worst = max(oracle.frequency_error(users=users, frequency=share) for share in (0.0, 1.0))
    # a union over all categories at the worst share; Chernoff's bound is not a normal tail
    assert bound <= 1.4 * worst * norm.isf(0.025 / k)
    assert bound >= worst * norm.isf(0.025)


def test_of_more_users_confidence_and_categories() -> None:
    oracle = sa.RAPPOR(categories=9, eps0=1.0)
    bound = oracle.largest_frequency_error(users=1000)
    assert oracle.largest_frequency_error(users=4000) < 0.6 * bound
    assert oracle.largest_frequency_error(users=1000, confidence=0.99) > bound
    assert oracle.largest_frequency_error(users=1000, categories=90) > bound
    assert largest_deviation(1.0, 0.0, users=10, categories=3, failure=0.05) == 0.0


def test_bad_values() -> None:
    oracle = sa.RAPPOR(categories=9, eps0=1.0)
    with pytest.raises(ValueError, match=r"confidence must be a number in \(0, 1\), got 1"):
        oracle.largest_frequency_error(users=10, confidence=1.0)
    with pytest.raises(ValueError, match="users must be"):
        oracle.largest_frequency_error(users=0)
    with pytest.raises(ValueError, match="categories must be"):
        oracle.largest_frequency_error(users=10, categories=0)
    nothing = sa.RandomizedResponse(categories=9, eps0=0.0)
    with pytest.raises(ValueError, match="eps0 must be > 0"):
        nothing.largest_frequency_error(users=10)
    one = sa.NoiseMessages(categories=3, dummies=sa.Poisson(mean=9.0))
    with pytest.raises(ValueError, match="confidence must be"):
        one.largest_frequency_error(users=10, confidence=0.0)


# --------------------------------------------------------------------------------- means of vectors

VECTORS = (PrivUnit, DuchiL2, DuchiLInf, SampledCoordinates)


def vectors(dimension: int) -> dict[str, Any]:
    """One row for each user: no vector, an axis, all coordinates alike, both ends of an axis."""
    axis = np.zeros((USERS, dimension))
    axis[:, 0] = 1.0
    ends = axis.copy()
    ends[::2] *= -1.0
    return {
        "zero": np.zeros((USERS, dimension)),
        "axis": axis,
        "alike": np.full((USERS, dimension), dimension**-0.5),
        "ends": ends,
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", VECTORS)
@pytest.mark.parametrize("dimension", [2, 7, 100])
@pytest.mark.parametrize("eps0", [1.0, 8.0])
def test_means_by_simulation(kind: Any, dimension: int, eps0: float) -> None:
    randomizer = kind(dimension=dimension, eps0=eps0)
    bound = randomizer.largest_mean_error(users=USERS)
    rng = np.random.default_rng([dimension, round(eps0)])
    for data, rows in vectors(dimension).items():
        held = [
            np.abs((randomizer.randomize(rows, rng) - rows).mean(axis=0)).max() <= bound
            for _ in range(RUNS)
        ]
        assert np.mean(held) >= 0.95 - SLACK, data


@pytest.mark.parametrize("confidence", [0.3, 0.95, 0.999])
@pytest.mark.parametrize("eps0", [0.5, 4.0])
def test_means_on_a_line_exactly(eps0: float, confidence: float) -> None:
    """Messages are two numbers, so that the sum is binomial where all users hold one number."""
    users, one = 30, DuchiLInf(dimension=1, eps0=eps0)
    bound = one.largest_mean_error(users=users, confidence=confidence)
    for x in np.linspace(-1.0, 1.0, 41).tolist():
        up = np.arange(users + 1)
        off = (2.0 * up / users - 1.0) * one.scale - x
        chance = binom.pmf(up, users, 0.5 + 0.5 * x / one.scale)
        assert chance[np.abs(off) > bound].sum() <= 1.0 - confidence


@pytest.mark.parametrize("kind", [PrivUnit, DuchiL2])
@pytest.mark.parametrize("dimension", [2, 3, 50])
@pytest.mark.parametrize("eps0", [0.3, 3.0, 20.0])
def test_squares_along_and_across_a_vector(kind: Any, dimension: int, eps0: float) -> None:
    """By quadrature over the angle, whose density is a power of its sine."""
    randomizer = kind(dimension=dimension, eps0=eps0)
    cap, edge = randomizer.cap, math.acos(randomizer.cap.threshold)

    def mean_square(first: float, last: float) -> float:
        parts = [
            integrate.quad(
                lambda x, power=power: math.cos(x) ** power * math.sin(x) ** (dimension - 2),
                first,
                last,
                epsabs=0.0,
                limit=200,
            )[0]
            for power in (2, 0)
        ]
        return float(parts[0] / parts[1])

    along = cap.probability * mean_square(0.0, edge)
    along += (1.0 - cap.probability) * mean_square(edge, math.pi)
    truth = max(along, (1.0 - along) / (dimension - 1)) / cap.mean**2
    assert randomizer.coordinate_moment == pytest.approx(truth, rel=1e-7)
    assert randomizer.largest_coordinate == pytest.approx(1.0 / cap.mean, rel=1e-12)


@pytest.mark.parametrize("kind", [DuchiLInf, SampledCoordinates])
@pytest.mark.parametrize("dimension", [1, 2, 50])
def test_squares_of_coordinates(kind: Any, dimension: int) -> None:
    """All coordinates have one mean square, whatever the vector is."""
    randomizer, count = kind(dimension=dimension, eps0=3.0), 4000
    rows = np.linspace(-1.0, 1.0, dimension) * np.ones((count, 1))
    messages = randomizer.randomize(rows, np.random.default_rng(dimension))
    squares = messages**2
    slack = 5.0 * squares.std(axis=0) / math.sqrt(count) + 1e-9 * randomizer.coordinate_moment
    assert np.all(np.abs(squares.mean(axis=0) - randomizer.coordinate_moment) <= slack)
    assert np.abs(messages).max() == pytest.approx(randomizer.largest_coordinate, rel=1e-12)


@pytest.mark.parametrize("users", [1, 3000, 10**9])
@pytest.mark.parametrize("dimension", [2, 6, 1000])
def test_bounds_of_means_are_not_much_more_than_normal_ones(users: int, dimension: int) -> None:
    """Where there are many users; one alone is off by no more than it can be, times two or so."""
    for kind in VECTORS:
        one = kind(dimension=dimension, eps0=3.0)
        deviation = math.sqrt(one.coordinate_moment / users)
        normal = -norm.ppf(0.025 / dimension) * deviation
        found = one.largest_mean_error(users=users)
        assert found > normal
        if users > 1e6:
            assert found <= 1.4 * normal  # of exponents alone: without the factor in front of them
        elif users > 1:
            assert found <= 2.0 * normal
    with pytest.raises(ValueError, match="confidence must be"):
        one.largest_mean_error(users=users, confidence=1.0)


def law_of_count(holders: int, users: int, held: float, other: float) -> Any:
    """Probabilities of a category's count: two binomial laws, convolved."""
    own, foreign = ((holders, held), (users - holders, other))
    first, second = (binom.pmf(np.arange(n + 1), n, p) for n, p in (own, foreign))
    return np.convolve(first, second)


@pytest.mark.parametrize("failure", [0.4, 0.05, 1e-4])
@pytest.mark.parametrize(("held", "other"), [(0.9, 0.2), (0.5, 0.45), (1.0, 0.1), (0.6, 0.0)])
@pytest.mark.parametrize("users", [1, 2, 7, 40])
def test_intervals_of_a_share_hold_for_every_number_of_holders(
    users: int, held: float, other: float, failure: float
) -> None:
    """By the exact law of the count, which the bound does not use."""
    ends = shares_between(np.arange(users + 1.0), held, other, users=users, failure=failure)
    for holders in range(users + 1):
        outside = (ends[0] > holders / users) | (holders / users > ends[1])
        # the exact law has the rounding of its convolution
        assert law_of_count(holders, users, held, other)[outside].sum() <= failure + 1e-12


@pytest.mark.parametrize("holders", [0, 300, 20_000])
def test_intervals_of_a_share_are_hardly_wider_than_exact_ones(holders: int) -> None:
    """At 20,000 users, against the numbers of holders that the exact tails leave."""
    users, held, other, failure = 20_000, 0.8, 0.01, 1e-3
    count = round(holders * held + (users - holders) * other)
    low, high = shares_between(np.array([count]), held, other, users=users, failure=failure)
    # a normal law has the exact quantiles to within a few per cent there
    deviation = math.sqrt(
        users * other * (1 - other) + holders * (held * (1 - held) - other * (1 - other))
    )
    half = norm.isf(failure / 2) * deviation / (held - other) / users
    for off in (holders / users - low[0], high[0] - holders / users):
        at_the_end = holders in (0, users) and off <= 1 / users
        assert at_the_end or 0.95 * half < off < 1.13 * half


@pytest.mark.parametrize("confidence", [0.9, 0.999])
@pytest.mark.parametrize(
    "make",
    [
        lambda: sa.DiscreteRandomizer([[0.7, 0.3], [0.2, 0.8]]),
        lambda: sa.GaussianVectors(noise_multiplier=2.0),
        lambda: PrivUnit(dimension=3, eps0=2.0),
        lambda: DuchiLInf(dimension=3, eps0=2.0),
    ],
)
def test_every_estimate_has_intervals(make: Callable[[], Any], confidence: float) -> None:
    """All at once and each alone hold as often as they say, but for three standard errors."""
    randomizer, rng, runs, users = make(), np.random.default_rng(7), 60, 400
    vectors = not isinstance(randomizer, sa.DiscreteRandomizer)
    data = np.full((users, 3), 0.5) if vectors else np.arange(users) % 4 // 3
    truth = np.full(3, 0.5) if vectors else np.array([0.75, 0.25])
    slack = 3.0 * math.sqrt(confidence * (1.0 - confidence) / runs)
    held = {True: 0, False: 0}
    for _ in range(runs):
        found = randomizer.estimate(randomizer.randomize(data, rng))
        widths = []
        for together in held:
            low, high = found.interval(confidence=confidence, simultaneous=together)
            inside = (low <= truth) & (truth <= high)
            held[together] += bool(inside.all() if together else inside[0])
            widths.append(np.max(high - low))
        assert widths[0] >= widths[1]
        many = found.interval(confidence=confidence, rounds=52)
        assert np.all(many[0] <= low)
        assert np.all(high <= many[1])
    assert all(count / runs >= confidence - slack for count in held.values())


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    "one",
    [
        sa.NoiseMessages(categories=3, dummies=sa.Poisson(mean=50.0)),
        sa.AugmentedShuffle(
            categories=3, keep=0.6, dummies=sa.Binomial(trials=60, probability=0.5)
        ),
    ],
)
def test_rounds_with_dummies_have_intervals(one: Any, together: bool) -> None:
    """They hold in 95 % of 200 repetitions, but for three standard errors."""
    rng, users, runs = np.random.default_rng(3), 400, 200
    values = np.arange(users) % 4 % 3
    truth, held = np.bincount(values, minlength=3) / users, 0
    for _ in range(runs):
        found = one.estimate(one.shuffled(values, rng), users=users)
        low, high = found.interval(simultaneous=together)
        inside = (low <= truth) & (truth <= high)
        held += bool(inside.all() if together else inside[0])
    assert held / runs >= 0.95 - 3.0 * math.sqrt(0.05 * 0.95 / runs)


def test_intervals_of_hardly_any_confidence_are_in_order() -> None:
    for users in (1, 2, 7):
        counts = np.arange(users + 1.0)
        low, high = shares_between(counts, 0.9, 0.2, users=users, failure=0.999)
        assert np.all(low <= high)
