"""The measures of a report, which register themselves.

First those of all rounds together (differential privacy, total variation, information on inputs,
what a shuffler of the order protects), then those of one shuffled round that the target takes part
in: its message, place and value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.baselines import rdp
from shuffle_accountant.baselines.question import OutsideValidityError
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.leakage import mutual_information, qif, reidentification
from shuffle_accountant.order import reidentification_bound
from shuffle_accountant.reports import rows
from shuffle_accountant.reports.rows import Measure, ReportRow, RoundMeasure, Stage, Subject
from shuffle_accountant.rounds.shuffle import ShuffleRound

MEMBERS = "knows a group's values without their order, and all others"

_nats = partial(ReportRow, unit="nats", nothing=0.0)
_chance = partial(ReportRow, unit="probability", everything=1.0)


def _epsilon_row(
    subject: Subject, found: Bracket | None = None, *, name: str = "epsilon", **values: Any
) -> ReportRow:
    if found is not None:
        values |= {"lower": found.lower, "upper": found.upper, "source": found.reduction}
    return _nats(
        **{"measure": f"{name} at delta = {subject.delta:g}", "scope": rows.ALL_ROUNDS} | values,
        adversary=rows.NEIGHBOURS,
        adjacency=subject.adjacency,
    )


def _epsilon(subject: Subject) -> Iterator[ReportRow]:
    """Differential privacy, as the accountant brackets it."""
    yield _epsilon_row(subject, subject.epsilon, everything=subject.local_epsilon)


def _of_groups(subject: Subject) -> Iterator[ReportRow]:
    """Epsilon of every other group of a mixed crowd: in each round that has it, of its users."""
    groups = dict.fromkeys(kind for one, _ in subject.shuffled for kind, _ in one.others)
    for group in groups:
        accountant = FourierAccountant(tolerance=subject.accountant.tolerance)
        for one, count in subject.protocol:
            if isinstance(one, ShuffleRound) and group in one.kinds_of_users:
                accountant.compose(one.for_user_of(group), count=count)
            else:
                accountant.compose(one, count=count)
        found = accountant.epsilon(delta=subject.delta)
        yield _epsilon_row(subject, found, scope=f"{rows.ALL_ROUNDS}, users of {group!r}")


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
    yield _epsilon_row(
        subject,
        name="Rényi epsilon",
        upper=upper,
        condition=condition,
        source=rdp.source,
        everything=subject.local_epsilon,
    )


def _variation(subject: Subject) -> Iterator[ReportRow]:
    """Total variation, and the chance to distinguish two values."""
    lower, upper, condition = None, None, None
    if not all(one.has_profile for one, _ in subject.protocol):
        condition = "needs hockey-stick divergences, got variant='tail'"
    else:
        variation = subject.accountant.delta(epsilon=0.0)
        lower, upper = variation.lower, variation.upper
    for measure, chance, adversary in (
        ("total variation", 0.0, rows.NEIGHBOURS),
        ("telling two values apart", 0.5, "the same, both equally likely"),
    ):
        # the better of two equally likely guesses is right with probability (1 + variation)/2
        lowest, highest = (
            end if end is None or chance == 0.0 else _even_odds(end, away)
            for end, away in ((lower, 0.0), (upper, 1.0))
        )
        yield _chance(
            measure=measure,
            scope=rows.ALL_ROUNDS,
            lower=lowest,
            upper=highest,
            nothing=chance,
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
    total = rows.UP * math.fsum(count * _any_prior(one) for one, count in subject.shuffled)
    entropies = {rows.largest_entropy(one.randomizer) for one, _ in subject.shuffled}
    most = entropies.pop() if len(entropies) == 1 else None
    yield _nats(
        measure="information on the input",
        scope=rows.ALL_ROUNDS,
        upper=total if most is None else min(total, rows.UP * most),
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
    entropy = rows.largest_entropy(one.randomizer)
    return share * (found if entropy is None else min(found, rows.UP * entropy))


def _order(subject: Subject) -> Iterator[ReportRow]:
    order, rounds = subject.order, len(subject.protocol)
    if order is None:
        return
    alpha = rows.UP * rounds * order.alpha if rounds else 0.0
    eps0 = rows.UP * subject.local_epsilon
    if not subject.uniform:
        yield _nats(
            measure="epsilon",
            scope=rows.ALL_ROUNDS,
            upper=eps0,
            everything=eps0,
            adversary=rows.NEIGHBOURS,
            source="local randomizers, basic composition",
            adjacency=subject.adjacency,
        )
    yield _nats(
        measure="alpha of the order",
        scope=rows.ALL_ROUNDS,
        upper=alpha,
        everything=math.inf,
        adversary=MEMBERS,
        source="Meehan et al., Theorems 4.1 and 4.3",
    )
    sizes = order.groups.sizes
    if np.any(sizes > 1):
        size = int(sizes[sizes > 1].min())
        yield _chance(
            measure=f"naming one message in a group of {size}",
            scope=rows.ALL_ROUNDS,
            upper=reidentification_bound(size, 1, eps0, alpha).win_cap,
            nothing=1.0 / size,
            adversary=MEMBERS,
            source="Meehan et al., Theorem 4.2, refined",
        )


def _naming(one: ShuffleRound, scope: str) -> Iterator[ReportRow]:
    """Re-identification: the chance that an adversary names the target's message."""
    named = reidentification.bracket(one.randomizer, users=one.plain_users)
    yield _chance(
        measure="naming the message",
        scope=scope,
        lower=named.lower,
        upper=named.upper,
        nothing=1.0 / one.plain_users,
        adversary="knows all values; names the message",
        source=named.reduction,
    )


def _place(one: ShuffleRound, scope: str) -> Iterator[ReportRow]:
    """Mutual information between the messages and the place of the target's."""
    upper, condition = None, None
    if one.randomizer.interactive:
        condition = "needs a randomizer that is not interactive"
    else:
        upper = mutual_information.position_bounds(one.randomizer, users=one.plain_users).least
    yield _nats(
        measure="information on the position",
        scope=scope,
        upper=upper,
        everything=math.log(one.plain_users),
        adversary="knows all values; asks for the place",
        source="least of the bounds for any inputs",
        condition=condition,
    )


def _input(one: ShuffleRound, scope: str) -> Iterator[ReportRow]:
    """Mutual information between the messages and the target's value."""
    found = mutual_information.input_bound(one.randomizer, users=one.plain_users)
    yield _nats(
        measure="information on the input",
        scope=scope,
        upper=found.upper,
        everything=rows.largest_entropy(one.randomizer),
        adversary="knows all others' values; asks for one, uniform prior",
        source=found.reduction,
    )


def _vulnerability(one: ShuffleRound, scope: str) -> Iterator[ReportRow]:
    """Posterior vulnerability: the chance of a right guess of the target's value."""
    mixture, value = one.randomizer.mixture, None
    if mixture is not None:
        value = qif.posterior_vulnerability_krr_shuffle(
            users=one.plain_users, categories=mixture.categories, p=mixture.keep_probability
        )
    yield _chance(
        measure="posterior vulnerability",
        scope=scope,
        lower=value,
        upper=value,
        nothing=0.5 if mixture is None else 1.0 / mixture.categories,
        adversary="knows nothing; guesses a value, uniform data",
        source="expected largest load",
        condition="needs randomized response" if mixture is None else None,
    )


for _measure in (
    Measure(name="epsilon", rows=_epsilon, rank=10),
    Measure(name="epsilon of each group", rows=_of_groups, rank=15),
    Measure(name="Rényi epsilon", rows=_renyi, rank=20),
    Measure(name="total variation", rows=_variation, rank=30),
    Measure(
        name="information on the input, all rounds", rows=_information, rank=10, stage=Stage.SUMS
    ),
    Measure(name="alpha of the order", rows=_order, rank=20, stage=Stage.SUMS, uniform=False),
    RoundMeasure(name="naming the message", rows=_naming, rank=10),
    RoundMeasure(name="information on the position", rows=_place, rank=20),
    RoundMeasure(name="information on the input", rows=_input, rank=30),
    RoundMeasure(name="posterior vulnerability", rows=_vulnerability, rank=40),
):
    rows.MEASURES.register(_measure)
