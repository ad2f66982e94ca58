"""The `Signal` of a randomizer and a prior (inputs and blanket), from below and from above."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant.leakage.arguments import prior_over
from shuffle_accountant.leakage.mutual_information.blanket_information import Signal
from shuffle_accountant.numerics.rounding import Array, Bound, sequential_sum
from shuffle_accountant.randomizers.base import (
    ConcreteRandomizer,
    FiniteRandomizer,
    Mixture,
    YesCounts,
)

# Most inputs of positive prior for randomizers whose classes double with each input: 2^12 classes.
_MOST_BITS = 12


def signals(randomizer: ConcreteRandomizer, prior: ArrayLike | None) -> tuple[Signal, Signal]:
    """Two signals, no more and no less informative than the randomizer's; equal if exact."""
    if randomizer.mixture is not None:
        return _twice(_mixed(randomizer.mixture, prior))
    if not isinstance(randomizer, FiniteRandomizer):
        return _cells(randomizer, prior_over(randomizer.inputs, prior))
    if not randomizer.classes_double:
        return _listed(randomizer, prior_over(randomizer.inputs, prior))
    name = type(randomizer).__name__
    if prior is None:
        answers = randomizer.yes_counts()
        if answers is None:
            raise ValueError(f"prior must be given for a {name}, got None")
        return _twice(bit_signal(answers, randomizer.eps0))
    weights = prior_over(randomizer.inputs, prior)
    held = np.count_nonzero(weights > 0.0)
    if held > _MOST_BITS:
        raise ValueError(
            f"prior must be None or positive at no more than {_MOST_BITS} inputs for a {name}, "
            f"got {held}"
        )
    return _listed(randomizer, weights)


def _mixed(mixture: Mixture, prior: ArrayLike | None) -> Signal:
    """The signal in classes of messages: the target's own value or not, and the value's prior.

    A message's ratio to the blanket is e^eps0 or 1, so one row stands for all values.
    """
    k, keep, lie = mixture.categories, mixture.keep_probability, mixture.lie_probability
    if prior is None:
        held, alike = np.array([1.0 / k]), np.array([float(k)])
    else:
        held, counts = np.unique(prior_over(k, prior), return_counts=True)
        alike = counts.astype(np.float64)
    own, other = alike * held, alike * (1.0 - held)
    row = np.concatenate([own * keep, other * lie])
    each = np.tile(lie + mixture.truthful * held, 2)
    blanket = lie * np.concatenate([own, other])
    mean = each * np.concatenate([own, other])
    sent = (mean > 0.0) | (row > 0.0)
    return Signal(np.ones(1), row[None, sent], mean[sent], blanket[sent])


def _listed(randomizer: FiniteRandomizer, weights: Array) -> tuple[Signal, Signal]:
    """The exact signal, twice: all classes of messages at the inputs of positive prior."""
    held = np.flatnonzero(weights > 0.0)
    *listed, blanket = randomizer.classes(held.tolist())
    rows = np.array(listed)
    mean = weights[held] @ rows
    return _twice(Signal(weights[held], rows, mean, blanket, _sums(len(held))))


def _cells(randomizer: ConcreteRandomizer, weights: Array) -> tuple[Signal, Signal]:
    """Signals of two inputs with real-valued messages, by cells of messages.

    Merged cells are less informative, cells split over their ends more.
    """
    made = []
    held = weights > 0.0
    for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC):
        # mass left out, and width of a cell in nats; the masses of cells are good to 1e-13
        found, error = randomizer.letters((0, 1), side, tail=1e-30, resolution=1e-4)
        rows = found[:-1]
        sent = rows.any(axis=0)
        rows = rows[:, sent]
        inexact = 4.0 * float(np.max(error, initial=0.0)) + 1e-13
        made.append(Signal(weights[held], rows[held], weights @ rows, found[-1, sent], inexact))
    return made[0], made[1]


def _sums(terms: int) -> float:
    """Relative error of a sum of ``terms`` positive terms, each of a few roundings."""
    return sequential_sum(2 * terms, own=64)


def _twice(signal: Signal) -> tuple[Signal, Signal]:
    return signal, signal


# Bound on the relative error of a binomial probability, far above that for this few trials.
_BINOMIAL_ERROR = 1e-11


def bit_signal(answers: YesCounts, eps0: float) -> Signal:
    """The signal of a frequency oracle under a uniform prior: one row, as categories look alike.

    For many categories with independent answers the mean's likelihood ratio w hardly moves from its
    mean w_0 among messages that are not blank. Given which decoys are blank, ``Phi_n`` of the mean
    gains ``E[X log(X/X_0)] <= E[(X - X_0)^2 / X_0] <= Var(w)/(n w_0)`` at most from its movement.
    """
    k, high, low = answers.categories, answers.own, answers.foreign
    j, yes, no = answers.counts, answers.yes, answers.no
    if answers.rate is not None and not j.size:
        gain = math.expm1(eps0) if eps0 < 700.0 else math.inf
        blanket = np.array([low[1], low[0]])
        rows = np.array([[high, low[0]]])
        rate = low[1] / (low[0] + low[1])
        heard = float(blanket.sum())
        unresolved = gain * gain * rate * (1.0 - rate) / k * heard
        mean = blanket / heard
        return Signal(np.ones(1), rows, mean, blanket, _BINOMIAL_ERROR, unresolved)
    yes, no = yes / math.fsum(yes.tolist()), no / max(math.fsum(no.tolist()), 1e-300)
    target = np.concatenate([high * yes, low[0] * no])
    blanket = np.concatenate([low[1] * yes, low[0] * no])
    # relative to the blanket: 1 + gain j/k, without an overflow
    lift = np.concatenate([high * yes - low[1] * yes, (high / low[1] - 1.0) * low[0] * no])
    every = np.concatenate([j, j])
    mean = blanket + lift * (every / k)
    full = every == k  # all inputs agree on a message that says yes to all
    blanket = np.where(full, mean, blanket)
    sent = target > 0.0
    return Signal(np.ones(1), target[None, sent], mean[sent], blanket[sent], _BINOMIAL_ERROR)
