"""Privacy losses as atoms: against the exact divergence, listed, in cells, and piece by piece."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracles import atoms as atoms_oracle
from oracles import binomial as oracle
from oracles.precision import exact

from shuffle_accountant.lattice.discretize import discretize
from shuffle_accountant.lattice.grid import Array, PldAtoms
from shuffle_accountant.losses.base import (
    Effort,
    LossBySide,
    PrivacyLoss,
    by_side,
    divergence_of,
    noise_of,
    share_of,
)
from shuffle_accountant.losses.counts import count_blocks
from shuffle_accountant.losses.two_letters import binary
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Between, Bound
from shuffle_accountant.reductions.base import subsampled
from shuffle_accountant.reductions.clones import clones


def divergence(atoms: PldAtoms, epsilon: float) -> float:
    """``sum p (1 - e^(eps - loss))_+`` over atoms and the infinite one."""
    shift = atoms.loss_error if atoms.side is Bound.PESSIMISTIC else -atoms.loss_error
    kept = atoms.mass * -np.expm1(np.minimum(epsilon - shift - atoms.loss, 0.0))
    return math.fsum(kept.tolist()) + atoms.infinite


def edges_of(spacing: float) -> object:
    def edges(largest: float) -> Array:
        return spacing * np.arange(math.ceil(largest / spacing) + 2)

    return edges


def loss_of(eps0: float, users: int, population: int | None = None) -> PrivacyLoss:
    return subsampled(clones(eps0, users), users, population or users).loss


CASES = [
    (4.0, 10_000, None),  # every block listed
    (0.5, 3_000_000, None),  # large blocks, in cells
    (2.0, 10**12, None),
    (3.0, 1_000, 100_000),  # subsampled
    (1e-6, 10**9, None),  # tiny losses
    (50.0, 10_000, None),  # no decoy is ever informative, but once in 1e18
]


@pytest.mark.parametrize("most_atoms", [1 << 20, 1024], ids=["at once", "in pieces"])
@pytest.mark.parametrize(("eps0", "users", "population"), CASES)
def test_atoms_enclose_the_exact_divergence(
    eps0: float, users: int, population: int | None, most_atoms: int
) -> None:
    loss = loss_of(eps0, users, population)
    spacing = loss.deviation / 40
    effort = Effort(tail=1e-40, resolution=1e-4, most_atoms=most_atoms)
    for epsilon in (0.0, loss.deviation, 5 * loss.deviation):
        if epsilon >= loss.largest:
            continue
        exact = Effort(tail=1e-60, resolution=1e-5)
        low = loss.delta(epsilon, Bound.OPTIMISTIC, exact)
        high = loss.delta(epsilon, Bound.PESSIMISTIC, exact)
        sides = {d: loss.atoms(d, edges_of(spacing), effort) for d in Bound}
        above = divergence(sides[Bound.PESSIMISTIC], epsilon)
        below = divergence(sides[Bound.OPTIMISTIC], epsilon)
        assert below <= high * (1 + 1e-13)  # the test's own sum
        assert above >= low * (1 - 1e-13)
        # blocks of 1e-4, cells of 1/40 of a deviation: half a per cent of delta is ample
        assert above - below <= 5e-3 * high + 1e-30


@pytest.mark.parametrize(("eps0", "users", "population"), CASES)
def test_upper_side_is_a_pair_of_laws(eps0: float, users: int, population: int | None) -> None:
    """P-mass one and ``E[e^-L] <= 1``, up to the allowance for rounding, before and on the grid."""
    loss = loss_of(eps0, users, population)
    spacing = loss.deviation / 10
    upper = loss.atoms(Bound.PESSIMISTIC, edges_of(spacing), Effort(tail=1e-20, resolution=1e-4))
    grid = discretize(upper, spacing)
    allowance = 2 * grid.round_off + 1e-12
    for mass, losses in ((upper.mass, upper.loss), (grid.mass, grid.losses)):
        assert 1.0 - 1e-12 <= mass.sum() + upper.infinite <= 1.0 + allowance
        assert np.sum(mass * np.exp(-losses)) <= 1.0 + allowance + 1e-12
    # the allowance grows with the root of the number of users: 2e-8 for 1e12
    assert grid.round_off < 4e-8


@pytest.mark.slow
@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize(
    ("trials", "rate", "resolution"),
    [(50, 0.3, 0.0), (9_999, 0.036, 1e-2), (10**7, 0.5, 1e-5), (10**12, 0.036, 1e-7), (9, 0.5, 9)],
)
def test_blocks_hold_the_mass_of_their_counts(
    trials: int, rate: float, resolution: float, side: Bound
) -> None:
    tail = 1e-30
    blocks = count_blocks(trials, rate, 1 - rate, side, tail=tail, resolution=resolution)
    total = math.fsum(blocks.weight.tolist()) + blocks.missing
    if side is Bound.PESSIMISTIC:
        assert 1.0 - 1e-14 <= total <= 1.0 + 2 * blocks.round_off + 1e-12
        # replacing counts by smaller ones: every upper tail must not grow
        ks, sums = blocks.low, np.cumsum(blocks.weight)
        for i in range(0, ks.size, max(1, ks.size // 7)):
            below = oracle.lower_tail(int(ks[i]), trials, rate)
            assert sums[i] + blocks.missing >= float(below) * (1 - 1e-9)
    else:
        assert total <= 1.0 + tail + 1e-12
        # replacing counts by larger ones: no lower tail may be above the truth
        sums = np.cumsum(blocks.weight)
        for i in range(0, blocks.low.size, max(1, blocks.high.size // 7)):
            below = oracle.lower_tail(int(blocks.high[i]), trials, rate)
            assert sums[i] <= float(below) * (1 + 1e-9)


def test_degenerate_crowds() -> None:
    for trials, rate, idle, count in ((0, 0.3, 0.7, 0), (9, 0.0, 1.0, 0), (9, 1.0, 0.0, 9)):
        blocks = count_blocks(trials, rate, idle, Bound.PESSIMISTIC, tail=1e-9, resolution=0.0)
        assert blocks.low.tolist() == blocks.high.tolist() == [count]
        assert blocks.weight.tolist() == [1.0]


@pytest.mark.parametrize("largest", [1, 40, 511, 512, 3000])
@pytest.mark.parametrize("size", [1000, 1100, 5000])
def test_what_is_alike_in_many_blocks_is_computed_once(largest: int, size: int) -> None:
    """Listed for all pairs, for those that occur, or one by one: the same values."""
    rng = np.random.default_rng(largest + size)
    m = rng.integers(1, largest, size=size, endpoint=True).astype(np.float64)
    a = np.floor(rng.random(size) * (m + 1.0))
    m[0] = a[0] = float(largest)
    for function in (binary._log_half, binary._half_tail):
        assert np.array_equal(binary._of_pairs(function, a, m), function(a, m))


# ---------------------------------------------------------------------------------- sides of bounds


@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("infinite", [0.0, 0.0625])
def test_divergences_of_atoms_that_err(infinite: float, adverse: float, side: Bound) -> None:
    """Atoms are exact, their losses moved by their error: sums round, and nothing else."""
    unit = 2.0**-20
    given = PldAtoms(
        side=side,
        mass=np.array([0.5, 0.25, 0.125]),
        loss=np.array([4.0, 0.5, -1.0]),
        infinite=infinite,
        truncated=0.0,
        round_off=0.0,
        loss_error=2.0**-12,
    )
    for epsilon in (0.0, 0.4, 3.9, 3.9999, 4.0, 5.0):
        truth = atoms_oracle.divergence(given, epsilon)
        with stress(roundoff=unit, adverse=adverse):
            found = exact(divergence_of(given, epsilon))
        assert found >= truth if side is Bound.PESSIMISTIC else found <= truth
        assert abs(found - truth) <= 200 * exact(unit) * (truth + exact(0.1))
    # all of it, but for the sum's own roundings
    whole = exact(divergence_of(given, math.inf))
    assert abs(whole - exact(infinite)) <= 1e-13 * exact(infinite)


@pytest.mark.parametrize("loss", [1.0, -1.0])
def test_an_error_of_half_a_rounding_moves_a_loss(loss: float) -> None:
    """Added to the loss it is lost, but the divergence at the loss is positive."""
    small, one, none = 2.0**-55, np.ones(1), 0.0
    given = PldAtoms(Bound.PESSIMISTIC, one, loss * one, none, none, none, small)
    assert loss + small == loss
    truth = atoms_oracle.divergence(given, loss)
    assert 0 < truth <= exact(divergence_of(given, loss)) <= 1e-15
    given = PldAtoms(Bound.OPTIMISTIC, one, loss * one, none, none, none, small)
    epsilon = loss - 2.0**-40
    assert exact(divergence_of(given, epsilon)) <= atoms_oracle.divergence(given, epsilon)


def test_each_side_has_a_loss_of_its_own() -> None:
    """What is above answers upper bounds; a parameter is rounded to what reveals more for it."""
    made = {side: loss_of(2.0 if side is Bound.PESSIMISTIC else 1.0, 100) for side in Bound}
    found = by_side(made.__getitem__)
    assert isinstance(found, LossBySide)
    assert found.above is made[Bound.PESSIMISTIC]
    assert found.below is made[Bound.OPTIMISTIC]
    for side in Bound:
        effort = Effort(tail=1e-20, resolution=0.0)
        assert found.delta(0.1, side, effort) == made[side].delta(0.1, side, effort)
    assert by_side(lambda _: made[Bound.OPTIMISTIC]) is made[Bound.OPTIMISTIC]
    between = Between(0.25, 0.5)
    assert noise_of(between, Bound.PESSIMISTIC) == share_of(between, Bound.OPTIMISTIC) == 0.25
    assert noise_of(between, Bound.OPTIMISTIC) == share_of(between, Bound.PESSIMISTIC) == 0.5
