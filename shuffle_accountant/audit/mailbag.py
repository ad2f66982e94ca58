"""A bag of messages against what its randomizer sends: the law of the counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.audit.claims import Audit, power_curve
from shuffle_accountant.audit.claims import runs as compared
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import LocalRandomizer, RunsOnData
from shuffle_accountant.randomizers.channel import ChannelRandomizer
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse
from shuffle_accountant.rounds.protocol import Rounds, as_protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

# Bags that are simulated where no law of the counts is at hand.
_SIMULATED = 499
# Eigenvalues of a covariance below this part of the largest are taken to be 0.
_RANK = 1e-9
# Numbers of first messages whose likelihood ratio is tried as a score.
_FIRST = (1, 10, 50, 200, 1000)
# Runs of each dataset at least and at most, in a project's tests.
_FEWEST, _MOST = 40, 100_000


@dataclass(frozen=True)
class MessageAudit:
    """What a bag of messages says of its randomizer.

    Attributes:
        p_value: probability, if the randomizer is the one stated, of counts as far from it.
        statistic: the distance: chi-square, or that of simulated bags.
        degrees: degrees of freedom of chi-square; None for simulated bags.
        asymptotic: whether the p-value is that of many messages, and not exact.
    """

    p_value: float
    statistic: float
    degrees: int | None
    asymptotic: bool

    def consistent(self, *, confidence: float = 0.95) -> bool:
        """Whether the randomizer is not rejected at a confidence in (0, 1)."""
        return self.p_value > 1.0 - validate.open_unit(confidence=confidence)

    def __str__(self) -> str:
        kind = "chi-square, for many messages" if self.asymptotic else "simulated bags"
        return f"p = {self.p_value:.3g} ({kind}; statistic {self.statistic:.4g})"


def messages(
    messages: Any, randomizer: LocalRandomizer, *, values: ArrayLike | None = None
) -> MessageAudit:
    """Compare a bag of messages with what its randomizer sends.

    The order of the messages is not used. Counts of messages of users with known values are a sum
    of multinomial counts, one for each value; of unknown values, those of some mixture of the
    values' laws, the nearest one of which is compared.

    Args:
        messages: of all users, as `randomize` makes them; numbers from 0 for a finite randomizer.
        randomizer: the one that is claimed to have made them.
        values: what the users held, one for each message, in any order; needed but for a finite
            randomizer.

    Returns:
        The p-value: chi-square's for a finite randomizer, else that of simulated bags, which is
        exact.
    """
    randomizer = validate.instance(LocalRandomizer, randomizer=randomizer)  # type: ignore[type-abstract]
    sent = np.asarray(messages)
    if sent.size == 0:
        raise ValueError("messages must be at least one message, got none")
    held = None if values is None else np.asarray(values)
    if held is not None and held.shape[0] != sent.shape[0]:
        raise ValueError(
            f"values must be one for each of the {sent.shape[0]} messages, got {held.shape[0]}"
        )
    channel = channel_of(randomizer)
    if channel is not None:
        return _finite(sent, channel, held)
    if held is None:
        raise ValueError(
            f"values must be given for {type(randomizer).__name__}, whose messages are not counted"
        )
    return _simulated(sent, validate.instance(RunsOnData, randomizer=randomizer), held)  # type: ignore[type-abstract]


def channel_of(randomizer: LocalRandomizer) -> Array | None:
    """Probabilities of whole-numbered messages, a row for each value; None for other messages."""
    if isinstance(randomizer, RandomizedResponse):
        return np.asarray(randomizer.matrix(), np.float64)
    return randomizer.channel if isinstance(randomizer, ChannelRandomizer) else None


def _finite(sent: Any, channel: Array, held: Any) -> MessageAudit:
    """Chi-square of the counts of messages."""
    from scipy.stats import chi2

    outputs = channel.shape[1]
    if not np.issubdtype(sent.dtype, np.integer) or sent.min() < 0 or sent.max() >= outputs:
        raise ValueError(
            f"messages must be whole numbers in 0 … {outputs - 1}, got {validate.shown(sent)}"
        )
    counts = np.bincount(sent, minlength=outputs).astype(np.float64)
    if held is None:
        share = _nearest(counts / sent.size, channel)
        mean = sent.size * share
        covariance = sent.size * (np.diag(share) - np.outer(share, share))
    else:
        many = np.bincount(held, minlength=channel.shape[0]).astype(np.float64)
        if many.size > channel.shape[0]:
            raise ValueError(
                f"values must be whole numbers in 0 … {channel.shape[0] - 1}, got "
                f"{validate.shown(held)}"
            )
        mean = many @ channel
        covariance = np.diag(mean) - channel.T @ (many[:, None] * channel)
    value, vector = np.linalg.eigh(covariance)
    kept = value > _RANK * max(float(value[-1]), 1e-300)
    turned = vector.T @ (counts - mean)
    statistic = float(np.sum(turned[kept] ** 2 / value[kept]))
    degrees = int(np.count_nonzero(kept))
    p = float(chi2.sf(statistic, degrees)) if degrees else 1.0
    if np.any(np.abs(turned[~kept]) > 1e-6 * sent.size):
        p = 0.0  # counts outside what the covariance allows are impossible
    return MessageAudit(p, statistic, degrees, asymptotic=True)


def _nearest(share: Array, channel: Array) -> Array:
    """The mixture of the channel's rows that is nearest to observed shares."""
    from scipy.optimize import nnls

    # least squares of shares over their deviations, with the weights' sum held at 1
    scale = 1.0 / np.sqrt(np.maximum(channel.mean(axis=0), 1e-12))
    rows = np.vstack([(channel * scale).T, np.full((1, channel.shape[0]), 1e4)])
    weights, _ = nnls(rows, np.append(share * scale, 1e4))
    return np.asarray(weights / max(float(weights.sum()), 1e-300) @ channel)


def _simulated(sent: Any, randomizer: RunsOnData, held: Any) -> MessageAudit:
    """Rank of the bag's distance among those of simulated bags."""
    rng = np.random.default_rng()
    half = _SIMULATED // 2

    def summary(bag: Any) -> Array:
        numbers = np.asarray(bag, np.float64).reshape(np.asarray(bag).shape[0], -1)
        if numbers.shape[1] == 1:
            return np.quantile(numbers[:, 0], np.linspace(0.0, 1.0, 33))
        return np.concatenate([numbers.mean(axis=0), (numbers**2).mean(axis=0)])

    bags = np.asarray([summary(randomizer.randomize(held, rng)) for _ in range(_SIMULATED + half)])
    # centre and scale are from bags that are not ranked
    centre, scale = bags[:half].mean(axis=0), bags[:half].std(axis=0) + 1e-300

    def distance(one: Array) -> float:
        return float(np.max(np.abs(one - centre) / scale))

    own = distance(summary(sent))
    above = sum(distance(one) >= own for one in bags[half:])
    return MessageAudit((1.0 + above) / (_SIMULATED + 1.0), own, None, asymptotic=False)


def shuffler(
    shuffle: Callable[[Any], Any],
    *,
    round: ShuffleRound,
    runs: int = 10_000,
    confidence: float = 0.95,
    seed: int | None = None,
) -> Audit:
    """Audit a shuffling function: users randomize, it shuffles, and the first messages are scored.

    The target, who comes first, holds the value 0 or 1, all others hold 1. A bag cannot show that
    it was not shuffled, so the score looks at the order: the mean likelihood ratio of the first B
    messages, B chosen on a pilot.

    Args:
        shuffle: from an array of messages in the users' order to one in the order released.
        round: what is claimed, with a finite randomizer.
        runs: how often on each dataset, >= 200.
        confidence: one less the level at which the claim is rejected, in (0, 1).
        seed: of the users' randomness; fresh randomness if left out.
    """
    round = validate.instance(ShuffleRound, round=round)
    channel = channel_of(round.randomizer)
    if channel is None:
        raise ValueError(
            f"round must have a randomized response or a channel, got {round.randomizer!r:.120}"
        )
    users = round.users
    if not isinstance(users, int):
        raise ValueError(f"round must have a fixed number of users, got {round!r:.120}")
    count = validate.integer(minimum=200, runs=runs)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(channel[1] > 0.0, channel[0] / channel[1], np.inf)
    rng = np.random.default_rng(seed)
    first = [one for one in _FIRST if one < users] + [users]
    scores = np.empty((2, count, len(first)))
    cumulated = channel.cumsum(axis=1)[:, :-1]
    for which in range(2):
        for run in range(count):
            drawn = rng.random(users)
            sent = np.searchsorted(cumulated[1], drawn)
            sent[0] = np.searchsorted(cumulated[which], drawn[0])
            released = ratio[np.asarray(shuffle(sent))]
            scores[which, run] = [released[:one].mean() for one in first]
    pilot = count // 5

    def separation(one: int) -> float:
        """Distance of two samples' means in their common deviation."""
        tried = scores[:, :pilot, one]
        return float(tried[0].mean() - tried[1].mean()) / (float(tried.std()) or 1.0)

    best = scores[:, pilot:, max(range(len(first)), key=separation)]
    return compared(*best, protocol=round, confidence=confidence)


def assert_private(
    mechanism: Callable[[bool], float],
    protocol: Rounds,
    *,
    budget_s: float = 30.0,
    confidence: float = 0.999,
    most: int = _MOST,
) -> Audit:
    """Raise AssertionError if a running mechanism contradicts its protocol's claim; for tests.

    Args:
        mechanism: one independent run: with the target (True) or without it (False), returning a
            score that is larger the more likely the target was there.
        protocol: what is claimed to run.
        budget_s: seconds that runs may take, > 0; at least 40 runs of each kind are made.
        confidence: one less the probability that a correct mechanism fails, in (0, 1).
        most: runs of each kind at most.

    Returns:
        The audit, if the claim is not rejected.
    """
    whole = as_protocol(protocol, name="protocol")
    seconds = validate.positive(budget_s=budget_s)
    most = validate.integer(minimum=_FEWEST, most=most)
    power_curve(whole)  # the claim first: the budget is for runs
    scores: tuple[list[float], list[float]] = ([], [])
    start = time.monotonic()
    while len(scores[0]) < most:
        scores[0].append(float(mechanism(True)))
        scores[1].append(float(mechanism(False)))
        if time.monotonic() - start > seconds and len(scores[0]) >= _FEWEST:
            break
    audit = compared(*scores, protocol=whole, confidence=confidence)
    if not audit.consistent:
        raise AssertionError(str(audit))
    return audit
