"""The Laplace mechanism as a local randomizer of one number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.arguments import FromArguments
from shuffle_accountant.randomizers.base import ConcreteRandomizer
from shuffle_accountant.randomizers.checks import generator, unit_values

__all__ = ["LaplaceRandomizer"]


@dataclass(frozen=True, init=False, repr=False)
class LaplaceRandomizer(FromArguments, ConcreteRandomizer):
    """A number in [0, 1] plus Laplace noise of scale ``1/eps0``.

    The density of the message y is ``eps0/2 exp(-eps0 |y - x|)`` for input x. Its least value over
    all x in [0, 1] is the one at the end that is further from y, 0 or 1, so the blanket is that of
    these two inputs.

    Privacy is that of real-valued noise; sampled doubles follow it up to their rounding.

    Args:
        eps0: local privacy parameter in nats, finite, > 0.

    Raises:
        TypeError: ``eps0`` is not a number.
        ValueError: ``eps0`` is not positive, NaN or infinite.
    """

    kind: ClassVar[str] = "laplace"
    arguments: ClassVar[tuple[str, ...]] = ("eps0",)

    _eps0: float

    def __init__(self, eps0: float) -> None:
        object.__setattr__(self, "_eps0", validate.positive(eps0=eps0))

    @property
    def eps0(self) -> float:
        """Local privacy parameter, nats."""
        return self._eps0

    @property
    def scale(self) -> float:
        """Scale of the noise, ``1/eps0``; its standard deviation is sqrt(2) times that."""
        return 1.0 / self._eps0

    @property
    def inputs(self) -> int:
        """Two: the numbers 0 and 1, between which all measures are taken."""
        return 2

    @property
    def blanket_mass(self) -> float:
        """Probability that a message is a draw from the blanket: ``e^(-eps0/2)``."""
        return math.exp(-0.5 * self._eps0)

    def randomize(self, values: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
        """Add independent noise to each user's value.

        Args:
            values: numbers in [0, 1], any shape.
            rng: source of randomness.

        Returns:
            The messages, any real numbers, of the same shape.

        Raises:
            TypeError: values that are not numbers, or ``rng`` is not a generator.
            ValueError: a value outside [0, 1], or NaN.
        """
        own = unit_values(values)
        return np.asarray(own + generator(rng).laplace(size=own.shape) / self._eps0)
