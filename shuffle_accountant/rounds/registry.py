"""Rounds read back from a state, whatever their kind."""

from __future__ import annotations

from typing import Any

from shuffle_accountant.rounds.base import Round

__all__ = ["round_from_dict"]


def round_from_dict(state: Any) -> Round:
    """The round that `Round.to_dict` wrote as this.

    Raises:
        TypeError: a field of the wrong type.
        ValueError: missing or unknown fields, a field outside its range, or an unknown kind.
    """
    named = state if isinstance(state, dict) and "kind" in state else {"kind": "shuffle"}
    return Round.kinds.of(named, "round").from_dict(state)
