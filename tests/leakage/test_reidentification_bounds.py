"""Bounds of a round: against every dataset of small channels, and the theorem's own binomial sum.

Independent re-derivations: all words of all datasets with Bayes' rule; psi as a binomial mixture of
the tie formula; channels listed message by message.
"""

import json
import math
import random
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import reidentification as oracle
from oracles.channels import random_channel
from oracles.precision import MP, exact
from randomizers.test_frequency_oracles import merged

import shuffle_accountant as sa
from shuffle_accountant.leakage import reidentification as reid

REFERENCES = json.loads((Path(__file__).parents[1] / "refs" / "reidentification.json").read_text())

ORACLES = [
    sa.RAPPOR(categories=4, eps0=1.0),
    sa.SubsetSelection(categories=5, eps0=2.0, size=2),
    sa.LocalHashing(categories=3, eps0=1.5, buckets=3),
    sa.HadamardResponse(categories=5, eps0=1.0),
]
SURVEY = sa.DiscreteRandomizer([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
EVERY = [
    sa.GeneralRandomizer(eps0=2.0),
    sa.GeneralRandomizer(eps0=2.0, interactive=True),
    sa.BinaryRandomizedResponse(eps0=2.0),
    sa.RandomizedResponse(categories=5, eps0=2.0),
    sa.LaplaceRandomizer(eps0=2.0),
    sa.GaussianRandomizer(sigma=2.0),
    SURVEY,
    *ORACLES,
]


def explicit(randomizer):
    """The channel with one row per input, from the messages' definitions."""
    if isinstance(randomizer, sa.RandomizedResponse):
        k, e = randomizer.categories, math.exp(randomizer.eps0)
        return (np.ones((k, k)) + (e - 1) * np.eye(k)) / (e + k - 1)
    return np.array(merged(randomizer)).T


def exact_channel(source, inputs, letters, least=1):
    rows = [[Fraction(source.randint(least, 5)) for _ in range(letters)] for _ in range(inputs)]
    for row in rows:
        row[source.randrange(letters)] += 1
    return [[mass / sum(row) for mass in row] for row in rows]


@pytest.mark.parametrize("entry", [e for e in REFERENCES if e["fn"] == "bound"], ids=str)
def test_references(entry):
    krr = sa.RandomizedResponse(categories=entry["categories"], eps0=entry["eps0"])
    found = reid.bound(krr, users=entry["users"], method=entry["method"])
    assert found == pytest.approx(entry["value"], rel=entry["rtol"])
    assert found.contains(entry["value"])
    assert found.reduction == entry["method"]


@pytest.mark.slow
def test_no_dataset_is_above_and_one_attains_the_lower_end():
    source = random.Random(1)
    for trial in range(16):
        users = 2 + trial // 2 % 3
        # with zeros in some: then a message may rule inputs out
        rows = exact_channel(source, 2 + trial % 2, source.randint(2, 3), least=trial % 2)
        channel = np.array([[float(x) for x in row] for row in rows])
        randomizer = sa.DiscreteRandomizer(channel[:, channel.max(axis=0) > 0.0])
        values = range(len(rows))
        for guesses in (1, 2):
            worst = []
            for target in values:
                truth = max(
                    oracle.dataset_success([rows[target], *(rows[x] for x in others)], guesses)
                    for others in product(values, repeat=users - 1)
                    if list(others) == sorted(others)
                )
                found = reid.bracket(randomizer, users=users, target=target, guesses=guesses)
                # the ends have been moved outwards by more than their own rounding
                assert found.lower <= truth <= found.upper
                if (
                    guesses == 1
                ):  # observed, not proven: others who all hold one input are the worst
                    assert found.lower == pytest.approx(float(truth), rel=1e-12)
                worst.append(truth)
            found = reid.bracket(randomizer, users=users, guesses=guesses)
            assert found.lower <= max(worst) <= found.upper


def test_two_guesses_are_better_against_two_different_others():
    # the target's letter is also one other's, so that two guesses cover all who sent it
    rows = [[Fraction(0), Fraction(1)], [Fraction(1, 2)] * 2, [Fraction(1), Fraction(0)]]
    assert oracle.dataset_success([rows[1], rows[0], rows[2]], guesses=2) == 1
    alike = max(oracle.dataset_success([rows[1], row, row], guesses=2) for row in rows)
    assert alike == Fraction(5, 6)
    randomizer = sa.DiscreteRandomizer([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
    found = reid.bracket(randomizer, users=3, target=1, guesses=2)
    assert found.lower == pytest.approx(5 / 6, rel=1e-12)
    assert found.upper == 1.0


def test_psi_is_the_binomial_mixture():
    source = random.Random(2)
    for _ in range(20):
        users, letters = source.randint(1, 9), source.randint(2, 4)
        rows = exact_channel(source, 3, letters, least=0)
        common = [min(column) for column in zip(*rows, strict=True)]
        if sum(common) == 0:
            continue
        for guesses in (1, 2, 3):
            if guesses > users:
                continue
            truth = float(oracle.thinned(rows[0], common, users, guesses))
            p, mu = ([float(x) for x in law] for law in (rows[0], common))
            found = reid.psi(p, mu, users=users, guesses=guesses)
            assert found == pytest.approx(truth, rel=1e-13)  # 32 units for each guess
        gamma = float(sum(common))
        published = reid.published.theorem_7(p, np.array(mu) / gamma, gamma=gamma, users=users)
        # masses of the binomial law, from their logarithms
        assert published == pytest.approx(reid.psi(p, mu, users=users), rel=1e-12)


@pytest.mark.parametrize("users", [1, 2, 30, 10**6, 10**15])
@pytest.mark.parametrize("gamma", [1e-300, 1e-9, 0.1, 0.5, 1.0])
def test_clones_in_closed_form(users, gamma):
    found = reid.clones_psi(gamma, users=users)
    # one minus a power, of one sign, a few units
    wanted = -math.expm1(users * math.log1p(-gamma)) / users / gamma if gamma < 1 else 1 / users
    assert found == pytest.approx(wanted, rel=1e-14)
    # the same as psi of a common part in proportion
    law = np.array([0.25, 0.75])
    if gamma > 1e-200:
        assert reid.psi(law, gamma * law, users=users) == pytest.approx(found, rel=1e-14)
    assert reid.clones_psi(0.0, users=users) == 1.0


@pytest.mark.parametrize("randomizer", EVERY, ids=repr)
@pytest.mark.parametrize("users", [1, 3, 10**9])
def test_every_randomizer(randomizer, users):
    guesses = min(users, 2)
    for count in {1, guesses}:
        blanket = reid.bound(randomizer, users=users, guesses=count)
        clones = reid.bound(randomizer, users=users, method="clones", guesses=count)
        ends = reid.bracket(randomizer, users=users, guesses=count)
        # the blanket is never above the clones (Theorem 9) but for the widths of the brackets
        assert blanket.lower <= clones.upper <= 1.0
        assert count / users <= ends.upper * (1 + 1e-13)
        assert ends.lower <= ends.upper == blanket.upper
        assert blanket.width <= 1e-8 * blanket.upper
    paper = reid.published.theorem_10(randomizer, users=users)
    assert reid.bound(randomizer, users=users).lower <= paper
    assert paper <= reid.published.theorem_8(eps0=randomizer.eps0, users=users) * (1 + 1e-13)


@pytest.mark.parametrize("randomizer", [*ORACLES, EVERY[2], EVERY[3]], ids=repr)
def test_classes_say_what_the_channel_says(randomizer):
    listed = sa.DiscreteRandomizer(explicit(randomizer))
    weights = np.arange(1.0, randomizer.inputs + 1)
    for target in (None, 1, (weights / weights.sum()).tolist()):
        for users in (3, 1000):
            for method in reid.METHODS:
                found = reid.bound(randomizer, users=users, target=target, method=method)
                wanted = reid.bound(listed, users=users, target=target, method=method)
                # two sums of the same few masses
                assert found == pytest.approx(wanted, rel=1e-12)
        ratios = (reid.sup_ratio(one, target=target) for one in (randomizer, listed))
        assert next(ratios) == pytest.approx(next(ratios), rel=1e-12)
    for target in (None, 0):
        found, wanted = (reid.bracket(one, users=40, target=target) for one in (randomizer, listed))
        assert found.lower == pytest.approx(wanted.lower, rel=1e-12)


@pytest.mark.parametrize("categories", [2, 3, 1000, 2**50])
@pytest.mark.parametrize("eps0", [1e-8, 0.3, 5.0, 40.0, 300.0])
def test_round_off_never_takes_the_upper_end_below(categories, eps0):
    # two layers: ratio 1 on all messages, and e^eps0 on the true one
    for users in (2, 17, 10**5, 10**15):
        with MP.workdps(400):
            e = MP.exp(exact(eps0))
            share = 1 / (e + categories - 1)
            layers = ((1, min(categories * share, 1)), (e - 1, share))
            truth = sum(h * -MP.expm1(users * MP.log1p(-q)) if q < 1 else h for h, q in layers)
            truth /= users
        krr = sa.RandomizedResponse(categories=categories, eps0=eps0)
        found = reid.bound(krr, users=users)
        assert found.lower <= truth <= found.upper
        assert found.width <= 1e-13 * truth
        general = reid.bound(sa.GeneralRandomizer(eps0=eps0), users=users)
        with MP.workdps(400):
            gamma = MP.exp(-exact(eps0))
            clones = -MP.expm1(users * MP.log1p(-gamma)) / users / gamma
        assert general.lower <= clones <= general.upper


def test_huge_alphabets_are_not_listed():
    for kind in (sa.RAPPOR, sa.SubsetSelection, sa.LocalHashing, sa.HadamardResponse):
        found = reid.bracket(kind(categories=10**6, eps0=2.0), users=10**6)
        assert 0.0 < found.lower <= found.upper <= math.exp(2.0) / 10**6 * (1 + 1e-13)
    krr = sa.RandomizedResponse(categories=10**5, eps0=2.0)
    uniform = np.full(10**5, 1e-5)
    # a target of whom nothing is known hides perfectly but for those who do not answer at random
    found = reid.bound(krr, users=50, target=uniform)
    assert found == pytest.approx(reid.clones_psi(krr.gamma, users=50), rel=1e-9)


def test_ends_in_the_wrong_order_are_an_error_of_the_package(monkeypatch):
    from shuffle_accountant.leakage.reidentification.bounds import Targets

    for kind in (Targets, *Targets.__subclasses__()):
        monkeypatch.setattr(kind, "attained", lambda *_: 1.0)
    with pytest.warns(sa.CrossedEndsError, match=r"lower=1\.0 and upper=0\.\d+"):
        found = reid.bracket(sa.RandomizedResponse(categories=3, eps0=1.0), users=10)
    assert found.lower < found.upper == 1.0


def test_theorem_10():
    for randomizer in (SURVEY, EVERY[3], EVERY[4], ORACLES[0]):
        largest = reid.sup_ratio(randomizer)
        assert largest == pytest.approx(math.exp(randomizer.eps0), rel=1e-13)
        ends = [reid.bracket(randomizer, users=10**i) for i in (2, 4, 8, 12)]
        times = [end.lower * 10**i for end, i in zip(ends, (2, 4, 8, 12), strict=True)]
        # n beta rises to M and never above; at 1e12 users the largest ratio is all that counts
        assert all(b >= a * (1 - 1e-13) for a, b in pairwise(times))
        assert times[-1] == pytest.approx(largest, rel=1e-6)
        assert times[-1] <= largest * (1 + 1e-13)
    assert reid.sup_ratio(sa.GaussianRandomizer(sigma=2.0)) == math.inf
    assert reid.bound(sa.GaussianRandomizer(sigma=2.0), users=9, method="clones") == 1.0
    assert reid.sup_ratio(sa.GeneralRandomizer(eps0=1000.0)) == math.inf


def test_a_mixture_is_no_worse_than_its_worst_part():
    for randomizer in (SURVEY, EVERY[3], ORACLES[0], ORACLES[3]):
        chances = np.array([0.2, 0.5, 0.3, *[0.0] * (randomizer.inputs - 3)])
        mixed = reid.bound(randomizer, users=40, target=chances)
        parts = [reid.bound(randomizer, users=40, target=x) for x in range(3)]
        # psi is convex in the target's law
        average = sum(c * part for c, part in zip(chances, parts, strict=False))
        assert mixed.lower <= average <= max(parts)
        ends = reid.bracket(randomizer, users=40, target=chances)
        assert ends.lower <= ends.upper == mixed.upper


def test_a_known_population():
    source = random.Random(5)
    rows = exact_channel(source, 3, 3)
    randomizer = sa.DiscreteRandomizer([[float(x) for x in row] for row in rows])
    target, others = ([Fraction(x, 10) for x in law] for law in ((1, 4, 5), (6, 1, 3)))
    p, q = (
        [sum(v * row[y] for v, row in zip(law, rows, strict=True)) for y in range(3)]
        for law in (target, others)
    )
    found = reid.success_in_population(
        randomizer, users=4, target=[float(x) for x in target], others=[float(x) for x in others]
    )
    assert found == pytest.approx(float(oracle.success(p, q, 4)), rel=1e-14)
    one = reid.success_in_population(
        randomizer, users=4, target=0, others=[float(x) for x in others]
    )
    assert one <= reid.bound(randomizer, users=4, target=0)


def test_users_with_different_laws():
    source = random.Random(7)
    for _ in range(15):
        p, *others = rows = exact_channel(source, 4, 3)
        truth = oracle.dataset_success(rows)
        listed = [[float(x) for x in row] for row in others]
        found = reid.bound_among([float(x) for x in p], listed)
        assert truth <= found.upper
        assert found == pytest.approx(float(oracle.thinned(p, list(map(min, *others)), 4)))
    # one law alone is the exact success probability
    p, q = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
    found = reid.bound_among(p, [q], users=30)
    assert found.contains(reid.success_probability(p, q, users=30))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.05, 4.0), st.integers(1, 10**9))
def test_random_channels(seed, eps0, users):
    channel = np.array(random_channel(np.random.default_rng(seed), eps0))
    randomizer = sa.DiscreteRandomizer(channel[:, channel.max(axis=0) > 0.0])
    ends = reid.bracket(randomizer, users=users)
    assert ends.lower <= ends.upper
    assert ends.upper <= reid.bound(randomizer, users=users, method="clones") * (1 + 1e-13)
    general = reid.bound(sa.GeneralRandomizer(eps0=randomizer.eps0), users=users)
    assert ends.upper <= general * (1 + 1e-12)
    fewer = reid.bound(randomizer, users=max(users - 1, 1))
    assert ends.upper <= fewer * (1 + 1e-13)


def test_large_eps0():
    for eps0 in (100.0, 700.0, 800.0, 1e6):
        for users in (2, 10**6):
            found = reid.bracket(sa.GeneralRandomizer(eps0=eps0), users=users)
            # n e^-eps0 is far below the unit of round-off
            assert found == 1.0
            assert found.lower == pytest.approx(1.0, rel=1e-12)
    assert reid.bracket(sa.RandomizedResponse(categories=3, eps0=math.inf), users=10) == 1.0


BAD = [
    ({"randomizer": 3}, TypeError, "randomizer"),
    ({"users": 0}, ValueError, "users"),
    ({"users": 1.5}, TypeError, "users"),
    ({"guesses": 11}, ValueError, "guesses"),
    ({"method": "magic"}, ValueError, "method"),
    ({"method": None}, TypeError, "method"),
    ({"target": 3}, ValueError, "target"),
    ({"target": -1}, ValueError, "target"),
    ({"target": 0.5}, TypeError, "target"),
    ({"target": [0.5, 0.5]}, ValueError, "target"),
    ({"target": [0.5, 0.6, 0.1]}, ValueError, "target"),
    ({"randomizer": sa.LaplaceRandomizer(eps0=1.0), "target": 1.5}, ValueError, "target"),
    ({"randomizer": sa.LaplaceRandomizer(eps0=1.0), "target": [1.0]}, TypeError, "target"),
    ({"randomizer": sa.GaussianRandomizer(sigma=1.0), "target": -0.1}, ValueError, "target"),
    ({"randomizer": sa.GeneralRandomizer(eps0=1.0), "target": 0}, ValueError, "target"),
]


@pytest.mark.parametrize(("changed", "kind", "name"), BAD, ids=str)
def test_bad_input(changed, kind, name):
    arguments = {"randomizer": SURVEY, "users": 10, **changed}
    with pytest.raises(kind) as caught:
        reid.bound(arguments.pop("randomizer"), **arguments)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_laws():
    p = [0.5, 0.5]
    for common, kind in (
        ([0.1], ValueError),
        ([0.7, 0.7], ValueError),
        ([-0.1, 0.5], ValueError),
        ([[0.1], [0.1, 0.2]], ValueError),
        (["a", "b"], TypeError),
    ):
        with pytest.raises(kind, match="common"):
            reid.psi(p, common, users=5)
    for others in ([0.5, 0.5], [[0.2, 0.3, 0.5]], [], [[0.5, 0.4]], [[0.5], [0.5, 0.5]]):
        with pytest.raises(ValueError, match="others"):
            reid.bound_among(p, others)
    with pytest.raises(TypeError, match="decoys"):
        reid.success_among_decoys(p)
    rappor = sa.RAPPOR(categories=100, eps0=1.0)
    with pytest.raises(ValueError, match="at most 15 inputs"):
        reid.bound(rappor, users=5, target=[0.01] * 100)
