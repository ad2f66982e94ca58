"""Limits of doubles and of memory, shared by every room that computes with them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of doubles and of memory.

    Attributes:
        largest_log: largest logarithm of a likelihood ratio, in nats: its exponential is
            3e282, which times 1e25 users is still finite.
        underflow: what is smaller counts as rounded by all of itself: products and differences of
            such numbers may lie below the smallest normal double, where rounding is absolute.
        farthest_score: distance from the mean, in standard deviations, beyond which a normal
            probability is below 6e-300.
        at_once: numbers of one array that a loop over blocks keeps in memory at a time.
    """

    largest_log: float = 650.0
    underflow: float = 1e-300
    farthest_score: float = 37.0
    at_once: int = 1 << 18


LIMITS = Limits()
