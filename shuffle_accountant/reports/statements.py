"""A paragraph for a privacy notice: what is done, what is guaranteed, and by which theorem."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import __version__
from shuffle_accountant.randomizers.count_laws import Binomial
from shuffle_accountant.reports.rows import accountant_of
from shuffle_accountant.reports.tables import rounded_up
from shuffle_accountant.rounds import allocation, batches, matrix, memoised, thresholds
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.protocol import Rounds
from shuffle_accountant.rounds.shuffle import ShuffleRound

# Significant digits of epsilon in the text, where it is rounded up.
_DIGITS = 4
# Phrases by the least probability that the best guess between equally likely neighbours is wrong.
_CERTAINTY = (
    (0.45, "can hardly tell"),
    (0.3, "can tell a little better than by guessing"),
    (0.1, "can tell clearly better than by guessing"),
    (0.01, "can mostly tell"),
    (0.0, "can tell nearly for certain"),
)
_HIDDEN = {
    Adjacency.REPLACE_ONE: "whether any one person's data are replaced by any other data",
    Adjacency.ADD_REMOVE: "whether any one person is among those asked, or not",
    Adjacency.ZERO_OUT: "whether any one person's data are used, or nothing in their place",
}
# What is repeated, and what happens in each.
_DONE: dict[type[Round], tuple[str, str]] = {
    allocation.RandomAllocation: ("epoch", "training deals each record to steps at random"),
    batches.ShuffledBatches: ("epoch", "training goes through batches of shuffled records"),
    batches.PoissonSampled: ("step", "each record takes part at random"),
    memoised.MemoisedRounds: (
        "survey",
        "each person sends {0.rounds:,} noisy copies of one permanent answer",
    ),
    thresholds.SampleAndThreshold: (
        "round",
        "each person reports with a probability and rare values are dropped",
    ),
    batches.CyclicPoisson: (
        "run",
        "steps sample from {0.cycles:,} cycles through a fixed partition of the records",
    ),
    matrix.MatrixMechanism: (
        "run",
        "{0.epochs:,} epochs over {0.bins:,} bins are released with correlated noise",
    ),
    batches.FixedSizeSampled: ("step", "a batch of one size is drawn at random"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A privacy notice: epsilon, delta and all that they depend on; as text, one paragraph.

    Attributes:
        protocol: description of the rounds, a phrase for each kind.
        adjacency: which two datasets are neighbours; None if nothing is released.
        epsilon: nats; the certified upper end, rounded up to the digits that the text shows.
        delta: in (0, 1).
        conditions: what must hold in reality, a sentence each with its theorem.
        theorem: name of the theorem behind the guarantee, as in `Bracket.reduction`.
        lower: certified lower end of the same bracket, nats: how far the theorem is exhausted.
        upper: its upper end, nats.
        version: of this package.
    """

    protocol: tuple[str, ...]
    adjacency: str | None
    epsilon: float
    delta: float
    theorem: str
    conditions: tuple[str, ...]
    lower: float
    upper: float
    version: str = __version__

    def __str__(self) -> str:
        claim = f"({self.epsilon:g}, {self.delta:g})-differential privacy"
        source = f"shuffle-accountant {self.version}"
        if self.adjacency is None:
            return f"Nothing is released, which has {claim} whatever the data are ({source})."
        hidden = _HIDDEN[Adjacency(self.adjacency)]
        done = "; ".join(self.protocol)
        only_if = " ".join(self.conditions)
        return (
            f"What is released comes from {done}. All of it together has {claim} of adjacency "
            f"{self.adjacency}: whoever sees everything that is released "
            f"{told_apart(self.epsilon, self.delta, hidden)}. "
            f"Epsilon = {self.epsilon:g} at delta = {self.delta:g} is an upper bound, rounded up, "
            f"by the theorem named '{self.theorem}'; it was computed with certified error bounds "
            f"by {source}. It holds only if all of this does: {only_if}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain Python types, with the paragraph as ``text``."""
        lists = {"protocol": list(self.protocol), "conditions": list(self.conditions)}
        return {"text": str(self), **asdict(self), **lists}


def statement(
    subject: Rounds | FourierAccountant, *, delta: float, tolerance: float = 1e-3
) -> Statement:
    """A paragraph for a privacy notice, with everything that its numbers depend on.

    Args:
        subject: a round, a `shuffle_accountant.Protocol`, a list of pairs (round, count), or
            everything that an accountant has recorded.
    """
    delta = validate.open_unit(delta=delta)
    accountant = accountant_of(subject, tolerance=tolerance)
    bracket = accountant.epsilon(delta=delta)
    epsilon = float(rounded_up(bracket.upper, _DIGITS))
    if epsilon == math.inf:
        raise ValueError(f"delta must be one at which epsilon is finite, got {delta!r}")
    return Statement(
        protocol=tuple(described(one, count) for one, count in accountant.rounds),
        adjacency=None if accountant.adjacency is None else accountant.adjacency.value,
        # an end that is rounding errors above a number of few digits is rounded to that
        epsilon=max(epsilon, bracket.upper),
        delta=delta,
        theorem=bracket.reduction,
        conditions=bracket.conditions,
        lower=bracket.lower,
        upper=bracket.upper,
    )


def told_apart(epsilon: float, delta: float, question: str) -> str:
    """Phrase that says how well the best test distinguishes two neighbouring datasets.

    With both neighbours equally likely, no test is right with a larger probability than
    ``(e^epsilon + delta)/(e^epsilon + 1)``: it gains ``(e^epsilon - 1 + 2 delta)/(e^epsilon + 1)``
    over guessing at most (Kairouz et al. 2015), half of which is added to a half. Its odds are
    ``e^epsilon`` to one where delta is 0.

    Args:
        question: what there is to tell, such as "whether it rained".
    """
    odds = math.exp(-epsilon)
    wrong = (1.0 - delta) * odds / (1.0 + odds)
    words = next(text for least, text in _CERTAINTY if wrong >= least)
    right = rounded_up(100.0 * (1.0 - wrong), 4 if wrong > 1e-3 else 8)
    return (
        f"{words} {question}: a guess between two that are equally likely is right with "
        f"probability {right} % at most, and 50 % without anything released"
    )


def described(one: Round, count: int) -> str:
    """Phrase of a privacy notice for ``count`` equal rounds."""
    if isinstance(one, ShuffleRound):
        return _shuffled(one, count)
    for kind, (name, what) in _DONE.items():
        if isinstance(one, kind):
            return f"{_times(count, name)} {what.format(one)}, {one!r}"
    return f"{count:,} times {one!r}"


def _shuffled(one: ShuffleRound, count: int) -> str:
    if isinstance(one.users, Binomial):
        who = (
            f"those of {one.users.trials:,} people who take part, each with probability "
            f"{one.users.probability:g},"
        )
    elif one.population is not None:
        who = f"{one.users:,} people drawn from {one.population:,} without replacement"
    else:
        who = f"{one.users:,} people"
    others = [f"{users:,} with {other!r}" for other, users in one.others]
    among = f", as do others ({', '.join(others)})" if others else ""
    known = f", {one.colluding:,} of all being known to the observer" if one.colluding else ""
    return (
        f"{_times(count, 'round')} {who} randomize their values on their own devices with "
        f"{one.randomizer!r}{among}{known}, and a shuffler removes who sent which message"
    )


def _times(count: int, name: str) -> str:
    return f"one {name} in which" if count == 1 else f"{count:,} {name}s, in each of which"
