"""A round that is known by its privacy loss distribution (PLD) alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.losses.tabulated import LossBounds, PldTable, TabulatedLoss
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.reductions.base import Pair
from shuffle_accountant.rounds.base import Round, adjacency_named, needed

__all__ = ["LossTable", "PldRound", "PldTable"]

LossTable = PldTable  # its public name

# Tables that are not written where they equal another one, with that one.
_DEFAULTS = {"add": "remove", "optimistic_remove": "remove", "optimistic_add": "add"}
# Probabilities down to minus this are set to 0: round-off of the Fourier transforms behind a table.
_NOISE = 1e-9
# Amount by which an optimistic delta may exceed the pessimistic one (the rounding of two libraries
# does not reach it), and largest epsilon (nats) at which both are compared: e^epsilon is a double.
_UNEVEN, _FURTHEST = 1e-6, 600.0


@dataclass(frozen=True, init=False, repr=False)
class PldRound(Round):
    """A mechanism of any other kind, read from a `PrivacyLossDistribution` of dp_accounting.

    It composes with shuffled rounds, and the bracket encloses the exact composition of the numbers
    in the distribution, taken as they are: the upper end is as good as the distribution is
    pessimistic, and the lower end says nothing about the mechanism behind it unless an optimistic
    distribution of the same mechanism is given too. Then the bracket encloses the composition of
    everything between the two. Give distributions of one run of the mechanism, and compose here:
    what was composed there carries the truncation and the rounding of its transforms.

    A distribution does not know which two datasets it tells apart: ``adjacency`` says which it was
    made for, and the round composes with rounds of the same. Its pmf for "remove" composes with the
    order (target's value in P, replaced in Q) of other rounds, its pmf for "add" with the reverse;
    answers are the larger of both.

    Args:
        pld: a pessimistic PrivacyLossDistribution; entries down to -1e-9, from transforms, are 0.
        optimistic: one of the same mechanism made with ``pessimistic_estimate=False``; by default
            the lower end is that of ``pld`` itself.
        adjacency: that which both distributions were made for; by default replace-one.

    Raises:
        ValueError: a distribution with the wrong direction of rounding, or an ``optimistic`` whose
            delta is larger than that of ``pld`` by more than 1e-6.
    """

    kind: ClassVar[str] = "pld"
    conditions = needed(
        "pld",
        "The privacy loss distribution that was given bounds the mechanism, for the adjacency "
        "stated and whatever earlier rounds released: it is taken as it is",
    )

    loss: TabulatedLoss
    made_for: Adjacency

    def __init__(
        self,
        pld: Any,
        *,
        optimistic: Any = None,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> None:
        upper = _tables("pld", pld, pessimistic=True)
        lower = (
            upper if optimistic is None else _tables("optimistic", optimistic, pessimistic=False)
        )
        self._enclose(upper, lower, adjacency, (("optimistic", "pld"),) * 2)

    def _enclose(
        self,
        upper: tuple[PldTable, PldTable],
        lower: tuple[PldTable, PldTable],
        adjacency: Adjacency,
        names: tuple[tuple[str, str], ...],
    ) -> None:
        adjacency = validate.instance(Adjacency, adjacency=adjacency)
        for above, below, named in zip(upper, lower, names, strict=True):
            _require_below(below, above, *named)
        forward, backward = (LossBounds(*tables) for tables in zip(upper, lower, strict=True))
        self._hold(loss=TabulatedLoss(forward, backward), made_for=adjacency)

    @classmethod
    def from_tables(
        cls,
        remove: PldTable,
        add: PldTable | None = None,
        *,
        optimistic_remove: PldTable | None = None,
        optimistic_add: PldTable | None = None,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> PldRound:
        """A round from its losses and their probabilities; dp_accounting is not needed.

        Args:
            remove: law of ``log(P/Q)`` under P, or one above it.
            add: law of ``log(Q/P)`` under Q, or one above it; by default the same as ``remove``.
            optimistic_remove: a law below that of ``log(P/Q)``; by default ``remove``.
            optimistic_add: a law below that of ``log(Q/P)``; by default ``optimistic_remove``
                where ``add`` is left out as well, else ``add``.
            adjacency: adjacency that the distributions were made for.

        Raises:
            ValueError: an optimistic table with a larger delta than the other one, by more than
                1e-6 and what its total passes 1 by.
        """
        remove = validate.instance(PldTable, remove=remove)
        below = validate.instance(
            PldTable, optimistic_remove=remove if optimistic_remove is None else optimistic_remove
        )
        other = below if add is None else add
        add = remove if add is None else validate.instance(PldTable, add=add)
        other = validate.instance(
            PldTable, optimistic_add=other if optimistic_add is None else optimistic_add
        )
        self = cls.__new__(cls)
        names = (("optimistic_remove", "remove"), ("optimistic_add", "add"))
        self._enclose((remove, add), (below, other), adjacency, names)
        return self

    def __repr__(self) -> str:
        digest = hashlib.blake2b(digest_size=6)
        for bound in (self.loss.bounds, self.loss.backward):
            for table in (bound.upper, bound.lower):
                for held in (table.losses, table.probabilities, np.float64(table.infinity_mass)):
                    digest.update(held.tobytes())
        shown = self.loss.bounds.upper.losses
        span = f" from {shown[0]:g} to {shown[-1]:g}" if shown.size else ""
        return f"PldRound({shown.size} losses{span}, {digest.hexdigest()}, {self.adjacency.value})"

    @property
    def adjacency(self) -> Adjacency:
        """Adjacency that the given privacy loss distribution was made for."""
        return self.made_for

    def reduced(self) -> Pair:
        """The dominating pair given by the tables."""
        return Pair("pld", self.loss)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        forward, backward = self.loss.bounds, self.loss.backward
        tables = {"remove": forward.upper, "add": backward.upper}
        tables |= {"optimistic_remove": forward.lower, "optimistic_add": backward.lower}
        state: dict[str, Any] = {"kind": self.kind, "adjacency": self.adjacency.value}
        for name, table in tables.items():
            same = name in _DEFAULTS and table == tables[_DEFAULTS[name]]
            state[name] = None if same else table.to_dict()
        return state

    @classmethod
    def from_dict(cls, state: Any) -> PldRound:
        """Inverse of `to_dict`."""
        wanted = {"kind", "adjacency", "remove", *_DEFAULTS}
        if isinstance(state, dict):
            # schema 1 knew one adjacency only
            state = {"adjacency": Adjacency.REPLACE_ONE.value, **state}
        state = validate.fields(wanted, kind=cls.kind, round=state)
        tables = {"remove": _table("remove", state["remove"])}
        for name, default in _DEFAULTS.items():
            held = state[name]
            tables[name] = tables[default] if held is None else _table(name, held)
        return cls.from_tables(**tables, adjacency=adjacency_named(state["adjacency"]))


def _require_below(below: PldTable, above: PldTable, name: str, other: str) -> None:
    """Raise ValueError if the table for lower ends has a larger delta than that for upper ends."""
    if below == above:
        return
    losses = np.concatenate([below.losses, above.losses])
    epsilons = np.unique(np.append(0.0, losses[(losses > 0.0) & (losses < _FURTHEST)]))
    lower, upper = _deltas(below, epsilons), _deltas(above, epsilons) + above.missing
    at = int(np.argmax(lower - upper))
    excess = max(float(np.sum(below.probabilities)) + below.infinity_mass - 1.0, 0.0)
    if lower[at] - upper[at] > _UNEVEN + excess:
        raise ValueError(
            f"{name} must have no larger delta than {other}, got {lower[at]:.6g} > "
            f"{upper[at]:.6g} at epsilon = {epsilons[at]:.6g}"
        )


def _deltas(table: PldTable, epsilons: Array) -> Array:
    """The table's delta at each epsilon >= 0, to some ten digits of the mass above it."""
    mass, loss = table.probabilities[::-1], table.losses[::-1]
    sums = (mass, mass * np.exp(-np.maximum(loss, 0.0)))
    p, q = (np.append(np.cumsum(column)[::-1], 0.0) for column in sums)
    first = np.searchsorted(table.losses, epsilons, side="right")
    return np.asarray(p[first] - np.exp(epsilons) * q[first] + table.infinity_mass)


def _table(name: str, state: Any) -> PldTable:
    wanted = {"losses", "probabilities", "infinity_mass"}
    if not isinstance(state, dict) or set(state) != wanted:
        raise ValueError(
            f"{name} must be an object with fields {sorted(wanted)}, got {state!r:.60}"
        )
    return PldTable(**state)


def _tables(name: str, pld: Any, *, pessimistic: bool) -> tuple[PldTable, PldTable]:
    """The tables for "remove" and for "add" of a distribution, one object if it is symmetric.

    They are private there, so this is by name, and imports nothing.
    """
    try:
        pmfs = [pld._pmf_remove] if pld._symmetric else [pld._pmf_remove, pld._pmf_add]
        kinds = {bool(pmf._pessimistic_estimate) for pmf in pmfs}
        dense = [pmf.to_dense_pmf() for pmf in pmfs]
        grids = [(d._lower_loss, d._probs, d._discretization, d._infinity_mass) for d in dense]
    except AttributeError:
        raise TypeError(
            f"{name} must be a PrivacyLossDistribution of dp_accounting, got {type(pld).__name__}"
        ) from None
    if kinds != {pessimistic}:
        wanted = "pessimistic" if pessimistic else "optimistic"
        raise ValueError(f"{name} must be a distribution with {wanted} rounding, got the other")
    tables = []
    for first, masses, interval, infinite in grids:
        held = np.asarray(masses, dtype=np.float64)
        held = np.where((held < 0.0) & (held >= -_NOISE), 0.0, held)
        losses = np.arange(first, first + held.size) * float(interval)
        tables.append(PldTable(losses, held, infinity_mass=float(infinite)))
    return tables[0], tables[-1]
