"""What is known from the local privacy parameter alone, and of randomized response."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.leakage.arguments import MOST_USERS, law
from shuffle_accountant.leakage.mutual_information.target import message

# Largest eps0 (nats) at which e^eps0 is computed; above, bounds use logarithms, or are inf.
_LARGE_EPS0 = 300.0


@dataclass(frozen=True)
class FirstOrder:
    """First-order constants of ``n I(X1; Z | X_-1)``, nats; leading terms, not bounds at any n.

    Attributes:
        paper: ``(e^eps0 - 1)/2``: 'Mutual Information Bounds in the Shuffle Model', Theorem 14.
        sharp: ``(e^(eps0/2) - 1)^2 / 2``: no smaller constant serves all randomizers; randomized
            response of ``k = 1 + e^(eps0/2)`` values attains it. About eps0/4 of the paper's
            for small eps0.
    """

    paper: float
    sharp: float


@dataclass(frozen=True)
class UniversalBounds:
    """Upper bounds of ``I(X1; Z | X_-1)`` for all eps0-LDP randomizers and priors, nats.

    With E = e^eps0. The blanket reduction gives the first two, the data-processing inequality the
    last.

    Attributes:
        logarithmic: ``log(1 + (E - 1)/n)``, because the chi-squared divergence of a randomizer's
            message from the blanket's decoys is at most E - 1.
        second_order: ``(sqrt E - 1)^2/2n + ((E - 1)/6 + 7 (E - 1)^2/6)/n^2 + max((E - 1)^2, 1) (E -
            1)/3n^3``: the sharp constant, then the remainders of the Taylor brackets.
        message: ``eps0 tanh(eps0/2)``, the bound for the message alone, unshuffled.
    """

    logarithmic: float
    second_order: float
    message: float

    @property
    def least(self) -> float:
        """The smallest of them."""
        return min(self.logarithmic, self.second_order, self.message)


def first_order(*, eps0: float) -> FirstOrder:
    """The paper's and the sharp first-order constant of the input leakage."""
    eps0 = validate.finite_nonnegative(eps0=eps0)
    if eps0 > _LARGE_EPS0:
        return FirstOrder(math.inf, math.inf)
    return FirstOrder(0.5 * math.expm1(eps0), 0.5 * math.expm1(0.5 * eps0) ** 2)


def universal_bounds(*, eps0: float, users: int) -> UniversalBounds:
    """Distribution-free, non-asymptotic upper bounds of the input leakage.

    Returns:
        The bounds, each rounded up by more than its rounding error.
    """
    eps0 = validate.nonnegative(eps0=eps0)
    n = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    up = 1.0 + 1e-14
    message = eps0 * math.tanh(0.5 * eps0) * up if eps0 < math.inf else math.inf
    if eps0 > _LARGE_EPS0:
        extra = eps0 - math.log(n)  # above 260
        return UniversalBounds((extra + math.exp(-extra)) * up, math.inf, message)
    gain, root = math.expm1(eps0), math.expm1(0.5 * eps0)
    second = root * root / (2 * n) + (gain / 6 + 7 * gain * gain / 6) / n / n
    if gain < 1e100:
        second += max(gain * gain, 1.0) * gain / 3 / n / n / n
    else:
        second = math.inf
    return UniversalBounds(math.log1p(gain / n) * up, second * up, message)


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
    """First-order constants of the input leakage of k-ary randomized response."""
    k = validate.integer(minimum=2, maximum=2**53, categories=categories)
    eps0 = validate.positive(eps0=eps0)
    if eps0 > _LARGE_EPS0:
        raise ValueError(f"eps0 must be a number in (0, {_LARGE_EPS0:g}], got {eps0!r}")
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

    The others' messages are draws from p, the target's own distribution of messages, with
    probability ``e^-eps0``, else blank. The leading term is ``e^eps0 (messages - 1)/2n``. About the
    message, not the input; the blanket is never worse. 'Mutual Information Bounds in the Shuffle
    Model', Section V.

    Args:
        p: distribution of the target's message given its input, shape (messages,).
    """
    target = law(p=p)
    eps0 = validate.finite_nonnegative(eps0=eps0)
    decoys = np.append(target * math.exp(-eps0), -math.expm1(-eps0))
    bracket = message(np.append(target, 0.0), decoys, users=users)
    return Bracket(
        lower=bracket.lower, upper=bracket.upper, ledger=bracket.ledger, reduction="clones"
    )
