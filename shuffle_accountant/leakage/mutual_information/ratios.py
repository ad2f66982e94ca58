"""Likelihood ratios of the target's message to a decoy's, and numbers with bounds of their errors.

Moments and the divergence of the ratios, and the entropy of a distribution, are `Estimate`s or
plain numbers with a stated error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.bracket import Bracket, ErrorLedger
from shuffle_accountant.numerics.rounding import ELEMENTARY, Array, raised, roundings

# Likelihood ratio above which a message counts as one that decoys never send, at any number of
# users that doubles can count (up to an error of 1e-130, see `Exposure`).
HUGE_RATIO = 1e150

# So does a message of a smaller probability among decoys; products of other ratios are doubles.
TINY = 1e-280

# Below this |t| the divergence's integrand is a series.
_SERIES_BELOW = 0.25


@dataclass(frozen=True)
class Estimate:
    """The exact number is ``value`` up to the sum of the three errors.

    Attributes:
        value: nats.
        discretisation: bound of what a quadrature or cells of messages move it by.
        truncation: bound of what was not followed.
        round_off: bound of what floating-point arithmetic moves it by.
    """

    value: float
    discretisation: float = 0.0
    truncation: float = 0.0
    round_off: float = 0.0

    @property
    def error(self) -> float:
        """Bound of the distance of the exact number from ``value``."""
        return self.discretisation + self.truncation + self.round_off

    def __add__(self, other: Estimate) -> Estimate:
        value = self.value + other.value
        return Estimate(
            value,
            self.discretisation + other.discretisation,
            self.truncation + other.truncation,
            self.round_off + other.round_off + roundings(1) * abs(value),
        )

    def __sub__(self, other: Estimate) -> Estimate:
        return self + other.times(-1.0)

    def times(self, factor: float) -> Estimate:
        """The product with a factor that is itself off by 4 units in its last place at most."""
        value, size = self.value * factor, raised(abs(factor), roundings(5))
        return Estimate(
            value,
            self.discretisation * size,
            self.truncation * size,
            self.round_off * size + roundings(6) * abs(value),
        )

    def ends(self) -> tuple[float, float]:
        """The two numbers that the exact one is between."""
        error = raised(self.error, roundings(8)) + roundings(1) * abs(self.value)
        if error == 0.0:
            return self.value, self.value
        ends = self.value - error, self.value + error
        return math.nextafter(ends[0], -math.inf), math.nextafter(ends[1], math.inf)

    def bracket(self, reduction: str, *, most: float = math.inf) -> Bracket:
        """The bracket of a number that is known to be in [0, ``most``]."""
        return between(self, self, reduction, most)


def between(lower: Estimate, upper: Estimate, reduction: str, most: float) -> Bracket:
    """The bracket of a number between two, and in [0, ``most``].

    Args:
        most: an upper bound that holds for other reasons, itself off by rounding alone.
    """
    ledger = ErrorLedger(
        discretisation=lower.discretisation
        + upper.discretisation
        + max(upper.value - lower.value, 0.0),
        truncation=lower.truncation + upper.truncation,
        round_off=lower.round_off + upper.round_off,
    )
    return Bracket(
        lower=max(lower.ends()[0], 0.0),
        upper=min(max(upper.ends()[1], 0.0), raised(most, roundings(4))),
        ledger=ledger,
        reduction=reduction,
    )


@dataclass(frozen=True, eq=False)
class Ratios:
    """Likelihood ratios of a law P to a law Q with P << Q, one per class of letters.

    Attributes:
        p: probabilities under P, shape (m,).
        q: probabilities under Q, all > 0, shape (m,).
        gap: ``p - q``, to a few units in the last place of the *difference*.
        inexact: relative error of the entries of ``p`` that the distributions were given with.
    """

    p: Array
    q: Array
    gap: Array
    inexact: float = 0.0

    @staticmethod
    def of(p: Array, q: Array, inexact: float = 0.0) -> Ratios:
        """The ratios of two vectors of masses, each of which is a law once divided by its sum.

        What the two sums miss to one is known exactly, so that distributions that differ in their
        tenth digit have ratios that are known to as many digits as any. p is 0 wherever q is.
        """
        sent = q > 0.0
        p, q = _near_one(p[sent]), _near_one(q[sent])
        heard = p > 0.0
        if np.count_nonzero(~heard) > 1:  # messages of ratio zero are one message
            p = np.append(p[heard], 0.0)
            q = np.append(q[heard], math.fsum(q[~heard].tolist()))
        over_p, over_q = (math.fsum([*x.tolist(), -1.0]) for x in (p, q))
        scale_p, scale_q = 1.0 + over_p, 1.0 + over_q
        gap = ((p - q) + (p * over_q - q * over_p)) / (scale_p * scale_q)
        return Ratios(p / scale_p, q / scale_q, gap, inexact)

    @cached_property
    def centred(self) -> Array:
        """``p/q - 1``, shape (m,)."""
        return self.gap / self.q

    def moment(self, order: int) -> float:
        """``E_Q[(p/q - 1)^order]``; of order 2 it is the chi-squared divergence of P from Q.

        Infinite for higher orders of ratios above 1e100.
        """
        if order == 2:
            return math.fsum((self.gap * self.centred).tolist())
        if float(self.centred.max()) > 1e100:
            return math.inf
        return math.fsum((self.gap * self.centred * self.centred ** (order - 2)).tolist())

    @cached_property
    def divergence(self) -> Estimate:
        """``D(P‖Q) = sum_y Q(y) g(p/q - 1)``, ``g(t) = (1 + t) log(1 + t) - t``: terms >= 0."""
        near = np.abs(self.centred) < _SERIES_BELOW
        terms = self.q * _entropy_term(np.where(near, self.centred, 0.0))
        heard = ~near & (self.p > 0.0)
        logs = np.zeros_like(terms)
        logs[heard] = self.p[heard] * np.log(self.p[heard] / self.q[heard])
        terms = np.where(near, terms, logs - self.gap)
        size = np.where(near, terms, np.abs(logs) + np.abs(self.gap))
        error = roundings(2 * ELEMENTARY) * math.fsum(size.tolist())
        return Estimate(max(math.fsum(terms.tolist()), 0.0), round_off=error)

    def least_divergence(self, users: int) -> float:
        """``n D((1 - 1/n) Q + P/n ‖ Q)``, a lower bound of the shuffled divergence.

        Each message of the shuffled output has the distribution in it, and relative entropy to a
        product is at least the sum over the marginals. Exact for n = 1, and to first order for
        many users.
        """
        t = self.centred / users
        near = np.abs(t) < _SERIES_BELOW
        far = np.where(near, 1.0, t)
        whole = (1.0 + far) * np.log1p(np.where(far > -1.0, far, 0.0)) - far
        terms = np.where(near, _entropy_term(np.where(near, t, 0.0)), whole)
        return users * math.fsum((self.q * terms).tolist())


def _entropy_term(t: Array) -> Array:
    """``(1 + t) log(1 + t) - t`` for |t| < 1/4, a few units in the last place."""
    total = np.zeros_like(t)
    for k in range(28, 1, -1):  # what follows is below 4^-28
        total = total * -t + 1.0 / (k * (k - 1))
    return np.asarray(t * t * total)


def _near_one(masses: Array) -> Array:
    """The masses, divided by their sum unless it is one up to what normalised laws miss."""
    total = math.fsum(masses.tolist())
    return masses if abs(total - 1.0) <= 1e-6 else masses / total


@dataclass(frozen=True, eq=False)
class Exposure:
    """Messages that decoys never send, or with negligible probability.

    A message that the target sends 1e150 times as often as a decoy, or a decoy with a probability
    below 1e-280, counts as one that decoys never send: the two worlds differ only if some decoy
    sends it, with probability ``tau <= n sum q``, below 1e-130. A conditional entropy over k
    values moves by at most ``tau log k + (1 + tau) h(tau/(1 + tau))`` (Winter 2016, Lemma 2), for
    such a tau less than ``tau log k + 2 sqrt(tau)``.

    """

    p: Array
    q: Array

    @cached_property
    def exposed(self) -> NDArray[np.bool_]:
        """Whether each message is one, shape (messages,)."""
        rare = (self.q < TINY) | (self.q < self.p / HUGE_RATIO)
        return np.asarray((self.p > 0.0) & rare)

    @cached_property
    def rare(self) -> float:
        """Total probability of those among them that decoys do send."""
        return math.fsum(self.q[self.exposed].tolist())

    @cached_property
    def chance(self) -> float:
        """Probability that the target sends one of them."""
        return math.fsum(self.p[self.exposed].tolist()) / math.fsum(self.p.tolist())

    @cached_property
    def share(self) -> float:
        """Probability that the target sends another message."""
        if not self.exposed.any():
            return 1.0
        return math.fsum(self.p[~self.exposed].tolist()) / math.fsum(self.p.tolist())

    @cached_property
    def rest(self) -> Ratios | None:
        """The target's distribution given another message; None where there is no such message."""
        if self.share == 0.0:
            return None
        inexact = roundings(4) if self.exposed.any() else 0.0
        return Ratios.of(self.p[~self.exposed], self.q[~self.exposed], inexact)

    @property
    def seen(self) -> float:
        """Entropy of the message if it is one of them, or else that it is not; nats."""
        sent = self.p[self.exposed] / math.fsum(self.p.tolist())
        return entropy(np.append(sent, self.share))

    def error(self, users: int, values: float) -> float:
        """Bound (nats) on the change of a conditional entropy over ``values`` values."""
        if self.rare == 0.0:
            return 0.0
        tau = users * self.rare
        return tau * math.log(max(values, 2.0)) + 2.0 * math.sqrt(tau)


def entropy(masses: Array) -> float:
    """``-sum x log x`` in nats, x the masses over their sum; relative error below 16 roundings.

    A probability near one is taken from the others, because its logarithm is as small as they are.
    """
    total = math.fsum(masses.tolist())
    rest = np.delete(masses, int(np.argmax(masses))) / total
    others = math.fsum(rest.tolist())
    rest = rest[rest > 0.0]
    terms = (-rest * np.log(rest)).tolist()
    if others < 1.0:
        terms.append(-(1.0 - others) * math.log1p(-others))
    return math.fsum(terms)
