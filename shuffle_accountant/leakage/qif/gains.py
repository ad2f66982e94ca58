"""Gain functions: the values of guesses about a dataset."""

from __future__ import annotations

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.qif.histograms import require_room
from shuffle_accountant.numerics.rounding import Array

__all__ = ["identity_gain", "single_target_gain"]


def single_target_gain(*, users: int, categories: int, target: int = 0) -> Array:
    """g_T: 1 for the target's value, whatever the others hold (Definition 13).

    Args:
        users: number n of users, >= 1.
        categories: number k of values, >= 1.
        target: whose value is guessed, in [0, n - 1].

    Returns:
        Shape (k, k^n): guesses by datasets, at most 2^24 entries.
    """
    users = validate.integer(minimum=1, users=users)
    categories = validate.integer(minimum=1, categories=categories)
    # beyond 64 users two values are too many, without computing a huge power
    require_room("users and categories", "the gain", categories ** (min(users, 64) + 1))
    target = validate.integer(minimum=0, maximum=users - 1, target=target)
    before, after = categories**target, categories ** (users - 1 - target)
    # datasets in lexicographic order: blocks of one value of the target, again and again
    return np.tile(np.repeat(np.eye(categories), after, axis=1), (1, before))


def identity_gain(secrets: int) -> Array:
    """1 for the right secret: the gain of Bayes vulnerability and min-entropy leakage.

    Args:
        secrets: number of secrets, >= 1.
    """
    secrets = validate.integer(minimum=1, secrets=secrets)
    require_room("secrets", "the gain", secrets * secrets)
    return np.eye(secrets)
