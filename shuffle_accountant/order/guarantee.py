"""Privacy of several shuffles together, and a check of the guarantee by listing all outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import IntArray, permutation
from shuffle_accountant.order.distances import DISTANCES
from shuffle_accountant.order.groups import Groups

__all__ = ["compose", "verify_alpha"]

_MOST_VERIFIED = 7
# Largest theta: above, logarithms of masses may be no doubles.
_MOST_THETA = 1e300


def compose(alphas: Iterable[float]) -> float:
    """Alpha of several releases of the same data with independent randomness: the sum.

    For one collection of groups (Meehan et al., Theorem A.2). Attained, so not to be improved.

    Args:
        alphas: the alpha of each release, nats, >= 0, infinity allowed.

    Returns:
        Nats, in [0, inf]; 0 for no release.
    """
    spent = [validate.nonnegative(alpha=alpha) for alpha in validate.items(alphas=alphas)]
    try:
        return math.inf if math.inf in spent else math.fsum(spent)
    except OverflowError:  # the sum is above the largest float
        return math.inf


def verify_alpha(
    groups: Groups, order: ArrayLike, theta: float, *, distance: str = "kendall"
) -> float:
    """The alpha that a shuffle has, from the law of its output: no sensitivity, no theorem.

    All n! outputs for distinct values are listed as the mechanism makes them, ``s[order] =
    order[rho]``, with their masses; those which a permutation of one group's values turns into
    each other are compared. For tests and for looking at small cases.

    Args:
        groups: groups of at most 7 users.
        order: reference order, entry k is the user at rank k, shape (n,).
        theta: concentration of the Mallows law, in [0, 1e300].
        distance: any of the six of `sensitivity`.

    Returns:
        The largest log ratio, nats; for an exact sensitivity it is theta times it.
    """
    n = validate.instance(Groups, groups=groups).n
    if n > _MOST_VERIFIED:
        raise ValueError(f"groups must be of at most {_MOST_VERIFIED} users, got {n}")
    sigma0 = permutation(n, order=order)
    theta = validate.finite_nonnegative(theta=theta)
    if theta > _MOST_THETA:
        raise ValueError(f"theta must be a number in [0, {_MOST_THETA:g}], got {theta!r}")
    measure = DISTANCES[validate.choice(DISTANCES, distance=distance)]
    drawn: IntArray = np.array(list(permutations(range(n))))
    log_mass = np.array([-theta * measure(rho) for rho in drawn])
    released = np.empty_like(drawn)
    released[:, sigma0] = sigma0[drawn]
    digits = (n + 1) ** np.arange(n)

    worst = 0.0
    for number in range(len(groups)):
        # outputs that differ in nothing but the order of the group's values
        hidden = np.where(np.isin(released, groups[number]), n, released)
        _, alike = np.unique(hidden @ digits, return_inverse=True)
        high = np.full(alike.max() + 1, -math.inf)
        low = np.full(alike.max() + 1, math.inf)
        np.maximum.at(high, alike, log_mass)
        np.minimum.at(low, alike, log_mass)
        worst = max(worst, float((high - low).max()))
    return worst
