"""Expansions of the leakage in powers of 1/n, and the decoys that hide a message best."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.arguments import MOST_USERS, law, two_laws
from shuffle_accountant.leakage.mutual_information.ratios import Exposure, Ratios, entropy
from shuffle_accountant.leakage.mutual_information.target import given_laws
from shuffle_accountant.numerics.rounding import Array


def optimal_decoy(p: ArrayLike) -> Array:
    """The distribution of decoys that, for many users, reveals least about the target's message.

    It is proportional to ``sqrt(p (1 - p))``: by the inequality of Cauchy and Schwarz that
    minimises the leading constant ``sum_y P(1 - P)/Q / 2`` of ``n I(Y1; Z)``, to ``(sum_y sqrt(P(1
    - P)))^2 / 2``. It is neither p nor proportional to ``sqrt(p)``. For two messages it is uniform.
    A message that is always the same has nothing to hide, and its decoys are copies.

    'Mutual Information Bounds in the Shuffle Model', Theorem 6 and Corollary 1.

    Returns:
        Probabilities, shape (messages,).
    """
    target = law(p=p)
    others = math.fsum(target.tolist()) - target
    spread = np.sqrt(target * np.maximum(others, 0.0))
    total = math.fsum(spread.tolist())
    return target if total == 0.0 else np.asarray(spread / total)


def leading_constant(p: ArrayLike, q: ArrayLike | None = None) -> float:
    """The limit of ``n I(Y1; Z)``: ``sum_y P(1 - P)/Q / 2``, nats; infinite unless P << Q.

    Args:
        q: distribution of every other message, same shape; by default the optimal one.
    """
    target, decoys = two_laws(p, optimal_decoy(p) if q is None else q)
    spread = target * (1.0 - target)
    if np.any((spread > 0.0) & (decoys <= 0.0)):
        return math.inf
    kept = spread > 0.0
    with np.errstate(over="ignore"):  # beyond a double it is infinite
        return 0.5 * float(np.sum(spread[kept] / decoys[kept]))


@dataclass(frozen=True)
class Expansion:
    """``limit + exposed log n + first/n + second/n^2 + O(n^-3)``, not certified.

    Good only where n times the least probability of a decoy's message, and n over the chi-squared
    divergence, are large. Nothing is rounded in a direction.

    Attributes:
        limit: nats, as n grows (beside the logarithm).
        exposed: factor of ``log n``: probability of messages that only the target sends.
        first: coefficient of 1/n.
        second: coefficient of 1/n^2; infinite where ratios above 1e100 leave no double.
    """

    limit: float
    exposed: float
    first: float
    second: float

    def deviation(self, *, users: int) -> float:
        """``first/n + second/n^2``: distance from the limit, with relative accuracy."""
        n = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
        return (self.first + self.second / n) / n

    def at(self, *, users: int) -> float:
        """The expansion's value for n users, nats."""
        n = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
        return self.limit + self.exposed * math.log(n) + self.deviation(users=n)


def position_expansion(p: ArrayLike, q: ArrayLike) -> Expansion:
    """Expansion of ``I(K; Z)``: ``D - chi^2/2n - (chi^2^2/4 - m_3/6)/n^2``.

    'Mutual Information Bounds in the Shuffle Model', Theorems 4 and 7, with one more term; m_3 is
    ``E_Q[(P/Q - 1)^3]``. The remainder is ``O(n^-3)``.
    """
    target, decoys = given_laws(p, q)
    exposure = Exposure.of(target, decoys)
    share, rest = exposure.rest(target, decoys)
    exposed = _exposed(target, exposure.exposed)
    if rest is None:
        return Expansion(0.0, exposed, 0.0, 0.0)
    first, second = _shuffled(rest)
    return Expansion(share * rest.divergence.value, exposed, -share * first, -share * second)


def message_expansion(p: ArrayLike, q: ArrayLike) -> Expansion:
    """Expansion of ``I(Y1; Z)``, whose first term is ``sum_y P(1 - P)/Q / 2n``.

    'Mutual Information Bounds in the Shuffle Model', Theorems 3, 5 and 8, with one more term,

        (sum_y P(1 - Q^2)/Q^2 / 12 - chi^2^2/4 + m_3/6) / n^2,

    so the remainder is ``O(n^-3)``.
    """
    target, decoys = given_laws(p, q)
    exposure = Exposure.of(target, decoys)
    share, rest = exposure.rest(target, decoys)
    total = math.fsum(target.tolist())
    limit = 0.0
    if exposure.exposed.any():
        limit = entropy(np.append(target[exposure.exposed] / total, share))
    if rest is None:
        return Expansion(limit, 0.0, 0.0, 0.0)
    heard = rest.p > 0.0
    p_heard, q_heard = rest.p[heard], rest.q[heard]
    first = 0.5 * math.fsum((p_heard * (1.0 - p_heard) / q_heard).tolist())
    second = math.inf
    if rest.moment(3) < math.inf:  # then no ratio is above 1e100
        shape = np.minimum(p_heard / q_heard * (1.0 - q_heard**2), 1e100)
        letters = math.fsum((shape / np.maximum(q_heard, 1e-200)).tolist()) / 12.0
        second = letters - _shuffled(rest)[1]
    return Expansion(limit, 0.0, share * first, share * second)


def _shuffled(pair: Ratios) -> tuple[float, float]:
    """Coefficients of 1/n and 1/n^2 in ``Phi_n``."""
    chi2, third = pair.moment(2), pair.moment(3)
    if third == math.inf:
        return 0.5 * chi2, math.inf
    return 0.5 * chi2, 0.25 * chi2 * chi2 - third / 6.0


def _exposed(p: Array, exposed: NDArray[np.bool_]) -> float:
    return math.fsum(p[exposed].tolist()) / math.fsum(p.tolist())
