"""Frequency oracles under a uniform prior: only how many categories a message says yes to counts.

Such a randomizer has ``R_x(y) = f(y) high`` if the message says yes to x, else ``f(y) low`` (see
`shuffle_accountant.randomizers.categorical.BitRandomizer`). A message y that says yes to j of k
categories has the mean probability ``f(y) (low + (high - low) j/k)``, so all that matters is j and
the bit of the target's own category, "yes" or "no".
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np

from shuffle_accountant.leakage.mutual_information.ratios import Array
from shuffle_accountant.leakage.mutual_information.signal import Signal
from shuffle_accountant.numerics.binomial import log_pmf
from shuffle_accountant.randomizers.categorical import BitRandomizer
from shuffle_accountant.randomizers.hadamard import HadamardResponse
from shuffle_accountant.randomizers.local_hashing import LocalHashing
from shuffle_accountant.randomizers.rappor import RAPPOR
from shuffle_accountant.randomizers.subset_selection import SubsetSelection

__all__ = ["bit_signal"]

# Counts of more categories are not listed: their fluctuation is bounded.
_MOST_COUNTS = 4096
# Relative error of a binomial probability, far more than `log_pmf` is off for so few trials.
_BINOMIAL_ERROR = 1e-11


@singledispatch
def _ones(randomizer: BitRandomizer) -> tuple[Array, Array, Array]:
    """How many categories a message from f says yes to.

    Returns:
        ``(j, yes, no)``: counts, and their joint probabilities with a yes and with a no to a
        uniformly random category.
    """
    raise ValueError(f"prior must be given for a {type(randomizer).__name__}, got None")


@_ones.register
def _(randomizer: RAPPOR) -> tuple[Array, Array, Array]:
    return _independent(randomizer.categories, randomizer.flip_probability)


@_ones.register
def _(randomizer: LocalHashing) -> tuple[Array, Array, Array]:
    return _independent(randomizer.categories, 1.0 / randomizer.buckets)


@_ones.register
def _(randomizer: SubsetSelection) -> tuple[Array, Array, Array]:
    share = randomizer.size / randomizer.categories
    rest = (randomizer.categories - randomizer.size) / randomizer.categories
    return np.array([float(randomizer.size)]), np.array([share]), np.array([rest])


@_ones.register
def _(randomizer: HadamardResponse) -> tuple[Array, Array, Array]:
    """Counts of +1 in rows 1 … k of a random column y of the Sylvester matrix.

    Rows 0 … k sum to N = k + 1 at y = 0. Else let t be the lowest bit of y. Cut the rows into
    blocks by the bits of N: a block of 2^b rows sums to nothing for b > t, to its whole size up to
    a sign for b <= t. The sign is ``(-1)^(bit t of N)`` times one that y's higher bits decide at
    random, or +1 if N has no such bits.
    """
    k = randomizer.categories
    rows, columns = k + 1, randomizer.columns
    counts, chances = [float(k)], [1.0 / columns]
    for t in range(columns.bit_length() - 1):
        bit = rows >> t & 1
        total = (bit << t) + (1 - 2 * bit) * (rows & ((1 << t) - 1))
        fair = (rows & (columns - 1)) >> (t + 1) != 0
        for sign in (1, -1) if fair else (1,):
            counts.append((rows + sign * total) // 2 - 1.0)
            chances.append(0.5 ** (t + 1) * (0.5 if fair else 1.0))
    j, mass = np.array(counts), np.array(chances)
    return j, mass * (j / k), mass * ((k - j) / k)


def _independent(categories: int, rate: float) -> tuple[Array, Array, Array]:
    """Every category is said yes to independently."""
    i = np.arange(categories, dtype=np.float64)  # of the other categories
    chance = np.exp(log_pmf(i, categories - 1, rate, 1.0 - rate))
    j = np.arange(categories + 1.0)
    return j, rate * np.append(0.0, chance), (1.0 - rate) * np.append(chance, 0.0)


def bit_signal(randomizer: BitRandomizer) -> Signal:
    """The signal of a uniform prior: one row, because all categories look alike.

    For many categories with independent answers the mean's likelihood ratio w hardly moves from its
    mean w_0 among messages that are not blank. Given which decoys are blank, ``Phi_n`` of the mean
    gains ``E[X log(X/X_0)] <= E[(X - X_0)^2 / X_0] <= Var(w)/(n w_0)`` at most from its movement.
    """
    k = randomizer.categories
    own = np.array([[False], [True]])
    from_one, from_zero = randomizer._pattern_chances((0,), own)
    high, low = float(from_one[1]), from_zero  # yes from the target; (no, yes) from others
    gain = math.expm1(randomizer.eps0) if randomizer.eps0 < 700.0 else math.inf
    if k > _MOST_COUNTS and isinstance(randomizer, RAPPOR | LocalHashing):
        blanket = np.array([low[1], low[0]])
        rows = np.array([[high, low[0]]])
        rate = low[1] / (low[0] + low[1])
        heard = float(blanket.sum())
        unresolved = gain * gain * rate * (1.0 - rate) / k * heard
        mean = blanket / heard
        return Signal(np.ones(1), rows, mean, blanket, _BINOMIAL_ERROR, unresolved)
    j, yes, no = _ones(randomizer)
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
