"""Candidates that estimate the mean of vectors in the unit ball."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfc, gammainccinv, gammaincinv

from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.design.candidates import Candidate, Curator, Noise, RandomizedMessages
from shuffle_accountant.design.limit import gaussian_mu
from shuffle_accountant.design.question import Question
from shuffle_accountant.losses.steps.null_clones import charge
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.randomizers import vectors
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.noise import GaussianVectors
from shuffle_accountant.randomizers.registry import own_kinds
from shuffle_accountant.rounds.protocol import Protocol

# Bits of one real number in a message.
_FLOAT = 32
# Points of the trapezoidal rule in the logarithm, for densities as smooth as the gamma densities.
_NODES = 512
# Range of the noise multiplier that the search starts from.
_LITTLE, _MUCH = 0.1, 1e4
# Range of log odds of a null clone in which the root is sought.
_FEWEST_ODDS, _MOST_ODDS = -60.0, 8.0


@dataclass(frozen=True)
class _Vectors(RandomizedMessages):
    """One message of a vector randomizer per user."""

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        return math.sqrt(mechanism.variance() / question.senders)

    def largest(self, mechanism: Any, question: Question) -> float:
        users, confidence = question.senders, question.confidence
        return float(mechanism.largest_mean_error(users=users, confidence=confidence))

    def bits(self, mechanism: Any, question: Question) -> float:
        match mechanism:
            case vectors.DuchiLInf():
                return float(question.size)
            case vectors.SampledCoordinates():
                return mechanism.coordinates * (1.0 + math.log2(question.size))
        return float(_FLOAT * question.size)


class _EveryCoordinate(Noise):
    """Noise in every coordinate: all are alike, and real numbers."""

    def coordinate_error(self, mechanism: Any, question: Question) -> float:
        return self.error(mechanism, question, 0.0) / math.sqrt(question.size)

    def bits(self, mechanism: Any, question: Question) -> float:
        return float(_FLOAT * question.size)


@dataclass(frozen=True)
class _GaussianMessages(_EveryCoordinate):
    """Each user adds the noise; adjacency: the vector is replaced by 0, or the reverse.

    Brackets by null clones take seconds if narrow, most of one second if wide; their width and the
    ratio of noise multipliers cost a few tenths of a percent of the noise each.
    """

    name: str = "Gaussian messages (zero-out)"
    place: str = "shuffle"
    adjacency: ClassVar[Adjacency] = Adjacency.ZERO_OUT
    decided_by: ClassVar[float] = 0.1
    ratio: ClassVar[float | None] = 1.002
    slope: ClassVar[float] = 10.0

    def guess(self, question: Question) -> float:
        return _enough_noise(question)

    def with_noise(self, noise: float, question: Question) -> GaussianVectors:
        return GaussianVectors(noise_multiplier=noise)

    def changed(self, mechanism: Any, factor: float, question: Question) -> GaussianVectors:
        return GaussianVectors(noise_multiplier=mechanism.noise_multiplier / factor)

    def protocol(self, mechanism: Any, question: Question) -> Protocol:
        return Protocol([(question.shuffled(mechanism), question.rounds)])

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        return float(mechanism.noise_multiplier) * math.sqrt(question.size / question.senders)


def _enough_noise(question: Question) -> float:
    """About the least noise multiplier: with as many null clones as half of delta pays for.

    An allocation among that many null clones is approximated by its Gaussian limit.
    """
    half = 0.5 * question.delta
    loss = min(question.target_epsilon / math.sqrt(question.rounds), 600.0)
    budget = math.log(half / question.rounds) - math.log1p(math.exp(loss))
    mu = gaussian_mu(question.target_epsilon, half) / math.sqrt(question.rounds)

    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)

        def over(log_odds: float) -> float:
            beta = charge(sigma, question.honest - 1, log_odds, Bound.PESSIMISTIC)
            return max(math.log(beta), -1e3) - budget if beta > 0.0 else -1e3

        if over(_FEWEST_ODDS) > 0.0:
            odds = _FEWEST_ODDS
        else:
            odds = _MOST_ODDS if over(_MOST_ODDS) < 0.0 else brentq(over, _FEWEST_ODDS, _MOST_ODDS)
        clones = (question.honest - 1) / (1.0 + math.exp(-odds))
        variance = math.log(math.expm1(min(sigma**-2, 600.0))) - math.log1p(clones)
        return variance - 2.0 * math.log(mu)

    low, high = math.log(_LITTLE), math.log(_MUCH)
    if excess(low) <= 0.0 or excess(high) >= 0.0:
        return _LITTLE if excess(low) <= 0.0 else _MUCH
    return math.exp(brentq(excess, low, high))


@dataclass(frozen=True)
class _Curator(_EveryCoordinate, Curator):
    """A trusted curator adds the noise to the sum, which a replaced vector moves by 2 at most."""

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        return 2.0 * self.noise(mechanism) * math.sqrt(question.size) / question.senders


@dataclass(frozen=True)
class _LaplaceCurator(_Curator):
    """A trusted curator adds noise of a density ``∝ e^(-|z|/b)``, of the 2-norm, to the sum.

    On a line that is Laplace noise, and its pair of distributions is the largest in any dimension.
    Given what of the noise is orthogonal to a move, the rest z has a log-concave density ``f ∝
    e^(-sqrt(z^2 + w^2)/b)``, so that a test is a threshold. Moving it on, the probability u of its
    false alarms grows at the rate ``f(F^-1(u))``, which has a slope ``f'/f`` between -1/b and 1/b
    and is 0 at u = 0 and 1: at most ``min(u, 1 - u)/b``, the rate of Laplace noise.
    """

    def error(self, mechanism: Any, question: Question, frequency: float) -> float:
        # the norm has a gamma distribution of shape d
        d = question.size
        return self._scale(mechanism, question) * math.sqrt(d) * math.sqrt(d + 1.0)

    def quantile(self, mechanism: Any, question: Question, share: float) -> float:
        """Quantile of a coordinate of the noise: a normal number times ``sqrt(2 G)``.

        G has a gamma distribution of shape ``a = (d + 1)/2``: the characteristic function of the
        noise is ``(1 + k^2)^-a``.
        """
        shape = 0.5 * (question.size + 1.0)
        least = 1e-9 * share  # what is left out
        first, last = gammaincinv(shape, least), gammainccinv(shape, least)
        logs = np.linspace(math.log(first), math.log(last), _NODES)
        weights = np.exp((exponents := shape * logs - np.exp(logs)) - exponents.max())
        weights /= weights.sum()
        deviations = 2.0 * np.exp(0.5 * logs)

        def excess(off: float) -> float:
            return float(weights @ erfc(off / deviations)) / share - 1.0

        most = float(deviations[-1]) * math.sqrt(-math.log(share))
        return float(brentq(excess, 0.0, most)) * self._scale(mechanism, question)

    def _scale(self, mechanism: Any, question: Question) -> float:
        """Scale of the mean's noise."""
        return 2.0 * self.noise(mechanism) / question.senders


def _estimates_means(kind: type[LocalRandomizer]) -> bool:
    return all(hasattr(kind, name) for name in ("variance", "largest_mean_error"))


def mean_candidates(dimension: int, *, gaussian_messages: bool) -> tuple[Candidate, ...]:
    """All candidates of a design of means, Gaussian messages only if they are wanted."""
    kinds: list[tuple[str, Callable[..., LocalRandomizer]]] = [
        ("PrivUnit", vectors.PrivUnit),
        ("Duchi et al., sphere", vectors.DuchiL2),
        ("Duchi et al., cube", vectors.DuchiLInf),
        ("sampled coordinates", vectors.SampledCoordinates),
        *((one.kind, one) for one in own_kinds("dimension", "eps0") if _estimates_means(one)),
    ]
    kinds = [one for one in kinds if dimension >= getattr(one[1], "least_dimension", 1)]
    return (
        *(_Vectors(name, place, kind) for place in ("shuffle", "local") for name, kind in kinds),
        *((_GaussianMessages(),) if gaussian_messages else ()),
        _Curator("Gaussian noise", laplace=False),
        _LaplaceCurator("Laplace noise", laplace=True),
    )
