"""Hockey-stick divergences by sampling: an estimate with its confidence interval.

A cross-check that shares nothing with the engine but the definition. With L the privacy loss,

    H_alpha(P‖Q) = E_P[ (1 - alpha e^-L)_+ ],

the mean of values in [0, 1], for which samples of P and their losses are enough. The interval is
that of the central limit theorem when at least `ENOUGH` of the values are positive; otherwise it
reaches from 0 to Clopper and Pearson's upper end for the chance that a value is positive, which
bounds the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

import shuffle_accountant as sa
from shuffle_accountant.progress import Report, progress_bar

__all__ = ["ENOUGH", "Estimate", "decoy_losses", "estimate", "gaussian_losses"]

Array = NDArray[np.float64]

# Draws so many samples of P and returns their privacy losses.
Sampler = Callable[[np.random.Generator, int], Array]

ENOUGH = 100
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The mean of many samples.

    Attributes:
        epsilon: nats.
        value: estimate of delta.
        lower: lower end of the confidence interval, >= 0.
        upper: upper end, <= 1.
        samples: how many were drawn.
    """

    epsilon: float
    value: float
    lower: float
    upper: float
    samples: int

    @property
    def relative_accuracy(self) -> float:
        """Half the interval's width over the estimate; inf where that is 0."""
        return 0.5 * (self.upper - self.lower) / self.value if self.value > 0 else math.inf

    def agrees(self, bracket: sa.Bracket) -> bool:
        """Whether the interval and a certified bracket overlap."""
        return self.lower <= bracket.upper and bracket.lower <= self.upper


def estimate(
    losses: Sampler,
    epsilons: Sequence[float],
    *,
    samples: int,
    seed: int,
    confidence: float = 0.999,
    report: Report | None = None,
) -> list[Estimate]:
    """Estimate delta at every epsilon, from the same samples.

    An interruption from the keyboard ends the sampling: the answer is then from the samples drawn
    so far, as `Estimate.samples` tells. Without any it is passed on.

    Args:
        losses: draws samples of P.
        epsilons: nats, shape (m,).
        samples: how many to draw, >= 2.
        seed: the same seed gives the same estimates.
        confidence: chance that one interval covers the true value, in (0, 1).
        report: told the fraction done; by default a progress bar shows it on a terminal.

    Returns:
        One estimate per epsilon.
    """
    rng = np.random.default_rng(seed)
    alphas = np.exp(np.asarray(epsilons, dtype=float))
    positive, total, squares = np.zeros((3, alphas.size))
    drawn = 0
    with progress_bar("sampling") if report is None else nullcontext(report) as tell:
        try:
            while drawn < samples:
                size = min(_CHUNK, samples - drawn)
                ratios = np.exp(-losses(rng, size))
                values = np.maximum(1.0 - alphas[:, None] * ratios, 0.0)
                sums = (values > 0.0).sum(axis=1), values.sum(axis=1), (values**2).sum(axis=1)
                # nothing below is left half done by an interruption that matters
                positive, total, squares = positive + sums[0], total + sums[1], squares + sums[2]
                drawn += size
                tell(drawn / samples)
        except KeyboardInterrupt:
            if drawn < 2:
                raise
    return [
        _estimate(float(epsilon), *figures, drawn, confidence)
        for epsilon, *figures in zip(epsilons, positive, total, squares, strict=True)
    ]


def _estimate(
    epsilon: float, positive: float, total: float, squares: float, drawn: int, confidence: float
) -> Estimate:
    mean = float(total / drawn)
    if positive >= ENOUGH:
        variance = max(float(squares) / drawn - mean * mean, 0.0)
        reach = -float(ndtri(0.5 - 0.5 * confidence)) * math.sqrt(variance / (drawn - 1))
        lower, upper = max(mean - reach, 0.0), min(mean + reach, 1.0)
    else:
        lower = 0.0
        upper = float(betaincinv(positive + 1.0, max(drawn - positive, 0.5), confidence))
    return Estimate(epsilon=epsilon, value=mean, lower=lower, upper=upper, samples=drawn)


def gaussian_losses(sigma: float, users: int) -> Sampler:
    """Losses of M(X') against M(X): X is ``users`` zeros, X' has a 1 in its place of one.

    Everyone adds Gaussian noise and the messages are shuffled. The density of M(X') relative to
    that of M(X) is the mean of ``exp((2 y_i - 1)/(2 sigma^2))``.
    """

    def draw(rng: np.random.Generator, size: int) -> Array:
        messages = sigma * rng.standard_normal((users, size))
        messages[0] += 1.0
        ratios: Array = np.exp((messages - 0.5) / sigma**2)
        return np.log(ratios.mean(axis=0))

    return draw


def decoy_losses(pair: sa.TargetAmongDecoys) -> Sampler:
    """Losses of one target among decoys, from samples of the messages themselves.

    Raises:
        ValueError: the target may send a letter that no decoy sends.
    """
    p0, p1, q = (np.array(law) for law in (pair.p0, pair.p1, pair.q))
    if np.any((q == 0.0) & ((p0 > 0.0) | (p1 > 0.0))):
        raise ValueError(f"q must be positive where p0 or p1 is, got {pair}")
    seen = q > 0.0
    p0, p1, q = p0[seen], p1[seen], q[seen]

    def draw(rng: np.random.Generator, size: int) -> Array:
        counts = rng.multinomial(pair.n - 1, q / q.sum(), size=size)
        counts += rng.multinomial(1, p0 / p0.sum(), size=size)
        return np.log(counts @ (p0 / q)) - np.log(counts @ (p1 / q))

    return draw
