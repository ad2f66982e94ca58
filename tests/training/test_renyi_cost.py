"""Moments of losses that are off, and of the worse of two orders."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracles.precision import MP, exact

import shuffle_accountant as sa
from shuffle_accountant.baselines.moments import LogMoments, log_moments
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import HOCKEY_STICK, Effort
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.training import plans
from shuffle_accountant.training.plans import log_moment_cost

MASSES = (0.25, 0.5, 0.25)


class Part:
    """A loss of three atoms, off by as much as stated; its reversed one may be another."""

    largest, deviation, divergence = 2.5, 1.0, HOCKEY_STICK

    def __init__(self, scale: float = 1.0, moved: float = 0.0, error: float = 0.0) -> None:
        self.losses = tuple(scale * x for x in (-1.0, 0.5, 2.0))
        self.moved, self.error = moved, error
        self.reversed = self

    def atoms(self, side: Bound, edges: Any, effort: Effort) -> PldAtoms:
        edges(self.largest)
        losses = np.array(self.losses) + self.moved
        return PldAtoms(side, np.array(MASSES), losses, 0.0, 0.0, 0.0, self.error)

    def log_moment(self, t: float) -> Any:
        terms = (
            exact(p) * MP.exp(exact(t) * exact(x)) for p, x in zip(MASSES, self.losses, strict=True)
        )
        return MP.log(MP.fsum(terms))


@pytest.mark.parametrize("t", [0.25, 2.0, 30.0])
def test_losses_that_are_off_move_their_moments(t: float) -> None:
    error = 0.03  # more than a cell of a hundredth
    for side, moved in ((Bound.PESSIMISTIC, -error), (Bound.OPTIMISTIC, error)):
        loss: Any = Part(moved=moved, error=error)
        found, truth = exact(log_moments(loss, side).kept(t)), loss.log_moment(t)
        assert found >= truth if side is Bound.PESSIMISTIC else found <= truth
        # twice the error, and a cell
        assert abs(found - truth) <= 0.08 * t


@pytest.mark.parametrize("larger", [0, 1])
def test_a_round_costs_what_its_worse_order_does(larger: int) -> None:
    some = Part(0.5), Part(1.0)
    loss, other = some[larger], some[1 - larger]
    loss.reversed, other.reversed = other, loss
    one: Any = SimpleNamespace(reduced=lambda: SimpleNamespace(loss=loss))
    round = type("Round", (), {"reduced": lambda self: one.reduced()})()
    for t in (0.5, 4.0):
        truth = float(some[1].log_moment(t))
        assert float(some[0].log_moment(t)) < 0.7 * truth
        # losses are rounded up to cells of a hundredth
        assert truth <= log_moment_cost(round, t) <= truth + 0.011 * t + math.ulp(truth)


def sampled(sigma: float, rate: float = 1.0) -> sa.PoissonSampled:
    return sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=sigma), rate=rate)


def test_moments_of_normal_noise_are_rounded_up() -> None:
    """The closed form, in fractions, where nothing is sampled."""
    for t in (0.1, 0.3, 0.7, 1.1, 3.3, 17.0, 1234.5):
        for sigma in (0.7, 1.3, 8.1):
            truth = Fraction(t) * (Fraction(t) + 1) / (2 * Fraction(sigma) ** 2)
            assert truth <= log_moment_cost(sampled(sigma), t) <= truth * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("log_kept", [-8.0, 0.3, 40.0])
def test_rare_losses_are_added_and_rounded_up(
    log_kept: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is followed, and the least of Hölder's bounds of what is not, in fifty digits."""
    loss: Any = SimpleNamespace(largest=math.inf)
    for tail in (1e-24, 3e-9, 0.7):
        masses = np.full(1, log_kept)
        moments = LogMoments(Bound.PESSIMISTIC, np.zeros(1), masses, tail, math.inf, None)
        monkeypatch.setattr(plans, "log_moments", lambda loss, side, m=moments: m)
        kept = moments.kept(1.0)  # rounded up itself
        for t in np.geomspace(0.3, 40.0, 30).tolist():
            variance = 2 * exact(0.9) ** 2
            rare = min(
                (1 - 1 / exact(p)) * MP.log(exact(tail)) + exact(t) * (exact(p) * t + 1) / variance
                for p in plans._HOELDER
            )
            truth = MP.log(MP.exp(exact(kept)) + MP.exp(rare))
            alone = exact(t) * (exact(t) + 1) / variance
            truth = max(min(truth, alone), exact(0))
            found = plans._side(loss, t, sampled(0.9))
            assert truth <= found <= truth + exact("1e-9") * (1 + abs(truth))


def test_only_what_is_certain_to_be_infinite_is_refused() -> None:
    """A tail that is cut off, of 1e-300, says nothing."""

    def delta(epsilon: float, side: Bound, effort: Effort) -> float:
        return 1e-300 if side is Bound.PESSIMISTIC else 0.0

    loss: Any = SimpleNamespace(largest=math.inf, divergence=HOCKEY_STICK, delta=delta)
    loss.reversed = loss
    assert plans._condition(sampled(1.0), loss) is None
    certain: Any = SimpleNamespace(**vars(loss) | {"delta": lambda *_: 1e-300})
    loss.reversed = certain
    assert "infinite with some probability" in str(plans._condition(sampled(1.0), loss))
