"""Messages on a sphere: PrivUnit, and the l2 mechanism of Duchi, Jordan and Wainwright.

A vector in the ball is first rounded to a unit vector u or -u, at random with the right mean. The
message's direction V is uniform in the cap {v : <v, u> >= gamma} with probability p, else uniform
in the rest of the sphere. With q the cap's share of the sphere, the densities of V are p/q and
(1-p)/(1-q), so the mechanism is eps0-LDP exactly if ``log p/(1-p) + log (1-q)/q <= eps0``. Divided
by ``m = E<V, u>`` it is unbiased, and its second moment is 1/m^2.

Where W = <V, u> is of density ``c (1-w^2)^((d-3)/2)`` for a uniform V, with c = 1/B(1/2, (d-1)/2),
the integral of w over the cap is ``C(gamma) = c (1-gamma^2)^((d-1)/2) / (d-1)``, so
``m = C(gamma) (p/q - (1-p)/(1-q))``.

*The optimal split of eps0.* The published mechanism spends eps0 in two parts, one for p and one for
gamma, through a sufficient condition. With the exact condition and E = e^eps0 met with equality,
``m(gamma) = (E-1) C(gamma) / (1 + (E-1) q(gamma))``. As C' = -gamma f and q' = -f with f the
density of W, m' vanishes just where ``m(gamma) = gamma``; the function
``gamma (1 + (E-1) q) - (E-1) C`` has derivative 1 + (E-1) q > 0, one root, and that is the best
gamma.

Sources: Bhowmick, Duchi, Freudiger, Kapoor and Rogers 2018, "Protection against reconstruction",
for PrivUnit; Duchi, Jordan and Wainwright 2018, "Minimax optimal procedures for locally private
estimation", Section 4.2, for the hemispheres.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import betainc, betaincinv, betaln

from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.checks import Rows
from shuffle_accountant.randomizers.vectors.base import (
    VectorRandomizer,
    fill_normal,
    flips,
    safe_probability,
)

# Below this dimension the part of a Gaussian vector across u may be little of it, and a difference
# of squares has no digits then: it is projected twice, in 64-bit floats.
_SMALL = 64
# Range of squared norms of 32-bit floats outside which they may have lost digits.
_TINY, _HUGE = 1e-28, 1e28


class Cap(NamedTuple):
    """A cap of the unit sphere and how often the message falls into it.

    Attributes:
        threshold: gamma, least inner product with the input in the cap.
        share: q, the cap's share of the sphere.
        probability: p, a multiple of 2^-53.
        mean: m, mean inner product of input and message direction.
    """

    threshold: float
    share: float
    probability: float
    mean: float


@dataclass(frozen=True, init=False, repr=False)
class _SphereRandomizer(VectorRandomizer):
    """A message on a sphere, in a cap around the input more often than not."""

    ball: ClassVar[str] = "l2"
    least_dimension: ClassVar[int] = 2

    @property
    @abstractmethod
    def cap(self) -> Cap:
        """The cap, its share, its probability, and the mean they give."""

    @property
    def second_moment(self) -> float:
        """``(radius/m)^2``."""
        return (self.radius / self.cap.mean) ** 2

    @property
    def largest_coordinate(self) -> float:
        """``radius/m``."""
        return self.radius / self.cap.mean

    @property
    def coordinate_moment(self) -> float:
        """Along the input, or across it, whichever is larger.

        With ``D(gamma) = ((d-1) gamma C(gamma) + q)/d``, the integral of w^2 over the cap, ``E
        W^2`` is ``p D/q + (1-p) (1/d - D)/(1-q)``; what is left of 1 is across, alike in all d - 1
        directions.
        """
        cap, d = self.cap, self.dimension
        first = math.exp(_log_first_moment(d, cap.threshold))
        inside = ((d - 1.0) * cap.threshold * first + cap.share) / d
        # next to the pole a share of the cap and its moment are the same number
        along = cap.probability * min(inside / cap.share, 1.0)
        along += (1.0 - cap.probability) * max(1.0 / d - inside, 0.0) / (1.0 - cap.share)
        return self.second_moment * max(along, (1.0 - along) / (d - 1.0))

    def _norms(self, rows: Rows) -> Array:
        # overflow and NaN are what the caller looks for
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", rows, rows).astype(np.float64)
            if rows.dtype == np.float32 and not np.all((squares > _TINY) & (squares < _HUGE)):
                squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
            return np.asarray(np.sqrt(squares))

    def _fill(self, rows: Rows, norms: Array, messages: Rows, rng: np.random.Generator) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            squares = norms**2
        exact = self.dimension < _SMALL or not np.all((squares > _TINY) & (squares < _HUGE))
        target: Rows = messages
        if exact and rows.dtype != np.float64:
            rows, target = rows.astype(np.float64), np.empty(rows.shape)
        # round to +-u; beyond the ball (by round-off) the chance stays one
        signs = np.where(rng.random(norms.size) < 0.5 + 0.5 * norms / self.radius, 1.0, -1.0)
        none = norms < 1e-140  # taken for zero, which shifts the mean by no more
        if none.any():
            rows = np.where(none[:, None], 0.0, rows)
            rows[none, 0] = 1.0
            norms = np.where(none, 1.0, norms)
        to_unit = signs / norms
        if target.dtype == np.float32:
            fill_normal(target, rng)
        else:
            rng.standard_normal(out=target)
        if self.dimension < _SMALL:  # projected twice, which is enough
            along = np.einsum("ij,ij->i", target, rows) * to_unit
            target -= (along * to_unit)[:, None] * rows
        # The message is inner * u + sqrt(1 - inner^2) * (a uniform unit vector across u), and that
        # vector is the part of the Gaussian one across u, at length one.
        # (1 - inner)/2 has a symmetric beta law, of which the cap is the lower tail: the quantile
        # function keeps its relative accuracy there, however small the cap.
        cap, half = self.cap, 0.5 * (self.dimension - 1)
        inside, place = flips(rng, cap.probability, len(rows)), rng.random(len(rows))
        tail = np.where(inside, cap.share * place, cap.share + (1.0 - cap.share) * place)
        inner = 1.0 - 2.0 * betaincinv(half, half, tail)
        along = np.einsum("ij,ij->i", target, rows).astype(np.float64) * to_unit
        across = np.einsum("ij,ij->i", target, target).astype(np.float64) - along**2
        stretch = np.sqrt((1.0 - inner) * (1.0 + inner) / np.maximum(across, 1e-300))
        scale = self.radius / cap.mean
        step = scale * (inner - stretch * along) * to_unit
        target *= (scale * stretch)[:, None].astype(rows.dtype)
        target += step[:, None].astype(rows.dtype) * rows
        if target is not messages:
            messages[:] = target


@dataclass(frozen=True, init=False, repr=False)
class PrivUnit(_SphereRandomizer):
    """PrivUnit with the best cap: the vector randomizer with the least variance of these, for l2.

    Inputs are vectors with l2 norm at most ``radius``, dimension >= 2; messages have l2 norm
    ``radius/m``. The variance is ``radius^2/m^2 - |x|^2`` with m as in the module's text: about
    ``radius^2 d/(2 eps0)`` for large eps0 and d, ``radius^2 pi d/(2 tanh^2(eps0/2))`` at most.
    """

    kind: ClassVar[str] = "privunit"

    @property
    def cap(self) -> Cap:
        """The cap of least variance, its share, its probability, and the mean they give."""
        return _best_cap(self.dimension, self.eps0)


@dataclass(frozen=True, init=False, repr=False)
class DuchiL2(_SphereRandomizer):
    """The l2 mechanism of Duchi, Jordan and Wainwright: the hemisphere around the input or not.

    Inputs are vectors with l2 norm at most ``radius``, dimension >= 2; messages have l2 norm
    ``radius/m`` with ``m = tanh(eps0/2) / ((d-1)/2 B((d-1)/2, 1/2))``. The variance is
    ``radius^2/m^2 - |x|^2``, about ``radius^2 pi d/(2 tanh^2(eps0/2))``. Nearly that of `PrivUnit`
    for eps0 below 1, far more for a large eps0.
    """

    kind: ClassVar[str] = "duchi-l2"

    @property
    def cap(self) -> Cap:
        """The hemisphere, and how often it is the one around the input."""
        return _cap(self.dimension, self.eps0, 0.0, 0.5)


@lru_cache(maxsize=256)
def _best_cap(dimension: int, eps0: float) -> Cap:
    from scipy.optimize import brentq

    log_gain = eps0 + math.log(-math.expm1(-eps0))  # log(E - 1)

    def excess(gamma: float) -> float:
        # both sides of the equation divided by 1 + (E-1) q, so that nothing overflows
        gain_of_share = math.exp(min(log_gain + _log_share(dimension, gamma), 700.0))
        log_mean = log_gain + _log_first_moment(dimension, gamma) - math.log1p(gain_of_share)
        return gamma - math.exp(min(log_mean, 700.0))

    # at 0 it is below 0, at 1 it is 1
    threshold = float(brentq(excess, 0.0, 1.0, xtol=1e-300, rtol=1e-14))
    return _cap(dimension, eps0, threshold, math.exp(_log_share(dimension, threshold)))


@lru_cache(maxsize=256)
def _cap(dimension: int, eps0: float, threshold: float, share: float) -> Cap:
    """The cap with the largest probability that eps0 allows; ``share`` is taken as exact.

    The sampler cuts the law of the inner product at the quantile ``share``, so that privacy does
    not depend on how well ``share`` fits ``threshold``.
    """
    probability = safe_probability(eps0 + math.log(share) - math.log1p(-share))
    moment = math.exp(_log_first_moment(dimension, threshold))
    # what lies in the cap is between the threshold and 1, which logarithms near 0 do not know
    inside = min(max(moment / share, threshold), 1.0)
    mean = probability * inside - (1.0 - probability) * moment / (1.0 - share)
    return Cap(threshold, share, probability, mean)


def _log_share(dimension: int, threshold: float) -> float:
    """Logarithm of q: of the chance that a uniform direction is in the cap, threshold >= 0."""
    half = 0.5 * (dimension - 1)
    share = float(betainc(half, half, 0.5 * (1.0 - threshold)))
    return math.log(share) if share > 0.0 else -math.inf


def _log_first_moment(dimension: int, threshold: float) -> float:
    """Logarithm of C: of the integral of the inner product over the cap."""
    half = 0.5 * (dimension - 1)
    if threshold >= 1.0:
        return -math.inf
    power = half * (math.log1p(-threshold) + math.log1p(threshold))  # no cancellation near 1
    return power - math.log(2.0 * half) - float(betaln(half, 0.5))
