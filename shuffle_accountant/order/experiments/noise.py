"""Local randomization of the values before they are shuffled."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import IntArray, random_source
from shuffle_accountant.order.experiments.arguments import values_below
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

__all__ = ["randomize"]


def randomize(
    values: ArrayLike,
    *,
    categories: int,
    eps: float,
    rng: np.random.Generator | int | None = None,
) -> IntArray:
    """k-ary randomized response: every value, or now and then a uniformly random one.

    Args:
        values: in 0 … categories - 1, shape (n,).
        categories: number of values, >= 2.
        eps: local privacy, nats, finite, >= 0.
        rng: generator or seed.

    Returns:
        The reports, shape (n,).

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
    """
    categories = validate.integer(minimum=2, maximum=MOST_CATEGORIES, categories=categories)
    eps = validate.finite_nonnegative(eps=eps)
    response = RandomizedResponse(categories=categories, eps0=eps)
    truth = values_below(response.categories, values=values)
    generator = random_source(rng)
    noise = generator.integers(response.categories, size=truth.size)
    return np.where(generator.random(truth.size) < response.gamma, noise, truth)
