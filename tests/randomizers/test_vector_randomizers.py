"""Randomizers of vectors against their definitions.

Privacy is checked on exact probabilities: fractions and enumeration where messages are finitely
many, 50 digits and quadrature on the sphere. Samples are compared with those laws; seeds are fixed,
so a test that passes once passes always, and each statistic would exceed its bound in one of 1e6
seeds.
"""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

import shuffle_accountant as sa
from shuffle_accountant.randomizers.registry import randomizer_from_dict
from shuffle_accountant.randomizers.vectors import (
    DuchiL2,
    DuchiLInf,
    PrivUnit,
    SampledCoordinates,
    VectorRandomizer,
)
from shuffle_accountant.randomizers.vectors import base as draws
from shuffle_accountant.randomizers.vectors.base import flips, safe_probability

RARE = 1e-6  # significance of every statistical test
KINDS: list[Callable[..., VectorRandomizer]] = [PrivUnit, DuchiL2, DuchiLInf, SampledCoordinates]
SPHERES = [PrivUnit, DuchiL2]
# Sums and products of a few doubles of the order of one.
FEW_ULPS = 1e-14
# betaln and betainc have relative errors of up to about 1e-12 at a thousand dimensions.
SPECIAL = 1e-10


def each_kind(**parameters: Any) -> Any:
    return pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


# Coins


@given(st.floats(-30.0, 700.0))
def test_odds_are_on_the_private_side(log_odds: float) -> None:
    p = Fraction(safe_probability(log_odds))
    assert (p * 2**53).denominator == 1
    with mpmath.workdps(60):
        allowed = mpmath.exp(mpmath.mpf(log_odds))
        odds = (
            mpmath.mpf(p.numerator) / p.denominator / (1 - mpmath.mpf(p.numerator) / p.denominator)
        )
        assert odds <= allowed
        # no more than the margin, or two steps of the grid, is given away
        miss = 1 / (1 + allowed)
        assert (
            1 - mpmath.mpf(p.numerator) / p.denominator
            <= miss * (1 + mpmath.mpf("1e-11")) + 2.0**-52
        )


def test_coins_have_their_chance() -> None:
    heads = int(flips(np.random.default_rng(1), 0.25, 10**6).sum())
    assert stats.binomtest(heads, 10**6, 0.25).pvalue > RARE
    assert flips(np.random.default_rng(1), 1.0, 1000).all()
    assert not flips(np.random.default_rng(1), 0.0, 1000).any()


# The sphere


@given(st.sampled_from(SPHERES), st.integers(2, 5000), st.floats(1e-9, 700.0))
@example(PrivUnit, 11, 187.0)  # a cap so small that its mean was rounded above 1
@settings(max_examples=60)
def test_density_ratio_of_the_cap(kind: Any, dimension: int, eps0: float) -> None:
    cap = kind(dimension=dimension, eps0=eps0).cap
    p, q = Fraction(cap.probability), Fraction(cap.share)
    assert 0 < p < 1
    assert 0 < q <= Fraction(1, 2)
    ratio = p * (1 - q) / ((1 - p) * q)
    with mpmath.workdps(60):
        log_ratio = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        assert 0 < log_ratio <= mpmath.mpf(eps0)
        # what rounding gives away is small wherever 1 - p is far above its grid
        if float(1 - p) > 1e-10:
            assert float(log_ratio) >= eps0 * (1 - 1e-4) - 1e-11
    assert 0.0 < cap.mean <= 1.0


@pytest.mark.parametrize("kind", SPHERES)
@pytest.mark.parametrize(
    ("dimension", "eps0"),
    [(2, 1.0), (3, 4.0), (8, 0.1), (50, 12.0), (999, 3.0), (8, 100.0), (11, 187.0)],
)
def test_share_and_mean_by_quadrature(kind: Any, dimension: int, eps0: float) -> None:
    cap = kind(dimension=dimension, eps0=eps0).cap
    with mpmath.workdps(30):
        power = mpmath.mpf(dimension - 3) / 2
        start = mpmath.acos(mpmath.mpf(cap.threshold))  # w = cos(angle) smooths the ends
        spread = 6 / mpmath.sqrt(dimension)

        def integral(f: Any, low: Any, high: Any) -> Any:
            cuts = [
                low,
                *(c for c in (mpmath.pi / 2 - spread, mpmath.pi / 2 + spread) if low < c < high),
            ]
            weight = lambda t: f(mpmath.cos(t)) * mpmath.sin(t) ** (2 * power + 1)  # noqa: E731
            return mpmath.quad(weight, [*cuts, high])

        total = integral(lambda w: 1, 0, mpmath.pi)
        share = integral(lambda w: 1, 0, start) / total
        inside = integral(lambda w: w, 0, start) / total
        outside = integral(lambda w: w, start, mpmath.pi) / total
        mean = cap.probability * inside / share + (1 - cap.probability) * outside / (1 - share)
        assert cap.share == pytest.approx(float(share), rel=SPECIAL)
        assert cap.mean == pytest.approx(float(mean), rel=SPECIAL)


@pytest.mark.parametrize(
    ("dimension", "eps0"), [(2, 1.0), (3, 0.01), (10, 4.0), (300, 8.0), (9, 40.0)]
)
def test_no_other_cap_is_better(dimension: int, eps0: float) -> None:
    """Over all thresholds, each with the largest p that eps0 allows, by sums."""
    w = np.cos(np.linspace(0.0, np.pi, 200_001))  # decreasing
    weights = (1.0 - w * w) ** (0.5 * (dimension - 2))
    weights /= weights.sum()
    share, inside = np.cumsum(weights)[1:-1], np.cumsum(weights * w)[1:-1]
    fine = (share > 1e-200) & (share < 1.0 - 1e-9)  # no underflow, no cancellation
    share, inside = share[fine], inside[fine]
    gain = np.exp(eps0)
    p = gain * share / (gain * share + 1.0 - share)
    means = inside * (p / share - (1.0 - p) / (1.0 - share))
    best = PrivUnit(dimension=dimension, eps0=eps0).cap
    # the sums have an error of about the step of the angles, 1.6e-5
    assert best.mean >= means.max() * (1.0 - 1e-4)
    assert best.mean == pytest.approx(means.max(), rel=1e-4)
    assert best.mean == pytest.approx(best.threshold, rel=1e-4)


def test_privunit_is_never_worse_than_the_hemisphere() -> None:
    for dimension, eps0 in itertools.product((2, 30, 1000), (0.01, 1.0, 10.0)):
        ours = PrivUnit(dimension=dimension, eps0=eps0).second_moment
        theirs = DuchiL2(dimension=dimension, eps0=eps0).second_moment
        assert ours <= theirs * (1.0 + SPECIAL)


@pytest.mark.parametrize("kind", SPHERES)
def test_directions_in_three_dimensions(kind: Any) -> None:
    """On the sphere in three dimensions every coordinate is uniform: densities are constants."""
    randomizer = kind(dimension=3, eps0=1.5, radius=2.0)
    cap, own = randomizer.cap, np.array([0.6, 0.0, -0.8])
    messages = randomizer.randomize(np.tile(2.0 * own, (40_000, 1)), np.random.default_rng(2))
    directions = messages / (2.0 / cap.mean)
    assert np.linalg.norm(directions, axis=1) == pytest.approx(1.0, abs=FEW_ULPS)
    inner = directions @ own

    def cumulative(w: Any) -> Any:
        below = np.minimum(w, cap.threshold) + 1.0
        above = np.maximum(w, cap.threshold) - cap.threshold
        rest, top = 1.0 + cap.threshold, 1.0 - cap.threshold
        return (1.0 - cap.probability) * below / rest + cap.probability * above / top

    assert top_share_of_three(cap.threshold) == pytest.approx(cap.share, rel=SPECIAL)
    assert stats.kstest(inner, cumulative).pvalue > RARE
    across = np.arctan2(directions @ [0.8, 0.0, 0.6], directions @ [0.0, 1.0, 0.0])
    assert stats.kstest(across, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > RARE
    assert abs(stats.spearmanr(inner, np.abs(across)).statistic) < 5.0 / math.sqrt(40_000)


def top_share_of_three(threshold: float) -> float:
    return 0.5 * (1.0 - threshold)


# Cubes


def corner_law(randomizer: DuchiLInf, x: tuple[Fraction, ...]) -> dict[tuple[int, ...], Fraction]:
    d, p = randomizer.dimension, Fraction(randomizer.probability)
    law: dict[tuple[int, ...], Fraction] = {}
    for corner in itertools.product((-1, 1), repeat=d):
        chance = Fraction(0)
        for v, at in rounded(x):
            agreement = sum(a * b for a, b in zip(corner, v, strict=True))
            side = 2 * p if agreement > 0 else 2 * (1 - p) if agreement < 0 else Fraction(1)
            chance += at * side / 2**d
        law[corner] = chance
    return law


def sampled_law(
    randomizer: SampledCoordinates, x: tuple[Fraction, ...]
) -> dict[tuple[int, ...], Fraction]:
    d, k, p = randomizer.dimension, randomizer.coordinates, Fraction(randomizer.probability)
    law: Counter[tuple[int, ...]] = Counter()
    for drawn in itertools.combinations(range(d), k):
        for signs in itertools.product((-1, 1), repeat=k):
            message = [0] * d
            chance = Fraction(1, math.comb(d, k))
            for j, sign in zip(drawn, signs, strict=True):
                message[j] = sign
                up = (1 + sign * x[j]) / 2
                chance *= up * p + (1 - up) * (1 - p)
            law[tuple(message)] += chance  # type: ignore[assignment]
    return dict(law)  # type: ignore[arg-type]


def rounded(x: tuple[Fraction, ...]) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    for v in itertools.product((-1, 1), repeat=len(x)):
        yield v, math.prod(((1 + a * b) / 2 for a, b in zip(v, x, strict=True)), start=Fraction(1))


CUBES: list[tuple[Any, Any]] = [
    *((DuchiLInf(dimension=d, eps0=e), corner_law) for d in (1, 2, 3, 4) for e in (0.1, 1.5)),
    *(
        (SampledCoordinates(dimension=d, eps0=e, coordinates=k), sampled_law)
        for d, k in ((1, 1), (3, 1), (3, 2), (4, 4))
        for e in (0.1, 3.0)
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("randomizer", "law"), CUBES, ids=lambda value: getattr(value, "__name__", f"{value!r:.60}")
)
def test_exact_ratio_mean_and_frequencies(randomizer: Any, law: Any) -> None:
    d = randomizer.dimension
    rng = np.random.default_rng(d)
    inside = tuple(Fraction(int(n), 8) for n in rng.integers(-8, 9, size=d))
    inputs = [*(tuple(map(Fraction, c)) for c in itertools.product((-1, 1), repeat=d)), inside]
    laws = [law(randomizer, x) for x in inputs]
    assert all(sum(each.values()) == 1 for each in laws)
    largest = max(max(each[m] for each in laws) / min(each[m] for each in laws) for m in laws[0])
    with mpmath.workdps(50):
        loss = mpmath.log(mpmath.mpf(largest.numerator) / largest.denominator)
        assert loss <= mpmath.mpf(randomizer.eps0)
    assert float(loss) == pytest.approx(randomizer.eps0, rel=1e-9)  # and not less than it says

    chances = laws[-1]
    for j in range(d):
        mean = sum(chance * message[j] for message, chance in chances.items())
        # the scale is a double; everything else is exact
        assert float(mean) * randomizer.scale == pytest.approx(float(inside[j]), abs=FEW_ULPS)
    size = sum(m * m for m in next(iter(chances)))
    assert randomizer.second_moment == pytest.approx(size * randomizer.scale**2, rel=FEW_ULPS)

    count = 40_000
    messages = randomizer.randomize(np.tile([float(v) for v in inside], (count, 1)), rng)
    seen = Counter(map(tuple, np.rint(messages / randomizer.scale).astype(int).tolist()))
    assert set(seen) <= set(chances)
    possible = [m for m, chance in chances.items() if chance > 0]
    expected = [float(chances[m]) * count for m in possible]
    assert stats.chisquare([seen[m] for m in possible], expected).pvalue > RARE


def test_ties_as_published_are_worse() -> None:
    """Duchi et al. count corners that agree in half the coordinates to both halves."""
    for dimension in (2, 4, 10):
        randomizer = DuchiLInf(dimension=dimension, eps0=1.0)
        half = math.comb(dimension, dimension // 2) / 2
        ours, theirs = 2.0 ** (dimension - 1), 2.0 ** (dimension - 1) + half
        published = randomizer.second_moment * (theirs / ours) ** 2
        assert randomizer.second_moment < published


def test_number_of_coordinates() -> None:
    for eps0, dimension in itertools.product((0.5, 2.0, 9.0, 60.0), (1, 3, 50)):
        best = SampledCoordinates(dimension=dimension, eps0=eps0)
        others = [
            SampledCoordinates(dimension=dimension, eps0=eps0, coordinates=k).second_moment
            for k in range(1, dimension + 1)
        ]
        assert best.second_moment == min(others)


# All of them


@each_kind()
@pytest.mark.parametrize("dimension", [2, 3, 9, 70, 1001])
def test_unbiased_with_the_variance_it_says(kind: Any, dimension: int) -> None:
    count = 4000
    rng = np.random.default_rng(dimension)
    randomizer = kind(dimension=dimension, eps0=2.0, radius=3.0)
    x = rng.standard_normal(dimension)
    x *= 2.0 / np.linalg.norm(x)
    messages = randomizer.randomize(np.tile(x, (count, 1)), rng)
    # along the input, and along a fixed other direction: two means of many independent numbers
    for direction in (x / 2.0, rng.standard_normal(dimension) / math.sqrt(dimension)):
        values = messages @ direction - x @ direction
        assert stats.ttest_1samp(values, 0.0).pvalue > RARE
    squares = (messages**2).sum(axis=1)
    assert squares == pytest.approx(randomizer.second_moment, rel=1e-9)
    assert randomizer.variance(2.0) == pytest.approx(randomizer.second_moment - 4.0)
    # the mean message is off by variance/count, on average, and that has small relative variance
    off = float(((messages.mean(axis=0) - x) ** 2).sum())
    relative_spread = 6.0 * math.sqrt(2.0 / min(dimension, 100)) + 0.5
    assert off <= (1.0 + relative_spread) * randomizer.variance(2.0) / count * 2.0


@each_kind()
def test_zero_and_tiny_vectors(kind: Any) -> None:
    randomizer = kind(dimension=100, eps0=1.0)
    rng = np.random.default_rng(5)
    for scale, precision in itertools.product((0.0, 1e-30, 1e-200), (np.float32, np.float64)):
        rows = np.full((2000, 100), scale, dtype=precision)
        messages = randomizer.randomize(rows, rng)
        assert messages.dtype == precision
        assert np.isfinite(messages).all()
        assert stats.ttest_1samp(messages.astype(float).sum(axis=1), 0.0).pvalue > RARE


@each_kind()
def test_the_seed_decides(kind: Any) -> None:
    randomizer = kind(dimension=40, eps0=3.0)
    rows = np.full((300, 40), 0.1)
    first = randomizer.randomize(rows, np.random.default_rng(7))
    rng = np.random.default_rng(7)
    assert np.array_equal(first, randomizer.randomize(rows, rng))
    state = rng.bit_generator.state
    second = randomizer.randomize(rows, rng)
    assert not np.array_equal(first, second)
    rng.bit_generator.state = state
    assert np.array_equal(second, randomizer.randomize(rows, rng))


@each_kind()
def test_threads_do_not_matter(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    randomizer = kind(dimension=50, eps0=3.0)
    rows = np.full((1000, 50), 0.05, dtype=np.float32)
    monkeypatch.setattr(draws, "_MANY", 0)
    monkeypatch.setattr(draws, "_BLOCK", 1000)
    outcomes = []
    for cores in (1, 4):
        monkeypatch.setattr(draws, "_cores", lambda cores=cores: cores)
        outcomes.append(randomizer.randomize(rows, np.random.default_rng(1)))
    assert np.array_equal(*outcomes)
    halves = outcomes[0][:20], outcomes[0][20:40]  # blocks are of 20 rows
    assert not np.array_equal(*halves)


@each_kind()
def test_shapes_and_precision(kind: Any) -> None:
    randomizer = kind(dimension=3, eps0=3.0)
    rng = np.random.default_rng(1)
    assert randomizer.randomize(np.zeros((0, 3)), rng).shape == (0, 3)
    assert randomizer.randomize([[0, 0, 1]], rng).dtype == np.float64
    assert randomizer.randomize(np.zeros((2, 3), np.float16), rng).dtype == np.float64
    turned = np.asfortranarray(np.full((4, 3), 0.1))
    assert randomizer.randomize(turned, rng).shape == (4, 3)
    assert not turned.any() or (turned == 0.1).all()  # inputs are left alone


@pytest.mark.slow
@each_kind()
@pytest.mark.parametrize(("dimension", "precision"), [(70, np.float32), (301, np.float64)])
def test_a_sum_is_that_of_messages(kind: Any, dimension: int, precision: Any) -> None:
    """The message of one user has the norm, and the cap's or the sign's frequency, of `randomize`.

    Users are clipped on the way, and such as have no direction or no finite row send a message of
    the zero vector.
    """
    randomizer = kind(dimension=dimension, eps0=2.0, radius=3.0)
    rng = np.random.default_rng(11)
    direction = rng.standard_normal(dimension)
    direction /= np.linalg.norm(direction)
    inside = 1.5
    rows = [40.0 * direction, 0.0 * direction, 1e25 * direction, math.nan * direction]
    means = [inside, 0.0, inside, 0.0]
    count = 600
    for row, mean in zip(rows, means, strict=True):
        single = row.astype(precision)[None]
        sums = [
            randomizer.randomized_sum(lambda first, end, row=single: row.copy(), 1, inside, rng)
            for _ in range(count)
        ]
        along = np.array(sums) @ direction
        norms = np.linalg.norm(sums, axis=1)
        # 32-bit floats and their sums
        np.testing.assert_allclose(norms, math.sqrt(randomizer.second_moment), rtol=1e-5)
        spread = along.std() / math.sqrt(count)
        assert abs(along.mean() - mean) <= stats.norm.isf(RARE / 2) * spread
        if isinstance(randomizer, (PrivUnit, DuchiL2)) and mean > 0.0:
            cap = randomizer.cap
            scale = randomizer.radius / cap.mean
            up = 0.5 + 0.5 * mean / randomizer.radius
            expected = up * cap.probability + (1.0 - up) * opposite(cap)
            hits = int(np.count_nonzero(along >= scale * cap.threshold))
            assert stats.binomtest(hits, count, expected).pvalue >= RARE


def opposite(cap: Any) -> float:
    """The chance of the cap around u when the message is drawn around -u."""
    return float(cap.share * (1.0 - cap.probability) / (1.0 - cap.share))


@pytest.mark.parametrize("kind", SPHERES)
def test_a_sum_of_many(kind: Any) -> None:
    """Mean and variance of a sum over users in several blocks, against what a message has."""
    randomizer = kind(dimension=3000, eps0=4.0)
    rng = np.random.default_rng(12)
    vectors = rng.standard_normal((600, 3000)).astype(np.float32)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    total = randomizer.randomized_sum(lambda a, b: vectors[a:b].copy(), 600, 1.0, rng)
    error = total - units.sum(axis=0, dtype=np.float64)
    # each coordinate's error is a sum of 600 of about equal variance, all but uncorrelated
    expected = 600 * randomizer.variance(1.0) / 3000
    assert float(error @ error) / 3000 == pytest.approx(expected, rel=5 * math.sqrt(2 / 3000))


@each_kind()
def test_an_eps0_randomizer_like_any_other(kind: Any) -> None:
    randomizer = kind(dimension=20, eps0=2.0)
    one = sa.ShuffleRound(randomizer, users=100, population=1000)
    same = sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=100, population=1000)
    assert one.epsilon(delta=1e-6) == same.epsilon(delta=1e-6)
    assert randomizer_from_dict(json.loads(json.dumps(randomizer.to_dict()))) == randomizer
    assert hash(randomizer) == hash(kind(dimension=20, eps0=2.0))
    assert randomizer != kind(dimension=20, eps0=2.0, radius=2.0)
    assert eval(repr(randomizer)) == randomizer


@pytest.mark.slow
def test_a_fresh_process_reads_the_state_without_torch() -> None:
    accountant = sa.FourierAccountant()
    accountant.compose(sa.ShuffleRound(PrivUnit(dimension=5, eps0=1.0), users=50), count=3)
    code = f"""
import json, sys, numpy as np, shuffle_accountant as sa
state = json.loads({json.dumps(json.dumps(accountant.state_dict()))})
print(sa.FourierAccountant.from_state_dict(state).epsilon(delta=1e-5).upper)
sa.training.PrivUnit(dimension=2, eps0=1.0).randomize(np.zeros((1, 2)), np.random.default_rng(1))
print(*sorted({{"torch", "opacus", "sklearn"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    upper, modules = done.stdout.split("\n")[:2]
    assert float(upper) == accountant.epsilon(delta=1e-5).upper
    assert modules == ""


BAD = [
    (lambda kind: kind(dimension=3, eps0=0.0), "eps0 must be a finite number > 0, got 0.0"),
    (lambda kind: kind(dimension=3, eps0=-1.0), "eps0 must be a finite number > 0, got -1.0"),
    (lambda kind: kind(dimension=3, eps0=math.nan), "eps0 must be a finite number > 0, got nan"),
    (lambda kind: kind(dimension=3, eps0=701.0), r"eps0 must be a number in \[1e-09, 700\]"),
    (lambda kind: kind(dimension=3, eps0=1e-12), r"eps0 must be a number in \[1e-09, 700\]"),
    (lambda kind: kind(dimension=0, eps0=1.0), "dimension must be an integer >= "),
    (lambda kind: kind(dimension=3, eps0=1.0, radius=0.0), "radius must be a finite number > 0"),
    (lambda kind: kind(dimension=3, eps0=1.0).variance(-1.0), "norm must be a finite number >= 0"),
    (lambda kind: kind(dimension=3, eps0=1.0).variance(100.0), r"norm must be a number in \[0, 1"),
]
ROWS: list[tuple[Any, str]] = [
    ([[0.0, math.nan, 0.0]], "vectors must be finite, got nan in row 0"),
    ([[0.0] * 3, [0.0, -math.inf, 0.0]], "vectors must be finite, got -inf in row 1"),
    ([[0.0] * 3, [0.0, 1.1, 0.0]], r"norm at most radius = 1, got 1.1 in row 1: clip them first"),
    (np.full((1, 3), 3e38, np.float32), "norm at most radius = 1, got "),
    ([0.0, 0.0, 0.0], r"vectors must be an array of shape \(batch, 3\), got shape \(3,\)"),
    ([[0.0] * 4], r"got shape \(1, 4\)"),
    ([[0.0] * 3, [0.0]], "got a ragged sequence"),
]


@each_kind()
@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_parameters(kind: Any, call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        call(kind)
    assert "\n" not in str(error.value)


@each_kind()
@pytest.mark.parametrize(("rows", "message"), ROWS)
def test_bad_vectors(kind: Any, rows: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        kind(dimension=3, eps0=1.0).randomize(rows, np.random.default_rng(1))
    assert "\n" not in str(error.value)


def test_wrong_types() -> None:
    randomizer = PrivUnit(dimension=2, eps0=1.0)
    with pytest.raises(TypeError, match="vectors must be an array"):
        randomizer.randomize([["a", "b"]], np.random.default_rng(1))
    with pytest.raises(TypeError, match="rng must be a Generator"):
        randomizer.randomize([[0.0, 0.0]], 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dimension must be an integer"):
        PrivUnit(dimension=2.5, eps0=1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="coordinates must be an integer >= 1 and <= 2, got 3"):
        SampledCoordinates(dimension=2, eps0=1.0, coordinates=3)
    with pytest.raises(ValueError, match="dimension must be an integer >= 2"):
        PrivUnit(dimension=1, eps0=1.0)
