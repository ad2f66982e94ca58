"""The clones bound against the truth: small random protocols, listed outcome by outcome.

The truth is the hockey-stick divergence between the exact laws of the shuffled multiset for two
datasets that differ in the target's value. It must never exceed that of the clones pair, for any
eps0-LDP channel, any values of the other users and any alpha, above or below 1.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from oracles import channels, clones, enumeration
from oracles.enumeration import Law

# Both sides are sums of at most a few hundred doubles below 1, each good to about 1e-15; a true
# violation (the specialised formula below) is of order 1e-4.
ROUND_OFF = 1e-13

SEEDS = range(4)


@dataclass(frozen=True)
class Case:
    """One random protocol: its exact eps0 and size, and what the analyst sees for two datasets."""

    eps0: float
    users: int
    law: Law
    neighbour: Law

    def truth(self, alpha: float) -> float:
        """The larger of the two directions at alpha."""
        forth = enumeration.hockey_stick(self.law, self.neighbour, alpha)
        back = enumeration.hockey_stick(self.neighbour, self.law, alpha)
        return float(max(forth, back))


def random_cases(seed: int, count: int) -> Iterator[Case]:
    """Random channels of 2 to 4 inputs, random datasets of 1 to 5 users."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        channel = channels.random_channel(rng, float(rng.choice([0.2, 1.0, 2.0, 4.0])))
        users = int(rng.integers(1, 6))
        dataset, other = channels.random_dataset(rng, len(channel), users)
        yield Case(
            eps0=channels.local_epsilon(channel),
            users=users,
            law=enumeration.shuffled_output(channel, dataset),
            neighbour=enumeration.shuffled_output(channel, [other, *dataset[1:]]),
        )


def clones_delta(eps0: float, users: int, epsilon: float, *, interactive: bool = False) -> float:
    """The clones pair's divergence at e^epsilon, as a double."""
    return float(clones.delta(clones.pair(eps0, users, interactive), epsilon))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_truth_is_below_the_clones_pair(seed: int) -> None:
    """Oracle against oracle, alpha on both sides of 1."""
    for case in random_cases(seed, 200):
        for fraction in (-1.2, -0.6, -0.1, 0.0, 0.1, 0.5, 0.9):
            epsilon = fraction * case.eps0
            bound = clones_delta(case.eps0, case.users, epsilon)
            assert case.truth(math.exp(epsilon)) <= bound + ROUND_OFF, (case, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_truth_is_below_the_answer_of_the_package(seed: int) -> None:
    """The same through the public API; its upper end is compared, whatever its width."""
    import shuffle_accountant as sa

    for case in random_cases(seed + 100, 40):
        one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=case.eps0), users=case.users)
        for fraction in (0.0, 0.1, 0.5, 0.9):
            epsilon = fraction * case.eps0
            bracket = one.delta(epsilon=epsilon)
            assert case.truth(math.exp(epsilon)) <= bracket.upper + ROUND_OFF, (case, epsilon)


def test_clones_is_attained_by_one_user_of_randomized_response() -> None:
    """Without decoys the bound is an equality, so the check above has no slack of its own."""
    channel = channels.randomized_response(1.0, 2)
    law, neighbour = (enumeration.shuffled_output(channel, [value]) for value in (0, 1))
    for epsilon in (0.0, 0.3, 0.9):
        truth = enumeration.hockey_stick(law, neighbour, math.exp(epsilon))
        assert truth == pytest.approx(clones_delta(1.0, 1, epsilon), abs=ROUND_OFF)


def test_interactive_clones_are_weaker_than_common_ones() -> None:
    """Fewer decoys speak when randomizers may look at earlier messages: a larger bound."""
    for eps0 in (0.2, 1.0, 4.0):
        for users in (2, 5):
            common = clones_delta(eps0, users, eps0 / 2)
            assert common <= clones_delta(eps0, users, eps0 / 2, interactive=True) + ROUND_OFF


def random_subsampled_case(rng: np.random.Generator) -> tuple[Case, int]:
    """A random protocol whose ``users`` are drawn from a population of at most 5, and its size."""
    channel = channels.random_channel(rng, float(rng.choice([0.5, 2.0])))
    population = int(rng.integers(2, 6))
    users = int(rng.integers(1, min(population, 3) + 1))
    dataset, other = channels.random_dataset(rng, len(channel), population)
    case = Case(
        eps0=channels.local_epsilon(channel),
        users=users,
        law=enumeration.subsampled_output(channel, dataset, users),
        neighbour=enumeration.subsampled_output(channel, [other, *dataset[1:]], users),
    )
    return case, population


@pytest.mark.parametrize("seed", range(3))
def test_subsampled_truth_is_below_the_explicit_pair(seed: int) -> None:
    """Sampling without replacement, averaged over all subsets, against the oracle's pair."""
    rng = np.random.default_rng(seed + 200)
    for _ in range(30):
        case, population = random_subsampled_case(rng)
        atoms = clones.subsampled(clones.pair(case.eps0, case.users), case.users, population)
        for fraction in (-0.5, -0.05, 0.0, 0.05, 0.3, 0.9):
            epsilon = fraction * case.eps0
            bound = float(clones.delta(atoms, epsilon))
            assert case.truth(math.exp(epsilon)) <= bound + ROUND_OFF, (case, population, epsilon)


def test_subsampled_truth_is_below_the_answer_of_the_package() -> None:
    import shuffle_accountant as sa

    rng = np.random.default_rng(300)
    for _ in range(40):
        case, population = random_subsampled_case(rng)
        randomizer = sa.GeneralRandomizer(eps0=case.eps0)
        one = sa.ShuffleRound(randomizer, users=case.users, population=population)
        for fraction in (0.0, 0.05, 0.3, 0.9):
            epsilon = fraction * case.eps0
            bracket = one.delta(epsilon=epsilon)
            assert case.truth(math.exp(epsilon)) <= bracket.upper + ROUND_OFF, (case, population)


def test_composed_truth_is_below_the_answer_of_the_package() -> None:
    """Two rounds with different channels and datasets: laws multiplied outcome by outcome."""
    import shuffle_accountant as sa

    rng = np.random.default_rng(400)
    for _ in range(6):
        first, second = (c for c in random_cases(int(rng.integers(10**6)), 2))
        accountant = sa.FourierAccountant()
        for case in (first, second):
            randomizer = sa.GeneralRandomizer(eps0=case.eps0)
            accountant.compose(sa.ShuffleRound(randomizer, users=case.users))
        law = product_law(first.law, second.law)
        neighbour = product_law(first.neighbour, second.neighbour)
        for fraction in (0.0, 0.2, 0.6):
            epsilon = fraction * (first.eps0 + second.eps0)
            truth = enumeration.hockey_stick(law, neighbour, math.exp(epsilon))
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", sa.LooseBracketWarning
                )  # a loose bracket is still an upper bound
                bracket = accountant.delta(epsilon=epsilon)
            assert truth <= bracket.upper + ROUND_OFF, (first, second, epsilon)


def product_law(a: Law, b: Law) -> Law:
    """The joint law of two independent histograms."""
    return {(*x, *y): p * q for x, p in a.items() for y, q in b.items()}


# -------------------------------------------------------- the formula that must not be a bound

EPS0, USERS, CATEGORIES, ALPHA = 1.0, 10, 4, math.exp(0.6)


@cache
def four_letter_truth() -> float:
    """4-RR, ten users, the nine others all hold the same third value."""
    channel = channels.randomized_response(EPS0, CATEGORIES)
    rest = [2] * (USERS - 1)
    law, neighbour = (enumeration.shuffled_output(channel, [value, *rest]) for value in (0, 1))
    return float(enumeration.hockey_stick(law, neighbour, ALPHA))


def reduced(p0: list[float], p1: list[float], q: list[float]) -> float:
    """The divergence of TargetAmongDecoys(p0, p1, q, ten users)."""
    pair = enumeration.target_among_decoys(p0, p1, q, USERS)
    return float(enumeration.hockey_stick(*pair, ALPHA))


def specialised_rows() -> tuple[list[float], list[float], list[float]]:
    """Three letters with a shared leftover: u = e^eps0 p, v = p, p = 1/(e^eps0 + k - 1)."""
    p = 1 / (math.exp(EPS0) + CATEGORIES - 1)
    u, v = math.exp(EPS0) * p, p
    return [u, v, 1 - u - v], [v, u, 1 - u - v], [p, p, 1 - 2 * p]


# The numbers below are printed with 10 decimals, the last one not always rounded to nearest.
PRINTED = 1e-10


def test_the_specialised_formula_is_below_the_truth() -> None:
    """The counterexample: this formula may be shown as a baseline, never used as a bound."""
    assert four_letter_truth() == pytest.approx(0.0032713329, abs=PRINTED)
    assert reduced(*specialised_rows()) == pytest.approx(0.0029836429, abs=PRINTED)
    assert reduced(*specialised_rows()) < four_letter_truth()


def test_blanket_and_clones_are_above_the_truth_there() -> None:
    channel = channels.randomized_response(EPS0, CATEGORIES)
    blanket = reduced(*enumeration.blanket(channel, 0, 1))
    general = clones_delta(EPS0, USERS, 0.6)
    assert blanket == pytest.approx(0.0041801826, abs=PRINTED)
    assert general == pytest.approx(0.0173188140, abs=PRINTED)
    assert four_letter_truth() <= blanket <= general


def test_the_specialised_formula_is_the_clones_pair_without_a_leftover() -> None:
    """For two categories u + v = 1 and the formula is the sound one."""
    e = math.exp(EPS0)
    u, v = e / (e + 1), 1 / (e + 1)
    two = reduced([u, v, 0.0], [v, u, 0.0], [v, v, 1 - 2 * v])
    assert two == pytest.approx(clones_delta(EPS0, USERS, 0.6), abs=ROUND_OFF)
