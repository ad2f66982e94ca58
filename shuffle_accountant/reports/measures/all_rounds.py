"""Measures of all rounds together: differential privacy, total variation, information on inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.baselines import rdp
from shuffle_accountant.baselines.question import OutsideValidityError
from shuffle_accountant.leakage import mutual_information
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.reports.rows import (
    ALL_ROUNDS,
    MEASURES,
    NEIGHBOURS,
    UP,
    Measure,
    ReportRow,
    Stage,
    Subject,
    largest_entropy,
)
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.shuffle import ShuffleRound


def _epsilon_row(subject: Subject, name: str, **values: Any) -> ReportRow:
    return ReportRow(
        **{"measure": f"{name} at delta = {subject.delta:g}", "scope": ALL_ROUNDS} | values,
        unit="nats",
        nothing=0.0,
        adversary=NEIGHBOURS,
        adjacency=subject.adjacency,
    )


def _epsilon(subject: Subject) -> Iterator[ReportRow]:
    """Differential privacy, as the accountant brackets it."""
    found = subject.epsilon
    ends = {"lower": found.lower, "upper": found.upper, "source": found.reduction}
    yield _epsilon_row(subject, "epsilon", **ends, everything=subject.local_epsilon)


def _of_groups(subject: Subject) -> Iterator[ReportRow]:
    """Epsilon of every other group of a mixed crowd: in each round that has it, of its users."""
    groups = dict.fromkeys(kind for one, _ in subject.shuffled for kind, _ in one.others)
    for group in groups:
        accountant = FourierAccountant(tolerance=subject.accountant.tolerance)
        for one, count in subject.protocol:
            accountant.compose(_seen_by(one, group), count=count)
        found = accountant.epsilon(delta=subject.delta)
        ends = {"lower": found.lower, "upper": found.upper, "source": found.reduction}
        yield _epsilon_row(subject, "epsilon", **ends, scope=f"{ALL_ROUNDS}, users of {group!r}")


def _seen_by(one: Round, group: LocalRandomizer) -> Round:
    if isinstance(one, ShuffleRound) and group in one.kinds_of_users:
        return one.for_user_of(group)
    return one


def _renyi(subject: Subject) -> Iterator[ReportRow]:
    """Epsilon by Rényi accounting of the same pairs."""
    upper, condition = None, None
    if not subject.all_shuffled:
        condition = "needs shuffled rounds"
    else:
        try:
            upper = rdp.epsilon(subject.shuffled, delta=subject.delta)
        except OutsideValidityError as refused:
            condition = f"needs {refused.condition}"
    found = {"upper": upper, "condition": condition, "source": rdp.source}
    yield _epsilon_row(subject, "Rényi epsilon", **found, everything=subject.local_epsilon)


def _variation(subject: Subject) -> Iterator[ReportRow]:
    """Total variation, and the chance to distinguish two values."""
    lower, upper, condition = None, None, None
    if not all(one.has_profile for one, _ in subject.protocol):
        condition = "needs hockey-stick divergences, got variant='tail'"
    else:
        variation = subject.accountant.delta(epsilon=0.0)
        lower, upper = variation.lower, variation.upper
    for measure, chance, adversary in (
        ("total variation", 0.0, NEIGHBOURS),
        ("telling two values apart", 0.5, "the same, both equally likely"),
    ):
        # the better of two equally likely guesses is right with probability (1 + variation)/2
        lowest, highest = (
            end if end is None or chance == 0.0 else _even_odds(end, away)
            for end, away in ((lower, 0.0), (upper, 1.0))
        )
        yield ReportRow(
            measure=measure,
            scope=ALL_ROUNDS,
            lower=lowest,
            upper=highest,
            unit="probability",
            nothing=chance,
            everything=1.0,
            adversary=adversary,
            source=subject.epsilon.reduction,
            condition=condition,
            adjacency=subject.adjacency,
        )


def _even_odds(variation: float, away: float) -> float:
    """``(1 + variation)/2``, rounded towards ``away``; without a variation it is exact."""
    chance = 0.5 + 0.5 * variation
    return chance if variation in (0.0, 1.0) else max(math.nextafter(chance, away), 0.5)


def _information(subject: Subject) -> Iterator[ReportRow]:
    """Mutual information with the target's inputs: the sum over rounds, by the chain rule."""
    if not all(one.plain for one, _ in subject.shuffled):
        return
    if not subject.all_shuffled or subject.protocol.adjacency is Adjacency.ZERO_OUT:
        return
    total = UP * math.fsum(count * _any_prior(one) for one, count in subject.shuffled)
    entropies = {largest_entropy(one.randomizer) for one, _ in subject.shuffled}
    most = entropies.pop() if len(entropies) == 1 else None
    yield ReportRow(
        measure="information on the input",
        scope=ALL_ROUNDS,
        upper=total if most is None else min(total, UP * most),
        unit="nats",
        nothing=0.0,
        everything=most,
        adversary="knows all others' values; asks for one, any prior",
        source="chain rule; blanket, chi-squared",
    )


def _any_prior(one: ShuffleRound) -> float:
    """Upper bound on one round's mutual information with the target's value, nats, any prior."""
    bounds = mutual_information.universal_bounds(eps0=one.randomizer.eps0, users=one.plain_users)
    found = bounds.message if one.randomizer.interactive else bounds.least
    # who takes part does not depend on the values; who does not gives nothing away
    share = one.plain_users / (one.population or one.plain_users)
    entropy = largest_entropy(one.randomizer)
    return share * (found if entropy is None else min(found, UP * entropy))


for _measure in (
    Measure(name="epsilon", rows=_epsilon, rank=10),
    Measure(name="epsilon of each group", rows=_of_groups, rank=15),
    Measure(name="Rényi epsilon", rows=_renyi, rank=20),
    Measure(name="total variation", rows=_variation, rank=30),
    Measure(
        name="information on the input, all rounds", rows=_information, rank=10, stage=Stage.SUMS
    ),
):
    MEASURES.register(_measure)
