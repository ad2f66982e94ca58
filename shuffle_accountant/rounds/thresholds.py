"""Sampled reports of which rare values are suppressed, as STAR and Nebula do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.engine.question import Query
from shuffle_accountant.losses.combined.product import ProductLoss
from shuffle_accountant.losses.steps.profiled import ProfiledLoss
from shuffle_accountant.losses.steps.thresholds import ThresholdPair, threshold_moments
from shuffle_accountant.reductions.base import Pair
from shuffle_accountant.rounds.base import Round, adjacency_named, certified_at, needed
from shuffle_accountant.rounds.protocol import MAX_ROUNDS

MOST_THRESHOLD = 2000
# Bits of the probability that calibration decides.
_BITS = 30


@dataclass(frozen=True, init=False)
class SampleAndThreshold(Round):
    """One round in which each user reports with a probability, and rare values are dropped.

    No other noise is added: values that fewer than ``threshold`` users reported are suppressed, and
    the counts of the others are released. The upper end holds for every number of users who hold a
    value; `attained_epsilon` is that of one number.

    Args:
        probability: p, with which each user reports, in (0, 1).
        threshold: K, the smallest count that is released, in 1 … 2000.
        adjacency: ADD_REMOVE (a user is there or not), or REPLACE_ONE (a user's value is another,
            which moves two counts).
    """

    kind: ClassVar[str] = "sample-and-threshold"
    conditions = needed(
        "sample and threshold",
        "Each user reports with the probability stated, independently of the others and of the "
        "data, and who reported stays hidden",
        "Nothing is seen of suppressed reports, not even their number, as that of messages "
        "which cannot be decoded",
        "Each user holds one value in a round",
    )

    probability: float
    threshold: int
    neighbours: Adjacency

    def __init__(
        self,
        *,
        probability: float,
        threshold: int,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
    ) -> None:
        probability = validate.positive(probability=probability)
        if probability == 1.0:
            raise ValueError(
                "probability must be a number in (0, 1), got 1.0: a threshold alone is no privacy"
            )
        probability = validate.open_unit(probability=probability)
        threshold = validate.integer(minimum=1, maximum=MOST_THRESHOLD, threshold=threshold)
        adjacency = validate.instance(Adjacency, adjacency=adjacency)
        if adjacency is Adjacency.ZERO_OUT:
            raise ValueError(
                f"adjacency must be {Adjacency.ADD_REMOVE.named} or "
                f"{Adjacency.REPLACE_ONE.named}, got {adjacency.named}"
            )
        self._hold(probability=probability, threshold=threshold, neighbours=adjacency)

    @property
    def adjacency(self) -> Adjacency:
        """That which was asked for."""
        return self.neighbours

    def reduced(self) -> Pair:
        """The dominating pair: the worst number of others who hold the value, at every alpha."""
        return _reduced(self, None)

    def other_end(self, count: int, query: Query) -> float | None:
        """By moments, of which the largest of all numbers of others holds in every round."""
        moments = threshold_moments(self.probability, self.threshold) if count > 1 else None
        if moments is None:
            return None
        worst, replaced = moments.worst(), self.neighbours is Adjacency.REPLACE_ONE
        if query.delta is None:
            return float(worst.delta(query.required, count, replaced=replaced)[0])
        return float(worst.epsilon(query.delta, count, replaced=replaced)[0])

    def worst_of_many(self, delta: float, rounds: int) -> NDArray[np.int64]:
        """Peaks of an approximation of epsilon at delta, as numbers of others, the worst first."""
        scale = self.other_end(max(rounds, 2), Query(delta=delta))
        scale = 10.0 if scale is None or not 1e-6 < scale < 100.0 else scale
        pair = ThresholdPair(self.probability, self.threshold)
        replaced = self.neighbours is Adjacency.REPLACE_ONE
        found = pair.rough(delta, rounds, replaced=replaced, scale=scale)
        padded = np.concatenate([[-1.0], found, [-1.0]])
        peaks = np.flatnonzero((found >= padded[:-2]) & (found >= padded[2:]))
        best = peaks[np.argsort(-found[peaks], kind="stable")]
        return np.asarray(pair.scanned[best])

    def attained_pair(self, others: int) -> Pair:
        """The pair of datasets in which this many others hold the value, or either if replaced."""
        return _reduced(self, others)

    def worst_others(self, epsilon: float) -> int:
        """Number of others who hold the value at which delta is largest, for one round."""
        pair = ThresholdPair(self.probability, self.threshold)
        return int(pair.scanned[int(np.argmax(pair.each(epsilon)))])

    @classmethod
    def calibrate(
        cls,
        *,
        target_epsilon: float,
        delta: float,
        threshold: int | None = None,
        probability: float | None = None,
        rounds: int = 1,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
    ) -> SampleAndThreshold:
        """The round with the largest probability, or the smallest threshold, that meets a target.

        Args:
            target_epsilon: of all rounds together, nats, > 0.
            delta: in (0, 1).
            threshold: K, of which the largest probability is wanted; or
            probability: p, of which the smallest threshold is wanted.
            rounds: number of rounds, >= 1.
            adjacency: as for the round.

        Returns:
            The round; the certified upper end of its epsilon is at most the target.

        Raises:
            ValueError: not one of threshold and probability, or nothing meets the target.
        """
        target = validate.positive(target_epsilon=target_epsilon)
        delta = validate.open_unit(delta=delta)
        rounds = validate.integer(minimum=1, maximum=MAX_ROUNDS, rounds=rounds)
        if (threshold is None) == (probability is None):
            raise ValueError(
                "one of threshold and probability must be given, got "
                f"threshold={threshold!r:.60} and probability={probability!r:.60}"
            )

        def made(value: int) -> SampleAndThreshold:
            chance = value / (1 << _BITS) if probability is None else probability
            least = value if threshold is None else threshold
            return cls(probability=chance, threshold=least, adjacency=adjacency)

        def meets(value: int) -> bool:
            found, _ = certified_at([(made(value), rounds)], 1e-3, epsilon=target)
            return found.upper <= delta

        met, missed = 0, 1 << _BITS
        if probability is not None:
            met, missed = 1, 0
            while not meets(met):
                met, missed = 2 * met, met
                if met > MOST_THRESHOLD:
                    raise ValueError(
                        f"target_epsilon = {target!r} is met at probability = {probability!r} by "
                        f"no threshold up to {missed}"
                    )
        while abs(met - missed) > 1:
            middle = (met + missed) // 2
            met, missed = (middle, missed) if meets(middle) else (met, middle)
        if met == 0:
            raise ValueError(
                f"target_epsilon = {target!r} is met at threshold = {threshold} by no "
                f"probability of {2.0**-_BITS:.2g} or more"
            )
        return made(met)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        state = super().to_dict()
        state["adjacency"] = state.pop("neighbours").value
        return state

    @classmethod
    def from_dict(cls, state: Any) -> SampleAndThreshold:
        """Inverse of `to_dict`."""
        wanted = {"kind", "probability", "threshold", "adjacency"}
        state = validate.fields(wanted, kind=cls.kind, round=state)
        adjacency = adjacency_named(state["adjacency"])
        return cls(
            probability=state["probability"], threshold=state["threshold"], adjacency=adjacency
        )


@lru_cache(maxsize=128)
def _reduced(one: SampleAndThreshold, others: int | None) -> Pair:
    loss = ProfiledLoss(ThresholdPair(one.probability, one.threshold, others))
    if one.neighbours is Adjacency.ADD_REMOVE:
        return Pair("sample and threshold", loss)
    # the value that is left loses a report, the other one gains it
    return Pair("sample and threshold", ProductLoss(((loss, 1), (loss.reversed, 1))))
