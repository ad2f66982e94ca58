"""What reductions hand on: laws of decoys and of users with tails of a tenth, strictly enclosed."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracles import clones as exact_clones
from oracles import one_round
from oracles.precision import MP, exact

import shuffle_accountant as sa
from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.combined.mixture import Part
from shuffle_accountant.losses.combined.subsampled import SubsampledLoss
from shuffle_accountant.losses.counts import CountBlocks
from shuffle_accountant.losses.decoy_counts import Decoys
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.randomizers.base import Mixture
from shuffle_accountant.reductions import participation
from shuffle_accountant.reductions.base import among_colluders, subsampled
from shuffle_accountant.reductions.blanket import InputPair, _binary
from shuffle_accountant.reductions.clones import clones, strong
from shuffle_accountant.reductions.crowd import _AmongDraws, _honest
from shuffle_accountant.reductions.participation import _Takers

SIDES = pytest.mark.parametrize("side", list(Bound))
EXACT = Effort(tail=1e-300, resolution=0.0)
EPSILONS = (0.0, 0.05, 0.3, 0.8)


def bounds(found: Any, truth: Any, side: Bound) -> bool:
    return bool(found >= truth if side is Bound.PESSIMISTIC else found <= truth)


def close(found: float, truth: Any, side: Bound) -> bool:
    """On its side of the truth, and good to nine digits."""
    return bounds(exact(found), truth, side) and abs(exact(found) - truth) <= exact("1e-9") * truth


def binomial(trials: int, p: Fraction) -> list[Fraction]:
    return [math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]


@SIDES
@pytest.mark.parametrize("interactive", [False, True])
def test_clones_have_the_law_of_the_theorem(interactive: bool, side: Bound) -> None:
    for eps0, users in ((0.5, 1), (1.0, 7), (2.5, 20)):
        loss = clones(eps0, users, interactive=interactive).loss
        for epsilon in EPSILONS:
            truth = one_round.delta(eps0, users, epsilon, interactive)
            if truth > 0:
                assert close(loss.delta(epsilon, side, EXACT), truth, side)


def real(value: Fraction) -> Any:
    return MP.mpf(value.numerator) / value.denominator


def target_that_never_lies(decoys: int, rate: Fraction, epsilon: float) -> Any:
    alpha, total = MP.exp(exact(epsilon)), exact(0)
    for c, weight in enumerate(binomial(decoys, rate)):
        for more in range(c + 1):
            share = Fraction(math.comb(c, more), 2**c) * weight
            # under X' the target is one of the others' letter: a = more + 1 of them are not its
            other = share * Fraction(c - more, more + 1)
            total += max(real(share) - alpha * real(other), 0)
    return total


def test_mirrored_letters_have_the_parameter_itself() -> None:
    """Probabilities computed from a small eps0 have lost most of its digits; others are theirs."""
    for eps0 in (1e-12, 3e-9, 0.1, 1.0):
        p = math.exp(eps0) / (1.0 + math.exp(eps0))
        first, second = np.array([p, 1.0 - p, 0.0]), np.array([1.0 - p, p, 0.0])
        blanket = np.array([1.0 - p, 1.0 - p, 2.0 * p - 1.0])
        letters = MessagePair(first, second, blanket, eps0)
        number = _binary(letters, 30, eps0)
        assert number is not None
        assert number.largest == eps0
        other = _binary(letters, 30, 2.0 * eps0 + 1e-6)
        assert other is not None
        assert other.largest == pytest.approx(eps0, abs=1e-15, rel=1e-14)


@SIDES
@pytest.mark.parametrize("categories", [2, 4])
def test_the_strong_adversary_sees_the_law_of_the_paper(categories: int, side: Bound) -> None:
    mixture = Mixture(categories=categories, gamma=0.25, truthful=0.75)
    rate = Fraction(1, 2) / categories
    for users, epsilon in itertools.product((2, 9), EPSILONS[1:]):
        truth = target_that_never_lies(users - 1, rate, epsilon)
        found = strong(mixture, users, "paper").loss.delta(epsilon, side, EXACT)
        assert close(found, truth, side)
        found = strong(mixture, users, "exact").loss.delta(epsilon, side, EXACT)
        assert close(found, exact(0.75) * truth, side)


@SIDES
def test_fractions_of_a_population(side: Bound) -> None:
    inner = clones(1.0, 6)
    for population, colluding in ((10, 0), (24, 0), (24, 9), (8, 2), (8, 1)):
        found = among_colluders(inner, 6, population, colluding)
        left = population - colluding
        atoms = exact_clones.pair(1.0, 6)
        if left > 6:
            atoms = exact_clones.subsampled(atoms, 6, left)
        for epsilon in (0.0, 0.05, 0.3):
            truth = exact_clones.delta(atoms, epsilon)
            # the fraction is a double
            value = found.loss.delta(epsilon, side, EXACT)
            sign = -1 if side is Bound.PESSIMISTIC else 1
            assert close(value * (1.0 + sign * 1e-15), truth * (1 + sign * exact("1e-14")), side)
    assert subsampled(inner, 6, 6) is inner


@SIDES
def test_uncertain_letters_are_moved_apart(side: Bound) -> None:
    """Letters of the target's two laws, and the blanket's: each by its error, the worse way."""
    first, second, shared = np.array([[0.5, 0.25], [0.25, 0.5], [0.25, 0.125]])
    known = np.array([first, second, shared]), 2.0**-7
    randomizer = SimpleNamespace(letters=lambda inputs, side, tail, resolution: known)
    letters = InputPair(randomizer, (0, 1)).letters(side, EXACT)  # type: ignore[arg-type]
    off = 2.0**-7 if side is Bound.PESSIMISTIC else -(2.0**-7)
    assert letters.p0.tolist() == [*(first * (1.0 + off)).tolist(), 0.0]
    assert letters.p1.tolist() == [*(second * (1.0 - off)).tolist(), 0.0]
    assert letters.q[:2].tolist() == (shared * (1.0 - off)).tolist()
    assert math.fsum(letters.q.tolist()) == 1.0


# ----------------------------------------------------------------------------------- random numbers


def check_law(
    parts: list[tuple[int, float]], missing: float, truth: list[Fraction], side: Bound
) -> None:
    """Fewer hide less: stochastically no more of them (PESSIMISTIC), or no fewer."""
    for k in range(len(truth)):
        kept = sum((Fraction(w) for number, w in parts if number <= k), Fraction(0))
        if side is Bound.PESSIMISTIC:
            assert kept + Fraction(missing) >= sum(truth[: k + 1])
        else:
            assert kept <= sum(truth[: k + 1])


@SIDES
@pytest.mark.parametrize("resolution", [0.0, 0.5])
@pytest.mark.parametrize("tail", [0.3, 1e-15])
def test_numbers_of_draws(tail: float, resolution: float, side: Bound) -> None:
    target = MessagePair(
        np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.5, 0.25]), np.full(3, 1 / 3)
    )
    groups = Decoys(12, 0.25, 0.75), Decoys(5, 0.5, 0.5)
    source = _AmongDraws((target,), groups)
    found, missing = source.parts(side, Effort(tail, resolution))
    one, other = binomial(12, Fraction(1, 4)), binomial(5, Fraction(1, 2))
    truth = [
        sum((one[i] * other[k - i] for i in range(13) if 0 <= k - i <= 5), Fraction(0))
        for k in range(18)
    ]
    parts = [(part.loss.users - 1, part.weight) for part in found]  # type: ignore[union-attr]
    check_law(parts, missing, truth, side)
    assert tail < 0.1 or missing > 0.1


def test_who_is_known_is_who_hides_best() -> None:
    groups = [Decoys(4, 0.25, 0.75), Decoys(3, 0.5, 0.5)]
    assert _honest(groups, 0) == (Decoys(3, 0.5, 0.5), Decoys(4, 0.25, 0.75))
    assert _honest(groups, 2) == (Decoys(1, 0.5, 0.5), Decoys(4, 0.25, 0.75))
    assert _honest(groups, 5) == (Decoys(2, 0.25, 0.75),)
    assert _honest(groups, 7) == ()


@SIDES
def test_chances_that_are_rounded_are_moved(side: Bound) -> None:
    moved = Decoys(9, 0.25, 0.75).moved(side)
    assert bounds(0.25, moved.chance, side)
    assert moved.chance != 0.25
    assert abs(moved.chance + moved.idle - 1.0) <= 1e-15


@SIDES
@pytest.mark.parametrize("tail", [0.3, 1e-15])
def test_numbers_of_those_who_take_part(tail: float, side: Bound) -> None:
    source = _Takers(sa.GeneralRandomizer(eps0=1.0), 14, 0.25, "clones", None)
    found, missing = source.parts(side, Effort(tail, 1e-3))
    truth = binomial(14, Fraction(1, 4))
    parts: list[tuple[int, float]] = []
    for part in found:
        if part.loss is None:
            parts.append((0, part.weight))
            continue
        loss = part.loss
        if not isinstance(loss, SubsampledLoss):  # all of them
            parts.append((14, part.weight))
            continue
        users = loss.inner.source.decoys + 1  # type: ignore[attr-defined]
        parts.append((users, part.weight))
        # each single number is a block of its own: its fraction is that of all people
        assert bounds(Fraction(loss.fraction), Fraction(users, 14), side)
    total = Fraction(missing) + sum((Fraction(w) for _, w in parts), Fraction(0))
    if side is Bound.PESSIMISTIC:
        assert total >= 1
        # what is left out below and above
        for k, p in enumerate(truth):
            kept = sum((Fraction(w) for number, w in parts if number == k), Fraction(0))
            assert kept + Fraction(missing) >= p
    else:
        for k, p in enumerate(truth):
            assert sum((Fraction(w) for number, w in parts if number == k), Fraction(0)) <= p
    assert tail < 0.1 or missing > 0.1


@SIDES
@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("size", [5, 300])
def test_wide_blocks_of_those_who_take_part(
    size: int, adverse: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of nine numbers each, alone or some together: mass, ends and mean in fractions."""
    first = 9.0 * np.arange(size)
    weight = np.random.default_rng(2).integers(1, 1000, size) / 1001.0 / size
    given = CountBlocks(weight, first, first + 8.0, 0.125, 0.0)
    monkeypatch.setattr(participation, "count_law", lambda *_, **__: given)
    source = _Takers(sa.GeneralRandomizer(eps0=1.0), 9 * size, 0.5, "clones", None)
    with stress(roundoff=2.0**-34, adverse=adverse):
        blocks, missing = source._blocks(side, Effort(1e-12, 1e-2))
    assert missing == 0.125
    assert (len(blocks) == size) == (size == 5)
    upper, place = side is Bound.PESSIMISTIC, 0
    for mass, low, high, mean in blocks:
        held = range(place, place + (high - low + 1) // 9)
        place = held.stop
        assert (low, high) == (9 * held.start, 9 * held.stop - 1)
        whole = sum(Fraction(weight[i]) for i in held)
        true = sum(Fraction(weight[i]) * (9 * i + 8 * upper) for i in held) / whole
        assert bounds(mass, whole, side)
        assert bounds(mean, true, side)
        assert abs(mass - whole) <= whole * Fraction(1, 10**7)
        assert abs(mean - true) <= true * Fraction(1, 10**7)
    assert place == size


@SIDES
def test_blocks_of_those_who_take_part(side: Bound) -> None:
    """Convex in the fraction: no larger at the mean, no smaller at the ends that have that mean."""
    source = _Takers(sa.GeneralRandomizer(eps0=1.0), 40, 0.25, "clones", None)
    parts: list[Part] = [source._part(one) for one in source._ends(0.5, 4, 12, 7.0, side)]
    for epsilon in (0.01, 0.05, 0.2):
        found = sum(
            exact(p.weight) * exact(p.loss.delta(epsilon, side, EXACT))
            for p in parts
            if p.loss is not None
        )
        for numbers in ({7: 1.0}, {4: 0.5, 10: 0.5}, {4: 0.625, 12: 0.375}):
            truth = exact(0)
            for users, share in numbers.items():
                atoms = exact_clones.subsampled(exact_clones.pair(1.0, users), users, 40)
                truth += exact(0.5) * exact(share) * exact_clones.delta(atoms, epsilon)
            assert bounds(found, truth, side)
    # nobody in it tells nothing
    assert source._ends(0.5, 0, 0, 0.0, side)[0].users == 0
    if side is Bound.OPTIMISTIC:
        assert source._ends(0.5, 0, 3, 1.0, side)[0].users == 0
