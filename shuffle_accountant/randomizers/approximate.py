"""Randomizers that are known only by how close their messages are to a null distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.randomizers.arguments import FromArguments

__all__ = ["ApproximateRandomizer"]

# Largest eps0 (nats): larger ones say nothing, and their exponentials are no doubles.
_LARGEST = 300.0


@dataclass(frozen=True, init=False, repr=False)
class ApproximateRandomizer(FromArguments):
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

    _eps0: float
    _delta0: float

    def __init__(self, eps0: float, delta0: float) -> None:
        eps0 = validate.finite_nonnegative(eps0=eps0) + 0.0
        if eps0 > _LARGEST:
            raise ValueError(f"eps0 must be <= {_LARGEST:g}, got {eps0!r}")
        delta0 = validate.closed_unit(delta0=delta0) + 0.0
        if delta0 == 1.0:
            raise ValueError("delta0 must be in [0, 1), got 1.0")
        object.__setattr__(self, "_eps0", eps0)
        object.__setattr__(self, "_delta0", delta0)

    @property
    def eps0(self) -> float:
        """Local privacy parameter against the null law, nats."""
        return self._eps0

    @property
    def delta0(self) -> float:
        """The delta of the closeness (eps0, delta0) to the null distribution."""
        return self._delta0

    @property
    def adjacency(self) -> Adjacency:
        """Zero-out."""
        return Adjacency.ZERO_OUT
