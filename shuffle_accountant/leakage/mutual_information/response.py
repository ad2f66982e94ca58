"""Randomized response of k values, uniform input: first-order constants, and the clones of one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.leakage.laws import law
from shuffle_accountant.leakage.mutual_information.messages import message

__all__ = ["ResponseConstants", "clones_message", "response_constants"]

# Largest eps0 in nats: above, e^eps0 is infinite for these constants.
_LARGEST_EPS0 = 300.0


@dataclass(frozen=True)
class ResponseConstants:
    """Limits of n times an information about a uniform X1, nats; E = e^eps0, p - q = (E-1)/(E+k-1).

    Attributes:
        blanket: the blanket bound, ``(E - 1)^2 (k - 1) / (2k (E + k - 1))``.
        unconditional: ``I(X1; Z)``, others uniform: ``(k - 1)(p - q)^2 / 2``. What 'Mutual
            Information Bounds in the Shuffle Model', Example IV.1, calls attained.
        conditional: ``I(X1; Z | X_-1)``, others uniform: the same over ``1 - (p - q)^2``.
        one_value: ``I(X1; Z)`` when all others hold one known value.
    """

    blanket: float
    unconditional: float
    conditional: float
    one_value: float


def response_constants(*, categories: int, eps0: float) -> ResponseConstants:
    """First-order constants of the input leakage of k-ary randomized response.

    Args:
        categories: number k of values, >= 2.
        eps0: local privacy parameter, nats, in (0, 300].
    """
    k = validate.integer(minimum=2, maximum=2**53, categories=categories)
    eps0 = validate.positive(eps0=eps0)
    if eps0 > _LARGEST_EPS0:
        raise ValueError(f"eps0 must be a number in (0, {_LARGEST_EPS0:g}], got {eps0!r}")
    gain = math.expm1(eps0)
    whole = gain + k
    keep, lie, apart = (gain + 1.0) / whole, 1.0 / whole, gain / whole
    variance = apart * apart * (k - 1) / k / k  # of R(y|x) over uniform x, each y
    rest = k / whole * (2.0 * (gain + 1.0) + k - 2.0) / whole  # 1 - apart^2
    return ResponseConstants(
        blanket=0.5 * k * variance / lie,
        unconditional=0.5 * (k - 1) * apart * apart,
        conditional=0.5 * (k - 1) * apart * apart / rest,
        one_value=0.5 * variance * (1.0 / keep + (k - 1) / lie),
    )


def clones_message(p: ArrayLike, *, eps0: float, users: int) -> Bracket:
    """Upper bound of ``I(Y1; Z)`` by the clones of one input, itself as a certified bracket.

    The others' messages are draws from p, the target's own law of messages, with probability
    ``e^-eps0``, else blank. The leading term is ``e^eps0 (letters - 1)/2n``. About the message, not
    the input; the blanket is never worse. 'Mutual Information Bounds in the Shuffle Model', Section
    V.

    Args:
        p: law of the target's message given its input, shape (letters,).
        eps0: local privacy parameter, nats, finite, >= 0.
        users: number n of messages, the target's included, 1 <= n <= 2^53.
    """
    target = law(p=p)
    eps0 = validate.finite_nonnegative(eps0=eps0)
    decoys = np.append(target * math.exp(-eps0), -math.expm1(-eps0))
    bracket = message(np.append(target, 0.0), decoys, users=users)
    return Bracket(
        lower=bracket.lower, upper=bracket.upper, ledger=bracket.ledger, reduction="clones"
    )
