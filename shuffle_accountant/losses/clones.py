"""The crowd of a binary target whose decoys are its clones, or blank.

The target sends letter 0 with probability ``u`` (dataset X) or ``v`` (dataset X'), letter 1
otherwise, ``u + v = 1`` and ``u/v = e^eps0``; a decoy sends each letter with probability rate/2 and
the blank else. So ``m = C + 1`` with C ~ Bin(n - 1, rate) under both datasets, and the gap is
``u - v = tanh(eps0 / 2)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.lattice.grid import Direction
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.crowd import crowd_blocks
from shuffle_accountant.losses.listing import BinaryCrowds

__all__ = ["CloneCrowd"]


@dataclass(frozen=True)
class CloneCrowd:
    """One binary target among ``decoys`` decoys.

    Attributes:
        eps0: log of u/v, nats, >= 0; ``inf`` when the target never lies.
        decoys: number of decoys, n - 1 >= 0.
        rate: probability that a decoy is not blank.
        idle: ``1 - rate``.
    """

    eps0: float
    decoys: int
    rate: float
    idle: float

    @property
    def largest(self) -> float:
        """No loss is larger than eps0 (nats)."""
        return self.eps0

    @property
    def deviation(self) -> float:
        """``2 gap / sqrt(expected m)``, but not more than eps0."""
        gap = math.tanh(0.5 * self.eps0)
        return min(self.eps0, 2.0 * gap / math.sqrt(1.0 + self.decoys * self.rate))

    def crowds(self, direction: Direction, effort: Effort) -> BinaryCrowds:
        """Blocks of counts: an upper bound takes each block's smallest, a lower one its largest."""
        crowd = crowd_blocks(
            self.decoys,
            self.rate,
            self.idle,
            direction,
            tail=effort.tail,
            resolution=effort.resolution,
        )
        ratio = math.exp(-self.eps0)
        count = (crowd.low if direction is Direction.UPPER else crowd.high) + 1.0
        return BinaryCrowds(
            weight=crowd.weight,
            count=count,
            gap=np.full(count.size, math.tanh(0.5 * self.eps0)),
            rest=np.full(count.size, 2.0 * ratio / (1.0 + ratio)),
            silent=0.0,
            missing=crowd.missing,
            round_off=crowd.round_off,
        )
