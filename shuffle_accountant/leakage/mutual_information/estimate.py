"""A number with bounds of the three errors it carries, and the bracket they make."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shuffle_accountant.bracket import Bracket, ErrorLedger
from shuffle_accountant.numerics.rounding import raised, roundings


@dataclass(frozen=True)
class Estimate:
    """The exact number is ``value`` up to the sum of the three errors.

    Attributes:
        value: nats.
        discretisation: bound of what a quadrature or cells of messages move it by.
        truncation: bound of what was not followed.
        round_off: bound of what floating-point arithmetic moves it by.
    """

    value: float
    discretisation: float = 0.0
    truncation: float = 0.0
    round_off: float = 0.0

    @property
    def error(self) -> float:
        """Bound of the distance of the exact number from ``value``."""
        return self.discretisation + self.truncation + self.round_off

    def __add__(self, other: Estimate) -> Estimate:
        value = self.value + other.value
        return Estimate(
            value,
            self.discretisation + other.discretisation,
            self.truncation + other.truncation,
            self.round_off + other.round_off + roundings(1) * abs(value),
        )

    def __sub__(self, other: Estimate) -> Estimate:
        return self + other.times(-1.0)

    def times(self, factor: float) -> Estimate:
        """The product with a factor that is itself off by 4 units in its last place at most."""
        value, size = self.value * factor, raised(abs(factor), roundings(5))
        return Estimate(
            value,
            self.discretisation * size,
            self.truncation * size,
            self.round_off * size + roundings(6) * abs(value),
        )

    def bracket(self, reduction: str, *, most: float = math.inf) -> Bracket:
        """The bracket of a number that is known to be in [0, ``most``].

        Args:
            most: an upper bound that holds for other reasons, itself off by rounding alone.
        """
        most = raised(most, roundings(4))
        error = raised(self.error, roundings(8)) + roundings(1) * abs(self.value)
        lower = upper = self.value
        if error > 0.0:
            lower = math.nextafter(self.value - error, -math.inf)
            upper = math.nextafter(self.value + error, math.inf)
        upper = min(max(upper, 0.0), most)
        lower = max(lower, 0.0)
        ledger = ErrorLedger(
            discretisation=2.0 * self.discretisation,
            truncation=2.0 * self.truncation,
            round_off=2.0 * self.round_off,
        )
        return Bracket(lower=lower, upper=upper, ledger=ledger, reduction=reduction)
