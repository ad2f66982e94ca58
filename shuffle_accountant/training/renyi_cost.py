"""Cost of a round for a Rényi filter: a certified upper end of its log moments, both directions.

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
from functools import lru_cache

import numpy as np

from shuffle_accountant.baselines.moments import log_moments
from shuffle_accountant.baselines.question import require
from shuffle_accountant.losses.base import HOCKEY_STICK, Effort, PrivacyLoss, factors
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.rounds.sampled import PoissonSampled
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["log_moment_cost"]

NAME = "a Rényi filter"
# Largest loss (nats): above it, moments of high orders may be no doubles.
_MOST_LOSS = 1e100
# Values of p > 1 tried in Hölder's inequality.
_HOELDER = (1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0)
# Relative error of sums of a few logarithms and products, each rounded fewer than a hundred times.
_ROUNDING = 1e-12


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
