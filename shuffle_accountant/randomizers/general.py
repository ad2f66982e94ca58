"""Any randomizer of which only its local privacy parameter is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.arguments import require_fields
from shuffle_accountant.randomizers.base import LocalRandomizer

__all__ = ["GeneralRandomizer"]


@dataclass(frozen=True, init=False)
class GeneralRandomizer(LocalRandomizer):
    """Any ``eps0``-LDP randomizer; what is said of it holds for the worst one.

    Args:
        eps0: local privacy parameter in nats, finite, >= 0: for all inputs x, x' and outputs y,
            ``P[R(x) = y] <= e^eps0 P[R(x') = y]``.
        interactive: whether a user's randomizer may depend on the messages that users before it
            sent in the same round (Feldman, McMillan and Talwar 2021). By default all users of a
            round apply one common randomizer, which may depend on earlier rounds.

    Raises:
        TypeError: ``eps0`` is not a number, or ``interactive`` not a bool.
        ValueError: ``eps0`` is negative, NaN or infinite.
    """

    kind: ClassVar[str] = "general"

    _eps0: float
    interactive: bool

    def __init__(self, eps0: float, interactive: bool = False) -> None:
        # + 0.0 turns a negative zero into zero
        object.__setattr__(self, "_eps0", validate.finite_nonnegative(eps0=eps0) + 0.0)
        object.__setattr__(self, "interactive", validate.flag(interactive=interactive))

    def __repr__(self) -> str:
        extra = ", interactive=True" if self.interactive else ""
        return f"GeneralRandomizer(eps0={self._eps0!r}{extra})"

    @property
    def eps0(self) -> float:
        """Local privacy parameter, nats."""
        return self._eps0

    def at(self, eps0: float) -> GeneralRandomizer:
        """Any randomizer of another parameter: its clones only add noise (see `engine.classes`)."""
        return GeneralRandomizer(eps0, self.interactive)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"kind": self.kind, "eps0": self._eps0, "interactive": self.interactive}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> GeneralRandomizer:
        """Inverse of `to_dict`, without the ``kind``."""
        require_fields(cls.kind, fields, ("eps0", "interactive"))
        return cls(**fields)
