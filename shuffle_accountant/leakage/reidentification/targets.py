"""Laws of one user's message, when the input is fixed or itself drawn from a known law.

A user whose input is drawn from V sends a message of distribution ``R*(V) = sum_x V(x) R(x)``.
The blanket of R* is that of R, for no mixture of rows is below their least entry.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger
from shuffle_accountant.leakage.arguments import law
from shuffle_accountant.leakage.reidentification.continuous import success_from_tails
from shuffle_accountant.leakage.reidentification.success import (
    Layers,
    clones_psi,
    hits_error,
    layers,
)
from shuffle_accountant.numerics.rounding import (
    Array,
    exponential,
    pairwise_sum,
    product,
    roundings,
)
from shuffle_accountant.randomizers.base import FiniteRandomizer, LocalRandomizer
from shuffle_accountant.randomizers.continuous import ContinuousRandomizer
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

# Most inputs m of a frequency oracle: its messages form 2^m classes, by their bits at these inputs.
_MOST_BITS = 15


@dataclass(frozen=True)
class Input:
    """A distribution of inputs: those that have a positive chance, and the chances, of sum one."""

    values: tuple[int, ...]
    chances: tuple[float, ...]


def checked_input(inputs: int, **named: int | ArrayLike) -> Input:
    """The one named argument: an input 0 … ``inputs`` - 1, or a distribution of them."""
    ((name, value),) = named.items()
    try:
        dimensions = np.ndim(value)
    except ValueError:  # nested lists of different lengths, which are no distribution
        dimensions = 1
    if dimensions == 0:
        return Input((validate.integer(minimum=0, maximum=inputs - 1, **{name: value}),), (1.0,))
    chances = law(**{name: value})
    if chances.size != inputs:
        raise ValueError(
            f"{name} must have one chance for each of {inputs} inputs, got {chances.size}"
        )
    held = np.flatnonzero(chances)
    return Input(tuple(held.tolist()), tuple(chances[held].tolist()))


def message_laws(randomizer: FiniteRandomizer, *inputs: Input) -> tuple[Array, Array]:
    """Distributions of the messages of users with the given inputs, and the blanket.

    Shapes (len(inputs), messages) and (messages,). Messages are classes of messages that these
    inputs and the blanket do not distinguish.
    """
    held = tuple(dict.fromkeys(x for one in inputs for x in one.values))
    place = {x: i for i, x in enumerate(held)}
    chances = np.zeros((len(inputs), len(held)))
    for row, one in zip(chances, inputs, strict=True):
        row[[place[x] for x in one.values]] = one.chances
    mixture = randomizer.mixture
    if mixture is not None:  # every input that is held is a message, all others are one
        blanket = np.full(len(held) + 1, mixture.lie_probability)
        blanket[-1] = mixture.gamma * ((mixture.categories - len(held)) / mixture.categories)
        return mixture.truthful * np.pad(chances, ((0, 0), (0, 1))) + blanket, blanket
    if randomizer.classes_double and len(held) > _MOST_BITS:
        raise ValueError(
            f"target and others must hold at most {_MOST_BITS} inputs with a positive chance "
            f"between them for {type(randomizer).__name__}, got {len(held)}"
        )
    classes = randomizer.classes(held)
    return chances @ classes[:-1], classes[-1]


# What a randomizer computes of its parameters is good to a few units in the last place.
_OWN_ERROR = pairwise_sum(own=8)

_LARGEST_LOG = math.log(sys.float_info.max)

T = TypeVar("T")


class Targets(ABC, Generic[T]):
    """The targets of one randomizer, by their inputs, of which one in ``worst`` is the worst."""

    worst: tuple[T, ...]

    @abstractmethod
    def checked(self, target: object) -> T:
        """A target as its user names it, if there is such a one."""

    @abstractmethod
    def log_ratio(self, target: T) -> float:
        """Logarithm (nats) of the largest ratio of the target's distribution to the common part."""

    def ratio(self, target: T) -> float:
        """The largest ratio itself, inf where it is too large for a double."""
        log_ratio = self.log_ratio(target)
        return math.exp(log_ratio) if log_ratio < _LARGEST_LOG else math.inf

    @abstractmethod
    def blanket(self, target: T, users: int, guesses: int) -> Bracket:
        """Bracket of psi for the largest common part: an upper bound for all datasets."""

    @abstractmethod
    def attained(self, target: T, users: int, guesses: int) -> float:
        """Success probability, at least, of datasets in which all others hold one input."""


def rounded(value: float, error: float, name: str) -> Bracket:
    """A probability computed with a relative error, as the bracket that it stands for."""
    lower, upper = min(value * (1.0 - error), 1.0), min(value * (1.0 + error), 1.0)
    ledger = ErrorLedger(round_off=upper - lower)
    return Bracket(lower=lower, upper=upper, ledger=ledger, reduction=name)


def clones_bracket(log_ratio: float, users: int, guesses: int) -> Bracket:
    """Psi of the clones, given the logarithm of the largest ratio; 1 where that is infinite."""
    if log_ratio == math.inf:
        return Bracket(lower=1.0, upper=1.0, reduction="clones")
    value = clones_psi(math.exp(-log_ratio), users=users, guesses=guesses)
    # above 800 e^-x, and what n clones hide, are zero to a double
    exponent = min(log_ratio, 800.0)
    error = product(_OWN_ERROR, exponential(roundings(4) * exponent), hits_error(guesses))
    return rounded(value, error, "clones")


class _FiniteTargets(Targets[Input]):
    def __init__(self, randomizer: FiniteRandomizer) -> None:
        self._randomizer = randomizer
        # every input looks like one of these: each is in a pair, and these pairs stand for all
        inputs = {x for pair in randomizer.input_pairs() for x in pair}
        self.worst = tuple(Input((x,), (1.0,)) for x in sorted(inputs))

    def checked(self, target: object) -> Input:
        return checked_input(self._randomizer.inputs, target=target)  # type: ignore[arg-type]

    def _sent(self, target: Input) -> tuple[Array, Array]:
        """Chances of the messages that the target sends, its own and the common ones."""
        (own,), common = message_laws(self._randomizer, target)
        return own[own > 0.0], common[own > 0.0]

    def log_ratio(self, target: Input) -> float:
        own, common = self._sent(target)
        if np.any(common == 0.0):
            return math.inf
        return max(float(np.max(np.log(own) - np.log(common))), 0.0)

    def ratio(self, target: Input) -> float:
        if self.log_ratio(target) >= _LARGEST_LOG:
            return math.inf
        own, common = self._sent(target)
        return max(float(np.max(own / common)), 1.0)

    def blanket(self, target: Input, users: int, guesses: int) -> Bracket:
        (own,), common = message_laws(self._randomizer, target)
        value = layers(own, common).success(users, guesses)
        return rounded(value, Layers.error(guesses) + _OWN_ERROR, "blanket")

    def attained(self, target: Input, users: int, guesses: int) -> float:
        best = guesses / users
        for x in self._randomizer.others(target.values):
            (own, other), _ = message_laws(self._randomizer, target, Input((x,), (1.0,)))
            best = max(best, layers(own, other).success(users, guesses))
        return best * (1.0 - Layers.error(guesses) - _OWN_ERROR)


class _ContinuousTargets(Targets[float]):
    def __init__(self, randomizer: ContinuousRandomizer) -> None:
        self._randomizer, self.worst = randomizer, randomizer.worst_inputs

    def checked(self, target: object) -> float:
        return self._randomizer.checked_input(target=target)

    def log_ratio(self, target: float) -> float:
        return self._randomizer.log_ratio(target)

    def blanket(self, target: float, users: int, guesses: int) -> Bracket:
        tails = self._randomizer.ratio_tails(target, None)
        return success_from_tails(tails, users, guesses, "blanket")

    def attained(self, target: float, users: int, guesses: int) -> float:
        """All others hold the input that is further away."""
        other = 0.0 if target >= 0.5 else 1.0
        tails = self._randomizer.ratio_tails(target, other, unresolved=guesses / users)
        return success_from_tails(tails, users, guesses, "one dataset").lower


@dataclass(frozen=True)
class _GeneralTargets(Targets[object]):
    """Targets of a randomizer of which only eps0 is known, so that all inputs are alike."""

    eps0: float
    worst = (None,)

    def checked(self, target: object) -> object:
        raise ValueError(
            f"target must be None for a randomizer of which only eps0 is known, got "
            f"{validate.shown(target)}"
        )

    def log_ratio(self, target: object) -> float:
        return self.eps0

    def blanket(self, target: object, users: int, guesses: int) -> Bracket:
        """All that must be common is what the clones take."""
        return clones_bracket(self.eps0, users, guesses)

    def attained(self, target: object, users: int, guesses: int) -> float:
        """Binary randomized response is one of these randomizers."""
        response = targets(RandomizedResponse(categories=2, eps0=self.eps0))
        return response.attained(response.worst[0], users, guesses)


def targets(randomizer: LocalRandomizer) -> Targets[Any]:
    """The targets of a randomizer.

    If only its local privacy parameter is known, the data of an interactive randomizer are shuffled
    before it runs. That changes nothing here: given which positions hold clones of the target, all
    of them are equally likely to be its own.
    """
    if isinstance(randomizer, FiniteRandomizer):
        return _FiniteTargets(randomizer)
    if isinstance(randomizer, ContinuousRandomizer):
        return _ContinuousTargets(randomizer)
    return _GeneralTargets(randomizer.eps0)
