"""Ways to turn a budget into sums that adaptively chosen rounds may add up to.

A plan is fixed before anything is released. It turns each round into an amount and an additive
delta; whatever the rounds are, and however they were chosen, all of them together are (epsilon,
delta)-private if the amounts and the deltas, in the order in which rounds are released, sum to no
more than the plan's limits.

* "gaussian": amounts are squared mu of Gaussian mechanisms (`training.paid_rounds`).
* "unit": amounts are whole numbers of a fixed round (`training.paid_rounds`). A run of that round
  alone gets all that a fixed plan allows.
* "renyi": amounts are log moments of one order; no additive delta (Feldman and Zrnic 2021,
  "Individual privacy accounting via a Rényi filter", Theorem 4.3).

The same with the rounds' composed profile itself, asked whether it still meets the target, is not
valid in general: who chooses between two kinds of rounds may exceed delta nearly twofold.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any
from typing import Protocol as Interface

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines.moments import epsilon_of
from shuffle_accountant.calibration.calibrate import max_rounds
from shuffle_accountant.rounds.base import Round, certified_at
from shuffle_accountant.rounds.protocol import round_from_dict
from shuffle_accountant.training.paid_rounds import (
    epsilon_of_mu,
    gaussian_cost,
    largest_mu,
    log_moment_cost,
    unit_cost,
)

__all__ = [
    "KINDS",
    "GaussianPlan",
    "Plan",
    "RenyiPlan",
    "UnitPlan",
    "best_plan",
    "excess_order",
    "read_plan",
]

KINDS = ("auto", "gaussian", "unit", "renyi")

# Relative error of a sum or conversion of a few terms, each rounded fewer than a hundred times:
# sums of costs are raised by it, the limit is lowered by it.
ROUNDING = 1e-12
# Excess orders t = order - 1 that are tried for a planned round, sixteen per decade.
_ORDERS = np.logspace(-3.0, 5.0, 8 * 16 + 1)
# Shares of delta that are tried for the additive deltas of a Gaussian plan.
_SHARES = (1e-3, 0.03, 0.3, 0.6, 0.9)


class Plan(Interface):
    """Amounts and additive deltas of rounds, with the most that they may sum to."""

    kind: str
    limits: tuple[float, float]

    def cost(self, one: Round) -> tuple[float, float]:
        """Amount and additive delta of a round, from above; infinite if it has none."""

    def spent(self, amount: float, slack: float) -> float:
        """Epsilon, at the plan's delta, of sums within the limits, nats."""

    def to_dict(self) -> dict[str, Any]:
        """What was fixed, in plain JSON types, from which `read_plan` makes the plan again."""


def allowed(plan: Plan, one: Round) -> int:
    """How many rounds like this one alone the limits allow."""
    amount, slack = plan.cost(one)
    counts = [
        limit / part for limit, part in zip(plan.limits, (amount, slack), strict=True) if part > 0.0
    ]
    found = min(counts, default=math.inf)
    return 0 if math.isnan(found) else int(min(found * (1.0 - ROUNDING), 1e15))


class RenyiPlan:
    """Log moments at one Rényi order."""

    kind = "renyi"

    def __init__(self, epsilon: float, delta: float, t: float) -> None:
        self.epsilon, self.delta, self.t = epsilon, delta, t
        without = epsilon_of(0.0, t, delta)
        limit = t * (epsilon - without)
        limit -= ROUNDING * (t * (epsilon + abs(without)) + abs(limit))
        self.limits = (limit, 0.0)

    @classmethod
    def of(cls, epsilon: float, delta: float, planned: Round) -> RenyiPlan:
        """The plan of the order at which most rounds like the planned one fit."""

        def fits(t: float) -> float:
            try:
                cost = max(log_moment_cost(planned, t), 1e-300)
            except ValueError:
                if t == _ORDERS[0]:
                    raise  # no order is finite
                cost = math.inf
            return cls(epsilon, delta, t).limits[0] / cost

        return cls(epsilon, delta, max((fits(t), t) for t in _ORDERS.tolist())[1])

    def to_dict(self) -> dict[str, Any]:
        """Kind, and the order less 1, which the order itself would round."""
        return {"kind": self.kind, "excess": self.t}

    def cost(self, one: Round) -> tuple[float, float]:
        """Log moment of a round at the order, from above."""
        return log_moment_cost(one, self.t), 0.0

    def spent(self, amount: float, slack: float) -> float:
        """Epsilon at delta of a sum of log moments."""
        found = epsilon_of(amount, self.t, self.delta)
        return min(max(found + ROUNDING * (1.0 + abs(found)), 0.0), self.epsilon)


class GaussianPlan:
    """Squared mu of Gaussian mechanisms, with a share of delta for what they leave out."""

    kind = "gaussian"

    def __init__(self, epsilon: float, delta: float, share: float) -> None:
        self.epsilon, self.delta, self.share = epsilon, delta, share
        left = share * delta
        most = largest_mu(epsilon, delta - left) ** 2 * (1.0 - ROUNDING)
        self.limits = (most, left * (1.0 - ROUNDING))
        self._known: dict[Round, tuple[float, float]] = {}

    @classmethod
    def of(cls, epsilon: float, delta: float, planned: Round) -> GaussianPlan:
        """The plan of the share with which most rounds like the planned one fit."""
        plans = [cls(epsilon, delta, share) for share in _SHARES]
        return max(plans, key=lambda plan: allowed(plan, planned))

    def to_dict(self) -> dict[str, Any]:
        """Kind, and the share of delta for what rounds leave out."""
        return {"kind": self.kind, "share": self.share}

    def cost(self, one: Round) -> tuple[float, float]:
        """Squared mu of a round and what it leaves out, in balance between both limits."""
        if one not in self._known:
            most, left = self.limits
            if most <= 0.0:
                return math.inf, 0.0
            slack, best = left / 1000.0, (math.inf, 0.0)
            for _ in range(4):
                mu, out = gaussian_cost(one, slack)
                found = (mu * mu * (1.0 + ROUNDING), out)
                if max(found[0] / most, out / left) < max(best[0] / most, best[1] / left):
                    best = found
                if not math.isfinite(mu):
                    slack = min(10.0 * slack, left)
                    continue
                slack = left * min(max(found[0] / most, 1e-12), 1.0)
            self._known[one] = best
        return self._known[one]

    def spent(self, amount: float, slack: float) -> float:
        """Epsilon at delta of the Gaussian mechanism of a sum of squared mu."""
        found = epsilon_of_mu(math.sqrt(amount) * (1.0 + ROUNDING), self.delta - slack)
        return min(found, self.epsilon)


class UnitPlan:
    """Numbers of rounds of one kind, with the rest of delta for what other rounds leave out."""

    kind = "unit"

    def __init__(self, epsilon: float, delta: float, unit: Round) -> None:
        self.epsilon, self.delta, self.unit = epsilon, delta, unit
        most, once = 0, certified_at([(unit, 1)], 1e-3, epsilon=epsilon)[0]
        if epsilon > 0.0 and once.upper <= delta:
            most = int(max_rounds(unit, target_epsilon=epsilon, delta=delta))
        left = 0.0
        if most > 0:
            used = certified_at([(unit, most)], 1e-3, epsilon=epsilon)[0].upper
            left = max(delta - used, 0.0) * (1.0 - ROUNDING)
        self.limits = (most + 0.5, left)  # sums of whole numbers are exact, but raised

    def to_dict(self) -> dict[str, Any]:
        """Kind and unit."""
        return {"kind": self.kind, "unit": self.unit.to_dict()}

    def cost(self, one: Round) -> tuple[float, float]:
        """Number of units of a round and what they leave out."""
        if one == self.unit:
            return 1.0, 0.0
        most, left = self.limits
        slack = left / max(most, 1.0)
        if most < 1.0 or slack <= 0.0 or one.adjacency is not self.unit.adjacency:
            return math.inf, 0.0
        count = unit_cost(one, self.unit, int(most), slack)
        return (math.inf, 0.0) if count is None else (float(count), slack)

    def spent(self, amount: float, slack: float) -> float:
        """Epsilon, at what is left of delta, of that many units."""
        count = round(amount)
        if count == 0:
            return 0.0
        found = certified_at([(self.unit, count)], 1e-3, delta=self.delta - slack)[0]
        return min(found.upper, self.epsilon)


def best_plan(epsilon: float, delta: float, kind: str, planned: Round, unit: Round | None) -> Plan:
    """The plan of a kind, or of the kind that allows most rounds like the planned one.

    Between kinds that allow as many, Gaussian plans come first: their amounts are no whole numbers.

    Raises:
        ValueError: the kind has no finite cost for the planned round.
    """
    if kind == "renyi":
        return RenyiPlan.of(epsilon, delta, planned)
    if kind == "gaussian":
        return GaussianPlan.of(epsilon, delta, planned)
    if kind == "unit":
        return UnitPlan(epsilon, delta, planned if unit is None else unit)
    plans: list[Plan] = [
        GaussianPlan.of(epsilon, delta, planned),
        UnitPlan(epsilon, delta, planned if unit is None else unit),
    ]
    if unit is None:
        with suppress(ValueError):  # no finite Rényi divergence is known
            plans.append(RenyiPlan.of(epsilon, delta, planned))
    return max(plans, key=lambda plan: allowed(plan, planned))


def read_plan(state: Any, epsilon: float, delta: float) -> Plan:
    """The plan of a target whose `to_dict` was stored.

    Raises:
        ValueError: it is of no kind that is known, or a field is out of range.
    """
    fields = {"renyi": "excess", "gaussian": "share", "unit": "unit"}
    stored: dict[str, Any] = validate.instance(dict, plan=state)
    kind = validate.choice(tuple(fields), kind=stored.get("kind"))
    if set(stored) != {"kind", fields[kind]}:
        raise ValueError(f"plan must have fields kind and {fields[kind]}, got {sorted(stored)}")
    if kind == "unit":
        return UnitPlan(epsilon, delta, round_from_dict(stored["unit"]))
    if kind == "gaussian":
        return GaussianPlan(epsilon, delta, validate.open_unit(share=stored["share"]))
    return RenyiPlan(epsilon, delta, validate.positive(excess=stored["excess"]))


def excess_order(order: object) -> float:
    """A Rényi order less 1, checked to be finite and > 0."""
    found = validate.positive(order=order)
    if not found > 1.0:
        raise ValueError(f"order must be a finite number > 1, got {order!r}")
    return found - 1.0
