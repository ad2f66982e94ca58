"""Success probability of the best adversary at naming the target's message: two finite laws."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.arguments import MOST_USERS, law, numbers, two_laws
from shuffle_accountant.leakage.reidentification.layers import expected_hits, layers
from shuffle_accountant.reductions.base import TargetAmongDecoys


def success_probability(p: ArrayLike, q: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """Probability that the best adversary names the position of the target's message.

    One message is a draw from p and the other n - 1 are independent draws from q; all n are
    shuffled. The adversary knows both distributions, sees the shuffled word and names k positions.
    This is ``beta_n^k(p, q)`` of 'Bayesian Advantage of Re-Identification Attack in the Shuffle
    Model' (Theorems 2 and 4, here for any number of guesses and with ties), exact to round-off: the
    relative error is at most 64 + 32 k units of 2^-53 up to 64 guesses, and below 1e-11 for more.
    Time is that of sorting the messages, whatever n.

    Returns:
        A probability in [k/n, 1] (up to round-off): 1 if the distributions have no message in
        common, and k/n if they are equal.
    """
    target, decoys = two_laws(p, q)
    users, guesses = checked_counts(users, guesses)
    return layers(target, decoys).success(users, guesses)


def success_among_decoys(decoys: TargetAmongDecoys, *, guesses: int = 1) -> float:
    """Success probability of the best adversary for a reduction's target, in its worse dataset.

    Of a "blanket" this is an upper bound for the two inputs it was made of
    (see `shuffle_accountant.leakage.reidentification.bound`).

    Args:
        decoys: `ShuffleRound.target_among_decoys` of a finite randomizer.
    """
    validate.instance(TargetAmongDecoys, decoys=decoys)
    users, guesses = checked_counts(decoys.n, guesses)
    q = np.array(decoys.q)
    return max(layers(np.array(p), q).success(users, guesses) for p in (decoys.p0, decoys.p1))


def checked_counts(users: int, guesses: int) -> tuple[int, int]:
    """Numbers of messages and of guesses, if they are in their ranges."""
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    return users, validate.integer(minimum=1, maximum=users, guesses=guesses)


def psi(p: ArrayLike, common: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """Success probability against a target among users who share a common part.

    Args:
        common: masses mu that no other user's distribution is below, same shape, of sum at most 1.

    Returns:
        Upper bound of the success probability whatever the others' distributions, to round-off.
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
        gamma: share of each other user's distribution that is the target's, in [0, 1]; with 0, psi
            is 1.

    Returns:
        Upper bound of the success probability, to round-off.
    """
    gamma = validate.closed_unit(gamma=gamma)
    users, guesses = checked_counts(users, guesses)
    if gamma == 0.0 or guesses == users:
        return 1.0
    hits = float(expected_hits(users, np.array([gamma]), guesses)[0])
    return min(hits / (users * gamma), 1.0)
