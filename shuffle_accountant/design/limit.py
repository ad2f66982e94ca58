"""The Gaussian limit of a shuffled round: an approximation for many users, never a bound.

Decoys drawn from a blanket of mass gamma hide the difference ``l = (R_x0 - R_x1)/omega`` of the
target's distributions, relative to the normalised blanket omega. By the central limit theorem the
loss of n users is that of two normal distributions ``mu = sd(l)/sqrt(gamma n)`` apart, under omega,
for the pair of inputs that makes mu largest; rounds add up mu squared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import log_ndtr, ndtr

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import delta as composed_delta
from shuffle_accountant.numerics.roots import find_crossing
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.randomizers.base import ConcreteRandomizer
from shuffle_accountant.rounds.protocol import MAX_ROUNDS
from shuffle_accountant.rounds.shuffle import ShuffleRound

# Continuous randomizers: probability mass that may be left out, and resolution of the cells.
_TAIL, _RESOLUTION = 1e-12, 1e-4


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Hockey-stick divergence of two normal distributions of variance 1, ``mu`` > 0 apart.

    ``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)`` (Balle and Wang 2018).
    """
    shift = epsilon / mu
    second = math.exp(epsilon + float(log_ndtr(-0.5 * mu - shift)))
    return max(float(ndtr(0.5 * mu - shift)) - second, 0.0)


def _log_excess(mu: float, epsilon: float, delta: float) -> float:
    """Logarithm of `gaussian_delta` over ``delta``."""
    found = gaussian_delta(mu, epsilon)
    return math.log(found / delta) if found > 0.0 else -math.inf


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu for which `gaussian_delta` at epsilon is ``delta``; to about six digits."""
    # mu falls along the way, from a value that is too large for any delta below 1
    start = -math.log(10.0 + 4.0 * (1.0 + epsilon))

    def log_excess(way: float) -> float:
        return _log_excess(math.exp(-(start + way)), epsilon, delta)

    return math.exp(-(start + find_crossing(log_excess, 200.0, 1.0, 0.1, 1e-9, -1.0).right))


@dataclass(frozen=True, kw_only=True)
class GaussianLimit:
    """The limit for many users of a round, composed: approximations, never bounds.

    Attributes:
        mu: distance of the two normal distributions, of all rounds together.
    """

    round: ShuffleRound
    rounds: int
    mu: float

    def delta(self, *, epsilon: float) -> float:
        """The limit's delta at epsilon (nats, finite, >= 0)."""
        epsilon = validate.finite_nonnegative(epsilon=epsilon)
        return gaussian_delta(self.mu, epsilon) if self.mu > 0.0 else 0.0

    def epsilon(self, *, delta: float) -> float:
        """The limit's epsilon (nats) at delta in (0, 1)."""
        delta = validate.open_unit(delta=delta)
        if self.delta(epsilon=0.0) <= delta:
            return 0.0
        # the tail of the loss, which is normal with mean mu^2/2 and deviation mu
        most = 0.5 * self.mu**2 + self.mu * (math.sqrt(-2.0 * math.log(delta)) + 1.0)
        log_excess = partial(_log_excess, self.mu, delta=delta)
        return float(find_crossing(log_excess, most, 0.5 * most, 0.1 * most, 1e-12, -1.0).right)

    def ratio(self, *, epsilon: float) -> tuple[float, float]:
        """Exact delta over the limit's: lower and upper end of what the limit is off by."""
        limit = self.delta(epsilon=epsilon)
        if limit == 0.0:
            raise ValueError(f"epsilon must be where the limit's delta is above 0, got {epsilon!r}")
        exact = composed_delta(self.round, epsilon=epsilon, rounds=self.rounds)
        return exact.lower / limit, exact.upper / limit


def asymptotic(round: ShuffleRound, *, rounds: int = 1) -> GaussianLimit:
    """The Gaussian limit of a shuffled round, for comparison with its exact value.

    Args:
        round: with a randomizer whose distribution is known, and no sampling.
    """
    round = validate.instance(ShuffleRound, round=round)
    rounds = validate.integer(minimum=1, maximum=MAX_ROUNDS, rounds=rounds)
    randomizer = round.randomizer
    if not isinstance(randomizer, ConcreteRandomizer):
        raise ValueError(
            f"round must have a randomizer whose law is known, got {type(randomizer).__name__}"
        )
    if round.population is not None:
        raise ValueError(f"round must have population=None, got {round.population}")
    mu = limit_mu(randomizer, round.plain_users)
    if not math.isfinite(mu):
        raise ValueError(
            "round must have a randomizer none of whose messages gives an input away, got "
            f"{randomizer!r:.60}"
        )
    return GaussianLimit(round=round, rounds=rounds, mu=mu * math.sqrt(rounds))


def limit_mu(randomizer: ConcreteRandomizer, users: int) -> float:
    """The mu of one round; inf if a message gives an input away.

    With m the blanket of mass gamma and omega = m/gamma, ``sd(l)^2 = gamma sum (p0 - p1)^2/m``.
    """
    worst = 0.0
    for pair in randomizer.input_pairs():
        (first, second, blanket), _ = randomizer.letters(
            pair, Bound.OPTIMISTIC, tail=_TAIL, resolution=_RESOLUTION
        )
        squares = (first - second) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(squares > 0.0, squares / blanket, 0.0)
        worst = max(worst, float(terms.sum()))
    return math.sqrt(worst / users)
