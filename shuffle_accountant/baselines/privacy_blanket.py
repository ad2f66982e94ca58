"""The privacy blanket through the inequalities of Hoeffding and of Bennett.

Balle, Bell, Gascón and Nissim 2019, "The privacy blanket of the shuffle model". Each user's
randomizer is, with probability gamma, a draw W from a law (the blanket) that does not depend on the
input. With ``alpha = e^epsilon`` and M ~ Bin(n, gamma) users in the blanket,

    delta(epsilon) <= E[(L_1 + … + L_M)_+] / (gamma n),   L = (R(x) - alpha R(x')) / blanket (W),

where the L_i are i.i.d. of mean ``-a``, ``a = alpha - 1``. With the range r, the maximum b and the
second moment c of L, the right side is at most (Hoeffding)

    r^2 / (4 a gamma n) (1 - gamma (1 - e^(-2 a^2/r^2)))^n,

and at most (Bennett), with ``phi(u) = (1 + u) log(1 + u) - u``,

    b / (gamma n log(1 + a b/c)) E[e^(-M (c/b^2) phi(a b/c)); M >= 1],

where the expectation has a closed form. Range and moments are known exactly for k-ary randomized
response, if ``categories`` is given, and are bounded for any eps0-LDP randomizer. Upper bounds, one
round, replacement.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines.closed_forms import OneRoundBound
from shuffle_accountant.baselines.question import check_protocol, register, require
from shuffle_accountant.facades import explain_calls
from shuffle_accountant.numerics.binomial import log1p_minus
from shuffle_accountant.numerics.roots import find_crossing

__all__ = ["BlanketBound", "BlanketLoss", "blanket_bennett", "blanket_hoeffding"]

LEAST_EPS0, MOST_EPS0 = 1e-300, 150.0
"""Below, losses have no digits left; beyond, squares of e^eps0 overflow."""

# Epsilon is looked for at these fractions of eps0 first: the bounds are not monotone, and the
# smallest epsilon at which they reach delta is wanted.
_PER_DECADE, _DECADES = 10, 12


@dataclass(frozen=True)
class BlanketLoss:
    """The loss variable L at one epsilon.

    Attributes:
        gamma: probability that a user is in the blanket.
        rest: ``1 - gamma``, without cancellation.
        excess: ``a = e^epsilon - 1``, minus the mean of L.
        largest: maximum of L, or a bound of it.
        width: maximum minus minimum of L, or a bound of it.
        spread: second moment of L, or a bound of it, over ``largest``: it does not underflow.
    """

    gamma: float
    rest: float
    excess: float
    largest: float
    width: float
    spread: float

    @classmethod
    def of(cls, eps0: float, categories: int | None, epsilon: float) -> BlanketLoss:
        """For k-ary randomized response, or for any eps0-LDP randomizer (``categories`` None)."""
        # differences are those of the exponents, so that none is 0 for small eps0
        e, alpha, excess = math.exp(eps0), math.exp(epsilon), math.expm1(epsilon)
        if categories is None:
            # likelihood ratios to any mixture of the randomizer's outputs lie in [1/E, E]
            gamma, rest = 1.0 / e, -math.expm1(-eps0)
            largest = math.expm1(eps0) - math.expm1(epsilon - eps0)
            # E (alpha^2 + 1) - 2 alpha/E^3, over E - alpha/E
            spread = e * excess * (excess / largest)
            spread += 4.0 * (alpha / e) * (math.sinh(2.0 * eps0) / largest)
            width = (alpha + 1.0) * 2.0 * math.sinh(eps0)
        else:
            gamma, rest = (x / (e + categories - 1.0) for x in (categories, math.expm1(eps0)))
            least, most = alpha * math.expm1(eps0 - epsilon), math.expm1(eps0 + epsilon)
            squares = least + most * (most / least) + (categories - 2) * excess * (excess / least)
            largest, spread = gamma * least, gamma * squares / categories
            width = gamma * math.expm1(eps0) * (alpha + 1.0)
        return cls(gamma, rest, excess, largest, width, spread)


@dataclass(frozen=True)
class BlanketBound:
    """The bound of one inequality, see `PublishedBound` for the other attributes.

    Attributes:
        log_delta: logarithm of the bound of delta, given the loss variable and the number of users.
    """

    name: str
    source: str
    log_delta: Callable[[BlanketLoss, int], float]
    sound: bool = True

    def valid(
        self, *, eps0: float, users: int, delta: float, categories: int | None = None
    ) -> str | None:
        """The condition that is not met, or None, for the arguments of `epsilon`."""
        return self._smallest(eps0, users, delta, categories)[1]

    def epsilon(
        self, *, eps0: float, users: int, delta: float, categories: int | None = None
    ) -> float:
        """Epsilon (nats) of one round: the smallest at which the bound is at most ``delta``.

        Args:
            eps0: local privacy parameter, nats, in [1e-300, 150].
            users: messages in the round, >= 1.
            delta: in (0, 1).
            categories: number k of values of randomized response, >= 2; None for any randomizer.
        """
        found, unmet = self._smallest(eps0, users, delta, categories)
        require(self.name, unmet)
        return found

    def delta(
        self, *, eps0: float, users: int, epsilon: float, categories: int | None = None
    ) -> float:
        """Delta of one round at epsilon, at most 1.

        Args:
            eps0: local privacy parameter, nats, in [1e-300, 150].
            users: messages in the round, >= 1.
            epsilon: nats, in [0, eps0).
            categories: number k of values of randomized response, >= 2; None for any randomizer.
        """
        epsilon = validate.finite_nonnegative(epsilon=epsilon)
        eps0, users, categories, unmet = _setting(eps0, users, categories)
        require(self.name, unmet)
        if epsilon >= eps0:
            require(self.name, f"epsilon < eps0 = {eps0:g}, got {epsilon:g}")
        if epsilon == 0.0:
            return 1.0
        value = self.log_delta(BlanketLoss.of(eps0, categories, epsilon), users)
        return math.exp(min(value, 0.0))

    def _smallest(
        self, eps0: float, users: int, delta: float, categories: int | None
    ) -> tuple[float, str | None]:
        """The smallest epsilon below eps0 that reaches delta, from above; or what is not met."""
        delta = validate.open_unit(delta=delta)
        eps0, users, categories, unmet = _setting(eps0, users, categories)
        if unmet is not None:
            return math.inf, unmet
        target = math.log(delta)

        def excess(epsilon: float) -> float:
            if not 0.0 < epsilon < eps0:  # rounded, next to the least double
                return math.inf
            return self.log_delta(BlanketLoss.of(eps0, categories, epsilon), users) - target

        previous = 0.0
        for step in range(-_DECADES * _PER_DECADE, 0):
            point = eps0 * 10.0 ** (step / _PER_DECADE)
            if excess(point) <= 0.0:
                guess = 0.5 * (previous + point)
                return find_crossing(excess, point, guess, 0.1 * point).right, None
            previous = point
        return math.inf, f"epsilon < eps0 = {eps0:g}, where it does not reach delta = {delta:g}"


def _setting(
    eps0: float, users: int, categories: int | None
) -> tuple[float, int, int | None, str | None]:
    """The setting, checked, and what keeps the bounds from applying at all, or None."""
    eps0, users = check_protocol(eps0=eps0, users=users)
    if categories is not None:
        categories = validate.integer(minimum=2, maximum=2**53, categories=categories)
    inside = LEAST_EPS0 <= eps0 <= MOST_EPS0
    unmet = None if inside else f"eps0 in [{LEAST_EPS0:g}, {MOST_EPS0:g}], got {eps0:g}"
    return eps0, users, categories, unmet


def _hoeffding(loss: BlanketLoss, users: int) -> float:
    decay = loss.gamma * -math.expm1(-2.0 * (loss.excess / loss.width) ** 2)
    log_scale = 2.0 * math.log(loss.width) - math.log(4.0 * users)
    log_scale -= math.log(loss.excess) + math.log(loss.gamma)
    return log_scale + users * math.log1p(-decay)


def _bennett(loss: BlanketLoss, users: int) -> float:
    reach = loss.excess / loss.spread
    if reach == 0.0:  # no double, and no bound at so small an epsilon
        return math.inf
    # phi without cancellation near 0
    phi = reach * math.log1p(reach) + float(log1p_minus(reach))
    rate = loss.spread / loss.largest * phi
    some = users * math.log1p(loss.gamma * math.expm1(-rate))
    log_scale = math.log(loss.largest) - math.log(loss.gamma) - math.log(users)
    log_scale -= math.log(math.log1p(reach))
    # the moment of M >= 1 is e^some - rest^n = e^some (1 - e^-gap)
    log_odds = math.log(loss.gamma / loss.rest) - rate
    gap = users * math.log1p(math.exp(log_odds)) if log_odds < 700.0 else math.inf
    log_share = math.log(-math.expm1(-gap)) if gap > 1e-290 else math.log(users) + log_odds
    return log_scale + some + log_share


_SOURCE = "Balle, Bell, Gascón and Nissim 2019"
blanket_bennett = BlanketBound("blanket_bennett", f"{_SOURCE}, Bennett", _bennett)
blanket_hoeffding = BlanketBound("blanket_hoeffding", f"{_SOURCE}, Hoeffding", _hoeffding)
for _rank, _bound in ((60, blanket_bennett), (70, blanket_hoeffding)):
    register(OneRoundBound, _bound, about="one round of one randomizer", response=True, rank=_rank)

explain_calls(__name__)
