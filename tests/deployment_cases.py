"""Deployments of every mechanism that devices can run, small and large."""

from __future__ import annotations

import shuffle_accountant as sa

MECHANISMS = {
    "k-RR": sa.RandomizedResponse(categories=5, eps0=1.5),
    "k-RR, gamma": sa.RandomizedResponse.from_gamma(categories=3, gamma=0.3),
    "binary RR": sa.BinaryRandomizedResponse(eps0=0.7),
    "RAPPOR": sa.RAPPOR(categories=3, eps0=2.2),
    "subset selection": sa.SubsetSelection(categories=5, eps0=1.0, size=2),
    "local hashing": sa.LocalHashing(categories=4, eps0=1.1, buckets=3),
    "Hadamard": sa.HadamardResponse(categories=3, eps0=1.3),
}


def deployment(mechanism: sa.RandomizedResponse, users: int = 10_000) -> sa.Deployment:
    """Four rounds of a mechanism."""
    one = sa.ShuffleRound(mechanism, users=users)
    return sa.Deployment(round=one, rounds=4, target_epsilon=5.0, delta=1e-6)
