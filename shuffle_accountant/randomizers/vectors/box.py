"""Messages on the corners of a cube, or on a few of its coordinates: randomizers for the l∞ ball.

Both first round every coordinate x_j that they look at to v_j = +1 or -1, with chances
``(1 ± x_j/radius)/2``; that is unbiased and costs no privacy.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.checks import Rows
from shuffle_accountant.randomizers.vectors.base import VectorRandomizer, flips, safe_probability


@dataclass(frozen=True, init=False, repr=False)
class _BoxRandomizer(VectorRandomizer):
    """Inputs are vectors with coordinates in [-radius, radius]."""

    ball: ClassVar[str] = "l-infinity"

    @property
    @abstractmethod
    def scale(self) -> float:
        """Absolute value of the coordinates of a message that are not 0."""

    @property
    def largest_coordinate(self) -> float:
        """``scale``."""
        return self.scale

    def _largest_norm(self) -> float:
        return self.radius * math.sqrt(self.dimension)

    def _norms(self, rows: Rows) -> Array:
        return np.asarray(np.abs(rows).max(axis=1), np.float64)


@dataclass(frozen=True, init=False, repr=False)
class DuchiLInf(_BoxRandomizer):
    """The l∞ mechanism of Duchi, Jordan and Wainwright (2018, Section 4.2).

    The message is a corner t of a cube: with probability p = e^eps0/(e^eps0+1) one that agrees with
    v in more than half of the coordinates, else one that agrees in fewer, all equally likely.
    Corners that agree in exactly half (even d) tell nothing; here they have the chance 2^-d
    whatever the input. That is between the others' and lowers the variance a little: as published
    they belong to both halves.

    Coordinates of messages are ± radius/m, ``m = (2p - 1) C(2k, k)/4^k`` with k = d // 2. The
    variance is ``d radius^2/m^2 - |x|^2``, about ``radius^2 pi d^2/(2 tanh^2(eps0/2))``. Chances of
    corners are exact, so privacy holds of the very floats returned.
    """

    kind: ClassVar[str] = "duchi-linf"

    @property
    def probability(self) -> float:
        """Chance p of a corner that agrees; a multiple of 2^-53."""
        return safe_probability(self.eps0)

    @property
    def scale(self) -> float:
        """Absolute value of every coordinate of a message."""
        from scipy.special import beta

        # C(2k, k)/4^k = B(k + 1/2, 1/2)/pi is the mean of |<t, v>|/d for a uniform corner t
        agreement = float(beta(self.dimension // 2 + 0.5, 0.5)) / math.pi
        return self.radius / (agreement * (2.0 * self.probability - 1.0))

    @property
    def second_moment(self) -> float:
        """``d scale^2``."""
        return self.dimension * self.scale**2

    def _fill(self, rows: Rows, norms: Array, messages: Rows, rng: np.random.Generator) -> None:
        count, dimension = rows.shape
        values = rng.random(rows.shape) < 0.5 + (0.5 / self.radius) * rows.astype(np.float64)
        width = -(-dimension // 8)
        bits = np.frombuffer(rng.bytes(count * width), np.uint8).reshape(count, width)
        corners = np.unpackbits(bits, axis=1, count=dimension).view(np.bool_)
        excess = 2 * np.count_nonzero(corners == values, axis=1) - dimension
        agree = flips(rng, self.probability, count)
        # minus a corner agrees where the corner does not: turn those on the wrong side
        corners ^= np.where(agree, excess < 0, excess > 0)[:, None]
        np.multiply(corners, 2.0 * self.scale, out=messages, casting="same_kind")
        messages -= self.scale


@dataclass(frozen=True, init=False, repr=False)
class SampledCoordinates(_BoxRandomizer):
    """Binary randomized response on a few coordinates, drawn at random.

    k of the d coordinates are drawn, uniformly and without replacement; each v_j of them is kept or
    turned by randomized response with eps0/k; the others are 0 in the message. Nguyên et al. 2016
    (k = 1), Wang et al. 2019, "Collecting and analyzing multidimensional data with local
    differential privacy" (k > 1).

    The coordinates drawn are ± ``radius (d/k)/(2p - 1)``, p/(1-p) = e^(eps0/k), and the variance is
    ``radius^2 d^2/(k (2p - 1)^2) - |x|^2``. Chances are exact, so privacy holds of the very floats
    returned. A message is k coordinates and k signs, which is the point of it.

    Args:
        dimension: length d of the vectors, >= 1.
        eps0: local privacy parameter in nats, in [1e-9, 700].
        radius: largest absolute value of a coordinate, finite, > 0.
        coordinates: k, in [1, d]; by default the one with the least variance, about eps0/2.2.
    """

    kind: ClassVar[str] = "sampled-coordinates"
    arguments: ClassVar[tuple[str, ...]] = ("dimension", "eps0", "radius", "coordinates")

    coordinates: int

    def __init__(
        self, *, dimension: int, eps0: float, radius: float = 1.0, coordinates: int | None = None
    ) -> None:
        super().__init__(dimension=dimension, eps0=eps0, radius=radius)
        if coordinates is None:  # beyond eps0 the variance only grows
            few = range(1, min(self.dimension, math.ceil(self.eps0)) + 1)
            coordinates = min(few, key=lambda k: 1.0 / (k * math.tanh(0.5 * self.eps0 / k) ** 2))
        most = self.dimension
        chosen = validate.integer(minimum=1, maximum=most, coordinates=coordinates)
        vars(self).update(coordinates=chosen)

    @property
    def probability(self) -> float:
        """Chance p that a coordinate drawn keeps its sign; a multiple of 2^-53."""
        return safe_probability(self.eps0 / self.coordinates)

    @property
    def scale(self) -> float:
        """Absolute value of the coordinates drawn."""
        return self.radius * self.dimension / (self.coordinates * (2.0 * self.probability - 1.0))

    @property
    def second_moment(self) -> float:
        """``k scale^2``."""
        return self.coordinates * self.scale**2

    def _fill(self, rows: Rows, norms: Array, messages: Rows, rng: np.random.Generator) -> None:
        count = len(rows)
        drawn = _subsets(self.dimension, self.coordinates, count, rng)
        values = np.take_along_axis(rows, drawn, axis=1).astype(np.float64)
        up = rng.random(values.shape) < 0.5 + (0.5 / self.radius) * values
        up ^= ~flips(rng, self.probability, up.size).reshape(up.shape)
        messages[:] = 0.0
        signs = np.where(up, self.scale, -self.scale).astype(messages.dtype)
        np.put_along_axis(messages, drawn, signs, axis=1)


def _subsets(size: int, chosen: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Uniform subsets of {0 … size-1}, shape (count, chosen), by Floyd's method.

    In turn for every j from size-chosen on: a number from 0 … j, or j if that one is taken.
    """
    subsets = np.empty((count, chosen), np.int64)
    for i, last in enumerate(range(size - chosen, size)):
        number = rng.integers(last, size=count, endpoint=True)
        taken = (subsets[:, :i] == number[:, None]).any(axis=1)
        subsets[:, i] = np.where(taken, last, number)
    return subsets
