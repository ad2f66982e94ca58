"""The oracles checked against each other, against closed forms and against the reference file.

Independent derivations that must meet: listing histograms (``enumeration``), listing message
sequences (the density lemma), the atoms of the clones pair, the sum over the number of clones, and
the values in ``refs/privacy_loss.json``, which come from other code.
"""

from __future__ import annotations

import random
from fractions import Fraction
from math import comb
from typing import Any

import mpmath
import numpy as np
import pytest
from oracles import binomial, channels, clones, enumeration, one_round, two_rounds
from oracles.precision import DIGITS, MP, Real, exact
from oracles.references import REFERENCES

# 50-digit arithmetic, a few hundred additions and one difference of nearby numbers: 42 digits are
# left in the worst case below.
SAME = exact(10) ** (8 - DIGITS)


def close(a: Real, b: Real, rtol: Real = SAME) -> bool:
    """|a - b| <= rtol |b|."""
    return bool(abs(exact(a) - exact(b)) <= rtol * abs(exact(b)))


def rational(value: Fraction) -> Real:
    """A fraction in oracle arithmetic."""
    return exact(value.numerator) / value.denominator


def random_law(source: random.Random, letters: int) -> list[Fraction]:
    """A random rational probability vector without zeros."""
    weights = [source.randint(1, 9) for _ in range(letters)]
    return [Fraction(w, sum(weights)) for w in weights]


# ------------------------------------------------------------------------------------- enumeration


@pytest.mark.parametrize("users", [1, 2, 3, 5])
@pytest.mark.parametrize("letters", [2, 3, 4])
def test_density_lemma_is_exact(users: int, letters: int) -> None:
    """Both sides of the density lemma in rational arithmetic: equal, not close."""
    source = random.Random(users * 10 + letters)
    for _ in range(3):
        p0, p1, q = (random_law(source, letters) for _ in range(3))
        law0, law1 = enumeration.target_among_decoys(p0, p1, q, users)
        for alpha in (Fraction(0), Fraction(1, 3), Fraction(1), Fraction(9, 7), Fraction(3)):
            left = enumeration.hockey_stick(law0, law1, alpha)
            assert left == enumeration.density_lemma(p0, p1, q, users, alpha)


def test_shuffled_law_is_the_sorted_product_law() -> None:
    """Histograms of every sequence, weighted by the product of its letters' probabilities."""
    source = random.Random(4)
    rows = [random_law(source, 3) for _ in range(4)]
    law: dict[tuple[int, ...], Fraction] = {}
    for code in range(3**4):
        word = [code // 3**i % 3 for i in range(4)]
        mass = Fraction(1)
        for row, letter in zip(rows, word, strict=True):
            mass *= row[letter]
        key = tuple(word.count(letter) for letter in range(3))
        law[key] = law.get(key, Fraction(0)) + mass
    assert enumeration.shuffled_law(rows) == law


def test_shuffled_output_ignores_the_order_of_users() -> None:
    source = random.Random(5)
    channel = [random_law(source, 3) for _ in range(3)]
    law = enumeration.shuffled_output(channel, [0, 1, 2, 2])
    assert law == enumeration.shuffled_output(channel, [2, 0, 2, 1])
    assert sum(law.values()) == 1


def test_hockey_stick_below_one_follows_from_above_one() -> None:
    """H_a(P||Q) = 1 - a + a H_{1/a}(Q||P), exactly."""
    source = random.Random(6)
    channel = [random_law(source, 3) for _ in range(3)]
    p = enumeration.shuffled_output(channel, [0, 1, 2])
    q = enumeration.shuffled_output(channel, [1, 1, 2])
    for alpha in (Fraction(1, 9), Fraction(1, 2), Fraction(1), Fraction(5, 4)):
        mirrored = 1 - alpha + alpha * enumeration.hockey_stick(q, p, 1 / alpha)
        assert enumeration.hockey_stick(p, q, alpha) == mirrored


def test_coarser_letters_and_more_decoys_never_raise_the_divergence() -> None:
    """Merging two letters, or adding one decoy, is a post-processing."""
    source = random.Random(7)
    for _ in range(10):
        p0, p1, q = (random_law(source, 4) for _ in range(3))
        merged = [[*row[:2], row[2] + row[3]] for row in (p0, p1, q)]
        fine = enumeration.target_among_decoys(p0, p1, q, 4)
        coarse = enumeration.target_among_decoys(*merged, 4)
        longer = enumeration.target_among_decoys(p0, p1, q, 5)
        for alpha in (Fraction(1, 2), Fraction(1), Fraction(4, 3)):
            value = enumeration.hockey_stick(*fine, alpha)
            assert enumeration.hockey_stick(*coarse, alpha) <= value
            assert enumeration.hockey_stick(*longer, alpha) <= value


def test_subsampling_everyone_is_no_subsampling() -> None:
    source = random.Random(8)
    channel = [random_law(source, 3) for _ in range(2)]
    data = [0, 1, 1, 0]
    everyone = enumeration.subsampled_output(channel, data, 4)
    assert everyone == enumeration.shuffled_output(channel, data)
    assert sum(enumeration.subsampled_output(channel, data, 2).values()) == 1


# ------------------------------------------------------------------------------------------ clones


@pytest.mark.parametrize("interactive", [False, True])
@pytest.mark.parametrize("eps0", [0.01, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("users", [1, 2, 7, 12, 30])
def test_clones_pair_has_mass_one(eps0: float, users: int, interactive: bool) -> None:
    atoms = clones.pair(eps0, users, interactive)
    for side in (0, 1):
        assert close(MP.fsum(atom[side] for atom in atoms), exact(1))


@pytest.mark.parametrize("interactive", [False, True])
@pytest.mark.parametrize(("eps0", "users"), [(0.3, 1), (1.0, 2), (2.0, 4), (4.0, 7)])
def test_clones_pair_is_the_enumerated_pair(eps0: float, users: int, interactive: bool) -> None:
    """PldAtoms merged by loss against histograms of letters 0, 1, "nothing"."""
    law0, law1 = enumeration.target_among_decoys(*clones.rows(eps0, interactive), users)
    atoms = clones.pair(eps0, users, interactive)
    for fraction in (-0.5, 0.0, 0.2, 0.7):
        alpha = MP.exp(exact(fraction * eps0))
        listed = enumeration.hockey_stick(law0, law1, alpha)
        assert close(clones.delta(atoms, fraction * eps0), listed)
        if users <= 5:  # sequences grow as 3^n
            lemma = enumeration.density_lemma(*clones.rows(eps0, interactive), users, alpha)
            assert close(listed, lemma)


def test_one_user_is_randomized_response() -> None:
    """n = 1: delta(eps) = u - e^eps v, zero from eps0 on."""
    u, v, _ = clones.letters(1.5)
    atoms = clones.pair(1.5, 1)
    assert close(clones.delta(atoms, 0.5), u - MP.exp(exact(0.5)) * v)
    # e^eps0 v is u up to the last digit only, so "zero" is 1e-48 here.
    assert clones.delta(atoms, 1.5) < SAME
    assert clones.delta(atoms, 1.6) == 0


@pytest.mark.parametrize("target", [0.2, 1e-3, 1e-9])
def test_epsilon_is_the_inverse_of_delta(target: float) -> None:
    """The closed inverse against bisection of delta, and delta at it against the target."""
    atoms = clones.pair(2.0, 9)
    answer = clones.epsilon(atoms, target)
    assert close(clones.delta(atoms, answer), exact(target))
    low, high = exact(0), exact(2)
    for _ in range(100):
        middle = (low + high) / 2
        if clones.delta(atoms, middle) > target:
            low = middle
        else:
            high = middle
    # 100 halvings of an interval of length 2 leave 2e-30.
    assert abs(high - answer) < exact("4e-30")


def test_epsilon_is_zero_when_delta_is_large() -> None:
    atoms = clones.pair(1.0, 9)
    total_variation = clones.delta(atoms, 0.0)
    assert clones.epsilon(atoms, total_variation * 2) == 0


@pytest.mark.parametrize(("users", "population"), [(1, 3), (5, 8), (10, 40)])
def test_subsampled_pair_is_the_larger_of_two_mixtures(users: int, population: int) -> None:
    """h(a) = max of H_a(gP + (1-g)Q || Q) and H_a(P || gQ + (1-g)P), for a below and above 1."""
    atoms = clones.pair(1.5, users)
    g = exact(users) / population
    left = [(g * p + (1 - g) * q, q) for p, q in atoms]
    right = [(p, g * q + (1 - g) * p) for p, q in atoms]
    explicit = clones.subsampled(atoms, users, population)
    assert close(MP.fsum(q for _, q in explicit), exact(1))
    for epsilon in (-1.0, -0.2, -0.01, 0.0, 0.01, 0.1, 0.5, 1.4):
        larger = max(clones.delta(left, epsilon), clones.delta(right, epsilon))
        assert abs(clones.delta(explicit, epsilon) - larger) < SAME


def test_subsampling_everyone_leaves_the_pair_alone() -> None:
    atoms = clones.pair(1.5, 6)
    for epsilon in (0.0, 0.4, 1.2):
        everyone = clones.delta(clones.subsampled(atoms, 6, 6), epsilon)
        assert close(everyone, clones.delta(atoms, epsilon))


def test_composition_of_randomized_response_has_a_closed_form() -> None:
    """Three lonely users, atom by atom, against the binomial count of zeros."""
    single = clones.pair(0.8, 1)
    product = clones.composed(single, single, single)
    for epsilon in (0.0, 0.5, 1.7):
        counted = clones.delta(clones.lonely_rounds(0.8, 3), epsilon)
        assert close(clones.delta(product, epsilon), counted)


@pytest.mark.slow
def test_composition_ignores_order_and_refuses_the_impossible() -> None:
    a, b = clones.pair(1.0, 4), clones.pair(0.5, 6, interactive=True)
    forth, back = clones.composed(a, b), clones.composed(b, a)
    assert close(clones.delta(forth, 0.4), clones.delta(back, 0.4))
    thrice = clones.composed(a, a, a)
    assert close(clones.delta(clones.self_composed(a, 3), 0.4), clones.delta(thrice, 0.4))
    big = clones.pair(1.0, 30)
    for compose in (lambda: clones.composed(big, big, big), lambda: clones.self_composed(big, 9)):
        with pytest.raises(ValueError, match="too many"):
            compose()


@pytest.mark.parametrize("interactive", [False, True])
@pytest.mark.parametrize(("eps0", "users"), [(0.1, 12), (1.0, 1), (1.0, 30), (4.0, 20)])
def test_sum_over_clones_is_the_sum_over_atoms(eps0: float, users: int, interactive: bool) -> None:
    atoms = clones.pair(eps0, users, interactive)
    for fraction in (0.0, 0.1, 0.5, 0.95):
        summed = one_round.delta(eps0, users, fraction * eps0, interactive)
        # one_round stops at 1e-40 of the sum.
        assert close(summed, clones.delta(atoms, fraction * eps0), exact("1e-38"))


def test_two_rounds_without_a_grid_are_the_product_of_atoms() -> None:
    atoms = clones.pair(1.0, 12)
    product = clones.composed(atoms, atoms)
    for epsilon in (0.0, 0.3, 1.0, 1.6):
        exactly = float(clones.delta(product, epsilon))
        # Doubles, a few thousand terms.
        assert two_rounds.delta(1.0, 12, epsilon) == pytest.approx(exactly, rel=1e-11)


def test_two_rounds_of_thousands_of_users_meet_the_reference() -> None:
    """delta falls through the reference's delta inside the printed interval of epsilon."""
    (entry,) = (e for e in REFERENCES if e.get("users") == 10_000 and e["kind"] == "clones")
    assert entry["rounds"] == 2
    low, high = (entry["value"] * (1 + sign * entry["rtol"]) for sign in (-1, 1))
    assert two_rounds.delta(entry["eps0"], entry["users"], low) >= entry["delta"]
    assert two_rounds.delta(entry["eps0"], entry["users"], high) <= entry["delta"]


# ---------------------------------------------------------------------------------------- binomial


@pytest.mark.slow
@pytest.mark.parametrize(("k", "trials"), [(0, 7), (1, 7), (7, 7), (1, 1), (3, 50), (550, 1000)])
@pytest.mark.parametrize("p", [0.25, 0.5, 0.875])  # short fractions keep the check fast
def test_binomial_against_fractions(k: int, trials: int, p: float) -> None:
    chance = Fraction(p)
    masses = [comb(trials, j) * chance**j * (1 - chance) ** (trials - j) for j in range(trials + 1)]
    assert close(binomial.pmf(k, trials, p), rational(masses[k]))
    assert close(binomial.upper_tail(k, trials, p), rational(sum(masses[k:], Fraction(0))))
    assert close(binomial.lower_tail(k, trials, p), rational(sum(masses[: k + 1], Fraction(0))))


def test_binomial_tail_against_the_series_of_mpmath() -> None:
    with mpmath.workdps(DIGITS):
        series = mpmath.betainc(550, 451, 0, 0.5, regularized=True)
    assert close(binomial.upper_tail(550, 1000, 0.5), exact(series), exact("1e-45"))


@pytest.mark.parametrize(
    ("k", "trials", "p"),
    [
        (501_000, 10**6, 0.5),
        (500_050_000, 10**9, 0.5),
        (500_004_000_000, 10**12, 0.5),  # 8 standard deviations out
        (36_100_000_000, 10**12, 0.036),  # 537 standard deviations out: 2e-62519
        (7, 10**12, 1e-12),
    ],
)
def test_binomial_tails_of_many_trials_are_consistent(k: int, trials: int, p: float) -> None:
    """Neighbouring tails differ by the mass between them; the two sides add up to 1."""
    tail = binomial.upper_tail(k, trials, p)
    step = tail - binomial.upper_tail(k + 1, trials, p)
    # The step is a small part of the tail: up to 6 of the 50 digits cancel.
    assert close(step, binomial.pmf(k, trials, p), exact("1e-40"))
    assert close(tail + binomial.lower_tail(k - 1, trials, p), exact(1))


# ---------------------------------------------------------------------------------------- channels


def test_random_channels_are_private_and_normalised() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        eps0 = float(rng.uniform(0.05, 4.0))
        channel = channels.random_channel(rng, eps0)
        # Round-off only: rows are divided by their sum last.
        assert np.allclose(np.sum(channel, axis=1), 1.0, rtol=0.0, atol=1e-12)
        assert channels.local_epsilon(channel) <= eps0 + 1e-9
        dataset, other = channels.random_dataset(rng, len(channel), 4)
        assert len(dataset) == 4
        assert other != dataset[0]


def test_extremal_channels_use_their_whole_budget() -> None:
    rng = np.random.default_rng(2)
    spent = [channels.local_epsilon(channels.extremal(rng, 1.3, 3)) for _ in range(20)]
    # The linear program is solved to about 1e-9.
    assert max(spent) == pytest.approx(1.3, abs=1e-7)


def test_a_letter_only_one_input_can_send_is_not_private() -> None:
    assert channels.local_epsilon([[0.5, 0.5], [1.0, 0.0]]) == float("inf")


# -------------------------------------------------------------------------------------- references


def is_small(entry: dict[str, Any]) -> bool:
    """One round of up to 30 users, or up to three rounds of up to 12."""
    if entry["kind"] == "heterogeneous":
        return False
    return entry["users"] <= (30 if entry["rounds"] == 1 else 12) and entry["rounds"] <= 3


def reference_atoms(entry: dict[str, Any]) -> list[clones.Atom]:
    """One round of the entry's protocol as atoms, whichever kind it is."""
    if entry["kind"] == "clones":
        atoms = clones.pair(entry["eps0"], entry["users"])
        if "population" in entry:
            atoms = clones.subsampled(atoms, entry["users"], entry["population"])
        return atoms
    k, gamma = entry["categories"], exact(entry["gamma"])
    channel = [[gamma / k + (1 - gamma) * (x == y) for y in range(k)] for x in range(k)]
    if entry["kind"] == "krr_weak":
        weight, rows = exact(1), enumeration.blanket(channel, 0, 1)
    else:  # strong: with probability gamma the target's answer was random, and that is seen
        decoys = [gamma / k, gamma / k, 1 - 2 * gamma / k]
        weight, rows = 1 - gamma, ([1, 0, 0], [0, 1, 0], decoys)
    law0, law1 = enumeration.target_among_decoys(*rows, entry["users"])
    seen = [
        (weight * law0.get(key, exact(0)), weight * law1.get(key, exact(0)))
        for key in sorted(law0.keys() | law1.keys())
    ]
    return [*seen, (1 - weight, 1 - weight)]


SMALL = [entry for entry in REFERENCES if is_small(entry)]


def test_the_reference_file_is_the_one_expected() -> None:
    kinds = [entry["kind"] for entry in REFERENCES]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "clones": 23,
        "krr_weak": 7,
        "krr_strong": 7,
        "heterogeneous": 2,
    }
    assert len(SMALL) == 31


@pytest.mark.slow
@pytest.mark.parametrize("entry", SMALL, ids=lambda e: f"{e['kind']}-{e['users']}-{e['query']}")
def test_oracle_reproduces_the_reference(entry: dict[str, Any]) -> None:
    atoms = clones.self_composed(reference_atoms(entry), entry["rounds"])
    if entry["query"] == "delta":
        # Printed with 20 digits, but for the two-round entries at the decimal epsilon 0.1 or 0.6,
        # not at the nearest double (2e-17 away): relative differences up to 3e-17.
        answer, rtol = clones.delta(atoms, entry["epsilon"]), exact("1e-15")
    else:
        # Printed as a double found by bisection: the file's own tolerance.
        answer, rtol = clones.epsilon(atoms, entry["delta"]), exact(entry["rtol"])
    assert close(answer, exact(entry["value"]), rtol)
