"""Local randomization of the values before they are shuffled."""

from __future__ import annotations

from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import IntArray, RandomSource, random_source, renamed
from shuffle_accountant.order.experiments.arguments import values_below
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

__all__ = ["randomize"]


@renamed(eps="eps0")
def randomize(
    values: ArrayLike,
    *,
    categories: int,
    eps0: float,
    rng: RandomSource = None,
) -> IntArray:
    """k-ary randomized response: every value, or now and then a uniformly random one.

    Args:
        values: in 0 … categories - 1, shape (n,).
        categories: number of values, >= 2.
        eps0: local privacy, nats, finite, >= 0.
        rng: generator or seed.

    Returns:
        The reports, shape (n,).
    """
    categories = validate.integer(minimum=2, maximum=MOST_CATEGORIES, categories=categories)
    eps0 = validate.finite_nonnegative(eps0=eps0)
    response = RandomizedResponse(categories=categories, eps0=eps0)
    return response.randomize(values_below(categories, values=values), random_source(rng))
