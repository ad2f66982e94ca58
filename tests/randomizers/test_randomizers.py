"""Randomized response, channels and noise against their definitions.

Channels are written out in plain Python, parameters computed in 50 digits, samples compared with
the laws they should have.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracles import channels
from oracles.letter_classes import (
    check_distribution,
    check_frequencies,
    grouped,
    listed,
    same,
    some_inputs,
)

from shuffle_accountant.randomizers.base import (
    ConcreteRandomizer,
    FiniteRandomizer,
)
from shuffle_accountant.randomizers.channel import DiscreteRandomizer
from shuffle_accountant.randomizers.noise import GaussianRandomizer, LaplaceRandomizer
from shuffle_accountant.randomizers.randomized_response import (
    BinaryRandomizedResponse,
    RandomizedResponse,
)
from shuffle_accountant.randomizers.registry import randomizer_from_dict

# Parameters are found with at most six roundings, each of half a unit in the last place.
FEW_ULPS = 1e-15
# A privacy parameter that is not given is then rounded up by eight more halves.
ROUNDED_UP = 2e-15

SURVEY = ((0.6, 0.3, 0.1), (0.2, 0.6, 0.2), (0.1, 0.3, 0.6))
EXAMPLES: list[ConcreteRandomizer] = [
    RandomizedResponse(categories=4, eps0=2.0),
    RandomizedResponse(categories=3, eps0=0.0),
    RandomizedResponse(categories=2**53, eps0=math.inf),
    RandomizedResponse.from_gamma(categories=4, gamma=0.25),
    BinaryRandomizedResponse(eps0=1.0),
    DiscreteRandomizer(SURVEY),
    DiscreteRandomizer([[1, 0], [0, 1]]),
    LaplaceRandomizer(eps0=1.5),
    GaussianRandomizer(sigma=2.0),
]
FINITE: list[FiniteRandomizer] = [
    *(
        RandomizedResponse(categories=k, eps0=e)
        for k in (2, 3, 4, 5)
        for e in (0.0, 1e-3, 1.0, 6.0, math.inf)
    ),
    RandomizedResponse.from_gamma(categories=3, gamma=0.3),
    RandomizedResponse.from_gamma(categories=3, gamma=1.0),
    *(
        DiscreteRandomizer(channels.random_channel(np.random.default_rng(seed), 1.0))
        for seed in range(12)
    ),
    DiscreteRandomizer([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.25, 0.5, 0.25]]),
]


def columns_of(randomizer: FiniteRandomizer) -> list[list[float]]:
    """Every message's probabilities, one per input."""
    if isinstance(randomizer, DiscreteRandomizer):
        table: list[list[float]] = randomizer.channel.T.tolist()
        return table
    k, other = randomizer.inputs, randomizer.blanket_mass / randomizer.inputs
    own = 1.0 - (k - 1) * other
    return [[own if x == y else other for x in range(k)] for y in range(k)]


# Finite randomizers


@pytest.mark.parametrize("randomizer", FINITE, ids=lambda r: f"{r!r:.60}")
def test_classes_are_the_channel(randomizer: FiniteRandomizer) -> None:
    columns = columns_of(randomizer)
    for inputs in some_inputs(randomizer.inputs):
        classes = randomizer.classes(inputs)
        assert classes.shape[0] == len(inputs) + 1
        messages = classes.T.tolist()
        assert same(grouped(messages), listed(columns, inputs)), inputs


@pytest.mark.parametrize("randomizer", FINITE, ids=lambda r: f"{r!r:.60}")
def test_eps0_and_blanket_mass(randomizer: FiniteRandomizer) -> None:
    columns = columns_of(randomizer)
    # the columns' entries are good to 1e-15 of one, their ratio to that over the smaller one
    assert randomizer.eps0 == pytest.approx(
        channels.local_epsilon(np.transpose(columns).tolist()), rel=1e-11, abs=1e-14
    )
    mass = math.fsum(map(min, columns))
    assert randomizer.blanket_mass == pytest.approx(mass, rel=1e-14)
    assert 0.0 <= randomizer.blanket_mass <= 1.0


@pytest.mark.parametrize("randomizer", FINITE, ids=lambda r: f"{r!r:.60}")
def test_every_pair_and_dataset_has_a_representative(randomizer: FiniteRandomizer) -> None:
    columns = columns_of(randomizer)
    pairs = [listed(columns, pair) for pair in randomizer.input_pairs()]
    if randomizer.symmetric:
        pairs += [listed(columns, pair[::-1]) for pair in randomizer.input_pairs()]
    triples = [listed(columns, triple) for triple in randomizer.datasets()]
    for x0, x1 in permutations(range(randomizer.inputs), 2):
        looks = listed(columns, (x0, x1)), listed(columns, (x1, x0))
        assert any(same(look, pair) for look in looks for pair in pairs)
        if randomizer.symmetric:
            assert same(*looks)
        for others in range(randomizer.inputs):
            this = listed(columns, (x0, x1, others))
            assert any(same(this, triple) for triple in triples)
    assert all(x0 != x1 for x0, x1, _ in randomizer.datasets())


@pytest.mark.parametrize("randomizer", FINITE[::2], ids=lambda r: f"{r!r:.60}")
def test_samples_have_the_channel_s_frequencies(randomizer: FiniteRandomizer) -> None:
    rows = np.transpose(columns_of(randomizer))
    rng = np.random.default_rng(20240607)
    values = np.repeat(np.arange(randomizer.inputs), 10_000)
    messages = randomizer.randomize(rng.permuted(values), np.random.default_rng(1))
    assert messages.dtype == np.int64
    messages = randomizer.randomize(values, rng)
    for x, row in enumerate(rows):
        counts = np.bincount(messages[values == x], minlength=row.size)
        assert counts.size == row.size
        check_frequencies(counts, row, len(FINITE) * rows.size)


@pytest.mark.parametrize("randomizer", EXAMPLES, ids=lambda r: f"{r!r:.60}")
def test_any_shape_and_the_same_messages_from_the_same_seed(
    randomizer: ConcreteRandomizer,
) -> None:
    values = np.random.default_rng(1).integers(2, size=(3, 5, 7))
    messages = randomizer.randomize(values, np.random.default_rng(2))
    again = randomizer.randomize(values.tolist(), np.random.default_rng(2))
    assert messages.shape == values.shape
    assert np.array_equal(messages, again)
    assert randomizer.randomize([], np.random.default_rng(2)).shape == (0,)
    assert randomizer.randomize(1, np.random.default_rng(2)).shape == ()


# Randomized response

# At least 2, at most 2^53, small and large ones alike.
MANY = st.one_of(
    st.integers(2, 20), st.floats(1.0, 53.0).map(lambda x: int(2.0**x)), st.just(2**53)
)


def exponents(low: int, high: int) -> st.SearchStrategy[float]:
    """Numbers of all sizes from 10^low to 10^high."""
    return st.floats(low, high).map(lambda x: float(10.0**x))


@given(MANY, st.one_of(exponents(-300, 0), st.floats(0.0, 650.0)))
def test_gamma_of_eps0(categories: int, eps0: float) -> None:
    randomizer = RandomizedResponse(categories=categories, eps0=eps0)
    assert randomizer.eps0 == eps0
    with mpmath.workdps(400):  # 1 - gamma may be as small as 1e-316
        k, e = mpmath.mpf(categories), mpmath.exp(mpmath.mpf(eps0))
        gamma = k / (e + k - 1)
        keep = float(e / (e + k - 1))
        truthful = float(1 - gamma)
    assert randomizer.gamma == pytest.approx(float(gamma), rel=FEW_ULPS)
    # below 1e-307 doubles are further apart
    assert randomizer.truthful == pytest.approx(truthful, rel=FEW_ULPS, abs=1e-322)
    assert randomizer.keep_probability == pytest.approx(keep, rel=FEW_ULPS)
    assert randomizer.lie_probability == pytest.approx(float(gamma / k), rel=FEW_ULPS)


@given(MANY, st.one_of(exponents(-300, 0), st.floats(0.0, 1.0), exponents(-16, 0)), st.booleans())
def test_eps0_of_gamma(categories: int, size: float, near_one: bool) -> None:
    gamma = 1.0 - size if near_one else size
    randomizer = RandomizedResponse.from_gamma(categories=categories, gamma=gamma)
    assert randomizer.gamma == gamma
    if gamma == 0.0:
        assert randomizer.eps0 == math.inf
        return
    with mpmath.workdps(400):
        exact = mpmath.mpf(gamma)
        truthful, eps0 = 1 - exact, mpmath.log1p((1 - exact) * categories / exact)
        truthful, eps0 = float(truthful), float(eps0)
    assert randomizer.truthful == pytest.approx(truthful, rel=FEW_ULPS)
    assert randomizer.eps0 == pytest.approx(eps0, rel=ROUNDED_UP, abs=0.0)
    assert randomizer.eps0 >= eps0 * (1.0 - 2.0**-53)


def test_ends_of_the_range() -> None:
    never = RandomizedResponse(categories=4, eps0=math.inf)
    assert (never.gamma, never.truthful, never.keep_probability) == (0.0, 1.0, 1.0)
    assert never == RandomizedResponse.from_gamma(categories=4, gamma=0.0)
    always = RandomizedResponse(categories=4, eps0=-0.0)
    assert (always.gamma, always.truthful, always.keep_probability) == (1.0, 0.0, 0.25)
    assert always == RandomizedResponse.from_gamma(categories=4, gamma=1.0)
    assert math.copysign(1.0, always.eps0) == 1.0
    tiny = RandomizedResponse.from_gamma(categories=2**53, gamma=5e-324)
    # log 2^53 + log 2^1074; the logarithms are good to a unit in the last place
    assert tiny.eps0 == pytest.approx(1127 * math.log(2.0), rel=FEW_ULPS)
    far = RandomizedResponse(categories=2**53, eps0=760.0)  # e^-760 is no double, gamma is one
    assert far.gamma == pytest.approx(float(2**53 * mpmath.exp(-760)), rel=1e-13)
    beyond = RandomizedResponse(categories=4, eps0=1e5)
    assert (beyond.gamma, beyond.eps0) == (0.0, 1e5)


def test_many_categories_cost_no_more_than_few() -> None:
    randomizer = RandomizedResponse(categories=2**53, eps0=30.0)
    classes = randomizer.classes((0, 2**53 - 1, 7))
    assert classes[-1].size == 4
    for row in classes[:-1]:
        assert math.fsum(row) == pytest.approx(1.0, rel=FEW_ULPS)
    assert math.fsum(classes[-1]) == pytest.approx(randomizer.gamma, rel=FEW_ULPS)
    values = np.full(1000, 2**53 - 1)
    messages = randomizer.randomize(values, np.random.default_rng(0))
    assert messages.min() >= 0
    assert messages.max() == 2**53 - 1
    # two inputs and no others
    assert BinaryRandomizedResponse(eps0=1.0).classes((0, 1))[-1].size == 2


def test_binary_randomized_response_is_randomized_response() -> None:
    assert BinaryRandomizedResponse(eps0=1.0) == RandomizedResponse(categories=2, eps0=1.0)
    flip = BinaryRandomizedResponse(eps0=1.0).lie_probability
    assert flip == pytest.approx(1.0 / (math.e + 1.0), rel=FEW_ULPS)


# Channels


def test_a_channel_cannot_be_changed() -> None:
    given_channel = np.array(SURVEY)
    randomizer = DiscreteRandomizer(given_channel)
    given_channel[0, 0] = 0.5
    assert randomizer.channel.tolist() == [list(row) for row in SURVEY]
    with pytest.raises(ValueError, match="read-only"):
        randomizer.channel[0, 0] = 0.5
    with pytest.raises(ValueError, match="WRITEABLE"):
        randomizer.channel.flags.writeable = True
    assert DiscreteRandomizer(np.asfortranarray(SURVEY)) == randomizer
    assert DiscreteRandomizer([[1, -0.0], [0.5, 0.5]]) == DiscreteRandomizer([[1, 0], [0.5, 0.5]])
    assert DiscreteRandomizer([[0.5, 0.5]] * 4) != DiscreteRandomizer([[0.5, 0.5]] * 3)


def test_equal_columns_share_a_class() -> None:
    k = 300
    table = np.full((k, k), 0.5 / (k - 1)) + np.eye(k) * (0.5 - 0.5 / (k - 1))
    classes = DiscreteRandomizer(table).classes((3, 5))
    assert classes[-1].size == 3
    assert classes[:-1].sum(axis=1) == pytest.approx([1.0, 1.0], rel=1e-14)
    assert classes[-1].max() == pytest.approx((k - 2) * 0.5 / (k - 1), rel=1e-14)


def test_channels_of_extreme_ratios() -> None:
    small = 1e-320  # 1 / small is no double
    randomizer = DiscreteRandomizer([[small, 1.0], [1.0, small]])
    # rounded up by what two logarithms may be off
    assert randomizer.eps0 == pytest.approx(float(-mpmath.log(small)), rel=4 * FEW_ULPS)
    assert randomizer.symmetric
    near = DiscreteRandomizer([[0.5, 0.5], [0.5 + 2**-50, 0.5 - 2**-50]])
    # log(max/min) of the second column: 2^-49, and half its square
    assert near.eps0 == pytest.approx(2.0**-49, rel=1e-14)
    # 0.6 and 0.2 are rounded before their ratio is
    assert DiscreteRandomizer(SURVEY[:2]).eps0 == pytest.approx(math.log(3.0), rel=FEW_ULPS)
    assert not DiscreteRandomizer(SURVEY[:2]).symmetric
    assert DiscreteRandomizer([[1.0], [1.0]]).eps0 == 0.0


def with_entry(value: Any) -> Any:
    """A channel with one entry replaced."""
    return [[0.5, 0.5], [0.5, value]]


@pytest.mark.parametrize(
    ("channel", "error", "words"),
    [
        (0.5, ValueError, "2 dimensions.*got 0"),
        ([0.5, 0.5], ValueError, "2 dimensions.*got 1"),
        ([[[0.5, 0.5]]], ValueError, "2 dimensions.*got 3"),
        ([[0.5, 0.5]], ValueError, ">= 2 rows.*got 1"),
        (np.zeros((2, 0)), ValueError, "rows that sum to 1.*got 0.0"),
        ([[0.5, 0.5], [1.0]], ValueError, "equal lengths"),
        (with_entry(math.nan), ValueError, r"in \[0, 1\], got nan at \(1, 1\)"),
        (with_entry(math.inf), ValueError, r"in \[0, 1\], got inf"),
        (with_entry(-1e-9), ValueError, r"in \[0, 1\], got -1e-09"),
        (with_entry(1.5), ValueError, r"in \[0, 1\], got 1.5"),
        (with_entry(0.5 + 2e-9), ValueError, "rows that sum to 1.*row 1"),
        ([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], ValueError, "column of zeros, got one at 2"),
        (with_entry("0.5"), TypeError, "numbers"),
        (with_entry(0.5j), TypeError, "numbers"),
        ([[True, False], [False, True]], TypeError, "numbers"),
        (None, TypeError, "numbers"),
        ("channel", TypeError, "numbers"),
    ],
)
def test_bad_channels(channel: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"channel must.*{words}") as caught:
        DiscreteRandomizer(channel)
    assert "\n" not in str(caught.value)


def test_rows_may_be_off_by_round_off() -> None:
    off = DiscreteRandomizer([[0.5, 0.5 + 9e-10], [1.0 + 9e-10, 0.0]])
    assert off.blanket_mass == pytest.approx(0.5, rel=1e-9)
    thirds = DiscreteRandomizer([[1 / 3] * 3, [0.2, 0.4, 0.4]])
    assert thirds.randomize([0, 1], np.random.default_rng(0)).shape == (2,)


# Noise


@pytest.mark.parametrize("eps0", [0.1, 1.0, 8.0])
def test_laplace(eps0: float) -> None:
    randomizer = LaplaceRandomizer(eps0=eps0)
    assert randomizer.eps0 == eps0
    inputs = [0.0, 0.25, 0.5, 1.0]

    def density(y: mpmath.mpf, x: float) -> mpmath.mpf:
        return eps0 / 2 * mpmath.exp(-eps0 * abs(y - x))

    mass = mpmath.quad(
        lambda y: min(density(y, x) for x in inputs), [-mpmath.inf, 0, 0.25, 0.5, 1, mpmath.inf]
    )
    assert randomizer.blanket_mass == pytest.approx(float(mass), rel=1e-9)  # of the quadrature
    for x in inputs:
        sample = np.sort(randomizer.randomize(np.full(50_000, x), np.random.default_rng(3)))
        below = 0.5 * np.exp(-eps0 * np.abs(sample - x))
        check_distribution(sample, np.where(sample < x, below, 1.0 - below))


@pytest.mark.parametrize("sigma", [0.3, 2.0, 40.0])
def test_gaussian(sigma: float) -> None:
    randomizer = GaussianRandomizer(sigma=sigma)
    assert (randomizer.sigma, randomizer.eps0) == (sigma, math.inf)
    with mpmath.workdps(40):
        mass = 2 * mpmath.ncdf(-1 / (2 * mpmath.mpf(sigma)))
    # the argument's rounding error grows with its square: 2.4 of them at sigma = 0.3
    assert randomizer.blanket_mass == pytest.approx(float(mass), rel=10 * FEW_ULPS)
    for x in (0, 1):
        sample = np.sort(randomizer.randomize(np.full(50_000, x), np.random.default_rng(4)))
        cdf = [0.5 * math.erfc((x - y) / sigma / math.sqrt(2.0)) for y in sample.tolist()]
        check_distribution(sample, np.array(cdf))


# Values, text, JSON, bad input


@pytest.mark.parametrize("randomizer", EXAMPLES, ids=lambda r: f"{r!r:.60}")
def test_compared_by_value_written_as_text_and_json(randomizer: ConcreteRandomizer) -> None:
    copies = [
        eval(repr(randomizer)),
        randomizer_from_dict(json.loads(json.dumps(randomizer.to_dict(), allow_nan=False))),
    ]
    for copy in copies:
        assert type(copy) is type(randomizer)
        assert copy == randomizer
        assert hash(copy) == hash(randomizer)
        assert repr(copy) == repr(randomizer)
        if isinstance(copy, RandomizedResponse):
            assert copy.truthful == randomizer.truthful  # type: ignore[attr-defined]
    others = [other for other in EXAMPLES if other is not randomizer]
    assert randomizer not in others
    with pytest.raises(AttributeError):
        randomizer.anything = 3  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="must have fields"):
        type(randomizer).from_fields({"extra": 1})


@given(MANY, st.one_of(exponents(-300, 2), st.floats(0.0, 800.0)))
def test_json_keeps_every_bit(categories: int, eps0: float) -> None:
    randomizer = RandomizedResponse(categories=categories, eps0=eps0)
    again = randomizer_from_dict(json.loads(json.dumps(randomizer.to_dict())))
    assert isinstance(again, RandomizedResponse)
    assert (again, again.truthful) == (randomizer, randomizer.truthful)


@pytest.mark.parametrize(
    ("make", "error", "name"),
    [
        (lambda: RandomizedResponse(categories=1, eps0=1.0), ValueError, "categories"),
        (lambda: RandomizedResponse(categories=2**53 + 1, eps0=1.0), ValueError, "categories"),
        (lambda: RandomizedResponse(categories=4.5, eps0=1.0), TypeError, "categories"),
        (lambda: RandomizedResponse(categories=4, eps0=-1.0), ValueError, "eps0"),
        (lambda: RandomizedResponse(categories=4, eps0=math.nan), ValueError, "eps0"),
        (lambda: RandomizedResponse(categories=4, eps0="1"), TypeError, "eps0"),
        (lambda: RandomizedResponse.from_gamma(categories=4, gamma=1.1), ValueError, "gamma"),
        (lambda: RandomizedResponse.from_gamma(categories=4, gamma=-0.1), ValueError, "gamma"),
        (lambda: RandomizedResponse.from_gamma(categories=1, gamma=0.1), ValueError, "categories"),
        (lambda: BinaryRandomizedResponse(eps0=-1.0), ValueError, "eps0"),
        (lambda: LaplaceRandomizer(eps0=0.0), ValueError, "eps0"),
        (lambda: LaplaceRandomizer(eps0=math.inf), ValueError, "eps0"),
        (lambda: LaplaceRandomizer(eps0=None), TypeError, "eps0"),
        (lambda: GaussianRandomizer(sigma=0.0), ValueError, "sigma"),
        (lambda: GaussianRandomizer(sigma=math.nan), ValueError, "sigma"),
        (lambda: GaussianRandomizer(sigma=True), TypeError, "sigma"),
    ],
)
def test_bad_parameters(make: Callable[[], object], error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=f"{name} must be") as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("randomizer", EXAMPLES, ids=lambda r: f"{r!r:.60}")
def test_bad_values(randomizer: ConcreteRandomizer) -> None:
    rng = np.random.default_rng(0)
    wrong: list[Any] = [[-1], [0, 2**53 + 1], np.uint64([2**64 - 1]), [[0, 1], [1]]]
    for values in wrong:
        with pytest.raises(ValueError, match="values must be") as caught:
            randomizer.randomize(values, rng)
        assert "\n" not in str(caught.value)
    for values in (["a"], [True], None, [1j], [2**70]):
        with pytest.raises(TypeError, match="values must be"):
            randomizer.randomize(values, rng)
    for no_rng in (0, np.random.RandomState(0)):
        with pytest.raises(TypeError, match="rng must be a Generator"):
            randomizer.randomize([0], no_rng)  # type: ignore[arg-type]


def test_values_are_of_the_right_kind() -> None:
    rng = np.random.default_rng(0)
    for value in (math.nan, 1.0 + 1e-9, -1e-300, math.inf):
        with pytest.raises(ValueError, match=r"numbers in \[0, 1\]"):
            LaplaceRandomizer(eps0=1.0).randomize([value], rng)
    for randomizer in (GaussianRandomizer(sigma=1.0), DiscreteRandomizer(SURVEY)):
        with pytest.raises(TypeError, match="integers"):
            randomizer.randomize([0.5], rng)


@pytest.mark.parametrize("randomizer", FINITE[-2:] + FINITE[:1], ids=lambda r: f"{r!r:.60}")
def test_bad_inputs(randomizer: FiniteRandomizer) -> None:
    wrong: list[tuple[Any, type[Exception]]] = [
        ((), ValueError),
        ((0, 99), ValueError),
        ((-1, 0), ValueError),
        ((0, 1.5), TypeError),
    ]
    for inputs, error in wrong:
        with pytest.raises(error, match="inputs must"):
            randomizer.classes(inputs)


def test_wide_channel_sampling_uses_every_row() -> None:
    """Each input of a permutation channel sends its own message."""
    order: NDArray[np.int64] = np.random.default_rng(5).permutation(50)
    randomizer = DiscreteRandomizer(np.eye(50)[order])
    values = np.arange(50).repeat(3).reshape(3, 50)
    assert np.array_equal(randomizer.randomize(values, np.random.default_rng(6)), order[values])
