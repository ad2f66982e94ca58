"""k-ary randomized response against the weak and the strong adversary.

The truth comes from joint laws written down outcome by outcome in 50 digits, from the reference
file, from the digits printed with Figure 4 of 'Numerical Accounting in the Shuffle Model', and, for
the weak adversary, from a second code of the package that knows nothing of randomized response: the
blanket of a channel matrix.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles import blanket, channels, clones, response
from oracles.clones import Atom
from oracles.containment import assert_contains, assert_ordered, assert_overlaps
from oracles.references import REFERENCES

import shuffle_accountant as sa

RESPONSES = [entry for entry in REFERENCES if entry["kind"] in ("krr_weak", "krr_strong")]
ADVERSARY = {"krr_weak": ("blanket", None), "krr_strong": ("strong", "exact")}

# (k, gamma, n) small enough to list all outcomes, gamma exact in binary and not
SMALL = [(2, 0.5, 5), (3, 0.25, 8), (4, 0.5, 6), (5, 0.9, 7), (7, 0.03, 4), (3, 0.6, 1)]
VARIANTS = ("exact", "paper", "tail")

# Relative width of a bracket where all outcomes are listed: round-off of thousands of operations.
ENUMERATED = 1e-9

# What the default tolerance of composed rounds means for delta: its bracket is relatively no wider
# than this, or than delta changes when epsilon does by this share to either side.
TOLERANCE = 1e-3

# Relative error of the oracles: 50 digits, a few hundred of them added up.
DIGITS = 1e-45


def one_round(
    categories: int, gamma: float, users: int, reduction: str = "blanket", **options: Any
) -> sa.ShuffleRound:
    """A round of randomized response given by gamma."""
    randomizer = sa.RandomizedResponse.from_gamma(categories=categories, gamma=gamma)
    return sa.ShuffleRound(randomizer, users=users, reduction=reduction, **options)


def channel(categories: int, gamma: float) -> NDArray[np.float64]:
    """The channel matrix: uniform with probability gamma, else the truth."""
    table: NDArray[np.float64] = np.full((categories, categories), gamma / categories)
    return table + (1.0 - gamma) * np.eye(categories)


def oracle(variant: str) -> Callable[[Sequence[Atom], float], Any]:
    """The functional a variant is named for."""
    return response.tail if variant == "tail" else clones.delta


def strong_atoms(categories: int, gamma: float, users: int, variant: str) -> list[Atom]:
    """The oracle's pair for one of the variants of the strong adversary."""
    return response.strong(categories, gamma, users, mixed=variant == "exact")


# ------------------------------------------------------------------------------ reference file


@pytest.mark.parametrize("entry", RESPONSES, ids=lambda e: f"{e['kind']}-{e['users']}")
def test_reference_file(entry: dict[str, Any]) -> None:
    """Each reference is good to its own rtol, by which the bracket is widened."""
    reduction, variant = ADVERSARY[entry["kind"]]
    one = one_round(entry["categories"], entry["gamma"], entry["users"], reduction, variant=variant)
    if entry["query"] == "delta":
        bracket = sa.delta(one, epsilon=entry["epsilon"], rounds=entry["rounds"])
    else:
        bracket = sa.epsilon(one, delta=entry["delta"], rounds=entry["rounds"])
    assert_ordered(bracket)
    assert_contains(bracket, entry["value"], rtol=entry["rtol"])


# ------------------------------------------------------------------------------------- oracles


@pytest.mark.parametrize(("categories", "gamma", "users"), SMALL)
def test_oracle_pairs_are_probability_laws(categories: int, gamma: float, users: int) -> None:
    pairs = [
        response.weak(categories, gamma, users),
        response.strong(categories, gamma, users),
        response.strong(categories, gamma, users, mixed=False),
    ]
    for pair in pairs:
        for side in zip(*pair, strict=True):
            assert abs(sum(side) - 1) < DIGITS


@pytest.mark.parametrize(("categories", "gamma", "users"), SMALL)
def test_oracle_of_the_weak_adversary_is_the_oracle_of_the_blanket(
    categories: int, gamma: float, users: int
) -> None:
    """Counts of those who answered at random, against histograms of all letters."""
    atoms = response.weak(categories, gamma, users)
    epsilons = (0.0, 0.2, 0.9, 2.0)
    for epsilon, value in zip(
        epsilons, blanket.delta(channel(categories, gamma).tolist(), users, epsilons), strict=True
    ):
        # the entries of the channel are rounded to 1e-16 of their size
        assert float(value) == pytest.approx(
            float(clones.delta(atoms, epsilon)), rel=1e-12, abs=1e-15
        )


@pytest.mark.parametrize(("categories", "gamma", "users"), SMALL)
def test_weak_round_against_the_oracle(categories: int, gamma: float, users: int) -> None:
    one, atoms = one_round(categories, gamma, users), response.weak(categories, gamma, users)
    for fraction in (0.0, 0.03, 0.3, 0.7, 0.95):
        epsilon = fraction * one.randomizer.eps0
        bracket = one.delta(epsilon=epsilon)
        assert_contains(bracket, clones.delta(atoms, epsilon))
        assert bracket.upper - bracket.lower <= ENUMERATED * bracket.upper
    assert_epsilon(one, clones.delta, atoms)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("categories", "gamma", "users"), SMALL)
def test_strong_round_against_the_oracle(
    categories: int, gamma: float, users: int, variant: str
) -> None:
    one = one_round(categories, gamma, users, "strong", variant=variant)
    atoms = strong_atoms(categories, gamma, users, variant)
    for epsilon in (0.0, 0.1, 0.65, 1.5, 4.0):
        bracket = one.delta(epsilon=epsilon)
        assert_contains(bracket, oracle(variant)(atoms, epsilon))
        if variant == "tail" and epsilon == 0.0:
            continue  # the tail jumps there, and a bracket may hold both sides of a jump
        assert bracket.upper - bracket.lower <= ENUMERATED * bracket.upper
    assert_epsilon(one, oracle(variant), atoms)


def assert_epsilon(
    one: sa.ShuffleRound, divergence: Callable[[Sequence[Atom], float], Any], atoms: list[Atom]
) -> None:
    """Delta at the ends of a bracket of epsilon, infinite where no epsilon is enough."""
    certain = sum(p for p, q in atoms if not q)  # of distinguishing the datasets
    for delta in (0.3, 0.01, 1e-6):
        bracket = one.epsilon(delta=delta)
        if delta < certain:
            assert bracket.lower == bracket.upper == math.inf
            continue
        assert_ordered(bracket)
        assert divergence(atoms, bracket.upper) <= delta
        # epsilon is the smallest one that is enough; right below an end of 0 there is nothing
        below = bracket.lower * (1 - 1e-9)  # a tail probability jumps at the end itself
        assert below == 0.0 or divergence(atoms, below) >= delta


@pytest.mark.parametrize(("categories", "gamma", "users"), [(3, 0.25, 6), (4, 0.5, 5), (2, 0.7, 4)])
def test_two_rounds_against_the_oracle(categories: int, gamma: float, users: int) -> None:
    """Every pair of atoms multiplied out."""
    cases = [("blanket", None, response.weak(categories, gamma, users), clones.delta)]
    for variant in VARIANTS:
        atoms = strong_atoms(categories, gamma, users, variant)
        cases.append(("strong", variant, atoms, oracle(variant)))
    for reduction, variant, atoms, divergence in cases:
        both = clones.composed(atoms, atoms)
        one = one_round(categories, gamma, users, reduction, variant=variant)
        for epsilon in (0.15, 0.77, 0.95 if variant == "tail" else 1.9):  # away from jumps
            bracket = sa.delta(one, epsilon=epsilon, rounds=2)
            assert_ordered(bracket)
            assert_contains(bracket, divergence(both, epsilon))
            near = [divergence(both, epsilon * (1 + side * TOLERANCE)) for side in (-1, 1)]
            widest = max(near[0] - near[1], TOLERANCE * bracket.upper)
            assert bracket.upper - bracket.lower <= widest


def test_infinite_losses_stay_infinite_in_a_composed_tail() -> None:
    """A round that rules the second dataset out does, whatever the loss of the other round is.

    The finite losses next to 1.9 are 1.79 and 2.01: there is no jump for a grid to blur.
    """
    atoms = strong_atoms(3, 0.25, 6, "tail")
    one = one_round(3, 0.25, 6, "strong", variant="tail")
    bracket = sa.delta(one, epsilon=1.9, rounds=2)
    assert_contains(bracket, response.tail(clones.composed(atoms, atoms), 1.9))
    assert bracket.upper <= bracket.lower * (1 + 1e-6)  # moving no loss past 1.9


@pytest.mark.parametrize(("categories", "gamma", "users"), SMALL)
def test_variants_are_ordered(categories: int, gamma: float, users: int) -> None:
    """Weak <= exact <= paper <= tail, for the oracle and for both ends of the brackets."""
    options: list[tuple[str, str | None]] = [("blanket", None)]
    options += [("strong", variant) for variant in VARIANTS]
    rounds = [one_round(categories, gamma, users, r, variant=v) for r, v in options]
    for epsilon in (0.0, 0.3, 1.1, 2.5):
        truth = [clones.delta(response.weak(categories, gamma, users), epsilon)]
        for variant in VARIANTS:
            atoms = strong_atoms(categories, gamma, users, variant)
            truth.append(oracle(variant)(atoms, epsilon))
        for small, large in itertools.pairwise(truth):
            assert small - large <= DIGITS
        for two in (rounds[:2], rounds[1:3], rounds[2:]):
            small, large = (one.delta(epsilon=epsilon) for one in two)
            # where all losses are 0 or infinite the last two are equal, up to round-off
            assert small.upper <= large.upper * (1 + ENUMERATED)
            assert small.lower <= large.lower * (1 + ENUMERATED)


# ------------------------------------------------------------------------------------ figure 4

# The printed digits come from a script on a grid, 2.2550 and its like with 4 decimals (relative
# 1e-4); the brackets below are 1e-5 wide.
PRINTED = 2e-4

# (reduction, variant) -> rounds -> epsilon at delta = 1e-4 and 1e-7
FIGURE_4 = {
    ("strong", "paper"): {
        1: (0.54733, 0.89029),
        4: (1.17464, 1.77510),
        16: (2.58666, 3.72249),
    },
    ("strong", "exact"): {1: (0.53077, 0.87734), 4: (1.0740, 1.6895), 16: (2.2550, 3.3448)},
    ("blanket", None): {
        1: (0.38907, 0.62890),
        4: (0.84222, 1.28711),
        16: (1.84752, 2.70108),
    },
    ("clones", None): {
        1: (0.42183, 0.68465),
        4: (0.91028, 1.38834),
        16: (1.99755, 2.91029),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 4, 16])
@pytest.mark.parametrize(("reduction", "variant"), FIGURE_4)
def test_figure_4(reduction: str, variant: str | None, rounds: int) -> None:
    """n = 1000, gamma = 1/4, k = 4."""
    one = one_round(4, 0.25, 1000, reduction, variant=variant)
    for delta, printed in zip((1e-4, 1e-7), FIGURE_4[reduction, variant][rounds], strict=True):
        bracket = sa.epsilon(one, delta=delta, rounds=rounds, tolerance=1e-4)
        assert_ordered(bracket)
        assert bracket.lower == pytest.approx(printed, rel=PRINTED)
        assert bracket.upper == pytest.approx(printed, rel=PRINTED)


def test_figure_4_between_its_ends() -> None:
    """The three printed values between the first and the last, one round, variant "paper"."""
    one = one_round(4, 0.25, 1000, "strong", variant="paper")
    for power, printed in ((-4.75, 0.64150), (-5.5, 0.72882), (-6.25, 0.81129)):
        assert one.epsilon(delta=10.0**power).upper == pytest.approx(printed, rel=PRINTED)


# -------------------------------------------------------- two codes for the weak adversary


def both_codes(
    categories: int, gamma: float, users: int
) -> tuple[sa.ShuffleRound, sa.ShuffleRound]:
    """Randomized response, and its channel as if it were any other one."""
    matrix = sa.DiscreteRandomizer(channel(categories, gamma))
    return (
        one_round(categories, gamma, users),
        sa.ShuffleRound(matrix, users=users, reduction="blanket"),
    )


@pytest.mark.slow
@pytest.mark.parametrize("users", [1, 2, 3, 8, 17, 40])
@pytest.mark.parametrize("categories", [2, 3, 4, 10])
def test_two_codes_agree_where_both_enumerate(categories: int, users: int) -> None:
    for gamma in (0.05, 0.25, 0.7):
        known, matrix = both_codes(categories, gamma, users)
        for fraction in (0.0, 0.1, 0.5, 0.9):
            epsilon = fraction * known.randomizer.eps0
            a, b = known.delta(epsilon=epsilon), matrix.delta(epsilon=epsilon)
            # round-off: rows of the matrix are rounded, by 1e-16 of n factors, and summed
            assert a.lower == pytest.approx(b.lower, rel=1e-10, abs=0.0)
            assert a.upper == pytest.approx(b.upper, rel=1e-10, abs=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("categories", "users"),
    [(3, 10**3), (10, 10**3), (50, 10**3), (3, 10**4), (50, 10**4), (10, 10**6), (50, 10**6)],
)
def test_two_codes_overlap_for_many_users(categories: int, users: int) -> None:
    """Blocks of counts against Fourier transforms over the users: each contains the truth."""
    known, matrix = both_codes(categories, 0.3, users)
    scale = matrix.epsilon(delta=1e-5).upper
    for fraction in (0.2, 0.6, 1.1):
        a, b = (one.delta(epsilon=fraction * scale) for one in (known, matrix))
        assert_ordered(a)
        assert_ordered(b)
        assert_overlaps(a, b.lower, b.upper)


# ---------------------------------------------------------------------------------- ends of gamma


@pytest.mark.parametrize("users", [1, 2, 100, 10**6])
@pytest.mark.parametrize("categories", [2, 3, 7])
@pytest.mark.parametrize(
    ("reduction", "variant"),
    [("auto", None), ("blanket", None), *(("strong", variant) for variant in VARIANTS)],
)
def test_all_users_tell_the_truth(
    categories: int, users: int, reduction: str, variant: str | None
) -> None:
    """The messages of the others hide nothing: no privacy, in one round or in two."""
    one = one_round(categories, 0.0, users, reduction, variant=variant)
    assert one.randomizer.eps0 == math.inf
    for rounds in (1, 2):
        bracket = sa.delta(one, epsilon=0.5, rounds=rounds)
        assert bracket.upper == 1.0
        assert bracket.lower >= 1.0 - 1e-9  # what the tails of the counts may be cut by
        bracket = sa.epsilon(one, delta=0.01, rounds=rounds)
        assert bracket.lower == bracket.upper == math.inf
    assert one.delta(epsilon=0.5).upper == 1.0
    assert one.epsilon(delta=0.01).upper == math.inf


def test_clones_know_nothing_of_users_who_tell_the_truth() -> None:
    with pytest.raises(ValueError, match="finite eps0"):
        one_round(3, 0.0, 10, "clones")


@pytest.mark.parametrize("users", [1, 2, 100, 10**6])
@pytest.mark.parametrize("categories", [2, 3, 7])
@pytest.mark.parametrize("reduction", ["auto", "blanket", "clones", "strong"])
def test_all_users_answer_at_random(categories: int, users: int, reduction: str) -> None:
    """Nothing is told. (The variants given that the target told the truth stay above 0.)"""
    one = one_round(categories, 1.0, users, reduction)
    for rounds in (1, 2):
        for epsilon in (0.0, 0.5):
            assert sa.delta(one, epsilon=epsilon, rounds=rounds).upper == 0.0
        assert sa.epsilon(one, delta=0.01, rounds=rounds).upper == 0.0
    assert one.delta(epsilon=0.5).upper == 0.0
    assert one.epsilon(delta=0.01).upper == 0.0


def test_auto_is_the_weak_adversary() -> None:
    """The blanket is never above the clones, and needs no knowledge of who answered how."""
    auto, weak = (one_round(4, 0.25, 30, reduction) for reduction in ("auto", "blanket"))
    assert auto.delta(epsilon=0.4) == weak.delta(epsilon=0.4)


# ------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "randomizer",
    [
        sa.GeneralRandomizer(eps0=1.0),
        sa.GaussianRandomizer(sigma=2.0),
        sa.LaplaceRandomizer(eps0=1.0),
        sa.RAPPOR(categories=3, eps0=1.0),
        sa.SubsetSelection(categories=9, eps0=1.0, size=2),
        sa.LocalHashing(categories=3, eps0=1.0),
        sa.HadamardResponse(categories=3, eps0=1.0),
        sa.DiscreteRandomizer(channels.randomized_response(1.0, 3)),
    ],
    ids=lambda randomizer: type(randomizer).__name__,
)
def test_strong_is_for_randomized_response(randomizer: Any) -> None:
    """The message names what is needed, why, and what was given."""
    for variant in (None, *VARIANTS):
        with pytest.raises(ValueError, match="needs a RandomizedResponse") as caught:
            sa.ShuffleRound(randomizer, users=10, reduction="strong", variant=variant)
        said = str(caught.value)
        assert "answer at random" in said
        assert type(randomizer).__name__ in said


@pytest.mark.parametrize("reduction", ["auto", "clones", "blanket"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_are_for_strong(reduction: str, variant: str) -> None:
    with pytest.raises(ValueError, match="variant is for reduction='strong' only"):
        one_round(3, 0.25, 10, reduction, variant=variant)


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="variant"):
        one_round(3, 0.25, 10, "strong", variant="loose")
    with pytest.raises(ValueError, match="reduction"):
        one_round(3, 0.25, 10, "weak")


def test_tail_is_not_amplified_by_sampling() -> None:
    with pytest.raises(ValueError, match="population"):
        one_round(3, 0.25, 10, "strong", variant="tail", population=100)
    # nobody is left out: nothing to amplify
    everyone = one_round(3, 0.25, 10, "strong", variant="tail", population=10)
    alone = one_round(3, 0.25, 10, "strong", variant="tail")
    assert everyone.delta(epsilon=0.5) == alone.delta(epsilon=0.5)


@pytest.mark.parametrize("variant", ["exact", "paper"])
def test_strong_subsampled(variant: str) -> None:
    """The explicit pair of sampling without replacement, built from the oracle's atoms."""
    one = one_round(3, 0.25, 6, "strong", variant=variant, population=15)
    atoms = clones.subsampled(strong_atoms(3, 0.25, 6, variant), 6, 15)
    for epsilon in (0.0, 0.1, 0.6, 2.0):
        assert_contains(one.delta(epsilon=epsilon), clones.delta(atoms, epsilon))


# ------------------------------------------------------------------------------------- extremes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("categories", "users"),
    [(2, 10**9), (3, 10**9), (100, 10**6), (10**4, 10**6), (10**4, 10**9), (10**4, 10)],
)
@pytest.mark.parametrize("gamma", [0.01, 0.5])
def test_many_categories_and_users(categories: int, users: int, gamma: float) -> None:
    """Valid, and as narrow as the default tolerance of compositions promises."""
    for reduction in ("auto", "strong"):
        one = one_round(categories, gamma, users, reduction)
        answer = one.epsilon(delta=1e-6)
        if math.isinf(answer.upper):  # too few answers at random for this adversary
            assert answer.lower == math.inf
            assert one.delta(epsilon=700.0).lower > 1e-6
            continue
        delta = one.delta(epsilon=answer.upper)
        for bracket in (answer, delta):
            assert_ordered(bracket)
        # delta falls so steeply in epsilon that the width of one is about ten times the other's
        assert answer.upper <= answer.lower * (1 + 1e-3)
        assert delta.upper <= delta.lower * (1 + 1e-2)
        assert delta.upper == pytest.approx(1e-6, rel=1e-2)
        if reduction == "auto":
            assert answer.upper <= one.randomizer.eps0
            clone = one_round(categories, gamma, users, "clones").epsilon(delta=1e-6)
            assert answer.lower <= clone.upper


def test_oracle_of_the_weak_adversary_by_its_loss() -> None:
    """The closed formula of the loss on one dataset's counts, against the two probabilities."""
    for categories, gamma, users in SMALL:
        atoms = response.weak(categories, gamma, users)
        for epsilon in (0.0, 0.2, 0.9, 2.0):
            by_losses = response.weak_by_losses(categories, gamma, users, epsilon)
            assert abs(by_losses - clones.delta(atoms, epsilon)) < DIGITS


@pytest.mark.slow
@pytest.mark.release
def test_a_channel_of_a_hundred_values() -> None:
    """The search for epsilon visits points far in the tail, where masses underflow."""
    known, matrix = both_codes(100, 0.25, 1000)
    a, b = (one.epsilon(delta=1e-6) for one in (known, matrix))
    assert_ordered(b)
    assert_overlaps(a, b.lower, b.upper)
