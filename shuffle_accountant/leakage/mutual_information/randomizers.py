"""Bounds for users of one local randomizer: information on an input, and on a position."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger, in_order
from shuffle_accountant.leakage.arguments import MOST_USERS, law
from shuffle_accountant.leakage.mutual_information.blanket_information import Signal, between
from shuffle_accountant.leakage.mutual_information.ratios import entropy
from shuffle_accountant.leakage.mutual_information.signals import signals
from shuffle_accountant.leakage.mutual_information.target import position_estimate
from shuffle_accountant.leakage.mutual_information.universal import universal_bounds
from shuffle_accountant.numerics.rounding import Array, Bound
from shuffle_accountant.randomizers.base import (
    ConcreteRandomizer,
    FiniteRandomizer,
    LocalRandomizer,
)
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse


def input_bound(
    randomizer: LocalRandomizer, *, users: int, prior: ArrayLike | None = None
) -> Bracket:
    """Upper bound of ``I(X1; Z | X_-1)`` by the blanket, itself as a certified bracket.

    The target's input X1 has the prior given the others' inputs, which are anything and known to
    the adversary. All messages are randomized and shuffled to Z. The others' messages hide at least
    as much as n - 1 decoys that send the randomizer's blanket, or else a blank:

        I(X1; Z | X_-1) <= sum_x pi(x) Phi_n(R_x, B) - Phi_n(mean of R_x, B),

    with B the blanket and its blank, which is the information that a one-hot message added to
    multinomial noise gives. 'Mutual Information Bounds in the Shuffle Model', Theorem 13, Lemma 1
    and Theorem 14, exact for every n, n counting all messages. By the convexity of relative entropy
    it also bounds ``I(X1; Z)`` if X1 is independent of the other inputs (Corollary 4).

    If only eps0 is known of the randomizer the bound is the least one that needs it alone
    (`universal_bounds`), and the lower end what randomized response of the worst number of values
    has: no bound for all randomizers can be below. An interactive one is bounded by what its
    message tells.

    Args:
        prior: distribution of the target's input, uniform by default, shape (inputs,). Inputs of a
            `LaplaceRandomizer` and a `GaussianRandomizer` are the two numbers 0 and 1; for Laplace
            noise the others' inputs may be anything in [0, 1], for Gaussian noise they are 0 or 1.
            Frequency oracles allow 12 inputs of positive prior, or the uniform prior; with an eps0
            above 300 they are bounded by the prior's entropy alone. For a
            `GeneralRandomizer` it must be None, and the bound holds for all.

    Returns:
        Bracket in nats of the right-hand side; its upper end bounds the leakage. It is never above
        the entropy of the prior nor above the universal bounds.
    """
    randomizer = validate.instance(LocalRandomizer, randomizer=randomizer)  # type: ignore[type-abstract]
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    if not isinstance(randomizer, ConcreteRandomizer):
        return _any_randomizer(randomizer, users, prior)
    universal = universal_bounds(eps0=randomizer.eps0, users=users).least
    most = min(_entropy(randomizer, prior), universal)
    if isinstance(randomizer, FiniteRandomizer) and not randomizer.representable:
        ledger = ErrorLedger(truncation=most)
        return Bracket(lower=0.0, upper=most, ledger=ledger, reduction="entropy of the prior")
    lower, upper = signals(randomizer, prior)
    return between(
        lower.information(users, Bound.OPTIMISTIC),
        upper.information(users, Bound.PESSIMISTIC),
        "blanket",
        most,
    )


def _entropy(randomizer: ConcreteRandomizer, prior: ArrayLike | None) -> float:
    if prior is None:
        return math.log(randomizer.inputs) * (1.0 + 2e-15)
    return entropy(law(prior=prior)) * (1.0 + 2e-15)


def _any_randomizer(randomizer: LocalRandomizer, users: int, prior: ArrayLike | None) -> Bracket:
    if prior is not None:
        raise ValueError(
            f"prior must be None for a {type(randomizer).__name__}: the bound holds for all"
        )
    bounds = universal_bounds(eps0=randomizer.eps0, users=users)
    upper = bounds.message if randomizer.interactive else bounds.least
    attained = 0.0
    # above 70 nats the worst randomized response has too many values
    if 0.0 < randomizer.eps0 <= 70.0:
        best = 1.0 + math.exp(0.5 * randomizer.eps0)
        for k in {max(math.floor(best), 2), math.ceil(best)}:
            one = RandomizedResponse(categories=k, eps0=randomizer.eps0)
            attained = max(attained, input_bound(one, users=users).lower)
    attained, upper = in_order(attained, upper)
    ledger = ErrorLedger(truncation=upper - attained)
    return Bracket(lower=attained, upper=upper, ledger=ledger, reduction="any randomizer")


@dataclass(frozen=True)
class PositionBounds:
    """Upper bounds of ``I(K; Z | X)`` for any inputs, nats.

    Attributes:
        entropy: ``log n``, the entropy of K.
        paper: ``2 eps0``: Z is ``2 eps0``-DP with respect to K. 'Mutual Information Bounds in the
            Shuffle Model', Theorem 11 and Corollary 2. Tight as a level of privacy, not here.
        refined: ``2 eps0 tanh(eps0)``: the largest divergence of a ``2 eps0``-DP pair.
        local: ``eps0``: the divergence of a message from the blanket.
        swap: ``(1 - 1/n) 2 eps0 tanh(eps0/2)``: exchanging the target's place with another one's
            changes two messages, each of divergence at most ``eps0 tanh(eps0/2)``.
        blanket: the largest over inputs of ``D(R_x‖B) - Phi_n(R_x, B)``, B the blanket and its
            blank; None unless the randomizer has finitely many inputs.
        alike: ``eps0 tanh(eps0/2)``: holds only if all others' messages have one distribution.
    """

    entropy: float
    paper: float
    refined: float
    local: float
    swap: float
    blanket: float | None
    alike: float

    @property
    def least(self) -> float:
        """The smallest of those that hold for any inputs."""
        always = [self.entropy, self.paper, self.refined, self.local, self.swap]
        return min(always if self.blanket is None else [*always, self.blanket])


def position_bounds(randomizer: LocalRandomizer, *, users: int) -> PositionBounds:
    """Every bound of the position leakage side by side; each is rounded up."""
    randomizer = validate.instance(LocalRandomizer, randomizer=randomizer)  # type: ignore[type-abstract]
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    if randomizer.interactive:
        raise ValueError("randomizer must not be interactive, got interactive=True")
    eps0, up = randomizer.eps0, 1.0 + 1e-14
    alike = up * eps0 * math.tanh(0.5 * eps0)
    return PositionBounds(
        entropy=math.log(users) * up,
        paper=2.0 * eps0,
        refined=2.0 * up * eps0 * math.tanh(eps0),
        local=eps0 * up,
        swap=2.0 * alike * ((users - 1) / users) if users > 1 else 0.0,
        blanket=_blanket(randomizer, users),
        alike=alike,
    )


def _blanket(randomizer: LocalRandomizer, users: int) -> float | None:
    if not isinstance(randomizer, FiniteRandomizer) or not randomizer.representable:
        return None
    _, signal = signals(randomizer, None)
    decoys = signal.decoys(Bound.PESSIMISTIC)
    return max(_of_row(signal, row, decoys, users) for row in signal.rows)


def _of_row(signal: Signal, row: Array, decoys: Array, users: int) -> float:
    """``I(K; Z)`` is convex in the channel: what the row is off by counts log n."""
    estimate = position_estimate(np.append(row, 0.0), decoys, users)
    slack = 4.0 * signal.inexact * (1.0 + math.log(users))
    return min(estimate.bracket("blanket").upper + slack, math.log(users) * (1.0 + 1e-14))
