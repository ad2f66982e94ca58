"""Every randomizer by its name: for saved states, and for the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from shuffle_accountant.randomizers.approximate import ApproximateRandomizer
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.discrete import DiscreteRandomizer
from shuffle_accountant.randomizers.gaussian import GaussianRandomizer
from shuffle_accountant.randomizers.general import GeneralRandomizer
from shuffle_accountant.randomizers.hadamard import HadamardResponse
from shuffle_accountant.randomizers.laplace import LaplaceRandomizer
from shuffle_accountant.randomizers.local_hashing import LocalHashing
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse
from shuffle_accountant.randomizers.rappor import RAPPOR
from shuffle_accountant.randomizers.subset_selection import SubsetSelection
from shuffle_accountant.randomizers.vectors import DuchiL2, DuchiLInf, PrivUnit, SampledCoordinates

__all__ = ["REGISTRY", "makers", "named", "parameters_of", "randomizer_from_dict"]

Maker = Callable[..., LocalRandomizer]

REGISTRY: dict[str, Maker] = {
    "approximate": ApproximateRandomizer,
    "discrete": DiscreteRandomizer,
    "duchi-l2": DuchiL2,
    "duchi-linf": DuchiLInf,
    "gaussian": GaussianRandomizer,
    "general": GeneralRandomizer,
    "hadamard": HadamardResponse,
    "laplace": LaplaceRandomizer,
    "local-hashing": LocalHashing,
    "privunit": PrivUnit,
    "randomized-response": RandomizedResponse,
    "rappor": RAPPOR,
    "sampled-coordinates": SampledCoordinates,
    "subset-selection": SubsetSelection,
}
"""Constructors of the randomizers of this package, by the names that the command line takes."""


def makers() -> dict[str, Maker]:
    """All constructors by name: those of `REGISTRY`, and of other classes by their ``kind``."""
    known = set(REGISTRY.values())
    others = {kind: cls for kind, cls in LocalRandomizer.kinds.items() if cls not in known}
    return {**others, **REGISTRY}


def parameters_of(name: str) -> dict[str, bool]:
    """The parameters of a named randomizer, each with whether it must be given.

    Raises:
        TypeError: a name that is not a string.
        ValueError: no randomizer of that name.
    """
    if not isinstance(name, str):
        raise TypeError(f"randomizer must be a name, got {type(name).__name__}")
    known = makers()
    if name not in known:
        raise ValueError(f"randomizer must be one of {', '.join(sorted(known))}, got {name!r:.60}")
    given = inspect.signature(known[name]).parameters
    return {key: value.default is value.empty for key, value in given.items()}


def named(name: str, **parameters: Any) -> LocalRandomizer:
    """The randomizer of a name, with its parameters.

    Args:
        name: one of `makers`, such as "hadamard".
        parameters: the constructor's arguments, such as ``categories=1000, eps0=2.0``.

    Raises:
        TypeError: a name that is not a string, or an argument of the wrong type.
        ValueError: no randomizer of that name, a parameter that it does not have or that is
            missing, or one outside its range.
    """
    wanted = parameters_of(name)
    for parameter in parameters:
        if parameter not in wanted:
            raise ValueError(
                f"{parameter} is no parameter of {name}, which takes {', '.join(wanted)}"
            )
    for parameter, needed in wanted.items():
        if needed and parameter not in parameters:
            raise ValueError(f"{parameter} must be given for {name}, got None")
    return makers()[name](**parameters)


def randomizer_from_dict(state: Any) -> LocalRandomizer:
    """Rebuild a randomizer from `LocalRandomizer.to_dict`.

    Raises:
        ValueError: not such a dictionary, or a kind that is not known.
    """
    if not isinstance(state, dict) or "kind" not in state:
        raise ValueError(f"randomizer must be an object with a 'kind', got {state!r:.60}")
    kind, known = state["kind"], LocalRandomizer.kinds
    if not isinstance(kind, str) or kind not in known:
        raise ValueError(
            f"randomizer kind must be one of {', '.join(sorted(known))}, got {kind!r:.60}"
        )
    fields = {key: value for key, value in state.items() if key != "kind"}
    return known[kind].from_fields(fields)
