"""What a round is no worse than, up to an additive delta: a Gaussian mechanism, rounds of one kind.

*A Gaussian mechanism.* If the larger of both orders' profiles of a round is at most that of N(mu,
1) against N(0, 1) plus d at every ``alpha >= 1``, then it is in both orders at every ``alpha >=
0``, and the round is a Gaussian mechanism of that mu but for an event of probability d. A round is
then a kernel of a Brownian motion's increment of length mu^2, so that rounds chosen adaptively
whose mu^2 and d sum to no more than B and D reveal no more than N(sqrt(B), 1) against N(0, 1), plus
D.

*Rounds of one kind.* Fix a round r, the unit, and let K units be (epsilon, delta - D)-private. If
every round's profile, in both orders, is at most that of k units plus d, and the rounds' k and d
sum to no more than K and D however the rounds are chosen, all of them together are (epsilon,
delta)-private: each is a kernel of k draws of the unit's pair but for an event of probability d.

Cost of a round for a Rényi filter: a certified upper end of its log moments, both directions.

For a dominating pair (P, Q) with privacy loss L = log(P/Q), the log moment of excess order t > 0 is
``K(t) = log E_P[e^(t L)] = t D_(1 + t)(P ‖ Q)``. It comes off a grid from above
(`shuffle_accountant.baselines.moments`). Losses too rare for the grid, of total probability tau,
lie in an event; by Hölder's inequality they add at most

    tau^(1 - 1/p) E_P[e^(p t L)]^(1/p)        for every p > 1.

Where losses have no largest value, that moment is bounded by that of one message alone: shuffling,
sampling and dealing are applied to it, so by the data-processing inequality (and quasi-convexity)
they can only make moments smaller. Of normal noise of deviation sigma (in units of the
sensitivity) it is ``t (t + 1)/(2 sigma^2)``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from shuffle_accountant.baselines.moments import log_moments
from shuffle_accountant.baselines.question import require
from shuffle_accountant.engine.evaluation import order_ends
from shuffle_accountant.losses.base import HOCKEY_STICK, Effort, PrivacyLoss, factors
from shuffle_accountant.losses.steps.gaussian import gaussian_profile
from shuffle_accountant.numerics.rounding import Array, Bound
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.base import Round, certified_at
from shuffle_accountant.rounds.batches import PoissonSampled
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = [
    "epsilon_of_mu",
    "gaussian_cost",
    "largest_mu",
    "log_moment_cost",
    "unit_cost",
    "worst_gap",
]

NAME = "a Rényi filter"
# Largest loss (nats): above it, moments of high orders may be no doubles.
_MOST_LOSS = 1e100
# Values of p > 1 tried in Hölder's inequality.
_HOELDER = (1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0)
# Relative error of sums of a few logarithms and products, each rounded fewer than a hundred times.
_ROUNDING = 1e-12


# Number of epsilons at which profiles are compared, at most, and by how many a look is taken first.
_POINTS, _FIRST = 90, 6
_TOLERANCE = 2e-3


# Distance of the epsilons at which profiles are compared: in mu, and relative to themselves.
_STEP, _GROWTH = 0.06, 0.015
_MOST_POINTS = 2000
# Relative accuracy of mu, and what its profile's terms are lowered by, relative to them: far more
# than normal distribution functions are off.
_ACCURACY, _SLACK = 1e-5, 1e-12
# A largest mu: rounds beyond it have no budget of any use.
_LARGEST = 100.0


@lru_cache(maxsize=4096)
def log_moment_cost(round: Round, t: float) -> float:
    """Upper end of the log moment ``t D_(1 + t)`` of a round, the worse direction, nats, finite.

    Args:
        round: what would happen.
        t: excess order, finite, > 0.

    Raises:
        OutsideValidityError: no finite Rényi divergence is known for it.
    """
    pair = round.reduced()
    loss = pair.loss
    if loss.largest == 0.0:
        return 0.0
    require(NAME, _condition(round, loss))
    found = max(
        math.fsum(count * _side(part, t, round) for part, count in factors(side, alone=False))
        for side in {loss, loss.reversed}
    )
    if not math.isfinite(found):
        require(NAME, f"rounds of finite Rényi divergence, got {round!r:.120} at order {1.0 + t:g}")
    return found


def _condition(round: Round, loss: PrivacyLoss) -> str | None:
    """The condition that a round does not meet, or None."""
    if loss.divergence is not HOCKEY_STICK:
        return "hockey-stick divergences, got variant='tail'"
    if loss.largest < math.inf:
        return None if loss.largest <= _MOST_LOSS else f"losses of at most {_MOST_LOSS:g} nats"
    if _noise(round) is None:
        return f"losses with a largest value, or normal noise in one message, got {round!r:.120}"
    effort = Effort(tail=1e-300, resolution=1e-3)
    if any(side.delta(math.inf, Bound.OPTIMISTIC, effort) > 0.0 for side in (loss, loss.reversed)):
        return "finite losses, got one that is infinite with some probability"
    return None


def _side(loss: PrivacyLoss, t: float, round: Round) -> float:
    """Upper end of the log moment of excess order t, for one direction."""
    if loss.largest == 0.0:
        return 0.0
    moments = log_moments(loss, Bound.PESSIMISTIC)
    noise = _noise(round)
    if loss.largest < math.inf or noise is None:
        return moments.bound(t)
    alone = t * (t + 1.0) / (2.0 * noise * noise) * (1.0 + _ROUNDING)
    kept = moments.kept(t)
    if moments.infinite > 0.0:
        log_tail = math.log(moments.infinite)
        rare = min(
            (1.0 - 1.0 / p) * log_tail + t * (p * t + 1.0) / (2.0 * noise * noise) for p in _HOELDER
        )
        # the logarithm of a sum of exponentials moves by no more than its exponents do
        moved = 4.0 * _ROUNDING * max(1.0, abs(log_tail), abs(rare))
        kept = float(np.logaddexp(kept, rare)) + moved
    return max(min(kept, alone), 0.0)


def _noise(round: Round) -> float | None:
    """Deviation of the normal noise of what is sampled or shuffled, in sensitivities; or None."""
    if isinstance(round, ShuffleRound):
        return round.randomizer.noisy_vectors
    if isinstance(round, PoissonSampled) and isinstance(round.mechanism, GaussianMechanism):
        if round.records_per_user > 1:
            return None
        return round.mechanism.sigma
    if isinstance(round, RandomAllocation) and isinstance(round.mechanism, GaussianMechanism):
        # one record is in `selected` steps, each gone through `passes` times; the blocks that the
        # pair is a product of have one step each
        if round.records_per_user > 1 or round.mechanism.schedule is not None:
            return None
        return round.mechanism.sigma / math.sqrt(round.passes)
    return None


@lru_cache(maxsize=1 << 14)
def _ends(one: Round, count: int, swapped: bool, epsilon: float) -> tuple[float, float]:
    """Both ends of delta of some draws of a round's pair, in one order."""
    parts, laws = [(one.reduced(), count)], _laws(one, count, swapped)
    return order_ends(parts, epsilon, swapped=swapped, tolerance=_TOLERANCE, laws=laws)


@lru_cache(maxsize=4)  # both orders of a round and of the units it is compared with
def _laws(one: Round, count: int, swapped: bool) -> dict[Hashable, Any]:
    """Laws of the sum, which questions at several epsilons share."""
    return {}


def _covered(
    one: Round, unit: Round, count: int, slack: float, epsilons: Array, swapped: bool
) -> bool:
    """Whether a round's profile is at most that of some units plus the slack, for alpha >= 1.

    Between two points the round's is below its chord, and the units' above the lines through their
    neighbouring points, as both are convex in alpha.
    """
    alpha = np.exp(epsilons)
    above = np.asarray([_ends(one, 1, swapped, epsilon)[1] for epsilon in epsilons.tolist()])
    low, high = np.asarray([_ends(unit, count, swapped, x) for x in epsilons.tolist()]).T
    if np.any(above > low + slack) or above[-1] > slack:
        return False
    for i in range(epsilons.size - 1):
        run = alpha[i + 1] - alpha[i]
        lines = [(low[i + 1], 0.0)]  # profiles fall
        if i > 0:  # through the points before, going on
            slope = (low[i] - high[i - 1]) / (alpha[i] - alpha[i - 1])
            lines.append((low[i] + slope * run, -slope))
        if i + 2 < epsilons.size:  # through the points after, coming from them
            slope = (high[i + 2] - low[i + 1]) / (alpha[i + 2] - alpha[i + 1])
            lines.append((low[i + 1], -slope))
        # the largest of some lines less a chord is least at an end, or where two of them meet
        falls = [(end + steep * run, steep * run) for end, steep in lines]  # at the left, per run
        places = [0.0, 1.0]
        for (a, b), (c, d) in combinations(falls, 2):
            if b != d and 0.0 < (a - c) / (b - d) < 1.0:
                places.append((a - c) / (b - d))
        for place in places:
            chord = above[i] + place * (above[i + 1] - above[i])
            if max(a - b * place for a, b in falls) * (1.0 - 1e-12) + slack < chord:
                return False
    return True


@lru_cache(maxsize=1024)
def unit_cost(one: Round, unit: Round, most: int, slack: float) -> int | None:
    """The fewest units that a round is no worse than up to an additive delta; None if above most.

    Args:
        one: the round.
        unit: the round it is paid in, of the same adjacency.
        most: largest number of units of interest, >= 1.
        slack: the additive delta, > 0.
    """
    if one == unit:
        return 1
    end = 1e-3
    while _ends(one, 1, False, end)[1] > 0.5 * slack or _ends(one, 1, True, end)[1] > 0.5 * slack:
        end *= 1.25
        if end > 100.0:
            return None
    epsilons = end * np.linspace(0.0, 1.0, _POINTS) ** 1.5
    few = epsilons[:: max(_POINTS // _FIRST, 1)]

    def enough(count: int) -> bool:
        return all(
            all(
                _ends(one, 1, swapped, x)[1] <= _ends(unit, count, swapped, x)[0] + slack
                for x in few.tolist()
            )
            for swapped in (False, True)
        )

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if low >= most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    while high <= most:
        if all(_covered(one, unit, high, slack, epsilons, swapped) for swapped in (False, True)):
            return high
        high += max(high // 50, 1)
    return None


@lru_cache(maxsize=1 << 16)
def profile_above(one: Round, epsilon: float) -> float:
    """Upper end of delta of one round, the larger of both orders."""
    one.reduced()  # refuses rounds that share what is drawn once
    return certified_at([(one, 1)], 1e-3, epsilon=epsilon)[0].upper


@lru_cache(maxsize=256)
def _points(one: Round, least: float) -> tuple[Array, Array]:
    """Epsilons from 0 on with upper ends of delta, until one is no more than ``least``."""
    first = profile_above(one, 0.0)
    start = max(_mu_of(first), 1e-9)
    epsilons, deltas = [0.0], [first]
    while deltas[-1] > least and len(epsilons) < _MOST_POINTS:
        epsilons.append(epsilons[-1] + max(_STEP * start, _GROWTH * epsilons[-1]))
        deltas.append(min(profile_above(one, epsilons[-1]), deltas[-1]))
    return np.asarray(epsilons), np.asarray(deltas)


def _mu_of(distance: float) -> float:
    """The mu of a total variation distance."""
    from scipy.special import ndtri

    return 2.0 * float(ndtri(0.5 + 0.5 * min(distance, 1.0 - 1e-12)))


def worst_gap(epsilons: Array, deltas: Array, mu: float) -> float:
    """Upper bound of ``h(alpha) - H_alpha(mu)`` for all ``alpha >= 1``.

    Between two points h is below its chord, and the Gaussian profile above both tangents; beyond
    the last, h is no more than there.

    Args:
        epsilons: ascending from 0, shape (m,).
        deltas: upper ends of h there, shape (m,).
        mu: of the Gaussian mechanism, > 0.
    """
    from scipy.special import log_ndtr

    alpha = np.exp(epsilons)
    first = np.exp(log_ndtr(0.5 * mu - epsilons / mu))
    tail = np.exp(log_ndtr(-0.5 * mu - epsilons / mu))
    # a score's rounding moves a tail by the square of the score
    slack = _SLACK * (1.0 + (0.5 * mu + epsilons / mu) ** 2)
    value = np.maximum(first * (1.0 - slack) - alpha * tail * (1.0 + slack), 0.0)
    steep, flat = -tail * (1.0 + slack), -tail * (1.0 - slack)
    run = np.diff(alpha)
    # a chord less the larger of two tangents is largest where those meet, or at an end
    meet = value[1:] - flat[1:] * run - value[:-1]
    bend = (steep[:-1] - flat[1:]) * run
    share = np.clip(np.divide(meet, bend, out=np.full(run.size, 0.5), where=bend < 0.0), 0.0, 1.0)
    chord = deltas[:-1] + share * (deltas[1:] - deltas[:-1])
    left, right = value[:-1] + steep[:-1] * share * run, value[1:] - flat[1:] * (1.0 - share) * run
    # of the place where they meet, and of the lines
    rounding = 1e-13 * (deltas[:-1] + value[:-1] + np.abs(steep[:-1]) * run)
    between = chord - np.maximum(left, right) + rounding
    beyond = float(deltas[-1])  # where the Gaussian profile may be anything above 0
    return max(float(np.max(deltas - value)), float(np.max(between, initial=0.0)), beyond, 0.0)


@lru_cache(maxsize=1024)
def gaussian_cost(one: Round, slack: float) -> tuple[float, float]:
    """The mu of a round up to an additive delta of at most ``slack``, and that delta.

    Args:
        one: the round.
        slack: in (0, 1).

    Returns:
        ``(mu, delta)``; mu is infinite if there is none up to 100.
    """
    epsilons, deltas = _points(one, 0.5 * slack)
    if deltas[-1] > slack:
        return math.inf, 0.0
    if deltas[0] <= slack:
        return 0.0, float(deltas[0])
    low = _mu_of(float(deltas[0]) - slack)
    high = max(low, 1e-12)
    while worst_gap(epsilons, deltas, high) > slack:
        low, high = high, 2.0 * high
        if high > _LARGEST:
            return math.inf, 0.0
    while high - low > _ACCURACY * high:
        middle = 0.5 * (low + high)
        if worst_gap(epsilons, deltas, middle) > slack:
            low = middle
        else:
            high = middle
    return high, worst_gap(epsilons, deltas, high)


def largest_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose profile is certified to be at most delta at epsilon; 0 if none is."""
    low, high = 0.0, 1.0
    while gaussian_profile(1.0 / high, epsilon, Bound.PESSIMISTIC) <= delta:
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if gaussian_profile(1.0 / middle, epsilon, Bound.PESSIMISTIC) <= delta:
            low = middle
        else:
            high = middle
        if high < 1e-12:
            return 0.0
    return low


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The least epsilon, rounded up, at which the profile of a mu is at most delta."""
    if mu == 0.0 or gaussian_profile(1.0 / mu, 0.0, Bound.PESSIMISTIC) <= delta:
        return 0.0
    low, high = 0.0, mu
    while gaussian_profile(1.0 / mu, high, Bound.PESSIMISTIC) > delta:
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if gaussian_profile(1.0 / mu, middle, Bound.PESSIMISTIC) > delta:
            low = middle
        else:
            high = middle
    return high
