"""Profiles of a range of numbers of messages, against sums over all multisets of messages."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import blanket as exact_blanket
from oracles.letter_pairs import Truth, pair_of, random_rows, users_for
from oracles.precision import exact

import shuffle_accountant as sa
from shuffle_accountant.lattice import inversion as bounds
from shuffle_accountant.lattice import (
    letters_apart,
    power_sums,
    rare_letters,
    spectra,
    tilted_letters,
)
from shuffle_accountant.lattice.grid import Array, Bound
from shuffle_accountant.lattice.inversion import Ends, Inversion, inversion
from shuffle_accountant.losses.alphabets.letter_divergence import LetterDivergence
from shuffle_accountant.losses.alphabets.letters import LetterPair
from shuffle_accountant.losses.base import Effort

fixed = settings(derandomize=True, deadline=None, max_examples=100)


def known(found: Ends) -> Array:
    return np.isfinite(found.upper)


def check(found: Ends, truth: Truth, excess: Array) -> int:
    """Containment at every alpha, and of every event at every alpha; how many there were."""
    there = known(found)
    rows = zip(excess[there].tolist(), found.upper[there], found.lower[there], strict=True)
    for x, high, low in rows:
        value, error = truth.decoyed(x)
        assert low <= value + error
        assert high >= value - error
    for x in [0.0, 0.5 * float(excess[0]), *excess.tolist(), 3.0 * float(excess[-1])]:
        value, error = truth.decoyed(x)
        lines = found.d[there] - x * found.q[there]
        assert np.all(lines <= value + error)
    return int(there.sum())


@pytest.mark.slow
def test_random_letters_contain_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of pairs of all kinds, for the least, a middle and the largest number.

    Few messages have no smooth law: with all frequencies they are answered all the same.
    """
    monkeypatch.setattr(spectra, "_MOST_KEPT", 1 << 13)
    answered = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        pair = pair_of(random_rows(rng), float(rng.choice([1.0, rng.random()])))
        most = users_for(rng, pair.decoyed[2].size)
        least = max(int(most / rng.choice([1.0, 1.25, 4.0])), 1)
        z = np.array([0.0, 1e-6, 0.3, 1.0, 2.0, 4.0])
        excess = np.unique(np.expm1(np.minimum(z * pair.deviation(least), 8.0)))
        table = inversion(pair.decoyed, (least, most), excess, 10.0 ** rng.uniform(-4.0, -1.0))
        for users in {least, (least + most) // 2, most}:
            truth = Truth(pair, users)
            answered += check(table.ends(users), truth, excess)
            check(table.ends(users, many=True), truth, excess)
    assert answered > 500


def with_a_rare_letter(seed: int) -> LetterPair:
    """Three letters, and two that mirror one another, are hardly sent, and tell much."""
    rng = np.random.default_rng(seed)
    p, p_prime = 0.6 * rng.dirichlet(np.ones(3), size=2) + 0.4 / 3.0
    rare = 10.0 ** rng.uniform(-7.0, -4.0)
    ratio = 10.0 ** rng.uniform(1.0, 3.0)
    rows = [np.append(row, [ratio * rare, rare]) for row in (p, p_prime)]
    rows[1][3:] = rows[1][3:][::-1]
    q = np.append(np.minimum(p, p_prime), [rare, rare])
    return LetterPair(*(row / row.sum() for row in rows), np.append(q, 0.0)[:5] / (1.0 + q.sum()))


@pytest.mark.parametrize("rare", [0.0, 1e-3, 0.3, 10.0])
def test_rare_letters_that_are_left_out_are_counted(
    rare: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much they have of the sum's positive part."""
    monkeypatch.setattr(bounds, "_RARE", rare)
    monkeypatch.setattr(bounds, "_MOST_TIMES", 0)
    monkeypatch.setattr(rare_letters, "_FAR_OUT", 1.0)
    monkeypatch.setattr(tilted_letters, "_LOW", rare)
    # none are added up by themselves
    monkeypatch.setattr(letters_apart, "_CUTS", (1e9,))
    answered, left = 0, 0.0
    for seed in range(12):
        pair = with_a_rare_letter(seed)
        excess = np.expm1(np.array([0.0, 0.5, 1.5, 3.0]) * pair.deviation(20))
        table = inversion(pair.decoyed, (20, 24), excess, 0.05)
        left += float(table._found.rare.sum())
        none = replace(table._found, rare=0.0 * table._found.rare)
        for users in (20, 24):
            answered += check(table.ends(users), Truth(pair, users), excess)
            # one more of the messages may be such a letter
            index = table._found.index
            least = Inversion(excess, (20, 24), none).ends(users).upper[index]
            least /= 1.0 - users * table._found.rare
            upper = table.ends(users).upper[index]
            assert np.all(np.isnan(upper) | (upper >= least * (1.0 - 1e-12)))
    assert answered > 60
    assert (left > 0.0) is (rare > 0.0)


@pytest.mark.parametrize("cuts", [(0.2, 0.5), (1.0,), (1.0, 2.0, 4.0)])
def test_letters_that_are_added_up_by_themselves(
    cuts: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the cut is, and however much is missed by it."""
    monkeypatch.setattr(letters_apart, "_CUTS", cuts)
    monkeypatch.setattr(bounds, "_RARE", 1e4)
    monkeypatch.setattr(bounds, "_MOST_TIMES", 0)
    monkeypatch.setattr(spectra, "_MOST_KEPT", 1 << 13)
    answered = apart = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        pair = with_a_rare_letter(seed) if seed % 2 else pair_of(random_rows(rng))
        most = users_for(rng, pair.decoyed[2].size)
        least = max(int(most / rng.choice([1.0, 1.25, 2.0])), 1)
        z = np.array([0.0, 0.5, 1.5, 3.0, 6.0])
        excess = np.unique(np.expm1(np.minimum(z * pair.deviation(least), 8.0)))
        table = inversion(pair.decoyed, (least, most), excess, 0.05)
        apart += int(np.isfinite(table._apart.cut).sum())
        for users in {least, most}:
            answered += check(table.ends(users), Truth(pair, users), excess)
    assert answered > 60
    assert apart > 20


def test_what_is_left_out_is_less_where_it_matters() -> None:
    """Rows where rare letters have a part that counts are tabulated again, with them."""
    pair = with_a_rare_letter(3)
    excess = np.expm1(np.array([0.5, 1.5, 3.0]) * pair.deviation(20))
    found = inversion(pair.decoyed, (20, 24), excess, 1e-3)
    assert np.all(found.left_out().sum(axis=0) <= bounds._POOR * 1e-3)
    assert np.all(found.widths <= 0.05)


# What windows leave outside, which frequencies are left out (exponents), where the normal ends.
LIMITS: dict[str, tuple[float, float, float]] = {
    "far values": (2.5, 45.0, 1.05),
    "weak frequencies": (45.0, 2.0, 1.05),
    "high frequencies": (45.0, 45.0, 0.1),
    "all of them": (4.0, 4.0, 0.7),
    "whole blocks": (45.0, 1.0, 4.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("limits", LIMITS)
def test_what_lies_outside_and_what_is_left_out_is_counted(
    limits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth outside of the window, frequencies that are left out although they count."""
    level, of_lines, last = LIMITS[limits]
    for name, value in (("_MOST_KEPT", 1 << 13), ("_BLOCK", 2)):
        monkeypatch.setattr(spectra, name, value)
    monkeypatch.setattr(tilted_letters, "_LAST", last)
    monkeypatch.setattr(bounds, "_OUTSIDE", level)
    monkeypatch.setattr(bounds, "_MOST_TIMES", 0)
    answered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        pair = pair_of(0.6 * rng.dirichlet(np.ones(3), size=2) + 0.4 / 3.0)
        least, most = (12, 40) if seed % 2 else (30, 36)
        z = np.array([0.0, 0.5, 1.5, 3.0])
        excess = np.expm1(z * pair.deviation(least))
        width = 10.0 ** rng.uniform(-3.0, 0.0)
        monkeypatch.setattr(bounds, "_LEFT_OUT", math.exp(-of_lines) / width)
        table = inversion(pair.decoyed, (least, most), excess, width)
        for users in (least, most):
            answered += check(table.ends(users), Truth(pair, users), excess)
    assert answered > 100


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("much", [("UNIT_ROUNDOFF", 2.0**-24), ("WAVE_ERROR", 2.0**38)])
def test_spectra_that_err(
    much: tuple[str, float], sign: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every frequency is off by all that is stated, the same way in each message."""
    for part in (bounds, power_sums, spectra, tilted_letters):
        if hasattr(part, much[0]):
            monkeypatch.setattr(part, *much)
    monkeypatch.setattr(spectra, "_MOST_KEPT", 1 << 13)
    answered = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pair = pair_of(0.6 * rng.dirichlet(np.ones(3), size=2) + 0.4 / 3.0)
        excess = np.expm1(np.array([0.0, 1.0, 2.0]) * pair.deviation(40))
        table = inversion(pair.decoyed, (40, 40), excess, 1e-5)
        if not table._found.index.size:
            continue
        moved = table._found.log + np.log1p(sign * table._found.relative)
        # and every coefficient, in the direction that matters most
        turned = np.exp(-40j * moved.imag)
        terms = table._found.terms + sign * table._found.doubt * turned
        table = Inversion(excess, (40, 40), replace(table._found, log=moved, terms=terms))
        answered += check(table.ends(40), Truth(pair, 40), excess)
    assert answered > 20


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_what_coefficients_are_off_is_part_of_both_ends(
    sign: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the spectra are off."""
    monkeypatch.setattr(spectra, "UNIT_ROUNDOFF", 2.0**-24)
    excess = np.array([0.05, 0.4])
    found = inversion(THREE.decoyed, (40, 40), excess, 1e-3)._found
    none = 0.0 * found.relative
    exact_ones = replace(found, relative=none, phase=none)
    turned = np.exp(-40j * found.log.imag)
    moved = replace(exact_ones, terms=found.terms + sign * found.doubt * turned)
    value, error = Inversion(excess, (40, 40), exact_ones)._sums(40)
    other, _ = Inversion(excess, (40, 40), moved)._sums(40)
    assert np.all(value != other)
    assert np.all(np.abs(value - other) <= error - found.dropped)


@fixed
@given(
    seed=st.integers(0, 10**6),
    users=st.integers(2, 6),
    z=st.floats(0.0, 3.0),
)
def test_strict_containment_in_exact_arithmetic(seed: int, users: int, z: float) -> None:
    """No tolerance: masses are exact binary numbers, the truth has 50 digits."""
    rng = np.random.default_rng(seed)
    pair = pair_of(0.5 * rng.dirichlet(np.ones(3), size=2) + 0.5 / 3.0)
    excess = np.array([math.expm1(z * pair.deviation(users))])
    found = inversion(pair.decoyed, (users - 1, users), excess, 1e-3).ends(users)
    if not known(found).any():
        return
    masses = pair.p0.tolist(), pair.p1.tolist(), pair.q.tolist()
    truth = exact_blanket.lemma(*masses, users, 1 + exact(float(excess[0])))
    assert exact(float(found.lower[0])) <= truth
    assert exact(float(found.upper[0])) >= truth
    line = exact(float(found.d[0])) - exact(float(excess[0])) * exact(float(found.q[0]))
    assert line <= truth


THREE = LetterPair(np.array([0.6, 0.3, 0.1]), np.array([0.3, 0.6, 0.1]), np.array([0.3, 0.3, 0.4]))


@pytest.mark.parametrize("z", [0.0, 1.0, 4.0, 8.0, 15.0, 20.0])
def test_far_tails_are_relatively_accurate(z: float) -> None:
    """Down to 1e-85 for all numbers of a range; the sum over counts is good to 1e-10."""
    excess = np.array([math.expm1(z * THREE.deviation(900))])
    table = inversion(THREE.decoyed, (800, 1000), excess, 1e-4)
    for users in (800, 900, 1000):
        found = table.ends(users)
        assert check(found, Truth(THREE, users), excess) == 1
        # the normal adds 1e-4 to the variance, and the event takes as much away
        allowed = 2e-4 * (1.0 + z**2)
        assert float(found.upper[0] - found.lower[0]) <= allowed * float(found.upper[0])
        assert z < 20.0 or users < 900 or found.upper[0] < 1e-80


@pytest.mark.parametrize("users", [10**3, 10**5, 10**7])
def test_against_single_questions(users: int) -> None:
    """Many messages; the other way shares no rounding, no lattice and no transform."""
    rng = np.random.default_rng(users)
    for _ in range(3):
        pair = pair_of(rng.dirichlet(np.full(5, 3.0), size=2))
        z = np.array([0.0, 2.0, 6.0])
        excess = np.expm1(z * pair.deviation(users))
        found = inversion(pair.decoyed, (users, 2 * users), excess, 1e-4).ends(users)
        assert known(found).all()
        effort = Effort(tail=1e-300, resolution=1e-4)
        for i, x in enumerate(excess.tolist()):
            above, below = (
                LetterDivergence(pair, users, math.log1p(x), side).bound(effort)
                for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
            )
            assert found.lower[i] <= above
            assert found.upper[i] >= below
            width = (1.5e-4 * (1.0 + z[i] ** 2) + 1e-13 * users) * found.upper[i]
            assert found.upper[i] - found.lower[i] <= width


def test_far_letters_take_more_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratios up to 240, the last ones sent with 1e-26, take most of the tilted mass."""
    loss: Any = sa.ShuffleRound(sa.GaussianRandomizer(sigma=2.0), users=69).reduced().loss
    letters = loss.pairs[0].letters(Bound.PESSIMISTIC, Effort(1e-26, 7e-3)).decoyed
    excess = np.array([0.4, 0.712, 0.9])
    ends = inversion(letters, (35, 69), excess, 2e-3).ends(69)
    # either end gives away about as much as the normal adds
    assert np.all(ends.upper - ends.lower <= 3.0 * 2e-3 * ends.upper)
    monkeypatch.setattr(bounds, "_MOST_TIMES", 0)
    few = inversion(letters, (35, 69), excess, 2e-3).ends(69)
    assert np.all(few.lower <= ends.upper)
    assert np.all(few.upper >= ends.lower)
    assert few.upper[2] - few.lower[2] > 10.0 * (ends.upper[2] - ends.lower[2])


def test_joined_tables_answer_like_each() -> None:
    """Also where one of them has no window at some alpha."""
    tables = [
        inversion(pair.decoyed, (30, 60), np.array(excess), 1e-3)
        for pair, excess in ((THREE, [0.1, 0.4]), (THREE.reversed, [0.3, 5.0, 0.2]), (THREE, [5.0]))
    ]
    both = Inversion.joined(tables).ends(45)
    alone = [table.ends(45) for table in tables]
    for name in ("upper", "lower", "q", "d"):
        expected = np.concatenate([getattr(one, name) for one in alone])
        # sums are longer: allowances for their rounding grow
        assert getattr(both, name) == pytest.approx(expected, rel=1e-9, nan_ok=True)
    assert np.isnan(both.upper).tolist() == [False, False, False, True, False, True]


def test_numbers_outside_the_range_are_refused() -> None:
    table: Inversion = inversion(THREE.decoyed, (10, 20), np.array([0.1]), 1e-3)
    with pytest.raises(ValueError, match=r"users must lie in \(10, 20\), got 21"):
        table.ends(21)


def test_the_least_numbers_and_no_positive_letter() -> None:
    """Nothing to be found is said, not guessed."""
    table = inversion(THREE.decoyed, (1, 1), np.array([0.0, 5.0]), 1e-3)
    found = table.ends(1)
    check(found, Truth(THREE, 1), np.array([0.0, 5.0]))
    assert math.isnan(found.upper[1])


@pytest.mark.parametrize("rare", [1e-18, 1e-16, 1e-15, 1e-13, 1e-9])
@pytest.mark.parametrize("exponent", [5.0, 20.0, 28.0, 33.0, 36.0])
def test_windows_of_mirrored_letters_are_mirrored(rare: float, exponent: float) -> None:
    """A rare letter far out decides how far sums reach, to either side."""
    users, far = 1000, exponent / 9.5 * math.sqrt(1000.0)
    value, weight = np.array([[-1.0, 1.0, far]]), np.array([[0.5, 0.5, rare]])
    nothing = np.zeros(1)
    ends = [
        tilted_letters._windows(
            sign * value,
            weight,
            (users, users),
            *[nothing] * 2,
            np.ones(1),
            nothing,
            np.full(1, 45.0),
        )
        for sign in (1.0, -1.0)
    ]
    assert ends[1][0][0] == pytest.approx(-ends[0][1][0], rel=1e-12)
    assert ends[1][1][0] == pytest.approx(-ends[0][0][0], rel=1e-12)


def test_bounds_are_close_at_both_ends_of_a_range() -> None:
    """Few messages have far less of their tilted mass near 0 than many."""
    loss: Any = sa.ShuffleRound(sa.GaussianRandomizer(sigma=1.0), users=100).reduced().loss
    letters = loss.pairs[0].letters(Bound.PESSIMISTIC, Effort(1e-21, 3e-4)).decoyed
    table = inversion(letters, (361, 721), np.array([math.expm1(0.9)]), 8e-3)
    for users in (361, 500, 721):
        ends = table.ends(users)
        # three parts of what the normal may add, and as much for what is left out
        assert ends.upper[0] - ends.lower[0] <= 6.0 * 8e-3 * ends.upper[0]
    assert table.widths[0] >= 1.0 - table.ends(721).lower[0] / table.ends(721).upper[0]


def test_far_tails_of_uneven_letters_against_single_questions() -> None:
    """Ratios up to 3e4: one message decides, and those far below it are left out."""
    users, effort = 306, Effort(tail=1e-20, resolution=2.5e-4)
    loss: Any = sa.ShuffleRound(sa.GaussianRandomizer(sigma=1.0), users=users).reduced().loss
    pair = loss.pairs[0].letters(Bound.PESSIMISTIC, effort)
    excess = np.expm1(np.array([0.37, 1.28, 2.04]))
    width = np.array([1e-3, 1e-2, 2.5e-2])
    table = inversion(pair.decoyed, (users, users), excess, width)
    found = table.ends(users)
    assert np.all(table._found.rare > 0.0)
    for i, x in enumerate(excess.tolist()):
        above, below = (
            LetterDivergence(pair, users, math.log1p(x), side).bound(effort)
            for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
        )
        exposed = pair.exposure_bounds(excess[i : i + 1])
        assert found.lower[i] + exposed[0][0] <= above
        assert found.upper[i] + exposed[1][0] >= below
        # wider bounds would have been tabulated again
        assert found.upper[i] - found.lower[i] <= 3.0 * width[i] * found.upper[i]
        assert above - below <= 0.1 * above
    assert 1e-14 < found.upper[2] < 1e-13


def test_a_tilt_is_found_where_one_letter_takes_over() -> None:
    """From this start Newton's steps go to and fro between the bulk and a rare letter."""
    loss: Any = sa.ShuffleRound(sa.GaussianRandomizer(sigma=0.8), users=100).reduced().loss
    letters = loss.pairs[0].letters(Bound.PESSIMISTIC, Effort(1e-14, 1e-4)).decoyed
    excess = np.expm1(np.array([0.03481997, 0.03507229, 0.0353]))
    found = inversion(letters, (92643, 96930), excess, 4.4e-4).ends(94786)
    assert known(found).all()
    assert np.all(np.diff(found.upper) < 0.0)
