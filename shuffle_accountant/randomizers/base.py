"""What every local randomizer can say about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

__all__ = ["LocalRandomizer", "randomizer_from_dict"]


class LocalRandomizer(ABC):
    """A randomized map from one user's value to one message.

    Subclasses are frozen dataclasses: hashable, compared by value, and written to JSON as their
    ``kind`` and their fields.
    """

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type[LocalRandomizer]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        """Register the class under its ``kind``."""
        super().__init_subclass__(**options)
        LocalRandomizer._kinds[cls.kind] = cls

    @property
    @abstractmethod
    def eps0(self) -> float:
        """Local privacy parameter, nats: the largest log-ratio of output probabilities."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `randomizer_from_dict` rebuilds an equal randomizer."""

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: dict[str, Any]) -> LocalRandomizer:
        """Inverse of `to_dict`, without the ``kind``."""


def randomizer_from_dict(state: Any) -> LocalRandomizer:
    """Rebuild a randomizer from `LocalRandomizer.to_dict`.

    Raises:
        ValueError: not such a dictionary, or a kind this version does not know.
    """
    if not isinstance(state, dict) or "kind" not in state:
        raise ValueError(f"randomizer must be an object with a 'kind', got {state!r:.60}")
    kind = state["kind"]
    if not isinstance(kind, str) or kind not in LocalRandomizer._kinds:
        known = ", ".join(sorted(LocalRandomizer._kinds))
        raise ValueError(f"randomizer kind must be one of {known}, got {kind!r:.60}")
    fields = {key: value for key, value in state.items() if key != "kind"}
    return LocalRandomizer._kinds[kind].from_fields(fields)
