"""Base classes of local randomizers: eps0, message likelihoods, blanket, and running on data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.numerics.rounding import Array, Bound
from shuffle_accountant.randomizers.checks import category_values, generator
from shuffle_accountant.registry import Kinds

Inputs = tuple[int, int]
"""The target's input under a dataset, and under its neighbour."""

Letters = tuple[Array, float | Array]
"""Probabilities of messages from two inputs and in the blanket, and bounds on their errors."""


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

    Subclasses are frozen dataclasses. Of a direct one nothing but ``eps0`` is known, so all that is
    said of it holds for the worst randomizer of that parameter.

    Attributes:
        kind: name of the class in saved states, registered when the class is made.
        interactive: whether a user's randomizer may depend on the messages that users before it
            sent in the same round.
    """

    kind: ClassVar[str]
    kinds: ClassVar[Kinds[LocalRandomizer]] = Kinds("randomizer")
    interactive: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Register the class under its ``kind``; the abstract families have none."""
        super().__init_subclass__(**options)
        LocalRandomizer.kinds.add(cls)

    def __post_init__(self) -> None:
        """Check what a subclass says of itself: dataclasses do this when one is made."""
        with said_of(self):
            eps0 = self.eps0
        validate.nonnegative(**{f"eps0 of {type(self).__name__}": eps0})

    @property
    def inputs(self) -> int | None:
        """Number of inputs that measures ask about; None if only `eps0` is known."""
        return None

    @property
    def values(self) -> int | None:
        """Number of values that a user may hold; None if unknown, or a continuum."""
        return None

    @property
    def mixture(self) -> Mixture | None:
        """The randomizer as truth or a uniformly random value, where it is that; else None."""
        return None

    @property
    def normal_noise(self) -> float | None:
        """Standard deviation of normal noise on the inputs 0 and 1, where it is that; else None."""
        return None

    @property
    def noisy_vectors(self) -> float | None:
        """Deviation of normal noise on vectors of norm at most 1, where it is that; else None."""
        return None

    @property
    def adjacency(self) -> Adjacency:
        """Adjacency of rounds of this randomizer: replace-one, unless a subclass overrides it."""
        return Adjacency.REPLACE_ONE

    @property
    @abstractmethod
    def eps0(self) -> float:
        """Local privacy parameter, nats: the largest log-ratio of output probabilities."""

    def at(self, eps0: float) -> LocalRandomizer | None:
        """The randomizer with another eps0, if a smaller eps0 only adds noise; else None.

        That is: if for every pair of parameters (nats, finite, > 0) the randomizer of the smaller
        one is that of the larger one followed by a kernel. Rounds of different parameters are then
        ordered by them. None is always safe.
        """
        return None

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions under which messages have the stated distribution; no final full stops."""
        return ()

    @property
    def delta0(self) -> float:
        """The delta of the local (eps0, delta0) guarantee: 0 unless a subclass overrides it."""
        return 0.0

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `randomizer_from_dict` rebuilds an equal randomizer."""

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: dict[str, Any]) -> LocalRandomizer:
        """Inverse of `to_dict`, without the ``kind``."""


@contextmanager
def said_of(randomizer: LocalRandomizer) -> Iterator[None]:
    """Errors of types, values and arithmetic in a subclass's own code name the class."""
    try:
        yield
    except (TypeError, ValueError, ArithmeticError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{type(randomizer).__name__} must have other arguments: {error}") from error


class RunsOnData(ABC):
    """Randomizers that can be run on data, even if their distribution is not in closed form."""

    @abstractmethod
    def randomize(self, values: Any, rng: np.random.Generator | None = None, /) -> Any:
        """Randomize each user's value (along the first axes) independently, one message per value.

        The source of randomness is by default the operating system's cryptographic one.
        """


class ConcreteRandomizer(LocalRandomizer):
    """A randomizer with known distributions of its messages, which therefore has a blanket.

    The *blanket* of a randomizer R is what all inputs share, ``m(y) = min over x of R(x)(y)``: with
    probability ``sum_y m(y)`` a message is a draw from it whatever the input (Balle et al. 2019).
    """

    @property
    @abstractmethod
    def inputs(self) -> int:
        """Number of inputs that can be asked about, >= 2; they are called 0, 1 and so on."""

    @property
    def values(self) -> int | None:
        """Number of values that a user may hold: the inputs; None where they are a continuum."""
        return self.inputs

    @property
    @abstractmethod
    def blanket_mass(self) -> float:
        """Probability, in [0, 1], that a message is a draw from the blanket."""

    def input_pairs(self) -> tuple[tuple[int, int], ...]:
        """Unordered pairs of distinct inputs that represent all: one of them is always worst."""
        return tuple(combinations(range(self.inputs), 2))

    @property
    def symmetric(self) -> bool:
        """Whether swapping the inputs of a pair only renames messages; False is always safe."""
        return False

    @abstractmethod
    def letters(self, inputs: Inputs, side: Bound, *, tail: float, resolution: float) -> Letters:
        """Finitely many messages that bound the true ones on one side, for a pair of inputs.

        Args:
            inputs: the target's input under the dataset X, and under its neighbour X'.
            side: whether the classes reveal at least as much as the messages (PESSIMISTIC), or at
                most as much (OPTIMISTIC).
            tail: probability mass that may be given away (PESSIMISTIC) or ignored, > 0.
            resolution: about the square of a class's range of log-likelihood ratios, > 0.

        Returns:
            The probabilities of each message from the two inputs and in the blanket, shape (3, m),
            the blanket's adding up to its mass; and a bound on their relative error beyond some
            units in the last place, one number or one for each message.
        """


class RunsOnInputs(RunsOnData, ConcreteRandomizer):
    """Randomizers with known distributions that can be run on values 0 … ``inputs`` - 1."""

    def randomize(self, values: ArrayLike, rng: np.random.Generator | None = None) -> NDArray[Any]:
        """Randomize each user's value independently.

        Args:
            values: inputs of the randomizer, any shape: integers in 0 … ``inputs`` - 1, unless the
                class says that they are a continuum.
            rng: source of randomness; by default the operating system's cryptographic one.

        Returns:
            The messages, in the form that the class states, for values of the same shape.
        """
        return self._messages(self._checked_values(values), generator(rng))

    def _checked_values(self, values: ArrayLike) -> NDArray[Any]:
        return category_values(values, self.inputs)

    @abstractmethod
    def _messages(self, own: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Messages of the values, which have been checked."""


@dataclass(frozen=True, eq=False)
class YesCounts:
    """Distribution of the number of yeses of a message that says yes or no to k categories.

    With f a law of messages that does not depend on the input, a message y has chance ``f(y) high``
    from an input that it says yes to, else ``f(y) low``.

    Attributes:
        categories: number k of categories.
        own: probability of a yes to one's own category.
        foreign: probabilities of a no and of a yes to another category.
        rate: under f, the chance of a yes to each category, if these are independent; else None.
        counts: numbers j of yes, shape (m,); empty if there are too many categories, whose
            answers are independent.
        yes: under f, the joint probability of j and a yes to a uniformly random category.
        no: the same with a no.
    """

    categories: int
    own: float
    foreign: tuple[float, float]
    rate: float | None
    counts: Array
    yes: Array
    no: Array


class FiniteRandomizer(ConcreteRandomizer):
    """A randomizer with finitely many inputs 0 … ``inputs`` - 1 and finitely many messages.

    Attributes:
        classes_double: whether each further input asked for doubles the number of classes.
    """

    classes_double: ClassVar[bool] = False

    @property
    def representable(self) -> bool:
        """Whether all message probabilities are well above the smallest positive doubles."""
        return True

    @abstractmethod
    def classes(self, inputs: Sequence[int]) -> Array:
        """Probabilities of messages, those of equal likelihood ratios added up.

        Args:
            inputs: usually two or three; they may repeat.

        Returns:
            A row for each input and a last one for the blanket, which adds up to its mass; shape
            ``(len(inputs) + 1, m)``.
        """

    def letters(self, inputs: Inputs, side: Bound, *, tail: float, resolution: float) -> Letters:
        """The classes of messages themselves, on either side."""
        return self.classes(inputs), 0.0

    def matrix(self) -> Array:
        """Channel matrix of all inputs, as informative as the messages; a row for each input."""
        return self.classes(range(self.inputs))[:-1]

    @property
    def blanket_mass(self) -> float:
        """Probability, in [0, 1], that a message is a draw from the blanket."""
        return min(math.fsum(self.classes((0,))[-1].tolist()), 1.0)

    def datasets(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (x0, x1, others), x0 != x1, that represent all: others hold one value."""
        every = range(self.inputs)
        return tuple((a, b, other) for (a, b), other in product(permutations(every, 2), every))

    def others(self, held: tuple[int, ...]) -> Sequence[int]:
        """Inputs that another user may hold, up to renamings that leave the ``held`` ones fixed."""
        return range(self.inputs)

    def yes_counts(self) -> YesCounts | None:
        """Distribution of the number of yeses, where that and one's own suffice; else None."""
        return None


class GivenEps0(LocalRandomizer):
    """A randomizer whose local privacy parameter is given."""

    _eps0: float

    @property
    def eps0(self) -> float:
        """Local privacy parameter, nats."""
        return self._eps0


def require_fields(kind: str, fields: dict[str, Any], names: Collection[str]) -> None:
    """Check that saved fields are the ones expected."""
    if set(fields) != set(names):
        expected = " and ".join(names)
        raise ValueError(f"{kind} randomizer must have fields {expected}, got {sorted(fields)}")


class FromArguments(LocalRandomizer):
    """A randomizer that is written, shown and compared as the arguments of its constructor.

    Attributes:
        arguments: the constructor's arguments, each of which is also an attribute of plain JSON
            type, or an array.
    """

    arguments: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._written().items())
        return f"{type(self).__name__}({shown})"

    def _written(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.arguments}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"kind": self.kind, **self._written()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Inverse of `to_dict`, without the ``kind``."""
        require_fields(cls.kind, fields, cls.arguments)
        return cls(**fields)


def distinct_inputs(inputs: Sequence[int], count: int) -> tuple[tuple[int, ...], NDArray[np.intp]]:
    """The distinct ones of the inputs, of which ``count`` exist, and which of them each one is."""
    asked = [validate.integer(minimum=0, maximum=count - 1, inputs=x) for x in inputs]
    if not asked:
        raise ValueError("inputs must hold at least one input, got none")
    rank = {x: i for i, x in enumerate(dict.fromkeys(asked))}
    return tuple(rank), np.array([rank[x] for x in asked])
