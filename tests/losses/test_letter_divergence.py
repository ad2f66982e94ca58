"""One pair of letters at one alpha, and letters that are too small for relative accuracy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from oracles import blanket as exact_blanket
from oracles.precision import MP, exact

import shuffle_accountant as sa
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.alphabets import letter_divergence
from shuffle_accountant.losses.alphabets.anchored_profile import bracket_at
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss, _by_table
from shuffle_accountant.losses.alphabets.letter_divergence import LetterDivergence
from shuffle_accountant.losses.alphabets.letters import LetterPair, gains
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.budget import stress

# Sums of at most a few thousand masses of total one, each with a few roundings.
ROUND_OFF = 1e-12
EFFORT = Effort(tail=1e-30, resolution=1e-5)


def pair_of(p0: list[float], p1: list[float], q: list[float]) -> LetterPair:
    return LetterPair(np.array(p0), np.array(p1), np.array(q))


PAIRS = {
    "two letters": pair_of([0.7, 0.3], [0.4, 0.6], [0.5, 0.5]),
    "blank": pair_of([0.7, 0.3, 0.0], [0.3, 0.7, 0.0], [0.3, 0.3, 0.4]),
    "three letters": pair_of([0.5, 0.2, 0.3], [0.2, 0.45, 0.35], [0.3, 0.1, 0.6]),
    "rare letter": pair_of([0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.001, 0.4, 0.599]),
    "four letters": pair_of([0.4, 0.1, 0.2, 0.3], [0.1, 0.4, 0.3, 0.2], [0.1, 0.1, 0.2, 0.6]),
}


@pytest.mark.parametrize("users", [1, 2, 3, 6])
@pytest.mark.parametrize("name", PAIRS)
def test_sums_of_few_are_exact(name: str, users: int) -> None:
    pair = PAIRS[name]
    for epsilon in (0.0, 0.1, 0.4, 0.5):
        alpha = exact(math.exp(epsilon))
        truth = float(exact_blanket.lemma(pair.p0, pair.p1, pair.q, users, alpha))
        for side in Bound:
            found = LetterDivergence(pair, users, epsilon, side).bound(EFFORT)
            assert found == pytest.approx(truth, rel=ROUND_OFF)


def test_what_underflows_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the smallest doubles pairs cannot be ranked: each of a channel's would be computed."""
    for side in Bound:
        question = LetterDivergence(PAIRS["three letters"], 10**9, 0.4, side)
        monkeypatch.setattr(question, "_summed", None)
        found = question.bound(EFFORT)
        assert found == 0.0 if side is Bound.OPTIMISTIC else 0.0 < found <= 2e-305


# A letter of which a million others are far above, among letters that make the bulk.
UNEVEN = pair_of([0.3, 0.6999, 1e-4], [0.6, 0.3999, 1e-4], [0.3, 0.7 - 1e-13, 1e-13])


@pytest.mark.parametrize("users", [20, 60])
@pytest.mark.parametrize("by_sums", [False, True], ids=["far letters", "sums of positive numbers"])
def test_letters_far_above_the_others(
    users: int, by_sums: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_divergence, "_EXACT", 0)
    if by_sums:
        monkeypatch.setattr(letter_divergence, "far_positive_part", lambda *_, **__: None)
    for epsilon in (0.0, 0.2, 1.0):
        row = UNEVEN.p0, UNEVEN.p1, UNEVEN.q
        truth = exact_blanket.lemma(*row, users, exact(math.exp(epsilon)))
        low, high = (
            LetterDivergence(UNEVEN, users, epsilon, side).bound(EFFORT)
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        # exponentials are off by a unit of their own
        assert exact(low) <= truth * (1 + exact(1e-15))
        assert truth * (1 - exact(1e-15)) <= exact(high)
        assert high - low <= 2e-3 * high


@pytest.mark.slow
def test_letters_far_beyond_what_matters() -> None:
    """Lognormal ratios: the further out letters go, the more cells and rounding they would take."""
    brackets = []
    for tail in (1e-20, 1e-56):
        score = np.arange(-320, 321) * 0.05
        score = score[np.abs(score) <= math.sqrt(-2.0 * math.log(tail))]
        mass = np.exp(-0.5 * score**2)
        mass /= mass.sum()
        ratio = np.exp(1.5 * score - 1.125)  # of mean one, but for the last digits
        pair = LetterPair(mass * ratio, mass * ratio[::-1], mass)
        effort = Effort(tail=tail, resolution=2.5e-5)
        low, high = (
            LetterDivergence(pair, 10**6, 0.02, side).bound(effort)
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        assert high - low <= 0.02 * high
        brackets.append((low, high))
    # letters that one leaves out have a ratio times mass of 1e-13 at most
    off = 1e-12
    assert max(low for low, _ in brackets) - off <= min(high for _, high in brackets)


SMALL = [0.0, 5e-324, 1e-320, 1e-300, 1e-291, 1e-200, 1e-151]


def small_letters(seed: int) -> LetterPair:
    """Some entries far below all that relative errors are known of."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(3), size=3)
    for row in rows:
        tiny = rng.random(3) < 0.4
        row[tiny] = rng.choice(SMALL, size=int(tiny.sum()))
    rows[2, 0] = 1.0 - rows[2, 1:].sum()
    return LetterPair(*rows)


@pytest.mark.parametrize("seed", range(30))
def test_settled_letters_are_on_their_side(seed: int) -> None:
    """In 50 digits, at every alpha a double can be."""
    pair = small_letters(seed)
    assert pair.settled(Bound.PESSIMISTIC, 4).plain
    for users, excess in itertools.product((1, 4), (0.0, 0.5, 20.0, 1e100, 1e290, 1e305)):
        alpha = 1 + exact(excess)
        truth = exact_blanket.lemma(pair.p0, pair.p1, pair.q, users, alpha)
        above, below = (
            exact_blanket.lemma(letters.p0, letters.p1, letters.q, users, alpha)
            for letters in (
                pair.settled(side, users) for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
            )
        )
        # 50 digits; the other letters keep their masses: a share of 1e-150
        assert below <= truth * (1 + exact(1e-45))
        assert truth <= above * (1 + exact(1e-45))
        # a few roundings, and (1 + alpha) times four users' 1e-150
        assert above - below <= exact(1e-14) + alpha * exact(1e-148)


@pytest.mark.parametrize("seed", range(30))
def test_laws_of_letters_that_are_too_small(seed: int) -> None:
    pair = small_letters(seed)
    for users, epsilon in itertools.product((1, 4, 7), (0.0, 0.4, 3.0)):
        found = bracket_at(pair, users, epsilon, EFFORT)
        if found is None:
            continue  # too wide for these laws
        truth = exact_blanket.lemma(pair.p0, pair.p1, pair.q, users, 1 + exact(math.expm1(epsilon)))
        assert exact(found[0]) <= truth
        assert truth <= exact(found[1]) * (1 + exact(1e-14)) or truth <= 1e-300


@pytest.mark.parametrize("users", [30, 1000])
def test_letters_that_come_alone_are_not_counted_too_often(users: int) -> None:
    """Letters that decoys never send, or hardly ever: the lower end is below one times one."""
    pair = pair_of([0.4, 0.35, 0.25], [0.5, 0.4, 0.1], [0.6, 0.4, 0.0])
    rare = pair_of([0.4, 0.35, 0.25], [0.5, 0.4, 0.1], [0.6, 0.4 - 1e-3, 1e-3])
    for epsilon in (0.0, 0.1, 0.8):
        alpha = exact(math.exp(epsilon))
        for one in (pair, rare):
            low, high = (
                LetterDivergence(one, users, epsilon, side).bound(EFFORT)
                for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
            )
            if users == 30:
                truth = exact_blanket.lemma(one.p0, one.p1, one.q, users, alpha)
                assert exact(low) <= truth * (1 + exact(1e-14))
                assert truth * (1 - exact(1e-14)) <= exact(high)
            else:  # letters that come alone are bounded by what each letter gains at most
                assert low <= high
    # with a thousand others a letter of probability 1e-3 comes alone with e^-1
    value, row = np.array([2e6, 1.0]), np.array([0.1, 1.0])
    question = LetterDivergence(pair, 1001, 0.0, Bound.OPTIMISTIC)
    share, heavy = np.array([1e-3, 0.999]), np.array([True, False])
    found = question._exposed(value, row, share, heavy)
    gained = max(0.25 - 0.1, 0.0) + 2e3
    assert found <= gained * (1.0 - 1e-3) ** 1000


@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("terms", [1, 4, 400])
def test_gains_of_sums_of_many_terms(terms: int, side: Bound) -> None:
    """Each number lost two roundings a term, one way; the other number the other way."""
    unit = 2.0**-34
    p0, p1 = np.array([0.5, 0.25, 3.0]), np.array([0.25, 0.5, 1.0])
    sign = -1.0 if side is Bound.PESSIMISTIC else 1.0
    moved = (1.0 + unit) ** (2 * terms + 8)
    for epsilon in (0.0, 0.2, 2.0):
        with stress(roundoff=unit):
            found = gains(p0 * moved**sign, p1 / moved**sign, epsilon, side, terms)
        for value, a, b in zip(found.tolist(), p0.tolist(), p1.tolist(), strict=True):
            truth = exact(a) - MP.exp(exact(epsilon)) * exact(b)
            assert exact(value) >= truth if side is Bound.PESSIMISTIC else exact(value) <= truth


def test_a_whole_epsilon_is_the_same_number_as_a_double() -> None:
    """Tables are looked up by the bytes of doubles."""
    blanket = sa.ShuffleRound(sa.GaussianRandomizer(sigma=1.0), users=5000).reduced().loss
    assert isinstance(blanket, BlanketLoss)
    effort = Effort(tail=1e-12, resolution=1e-3)
    asked = blanket.pairs, blanket.users
    at_0, at_1 = (_by_table(*asked, epsilon, effort) for epsilon in (0.0, 1.0))
    _by_table.cache_clear()  # which takes 1 for 1.0
    whole = _by_table(*asked, 1, effort)
    assert at_0 is not None
    assert at_1 is not None
    assert whole == at_1
    assert at_1[1] < at_0[0]
