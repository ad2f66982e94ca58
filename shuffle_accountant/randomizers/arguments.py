"""Base of randomizers that are stored, shown and compared by their constructor's arguments."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Self

from shuffle_accountant.randomizers.base import LocalRandomizer

__all__ = ["FromArguments", "require_fields"]


def require_fields(kind: str, fields: dict[str, Any], names: Collection[str]) -> None:
    """Check that saved fields are the ones expected."""
    if set(fields) != set(names):
        expected = " and ".join(names)
        raise ValueError(f"{kind} randomizer must have fields {expected}, got {sorted(fields)}")


class FromArguments(LocalRandomizer):
    """A randomizer that is written, shown and compared as the arguments of its constructor.

    Attributes:
        arguments: the constructor's arguments, each of which is also an attribute of plain JSON
            type.
    """

    arguments: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.arguments)
        return f"{type(self).__name__}({shown})"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"kind": self.kind, **{name: getattr(self, name) for name in self.arguments}}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Inverse of `to_dict`, without the ``kind``."""
        require_fields(cls.kind, fields, cls.arguments)
        return cls(**fields)
