"""Atoms of two mirrored letters: products in runs, cells of many pieces, blocks that share ends.

The oracles are binomial coefficients in fractions, the atoms in one piece, and the enumeration of
`tests.oracles.response`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from shuffle_accountant.lattice.discretize import discretize
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.decoy_counts import Decoys, NumberOfClones
from shuffle_accountant.losses.two_letters import atoms, mixed_responses
from shuffle_accountant.losses.two_letters.atoms import CellSums, HalfAtoms
from shuffle_accountant.losses.two_letters.binary import BinaryLoss
from shuffle_accountant.losses.two_letters.mixed_responses import NumberOfMixedResponses
from shuffle_accountant.numerics.rounding import Bound
from tests.oracles import clones as clones_oracle
from tests.oracles import response as oracle


@pytest.mark.parametrize("shared", [False, True])
def test_probabilities_in_runs_are_binomial_ones(shared: bool) -> None:
    """Also to the last letter, and where several blocks have one count."""
    count = np.array([1.0, 2.0, 33.0, 33.0, 400.0, 1001.0, 0.0])
    start = np.floor(0.5 * count) + 1.0
    end = np.minimum(np.array([1.0, 2.0, 30.0, 33.0, 380.0, 1001.0, 0.0]), count)
    if shared:
        count, start, end = (np.tile(x[2:4], 40) for x in (count, start, end))
    lengths = np.maximum(end - start + 1, 0).astype(int)
    a = np.concatenate([np.arange(x, y + 1) for x, y in zip(start, end, strict=True)])
    found, errors = atoms._binomials(count, start, lengths)
    for m, k, f, error in zip(np.repeat(count, lengths), a, found, errors, strict=True):
        exact = Fraction(comb(int(m), int(k)), 2 ** int(m))
        # an exponential has a few roundings of its own
        assert abs(Fraction(float(f)) / exact - 1) <= error + 2.0**-50 < 1e-12


@pytest.mark.parametrize("side", list(Bound))
def test_many_pieces_are_one(side: Bound) -> None:
    """On a grid it does not matter whether atoms come one by one or in sums of cells."""
    loss = BinaryLoss(NumberOfClones.from_eps0(2.0, decoys=3000, rate=0.2, idle=0.8))
    spacing = 0.01

    def edges(largest: float) -> np.ndarray:
        step = spacing if side is Bound.PESSIMISTIC else spacing / 4
        return np.arange(math.ceil(largest / step) + 2) * step

    grids = []
    for most in (1 << 16, 1 << 10):  # a limit so low is no use for a table
        atoms = loss.atoms(side, edges, Effort(tail=1e-20, resolution=1e-3, most_atoms=most))
        grids.append(discretize(atoms, spacing))
    # the first cell of either may hold next to nothing
    first = min(grid.offset for grid in grids)
    masses = [np.pad(grid.mass, (grid.offset - first, 0)) for grid in grids]
    np.testing.assert_allclose(masses[1], masses[0], rtol=1e-9, atol=1e-22)


def test_edges_of_any_distance_make_the_same_cells() -> None:
    rng = np.random.default_rng(5)
    loss, other = rng.uniform(0.0, 3.0, 500), rng.uniform(0.0, 1.0, 500)
    mass = np.append(other * np.exp(loss), 0.3)
    loss, other = np.append(loss, math.inf), np.append(other, 0.0)
    same = np.zeros(501)
    atoms = HalfAtoms(mass, other, mass - other, loss, same, same)
    even = 0.0625 * np.arange(50)
    uneven = np.append(even[:20], even[20:] + 1e-9)
    merged = []
    for edges in (even, uneven):
        sums = CellSums(edges)
        sums.add(atoms)
        sums.add(atoms)
        merged.append(sums.atoms())
    for one, two in zip(*(vars(m).values() for m in merged), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-12)
    assert merged[0].mass.sum() == pytest.approx(2.0 * mass.sum(), rel=1e-12)
    assert np.isinf(merged[0].loss[-1])


@pytest.mark.slow
@pytest.mark.parametrize("width", [None, 0.3, 1.5])
def test_wide_blocks_bound_the_enumeration(
    width: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of one group's random answers, as wide as the resolution allows, or wider."""
    if width is not None:
        monkeypatch.setattr(NumberOfMixedResponses, "width", lambda *_: width)
    mixed_responses._blocks.cache_clear()
    categories, gamma, users = 5, 0.6, 24
    eps0 = math.log1p((1.0 - gamma) * categories / gamma)
    others = (Decoys(users - 1, gamma, 1.0 - gamma),)
    source = NumberOfMixedResponses(categories, gamma, 1.0 - gamma, eps0, others)
    atoms = oracle.weak(categories, gamma, users)
    widths = []
    for resolution in (1e-9, 0.02, 0.2, 0.6):
        effort = Effort(tail=1e-18, resolution=resolution)
        for epsilon in (0.0, 0.2, 0.7, 1.2):
            truth = float(clones_oracle.delta(atoms, epsilon))
            upper, lower = (
                BinaryLoss(source).delta(epsilon, side, effort)
                for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
            )
            assert lower <= truth * (1 + 1e-12) <= upper * (1 + 2e-12)
            widths.append(upper - lower)
    assert max(widths[4:]) > 1e-4  # blocks were wide
    mixed_responses._blocks.cache_clear()
