"""Laplace and Gaussian noise: tails of the likelihood ratio in closed form, on a grid.

Gaps are in units of the noise: ``|a - b| / scale`` for Laplace, ``|a - b| / sigma`` for Gaussian.
For Laplace noise of parameter eps0 on an interval [a, b] instead of [0, 1], take
``eps0 (b - a)``.

More noise for the same gap, or a smaller gap, helps no adversary. Gaussian: shrinking both messages
and adding noise turns a gap into any smaller one. Laplace: with c the mass of the common part, D
the gap, ``F(D) = e^-D m(c) + int_-D^D e^s m(c e^(-(D+s)/2) / 2) ds`` has the derivative
``2 e^D m(c e^-D / 2) - F(D)``, which is not negative since m(x)/x falls. So the worst inputs are
the ends of the interval.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.leakage.reidentification.ratio_law import RatioTails
from shuffle_accountant.leakage.reidentification.success import checked_counts
from shuffle_accountant.numerics.binomial import UNIT_ROUNDOFF

__all__ = ["gaussian_blanket", "gaussian_success", "laplace_blanket", "laplace_success"]

Array = NDArray[np.float64]

# Step of the ratio's logarithm: brackets are some 1e-10 wide, relative, with it.
_STEP = 1e-4
_LAST_STEP = 1e-12
_FEWEST_CELLS, _MOST_CELLS = 64, 1 << 19
# A small gap, or much noise, spreads a short range of ratios over all scores: cells by the score.
_GAUSSIAN_CELLS = 1 << 18
# Ratios beyond e^600 are left to the bound of the tail; their decoys' mass is below e^-600.
_LARGEST_LOG = 600.0
# Beyond, nothing hides the target, to a double. Less noise, or a larger gap, helps the adversary no
# less: the lower ends found here hold there too, and the upper ones are 1.
_LARGEST_GAP, _LEAST_SIGMA = 2e3, 1e-3
# And here the adversary learns nothing, to a double.
_LEAST_GAP, _LARGEST_SIGMA = 1e-150, 1e100
# Standard normal probability below 1e-18 beyond.
_REACH = 9.0


def laplace_success(gap: float, *, users: int, guesses: int = 1) -> Bracket:
    """One message with Laplace noise around a mean among n - 1 around another one.

    Args:
        gap: distance D of the means in units of the scale, finite, >= 0.
        users: messages n, the target's included, in [1, 2^53].
        guesses: positions k the adversary may name, in [1, n].

    Returns:
        Bracket of the success probability.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
    """
    gap = validate.finite_nonnegative(gap=gap)
    users, guesses = checked_counts(users, guesses)
    return _laplace(gap, 0.0).success(users, guesses, "laplace pair")


def laplace_blanket(eps0: float, target: float, *, users: int, guesses: int = 1) -> Bracket:
    """Bound for Laplace noise on [0, 1]: the blanket is ``e^(-eps0/2)`` of the noise around 1/2.

    Args:
        eps0: local privacy parameter, nats, finite, > 0; the scale is its inverse.
        target: the target's input, in [0, 1].
        users: messages n, the target's included, in [1, 2^53].
        guesses: positions k the adversary may name, in [1, n].

    Returns:
        Bracket of psi, an upper bound of the success probability whatever the other inputs.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
    """
    eps0 = validate.positive(eps0=eps0)
    gap = eps0 * abs(validate.closed_unit(target=target) - 0.5)
    users, guesses = checked_counts(users, guesses)
    return _laplace(gap, 0.5 * eps0).success(users, guesses, "blanket")


def gaussian_success(gap: float, *, users: int, guesses: int = 1) -> Bracket:
    """One message with Gaussian noise around a mean among n - 1 around another one.

    Args:
        gap: distance d of the means in standard deviations, finite, >= 0.
        users: messages n, the target's included, in [1, 2^53].
        guesses: positions k the adversary may name, in [1, n].

    Returns:
        Bracket of the success probability.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
    """
    from scipy.special import ndtr, ndtri

    gap = validate.finite_nonnegative(gap=gap)
    users, guesses = checked_counts(users, guesses)
    if gap == 0.0:
        return _laplace(0.0, 0.0).success(users, guesses, "gaussian pair")
    # where so many decoys are above that all guesses go to them, one cell will do
    most = min(60.0 * guesses / users, 1.0)
    first = -_REACH if most > 0.5 else max(-float(ndtri(most)), -_REACH)
    gap = min(max(gap, _LEAST_GAP), _LARGEST_GAP)
    middle = 0.5 * gap**2
    logs = _logs(gap * first - middle, gap * (gap + _REACH) - middle, _GAUSSIAN_CELLS)
    score = logs / gap + 0.5 * gap
    # good to a few units of their exponent
    error = UNIT_ROUNDOFF * (8.0 + 4.0 * score**2)
    tails = _tails(logs, ndtr(gap - score), ndtr(-score), 1.0, error)
    return tails.success(users, guesses, "gaussian pair")


def gaussian_blanket(sigma: float, target: float, *, users: int, guesses: int = 1) -> Bracket:
    """Bound for Gaussian noise on {0, 1}, or on [0, 1], whose blanket is the same.

    Args:
        sigma: standard deviation of the noise, finite, > 0.
        target: the target's input, in [0, 1].
        users: messages n, the target's included, in [1, 2^53].
        guesses: positions k the adversary may name, in [1, n].

    Returns:
        Bracket of psi, an upper bound of the success probability whatever the other inputs.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
    """
    from scipy.special import ndtr

    sigma = min(max(validate.positive(sigma=sigma), _LEAST_SIGMA), _LARGEST_SIGMA)
    lean = abs(validate.closed_unit(target=target) - 0.5)
    users, guesses = checked_counts(users, guesses)
    # With u the distance of a message from 1/2, the logarithm of the ratio is linear in |u| on
    # either side, from the same value at u = 0; towards the target it rises faster.
    near, far = 1.0 + 2.0 * lean, 1.0 - 2.0 * lean
    scale = 2.0 * sigma * sigma
    start = (0.25 - lean * lean) / scale
    logs = _logs(start, start + near * (lean + _REACH * sigma) / scale, _GAUSSIAN_CELLS)
    reach = np.maximum(logs - start, 0.0) * scale
    right, left = reach / near, reach / far if far > 0.0 else np.full(reach.shape, math.inf)
    common = ndtr(-(right + 0.5) / sigma) + ndtr(-(left + 0.5) / sigma)
    own = ndtr((lean - right) / sigma) + ndtr(-(left + lean) / sigma)
    error = UNIT_ROUNDOFF * (16.0 + 4.0 * ((right + 0.5) / sigma) ** 2)
    total = 2.0 * float(ndtr(-0.5 / sigma))
    return _tails(logs, own, common, total, error).success(users, guesses, "blanket")


def _laplace(gap: float, dilution: float) -> RatioTails:
    """Laplace noise at a gap; decoys are blank but for a share of ``e^-dilution``."""
    gap, dilution = min(gap, _LARGEST_GAP), min(dilution, _LARGEST_GAP)
    logs = _logs(-gap, gap)
    # a last cell that is next to nothing: the largest ratio is an atom, which chords miss by a cell
    logs = np.insert(logs, -1, max(logs[-1] - _LAST_STEP, logs[-2]))
    inside = logs < gap
    decoys = np.where(inside, 0.5 * np.exp(-0.5 * (gap + logs)), 0.0)
    target = np.where(inside, 1.0 - 0.5 * np.exp(-0.5 * (gap - logs)), 0.0)
    share = math.exp(-dilution)
    # exponents are good to a unit of their size
    error = UNIT_ROUNDOFF * (16.0 + 2.0 * gap + dilution)
    kept = logs + dilution <= _LARGEST_LOG
    return _tails((logs + dilution)[kept], target[kept], share * decoys[kept], share, error)


def _logs(low: float, high: float, fewest: int = _FEWEST_CELLS) -> Array:
    """A grid of logarithms of ratios from one to the other."""
    low, high = np.clip([low, high], -_LARGEST_LOG, _LARGEST_LOG).tolist()
    cells = min(max(math.ceil((high - low) / _STEP), fewest), _MOST_CELLS)
    return np.linspace(low, high, cells + 1)


def _tails(
    logs: Array, target: Array, decoys: Array, total: float, error: float | Array
) -> RatioTails:
    """Tails on ``e^logs``, with ratio 0 before them and equal ratios left out."""
    ratios = np.concatenate([[0.0], np.exp(logs)])
    # of equal ratios the last one: there the tails are smallest, as to the right of an atom
    distinct = np.append(np.diff(ratios) > 0.0, True)
    every = np.broadcast_to(error, logs.shape)
    worst = float(np.max(every, initial=0.0))
    return RatioTails(
        ratios[distinct],
        np.concatenate([[1.0], target])[distinct],
        np.concatenate([[total], decoys])[distinct],
        np.concatenate([[worst], every])[distinct],
    )
