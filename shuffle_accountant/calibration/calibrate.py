"""The largest eps0, the fewest users, the most rounds or the least noise that meet a target.

An answer is conservative and checked. At the answer the certified upper end of epsilon(delta), with
the tolerance asked for, is at most the target; one step further it is above the target. Both
brackets come with the answer, as its `evidence`, which also tells whether the step further misses
the target for certain (`Evidence.proven`) or lies within the accuracy.

That nothing beyond that step meets the target either follows from epsilon being monotone, and that
from post-processing: a randomizer with a smaller eps0 is a case of one with a larger eps0, the
messages of more users can be made from those of fewer, and those of fewer rounds from more. With
more noise, DP-SGD is post-processing of that with less, for every sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import warn_if_delta_is_large
from shuffle_accountant.calibration.search import (
    AdvantageTarget,
    CalibratedFloat,
    CalibratedInt,
    ReidentificationTarget,
    RiskTarget,
    Target,
    TradeOffTarget,
    decimals,
    integers_downwards,
    integers_upwards,
)
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.channel import GeneralRandomizer
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, Protocol, Rounds, as_protocol
from shuffle_accountant.rounds.samplings import sampling_named, training_run
from shuffle_accountant.rounds.shuffle import ShuffleRound, attendance

__all__ = [
    "LARGEST_EPS0",
    "LEAST_EPS0",
    "LEAST_NOISE",
    "MOST_NOISE",
    "MOST_ROUNDS",
    "MOST_USERS",
    "max_eps0",
    "max_rounds",
    "min_noise_multiplier",
    "min_users",
]

LEAST_NOISE, MOST_NOISE = 0.01, 1e5
"""Smallest and largest noise multiplier that the search tries."""

LEAST_EPS0, LARGEST_EPS0 = 1e-100, 700.0
"""Smallest and largest eps0 (nats) that is tried: e^eps0 soon overflows above."""

MOST_USERS, MOST_ROUNDS = 10**12, 10**9
"""Largest numbers of users and rounds that the search tries."""


def min_noise_multiplier(
    *,
    sampling: str,
    steps: int,
    epochs: int = 1,
    records_per_user: int = 1,
    target_epsilon: float,
    delta: float,
    tolerance: float = 1e-3,
) -> CalibratedFloat:
    """The least noise multiplier with which a run of DP-SGD is (target_epsilon, delta)-private.

    It is a number of six significant digits, and a step is one in the last of them.

    Args:
        sampling: how batches are made: "allocation" (`RandomAllocation`), "shuffle"
            (`ShuffledBatches`) or "poisson" (`PoissonSampled` at rate 1/steps).
        steps: number of steps of an epoch, >= 1; for "shuffle" the full batches.
        epochs: number of epochs, each dealt, shuffled or drawn anew, >= 1.
        records_per_user: most records that one user owns, each dealt or drawn by itself; the target
            is that of the user. 1 for "shuffle".
        target_epsilon: nats, finite, > 0, under zero-out adjacency.
        delta: in (0, 1).
        tolerance: relative width in epsilon of the brackets that decide, > 0.

    Returns:
        The noise multiplier, in [`LEAST_NOISE`, `MOST_NOISE`], with its evidence.

    Raises:
        ValueError: `MOST_NOISE` does not meet the target.
    """
    sampling = sampling_named(sampling)
    steps = validate.integer(minimum=1, maximum=10**9, steps=steps)
    epochs = validate.integer(minimum=1, maximum=MAX_ROUNDS // steps, epochs=epochs)
    target = Target(target_epsilon, delta, tolerance)

    def protocol(noise_multiplier: float) -> Protocol:
        return training_run(
            sampling,
            noise_multiplier=noise_multiplier,
            steps=steps,
            epochs=epochs,
            records_per_user=records_per_user,
        )

    # at this noise a normal loss of the same variance has its quantile at the target, hidden among
    # the steps, or, when shuffled, among few of them
    hidden = steps if sampling != "shuffle" else math.sqrt(steps)
    goal = target.epsilon * (target.epsilon / (2.0 * target.log_delta + target.epsilon))
    guess = 1.0 / math.sqrt(math.log1p(goal * hidden / epochs))
    guess = min(max(guess, 10 * LEAST_NOISE), 1e3)
    ladder = decimals(LEAST_NOISE, MOST_NOISE)
    named = f"steps={steps}, epochs={epochs} with noise_multiplier={MOST_NOISE:g}"
    # epsilon of one step falls like the noise rises, and soon faster
    return CalibratedFloat(*target.search(ladder, protocol, guess, -1.5, named))


def max_eps0(
    *,
    users: int,
    rounds: int = 1,
    target_epsilon: float | None = None,
    delta: float | None = None,
    target_advantage: float | None = None,
    target_trade_off: tuple[float, float] | None = None,
    target_reidentification: float | None = None,
    min_users: int | None = None,
    participation: float | None = None,
    colluding: int = 0,
    population: int | None = None,
    randomizer: Callable[..., LocalRandomizer] = GeneralRandomizer,
    reduction: str = "auto",
    variant: str | None = None,
    tolerance: float = 1e-3,
) -> CalibratedFloat:
    """The largest eps0 with which ``rounds`` rounds meet a target.

    It is a number of six significant digits, and a step is one in the last of them. The target is
    one of four: epsilon at delta, or what an attacker gains in one of three other currencies, of
    which the evidence then is.

    Args:
        users: people who are asked in each round, >= 1.
        rounds: number of rounds, >= 0.
        target_epsilon: nats, finite, > 0, with ``delta``.
        delta: in (0, 1).
        target_advantage: total variation of two neighbours, in (0, 1): by how much any test's true
            positive rate exceeds its false positive rate at most.
        target_trade_off: a pair (false positive rate, false negative rate), both in (0, 1): at that
            false positive rate every test has at least that false negative rate.
        target_reidentification: chance to name the target's message with one guess, in (0, 1), for
            a single round without ``population``; see
            `shuffle_accountant.leakage.reidentification.bound`.
        min_users: the fewest of them who will send, if some may not, without ``population``; by
            default all of them do.
        participation: instead, the probability, in (0, 1], that each of them sends, independently
            and whatever the data are: only if attendance is secret.
        colluding: number of them who work with the observer, see `ShuffleRound`.
        population: if given, the users of each round are drawn from this many (>= ``users``).
        randomizer: makes the randomizer when called with ``eps0=``; by default that is any
            eps0-LDP randomizer. ``functools.partial(RandomizedResponse, categories=4)`` is another.
            The answer meets the target whatever it makes; it is the largest eps0 if the shuffled
            randomizer's privacy loss rises with eps0.
        reduction: theorem to use, see `ShuffleRound`.
        variant: form of the strong reduction, see `ShuffleRound`.
        tolerance: relative width in epsilon of the brackets that decide, > 0.

    Returns:
        The eps0 (nats), at most `LARGEST_EPS0`, with its evidence.

    Raises:
        ValueError: `LEAST_EPS0` does not meet the target.
    """
    rounds = validate.integer(minimum=0, maximum=MAX_ROUNDS, rounds=rounds)
    targets = {
        "target_epsilon": target_epsilon,
        "target_advantage": target_advantage,
        "target_trade_off": target_trade_off,
        "target_reidentification": target_reidentification,
    }
    target = _target(targets, tolerance, rounds=rounds, population=population, delta=delta)
    make = _maker(randomizer)
    who = attendance(users, min_users=min_users, participation=participation)
    if min_users is not None and population is not None:
        raise ValueError(
            "min_users must be None with population: no theorem is about a sample that not all "
            f"send from, got {validate.shown(min_users)}"
        )
    # about this is enough without any shuffling, except against a stronger adversary
    alone = min(max(target.goal / max(rounds, 1), LEAST_EPS0), LARGEST_EPS0)

    def one_round(eps0: float) -> ShuffleRound:
        return ShuffleRound(
            make(eps0=eps0),
            users=who,
            colluding=colluding,
            population=population,
            reduction=reduction,
            variant=variant,
        )

    def protocol(eps0: float) -> Protocol:
        return Protocol([(one_round(eps0), rounds)])

    one = one_round(alone)  # which checks the arguments
    warn_if_delta_is_large(delta, one.people)
    sent = who if isinstance(who, int) else who.expectation
    drawn = sent / (one.population or users)
    signal = target.signal / _squared(drawn) * max(sent - colluding, 1.0) / max(rounds, 1)
    # solve `_signal` for e^eps0 - 1
    guess = math.log1p(0.125 * (signal + math.sqrt(signal) * math.sqrt(signal + 32.0)))
    guess = min(max(guess, alone), LARGEST_EPS0)
    ladder = decimals(LARGEST_EPS0, LEAST_EPS0)
    named = f"rounds={rounds} with users={who!r} and eps0={LEAST_EPS0:g}"
    return CalibratedFloat(*target.search(ladder, protocol, guess, max(1.0, 0.5 * guess), named))


def min_users(
    *,
    eps0: float,
    rounds: int = 1,
    target_epsilon: float,
    delta: float,
    participation: float | None = None,
    colluding: int = 0,
    randomizer: Callable[..., LocalRandomizer] = GeneralRandomizer,
    reduction: str = "auto",
    variant: str | None = None,
    tolerance: float = 1e-3,
) -> CalibratedInt:
    """The fewest users with whom ``rounds`` rounds are (target_epsilon, delta)-private.

    Args:
        eps0: local privacy parameter in nats, in [0, `LARGEST_EPS0`].
        rounds: number of rounds, >= 0.
        target_epsilon: nats, finite, > 0.
        delta: in (0, 1).
        participation: probability, in (0, 1], that each of them sends, as for `max_eps0`; by
            default the answer is the number of users who must send.
        colluding: number of them who work with the observer.
        randomizer: makes the randomizer when called with ``eps0=``, as for `max_eps0`.
        reduction: theorem to use, see `ShuffleRound`.
        variant: form of the strong reduction, see `ShuffleRound`.
        tolerance: relative width in epsilon of the brackets that decide, > 0.

    Returns:
        The number of users, at least 1, with its evidence; a step is one user.

    Raises:
        ValueError: `MOST_USERS` users do not meet the target.
    """
    rounds = validate.integer(minimum=0, maximum=MAX_ROUNDS, rounds=rounds)
    eps0 = validate.finite_nonnegative(eps0=eps0)
    if eps0 > LARGEST_EPS0:
        raise ValueError(f"eps0 must be a finite number in [0, {LARGEST_EPS0:g}], got {eps0!r}")
    target = Target(target_epsilon, delta, tolerance)
    made = _maker(randomizer)(eps0=eps0)
    colluding = validate.integer(minimum=0, maximum=MOST_USERS, colluding=colluding)

    def protocol(honest: int) -> Protocol:
        one = ShuffleRound(
            made,
            users=attendance(honest + colluding, participation=participation),
            colluding=colluding,
            reduction=reduction,
            variant=variant,
        )
        return Protocol([(one, rounds)])

    attendance(1, participation=participation)  # checks it
    guess = rounds * _signal(eps0) * target.log_delta / _squared(target.epsilon)
    guess = min(max(guess, 1.0), MOST_USERS)
    named = f"rounds={rounds} with users={MOST_USERS} and eps0={eps0!r}"
    honest, evidence = target.search(integers_upwards(MOST_USERS), protocol, guess, 0.5, named)
    warn_if_delta_is_large(target.delta, honest + colluding)
    if evidence.next_value is not None:
        evidence = replace(evidence, next_value=evidence.next_value + colluding)
    return CalibratedInt(honest + colluding, evidence)


def max_rounds(
    round: Rounds, *, target_epsilon: float, delta: float, tolerance: float = 1e-3
) -> CalibratedInt:
    """The most rounds that are (target_epsilon, delta)-private together.

    Args:
        round: what happens in each of them: a round, or several that are repeated together, as a
            `Protocol` or a list of pairs (round, count).
        target_epsilon: nats, finite, > 0.
        delta: in (0, 1).
        tolerance: relative width in epsilon of the brackets that decide, > 0.

    Returns:
        How often that may happen, at least once and at most `MOST_ROUNDS` times, with its evidence,
        which is `capped` if more may be allowed; a step is once.

    Raises:
        ValueError: one round does not meet the target.
    """
    repeated = as_protocol(round, name="round")
    target = Target(target_epsilon, delta, tolerance)
    ladder = integers_downwards(min(MOST_ROUNDS, MAX_ROUNDS // max(len(repeated), 1)))
    # a normal law whose variance is the sum of all losses'
    variance = sum(count * _squared(one.reduced().loss.deviation) for one, count in repeated)
    guess = min(max(target.squared_mu / max(variance, 1e-300), 1.0), ladder.value(0))
    named = "one round alone" if len(repeated) == 1 else f"{len(repeated)} rounds alone"
    return CalibratedInt(*target.search(ladder, repeated.__mul__, guess, 0.5, named))


def _target(
    targets: dict[str, Any], tolerance: float, *, rounds: int, population: int | None, delta: Any
) -> RiskTarget:
    """The target that was given; ValueError unless it is exactly one."""
    given = {name: value for name, value in targets.items() if value is not None}
    if delta is not None and not given:
        given = {"target_epsilon": None}
    if len(given) != 1:
        raise ValueError(
            f"one of {', '.join(targets)} must be given, got {', '.join(given) or 'none'}"
        )
    ((name, value),) = given.items()
    if name == "target_epsilon":
        return Target(value, validate.open_unit(delta=delta), tolerance)
    if delta is not None:
        raise ValueError(f"delta must be left out with {name}, got {validate.shown(delta)}")
    if name == "target_advantage":
        return AdvantageTarget(value, tolerance)
    if name == "target_trade_off":
        return TradeOffTarget(value, tolerance)
    if rounds != 1 or population is not None:
        raise ValueError(
            "rounds must be 1 and population None with target_reidentification, got "
            f"rounds={rounds} and population={population}"
        )
    return ReidentificationTarget(value, tolerance)


def _maker(randomizer: Callable[..., LocalRandomizer]) -> Callable[..., LocalRandomizer]:
    if not callable(randomizer):
        raise TypeError(
            f"randomizer must be a callable that takes eps0=, got {type(randomizer).__name__}"
        )

    def make(*, eps0: float) -> LocalRandomizer:
        try:
            return randomizer(eps0=eps0)
        except TypeError as refused:
            raise TypeError(
                f"randomizer must be a callable that takes eps0=: {refused}"
            ) from refused

    return make


def _signal(eps0: float) -> float:
    """About ``users * epsilon^2 / (rounds * log(1/delta))``, by a normal approximation.

    With u, v as in `reductions.clones`, the target moves the difference of the counts of both
    letters by 2 (u - v), and the variance of that difference is 2 v per user.
    """
    return 4.0 * math.tanh(0.5 * eps0) * math.expm1(eps0)


def _squared(value: float) -> float:
    """The square, clipped to be above 0 and finite; for guesses only."""
    return min(max(value, 1e-150), 1e150) ** 2
