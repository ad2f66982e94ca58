"""What a randomizer's blanket is to the target's inputs: its `Signal`, from below and above."""

from __future__ import annotations

from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.leakage.laws import law
from shuffle_accountant.leakage.mutual_information.ones import bit_signal
from shuffle_accountant.leakage.mutual_information.ratios import Array
from shuffle_accountant.leakage.mutual_information.signal import Signal
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.sources import GaussianBlanketPair, LaplacePair
from shuffle_accountant.numerics.binomial import UNIT_ROUNDOFF
from shuffle_accountant.randomizers.base import FiniteRandomizer, LocalRandomizer
from shuffle_accountant.randomizers.categorical import BitRandomizer
from shuffle_accountant.randomizers.discrete import DiscreteRandomizer
from shuffle_accountant.randomizers.gaussian import GaussianRandomizer
from shuffle_accountant.randomizers.laplace import LaplaceRandomizer
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

__all__ = ["signals"]

# Patterns of bits at so many inputs are listed, 2^12 of them.
_MOST_BITS = 12
# How finely a line of messages is cut, and what of it may be left out.
_EFFORT = Effort(tail=1e-30, resolution=1e-4)
# Of the masses of cells of messages, relative.
_CELL_ERROR, _NORMAL_CELL_ERROR = 1e-13, 4e-11


@singledispatch
def signals(randomizer: LocalRandomizer, prior: ArrayLike | None) -> tuple[Signal, Signal]:
    """A signal that tells at most as much as the randomizer's, and one that tells at least as much.

    Args:
        randomizer: any known completely.
        prior: law of the inputs, uniform if None.
    """
    raise ValueError(f"randomizer must be known completely, got {type(randomizer).__name__}")


@signals.register
def _(randomizer: DiscreteRandomizer, prior: ArrayLike | None) -> tuple[Signal, Signal]:
    weights = _prior(prior, randomizer.inputs)
    channel = randomizer.channel
    held = weights > 0.0
    return _twice(
        Signal(
            weights[held], channel[held], weights @ channel, channel.min(axis=0), _sums(len(held))
        )
    )


@signals.register
def _(randomizer: RandomizedResponse, prior: ArrayLike | None) -> tuple[Signal, Signal]:
    """Classes: whether the message is the target's own value, and the prior of the message's value.

    A message's ratio to the blanket is e^eps0 or 1, so one row stands for all values.
    """
    k, keep, lie = randomizer.categories, randomizer.keep_probability, randomizer.lie_probability
    if prior is None:
        held, alike = np.array([1.0 / k]), np.array([float(k)])
    else:
        held, counts = np.unique(_prior(prior, k), return_counts=True)
        alike = counts.astype(np.float64)
    own, other = alike * held, alike * (1.0 - held)
    row = np.concatenate([own * keep, other * lie])
    each = np.tile(lie + randomizer.truthful * held, 2)
    blanket = lie * np.concatenate([own, other])
    mean = each * np.concatenate([own, other])
    sent = (mean > 0.0) | (row > 0.0)
    return _twice(Signal(np.ones(1), row[None, sent], mean[sent], blanket[sent]))


@signals.register
def _(randomizer: BitRandomizer, prior: ArrayLike | None) -> tuple[Signal, Signal]:
    if prior is None:
        return _twice(bit_signal(randomizer))
    weights = _prior(prior, randomizer.categories)
    held = np.flatnonzero(weights > 0.0)
    if held.size > _MOST_BITS:
        raise ValueError(
            f"prior must be None or positive at no more than {_MOST_BITS} inputs for a "
            f"{type(randomizer).__name__}, got {held.size}"
        )
    return _listed(randomizer, weights)


@signals.register
def _(randomizer: FiniteRandomizer, prior: ArrayLike | None) -> tuple[Signal, Signal]:
    return _listed(randomizer, _prior(prior, randomizer.inputs))


@signals.register
def _(randomizer: LaplaceRandomizer, prior: ArrayLike | None) -> tuple[Signal, Signal]:
    return _cells(LaplacePair(randomizer.eps0), _prior(prior, 2), _CELL_ERROR)


@signals.register
def _(randomizer: GaussianRandomizer, prior: ArrayLike | None) -> tuple[Signal, Signal]:
    return _cells(GaussianBlanketPair(randomizer.sigma), _prior(prior, 2), _NORMAL_CELL_ERROR)


def _listed(randomizer: FiniteRandomizer, weights: Array) -> tuple[Signal, Signal]:
    """All classes of messages at the inputs that the prior allows."""
    held = np.flatnonzero(weights > 0.0)
    classes = randomizer.classes(held.tolist())
    rows = classes.probabilities
    mean = weights[held] @ rows
    return _twice(Signal(weights[held], rows, mean, classes.blanket, _sums(len(held))))


def _cells(
    source: LaplacePair | GaussianBlanketPair, weights: Array, inexact: float
) -> tuple[Signal, Signal]:
    """Two inputs on a line: merged cells tell less, cells split over their ends more."""
    made = []
    for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC):
        pair = source.letters(side, _EFFORT)
        rows = np.stack([pair.p0, pair.p1])[:, :-1]  # the last letter is the blank
        sent = rows.any(axis=0)
        rows = rows[:, sent]
        mean = weights @ rows
        held = weights > 0.0
        blanket = pair.q[:-1][sent]
        made.append(Signal(weights[held], rows[held], mean, blanket, inexact))
    return made[0], made[1]


def _sums(terms: int) -> float:
    """Relative error of sums of so many positive terms, each of a few roundings."""
    return (64 + 2 * terms) * UNIT_ROUNDOFF


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
