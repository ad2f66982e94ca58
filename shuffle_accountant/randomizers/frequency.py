"""Base class of the frequency oracles: parameters ``categories`` and ``eps0``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.arguments import FromArguments
from shuffle_accountant.randomizers.categorical import BitRandomizer
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES

__all__ = ["FrequencyOracle"]


@dataclass(frozen=True, init=False, repr=False)
class FrequencyOracle(FromArguments, BitRandomizer):
    """A randomizer of one of k categories, made for estimating how often each one is held.

    Args:
        categories: number k of values, 2 <= k <= 2^53.
        eps0: local privacy parameter in nats, finite, > 0.

    Attributes:
        categories: number k of values.
    """

    arguments: ClassVar[tuple[str, ...]] = ("categories", "eps0")

    categories: int
    _eps0: float

    def __init__(self, *, categories: int, eps0: float) -> None:
        checked = validate.integer(minimum=2, maximum=MOST_CATEGORIES, categories=categories)
        object.__setattr__(self, "categories", checked)
        object.__setattr__(self, "_eps0", validate.positive(eps0=eps0))

    @property
    def eps0(self) -> float:
        """Local privacy parameter, nats."""
        return self._eps0

    def at(self, eps0: float) -> Self:
        """The oracle with another eps0 and all other parameters, its size included, unchanged.

        A smaller one adds noise: to each bit (RAPPOR), to the choice between a column's signs
        (Hadamard), to the set or the bucket, by a uniformly random one now and then.
        """
        given = {name: getattr(self, name) for name in self.arguments}
        return type(self)(**{**given, "eps0": eps0})
