"""The kinds of rounds that can be read back from a state."""

from __future__ import annotations

import importlib
from typing import Any

from shuffle_accountant.rounds.base import Round

__all__ = ["round_from_dict"]

# Where each kind is made; imported when a state names it. A shuffled round names no kind.
_HOMES: dict[str | None, tuple[str, str]] = {
    None: ("shuffle", "ShuffleRound"),
    "allocation": ("allocation", "RandomAllocation"),
    "Poisson sampling": ("poisson", "PoissonSampled"),
    "augmented shuffle": ("augmented", "AugmentedShuffle"),
    "noise messages": ("noise_messages", "NoiseMessages"),
    "pld": ("pld", "PldRound"),
    "shuffled batches": ("batches", "ShuffledBatches"),
}


def round_from_dict(state: Any) -> Round:
    """The round that `Round.to_dict` wrote as this.

    Raises:
        TypeError: a field of the wrong type.
        ValueError: missing or unknown fields, a field outside its range, or an unknown kind.
    """
    kind = state.get("kind") if isinstance(state, dict) else None
    if not isinstance(kind, str | None) or kind not in _HOMES:
        known = ", ".join(repr(name) for name in _HOMES if name is not None)
        raise ValueError(f"round must be of kind {known} or of none, got {kind!r:.60}")
    module, name = _HOMES[kind]
    home = importlib.import_module(f"{__name__.rpartition('.')[0]}.{module}")
    found: Round = getattr(home, name).from_dict(state)
    return found
