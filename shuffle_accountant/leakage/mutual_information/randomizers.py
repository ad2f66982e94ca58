"""Bounds for users of one local randomizer: information on an input, and on a position.

Some need its local privacy parameter alone, and some are of randomized response.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger, in_order
from shuffle_accountant.leakage.arguments import MOST_USERS, law
from shuffle_accountant.leakage.mutual_information.ratios import between, entropy
from shuffle_accountant.leakage.mutual_information.signals import signals
from shuffle_accountant.leakage.mutual_information.target import (
    message_bracket,
    position_bracket,
)
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.randomizers.base import (
    ConcreteRandomizer,
    FiniteRandomizer,
    LocalRandomizer,
)
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

# Largest eps0 (nats) at which e^eps0 is computed; above, bounds use logarithms, or are inf.
_LARGE_EPS0 = 300.0


@dataclass(frozen=True)
class FirstOrder:
    """First-order constants of ``n I(X1; Z | X_-1)``, nats; leading terms, not bounds at any n.

    Attributes:
        paper: ``(e^eps0 - 1)/2``: 'Mutual Information Bounds in the Shuffle Model', Theorem 14.
        sharp: ``(e^(eps0/2) - 1)^2 / 2``, about eps0/4 of it for small eps0: no smaller constant
            serves all randomizers; randomized response of ``1 + e^(eps0/2)`` values attains it.
    """

    paper: float
    sharp: float


@dataclass(frozen=True)
class UniversalBounds:
    """Upper bounds of ``I(X1; Z | X_-1)`` for all eps0-LDP randomizers and priors, nats.

    E = e^eps0. The blanket reduction gives the first two, the data-processing inequality the last.

    Attributes:
        logarithmic: ``log(1 + (E - 1)/n)``, because the chi-squared divergence of a randomizer's
            message from the blanket's decoys is at most E - 1.
        second_order: ``(sqrt E - 1)^2/2n + ((E - 1)/6 + 7 (E - 1)^2/6)/n^2 + max((E - 1)^2, 1) (E -
            1)/3n^3``: the sharp constant, then the remainders of the Taylor brackets.
        message: ``eps0 tanh(eps0/2)``, the bound for the message alone, unshuffled.
    """

    logarithmic: float
    second_order: float
    message: float

    @property
    def least(self) -> float:
        """The smallest of them."""
        return min(self.logarithmic, self.second_order, self.message)


def first_order(*, eps0: float) -> FirstOrder:
    """The paper's and the sharp first-order constant of the input leakage."""
    eps0 = validate.finite_nonnegative(eps0=eps0)
    if eps0 > _LARGE_EPS0:
        return FirstOrder(math.inf, math.inf)
    return FirstOrder(0.5 * math.expm1(eps0), 0.5 * math.expm1(0.5 * eps0) ** 2)


def universal_bounds(*, eps0: float, users: int) -> UniversalBounds:
    """Distribution-free upper bounds of the input leakage at any n, each rounded up."""
    eps0 = validate.nonnegative(eps0=eps0)
    n = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    up = 1.0 + 1e-14
    message = eps0 * math.tanh(0.5 * eps0) * up if eps0 < math.inf else math.inf
    if eps0 > _LARGE_EPS0:
        extra = eps0 - math.log(n)  # above 260
        return UniversalBounds((extra + math.exp(-extra)) * up, math.inf, message)
    gain, root = math.expm1(eps0), math.expm1(0.5 * eps0)
    second = math.inf
    if gain < 1e100:
        second = root * root / (2 * n) + (gain / 6 + 7 * gain * gain / 6) / n / n
        second += max(gain * gain, 1.0) * gain / 3 / n / n / n
    return UniversalBounds(math.log1p(gain / n) * up, second * up, message)


@dataclass(frozen=True)
class ResponseConstants:
    """Limits of n times an information about a uniform X1, nats; E = e^eps0, p - q = (E-1)/(E+k-1).

    Attributes:
        blanket: the blanket bound, ``(E - 1)^2 (k - 1) / (2k (E + k - 1))``.
        unconditional: ``I(X1; Z)``, others uniform: ``(k - 1)(p - q)^2 / 2``. What 'Mutual
            Information Bounds in the Shuffle Model', Example IV.1, calls attained.
        conditional: ``I(X1; Z | X_-1)``, others uniform: the same over ``1 - (p - q)^2``.
        one_value: ``I(X1; Z)`` when all others hold one known value.
    """

    blanket: float
    unconditional: float
    conditional: float
    one_value: float


def response_constants(*, categories: int, eps0: float) -> ResponseConstants:
    """First-order constants of the input leakage of k-ary randomized response."""
    k = validate.integer(minimum=2, maximum=2**53, categories=categories)
    eps0 = validate.positive(eps0=eps0)
    if eps0 > _LARGE_EPS0:
        raise ValueError(f"eps0 must be a number in (0, {_LARGE_EPS0:g}], got {eps0!r}")
    gain = math.expm1(eps0)
    whole = gain + k
    lie, apart = 1.0 / whole, gain / whole
    variance = apart * apart * (k - 1) / k / k  # of R(y|x) over uniform x, each y
    rest = k / whole * (2.0 * (gain + 1.0) + k - 2.0) / whole  # 1 - apart^2
    return ResponseConstants(
        blanket=0.5 * k * variance / lie,
        unconditional=0.5 * (k - 1) * apart * apart,
        conditional=0.5 * (k - 1) * apart * apart / rest,
        one_value=0.5 * variance * (1.0 / ((gain + 1.0) / whole) + (k - 1) / lie),
    )


def clones_message(p: ArrayLike, *, eps0: float, users: int) -> Bracket:
    """Upper bound of ``I(Y1; Z)`` by the clones of one input, itself as a certified bracket.

    The others' messages are draws from p, the target's own distribution of messages, with
    probability ``e^-eps0``, else blank. The leading term is ``e^eps0 (messages - 1)/2n``. About the
    message given its input, whose distribution p is, not the input; the blanket is never worse.
    'Mutual Information Bounds in the Shuffle Model', Section V.
    """
    target = law(p=p)
    eps0 = validate.finite_nonnegative(eps0=eps0)
    decoys = np.append(target * math.exp(-eps0), -math.expm1(-eps0))
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    return message_bracket(np.append(target, 0.0), decoys, users, "clones")


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
    users = _checked(randomizer, users)
    if not isinstance(randomizer, ConcreteRandomizer):
        return _any_randomizer(randomizer, users, prior)
    universal = universal_bounds(eps0=randomizer.eps0, users=users).least
    own = math.log(randomizer.inputs) if prior is None else entropy(law(prior=prior))
    most = min(own * (1.0 + 2e-15), universal)
    if isinstance(randomizer, FiniteRandomizer) and not randomizer.representable:
        ledger = ErrorLedger(truncation=most)
        return Bracket(lower=0.0, upper=most, ledger=ledger, reduction="entropy of the prior")
    lower, upper = signals(randomizer, prior)
    low = lower.information(users, Bound.OPTIMISTIC)
    return between(low, upper.information(users, Bound.PESSIMISTIC), "blanket", most)


def _checked(randomizer: LocalRandomizer, users: int) -> int:
    validate.instance(LocalRandomizer, randomizer=randomizer)  # type: ignore[type-abstract]
    return validate.integer(minimum=1, maximum=MOST_USERS, users=users)


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
    users = _checked(randomizer, users)
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
    most = math.log(users)
    # I(K; Z) is convex in the channel: what a row is off by counts log n
    slack = 4.0 * signal.inexact * (1.0 + most)
    rows = (position_bracket(np.append(row, 0.0), decoys, users, "blanket") for row in signal.rows)
    return max(min(row.upper + slack, most * (1.0 + 1e-14)) for row in rows)
