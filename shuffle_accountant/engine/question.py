"""A question put to a composition."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Query"]


@dataclass(frozen=True)
class Query:
    """One question: epsilon at ``delta``, or delta at ``epsilon``; the other field is None.

    Attributes:
        delta: at which epsilon is asked for.
        epsilon: at which delta is asked for, nats.
        least: about the least delta that is asked for beside this one, if it is known: what is
            prepared for that serves here too.
    """

    delta: float | None = None
    epsilon: float | None = None
    least: float | None = None

    @property
    def required(self) -> float:
        """The epsilon asked about, when it is delta that is wanted."""
        assert self.epsilon is not None
        return self.epsilon
