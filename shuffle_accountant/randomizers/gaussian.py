"""The Gaussian mechanism on one bit: the example pair of the paper's Section 5."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.arguments import FromArguments
from shuffle_accountant.randomizers.base import ConcreteRandomizer
from shuffle_accountant.randomizers.checks import category_values, generator

__all__ = ["GaussianRandomizer"]


@dataclass(frozen=True, init=False, repr=False)
class GaussianRandomizer(FromArguments, ConcreteRandomizer):
    """Input 0 or 1 plus Gaussian noise of standard deviation ``sigma``.

    The randomizer of Section 5 of 'Numerical Accounting in the Shuffle Model'. There all users but
    the target hold 0, and the target holds 0 or 1. That is an example pair of datasets, not a worst
    case over datasets: what is said of it bounds nothing else. Alone the message satisfies no pure
    local differential privacy.

    Args:
        sigma: standard deviation of the noise, finite, > 0, in units of the distance of the inputs.

    Attributes:
        sigma: standard deviation of the noise.

    Raises:
        TypeError: ``sigma`` is not a number.
        ValueError: ``sigma`` is not positive, NaN or infinite.
    """

    kind: ClassVar[str] = "gaussian"
    arguments: ClassVar[tuple[str, ...]] = ("sigma",)

    sigma: float

    def __init__(self, sigma: float) -> None:
        object.__setattr__(self, "sigma", validate.positive(sigma=sigma))

    @property
    def eps0(self) -> float:
        """Infinite: the ratio of two normal densities is not bounded."""
        return math.inf

    @property
    def inputs(self) -> int:
        """Two: the numbers 0 and 1, between which all measures are taken."""
        return 2

    @property
    def blanket_mass(self) -> float:
        """Mass of the smaller one of the two densities, ``2 Phi(-1/(2 sigma))``."""
        return math.erfc(math.sqrt(0.125) / self.sigma)

    def randomize(self, values: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
        """Add independent noise to each user's value.

        Args:
            values: integers 0 and 1, any shape.
            rng: source of randomness.

        Returns:
            The messages, any real numbers, of the same shape.

        Raises:
            TypeError: values that are not integers, or ``rng`` is not a generator.
            ValueError: a value other than 0 and 1.
        """
        own = category_values(values, 2)
        return np.asarray(own + generator(rng).normal(scale=self.sigma, size=own.shape))
