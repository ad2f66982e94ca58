"""The Fourier accountant: records rounds, and brackets epsilon and delta when asked."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, PrivacyProfile
from shuffle_accountant.engine.answer import bracket
from shuffle_accountant.engine.question import Query
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.pld import PldRound
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["FourierAccountant", "delta", "epsilon"]

SCHEMA = 1
MAX_ROUNDS = 10**12
MEMORY_LIMIT = 2**30  # bytes
# Brackets this wide, relative, say nothing more; grids for still wider ones have no spacing left.
LOOSEST = 10.0


class FourierAccountant:
    """Accounts for the adaptive composition of shuffled rounds, and others known by their PLD.

    The accountant only records what happened; grids are built when a question is asked, because
    the right grid depends on the whole composition. Every answer is a certified bracket: an upper
    and a lower end that contain the exact value for the composed dominating pairs.

    Args:
        tolerance: relative width of the bracket in epsilon to aim for, > 0.
        memory_limit: bytes the numerical work may use at once, >= 2**20. If it does not allow the
            tolerance, brackets stay valid, get wider, and a `LooseBracketWarning` says so.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
    """

    def __init__(self, tolerance: float = 1e-3, memory_limit: int = MEMORY_LIMIT) -> None:
        self.tolerance = validate.positive(tolerance=tolerance)
        self.memory_limit = validate.integer(minimum=2**20, memory_limit=memory_limit)
        self._counts: dict[Round, int] = {}

    def __len__(self) -> int:
        """Number of rounds composed so far."""
        return sum(self._counts.values())

    def __repr__(self) -> str:
        return f"FourierAccountant({len(self)} rounds, {len(self._counts)} distinct)"

    def __copy__(self) -> FourierAccountant:
        """An accountant of its own: composing with it leaves this one as it is."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied._counts = dict(self._counts)
        return copied

    @property
    def rounds(self) -> tuple[tuple[Round, int], ...]:
        """The distinct rounds with their counts, in the order of their first appearance."""
        return tuple(self._counts.items())

    def compose(self, round: Round, *, count: int = 1) -> FourierAccountant:
        """Record ``count`` further rounds; nothing is computed.

        Args:
            round: what happened: a `ShuffleRound`, or a `PldRound` for a mechanism of another kind.
            count: how many times, >= 0.

        Returns:
            This accountant, so that calls chain.

        Raises:
            TypeError: not a round, or a count that is not an integer.
            ValueError: a negative count.
        """
        round = validate.instance(Round, round=round)  # type: ignore[type-abstract]
        count = validate.integer(minimum=0, maximum=MAX_ROUNDS - len(self), count=count)
        if count > 0:
            self._counts[round] = self._counts.get(round, 0) + count
        return self

    def epsilon(self, *, delta: float) -> Bracket:
        """Bracket of the epsilon (nats) of everything composed so far, at delta in (0, 1).

        Raises:
            TypeError: ``delta`` is not a number.
            ValueError: ``delta`` is outside (0, 1) or NaN.
        """
        return self._answer(Query(delta=validate.open_unit(delta=delta)))

    def delta(self, *, epsilon: float) -> Bracket:
        """Bracket of the delta of everything composed so far, at a finite epsilon >= 0 (nats).

        Raises:
            TypeError: ``epsilon`` is not a number.
            ValueError: ``epsilon`` is negative, NaN or infinite.
        """
        return self._answer(Query(epsilon=validate.finite_nonnegative(epsilon=epsilon)))

    def profile(self, epsilons: ArrayLike) -> PrivacyProfile:
        """The curve delta(epsilon) between two certified curves.

        Args:
            epsilons: nats, finite, >= 0, shape (m,).

        Raises:
            TypeError: an entry that is not a number.
            ValueError: an entry that is negative, NaN or infinite, or a wrong shape.
        """
        try:
            points = np.asarray(epsilons)
            if points.dtype.kind not in "iuf" and points.size > 0:
                raise TypeError
            points = points.astype(float)
        except (TypeError, ValueError):
            raise TypeError(
                f"epsilons must be numbers, got {' '.join(repr(epsilons).split()):.60}"
            ) from None
        if points.ndim != 1:
            raise ValueError(f"epsilons must have shape (m,), got shape {points.shape}")
        for point in points:
            validate.finite_nonnegative(epsilons=float(point))
        answers = [self.delta(epsilon=float(point)) for point in points]
        return PrivacyProfile(
            epsilons=points,
            lower=np.array([answer.lower for answer in answers]),
            upper=np.array([answer.upper for answer in answers]),
        )

    def _answer(self, query: Query) -> Bracket:
        # a fixed order, so that the order of composition does not even change the rounding
        ordered = sorted(self._counts.items(), key=lambda item: repr(item[0]))
        parts = [(round.reduced(), count) for round, count in ordered]
        return bracket(parts, query, min(self.tolerance, LOOSEST), self.memory_limit)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere, in plain JSON types."""
        return {
            "schema": SCHEMA,
            "tolerance": self.tolerance,
            "memory_limit": self.memory_limit,
            "rounds": [
                {"round": round.to_dict(), "count": count} for round, count in self._counts.items()
            ],
        }

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> FourierAccountant:
        """Inverse of `state_dict`; a JSON text round trip in between changes nothing.

        Raises:
            TypeError: not a dictionary, or a field of the wrong type.
            ValueError: missing or unknown fields, values outside their range, or a schema newer
                than this version knows.
        """
        state = validate.instance(dict, state=state)
        schema = validate.integer(minimum=1, maximum=SCHEMA, schema=state.get("schema"))
        wanted = {"schema", "tolerance", "memory_limit", "rounds"}
        if set(state) != wanted:
            raise ValueError(
                f"state of schema {schema} must have fields {sorted(wanted)}, "
                f"got {sorted(map(str, state))}"
            )
        accountant = cls(tolerance=state["tolerance"], memory_limit=state["memory_limit"])
        if not isinstance(state["rounds"], list):
            raise TypeError(f"rounds must be a list, got {type(state['rounds']).__name__}")
        for entry in state["rounds"]:
            if not isinstance(entry, dict) or set(entry) != {"round", "count"}:
                text = json.dumps(entry, default=repr)
                raise ValueError(f"rounds must hold objects with round and count, got {text:.80}")
            accountant.compose(_round_from_dict(entry["round"]), count=entry["count"])
        return accountant


def _round_from_dict(state: Any) -> Round:
    """The round that was written as this; a shuffled round names no kind."""
    if isinstance(state, dict) and state.get("kind") == "pld":
        return PldRound.from_dict(state)
    return ShuffleRound.from_dict(state)


def epsilon(
    round: Round,
    *,
    delta: float,
    rounds: int = 1,
    tolerance: float = 1e-3,
) -> Bracket:
    """Bracket of epsilon (nats) for ``rounds`` rounds; see `FourierAccountant.epsilon`."""
    return _record(round, rounds, tolerance).epsilon(delta=delta)


def delta(
    round: Round,
    *,
    epsilon: float,
    rounds: int = 1,
    tolerance: float = 1e-3,
) -> Bracket:
    """Bracket of delta for ``rounds`` rounds; see `FourierAccountant.delta`."""
    return _record(round, rounds, tolerance).delta(epsilon=epsilon)


def _record(round: Round, rounds: int, tolerance: float) -> FourierAccountant:
    rounds = validate.integer(minimum=0, maximum=MAX_ROUNDS, rounds=rounds)
    return FourierAccountant(tolerance=tolerance).compose(round, count=rounds)
