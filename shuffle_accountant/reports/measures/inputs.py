"""Mutual information between the messages and the target's value."""

from __future__ import annotations

import math
from collections.abc import Iterator

from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.leakage import mutual_information
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.reports.measures.adversaries import ANY_PRIOR, VALUES
from shuffle_accountant.reports.measures.registry import (
    ALL_ROUNDS,
    MEASURES,
    UP,
    Measure,
    RoundMeasure,
    Stage,
    Subject,
)
from shuffle_accountant.reports.rows import ReportRow
from shuffle_accountant.rounds.shuffle import ShuffleRound


def _of_round(one: ShuffleRound, scope: str) -> Iterator[ReportRow]:
    told = mutual_information.input_bound(one.randomizer, users=one.plain_users)
    yield ReportRow(
        measure="information on the input",
        scope=scope,
        upper=told.upper,
        unit="nats",
        nothing=0.0,
        everything=_entropy(one.randomizer),
        adversary=VALUES,
        source=told.reduction,
    )


def _of_all(subject: Subject) -> Iterator[ReportRow]:
    """The sum over all rounds, by the chain rule."""
    if not all(one.plain for one, _ in subject.shuffled):
        return
    if not subject.all_shuffled or subject.protocol.adjacency is Adjacency.ZERO_OUT:
        return
    total = UP * math.fsum(count * _any_prior(one) for one, count in subject.shuffled)
    entropies = {_entropy(one.randomizer) for one, _ in subject.shuffled}
    most = entropies.pop() if len(entropies) == 1 else None
    yield ReportRow(
        measure="information on the input",
        scope=ALL_ROUNDS,
        upper=total if most is None else min(total, UP * most),
        unit="nats",
        nothing=0.0,
        everything=most,
        adversary=ANY_PRIOR,
        source="chain rule; blanket, chi-squared",
    )


def _any_prior(one: ShuffleRound) -> float:
    """Upper bound on one round's mutual information with the target's value, nats, any prior."""
    bounds = mutual_information.universal_bounds(eps0=one.randomizer.eps0, users=one.plain_users)
    told = bounds.message if one.randomizer.interactive else bounds.least
    # who takes part does not depend on the values; who does not gives nothing away
    share = one.plain_users / (one.population or one.plain_users)
    entropy = _entropy(one.randomizer)
    return share * (told if entropy is None else min(told, UP * entropy))


def _entropy(randomizer: LocalRandomizer) -> float | None:
    """Largest entropy of the input, nats; None if its number of values is not known."""
    return None if randomizer.values is None else math.log(randomizer.values)


MEASURES.register(RoundMeasure(name="information on the input", rows=_of_round, rank=30))
MEASURES.register(
    Measure(name="information on the input, all rounds", rows=_of_all, rank=10, stage=Stage.SUMS)
)
