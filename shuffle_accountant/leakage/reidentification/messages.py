"""Laws of one user's message, when the input is fixed or itself drawn from a known law.

A user whose input is drawn from V sends a message of law ``R*(V) = sum_x V(x) R(x)``. The blanket
of R* is that of R, for no mixture of rows is below their least entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.laws import law
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import FiniteRandomizer

__all__ = ["Input", "checked_input", "message_laws"]

# Most inputs m of a frequency oracle: its messages form 2^m classes, by their bits at these inputs.
_MOST_BITS = 15


@dataclass(frozen=True)
class Input:
    """A law of inputs.

    Attributes:
        values: the inputs that have a positive chance.
        chances: their chances, of sum one.
    """

    values: tuple[int, ...]
    chances: tuple[float, ...]


def checked_input(inputs: int, **named: int | ArrayLike) -> Input:
    """The one named argument: an input 0 … ``inputs`` - 1, or a law of them."""
    ((name, value),) = named.items()
    try:
        dimensions = np.ndim(value)
    except ValueError:  # nested lists of different lengths, which are no law
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


def message_laws(randomizer: FiniteRandomizer, inputs: Sequence[Input]) -> tuple[Array, Array]:
    """Laws of the messages of users with the given inputs, and the blanket.

    Args:
        randomizer: what the users apply.
        inputs: their laws of inputs.

    Returns:
        ``(laws, blanket)``, shapes (len(inputs), letters) and (letters,). Letters are classes of
        messages that these inputs and the blanket do not distinguish.

    Raises:
        ValueError: too many inputs for a randomizer whose classes double with each one.
    """
    held, chances = _mixtures(inputs)
    mixture = randomizer.mixture
    if mixture is not None:  # every input that is held is a letter, all others are one
        blanket = np.full(len(held) + 1, mixture.lie_probability)
        blanket[-1] = mixture.gamma * ((mixture.categories - len(held)) / mixture.categories)
        return mixture.truthful * np.pad(chances, ((0, 0), (0, 1))) + blanket, blanket
    if randomizer.classes_double and len(held) > _MOST_BITS:
        raise ValueError(
            f"target and others must hold at most {_MOST_BITS} inputs with a positive chance "
            f"between them for {type(randomizer).__name__}, got {len(held)}"
        )
    classes = randomizer.classes(held)
    return chances @ classes.probabilities, classes.blanket


def _mixtures(inputs: Sequence[Input]) -> tuple[tuple[int, ...], Array]:
    """The inputs that are held at all, and the chances of each, one row for each law."""
    held = tuple(dict.fromkeys(x for one in inputs for x in one.values))
    place = {x: i for i, x in enumerate(held)}
    chances = np.zeros((len(inputs), len(held)))
    for row, one in zip(chances, inputs, strict=True):
        row[[place[x] for x in one.values]] = one.chances
    return held, chances
