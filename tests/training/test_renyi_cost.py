"""Moments of losses that are off, and of the worse of two orders."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracles.precision import MP, exact

from shuffle_accountant.baselines.moments import log_moments
from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.divergence import HOCKEY_STICK
from shuffle_accountant.training.renyi_cost import log_moment_cost

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
