"""Audits that run the code themselves: a shuffling function, a mechanism in a project's tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.audit.claims import Audit, power_curve
from shuffle_accountant.audit.claims import runs as compared
from shuffle_accountant.audit.mailbag import channel_of
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.rounds.protocol import Rounds, as_protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["assert_private", "shuffler"]

# Numbers of first messages whose likelihood ratio is tried as a score.
_FIRST = (1, 10, 50, 200, 1000)
# Runs of each dataset at least and at most, in a project's tests.
_FEWEST, _MOST = 40, 100_000


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
    cumulated = channel.cumsum(axis=1)
    for which in range(2):
        for run in range(count):
            drawn = rng.random(users)
            sent = np.minimum(np.searchsorted(cumulated[1], drawn), channel.shape[1] - 1)
            sent[0] = min(int(np.searchsorted(cumulated[which], drawn[0])), channel.shape[1] - 1)
            released = ratio[np.asarray(shuffle(sent))]
            scores[which, run] = [released[:one].mean() for one in first]
    pilot = count // 5
    best = max(range(len(first)), key=lambda one: _separation(scores[:, :pilot, one]))
    return compared(
        scores[0, pilot:, best], scores[1, pilot:, best], protocol=round, confidence=confidence
    )


def _separation(scores: Array) -> float:
    """Distance of two samples' means in their common deviation."""
    spread = float(scores.std()) or 1.0
    return float(scores[0].mean() - scores[1].mean()) / spread


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
    whole = as_protocol(protocol)
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
