"""Any randomizer with finitely many inputs and messages, given as its matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant.randomizers.arguments import require_fields
from shuffle_accountant.randomizers.channel import ChannelRandomizer, checked_channel

__all__ = ["DiscreteRandomizer"]


@dataclass(frozen=True, init=False, repr=False)
class DiscreteRandomizer(ChannelRandomizer):
    """A randomizer given by its channel matrix.

    Compared and hashed by the value of the matrix.

    Args:
        channel: shape (inputs, messages); row x holds the probabilities of the messages from input
            x. At least two rows, entries in [0, 1], rows that sum to 1 within 1e-9, and no column
            of zeros (a message that is never sent).
    """

    kind: ClassVar[str] = "discrete"

    _entries: bytes
    _shape: tuple[int, int]

    def __init__(self, channel: ArrayLike) -> None:
        matrix = checked_channel(channel=channel)
        object.__setattr__(self, "_entries", matrix.tobytes())
        object.__setattr__(self, "_shape", matrix.shape)

    def __repr__(self) -> str:
        return f"DiscreteRandomizer(channel={self.channel.tolist()!r})"

    @property
    def channel(self) -> NDArray[np.float64]:
        """The matrix, shape (inputs, messages), read-only."""
        return np.frombuffer(self._entries).reshape(self._shape)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"kind": self.kind, "channel": self.channel.tolist()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> DiscreteRandomizer:
        """Inverse of `to_dict`, without the ``kind``."""
        require_fields(cls.kind, fields, ("channel",))
        return cls(**fields)
