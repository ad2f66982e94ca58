"""Bounds of the input leakage that know the local privacy parameter alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.mutual_information.positions import MOST_USERS

__all__ = ["FirstOrder", "UniversalBounds", "first_order", "universal_bounds"]

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
    """The paper's and the sharp first-order constant of the input leakage.

    Args:
        eps0: local privacy parameter, nats, finite, >= 0.
    """
    eps0 = validate.finite_nonnegative(eps0=eps0)
    if eps0 > _LARGE_EPS0:
        return FirstOrder(math.inf, math.inf)
    return FirstOrder(0.5 * math.expm1(eps0), 0.5 * math.expm1(0.5 * eps0) ** 2)


def universal_bounds(*, eps0: float, users: int) -> UniversalBounds:
    """Distribution-free, non-asymptotic upper bounds of the input leakage.

    Args:
        eps0: local privacy parameter, nats, in [0, inf].
        users: number n of messages, the target's included, 1 <= n <= 2^53.

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
