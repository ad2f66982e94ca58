"""Bounds for users of one local randomizer: information on an input, and on a position.

Some need its local privacy parameter alone, and some are of randomized response.

An input x has prior pi(x) and is sent as a message of distribution R_x. The other n - 1 messages
are i.i.d. from Q. With Rbar the mean of R_x over the prior, the shuffled messages Z have

    I(X; Z) = sum_x pi(x) Phi_n(R_x, Q) - Phi_n(Rbar, Q)

if Rbar << Q, because relative to Q^n they have the density of `shuffled`, given x and on average. A
message in the set A of those that decoys never send reveals itself as the target's: with Y' the
message if it is in A and "other" if not, ``I(X; Z) = I(X; Y') + P(other) I(X; Z | other)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger, in_order
from shuffle_accountant.leakage.arguments import MOST_USERS, law, prior_over
from shuffle_accountant.leakage.mutual_information.shuffled import (
    Estimate,
    Exposure,
    Ratios,
    between,
    entropy,
    information,
)
from shuffle_accountant.leakage.mutual_information.target import message_bracket, position_bracket
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
    LocalRandomizer,
    Mixture,
    YesCounts,
)
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

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
    found, index = np.unique((p / q).view(np.int64) >> 4, return_inverse=True)
    index, count = index.ravel(), found.size
    return np.bincount(index, p, count).astype(float), np.bincount(index, q, count).astype(float)


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
    """The signal in classes of messages, by the value's prior and whether it is the target's own.

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

    def signal(side: Bound) -> Signal:
        # mass left out, and width of a cell in nats; the masses of cells are good to 1e-13
        found, error = randomizer.letters((0, 1), side, tail=1e-30, resolution=1e-4)
        *rows, blanket = found[:, found[:-1].any(axis=0)]
        sent, held = np.array(rows), weights > 0.0
        inexact = 4.0 * float(np.max(error, initial=0.0)) + 1e-13
        return Signal(weights[held], sent[held], weights @ sent, blanket, inexact)

    return signal(Bound.OPTIMISTIC), signal(Bound.PESSIMISTIC)


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
    the adversary. The others' messages hide at least as much as n - 1 decoys that send the
    randomizer's blanket, or else a blank:

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
            above 300 they are bounded by the prior's entropy alone. For a `GeneralRandomizer` it
            must be None, and the bound holds for all.

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
