"""The law of a sum of independent grid variables, with a bound on its rounding error.

This is the package's only convolution engine. It takes probability vectors that are already
tilted (exponentially re-weighted so that the sum concentrates where the question is asked) and
returns a window of the circular convolution of their powers. "Sum of T losses" and "sum of n
i.i.d. values" are both calls to `power_sum`.

Rounding. A fast Fourier transform is one butterfly path per input and output, so every output is
off by at most ``c u log2(N)`` times the 1-norm of the input, here 1. Raising to the power T
multiplies that error by T and by the (T-1)-st power of the modulus, which is summed in the 2-norm
(Parseval). The complex power adds T units in the last place of modulus and angle; the angle is kept
small by centring every factor on its mean first. The inverse transform adds ``c u log2(N)`` of the
result's 2-norm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.numerics.angles import TURN, cos_sin
from shuffle_accountant.numerics.budget import disturbed, rounded
from shuffle_accountant.numerics.fft import good_length, inverse_real_fft, real_fft
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    lowered,
    pairwise_sum,
    raised,
    roundings,
)


def per_level() -> float:
    """Bound on a transform's error per level, relative to the 1-norm of its input.

    A complex product and a sum, each at most sqrt(5) u (Higham, "Accuracy and Stability", Lemma
    3.5), plus an error of one unit in the twiddle factor.
    """
    return roundings(10)


@dataclass(frozen=True, eq=False)
class Factor:
    """A probability vector on the integers, to be added up ``count`` times.

    Attributes:
        offset: integer of the first entry.
        mass: probabilities, shape (m,), >= 0, sum about 1.
        count: number of independent copies, >= 1.
        mass_error: bound on the 1-norm of the error of ``mass``.
    """

    offset: int
    mass: Array
    count: int
    mass_error: float


@dataclass(frozen=True, eq=False)
class WindowedSum:
    """A window of the law of the sum.

    ``mass[i]`` belongs to the integer ``start + i``; mass outside the window is wrapped into it.
    ``error`` bounds the 2-norm of the rounding error of ``mass``.
    """

    start: int
    mass: Array
    error: float


@dataclass(eq=False)
class Powers:
    """The lower half of the spectrum of a sum, as logarithms and angles (radians) of one shape.

    Attributes:
        log_bound: logarithm of a bound on the exact modulus, errors of the factors included.
        moved: bound on the errors of logarithm and angle together.
    """

    log_modulus: Array
    log_bound: Array
    angle: Array
    moved: Array


def power_sum(factors: Sequence[Factor], start: int, length: int) -> WindowedSum:
    """Law of the sum of all factors, modulo the window's length.

    Args:
        factors: vectors to add up; each costs one forward transform.
        start: first integer of the window.
        length: least length of the window; rounded up to a fast one.
    """
    size = good_length(length)
    half = size // 2 + 1
    powers = Powers(*(np.zeros(half) for _ in range(4)))
    centre = 0
    levels = math.log2(size) + 1
    for factor in factors:
        total = float(factor.mass.sum())
        mean = float(np.sum(factor.mass * np.arange(factor.mass.size))) / max(total, 1e-300)
        middle = factor.offset + round(mean)
        centre += factor.count * middle
        spectrum = real_fft(place_on_circle(factor.mass, factor.offset - middle, size))
        spectrum = disturbed(spectrum, per_level() * levels * max(total, 1.0))
        turn = np.angle(spectrum)
        modulus = np.abs(spectrum)
        del spectrum
        noise = per_level() * levels * max(total, 1.0) + factor.mass_error
        powers.log_bound += factor.count * np.log(modulus + noise)
        with np.errstate(divide="ignore"):
            np.log(modulus, out=modulus)
        modulus = disturbed(modulus, lambda: roundings(ELEMENTARY))
        powers.log_modulus += factor.count * modulus
        powers.angle += factor.count * turn
        # a modulus of 0 has no rounding error of its own: its power is bounded by log_bound
        np.maximum(modulus, -1e3, out=modulus)
        np.abs(turn, out=turn)
        turn -= modulus
        # both are elementary functions of a number good to a few roundings, times the count
        turn += 1.0
        turn *= factor.count * roundings(ELEMENTARY + 1 + len(factors))
        powers.moved += turn
    return invert(powers, start, centre, size)


def invert(powers: Powers, start: int, centre: int, size: int) -> WindowedSum:
    """The window of the law whose spectrum is known; ``powers`` is used up.

    Args:
        powers: the spectrum, with what it may be off by.
        start: first integer of the window, of length ``size``.
        centre: integer that the spectrum's law was moved from to 0.
        size: length of the window.
    """
    log_modulus, log_bound, angle = powers.log_modulus, powers.log_bound, powers.angle
    moved, levels = powers.moved, math.log2(size) + 1
    modulus = rounded(np.exp(log_modulus, out=log_modulus), ELEMENTARY)
    bound = np.exp(log_bound, out=log_bound)
    # With a logarithm off by m, the exact power is off by at most ``bound e^m - modulus e^-m`` from
    # that of the computed base, and that by ``modulus (e^m - 1)`` from what is computed: by at most
    # ``bound - modulus + 3 bound (e^m - 1)`` together. Besides there are an exponential, a cosine
    # or sine and their product.
    np.minimum(moved, 600.0, out=moved)
    np.expm1(moved, out=moved)
    own = roundings(ELEMENTARY + TURN + 2)
    moved *= 3.0 * (1.0 + own)
    moved += own
    moved *= bound
    bound -= lowered(modulus, roundings(2 * ELEMENTARY))
    bound += moved
    spectrum = np.empty(modulus.size, dtype=complex)
    cosine, sine = cos_sin(angle)
    np.multiply(modulus, cosine, out=spectrum.real)
    np.multiply(modulus, sine, out=spectrum.imag)
    norm = math.sqrt(2.0 / size)
    inverse = norm * _norm(modulus) * per_level() * levels
    error = norm * _norm(bound) + inverse
    # nothing but the spectrum is needed from here on
    powers.log_modulus = powers.log_bound = powers.angle = powers.moved = np.zeros(0)
    del modulus, bound, cosine, sine, angle, moved, log_modulus, log_bound
    # the bound is on the 2-norm of the error, all of which may be at one point
    result = disturbed(inverse_real_fft(spectrum, size), lambda: inverse * (np.arange(size) == 0))
    return WindowedSum(start, np.roll(result, -((start - centre) % size)), error)


def _norm(values: Array) -> float:
    """2-norm, by a pairwise sum: it must not wake a second thread, and its rounding is bounded."""
    return raised(math.sqrt(float(np.sum(np.square(values)))), pairwise_sum(own=2))


def place_on_circle(mass: Array, offset: int, size: int) -> Array:
    """Place vectors, along the last axis, on a circle of the given size."""
    rows, width, position = mass.shape[:-1], mass.shape[-1], offset % size
    turns = max(math.ceil((position + width) / size), 1)
    around = np.zeros((*rows, turns * size))
    around[..., position : position + width] = mass
    return np.asarray(around.reshape(*rows, turns, size).sum(axis=-2))
