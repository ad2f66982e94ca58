"""The question of a design: users, categories or coordinates, rounds, and the privacy target."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.design.limit import gaussian_mu
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.count_laws import Binomial
from shuffle_accountant.rounds.protocol import MAX_ROUNDS
from shuffle_accountant.rounds.shuffle import ShuffleRound, attendance

# Probability with which all categories' errors are at most the stated largest error.
_CONFIDENCE = 0.95
# Probability, under random participation, with which fewer send than errors are stated for.
_FEW = 1e-4


@dataclass(frozen=True, kw_only=True)
class Question:
    """The question of a design: who sends, what is estimated, and the privacy target.

    Attributes:
        users: people who are asked in each round, >= 1.
        min_users: the fewest of them who will send; None for all.
        participation: probability with which each of them sends, where attendance is secret; else
            None.
        colluding: number of them who work with the observer.
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
    min_users: int | None = None
    participation: float | None = None
    colluding: int = 0

    def __post_init__(self) -> None:
        least = 2 if self.of == "categories" else 1
        vars(self).update(
            users=validate.integer(minimum=1, maximum=2**53, users=self.users),
            size=validate.integer(minimum=least, maximum=2**31, **{self.of: self.size}),
            target_epsilon=validate.positive(target_epsilon=self.target_epsilon),
            delta=validate.open_unit(delta=self.delta),
            rounds=validate.integer(minimum=1, maximum=MAX_ROUNDS, rounds=self.rounds),
            colluding=validate.integer(minimum=0, colluding=self.colluding),
            tolerance=validate.positive(tolerance=self.tolerance),
        )
        who = self.attendance
        least = who if isinstance(who, int) else who.trials
        if self.colluding >= least:
            raise ValueError(
                f"colluding must be fewer than the {least} who may send, got {self.colluding}"
            )

    @property
    def attendance(self) -> int | Binomial:
        """Number of senders in a round, or its distribution: ``users`` of `ShuffleRound`."""
        return attendance(self.users, min_users=self.min_users, participation=self.participation)

    def shuffled(self, mechanism: LocalRandomizer) -> ShuffleRound:
        """A shuffled round of the senders' messages."""
        return ShuffleRound(mechanism, users=self.attendance, colluding=self.colluding)

    @property
    def senders(self) -> int:
        """Number of messages that errors are stated for; fewer may come with probability 1e-4."""
        who = self.attendance
        if isinstance(who, int):
            return who
        from scipy.stats import binom  # not quick to import

        return max(int(binom.ppf(_FEW, who.trials, who.probability)), 1)

    @property
    def confidence(self) -> float:
        """Probability with which errors are as stated where no fewer than `senders` send."""
        return _CONFIDENCE + (0.0 if isinstance(self.attendance, int) else _FEW)

    @property
    def honest(self) -> int:
        """Number of those who send and do not work with the observer, 1 at least."""
        return max(self.senders - self.colluding, 1)

    @property
    def told(self) -> str:
        """The question in one line."""
        counted = "categories" if self.of == "categories" else "coordinates"
        if self.size == 1:
            counted = "coordinate"
        times = f"{self.rounds} round" + ("s" if self.rounds > 1 else "")
        absent = "" if self.min_users is None else f", of whom {self.min_users} send at least"
        if self.participation is not None:
            absent = f", of whom each sends with probability {self.participation:g}"
            absent += " (only if attendance is secret)"
        absent += f", {self.colluding} colluding" if self.colluding else ""
        return (
            f"{self.users} user{'s' if self.users > 1 else ''}{absent}, "
            f"{self.size} {counted}, {times}: "
            f"ε <= {self.target_epsilon:g} at δ = {self.delta:g}"
        )

    @property
    def mu(self) -> float:
        """Distance of normal distributions that meets the target, for one round."""
        return gaussian_mu(self.target_epsilon, self.delta) / math.sqrt(self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        state = asdict(self)
        return {state.pop("of"): state.pop("size"), **state}
