"""Messages that decoys never send, which therefore reveal that they are the target's."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.leakage.mutual_information.ratios import HUGE_RATIO, TINY, Ratios
from shuffle_accountant.numerics.rounding import Array, roundings

__all__ = ["Exposure", "entropy"]


@dataclass(frozen=True, eq=False)
class Exposure:
    """Messages that decoys never send, or with negligible probability.

    A message that the target sends 1e150 times as often as a decoy, or a decoy with a probability
    below 1e-280, counts as one that decoys never send: the two worlds differ only if some decoy
    sends it, with probability ``tau <= n sum q``, below 1e-130. A conditional entropy over k
    values moves by at most ``tau log k + (1 + tau) h(tau/(1 + tau))`` (Winter 2016, Lemma 2), for
    such a tau less than ``tau log k + 2 sqrt(tau)``.

    Attributes:
        exposed: whether each message is one, shape (messages,).
        rare: total probability of those among them that decoys do send.
    """

    exposed: NDArray[np.bool_]
    rare: float

    @staticmethod
    def of(p: Array, q: Array) -> Exposure:
        """Exposed messages of a target with probabilities p among decoys with probabilities q."""
        exposed = (p > 0.0) & ((q < TINY) | (q < p / HUGE_RATIO))
        return Exposure(exposed, math.fsum(q[exposed].tolist()))

    def error(self, users: int, values: float) -> float:
        """Bound (nats) on the change of a conditional entropy over ``values`` values."""
        if self.rare == 0.0:
            return 0.0
        tau = users * self.rare
        return tau * math.log(max(values, 2.0)) + 2.0 * math.sqrt(tau)

    def rest(self, p: Array, q: Array) -> tuple[float, Ratios | None]:
        """The probability of the other letters, and the target's law given one of them.

        Returns:
            ``(1 - a, ratios)``; no ratios where the target never sends other letters.
        """
        if not self.exposed.any():
            return 1.0, Ratios.of(p, q)
        heard = p[~self.exposed]
        share = math.fsum(heard.tolist()) / math.fsum(p.tolist())
        if share == 0.0:
            return 0.0, None
        return share, Ratios.of(heard, q[~self.exposed], inexact=roundings(4))


def entropy(masses: Array) -> float:
    """``-sum x log x`` in nats, x the masses over their sum; relative error below 16 roundings.

    A probability near one is taken from the others, because its logarithm is as small as they are.
    """
    total = math.fsum(masses.tolist())
    largest = int(np.argmax(masses))
    rest = np.delete(masses, largest) / total
    others = math.fsum(rest.tolist())
    rest = rest[rest > 0.0]
    terms = (-rest * np.log(rest)).tolist()
    if others < 1.0:
        terms.append(-(1.0 - others) * math.log1p(-others))
    return math.fsum(terms)
