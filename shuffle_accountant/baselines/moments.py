"""Exponential moments of a round's privacy loss, from above and from below.

``K(t) = log E_P[e^(t L)]``, t > 0, of a dominating pair on a grid. Moments are integrals of
hockey-stick divergences with positive weights, so that of the upper pair is not below the true one,
and that of the lower pair not above.

*Losses too rare for a double.* Of total probability ``tau`` they add at most
``tau e^(t largest)`` to the moment. For the clones, by Hölder's inequality, they also add at most
``tau^(1 - 1/p) E_P[e^(p t L)]^(1/p)`` for every p > 1, and that moment has a bound of its own: see
`_clones_bound`.

Conversion of Rényi divergences to (epsilon, delta), by Canonne, Kamath and Steinke.

A pair whose Rényi divergence of order lambda is rho is (epsilon, delta)-private with

    delta = e^((lambda - 1)(rho - epsilon)) / (lambda - 1) (1 - 1/lambda)^lambda

(2020, "The discrete Gaussian for differential privacy", Proposition 12), at every epsilon and for
every order. Orders are given by ``t = lambda - 1 > 0`` and divergences by the log moment
``K(t) = log E_P[(P/Q)^t] = t rho``, which is convex in t; so is log delta, and epsilon is
quasi-convex: each falls, then rises.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffle_accountant.engine.ends import loss_grid
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss
from shuffle_accountant.losses.alphabets.letters import MessagePair, MessageSource
from shuffle_accountant.losses.base import Effort, GridTooFine, PrivacyLoss
from shuffle_accountant.losses.combined.subsampled import DilutedLoss, SubsampledLoss
from shuffle_accountant.losses.decoy_counts import NumberOfClones
from shuffle_accountant.losses.two_letters.binary import BinaryLoss
from shuffle_accountant.losses.two_letters.mixed_responses import NumberOfMixedResponses
from shuffle_accountant.numerics.binomial import log_upper_tail
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import ELEMENTARY, Array, Bound, pairwise_sum

LogMoment = Callable[[float], float]
# Excess orders t = order - 1 that are tried first, eight per decade.
_LADDER = np.logspace(-8.0, 14.0, 22 * 8 + 1)
# Probability mass of losses left out: for clones, which are cheap to list, for other randomizers,
# and for losses without a largest value.
_CLONES_TAIL, _TAIL, UNBOUNDED_TAIL = 1e-300, 1e-60, 1e-24
_HOELDER = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0)
# Relative amount by which chances of decoys are lowered, for their rounding.
_LESS = 1e-9


def epsilon_of(log_moment: float, t: float, delta: float) -> float:
    """Epsilon at delta from one order; may be negative."""
    return (log_moment - math.log(delta) + _log_factor(t)) / t


def _log_factor(t: float) -> float:
    """Log of ``(1 - 1/lambda)^lambda / (lambda - 1)`` at lambda = 1 + t."""
    return -t * math.log1p(1.0 / t) - math.log1p(t)


def best_epsilon(log_moment: LogMoment, delta: float) -> float:
    """Smallest epsilon >= 0 over all real orders > 1; inf if no log moment is finite."""
    return max(_least(lambda t: epsilon_of(log_moment(t), t, delta)), 0.0)


def best_delta(log_moment: LogMoment, epsilon: float) -> float:
    """Smallest delta <= 1 over all real orders > 1."""
    least = _least(lambda t: log_moment(t) - t * epsilon + _log_factor(t))
    return math.exp(min(least, 0.0))


def lowest(values: Iterable[float]) -> tuple[int, float]:
    """Place and least of values that fall, perhaps from inf, then rise: the search ends there."""
    best, place, rises = math.inf, 0, 0
    for i, value in enumerate(values):
        if value < best:
            best, place, rises = value, i, 0
        elif best < math.inf:
            rises += 1
            if rises >= 6:  # rounding makes no more than one or two in a row
                break
    return place, best


def _least(function: LogMoment) -> float:
    """Minimum over t > 0 of a quasi-convex function; inf on the right is allowed."""
    from scipy.optimize import minimize_scalar

    place, best = lowest(map(function, _LADDER.tolist()))
    if best == math.inf:
        return best
    ends = _LADDER[max(place - 1, 0)], _LADDER[min(place + 1, _LADDER.size - 1)]

    def near(log_t: float) -> float:
        # the search wants finite numbers
        return min(max(function(math.exp(log_t)), -1e300), 1e300)

    inside = tuple(map(math.log, ends))
    found = minimize_scalar(near, bounds=inside, method="bounded", options={"xatol": 1e-7})
    return min(best, float(found.fun))


@dataclass(frozen=True, eq=False)
class LogMoments:
    """Moments of one direction of one round.

    Attributes:
        side: on which side of the truth.
        loss: grid points that carry mass, nats, moved by their error in the direction.
        log_mass: log of their P-masses.
        infinite: P-mass that is counted as infinite loss: all of it true (OPTIMISTIC), or cut off
            tails included (PESSIMISTIC).
        largest: no loss is larger, nats.
        clones: a number of clones for which no moment is below the loss's, if one is known.
    """

    side: Bound
    loss: Array
    log_mass: Array
    infinite: float
    largest: float
    clones: NumberOfClones | None

    def kept(self, t: float) -> float:
        """``log E_P[e^(t L)]`` without the infinite losses: of a sub-probability."""
        if self.loss.size == 0:
            return -math.inf
        with np.errstate(over="ignore"):
            exponent = self.log_mass + t * self.loss
        top = float(exponent.max())
        if top == math.inf:  # beyond the doubles: at least the largest of them
            return math.inf if self.side is Bound.PESSIMISTIC else sys.float_info.max
        if top == -math.inf:  # the other way round
            return -sys.float_info.max if self.side is Bound.PESSIMISTIC else -math.inf
        terms = float(np.sum(np.exp(exponent - top)))
        total = rounded(top + math.log(rounded(terms, 2 * ELEMENTARY)))
        # Relative error of the sum's terms, of the sum and of its logarithm: each exponent that
        # counts is rounded four times, at the size of its parts
        near = exponent >= top - 50.0  # the top itself where 50 is lost in it
        size = float(np.max(np.abs(self.log_mass[near]) + 2.0 * t * np.abs(self.loss[near])))
        moved = pairwise_sum(own=2 * ELEMENTARY) * (1.0 + size + abs(top) + abs(total))
        return total + moved if self.side is Bound.PESSIMISTIC else total - moved

    def bound(self, t: float) -> float:
        """``log E_P[e^(t L)]`` bounded in the direction, >= 0; at most ``t largest``."""
        kept = self.kept(t)
        if self.side is Bound.OPTIMISTIC:
            return math.inf if self.infinite > 0.0 else max(kept, 0.0)
        most = t * self.largest
        if self.infinite > 0.0:
            kept = float(np.logaddexp(kept, self._rare(t)))
        return max(min(kept, most), 0.0)

    def _rare(self, t: float) -> float:
        """Log of an upper bound of what the losses left out add to the moment."""
        log_tail = math.log(self.infinite)
        bounds = [log_tail + t * self.largest]
        if self.clones is not None:
            for p in _HOELDER:
                bounds.append((1.0 - 1.0 / p) * log_tail + _clones_bound(self.clones, p * t) / p)
        return min(bounds)


@lru_cache(maxsize=64)
def log_moments(loss: PrivacyLoss, side: Bound) -> LogMoments:
    """Moments of a privacy loss that is not always 0, bounded on one side."""
    inner = loss
    while isinstance(inner, DilutedLoss | SubsampledLoss):
        inner = inner.inner
    clones = isinstance(inner, BinaryLoss) and isinstance(inner.source, NumberOfClones)
    tail = _CLONES_TAIL if clones else _TAIL
    tail = tail if loss.largest < math.inf else UNBOUNDED_TAIL
    # a grid of subnormal losses would have no digits
    spacing = max(loss.deviation / 100.0, 1e-280)
    if loss.largest < math.inf:  # the largest loss should be a grid point
        spacing = loss.largest / math.ceil(loss.largest / spacing)
    # blocks of decoy counts move moments by half of the resolution, connecting the dots by less
    effort = Effort(tail=tail, resolution=2.5e-4)
    while True:
        try:
            grid = loss_grid(loss, side, spacing, effort, 4_000_000)
            break
        except GridTooFine as refused:
            spacing *= 1.01 * refused.factor
    upper = side is Bound.PESSIMISTIC
    # masses near the end of the doubles have no digits: the lower side does without them, and on
    # the upper one the infinite mass makes up for them
    least = 0.0 if upper else 1e-300
    kept = grid.mass > least
    return LogMoments(
        side=side,
        loss=grid.losses[kept] + (grid.loss_error if upper else -grid.loss_error),
        log_mass=np.log(grid.mass[kept]),
        infinite=grid.infinite if grid.infinite > least else 0.0,
        largest=loss.largest,
        clones=_clones(inner),
    )


def _clones(loss: PrivacyLoss) -> NumberOfClones | None:
    """The clones themselves, or those that hide less than a blanket's draws; None if unknown.

    Write p0 and p1 as mixtures of two laws in the ratio e^eps0 : 1, and the other way round: the
    laws add up to ``p0 + p1``. If ``q >= (p0 + p1)/(e^eps0 + 1)`` letter by letter, each decoy is a
    draw of either law with that probability, which makes them clones. So it is for k-ary
    randomized response.
    """
    source = loss.source if isinstance(loss, BinaryLoss) else None
    if isinstance(source, NumberOfClones):
        return source if source.largest < math.inf else None
    eps0 = loss.largest
    if isinstance(source, NumberOfMixedResponses):
        if [group.chance for group in source.others] != [source.gamma]:
            return None
        decoys = source.others[0].users
    elif isinstance(loss, BlanketLoss) and all(_hidden(pair, eps0) for pair in loss.pairs):
        decoys = loss.users - 1
    else:
        return None
    ratio = math.exp(-eps0)
    rate = 2.0 * ratio / (1.0 + ratio)
    idle = math.tanh(0.5 * eps0) + _LESS * rate
    return NumberOfClones.from_eps0(eps0, decoys=decoys, rate=(1.0 - _LESS) * rate, idle=idle)


def _hidden(pair: MessageSource, eps0: float) -> bool:
    """Whether ``q >= (p0 + p1)/(e^eps0 + 1)``, but for rounding, and no loss is above eps0."""
    if not isinstance(pair, MessagePair) or eps0 == math.inf:
        return False
    ratio = math.exp(-eps0)
    enough = pair.q * (1.0 + ratio) >= (1.0 - 0.5 * _LESS) * ratio * (pair.p0 + pair.p1)
    return bool(enough.all()) and max(pair.largest, pair.reversed.largest) <= eps0


@lru_cache(maxsize=1024)
def _clones_bound(clones: NumberOfClones, t: float) -> float:
    """Upper bound of ``log E_P[e^(t L)]`` for the clones, sampled or not, for every t > 0.

    With m of the messages informative, of which a say 0, positive losses are at most
    ``eps0 (2a - m)/m``, their chord; that is ``eps0/m`` times the target's sign plus those of m - 1
    fair coins, so its moment is at most ``e^(s + m log cosh s)``, ``s = t eps0/m``, which falls
    with m. Other losses add at most 1. Blocks of m are taken at their smallest, with the
    probability of all m up to their largest. Sampling the users makes moments smaller.
    """
    first = np.unique(np.floor(np.geomspace(1.0, clones.decoys + 1.0, 400)))
    last = np.append(first[1:] - 1.0, clones.decoys + 1.0)
    s = t * clones.largest / first
    moment = s + first * (s + np.log1p(np.exp(-2.0 * s)) - math.log(2.0))
    # P(C <= last - 1), through the number of blank decoys
    decoys = np.full(last.size, float(clones.decoys))
    weight = log_upper_tail(decoys - (last - 1.0), decoys, clones.idle, clones.rate)
    terms = np.append(np.minimum(moment, t * clones.largest) + weight, 0.0)
    return float(np.logaddexp.reduce(terms))
