"""Messages of a target among decoys, and profile bounds from the moments of one message."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from shuffle_accountant.losses.alphabets.letters import LetterPair, gains
from shuffle_accountant.losses.alphabets.settings import PROFILES
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array, Bound, lowered


class LetterSource(Protocol):
    """A target among decoys with a finite message space on either side of the truth."""

    def __hash__(self) -> int:
        """By value, so that answers can be remembered."""

    def letters(self, side: Bound, effort: Effort) -> LetterPair:
        """Messages whose profile bounds the true one, on that side, for any number of decoys."""


@lru_cache(maxsize=512)
def source_letters(source: LetterSource, side: Bound, effort: Effort) -> LetterPair:
    """The source's messages for one side, remembered: every point of a profile asks for them."""
    return source.letters(side, effort)


def moment_bounds(pairs: Sequence[LetterPair], users: int, excess: Array) -> Array:
    """Upper bounds of ``H_alpha`` from the moments of one message.

    Args:
        pairs: message distributions of each ordered pair of inputs.
        users: number n of messages.
        excess: ``alpha - 1``, shape (k,).

    Returns:
        Bounds, shape ``(len(pairs), k)``.
    """
    r0, r1, q = (np.repeat(row, excess.size, axis=0) for row in _stacked(tuple(pairs)))
    bound = row_bounds(r0, r1, q, users, np.tile(excess, len(pairs))[:, None])
    exposed = np.stack([pair.exposure_bounds(excess)[1] for pair in pairs])
    total = (bound.reshape(exposed.shape) * 1.001 + PROFILES.tiny + exposed) * (
        1.0 + 8 * UNIT_ROUNDOFF
    )
    return np.asarray(np.minimum(total, 1.0))


def far_bounds(pairs: Sequence[LetterPair], users: int, excess: Array) -> Array:
    """Upper bounds of the largest ``H_alpha`` where few messages may outweigh all others.

    As `moment_bounds`, with ratios r0 cut off at a share c of ``n (alpha - 1)``: a positive part
    grows by ``(r0 - c)_+`` for each message at most.

    Args:
        pairs: message distributions of each ordered pair of inputs.
        users: number n of messages.
        excess: ``alpha - 1``, shape (k,).

    Returns:
        Bounds, shape (k,).
    """
    best = moment_bounds(pairs, users, excess).max(axis=0)
    for part in (2.0, 5.0, 12.0):
        with np.errstate(over="ignore"):
            least = users * excess[:, None] / part
        found = np.zeros(excess.shape)
        for pair in pairs:
            r0, r1, q = pair.decoyed
            cut = np.minimum(r0, least)
            every, mass = (np.broadcast_to(row, cut.shape) for row in (r1, q))
            own = row_bounds(cut, every, mass, users, excess[:, None]) * 1.001 + PROFILES.tiny
            own += np.maximum(r0 - least, 0.0) @ q * (1.0 + 1e-9)
            found = np.maximum(found, own + pair.exposure_bounds(excess)[1])
        best = np.minimum(best, found)
    return np.asarray(best)


def lone_message(pair: LetterPair, users: int, epsilon: float) -> float:
    """Lower bound of ``H_alpha``, alpha = e^epsilon, from messages that outweigh all others.

    With values ``v = r0 - alpha r1`` and a threshold, the event that one message alone is above it
    gives, for each message, at least ``E[v + S]_+`` over the values above, where S is what the
    others add on average if none of them is (Jensen's inequality); these events exclude each other.

    Args:
        pair: messages, as `LetterPair.settled` leaves them.
        users: number n of messages.
        epsilon: nats, in [0, 700].
    """
    r0, r1, q = pair.decoyed
    value = gains(r0, r1, epsilon, Bound.OPTIMISTIC)
    value = np.where(
        value > -PROFILES.far, value, -1e5 * PROFILES.far
    )  # only known to be below -PROFILES.far
    order = np.argsort(value)
    value, mass, others = value[order], q[order], users - 1
    size, moment = np.cumsum(mass * np.abs(value)), np.cumsum(mass * value)
    above = np.cumsum(mass[::-1])[::-1] * (1.0 + PROFILES.summed)
    best = 0.0
    if value.size < 2:
        return best
    for first in np.unique(np.linspace(1, value.size - 1, 400).astype(int)).tolist():
        if not 0.0 < above[first] < 1.0 or value[first] <= 0.0:
            continue
        light = others * (moment[first - 1] - PROFILES.summed * size[first - 1])
        light = min(light, light / (1.0 - above[first]))
        gain = float(np.sum(mass[first:] * np.maximum(value[first:] + light, 0.0)))
        best = max(best, gain * math.exp(others * math.log1p(-above[first])))
    return lowered(best, PROFILES.summed)


def row_bounds(r0: Array, r1: Array, q: Array, users: int, excess: Array) -> Array:
    """`moment_bounds` without exposed messages, for rows of messages, each at its own alpha.

    The least of three: positive parts of single messages; Scarf's bound from mean and variance; and
    ``(x)_+ <= e^(theta x) / (e theta)`` at about the best theta.
    """
    excess = excess - 64 * UNIT_ROUNDOFF * (1.0 + excess)  # more than ratios and values are off
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        cost = np.minimum(excess * r1, PROFILES.far)
        value = (r0 - r1) - cost + 64 * UNIT_ROUNDOFF * (r0 + r1 + np.abs(cost))
        # no sum with a lower letter is positive
        top = np.max(np.maximum(value, 0.0), axis=1, keepdims=True)
        value = np.maximum(value, -2.0 * users * top)
        mean = np.sum(q * value, axis=1)
        mean += UNIT_ROUNDOFF * (128.0 + q.shape[-1]) * np.sum(q * np.abs(value), axis=1)
        variance = np.sum(q * (value - mean[:, None]) ** 2, axis=1)
        alone = np.sum(q * np.maximum(value, 0.0), axis=1)
        root = np.sqrt(mean * mean + variance / users)
        scarf = np.where(mean > 0.0, 0.5 * (mean + root), 0.5 * variance / users / (root - mean))
        theta = np.maximum(-mean, 1e-3 * np.sqrt(variance / users)) / variance
        for factors in (2.0 ** np.arange(-5.0, 2.5, 0.5), 2.0 ** np.arange(-0.4, 0.5, 0.2)):
            logs = np.stack([_log_excess(value, q, users, theta * f) for f in factors.tolist()])
            logs = np.where(np.isnan(logs), math.inf, logs)
            best = np.argmin(logs, axis=0)
            theta = theta * factors[best]
        least = np.take_along_axis(logs, best[None, :], axis=0)[0]
    bound = np.where(np.isnan(scarf), alone, np.minimum(alone, scarf))
    return np.asarray(np.maximum(np.minimum(bound, np.exp(np.minimum(least, 1.0))), 0.0))


def _log_excess(value: Array, q: Array, users: int, theta: Array) -> Array:
    """Upper bound of the logarithm of ``E e^(theta L) / (e theta n)``."""
    grown = np.expm1(theta[:, None] * value)
    growth = np.sum(q * grown, axis=1)
    moved = UNIT_ROUNDOFF * (128.0 + q.shape[-1])
    growth += moved * np.sum(q * (np.abs(grown) + np.abs(theta[:, None] * value)), axis=1)
    return np.asarray(users * np.log1p(growth) - 1.0 - np.log(theta * users))


@lru_cache(maxsize=16)
def _stacked(pairs: tuple[LetterPair, ...]) -> tuple[Array, Array, Array]:
    """Arrays r0, r1 and q of the messages of all pairs, shape (pairs, messages) each."""
    parts = [pair.decoyed for pair in pairs]
    size = max(max(part[2].size for part in parts), 1)
    result = np.zeros((3, len(pairs), size))
    for i, part in enumerate(parts):
        for row in range(3):
            result[row, i, : part[row].size] = part[row]
    return result[0], result[1], result[2]
