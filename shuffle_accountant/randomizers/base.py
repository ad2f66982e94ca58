"""What every local randomizer can say about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "ConcreteRandomizer",
    "FiniteRandomizer",
    "LetterClasses",
    "LocalRandomizer",
    "Mixture",
]


@dataclass(frozen=True)
class Mixture:
    """A randomizer that tells the truth, or now and then a uniformly random value.

    Attributes:
        categories: number k of values.
        gamma: probability to answer uniformly at random over all k values, in [0, 1].
        truthful: ``1 - gamma``, without cancellation.
    """

    categories: int
    gamma: float
    truthful: float

    @property
    def keep_probability(self) -> float:
        """Probability that the message is the true value: ``1 - gamma + gamma/k``."""
        return min(self.truthful + self.lie_probability, 1.0)

    @property
    def lie_probability(self) -> float:
        """Probability of each one of the other k - 1 values: ``gamma/k``."""
        return self.gamma / self.categories


class LocalRandomizer(ABC):
    """A randomized map from one user's value to one message.

    Subclasses are frozen dataclasses: hashable, compared by value, and written to JSON as their
    ``kind`` and their fields. Of a direct subclass nothing but ``eps0`` is known, so all that is
    said of it holds for the worst randomizer of that parameter.

    Attributes:
        kind: name of the class in saved states, registered when the class is made.
        interactive: whether a user's randomizer may depend on the messages that users before it
            sent in the same round.
    """

    kind: ClassVar[str]
    kinds: ClassVar[dict[str, type[LocalRandomizer]]] = {}
    interactive: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Register the class under its ``kind``.

        Raises:
            ValueError: another class has that kind.
        """
        super().__init_subclass__(**options)
        if "kind" not in cls.__dict__:  # the abstract families have none
            return
        owner = LocalRandomizer.kinds.get(cls.kind, cls)
        # a decorator may make a class a second time
        if (owner.__module__, owner.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(
                f"kind must be a name of its own, got {cls.kind!r}, which is {owner.__qualname__}"
            )
        LocalRandomizer.kinds[cls.kind] = cls

    @property
    def inputs(self) -> int | None:
        """Number of inputs that measures ask about; None if only `eps0` is known."""
        return None

    @property
    def mixture(self) -> Mixture | None:
        """The randomizer as truth or a uniformly random value, where it is that; else None."""
        return None

    @property
    @abstractmethod
    def eps0(self) -> float:
        """Local privacy parameter, nats: the largest log-ratio of output probabilities."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `randomizer_from_dict` rebuilds an equal randomizer."""

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: dict[str, Any]) -> LocalRandomizer:
        """Inverse of `to_dict`, without the ``kind``."""


class ConcreteRandomizer(LocalRandomizer):
    """A randomizer that is known completely: it can be run, and it has a blanket.

    The *blanket* of a randomizer R is what all inputs share, ``m(y) = min over x of R(x)(y)``: with
    probability ``sum_y m(y)`` a message is a draw from it whatever the input (Balle et al. 2019).
    """

    @abstractmethod
    def randomize(self, values: ArrayLike, rng: np.random.Generator) -> NDArray[Any]:
        """Randomize each user's value independently.

        Args:
            values: the users' values, any shape.
            rng: source of randomness.

        Returns:
            One message per value: an array whose leading shape is that of ``values``.

        Raises:
            ValueError: a value that is not an input of this randomizer.
        """

    @property
    @abstractmethod
    def blanket_mass(self) -> float:
        """Probability, in [0, 1], that a message is a draw from the blanket."""


@dataclass(frozen=True, eq=False)
class LetterClasses:
    """The messages of a finite randomizer, grouped so that likelihood ratios are constant.

    Attributes:
        probabilities: chance of each class for each of the inputs asked for, shape (inputs, m).
        blanket: blanket mass of each class, shape (m,), its sum is the blanket's mass. Within a
            class every message has the same ratios between the inputs' probabilities and the
            blanket's.
    """

    probabilities: NDArray[np.float64]
    blanket: NDArray[np.float64]


class FiniteRandomizer(ConcreteRandomizer):
    """A randomizer with finitely many inputs 0 … ``inputs`` - 1 and finitely many messages."""

    @property
    @abstractmethod
    def inputs(self) -> int:
        """Number of inputs, >= 2."""

    @abstractmethod
    def classes(self, inputs: Sequence[int]) -> LetterClasses:
        """Messages grouped by their likelihood ratios between the given inputs and the blanket.

        Args:
            inputs: two or three inputs; they may repeat.
        """

    @abstractmethod
    def input_pairs(self) -> tuple[tuple[int, int], ...]:
        """Unordered pairs of distinct inputs that represent all pairs.

        Every pair of inputs looks like one of these up to renaming of messages.
        """

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether swapping the inputs of a pair only renames messages."""

    @abstractmethod
    def datasets(self) -> tuple[tuple[int, int, int], ...]:
        """Ordered triples (x0, x1, others) that represent all: the target's two values, x0 and x1
        distinct, and the one value that all other users hold.
        """  # noqa: D205
