"""Counts of very many users in wide blocks, and what blocks leave out, source by source.

Up to a few users every block is one count, so that it does not matter from which end of a block a
count is taken. Here blocks are wide: a million users against sums of double precision over all
counts that matter, and blocks of a few dozen against fractions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from oracles.atoms import divergence
from scipy.stats import binom

from shuffle_accountant.lattice.grid import Array
from shuffle_accountant.losses.alphabets import profiles
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.losses.counts import CountBlocks, count_blocks
from shuffle_accountant.losses.decoy_counts import Decoys, count_law
from shuffle_accountant.losses.two_letters import mixed_responses, zero_out
from shuffle_accountant.losses.two_letters.binary import BinaryLoss
from shuffle_accountant.losses.two_letters.mixed_responses import NumberOfMixedResponses
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse
from shuffle_accountant.reductions.blanket import blanket
from shuffle_accountant.reductions.clones import null_law

SIDES = pytest.mark.parametrize("side", list(Bound))
UNIT = 2.0**-34
BUDGETS: dict[str, dict[str, float]] = {
    "as it is": {},
    "roundings up": {"roundoff": UNIT, "adverse": 1.0},
    "roundings down": {"roundoff": UNIT, "adverse": -1.0},
}
budgets = pytest.mark.parametrize("name", BUDGETS)
KEPT = (
    count_blocks,
    count_law,
    zero_out._envelope,
    profiles.profile_table,
    profiles.divergence_bounds,
    mixed_responses._blocks,
)


@pytest.fixture(autouse=True)
def _nothing_kept() -> Any:
    """What functions keep does not know the budget."""
    for function in KEPT:
        function.cache_clear()
    yield
    for function in KEPT:
        function.cache_clear()


def bounds(found: Any, truth: Any, side: Bound) -> bool:
    return bool(found >= truth if side is Bound.PESSIMISTIC else found <= truth)


def edges(largest: float) -> Array:
    return 1e-3 * np.arange(math.ceil(largest / 1e-3) + 2)


# ------------------------------------------------------- one target among draws of its null law


def bag_profile(eps0: float, count: Array, last: int, epsilon: float, *, swapped: bool) -> Array:
    """The divergence given K = count messages, of which some are the last letter: tails of counts.

    A difference of two numbers of the size of the tail's probability: where that is 1e3 times the
    divergence, twelve digits of scipy's tails leave nine.
    """
    odds, m = math.exp(eps0), count - last
    p, k = 1.0 / (1.0 + odds), count
    level = math.exp(-epsilon) if swapped else math.exp(epsilon)
    first = np.floor((k * level - m / odds) / (odds - 1.0 / odds)) + 1.0  # the first a above it
    if swapped:  # alpha E (1/alpha - r)_+
        below = binom.cdf(first - 1.0, m, p)
        moment = m * p * binom.cdf(first - 2.0, m - 1.0, p)
        return math.exp(epsilon) * (
            (level - m / odds / k) * below - (odds - 1.0 / odds) / k * moment
        )
    above = binom.sf(first - 1.0, m, p)
    moment = m * p * binom.sf(first - 2.0, m - 1.0, p)
    return (odds - 1.0 / odds) / k * moment + (m / odds / k - level) * above


def null_loss(eps0: float, delta0: float, others: int, *, swapped: bool) -> PrivacyLoss:
    loss = null_law(eps0, delta0, others + 1).loss
    return loss.reversed if swapped else loss


@cache
def zero_out_truth(
    eps0: float, delta0: float, users: int, epsilon: float, *, swapped: bool
) -> tuple[float, float]:
    """The two bounds whose envelope the profile is: among the other users, and alone."""
    rate = math.exp(-eps0)
    mean, deviation = users * rate, math.sqrt(users * rate * (1.0 - rate))
    low, high = max(math.floor(mean - 9.0 * deviation), 0), math.ceil(mean + 9.0 * deviation)
    others = np.arange(low, min(high, users) + 1.0)
    weight = binom.pmf(others, users, rate)
    found = []
    for count, mass in ((others + 1.0, weight), (np.ones(1), np.ones(1))):
        total = 0.0 if swapped else delta0
        for last in range(8):
            chance = binom.pmf(last, count, delta0) if delta0 else np.ones(count.size)
            some = count > last
            part = bag_profile(eps0, count[some], last, epsilon, swapped=swapped)
            total += float(np.sum((mass * chance)[some] * part))
            if swapped:  # a bag of last letters alone has no ratio but 0
                total += float(np.sum((mass * chance)[count == last]))
            if not delta0:
                break
        found.append(total)
    charge = users * rate * delta0 * (1.0 + math.exp(epsilon))
    return found[0] + charge, found[1]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("delta0", [0.0, 3e-10, 1e-8])
@pytest.mark.parametrize("resolution", [1e-4, 0.05])
def test_a_million_draws_of_the_null_law(resolution: float, delta0: float, swapped: bool) -> None:
    loss = null_loss(1.0, delta0, 10**6, swapped=swapped)
    for z in (0.0, 1.0, 3.0):
        epsilon = z * loss.deviation
        truth = min(zero_out_truth(1.0, delta0, 10**6, epsilon, swapped=swapped))
        low, high = (
            loss.delta(epsilon, side, Effort(1e-30, resolution))
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        # digits of the oracle; tails fall like e^(-z^2 / 2), and blocks are as wide as said
        assert low <= truth * (1.0 + 1e-8)
        assert truth * (1.0 - 1e-8) <= high
        assert high - low <= (1e-3 + 2.0 * resolution * (1.0 + z * z)) * truth


@pytest.mark.slow
@pytest.mark.parametrize("swapped", [False, True])
def test_the_law_of_a_million_draws(swapped: bool) -> None:
    """Atoms between the points of a profile, where chords are above it and tangents below."""
    loss = null_loss(1.0, 0.0, 10**6, swapped=swapped)
    laws = {side: loss.atoms(side, edges, Effort(1e-20, 0.05)) for side in Bound}
    for z in (0.0, 0.7, 2.0, 4.0):
        epsilon = z * loss.deviation
        truth = min(zero_out_truth(1.0, 0.0, 10**6, epsilon, swapped=swapped))
        low, high = (
            float(divergence(laws[side], epsilon)) for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        assert low <= truth * (1.0 + 1e-7)
        assert truth * (1.0 - 1e-7) <= high


# ------------------------------------------------------------------ k-ary randomized response


def mirrored(count: Array, gap: Array, alpha: float) -> Array:
    """``E (1 + z - alpha (1 - z))_+``, z the gap times the mean of so many signs, by tails."""
    growth = 1.0 + alpha
    first = np.floor(0.5 * count * (1.0 + (alpha - 1.0) / growth / gap)) + 1.0
    above = binom.sf(first - 1.0, count, 0.5)
    moment = 0.5 * count * binom.sf(first - 2.0, count - 1.0, 0.5)
    return np.asarray((1.0 - alpha) * above + growth * gap * (2.0 * moment / count - above))


def spaced(n: float, rate: float, step: int) -> tuple[Array, Array]:
    """Every step-th count within nine deviations, and the probability of so many counts.

    Sums over a smooth law in steps of a fifth of its deviation are exact to all digits.
    """
    deviation = math.sqrt(n * rate * (1.0 - rate))
    counts = np.arange(
        max(math.floor(n * rate - 9.0 * deviation), 0), min(n * rate + 9.0 * deviation, n), step
    )
    return counts, step * binom.pmf(counts, n, rate)


def test_a_million_responses() -> None:
    """Sums of messages, and counts of random answers, against sums over counts in steps."""
    k, gamma, n = 3, 0.9, 10**6
    eps0 = math.log1p(k * (1.0 - gamma) / gamma)
    groups = (Decoys(n - 1, gamma, 1.0 - gamma),)
    source = NumberOfMixedResponses(k, gamma, 1.0 - gamma, eps0, groups)
    general = blanket(RandomizedResponse(categories=k, eps0=eps0), n).loss
    pair_rate, other_rate = 2.0 * gamma / k, gamma * (k - 2) / k
    m = 2.0 * gamma / (k * (1.0 - gamma))
    shown, weight = spaced(n - 1, pair_rate, 61)
    for z in (0.5, 2.0):
        epsilon, truth = z * source.deviation, 0.0
        for count, mass in zip(shown.tolist(), weight.tolist(), strict=True):
            others, chance = spaced(n - 1 - count, other_rate / (1.0 - pair_rate), 47)
            for mine, own in ((1.0, 1.0 - gamma + pair_rate), (0.0, other_rate)):
                c = np.full(others.size, count + mine)
                gap = c / ((1.0 + m) * c + m * (others + 1.0 - mine))
                truth += mass * own * float(np.sum(chance * mirrored(c, gap, math.exp(epsilon))))
        # blocks of pairs of counts are wider than asked for where they would be too many
        for loss, wider in ((BinaryLoss(source), 2.0), (general, 1.0)):
            low, high = (
                loss.delta(epsilon, side, Effort(1e-20, 1e-3))
                for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
            )
            assert low <= truth * (1.0 + 1e-6)  # of the sums in steps
            assert truth * (1.0 - 1e-6) <= high
            assert high - low <= wider * (1e-3 + 5e-3 * (1.0 + z * z)) * truth


def kept_mass(blocks: Any) -> Fraction:
    return sum(map(Fraction, blocks.weight.tolist()), Fraction(blocks.silent))


def without_the_first(blocks: CountBlocks) -> CountBlocks:
    """The same with one more source of error: its first counts are missing, a quarter or more."""
    cut = int(np.searchsorted(np.cumsum(blocks.weight), 0.25)) + 1
    return replace(
        blocks,
        weight=blocks.weight[cut:],
        low=blocks.low[cut:],
        high=blocks.high[cut:],
        missing=blocks.missing + float(blocks.weight[:cut].sum()) * (1.0 + 1e-12),
    )


@pytest.mark.parametrize("lost", ["decoys", "rare"])
def test_blocks_say_what_they_miss(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each source of error alone: all that is in no block is missing."""
    if lost == "decoys":
        monkeypatch.setattr(
            mixed_responses, "count_law", lambda *a, **b: without_the_first(count_law(*a, **b))
        )
    groups = Decoys(30, 0.5, 0.5), Decoys(10, 0.25, 0.75)
    source = NumberOfMixedResponses(4, 0.5, 0.5, math.log(5.0), groups)
    for tail in (0.9, 0.3) if lost == "rare" else (1e-20,):
        found = source.blocks(Bound.PESSIMISTIC, Effort(tail, 1e-9))
        left_out = 1 - kept_mass(found)
        assert left_out <= Fraction(found.missing)
        assert left_out > Fraction(1, 5) or lost == "rare"
        if lost == "rare":
            assert found.missing < 1.0  # it is a probability


@budgets
@SIDES
@pytest.mark.parametrize("tail", [1e-30, 0.9])
def test_blocks_of_mixed_responses_are_on_their_side(tail: float, side: Bound, name: str) -> None:
    """A number of decoys that is certain, so that all that may err are the counts given it."""
    source = NumberOfMixedResponses(4, 0.5, 0.5, math.log(5.0), (Decoys(40, 1.0, 0.0),))
    numbers, number = CountBlocks(np.ones(1), *np.full((2, 1), 40.0), 0.0, 0.25), np.full(1, 40.0)
    with stress(**BUDGETS[name]):
        edges = mixed_responses._edges(number, 4, 0.2 * tail, 0.0)
        found = mixed_responses._several_values(source, numbers, number, edges, side, tail, 0.1)
    total = kept_mass(found)
    assert found.missing < 1.0
    if side is Bound.PESSIMISTIC:
        assert total + Fraction(found.missing) >= 1
        assert total >= 1 or tail > 0.1
    else:  # as it is, masses add up to one but for some roundings
        assert total <= (1 if BUDGETS[name] else 1 + Fraction(1, 10**15))
    assert found.round_off >= 0.25
    assert bool(BUDGETS[name]) == (found.round_off > 0.25 + UNIT)
    assert (total < 1 - Fraction(1, 100)) == (tail > 0.1)


@SIDES
def test_of_two_values_every_answer_is_one(side: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of the number of decoys alone; a quarter of them is missing."""
    source = NumberOfMixedResponses(2, 0.5, 0.5, math.log(3.0), (Decoys(60, 0.5, 0.5),))
    truth = [Fraction(math.comb(60, j), 2**60) for j in range(61)]
    for resolution in (0.0, 0.3):
        found = source.blocks(side, Effort(1e-20, resolution))
        count = found.count.tolist()
        for k in range(61):
            kept = sum(
                Fraction(w) for w, c in zip(found.weight.tolist(), count, strict=True) if c <= k + 1
            )
            if side is Bound.PESSIMISTIC:  # fewer decoys are worse
                assert kept + Fraction(found.missing) >= sum(truth[: k + 1])
            else:
                assert kept <= sum(truth[: k + 1]) + Fraction(1, 10**12)
        assert 0.0 < found.round_off < 1e-9
    mixed_responses._blocks.cache_clear()
    monkeypatch.setattr(
        mixed_responses, "count_law", lambda *a, **b: without_the_first(count_law(*a, **b))
    )
    left = source.blocks(Bound.PESSIMISTIC, Effort(1e-20, 0.0))
    assert Fraction(1, 5) < 1 - kept_mass(left) <= Fraction(left.missing)


@budgets
@SIDES
def test_numbers_of_decoys_are_gathered_with_their_mean(side: Bound, name: str) -> None:
    """``E (t - J)_+`` of a block is no less than its members' (PESSIMISTIC), or no more."""
    number = np.arange(20.0, 60.0)
    weight = np.stack([np.sin(number) ** 2, np.cos(0.3 * number) ** 2], axis=1) / 64.0
    with stress(**BUDGETS[name]):
        values, mass = mixed_responses._gathered(number, weight, 0.3, side)
    assert values.shape[0] < number.size
    for column in range(2):
        kept = list(zip(values[:, column].tolist(), mass[:, column].tolist(), strict=True))
        before = list(zip(number.tolist(), weight[:, column].tolist(), strict=True))
        for t in range(18, 64, 2):
            found, true = (
                sum(Fraction(p) * max(t - Fraction(x), Fraction(0)) for x, p in listed)
                for listed in (kept, before)
            )
            # without exaggerated roundings a mean is off by its own
            slack = Fraction(0) if BUDGETS[name] else Fraction(1, 10**13)
            sign = 1 if side is Bound.PESSIMISTIC else -1
            assert sign * (found - true) >= -slack


def test_a_million_users_of_two_groups() -> None:
    """Wide blocks of the number of random answers and of those on the pair."""
    k, gamma, n = 3, 0.9, 10**6
    truthful = 1.0 - gamma
    eps0 = math.log1p(k * truthful / gamma)
    groups = Decoys(n // 2, 0.9, 0.1), Decoys(n // 2, 0.5, 0.5)
    source = NumberOfMixedResponses(k, gamma, truthful, eps0, groups)
    first, first_mass = spaced(n // 2, 0.9, 31)
    second, second_mass = spaced(n // 2, 0.5, 53)
    m = 2.0 * gamma / (k * truthful)
    epsilon, truth = 1.5 * source.deviation, 0.0
    # the number of random answers is normal enough for every third of its values
    law: dict[float, float] = {}
    mean = float(np.sum(first * first_mass) + np.sum(second * second_mass))
    spread = math.sqrt(n / 2 * (0.9 * 0.1 + 0.25))
    for step in np.arange(-8.0, 8.01, 0.25):
        law[round(mean + step * spread)] = 0.25 * math.exp(-0.5 * step**2) / math.sqrt(2 * math.pi)
    for number, mass in law.items():
        shown, chance = spaced(number, 2.0 / k, 61)
        for mine, own in ((1.0, truthful + gamma * 2 / k), (0.0, gamma * (k - 2) / k)):
            c = shown + mine
            gap = c / (c + m * (number + 1.0))
            truth += mass * own * float(np.sum(chance * mirrored(c, gap, math.exp(epsilon))))
    for resolution in (1e-3, 0.02):
        low, high = (
            BinaryLoss(source).delta(epsilon, side, Effort(1e-20, resolution))
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        # a normal law of J is off by 1e-3 deviations, which move the divergence by far less
        assert low <= truth * (1.0 + 1e-5)
        assert truth * (1.0 - 1e-5) <= high
