"""Signal of a frequency oracle under a uniform prior, by a message's number of yes answers.

Such a randomizer has ``R_x(y) = f(y) high`` if the message says yes to x, else ``f(y) low`` (see
`shuffle_accountant.randomizers.base.YesCounts`). A message y that says yes to j of k categories has
the mean probability ``f(y) (low + (high - low) j/k)``, so all that matters is j and the bit of the
target's own category, "yes" or "no".
"""

from __future__ import annotations

import math

import numpy as np

from shuffle_accountant.leakage.mutual_information.blanket_information import Signal
from shuffle_accountant.randomizers.base import YesCounts

__all__ = ["bit_signal"]

# Bound on the relative error of a binomial probability, far above that for this few trials.
_BINOMIAL_ERROR = 1e-11


def bit_signal(answers: YesCounts, eps0: float) -> Signal:
    """The signal of a frequency oracle under a uniform prior: one row, as categories look alike.

    For many categories with independent answers the mean's likelihood ratio w hardly moves from its
    mean w_0 among messages that are not blank. Given which decoys are blank, ``Phi_n`` of the mean
    gains ``E[X log(X/X_0)] <= E[(X - X_0)^2 / X_0] <= Var(w)/(n w_0)`` at most from its movement.
    """
    k, high, low = answers.categories, answers.own, answers.foreign
    j, yes, no = answers.counts, answers.yes, answers.no
    if answers.rate is not None and not j.size:
        gain = math.expm1(eps0) if eps0 < 700.0 else math.inf
        blanket = np.array([low[1], low[0]])
        rows = np.array([[high, low[0]]])
        rate = low[1] / (low[0] + low[1])
        heard = float(blanket.sum())
        unresolved = gain * gain * rate * (1.0 - rate) / k * heard
        mean = blanket / heard
        return Signal(np.ones(1), rows, mean, blanket, _BINOMIAL_ERROR, unresolved)
    yes, no = yes / math.fsum(yes.tolist()), no / max(math.fsum(no.tolist()), 1e-300)
    target = np.concatenate([high * yes, low[0] * no])
    blanket = np.concatenate([low[1] * yes, low[0] * no])
    # relative to the blanket: 1 + gain j/k, without an overflow
    lift = np.concatenate([high * yes - low[1] * yes, (high / low[1] - 1.0) * low[0] * no])
    every = np.concatenate([j, j])
    mean = blanket + lift * (every / k)
    full = every == k  # all inputs agree on a message that says yes to all
    blanket = np.where(full, mean, blanket)
    sent = target > 0.0
    return Signal(np.ones(1), target[None, sent], mean[sent], blanket[sent], _BINOMIAL_ERROR)
