"""What a randomizer's blanket is to the target's inputs: its `Signal`, from below and above."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.leakage.laws import law
from shuffle_accountant.leakage.mutual_information.blanket_information import Signal
from shuffle_accountant.leakage.mutual_information.ones import bit_signal
from shuffle_accountant.numerics.rounding import Array, sequential_sum
from shuffle_accountant.randomizers.base import ConcreteRandomizer, FiniteRandomizer, Mixture

__all__ = ["signals"]

# Patterns of bits at so many inputs are listed, 2^12 of them.
_MOST_BITS = 12
# How finely a line of messages is cut, and what of it may be left out.
_TAIL, _RESOLUTION = 1e-30, 1e-4
# Of the masses of cells of messages, relative, beside what the randomizer says.
_CELL_ERROR = 1e-13


def signals(randomizer: ConcreteRandomizer, prior: ArrayLike | None) -> tuple[Signal, Signal]:
    """A signal that tells at most as much as the randomizer's, and one that tells at least as much.

    Args:
        randomizer: any whose law is known.
        prior: law of the inputs, uniform if None.

    Raises:
        ValueError: a prior that is no law of the inputs, or that must be given or be simpler.
    """
    if randomizer.mixture is not None:
        return _twice(_mixed(randomizer.mixture, prior))
    if not isinstance(randomizer, FiniteRandomizer):
        return _cells(randomizer, _prior(prior, randomizer.inputs))
    if not randomizer.classes_double:
        return _listed(randomizer, _prior(prior, randomizer.inputs))
    name = type(randomizer).__name__
    if prior is None:
        answers = randomizer.yes_counts()
        if answers is None:
            raise ValueError(f"prior must be given for a {name}, got None")
        return _twice(bit_signal(answers, randomizer.eps0))
    weights = _prior(prior, randomizer.inputs)
    held = np.count_nonzero(weights > 0.0)
    if held > _MOST_BITS:
        raise ValueError(
            f"prior must be None or positive at no more than {_MOST_BITS} inputs for a {name}, "
            f"got {held}"
        )
    return _listed(randomizer, weights)


def _mixed(mixture: Mixture, prior: ArrayLike | None) -> Signal:
    """Classes: whether the message is the target's own value, and the prior of the message's value.

    A message's ratio to the blanket is e^eps0 or 1, so one row stands for all values.
    """
    k, keep, lie = mixture.categories, mixture.keep_probability, mixture.lie_probability
    if prior is None:
        held, alike = np.array([1.0 / k]), np.array([float(k)])
    else:
        held, counts = np.unique(_prior(prior, k), return_counts=True)
        alike = counts.astype(np.float64)
    own, other = alike * held, alike * (1.0 - held)
    row = np.concatenate([own * keep, other * lie])
    each = np.tile(lie + mixture.truthful * held, 2)
    blanket = lie * np.concatenate([own, other])
    mean = each * np.concatenate([own, other])
    sent = (mean > 0.0) | (row > 0.0)
    return Signal(np.ones(1), row[None, sent], mean[sent], blanket[sent])


def _listed(randomizer: FiniteRandomizer, weights: Array) -> tuple[Signal, Signal]:
    """All classes of messages at the inputs that the prior allows."""
    held = np.flatnonzero(weights > 0.0)
    classes = randomizer.classes(held.tolist())
    rows = classes.probabilities
    mean = weights[held] @ rows
    return _twice(Signal(weights[held], rows, mean, classes.blanket, _sums(len(held))))


def _cells(randomizer: ConcreteRandomizer, weights: Array) -> tuple[Signal, Signal]:
    """Two inputs on a line: merged cells tell less, cells split over their ends more."""
    made = []
    held = weights > 0.0
    for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC):
        found = randomizer.letters((0, 1), side, tail=_TAIL, resolution=_RESOLUTION)
        rows = found.probabilities
        sent = rows.any(axis=0)
        rows = rows[:, sent]
        inexact = 4.0 * float(np.max(found.error, initial=0.0)) + _CELL_ERROR
        made.append(Signal(weights[held], rows[held], weights @ rows, found.blanket[sent], inexact))
    return made[0], made[1]


def _sums(terms: int) -> float:
    """Relative error of sums of so many positive terms, each of a few roundings."""
    return sequential_sum(2 * terms, own=64)


def _twice(signal: Signal) -> tuple[Signal, Signal]:
    return signal, signal


def _prior(prior: ArrayLike | None, inputs: int) -> Array:
    if prior is None:
        return np.full(inputs, 1.0 / inputs)
    weights = law(prior=prior)
    if weights.size != inputs:
        raise ValueError(
            f"prior must have one entry per input, of which there are {inputs}; got {weights.size}"
        )
    return weights
