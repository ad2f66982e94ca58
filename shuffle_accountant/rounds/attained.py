"""Certified lower bounds of epsilon: what explicit datasets and queries lose, composed."""

from __future__ import annotations

import math

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Attained, in_order
from shuffle_accountant.engine.evaluation import evaluate
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.refinement import lower_end
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.losses.base import DominatingPair, Effort, PrivacyLoss, by_side, noise_of
from shuffle_accountant.losses.steps.antipodal import AntipodalLoss
from shuffle_accountant.losses.steps.gaussian import gaussian_mean_loss
from shuffle_accountant.losses.steps.profiled import OrderedPairLoss
from shuffle_accountant.numerics.roots import find_crossing
from shuffle_accountant.numerics.rounding import Bound, over_root
from shuffle_accountant.randomizers.base import FiniteRandomizer
from shuffle_accountant.reductions.base import Pair
from shuffle_accountant.reductions.dataset import dataset_losses
from shuffle_accountant.rounds import allocation, batches, thresholds
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.mechanisms import Mechanism
from shuffle_accountant.rounds.protocol import MAX_ROUNDS
from shuffle_accountant.rounds.shuffle import ShuffleRound

_TOLERANCE = 1e-3
# Shares of the epsilon of one round at which the datasets that lose most there are composed.
_SHARES = (1.0, 0.3)


def attained_epsilon(round: Round, *, delta: float, rounds: int = 1) -> Attained:
    """Certified lower bound of the epsilon that ``rounds`` rounds really lose at delta.

    No upper bound can be below it, whatever its theorem: it is the epsilon of explicit neighbouring
    datasets, composed.

    * `ShuffledBatches`: the target holds 1 and all others -1 in one direction, in every batch (the
      antipodal pair); the dataset is shown as ``(1, 0, -1)``. The upper end is that of an adversary
      who knows the target's batch.
    * `RandomAllocation` of a Gaussian, Laplace or pure step, one selected: the bracket's lower end,
      because one query attains the pair, with all others' records 0: ``(1, 0, 0)``.
    * `PoissonSampled` and `CyclicPoisson` of such a step: the same.
    * `SampleAndThreshold`: the worst of some numbers m of others who hold the value: ``(m, 0, 0)``.
    * `FixedSizeSampled`: the target holds 1 and all others -1: ``(1, 0, -1)``.
    * `ShuffleRound` of a finite randomizer: the best of the datasets in which all other users hold
      one value, as in `ShuffleRound.attained`.

    Args:
        delta: in (0, 1).
        rounds: number of rounds, >= 0.

    Returns:
        The lower end as a float, with the datasets and an upper end of their own epsilon.

    Raises:
        ValueError: the attaining datasets of the round are not known.
    """
    round = validate.instance(Round, round=round)  # type: ignore[type-abstract]
    delta = validate.open_unit(delta=delta)
    rounds = validate.integer(minimum=0, maximum=MAX_ROUNDS, rounds=rounds)
    if isinstance(round, batches.ShuffledBatches):
        return _batches(round, delta, rounds)
    if isinstance(round, thresholds.SampleAndThreshold):
        return _threshold(round, delta, rounds)
    if isinstance(round, batches.FixedSizeSampled):
        return _of_pair(round.attained_pair(), delta, rounds, (1, 0, -1))
    if isinstance(round, ShuffleRound) and isinstance(round.randomizer, FiniteRandomizer):
        return _datasets(round, round.randomizer, delta, rounds)
    sampled = allocation.RandomAllocation | batches.PoissonSampled | batches.CyclicPoisson
    if isinstance(round, sampled) and isinstance(round.mechanism, Mechanism):
        needs = ""
        if isinstance(round, allocation.RandomAllocation) and round.selected > 1:
            needs = f"selected=1, got selected={round.selected}"
        elif isinstance(round, allocation.RandomAllocation) and round.records_per_user > 1:
            records = f"records_per_user=1, got records_per_user={round.records_per_user}"
            needs = "" if round.together else f"together=True or {records}"
        if needs:
            raise ValueError(f"attained_epsilon needs an allocation with {needs}")
        return _of_pair(round.reduced(), delta, rounds, (1, 0, 0))
    raise ValueError(
        "attained_epsilon needs shuffled batches, an allocation or a sampling of one Gaussian, "
        f"Laplace or pure step, or a finite randomizer, got {round!r:.120}"
    )


def _batches(round: batches.ShuffledBatches, delta: float, rounds: int) -> Attained:
    sigma = over_root(round.noise_multiplier, round.passes)
    known = by_side(lambda side: gaussian_mean_loss(noise_of(sigma, side), 1))
    own = _of_pair(Pair("attained", known), delta, rounds, (1, 0, -1))
    if own == 0.0 or round.steps == 1:
        return own
    loss = AntipodalLoss(sigma.high, round.steps)
    lower = max(_lower_end(one, delta, rounds, own.upper) for one in (loss, loss.reversed))
    lower, upper = in_order(lower, own.upper)
    return Attained(lower=lower, upper=upper, dataset=(1, 0, -1))


def _lower_end(loss: PrivacyLoss, delta: float, rounds: int, upper: float) -> float:
    """Lower end of epsilon at delta after ``rounds`` rounds, from the optimistic side of a loss."""
    if rounds > 1:
        query = Query(delta=delta)
        return lower_end([(loss, rounds)], query, _TOLERANCE, SETTINGS.memory_limit, math.inf)
    effort = Effort(tail=1e-8 * delta, resolution=_TOLERANCE)

    def excess(epsilon: float) -> float:
        value = loss.delta(epsilon, Bound.OPTIMISTIC, effort)
        return math.log(value / delta) if value > 0.0 else -math.inf

    guess = min(loss.deviation, 0.5 * upper)
    return find_crossing(excess, upper, guess, 0.5 * guess, 1e-10).left


def _of_pair(
    pair: DominatingPair, delta: float, rounds: int, dataset: tuple[int, int, int]
) -> Attained:
    """What rounds of one pair of distributions of explicit datasets lose."""
    parts = [(pair, rounds)] if rounds else []
    found = evaluate(parts, Query(delta=delta), _TOLERANCE, SETTINGS.memory_limit)
    return Attained(lower=found.lower, upper=found.upper, dataset=dataset)


def _threshold(round: thresholds.SampleAndThreshold, delta: float, rounds: int) -> Attained:
    """The best of the numbers of others that an approximation for that number of rounds names."""

    def ends(others: int) -> Attained:
        return _of_pair(round.attained_pair(others), delta, rounds, (others, 0, 0))

    if rounds <= 1:
        return ends(round.worst_others(min(round.epsilon(delta=delta).upper, 50.0)))
    worst = set(round.worst_of_many(delta, rounds)[:3].tolist())
    best = max(map(ends, sorted(worst)))
    # the peak itself may be a little beside that of the approximation
    near = (math.ceil(share * best.dataset[0]) for share in (0.94, 0.97, 1.03, 1.06))
    beside = {max(others, round.threshold - 1) for others in near}
    return max([best, *map(ends, beside)])


def _datasets(
    round: ShuffleRound, randomizer: FiniteRandomizer, delta: float, rounds: int
) -> Attained:
    users = round.plain_users
    population = round.population or users
    losses = dataset_losses(randomizer, users, population)
    if rounds == 0:
        return Attained(lower=0.0, upper=0.0, dataset=next(iter(losses.values())))
    single = ShuffleRound(randomizer, users=users, population=round.population)
    scale = min(single.epsilon(delta=delta).upper, 700.0)
    effort = Effort(tail=1e-6 * delta, resolution=1e-3)

    def most(share: float) -> OrderedPairLoss:
        """The loss with the largest delta at that share of one round's epsilon."""
        return max(losses, key=lambda loss: loss.delta(share * scale, Bound.OPTIMISTIC, effort))

    chosen = dict.fromkeys(map(most, _SHARES))
    return max(_of_pair(Pair("attained", one), delta, rounds, losses[one]) for one in chosen)
