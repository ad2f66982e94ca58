"""Anchored laws of smoothed sums, against sums over all multisets of messages."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import blanket as exact_blanket
from oracles.letter_pairs import Truth, pair_of, random_rows, users_for
from oracles.precision import MP, exact

from shuffle_accountant.lattice import smoothed
from shuffle_accountant.lattice.anchored import AnchoredLaw
from shuffle_accountant.lattice.grid import Array
from shuffle_accountant.lattice.smoothed import smoothed_law
from shuffle_accountant.losses.alphabets.letters import LetterPair
from shuffle_accountant.numerics.budget import stress

# Relative to these, anchors leave room for rounding.
BELOW = 256 * 2.0**-53
THREE = LetterPair(np.array([0.6, 0.3, 0.1]), np.array([0.3, 0.6, 0.1]), np.array([0.3, 0.3, 0.4]))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few messages have no smooth law: all frequencies are kept, for the sake of the test."""
    monkeypatch.setattr(smoothed, "_MOST_KEPT", 1 << 13)
    monkeypatch.setattr(smoothed, "_GROWTH", 1e6)


def made(pair: LetterPair, users: int, start: float, variance: float) -> AnchoredLaw | None:
    return smoothed_law(pair.decoyed, users, start - BELOW * (1.0 + start), variance)


def check(law: AnchoredLaw, truth: Truth, excess: Array) -> None:
    upper, lower = law.upper(excess), law.lower(excess)
    q, d = law.curve(excess)
    for x, high, low in zip(excess.tolist(), upper.tolist(), lower.tolist(), strict=True):
        value, error = truth.decoyed(x)
        assert low <= value + error
        assert high >= value - error
    for x in [0.0, 0.5 * float(excess[0]), *excess.tolist()]:
        value, error = truth.decoyed(x)
        assert q.size == 0 or float(np.max(d - x * q)) <= value + error


AHEAD = np.array([0.0, 1e-6, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0])


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_random_letters_contain_the_truth() -> None:
    answered = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        pair = pair_of(random_rows(rng), float(rng.choice([1.0, rng.random()])))
        users = users_for(rng, pair.decoyed[2].size)
        deviation = pair.deviation(users)
        start = math.expm1(min(float(rng.choice([0.0, 0.3, 1.0, 2.0, 4.0])) * deviation, 8.0))
        law = made(pair, users, start, 10.0 ** rng.uniform(-4.0, -1.0))
        if law is not None:
            answered += 1
            ahead = math.expm1(min(deviation, 5.0)) * AHEAD * (1.0 + start)
            check(law, Truth(pair, users), start + ahead)
    assert answered > 150


# What is outside of windows, how far they are looked at, the logarithm of powers that are left out,
# where the normal ends.
LIMITS: dict[str, tuple[float, float, float, float]] = {
    "far values": (-1.5, 45.0, -45.0, 10.0),
    "far places": (-40.0, 1.5, -45.0, 10.0),
    "weak frequencies": (-40.0, 45.0, -2.0, 10.0),
    "high frequencies": (-40.0, 45.0, -45.0, 1.0),
    "all of them": (-3.0, 3.0, -4.0, 2.0),
}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("limits", LIMITS)
def test_what_lies_outside_and_what_is_left_out_is_counted(
    limits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth outside of the window, frequencies that are left out although they count."""
    outside, reach, least, last = LIMITS[limits]
    for name, value in (("_LEAST", least), ("_LAST", last), ("_BLOCK", 2)):
        monkeypatch.setattr(smoothed, name, value)
    answered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        pair = pair_of(0.6 * rng.dirichlet(np.ones(3), size=2) + 0.4 / 3.0)
        users = 12 if seed % 2 else 36
        deviation = pair.deviation(users)
        start = math.expm1(float(rng.choice([0.0, 1.0, 3.0])) * deviation)
        with stress(outside=outside, reach=reach):
            law = made(pair, users, start, 10.0 ** rng.uniform(-3.0, -0.3))
        if law is not None:
            answered += 1
            check(law, Truth(pair, users), start + deviation * AHEAD)
    assert answered > 20


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("adverse", [-1.0, 1.0])
def test_spectra_that_err(adverse: float) -> None:
    """Every frequency is off by all that is stated, the same way."""
    answered = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pair = pair_of(0.6 * rng.dirichlet(np.ones(3), size=2) + 0.4 / 3.0)
        deviation = pair.deviation(36)
        start = math.expm1(float(rng.choice([0.0, 1.0, 2.0])) * deviation)
        for unit in (2.0**-36, 2.0**-26):
            with stress(roundoff=unit, adverse=adverse):
                law = made(pair, 36, start, 1e-3)
            if law is not None:
                answered += 1
                check(law, Truth(pair, 36), start + deviation * AHEAD)
    assert answered > 20


# Anchor, variance that may be added, logarithm of powers that are left out, where the normal ends,
# and in which steps.
KEPT: dict[str, tuple[float, float, float, float, int]] = {
    "all": (0.2, 0.3, -45.0, 10.0, 64),
    "strong frequencies": (0.2, 0.3, -3.0, 10.0, 64),
    "few of a broad normal law": (0.2, 3.0, -0.3, 10.0, 64),
    "low frequencies": (0.2, 8.0, -45.0, 0.7, 1),
    "a large tilt": (0.45, 20.0, -45.0, 10.0, 64),
}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("budget", [{}, {"roundoff": 2.0**-22, "adverse": 1.0}, {"outside": -2.0}])
@pytest.mark.parametrize("limits", KEPT)
def test_rows_are_as_good_as_stated(
    limits: str, budget: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Place by place: sums of messages are enumerated, and shared between places in closed form."""
    users = 4
    start, variance, least, last, block = KEPT[limits]
    # a fine lattice leaves the normal's transform as it is
    for name, value in (("_LEAST", least), ("_LAST", last), ("_BLOCK", block), ("_NORMAL", 0.97)):
        monkeypatch.setattr(smoothed, name, value)
    with stress(**budget):
        law = made(THREE, users, start, variance)
    assert law is not None
    every, sizes = _true_rows(law, variance), _true_rows(law, variance, size=True)
    scale = law.scale * users
    for row, (wanted, size) in enumerate(zip(every, sizes, strict=True)):
        allowed = scale * law.error[row] * law.faded + (law.relative + 1e-11) * size
        if "outside" not in budget:
            assert np.all(np.abs(scale * law.weight[row] - wanted) <= allowed)
        elif row in (0, 3):  # what is wrapped is added to the rows, and is no error of them
            assert np.all(scale * law.weight[row] >= wanted - allowed)
        assert float(np.sum(size)) > 0.05


def _true_rows(law: AnchoredLaw, variance: float, *, size: bool = False) -> Array:
    """The four rows by enumeration, untilted; or the sums of their terms' sizes."""
    r0, r1, q = THREE.decoyed
    spacing = float(law.place[1] - law.place[0])
    deviation = math.sqrt(variance * smoothed._NORMAL * law.users * _spread(law))
    some = np.array(list(itertools.product(range(3), repeat=law.users)))
    mass, s1 = np.prod(q[some], axis=1)[:, None], np.sum(r1[some], axis=1)[:, None]
    away = np.sum(r0[some], axis=1)[:, None] - (1.0 + law.excess) * s1 - law.place
    b = s1 - law.users * law.mean + 0.0 * away
    terms = np.stack([np.ones(away.shape), away, b, b * b])
    shared = mass * _shared(away, spacing, deviation)
    return np.asarray(np.sum(shared * (np.abs(terms) if size else terms), axis=1))


def _spread(law: AnchoredLaw) -> float:
    """The variance of a letter that the smoothing was chosen by."""
    letter = smoothed._tilted(THREE.decoyed, law.users, law.excess)
    assert letter is not None
    return min(letter.spread, letter.still)


def _shared(distance: Array, spacing: float, deviation: float) -> Array:
    """``E hat((x + Z - t) / h)`` from second differences of ``E (x + Z)_+``."""

    def positive(x: Array) -> Array:
        z = x / deviation
        return np.asarray(x * scipy.stats.norm.cdf(z) + deviation * scipy.stats.norm.pdf(z))

    ends = positive(distance + spacing) + positive(distance - spacing)
    return np.asarray((ends - 2.0 * positive(distance)) / spacing)


@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
def test_spectra_of_one_letter(adverse: float) -> None:
    """Against fifty digits, with all that they may be off."""
    letter = smoothed._tilted(THREE.decoyed, 50, 0.1)
    assert letter is not None
    other, s = letter.r1 - letter.mean_r1, np.array([0.0, 0.01, 1.0, 40.0])
    with stress(roundoff=2.0**-30, adverse=adverse):
        found = smoothed._power(letter, 1, s, other)
    weights = [exact(float(x)) for x in letter.weight]
    for i, at in enumerate(s.tolist()):
        turns = [MP.expj(-exact(at) * exact(float(y))) for y in letter.y]
        for row, power in ((0, 0), (2, 1), (3, 2)):
            factors = [exact(float(x)) ** power for x in other]
            terms = zip(weights, factors, turns, strict=True)
            true = sum(w * f * t for w, f, t in terms)
            off = abs(MP.mpc(complex(found.values[row, i])) - true)
            assert off <= exact(float(found.error[row, i])) + 1e-13
    assert not found.values[1].any()


@pytest.mark.parametrize("outside", [-1.5, -6.0])
@pytest.mark.parametrize("smooth", [1e-3, 3.0, 100.0])
def test_windows_leave_out_what_is_stated(smooth: float, outside: float) -> None:
    """Sums are enumerated, under the tilt, and the normal has its own law."""
    users = 6
    letter = smoothed._tilted(THREE.decoyed, users, 0.1)
    assert letter is not None
    with stress(outside=outside):
        low, high = letter.window(users, smooth)
    below = above = 0.0
    for letters in itertools.product(range(letter.y.size), repeat=users):
        some = list(letters)
        mass = float(np.prod(letter.weight[some]))
        centre = users * letter.mean + float(np.sum(letter.y[some])) + letter.theta * smooth
        below += mass * scipy.stats.norm.cdf((low - centre) / math.sqrt(smooth))
        above += mass * scipy.stats.norm.sf((high - centre) / math.sqrt(smooth))
    assert max(below, above) <= math.exp(outside)
    assert max(below, above) >= 1e-2 * math.exp(outside)


@pytest.mark.parametrize("spacing", [1e-3, 0.3, 2.0])
def test_transforms_of_what_is_added(spacing: float) -> None:
    """The hat function and its distance, the normal law and its own, by quadrature; bounds too."""
    theta, smooth = 1.3, 0.04
    s = np.array([0.0, 0.1, 3.0, 20.0])
    smoothing = smoothed._Smoothing(theta, smooth, spacing)
    falls = np.exp(-0.5 * smooth * s**2)
    for found, most, at in zip(
        np.stack(smoothing.transforms(s), axis=1),
        np.stack(smoothing.sizes(falls, falls * s), axis=1),
        s,
        strict=True,
    ):
        z = exact(theta) - MP.mpc(0, exact(float(at)))
        h, v = exact(spacing), exact(smooth)

        def hat(power: int, z: object = z, h: object = h) -> object:
            ends = [-h, 0, h]
            return MP.quad(lambda y: y**power * (1 - abs(y) / h) / h * MP.exp(-z * y), ends)

        normal = MP.exp(v * (z * z - exact(theta) ** 2) / 2)
        wanted = normal * hat(0), normal * (hat(1) - v * z * hat(0))
        for value, true, bound in zip(found.tolist(), wanted, most.tolist(), strict=True):
            assert abs(MP.mpc(value) - true) <= 1e-13 * (abs(true) + exact(spacing) * abs(normal))
            assert abs(true) <= exact(bound) * (1 + 1e-12)


@pytest.mark.usefixtures("patient")
@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    users=st.integers(1, 6),
    z=st.floats(0.0, 3.0),
    ahead=st.floats(0.0, 1.0),
)
def test_strict_containment_in_exact_arithmetic(
    seed: int, users: int, z: float, ahead: float
) -> None:
    """No tolerance: masses are exact binary numbers, the truth has 50 digits."""
    rng = np.random.default_rng(seed)
    pair = pair_of(0.5 * rng.dirichlet(np.ones(3), size=2) + 0.5 / 3.0)
    start = math.expm1(z * pair.deviation(users))
    law = made(pair, users, start, 1e-2)
    if law is None:
        return
    x = start + ahead
    masses = pair.p0.tolist(), pair.p1.tolist(), pair.q.tolist()
    truth = exact_blanket.lemma(*masses, users, 1 + exact(x))
    assert exact(float(law.lower(np.array([x]))[0])) <= truth
    assert exact(float(law.upper(np.array([x]))[0])) >= truth


@pytest.mark.parametrize("z", [0.0, 1.0, 4.0, 8.0, 15.0, 20.0])
def test_far_tails_are_relatively_accurate(z: float) -> None:
    """Down to 1e-85; the sum over counts is good to 1e-10."""
    users, variance = 900, 1e-3
    start = math.expm1(z * THREE.deviation(users))
    law = made(THREE, users, start, variance)
    assert law is not None
    check(law, Truth(THREE, users), np.array([start]))
    x = np.array([start])
    low, high = float(law.lower(x)[0]), float(law.upper(x)[0])
    # smoothing may change the variance by its share on either side, of which z^2/2 shows
    assert high - low <= 1.6 * variance * (1.0 + z**2) * math.exp(0.5 * variance * z**2) * high
    assert z < 20.0 or high < 1e-80


@pytest.mark.parametrize("users", [10**3, 10**5, 10**7, 10**9])
def test_staged_laws_agree(users: int) -> None:
    """Many messages; laws that are summed in stages share no frequency with these."""
    from shuffle_accountant.lattice.anchoring import anchored_law

    rng = np.random.default_rng(users)
    answered = 0
    for z in (0.0, 1.0, 3.0):
        pair = pair_of(rng.dirichlet(np.full(5, 3.0), size=2))
        start = math.expm1(z * pair.deviation(users))
        law = made(pair, users, start, 3e-4)
        other = anchored_law(pair.decoyed, users, start * (1.0 - 1e-12) - 1e-13, variance=1e-4)
        assert other is not None
        if law is None:
            continue
        answered += 1
        excess = start + math.expm1(pair.deviation(users)) * np.array([0.0, 0.1, 0.5])
        assert np.all(law.lower(excess) <= other.upper(excess))
        assert np.all(law.upper(excess) >= other.lower(excess))
        width = law.upper(excess[:1]) - law.lower(excess[:1])
        assert np.all(width <= 2e-3 * (1.0 + z**2) * law.upper(excess[:1]))
    assert answered >= 2


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("variance", [1e-3, 0.3])
@pytest.mark.parametrize("outside", [-0.5, -1.5, -3.0])
def test_what_wrapping_adds_is_stated(outside: float, variance: float) -> None:
    """Costs and gains of events, against those that nothing is wrapped in."""
    users, added = 4, np.zeros(2)
    for start in (0.0, 0.3):
        with stress(outside=outside):
            law = made(THREE, users, start, variance)
        assert law is not None
        wanted = _true_rows(law, variance)
        scale = law.scale * users
        cost, gain = (
            np.maximum(found - true, 0.0).sum()
            for found, true in zip(
                _events(law, scale * law.weight), _events(law, wanted), strict=True
            )
        )
        assert cost <= scale * law.spurious + 1e-12
        assert gain <= scale * law.overstated + 1e-12
        added = np.maximum(added, [cost, gain])
    assert outside < -1.0 or np.all(added > 1e-4)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("variance", [0.01, 0.3])
def test_how_far_wrapped_places_are_from_their_sums(variance: float) -> None:
    """``E[e^(theta X) |Z|; X outside]`` by enumeration and a fine sum over Z."""
    users, outside = 4, -1.0
    with stress(outside=outside):
        law = made(THREE, users, 0.2, variance)
        letter = smoothed._tilted(THREE.decoyed, users, 0.2 - BELOW * 1.2)
        assert law is not None
        assert letter is not None
        smooth = variance * smoothed._NORMAL * users * _spread(law)
        low, high = letter.window(users, smooth)
    deviation = math.sqrt(smooth)
    z, step = np.linspace(-12.0, 12.0, 200_001, retstep=True)
    # under the tilt
    normal = letter.theta * smooth + deviation * z
    weight = step * np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    away = 0.0
    for letters in itertools.product(range(letter.y.size), repeat=users):
        some = list(letters)
        x = users * letter.mean + float(np.sum(letter.y[some])) + normal
        left = weight * np.abs(normal) * ((x < low) | (x > high))
        away += float(np.prod(letter.weight[some])) * float(np.sum(left))
    spacing = float(law.place[1] - law.place[0])
    wrapped = 2.0 * math.exp(outside + letter.theta * spacing) / (math.e * letter.theta)
    assert away > 1e-3
    assert wrapped + away <= law.overstated


def _events(law: AnchoredLaw, rows: Array) -> tuple[Array, Array]:
    """``E[S1; T = t]`` and ``E[L; T = t]``."""
    return law.users * law.mean * rows[0] + rows[2], law.place * rows[0] + rows[1]


def test_what_is_not_smooth_is_left_to_others() -> None:
    """No positive letter, one letter, and far letters that rule the tilted law."""
    assert made(THREE, 100, 5.0, 1e-3) is None
    one = LetterPair(np.array([1.0]), np.array([1.0]), np.array([1.0]))
    assert made(one, 100, 0.0, 1e-3) is None
    few = pair_of(np.array([[0.9, 0.1], [0.1, 0.9]]))
    assert made(few, 3, 0.1, 1e-6) is None
    heavy = pair_of(np.array([[1e-5, 0.5, 0.49999], [0.0099, 0.4901, 0.5]]))
    assert made(heavy, 2000, 0.2, 1e-3) is None


@pytest.mark.parametrize("adverse", [-1.0, 1.0])
def test_the_scale_errs_by_what_is_stated(adverse: float) -> None:
    """Weights of all letters that err the same way are an error of the scale."""
    unit = 2.0**-34
    for users in (100, 400):
        right = made(THREE, users, 0.05, 1e-3)
        with stress(roundoff=unit, adverse=adverse):
            off = made(THREE, users, 0.05, 1e-3)
        assert right is not None
        assert off is not None
        wrong = abs(off.scale / right.scale - 1.0)
        assert 4 * users * unit < wrong <= off.relative < 0.01
