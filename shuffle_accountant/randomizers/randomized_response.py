"""k-ary randomized response, and all randomizers that treat k categories alike.

Randomized response sends one's own value, or now and then a uniformly random one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import (
    FiniteRandomizer,
    FromArguments,
    GivenEps0,
    Mixture,
    RunsOnInputs,
    distinct_inputs,
    require_fields,
)
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES, category_values
from shuffle_accountant.randomizers.estimation import FrequencyEstimator

# Factor that rounds a privacy parameter up by more than a few operations can lose.
_UP = 1.0 + 2.0**-50


class CategoricalRandomizer(RunsOnInputs, FrequencyEstimator, FiniteRandomizer):
    """A randomizer of a value in 0 … ``categories`` - 1 for which no category is special.

    After any permutation of the categories, messages can be renamed to get the same randomizer.
    Hence all pairs of distinct inputs look like (0, 1), also the other way round, and all triples
    (x0, x1, others) with x0 != x1 like one of three: the others hold x0, x1, or a third value.
    """

    symmetric = True  # exchanging two categories only renames messages

    categories: int

    @property
    def inputs(self) -> int:
        """Number of inputs: the categories."""
        return self.categories

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


@dataclass(frozen=True, init=False, repr=False)
class RandomizedResponse(Mixture, FromArguments, GivenEps0, CategoricalRandomizer):
    """k-ary randomized response over the values 0 … ``categories`` - 1.

    With probability gamma the message is a uniformly random one of the k values (which may be the
    true one), else it is the true value. The two parameters say the same:

        gamma = k / (e^eps0 + k - 1),      eps0 = log(1 + (1 - gamma) k / gamma).

    The one that was given is kept exactly, the other one to a few units in its last place.
    Messages: integers in 0 … k - 1, of the values' shape.

    Args:
        categories: number k of values, 2 <= k <= 2^53.
        eps0: local privacy parameter in nats, in [0, inf]; at inf every message is the true value.

    Attributes:
        gamma: probability to answer at random, in [0, 1].
        truthful: ``1 - gamma``, without cancellation.
    """

    kind: ClassVar[str] = "randomized-response"

    _eps0: float
    truthful: float = field(compare=False)
    _given: str = field(compare=False)  # the name of the parameter that was given

    def __init__(self, *, categories: int, eps0: float) -> None:
        categories = _checked(categories)
        eps0 = validate.nonnegative(eps0=eps0) + 0.0  # turns a negative zero into zero
        if eps0 > 700.0:  # then 1 - gamma rounds to 1 for any number of categories
            half = math.exp(-0.5 * eps0)  # e^-eps0 itself may be too small for a double
            gamma, truthful = categories * half * half, 1.0
        else:
            gain = math.expm1(eps0)
            gamma, truthful = (x / (categories + gain) for x in (categories, gain))
        # JSON has no infinity, and gamma = 0 says the same
        given = "gamma" if math.isinf(eps0) else "eps0"
        self._set(categories, eps0, gamma, truthful, given)

    @classmethod
    def from_gamma(cls, *, categories: int, gamma: float) -> RandomizedResponse:
        """Randomized response with a given probability to answer at random.

        Args:
            categories: number k of values, 2 <= k <= 2^53.
            gamma: probability to answer uniformly at random over all k values, in [0, 1].
        """
        categories = _checked(categories)
        gamma = validate.closed_unit(gamma=gamma) + 0.0
        ratio = (1.0 - gamma) * categories / gamma if gamma > 0.0 else math.inf
        if gamma > 0.0 and math.isinf(ratio):  # then the one added to it does not matter
            eps0 = (math.log(categories) - math.log(gamma)) * _UP
        else:
            eps0 = math.log1p(ratio) * _UP
        made = cls.__new__(cls)
        made._set(categories, eps0, gamma, 1.0 - gamma, "gamma")
        return made

    def _set(self, categories: int, eps0: float, gamma: float, truthful: float, given: str) -> None:
        vars(self).update(
            categories=categories, _eps0=eps0, gamma=gamma, truthful=truthful, _given=given
        )

    def __repr__(self) -> str:
        made = ".from_gamma(" if self._given == "gamma" else "("
        return FromArguments.__repr__(self).replace("(", made, 1)

    def _written(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("categories", self._given)}

    def at(self, eps0: float) -> RandomizedResponse:
        """Randomized response over the same values with another eps0; the smaller adds noise."""
        return RandomizedResponse(categories=self.categories, eps0=eps0)

    @property
    def mixture(self) -> Mixture:
        """Its two parts: the truth, and a uniformly random value."""
        return Mixture(self.categories, self.gamma, self.truthful)

    @property
    def blanket_mass(self) -> float:
        """Probability that a message is a draw from the blanket: gamma."""
        return self.gamma

    def classes(self, inputs: Sequence[int]) -> Array:
        """Each input asked for is a message of its own, all other messages are one class."""
        asked, rows = distinct_inputs(inputs, self.categories)
        count = len(asked)
        blanket = np.full(count + 1, self.lie_probability)
        blanket[-1] = self.gamma * ((self.categories - count) / self.categories)
        probabilities = np.tile(blanket, (count, 1))
        np.fill_diagonal(probabilities, self.keep_probability)
        sent = np.any(probabilities > 0.0, axis=0)
        return np.vstack([probabilities[rows], blanket])[:, sent]

    def _messages(self, own: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
        truthful = rng.random(own.shape) < self.truthful
        return np.where(truthful, own, rng.integers(self.categories, size=own.shape))

    @property
    def yes_probabilities(self) -> tuple[float, float]:
        """A message says yes to the value it names."""
        return self.keep_probability, self.lie_probability

    def _counted(self, messages: Any) -> tuple[NDArray[np.int64], int]:
        named = category_values(messages, self.categories, name="messages")
        return np.bincount(named.ravel(), minlength=self.categories), named.size

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> RandomizedResponse:
        """Inverse of `to_dict`, without the ``kind``."""
        parameter = "gamma" if "gamma" in fields else "eps0"
        require_fields(cls.kind, fields, ("categories", parameter))
        return cls.from_gamma(**fields) if parameter == "gamma" else cls(**fields)


def BinaryRandomizedResponse(*, eps0: float) -> RandomizedResponse:  # noqa: N802
    """Warner's randomized response of one bit: `RandomizedResponse` with two categories.

    Args:
        eps0: local privacy parameter in nats, in [0, inf]. The bit is flipped with probability
            ``1 / (e^eps0 + 1)``.
    """
    return RandomizedResponse(categories=2, eps0=eps0)


def _checked(categories: int) -> int:
    return validate.integer(minimum=2, maximum=MOST_CATEGORIES, categories=categories)
