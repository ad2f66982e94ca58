"""Randomizers that are given as a matrix of probabilities, or by their parameters alone."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.numerics.rounding import Array, log_ratio_above
from shuffle_accountant.randomizers.base import (
    FiniteRandomizer,
    FromArguments,
    GivenEps0,
    RunsOnInputs,
    distinct_inputs,
    require_fields,
    said_of,
)
from shuffle_accountant.randomizers.checks import array_of, category_values, row_sums
from shuffle_accountant.randomizers.error_bounds import largest_mean_deviation
from shuffle_accountant.randomizers.estimation import (
    Estimate,
    Frequencies,
    ends_around,
    estimated,
    tally_of,
)

# Largest eps0 (nats) of approximate privacy: larger ones say nothing, and have no exponential.
_LARGEST = 300.0


class ChannelRandomizer(RunsOnInputs, Frequencies, FiniteRandomizer):
    """A randomizer that knows its channel matrix, from which all else follows.

    A subclass need only have the property `channel`, and be written and read. Frequencies of the
    inputs are estimated by a right inverse A of the channel C: with the counts of n messages, the
    estimate ``counts A / n`` is unbiased, as ``C A`` is the identity. Of all right inverses it is
    the one with the least variance if all inputs are equally frequent. Standard errors are those of
    messages of random users, too large by the spread of the users' inputs. Messages: the columns'
    numbers, of the values' shape. Tally: the number of messages of each kind, shape (messages,).
    """

    def __post_init__(self) -> None:
        """Check the channel, and the eps0 if it is given: dataclasses do this when one is made."""
        name = type(self).__name__
        given = "eps0" in vars(self) or type(self).eps0 is not ChannelRandomizer.eps0
        if given:
            super().__post_init__()
        with said_of(self):
            channel = self.channel
        checked = checked_channel(**{f"channel of {name}": channel})
        least = float(np.max(log_ratio_above(checked.max(axis=0), checked.min(axis=0))))
        # but for the rounding errors that a channel may have
        if given and self.eps0 < least - 1e-9 * max(1.0, least):
            raise ValueError(
                f"eps0 of {name} must be at least the largest log-ratio of its channel, "
                f"{least:.12g}, got {self.eps0!r}"
            )

    @property
    @abstractmethod
    def channel(self) -> Array:
        """Row x holds the probabilities of the messages from input x, shape (inputs, messages).

        At least two rows of sum 1, and no column of zeros. It is asked for again and again.
        """

    @property
    def inputs(self) -> int:
        """Number of inputs: the rows."""
        return len(self.channel)

    def matrix(self) -> Array:
        """The channel itself."""
        return self.channel

    @cached_property
    def eps0(self) -> float:
        """Largest log-ratio in a column, nats, rounded up; infinite if a message rules one out."""
        ratios = log_ratio_above(self.channel.max(axis=0), self.channel.min(axis=0))
        return float(np.max(ratios))

    @cached_property
    def blanket_mass(self) -> float:
        """Probability that a message is a draw from the blanket: the sum of the columns' minima."""
        return min(math.fsum(self.channel.min(axis=0).tolist()), 1.0)

    @cached_property
    def blank_mass(self) -> float:
        """Probability that a message is no draw from the blanket, rounded once.

        Rows add up to 1 but for their rounding, which may be far more than this probability: it is
        taken from the row of the largest sum if that is above 1.
        """
        shared = (-self.channel.min(axis=0)).tolist()
        return max(math.fsum([*row, *shared]) for row in ([1.0], *self.channel.tolist()))

    def classes(self, inputs: Sequence[int]) -> Array:
        """The columns at the inputs asked for, equal ones together.

        Columns that are proportional but not equal stay apart.
        """
        asked, rows = distinct_inputs(inputs, self.inputs)
        columns = np.vstack([self.channel[list(asked)], self.channel.min(axis=0)])
        columns = columns[:, np.any(columns > 0.0, axis=0)]
        columns, count = np.unique(columns, axis=1, return_counts=True)
        columns = columns * count
        return np.vstack([columns[:-1][rows], columns[-1]])

    @cached_property
    def symmetric(self) -> bool:
        """Whether there are two inputs, and exchanging them permutes the columns exactly.

        False for more than two inputs, which is safe: it only costs time.
        """
        if self.inputs > 2:
            return False
        columns = [tuple(column) for column in self.channel.T.tolist()]
        return sorted(columns) == sorted((b, a) for a, b in columns)

    @cached_property
    def _inverse(self) -> Array:
        """Right inverse of the channel, shape (messages, inputs)."""
        channel = self.channel
        if np.linalg.matrix_rank(channel) < self.inputs:
            raise ValueError(
                f"channel of {type(self).__name__} must have linearly independent rows to estimate "
                "frequencies: no number of messages says what they are"
            )
        weighted = channel / channel.mean(axis=0)
        return np.asarray(np.linalg.solve(weighted @ channel.T, weighted).T)

    def _errors(self, shares: Array, users: int) -> Array:
        variance = self.channel @ self._inverse**2 - np.eye(self.inputs)
        own = variance.diagonal()
        others = np.where(np.eye(self.inputs, dtype=bool), 0.0, variance).max(axis=0)
        worst = np.max(shares[:, None] * own + (1.0 - shares[:, None]) * others, axis=1)
        return np.asarray(np.sqrt(np.maximum(worst, 0.0) / users))

    def _largest_error(self, users: int, failure: float, count: int) -> float:
        inverse = self._inverse
        squares = self.channel @ inverse**2
        deviation = largest_mean_deviation(
            max(float(np.max(np.abs(inverse))), float(np.max(np.abs(inverse - 1.0)))),
            float(squares.max()),
            float(squares.sum(axis=1).max()),
            users=users,
            dimension=count,
            failure=failure,
        )
        return deviation / users

    def _estimated(self, tally: ArrayLike, users: int) -> Estimate:
        counts = tally_of(tally, (self.channel.shape[1],))
        if not np.all(counts >= 0) or counts.sum() != users:
            raise ValueError(
                f"tally must hold counts >= 0 of sum {users}, got {counts.tolist()!r:.80}"
            )
        values = counts @ self._inverse / users
        ends = partial(ends_around, values, partial(self._largest_error, users), True)
        return estimated(values, counts @ self._inverse**2 / users, users, ends)

    def _counted(self, messages: Any) -> tuple[NDArray[Any], int]:
        sent = category_values(messages, self.channel.shape[1], name="messages").ravel()
        return np.bincount(sent, minlength=self.channel.shape[1]), sent.size

    def _messages(self, own: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
        messages = np.empty(own.shape, dtype=np.int64)
        for value in np.unique(own).tolist():
            held, row = own == value, self.channel[value]
            messages[held] = rng.choice(row.size, np.count_nonzero(held), p=row / row.sum())
        return messages


def checked_channel(**named: ArrayLike) -> Array:
    """The named matrix as doubles, shape (inputs, messages), if it is a channel.

    Rows whose sum is off by more than rounding, by 1e-9 at most, are scaled to sum 1.
    """
    ((name, channel),) = named.items()
    given = array_of(channel, f"{name} must have rows of equal lengths")
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be an array of numbers, got one of {given.dtype}")
    if given.ndim != 2:
        raise ValueError(f"{name} must have 2 dimensions (inputs, messages), got {given.ndim}")
    if given.shape[0] < 2:
        raise ValueError(f"{name} must have >= 2 rows (inputs), got {given.shape[0]}")
    matrix = given.astype(np.float64) + 0.0  # turns negative zeros into zeros
    sums = row_sums(**{name: matrix})
    empty = np.flatnonzero(matrix.max(axis=0) == 0.0)
    if empty.size:
        raise ValueError(f"{name} must have no column of zeros, got one at {empty[0]}")
    # what is run is the row's law; a sum that is off by rounding alone is left as it was given
    rough = np.abs(sums - 1.0) > 1e-14 * matrix.shape[1]
    matrix[rough] /= sums[rough, None]
    return matrix


@dataclass(frozen=True, init=False, repr=False)
class DiscreteRandomizer(FromArguments, ChannelRandomizer):
    """A randomizer given by its channel matrix.

    Compared and hashed by the value of the matrix.

    Args:
        channel: shape (inputs, messages); row x holds the probabilities of the messages from input
            x. At least two rows, entries in [0, 1], rows that sum to 1 within 1e-9, and no column
            of zeros (a message that is never sent).
    """

    kind: ClassVar[str] = "discrete"
    arguments: ClassVar[tuple[str, ...]] = ("channel",)

    _entries: bytes
    _shape: tuple[int, int]

    def __init__(self, channel: ArrayLike) -> None:
        matrix = checked_channel(channel=channel)
        vars(self).update(_entries=matrix.tobytes(), _shape=matrix.shape)

    @property
    def channel(self) -> Array:
        """The matrix, shape (inputs, messages), read-only."""
        return np.frombuffer(self._entries).reshape(self._shape)


@dataclass(frozen=True, init=False, repr=False)
class ApproximateRandomizer(FromArguments, GivenEps0):
    """Any randomizer whose messages are (``eps0``, ``delta0``)-close to one null law.

    Adjacency: zero-out. For all inputs x and sets S of messages, ``P[R(x) in S] <= e^eps0 w(S) +
    delta0`` and the reverse, w the law of a null record's message, one for all users. What is said
    of it holds for the worst such randomizer.

    Args:
        eps0: nats, in [0, 300].
        delta0: in [0, 1).
    """

    kind: ClassVar[str] = "approximate"
    arguments: ClassVar[tuple[str, ...]] = ("eps0", "delta0")
    adjacency = Adjacency.ZERO_OUT

    _eps0: float
    _delta0: float

    def __init__(self, eps0: float, delta0: float) -> None:
        eps0 = validate.finite_nonnegative(eps0=eps0) + 0.0
        if eps0 > _LARGEST:
            raise ValueError(f"eps0 must be <= {_LARGEST:g}, got {eps0!r}")
        delta0 = validate.closed_unit(delta0=delta0) + 0.0
        if delta0 == 1.0:
            raise ValueError("delta0 must be in [0, 1), got 1.0")
        vars(self).update(_eps0=eps0, _delta0=delta0)

    @property
    def delta0(self) -> float:
        """The delta of the closeness (eps0, delta0) to the null distribution."""
        return self._delta0


@dataclass(frozen=True, init=False)
class GeneralRandomizer(GivenEps0):
    """Any ``eps0``-LDP randomizer; bounds hold for the worst one.

    Args:
        eps0: local privacy parameter in nats, finite, >= 0: for all inputs x, x' and outputs y,
            ``P[R(x) = y] <= e^eps0 P[R(x') = y]``.
        interactive: whether a user's randomizer may depend on the messages that users before it
            sent in the same round (Feldman, McMillan and Talwar 2021). By default all users of a
            round apply one common randomizer, which may depend on earlier rounds.
        adjacency: that of its rounds. For ZERO_OUT ``eps0`` is about the message distribution w of
            a null record, one for all users: ``e^-eps0 w(S) <= P[R(x) in S] <= e^eps0 w(S)``; that
            neither follows from the above nor implies it, and needs users who do not look at
            earlier messages.
    """

    kind: ClassVar[str] = "general"

    _eps0: float
    interactive: bool
    _adjacency: Adjacency

    def __init__(
        self,
        eps0: float,
        interactive: bool = False,
        *,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> None:
        vars(self).update(
            _eps0=validate.finite_nonnegative(eps0=eps0) + 0.0,  # turns a negative zero into zero
            interactive=validate.flag(interactive=interactive),
            _adjacency=validate.instance(Adjacency, adjacency=adjacency),
        )
        if self.interactive and adjacency is not Adjacency.REPLACE_ONE:
            raise ValueError(
                f"interactive must be False with adjacency {adjacency.named}: messages must be "
                "close to one null law"
            )

    def __repr__(self) -> str:
        extra = ", interactive=True" if self.interactive else ""
        if self._adjacency is not Adjacency.REPLACE_ONE:
            extra += f", adjacency={self._adjacency}"
        return f"GeneralRandomizer(eps0={self._eps0!r}{extra})"

    def at(self, eps0: float) -> GeneralRandomizer | None:
        """Any randomizer of another parameter: its clones only add noise (see `engine.classes`)."""
        if self._adjacency is not Adjacency.REPLACE_ONE:
            return None
        return GeneralRandomizer(eps0, self.interactive)

    @property
    def adjacency(self) -> Adjacency:
        """Adjacency of rounds of this randomizer."""
        return self._adjacency

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; the usual adjacency is not written."""
        usual = self._adjacency is Adjacency.REPLACE_ONE
        more = {} if usual else {"adjacency": self._adjacency.value}
        return {"kind": self.kind, "eps0": self._eps0, "interactive": self.interactive, **more}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> GeneralRandomizer:
        """Inverse of `to_dict`, without the ``kind``."""
        names = ("eps0", "interactive", *({"adjacency"} & set(fields)))
        require_fields(cls.kind, fields, names)
        written = fields.get("adjacency", Adjacency.REPLACE_ONE.value)
        validate.choice([one.value for one in Adjacency], adjacency=written)
        return cls(**fields | {"adjacency": Adjacency(written)})
