"""Targets among decoys as letters: finite alphabets as they are, continuous ones in cells.

On a line of messages the likelihood ratio of the target moves monotonically. A cell of messages is
given as one letter of the mean ratio (OPTIMISTIC: merging messages is a post-processing) or as two
letters of the ratios at its ends, with the same masses under the target's and the decoys' law
(PESSIMISTIC: the expectation in the density lemma is convex in each ratio).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.lattice.grid import Array, Bound
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.letters import LetterPair

__all__ = ["FinitePair", "GaussianBlanketPair", "LaplacePair"]

# Bound on the relative error of a cell's masses, as differences of normal tails.
_MASS_ERROR = 1e-11


@dataclass(frozen=True)
class FinitePair:
    """A finite alphabet, the same in both directions."""

    pair: LetterPair

    def letters(self, side: Bound, effort: Effort) -> LetterPair:
        """The letters themselves."""
        return self.pair


@dataclass(frozen=True)
class LaplacePair:
    """The blanket pair of the Laplace randomizer on [0, 1], at the inputs 0 and 1.

    With E = e^eps0 the blanket's density is ``(eps0/2) e^(-eps0 max(|y|, |1-y|))``. Messages below
    0 are E times as likely under input 0 as in the blanket, those in [0, 1/2] ``e^(eps0 (1 - 2y))``
    times, all others once; input 1 is the mirror image.

    The inputs 0 and 1 are worst, for every n and alpha >= 1. With ``r(x, y)`` the likelihood ratio
    of input x to the blanket at message y, write ``l(x0, x1) = r(x0, y) - alpha r(x1, y)``; all
    have the same mean, so it is enough that ``l(0, 1)`` is above ``l(x0, x1)`` in convex order: for
    sums of independent variables follow. ``D(t)``, the difference of ``E(l - t)_+``, must be >= 0.

    * x0 <= 1/2 <= x1: both ratios are monotone in y, and moving x0 to 0, then x1 to 1, changes l by
      a function with one change of sign, from + to -; that is the cut criterion.
    * x0 < x1 <= 1/2: moving x0 to 0 raises l where l is largest and D grows from the total
      variation's difference at t = 0 up to t = max l; for t < 0 it is pointwise. Moving then x1 to
      1: pointwise outside ``min l < t < 1 - alpha e^(eps0 x1)``; inside, D' has the sign of
      ``sqrt(alpha s/(1+s)) + sqrt(s/(alpha e^(eps0(1-x1)) - s)) - sqrt(alpha e^(eps0 x1) - 1)``, s
      = -t, which increases in s, so D is least at an end, where it is >= 0.
    * 1/2 <= x0 < x1: the same argument from the other end. Where ``alpha e^(eps0 (x0 - x1)) >= 1``
      the pair's l is never positive and there is nothing to bound. x0 > x1 is the mirror image.
    """

    eps0: float

    def letters(self, side: Bound, effort: Effort) -> LetterPair:
        """Cells of equal width in the logarithm of the ratio."""
        eps0 = self.eps0
        cells = math.ceil(0.8 * (1.0 + 0.5 * eps0) / math.sqrt(effort.resolution)) + 8
        width = eps0 / cells
        logs = np.linspace(eps0, width, cells)  # upper ends
        # between ratios r1 > r2: q = (r2^(-1/2) - r1^(-1/2))/2, p = (r1^(1/2) - r2^(1/2))/2, over
        # sqrt(E)
        grown = math.expm1(0.5 * width)
        q = 0.5 * grown * np.exp(-0.5 * (logs + eps0))
        p = 0.5 * grown * np.exp(0.5 * (logs - width - eps0))
        share = 1.0 / (1.0 + math.exp(0.5 * width))
        up, low = np.exp(logs), np.exp(logs - width)
        if side is Bound.PESSIMISTIC:
            q = np.concatenate([q * share, q * (1.0 - share)])
            p = q * np.concatenate([up, low])
        # messages beyond 0
        q, p = np.append(q, 0.5 * math.exp(-eps0)), np.append(p, 0.5)
        return _mirrored(p, q, 0.0, 0.0)


@dataclass(frozen=True)
class GaussianBlanketPair:
    """The blanket pair of Gaussian noise on the inputs 0 and 1.

    Messages below 1/2 are ``e^((1 - 2y)/(2 sigma^2))`` times as likely under input 0 as in the
    blanket, all others once; input 1 is the mirror image.
    """

    sigma: float

    def letters(self, side: Bound, effort: Effort) -> LetterPair:
        """Cells of messages below 1/2, and their mirror images."""
        edges = self._edges(effort)
        q = _normal_cells((edges - 1.0) / self.sigma)
        p = _normal_cells(edges / self.sigma)
        ratio = np.exp((1.0 - 2.0 * edges[1:]) / (2.0 * self.sigma**2))
        p, q, lost = _cells(ratio, p, q, side)
        slack = _MASS_ERROR * (1.0 if side is Bound.PESSIMISTIC else -1.0)
        return _mirrored(p, q, lost, slack)

    def _edges(self, effort: Effort) -> Array:
        """Edges of messages from -inf to 1/2."""
        reach = self.sigma * math.sqrt(-2.0 * math.log(max(0.1 * effort.tail, 1e-300)))
        step = min(self.sigma, self.sigma**2) * 2.0 * math.sqrt(effort.resolution)
        count = min(math.ceil((0.5 + reach) / step) + 8, 1 << 15)
        return np.append(-math.inf, np.linspace(-reach, 0.5, count + 1))


def _mirrored(p: Array, q: Array, lost: float, slack: float) -> LetterPair:
    """Letters of ratios (p/q, 1), their mirror images (1, p/q), exposed letters and the blank."""
    blank = max(1.0 - 2.0 * math.fsum(q), 0.0)
    first = np.concatenate([p, q, [lost, 0.0, 0.0]])
    second = np.concatenate([q, p, [0.0, lost, 0.0]])
    decoys = np.concatenate([q, q, [0.0, 0.0, blank]])
    return LetterPair(first * (1.0 + slack), second * (1.0 - slack), decoys)


def _normal_cells(edges: Array) -> Array:
    """Standard normal masses between edges, with relative accuracy in both tails."""
    from scipy.special import ndtr

    right = edges[:-1] > 0.0
    upper = ndtr(-edges[:-1]) - ndtr(-edges[1:])
    lower = ndtr(edges[1:]) - ndtr(edges[:-1])
    return np.asarray(np.where(right, upper, lower), dtype=np.float64)


def _cells(ratio: Array, p: Array, q: Array, side: Bound) -> tuple[Array, Array, float]:
    """Letters from cells, the first of which has no finite end.

    Args:
        ratio: p/q at the finite edges.
        p: target masses of the cells, the open one included.
        q: decoy masses of the cells.
        side: PESSIMISTIC splits bounded cells over their ends and takes the target mass of the open
            one away from it, to be given to a letter that no decoy sends. OPTIMISTIC keeps cells as
            letters.

    Returns:
        ``(p, q, lost)``, ``lost`` the target mass taken away.
    """
    if side is Bound.OPTIMISTIC:
        kept = q > 0.0
        return p[kept], q[kept], 0.0
    inner_p, inner_q = p[1:], q[1:]
    kept = inner_q > 0.0
    lost = float(p[0]) + float(inner_p[~kept].sum())
    inner_p, inner_q = inner_p[kept], inner_q[kept]
    a, b = ratio[:-1][kept], ratio[1:][kept]
    share = np.clip((inner_p / inner_q - a) / (b - a), 0.0, 1.0)
    split = np.concatenate([inner_q * (1.0 - share), inner_q * share, q[:1]])
    return split * np.concatenate([a, b, [0.0]]), split, lost
