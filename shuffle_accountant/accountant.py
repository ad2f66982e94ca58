"""The Fourier accountant: records rounds, and brackets epsilon and delta when asked."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import certificates
from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket, PrivacyProfile, TradeOffCurve
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.progress import counted
from shuffle_accountant.registry import sealed, unsealed
from shuffle_accountant.rounds import protocol as protocols
from shuffle_accountant.rounds.base import Round, answered
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, Protocol, Rounds

__all__ = ["FourierAccountant", "delta", "epsilon"]

SCHEMA = 3
_FIELDS = ("schema", "tolerance", "memory_limit", "rounds")
# by schema: the first knew one adjacency only, and the first two had no digest
_STORED = {1: _FIELDS, 2: (*_FIELDS, "adjacency"), 3: (*_FIELDS, "adjacency")}


class FourierAccountant:
    """Accounts for the adaptive composition of shuffled rounds, and others known by their PLD.

    The accountant only records what happened; grids are built when a question is asked, because
    the right grid depends on the whole composition. Every answer is a certified bracket: an upper
    and a lower end that contain the exact value for the composed dominating pairs.

    Args:
        tolerance: relative width of the bracket in epsilon to aim for, > 0.
        memory_limit: bytes the numerical work may use at once, >= 2**20. If it does not allow the
            tolerance, brackets stay valid, get wider, and a `LooseBracketWarning` says so.
    """

    def __init__(self, tolerance: float = 1e-3, memory_limit: int = SETTINGS.memory_limit) -> None:
        self.tolerance = validate.positive(tolerance=tolerance)
        self.memory_limit = validate.integer(minimum=2**20, memory_limit=memory_limit)
        self._known, self._further = Protocol(), list[tuple[Round, int]]()
        self._total = 0

    def __len__(self) -> int:
        """Number of rounds composed so far."""
        return self._total

    def __repr__(self) -> str:
        return f"FourierAccountant({len(self)} rounds, {len(self.rounds)} distinct)"

    @property
    def protocol(self) -> Protocol:
        """Everything composed so far."""
        if self._further:  # put together when asked, so that recording stays cheap
            self._known += Protocol(self._further)
            self._further = []
        return self._known

    @property
    def adjacency(self) -> Adjacency | None:
        """The adjacency of all rounds; None before the first."""
        return self._further[0][0].adjacency if self._further else self._known.adjacency

    @property
    def rounds(self) -> tuple[tuple[Round, int], ...]:
        """The distinct rounds with their counts, in the order of their first appearance."""
        return self.protocol.distinct

    def compose(self, round: Rounds, *, count: int = 1) -> FourierAccountant:
        """Record ``count`` further rounds; nothing is computed.

        Args:
            round: what happened: a `ShuffleRound`, or a `PldRound` for a mechanism of another kind;
                or several: a `Protocol`, or a list of pairs (round, count).
            count: number of such rounds, >= 0.

        Returns:
            This accountant, so that calls chain.

        Raises:
            ValueError: rounds of different adjacency; nothing is recorded.
        """
        further = protocols.as_protocol(round, name="round")
        most = (MAX_ROUNDS - len(self)) // max(len(further), 1)
        count = validate.integer(minimum=0, maximum=most, count=count)
        kinds = (self.adjacency, further.adjacency)
        if count > 0 and None not in kinds and kinds[0] is not kinds[1]:
            self._known = self.protocol + further * count  # which says what is wrong
        self._further += [(one, count * number) for one, number in further if count > 0]
        self._total += count * len(further)
        return self

    def epsilon(self, *, delta: float, group: int = 1) -> Bracket:
        """Bracket of the epsilon (nats) of everything composed so far, at delta in (0, 1).

        Args:
            group: number of people whose data change at once, >= 1.
        """
        return self._answer(Query(delta=validate.open_unit(delta=delta)), group)

    def delta(self, *, epsilon: float, group: int = 1) -> Bracket:
        """Bracket of the delta of everything composed so far, at a finite epsilon >= 0 (nats).

        Args:
            group: number of people whose data change at once, >= 1.
        """
        return self._answer(Query(epsilon=validate.finite_nonnegative(epsilon=epsilon)), group)

    def profile(self, epsilons: ArrayLike) -> PrivacyProfile:
        """The curve delta(epsilon) between two certified curves.

        Args:
            epsilons: nats, finite, >= 0, shape (m,).
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
        lower, upper = np.zeros(points.size), np.zeros(points.size)
        least: float | None = None
        # one round alone is summed exactly
        laws: dict[Hashable, Any] | None = {} if len(self) > 1 else None
        # the smallest delta first: what was prepared for it serves the others
        for i in counted(np.argsort(-points).tolist()):
            answer = self._answer(Query(epsilon=float(points[i]), least=least, laws=laws))
            lower[i], upper[i] = answer.lower, answer.upper
            least = answer.lower if least is None and answer.lower > 0.0 else least
        return PrivacyProfile(epsilons=points, lower=lower, upper=upper)

    def trade_off(self, false_positive_rates: ArrayLike) -> TradeOffCurve:
        """The trade-off curve of tests between two neighbours, with certified ends.

        At a false positive rate x it is the least false negative rate that any test of everything
        composed so far has, in the worse order of the neighbours (Dong, Roth and Su 2022). It
        comes from brackets of delta at up to some forty epsilons, chosen for these rates.

        Args:
            false_positive_rates: in [0, 1], shape (m,).
        """
        rates = np.asarray(false_positive_rates)
        if rates.dtype.kind not in "iuf" and rates.size > 0:
            raise TypeError(f"false_positive_rates must be numbers, got an array of {rates.dtype}")
        if rates.ndim != 1:
            raise ValueError(f"false_positive_rates must have shape (m,), got shape {rates.shape}")
        checked = [validate.closed_unit(false_positive_rates=x) for x in rates.tolist()]
        lower, upper, _ = protocols.trade_off_of(
            self.protocol, np.array(checked, dtype=np.float64), self.tolerance, self.memory_limit
        )
        return TradeOffCurve(np.array(checked), lower, upper)

    def certificate(
        self, *, delta: float | None = None, epsilon: float | None = None
    ) -> certificates.Certificate:
        """A claim (ε, δ) about everything composed so far, with a proof that anyone can check.

        The claim's ε is a little above the bracket's upper end, by well under 1 %: its witnesses
        are coarser than what brackets are made of. It needs python-flint (extra ``verify``); see
        `shuffle_accountant.certificates.verify` for what is checked.

        Args:
            delta: in (0, 1); or
            epsilon: nats, finite, >= 0.

        Raises:
            ImportError: python-flint is not installed.
            ValueError: a round that certificates do not cover, or no finite ε at this δ.
        """
        return certificates.certify(
            self.protocol, delta=delta, epsilon=epsilon, memory_limit=self.memory_limit
        )

    def _answer(self, query: Query, group: int = 1) -> Bracket:
        return answered(self.protocol.distinct, query, self.tolerance, self.memory_limit, group)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere, in plain JSON types, with a digest of it."""
        return sealed(
            {
                "schema": SCHEMA,
                "tolerance": self.tolerance,
                "memory_limit": self.memory_limit,
                **self.protocol.to_dict(),
            }
        )

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> FourierAccountant:
        """Inverse of `state_dict`; a JSON text round trip in between changes nothing.

        States of versions 0.1.0 and 0.2.0 have no digest and are read with a warning.
        """
        state = unsealed(state, _STORED, sealed_since=3)
        accountant = cls(tolerance=state["tolerance"], memory_limit=state["memory_limit"])
        if "adjacency" not in state:
            return accountant.compose(Protocol.from_list(state["rounds"]))
        held = {name: state[name] for name in ("adjacency", "rounds")}
        return accountant.compose(Protocol.from_dict(held))


def epsilon(
    round: Rounds,
    *,
    delta: float,
    rounds: int = 1,
    group: int = 1,
    tolerance: float = 1e-3,
) -> Bracket:
    """Bracket of epsilon (nats) for ``rounds`` times what happens in ``round``.

    Args:
        round: a round, a `Protocol`, or a list of pairs (round, count).
        delta: in (0, 1).
        rounds: number of rounds, >= 0.
        group: number of people whose data change at once, >= 1 (with ZERO_OUT any of them may
            appear or vanish).
        tolerance: relative width of the bracket to aim for, > 0.

    Example:
        >>> survey = sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=10_000)
        >>> sa.epsilon(survey, delta=1e-6, rounds=4)
        Bracket(0.853864 <= x <= 0.853881, reduction='clones')
    """
    return _record(round, rounds, tolerance).epsilon(delta=delta, group=group)


def delta(
    round: Rounds,
    *,
    epsilon: float,
    rounds: int = 1,
    group: int = 1,
    tolerance: float = 1e-3,
) -> Bracket:
    """Bracket of delta for ``rounds`` times what happens in ``round``.

    Args:
        round: a round, a `Protocol`, or a list of pairs (round, count).
        epsilon: nats, finite, >= 0.
        rounds: number of rounds, >= 0.
        group: number of people whose data change at once, >= 1 (with ZERO_OUT any of them may
            appear or vanish).
        tolerance: relative width in epsilon of the bracket to aim for, > 0.

    Example:
        >>> survey = sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=10_000)
        >>> sa.delta(survey, epsilon=0.854, rounds=4)
        Bracket(9.9703e-7 <= x <= 9.9739e-7, reduction='clones')
    """
    return _record(round, rounds, tolerance).delta(epsilon=epsilon, group=group)


def _record(round: Rounds, rounds: int, tolerance: float) -> FourierAccountant:
    rounds = validate.integer(minimum=0, maximum=MAX_ROUNDS, rounds=rounds)
    return FourierAccountant(tolerance=tolerance).compose(round, count=rounds)
