# mypy: disable-error-code="misc"
# Opacus is optional, so its classes are of unknown type here.
"""The accountant that Opacus calls "allocation" (extra ``opacus``): one entry for every deal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from opacus.accountants import register_accountant

from shuffle_accountant import validation as validate
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.batches import ShuffledBatches
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.training.opacus.accounting import CertifiedAccountant

__all__ = ["SAMPLINGS", "AllocationAccountant", "DealtEpoch", "noise_multipliers"]

SAMPLINGS = ("allocation", "shuffle")
"""Each record in a step of its own, or all records shuffled into batches of one size."""

MOST_STEPS = 10**9


@dataclass(frozen=True, kw_only=True)
class DealtEpoch:
    """The steps of one deal that have been released.

    Args:
        sampling: "allocation" or "shuffle".
        noise_multiplier: deviation of the noise over the largest norm, finite, > 0, of all steps;
            or one for each step, of an allocation.
        steps: of the whole deal, >= 1.
        released: number of steps that were made, in [1, steps].
        records_per_user: most records that one user owns, if the unit of privacy is a user; None if
            it is one record, as for "shuffle".
    """

    sampling: str
    noise_multiplier: float | tuple[float, ...]
    steps: int
    released: int
    records_per_user: int | None = None

    def __post_init__(self) -> None:
        steps = validate.integer(minimum=1, maximum=MOST_STEPS, steps=self.steps)
        if self.records_per_user is not None:
            most = MOST_STEPS if self.sampling == "allocation" else 0
            validate.integer(minimum=1, maximum=most, records_per_user=self.records_per_user)
        checked = {
            "sampling": validate.choice(SAMPLINGS, sampling=self.sampling),
            "noise_multiplier": noise_multipliers(self.noise_multiplier, steps, self.sampling),
            "steps": steps,
            "released": validate.integer(minimum=1, maximum=steps, released=self.released),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def round(self) -> Round:
        """The round to account for; the whole epoch, a bound for any part, if none is known."""
        if self.sampling == "shuffle":
            assert isinstance(self.noise_multiplier, float)
            return ShuffledBatches(noise_multiplier=self.noise_multiplier, steps=self.steps)
        step = GaussianMechanism(noise_multiplier=self.noise_multiplier)
        if self.whole:
            return RandomAllocation(
                step, steps=self.steps, records_per_user=self.records_per_user or 1
            )
        return RandomAllocation(step, steps=self.steps, released=self.released)

    @property
    def whole(self) -> bool:
        """Whether a part of the epoch costs as much as all of it."""
        return self.sampling == "shuffle" or (self.records_per_user or 1) > 1


def noise_multipliers(
    given: float | Sequence[float], steps: int, sampling: str
) -> float | tuple[float, ...]:
    """The noise multiplier of all steps of a deal, or those of each of them.

    Raises:
        ValueError: one is not finite and > 0, there are more or fewer than steps, or the steps of
            shuffled batches have different ones.
    """
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        return validate.positive(noise_multiplier=given)
    each = tuple(validate.positive(noise_multiplier=one) for one in given)
    if sampling != "allocation" or len(each) != steps:
        raise ValueError(
            "noise_multiplier must be one number, or with sampling='allocation' one for each of "
            f"the steps={steps}, got {len(each)} with sampling={sampling!r}"
        )
    return each


class AllocationAccountant(CertifiedAccountant):
    """Accounts for epochs of DP-SGD whose records are dealt into batches.

    A deal that is broken off counts as the steps it released, and the next one as a deal of its
    own: two halves of two deals are no whole one.

    Attributes:
        history: a `DealtEpoch` for every deal of which at least one step was released.
    """

    name: ClassVar[str] = "allocation"
    engine: ClassVar[str] = "AllocationPrivacyEngine"
    fields: ClassVar[tuple[str, ...]] = ("sampling", "noise_multiplier", "steps", "released")
    optional: ClassVar[frozenset[str]] = frozenset({"records_per_user"})

    history: list[DealtEpoch]

    def __len__(self) -> int:
        """Steps released so far."""
        return sum(epoch.released for epoch in self.history)

    @property
    def protocol(self) -> Protocol:
        """Everything recorded so far."""
        return Protocol([(epoch.round, 1) for epoch in self.history])

    def step(
        self,
        *,
        noise_multiplier: float | Sequence[float],
        steps: int | None = None,
        sampling: str = "allocation",
        records_per_user: int | None = None,
        begins_deal: bool = True,
        sample_rate: float | None = None,
    ) -> None:
        """Record one step.

        Args:
            noise_multiplier: deviation of the noise over the largest norm, finite, > 0, or one for
                each step of the deal.
            steps: of the whole deal, >= 1.
            sampling: "allocation" or "shuffle".
            records_per_user: most records that one user owns, if the unit is a user.
            begins_deal: whether it is the first step of its deal.
            sample_rate: of Poisson sampling, which this does not account for.

        Raises:
            ValueError: Poisson sampling, a step that continues another deal than the last one, or
                steps of records and of users in one history. Nothing is recorded.
        """
        if sample_rate is not None:
            raise ValueError(
                "the accountant 'allocation' is for records that are dealt to the steps of an "
                f"epoch, got Poisson sampling with sample_rate={sample_rate!r}: use "
                "AllocationPrivacyEngine"
            )
        begins = validate.flag(begins_deal=begins_deal)
        first = DealtEpoch(
            sampling=sampling,
            noise_multiplier=noise_multiplier,  # type: ignore[arg-type]
            steps=validate.integer(minimum=1, maximum=MOST_STEPS, steps=steps),
            released=1,
            records_per_user=records_per_user,
        )
        self.require_unit(records_per_user)
        if begins:
            self.history.append(first)
            return
        last = self.history[-1] if self.history else None
        if last is None or replace(last, released=1) != first or last.released == last.steps:
            raise ValueError(f"begins_deal must be True for the first step of {first!r}")
        self.history[-1] = replace(last, released=last.released + 1)

    def require_unit(self, records_per_user: int | None) -> None:
        """Refuse steps of users after steps of records, or the other way round.

        A user may own several records: what was recorded for one record is less than a user loses.
        """
        if self.history and (self.history[-1].records_per_user is None) is not (
            records_per_user is None
        ):
            unit = "a record" if self.history[-1].records_per_user is None else "a user"
            raise ValueError(
                f"user_ids must be given for all steps or for none: those recorded are of {unit}, "
                f"got records_per_user={records_per_user!r}"
            )

    @staticmethod
    def written(entry: DealtEpoch) -> dict[str, Any]:
        """An entry of the history in plain JSON types."""
        state = asdict(entry)
        if not isinstance(entry.noise_multiplier, float):
            state["noise_multiplier"] = list(entry.noise_multiplier)
        if entry.records_per_user is None:  # written as they always were
            del state["records_per_user"]
        return state

    @staticmethod
    def read(entry: dict[str, Any]) -> DealtEpoch:
        """Inverse of `written`."""
        return DealtEpoch(**entry)


# forced, so that the module can be reloaded
register_accountant(AllocationAccountant.mechanism(), AllocationAccountant, force=True)
