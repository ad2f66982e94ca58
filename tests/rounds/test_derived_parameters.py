"""Parameters that rounds compute from those given: bounds hold for the exact ones.

Each is compared with fractions or 60 digits. Losses themselves allow for a few roundings; what is
looked for is the parameter's own, which at the end of a profile is all there is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.losses.base import Effort, LossBySide, factors, noise_of, share_of
from shuffle_accountant.numerics.binomial import CHANCE
from shuffle_accountant.numerics.rounding import Between, Bound, roundings
from shuffle_accountant.rounds.mechanisms import step_ratio

EFFORT = Effort(tail=1e-16, resolution=1e-3)
SIDES = (Bound.PESSIMISTIC, Bound.OPTIMISTIC)


def ends(loss: Any) -> dict[Bound, Any]:
    """The loss that each bound is computed from."""
    if isinstance(loss, LossBySide):
        return {Bound.PESSIMISTIC: loss.above, Bound.OPTIMISTIC: loss.below}
    return dict.fromkeys(SIDES, loss)


def parts(round: Any) -> Iterator[Any]:
    for loss, _ in factors(round.reduced().loss, alone=False):
        yield loss


def contains(bracket: Any, truth: Any) -> bool:
    return mpmath.mpf(bracket.lower) <= truth <= mpmath.mpf(bracket.upper)


# -------------------------------------------------------------------------- released over all steps
@pytest.mark.parametrize("steps", [2, 3, 7, 19, 49])
def test_released_share_of_the_steps(steps: int) -> None:
    """With losses of 300 the outputs name the record's step, if it is released: delta(0) = s/t."""
    for released in range(1, steps):
        round = sa.RandomAllocation(sa.PureMechanism(epsilon=300.0), steps=steps, released=released)
        found = round.delta(epsilon=0.0)
        exact = Fraction(released, steps)
        # but for a ratio of e^300 under Q or of e^-300 under P, in one of the steps
        below = exact - Fraction(1, 10**100)
        assert Fraction(found.lower) <= exact, (released, steps, found)
        assert Fraction(found.upper) >= below, (released, steps, found)
        for loss in parts(round):
            assert Fraction(ends(loss)[Bound.PESSIMISTIC].fraction) >= exact
            assert Fraction(ends(loss)[Bound.OPTIMISTIC].fraction) <= exact


def test_sampled_share_of_a_population() -> None:
    for users, population in ((1, 3), (2, 3), (14, 19), (10, 49), (3, 10**15 - 1)):
        round = sa.ShuffleRound(
            sa.GaussianRandomizer(0.8), users=users, population=population, reduction="example"
        )
        loss = ends(round.reduced().loss)
        exact = Fraction(users, population)
        assert Fraction(loss[Bound.PESSIMISTIC].fraction) >= exact
        assert Fraction(loss[Bound.OPTIMISTIC].fraction) <= exact


# ----------------------------------------------------------------------------------- Laplace's eps0
def near(value: float, doubles: int) -> list[float]:
    """A double and its neighbours."""
    found = [value]
    for _ in range(doubles):
        found = [
            math.nextafter(found[0], 0.0),
            *found,
            math.nextafter(found[-1], math.inf),
        ]
    return found


SCALES = [1.3532632472974888, 3.0, 0.7, 49.0, 1.0 / 3.0, 0.0020000000000000005]
SCALES += [float(x) for x in np.exp(np.random.default_rng(6).uniform(-4.0, 4.0, 25))]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.filterwarnings("ignore::shuffle_accountant.LooseBracketWarning")
def test_laplace_steps_at_their_largest_loss(scale: float) -> None:
    """``1 - e^((epsilon - 1/scale)/2)`` up to the last double below 1/scale."""
    round = sa.RandomAllocation(sa.LaplaceMechanism(scale=scale), steps=1)
    for epsilon in near(1.0 / scale, 3):
        with mpmath.workdps(60):
            gap = (mpmath.mpf(epsilon) - 1 / mpmath.mpf(scale)) / 2
            truth = -mpmath.expm1(gap) if gap < 0 else mpmath.mpf(0)
            assert contains(round.delta(epsilon=epsilon), truth), (scale, epsilon)


@pytest.mark.parametrize("passes", [2, 3])
@pytest.mark.parametrize("scale", SCALES[:3])
@pytest.mark.filterwarnings("ignore::shuffle_accountant.LooseBracketWarning")
def test_several_laplace_passes_at_their_largest_loss(scale: float, passes: int) -> None:
    """All outputs are above 1 with probability 2^-passes: there the loss is the largest."""
    round = sa.RandomAllocation(sa.LaplaceMechanism(scale=scale), steps=1, passes=passes)
    for epsilon in near(passes / scale, 3):
        with mpmath.workdps(60):
            gap = mpmath.mpf(epsilon) - passes / mpmath.mpf(scale)
            truth = -mpmath.expm1(gap) / 2**passes if gap < 0 else mpmath.mpf(0)
            assert mpmath.mpf(round.delta(epsilon=epsilon).upper) >= truth, (scale, epsilon)


@pytest.mark.parametrize("scale", SCALES)
def test_eps0_of_laplace_steps(scale: float) -> None:
    step = sa.LaplaceMechanism(scale=scale)
    above, below = (step_ratio(step, 1, side) for side in SIDES)
    assert Fraction(above.largest) * Fraction(scale) >= 1
    assert Fraction(below.largest) * Fraction(scale) <= 1


# -------------------------------------------------------------------------- noise of several passes
def noisy(kind: str, sigma: float, passes: int) -> Any:
    if kind == "batches":
        return sa.ShuffledBatches(noise_multiplier=sigma, steps=5, passes=passes)
    step = sa.GaussianMechanism(noise_multiplier=sigma)
    selected = 2 if kind == "blocks" else 1
    return sa.RandomAllocation(step, steps=5, selected=selected, passes=passes)


def sigma_of(loss: Any) -> float:
    held = loss.source if hasattr(loss, "source") else loss
    return float(held.sigma)


@pytest.mark.parametrize("kind", ["allocation", "blocks", "batches"])
@pytest.mark.parametrize("sigma", [1.0, 1.83, 7.0, 0.04])
@pytest.mark.parametrize("passes", [1, 2, 3, 7, 49, 10**6])
def test_noise_of_several_passes(kind: str, sigma: float, passes: int) -> None:
    """A smaller deviation reveals more: above it is no larger than the exact one."""
    exact = Fraction(sigma) ** 2 / passes
    for loss in parts(noisy(kind, sigma, passes)):
        assert Fraction(sigma_of(ends(loss)[Bound.PESSIMISTIC])) ** 2 <= exact
        assert Fraction(sigma_of(ends(loss)[Bound.OPTIMISTIC])) ** 2 >= exact


@pytest.mark.parametrize("passes", [1, 3, 7])
@pytest.mark.parametrize("sigma", [0.7, 1.83, 11.0])
def test_one_step_of_several_passes_is_a_gaussian_mechanism(sigma: float, passes: int) -> None:
    step = sa.GaussianMechanism(noise_multiplier=sigma)
    rounds = [
        sa.RandomAllocation(step, steps=1, passes=passes),
        sa.ShuffledBatches(noise_multiplier=sigma, steps=1, passes=passes),
    ]
    for epsilon in (0.0, 0.3, 2.0, 9.0):
        with mpmath.workdps(60):
            shift = mpmath.sqrt(passes) / mpmath.mpf(sigma)
            place = mpmath.mpf(epsilon) / shift
            truth = mpmath.ncdf(shift / 2 - place) - mpmath.exp(epsilon) * mpmath.ncdf(
                -shift / 2 - place
            )
            for round in rounds:
                assert contains(round.delta(epsilon=epsilon), truth), (round, epsilon)


# ------------------------------------------------------------------------------------------ dummies
SHARES = [1.0 / 3.0, 2.0 / 3.0, 14.0 / 19.0, 0.1, 0.3, math.nextafter(1.0, 0.0), 1e-9]


@pytest.mark.parametrize("share", SHARES)
def test_trials_of_honest_users_are_rounded_down(share: float) -> None:
    """A product that is rounded up would count a trial that nobody makes."""
    for trials in (*range(60), 2**53, 2**53 - 1):
        law = sa.Binomial(trials=trials, probability=0.5).honest(share)
        assert law.trials <= Fraction(share) * trials < law.trials + 1


@pytest.mark.parametrize("share", SHARES)
def test_ratios_of_honest_dummies(share: float) -> None:
    """A mean or a size of a share of the users is off by less than ratios allow for."""
    counts = np.array([1.0, 2.0, 3.0, 10.0, 1e3, 1e6])
    part = Fraction(share)
    for amount in (0.7, 13.0, 1e5 / 3.0):
        poisson = sa.Poisson(mean=amount).honest(share)
        negative = sa.NegativeBinomial(size=amount, probability=0.3).honest(share)
        for law, exact in (
            (poisson, [Fraction(c) / (Fraction(amount) * part) for c in counts]),
            (
                negative,
                [
                    Fraction(c)
                    / ((Fraction(c) - 1 + Fraction(amount) * part) * (1 - Fraction(0.3)))
                    for c in counts
                ],
            ),
        ):
            error = Fraction(roundings(law.roundings))
            for found, truth in zip(law.ratios(counts), exact, strict=True):
                assert abs(Fraction(float(found)) / truth - 1) <= error


# ------------------------------------------------------------------------------ eps0 -> probability
EPS0 = [1e-12, 0.1, 1.0 / 3.0, 1.0, math.log(3.0), 5.09, 6.76, 30.0, 36.7, 200.0, 600.0]


@pytest.mark.parametrize("eps0", EPS0)
@pytest.mark.parametrize("categories", [2, 3, 10, 2**53])
def test_probabilities_of_randomized_response(eps0: float, categories: int) -> None:
    """To a few units in the last place: losses take 16 roundings of each for granted."""
    found = sa.RandomizedResponse(categories=categories, eps0=eps0)
    error = mpmath.mpf(roundings(16.0))
    with mpmath.workdps(60):
        power = mpmath.exp(mpmath.mpf(eps0))
        whole = power + categories - 1
        for value, truth in (
            (found.gamma, categories / whole),
            (found.truthful, (power - 1) / whole),
            (found.keep_probability, power / whole),
            (found.lie_probability, 1 / whole),
        ):
            assert abs(mpmath.mpf(value) / truth - 1) <= error


@pytest.mark.parametrize("gamma", [1.0 / 3.0, 0.1, 5e-324, 1e-300, math.nextafter(1.0, 0.0), 0.9])
@pytest.mark.parametrize("categories", [2, 3, 10, 2**53])
def test_parameters_of_a_given_gamma(gamma: float, categories: int) -> None:
    """eps0 is no smaller than the exact one: no loss is larger."""
    found = sa.RandomizedResponse.from_gamma(categories=categories, gamma=gamma)
    with mpmath.workdps(400):
        share = mpmath.mpf(gamma)
        truth = mpmath.log1p((1 - share) * categories / share)
        assert truth <= mpmath.mpf(found.eps0) <= truth * (1 + mpmath.mpf(roundings(32.0)))
        assert abs(mpmath.mpf(found.truthful) / (1 - share) - 1) <= mpmath.mpf(roundings(1.0))


@pytest.mark.parametrize("eps0", EPS0[:9])
@pytest.mark.parametrize("interactive", [False, True])
def test_chances_of_clones(eps0: float, interactive: bool) -> None:
    """A decoy's chance, and that it is blank, to the roundings that binomial laws allow for."""
    round = sa.ShuffleRound(
        sa.GeneralRandomizer(eps0=eps0, interactive=interactive), users=9, reduction="clones"
    )
    decoys = round.target_among_decoys()
    with mpmath.workdps(60):
        power = mpmath.exp(mpmath.mpf(eps0))
        rate = 1 / power if interactive else 2 / (power + 1)
        for value, truth in ((2.0 * decoys.q[0], rate), (decoys.q[2], 1 - rate)):
            assert abs(mpmath.mpf(value) / truth - 1) <= mpmath.mpf(roundings(CHANCE))


# ------------------------------------------------------------------------------------- both of them
@pytest.mark.parametrize("order", [False, True])
def test_upper_and_lower_bounds_come_from_their_own_loss(order: bool) -> None:
    """Divergences at a few epsilon, and the masses of atoms."""
    round = sa.RandomAllocation(sa.LaplaceMechanism(scale=0.7), steps=3, released=1)
    loss = round.reduced().loss
    assert isinstance(loss, LossBySide)
    if order:
        loss = loss.reversed
    for side, one in zip(SIDES, (loss.above, loss.below), strict=True):
        for epsilon in (0.0, 0.2, 0.7):
            assert loss.delta(epsilon, side, EFFORT) == one.delta(epsilon, side, EFFORT)

        def edges(largest: float) -> Any:
            return np.linspace(0.0, largest + 1.0, 50)

        np.testing.assert_array_equal(
            loss.atoms(side, edges, EFFORT).mass, one.atoms(side, edges, EFFORT).mass
        )
    assert loss.above.largest > loss.below.largest


def test_which_end_reveals_more() -> None:
    third = Between(0.25, 0.5)
    assert [share_of(third, side) for side in SIDES] == [0.5, 0.25]
    assert [noise_of(third, side) for side in SIDES] == [0.25, 0.5]


def test_exact_parameters_need_one_loss() -> None:
    for round in (
        sa.RandomAllocation(sa.LaplaceMechanism(scale=0.5), steps=4, released=1),
        sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=3.0), steps=4, passes=4),
    ):
        assert not isinstance(round.reduced().loss, LossBySide)
