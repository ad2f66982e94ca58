"""Distribution of the likelihood ratio of two distributions, as its tails on a grid of ratios."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.numerics.rounding import Array

__all__ = ["LARGEST_LOG", "RatioTails", "grid_of_logs"]

# Grid step of the log-likelihood ratio (nats): brackets are then some 1e-10 wide, relative.
_STEP = 1e-4
_FEWEST_CELLS, _MOST_CELLS = 64, 1 << 19
# Ratios beyond e^600 are left to the bound of the tail; their decoys' mass is below e^-600.
LARGEST_LOG = 600.0


@dataclass(frozen=True, eq=False)
class RatioTails:
    """Distribution of a likelihood ratio w = P/Q on a grid.

    Attributes:
        ratios: the grid, strictly rising from 0, shape (m,).
        target: ``P(w > t)`` there, falling from 1; what no decoy sends has w = inf.
        decoys: ``Q(w > t)`` there, falling from at most 1.
        error: relative error of each of these, shape () or (m,).
    """

    ratios: Array
    target: Array
    decoys: Array
    error: Array

    @classmethod
    def of_logs(
        cls, logs: Array, target: Array, decoys: Array, total: float, error: float | Array
    ) -> RatioTails:
        """Tails on ``e^logs``, with ratio 0 before them and equal ratios left out.

        Args:
            logs: logarithms of ratios, rising.
            target: ``P(w > t)`` there.
            decoys: ``Q(w > t)`` there.
            total: mass of Q.
            error: relative error of the two.
        """
        ratios = np.concatenate([[0.0], np.exp(logs)])
        # of equal ratios the last one: there the tails are smallest, as to the right of an atom
        distinct = np.append(np.diff(ratios) > 0.0, True)
        every = np.broadcast_to(error, logs.shape)
        worst = float(np.max(every, initial=0.0))
        return cls(
            ratios[distinct],
            np.concatenate([[1.0], target])[distinct],
            np.concatenate([[total], decoys])[distinct],
            np.concatenate([[worst], every])[distinct],
        )


def grid_of_logs(low: float, high: float, fewest: int = _FEWEST_CELLS) -> Array:
    """A grid of logarithms of ratios from one to the other, both at most `LARGEST_LOG` from 0."""
    low, high = np.clip([low, high], -LARGEST_LOG, LARGEST_LOG).tolist()
    cells = min(max(math.ceil((high - low) / _STEP), fewest), _MOST_CELLS)
    return np.linspace(low, high, cells + 1)
