"""From a profile known at points to a pair of laws: direction, masses, and what it agrees with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shuffle_accountant.lattice.grid import Array, PldAtoms
from shuffle_accountant.lattice.profile import profile_atoms
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.combined.subsampled import SubsampledLoss
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.reductions.clones import clones

# Sums of fewer than a hundred masses, and differences of slopes of a profile of size one.
ROUND_OFF = 1e-13


class Pair:
    """Two laws on finitely many letters, and their profile."""

    def __init__(self, p: list[float], q: list[float]) -> None:
        self.p, self.q = np.array(p), np.array(q)

    def profile(self, alpha: float) -> float:
        """``sum (p - alpha q)_+``."""
        return math.fsum(np.maximum(self.p - alpha * self.q, 0.0).tolist())

    def reversed_profile(self, alpha: float) -> float:
        """``sum (q - alpha p)_+``."""
        return math.fsum(np.maximum(self.q - alpha * self.p, 0.0).tolist())

    def atoms(self, losses: Array, side: Bound, blur: float = 0.0) -> PldAtoms:
        """From the exact profile at the losses, or bounds a relative ``blur`` off."""
        alphas = np.exp(losses).tolist()
        forward, backward = (
            np.array([profile(alpha) for alpha in alphas])
            for profile in (self.profile, self.reversed_profile)
        )
        certain = float(self.p[self.q == 0.0].sum())
        bounds = [(k * (1.0 - blur), k * (1.0 + blur)) for k in (forward, backward)]
        return profile_atoms(losses, bounds[0], bounds[1], certain, side)


def divergence(atoms: PldAtoms, alpha: float) -> float:
    """``sum (p - alpha q)_+`` of atoms, whose losses are off by ``loss_error``."""
    sign = 1.0 if atoms.side is Bound.PESSIMISTIC else -1.0
    q = atoms.mass * np.exp(-(atoms.loss + sign * atoms.loss_error))
    return math.fsum(np.maximum(atoms.mass - alpha * q, 0.0).tolist()) + atoms.infinite


def q_mass(atoms: PldAtoms) -> float:
    return math.fsum((atoms.mass * np.exp(-atoms.loss)).tolist())


def dense(losses: Array) -> list[float]:
    """Alphas between and beyond the nodes, on both sides of 1, the nodes included."""
    ends = np.linspace(-1.6 * losses[-1], 1.6 * losses[-1], 201)
    return [0.0, *np.exp(np.concatenate([ends, losses, -losses])).tolist()]


PAIRS = {
    "symmetric": Pair([0.5, 0.2, 0.2, 0.1], [0.1, 0.2, 0.2, 0.5]),
    "asymmetric": Pair([0.3, 0.25, 0.25, 0.2], [0.05, 0.15, 0.3, 0.5]),
    "certain": Pair([0.02, 0.5, 0.28, 0.2, 0.0], [0.0, 0.3, 0.2, 0.49, 0.01]),
    "equal": Pair([0.4, 0.6], [0.4, 0.6]),
    "binomial": Pair(
        [math.comb(12, i) * 0.55**i * 0.45 ** (12 - i) for i in range(13)],
        [math.comb(12, i) * 0.45**i * 0.55 ** (12 - i) for i in range(13)],
    ),
}

NODES = {
    "few": np.array([0.0, 0.3, 1.0, 2.5]),
    "even": np.linspace(0.0, 3.0, 31),
    "beyond": np.array([0.0, 0.1, 0.5, 2.0, 8.0, 20.0]),
}

pairs = pytest.mark.parametrize("name", PAIRS)
nodes = pytest.mark.parametrize("places", NODES)


@pairs
@nodes
def test_upper_is_above_and_equal_at_the_nodes(name: str, places: str) -> None:
    pair, losses = PAIRS[name], NODES[places]
    atoms = pair.atoms(losses, Bound.PESSIMISTIC)
    for alpha in dense(losses):
        assert divergence(atoms, alpha) >= pair.profile(alpha) - ROUND_OFF
    # allowances for rounding: a few units of each slope, times alpha
    for alpha in np.exp(np.concatenate([losses, -losses])).tolist():
        slack = ROUND_OFF * (1.0 + alpha)
        assert divergence(atoms, alpha) == pytest.approx(pair.profile(alpha), abs=slack)


@pairs
@nodes
def test_lower_is_below(name: str, places: str) -> None:
    pair, losses = PAIRS[name], NODES[places]
    atoms = pair.atoms(losses, Bound.OPTIMISTIC)
    for alpha in dense(losses):
        assert divergence(atoms, alpha) <= pair.profile(alpha) + ROUND_OFF


@pairs
@nodes
@pytest.mark.parametrize("blur", [1e-12, 1e-6, 1e-2])
def test_bounds_instead_of_values(name: str, places: str, blur: float) -> None:
    pair, losses = PAIRS[name], NODES[places]
    upper, lower = (
        pair.atoms(losses, side, blur) for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
    )
    for alpha in dense(losses):
        truth = pair.profile(alpha)
        assert divergence(lower, alpha) <= truth + ROUND_OFF
        assert divergence(upper, alpha) >= truth - ROUND_OFF


@pairs
@nodes
@pytest.mark.parametrize("side", list(Bound))
def test_masses(name: str, places: str, side: Bound) -> None:
    atoms = PAIRS[name].atoms(NODES[places], side)
    assert (atoms.mass >= 0.0).all()
    assert (np.diff(atoms.loss) > 0.0).all()
    total = math.fsum(atoms.mass.tolist()) + atoms.infinite
    slack = ROUND_OFF + 2.0 * atoms.round_off
    assert q_mass(atoms) <= 1.0 + slack
    if side is Bound.PESSIMISTIC:
        assert total == pytest.approx(1.0, abs=slack)
    else:
        assert total <= 1.0 + slack
    assert atoms.round_off < 1e-11  # units in the last place of slopes of close nodes


def test_nodes_at_all_losses_give_the_pair_back() -> None:
    pair = PAIRS["symmetric"]
    losses = np.array([0.0, math.log(5.0)])
    atoms = pair.atoms(losses, Bound.PESSIMISTIC)
    assert atoms.loss == pytest.approx([-math.log(5.0), 0.0, math.log(5.0)], rel=ROUND_OFF)
    assert atoms.mass == pytest.approx([0.1, 0.4, 0.5], rel=1e-12)  # slopes from few differences
    assert atoms.infinite <= ROUND_OFF


def test_lower_is_of_second_order() -> None:
    """Halving the distance of nodes divides both gaps of a smooth profile by about four."""
    users = 400
    log_p = [math.lgamma(users + 1) - math.lgamma(i + 1) - math.lgamma(users - i + 1)
             for i in range(users + 1)]  # fmt: skip
    tilt = math.log(0.51 / 0.49)
    weight = [math.exp(c + users * math.log(0.49) + i * tilt) for i, c in enumerate(log_p)]
    pair = Pair(weight, weight[::-1])
    gaps: dict[Bound, list[float]] = {side: [] for side in Bound}
    for nodes_used in (9, 33):
        losses = np.linspace(0.0, 4.0, nodes_used)
        for side in Bound:
            atoms = pair.atoms(losses, side)
            levels = np.exp(np.linspace(0.02, 1.5, 200)).tolist()
            worst = max(abs(divergence(atoms, a) - pair.profile(a)) for a in levels)
            gaps[side].append(worst)
    for coarse, fine in gaps.values():
        # 16 if the profile were smooth; its kinks are 0.08 apart, the fine nodes 0.125
        assert fine <= coarse / 8


@pytest.mark.slow
@pytest.mark.parametrize("fraction", [0.5, 0.05])
@pytest.mark.parametrize("users", [20, 2000])
def test_gridded_subsampling_agrees_with_the_explicit_pair(users: int, fraction: float) -> None:
    """Doroshenko's polygon through the subsampled profile against the pair that has it exactly."""
    loss = SubsampledLoss(clones(2.0, users).loss, fraction)
    effort = Effort(tail=1e-15, resolution=0.0)
    end, spacing = loss.largest, {}

    def edges(largest: float) -> Array:
        return 1e-4 * np.arange(math.ceil(largest / 1e-4) + 2)

    explicit = {side: loss.atoms(side, edges, effort) for side in Bound}
    for steps in (40, 160):
        losses = np.linspace(0.0, end, steps + 1)
        bounds = tuple(
            np.array([loss.delta(x, side, effort) for x in losses.tolist()])
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        above = profile_atoms(losses, bounds, bounds, 0.0, Bound.PESSIMISTIC)
        below = profile_atoms(losses, bounds, bounds, 0.0, Bound.OPTIMISTIC)
        gap = 0.0
        for x in np.linspace(-1.2 * end, 1.2 * end, 101).tolist():
            alpha = math.exp(x)
            low = divergence(explicit[Bound.OPTIMISTIC], alpha)
            high = divergence(explicit[Bound.PESSIMISTIC], alpha)
            # the explicit pair is a bracket; atoms in cells of 1e-4 are off by its square
            assert divergence(above, alpha) >= low - ROUND_OFF
            assert divergence(below, alpha) <= high + ROUND_OFF
            gap = max(gap, divergence(above, alpha) - high, low - divergence(below, alpha))
        spacing[steps] = gap
    # 16 between smooth profiles; that of 20 users has kinks further apart than the nodes
    assert spacing[160] <= spacing[40] / (2 if users == 20 else 6)
    # chords of a convex function: curvature of order fraction/step^2 at most
    assert spacing[160] <= 1e-3
