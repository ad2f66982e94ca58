"""The flags that say what happens, as one object, and the rounds they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shuffle_accountant import FourierAccountant
    from shuffle_accountant.randomizers.base import LocalRandomizer

__all__ = ["Protocol"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """What happens, as typed, in the order of the JSON object."""

    eps0: float
    users: int
    rounds: int
    population: int | None
    categories: int | None
    reduction: str
    variant: str | None
    interactive: bool
    tolerance: float

    def accountant(self) -> FourierAccountant:
        """An accountant that has recorded the rounds."""
        import shuffle_accountant as sa

        one = sa.ShuffleRound(
            self.randomizer(),
            users=self.users,
            population=self.population,
            reduction=self.reduction,
            variant=self.variant,
        )
        return sa.FourierAccountant(tolerance=self.tolerance).compose(one, count=self.rounds)

    def randomizer(self) -> LocalRandomizer:
        """Randomized response if its number of values is given, else any ε0-LDP randomizer."""
        import shuffle_accountant as sa

        if self.categories is None:
            return sa.GeneralRandomizer(self.eps0, interactive=self.interactive)
        if self.interactive:
            raise ValueError("interactive is for any randomizer; it cannot go with categories")
        return sa.RandomizedResponse(categories=self.categories, eps0=self.eps0)
