"""Continuous laws, by the distribution of their likelihood ratio, between two certified ends.

All that counts of two distributions is how the ratio w = P/Q is distributed: ``Q(w > t)`` and ``P(w
> t)``, the complements of the distribution functions G and F of 'Bayesian Advantage of
Re-Identification Attack in the Shuffle Model', equation 6. On a grid of ratios t_0 = 0 < t_1 < …
the mean of ``Q(w > t)`` over a cell is known exactly,

    A = (H(a) - H(b)) / (b - a),    H(t) = E_Q (w - t)_+ = P(w > t) - t Q(w > t),

and the hits m_k (see `hits`) are concave. So over a cell their integral is at most that of m_k(A)
(Jensen), and at least that of the chord between the cell's ends, at A. Beyond the last ratio T it
is at most n H(T), and at least (1 - n Q(w > T)/2) of that. Both ends are second order in the width
of the cells, atoms and kinks included, and hold on any grid.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger, in_order
from shuffle_accountant.leakage.arguments import numbers
from shuffle_accountant.leakage.reidentification.success import (
    checked_counts,
    expected_hits,
    hits_error,
)
from shuffle_accountant.numerics.rounding import (
    Array,
    lowered,
    pairwise_sum,
    product,
    raised,
    roundings,
)
from shuffle_accountant.randomizers.continuous import RatioTails
from shuffle_accountant.randomizers.noise import laplace_tails, normal_blanket_tails, normal_tails

Tail = Callable[[Array], ArrayLike]

# Least likelihood ratio: a narrower cell has no slope that is a double.
_LEAST_RATIO = 1e-280


def success_from_tails(tails: RatioTails, users: int, guesses: int, name: str) -> Bracket:
    """Bracket, of that name, of the success probability of k guesses among n messages."""
    if guesses == users:
        return Bracket(lower=1.0, upper=1.0, reduction=name)
    width = np.diff(tails.ratios)
    gain = np.maximum(tails.target - tails.ratios * tails.decoys, 0.0)
    slack = product(tails.error, roundings(4))
    blur = slack * (tails.target + tails.ratios * tails.decoys)
    mean = (gain[:-1] - gain[1:]) / width
    doubt = (blur[:-1] + blur[1:]) / width
    most = np.minimum(raised(tails.decoys, slack), 1.0)[:-1]
    least = lowered(tails.decoys, slack)[1:]
    high = np.clip(mean + doubt, least, most)
    low = np.clip(mean - doubt, least, most)
    run = most - least
    share = np.where(run > 0.0, (low - least) / np.where(run > 0.0, run, 1.0), 1.0)

    def hits(above: Array) -> Array:
        return expected_hits(users, above, guesses) / users

    chord = share * hits(most) + (1.0 - share) * hits(least)
    rest = min(1.0, 0.5 * users * float(tails.decoys[-1]))
    over = gain[-1] + blur[-1]
    under = max(float(gain[-1] - blur[-1]), 0.0) * (1.0 - rest)
    # sums and products of positive terms, and the ratios' own rounding
    own = product(pairwise_sum(own=8), hits_error(guesses))
    upper = min(raised(float(np.sum(width * hits(high)) + over), own), 1.0)
    lower = max(lowered(float(np.sum(width * chord) + under), own), lowered(guesses / users, own))
    lower, upper = in_order(lower, upper)
    ledger = ErrorLedger(
        discretisation=max(upper - lower - 2.0 * own * upper, 0.0),
        round_off=min(2.0 * own * upper, upper - lower),
    )
    return Bracket(lower=lower, upper=upper, ledger=ledger, reduction=name)


def success_from_ratio_law(
    target_above: Tail,
    decoys_above: Tail,
    *,
    ratios: ArrayLike,
    users: int,
    guesses: int = 1,
    error: float = 1e-15,
) -> Bracket:
    """Success probability for any two distributions whose likelihood ratio w has known tails.

    Discrete, continuous or mixed; see the module for the method. The bracket holds on any grid;
    its width falls with the square of the largest step of the ratios' logarithm.

    Args:
        target_above: ``P(w > t)`` of an array of ratios t, w = inf included.
        decoys_above: ``Q(w > t)``; at most ``1/t``.
        ratios: the grid: at least 1e-280, finite, strictly rising; 0 is put before it. It
            should reach to the largest ratio, or to where ``P(w > t)`` does not count.
        error: relative error of the two functions' values, in [0, 1].

    """
    users, guesses = checked_counts(users, guesses)
    error = validate.closed_unit(error=error)
    target_above = validate.function(target_above=target_above)
    decoys_above = validate.function(decoys_above=decoys_above)
    inner = numbers(ratios=ratios)
    if inner.ndim != 1 or not inner.size:
        raise ValueError(f"ratios must have one dimension and an entry, got shape {inner.shape}")
    grid = np.concatenate([[0.0], inner])
    if not (np.all(np.isfinite(inner)) and np.all(grid[1:] > grid[:-1])):
        raise ValueError("ratios must be positive, finite and strictly rising, got other numbers")
    if inner[0] < _LEAST_RATIO:
        raise ValueError(f"ratios must be at least {_LEAST_RATIO:g}, got {float(inner[0])!r}")
    tails = RatioTails(
        grid,
        _values("target_above", target_above, grid),
        _values("decoys_above", decoys_above, grid),
        np.asarray(error),
    )
    if not abs(tails.target[0] - 1.0) <= 1e-9:
        raise ValueError(f"target_above must be 1 at ratio 0, got {float(tails.target[0])!r}")
    # E_Q (w - t)_+ is not negative
    excess = tails.ratios * tails.decoys - tails.target * (1.0 + 2.0 * error + 1e-12)
    if np.any(excess > 0.0):
        at = float(grid[int(np.argmax(excess))])
        raise ValueError(f"decoys_above must be at most target_above/ratio, got more at {at!r}")
    return success_from_tails(tails, users, guesses, "ratio law")


def _values(name: str, tail: Tail, grid: Array) -> Array:
    """The tail at the grid, if it is one."""
    try:
        found = tail(grid)
    except (TypeError, ValueError) as failure:
        raise type(failure)(f"{name} must take an array of ratios: {failure}") from failure
    values = numbers(**{name: found})
    if values.shape != grid.shape:
        raise ValueError(f"{name} must return an array of its argument's shape, got {values.shape}")
    if not np.all((values >= 0.0) & (values <= 1.0 + 1e-9)):
        raise ValueError(f"{name} must have values in [0, 1], got other numbers")
    if np.any(np.diff(values) > 0.0):
        raise ValueError(f"{name} must not rise with the ratio")
    return np.minimum(values, 1.0)


def laplace_success(gap: float, *, users: int, guesses: int = 1) -> Bracket:
    """Success probability for one message with Laplace noise among n - 1 around another mean.

    Args:
        gap: distance D of the means in units of the scale, finite, >= 0.
    """
    gap = validate.finite_nonnegative(gap=gap)
    users, guesses = checked_counts(users, guesses)
    return success_from_tails(laplace_tails(gap, 0.0), users, guesses, "laplace pair")


def laplace_blanket(eps0: float, target: float, *, users: int, guesses: int = 1) -> Bracket:
    """Psi, a bound whatever the other inputs, for Laplace noise on [0, 1].

    The blanket is ``e^(-eps0/2)`` of the noise around 1/2.
    """
    eps0 = validate.positive(eps0=eps0)
    gap = eps0 * abs(validate.closed_unit(target=target) - 0.5)
    users, guesses = checked_counts(users, guesses)
    return success_from_tails(laplace_tails(gap, 0.5 * eps0), users, guesses, "blanket")


def gaussian_success(gap: float, *, users: int, guesses: int = 1) -> Bracket:
    """Success probability for one message with Gaussian noise among n - 1 around another mean.

    Args:
        gap: distance d of the means in standard deviations, finite, >= 0.
    """
    gap = validate.finite_nonnegative(gap=gap)
    users, guesses = checked_counts(users, guesses)
    return success_from_tails(normal_tails(gap, guesses / users), users, guesses, "gaussian pair")


def gaussian_blanket(sigma: float, target: float, *, users: int, guesses: int = 1) -> Bracket:
    """Psi, a bound whatever the other inputs, for Gaussian noise on {0, 1} or on [0, 1].

    Args:
        sigma: standard deviation of the noise, finite, > 0.
    """
    sigma = validate.positive(sigma=sigma)
    lean = abs(validate.closed_unit(target=target) - 0.5)
    users, guesses = checked_counts(users, guesses)
    return success_from_tails(normal_blanket_tails(sigma, lean), users, guesses, "blanket")
