"""Lower bounds from the antipodal pair: atoms, sums and ratios that err by all that they may."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from oracles.atoms import divergence
from oracles.precision import MP, exact
from scipy.special import ndtr

from shuffle_accountant.lattice.grid import Array, PldAtoms
from shuffle_accountant.losses.base import Effort, divergence_of
from shuffle_accountant.losses.steps import antipodal
from shuffle_accountant.losses.steps.antipodal import AntipodalLoss
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums.statistic import Hypotheses

EFFORT = Effort(1e-12, 1e-2)
SIDES = pytest.mark.parametrize("side", list(Bound))
ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 1.0])
ATOMS = PldAtoms(
    side=Bound.OPTIMISTIC,
    mass=np.array([0.25, 0.5, 0.125]),
    loss=np.array([-1.5, 0.25, 1.0]),
    infinite=0.0,
    truncated=0.0,
    round_off=0.0,
    loss_error=0.0,
)


def edges(largest: float) -> Array:
    return np.linspace(0.0, largest, 3)


@SIDES
@ADVERSE
@pytest.mark.parametrize("error", [0.0, 2.0**-5])
def test_the_divergence_of_atoms_counts_what_they_and_their_sum_err(
    error: float, adverse: float, side: Bound
) -> None:
    """One rounding is a thousandth; losses are off by their error, the worse way."""
    atoms = replace(ATOMS, side=side, infinite=0.0625, loss_error=error)
    sign = 1 if side is Bound.PESSIMISTIC else -1
    for epsilon in (0.0, 0.1, 0.9, 3.0):
        pairs = zip(atoms.loss.tolist(), atoms.mass.tolist(), strict=True)
        truth = exact(0.0625) + MP.fsum(
            exact(p) * max(-MP.expm1(exact(epsilon) - exact(x) - sign * exact(error)), 0)
            for x, p in pairs
        )
        with stress(roundoff=2.0**-10, adverse=adverse):
            found = exact(divergence_of(atoms, epsilon))
        assert found >= truth if side is Bound.PESSIMISTIC else found <= truth
        # 72 roundings either way
        assert abs(found - truth) <= exact(0.16) * truth
    assert divergence_of(replace(atoms, infinite=1.0), 0.0) == 1.0


@ADVERSE
@pytest.mark.parametrize("error", [0.0, 2.0**-5])
def test_the_pair_exchanged(error: float, adverse: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its masses are the other law's, at losses that may be off."""
    monkeypatch.setattr(antipodal, "_atoms", lambda *_: replace(ATOMS, loss_error=error))
    for swapped in (False, True):
        loss = AntipodalLoss(1.0, 1, swapped=swapped)
        with stress(roundoff=2.0**-10 if error == 0.0 else 2.0**-53, adverse=adverse):
            atoms = loss.atoms(Bound.OPTIMISTIC, edges, EFFORT)
            for epsilon in (-2.5, -0.5, 0.0, 0.2, 1.2):
                for off in (-exact(error), exact(error)):
                    pairs = [
                        (exact(p), exact(p) * MP.exp(-exact(x) - off))
                        for x, p in zip(ATOMS.loss.tolist(), ATOMS.mass.tolist(), strict=True)
                    ]
                    pairs = [pair[::-1] if swapped else pair for pair in pairs]
                    truth = MP.fsum(max(p - MP.exp(exact(epsilon)) * q, 0) for p, q in pairs)
                    # both sides are sums in 50 digits
                    assert divergence(atoms, epsilon) <= truth * (1 + exact(1e-45))
                    if epsilon >= 0.0:
                        found = loss.delta(epsilon, Bound.OPTIMISTIC, EFFORT)
                        assert exact(found) <= truth
                        assert exact(found) >= truth * exact(0.7) - exact(2.0 * error)


def test_nothing_is_bounded_from_above_and_no_loss_is_infinite() -> None:
    loss = AntipodalLoss(1.0, 1)
    with pytest.raises(ValueError, match="from below only"):
        loss.atoms(Bound.PESSIMISTIC, edges, EFFORT)
    assert loss.delta(math.inf, Bound.OPTIMISTIC, EFFORT) == 0.0
    atoms = loss.atoms(Bound.OPTIMISTIC, edges, EFFORT)
    assert atoms.side is Bound.OPTIMISTIC
    # one batch: two normal laws a deviation apart
    for epsilon in (-1.0, 0.0, 0.5, 2.0):
        place, level = exact(epsilon), MP.exp(exact(epsilon))
        truth = MP.ncdf(exact(0.5) - place) - level * MP.ncdf(-exact(0.5) - place)
        # what the tails beyond the profile's ends and its chords leave
        assert truth * exact(0.99) - exact(1e-4) <= divergence(atoms, epsilon) <= truth


@ADVERSE
def test_sums_of_a_statistic_s_laws_may_err(adverse: float) -> None:
    """Sums of many outcomes, each of them exact; half of one law's are above alpha."""
    rng = np.random.default_rng(3)
    p, q = (rng.integers(1, 2**20, 64) / 2.0**26 for _ in range(2))
    loss = np.array([-math.inf, -0.8, -0.1, 0.0, 0.3, 1.7])
    with stress(roundoff=2.0**-16, adverse=adverse):
        low, high = antipodal._profile(Hypotheses(np.arange(64.0), p, p, q, 1, 0.0), loss)
    pairs = list(zip(map(exact, p.tolist()), map(exact, q.tolist()), strict=True))
    for x, below, above in zip(loss.tolist()[1:], low.tolist()[1:], high.tolist()[1:], strict=True):
        alpha = MP.exp(exact(x))
        if x >= 0.0:
            truth = MP.fsum(max(a - alpha * b, 0) for a, b in pairs)
        else:
            truth = MP.fsum(max(alpha * b - a, 0) for a, b in pairs)
        assert exact(below) <= truth <= exact(above)


@ADVERSE
def test_outcomes_whose_ratio_is_next_to_alpha(adverse: float) -> None:
    """Logarithms that are off decide that such an outcome does not count."""
    for epsilon in (0.3, -0.3):
        near = math.exp(epsilon) * (1.0 + math.copysign(4e-13, epsilon))
        p, q = np.array([0.25, 0.25 * near]), np.array([0.5, 0.25])
        if epsilon < 0.0:
            p, q = np.array([0.5, 0.25 * near]), np.array([0.25, 0.25])
        loss = np.array([-math.inf, epsilon])
        with stress(adverse=math.copysign(1.0, epsilon) * adverse):
            _, high = antipodal._profile(Hypotheses(np.arange(2.0), p, p, q, 1, 0.0), loss)
        alpha = MP.exp(exact(epsilon))
        pairs = zip(map(exact, p.tolist()), map(exact, q.tolist()), strict=True)
        sign = 1 if epsilon >= 0.0 else -1
        truth = MP.fsum(max(sign * (a - alpha * b), 0) for a, b in pairs)
        assert exact(float(high[1])) >= truth


@pytest.mark.parametrize("steps", [1, 8])
def test_the_best_threshold_of_the_largest_value_may_err(steps: int) -> None:
    """Between ends that differ by the error of both masses, of an event with a threshold."""
    sigma, loss = 0.25, np.array([-0.75, 0.0, 1.0, 9.0])
    exact_low, exact_high = antipodal._by_largest(sigma, steps, loss)
    with stress(normal=2.0**-7):
        low, high = antipodal._by_largest(sigma, steps, loss)
    score = np.arange(-10.0, 2.0 / sigma + 12.0, 2.0 * antipodal.ANTIPODAL.width)
    beyond = [1.0 - ndtr(score) ** (steps - 1) * ndtr(score - x / sigma) for x in (2.0, 1.0)]
    for i, x in enumerate(loss.tolist()):
        # above (1 - alpha)_+ too, as P and Q add up to 1
        truth = float(np.max(beyond[0] - math.exp(x) * beyond[1])) - max(-math.expm1(x), 0.0)
        assert exact_low[i] - 1e-12 <= truth <= exact_high[i] + 1e-12
        assert exact_high[i] - exact_low[i] <= 1e-10
        assert low[i] < truth * (1.0 - 2.0**-8)
        assert high[i] > truth * (1.0 + 2.0**-8)
