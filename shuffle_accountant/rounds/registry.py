"""The kinds of rounds that can be read back from a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.augmented import AugmentedShuffle
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.batches import ShuffledBatches
from shuffle_accountant.rounds.noise_messages import NoiseMessages
from shuffle_accountant.rounds.pld import PldRound
from shuffle_accountant.rounds.poisson import PoissonSampled
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["round_from_dict"]

# A shuffled round names no kind.
_READERS: dict[str | None, Callable[[Any], Round]] = {
    None: ShuffleRound.from_dict,
    "allocation": RandomAllocation.from_dict,
    "Poisson sampling": PoissonSampled.from_dict,
    AugmentedShuffle.name: AugmentedShuffle.from_dict,
    NoiseMessages.name: NoiseMessages.from_dict,
    "pld": PldRound.from_dict,
    "shuffled batches": ShuffledBatches.from_dict,
}


def round_from_dict(state: Any) -> Round:
    """The round that `Round.to_dict` wrote as this.

    Raises:
        TypeError: a field of the wrong type.
        ValueError: missing or unknown fields, a field outside its range, or an unknown kind.
    """
    kind = state.get("kind") if isinstance(state, dict) else None
    if not isinstance(kind, str | None) or kind not in _READERS:
        known = ", ".join(repr(name) for name in _READERS if name is not None)
        raise ValueError(f"round must be of kind {known} or of none, got {kind!r:.60}")
    return _READERS[kind](state)
