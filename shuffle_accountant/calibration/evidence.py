"""Answers of a calibration: plain numbers that carry the evidence for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shuffle_accountant.bracket import Bracket

__all__ = ["CalibratedFloat", "CalibratedInt", "Evidence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Why a calibrated number is right: certified brackets of epsilon there and one step further.

    Attributes:
        target_epsilon: the target, nats; for a target in another measure of leakage, the largest
            value allowed of that measure, which the brackets then enclose.
        bracket: of epsilon at the number; its upper end is at most the target.
        next_value: the number one step further, with less privacy; None at the end of the range.
        next_bracket: of epsilon there; its upper end is above the target.
        capped: whether the search ended at the end of its range, although numbers beyond it may
            meet the target too.
    """

    target_epsilon: float
    bracket: Bracket
    next_value: float | None
    next_bracket: Bracket | None
    capped: bool = False

    @property
    def proven(self) -> bool:
        """Whether one step further provably misses the target.

        If not, the target lies inside `next_bracket`, and a smaller tolerance may go further, or
        the search was `capped`.
        """
        if self.capped:
            return False
        return self.next_bracket is None or self.next_bracket.lower > self.target_epsilon


class CalibratedFloat(float):
    """A float with its `Evidence`; arithmetic gives plain floats."""

    evidence: Evidence

    def __new__(cls, value: float, evidence: Evidence) -> CalibratedFloat:
        """Attach the evidence."""
        self = super().__new__(cls, value)
        self.evidence = evidence
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return CalibratedFloat, (float(self), self.evidence)


class CalibratedInt(int):
    """An int with its `Evidence`; arithmetic gives plain ints."""

    evidence: Evidence

    def __new__(cls, value: int, evidence: Evidence) -> CalibratedInt:
        """Attach the evidence."""
        self = super().__new__(cls, value)
        self.evidence = evidence
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return CalibratedInt, (int(self), self.evidence)
