"""The rows of a report: each measure of the rounds that an accountant has recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.baselines import rdp
from shuffle_accountant.baselines.base import OutsideValidityError
from shuffle_accountant.leakage import mutual_information, qif, reidentification
from shuffle_accountant.losses.divergence import HOCKEY_STICK
from shuffle_accountant.order import DSigmaShuffler, reidentification_bound
from shuffle_accountant.randomizers.base import FiniteRandomizer, LocalRandomizer
from shuffle_accountant.randomizers.gaussian import GaussianRandomizer
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse
from shuffle_accountant.reports.rows import ReportRow
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["amplified", "in_order"]

ALL_ROUNDS = "all rounds"

# More than a few roundings can take off an upper bound.
_UP = 1.0 + 2e-15

# What the adversaries know and want.
NEIGHBOURS = "knows all others' values; tells two apart"
EITHER = "the same, both equally likely"
NAMES = "knows all values; names the message"
PLACES = "knows all values; asks for the place"
VALUES = "knows all others' values; asks for one, uniform prior"
ANY_PRIOR = "knows all others' values; asks for one, any prior"
BLIND = "knows nothing; guesses a value, uniform data"
MEMBERS = "knows a group's values without their order, and all others"


def amplified(accountant: FourierAccountant, delta: float) -> Iterator[ReportRow]:
    """Rows for rounds that are shuffled uniformly."""
    yield from _private(accountant, delta)
    kinds = _shuffled(accountant)
    for i, (one, _) in enumerate(kinds, 1):
        scope = "each round" if len(kinds) == 1 else f"each round of kind {i}"
        sampled = one.population is not None and one.population > one.users
        yield from _of_one_round(one, f"{scope} taken part in" if sampled else scope)
    if len(kinds) == len(accountant.rounds):
        total = _UP * math.fsum(count * _any_prior(one) for one, count in kinds)
        most = _most(kinds)
        yield ReportRow(
            measure="information on the input",
            scope=ALL_ROUNDS,
            upper=total if most is None else min(total, _UP * most),
            unit="nats",
            nothing=0.0,
            everything=most,
            adversary=ANY_PRIOR,
            source="chain rule; blanket, chi-squared",
        )


def in_order(
    accountant: FourierAccountant, delta: float, order: DSigmaShuffler
) -> Iterator[ReportRow]:
    """Rows for rounds whose messages are shuffled by a shuffler of the order.

    Raises:
        TypeError: not such a shuffler.
        ValueError: a round of another number of users than the shuffler's, a sampled one, or one
            that is not a shuffled round.
    """
    order = validate.instance(DSigmaShuffler, order=order)
    kinds = _shuffled(accountant)
    if len(kinds) != len(accountant.rounds) or any(
        one.users != order.n or one.population not in (None, one.users) for one, _ in kinds
    ):
        raise ValueError(
            f"order must be a shuffler of all users of each round, got one of {order.n} users for "
            f"{[one for one, _ in accountant.rounds]!r:.80}"
        )
    alpha = _UP * len(accountant) * order.alpha if len(accountant) else 0.0
    if order.alpha == 0.0:  # that is the uniform shuffle
        yield from amplified(accountant, delta)
    eps0 = _UP * math.fsum(count * one.randomizer.eps0 for one, count in kinds)
    if order.alpha > 0.0:
        yield ReportRow(
            measure="epsilon",
            scope=ALL_ROUNDS,
            upper=eps0,
            unit="nats",
            nothing=0.0,
            everything=eps0,
            adversary=NEIGHBOURS,
            source="local randomizers, basic composition",
        )
    yield ReportRow(
        measure="alpha of the order",
        scope=ALL_ROUNDS,
        upper=alpha,
        unit="nats",
        nothing=0.0,
        everything=math.inf,
        adversary=MEMBERS,
        source="Meehan et al., Theorems 4.1 and 4.3",
    )
    sizes = order.groups.sizes
    if np.any(sizes > 1):
        size = int(sizes[sizes > 1].min())
        yield ReportRow(
            measure=f"naming one message in a group of {size}",
            scope=ALL_ROUNDS,
            upper=reidentification_bound(size, 1, eps0, alpha).win_cap,
            unit="probability",
            nothing=1.0 / size,
            everything=1.0,
            adversary=MEMBERS,
            source="Meehan et al., Theorem 4.2, refined",
        )


def _private(accountant: FourierAccountant, delta: float) -> Iterator[ReportRow]:
    """Differential privacy of everything together."""
    rounds = accountant.rounds
    most = math.fsum(
        count * (one.randomizer.eps0 if isinstance(one, ShuffleRound) else math.inf)
        for one, count in rounds
    )
    epsilon = accountant.epsilon(delta=delta)
    yield ReportRow(
        measure=f"epsilon at delta = {delta:g}",
        scope=ALL_ROUNDS,
        lower=epsilon.lower,
        upper=epsilon.upper,
        unit="nats",
        nothing=0.0,
        everything=most,
        adversary=NEIGHBOURS,
        source=epsilon.reduction,
    )
    kinds, upper, condition = _shuffled(accountant), None, None
    if len(kinds) < len(rounds):
        condition = "needs shuffled rounds"
    else:
        try:
            upper = rdp.epsilon(kinds, delta=delta)
        except OutsideValidityError as refused:
            condition = f"needs {refused.condition}"
    yield ReportRow(
        measure=f"Rényi epsilon at delta = {delta:g}",
        scope=ALL_ROUNDS,
        upper=upper,
        unit="nats",
        nothing=0.0,
        everything=most,
        adversary=NEIGHBOURS,
        source=rdp.source,
        condition=condition,
    )
    if any(one.reduced().loss.divergence is not HOCKEY_STICK for one, _ in rounds):
        lower, upper, condition = None, None, "needs hockey-stick divergences, got variant='tail'"
    else:
        variation = accountant.delta(epsilon=0.0)
        lower, upper, condition = variation.lower, variation.upper, None
    for measure, chance, adversary in (
        ("total variation", 0.0, NEIGHBOURS),
        ("telling two values apart", 0.5, EITHER),
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
            source=epsilon.reduction,
            condition=condition,
        )


def _even_odds(variation: float, away: float) -> float:
    """``(1 + variation)/2``, rounded towards ``away``; without a variation it is exact."""
    chance = 0.5 + 0.5 * variation
    return chance if variation in (0.0, 1.0) else max(math.nextafter(chance, away), 0.5)


def _of_one_round(one: ShuffleRound, scope: str) -> Iterator[ReportRow]:
    """What one round gives away if the target takes part."""
    randomizer, users = one.randomizer, one.users
    named = reidentification.bracket(randomizer, users=users)
    yield ReportRow(
        measure="naming the message",
        scope=scope,
        lower=named.lower,
        upper=named.upper,
        unit="probability",
        nothing=1.0 / users,
        everything=1.0,
        adversary=NAMES,
        source=named.reduction,
    )
    interactive = getattr(randomizer, "interactive", False)
    yield ReportRow(
        measure="information on the position",
        scope=scope,
        upper=None
        if interactive
        else mutual_information.position_bounds(randomizer, users=users).least,
        unit="nats",
        nothing=0.0,
        everything=math.log(users),
        adversary=PLACES,
        source="least of the bounds for any inputs",
        condition="needs a randomizer that is not interactive" if interactive else None,
    )
    told = mutual_information.input_bound(randomizer, users=users)
    yield ReportRow(
        measure="information on the input",
        scope=scope,
        lower=None,
        upper=told.upper,
        unit="nats",
        nothing=0.0,
        everything=_entropy(randomizer),
        adversary=VALUES,
        source=told.reduction,
    )
    yield _vulnerability(one, scope)


def _vulnerability(one: ShuffleRound, scope: str) -> ReportRow:
    """The chance of a right guess of the target's value, with no knowledge of the others'."""
    randomizer = one.randomizer
    applies = isinstance(randomizer, RandomizedResponse)
    categories = randomizer.categories if isinstance(randomizer, RandomizedResponse) else 2
    value = None
    if isinstance(randomizer, RandomizedResponse):
        value = qif.posterior_vulnerability_krr_shuffle(
            users=one.users, categories=categories, p=randomizer.keep_probability
        )
    return ReportRow(
        measure="posterior vulnerability",
        scope=scope,
        lower=value,
        upper=value,
        unit="probability",
        nothing=1.0 / categories,
        everything=1.0,
        adversary=BLIND,
        source="expected largest load",
        condition=None if applies else "needs randomized response",
    )


def _shuffled(accountant: FourierAccountant) -> list[tuple[ShuffleRound, int]]:
    """The rounds that are shuffled rounds."""
    return [(one, count) for one, count in accountant.rounds if isinstance(one, ShuffleRound)]


def _any_prior(one: ShuffleRound) -> float:
    """Bound of what one round tells about the target's value, whatever was known before."""
    bounds = mutual_information.universal_bounds(eps0=one.randomizer.eps0, users=one.users)
    interactive = getattr(one.randomizer, "interactive", False)
    told = bounds.message if interactive else bounds.least
    # who takes part does not depend on the values; who does not gives nothing away
    share = one.users / (one.population or one.users)
    entropy = _entropy(one.randomizer)
    return share * (told if entropy is None else min(told, _UP * entropy))


def _entropy(randomizer: LocalRandomizer) -> float | None:
    """Most that could be told about the input, nats; None if its number of values is not known."""
    if isinstance(randomizer, GaussianRandomizer):
        return math.log(2.0)  # its inputs are 0 and 1
    return math.log(randomizer.inputs) if isinstance(randomizer, FiniteRandomizer) else None


def _most(kinds: list[tuple[ShuffleRound, int]]) -> float | None:
    entropies = {_entropy(one.randomizer) for one, _ in kinds}
    return entropies.pop() if len(entropies) == 1 else None
