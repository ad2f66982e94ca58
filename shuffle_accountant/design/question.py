"""What a design is asked: users, categories or coordinates, rounds, and the target."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.design.limit import gaussian_mu
from shuffle_accountant.rounds.protocol import MAX_ROUNDS

__all__ = ["Question"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a design.

    Attributes:
        users: users of each round, >= 1.
        size: number of categories, or length of the vectors.
        target_epsilon: nats, finite, > 0, for all rounds together.
        delta: in (0, 1).
        rounds: number of rounds, >= 1.
        tolerance: relative width in epsilon of the brackets that decide, > 0.
        of: "categories" or "dimension": what ``size`` counts.
    """

    users: int
    size: int
    target_epsilon: float
    delta: float
    rounds: int
    tolerance: float
    of: str

    def __post_init__(self) -> None:
        least = 2 if self.of == "categories" else 1
        for name, checked in (
            ("users", validate.integer(minimum=1, maximum=2**53, users=self.users)),
            ("size", validate.integer(minimum=least, maximum=2**31, **{self.of: self.size})),
            ("target_epsilon", validate.positive(target_epsilon=self.target_epsilon)),
            ("delta", validate.open_unit(delta=self.delta)),
            ("rounds", validate.integer(minimum=1, maximum=MAX_ROUNDS, rounds=self.rounds)),
            ("tolerance", validate.positive(tolerance=self.tolerance)),
        ):
            object.__setattr__(self, name, checked)

    @property
    def told(self) -> str:
        """In one line."""
        counted = "categories" if self.of == "categories" else "coordinates"
        if self.size == 1:
            counted = "coordinate"
        times = f"{self.rounds} round" + ("s" if self.rounds > 1 else "")
        return (
            f"{self.users} user{'s' if self.users > 1 else ''}, {self.size} {counted}, {times}: "
            f"ε <= {self.target_epsilon:g} at δ = {self.delta:g}"
        )

    @property
    def mu(self) -> float:
        """Distance of normal laws that meets the target, for one round."""
        return gaussian_mu(self.target_epsilon, self.delta) / math.sqrt(self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        state = asdict(self)
        return {state.pop("of"): state.pop("size"), **state}
