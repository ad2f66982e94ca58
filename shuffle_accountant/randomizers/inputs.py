"""What randomizers over categories share: their checks, and one base for frequency oracles."""

from __future__ import annotations

import dataclasses
import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.base import FiniteRandomizer, LetterClasses

__all__ = [
    "MOST_CATEGORIES",
    "FrequencyOracle",
    "checked_rng",
    "checked_values",
    "distinct_inputs",
    "share_of_everyone",
]

# Every count up to this one is a double.
MOST_CATEGORIES = 2**53


def checked_values(values: ArrayLike, inputs: int) -> NDArray[np.int64]:
    """The users' values as an array, if each is an input.

    Args:
        values: integers, any shape; empty is allowed.
        inputs: number of inputs, which are 0 … ``inputs`` - 1.

    Raises:
        TypeError: values that are not integers (floats, bools, objects).
        ValueError: a value outside the range, or lists of unequal lengths.
    """
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError("values must be an array, got nested lists of unequal lengths") from None
    if array.size == 0:
        return np.zeros(array.shape, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"values must be integers, got an array of {array.dtype}")
    smallest, largest = int(array.min()), int(array.max())
    if smallest < 0 or largest >= inputs:
        wrong = smallest if smallest < 0 else largest
        raise ValueError(f"values must be between 0 and {inputs - 1}, got {wrong}")
    return array.astype(np.int64)


def checked_rng(rng: object) -> np.random.Generator:
    """The source of randomness, if it is one.

    Raises:
        TypeError: not a `numpy.random.Generator`.
    """
    return validate.instance(np.random.Generator, rng=rng)


def distinct_inputs(asked: Sequence[int], inputs: int) -> tuple[tuple[int, ...], list[int]]:
    """The different inputs among those asked for, and where each one asked for is among them.

    Args:
        asked: two or three inputs; they may repeat.
        inputs: number of inputs, which are 0 … ``inputs`` - 1.

    Returns:
        ``(distinct, where)`` with ``distinct[where[i]] == asked[i]``.

    Raises:
        TypeError: an input that is not an integer.
        ValueError: an input outside the range, or neither two nor three of them.
    """
    if len(asked) not in (2, 3):
        raise ValueError(f"inputs must be two or three, got {len(asked)}")
    checked = [validate.integer(minimum=0, maximum=inputs - 1, inputs=value) for value in asked]
    distinct = tuple(dict.fromkeys(checked))
    return distinct, [distinct.index(value) for value in checked]


@dataclass(frozen=True, init=False, repr=False)
class FrequencyOracle(FiniteRandomizer):
    """A randomizer over categories of which every message *supports* a set of them.

    ``P[R(x) = y]`` is ``e^eps0`` times larger if y supports x than if it does not, and all ordered
    pairs of different categories look alike up to renaming of messages.

    Args:
        categories: number of inputs, from 2 to 2^53.
        eps0: local privacy parameter in nats, finite, >= 0.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
    """

    categories: int
    _eps0: float

    def __init__(self, *, categories: int, eps0: float) -> None:
        count = validate.integer(minimum=2, maximum=MOST_CATEGORIES, categories=categories)
        object.__setattr__(self, "categories", count)
        # + 0.0 turns a negative zero into zero
        object.__setattr__(self, "_eps0", validate.finite_nonnegative(eps0=eps0) + 0.0)

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in self._parameters().items())
        return f"{type(self).__name__}({parameters})"

    @property
    def eps0(self) -> float:
        """Local privacy parameter, nats: the largest log-ratio of output probabilities."""
        return self._eps0

    @property
    def inputs(self) -> int:
        """Number of inputs: the categories."""
        return self.categories

    @property
    def symmetric(self) -> bool:
        """True: swapping the inputs of a pair only renames messages."""
        return True

    def input_pairs(self) -> tuple[tuple[int, int], ...]:
        """One pair: all pairs of categories look alike."""
        return ((0, 1),)

    def datasets(self) -> tuple[tuple[int, int, int], ...]:
        """The others hold the target's first value, its second, or (of 3 or more) a third one."""
        return tuple((0, 1, others) for others in range(min(self.categories, 3)))

    def classes(self, inputs: Sequence[int]) -> LetterClasses:
        """Messages grouped by which of the given inputs, and whether all inputs, they support.

        Args:
            inputs: two or three inputs; they may repeat.

        Returns:
            At most nine classes, however many messages there are.

        Raises:
            TypeError: an input that is not an integer.
            ValueError: not an input of this randomizer, or neither two nor three of them.
        """
        distinct, where = distinct_inputs(inputs, self.categories)
        count = len(distinct)
        # the last pattern appears twice: some category is unsupported, or none is
        patterns = [*itertools.product((False, True), repeat=count), (True,) * count]
        supported = np.array(patterns)
        everyone = np.arange(len(patterns)) == len(patterns) - 1
        high, low = self._masses(distinct, supported.sum(axis=1), everyone)
        probabilities = np.where(supported.T, high, low)[where]
        blanket = np.where(everyone, high, low)
        sent = probabilities.any(axis=0) | (blanket > 0.0)
        return LetterClasses(probabilities[:, sent], blanket[sent])

    @abstractmethod
    def _masses(
        self, distinct: tuple[int, ...], supported: NDArray[np.int64], everyone: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Chance of each class if the input is one that its messages support, and if not.

        Args:
            distinct: different inputs, at most three.
            supported: how many of them the messages of each class support.
            everyone: whether they support all categories; without it, a class that supports all of
                ``distinct`` has the messages that do not support some other category.
        """

    def _parameters(self) -> dict[str, Any]:
        names = [field.name for field in dataclasses.fields(self)]
        return {name.removeprefix("_"): getattr(self, name) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `randomizer_from_dict` rebuilds an equal randomizer."""
        return {"kind": self.kind, **self._parameters()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Inverse of `to_dict`, without the ``kind``."""
        expected = [field.name.removeprefix("_") for field in dataclasses.fields(cls)]
        if set(fields) != set(expected):
            raise ValueError(
                f"randomizer of kind {cls.kind!r} must have fields {', '.join(expected)}, "
                f"got {sorted(fields)!r:.60}"
            )
        return cls(**fields)


def share_of_everyone(
    supported: NDArray[np.int64], count: int, everyone: NDArray[np.bool_], log_chance: float
) -> NDArray[np.float64]:
    """Which part of a pattern of supported inputs each class is.

    Args:
        supported: how many of the inputs asked for are supported, by class.
        count: number of inputs asked for.
        everyone: whether all categories are supported, by class.
        log_chance: log of the chance, given that all inputs asked for are supported, that all
            categories are.
    """
    rest = np.where(supported == count, -np.expm1(log_chance), 1.0)
    return np.where(everyone, np.exp(log_chance), rest)
