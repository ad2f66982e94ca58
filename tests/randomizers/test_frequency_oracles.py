"""Frequency oracles against their channels, listed message by message from their definitions.

The channels below use neither the package's classes nor its closed forms: every message, its
probability under every input, and the blanket as the smallest of these.
"""

import functools
import itertools
import json
import math
from collections import Counter

import mpmath
import numpy as np
import pytest
from oracles.letter_classes import check_frequencies, grouped, listed, same, some_inputs

import shuffle_accountant as sa
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.oracles import (
    RAPPOR,
    HadamardResponse,
    LocalHashing,
    SubsetSelection,
)
from shuffle_accountant.randomizers.registry import randomizer_from_dict

EPS0 = (0.01, 1.0, 4.0)
SMALL = [
    *(RAPPOR(categories=k, eps0=e) for k in (2, 3, 4, 5) for e in EPS0),
    *(
        SubsetSelection(categories=k, eps0=e, size=d)
        for k in (2, 3, 4, 5, 6)
        for d in range(1, k)
        for e in EPS0
    ),
    *(
        LocalHashing(categories=k, eps0=e, buckets=g)
        for k in (2, 3, 4)
        for g in (2, 3)
        for e in EPS0
    ),
    *(HadamardResponse(categories=k, eps0=e) for k in range(2, 8) for e in EPS0),
]
KINDS = (RAPPOR, SubsetSelection, LocalHashing, HadamardResponse)


@functools.cache
def merged(randomizer):
    """The channel, of which messages with the same probabilities are one."""
    counts = Counter(map(tuple, channel(randomizer)))
    return [[count * mass for mass in row] for row, count in counts.items()]


def channel(randomizer):
    """Every message's probabilities, one per input."""
    e, k = math.exp(randomizer.eps0), randomizer.categories
    match randomizer:
        case RAPPOR():
            flip = 1 / (math.exp(randomizer.eps0 / 2) + 1)
            return [
                [
                    math.prod(1 - flip if bit == (i == x) else flip for i, bit in enumerate(y))
                    for x in range(k)
                ]
                for y in itertools.product((0, 1), repeat=k)
            ]
        case SubsetSelection():
            sets = list(itertools.combinations(range(k), randomizer.size))
            total = sum(e if 0 in s else 1.0 for s in sets)
            return [[(e if x in s else 1.0) / total for x in range(k)] for s in sets]
        case LocalHashing():
            g = randomizer.buckets
            return [
                [(e if h[x] == y else 1.0) / (e + g - 1) / g**k for x in range(k)]
                for h in itertools.product(range(g), repeat=k)
                for y in range(g)
            ]
        case HadamardResponse():
            letters = next(2**i for i in range(1, 10) if 2**i > k)
            return [
                [
                    2 * (1 if ((x + 1) & y).bit_count() % 2 else e) / (letters * (1 + e))
                    for x in range(k)
                ]
                for y in range(letters)
            ]
    raise AssertionError(randomizer)


@pytest.mark.slow
@pytest.mark.parametrize("randomizer", SMALL, ids=repr)
def test_classes_are_the_channel(randomizer):
    rows = merged(randomizer)
    for x in range(randomizer.inputs):
        assert math.fsum(row[x] for row in rows) == pytest.approx(1.0, rel=1e-12)
    for inputs in some_inputs(randomizer.inputs):
        classes = randomizer.classes(inputs)
        assert classes.shape[0] == len(inputs) + 1
        assert classes[-1].size <= 9
        assert np.all(classes[-1] > 0.0)
        columns = classes.T.tolist()
        assert same(grouped(columns), listed(rows, inputs)), inputs


@pytest.mark.parametrize("randomizer", SMALL, ids=repr)
def test_eps0_and_blanket_mass(randomizer):
    rows = channel(randomizer)
    largest = max(math.log(max(row) / min(row)) for row in rows)
    assert largest == pytest.approx(randomizer.eps0, rel=1e-12, abs=1e-14)
    mass = math.fsum(map(min, rows))
    assert randomizer.blanket_mass == pytest.approx(mass, rel=1e-12)
    assert 0.0 <= randomizer.blanket_mass <= 1.0
    assert math.fsum(randomizer.classes((0, 1))[-1]) == pytest.approx(mass, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("randomizer", SMALL, ids=repr)
def test_every_pair_and_dataset_has_a_representative(randomizer):
    """Every pair and triple looks like one of those listed; the blanket is compared too."""
    rows, k = merged(randomizer), randomizer.inputs
    assert randomizer.symmetric
    assert randomizer.input_pairs() == ((0, 1),)
    pair = listed(rows, (0, 1))
    triples = [listed(rows, triple) for triple in randomizer.datasets()]
    for x0, x1 in itertools.permutations(range(k), 2):
        assert same(listed(rows, (x0, x1)), pair)
        for others in range(k):
            this = listed(rows, (x0, x1, others))
            assert any(same(this, triple) for triple in triples)
    for x0, x1, others in randomizer.datasets():
        assert x0 != x1
        assert max(x0, x1, others) < k


def test_datasets():
    assert RAPPOR(categories=2, eps0=1.0).datasets() == ((0, 1, 0), (0, 1, 1))
    assert RAPPOR(categories=9, eps0=1.0).datasets() == ((0, 1, 0), (0, 1, 1), (0, 1, 2))
    # of three rows of a Hadamard matrix, one may be the product of the other two
    assert len(HadamardResponse(categories=3, eps0=1.0).datasets()) == 3
    assert HadamardResponse(categories=4, eps0=1.0).datasets()[2:] == ((0, 1, 2), (0, 1, 3))


@pytest.mark.parametrize("categories", [1000, 10**6, 2**53], ids=str)
@pytest.mark.parametrize("eps0", [1e-9, 1.0, 20.0, 600.0])
@pytest.mark.parametrize("kind", KINDS)
def test_many_categories(kind, eps0, categories):
    randomizer = kind(categories=categories, eps0=eps0)
    for inputs in ((0, 1), (5, 17, 998), (0, 1, 2), (3, 3)):
        classes = randomizer.classes(inputs)
        for row in classes[:-1]:
            assert math.fsum(row) == pytest.approx(1.0, rel=1e-13)
        assert math.fsum(classes[-1]) == pytest.approx(randomizer.blanket_mass, rel=1e-13)
        assert np.all(classes[-1] <= classes[:-1] * (1 + 1e-15))
        assert np.all((classes[-1] > 0.0) | classes[:-1].any(axis=0))


@pytest.mark.parametrize("categories", [2, 3, 64, 1000])
@pytest.mark.parametrize("eps0", [1e-12, 1e-3, 1.0, 9.0, 100.0, 650.0])
def test_blanket_mass_in_closed_form(eps0, categories):
    """The formulas one finds by summing the smallest probability over all messages, in 50 digits.

    The package adds up to three products of a few factors, each good to a unit in its last place.
    """
    for randomizer in (kind(categories=categories, eps0=eps0) for kind in KINDS):
        with mpmath.workdps(50):
            k, e = mpmath.mpf(categories), mpmath.exp(mpmath.mpf(eps0))
            match randomizer:
                case RAPPOR():
                    odds = 1 / mpmath.sqrt(e)
                    mass = odds + (odds / (1 + odds)) ** (k - 1) * (1 - odds)
                case SubsetSelection():
                    mass = k / (randomizer.size * e + k - randomizer.size)
                case LocalHashing():
                    g = mpmath.mpf(randomizer.buckets)
                    mass = g / (e + g - 1) * (1 + (e - 1) / g**k)
                case HadamardResponse():
                    mass = 2 / (1 + e) * (1 + (e - 1) / randomizer.columns)
            mass = float(mass)
        assert randomizer.blanket_mass == pytest.approx(mass, rel=5e-15)
        assert math.fsum(randomizer.classes((0, 1))[-1]) == pytest.approx(mass, rel=5e-15)


def test_subset_masses_are_hypergeometric():
    """Against exact binomials, in a case where they overflow doubles."""
    k, d = 3000, 700
    classes = SubsetSelection(categories=k, eps0=2.0, size=d).classes((0, 1, 2))
    exact = [math.comb(k - 3, d - c) / math.comb(k, d) for c in range(4)]
    low = math.exp(-2.0) * k / (d + (k - d) * math.exp(-2.0))
    expected = [low * exact[sum(p)] for p in itertools.product((0, 1), repeat=3)]
    assert classes[-1] == pytest.approx(expected, rel=1e-13)


def test_classes_without_messages_are_dropped():
    assert SubsetSelection(categories=9, eps0=1.0, size=1).classes((0, 1))[-1].size == 3
    assert RAPPOR(categories=2, eps0=1.0).classes((0, 1))[-1].size == 4
    assert RAPPOR(categories=3, eps0=1.0).classes((0, 1))[-1].size == 5
    assert HadamardResponse(categories=3, eps0=1.0).classes((0, 1))[-1].size == 4
    assert HadamardResponse(categories=7, eps0=1.0).classes((0, 1, 2))[-1].size == 5


@pytest.mark.parametrize("categories", [2, 3, 1000])
def test_sets_of_one_category_are_randomized_responses(categories):
    sets = sa.SubsetSelection(categories=categories, eps0=1.5, size=1)
    one = sa.RandomizedResponse(categories=categories, eps0=1.5)
    assert sets.mixture == one.mixture
    assert sets.include_probability == pytest.approx(one.keep_probability, rel=1e-14)
    found = sa.ShuffleRound(sets, users=5000).epsilon(delta=1e-6)
    assert found == sa.ShuffleRound(one, users=5000).epsilon(delta=1e-6)
    if categories > 2:
        assert sa.SubsetSelection(categories=categories, eps0=1.5, size=2).mixture is None


def test_defaults():
    assert SubsetSelection(categories=100, eps0=1.0).size == round(100 / (math.e + 1))
    assert SubsetSelection(categories=3, eps0=5.0).size == 1
    assert SubsetSelection(categories=2, eps0=1e-9).size == 1
    assert LocalHashing(categories=9, eps0=1.0).buckets == 4
    assert LocalHashing(categories=9, eps0=1e-9).buckets == 2
    assert LocalHashing(categories=9, eps0=1e4).buckets == 2**53
    assert SubsetSelection(categories=9, eps0=1e4).blanket_mass == 0.0
    assert HadamardResponse(categories=3, eps0=1.0).columns == 4
    assert HadamardResponse(categories=4, eps0=1.0).columns == 8


# Sampling


def message_numbers(randomizer, messages):
    """Where each message is in the list of `channel`."""
    k = randomizer.categories
    match randomizer:
        case RAPPOR():
            return messages @ (1 << np.arange(k)[::-1])
        case SubsetSelection():
            sets = list(itertools.combinations(range(k), randomizer.size))
            index = {s: i for i, s in enumerate(sets)}
            return np.array([index[tuple(row)] for row in messages.tolist()])
        case LocalHashing():
            g = randomizer.buckets
            hashes = randomizer.hash(messages[:, :1], np.arange(k)).astype(np.int64)
            return hashes @ (g ** np.arange(k)[::-1]) * g + messages[:, 1].astype(np.int64)
        case HadamardResponse():
            return messages
    raise AssertionError(randomizer)


SAMPLED = [
    RAPPOR(categories=3, eps0=1.5),
    SubsetSelection(categories=5, eps0=1.0, size=1),
    SubsetSelection(categories=5, eps0=1.0, size=2),
    SubsetSelection(categories=6, eps0=1.0, size=4),
    SubsetSelection(categories=10, eps0=0.5, size=2),  # few of many are drawn another way
    LocalHashing(categories=3, eps0=1.0, buckets=3),
    LocalHashing(categories=2, eps0=1.0),
    HadamardResponse(categories=3, eps0=1.0),
    HadamardResponse(categories=6, eps0=2.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("randomizer", SAMPLED, ids=repr)
def test_samples_have_the_channel_s_frequencies(randomizer):
    rows = np.array(channel(randomizer))
    rng = np.random.default_rng(20240607)
    for x in range(randomizer.inputs):
        messages = randomizer.randomize(np.full(20_000, x), rng)
        counts = np.bincount(message_numbers(randomizer, messages), minlength=len(rows))
        assert counts.size == len(rows)
        check_frequencies(counts, rows[:, x], len(SAMPLED) * rows.size)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_randomized_each_on_its_own(kind):
    """Mixed values, any shape, the same messages from the same seed; with almost no privacy.

    Of 1000 messages one misses its value with chance 50 000 e^-40 < 1e-12 at most.
    """
    randomizer = kind(categories=50, eps0=80.0)
    values = np.random.default_rng(1).integers(50, size=(40, 25))
    messages = randomizer.randomize(values, np.random.default_rng(2))
    again = randomizer.randomize(values.tolist(), np.random.default_rng(2))
    assert np.array_equal(messages, again)
    assert messages.shape[:2] == values.shape
    match randomizer:
        case RAPPOR():
            assert messages.shape == (40, 25, 50)
            assert messages.dtype == np.bool_
            assert np.array_equal(messages.argmax(axis=-1), values)
        case SubsetSelection():
            assert np.array_equal(messages[..., 0], values)
        case LocalHashing():
            assert messages.dtype == np.int64
            assert np.array_equal(randomizer.hash(messages[..., 0], values), messages[..., 1])
        case HadamardResponse():
            signs = [
                ((x + 1) & y).bit_count() % 2
                for x, y in zip(values.flat, messages.flat, strict=True)
            ]
            assert not any(signs)


@pytest.mark.parametrize("kind", KINDS)
def test_no_value_and_one_value(kind):
    randomizer, rng = kind(categories=7, eps0=1.0), np.random.default_rng(3)
    tail = randomizer.randomize(0, rng).shape
    assert randomizer.randomize([], rng).shape == (0, *tail)
    assert randomizer.randomize(np.uint8([[6], [0]]), rng).shape == (2, 1, *tail)
    assert randomizer.randomize([0], rng).dtype == randomizer.randomize([], rng).dtype


@pytest.mark.parametrize("size", [1, 3, 300, 700, 999])
def test_sets_are_sets(size):
    """Exact, whatever the seed: increasing members in range, of large sets too."""
    randomizer = SubsetSelection(categories=1000, eps0=1.0, size=size)
    sets = randomizer.randomize(np.arange(200), np.random.default_rng(4))
    assert sets.shape == (200, size)
    assert np.all(np.diff(sets, axis=1) > 0)
    assert sets.min() >= 0
    assert sets.max() < 1000


def test_large_sets_hold_each_category_equally_often():
    randomizer = SubsetSelection(categories=60, eps0=1.0)
    users = 20_000
    sets = randomizer.randomize(np.full(users, 7), np.random.default_rng(5))
    held = np.bincount(sets.ravel(), minlength=60)
    own = randomizer.include_probability
    chances = np.full(60, (randomizer.size - own) / 59)
    chances[7] = own
    for count, chance in zip(held, chances, strict=True):
        check_frequencies(np.array([count, users - count]), np.array([chance, 1 - chance]), 120)


def test_hadamard_letters_of_many_categories():
    """Signs of the largest possible rows: e^eps0 to 1; and letters up to the largest."""
    randomizer = HadamardResponse(categories=2**53, eps0=1.0)
    x, users = 2**53 - 1, 20_000
    letters = randomizer.randomize(np.full(users, x), np.random.default_rng(6))
    assert letters.min() >= 0
    assert letters.max() < randomizer.columns
    positive = sum(((x + 1) & y).bit_count() % 2 == 0 for y in letters.tolist())
    chance = math.e / (1 + math.e)
    check_frequencies(np.array([positive, users - positive]), np.array([chance, 1 - chance]), 2)


def splitmix64(seed):
    """The generator's published definition, in Python integers."""
    mask = 2**64 - 1
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


@pytest.mark.parametrize("seed", [0, 1234567, 2**62, 2**63 - 1])
def test_hash_is_splitmix64(seed):
    randomizer = LocalHashing(categories=20, eps0=1.0, buckets=2**32 - 5)
    expected = [z % randomizer.buckets for z in itertools.islice(splitmix64(seed), 20)]
    assert randomizer.hash(np.int64(seed), np.arange(20)).tolist() == expected
    assert randomizer.hash(seed, 3) == expected[3]
    if seed == 1234567:  # the generator's published test vector
        assert next(splitmix64(seed)) == 6457827717110365317


# Values, text, JSON


@pytest.mark.parametrize("kind", KINDS)
def test_compared_by_value_written_as_text_and_json(kind):
    randomizer = kind(categories=np.int64(5), eps0=np.float64(1.25))
    assert eval(repr(randomizer)) == randomizer
    assert hash(eval(repr(randomizer))) == hash(randomizer)
    assert randomizer != kind(categories=6, eps0=1.25)
    assert randomizer != kind(categories=5, eps0=1.5)
    state = json.loads(json.dumps(randomizer.to_dict()))
    assert state["kind"] == kind.kind
    assert randomizer_from_dict(state) == randomizer
    assert type(randomizer_from_dict(state)) is kind
    assert isinstance(randomizer, LocalRandomizer)
    assert randomizer.eps0 == 1.25
    with pytest.raises(AttributeError):
        randomizer.categories = 3
    for fields in ({}, {"extra": 1}):
        with pytest.raises(ValueError, match="must have fields categories and eps0"):
            kind.from_fields(fields)
    with pytest.raises(TypeError, match="by name"):
        kind(5, 1.0)


def test_other_parameters_are_kept():
    for randomizer in (
        SubsetSelection(categories=9, eps0=1.0, size=5),
        LocalHashing(categories=9, eps0=1.0, buckets=11),
    ):
        assert randomizer_from_dict(randomizer.to_dict()) == randomizer
        assert eval(repr(randomizer)) == randomizer
        assert randomizer != type(randomizer)(categories=9, eps0=1.0)


# Bad input


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"categories": 1}, ValueError),
        ({"categories": 2**53 + 1}, ValueError),
        ({"categories": 2.5}, TypeError),
        ({"categories": True}, TypeError),
        ({"eps0": -0.1}, ValueError),
        ({"eps0": 0.0}, ValueError),
        ({"eps0": math.nan}, ValueError),
        ({"eps0": math.inf}, ValueError),
        ({"eps0": "1"}, TypeError),
    ],
)
def test_bad_parameters(kind, wrong, error):
    with pytest.raises(error, match=next(iter(wrong))) as caught:
        kind(**{"categories": 4, "eps0": 1.0} | wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "wrong", "error"),
    [
        (SubsetSelection, {"size": 0}, ValueError),
        (SubsetSelection, {"size": 4}, ValueError),
        (SubsetSelection, {"size": 1.5}, TypeError),
        (LocalHashing, {"buckets": 1}, ValueError),
        (LocalHashing, {"buckets": 2**53 + 1}, ValueError),
        (LocalHashing, {"buckets": "2"}, TypeError),
    ],
)
def test_bad_sizes(kind, wrong, error):
    with pytest.raises(error, match=next(iter(wrong))):
        kind(categories=4, eps0=1.0, **wrong)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("values", "error"),
    [
        ([-1], ValueError),
        ([0, 4], ValueError),
        (np.uint64([2**64 - 1]), ValueError),
        ([[0, 1], [2]], ValueError),
        ([0.0], TypeError),
        ([True], TypeError),
        (["a"], TypeError),
        ([2**70], TypeError),
        (None, TypeError),
    ],
    ids=str,
)
def test_bad_values(kind, values, error):
    with pytest.raises(error, match="values must be") as caught:
        kind(categories=4, eps0=1.0).randomize(values, np.random.default_rng(0))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rng", [0, np.random.RandomState(0)], ids=["0", "old"])
def test_bad_rng(kind, rng):
    with pytest.raises(TypeError, match="rng must be a Generator"):
        kind(categories=4, eps0=1.0).randomize([0], rng)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ((), ValueError),
        ((0, 4), ValueError),
        ((-1, 0), ValueError),
        ((0, 1.5), TypeError),
    ],
)
def test_bad_inputs(kind, inputs, error):
    with pytest.raises(error, match="inputs must"):
        kind(categories=4, eps0=1.0).classes(inputs)


@pytest.mark.parametrize(
    ("seed", "values", "error"),
    [
        (-1, 0, ValueError),
        (np.uint64(2**63), 0, ValueError),
        (0.5, 0, TypeError),
        (0, 4, ValueError),
        ([0, 1], [0, 1, 2], ValueError),
    ],
)
def test_bad_hash(seed, values, error):
    with pytest.raises(error, match="must"):
        LocalHashing(categories=4, eps0=1.0).hash(seed, values)
