"""Randomizers that this package does not know: one class each, and every measure works.

A finite one, two-sided geometric noise on 0 … k cut off at the ends, and a continuous one, logistic
noise on the inputs 0 and 1; a third one of which only eps0 is known.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint
from typing import ClassVar

import numpy as np
import pytest
from oracles.containment import assert_contains
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit, log_expit

import shuffle_accountant as sa
from shuffle_accountant import registry
from shuffle_accountant.leakage import mutual_information, reidentification
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.randomizers import (
    ChannelRandomizer,
    ContinuousRandomizer,
    FromArguments,
    LocalRandomizer,
)
from shuffle_accountant.randomizers.registry import named, randomizer_from_dict


@dataclass(frozen=True, repr=False)
class TwoSidedGeometric(FromArguments, ChannelRandomizer):
    """Counts 0 … largest plus two-sided geometric noise, cut off at 0 and at the largest."""

    kind: ClassVar[str] = "test-two-sided-geometric"
    arguments: ClassVar[tuple[str, ...]] = ("largest", "step")

    largest: int
    step: float

    @cached_property
    def channel(self):
        ratio, every = math.exp(-self.step), np.arange(self.largest + 1)
        mass = ratio ** np.abs(every[:, None] - every).astype(float) * (1 - ratio) / (1 + ratio)
        # all noise beyond an end comes back to it
        mass[:, 0] = ratio ** every.astype(float) / (1 + ratio)
        mass[:, -1] = mass[::-1, 0]
        return mass


@dataclass(frozen=True, repr=False)
class Logistic(FromArguments, ContinuousRandomizer):
    """The inputs 0 and 1 plus logistic noise."""

    kind: ClassVar[str] = "test-logistic"
    arguments: ClassVar[tuple[str, ...]] = ("scale",)

    scale: float

    @property
    def eps0(self):
        return 1.0 / self.scale

    def cdf(self, x, y):
        return expit((y - x) / self.scale)

    def sf(self, x, y):
        return expit((x - y) / self.scale)

    def log_density(self, x, y):
        score = (y - x) / self.scale
        return log_expit(score) + log_expit(-score) - math.log(self.scale)


class MirrorLogistic(Logistic):
    """The same, which says that the noise is symmetric."""

    kind: ClassVar[str] = "test-mirror-logistic"
    symmetric = True


@dataclass(frozen=True, repr=False)
class Secret(FromArguments, LocalRandomizer):
    """A randomizer that keeps all but its eps0 to itself."""

    kind: ClassVar[str] = "test-secret"
    arguments: ClassVar[tuple[str, ...]] = ("strength",)

    strength: float

    @property
    def eps0(self):
        return self.strength


GEOMETRIC, LOGISTIC, SECRET = TwoSidedGeometric(2, 0.5), Logistic(0.8), Secret(1.0)
EVERY = [GEOMETRIC, LOGISTIC, MirrorLogistic(0.8), SECRET]
KNOWN = [GEOMETRIC, LOGISTIC]


# Everywhere


@pytest.mark.parametrize("randomizer", EVERY, ids=repr)
def test_written_read_and_named(randomizer):
    state = json.loads(json.dumps(randomizer.to_dict(), allow_nan=False))
    assert randomizer_from_dict(state) == randomizer
    parameters = {name: state[name] for name in randomizer.arguments}
    assert named(randomizer.kind, **parameters) == randomizer
    one = sa.ShuffleRound(randomizer, users=100)
    accountant = sa.FourierAccountant().compose(one, count=3)
    again = sa.FourierAccountant.from_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert again.epsilon(delta=1e-5) == accountant.epsilon(delta=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("randomizer", EVERY, ids=repr)
def test_bounds_composition_and_calibration(randomizer):
    one = sa.ShuffleRound(randomizer, users=1000)
    clones = sa.ShuffleRound(randomizer, users=1000, reduction="clones")
    assert one.reduced().name == ("clones" if randomizer is SECRET else "blanket")
    found = one.epsilon(delta=1e-5)
    # the blanket is never above the clones
    assert 0.0 < found.lower <= found.upper <= clones.epsilon(delta=1e-5).upper * (1.0 + 1e-9)
    target = {"target_epsilon": 0.3, "delta": 1e-5, "tolerance": 1e-2}
    most = sa.max_rounds(one, **target)
    assert sa.epsilon(one, rounds=most, delta=1e-5, tolerance=1e-2).upper <= 0.3
    further = sa.epsilon(one, rounds=most + 1, delta=1e-5, tolerance=1e-2)
    assert further.upper > 0.3 * (1.0 - 1e-2)  # the tolerance


@pytest.mark.slow
@pytest.mark.parametrize("randomizer", EVERY, ids=repr)
def test_report_and_leakage(randomizer):
    rows = sa.report(sa.ShuffleRound(randomizer, users=50), delta=1e-5).rows
    assert {"naming the message", "information on the input", "information on the position"} <= {
        row.measure for row in rows
    }
    for row in rows:
        assert row.upper is None or row.lower is None or row.lower <= row.upper
    named_ = reidentification.bracket(randomizer, users=50)
    assert 0.02 <= named_.lower <= named_.upper < 1.0
    clones = reidentification.bound(randomizer, users=50, method="clones")
    assert named_.upper <= clones.upper * (1.0 + 1e-9)


def test_what_needs_more_is_refused_in_one_line():
    for randomizer, options in (
        (SECRET, {"reduction": "blanket"}),
        (LOGISTIC, {"reduction": "strong"}),
        (GEOMETRIC, {"reduction": "strong"}),
    ):
        with pytest.raises(ValueError, match=type(randomizer).__name__) as refused:
            sa.ShuffleRound(randomizer, users=10, **options)
        assert "\n" not in str(refused.value)
    for randomizer in (SECRET, LOGISTIC):
        with pytest.raises(ValueError, match=type(randomizer).__name__):
            sa.ShuffleRound(randomizer, users=10).attained(epsilon=0.1)


def test_a_kind_belongs_to_one_class():
    with pytest.raises(ValueError, match="laplace"):

        class Other(Secret):
            kind = "laplace"


def geometric(**changes):
    """A class like `TwoSidedGeometric` with other members."""
    return dataclass(frozen=True, repr=False)(
        type("Geometric", (TwoSidedGeometric,), {"__module__": __name__, **changes})
    )


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: Secret("x"), TypeError, "^eps0 of Secret must be a number >= 0"),
        (lambda: Secret(-1.0), ValueError, "^eps0 of Secret must be a number >= 0"),
        (lambda: Logistic(0.0), ValueError, "^Logistic must have other arguments: float division"),
        (lambda: Logistic("x"), TypeError, "^Logistic must have other arguments: unsupported"),
        (lambda: TwoSidedGeometric(2, "x"), TypeError, "^TwoSidedGeometric must have other"),
        (lambda: TwoSidedGeometric(0, 1.0), ValueError, "^channel of TwoSidedGeometric must have"),
        (
            lambda: geometric(channel=np.array([[0.5, 0.6], [0.5, 0.5]]))(2, 0.5),
            ValueError,
            "^channel of Geometric must have rows that sum to 1 within 1e-09, got 1.1 in row 0$",
        ),
        (
            lambda: geometric(channel=[[0.5, 0.5], [1.0]])(2, 0.5),
            ValueError,
            "^channel of Geometric must have rows of equal lengths",
        ),
        (
            lambda: geometric(eps0=0.9)(2, 0.5),
            ValueError,
            "^eps0 of Geometric must be at least the largest log-ratio of its channel, 1, got 0.9$",
        ),
    ],
)
def test_what_a_class_says_of_itself_is_checked_when_one_is_made(make, error, said):
    with pytest.raises(error, match=said) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_a_larger_eps0_may_be_claimed():
    assert geometric(eps0=1.5)(2, 0.5).eps0 == 1.5


# Registered


@dataclass(frozen=True, repr=False)
class TestNearbyValue(FromArguments, ChannelRandomizer):
    """The value, or another one: the further off, the less likely."""

    __test__ = False
    arguments: ClassVar[tuple[str, ...]] = ("categories", "eps0")

    categories: int
    eps0: float

    @cached_property
    def channel(self):
        values = np.arange(self.categories)
        apart = np.abs(values[:, None] - values) / (self.categories - 1)
        weights = np.exp(-0.5 * self.eps0 * apart)
        return weights / weights.sum(axis=1, keepdims=True)


@pytest.fixture
def registered():
    assert sa.register(TestNearbyValue) is TestNearbyValue
    yield TestNearbyValue
    LocalRandomizer.kinds.remove("test-nearby-value")
    del TestNearbyValue.kind


def test_registering_names_a_class(registered):
    assert registered.kind == "test-nearby-value"
    assert sa.register(registered) is registered  # again
    assert named("test-nearby-value", categories=3, eps0=1.0) == registered(3, 1.0)
    assert randomizer_from_dict(registered(3, 1.0).to_dict()) == registered(3, 1.0)
    for wrong in (ChannelRandomizer, int, registered(3, 1.0)):
        with pytest.raises(TypeError, match=r"^cls must"):
            sa.register(wrong)


@pytest.mark.slow
def test_registered_classes_are_candidates_of_designs(registered):
    asked = {"users": 10_000, "categories": 3, "target_epsilon": 1.0, "delta": 1e-6}
    found = sa.design.frequency(**asked, tolerance=0.1)
    row, local = (
        next(row for row in rows if row.name == "test-nearby-value")
        for rows in (found.rows, found.local)
    )
    one = sa.ShuffleRound(registered(3, row.eps0), users=10_000)
    # the width that the design asks for, and the step of its search
    assert 0.8 <= sa.epsilon(one, delta=1e-6).upper <= 1.0 + 1e-9
    assert row.rmse == row.mechanism.frequency_error(users=10_000) < local.rmse
    assert row.bits == math.log2(3)


def test_installed_packages_are_asked_for_kinds_that_are_not_known(monkeypatch, tmp_path):
    (tmp_path / "installed_coin.py").write_text(
        "from test_third_party import *\nclass Coin(Secret):\n    kind = 'test-installed-coin'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "test_third_party", sys.modules[__name__])
    entry = EntryPoint("coin", "installed_coin:Coin", "shuffle_accountant")
    with pytest.raises(ValueError, match="kind"):
        randomizer_from_dict({"kind": "test-installed-coin", "strength": 1.0})
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    found = randomizer_from_dict({"kind": "test-installed-coin", "strength": 1.0})
    assert (type(found).__name__, found.eps0) == ("Coin", 1.0)
    with pytest.raises(ValueError, match="kind"):  # asked once
        randomizer_from_dict({"kind": "test-no-coin", "strength": 1.0})


@pytest.mark.release
def test_certified_as_its_channel():
    pytest.importorskip("flint", reason="certificates need python-flint")
    accountant = sa.FourierAccountant().compose(sa.ShuffleRound(GEOMETRIC, users=100), count=2)
    made = accountant.certificate(delta=1e-6)
    (entry,) = made.content["protocol"]["rounds"]
    assert entry["round"]["randomizer"] == sa.DiscreteRandomizer(GEOMETRIC.channel).to_dict()
    assert sa.certificates.verify(made).verified
    # a claim is above the bracket by less than a hundredth
    assert accountant.epsilon(delta=1e-6).lower <= made.epsilon
    assert made.epsilon <= 1.01 * accountant.epsilon(delta=1e-6).upper


# Estimates from a channel

CHANNEL = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.3, 0.5, 0.1], [0.2, 0.2, 0.2, 0.4]])


@pytest.mark.parametrize("values", list(itertools.combinations_with_replacement(range(3), 3)))
def test_estimates_are_unbiased_with_at_most_the_stated_error(values):
    """All words of three users' messages, with their probabilities."""
    randomizer, held = sa.DiscreteRandomizer(CHANNEL), np.bincount(values, minlength=3) / 3
    mean, square = np.zeros(3), np.zeros(3)
    for word in itertools.product(range(4), repeat=3):
        chance = math.prod(CHANNEL[x, y] for x, y in zip(values, word, strict=True))
        found = randomizer.estimate(list(word)).values
        mean += chance * found
        square += chance * found**2
    assert mean == pytest.approx(held, abs=1e-12)  # round-off of 64 products
    for j, share in enumerate(held):
        stated = randomizer.frequency_error(users=3, frequency=float(share))
        assert math.sqrt(square[j] - held[j] ** 2) <= stated * (1.0 + 1e-9)


def test_the_stated_error_is_that_of_some_histogram():
    """With two inputs there is one other one, and of the two categories one is worse."""
    channel = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    randomizer = sa.DiscreteRandomizer(channel)
    spread = []
    for x in (0, 1):
        found = [randomizer.estimate([y]).values for y in range(3)]
        square = sum(p * v**2 for p, v in zip(channel[x], found, strict=True))
        spread.append(square - np.eye(2)[x])
    own = max(spread[0][0], spread[1][1])
    assert randomizer.frequency_error(users=1, frequency=1.0) == pytest.approx(math.sqrt(own))
    other = max(spread[0][1], spread[1][0])
    assert randomizer.frequency_error(users=1) == pytest.approx(math.sqrt(other))


@pytest.mark.slow
def test_all_errors_at_once_are_within_the_bound():
    rng, runs, users = np.random.default_rng(3), 200, 500
    randomizer = sa.DiscreteRandomizer(CHANNEL)
    bound = randomizer.largest_frequency_error(users=users)
    for held in ([500, 0, 0], [250, 250, 0], [100, 200, 200]):
        values = np.repeat(np.arange(3), held)
        off = [
            np.max(np.abs(randomizer.estimate(randomizer.randomize(values, rng)).values - share))
            for share in [np.array(held) / users]
            for _ in range(runs)
        ]
        assert np.mean(np.array(off) <= bound) >= 0.95
        assert bound <= 4.0 * np.quantile(off, 0.95)  # it is no trivial bound


def test_rows_that_depend_on_one_another_are_not_estimated():
    randomizer = sa.DiscreteRandomizer([[0.5, 0.5], [0.2, 0.8], [0.35, 0.65]])
    with pytest.raises(ValueError, match="linearly independent rows"):
        randomizer.estimate([0, 1])
    with pytest.raises(ValueError, match="tally must hold counts >= 0 of sum 3"):
        sa.DiscreteRandomizer(CHANNEL).estimate_from([1, 1, 0, 0], 3)


def test_a_ratio_that_falls_is_refused():
    class Wrong(Logistic):
        def cdf(self, x, y):
            return super().cdf(1.0 - x, y)

        def sf(self, x, y):
            return super().sf(1.0 - x, y)

        def log_density(self, x, y):
            return super().log_density(1.0 - x, y)

    with pytest.raises(ValueError, match="Wrong"):
        sa.ShuffleRound(Wrong(1.0), users=10).delta(epsilon=0.1)


# Two-sided geometric noise, against its own matrix


def test_geometric_is_its_matrix():
    discrete = sa.DiscreteRandomizer(GEOMETRIC.channel)
    assert GEOMETRIC.eps0 == pytest.approx(1.0, rel=1e-14)  # two steps of 1/2
    for users in (1, 10, 1000):
        mine, other = (sa.ShuffleRound(r, users=users) for r in (GEOMETRIC, discrete))
        assert mine.delta(epsilon=0.2) == other.delta(epsilon=0.2)
        assert mine.attained(epsilon=0.2) == other.attained(epsilon=0.2)
    channel = sa.leakage.qif.Channel(GEOMETRIC.channel)
    assert channel.to_randomizer() == discrete
    assert sa.leakage.qif.Channel.from_randomizer(GEOMETRIC).matrix.tolist() == (
        GEOMETRIC.channel.tolist()
    )


@pytest.mark.parametrize("users", [1, 2, 3])
def test_geometric_attained_by_enumeration(users):
    """All words of messages, as histograms, for all datasets in which the others are alike."""
    epsilon, matrix = 0.3, GEOMETRIC.channel
    best = 0.0
    for x0, x1, other in itertools.product(range(3), repeat=3):
        laws = []
        for x in (x0, x1):
            law: dict[tuple[int, ...], float] = {}
            for word in itertools.product(range(3), repeat=users):
                chance = matrix[x, word[0]] * math.prod(matrix[other, y] for y in word[1:])
                key = tuple(sorted(word))
                law[key] = law.get(key, 0.0) + chance
            laws.append(law)
        alpha = math.exp(epsilon)
        best = max(best, sum(max(laws[0][z] - alpha * laws[1][z], 0.0) for z in laws[0]))
    found = sa.ShuffleRound(GEOMETRIC, users=users).attained(epsilon=epsilon)
    # round-off of sums of at most 27 products
    assert found.lower <= best * (1.0 + 1e-12)
    assert found.upper >= best * (1.0 - 1e-12)
    assert found.lower == pytest.approx(best, rel=1e-6)


# Logistic noise, against quadrature


def density(x, y, scale=0.8):
    return 1.0 / (4.0 * scale * math.cosh((y - x) / (2.0 * scale)) ** 2)


def integral(f):
    """Quadrature on both sides of the crossing; beyond 40 there is less than e^-48."""
    return sum(quad(f, a, b, epsabs=1e-13, limit=200)[0] for a, b in ((-40, 0.5), (0.5, 41)))


def positive_part(f):
    """Of a function that falls through zero once, if at all: quadrature up to there."""
    if f(41.0) >= 0.0:
        return integral(f)
    kink = brentq(f, -40.0, 41.0, xtol=1e-15) if f(-40.0) > 0.0 else -40.0
    ends = (-40.0, min(kink, 0.5), max(kink, 0.5))
    return sum(
        quad(f, a, b, epsabs=1e-13, limit=200)[0] for a, b in itertools.pairwise(ends) if b <= kink
    )


def test_logistic_blanket():
    assert LOGISTIC.crossing == pytest.approx(0.5, abs=1e-14)
    truth = integral(lambda y: min(density(0, y), density(1, y)))
    assert LOGISTIC.blanket_mass == pytest.approx(truth, abs=1e-12)  # of the quadrature


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_logistic_alone(epsilon):
    """With one user nothing is shuffled."""
    alpha = math.exp(epsilon)
    truth = positive_part(lambda y: density(0, y) - alpha * density(1, y))
    found = sa.ShuffleRound(LOGISTIC, users=1).delta(epsilon=epsilon)
    assert found.lower - 1e-12 <= truth <= found.upper + 1e-12  # of the quadrature
    assert found.upper - found.lower <= 2e-3 * truth  # cells of the ratio


def test_logistic_of_two_users():
    """The density lemma for one decoy, as a double integral over it and the target's place."""
    alpha = math.exp(0.2)
    blank = 1.0 - LOGISTIC.blanket_mass

    def value(y):
        low = min(density(0, y), density(1, y))
        return (density(0, y) - alpha * density(1, y)) / low

    def common(y):
        return min(density(0, y), density(1, y))

    grid, weights = np.polynomial.legendre.leggauss(200)
    points = np.concatenate([0.5 - 15.0 * (grid + 1.0), 0.5 + 15.0 * (grid + 1.0)])
    mass = 15.0 * np.concatenate([weights, weights]) * [common(y) for y in points]
    values = np.array([value(y) for y in points])
    both = np.maximum(values[:, None] + values, 0.0)
    truth = 0.5 * float(mass @ both @ mass)
    truth += blank * float(mass @ np.maximum(values, 0.0))
    found = sa.ShuffleRound(LOGISTIC, users=2).delta(epsilon=0.2)
    # the kink of the positive part costs the rule some 1e-5
    assert found.lower - 1e-4 * truth <= truth <= found.upper + 1e-4 * truth
    assert found.upper - found.lower <= 2e-3 * truth


@pytest.mark.parametrize("users", [2, 100])
def test_logistic_said_to_be_symmetric_is_the_same(users):
    mine, mirror = (sa.ShuffleRound(r, users=users) for r in (LOGISTIC, MirrorLogistic(0.8)))
    first, second = mine.delta(epsilon=0.1), mirror.delta(epsilon=0.1)
    # brackets are some 1e-5 wide, and the two do not merge the same blocks
    assert first.lower == pytest.approx(second.lower, rel=1e-6)
    assert first.upper == pytest.approx(second.upper, rel=1e-6)
    assert max(first.lower, second.lower) <= min(first.upper, second.upper)


def test_logistic_between_its_letters():
    """Quadrature of E(l - t)_+ lies between the two sides, for one alpha and several t."""
    alpha = 1.2
    for side, sign in ((Bound.PESSIMISTIC, 1.0), (Bound.OPTIMISTIC, -1.0)):
        found, _ = LOGISTIC.letters((0, 1), side, tail=1e-12, resolution=1e-4)
        p0, p1, shared = found
        heard = shared > 0.0
        for t in (-1.0, -0.2, 0.0, 0.3, 1.0):

            def excess(y, t=t):
                low = min(density(0, y), density(1, y))
                return density(0, y) - alpha * density(1, y) - t * low

            mine = float(np.sum(np.maximum(p0 - alpha * p1 - t * shared, 0.0)[heard]))
            mine += float(np.sum(np.maximum(p0 - alpha * p1, 0.0)[~heard]))
            # of the quadrature
            assert sign * (mine - positive_part(excess)) >= -1e-11
            assert mine == pytest.approx(positive_part(excess), abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("target", [0, 1])
def test_logistic_reidentification_of_two(target):
    """Two users: the larger of the two ratios is the target's, beta = 1/2 + TV/2."""
    found = reidentification.bracket(LOGISTIC, users=2, target=target)
    apart = integral(lambda y: max(density(0, y) - density(1, y), 0.0))

    def among(p, q):
        # beta_2 = E max(w1, w2)/2 over two draws from q, with a blank for what q lacks
        grid, weights = np.polynomial.legendre.leggauss(300)
        points = np.concatenate([0.5 - 15.0 * (grid + 1.0), 0.5 + 15.0 * (grid + 1.0)])
        mass = 15.0 * np.concatenate([weights, weights])
        decoys = np.array([q(y) for y in points])
        w = np.array([p(y) for y in points]) / decoys
        mass = mass * decoys
        rest = 1.0 - mass.sum()
        return 0.5 * float(mass @ np.maximum(w[:, None], w) @ mass) + rest * float(mass @ w)

    own, other = (lambda y: density(target, y)), (lambda y: density(1 - target, y))
    attained = among(own, other)
    assert attained >= 0.5 + 0.25 * apart  # it is no trivial number
    bound = among(own, lambda y: min(density(0, y), density(1, y)))
    # of the rule, at the kink
    assert found.lower == pytest.approx(attained, rel=1e-4)
    assert found.upper == pytest.approx(bound, rel=1e-4)


def test_logistic_information_alone():
    """One user's message tells I(X; Y), an integral."""

    def told(y):
        first, second = density(0, y), density(1, y)
        mean = 0.5 * (first + second)
        return 0.5 * (first * math.log(first / mean) + second * math.log(second / mean))

    found = mutual_information.input_bound(LOGISTIC, users=1)
    assert_contains(found, integral(told))
    assert found.upper - found.lower <= 1e-3 * found.upper


def test_logistic_messages_follow_their_law():
    """Kolmogorov's distance of 20,000 messages is below 0.014 with chance 0.9993."""
    rng = np.random.default_rng(5)
    for x in (0, 1):
        messages = np.sort(LOGISTIC.randomize(np.full(20_000, x), rng))
        steps = np.arange(1, messages.size + 1) / messages.size
        assert np.max(np.abs(LOGISTIC.cdf(x, messages) - steps)) < 0.014
