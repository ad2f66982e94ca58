"""Estimates from messages: unbiased, with the stated variance, whatever the chunks.

Variances are compared with simulations and with the channels' own probabilities of a yes, which the
estimators do not use.
"""

import math
from functools import reduce

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.randomizers.oracles import _count_blocks, split_mix, support_counts
from shuffle_accountant.randomizers.vectors import (
    DuchiL2,
    DuchiLInf,
    PrivUnit,
    SampledCoordinates,
)

ORACLES = [
    sa.RandomizedResponse(categories=6, eps0=1.0),
    sa.RandomizedResponse.from_gamma(categories=5, gamma=0.4),
    sa.BinaryRandomizedResponse(eps0=0.7),
    sa.RAPPOR(categories=6, eps0=2.0),
    sa.HadamardResponse(categories=6, eps0=1.5),
    sa.HadamardResponse(categories=8, eps0=0.5),
    sa.SubsetSelection(categories=7, eps0=1.0, size=3),
    sa.SubsetSelection(categories=6, eps0=2.0),
    sa.LocalHashing(categories=6, eps0=1.0),
    sa.LocalHashing(categories=6, eps0=2.0, buckets=6),
]
VECTORS = [
    PrivUnit(dimension=5, eps0=2.0),
    DuchiL2(dimension=5, eps0=1.0, radius=2.0),
    DuchiLInf(dimension=4, eps0=1.0),
    SampledCoordinates(dimension=5, eps0=3.0, coordinates=2),
    sa.GaussianVectors(noise_multiplier=0.7),
]
# Of about a hundred normal numbers, the largest exceeds 4 once in a hundred and fifty runs; seeds
# are fixed.
SIGMAS = 4.0


def held(categories, users):
    """Values of users, some categories held by many, the last one by none."""
    return np.minimum(np.arange(users) % 5, np.arange(users) % (categories - 1))


def moments_agree(samples, mean, variance):
    """Whether mean and variance of samples, shape (m, k), are the stated ones within 4 sigma."""
    m = len(samples)
    off = samples - mean
    assert np.all(np.abs(off.mean(axis=0)) <= SIGMAS * np.sqrt(variance / m))
    squares = off**2
    # the squares' own spread says how far their mean may be off
    assert np.all(
        np.abs(squares.mean(axis=0) - variance) <= SIGMAS * squares.std(axis=0) / math.sqrt(m)
    )


@pytest.mark.slow
@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_frequencies_are_unbiased_and_vary_as_stated(oracle):
    users, runs = 60, 4000
    values = held(oracle.categories, users)
    shares = np.bincount(values, minlength=oracle.categories) / users
    rng = np.random.default_rng(20)
    messages = oracle.randomize(np.tile(values, (runs, 1)), rng)
    samples = np.array([oracle.estimate(one).values for one in messages])
    stated = np.array([oracle.frequency_error(users=users, frequency=f) for f in shares])
    moments_agree(samples, shares, stated**2)


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_a_yes_is_as_likely_as_the_channel_says(oracle):
    """Against classes of messages, which know nothing of estimates."""
    own, other = oracle.yes_probabilities
    rng = np.random.default_rng(3)
    count = 40_000
    yes = oracle.tally(oracle.randomize(np.zeros(count, dtype=int), rng)) / count
    spread = math.sqrt(0.25 / count)
    assert abs(yes[0] - own) <= SIGMAS * spread
    assert np.all(np.abs(yes[1:] - other) <= SIGMAS * spread)
    assert own > other
    # the pair (own, other) is all that one category's yes tells: it is eps0-private
    assert own <= other * math.exp(oracle.eps0) * (1 + 1e-12)
    assert 1 - other <= (1 - own) * math.exp(oracle.eps0) * (1 + 1e-12)


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_tallies_of_parts_add_up(oracle):
    rng = np.random.default_rng(8)
    values = held(oracle.categories, 1003)
    messages = oracle.randomize(values, rng)
    whole = oracle.estimate(messages)
    parts = [messages[:10], messages[10:11], messages[11:11], messages[11:]]
    tally = reduce(np.add, [oracle.tally(part) for part in parts])
    merged = oracle.estimate_from(tally, 1003)
    assert tally.dtype == np.int64
    assert np.array_equal(merged.values, whole.values)
    assert np.array_equal(merged.standard_errors, whole.standard_errors)
    assert merged.users == whole.users == 1003


def test_standard_errors_take_the_estimate_for_the_truth():
    oracle = sa.RAPPOR(categories=4, eps0=2.0)
    values = np.repeat([0, 1, 2], [600, 300, 100])
    found = oracle.estimate(oracle.randomize(values, np.random.default_rng(1)))
    for value, error in zip(found.values, found.standard_errors, strict=True):
        share = min(max(float(value), 0.0), 1.0)
        assert error == pytest.approx(oracle.frequency_error(users=1000, frequency=share))


def test_truth_without_noise_is_estimated_exactly():
    oracle = sa.RandomizedResponse(categories=3, eps0=math.inf)
    found = oracle.estimate([0, 0, 2, 1])
    assert found.values.tolist() == [0.5, 0.25, 0.25]
    assert found.standard_errors.tolist() == [0.0, 0.0, 0.0]
    assert repr(found) == "Estimate([0.5 ± 0, 0.25 ± 0, 0.25 ± 0], users=4)"


@pytest.mark.parametrize("randomizer", VECTORS, ids=repr)
def test_means_are_unbiased_and_vary_as_stated(randomizer):
    users, runs = 8, 4000
    dimension = getattr(randomizer, "dimension", 3)
    rng = np.random.default_rng(5)
    vector = np.linspace(-0.4, 0.5, dimension)
    rows = np.tile(vector, (users * runs, 1))
    messages = randomizer.randomize(rows, rng).reshape(runs, users, dimension)
    found = [randomizer.estimate(one) for one in messages]
    samples = np.array([one.values for one in found])
    errors = np.array([one.standard_errors for one in found])
    per_coordinate = messages.reshape(-1, dimension).var(axis=0)
    moments_agree(samples, vector, per_coordinate / users)
    if hasattr(randomizer, "variance"):  # the sum over coordinates is known
        norm = float(np.linalg.norm(vector))
        total = ((samples - vector) ** 2).sum(axis=1)
        assert abs(total.mean() - randomizer.variance(norm) / users) <= (
            SIGMAS * total.std() / math.sqrt(runs)
        )
    # all users hold the same vector, so squared standard errors are unbiased
    moments = errors**2
    spread = moments.std(axis=0) / math.sqrt(runs)
    assert np.all(np.abs(moments.mean(axis=0) - per_coordinate / users) <= SIGMAS * spread + 0.02)


@pytest.mark.parametrize("randomizer", VECTORS, ids=repr)
def test_tallies_of_vectors_add_up(randomizer):
    dimension = getattr(randomizer, "dimension", 3)
    rng = np.random.default_rng(6)
    messages = randomizer.randomize(np.full((501, dimension), 0.1), rng)
    whole = randomizer.estimate(messages)
    tally = randomizer.tally(messages[:77]) + randomizer.tally(messages[77:])
    merged = randomizer.estimate_from(tally, 501)
    # sums of 64-bit floats in another order
    assert merged.values == pytest.approx(whole.values, rel=1e-12, abs=1e-12)
    assert merged.standard_errors == pytest.approx(whole.standard_errors, rel=1e-10)


def test_one_vector_says_nothing_of_its_error():
    found = PrivUnit(dimension=2, eps0=1.0).estimate([[1.0, 2.0]])
    assert found.values.tolist() == [1.0, 2.0]
    assert found.standard_errors.tolist() == [math.inf, math.inf]


def test_hashes_are_those_of_the_published_generator():
    """The first outputs of SplitMix64 from the seed 1234567, as its authors' code prints them."""
    start = np.full(3, 1234567, dtype=np.uint64)
    outputs = split_mix(start, np.arange(1, 4, dtype=np.uint64))
    assert outputs.tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@pytest.mark.parametrize("modulus", [2, 3, 4, 6, 7, 8, 12, 21, 1000, 2**40, 2**53])
def test_counts_without_division_are_those_with_it(modulus):
    rng = np.random.default_rng(modulus)
    seeds = rng.integers(2**63, size=400)
    oracle = sa.LocalHashing(categories=31, eps0=1.0, buckets=modulus)
    # half of the buckets are those of some category, so that large moduli are hit too
    own = oracle.hash(seeds, rng.integers(31, size=400))
    buckets = np.where(rng.random(400) < 0.5, own, rng.integers(modulus, size=400))
    counted = support_counts(seeds, buckets, 31, modulus)
    divided = _count_blocks(seeds.astype(np.uint64), buckets.astype(np.uint64), 31, modulus)
    hashed = np.count_nonzero(
        oracle.hash(seeds[:, None], np.arange(31)) == buckets[:, None], axis=0
    )
    assert np.array_equal(counted, divided)
    assert np.array_equal(counted, hashed)
    assert counted.sum() >= 150


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda o: o.estimate([0, 9]), ValueError, "messages must be integers in"),
        (lambda o: o.estimate([0.5]), TypeError, "messages must be integers in"),
        (lambda o: o.estimate([]), ValueError, "users must be an integer >= 1, got 0"),
        (lambda o: o.estimate_from([1, 2, 3], 3), ValueError, r"tally must have shape \(4,\)"),
        (lambda o: o.estimate_from([1, 2, 3, 9], 3), ValueError, "tally must hold counts in"),
        (lambda o: o.estimate_from([1, -2, 3, 1], 3), ValueError, "tally must hold counts in"),
        (lambda o: o.estimate_from(["a"] * 4, 3), TypeError, "tally must be numbers"),
        (lambda o: o.estimate_from([0, 0, 0, 0], 0), ValueError, "users must be an integer >= 1"),
        (lambda o: o.frequency_error(users=3, frequency=1.5), ValueError, "frequency must be"),
    ],
)
def test_bad_input_is_one_line(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call(sa.RandomizedResponse(categories=4, eps0=1.0))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("oracle", "messages", "words"),
    [
        (sa.RAPPOR(categories=3, eps0=1.0), [[True, False]], r"messages must have shape"),
        (sa.SubsetSelection(categories=5, eps0=1.0, size=2), [[1, 1]], "rising order"),
        (sa.SubsetSelection(categories=5, eps0=1.0, size=2), [[1, 2, 3]], "must have shape"),
        (sa.LocalHashing(categories=5, eps0=1.0, buckets=3), [[1, 3]], "buckets must be"),
        (sa.LocalHashing(categories=5, eps0=1.0, buckets=3), [[1, 2, 3]], "must be seeds"),
        (sa.HadamardResponse(categories=5, eps0=1.0), [8], "messages must be integers"),
        (PrivUnit(dimension=3, eps0=1.0), [[1.0, 2.0]], "messages must be an array of shape"),
        (sa.GaussianVectors(noise_multiplier=1.0), 3.0, "messages must be vectors"),
        (sa.RandomizedResponse(categories=3, eps0=0.0), [1], "eps0 must be > 0"),
    ],
)
def test_what_is_no_message_is_told(oracle, messages, words):
    with pytest.raises(ValueError, match=words):
        oracle.estimate(messages)


def test_bits_must_be_bits():
    with pytest.raises(TypeError, match="messages must be bits"):
        sa.RAPPOR(categories=2, eps0=1.0).estimate([[0, 1]])
