"""Rounds read back from a state, whatever their kind; and classes of one's own."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.registry import Kinds
from shuffle_accountant.rounds.base import Round

__all__ = ["register", "round_from_dict"]

C = TypeVar("C", bound=type[LocalRandomizer] | type[Round])


def register(cls: C) -> C:
    """Make a class of randomizers or rounds known by its ``kind`` to states and the command line.

    A class with a ``kind`` in its body is known when it is made; this gives the others one, their
    name in lower case with hyphens, and checks that the class is complete. Frequency oracles and
    vector randomizers are candidates of `shuffle_accountant.design` from then on, if their
    constructor takes ``eps0`` and ``categories`` or ``dimension``.

    Args:
        cls: a subclass of `LocalRandomizer` or of `Round`.

    Returns:
        The class, so that this is a decorator, too.

    Raises:
        TypeError: no such class, or one with abstract methods left.
    """
    if not isinstance(cls, type) or not issubclass(cls, LocalRandomizer | Round):
        raise TypeError(f"cls must be a class of randomizers or rounds, got {validate.shown(cls)}")
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise TypeError(f"cls must have {', '.join(missing)}, which {cls.__name__} has not")
    if "kind" not in cls.__dict__:
        cls.kind = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()
    kinds: Kinds[Any] = cls.kinds
    kinds.add(cls)
    return cls


def round_from_dict(state: Any) -> Round:
    """The round that `Round.to_dict` wrote as this."""
    named = state if isinstance(state, dict) and "kind" in state else {"kind": "shuffle"}
    return Round.kinds.of(named, "round").from_dict(state)
