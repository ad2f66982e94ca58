"""Losses made of others say that what they are made of is known less closely than asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import CellEdges, Effort, PrivacyLoss, SymmetricLoss
from shuffle_accountant.losses.combined.mixture import MixtureLoss, Part, PatternsLoss
from shuffle_accountant.losses.combined.product import ProductLoss
from shuffle_accountant.losses.combined.subsampled import DilutedLoss, SubsampledLoss
from shuffle_accountant.numerics.rounding import Array, Bound


@dataclass(frozen=True)
class Response(SymmetricLoss):
    """Binary randomized response of one nat."""

    limited: bool
    largest: float = 1.0
    deviation: float = 1.0

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        return max(-math.expm1(epsilon - 1.0), 0.0) / (1.0 + math.exp(-1.0))

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        edges(1.0)
        mass = np.array([1.0, math.exp(-1.0)]) / (1.0 + math.exp(-1.0))
        return PldAtoms(side, mass, np.array([1.0, -1.0]), 0.0, 0.0, 0.0, 0.0, self.limited)


@dataclass(frozen=True)
class Two:
    """Two rounds, one of which is limited."""

    share: float
    largest: float = 1.0
    deviation: float = 1.0

    def parts(self, side: Bound, effort: Effort) -> tuple[tuple[Part, ...], float]:
        rest = Part(1.0 - self.share, Response(False))
        return (Part(self.share, Response(True)), rest), 0.0


def edges(largest: float) -> Array:
    return np.arange(0.0, largest + 0.1, 0.05)


@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize(
    ("loss", "limited"),
    [(make(limited), limited) for limited in (False, True) for make in (
        lambda limited: SubsampledLoss(Response(limited), 0.25),
        lambda limited: DilutedLoss(Response(limited), 0.25, 0.75),
        lambda limited: PatternsLoss(((0.5, Response(limited)), (0.5, Response(limited)))),
        lambda limited: PatternsLoss(((0.5, Response(False)), (0.5, Response(limited)))),
        lambda limited: ProductLoss(((Response(limited), 2), (Response(False), 1))),
        lambda limited: MixtureLoss(Two(0.5 if limited else 0.0)),
    )]
    + [(MixtureLoss(Two(0.05)), False), (MixtureLoss(Two(0.15)), True)],
)  # fmt: skip
def test_limits_are_passed_on(loss: PrivacyLoss, limited: bool, side: Bound) -> None:
    assert loss.atoms(side, edges, Effort(1e-12, 1e-3)).limited is limited
