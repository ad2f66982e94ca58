"""Divergences asked about exactly at an atom's loss, where rounding decides which atoms count.

Sums from a first or up to a last count leave an atom out, or take it in, by a comparison of rounded
numbers. What they miss is the atom's own small difference, times how much likelier it is than the
first one that counts: as much as the whole sum, a few roundings below the largest loss.
"""

from __future__ import annotations

import math

import pytest
from oracles.precision import MP, Real, exact

from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.losses.decoy_counts import NumberOfClones
from shuffle_accountant.losses.two_letters.binary import BinaryLoss
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.reductions.clones import null_law

EFFORT = Effort(1e-300, 1e-5)


def about(loss: float) -> list[float]:
    """Doubles next to a loss."""
    near = math.nextafter(loss, 0.0), loss, math.nextafter(loss, math.inf)
    return [*near, loss * (1.0 - 1e-13), loss * (1.0 + 1e-13)]


def assert_contains(loss: PrivacyLoss, truth: Real, epsilon: float) -> None:
    low, high = (
        loss.delta(epsilon, side, EFFORT) for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
    )
    # 1e-60: what 80 digits lose where the truth is 0 by cancellation
    truth = truth if truth > exact(1e-60) else exact(0)
    assert exact(low) <= truth <= exact(high), (epsilon, low, truth, high)


@pytest.mark.parametrize("eps0", [0.5, 5.0, 20.0])
@pytest.mark.parametrize("decoys", [1, 5, 30, 100])
def test_binary_targets_among_so_many_clones(eps0: float, decoys: int) -> None:
    loss = BinaryLoss(NumberOfClones.from_eps0(eps0, decoys=decoys, rate=1.0, idle=0.0))
    m = decoys + 1
    with MP.workdps(80):
        gap = MP.tanh(exact(eps0) / 2)
        z = [gap * (2 * a - m) / m for a in range(m + 1)]
        f = [MP.binomial(m, a) / exact(2) ** m for a in range(m + 1)]
        for a in sorted({m, m - 1, m - 2, (3 * m) // 4} & set(range(m // 2 + 1, m + 1))):
            for epsilon in about(float(MP.log((1 + z[a]) / (1 - z[a])))):
                alpha = MP.exp(exact(epsilon))
                truth = MP.fsum(
                    p * max(1 + t - alpha * (1 - t), 0) for p, t in zip(f, z, strict=True)
                )
                assert_contains(loss, truth, epsilon)


@pytest.mark.parametrize("eps0", [0.5, 5.0, 20.0])
@pytest.mark.parametrize("others", [0, 1, 3, 12])
def test_targets_among_draws_of_their_null_law(eps0: float, others: int) -> None:
    """Both orders; the number of draws is binomial, and their second letters are."""
    loss = null_law(eps0, 0.0, others + 1).loss
    with MP.workdps(80):
        large = MP.exp(exact(eps0))
        s = 1 / (1 + large)
        ratios = []
        for j in range(others + 1):
            share = MP.binomial(others, j) * large**-j * (1 - 1 / large) ** (others - j)
            k = j + 1
            ratios += [
                (
                    share * MP.binomial(k, a) * s**a * (1 - s) ** (k - a),
                    (a * large + (k - a) / large) / k,
                )
                for a in range(k + 1)
            ]
        losses = sorted({abs(float(MP.log(ratio))) for _, ratio in ratios})
        for one in losses[:: max(len(losses) // 12, 1)] + losses[-2:]:
            for epsilon in about(one):
                alpha = MP.exp(exact(epsilon))
                forward = MP.fsum(q * max(r - alpha, 0) for q, r in ratios)
                backward = MP.fsum(q * max(1 - alpha * r, 0) for q, r in ratios)
                assert_contains(loss, forward, epsilon)
                assert_contains(loss.reversed, backward, epsilon)
