"""Local randomizers: the code run on a user's device, and the distribution of its messages.

A new randomizer is one class. Take `ChannelRandomizer` for a matrix of probabilities (the property
`channel`), `ContinuousRandomizer` for noise on the inputs 0 and 1 (``cdf``, ``sf`` and
``log_density``), `FiniteRandomizer` for messages that are too many to list (``classes``), or
`LocalRandomizer` if nothing but ``eps0`` is known. With a ``kind`` of its own the class is known to
saved states and to the command line. `FromArguments` writes and reads what is nothing but the
arguments of its constructor. What a dataclass says of itself is checked when one is made.
"""

from __future__ import annotations

from shuffle_accountant.facades import explain_calls
from shuffle_accountant.randomizers.base import (
    ConcreteRandomizer,
    FiniteRandomizer,
    FromArguments,
    LocalRandomizer,
    Mixture,
    RunsOnData,
)
from shuffle_accountant.randomizers.channel import ChannelRandomizer
from shuffle_accountant.randomizers.continuous import ContinuousRandomizer

__all__ = [
    "ChannelRandomizer",
    "ConcreteRandomizer",
    "ContinuousRandomizer",
    "FiniteRandomizer",
    "FromArguments",
    "LocalRandomizer",
    "Mixture",
    "RunsOnData",
]

explain_calls(__name__)
