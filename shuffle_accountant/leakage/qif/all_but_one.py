"""The adversary of differential privacy, who knows everyone's value but the target's.

Section V of Jurado et al. (CSF 2023). The adversary sees the histogram z of all messages, knows the
distribution of the other users' part of it, and guesses the target's value:

    V = sum_z max_a pi_a P(z | target a, others).

For randomized response on two values, with B the number of the others' messages that say a,

    V = 1/2 + (2p - 1)/2 sum_z |P(B = z - 1) - P(B = z)|/2 = 1/2 + (2p - 1)/2 max_j P(B = j),

because the distribution of B, a sum of independent bits, is unimodal. Its mode is less than 1
away from its mean (Darroch 1964).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.arguments import MOST_USERS, prior_over
from shuffle_accountant.leakage.qif.channel import as_channel
from shuffle_accountant.leakage.qif.histograms import (
    histogram_law,
    one_more,
    require_room,
    require_steps,
)


def all_but_one_vulnerability(*, users: int, p: float, known: int) -> float:
    """Vulnerability of a bit under randomized response and shuffling, all other bits known.

    Equation 10 of the paper with its sum and its maximum in the right order; uniform prior on the
    target's bit. Takes a millisecond for any number of users.

    Args:
        known: how many of the other users hold the value a, in [0, n - 1].

    Returns:
        Chance of a right guess, in [1/2, p]; absolute error below 1e-14.
    """
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    number = validate.closed_unit(p=p)
    if number < 0.5:
        raise ValueError(f"p must be a number in [1/2, 1], got {number!r}")
    known = validate.integer(minimum=0, maximum=users - 1, known=known)
    mass = _largest_mass(known, users - 1 - known, number)
    return min(0.5 + (number - 0.5) * mass, number)


def _largest_mass(ones: int, zeros: int, p: float) -> float:
    """``max_j P(B = j)`` for B = Bin(ones, p) + Bin(zeros, 1 - p), by a discrete Fourier sum.

    The characteristic function falls like that of a normal distribution; hence few frequencies
    matter if the period is some 13 standard deviations; what wraps around is below 1e-30.
    """
    q, bits = 1.0 - p, ones + zeros
    variance = bits * p * q
    length = min(math.ceil(13.0 * math.sqrt(variance)) + 60, bits + 1)
    length += 1 - length % 2  # odd: no frequency at pi, where fair bits have no logarithm
    # |E[e^itB]| = (1 - 4 p q sin^2(t/2))^(bits/2) <= e^(-2 variance (t/pi)^2)
    last = length // 2  # e^-45 is below the rounding of the sum over frequencies
    if variance > 0.0:
        last = min(last, math.ceil(0.5 * length * math.sqrt(0.5 * 45.0 / variance)))
    angles = np.arange(last + 1) * (2.0 * math.pi / length)
    decay = 0.5 * bits * np.log1p(-4.0 * p * q * np.sin(0.5 * angles) ** 2)
    # B is ``ones`` plus a sum of bits that flip: q + p e^it = e^it (p + q e^-it). Nothing is lost
    # to rounding when q is small.
    angle = np.arctan2(q * np.sin(angles), p + q * np.cos(angles))
    weights = np.where(angles > 0.0, 2.0, 1.0) * np.exp(decay) / length
    flips = zeros - ones
    nearby = math.floor(flips * q) + np.arange(-1, 3)  # less ``ones``
    masses = np.cos(flips * angle - np.outer(nearby, angles)) @ weights
    return min(float(masses.max()), 1.0)


def all_but_one_vulnerability_of(
    channel: ArrayLike, *, known: Sequence[int], prior: ArrayLike | None = None
) -> float:
    """Vulnerability of a value under any local channel and shuffling, all other values known.

    Args:
        known: how many of the other users hold each value, shape (values,), integers >= 0. With m
            messages and n users in all the table of n^(m - 1) probabilities must fit into 2^24
            numbers.

    Returns:
        Chance of a right guess, in [max(prior), 1]; exact to round-off.
    """
    local = as_channel(channel=channel)
    law = prior_over(len(local.inputs), prior)
    counts = [validate.integer(minimum=0, known=count) for count in validate.items(known=known)]
    if len(counts) != law.size:
        raise ValueError(f"known must have one count per value, {law.size}, got {len(counts)}")
    messages = len(local.outputs)
    require_room(
        "known", "the table of histogram probabilities", (sum(counts) + 2) ** (messages - 1)
    )
    require_steps(sum(counts) + 1, messages, law.size)
    best: np.ndarray | None = None
    others = histogram_law(local.matrix, counts)
    for value, weight in enumerate(law.tolist()):
        joint = weight * one_more(others[None], local.matrix[[value]])
        best = joint if best is None else np.maximum(best, joint)
    assert best is not None
    return min(float(best.sum()), 1.0)
