"""Mutual information of an input and n shuffled messages: its own and those of decoys.

An input x has prior pi(x) and is sent as a message of distribution R_x. The other n - 1 messages
are i.i.d. from Q. With Rbar the mean of R_x over the prior, the shuffled messages Z have

    I(X; Z) = sum_x pi(x) Phi_n(R_x, Q) - Phi_n(Rbar, Q)

if Rbar << Q, because relative to Q^n they have the density of `shuffled`, given x and on average. A
message in the set A of those that decoys never send reveals itself as the target's: with Y' the
message if it is in A and "other" if not, ``I(X; Z) = I(X; Y') + P(other) I(X; Z | other)``.

`signals` makes the `Signal` of a randomizer and a prior (inputs and blanket).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant.leakage.arguments import prior_over
from shuffle_accountant.leakage.mutual_information.ratios import Estimate, Exposure, Ratios
from shuffle_accountant.leakage.mutual_information.shuffled import information
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    Bound,
    outwards,
    product,
    roundings,
    sequential_sum,
)
from shuffle_accountant.randomizers.base import (
    ConcreteRandomizer,
    FiniteRandomizer,
    Mixture,
    YesCounts,
)
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES

# Most inputs of positive prior for randomizers whose classes double with each input: 2^12 classes.
_MOST_BITS = 12
# Bound on the relative error of a binomial probability, far above that for this few trials.
_BINOMIAL_ERROR = 1e-11


@dataclass(frozen=True, eq=False)
class Signal:
    """Prior of the inputs, their messages' probabilities, and the blanket that all inputs share.

    Inputs that differ only by a renaming of messages need one row. Columns are classes of messages
    within which all ratios are constant. The decoys send the blanket, or else a blank.

    Attributes:
        weights: prior of the inputs that each row stands for, shape (b,), sums to one.
        rows: probability of each class, shape (b, m).
        mean: the same, averaged over the prior of all inputs, shape (m,).
        blanket: the blanket's masses, shape (m,), at most each row's.
        inexact: relative error of all these numbers.
        unresolved: ``Phi_n`` of the mean is up to ``unresolved/n`` above that of these classes.
    """

    weights: Array
    rows: Array
    mean: Array
    blanket: Array
    inexact: float = roundings(64)
    unresolved: float = 0.0

    def decoys(self, side: Bound) -> Array:
        """The decoys' law, the blank last: not above (PESSIMISTIC) or not below the true blanket.

        A blanket that is smaller hides less: blanks can be turned into messages afterwards.
        """
        upper = side is not Bound.PESSIMISTIC
        blanket = outwards(self.blanket, 2.0 * self.inexact, upper=upper)
        return np.append(blanket, max(1.0 - math.fsum(blanket.tolist()), 0.0))

    def information(self, users: int, side: Bound) -> Estimate:
        """``I(X; Z)`` in nats, for a blanket that is rounded in the direction of ``side``."""
        q = self.decoys(side)
        mean = np.append(self.mean, 0.0)
        rows = np.pad(self.rows, ((0, 0), (0, 1)))
        exposure = Exposure(mean, q)
        exposed = exposure.exposed
        total = self._seen(rows, mean, exposed)
        total += Estimate(0.0, truncation=exposure.error(users, MOST_CATEGORIES))
        hidden = math.fsum(mean[~exposed].tolist()) / math.fsum(mean.tolist())
        shares = rows[:, ~exposed].sum(axis=1)
        kept = (shares > 0.0) & (self.weights > 0.0)
        if hidden == 0.0 or not kept.any():
            return total
        weights = self.weights[kept] * shares[kept]
        weights = weights / math.fsum(weights.tolist())
        ratios = [
            Ratios.of(*_merged(row, q[~exposed]), inexact=2.0 * self.inexact)
            for row in (*rows[kept][:, ~exposed], mean[~exposed])
        ]
        rest = information(weights.tolist(), ratios[:-1], ratios[-1], users).times(hidden)
        if side is Bound.OPTIMISTIC:
            rest -= Estimate(self.unresolved / users)
        return total + rest

    def _seen(self, rows: Array, mean: Array, exposed: NDArray[np.bool_]) -> Estimate:
        """``I(X; Y')`` in nats, of the module's formula."""
        if not exposed.any():
            return Estimate(0.0)
        joint = np.column_stack([rows[:, exposed], rows[:, ~exposed].sum(axis=1)])
        marginal = np.append(mean[exposed], mean[~exposed].sum())
        sent = joint > 0.0
        terms = np.zeros_like(joint)
        terms[sent] = joint[sent] * np.log((joint / np.where(marginal > 0, marginal, 1.0))[sent])
        terms *= self.weights[:, None]
        size = math.fsum(np.abs(terms).ravel().tolist())
        # entries off by r move a term x log(x/m) by 2 r x, and by r of itself; what is not exposed
        # is off by what is exposed
        seen = float(self.weights @ joint[:, :-1].sum(axis=1))
        error = product(2.0 * self.inexact, roundings(2 * ELEMENTARY)) * (4.0 * seen + size)
        return Estimate(math.fsum(terms.ravel().tolist()), round_off=error)


def _merged(p: Array, q: Array) -> tuple[Array, Array]:
    """Messages whose ratios are within 16 units in the last place, as one message."""
    sent = q > 0.0
    p, q = p[sent], q[sent]
    # the bits of positive doubles are in the order of the doubles
    _, index = np.unique((p / q).view(np.int64) >> 4, return_inverse=True)
    index = index.ravel()
    count = int(index.max()) + 1
    first, second = (np.bincount(index, masses, count).astype(np.float64) for masses in (p, q))
    return first, second


def signals(randomizer: ConcreteRandomizer, prior: ArrayLike | None) -> tuple[Signal, Signal]:
    """Two signals, no more and no less informative than the randomizer's; equal if exact."""
    if randomizer.mixture is not None:
        return (_mixed(randomizer.mixture, prior),) * 2
    name = type(randomizer).__name__
    if prior is None and isinstance(randomizer, FiniteRandomizer) and randomizer.classes_double:
        answers = randomizer.yes_counts()
        if answers is None:
            raise ValueError(f"prior must be given for a {name}, got None")
        return (_bits(answers, randomizer.eps0),) * 2
    weights = prior_over(randomizer.inputs, prior)
    if not isinstance(randomizer, FiniteRandomizer):
        return _cells(randomizer, weights)
    held = np.flatnonzero(weights > 0.0)
    if randomizer.classes_double and held.size > _MOST_BITS:
        raise ValueError(
            f"prior must be None or positive at no more than {_MOST_BITS} inputs for a {name}, "
            f"got {held.size}"
        )
    *listed, blanket = randomizer.classes(held.tolist())
    rows = np.array(listed)
    inexact = sequential_sum(2 * held.size, own=64)  # of a sum of terms of a few roundings
    return (Signal(weights[held], rows, weights[held] @ rows, blanket, inexact),) * 2


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
    row, both = np.concatenate([own * keep, other * lie]), np.concatenate([own, other])
    mean, blanket = np.tile(lie + mixture.truthful * held, 2) * both, lie * both
    sent = (mean > 0.0) | (row > 0.0)
    return Signal(np.ones(1), row[None, sent], mean[sent], blanket[sent])


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


def _bits(answers: YesCounts, eps0: float) -> Signal:
    """The signal of a frequency oracle under a uniform prior: one row, as categories look alike.

    For many categories with independent answers the mean's likelihood ratio w hardly moves from its
    mean w_0 among messages that are not blank. Given which decoys are blank, ``Phi_n`` of the mean
    gains ``E[X log(X/X_0)] <= E[(X - X_0)^2 / X_0] <= Var(w)/(n w_0)`` at most from its movement.
    """
    k, high, low = answers.categories, answers.own, answers.foreign
    j, yes, no = answers.counts, answers.yes, answers.no
    if answers.rate is not None and not j.size:
        gain = math.expm1(eps0) if eps0 < 700.0 else math.inf
        rows, blanket = np.array([[high, low[0]]]), np.array([low[1], low[0]])
        heard, rate = float(blanket.sum()), low[1] / (low[0] + low[1])
        unresolved = gain * gain * rate * (1.0 - rate) / k * heard
        return Signal(np.ones(1), rows, blanket / heard, blanket, _BINOMIAL_ERROR, unresolved)
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
