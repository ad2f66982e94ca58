"""What Flower's protocol `flwr.serverapp.PrivacyAccountant` exchanges, without Flower.

Fields and words are Flower's: its enumerations are strings and compare equal to these.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PrivacyConfig", "PrivacySpent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyConfig:
    """What a ledger accounts for.

    Attributes:
        target_delta: delta used when none is given, or None.
        population_size: users among whom each round draws.
        max_epsilon: budget at ``target_delta``, nats, or None.
        neighboring_relation: one user's value is replaced, or zeroed out, as the randomizer says.
        sampling_method: drawing all users of a population is the trivial case.
    """

    target_delta: float | None
    population_size: int
    max_epsilon: float | None
    neighboring_relation: str = "replace-one"
    sampling_method: str = "without-replacement"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacySpent:
    """What has been spent.

    Attributes:
        epsilon: the certified upper end, nats; a `Bracket`.
        delta: where it was asked.
        num_releases: rounds recorded.
        accounting_method: the theorem the bracket rests on.
        optimal_order: of Rényi accounting, which this is not: None.
    """

    epsilon: float
    delta: float
    num_releases: int
    accounting_method: str
    optimal_order: float | None = None
