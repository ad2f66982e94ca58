"""A bag of messages against what its randomizer sends: the law of the counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import LocalRandomizer, RunsOnData
from shuffle_accountant.randomizers.channel import ChannelRandomizer
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

__all__ = ["MessageAudit", "channel_of", "messages"]

# Bags that are simulated where no law of the counts is at hand.
_SIMULATED = 499
# Eigenvalues of a covariance below this part of the largest are taken to be 0.
_RANK = 1e-9


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
    if isinstance(randomizer, ChannelRandomizer):
        return np.asarray(randomizer.channel, np.float64)
    return None


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
    # counts outside what the covariance allows are impossible
    outside = bool(np.any(np.abs(turned[~kept]) > 1e-6 * sent.size))
    degrees = int(np.count_nonzero(kept))
    p = 0.0 if outside else float(chi2.sf(statistic, degrees)) if degrees else 1.0
    return MessageAudit(p, statistic, degrees, asymptotic=True)


def _nearest(share: Array, channel: Array) -> Array:
    """The mixture of the channel's rows that is nearest to observed shares."""
    from scipy.optimize import nnls

    # least squares of shares over their deviations, with the weights' sum held at 1
    scale = 1.0 / np.sqrt(np.maximum(channel.mean(axis=0), 1e-12))
    heavy = 1e4
    rows = np.vstack([(channel * scale).T, np.full((1, channel.shape[0]), heavy)])
    weights, _ = nnls(rows, np.append(share * scale, heavy))
    weights = weights / max(float(weights.sum()), 1e-300)
    return np.asarray(weights @ channel)


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
    others = np.asarray([distance(one) for one in bags[half:]])
    p = (1.0 + float(np.count_nonzero(others >= own))) / (others.size + 1.0)
    return MessageAudit(p, own, None, asymptotic=False)
