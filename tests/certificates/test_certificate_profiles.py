"""The verifier's profiles against enumeration in 60 digits that shares nothing with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("flint", reason="python-flint is the extra 'verify'")

from flint import arb, fmpq

from shuffle_accountant.certificates.additive import Falling, Rising, power, spread
from shuffle_accountant.certificates.allocated import (
    AllocatedSteps,
    GaussianExcess,
    TwoValuedExcess,
    _falling_sum,
    _rising_sum,
)
from shuffle_accountant.certificates.balls import (
    Effort,
    UndecidedError,
    ceiling,
    exact,
    working_precision,
)
from shuffle_accountant.certificates.binary_target import BinaryTarget, _place
from shuffle_accountant.certificates.composition import GridLaw, LossTable, composed
from shuffle_accountant.certificates.description import parts_of
from shuffle_accountant.certificates.letters import LettersAmongDecoys, ListedMultisets
from shuffle_accountant.certificates.profiles import Largest, Mirrored
from shuffle_accountant.certificates.thresholds import Thresholded

EFFORT = Effort(bits=120, cells=1 << 9, precision=320)
# Cuts at 2^-36, as for one round and a delta of 1e-6.
COARSE = Effort(bits=84, cells=1 << 9, precision=320)
# The balls are wide by what is cut: 2^-72 of the mass.
CUT = mpmath.mpf(2) ** -70
mpmath.mp.dps = 60


@pytest.fixture(autouse=True)
def _precision():
    with working_precision(EFFORT.precision):
        yield


def number(value: arb) -> mpmath.mpf:
    """The middle of a ball."""
    mantissa, exponent = value.mid().man_exp()
    return mpmath.ldexp(mpmath.mpf(int(mantissa)), int(exponent))


def upper(value: arb) -> mpmath.mpf:
    return number(value.upper())


def binary_oracle(u, v, rate, decoys, alpha):
    """All counts of zeros and ones among the messages."""
    total = mpmath.mpf(0)
    for c in range(decoys + 1):
        weight = comb(decoys, c) * rate**c * (1 - rate) ** (decoys - c)
        for a in range(c + 2):
            same = comb(c, a - 1) if a else 0
            other = comb(c, a) if a <= c else 0
            p = (u * same + v * other) / mpmath.mpf(2) ** c
            q = (v * same + u * other) / mpmath.mpf(2) ** c
            total += weight * max(p - alpha * q, 0)
    return total


@pytest.mark.parametrize("decoys", [0, 1, 7, 40])
@pytest.mark.parametrize("eps0", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("loss", [0.0, 0.0625, 0.5, 2.75, 3.0, 5.0])
def test_binary_targets_enclose_enumeration(decoys, eps0, loss):
    ball, digits = exact(eps0), mpmath.mpf(eps0)
    found = BinaryTarget(
        1 / (1 + (-ball).exp()), 1 / (1 + ball.exp()), 2 / (1 + ball.exp()), decoys
    )
    (value,) = found.divergences([exact(loss).exp()], EFFORT)
    v = 1 / (1 + mpmath.exp(digits))
    true = binary_oracle(1 - v, v, 2 * v, decoys, mpmath.exp(mpmath.mpf(loss)))
    assert number(value.lower()) - mpmath.mpf(10) ** -50 <= true
    assert true <= upper(value) + mpmath.mpf(10) ** -50
    assert upper(value) - true <= CUT


def test_a_target_that_never_lies():
    found = BinaryTarget(arb(1), arb(0), arb(1) / 4, 12)
    (value,) = found.divergences([arb(2).exp()], EFFORT)
    true = binary_oracle(1, 0, mpmath.mpf(1) / 4, 12, mpmath.exp(2))
    assert abs(number(value) - true) <= CUT


F2 = Fraction(1, 2)


def letters_oracle(letters, users, alpha):
    """All sequences of messages; Fractions."""
    total = Fraction(0)
    kept = [(p0, p1, q) for p0, p1, q in letters if q > 0]
    for sent in product(kept, repeat=users):
        chance, ratio = Fraction(1), Fraction(0)
        for p0, p1, q in sent:
            chance *= q
            ratio += (p0 - alpha * p1) / q
        total += chance * max(ratio, Fraction(0)) / users
    return total + sum(max(p0 - alpha * p1, 0) for p0, p1, q in letters if q == 0)


laws = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)


@contextmanager
def most_multisets(number: int) -> Iterator[None]:
    """So many are listed at most; more messages are added up on grids."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shuffle_accountant.certificates.letters._MOST", number)
        yield


def letters_and_truth(first, second, decoy, users, alpha):
    """The upper end and the radius of the divergence, the truth, and the letters."""
    rows = [[Fraction(x, sum(law)) for x in law] for law in (first, second, decoy)]
    exact_letters = list(zip(*rows, strict=True))
    balls = tuple(
        tuple(arb(fmpq(x.numerator, x.denominator)) for x in letter) for letter in exact_letters
    )
    target = LettersAmongDecoys(balls, users)
    with working_precision(EFFORT.precision):
        (value,) = target.divergences([arb(fmpq(alpha.numerator, alpha.denominator))], EFFORT)
    true = letters_oracle(exact_letters, users, alpha)
    held = Fraction(str(mpmath.nstr(upper(value), 50)))
    return held, float(value.rad()), true, exact_letters


@settings(max_examples=40, deadline=None)
@given(laws, laws, laws, st.integers(1, 4), st.fractions(0, 4, max_denominator=32))
def test_few_letters_are_enclosed(first, second, decoy, users, alpha):
    held, radius, true, _ = letters_and_truth(first, second, decoy, users, alpha)
    # printed to 50 digits
    assert abs(held - true) <= Fraction(1, 10**40)
    assert radius < 1e-60


def test_letters_that_decoys_surely_send_or_surely_do_not():
    """A chance that is nothing but for rounding is a blank's."""
    half, doubt = arb(1) / 2, arb(0).union(arb(2) ** -200)
    letters = ((half, arb(0), half), (half, arb(0), doubt), (arb(0), arb(1), half))
    (value,) = LettersAmongDecoys(letters, 3).divergences([arb(1)], EFFORT)
    true = letters_oracle([(F2, 0, F2), (F2, 0, Fraction(0)), (0, Fraction(1), F2)], 3, 1)
    assert abs(upper(value) - mpmath.mpf(true.numerator) / true.denominator) <= CUT


def test_multisets_that_a_wide_ball_may_or_may_not_count():
    u, v, zero = arb(3) / 4, arb(1) / 4, arb(0)
    listed = ListedMultisets.of([(u, v, v), (v, u, v), (zero, zero, arb(1) / 2)], 4, 99)
    value = listed.divergence(arb(1).union(arb(2)))
    for alpha in (1, 2):
        true = binary_oracle(mpmath.mpf(3) / 4, mpmath.mpf(1) / 4, mpmath.mpf(1) / 2, 3, alpha)
        assert number(value.lower()) <= true <= upper(value)
        if alpha == 1:  # none is counted twice; radii have 30 bits
            assert upper(value) <= true + mpmath.mpf(2) ** -24
    with pytest.raises(UndecidedError):
        ListedMultisets.of([(u.union(v), v, v), (v, u, v)], 4, 99)


@pytest.mark.parametrize("cut", [5, 8, 14])
def test_multisets_that_are_not_listed_count_as_told(cut):
    u, v, zero = arb(3) / 4, arb(1) / 4, arb(0)
    letters = [(u, v, v), (v, u, v), (zero, zero, arb(1) / 2)]
    listed = ListedMultisets.of(letters, 13, cut)
    assert 0 < len(listed.shares) < 105
    assert listed.rest > 0
    for alpha in ("1", "1.5", "2.5"):
        args = mpmath.mpf(3) / 4, mpmath.mpf(1) / 4, mpmath.mpf(1) / 2, 12, mpmath.mpf(alpha)
        true = binary_oracle(*args)
        value = listed.divergence(exact(float(alpha)))
        assert number(value.lower()) <= true <= upper(value)
        kept = sum((max(p - exact(float(alpha)) * q, arb(0)) for p, q in listed.masses), arb(0))
        assert number(kept) < true


@settings(max_examples=40, deadline=None)
@given(laws, laws, laws, st.integers(1, 4), st.fractions(1, 4, max_denominator=32))
def test_letters_are_bounded_from_above_and_closely(first, second, decoy, users, alpha):
    with most_multisets(0):
        held, _, true, exact_letters = letters_and_truth(first, second, decoy, users, alpha)
    assert held >= true - Fraction(1, 10**40)
    # a spacing is at most 1/32 of a deviation of one summand
    scale = max((p0 + alpha * p1) / q for p0, p1, q in exact_letters if q > 0) if users else 0
    assert held <= true + Fraction(1, 16) * scale / users + Fraction(1, 10**9)


def test_bounds_of_many_letters_are_close():
    """Against the binary target, which is exact: two letters and a blank are clones."""
    v = 1 / (1 + arb(2).exp())
    u, rate, zero = 1 - v, 2 * v, arb(0)
    letters = LettersAmongDecoys(((u, v, v), (v, u, v), (zero, zero, 1 - rate)), 1000)
    binary = BinaryTarget(u, v, rate, 999)
    alphas = [(k * arb(0.02)).exp() for k in (0, 4, 12, 18)]
    for above, true in zip(
        letters.divergences(alphas, EFFORT), binary.divergences(alphas, EFFORT), strict=True
    ):
        ratio = float(above.upper()) / float(true.upper())
        # the variance grows by 2e-4 of itself, which is at most 1 % of such tails
        assert 1.0 <= ratio <= 1.02


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-40, 40), st.integers(1, 9)), min_size=1, max_size=4),
    st.integers(1, 6),
    st.integers(-60, 60),
    st.integers(2, 40),
)
def test_sums_from_above_are_above_the_truth(atoms, count, point, cells):
    """``E(S - a)_+`` on any grid, however coarse and however short."""
    effort = Effort(bits=58, cells=cells, precision=200)  # cuts off a thousandth
    letters, exactly = weights(atoms, effort)
    law = power(Rising.of(letters, 0, effort), count, effort)
    (found,) = law.beyond([fmpq(point)], fmpq(1, 1000))
    assert fraction(upper(found)) >= sum_over(exactly, count, lambda total: total - point)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 9)), min_size=1, max_size=4),
    st.integers(1, 6),
    st.integers(0, 3000),
    st.integers(2, 40),
)
def test_sums_from_below_are_above_the_truth(atoms, count, point, cells):
    """``E(c - S)_+``, with small values that are given up."""
    effort = Effort(bits=51, cells=cells, precision=200)  # gives up an eighth
    letters, exactly = weights(atoms, effort)
    law = power(Falling.of(letters, 0, effort), count, effort)
    (found,) = law.below([fmpq(point)], fmpq(1, 1000))
    given_up = Fraction(law.cost, 1 << law.bits) * point
    true = sum_over(exactly, count, lambda total: point - total)
    assert fraction(upper(found)) + given_up >= true


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 9)), min_size=1, max_size=4))
def test_values_between_cells_are_split_with_their_mean(atoms):
    effort = Effort(bits=140, cells=64, precision=320)
    letters = [(arb(fmpq(x, 7)), arb(fmpq(w, 36))) for x, w in sorted(dict(atoms).items())]
    held = spread(letters, fmpq(1, 4), effort).atoms()
    assert all(place * 7 <= 4 * 91 for place, _ in held)
    mean = Fraction(sum(x * mass for x, mass in held), 4 << effort.fine_bits)
    true = sum(Fraction(x * w, 7 * 36) for x, w in dict(atoms).items())
    # values are rounded down, masses up, by 2^-156 each
    assert abs(mean - true) <= Fraction(1, 10**40)


def weights(atoms, effort):
    """Values in thousandths with integer masses, and the values with their probabilities."""
    held = sorted(dict(atoms).items())
    weight, one = sum(w for _, w in held), 1 << effort.fine_bits
    letters = [(1000 * x, one * w // weight) for x, w in held]
    return letters, [(x // 1000, Fraction(mass, one)) for x, mass in letters]


def sum_over(atoms, count, gain):
    """The mean gain of a sum, where there is any."""
    return sum(
        max(gain(sum(x for x, _ in chosen)), Fraction(0)) * prod(w for _, w in chosen)
        for chosen in product(atoms, repeat=count)
    )


def fraction(value):
    return Fraction(str(mpmath.nstr(value, 40)))


def prod(values):
    total = 1
    for value in values:
        total *= value
    return total


def test_cutting_the_top_is_counted():
    """A mass of 2^-46 at a thousand is moved to 1, and what it leaves behind is a cost."""
    effort = Effort(bits=80, cells=64, precision=320)  # 2^-32 may be cut
    law = Rising.of([(0, 1 << 96), (1, 1 << 96), (1000, 1 << 50)], 0, effort)
    assert law.atoms() == [(0, 1 << 96), (1, (1 << 96) + (1 << 50))]
    assert law.cost == 999 << 50
    (found,) = law.beyond([fmpq(1, 2)], fmpq(1))
    assert number(found) == mpmath.mpf(1) / 2 + mpmath.mpf(999.5) / mpmath.mpf(2) ** 46


def test_giving_up_small_values_is_counted():
    """A mass of 2^-36 at one is given up; those that are large are moved down."""
    effort = Effort(bits=80, cells=64, precision=320)  # 2^-32 may be cut
    law = Falling.of([(1, 1 << 60), (8, 1 << 96), (9, 1 << 60)], 0, effort)
    assert law.atoms() == [(8, (1 << 96) + (1 << 60))]
    assert law.cost == 1 << 60


def test_ratios_of_a_billion_to_one_fit_one_grid():
    """Nine decades in a few hundred cells, and the sum of two is as close."""
    letters = [(arb(10) ** -9, arb(1) / 2), (arb(1), arb(1) / 2)]
    unit = fmpq(1, 1 << 40)
    law = power(spread(letters, unit, EFFORT), 2, EFFORT)
    assert sum(map(len, law.blocks)) < 40 * EFFORT.cells
    for point in (fmpq(1, 10**8), fmpq(3, 2)):
        (found,) = law.below([point], unit)
        c = mpmath.mpf(int(point.p)) / int(point.q)
        low = mpmath.mpf(10) ** -9
        true = (c - 2 * low) / 4 + max(c - 1 - low, 0) / 2 + max(c - 2, 0) / 4
        # a cell is 2^-9 of a distance from the least value at most
        assert true <= upper(found) <= true * (1 + mpmath.mpf(2) ** -8)


@pytest.mark.parametrize("loss", [-0.9, -0.25, 0.0, 0.3, 0.8, 1.5])
@pytest.mark.parametrize(("steps", "released"), [(1, 1), (5, 5), (6, 4)])
def test_pure_allocations_in_both_orders(steps, released, loss):
    epsilon, alpha = mpmath.mpf(1), mpmath.exp(mpmath.mpf(loss))
    chance = 1 / (1 + mpmath.exp(epsilon))
    pair = AllocatedSteps(
        TwoValuedExcess(arb(1), 1), 1.0, steps, released, arb(-1).exp(), arb(1).exp()
    )
    forward = backward = mpmath.mpf(0)
    for j in range(released + 1):
        q = comb(released, j) * chance**j * (1 - chance) ** (released - j)
        total = j * mpmath.exp(epsilon) + (released - j) * mpmath.exp(-epsilon)
        ratio = 1 - mpmath.mpf(released) / steps + total / steps
        forward += q * max(ratio - alpha, 0)
        backward += q * max(1 - alpha * ratio, 0)
    at = [exact(loss).exp()]
    for (found,), true in (
        (pair.divergences(at, EFFORT), forward),
        (replace(pair, exchanged=True).divergences(at, EFFORT), backward),
    ):
        assert upper(found) >= true - mpmath.mpf(10) ** -30
        assert upper(found) <= true + mpmath.mpf("2e-3")  # the grid's spacing is 1/64


@pytest.mark.parametrize("loss", [-0.5, 0.0, 0.7])
def test_one_gaussian_step_is_the_gaussian_mechanism(loss):
    sigma, alpha = mpmath.mpf(2), mpmath.exp(mpmath.mpf(loss))
    true = mpmath.ncdf(1 / (2 * sigma) - loss * sigma) - alpha * mpmath.ncdf(
        -1 / (2 * sigma) - loss * sigma
    )
    pair = AllocatedSteps(GaussianExcess(arb(2)), 0.5, 1, 1, arb(0), arb("inf"))
    for order in (pair, replace(pair, exchanged=True)):
        (value,) = order.divergences([exact(loss).exp()], EFFORT)
        assert abs(upper(value) - true) <= mpmath.mpf(10) ** -50  # no grid is needed


def test_two_gaussian_steps_against_quadrature():
    sigma, alpha = mpmath.mpf(1), mpmath.mpf(2)

    def inner(z):
        a = 2 * alpha - mpmath.exp(z / sigma - 1 / (2 * sigma**2))
        if a <= 0:
            return 1 - a
        far = sigma * mpmath.log(a)
        return mpmath.ncdf(1 / (2 * sigma) - far) - a * mpmath.ncdf(-1 / (2 * sigma) - far)

    points = [-12, -4, 0, 1, mpmath.log(4) + mpmath.mpf("0.5"), 3, 6, 12]
    with mpmath.workdps(25):
        true = mpmath.quad(lambda z: mpmath.npdf(z) * inner(z), points) / 2
    pair = AllocatedSteps(GaussianExcess(arb(1)), 1.3, 2, 2, arb(0), arb("inf"))
    (value,) = pair.divergences([arb(2)], COARSE)
    assert true <= upper(value) <= true * mpmath.mpf("1.002")


def test_next_to_no_noise():
    """Where one of two ratios outweighs all others, up to e^130: each is as likely to."""
    excess, narrow = GaussianExcess(arb(1) / 10), Effort(bits=84, cells=64, precision=296)
    pair = AllocatedSteps(excess, 1e22, 2, 2, arb(0), arb("inf"))
    alphas = [arb(loss).exp() for loss in (40, 70, 100)]
    for alpha, value in zip(alphas, pair.divergences(alphas, narrow), strict=True):
        true = number(excess(2 * alpha))  # and a little more if both are large: less than 1e-6
        # a cell is 2^-5 of its place at most, which is 2^-10 of what a chord is above
        assert true <= upper(value) <= true * mpmath.mpf("1.01") + mpmath.mpf("1e-10")


def test_tables_are_summed_exactly():
    table = LossTable([-1.0, 0.25, 2.0], [0.25, 0.5, 0.125], 0.0625)
    alphas = [exact(x).exp() for x in (-2.0, 0.25, 1.0, 3.0)]
    for ball, x in zip(table.divergences(alphas, EFFORT), (-2.0, 0.25, 1.0, 3.0), strict=True):
        true = mpmath.mpf("0.125")  # at +inf, and what is missing
        for loss, mass in ((-1.0, 0.25), (0.25, 0.5), (2.0, 0.125)):
            true += mass * max(1 - mpmath.exp(mpmath.mpf(x) - loss), 0)
        assert abs(number(ball) - true) < mpmath.mpf(10) ** -50


def test_sampling_and_mirror_images():
    """``g H(1 + (α - 1)/g)``, and its mirror image below one."""
    target = BinaryTarget(arb(3) / 4, arb(1) / 4, arb(1) / 2, 3)
    profile = Largest([target], arb(1), arb(1) / 4)
    low, one, high = profile.values([arb(4) / 5, arb(1), arb(5) / 4], EFFORT)
    quarter = mpmath.mpf(1) / 4
    true = quarter * binary_oracle(3 * quarter, quarter, 2 * quarter, 3, mpmath.mpf(2))
    assert abs(number(high) - true) <= CUT
    assert abs(number(low) - (1 - mpmath.mpf(4) / 5 * (1 - true))) <= CUT
    assert high < one < low


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=5).filter(any),
    st.integers(-3, 1),
    st.integers(1, 4),
    st.integers(-4, 8),
)
def test_composition_is_never_below_the_truth(weights, first, count, place):
    bits = 60
    total = sum(weights)
    masses = [(w << bits) // total for w in weights]
    law = GridLaw(first, tuple(masses), (1 << bits) - sum(masses), bits)
    assert law.total == 1 << bits
    spacing, epsilon = arb(1) / 4, arb(place) / 8
    found = composed([(law, count)], Effort(bits, 64, 200)).delta(epsilon, spacing)
    finite = [(first + i, Fraction(m, 1 << bits)) for i, m in enumerate(masses)]
    true, kept = mpmath.mpf(0), Fraction(0)
    for chosen in product(finite, repeat=count):
        mass = prod(m for _, m in chosen)
        kept += mass
        loss = mpmath.mpf(sum(k for k, _ in chosen)) / 4
        share = mpmath.mpf(mass.numerator) / mass.denominator
        true += share * max(1 - mpmath.exp(mpmath.mpf(place) / 8 - loss), 0)
    infinite = 1 - kept
    true += mpmath.mpf(infinite.numerator) / infinite.denominator
    assert upper(found) >= true - mpmath.mpf(10) ** -40
    # what is cut is 2^-20 for each product, at most
    assert upper(found) <= true + count * mpmath.mpf(2) ** -16


# So little is followed that what is cut, 2^-8 of the mass, decides.
CUT_SHORT = Effort(bits=56, cells=1 << 9, precision=320)


def two_gaussian_steps(alpha, backward):
    """Of noise 1, by quadrature over the first step's ratio."""

    def beyond(x):  # E(X - x)_+
        far = mpmath.log(x)
        return mpmath.ncdf(mpmath.mpf("0.5") - far) - x * mpmath.ncdf(-mpmath.mpf("0.5") - far)

    def inner(z):
        rest = 2 * (1 / alpha if backward else alpha) - mpmath.exp(z - mpmath.mpf("0.5"))
        if backward:
            return rest - 1 + beyond(rest) if rest > 0 else mpmath.mpf(0)
        return beyond(rest) if rest > 0 else 1 - rest

    kink = mpmath.log(2 * (1 / alpha if backward else alpha)) + mpmath.mpf("0.5")
    points = sorted([-12, 0, 12, kink, kink - 1, kink + 1])
    with mpmath.workdps(20):
        value = mpmath.quad(lambda z: mpmath.npdf(z) * inner(z), points) / 2
    return alpha * value if backward else value


@pytest.mark.parametrize("backward", [False, True])
def test_what_allocations_leave_out_is_counted(backward):
    """Where nothing is left but what was cut, the bound is still one; all mass is accounted for."""
    pair = AllocatedSteps(GaussianExcess(arb(1)), 1.3, 2, 2, arb(0), arb("inf"), backward)
    for alpha in (2, 30, 1000):
        (value,) = pair.divergences([arb(alpha)], CUT_SHORT)
        assert 0 < two_gaussian_steps(mpmath.mpf(alpha), backward) <= upper(value)
    law, _ = (_falling_sum if backward else _rising_sum)(pair, CUT_SHORT)
    assert law.total + (law.cost if backward else 0) >= 1 << law.bits


def test_what_letters_leave_out_is_counted():
    """Only fourteen equal letters, of probability 2^-14, gain anything, and they are given up."""
    half, quarter = arb(1) / 2, arb(1) / 4
    target = LettersAmongDecoys(((3 * quarter, quarter, half), (quarter, 3 * quarter, half)), 14)
    with most_multisets(0):
        (value,) = target.divergences([arb("2.9")], CUT_SHORT)
    assert upper(value) >= mpmath.mpf("0.05") / 2**14


def test_tails_that_a_composition_cuts_are_moved_up():
    law = GridLaw(-1, (1 << 30, (1 << 60) - (1 << 31), 1 << 30), 0, 60)
    found = law.times(GridLaw(0, (1 << 60,), 0, 60), 20)
    assert (found.first, list(found.masses)) == (0, [(1 << 60) - (1 << 30)])
    assert found.infinite == 1 << 30


def test_what_is_raised_to_the_first_place_is_negligible():
    """The law of a sum that rises keeps the mean, but for ratios below its grid: 2^-80 of it."""
    pair = AllocatedSteps(GaussianExcess(arb(1)), 1.3, 8, 3, arb(0), arb("inf"))
    law, unit = _rising_sum(pair, EFFORT)
    mean = sum(place * mass for place, mass in law.atoms()) * unit / (1 << law.bits)
    # masses are rounded up, 2^-136 each, at places up to 2^40 units
    assert abs(Fraction(int(mean.p), int(mean.q)) - 3) <= Fraction(1, 2**60)


def test_products_of_two_ratios_are_rarely_farther_than_estimated():
    for epsilon, passes, bits in ((0.3, 200, 10), (0.01, 1000, 4)):
        steps = TwoValuedExcess(exact(epsilon), passes)
        far = steps.farthest(bits)
        assert far < passes * epsilon
        masses = (q for value, q in steps.atoms if abs(value.log()) > far)
        assert sum(masses, arb(0)) <= 2 * arb(2) ** -bits


def test_a_number_without_bound_has_no_ceiling():
    for value in (arb("nan"), arb("inf"), arb(1) / arb(0)):
        with pytest.raises(UndecidedError, match="without bound"):
            ceiling(value, 60)
    assert (ceiling(arb(3) / 4, 1), ceiling(arb(-3) / 4, 1)) == (2, -1)


def test_a_probability_that_no_ball_decides():
    target = BinaryTarget(arb(3) / 4, arb(1) / 4, arb("0.5 +/- 0.4"), 60)
    with pytest.raises(UndecidedError, match="likeliest number of messages"):
        target._counts(EFFORT.cut)


def test_a_threshold_that_no_ball_decides():
    half = 1 << 255
    assert _place(6, half, half + 1) == 3
    with pytest.raises(UndecidedError, match="where the likelihood ratio passes alpha"):
        _place(7, half - 1, half)


def _counts(others: int, p: Fraction, threshold: int) -> dict[int, Fraction]:
    """Law of the count of Bin(others, p) that is released; -1 stands for none."""
    law: dict[int, Fraction] = {}
    for c in range(others + 1):
        seen = c if c >= threshold else -1
        law[seen] = law.get(seen, Fraction(0)) + comb(others, c) * p**c * (1 - p) ** (others - c)
    return law


def _divergence(one: dict[int, Fraction], other: dict[int, Fraction], alpha: Fraction) -> Fraction:
    return sum(
        (max(mass - alpha * other.get(c, Fraction(0)), Fraction(0)) for c, mass in one.items()),
        Fraction(0),
    )


@pytest.mark.parametrize(("p", "threshold"), [(0.5, 1), (0.25, 3), (0.75, 2), (0.0625, 1)])
def test_thresholds_are_the_worst_number_of_others(p: float, threshold: int) -> None:
    """In fractions, over all numbers up to the last one, which is followed without a threshold."""
    chance = Fraction(p)
    target = Thresholded(chance, threshold)
    alphas = [Fraction(1), Fraction(9, 8), Fraction(3, 2), Fraction(3), Fraction(40)]
    # of several alphas the ratio of a count is exactly one of them
    balls = [arb(fmpq(a.numerator, a.denominator)) for a in alphas]
    orders = target, replace(target, exchanged=True)
    found = [one.divergences(balls, EFFORT) for one in orders]
    for one, other, values in zip(orders, orders[::-1], found, strict=True):
        assert Mirrored(one, other).values(balls, EFFORT) == values
    pairs = [
        (_counts(m + 1, chance, least), _counts(m, chance, least))
        for m in range(threshold - 1, target._last + 1)
        for least in ([threshold, 0] if m == target._last else [threshold])
    ]
    for place, alpha in enumerate(alphas):
        for order in (0, 1):
            truth = max(_divergence(*(pair[::-1] if order else pair), alpha) for pair in pairs)
            value = found[order][place]
            assert value.contains(fmpq(truth.numerator, truth.denominator))
            assert float(value.rad()) <= 1e-70


def test_counts_beyond_the_last_one_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for few counts the ends stay above; where that is all, they are as good as none."""
    orders = [Thresholded(Fraction(1, 4), 2, exchanged) for exchanged in (False, True)]
    alphas = [arb(1), arb(1.25), arb(3)]
    whole = [one.divergences(alphas, EFFORT) for one in orders]
    monkeypatch.setattr("shuffle_accountant.certificates.thresholds._MORE", 0)
    monkeypatch.setattr("shuffle_accountant.certificates.thresholds._COUNTS", 3)
    short = [one.divergences(alphas, EFFORT) for one in orders]
    for before, after in zip(whole, short, strict=True):
        for a, b in zip(before, after, strict=True):
            assert upper(b) >= upper(a) * (1 - mpmath.mpf(10) ** -60)
    assert any(float(b.rad()) > 1e-9 for row in short for b in row)


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("kind", ["general", "interactive", "discrete", "one row alone"])
def test_exposed_targets_are_means_of_divergences(everyone: bool, kind: str) -> None:
    """Against the mean over which of the others are recognised, each a round of its own."""
    randomizer = {
        "general": {"kind": "general", "eps0": 1.0, "interactive": False},
        "interactive": {"kind": "general", "eps0": 1.0, "interactive": True},
        "discrete": {"kind": "discrete", "channel": [[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]},
        # a message that two of the inputs never send
        "one row alone": {
            "kind": "discrete",
            "channel": [[0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [0.375, 0.5, 0.125]],
        },
    }[kind]
    chance, users = 0.25, 4
    leak = {
        "exposure": chance,
        "everyone": everyone,
        "persistent": False,
        "weights": None,
        "batches": None,
        "random_batches": False,
        "minimum_batch": None,
    }
    alphas = [arb(1), arb(1.25), arb(2)]

    def values(count: int, **more: object) -> list[mpmath.mpf]:
        plain = {"population": None, "reduction": "auto", "variant": None}
        one = {"randomizer": randomizer, "users": count, **plain, **more}
        rounds = [{"round": one, "count": 1}]
        (part,) = parts_of({"adjacency": "replace-one", "rounds": rounds})
        return [number(value) for value in part.orders[0].values(alphas, EFFORT)]

    found = values(users, shuffler=leak)
    hidden = [mpmath.mpf(0)] * 3
    for seen in range(users) if everyone else [0]:
        share = comb(users - 1, seen) * chance**seen * (1 - chance) ** (users - 1 - seen)
        weight = mpmath.mpf(share if everyone else 1)
        rest = values(users - seen)
        hidden = [a + weight * b for a, b in zip(hidden, rest, strict=True)]
    for value, rest, alone in zip(found, hidden, values(1), strict=True):
        assert abs(value - ((1 - chance) * rest + chance * alone)) <= mpmath.mpf(10) ** -15
