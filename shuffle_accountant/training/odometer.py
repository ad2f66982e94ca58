"""What adaptively chosen rounds have cost so far, valid at every time at once.

*Odometer.* Fix limits B_1 < B_2 < …, additive deltas D_j, and shares delta_j that sum to delta, and
let epsilon_j be the least epsilon at which N(sqrt(B_j), 1) against N(0, 1), plus D_j, is at most
delta_j. The reading is the epsilon_j of the first j whose limits hold all rounds so far. For every
adaptive choice of rounds, stopping time and event E the law P of one dataset and Q of a neighbour
satisfy ``P(E) <= E_Q[e^reading 1_E] + delta``. *Proof.* Where the reading is epsilon_j the outputs
are those of a filter of the limits (B_j, D_j), so that ``P(E, j) <= e^(epsilon_j) Q(E, j) +
delta_j``; sum over j.

A reading without fixed limits, the epsilon of the sum so far, is not valid: its delta grows with
the number of times at which one might have stopped.
"""

from __future__ import annotations

import bisect
import math
import threading

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket, ErrorLedger
from shuffle_accountant.rounds.base import Round, conditions_of
from shuffle_accountant.rounds.protocol import MAX_ROUNDS
from shuffle_accountant.training.paid_rounds import epsilon_of_mu, gaussian_cost
from shuffle_accountant.training.plans import ROUNDING

__all__ = ["Odometer"]

# Number of limits, and the factor from each to the next: 64 of them reach 5e9 times the first.
_LIMITS, _FACTOR = 64, 1.42
# Part of a limit's delta that is kept for additive deltas, and that of one round in it.
_SHARE, _EACH = 0.1, 1e-7
_NAME = "Gaussian odometer"


class Odometer:
    """The epsilon of all rounds so far, an upper end that holds whenever one stops to look.

        meter = sa.training.Odometer(delta=1e-8)
        while useful:
            reading = meter.step(choose(outputs))  # before anything of the round is released
            outputs.append(...)

    Rounds, their parameters and when to stop may depend on all outputs before. A budget that is
    fixed beforehand costs less: `PrivacyFilter`.

    Args:
        delta: in (0, 1).
    """

    def __init__(self, *, delta: float) -> None:
        self.delta = validate.open_unit(delta=delta)
        self._limits: list[float] = []
        self._readings: dict[int, Bracket] = {}
        self._costs: dict[Round, tuple[float, float]] = {}
        self._amount = self._slack = 0.0
        self._steps = 0
        self._adjacency: Adjacency | None = None
        self._lock = threading.RLock()

    def __len__(self) -> int:
        """Rounds recorded so far."""
        return self._steps

    def __repr__(self) -> str:
        return f"Odometer(delta={self.delta!r}, rounds={self._steps})"

    @property
    def reading(self) -> Bracket:
        """Epsilon of all rounds so far: from 0 to an upper end, infinite beyond the limits."""
        with self._lock:
            if not self._steps:
                return Bracket(lower=0.0, upper=0.0, ledger=ErrorLedger(), reduction=_NAME)
            return self._reading()

    def step(self, round: Round, count: int = 1) -> Bracket:
        """Record rounds, before anything of them is released, and return the new reading.

        Args:
            round: what happens next.
            count: how often, >= 0.

        Raises:
            ValueError: it is of another adjacency than those before, or the count is out of range.
        """
        with self._lock:
            cost = self._costs.get(round) or self._cost(round)
            if count != 1:
                count = validate.integer(minimum=0, maximum=MAX_ROUNDS, count=count)
            if count == 0:  # an infinite cost none of which is paid
                return self.reading
            self._amount = (self._amount + count * cost[0]) * (1.0 + 1e-15)
            self._slack = (self._slack + count * cost[1]) * (1.0 + 1e-15)
            self._steps += count
            return self.reading

    def _cost(self, one: Round) -> tuple[float, float]:
        """Squared mu and additive delta of a round; the first one fixes the limits."""
        validate.instance(Round, round=one)  # type: ignore[type-abstract]
        if self._adjacency is not None and one.adjacency is not self._adjacency:
            raise ValueError(
                f"round must be of adjacency {self._adjacency.named} as those before, got "
                f"{one.adjacency.named}"
            )
        self._adjacency = one.adjacency
        mu, slack = gaussian_cost(one, _EACH * _SHARE * self.delta / _LIMITS)
        if not self._limits:
            first = max(mu * mu, 1e-12) if math.isfinite(mu) else 1.0
            self._limits = (first * _FACTOR ** np.arange(_LIMITS)).tolist()
        self._costs[one] = found = (mu * mu * (1.0 + ROUNDING), slack)
        return found

    def _reading(self) -> Bracket:
        place = bisect.bisect_left(self._limits, self._amount)
        if self._slack > _SHARE * self.delta / _LIMITS:
            place = _LIMITS
        if place not in self._readings:
            upper = math.inf
            if place < _LIMITS:
                mu = math.sqrt(self._limits[place]) * (1.0 + ROUNDING)
                upper = epsilon_of_mu(mu, (1.0 - _SHARE) * self.delta / _LIMITS * (1.0 - ROUNDING))
            self._readings[place] = Bracket(
                lower=0.0,
                upper=upper,
                ledger=ErrorLedger(method="sum"),
                reduction=_NAME,
                adjacency=self._adjacency,
                conditions=lambda: conditions_of(tuple(self._costs)),
            )
        return self._readings[place]
