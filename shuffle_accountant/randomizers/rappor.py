"""Basic one-time RAPPOR: one bit per category, each flipped now and then."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant.randomizers.categorical import FrequencyOracle, Probabilities
from shuffle_accountant.randomizers.checks import category_values, generator

__all__ = ["RAPPOR"]

# Largest number of bits whose sum always fits into an unsigned byte.
_BITS = 255


@dataclass(frozen=True, init=False, repr=False)
class RAPPOR(FrequencyOracle):
    """Basic one-time RAPPOR (Erlingsson et al. 2014), also called symmetric unary encoding.

    The value x is written as k bits, of which bit x alone is one, and each bit is flipped with
    probability ``s = 1 / (e^(eps0/2) + 1)``. With ``t = 1 - s``, and f(y) the chance of the bits y
    from k zeros, the message has chance ``f(y) t/s`` from an input whose bit in y is one and ``f(y)
    s/t`` from the other inputs.

    Args:
        categories: number k of values, 2 <= k <= 2^53 (a message has k bits).
        eps0: local privacy parameter in nats, finite, > 0.

    Attributes:
        categories: number k of values.
    """

    kind: ClassVar[str] = "rappor"
    message_axes: ClassVar[int] = 1

    @property
    def flip_probability(self) -> float:
        """Probability s that a bit is flipped."""
        return math.exp(-0.5 * self._eps0) * self._stay_probability

    @property
    def _stay_probability(self) -> float:
        return 1.0 / (1.0 + math.exp(-0.5 * self._eps0))

    def _pattern_chances(
        self, asked: tuple[int, ...], bits: NDArray[np.bool_]
    ) -> tuple[Probabilities, Probabilities]:
        flip, stay = self.flip_probability, self._stay_probability
        ones = np.count_nonzero(bits, axis=1)
        zeros = len(asked) - ones
        # f is flip^ones stay^zeros; times stay/flip and flip/stay
        from_one = flip ** np.maximum(ones - 1.0, 0.0) * stay ** (zeros + 1.0)
        from_zero = flip ** (ones + 1.0) * stay ** (zeros - 1.0)
        return from_one, from_zero

    @property
    def _rate(self) -> float:
        return self.flip_probability

    def _rest_agrees(self, asked: tuple[int, ...]) -> float:
        rest: float = self.flip_probability ** (self.categories - len(asked))
        return rest

    def randomize(
        self, values: ArrayLike, rng: np.random.Generator | None = None
    ) -> NDArray[np.bool_]:
        """Randomize each user's value independently.

        Args:
            values: integers in 0 … k - 1, any shape.
            rng: source of randomness; by default the operating system's cryptographic one.

        Returns:
            The bits, shape ``(*values.shape, k)``.
        """
        own = category_values(values, self.categories)[..., np.newaxis]
        uniform = generator(rng).random((*own.shape[:-1], self.categories))
        bits = uniform < self.flip_probability
        np.put_along_axis(bits, own, ~np.take_along_axis(bits, own, axis=-1), axis=-1)
        return bits

    @property
    def yes_probabilities(self) -> tuple[float, float]:
        """A message says yes to the categories whose bits are one."""
        return self._stay_probability, self.flip_probability

    def _counted(self, messages: Any) -> tuple[NDArray[np.int64], int]:
        bits = np.asarray(messages)
        if bits.dtype.kind != "b":
            raise TypeError(f"messages must be bits, an array of bool, got one of {bits.dtype}")
        if bits.ndim == 0 or bits.shape[-1] != self.categories:
            raise ValueError(f"messages must have shape (..., {self.categories}), got {bits.shape}")
        rows = bits.reshape(-1, self.categories).view(np.uint8)
        counts = np.zeros(self.categories, dtype=np.int64)
        for start in range(0, len(rows), _BITS):
            counts += np.add.reduce(rows[start : start + _BITS], axis=0, dtype=np.uint8)
        return counts, len(rows)
