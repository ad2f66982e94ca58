"""A paragraph for a privacy notice: what is done, what is guaranteed, and by which theorem."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import singledispatch
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import __version__
from shuffle_accountant.randomizers.count_laws import Binomial
from shuffle_accountant.reports.compiling import accountant_of
from shuffle_accountant.reports.tables import rounded_up
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.batches import ShuffledBatches
from shuffle_accountant.rounds.poisson import PoissonSampled
from shuffle_accountant.rounds.protocol import Rounds
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["Statement", "statement"]

# Of epsilon in the text, which is rounded up.
_DIGITS = 4
_HIDDEN = {
    Adjacency.REPLACE_ONE: "whether any one person's data are replaced by any other data",
    Adjacency.ZERO_OUT: "whether any one person's data are used, or nothing in their place",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a privacy notice must say for its number to mean something; as text, one paragraph.

    Attributes:
        protocol: what is done, a phrase for each kind of round.
        adjacency: which two datasets are told apart; None if nothing is released.
        epsilon: nats; the certified upper end, rounded up to the digits that the text shows.
        delta: in (0, 1).
        theorem: what the guarantee rests on, as `Bracket.reduction` names it.
        lower: certified lower end of the same bracket, nats: how far the theorem is exhausted.
        upper: its upper end, nats.
        version: of this package.
    """

    protocol: tuple[str, ...]
    adjacency: str | None
    epsilon: float
    delta: float
    theorem: str
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
        return (
            f"What is released comes from {done}. All of it together has {claim} of adjacency "
            f"{self.adjacency}: whoever sees everything that is released can hardly tell "
            f"{hidden}. Epsilon = {self.epsilon:g} at delta = {self.delta:g} is an upper "
            f"bound, rounded up, by the theorem named '{self.theorem}'; it was computed with "
            f"certified error bounds by {source}. It holds if the rounds, their number and their "
            "parameters do not depend on the data."
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain Python types, with the paragraph as ``text``."""
        return {"text": str(self), **asdict(self), "protocol": list(self.protocol)}


def statement(
    subject: Rounds | FourierAccountant, *, delta: float, tolerance: float = 1e-3
) -> Statement:
    """A paragraph for a privacy notice, with everything that its numbers depend on.

    Args:
        subject: a round, a `shuffle_accountant.Protocol`, a list of pairs (round, count), or
            everything that an accountant has recorded.
        delta: of all rounds together, in (0, 1).
        tolerance: relative width of the bracket for rounds; an accountant has its own.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range, or a delta at which epsilon is infinite, so that
            there is nothing to state.
    """
    delta = validate.open_unit(delta=delta)
    accountant = accountant_of(subject, tolerance=tolerance)
    bracket = accountant.epsilon(delta=delta)
    epsilon = float(rounded_up(bracket.upper, _DIGITS))
    if epsilon == float("inf"):
        raise ValueError(f"delta must be one at which epsilon is finite, got {delta!r}")
    return Statement(
        protocol=tuple(described(one, count) for one, count in accountant.rounds),
        adjacency=None if accountant.adjacency is None else accountant.adjacency.value,
        # an end that is rounding errors above a number of few digits is rounded to that
        epsilon=max(epsilon, bracket.upper),
        delta=delta,
        theorem=bracket.reduction,
        lower=bracket.lower,
        upper=bracket.upper,
    )


@singledispatch
def described(one: Round, count: int) -> str:
    """So many equal rounds, as a phrase."""
    return f"{count:,} times {one!r}"


@described.register
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


@described.register
def _allocated(one: RandomAllocation, count: int) -> str:
    return f"{_times(count, 'epoch')} training deals each record to steps at random, {one!r}"


@described.register
def _batches(one: ShuffledBatches, count: int) -> str:
    return f"{_times(count, 'epoch')} training goes through batches of shuffled records, {one!r}"


@described.register
def _poisson(one: PoissonSampled, count: int) -> str:
    return f"{_times(count, 'step')} each record takes part at random, {one!r}"


def _times(count: int, name: str) -> str:
    return f"one {name} in which" if count == 1 else f"{count:,} {name}s, in each of which"
