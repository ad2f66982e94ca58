"""One round asked two ways, in both orders, up to the largest loss.

`PrivacyLoss.delta` answers one round; compositions go through `PrivacyLoss.atoms`. Both are
certified, so the two brackets of one divergence must overlap, near the largest loss too, where
``1 - e^epsilon x`` cancels. Where there is a closed form, the bracket must contain it.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from oracles import one_round
from oracles.atoms import divergence
from oracles.precision import MP, Real, exact

import shuffle_accountant as sa
from shuffle_accountant import losses as room
from shuffle_accountant.lattice.discretize import discretize
from shuffle_accountant.lattice.grid import Array, PldAtoms, PldGrid
from shuffle_accountant.losses.alphabets.random_users import RandomUsersLoss
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.losses.combined.mixture import MixtureLoss
from shuffle_accountant.losses.steps.antipodal import AntipodalLoss
from shuffle_accountant.losses.steps.mean_ratio import MeanRatioLoss
from shuffle_accountant.losses.two_letters.tail import ProbabilisticDpLoss
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.reductions.dataset import dataset_losses

LOW, HIGH = Bound.OPTIMISTIC, Bound.PESSIMISTIC
EFFORT = Effort(tail=1e-14, resolution=1e-3)
# Distances from the largest loss, nats.
DISTANCES = [10.0**-k for k in range(14)]
# Losses without a largest one are asked about up to this many deviations.
DEVIATIONS = [0.0, 0.3, 1.0, 2.0, 4.0, 6.0, 9.0]


# Of two bounds the smaller one is the direct answer, and atoms are their convex envelope. It is
# lower by what one of them charges at most: (1 + alpha) times 29 e^-3 delta0.
ENVELOPES = {"rest": 1e-9 * 29.0 * math.exp(-3.0) * (1.0 + math.exp(3.0))}


def two_values(loss: float) -> sa.LossTable:
    """Randomized response, as a table."""
    up = 1.0 / (1.0 + math.exp(-loss))
    return sa.LossTable(losses=np.array([-loss, loss]), probabilities=np.array([1.0 - up, up]))


def rounds() -> Iterator[tuple[str, Any]]:
    """At least one round for each class of losses."""
    response = sa.RandomizedResponse(eps0=3.0, categories=4)
    gaussian = sa.GaussianMechanism(noise_multiplier=1.0)
    zero_out = sa.Adjacency.ZERO_OUT
    yield "clones", sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=6)
    yield "many clones", sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=300)
    yield "sampled", sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=5, population=15)
    yield "binary", sa.ShuffleRound(sa.BinaryRandomizedResponse(eps0=2.5), users=7)
    yield "responses", sa.ShuffleRound(response, users=8)
    other = sa.RandomizedResponse(eps0=1.0, categories=4)
    yield "mixed responses", sa.ShuffleRound(response, users=4, others={other: 3})
    general, crowd = sa.GeneralRandomizer(eps0=2.0), sa.Binomial(trials=9, probability=0.5)
    yield "random clones", sa.ShuffleRound(general, users=crowd)
    yield "random responses", sa.ShuffleRound(response, users=crowd)
    yield "strong", sa.ShuffleRound(response, users=9, reduction="strong")
    yield "channel", sa.ShuffleRound(sa.DiscreteRandomizer([[0.7, 0.3], [0.2, 0.8]]), users=5)
    yield "subsets", sa.ShuffleRound(sa.SubsetSelection(categories=5, eps0=2.0), users=40)
    yield (
        "random subsets",
        sa.ShuffleRound(sa.SubsetSelection(categories=5, eps0=2.0), users=crowd),
    )
    yield "null law", sa.ShuffleRound(sa.ApproximateRandomizer(eps0=3.0, delta0=0.0), users=30)
    yield "rest", sa.ShuffleRound(sa.ApproximateRandomizer(eps0=3.0, delta0=1e-9), users=30)
    yield "two-valued", sa.RandomAllocation(sa.PureMechanism(epsilon=20.0), steps=50)
    yield "far two-valued", sa.RandomAllocation(sa.PureMechanism(epsilon=50.0), steps=2)
    yield "part", sa.RandomAllocation(sa.PureMechanism(epsilon=8.0), steps=8, released=3)
    yield "a third", sa.RandomAllocation(sa.PureMechanism(epsilon=9.0), steps=3, released=1)
    yield "passes", sa.RandomAllocation(sa.PureMechanism(epsilon=4.0), steps=3, passes=3)
    yield "Laplace", sa.RandomAllocation(sa.LaplaceMechanism(scale=0.1), steps=5)
    yield "one Laplace", sa.RandomAllocation(sa.LaplaceMechanism(scale=0.5), steps=1)
    yield "Gaussian", sa.RandomAllocation(gaussian, steps=20)
    yield "little noise", sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=0.04), steps=4)
    yield "selected", sa.RandomAllocation(sa.PureMechanism(epsilon=3.0), steps=6, selected=2)
    table = sa.PldRound.from_tables(two_values(40.0), adjacency=zero_out)
    yield "table", table
    yield "steps with a table", sa.RandomAllocation(table, steps=3)
    yield "batches", sa.ShuffledBatches(noise_multiplier=1.0, steps=10)
    yield "Poisson", sa.PoissonSampled(sa.PureMechanism(epsilon=30.0), rate=0.1)
    yield "cyclic", sa.CyclicPoisson(gaussian, rate=0.3, cycles=4)
    falling = sa.GaussianMechanism(noise_multiplier=[2.0, 1.0, 1.0])
    yield "schedule", sa.RandomAllocation(falling, steps=3)
    yield "tree", sa.MatrixMechanism(tree=True, noise_multiplier=4.0, bins=4)
    bands = sa.sqrt_coefficients(bands=3)
    yield "bands", sa.MatrixMechanism(coefficients=bands, noise_multiplier=2.0, bins=8)
    yield "fixed size", sa.FixedSizeSampled(gaussian, size=30, population=100)
    yield "records", sa.PoissonSampled(gaussian, rate=0.3, records_per_user=3)
    yield "dealt records", sa.RandomAllocation(gaussian, steps=8, records_per_user=2)
    yield "threshold", sa.SampleAndThreshold(probability=0.3, threshold=4)
    response = sa.RandomizedResponse(categories=3, eps0=2.0)
    leak = sa.Shuffler(exposure=0.1)
    yield "exposure", sa.ShuffleRound(response, users=20, shuffler=leak)
    yield "messages", sa.ShuffleRound(response, users=9, messages_per_user=2)
    yield "noise", sa.NoiseMessages(categories=9, dummies=sa.Poisson(mean=5.0))
    yield "one category", sa.NoiseMessages(categories=1, dummies=sa.Poisson(mean=3.0))


def all_losses() -> dict[str, PrivacyLoss]:
    found: dict[str, PrivacyLoss] = {name: one.reduced().loss for name, one in rounds()}
    pairs = dataset_losses(sa.RandomizedResponse(eps0=2.0, categories=3), 5, 5)
    found["datasets"] = next(iter(pairs))
    random = found["random clones"]
    assert isinstance(random, RandomUsersLoss)
    found["listed clones"] = random.listed
    return found


LOSSES = all_losses()


def both(loss: PrivacyLoss) -> list[PrivacyLoss]:
    return [loss] if loss.reversed is loss else [loss, loss.reversed]


def edges(largest: float) -> Array:
    return np.linspace(0.0, max(largest, 1e-9) * 1.0001, 400)


def questions(loss: PrivacyLoss) -> list[float]:
    largest = loss.largest
    if largest == math.inf:
        return [part * loss.deviation for part in DEVIATIONS if part * loss.deviation < 600.0]
    found = [largest - distance for distance in DISTANCES if distance < largest]
    return [0.0, 0.5 * largest, *found, math.nextafter(largest, 0.0)]


def kinks(atoms: PldAtoms) -> list[float]:
    """Some losses of atoms, and doubles next to them: there the profile has a bend."""
    losses = np.unique(np.abs(atoms.loss[np.abs(atoms.loss) < 600.0]))
    some = losses[np.linspace(0, losses.size - 1, 6).astype(int)].tolist() if losses.size else []
    return [math.nextafter(x, end) for x in some for end in (0.0, x, math.inf)]


def composed(loss: PrivacyLoss) -> tuple[Any, Any]:
    """Lower and upper atoms of one round, as compositions take them.

    Mixtures gather their atoms in cells, at their means: above the truth once they are on the grid.
    """
    low, high = (loss.atoms(side, edges, EFFORT) for side in (LOW, HIGH))
    if isinstance(loss, MixtureLoss | RandomUsersLoss):
        return low, on_grid(discretize(high, float(edges(loss.largest)[1])))
    return low, high


def on_grid(grid: PldGrid) -> PldAtoms:
    """The masses of a grid as atoms."""
    shared = {
        field.name: getattr(grid, field.name) for field in fields(PldAtoms) if field.name != "loss"
    }
    return PldAtoms(loss=grid.losses, **shared)


@pytest.mark.parametrize("name", LOSSES)
def test_atoms_and_direct_answers_overlap(name: str) -> None:
    for order, loss in enumerate(both(LOSSES[name])):
        low_atoms, high_atoms = composed(loss)
        # sums of many atoms in 50 digits take a while
        many = max(low_atoms.mass.size, high_atoms.mass.size) > 3000
        asked = questions(loss)
        for epsilon in asked[1::4] if many else [*asked, *kinks(low_atoms)]:
            low, high = (loss.delta(epsilon, side, EFFORT) for side in (LOW, HIGH))
            least, most = divergence(low_atoms, epsilon), divergence(high_atoms, epsilon)
            said = f"order {order} at {epsilon!r}: [{low}, {high}] and [{least}, {most}]"
            assert low <= high, said
            # 1e-300: what subnormal numbers add is left out of atoms
            assert exact(low) <= most + exact(1e-300) + ENVELOPES.get(name, 0), said
            assert least <= exact(high) + exact(1e-300), said


def test_every_class_of_losses_is_asked() -> None:
    classes = set()
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        for _, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if one.__module__ == module.name and {"delta", "atoms", "largest"} <= set(dir(one)):
                classes.add(one)
    # a protocol; a lower bound alone; no hockey-stick divergence
    classes -= {PrivacyLoss, AntipodalLoss, ProbabilisticDpLoss}
    asked = set()
    waiting: list[Any] = list(LOSSES.values())
    while waiting:
        loss = waiting.pop()
        asked.add(type(loss))
        inner = [getattr(loss, field.name) for field in fields(loss)]
        waiting += [one for one in inner if hasattr(one, "delta") and hasattr(one, "atoms")]
    assert {one.__name__ for one in classes - asked} == set()


# ------------------------------------------------------------------------------------ closed forms


def hockey_sticks(pairs: list[tuple[Real, Real]], epsilon: float) -> tuple[Real, Real]:
    """Both orders' divergences of pairs (likelihood ratio, Q-mass)."""
    alpha = MP.exp(exact(epsilon))
    forward = MP.fsum(q * max(x - alpha, 0) for x, q in pairs)
    return forward, MP.fsum(q * max(1 - alpha * x, 0) for x, q in pairs)


def two_valued_means(loss: float, steps: int, released: int) -> list[tuple[Real, Real]]:
    """Ratios of an allocation of two-valued steps and their Q-masses: a binomial law."""
    large = MP.exp(exact(loss))
    chance = 1 / (1 + large)
    idle = exact(steps - released) / steps
    return [
        (
            idle + (count * large + (released - count) / large) / steps,
            MP.binomial(released, count) * chance**count * (1 - chance) ** (released - count),
        )
        for count in range(released + 1)
    ]


def assert_brackets(loss: PrivacyLoss, truths: tuple[Real, Real], epsilon: float) -> None:
    """Both orders' brackets contain the truth, and are as narrow as doubles allow.

    A relative error of the ratios of 8 + 4 eps0 roundings moves epsilon by as much, absolutely.
    Bounds without the law of the sum may be 1e-6 apart, relative to themselves.
    """
    for order, truth in zip((loss, loss.reversed), truths, strict=True):
        low, high = (order.delta(epsilon, side, EFFORT) for side in (LOW, HIGH))
        assert exact(low) <= truth <= exact(high), (epsilon, low, truth, high)
        moved = exact(1e-15) * (40 + 8 * exact(loss.largest))
        assert high - low <= 3 * moved + exact(2e-6) * truth, (epsilon, low, truth, high)


@pytest.mark.parametrize(
    ("loss", "steps", "released"),
    [
        (50.0, 2, 2),
        (20.0, 1000, 1000),
        (37.0, 10, 10),
        (38.0, 100, 100),
        (4.57, 3, 3),
        (0.01, 7, 7),
        (300.0, 4, 4),
        (8.0, 8, 4),
        (50.0, 8, 1),
    ],
)
def test_allocations_of_two_valued_steps_near_the_largest_loss(
    loss: float, steps: int, released: int
) -> None:
    one = sa.RandomAllocation(sa.PureMechanism(epsilon=loss), steps=steps, released=released)
    pair = one.reduced().loss
    ratios = two_valued_means(loss, steps, released)
    top = max(loss, *(abs(float(MP.log(x))) for x, _ in ratios))
    for distance in (0.9 * top, *DISTANCES, 0.0):
        if distance < top:
            epsilon = top - distance
            assert_brackets(pair, hockey_sticks(ratios, epsilon), epsilon)


@pytest.mark.parametrize(("loss", "steps", "delta"), [(50.0, 2, 1e-6), (37.0, 10, 1e-2)])
def test_epsilon_of_an_allocation_near_the_largest_loss(
    loss: float, steps: int, delta: float
) -> None:
    found = sa.RandomAllocation(sa.PureMechanism(epsilon=loss), steps=steps).epsilon(delta=delta)
    ratios = two_valued_means(loss, steps, steps)
    low, high = (max(hockey_sticks(ratios, end)) for end in (found.lower, found.upper))
    assert low >= exact(delta) >= high
    assert found.width <= 1e-8 * found.upper  # a thousandth is asked for


@pytest.mark.parametrize("scale", [0.1, 1.0, 0.02])
def test_one_laplace_step_near_the_largest_loss(scale: float) -> None:
    pair = sa.RandomAllocation(sa.LaplaceMechanism(scale=scale), steps=1).reduced().loss
    loss = 1 / exact(scale)
    for distance in DISTANCES:
        epsilon = float(loss) - distance
        if epsilon <= 0.0:
            continue
        truth = max(-MP.expm1((exact(epsilon) - loss) / 2), 0)
        for order in both(pair):
            low, high = (order.delta(epsilon, side, EFFORT) for side in (LOW, HIGH))
            assert exact(low) <= truth <= exact(high), (epsilon, low, truth, high)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_allocations_of_steps_with_a_table_near_the_largest_loss(steps: int) -> None:
    """Losses of +-40 and 0; the table's own Q-masses are ``p e^-loss``, with what is left at 0."""
    masses = np.array([1e-18, 0.3, 0.7 - 1e-18])
    table = sa.LossTable(losses=np.array([-40.0, 0.0, 40.0]), probabilities=masses)
    step = sa.PldRound.from_tables(table, adjacency=sa.Adjacency.ZERO_OUT)
    pair = sa.RandomAllocation(step, steps=steps).reduced().loss
    assert isinstance(pair, MeanRatioLoss)
    for order in both(pair):
        low_atoms, high_atoms = (order.atoms(side, edges, EFFORT) for side in (LOW, HIGH))
        for distance in DISTANCES:
            epsilon = 40.0 - distance
            low, high = (order.delta(epsilon, side, EFFORT) for side in (LOW, HIGH))
            least, most = divergence(low_atoms, epsilon), divergence(high_atoms, epsilon)
            assert low <= high
            assert least <= exact(high) + exact(1e-300)
            assert exact(low) <= most + exact(1e-300)


@pytest.mark.parametrize(("eps0", "users"), [(0.5, 4), (4.0, 6), (20.0, 5), (30.0, 50)])
def test_clones_near_the_largest_loss(eps0: float, users: int) -> None:
    pair = sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=users).reduced().loss
    for distance in DISTANCES:
        epsilon = eps0 - distance
        if epsilon < 0.0:
            continue
        truth = one_round.delta(eps0, users, epsilon)
        low, high = (pair.delta(epsilon, side, EFFORT) for side in (LOW, HIGH))
        assert exact(low) <= truth <= exact(high), (epsilon, low, truth, high)
