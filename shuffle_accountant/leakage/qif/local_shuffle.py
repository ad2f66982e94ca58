"""Posterior vulnerability of one user's value under any local randomizer and shuffling.

Users draw their values from a law theta and send a message through a local channel R. A message is
b with the chance ``q_b = sum_a theta_a R(b|a)``, the histogram h of all n is multinomial, and the
target sent b with the chance h_b/n. So its value is a with the chance

    theta_a sum_b (h_b/n) R(b|a)/q_b,

and the vulnerability is the mean of the largest of these over all histograms. This holds for any
finite R and theta; randomized response and a uniform theta have closed forms
(`shuffle_accountant.leakage.qif.vulnerability`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.qif.channel import as_channel
from shuffle_accountant.leakage.qif.checks import prior_over
from shuffle_accountant.leakage.qif.histograms import all_histograms
from shuffle_accountant.numerics.poisson import log_pmf

__all__ = ["posterior_vulnerability_local_shuffle"]


def posterior_vulnerability_local_shuffle(
    channel: ArrayLike, *, users: int, prior: ArrayLike | None = None
) -> float:
    """Vulnerability of the target under a local channel and shuffling, by listing histograms.

    Args:
        channel: row a holds the message probabilities of value a, shape (values, messages).
        users: number n of users, >= 1; C(n + m - 1, m - 1) histograms of m messages must fit into
            a table of 2^24 numbers.
        prior: law of each user's value, shape (values,); uniform if None.

    Returns:
        Chance of a right guess, in [max(prior), 1]; exact to round-off.
    """
    local = as_channel(channel=channel)
    users = validate.integer(minimum=1, users=users)
    theta = prior_over(len(local.inputs), prior)
    joint = theta[:, None] * local.matrix
    sent = joint.sum(axis=0)
    joint, sent = joint[:, sent > 0.0], sent[sent > 0.0]
    histograms = all_histograms(users, sent.size).astype(np.float64)
    # a multinomial law is that of independent Poisson counts, given their sum
    log_chance = log_pmf(histograms, users * sent).sum(axis=1)
    log_chance -= float(log_pmf(np.array(float(users)), float(users)))
    best = np.max(histograms @ (joint / sent).T, axis=1)
    return min(math.fsum(np.exp(log_chance) * best) / users, 1.0)
