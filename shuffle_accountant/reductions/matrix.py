"""Deals whose steps release correlated noise: banded encoders and trees, dominated by scalars.

Adjacency: zero-out. Bound: upper ends for every adaptive mechanism; lower ends are attained by
constant contributions if the encoder has no negative entries.

A mechanism releases ``C x + z``: row t of C mixes the contributions of steps up to t, and the noise
z is white with deviation sigma. A record is dealt to a bin s uniformly and contributes a vector of
norm at most 1 to step s of every epoch, which may depend on earlier outputs. Let ``m_s`` be the sum
of the absolute columns of its steps, and ``L = mean of exp(Z_s - G_ss / 2)`` with Z normal of
covariance ``G_st = <m_s, m_t> / sigma^2``.

*Lemma* (Kahane). ``E V(x_1 e^(Z_1 - A_11/2), ...)``, x >= 0, grows with every entry of the
covariance A if V has no negative second derivative, mixed or not. *Proof.* Along a segment of
covariances the derivative is half the sum of the entries' changes times ``E X_i X_j V_ij``.

*Theorem* (domination). Removal is dominated by ``E (L - alpha)_+``, addition by ``E (1 - alpha
L)_+``. *Proof.* Given the other records' bins, subtract their terms, which the history determines.
Without the record the likelihood ratio of bin s gets at row t the factor ``exp(<y_t, a_t>/sigma^2 -
|a_t|^2/(2 sigma^2))`` with a_t a combination of the record's contributions, so that the rows' Gram
matrix is entrywise at most that of absolute columns. The value of what is still to come is convex
in all ratios with no negative mixed derivative; the lemma and backward induction over rows.

*Lemma* (cone). If ``B - A`` is a positive semidefinite matrix plus an entrywise nonnegative one, A
is dominated by B: the first part is an independent factor of mean one (Jensen), the second the
lemma's.

* *Upper ends of bands*: a Toeplitz covariance is below ``g theta^|d| + w [d = 0]`` by the cone
  lemma if the spectral density of the difference, less what is entrywise nonnegative, is nowhere
  negative. A linear programme finds the least w for a g and a theta; the best few are compared.
* *Two bands*: neighbours share one normal value, and the law of it and the sum is followed. In
  several epochs the last bin shares one with the first too; from below it does not.
* *Several epochs on fixed bins*: the covariances are raised to those of a ring. Few bins are
  followed around it: the ring's chain is above as before, of spectral densities those at multiples
  of ``2 pi / b`` alone. For many, revealing by how much the bins are shifted shows that a uniform
  deal to all b of them is dominated by one to ``b - p + 1`` neighbours, p the number of bands,
  which do not reach around the ring.
* *Lower ends of bands*: a chain below the covariance, as above with the two exchanged, or blocks of
  p bins, independent of one another, with a chain in each that is nowhere larger; whichever has the
  larger second moment at twice the variance. The last bins' columns are cut off: their logarithms
  are scaled. ``s_i s_j`` times the covariances stay below as before, and are nowhere above those of
  shorter columns if s_j is at most the least ratio of the two in its row. Entries of both signs: a
  chain of the bins with whole columns, and further ratios of 1.
* *Trees*: the covariances of a binary tree whose nodes are all released count common ancestors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from operator import itemgetter

import numpy as np

from shuffle_accountant.losses.base import LossBySide, PrivacyLoss
from shuffle_accountant.losses.dealt.correlated import (
    ChainRatios,
    ChainsBelow,
    CorrelatedLoss,
    PairRatios,
    TreeRatios,
    UnknownRatios,
    rough_epsilon,
)
from shuffle_accountant.losses.steps.gaussian import gaussian_mean_loss
from shuffle_accountant.numerics.rounding import Array, Bound, roundings
from shuffle_accountant.reductions.base import Pair

Floats = tuple[float, ...]
# A chain: g, theta and w, relative to the variance.
Chain = tuple[float, float, float]
# Candidates of g, relative to the variance, for chains above and below, and of theta.
_COMMON = (0.45, 0.55, 0.65, 0.75, 0.82, 0.88, 0.94, 1.0, 1.1)
_COMMON_BELOW = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_THETA = (0.2, 0.3, 0.4, 0.5, 0.6, 0.68, 0.75, 0.8, 0.84, 0.88, 0.91, 0.94, 0.96)
# Frequencies of the linear programme, and of the check of what it found.
_FREQUENCIES, _CHECKED = 200, 1 << 15
# Weights of covariances by which candidates above and below are chosen.
_WEIGHTS, _WEIGHT_BELOW = (0.5, 1.0, 2.0, 4.0), 2.0
# Most bins of a chain that is followed from below; more are blocks of as many, independent of one
# another, which are summed by doubling.
_BLOCK = 128
# Contributions, in deviations of the noise, for which chains are followed; others are revealed.
_LEAST, _MOST = 1e-3, 6.0
# Squared contribution, in variances of the noise, below which it is taken to be this large.
_NOTHING = 1e-20
# Least variance of the independent part, in that of a ratio.
_OWN = 1e-6


def tree_of_noise(noise_multiplier: float, bins: int, epochs: int) -> Pair:
    """The dominating pair of a deal over the leaves of a binary tree whose nodes are released.

    Each epoch has a tree of its own, with ``bins`` leaves, a power of 2.
    """
    step = epochs / noise_multiplier**2
    variance = step * bins.bit_length()

    def loss(away: float) -> PrivacyLoss:
        return CorrelatedLoss(TreeRatios(variance * away, False, step * away), bins)

    ends = LossBySide(loss(1.0 + roundings(8)), loss(1.0 - roundings(8)))
    return Pair("correlated noise, tree", ends)


def banded(coefficients: Floats, noise_multiplier: float, bins: int, epochs: int) -> Pair:
    """The dominating pair of a deal whose noise is correlated over a band of steps.

    The p ``coefficients`` are those of a column of the Toeplitz encoder; p <= bins if epochs > 1.
    """
    name = "correlated noise, bands"
    bands, precision = len(coefficients), noise_multiplier**-2.0
    kernel = _kernel(np.abs(coefficients)) * epochs * precision
    above: PrivacyLoss
    if kernel[0] < _NOTHING:  # squares may lack digits
        above = gaussian_mean_loss(0.9 / math.sqrt(_NOTHING), 1)
        below = CorrelatedLoss(UnknownRatios(_NOTHING, False), bins)
        return Pair(name, LossBySide(above, below))
    variance = float(kernel[0]) * (1.0 + roundings(4.0 * bands + 32.0))
    used = bins if epochs == 1 else bins - bands + 1
    contribution = math.sqrt(variance)
    if bands == 2 and min(coefficients) > 0.0 and used > 1 and _LEAST <= contribution <= _MOST:

        def pairs(side: Bound) -> PrivacyLoss:
            upper = side is Bound.PESSIMISTIC
            away = 1.0 + (roundings(32) if upper else -roundings(32))
            first, second = (c * math.sqrt(epochs) / noise_multiplier * away for c in coefficients)
            # the first bin shares a value with the last one, in all epochs but one
            last = second * (math.sqrt(1.0 - 1.0 / epochs) if not upper else float(epochs > 1))
            source = PairRatios(variance * away, False, first, second, last)
            return CorrelatedLoss(source, used if upper else bins)

        return Pair(name, LossBySide(pairs(Bound.PESSIMISTIC), pairs(Bound.OPTIMISTIC)))
    # with larger contributions, bins that are revealed cost little
    if epochs > 1 and 3 <= bins <= 32 and _LEAST <= contribution <= 2.0:
        above = CorrelatedLoss(_around(tuple(kernel.tolist()), variance, bins), bins)
    elif used > 1 and _LEAST <= contribution <= _MOST:
        above = CorrelatedLoss(_fitted(tuple(kernel.tolist()), variance, used), used)
    else:
        # the variance has room for its root and this quotient
        above = gaussian_mean_loss(1.0 / contribution, 1)
    below = CorrelatedLoss(_from_below(coefficients, precision, bins, epochs), bins)
    return Pair(name, LossBySide(above, below))


def bands_are_a_pair(coefficients: Sequence[float], bins: int, epochs: int) -> bool:
    """Whether neighbours share one normal value each, which is followed as it is."""
    return len(coefficients) == 2 and min(coefficients) > 0.0 and epochs == 1 and bins > 1


def _from_below(
    coefficients: Floats, precision: float, bins: int, epochs: int
) -> ChainsBelow | UnknownRatios:
    """Chains below the covariances of a banded encoder's columns, without bars."""
    c = np.asarray(coefficients)
    bands, kernel = c.size, _kernel(c)
    lowered = 1.0 - roundings(4.0 * bands + 32.0)
    # a chain of a smaller variance is below one of a larger variance
    variance = min(float(kernel[0]) * epochs * precision, 36.0) * lowered
    shape = kernel / kernel[0]
    signed = bool(c.min() < 0.0)
    if signed:
        scales = np.ones(max(bins - bands + 1, 0))
    else:
        scales = np.ones(bins)
        for rows in range(1, min(bands, bins + 1)):  # that the column of a last bin has
            shared = [(d, min(rows, bands - d)) for d in range(bands) if kernel[d] > 0.0]
            ratio = min(float(c[:n] @ c[d : d + n]) / kernel[d] for d, n in shared)
            scales[bins - rows] = min((epochs - 1.0 + ratio) / epochs * lowered, 1.0)
        # ratios of last bins with a smaller scale are taken to be 1
        scales = scales[: bins - int(np.argmax(scales[::-1] > 1e-3))]
    if scales.size == 0:
        return UnknownRatios(variance, False)
    used = scales.size
    found = [] if signed or used < bins else [(bands, *_within_blocks(shape, variance))]
    if bins > bands > 1:
        of_all = _candidates(tuple(shape.tolist()), bins, above=False)
        found += [(min(bins, max(_BLOCK, 2 * bands)), *one) for one in of_all]
    elif bands == 1 and not found:
        found = [(1, 1.0, 0.0, 0.0)]
    if not found:
        return UnknownRatios(variance, False)

    chosen = {
        max(found, key=lambda one: _moment(one[1:], variance, min(one[0], used), weight)): 0
        for weight in _WEIGHTS
    }
    ways = []
    for block, common, theta, own in chosen:
        if common <= 0.0:
            common, theta, own = own, 0.0, 0.0
        ways.append((block, common * variance, theta, own * variance))
    return ChainsBelow(variance, False, tuple(scales.tolist()), tuple(ways))


def _within_blocks(shape: Array, variance: float) -> Chain:
    """The chain with no covariance above those of as many bins as there are bands."""
    away, found = np.arange(1.0, shape.size), [(1.0, 0.0, 0.0)]
    for theta in np.linspace(0.01, 0.99, 99).tolist():
        least = float(np.min(shape[1:] / theta**away, initial=1.0))
        common = max(least * (1.0 - roundings(64)), 0.0)
        found.append((common, theta, 1.0 - common))
    return max(found, key=lambda one: _moment(one, variance, shape.size, _WEIGHT_BELOW))


def _moment(chain: Chain, variance: float, bins: int, weight: float) -> float:
    """Second moment of the sum of a chain's ratios per bin, at a multiple of the variance."""
    common, theta, own = chain
    away = np.arange(bins)
    many = np.where(away == 0, 1.0, 2.0 * (1.0 - away / bins))
    covariance = variance * (common * theta**away + own * (away == 0))
    return float(many @ np.expm1(np.minimum(weight * covariance, 600.0)))


def _kernel(c: Array) -> Array:
    """Inner products of a column and itself d steps later, shape (p,)."""
    return np.asarray([float(c[: c.size - d] @ c[d:]) for d in range(c.size)])


@lru_cache(maxsize=64)
def _fitted(kernel: Floats, variance: float, bins: int) -> ChainRatios:
    """The chain above a Toeplitz covariance that reveals least at a delta of about 1e-6."""
    shape = np.asarray(kernel) / kernel[0]
    found = _candidates(tuple(shape.tolist()), bins, above=True)
    chosen = {
        min(found, key=lambda one: _moment(one, variance, bins, weight)): None
        for weight in _WEIGHTS
    }
    parts = [(common * variance, theta, own * variance) for common, theta, own in chosen]
    rough, best = min(((rough_epsilon(bins, *one), one) for one in parts), key=itemgetter(0))
    return ChainRatios(variance, False, *best, rough)


@lru_cache(maxsize=64)
def _around(kernel: Floats, variance: float, bins: int) -> ChainRatios:
    """The ring above a banded covariance around b bins that reveals least by its second moment."""
    from scipy.optimize import linprog

    away = np.arange(bins)
    shape = np.zeros(bins)
    shape[: len(kernel)] = kernel
    shape[1:] += shape[:0:-1].copy()
    shape /= shape[0]
    # a ring's spectral densities: half of them are all
    cosines = np.cos(2.0 * math.pi / bins * np.outer(np.arange(bins // 2 + 1), away))
    both = np.minimum(away, bins - away)[1 : bins // 2 + 1]
    added = cosines[:, both] * np.where(2 * both == bins, 1.0, 2.0)
    sides = np.column_stack([np.full(len(cosines), -1.0), added])
    cost = np.append(1.0, np.zeros(both.size))
    best, least = (math.nan, math.nan, math.nan), math.inf
    for theta, common in product(_THETA, _COMMON):
        chain = (theta**away + theta ** (bins - away)) / (1.0 + theta**bins)
        short = cosines @ (shape - common * chain)
        answer = linprog(cost, A_ub=sides, b_ub=-short, method="highs")
        if answer.status != 0:
            continue
        above = np.maximum(answer.x[1:], 0.0)
        own = max(float(np.max(short + added @ above)), 0.0) + _OWN
        covariance = variance * (common * chain + own * (away == 0))
        moment = float(np.sum(np.expm1(np.minimum(_WEIGHT_BELOW * covariance, 600.0))))
        if moment < least:
            best, least = (common * variance, theta, own * variance), moment
    # where to look closely: a chain that does not come back is near enough
    return ChainRatios(variance, False, *best, rough_epsilon(bins, *best), ring=True)


@lru_cache(maxsize=64)
def _candidates(shape: Floats, bins: int, *, above: bool) -> tuple[Chain, ...]:
    """Values (g, theta, w), relative to the variance, of chains above a covariance, or below it.

    The ``shape`` is the covariance by distance, the first 1.
    """
    from scipy.optimize import linprog

    bands, sign = len(shape), 1.0 if above else -1.0
    reach = min(bins - 1, 2 * bands + 8)
    grid = np.linspace(0.0, math.pi, _FREQUENCIES)
    cosines = np.cos(np.outer(grid, np.arange(max(reach + 1, bands))))
    spectrum = shape[0] + 2.0 * cosines[:, 1:bands] @ np.asarray(shape[1:])
    # least w, or the largest, over w, n_1, …, n_reach >= 0 with spectral densities in order
    sides = np.column_stack([np.full(grid.size, -sign), 2.0 * cosines[:, 1 : reach + 1]])
    cost = np.append(sign, np.zeros(reach))
    found = []
    for theta, common in product(_THETA, _COMMON if above else _COMMON_BELOW):
        chain = (1.0 - theta**2) / (1.0 - 2.0 * theta * np.cos(grid) + theta**2)
        ends = sign * (common * chain - spectrum)
        answer = linprog(cost, A_ub=sides, b_ub=ends, method="highs")
        if answer.status != 0:
            continue
        own = _checked(shape, common, theta, answer.x[1:], sign)
        if above or own >= 0.0:
            found.append((common, theta, max(own, _OWN) if above else own))
    return tuple(found)


def _checked(shape: Floats, common: float, theta: float, added: Array, sign: float) -> float:
    """The least w, or the largest, for which spectral densities are proved to be in order.

    Times ``1 - 2 theta cos + theta^2`` their difference is a trigonometric polynomial, which is
    bounded between frequencies by its second derivative.
    """
    size = max(len(shape), added.size + 1)
    # w is at least this less the chain, or at most
    rest = np.append(shape, np.zeros(size - len(shape)))
    rest[1 : added.size + 1] += sign * np.maximum(added, 0.0)
    cosine = np.concatenate([[rest[0]], 2.0 * rest[1:]])
    grid = np.linspace(0.0, math.pi, _CHECKED)
    needed = np.polynomial.chebyshev.chebval(np.cos(grid), cosine)
    weight = 1.0 - 2.0 * theta * np.cos(grid) + theta**2
    short = needed - common * (1.0 - theta**2) / weight
    # of the polynomial with w in it: its degree squared times the sum of its coefficients
    bend = (size + 1.0) ** 2 * (1.0 + theta) ** 2 * float(np.sum(np.abs(cosine)) + 2.0)
    step = grid[1] - grid[0]
    between = bend * step**2 / 8.0 / (1.0 - theta) ** 2
    if sign > 0.0:
        return float(max(short.max(), 0.0) + between + 1e-9)
    return float(short.min() - between - 1e-9)
