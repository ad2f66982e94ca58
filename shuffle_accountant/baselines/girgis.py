"""The Rényi bound of the subsampled shuffle model, in closed form for integer orders.

Girgis, Data and Diggavi 2021, "Rényi differential privacy of the subsampled shuffle model in
distributed learning", Theorem 2. Each round, m of N users send one message of an eps0-LDP
randomizer. With ``E = e^eps0``, ``g = m/N`` and ``k = floor((m - 1)/(2E)) + 1``, the divergence of
order lambda = 2, 3, … is at most ``log(1 + S) / (lambda - 1)``,

    S = 4 C(lambda, 2) g^2 (E - 1)^2 / (k E)
      + sum_{j = 3}^{lambda} C(lambda, j) g^j j Gamma(j/2) (2 (E^2 - 1)^2 / (k E^2))^(j/2)
      + ((1 + y)^lambda - 1 - lambda y) e^(-(m - 1)/(8E)),      y = g (E^2 - 1)/E.

The script behind a published comparison (Figure 3 of 'Numerical Accounting in the Shuffle Model')
has ``y / 2`` in the last term; ``upsilon_factor`` = 0.5 gives that. Upper bound,
additive over rounds, replacement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines.moments import epsilon_of, lowest
from shuffle_accountant.baselines.question import (
    ProtocolBound,
    Question,
    check_protocol,
    register,
    require,
)
from shuffle_accountant.numerics.rounding import Array

__all__ = ["MOST_EPS0", "MOST_ORDER", "MOST_ROUNDS", "epsilon", "name", "renyi_divergence"]
__all__ += ["sound", "source", "valid"]

name = "girgis"
source = "Girgis, Data and Diggavi 2021, Theorem 2"
sound = True

MOST_ORDER = 2**20
"""Largest order that is searched."""

MOST_ROUNDS = 2**53
"""Largest number of rounds; counts are exact in double precision up to it."""

MOST_EPS0 = 1e200
"""Beyond it the bound of many rounds may be no double."""

# All orders below `_EVERY` are tried, then orders that grow by the factor `_STEP`.
_EVERY = 64
_STEP = 1.2


def valid(
    *,
    eps0: float,
    users: int,
    population: int | None = None,
    rounds: int = 1,
    delta: float,
    upsilon_factor: float = 1.0,
) -> str | None:
    """The condition that is not met, or None, for the arguments of `epsilon`.

    The theorem has none but that orders are integers >= 2; beyond `MOST_EPS0` the bound may be no
    double.
    """
    setting = _Setting.of(eps0, users, population, upsilon_factor)
    validate.integer(minimum=0, maximum=MOST_ROUNDS, rounds=rounds)
    validate.open_unit(delta=delta)
    return setting.unmet


def epsilon(
    *,
    eps0: float,
    users: int,
    population: int | None = None,
    rounds: int = 1,
    delta: float,
    upsilon_factor: float = 1.0,
) -> float:
    """Epsilon (nats) of ``rounds`` rounds, by the conversion of Canonne, Kamath and Steinke.

    Args:
        eps0: local privacy parameter, nats, finite, >= 0.
        users: messages m in each round, >= 1.
        population: users N that those of each round are drawn from; by default all take part.
        rounds: number T of rounds, in [0, 2^53].
        delta: in (0, 1).
        upsilon_factor: 1 for the theorem, 0.5 for the script behind the published figure.
    """
    setting = _Setting.of(eps0, users, population, upsilon_factor)
    rounds = validate.integer(minimum=0, maximum=MOST_ROUNDS, rounds=rounds)
    delta = validate.open_unit(delta=delta)
    require(name, setting.unmet)
    if rounds == 0:
        return 0.0

    @cache
    def at(order: int) -> float:
        return epsilon_of(rounds * setting.log_moment(order), order - 1.0, delta)

    orders = list(range(2, _EVERY))
    while orders[-1] < MOST_ORDER:
        orders.append(min(math.ceil(orders[-1] * _STEP), MOST_ORDER))
    place, _ = lowest(map(at, orders))
    low, high = orders[max(place - 1, 0)], orders[min(place + 1, len(orders) - 1)]
    # one valley between neighbours; the loss in epsilon is about the square of the relative width
    while high - low > max(3, 1e-4 * low):
        third = (high - low) // 3
        if at(low + third) <= at(high - third):
            high -= third
        else:
            low += third
    return max(min(map(at, (*range(low, min(low + 4, high + 1)), high, orders[place]))), 0.0)


def renyi_divergence(
    *,
    eps0: float,
    users: int,
    population: int | None = None,
    order: int,
    upsilon_factor: float = 1.0,
) -> float:
    """The theorem's bound of the Rényi divergence of one round, nats.

    Args:
        order: integer in [2, 2^20]; the other arguments are those of `epsilon`.
    """
    setting = _Setting.of(eps0, users, population, upsilon_factor)
    order = validate.integer(minimum=2, maximum=MOST_ORDER, order=order)
    require(name, setting.unmet)
    return setting.log_moment(order) / (order - 1.0)


@dataclass(frozen=True)
class _Setting:
    """The checked parameters of one round."""

    eps0: float
    users: int
    population: int
    upsilon_factor: float

    @classmethod
    def of(cls, eps0: float, users: int, population: int | None, upsilon_factor: float) -> _Setting:
        eps0, users = check_protocol(eps0=eps0, users=users)
        if population is not None:
            population = validate.integer(minimum=users, maximum=2**53, population=population)
        factor = validate.positive(upsilon_factor=upsilon_factor)
        return cls(eps0, users, population or users, factor)

    @property
    def unmet(self) -> str | None:
        """The condition that is not met, or None."""
        return None if self.eps0 <= MOST_EPS0 else f"eps0 <= {MOST_EPS0:g}, got {self.eps0:g}"

    def log_moment(self, order: int) -> float:
        """``log(1 + S)``; all terms of S by their logarithms."""
        eps0, users = self.eps0, self.users
        if eps0 == 0.0:
            return 0.0
        log_g = math.log(users / self.population)
        log_gap = eps0 + math.log(-math.expm1(-eps0))  # log(E - 1)
        log_ratio = eps0 + math.log(-math.expm1(-2.0 * eps0))  # log((E^2 - 1)/E)
        log_k = math.log(math.floor(0.5 * (users - 1) * math.exp(-eps0)) + 1.0)
        square = math.log(2.0 * order * (order - 1.0)) + 2.0 * (log_g + log_gap) - log_k - eps0

        step = log_g + 0.5 * (math.log(2.0) - log_k) + log_ratio
        # terms fall at least by order^1.5 e^step each: if that is below 1/2, 80 of them count
        last = order if 1.5 * math.log(order) + step > -math.log(2.0) else min(order, 80)
        j = np.arange(3.0, last + 1.0)
        factorials, halves = _log_gammas(2 ** (order + 1).bit_length())
        log_choose = factorials[order] - factorials[3 : last + 1]
        log_choose -= factorials[order - last : order - 2][::-1]
        moments = log_choose + np.log(j) + halves[3 : last + 1] + j * step

        # a crowd too small, with a small probability
        log_y = math.log(self.upsilon_factor) + log_g + log_ratio
        upsilon = _log_binomial_rest(order, log_y) - 0.125 * (users - 1) * math.exp(-eps0)
        # every order sums thousands of terms: in place, SciPy's sum takes twice as long
        largest = max(square, upsilon, float(moments.max(initial=-math.inf)))
        moments -= largest
        rest = math.exp(square - largest) + math.exp(upsilon - largest)
        total = largest + math.log(float(np.exp(moments, out=moments).sum()) + rest)
        return float(np.logaddexp(0.0, total))


@lru_cache(maxsize=2)
def _log_gammas(size: int) -> tuple[Array, Array]:
    """``log j!`` and ``log Gamma(j/2)`` for j < size; the latter is inf at 0."""
    from scipy.special import gammaln

    j = np.arange(float(size))
    return gammaln(j + 1.0), gammaln(0.5 * j)


def _log_binomial_rest(order: int, log_y: float) -> float:
    """``log((1 + y)^order - 1 - order y)`` without cancellation."""
    y = math.exp(min(log_y, 700.0))
    if order * y < 0.1:
        term = total = 0.5 * order * (order - 1.0)  # in units of y^2
        for j in range(3, 12):  # 0.1^10/10! is far below rounding
            term *= (order - j + 1.0) * y / j
            total += term
        return math.log(total) + 2.0 * log_y
    whole = order * (math.log1p(y) if log_y < 700.0 else log_y)
    if whole < 30.0:
        return math.log(math.expm1(whole) - order * y)
    # in logarithms: order * y may overflow
    return whole + math.log1p(-math.exp(np.logaddexp(0.0, math.log(order) + log_y) - whole))


def _of_protocol(question: Question) -> float:
    kind = question.one_kind(name)
    return epsilon(
        eps0=kind.eps0,
        users=kind.users,
        population=kind.round.population,
        rounds=kind.count,
        delta=question.delta,
    )


register(
    ProtocolBound,
    __name__,
    about="equal rounds of one randomizer, sampled too",
    forms={"": _of_protocol},
    rank=20,
)
