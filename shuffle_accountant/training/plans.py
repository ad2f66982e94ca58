"""What adaptively chosen rounds cost, and ways to turn a budget into sums of these costs.

A plan is fixed before anything is released. It turns each round into an amount and an additive
delta; whatever the rounds are, and however they were chosen, all of them together are (epsilon,
delta)-private if the amounts and the deltas, in the order in which rounds are released, sum to no
more than the plan's limits.

*"gaussian"*: amounts are squared mu of Gaussian mechanisms. If the larger of both orders' profiles
of a round is at most that of N(mu, 1) against N(0, 1) plus d at every ``alpha >= 1``, then it is in
both orders at every ``alpha >= 0``, and the round is a Gaussian mechanism of that mu but for an
event of probability d. A round is then a kernel of a Brownian motion's increment of length mu^2, so
that rounds chosen adaptively whose mu^2 and d sum to no more than B and D reveal no more than
N(sqrt(B), 1) against N(0, 1), plus D.

*"unit"*: amounts are whole numbers of a fixed round. Let K of it be (epsilon, delta - D)-private.
If every round's profile, in both orders, is at most that of k units plus d, and the rounds' k and d
sum to no more than K and D however the rounds are chosen, all of them together are (epsilon,
delta)-private: each is a kernel of k draws of the unit's pair but for an event of probability d. A
run of that round alone gets all that a fixed plan allows.

*"renyi"*: amounts are log moments of one order; no additive delta (Feldman and Zrnic 2021,
"Individual privacy accounting via a Rényi filter", Theorem 4.3). For a dominating pair (P, Q) with
privacy loss L = log(P/Q), the log moment of excess order t > 0 is ``K(t) = log E_P[e^(t L)] = t
D_(1 + t)(P ‖ Q)``. It comes off a grid from above (`shuffle_accountant.baselines.moments`). Losses
too rare for the grid, of total probability tau, lie in an event; by Hölder's inequality they add at
most

    tau^(1 - 1/p) E_P[e^(p t L)]^(1/p)        for every p > 1.

Where losses have no largest value, that moment is bounded by that of one message alone: shuffling,
sampling and dealing are applied to it, so by the data-processing inequality (and quasi-convexity)
they can only make moments smaller. Of normal noise of deviation sigma (in units of the
sensitivity) it is ``t (t + 1)/(2 sigma^2)``.

The rounds' composed profile itself, asked whether it still meets the target, is no valid plan in
general: who chooses between two kinds of rounds may exceed delta nearly twofold.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Hashable
from contextlib import suppress
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines.moments import epsilon_of, log_moments
from shuffle_accountant.baselines.question import require
from shuffle_accountant.calibration.calibrate import max_rounds
from shuffle_accountant.engine.evaluation import order_ends
from shuffle_accountant.losses.base import HOCKEY_STICK, Effort, PrivacyLoss, factors
from shuffle_accountant.losses.steps.gaussian import gaussian_profile
from shuffle_accountant.numerics.roots import bisected
from shuffle_accountant.numerics.rounding import Array, Bound
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.base import Round, certified_at
from shuffle_accountant.rounds.batches import PoissonSampled
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.rounds.protocol import round_from_dict
from shuffle_accountant.rounds.shuffle import ShuffleRound

KINDS = ("auto", "gaussian", "unit", "renyi")

# Relative error of a sum or conversion of a few terms, each rounded fewer than a hundred times:
# sums of costs are raised by it, the limit is lowered by it.
ROUNDING = 1e-12
# Excess orders t = order - 1 that are tried for a planned round, sixteen per decade.
_ORDERS = np.logspace(-3.0, 5.0, 8 * 16 + 1)
# Shares of delta that are tried for the additive deltas of a Gaussian plan.
_SHARES = (1e-3, 0.03, 0.3, 0.6, 0.9)

NAME = "a Rényi filter"
# Largest loss (nats): above it, moments of high orders may be no doubles.
_MOST_LOSS = 1e100
# Values of p > 1 tried in Hölder's inequality.
_HOELDER = (1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0)
# Number of epsilons at which profiles are compared, at most, and by how many a look is taken first.
_POINTS, _FIRST = 90, 6
_TOLERANCE = 2e-3
# Distance of the epsilons at which profiles are compared: in mu, and relative to themselves.
_STEP, _GROWTH, _MOST_POINTS = 0.06, 0.015, 2000
# Relative accuracy of mu, and what its profile's terms are lowered by, relative to them: far more
# than normal distribution functions are off.
_ACCURACY, _SLACK = 1e-5, 1e-12
# A largest mu: rounds beyond it have no budget of any use.
_LARGEST = 100.0


@lru_cache(maxsize=4096)
def log_moment_cost(round: Round, t: float) -> float:
    """Upper end of the log moment ``t D_(1 + t)`` of a round, the worse direction, nats, finite.

    Raises:
        OutsideValidityError: no finite Rényi divergence is known for it.
    """
    pair = round.reduced()
    loss = pair.loss
    if loss.largest == 0.0:
        return 0.0
    require(NAME, _condition(round, loss))
    found = max(
        math.fsum(count * _side(part, t, round) for part, count in factors(side, alone=False))
        for side in {loss, loss.reversed}
    )
    if not math.isfinite(found):
        require(NAME, f"rounds of finite Rényi divergence, got {round!r:.120} at order {1.0 + t:g}")
    return found


def _condition(round: Round, loss: PrivacyLoss) -> str | None:
    """The condition that a round does not meet, or None."""
    if loss.divergence is not HOCKEY_STICK:
        return "hockey-stick divergences, got variant='tail'"
    if loss.largest < math.inf:
        return None if loss.largest <= _MOST_LOSS else f"losses of at most {_MOST_LOSS:g} nats"
    if _noise(round) is None:
        return f"losses with a largest value, or normal noise in one message, got {round!r:.120}"
    effort = Effort(tail=1e-300, resolution=1e-3)
    if any(side.delta(math.inf, Bound.OPTIMISTIC, effort) > 0.0 for side in (loss, loss.reversed)):
        return "finite losses, got one that is infinite with some probability"
    return None


def _side(loss: PrivacyLoss, t: float, round: Round) -> float:
    """Upper end of the log moment of excess order t, for one direction."""
    if loss.largest == 0.0:
        return 0.0
    moments = log_moments(loss, Bound.PESSIMISTIC)
    noise = _noise(round)
    if loss.largest < math.inf or noise is None:
        return moments.bound(t)
    alone = t * (t + 1.0) / (2.0 * noise * noise) * (1.0 + ROUNDING)
    kept = moments.kept(t)
    if moments.infinite > 0.0:
        log_tail = math.log(moments.infinite)
        rare = min(
            (1.0 - 1.0 / p) * log_tail + t * (p * t + 1.0) / (2.0 * noise * noise) for p in _HOELDER
        )
        # the logarithm of a sum of exponentials moves by no more than its exponents do
        moved = 4.0 * ROUNDING * max(1.0, abs(log_tail), abs(rare))
        kept = float(np.logaddexp(kept, rare)) + moved
    return max(min(kept, alone), 0.0)


def _noise(round: Round) -> float | None:
    """Deviation of the normal noise of what is sampled or shuffled, in sensitivities; or None."""
    if isinstance(round, ShuffleRound):
        return round.randomizer.noisy_vectors
    if not isinstance(round, PoissonSampled | RandomAllocation) or round.records_per_user > 1:
        return None
    if not isinstance(round.mechanism, GaussianMechanism):
        return None
    if isinstance(round, PoissonSampled):
        return round.mechanism.sigma
    # one record is in `selected` steps, each gone through `passes` times; the blocks that the
    # pair is a product of have one step each
    scheduled = round.mechanism.schedule is not None
    return None if scheduled else round.mechanism.sigma / math.sqrt(round.passes)


@lru_cache(maxsize=1 << 14)
def _ends(one: Round, count: int, swapped: bool, epsilon: float) -> tuple[float, float]:
    """Both ends of delta of some draws of a round's pair, in one order."""
    parts, laws = [(one.reduced(), count)], _laws(one, count, swapped)
    return order_ends(parts, epsilon, swapped=swapped, tolerance=_TOLERANCE, laws=laws)


@lru_cache(maxsize=4)  # both orders of a round and of the units it is compared with
def _laws(one: Round, count: int, swapped: bool) -> dict[Hashable, Any]:
    """Laws of the sum, which questions at several epsilons share."""
    return {}


def _covered(
    one: Round, unit: Round, count: int, slack: float, epsilons: Array, swapped: bool
) -> bool:
    """Whether a round's profile is at most that of some units plus the slack, for alpha >= 1.

    Between two points the round's is below its chord, and the units' above the lines through their
    neighbouring points, as both are convex in alpha.
    """
    alpha = np.exp(epsilons)
    above = np.asarray([_ends(one, 1, swapped, epsilon)[1] for epsilon in epsilons.tolist()])
    low, high = np.asarray([_ends(unit, count, swapped, x) for x in epsilons.tolist()]).T
    if np.any(above > low + slack) or above[-1] > slack:
        return False
    for i in range(epsilons.size - 1):
        run = alpha[i + 1] - alpha[i]
        lines = [(low[i + 1], 0.0)]  # profiles fall
        if i > 0:  # through the points before, going on
            slope = (low[i] - high[i - 1]) / (alpha[i] - alpha[i - 1])
            lines.append((low[i] + slope * run, -slope))
        if i + 2 < epsilons.size:  # through the points after, coming from them
            slope = (high[i + 2] - low[i + 1]) / (alpha[i + 2] - alpha[i + 1])
            lines.append((low[i + 1], -slope))
        # the largest of some lines less a chord is least at an end, or where two of them meet
        falls = [(end + steep * run, steep * run) for end, steep in lines]  # at the left, per run
        places = [0.0, 1.0]
        for (a, b), (c, d) in combinations(falls, 2):
            if b != d and 0.0 < (a - c) / (b - d) < 1.0:
                places.append((a - c) / (b - d))
        for place in places:
            chord = above[i] + place * (above[i + 1] - above[i])
            if max(a - b * place for a, b in falls) * (1.0 - 1e-12) + slack < chord:
                return False
    return True


@lru_cache(maxsize=1024)
def unit_cost(one: Round, unit: Round, most: int, slack: float) -> int | None:
    """The fewest units, of the same adjacency, that a round is no worse than; None if above most.

    The slack is an additive delta > 0.
    """
    if one == unit:
        return 1
    end = 1e-3
    while _ends(one, 1, False, end)[1] > 0.5 * slack or _ends(one, 1, True, end)[1] > 0.5 * slack:
        end *= 1.25
        if end > 100.0:
            return None
    epsilons = end * np.linspace(0.0, 1.0, _POINTS) ** 1.5
    few = epsilons[:: max(_POINTS // _FIRST, 1)]

    def enough(count: int) -> bool:
        return all(
            _ends(one, 1, swapped, x)[1] <= _ends(unit, count, swapped, x)[0] + slack
            for swapped in (False, True)
            for x in few.tolist()
        )

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if low >= most:
            return None
    high = low + 1 + bisect_left(range(low + 1, high), True, key=enough)
    while high <= most:
        if all(_covered(one, unit, high, slack, epsilons, swapped) for swapped in (False, True)):
            return high
        high += max(high // 50, 1)
    return None


@lru_cache(maxsize=1 << 16)
def profile_above(one: Round, epsilon: float) -> float:
    """Upper end of delta of one round, the larger of both orders."""
    one.reduced()  # refuses rounds that share what is drawn once
    return certified_at([(one, 1)], 1e-3, epsilon=epsilon)[0].upper


@lru_cache(maxsize=256)
def _points(one: Round, least: float) -> tuple[Array, Array]:
    """Epsilons from 0 on with upper ends of delta, until one is no more than ``least``."""
    first = profile_above(one, 0.0)
    start = max(_mu_of(first), 1e-9)
    epsilons, deltas = [0.0], [first]
    while deltas[-1] > least and len(epsilons) < _MOST_POINTS:
        epsilons.append(epsilons[-1] + max(_STEP * start, _GROWTH * epsilons[-1]))
        deltas.append(min(profile_above(one, epsilons[-1]), deltas[-1]))
    return np.asarray(epsilons), np.asarray(deltas)


def _mu_of(distance: float) -> float:
    """The mu of a total variation distance."""
    from scipy.special import ndtri

    return 2.0 * float(ndtri(0.5 + 0.5 * min(distance, 1.0 - 1e-12)))


def worst_gap(epsilons: Array, deltas: Array, mu: float) -> float:
    """Upper bound of ``h(alpha) - H_alpha(mu)`` for all ``alpha >= 1``, of upper ends of h.

    Between two points h is below its chord, and the Gaussian profile above both tangents; beyond
    the last, h is no more than there. The epsilons ascend from 0, shape (m,) as the deltas.
    """
    from scipy.special import log_ndtr

    alpha = np.exp(epsilons)
    first = np.exp(log_ndtr(0.5 * mu - epsilons / mu))
    tail = np.exp(log_ndtr(-0.5 * mu - epsilons / mu))
    # a score's rounding moves a tail by the square of the score
    slack = _SLACK * (1.0 + (0.5 * mu + epsilons / mu) ** 2)
    value = np.maximum(first * (1.0 - slack) - alpha * tail * (1.0 + slack), 0.0)
    steep, flat = -tail * (1.0 + slack), -tail * (1.0 - slack)
    run = np.diff(alpha)
    # a chord less the larger of two tangents is largest where those meet, or at an end
    meet = value[1:] - flat[1:] * run - value[:-1]
    bend = (steep[:-1] - flat[1:]) * run
    share = np.clip(np.divide(meet, bend, out=np.full(run.size, 0.5), where=bend < 0.0), 0.0, 1.0)
    chord = deltas[:-1] + share * (deltas[1:] - deltas[:-1])
    left, right = value[:-1] + steep[:-1] * share * run, value[1:] - flat[1:] * (1.0 - share) * run
    # of the place where they meet, and of the lines
    rounding = 1e-13 * (deltas[:-1] + value[:-1] + np.abs(steep[:-1]) * run)
    between = chord - np.maximum(left, right) + rounding
    beyond = float(deltas[-1])  # where the Gaussian profile may be anything above 0
    return max(float(np.max(deltas - value)), float(np.max(between, initial=0.0)), beyond, 0.0)


@lru_cache(maxsize=1024)
def gaussian_cost(one: Round, slack: float) -> tuple[float, float]:
    """The mu of a round up to an additive delta of at most ``slack``, and that delta.

    Mu is infinite if there is none up to 100.
    """
    epsilons, deltas = _points(one, 0.5 * slack)
    if deltas[-1] > slack:
        return math.inf, 0.0
    if deltas[0] <= slack:
        return 0.0, float(deltas[0])
    low = _mu_of(float(deltas[0]) - slack)
    found = bisected(
        lambda mu: worst_gap(epsilons, deltas, mu) > slack,
        (low, max(low, 1e-12)),
        _ACCURACY,
        most=_LARGEST,
    )[1]
    return (found, worst_gap(epsilons, deltas, found)) if found < math.inf else (math.inf, 0.0)


def largest_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose profile is certified to be at most delta at epsilon; 0 if none is."""

    def within(mu: float) -> bool:
        return gaussian_profile(1.0 / mu, epsilon, Bound.PESSIMISTIC) <= delta

    return bisected(within, (0.0, 1.0), 1e-12, least=1e-12)[0]


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The least epsilon, rounded up, at which the profile of a mu is at most delta."""

    def beyond(epsilon: float) -> bool:
        return gaussian_profile(1.0 / mu, epsilon, Bound.PESSIMISTIC) > delta

    return bisected(beyond, (0.0, mu), 1e-12)[1] if mu > 0.0 and beyond(0.0) else 0.0


class Plan(ABC):
    """Amounts and additive deltas of rounds, with the most that they may sum to.

    What is fixed besides epsilon (nats) and delta is stored as ``field``.
    """

    kind: ClassVar[str]
    field: ClassVar[str]
    limits: tuple[float, float]

    def __init__(self, epsilon: float, delta: float, fixed: Any) -> None:
        self.epsilon, self.delta, self.fixed = epsilon, delta, fixed

    @abstractmethod
    def cost(self, one: Round) -> tuple[float, float]:
        """Amount and additive delta of a round, from above; infinite if it has none."""

    @abstractmethod
    def spent(self, amount: float, slack: float) -> float:
        """Epsilon, at the plan's delta, of sums within the limits, nats."""

    def to_dict(self) -> dict[str, Any]:
        """What was fixed, in plain JSON types, from which `read_plan` makes the plan again."""
        fixed = self.fixed.to_dict() if isinstance(self.fixed, Round) else self.fixed
        return {"kind": self.kind, self.field: fixed}


def allowed(plan: Plan, one: Round) -> int:
    """How many rounds like this one alone the limits allow."""
    parts = zip(plan.limits, plan.cost(one), strict=True)
    counts = [limit / part for limit, part in parts if part > 0.0]
    found = min(counts, default=math.inf)
    return 0 if math.isnan(found) else int(min(found * (1.0 - ROUNDING), 1e15))


class RenyiPlan(Plan):
    """Log moments at one Rényi order; stored is t, the order less 1, which it would round."""

    kind, field = "renyi", "excess"

    def __init__(self, epsilon: float, delta: float, t: float) -> None:
        super().__init__(epsilon, delta, t)
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

    def cost(self, one: Round) -> tuple[float, float]:
        """Log moment of a round at the order, from above."""
        return log_moment_cost(one, self.fixed), 0.0

    def spent(self, amount: float, slack: float) -> float:
        """Epsilon at delta of a sum of log moments."""
        found = epsilon_of(amount, self.fixed, self.delta)
        return min(max(found + ROUNDING * (1.0 + abs(found)), 0.0), self.epsilon)


class GaussianPlan(Plan):
    """Squared mu of Gaussian mechanisms, with a share of delta for what they leave out."""

    kind, field = "gaussian", "share"

    def __init__(self, epsilon: float, delta: float, share: float) -> None:
        super().__init__(epsilon, delta, share)
        left = share * delta
        most = largest_mu(epsilon, delta - left) ** 2 * (1.0 - ROUNDING)
        self.limits = (most, left * (1.0 - ROUNDING))

    @classmethod
    def of(cls, epsilon: float, delta: float, planned: Round) -> GaussianPlan:
        """The plan of the share with which most rounds like the planned one fit."""
        plans = [cls(epsilon, delta, share) for share in _SHARES]
        return max(plans, key=lambda plan: allowed(plan, planned))

    def cost(self, one: Round) -> tuple[float, float]:
        """Squared mu of a round and what it leaves out, in balance between both limits."""
        most, left = self.limits
        if most <= 0.0:
            return math.inf, 0.0
        slack, best = left / 1000.0, (math.inf, 0.0)
        for _ in range(4):
            mu, out = gaussian_cost(one, slack)
            found = (mu * mu * (1.0 + ROUNDING), out)
            if max(found[0] / most, out / left) < max(best[0] / most, best[1] / left):
                best = found
            if math.isfinite(mu):
                slack = left * min(max(found[0] / most, 1e-12), 1.0)
            else:
                slack = min(10.0 * slack, left)
        return best

    def spent(self, amount: float, slack: float) -> float:
        """Epsilon at delta of the Gaussian mechanism of a sum of squared mu."""
        found = epsilon_of_mu(math.sqrt(amount) * (1.0 + ROUNDING), self.delta - slack)
        return min(found, self.epsilon)


class UnitPlan(Plan):
    """Numbers of rounds of one kind, with the rest of delta for what other rounds leave out."""

    kind, field = "unit", "unit"

    def __init__(self, epsilon: float, delta: float, unit: Round) -> None:
        super().__init__(epsilon, delta, unit)
        most, once = 0, certified_at([(unit, 1)], 1e-3, epsilon=epsilon)[0]
        if epsilon > 0.0 and once.upper <= delta:
            most = int(max_rounds(unit, target_epsilon=epsilon, delta=delta))
        left = 0.0
        if most > 0:
            used = certified_at([(unit, most)], 1e-3, epsilon=epsilon)[0].upper
            left = max(delta - used, 0.0) * (1.0 - ROUNDING)
        self.limits = (most + 0.5, left)  # sums of whole numbers are exact, but raised

    def cost(self, one: Round) -> tuple[float, float]:
        """Number of units of a round and what they leave out."""
        if one == self.fixed:
            return 1.0, 0.0
        most, left = self.limits
        slack = left / max(most, 1.0)
        if most < 1.0 or slack <= 0.0 or one.adjacency is not self.fixed.adjacency:
            return math.inf, 0.0
        count = unit_cost(one, self.fixed, int(most), slack)
        return (math.inf, 0.0) if count is None else (float(count), slack)

    def spent(self, amount: float, slack: float) -> float:
        """Epsilon, at what is left of delta, of that many units."""
        count = round(amount)
        if count == 0:
            return 0.0
        found = certified_at([(self.fixed, count)], 1e-3, delta=self.delta - slack)[0]
        return min(found.upper, self.epsilon)


def best_plan(epsilon: float, delta: float, kind: str, planned: Round, unit: Round | None) -> Plan:
    """The plan of a kind, or of the kind that allows most rounds like the planned one.

    Between kinds that allow as many, Gaussian plans come first: their amounts are no whole numbers.
    """
    if kind == "renyi":
        return RenyiPlan.of(epsilon, delta, planned)
    if kind == "gaussian":
        return GaussianPlan.of(epsilon, delta, planned)
    in_units = UnitPlan(epsilon, delta, planned if unit is None else unit)
    if kind == "unit":
        return in_units
    plans: list[Plan] = [GaussianPlan.of(epsilon, delta, planned), in_units]
    if unit is None:
        with suppress(ValueError):  # no finite Rényi divergence is known
            plans.append(RenyiPlan.of(epsilon, delta, planned))
    return max(plans, key=lambda plan: allowed(plan, planned))


def read_plan(state: Any, epsilon: float, delta: float) -> Plan:
    """The plan of a target whose `to_dict` was stored."""
    fields = {plan.kind: plan.field for plan in (RenyiPlan, GaussianPlan, UnitPlan)}
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
