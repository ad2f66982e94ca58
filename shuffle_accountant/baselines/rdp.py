"""Rényi accounting, with the Rényi divergence of the round's own dominating pair.

The divergence of order lambda > 1 of a pair (P, Q) with privacy loss L = log(P/Q) is

    D_lambda(P ‖ Q) = log E_P[e^((lambda - 1) L]) / (lambda - 1).

It adds up over rounds (Mironov 2017) and is turned into (epsilon, delta) by
`shuffle_accountant.baselines.moments`, at the best real order. No closed form stands between: the
divergence is that of the pair that the accountant itself composes, put on a grid from above, so
that what is lost against its bracket is lost by Rényi accounting. Both orders of the neighbours
are taken, and the rounds may be of any kind that dominating pairs describe: random allocation and
correlated noise too. Upper bounds.

*Very rare losses.* A grid cannot follow losses of a probability below some 1e-300 (the clones),
1e-60 (other randomizers) or 1e-24 (losses without a largest value). In `renyi_divergence` the best
bound of them that is known counts; in `epsilon` and `delta` their probability is added to delta.

*As published.* The script behind the Rényi curve of Figure 1 of 'Numerical Accounting in the
Shuffle Model' takes ``E_P[e^(lambda L)]``, the moment of the next order, and divides by
``lambda - 1``: it overstates the divergence. `epsilon_as_published` and `delta_as_published` do the
same, to draw that curve; they are sound, and needlessly large.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines.moments import (
    UNBOUNDED_TAIL,
    LogMoment,
    LogMoments,
    best_delta,
    best_epsilon,
    log_moments,
)
from shuffle_accountant.baselines.question import ProtocolBound, register, require
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.losses.base import HOCKEY_STICK, Effort, PrivacyLoss
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.protocol import Rounds, as_protocol

__all__ = [
    "delta",
    "delta_as_published",
    "epsilon",
    "epsilon_as_published",
    "name",
    "renyi_divergence",
    "sound",
    "source",
    "valid",
]

name = "rdp"
source = "Mironov 2017; Canonne, Kamath and Steinke 2020, Proposition 12"
sound = True

# Largest loss (nats): above it, moments of high orders may be no doubles.
_MOST_LOSS = 1e100
# Largest excess order: above, the divergence is the largest loss to some twelve digits.
_MOST_EXCESS = 1e15


def valid(round: Rounds, *, rounds: int = 1, delta: float = 0.5) -> str | None:
    """The condition that is not met, or None, for the arguments of `epsilon`.

    Rounds must be independent of one another, and some Rényi divergence of each must be finite.
    """
    validate.open_unit(delta=delta)
    if any(one.drawn_once for one, _ in as_protocol(round, name="round")):
        return "independent rounds, got a persistent shuffler"
    for loss, _ in _parts(round, rounds):
        if loss.divergence is not HOCKEY_STICK:
            return "hockey-stick divergences, got variant='tail'"
        if _MOST_LOSS < loss.largest < math.inf:
            return f"losses of at most {_MOST_LOSS:g} nats, got {loss.largest:g}"
        effort = Effort(tail=UNBOUNDED_TAIL, resolution=1e-3)
        if loss.largest == math.inf and any(
            side.delta(math.inf, Bound.OPTIMISTIC, effort) > 0.0 for side in (loss, loss.reversed)
        ):
            return "finite losses, got one that is infinite with some probability"
    return None


def epsilon(round: Rounds, *, rounds: int = 1, delta: float) -> float:
    """Epsilon (nats) of all rounds, at the best real order.

    Args:
        round: what happened in each round, a `Protocol`, or a list of pairs (round, count).
        rounds: how many times, >= 0.
        delta: in (0, 1).
    """
    return _epsilon(round, rounds, delta)


def delta(round: Rounds, *, rounds: int = 1, epsilon: float) -> float:
    """Delta of all rounds, at the best real order.

    Args:
        round: what happened in each round, a `Protocol`, or a list of pairs (round, count).
        rounds: how many times, >= 0.
        epsilon: nats, finite, >= 0.
    """
    return _delta(round, rounds, epsilon)


def epsilon_as_published(round: Rounds, *, rounds: int = 1, delta: float) -> float:
    """`epsilon` with the overstated divergence of the published figure; never below `epsilon`."""
    return _epsilon(round, rounds, delta, more=1.0)


def delta_as_published(round: Rounds, *, rounds: int = 1, epsilon: float) -> float:
    """`delta` with the overstated divergence of the published figure; never below `delta`."""
    return _delta(round, rounds, epsilon, more=1.0)


def renyi_divergence(round: Round, *, order: float) -> Bracket:
    """Bracket of the Rényi divergence (nats) of the round's dominating pair, the worse direction.

    Args:
        round: what happens in the round.
        order: lambda, finite, > 1.

    Returns:
        A bracket whose upper end is never above the largest loss. Its relative width is 1e-3 or so
        (randomizers with infinitely many messages: 1e-2), except for orders so high that losses too
        rare to be followed may decide: there the upper end is only what a bound of the whole loss
        gives. It is inf for losses without a largest value.
    """
    round = validate.instance(Round, round=round)  # type: ignore[type-abstract]
    order = validate.positive(order=order)
    if order <= 1.0:
        raise ValueError(f"order must be a finite number > 1, got {order!r}")
    reduction, t = round.reduced(), order - 1.0
    loss = reduction.loss
    if loss.divergence is not HOCKEY_STICK or _MOST_LOSS < loss.largest < math.inf:
        require("renyi_divergence", valid(round))
    if loss.largest == 0.0:
        return Bracket(lower=0.0, upper=0.0, reduction=reduction.name)
    sides = {loss, loss.reversed}
    if t > _MOST_EXCESS:  # the divergence rises with the order, up to the largest loss
        t, upper = _MOST_EXCESS, max(side.largest for side in sides)
    else:
        upper = max(log_moments(side, Bound.PESSIMISTIC).bound(t) for side in sides) / t
    lower = max(log_moments(side, Bound.OPTIMISTIC).bound(t) for side in sides) / t
    return Bracket(lower=lower, upper=upper, reduction=reduction.name)


def _parts(round: Rounds, rounds: int) -> list[tuple[PrivacyLoss, int]]:
    """The losses that are not 0, with their numbers of rounds."""
    rounds = validate.integer(minimum=0, maximum=10**12, rounds=rounds)
    protocol = as_protocol(round, name="round")
    losses = ((one.reduced().loss, count * rounds) for one, count in protocol)
    return [(loss, count) for loss, count in losses if count > 0 and loss.largest > 0.0]


def _sides(
    parts: Sequence[tuple[PrivacyLoss, int]], more: float
) -> Iterator[tuple[LogMoment, float]]:
    """For both orders of the neighbours: log moments of all rounds, and the probability cut off.

    With 1 more they are E_P[e^(lambda L)] for E_P[e^((lambda - 1) L)].
    """
    orders = [parts]
    if any(loss.reversed is not loss for loss, _ in parts):
        orders.append([(loss.reversed, count) for loss, count in parts])
    for order in orders:
        side = [(log_moments(loss, Bound.PESSIMISTIC), count) for loss, count in order]

        def composed(t: float, side: Sequence[tuple[LogMoments, int]] = side) -> float:
            return math.fsum(count * m.kept(t + more) for m, count in side)

        yield composed, math.fsum(count * m.infinite for m, count in side)


def _epsilon(round: Rounds, rounds: int, delta: float, more: float = 0.0) -> float:
    delta = validate.open_unit(delta=delta)
    require(name, valid(round, rounds=rounds))
    parts = _parts(round, rounds)
    sides = list(_sides(parts, more))
    cut = max(cut for _, cut in sides)
    if cut >= delta:
        require(name, f"delta > {cut:.3g}, the probability of losses that are not followed")
    found = max(best_epsilon(moments, delta - cut) for moments, cut in sides)
    largest = math.fsum(count * loss.largest for loss, count in parts)
    return min(found, largest * (1.0 + 1e-15))  # the sum is rounded


def _delta(round: Rounds, rounds: int, epsilon: float, more: float = 0.0) -> float:
    epsilon = validate.finite_nonnegative(epsilon=epsilon)
    require(name, valid(round, rounds=rounds))
    sides = _sides(_parts(round, rounds), more)
    return max(min(best_delta(moments, epsilon) + cut, 1.0) for moments, cut in sides)


register(
    ProtocolBound,
    __name__,
    about="any independent rounds",
    forms={
        "same pair": lambda asked: epsilon(asked.protocol, delta=asked.delta),
        "same pair, overstated as published": lambda asked: epsilon_as_published(
            asked.only_shuffled(name), delta=asked.delta
        ),
    },
    rank=10,
)
