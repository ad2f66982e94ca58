"""The Gaussian mechanism on one bit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array, exponential, roundings
from shuffle_accountant.randomizers.base import FromArguments
from shuffle_accountant.randomizers.checks import category_values, generator
from shuffle_accountant.randomizers.continuous import ContinuousRandomizer
from shuffle_accountant.randomizers.ratio_tails import RatioTails, grid_of_logs

__all__ = ["GaussianRandomizer", "normal_blanket_tails", "normal_tails"]

# Least number of cells: a small gap or much noise spreads a short range of ratios over all scores.
_CELLS = 1 << 18
# Largest gap of the means (in standard deviations) and least sigma: there nothing hides the target,
# to a double. A larger gap, or less noise, helps the adversary no less: lower ends found there hold
# beyond too, and the upper ones are 1.
_LARGEST_GAP, _LEAST_SIGMA = 2e3, 1e-3
# Least gap and largest sigma: there the adversary learns nothing, to a double.
_LEAST_GAP, _LARGEST_SIGMA = 1e-150, 1e100
# Standard deviations beyond which a normal distribution has a probability below 1e-18.
_REACH = 9.0


@dataclass(frozen=True, init=False, repr=False)
class GaussianRandomizer(FromArguments, ContinuousRandomizer):
    """Input 0 or 1 plus Gaussian noise of standard deviation ``sigma``.

    The randomizer of Section 5 of 'Numerical Accounting in the Shuffle Model'. A round of it is
    bounded by its blanket, for all pairs of datasets. The paper's own numbers are those of an
    example: all users but the target hold 0, and the target holds 0 or 1. They bound nothing else,
    and are had by ``reduction="example"``. Alone the message satisfies no pure local differential
    privacy.

    Args:
        sigma: standard deviation of the noise, in [1e-100, 1e12], in units of the distance of the
            inputs.

    Attributes:
        sigma: standard deviation of the noise.
    """

    kind: ClassVar[str] = "gaussian"
    arguments: ClassVar[tuple[str, ...]] = ("sigma",)
    mass_error = 1e-11

    sigma: float

    def __init__(self, sigma: float) -> None:
        object.__setattr__(self, "sigma", validate.noise_multiplier(sigma=sigma))

    @property
    def eps0(self) -> float:
        """Infinite: the ratio of two normal densities is not bounded."""
        return math.inf

    @property
    def normal_noise(self) -> float:
        """Standard deviation of the noise: ``sigma``."""
        return self.sigma

    @property
    def symmetric(self) -> bool:
        """True: the noise is symmetric."""
        return True

    @property
    def crossing(self) -> float:
        """Halfway between the inputs."""
        return 0.5

    @property
    def blanket_mass(self) -> float:
        """Mass of the smaller one of the two densities, ``2 Phi(-1/(2 sigma))``."""
        return math.erfc(math.sqrt(0.125) / self.sigma)

    def cdf(self, x: float, y: Array) -> Array:
        """Probability of messages up to y from input x."""
        from scipy.special import ndtr

        return np.asarray(ndtr((y - x) / self.sigma), dtype=np.float64)

    def sf(self, x: float, y: Array) -> Array:
        """Probability of messages above y from input x."""
        from scipy.special import ndtr

        return np.asarray(ndtr((x - y) / self.sigma), dtype=np.float64)

    def log_density(self, x: float, y: Array) -> Array:
        """Logarithm of the normal density around x."""
        score = (y - x) / self.sigma
        return np.asarray(-0.5 * score**2 - math.log(self.sigma * math.sqrt(2.0 * math.pi)))

    def cell_edges(self, likelier: int, *, tail: float, resolution: float) -> Array:
        """Edges at equal distances, from 1/2 outwards.

        Args:
            likelier: 0 for messages below 1/2, 1 for those above.
            tail: mass that may lie beyond the last edge.
            resolution: square, about, of a cell's width in the logarithm of the ratio.
        """
        reach = self.sigma * math.sqrt(-2.0 * math.log(max(0.1 * tail, 1e-300)))
        step = min(self.sigma, self.sigma**2) * 2.0 * math.sqrt(resolution)
        count = min(math.ceil((0.5 + reach) / step) + 8, 1 << 15)
        edges = np.linspace(-reach, 0.5, count + 1)[::-1]
        return edges if likelier == 0 else 1.0 - edges

    def checked_input(self, *, target: object) -> float:
        """An input of a target: any number in [0, 1], for the blanket of all is the same."""
        return validate.closed_unit(target=target)

    def ratio_tails(
        self, target: float, other: float | None, *, unresolved: float = 0.0
    ) -> RatioTails:
        """Distribution of the likelihood ratio of the target's message to its decoys' messages.

        Args:
            target: the target's input, in [0, 1].
            other: the input that all others hold; None for the blanket, and else a blank.
            unresolved: smaller ratios may be taken together if decoys exceed them with a chance
                of at least this times 60.
        """
        if other is None:
            return normal_blanket_tails(self.sigma, abs(target - 0.5))
        return normal_tails(abs(target - other) / self.sigma, unresolved)

    def _log_ratio(self, likelier: int, y: Array) -> Array:
        """Log-likelihood ratio of one input to the other, which is linear in the message."""
        away = 0.5 - y if likelier == 0 else y - 0.5
        return np.asarray(away / self.sigma**2)

    def randomize(
        self, values: ArrayLike, rng: np.random.Generator | None = None
    ) -> NDArray[np.float64]:
        """Add independent noise to each user's value.

        Args:
            values: integers 0 and 1, any shape.
            rng: source of randomness; by default the operating system's cryptographic one.

        Returns:
            The messages, any real numbers, of the same shape.
        """
        own = category_values(values, 2)
        return np.asarray(own + generator(rng).normal(scale=self.sigma, size=own.shape))


def normal_tails(gap: float, unresolved: float = 0.0) -> RatioTails:
    """Ratio of normal noise around two means.

    Args:
        gap: distance of the means in standard deviations, >= 0.
        unresolved: smaller ratios are taken together where decoys exceed them with a chance of at
            least this times 60.
    """
    from scipy.special import ndtr, ndtri

    if gap == 0.0:
        certain = np.array([1.0, 0.0])  # that the ratio is 1
        return RatioTails(np.array([0.0, 1.0]), certain, certain, np.asarray(roundings(16)))
    # ratios that this many decoys exceed share one cell: all guesses go to the decoys above them
    most = min(60.0 * unresolved, 1.0)
    first = -_REACH if most > 0.5 else max(-float(ndtri(most)), -_REACH)
    gap = min(max(gap, _LEAST_GAP), _LARGEST_GAP)
    middle = 0.5 * gap**2
    logs = grid_of_logs(gap * first - middle, gap * (gap + _REACH) - middle, _CELLS)
    score = logs / gap + 0.5 * gap
    # good to a few units of their exponent
    error = exponential(roundings(4) * score**2)
    return RatioTails.of_logs(logs, ndtr(gap - score), ndtr(-score), 1.0, error)


def normal_blanket_tails(sigma: float, lean: float) -> RatioTails:
    """Ratio of normal noise to the blanket of the inputs 0 and 1.

    Args:
        sigma: standard deviation of the noise, > 0.
        lean: distance of the target's input from 1/2, in [0, 1/2].
    """
    from scipy.special import ndtr

    sigma = min(max(sigma, _LEAST_SIGMA), _LARGEST_SIGMA)
    # With u the distance of a message from 1/2, the logarithm of the ratio is linear in |u| on
    # either side, from the same value at u = 0; towards the target it rises faster.
    near, far = 1.0 + 2.0 * lean, 1.0 - 2.0 * lean
    scale = 2.0 * sigma * sigma
    start = (0.25 - lean * lean) / scale
    logs = grid_of_logs(start, start + near * (lean + _REACH * sigma) / scale, _CELLS)
    reach = np.maximum(logs - start, 0.0) * scale
    right, left = reach / near, reach / far if far > 0.0 else np.full(reach.shape, math.inf)
    common = ndtr(-(right + 0.5) / sigma) + ndtr(-(left + 0.5) / sigma)
    own = ndtr((lean - right) / sigma) + ndtr(-(left + lean) / sigma)
    error = exponential(roundings(4) * ((right + 0.5) / sigma) ** 2, own=8)
    total = 2.0 * float(ndtr(-0.5 / sigma))
    return RatioTails.of_logs(logs, own, common, total, error)
