"""Randomizers of one of k categories that treat all categories alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.binomial import log_pmf
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import (
    FiniteRandomizer,
    FromArguments,
    GivenEps0,
    RunsOnInputs,
    YesCounts,
    distinct_inputs,
)
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES
from shuffle_accountant.randomizers.estimation import FrequencyEstimator

__all__ = ["BitRandomizer", "CategoricalRandomizer", "FrequencyOracle"]

Counts = tuple[Array, Array, Array]

# Largest number of categories whose counts of yes are listed; beyond, their fluctuation is bounded.
_MOST_COUNTS = 4096
# Largest eps0 (nats) with probabilities that are doubles; beyond, nothing hides the input.
_LARGEST_EPS0 = 300.0


class CategoricalRandomizer(RunsOnInputs, FrequencyEstimator, FiniteRandomizer):
    """A randomizer of a value in 0 … ``categories`` - 1 for which no category is special.

    After any permutation of the categories, messages can be renamed to get the same randomizer.
    Hence all pairs of distinct inputs look like (0, 1), also the other way round, and all triples
    (x0, x1, others) with x0 != x1 like one of three: the others hold x0, x1, or a third value.
    """

    categories: int

    @property
    def inputs(self) -> int:
        """Number of inputs: the categories."""
        return self.categories

    @property
    def symmetric(self) -> bool:
        """True: exchanging two categories only renames messages."""
        return True

    def input_pairs(self) -> tuple[tuple[int, int], ...]:
        """The pair (0, 1): all pairs of distinct inputs equal it up to renaming of categories."""
        return ((0, 1),)

    def datasets(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (x0, x1, others) that all triples equal up to renaming of categories."""
        third = ((0, 1, 2),) if self.categories >= 3 else ()
        return ((0, 1, 0), (0, 1, 1), *third)

    def others(self, held: tuple[int, ...]) -> Sequence[int]:
        """The ``held`` inputs and one input not held: all of those are alike."""
        foreign = [x for x in range(self.categories)[: len(held) + 1] if x not in held]
        return (*held, *foreign[:1])


class BitRandomizer(CategoricalRandomizer):
    """A randomizer whose message says yes or no to each category: ``bit_x(y)``.

    All frequency oracles of the field have this form: with a law f of messages that does not depend
    on the input,

        R(x)(y) = f(y) high   if bit_x(y) = 1,      f(y) low   if bit_x(y) = 0,

    and ``high = e^eps0 low``. Messages fall into classes by their bits at the inputs asked for. The
    blanket ``min_x R(x)(y)`` is ``f(y) low``, but for a message that says yes to all categories:
    there all inputs agree, and the blanket is ``f(y) high``. Such messages are a class of their
    own.
    """

    classes_double: ClassVar[bool] = True

    @property
    def representable(self) -> bool:
        """Whether eps0 is so small that the probability of a wrong bit is a double."""
        return self.eps0 <= _LARGEST_EPS0

    def yes_counts(self) -> YesCounts:
        """Distribution of the number of categories that a message says yes to."""
        (_, own), (no, yes) = self._pattern_chances((0,), np.array([[False], [True]]))
        foreign = float(no), float(yes)
        return YesCounts(self.categories, float(own), foreign, self._rate, *self._joint_counts())

    @property
    def _rate(self) -> float | None:
        """Chance to say yes to each category under f, if the answers are independent."""
        return None

    def _joint_counts(self) -> Counts:
        """Counts of yes, and their joint probabilities with a yes and with a no; see `YesCounts`.

        Oracles whose answers are not independent override it.
        """
        assert self._rate is not None
        if self.categories > _MOST_COUNTS:
            return np.zeros(0), np.zeros(0), np.zeros(0)
        i = np.arange(self.categories, dtype=np.float64)  # of the other categories
        chance = np.exp(log_pmf(i, self.categories - 1, self._rate, 1.0 - self._rate))
        yes, no = self._rate * np.append(0.0, chance), (1.0 - self._rate) * np.append(chance, 0.0)
        return np.arange(self.categories + 1.0), yes, no

    @abstractmethod
    def _pattern_chances(
        self, asked: tuple[int, ...], bits: NDArray[np.bool_]
    ) -> tuple[Array, Array]:
        """Probabilities of all patterns of bits at the inputs asked for.

        Args:
            asked: m distinct inputs.
            bits: the patterns, shape (2^m, m).

        Returns:
            Probability of each pattern, shape (2^m,), from an input whose own bit in it is one (the
            pattern without ones has no such input: any number), and from one whose bit is zero.
        """

    @abstractmethod
    def _rest_agrees(self, asked: tuple[int, ...]) -> float:
        """Probability that a message says yes to all categories, given yes to those asked for."""

    def classes(self, inputs: Sequence[int]) -> Array:
        """Messages by their bits at the m inputs asked for, 2^m classes and at most one more."""
        asked, rows = distinct_inputs(inputs, self.categories)
        bits = np.array(list(product((False, True), repeat=len(asked))))
        ones, zeros = self._pattern_chances(asked, bits)
        found = np.vstack([np.where(bits.T, ones, zeros), zeros])  # the blanket last
        # The last pattern says yes to all inputs asked for; part of it says yes to all categories.
        share = self._rest_agrees(asked)
        unanimous = share * ones[-1]
        found[:, -1] *= 1.0 - share
        found = np.column_stack([found, np.full(len(found), unanimous)])
        sent = np.any(found[:-1] > 0.0, axis=0)
        return found[[*rows, -1]][:, sent]


@dataclass(frozen=True, init=False, repr=False)
class FrequencyOracle(FromArguments, GivenEps0, BitRandomizer):
    """A randomizer of one of k categories, made for estimating how often each one is held.

    Args:
        categories: number k of values, 2 <= k <= 2^53.
        eps0: local privacy parameter in nats, finite, > 0.
    """

    arguments: ClassVar[tuple[str, ...]] = ("categories", "eps0")

    categories: int
    _eps0: float

    def __init__(self, *, categories: int, eps0: float) -> None:
        vars(self).update(
            categories=validate.integer(minimum=2, maximum=MOST_CATEGORIES, categories=categories),
            _eps0=validate.positive(eps0=eps0),
        )

    def at(self, eps0: float) -> Self:
        """The oracle with another eps0 and all other parameters, its size included, unchanged.

        A smaller one adds noise: to each bit (RAPPOR), to the choice between a column's signs
        (Hadamard), to the set or the bucket, by a uniformly random one now and then.
        """
        return type(self)(**{**self._written(), "eps0": eps0})
