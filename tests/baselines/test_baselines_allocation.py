"""Published bounds of random allocation lie above the bracket, and above what they are made of."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from oracles.precision import MP, exact
from scipy.stats import norm

import shuffle_accountant as sa
from shuffle_accountant.baselines import (
    allocation_berry_esseen,
    allocation_decomposition,
    allocation_poisson,
    one_epoch,
)
from shuffle_accountant.baselines.one_epoch import poisson_epoch, profile_of
from shuffle_accountant.baselines.question import OutsideValidityError
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.reports.comparison import compare
from shuffle_accountant.rounds.mechanisms import Mechanism


def gaussian(sigma: float) -> sa.GaussianMechanism:
    return sa.GaussianMechanism(noise_multiplier=sigma)


SETTINGS: list[tuple[Mechanism, int, int, float]] = [
    (gaussian(1.0), 200, 1, 1e-6),
    (gaussian(1.0), 300, 10, 1e-6),
    (gaussian(2.0), 64, 1, 1e-8),
    (gaussian(4.0), 10_000, 3, 1e-6),
    (gaussian(1.0), 2, 4, 1e-5),
    (sa.PureMechanism(epsilon=0.5), 500, 2, 1e-6),
    (sa.LaplaceMechanism(scale=3.0), 1000, 1, 1e-6),
]


@pytest.mark.slow
@pytest.mark.parametrize(("step", "steps", "rounds", "delta"), SETTINGS)
def test_above_the_bracket(step: Mechanism, steps: int, rounds: int, delta: float) -> None:
    epoch = sa.RandomAllocation(step, steps=steps)
    certified = sa.epsilon(epoch, delta=delta, rounds=rounds)
    found = allocation_decomposition.epsilon(epoch, rounds=rounds, delta=delta)
    assert certified.upper < found < 3.0 * certified.upper
    if allocation_poisson.valid(epoch, rounds=rounds, delta=delta) is None:
        other = allocation_poisson.epsilon(epoch, rounds=rounds, delta=delta)
        assert other > certified.upper
        # no less than Poisson sampling at the rate 1/t
        poisson = sa.PoissonSampled(step, rate=1.0 / steps)
        assert other > sa.epsilon(poisson, delta=delta, rounds=rounds * steps).upper


def test_the_theorem_of_poisson_sampling_says_when_it_is_useless() -> None:
    """Its rate by hand, for steps of a known eps0."""
    epoch = sa.RandomAllocation(gaussian(1.0), steps=1000)
    condition = allocation_poisson.valid(epoch, delta=1e-8)
    assert condition is not None
    assert condition.startswith("cosh(eps0) sqrt((2/t) log(1/delta')) < 1 - 1/t, got")
    pure = sa.RandomAllocation(sa.PureMechanism(epsilon=0.5), steps=5000)
    g = math.cosh(0.5) * math.sqrt(2 / 5000 * math.log(4 * 2 / 1e-6))
    # delta0 of a few 1e-11 takes next to nothing off eps0
    assert allocation_poisson.rate(pure, rounds=2, delta=1e-6) == pytest.approx(
        1 / (5000 * (1 - g)), rel=1e-6
    )


@pytest.mark.parametrize("sigma", [0.8, 3.0])
def test_profiles_of_sampled_steps(sigma: float) -> None:
    """From above, and close to the certified delta at a few losses."""
    epoch = sa.RandomAllocation(gaussian(sigma), steps=50)
    sampled = poisson_epoch(epoch, 1 / 50)
    step = sa.PoissonSampled(gaussian(sigma), rate=1 / 50)
    losses = np.array([0.0, 0.05, 0.2])
    worse = np.maximum(*(profile_of(law, losses) for law in (sampled.remove, sampled.add)))
    for loss, value in zip(losses.tolist(), worse.tolist(), strict=True):
        truth = sa.delta(step, epsilon=loss, rounds=50)
        assert truth.lower <= value <= truth.upper * (1 + 1e-3)


@pytest.mark.parametrize(
    ("sigma", "steps", "ratio"),
    [(0.75, 16_384, 20.0), (1.0, 16_384, None), (1.5, 65_536, 10.7), (1.0, 1_140_000, None)],
)
def test_total_variation_by_berry_esseen(sigma: float, steps: int, ratio: float | None) -> None:
    """Over the exact value 10.7 to 20.0, as its authors print with the same constant."""
    epoch = sa.RandomAllocation(gaussian(sigma), steps=steps)
    bound, truth = allocation_berry_esseen.total_variation(epoch), epoch.delta(epsilon=0.0)
    assert bound / truth.upper > 10.65
    assert bound / truth.lower < 20.05
    if ratio is not None:
        # printed to a tenth; the terms of smaller order differ
        assert bound / truth.lower == pytest.approx(ratio, abs=0.1)
    five = allocation_berry_esseen.total_variation(epoch, rounds=5)
    exactly = 1 - (1 - Fraction(bound)) ** 5
    assert exactly <= five <= exactly * (1 + Fraction(1, 10**12))
    assert allocation_berry_esseen.total_variation(epoch, rounds=10**9) == 1.0
    assert sa.delta(epoch, epsilon=0.0, rounds=5, tolerance=1e-2).upper < five
    assert allocation_berry_esseen.epsilon(epoch, rounds=5, delta=five) == 0.0
    assert allocation_berry_esseen.valid(epoch, rounds=5, delta=0.999 * five) is not None


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0, 50.0])
def test_moments_of_a_likelihood_ratio(sigma: float) -> None:
    """Against quadrature in 50 digits, never below."""
    x = 1 / exact(sigma)
    s = MP.sqrt(MP.expm1(x * x))
    points = [-40, -5, x / 2, 5, 10, 50]
    r = MP.quad(lambda n: abs(MP.exp(x * n - x * x / 2) - 1) ** 3 * MP.npdf(n), points)
    found_s, found_r = one_epoch._moments(sigma)
    assert s <= found_s <= s * (1 + 1e-12)
    # terms of order 1 cancel to the cube of 1 / sigma
    assert r / s**3 <= found_r <= r / s**3 * (1 + 1e-12 + 1e-12 * sigma**3)


def test_shuffled_batches_lose_more_than_the_pair() -> None:
    """Known other records reveal where a record is: four times the total variation."""
    epoch = sa.RandomAllocation(gaussian(1.0), steps=1_140_000)
    shuffled = sa.ShuffledBatches(noise_multiplier=1.0, steps=1_140_000)
    dealt = epoch.delta(epsilon=0.0).upper
    assert sa.attained_epsilon(shuffled, delta=4.0 * dealt).lower > 0.0
    # the closed form is not below what is certified, but nor is it proved for them
    bound = allocation_berry_esseen.total_variation(epoch)
    assert bound < shuffled.delta(epsilon=0.0).lower


@pytest.mark.parametrize(
    ("step", "steps", "condition"),
    [
        (sa.PureMechanism(epsilon=0.5), 5000, "steps with normal noise, got PureMechanism"),
        (gaussian(0.5), 500, "sqrt(3 / log(steps)) = 0.6948, got 500 and 0.5"),
        (gaussian(9.0), 2, "three steps or more"),
        (gaussian(9.0), 1, "three steps or more"),
    ],
)
def test_steps_outside_the_theorem(step: Mechanism, steps: int, condition: str) -> None:
    epoch = sa.RandomAllocation(step, steps=steps)
    unmet = allocation_berry_esseen.valid(epoch, delta=0.5)
    assert unmet is not None
    assert condition in unmet
    with pytest.raises(OutsideValidityError, match="allocation_berry_esseen"):
        allocation_berry_esseen.total_variation(epoch)


class Steps:
    """Steps whose upper profile is of twice the parameter of the lower one, in both orders."""

    def __init__(self, reveals: float) -> None:
        self.reveals = reveals

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        eps0 = self.reveals * (2.0 if side is Bound.PESSIMISTIC else 1.0)
        return max(eps0 - epsilon, 0.0)


def test_the_rate_is_that_of_the_upper_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters that are rounded to what reveals more, and the upper bound of their profile."""
    monkeypatch.setattr(
        one_epoch,
        "step_ratio",
        lambda step, passes, side: Steps(0.2 if side is Bound.PESSIMISTIC else 0.1),
    )
    epoch, delta = sa.RandomAllocation(gaussian(1.0), steps=5000), 1e-6
    g = math.cosh(0.4) * math.sqrt(2 / 5000 * math.log(4 / delta))
    assert allocation_poisson.rate(epoch, delta=delta) == pytest.approx(
        1 / (5000 * (1 - g)), rel=1e-9
    )


def test_profiles_of_laws_on_a_grid_are_rounded_up() -> None:
    """Atom by atom in 50 digits; an eighth is told apart for certain."""
    rng = np.random.default_rng(5)
    for spacing, offset in ((0.1, -30), (1.0, -40), (1e-6, -3)):
        mass = rng.integers(1, 2**20, 64) / 2.0**27
        law = PldGrid(Bound.PESSIMISTIC, spacing, offset, mass, 0.125, 0.0, 0.0, 0.0)
        losses = np.linspace(0.0, law.losses[-1], 50)
        for x, found in zip(losses.tolist(), profile_of(law, losses).tolist(), strict=True):
            truth = exact(0.125) + MP.fsum(
                exact(p) * -MP.expm1(exact(x) - exact(loss))
                for loss, p in zip(law.losses.tolist(), mass.tolist(), strict=True)
                if loss > x
            )
            assert truth <= found <= truth + 1e-10


def test_epochs_are_no_better_than_their_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coarse polygon lies above the profile of normal noise, so epsilon does too."""
    monkeypatch.setattr(one_epoch, "_POINTS", 20)

    def profile(losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        delta = norm.cdf(0.5 - losses) - np.exp(losses) * norm.cdf(-0.5 - losses)
        return delta, delta

    truth = sa.epsilon(sa.PoissonSampled(gaussian(1.0), rate=1.0), delta=1e-3)
    found = one_epoch.composed_epsilon("bound", profile, 8.0, rounds=1, delta=1e-3)
    assert truth.upper * 1.01 < found < 1.5 * truth.upper


def test_one_step_is_the_step_itself() -> None:
    epoch = sa.RandomAllocation(gaussian(1.0), steps=1)
    found = allocation_decomposition.epsilon(epoch, rounds=2, delta=1e-6)
    truth = sa.epsilon(epoch, rounds=2, delta=1e-6)
    assert truth.upper <= found <= truth.upper * (1 + 1e-3)


@pytest.mark.slow
def test_in_the_comparison_for_allocations_only() -> None:
    epoch = sa.RandomAllocation(gaussian(4.0), steps=10_000)
    rows = {row.name: row for row in compare(epoch, delta=1e-6, rounds=2)}
    for module in (allocation_decomposition, allocation_poisson):
        assert rows[module.name].epsilon == module.epsilon(epoch, rounds=2, delta=1e-6)
        assert rows[module.name].sound
    assert rows["girgis"].condition == "shuffled rounds alone"
    names = {row.name for row in compare(eps0=0.4, users=1000, delta=1e-6)}
    assert not names & {allocation_decomposition.name, allocation_poisson.name}
    mixed = sa.Protocol([(epoch, 1), (sa.RandomAllocation(gaussian(1.0), steps=3), 1)])
    rows = {row.name: row for row in compare(mixed, delta=1e-6)}
    assert rows["allocation_poisson"].condition == "epochs of one kind alone, got 2 kinds of rounds"


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"selected": 2}, "whole epochs of one selected step, got selected=2, released=None"),
        ({"released": 3}, "whole epochs of one selected step, got selected=1, released=3"),
        ({"passes": 2}, "epochs that are dealt anew, got passes=2"),
    ],
)
def test_other_epochs_are_outside(options: dict[str, int], condition: str) -> None:
    epoch = sa.RandomAllocation(gaussian(2.0), steps=10, **options)
    for module in (allocation_decomposition, allocation_poisson):
        assert module.valid(epoch, delta=1e-6) == condition
        with pytest.raises(OutsideValidityError, match="is valid for"):
            module.epsilon(epoch, delta=1e-6)
    assert (
        allocation_decomposition.epsilon(
            sa.RandomAllocation(gaussian(2.0), steps=10), rounds=0, delta=1e-6
        )
        == 0.0
    )
