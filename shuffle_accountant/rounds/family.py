"""Shuffled rounds that differ in their numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.randomizers.base import ConcreteRandomizer, LocalRandomizer
from shuffle_accountant.reductions.base import Reduction, fraction_of
from shuffle_accountant.reductions.choice import reduce

__all__ = ["ShuffleFamily", "family_of"]

_ANY = 1.0  # stands for every eps0


@dataclass(frozen=True)
class ShuffleFamily:
    """Common parameters of shuffled rounds that are more private the more users they have.

    Attributes:
        randomizer: randomizer of all rounds, but for its eps0 if ``scaled``.
        scaled: whether eps0 differs from round to round.
        reduction: theorem, "clones" or "blanket".
        sampled: whether users are drawn from a population.
    """

    randomizer: LocalRandomizer
    scaled: bool
    reduction: str
    sampled: bool

    def pair(self, users: int, fraction: float, eps0: float) -> Reduction:
        """The pair of a round of this family, whether its population is a whole number or not."""
        return _pair(self, users, fraction, eps0)

    def __hash__(self) -> int:
        """Hash by value, cached because every round asks for it."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.randomizer, self.scaled, self.reduction, self.sampled))


@lru_cache(maxsize=1 << 13)
def _pair(family: ShuffleFamily, users: int, fraction: float, eps0: float) -> Reduction:
    randomizer = family.randomizer.at(eps0) if family.scaled else family.randomizer
    assert randomizer is not None
    inner = reduce(randomizer, users, users, family.reduction, None)
    assert isinstance(inner, Reduction)
    return fraction_of(inner, fraction) if family.sampled else inner


@lru_cache(maxsize=1 << 14)
def family_of(randomizer: LocalRandomizer, reduction: str, sampled: bool) -> ShuffleFamily | None:
    """The family of a round; None where the theorem has not one number of i.i.d. decoys.

    Args:
        randomizer: randomizer that every user applies.
        reduction: theorem, as given to the round.
        sampled: whether users are drawn from a population.
    """
    if reduction == "auto":
        reduction = "blanket" if isinstance(randomizer, ConcreteRandomizer) else "clones"
    decoys = reduction in ("clones", "blanket") and randomizer.noisy_vectors is None
    if not decoys or randomizer.adjacency is not Adjacency.REPLACE_ONE:
        return None
    if not (0.0 < randomizer.eps0 < math.inf):
        return ShuffleFamily(randomizer, False, reduction, sampled)
    general = randomizer.at(_ANY)
    if general is None:
        return ShuffleFamily(randomizer, False, reduction, sampled)
    return ShuffleFamily(general, True, reduction, sampled)
