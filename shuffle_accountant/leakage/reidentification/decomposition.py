"""The bound psi on re-identification from the common part of all users' messages.

If ``R(x) >= mu`` for every input x, mu a mass function of mass gamma, then each other user's
message is with chance gamma a draw from mu, and telling the adversary which are not can only help.
What is left is the target among ``Bin(n - 1, gamma)`` draws. Theorem 7 of 'Bayesian Advantage of
Re-Identification Attack in the Shuffle Model' sums over that number; the sum is

    psi = f + (1/n) int_0^inf m_k(n, mu(r > s)) ds,    r = P/mu,    f = P(mu = 0),

the success probability among n - 1 decoys that are draws from mu or blank (see `layers`). psi falls
as mu rises, so the largest mu, the blanket ``min_x R(x)``, is the best one (Theorem 9). The clones
take ``mu = gamma P``: then every ratio is 1/gamma.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.laws import law, numbers
from shuffle_accountant.leakage.reidentification.hits import expected_hits
from shuffle_accountant.leakage.reidentification.layers import layers
from shuffle_accountant.leakage.reidentification.success import checked_counts

__all__ = ["clones_psi", "psi"]


def psi(p: ArrayLike, common: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """Success probability against a target among users who share a common part.

    Args:
        p: the target's probabilities, shape (letters,).
        common: masses mu that no other user's law is below, same shape, of sum at most 1.
        users: messages n, the target's included, in [1, 2^53].
        guesses: positions k the adversary may name, in [1, n].

    Returns:
        Upper bound of the success probability whatever the others' laws, to round-off.
    """
    target = law(p=p)
    users, guesses = checked_counts(users, guesses)
    masses = numbers(common=common)
    if masses.shape != target.shape:
        raise ValueError(f"common must have the shape of p, {target.shape}, got {masses.shape}")
    inside = (masses >= 0.0) & (masses <= 1.0)
    if not inside.all():
        raise ValueError(f"common must be numbers in [0, 1], got {float(masses[~inside][0])!r}")
    total = math.fsum(masses.tolist())
    if total > 1.0 + 1e-9:
        raise ValueError(f"common must sum to at most 1, got sum {total!r}")
    return layers(target, masses).success(users, guesses)


def clones_psi(gamma: float, *, users: int, guesses: int = 1) -> float:
    """Psi of a common part ``gamma P``: ``(1 - (1 - gamma)^n) / (n gamma)`` for one guess.

    Theorem 8 is the bound ``1 / (n gamma)`` of it, with ``gamma = e^-eps0``.

    Args:
        gamma: share of each other user's law that is the target's, in [0, 1]; with 0, psi is 1.
        users: messages n, the target's included, in [1, 2^53].
        guesses: positions k the adversary may name, in [1, n].

    Returns:
        Upper bound of the success probability, to round-off.
    """
    gamma = validate.closed_unit(gamma=gamma)
    users, guesses = checked_counts(users, guesses)
    if gamma == 0.0 or guesses == users:
        return 1.0
    hits = float(expected_hits(users, np.array([gamma]), guesses)[0])
    return min(hits / (users * gamma), 1.0)
