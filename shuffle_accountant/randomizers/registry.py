"""Every randomizer by its name: for saved states, and for the command line."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any, cast

from shuffle_accountant.randomizers import (  # noqa: F401 - which register themselves
    noise,
    oracles,
    vectors,
)
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.registry import load_installed
from shuffle_accountant.validation import spelled

SHORT = {
    "duchi": "duchi-l2",
    "grr": "randomized-response",
    "hadamard": "hadamard-response",
    "hr": "hadamard-response",
    "k-rr": "randomized-response",
    "krr": "randomized-response",
    "olh": "local-hashing",
    "rr": "randomized-response",
    "ss": "subset-selection",
    "sue": "rappor",
}
"""Usual short names, by which the command line takes randomizers too."""


def randomizer_kind(name: str) -> str:
    """The kind that a name stands for: itself, a short name, or ``package.module:Class``.

    A class is imported, and registers itself.
    """
    if not isinstance(name, str):
        raise TypeError(f"randomizer must be a name, got {type(name).__name__}")
    if ":" in name:
        return _imported(name).kind
    kind = spelled(name)
    kind = name if name in LocalRandomizer.kinds else SHORT.get(kind, kind)
    if kind not in LocalRandomizer.kinds:
        if load_installed():
            return randomizer_kind(name)
        raise ValueError(
            f"randomizer must be one of {', '.join(LocalRandomizer.kinds)}, or package.module:Class"
            f" of your own, got {name!r:.60}"
        )
    return kind


def _imported(name: str) -> type[LocalRandomizer]:
    """The class that ``package.module:Class`` names."""
    module, _, qualified = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, ValueError, AttributeError) as error:
        raise ValueError(
            f"randomizer must be package.module:Class that can be imported, got {name!r:.60}: "
            f"{error}"
        ) from None
    if not isinstance(found, type) or found not in LocalRandomizer.kinds.values():
        raise ValueError(
            "randomizer must be package.module:Class of a LocalRandomizer with a kind of its own, "
            f"got {name!r:.60}"
        )
    return cast(type[LocalRandomizer], found)


def parameters_of(name: str) -> dict[str, bool]:
    """The parameters of a named randomizer, each with whether it must be given."""
    given = inspect.signature(LocalRandomizer.kinds[randomizer_kind(name)]).parameters
    return {key: value.default is value.empty for key, value in given.items()}


def own_kinds(*parameters: str) -> list[type[LocalRandomizer]]:
    """Classes from outside of this package whose constructors need no other parameters."""
    load_installed()
    found = []
    for name, kind in LocalRandomizer.kinds.items():
        if not kind.__module__.startswith(f"{__name__.partition('.')[0]}."):
            given = parameters_of(name)
            if {key for key in given if given[key]} <= set(parameters) <= set(given):
                found.append(kind)
    return found


def named(name: str, **parameters: Any) -> LocalRandomizer:
    """The randomizer of a name, with its parameters.

    Args:
        name: a kind, a short name such as "krr", or ``package.module:Class``.
        parameters: the constructor's arguments, such as ``categories=1000, eps0=2.0``.
    """
    wanted = parameters_of(name)
    for parameter in parameters:
        if parameter not in wanted:
            raise ValueError(
                f"{parameter} is no parameter of {name}, which takes {', '.join(wanted)}"
            )
    for parameter, needed in wanted.items():
        if needed and parameter not in parameters:
            raise ValueError(f"{parameter} must be given for {name}")
    made: Callable[..., LocalRandomizer] = LocalRandomizer.kinds[randomizer_kind(name)]
    return made(**parameters)


def randomizer_from_dict(state: Any) -> LocalRandomizer:
    """Rebuild a randomizer from `LocalRandomizer.to_dict`."""
    kind = LocalRandomizer.kinds.of(state, "randomizer")
    return kind.from_fields({key: value for key, value in state.items() if key != "kind"})
