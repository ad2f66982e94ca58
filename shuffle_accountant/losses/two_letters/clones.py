"""Number of clones of a binary target whose decoys are its clones, or blank.

The target sends letter 0 with probability ``u`` (dataset X) or ``v`` (dataset X'), letter 1
otherwise, ``u + v = 1`` and ``u/v = e^eps0``; a decoy sends each letter with probability rate/2 and
the blank else. So ``m = C + 1`` with C ~ Bin(n - 1, rate) under both datasets, and the gap is
``u - v = tanh(eps0 / 2)``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Self

import numpy as np

from shuffle_accountant.lattice.discretize import SUBCELLS
from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.losses.base import CellEdges, Effort
from shuffle_accountant.losses.decoys.counts import count_blocks
from shuffle_accountant.losses.two_letters.atoms import BinaryBlocks
from shuffle_accountant.losses.two_letters.clone_table import clone_table, tabled_atoms
from shuffle_accountant.numerics.ratios import log_ratio_above


@dataclass(frozen=True)
class NumberOfClones:
    """One binary target among ``decoys`` decoys.

    Attributes:
        gap: ``u - v``, in [0, 1], good to a few units in its last place.
        log_rest: logarithm of ``1 - gap``, which may be too small for a double.
        largest: ``log(u/v)``, rounded up where it is rounded, nats; ``inf`` if the target never
            lies. No loss is larger.
        decoys: number of decoys, n - 1 >= 0.
        rate: probability that a decoy is not blank.
        idle: ``1 - rate``.
    """

    gap: float
    log_rest: float
    largest: float
    decoys: int
    rate: float
    idle: float

    @classmethod
    def from_eps0(cls, eps0: float, *, decoys: int, rate: float, idle: float) -> Self:
        """The clones of a target that has ``u/v = e^eps0``, eps0 in [0, inf]."""
        log_rest = math.log(2.0) - eps0 - math.log1p(math.exp(-eps0))
        return cls(math.tanh(0.5 * eps0), log_rest, eps0, decoys, rate, idle)

    @classmethod
    def from_chances(cls, u: float, v: float, *, decoys: int, rate: float, idle: float) -> Self:
        """The clones of a target that sends its two letters in the ratio u : v, u >= v >= 0, u > 0.

        Here u and v need not add up to 1.
        """
        largest = log_ratio_above(np.array([u]), np.array([v]))
        log_rest = math.log(2.0) + math.log(v) - math.log(u + v) if v > 0.0 else -math.inf
        return cls((u - v) / (u + v), log_rest, float(largest[0]), decoys, rate, idle)

    @property
    def deviation(self) -> float:
        """``2 gap / sqrt(expected m)``, but not more than the largest loss."""
        return min(self.largest, 2.0 * self.gap / math.sqrt(1.0 + self.decoys * self.rate))

    def blocks(self, side: Bound, effort: Effort) -> BinaryBlocks:
        """Blocks of m; PESSIMISTIC takes each block's smallest count, OPTIMISTIC its largest."""
        blocks = count_blocks(
            self.decoys,
            self.rate,
            self.idle,
            side,
            tail=effort.tail,
            resolution=effort.resolution,
        )
        count = (blocks.low if side is Bound.PESSIMISTIC else blocks.high) + 1.0
        return BinaryBlocks(
            weight=blocks.weight,
            count=count,
            gap=np.full(count.size, self.gap),
            log_rest=np.full(count.size, self.log_rest),
            silent=0.0,
            missing=blocks.missing,
            round_off=blocks.round_off,
        )

    @property
    def table(self) -> Hashable:
        """None: one table serves almost all clones, so that no number of them need be known."""
        return None

    def tabled(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms | None:
        """The atoms from the table of counts that rounds of any size share."""
        if self.gap == 0.0 or self.largest == math.inf:
            return None
        # a lower bound's cells are finer; both sides share one table
        step = float(edges(0.0)[1]) * (1 if side is Bound.PESSIMISTIC else SUBCELLS)
        table = clone_table(step, self.gap, effort.resolution, effort.tail)
        if table is None:
            return None
        return tabled_atoms(
            table,
            side,
            trials=self.decoys,
            rate=self.rate,
            idle=self.idle,
            gap=self.gap,
            log_rest=self.log_rest,
        )
