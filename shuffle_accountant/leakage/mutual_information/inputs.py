"""Mutual information of shuffled messages and the target's input, for any inputs of the others."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger, in_order
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.leakage.laws import law
from shuffle_accountant.leakage.mutual_information.blanket_information import between
from shuffle_accountant.leakage.mutual_information.exposure import entropy
from shuffle_accountant.leakage.mutual_information.positions import MOST_USERS
from shuffle_accountant.leakage.mutual_information.signals import signals
from shuffle_accountant.leakage.mutual_information.universal import universal_bounds
from shuffle_accountant.randomizers.base import (
    ConcreteRandomizer,
    FiniteRandomizer,
    LocalRandomizer,
)
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

__all__ = ["input_bound"]

# Largest eps0 (nats) for the lower end: above, the worst randomized response has too many values.
_LARGE_EPS0 = 70.0


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
        randomizer: any local randomizer.
        users: number n of messages, the target's included, 1 <= n <= 2^53.
        prior: law of the target's input, uniform by default, shape (inputs,). Inputs of a
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
    if 0.0 < randomizer.eps0 <= _LARGE_EPS0:
        best = 1.0 + math.exp(0.5 * randomizer.eps0)
        for k in {max(math.floor(best), 2), math.ceil(best)}:
            one = RandomizedResponse(categories=k, eps0=randomizer.eps0)
            attained = max(attained, input_bound(one, users=users).lower)
    attained, upper = in_order(attained, upper)
    ledger = ErrorLedger(truncation=upper - attained)
    return Bracket(lower=attained, upper=upper, ledger=ledger, reduction="any randomizer")
