"""Expected positive parts of sums: rounding to a lattice, and the sums themselves."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffle_accountant.lattice.convex_order import _merge, round_to_lattice
from shuffle_accountant.lattice.grid import Array, Bound
from shuffle_accountant.lattice.positive_part import Summand, expected_positive_part
from shuffle_accountant.lattice.tilting import Letters, saddle
from shuffle_accountant.losses.alphabets.letter_divergence import LetterDivergence
from shuffle_accountant.losses.alphabets.letters import LetterPair
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.compiled import compiled

fixed = settings(derandomize=True, deadline=None, max_examples=150)

# Sums of at most a few thousand masses of total one, each with a few roundings.
ROUND_OFF = 1e-12

EFFORT = Effort(tail=1e-30, resolution=1e-5)


# Rounding


@st.composite
def laws(draw: st.DrawFn) -> tuple[Array, Array]:
    """Values in spacings and probabilities; multiples of 1/1024, so on the lattice or well off."""
    size = draw(st.integers(1, 30))
    reach = draw(st.integers(1, 6)) * 1024
    shift = draw(st.integers(-4096, 4096))
    numbers = st.lists(st.integers(0, reach), min_size=size, max_size=size)
    weight = np.array(draw(st.lists(st.floats(1e-9, 1), min_size=size, max_size=size)))
    return (np.array(draw(numbers)) + shift) / 1024.0, weight / weight.sum()


def rounded(scaled: Array, mass: Array, tilt: float, side: Bound) -> tuple[Array, Array]:
    """Lattice points and masses of a law that is tilted, rounded and tilted back."""
    first, weight = round_to_lattice(scaled, mass * np.exp(tilt * scaled), tilt, side)
    points = first + np.arange(weight.size, dtype=np.float64)
    assert (weight >= -1e-15 * weight.sum()).all()
    return points, weight * np.exp(-tilt * points)


def mean_above(values: Array, mass: Array, level: float) -> float:
    return math.fsum((mass * np.maximum(values - level, 0.0)).tolist())


def check_rounding(scaled: Array, mass: Array, tilt: float) -> None:
    mean = float(np.sum(scaled * mass))
    size = 1.0 + float(np.abs(scaled).max())
    slack = ROUND_OFF * size * math.exp(tilt)
    levels = np.arange(math.floor(scaled.min()) - 2.0, math.ceil(scaled.max()) + 2.0, 0.25)
    for side in Bound:
        points, out = rounded(scaled, mass, tilt, side)
        assert float(out.sum()) == pytest.approx(1.0, abs=slack)
        new_mean = float(np.sum(points * out))
        if side is Bound.OPTIMISTIC:
            # the lowest group moves down to its lattice point if too little lies more than one
            # spacing above it; a law inside one cell is the extreme case
            lowest = int(np.flatnonzero(out)[0])
            above = mean_above(points, out, points[lowest] + 1.0)
            if above < out[lowest]:
                assert mean - 1.0 <= new_mean <= mean + slack
            else:
                assert new_mean == pytest.approx(mean, abs=slack)
        else:
            assert new_mean == pytest.approx(mean, abs=slack)
        for level in levels.tolist():
            before, after = mean_above(scaled, mass, level), mean_above(points, out, level)
            if side is Bound.PESSIMISTIC:
                assert after >= before - slack
            else:
                assert after <= before + slack


@fixed
@given(laws())
def test_rounding_without_tilt(law: tuple[Array, Array]) -> None:
    check_rounding(*law, 0.0)


@fixed
@given(laws(), st.floats(1e-6, 2.0))
def test_rounding_with_tilt(law: tuple[Array, Array], tilt: float) -> None:
    check_rounding(*law, tilt)


def test_no_weight_is_negative() -> None:
    """Mass that is taken back from far groups is not more than they have, to the last bit."""
    values = np.array([0.13476562, 0.30859375, 2.0, 2.01074219, 4.92578125])
    rng = np.random.default_rng(8)
    for _ in range(2000):
        mass = rng.exponential(size=5) * np.array([6.0, 1.0, 1.0, 1.0, 1.0])
        tilted = mass / mass.sum() * np.exp(values)
        weight = round_to_lattice(values, tilted, 1.0, Bound.OPTIMISTIC)[1]
        assert (weight >= 0.0).all()


@pytest.mark.parametrize("tilt", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_rounding_many_values(tilt: float, seed: int) -> None:
    """So many that the lower side first merges within subcells."""
    rng = np.random.default_rng(seed)
    scaled = rng.normal(0.3, 2.0, 5000)
    mass = rng.exponential(size=5000)
    check_rounding(scaled, mass / mass.sum(), tilt)


@pytest.mark.parametrize("tilt", [0.0, 0.7])
@pytest.mark.parametrize("side", list(Bound))
def test_lattice_points_stay(tilt: float, side: Bound) -> None:
    scaled, mass = np.array([3.0, -2.0, 0.0, 1.0]), np.array([0.1, 0.2, 0.3, 0.4])
    points, out = rounded(scaled, mass, tilt, side)
    for value, expected in zip(scaled, mass, strict=True):
        assert out[points == value].item() == pytest.approx(expected, rel=ROUND_OFF)
    assert np.count_nonzero(out) == 4


@pytest.mark.parametrize("side", list(Bound))
def test_weights_of_zero_are_left_out(side: Bound) -> None:
    first, weight = round_to_lattice(
        np.array([-50.0, 1.5, 2.0, 90.0]), np.array([0.0, 0.5, 0.5, 0.0]), 0.0, side
    )
    assert first >= 1
    assert weight.size <= 3
    assert weight.sum() == pytest.approx(1.0, rel=ROUND_OFF)


def test_one_cell_moves_down() -> None:
    """What the lower side cannot merge to a lattice point goes to the one below."""
    scaled, mass = np.array([2.25, 2.75]), np.array([0.5, 0.5])
    points, out = rounded(scaled, mass, 0.0, Bound.OPTIMISTIC)
    assert points[out > 0.0].tolist() == [2.0]


def test_both_sides_are_of_second_order() -> None:
    rng = np.random.default_rng(11)
    values, mass = rng.normal(size=4000), np.full(4000, 1.0 / 4000)
    levels = np.linspace(0.3, 0.7, 81).tolist()  # two cells of the coarse lattice
    truth = np.array([mean_above(values, mass, level) for level in levels])
    gaps: dict[Bound, list[float]] = {side: [] for side in Bound}
    for spacing, side in itertools.product((0.2, 0.02), Bound):
        points, out = rounded(values / spacing, mass, 0.0, side)
        found = np.array([mean_above(spacing * points, out, level) for level in levels])
        gaps[side].append(float(np.abs(found - truth).mean()))
    for coarse, fine in gaps.values():
        # 100 for a smooth law; first order would be 10, and 4000 values are not quite smooth
        assert fine <= coarse / 25


@pytest.mark.parametrize("tilt", [0.0, 1e-3, 0.5])
@pytest.mark.parametrize("size", [1, 2, 10, 3000])
def test_compiled_and_plain_python_agree(size: int, tilt: float) -> None:
    pytest.importorskip("numba")
    rng = np.random.default_rng(size)
    scaled = np.sort(rng.uniform(0.0, 9.0, size))
    scaled[::3] = np.floor(scaled[::3])
    scaled.sort()
    weight = rng.exponential(size=size) * np.exp(tilt * scaled)
    plain, fast = np.zeros(11), np.zeros(11)
    _merge(scaled, weight, tilt, plain)
    compiled(_merge)(scaled, weight, tilt, fast)
    # the same operations in the same order, but for fused ones and another exp
    assert fast == pytest.approx(plain, rel=1e-13, abs=1e-13 * float(weight.sum()))


# Sums


def pair_of(p0: list[float], p1: list[float], q: list[float]) -> LetterPair:
    return LetterPair(np.array(p0), np.array(p1), np.array(q))


PAIRS = {
    "two letters": pair_of([0.7, 0.3], [0.4, 0.6], [0.5, 0.5]),
    "blank": pair_of([0.7, 0.3, 0.0], [0.3, 0.7, 0.0], [0.3, 0.3, 0.4]),
    "three letters": pair_of([0.5, 0.2, 0.3], [0.2, 0.45, 0.35], [0.3, 0.1, 0.6]),
    "rare letter": pair_of([0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.001, 0.4, 0.599]),
    "four letters": pair_of([0.4, 0.1, 0.2, 0.3], [0.1, 0.4, 0.3, 0.2], [0.1, 0.1, 0.2, 0.6]),
}


def listed(pair: LetterPair, users: int, epsilon: float) -> float:
    """``E[(mean of l)_+]`` over all sequences of letters."""
    alpha = math.exp(epsilon)
    value = [a / q - alpha * b / q for a, b, q in zip(pair.p0, pair.p1, pair.q, strict=True)]
    terms = [
        math.prod(pair.q[i] for i in word) * max(math.fsum(value[i] for i in word), 0.0)
        for word in itertools.product(range(len(value)), repeat=users)
    ]
    return math.fsum(terms) / users


def transformed(
    pair: LetterPair, users: int, epsilon: float, effort: Effort = EFFORT
) -> tuple[float, float]:
    """Both bounds by Fourier transforms, never by listing multisets."""
    questions = (
        LetterDivergence(pair, users, epsilon, side)
        for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
    )
    low, high = (question.top * question._transformed(effort) / users for question in questions)
    return low, high


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4, 0.5])
@pytest.mark.parametrize("users", [1, 2, 3, 6])
@pytest.mark.parametrize("name", PAIRS)
def test_sums_of_few(name: str, users: int, epsilon: float) -> None:
    truth = listed(PAIRS[name], users, epsilon)
    low, high = transformed(PAIRS[name], users, epsilon)
    assert low * (1 - ROUND_OFF) <= truth <= high * (1 + ROUND_OFF)
    # few values need not look normal: a share r of the variance moves E(.)_+ by up to sqrt(r)
    assert high - low <= 0.1 * truth
    for side, bound in zip((Bound.OPTIMISTIC, Bound.PESSIMISTIC), (low, high), strict=True):
        exact = LetterDivergence(PAIRS[name], users, epsilon, side).bound(EFFORT)
        assert exact == pytest.approx(truth, rel=ROUND_OFF)
        assert exact <= bound * (1 + ROUND_OFF) if side is Bound.PESSIMISTIC else exact >= bound


@pytest.mark.parametrize("effort", [Effort(1e-12, 1e-3), EFFORT], ids=["coarse", "fine"])
@pytest.mark.parametrize("users", [40, 200])
@pytest.mark.parametrize("name", PAIRS)
def test_width_follows_the_resolution(name: str, users: int, effort: Effort) -> None:
    low, high = transformed(PAIRS[name], users, 0.05, effort)
    truth = trinomial(PAIRS[name], users, 0.05) if PAIRS[name].q.size == 3 else None
    if truth is not None:
        assert low * (1 - LOGS) <= truth <= high * (1 + LOGS)
    # few letters do not all fit a lattice: one that is off by d, a share sqrt(resolution) of the
    # deviation, costs the lower side that much of it
    assert 0.0 < low <= high <= low * (1.0 + math.sqrt(effort.resolution))


# Relative error of probabilities from logarithms of factorials below 1e6 log(1e6).
LOGS = 1e-8


def trinomial(pair: LetterPair, users: int, epsilon: float, reach: float = math.inf) -> float:
    """The same expectation by counts of three letters, within so many deviations of the first two.

    Left out: less than ``users`` times the normal tail.
    """
    from scipy.special import gammaln

    alpha = math.exp(epsilon)
    value = (pair.p0 - alpha * pair.p1) / pair.q
    ranges = []
    for q in pair.q[:2].tolist():
        wide = reach * math.sqrt(users * q * (1.0 - q))
        ranges.append(
            np.arange(
                max(0, math.floor(users * q - wide) if math.isfinite(wide) else 0),
                min(users, math.ceil(users * q + wide) if math.isfinite(wide) else users) + 1,
            )
        )
    a, b = ranges[0][:, None], ranges[1][None, :]
    c = users - a - b
    kept = c >= 0
    c = np.maximum(c, 0)
    log_q = np.log(pair.q)
    log_mass = gammaln(users + 1.0) - gammaln(a + 1.0) - gammaln(b + 1.0) - gammaln(c + 1.0)
    log_mass = log_mass + a * log_q[0] + b * log_q[1] + c * log_q[2]
    total = np.where(kept, a * value[0] + b * value[1] + c * value[2], 0.0)
    return float(np.sum(np.exp(log_mass) * np.maximum(total, 0.0))) / users


SPARSE = pair_of([0.6, 0.3, 0.1], [0.3, 0.6, 0.1], [0.004, 0.006, 0.99])


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.1])
def test_many_users_in_stages(epsilon: float) -> None:
    users = 100_000
    truth = trinomial(SPARSE, users, epsilon, reach=16.0)
    low, high = transformed(SPARSE, users, epsilon)
    assert low * (1 - LOGS) <= truth <= high * (1 + LOGS)
    # a variance off by a share r moves the expectation by z^2 r, with z^2 < 40; letters off the
    # lattice cost up to sqrt(1e-5) instead of 1e-5 of the deviation, which is what shows here
    width = 1e-3 if epsilon < 0.1 else 4e-2
    assert high <= low * (1 + width)
    # one letter at a time needs two stages
    for side in Bound:
        question = LetterDivergence(SPARSE, users, epsilon, side)
        letters = question.letters
        assert letters is not None
        one = Summand(letters.value, letters.mass, 1, users)
        found = expected_positive_part(letters, [one], saddle(letters), side, variance=4e-6)
        found *= question.top / users
        if side is Bound.PESSIMISTIC:
            assert truth * (1 - LOGS) <= found <= truth * (1 + width)
        else:
            assert truth * (1 - width) <= found <= truth * (1 + LOGS)


@pytest.mark.parametrize(
    ("name", "users", "epsilon", "size"),
    [
        ("blank", 200, 0.6, 1e-17),
        ("blank", 400, 0.5, 1e-23),
        ("three letters", 200, 0.8, 1e-50),
        ("three letters", 300, 0.8, 1e-80),
        ("rare letter", 400, 1.0, 1e-14),
        ("blank", 1000, 0.6, 1e-60),
    ],
)
def test_tiny_values_are_relatively_accurate(
    name: str, users: int, epsilon: float, size: float
) -> None:
    truth = trinomial(PAIRS[name], users, epsilon)
    assert truth < size
    low, high = transformed(PAIRS[name], users, epsilon)
    assert low * (1 - LOGS) <= truth <= high * (1 + LOGS)
    # the far tail grows with the square of its distance; see the widths above
    assert high <= low * 1.1


def test_tilt_puts_the_mean_at_zero() -> None:
    letters = Letters(np.array([-1.0, 0.2, 3.0]), np.array([0.7, 0.2, 0.1]), 1000)
    theta = saddle(letters)
    mean = letters.cumulants(theta)[1]
    deviation = math.sqrt(letters.cumulants(theta)[2] / letters.count)
    assert abs(mean) <= 0.5 * deviation  # "about 0"; the exact place only costs width
    assert saddle(Letters(np.array([-1.0, 0.0]), np.array([0.5, 0.5]), 10)) == math.inf


def test_what_underflows_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the smallest doubles pairs cannot be ranked: each of a channel's would be computed."""
    for side in Bound:
        question = LetterDivergence(PAIRS["three letters"], 10**9, 0.4, side)
        monkeypatch.setattr(question, "_transformed", None)
        found = question.bound(EFFORT)
        assert found == 0.0 if side is Bound.OPTIMISTIC else 0.0 < found <= 2e-305
