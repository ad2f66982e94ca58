"""Bounds of one round from eps0, the number n of users and delta; replacement.

With ``E = e^eps0``:

*erlingsson*, Erlingsson, Feldman, Mironov, Raghunathan, Talwar and Thakurta 2019, "Amplification by
shuffling: from local to central differential privacy via anonymity", for eps0 <= 1/2, n >= 1000 and
delta < 1/100, also for sequences of randomizers that look at the messages before them:

    epsilon = 12 eps0 sqrt(log(1/delta) / n).

*clones_closed_form*, Feldman, McMillan and Talwar 2021, "Hiding among the clones", Theorem 3.1, in
the form that its authors' code evaluates, which is a little above that of the text; it also holds
for sequences of randomizers that look at the messages before them:

    a = 8 sqrt(E log(4/delta) / n),   c = 8 E / n,
    epsilon = log(1 + (1 - 1/E) / (1 + 1/(E (1 + a + c))) (a + c)).

*strong_clones_closed_form*, Feldman, McMillan and Talwar 2022, "Stronger privacy amplification by
shuffling", with ``r = 1/(E + 1)``. The paper's erratum concerns its mixtures with a third
component; for one randomizer common to all users of the round the bound stands, see
`shuffle_accountant.reductions.clones`:

    epsilon = log(1 + (E - 1)/(E + 1) (sqrt(32 log(4/delta) / (r (n - 1))) + 4 / (r (n - 1)))).

*clones_enumeration*, the clones' pair, listed within Hoeffding's range of both counts: 'Numerical
Accounting in the Shuffle Model', Lemma 11. The number C of informative decoys is kept within ``c (n
- 1)`` of its mean, ``c = sqrt(log(4/tau) / (2 (n - 1)))``, and the number A of them that say 0
within ``sqrt(C log(4/tau) / 2)`` of C/2; each leaves out at most tau/2. The target's own letter
adds 0 or 1 to A, and both are kept. (The appendix of the paper prints p for the rate 2p, in Lemma
A.4 and in the range of C.) That is some ``2 log(4/tau) n`` pairs of counts where all would be n^2;
the accountant itself uses tighter tails and needs far fewer.

*specialised_clones*, which is no bound: see `SpecialisedClones`.

*Extended to a protocol*: to sampled users by ``epsilon -> log(1 + g (e^epsilon - 1))``, ``delta ->
g delta`` (g = users/population), to many rounds by the composition theorem of Kairouz, Oh and
Viswanath, with the best split of delta. A row of the comparison names the theorems it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines.question import (
    Answer,
    OneKind,
    OutsideValidityError,
    PublishedBound,
    Question,
    check_protocol,
    register,
    require,
)
from shuffle_accountant.baselines.strong_composition import split_epsilon
from shuffle_accountant.facades import explain_calls
from shuffle_accountant.numerics.binomial import log_pmf
from shuffle_accountant.numerics.rounding import ELEMENTARY, Array, logarithm, roundings

__all__ = [
    "ClonesEnumeration",
    "ClosedForm",
    "OneRoundBound",
    "SpecialisedClones",
    "clones_closed_form",
    "clones_enumeration",
    "erlingsson",
    "sampled",
    "specialised_clones",
    "strong_clones_closed_form",
]

_AUTHORS = "Feldman, McMillan and Talwar"

# Epsilon of one round at delta.
Curve = Callable[[float], float]
# Largest eps0 (nats) where counts are listed: beyond it e^eps0 overflows.
_MOST_EPS0 = 700.0
# Most pairs of counts that are listed by the enumeration, and most users of the other formula, to
# whose number the time of its sum is proportional.
_MOST_PAIRS, _MOST_USERS = 200_000, 10**4
# Share of delta that the mass not listed by the enumeration may have.
_SHARE = 1e-3
# Bounds the relative error of its masses' sum, and the absolute one of the root (nats) that is
# found to within 1e-13 and four units in the last place of at most 700.
_ERROR = 1e-11


@dataclass(frozen=True, kw_only=True)
class OneRoundBound(PublishedBound):
    """A bound of one round from eps0, the number of users, and perhaps the number of values.

    ``valid`` and ``epsilon`` take ``eps0``, ``users`` and ``delta``.

    Attributes:
        interactive: whether it holds for randomizers that look at earlier messages.
        response: whether they also take ``categories``, for k-ary randomized response.
        response_alone: whether it says nothing about other randomizers.
    """

    interactive: bool = False
    response: bool = False
    response_alone: bool = False

    def answers(self, question: Question) -> Iterator[Answer]:
        """One answer: the bound of one round, extended to sampled and composed rounds."""
        if not len(question.protocol):
            if not self.response_alone:
                yield Answer(epsilon=0.0, form="any randomizer" if self.response else "")
            return
        try:
            kind = question.one_kind(self.name, interactive=self.interactive)
        except OutsideValidityError as refused:
            if not self.response_alone:
                yield Answer(condition=refused.condition)
            return
        if self.response_alone and kind.categories is None:
            return
        form = "any randomizer" if kind.categories is None else f"k = {kind.categories}"
        via = ("sampling",) * (kind.fraction < 1.0) + ("strong composition",) * (kind.count > 1)
        extended = partial(self._extended, kind, question.delta)
        yield Answer.of(extended, form=form if self.response else "", via=via)

    def _extended(self, kind: OneKind, delta: float) -> float:
        """The bound of one round, sampled and composed."""
        if not self.sound and kind.count > 1:
            require(self.name, f"one round (it is no bound to compose), got {kind.count}")
        arguments: dict[str, Any] = {"eps0": kind.eps0, "users": kind.users}
        arguments |= {"categories": kind.categories} if self.response else {}

        def curve(delta: float) -> float:
            require(self.name, self.valid(**arguments, delta=delta))
            return float(self.epsilon(**arguments, delta=delta))

        return split_epsilon(sampled(curve, kind.fraction), rounds=kind.count, delta=delta)


def sampled(curve: Curve, fraction: float) -> Curve:
    """The curve of a round whose users are that fraction of a population, drawn anew.

    Args:
        curve: epsilon (nats) of the round at delta, if the target takes part.
        fraction: in (0, 1].
    """
    if fraction == 1.0:
        return curve

    def epsilon(delta: float) -> float:
        if delta >= fraction:
            return 0.0  # who was not drawn loses nothing
        inner = curve(delta / fraction)
        if inner < 700.0:
            return math.log1p(fraction * math.expm1(inner))
        return inner + math.log(fraction + (1.0 - fraction) * math.exp(-inner))

    return epsilon


@dataclass(frozen=True)
class ClosedForm:
    """A bound of one round that is a formula, see `PublishedBound` for the other attributes.

    Attributes:
        condition: given eps0, users and delta, the condition that is not met, or None.
        formula: epsilon (nats), given the same where the condition is met.
    """

    name: str
    source: str
    condition: Callable[[float, int, float], str | None]
    formula: Callable[[float, int, float], float]
    sound: bool = True

    def valid(self, *, eps0: float, users: int, delta: float) -> str | None:
        """The first condition of the theorem that is not met, or None; arguments of `epsilon`."""
        eps0, users = check_protocol(eps0=eps0, users=users)
        return self.condition(eps0, users, validate.open_unit(delta=delta))

    def epsilon(self, *, eps0: float, users: int, delta: float) -> float:
        """Epsilon (nats) of one round.

        Args:
            eps0: local privacy parameter, nats, finite, >= 0.
            users: messages in the round, >= 1.
            delta: in (0, 1).
        """
        require(self.name, self.valid(eps0=eps0, users=users, delta=delta))
        eps0, users = check_protocol(eps0=eps0, users=users)
        return self.formula(eps0, users, validate.open_unit(delta=delta))


@dataclass(frozen=True)
class ClonesEnumeration(ClosedForm):
    """The clones' pair by a list of counts: a curve."""

    MOST_EPS0: ClassVar[float] = _MOST_EPS0
    MOST_PAIRS: ClassVar[int] = _MOST_PAIRS

    def delta(self, *, eps0: float, users: int, epsilon: float, tau: float = 1e-12) -> float:
        """Delta of one round at epsilon, at most 1; what is not listed counts in full.

        Args:
            eps0: local privacy parameter, nats, in [0, 700].
            users: messages in the round, >= 1.
            epsilon: nats, finite, >= 0.
            tau: bound on the mass that is not listed, in (0, 1).

        Raises:
            ValueError: more than `MOST_PAIRS` pairs of counts.
        """
        eps0, users = check_protocol(eps0=eps0, users=users)
        epsilon, tau = validate.finite_nonnegative(epsilon=epsilon), validate.open_unit(tau=tau)
        require(self.name, _unlisted(eps0, users, tau, 1.0))
        return 0.0 if epsilon >= eps0 else _listed_delta(eps0, users, epsilon, tau)


def _outside_erlingsson(eps0: float, users: int, delta: float) -> str | None:
    if eps0 > 0.5:
        return f"eps0 <= 0.5, got {eps0:g}"
    if users < 1000:
        return f"users >= 1000, got {users}"
    return None if delta < 0.01 else f"delta < 0.01, got {delta:g}"


def _erlingsson(eps0: float, users: int, delta: float) -> float:
    return 12.0 * eps0 * math.sqrt(-math.log(delta) / users)


def _outside_clones(eps0: float, users: int, delta: float) -> str | None:
    most = math.log(users / (16.0 * _log_inverse(delta)))
    if eps0 > most:
        return f"eps0 <= log(users / (16 log(4/delta))) = {most:.4g}, got {eps0:g}"
    return None


def _clones(eps0: float, users: int, delta: float) -> float:
    size = math.exp(eps0)
    deviation = 8.0 * math.sqrt(size * _log_inverse(delta) / users) + 8.0 * size / users
    gap = -math.expm1(-eps0) / (1.0 + 1.0 / (size * (1.0 + deviation)))
    return math.log1p(gap * deviation)


def _outside_strong(eps0: float, users: int, delta: float) -> str | None:
    # in logarithms, because e^eps0 may overflow
    log_least = math.log(8.0 * _log_inverse(delta)) + eps0 + math.log1p(math.exp(-eps0))
    if math.log(users) <= log_least:
        least = f"{math.exp(log_least):.4g}" if log_least < 700.0 else "1e304"
        return f"users > 8 (e^eps0 + 1) log(4/delta) = {least}, got {users}"
    return None


def _strong(eps0: float, users: int, delta: float) -> float:
    clones = (users - 1.0) / (math.exp(eps0) + 1.0)
    deviation = math.sqrt(32.0 * _log_inverse(delta) / clones) + 4.0 / clones
    return math.log1p(math.tanh(0.5 * eps0) * deviation)


def _log_inverse(delta: float) -> float:
    """``log(4/delta)``; the quotient may overflow."""
    return math.log(4.0) - math.log(delta)


def _enumerated(eps0: float, users: int, delta: float) -> float:
    """The smallest epsilon at which delta is reached, from above; a share is not listed."""
    tau = _SHARE * delta
    if eps0 == 0.0 or _listed_delta(eps0, users, 0.0, tau) <= delta:
        return 0.0
    from scipy.optimize import brentq

    found = brentq(lambda at: _listed_delta(eps0, users, at, tau) - delta, 0.0, eps0, xtol=1e-13)
    return min(float(found) + _ERROR, eps0)


def _unlisted(eps0: float, users: int, delta: float, share: float = _SHARE) -> str | None:
    tau = share * delta
    if eps0 > _MOST_EPS0:
        return f"eps0 <= {_MOST_EPS0:g}, got {eps0:g}"
    if tau == 0.0:
        return "a delta whose thousandth is a double"
    ((low,), (high,)) = _range(np.array([users - 1.0]), _rate(eps0), tau)
    pairs = (high - low + 1.0) * (2.0 * math.sqrt(0.5 * high * math.log(4.0 / tau)) + 2.0)
    return (
        None if pairs <= _MOST_PAIRS else f"at most {_MOST_PAIRS} pairs of counts, got {pairs:.3g}"
    )


def _listed_delta(eps0: float, users: int, epsilon: float, tau: float) -> float:
    mass, loss = _atoms(eps0, users, tau)
    gain = -np.expm1(np.minimum(epsilon - loss, 0.0))
    return min(float(np.sum(mass * gain)) * (1.0 + _ERROR) + tau, 1.0)


@lru_cache(maxsize=4)
def _atoms(eps0: float, users: int, tau: float) -> tuple[Array, Array]:
    """Masses under P, and losses from above, of the listed pairs of counts that lose something."""
    ratio = math.exp(-eps0)
    ((low,), (high,)) = _range(np.array([users - 1.0]), _rate(eps0), tau)
    count = np.arange(low, high + 1)
    first, last = _range(count, 0.5, tau)
    owner, a = _in_rows(first, (last - first + 2).astype(np.intp))
    m = count[owner] + 1.0
    b = m - a
    log_count = log_pmf(count, users - 1.0, _rate(eps0), math.tanh(0.5 * eps0))
    mass = np.exp(log_count[owner] + log_pmf(a, m, 0.5, 0.5)) * 2.0 / (m * (1.0 + ratio))
    mass *= a + ratio * b
    some = a > b
    a, b = a[some], b[some]
    loss = np.log((a + ratio * b) / (ratio * a + b))
    # the ratio is rounded six times besides its exponentials
    return mass[some], loss + logarithm(loss, roundings(6.0 + 2 * ELEMENTARY))


def _rate(eps0: float) -> float:
    """Probability that a decoy says 0 or 1."""
    ratio = math.exp(-eps0)
    return 2.0 * ratio / (1.0 + ratio)


def _range(trials: Array, rate: float, tau: float) -> tuple[Array, Array]:
    """Integers within Hoeffding's distance of the mean of Bin(trials, rate), for tau/2."""
    distance = np.sqrt(0.5 * trials * math.log(4.0 / tau))
    low = np.maximum(np.ceil(rate * trials - distance), 0.0)
    return low, np.minimum(np.floor(rate * trials + distance), trials)


def _in_rows(first: Array, sizes: NDArray[np.intp]) -> tuple[NDArray[np.intp], Array]:
    """All numbers of rows of these sizes from their first ones on; the rows of which they are."""
    row = np.repeat(np.arange(first.size), sizes)
    return row, first[row] + np.arange(row.size) - (np.cumsum(sizes) - sizes)[row]


class SpecialisedClones:
    """The formula for k-ary randomized response. NOT a valid bound for k >= 4: to compare with.

    Feldman, McMillan and Talwar 2022 ("Stronger privacy amplification by shuffling") and the
    variation-ratio tables that follow it write k-ary randomized response as a mixture of three
    letters. With E = e^eps0 and p = 1/(E + k - 1), the target's message and the others' are

        p0 = (E p, p, w),   p1 = (p, E p, w),   q = (p, p, 1 - 2p),   w = (k - 2) p,

    so the third letter carries what the target's two laws share. The step that makes the target's
    leftover message look like the others' is where the proof fails (the paper's erratum): in truth
    the two are distinguishable. A counterexample is in `docs/understand/soundness.md`. For k = 2
    nothing is left over, and the formula is that of the sound reduction "clones".

    By the density lemma (`shuffle_accountant.reductions.base`) its value at alpha = e^epsilon is

        (1/n) E[ (A (E - alpha) + B (1 - alpha E) + (n - A - B) (1 - alpha) w/(1 - 2p))_+ ]

    with (A, B, n - A - B) multinomial of n trials and law q. It is evaluated as that sum, of terms
    of one sign, so that small delta keep relative accuracy; what is left out is below 1e-12 of the
    value.
    """

    name = "specialised_clones"
    source = f"{_AUTHORS} 2022"
    sound = False
    MOST_USERS: ClassVar[int] = _MOST_USERS
    MOST_EPS0: ClassVar[float] = _MOST_EPS0

    def valid(self, *, eps0: float, categories: int, users: int, delta: float) -> str | None:
        """The condition for evaluating the formula that is not met, for arguments of `epsilon`."""
        eps0, users = check_protocol(eps0=eps0, users=users)
        validate.integer(minimum=2, maximum=2**53, categories=categories)
        validate.open_unit(delta=delta)
        if users > _MOST_USERS:
            return f"users <= {_MOST_USERS}, got {users}"
        if eps0 > _MOST_EPS0:
            return f"eps0 <= {_MOST_EPS0:g}, got {eps0:g}"
        return None

    def delta(self, *, eps0: float, categories: int, users: int, epsilon: float) -> float:
        """Delta of one round by the formula: NO upper bound for k >= 4.

        Args:
            eps0: local privacy parameter, nats, in [0, 700].
            categories: number k of values, >= 2.
            users: messages in the round, 1 … 10,000.
            epsilon: nats, finite, >= 0.

        Returns:
            The formula's value with a relative error below 1e-10 (0 below the least double).
        """
        eps0, categories, users = _specialised_setting(eps0, categories, users)
        epsilon = validate.finite_nonnegative(epsilon=epsilon)
        return _specialised_delta(eps0, categories, users, epsilon)

    def epsilon(self, *, eps0: float, categories: int, users: int, delta: float) -> float:
        """Epsilon of one round by the formula, by root finding: NO upper bound for k >= 4.

        Args:
            eps0: local privacy parameter, nats, in [0, 700].
            categories: number k of values, >= 2.
            users: messages in the round, 1 … 10,000.
            delta: in (0, 1).

        Returns:
            The epsilon in [0, eps0] at which the formula gives ``delta``, or 0 where it is below
            ``delta`` everywhere.
        """
        eps0, categories, users = _specialised_setting(eps0, categories, users)
        target = math.log(validate.open_unit(delta=delta))

        def excess(point: float) -> float:
            # below all logarithms of doubles where delta is 0, as at the end point eps0
            found = _specialised_delta(eps0, categories, users, point)
            return (math.log(found) if found > 0.0 else -800.0) - target

        if excess(0.0) <= 0.0:
            return 0.0
        from scipy.optimize import brentq

        return float(brentq(excess, 0.0, eps0, xtol=1e-13))


def _specialised_setting(eps0: float, categories: int, users: int) -> tuple[float, int, int]:
    eps0 = validate.finite_nonnegative(eps0=eps0)
    if eps0 > _MOST_EPS0:
        raise ValueError(f"eps0 must be a finite number in [0, {_MOST_EPS0:g}], got {eps0!r}")
    categories = validate.integer(minimum=2, maximum=2**53, categories=categories)
    return eps0, categories, validate.integer(minimum=1, maximum=_MOST_USERS, users=users)


def _specialised_delta(eps0: float, categories: int, users: int, epsilon: float) -> float:
    if epsilon >= eps0:
        return 0.0
    # everything is divided by E, so that nothing overflows
    small, alpha = math.exp(-eps0), math.exp(epsilon)
    first = -math.expm1(epsilon - eps0)  # value of letter a
    second = small - alpha  # of letter b
    leftover = (categories - 2) * small
    idle = leftover - math.expm1(-eps0)  # E + k - 3, over E
    third = -math.expm1(epsilon) * small * leftover / idle if leftover > 0.0 else 0.0
    rate = 2.0 * small / (1.0 + leftover + small)  # chance of a letter a or b
    idle /= 1.0 + leftover + small

    c = np.arange(1.0, users + 1.0)  # how many of the n messages are a or b
    # with b letters b the sum is best - (first - second) b: positive for b up to ``last``
    best = c * first + (users - c) * third
    last = np.minimum(np.ceil(best / (first - second)) - 1.0, c)
    c, last = c[last >= 0.0], last[last >= 0.0]
    log_c = log_pmf(c, float(users), rate, idle)

    # for each c the most likely b that counts, less one, where the sum is not close to 0
    peak = np.maximum(np.minimum(last - 1.0, np.floor(0.5 * c)), 0.0)
    weight = log_c + log_pmf(peak, c, 0.5, 0.5)
    # up to c + 1 terms near the peak, times sums whose ratios are about as large
    # those more than e^-40 below the largest are left out
    keep = weight > weight.max(initial=-math.inf) - 40.0 - 4.0 * math.log(users + 1.0)
    log_c, c, last = log_c[keep], c[keep], last[keep]
    # beyond nine standard deviations there is a mass below e^-40 (Hoeffding)
    reach, middle = 4.5 * np.sqrt(c), np.minimum(last, 0.5 * c)
    begin = np.maximum(np.floor(middle - reach), 0.0)
    sizes = (np.minimum(last, np.ceil(middle + reach)) - begin).astype(np.intp) + 1
    row, b = _in_rows(begin, sizes)
    trials = c[row]
    value = (trials - b) * first + b * second + (users - trials) * third
    terms = np.exp(log_c[row] + log_pmf(b, trials, 0.5, 0.5)) * np.maximum(value, 0.0)
    return min(math.exp(eps0) * float(terms.sum()) / users, 1.0)


erlingsson = ClosedForm("erlingsson", "Erlingsson et al. 2019", _outside_erlingsson, _erlingsson)
clones_closed_form = ClosedForm(
    "clones_closed_form", f"{_AUTHORS} 2021, Theorem 3.1", _outside_clones, _clones
)
strong_clones_closed_form = ClosedForm(
    "strong_clones_closed_form", f"{_AUTHORS} 2022, closed form", _outside_strong, _strong
)
clones_enumeration = ClonesEnumeration(
    "clones_enumeration",
    "Numerical Accounting in the Shuffle Model, Lemma 11",
    _unlisted,
    _enumerated,
)
specialised_clones = SpecialisedClones()
for _rank, _form in ((35, clones_enumeration), (40, strong_clones_closed_form)):
    register(OneRoundBound, _form, about="one round of one randomizer", rank=_rank)
for _rank, _form in ((50, clones_closed_form), (80, erlingsson)):
    register(OneRoundBound, _form, about="one round, interactive too", interactive=True, rank=_rank)

register(
    OneRoundBound,
    specialised_clones,
    about="one round of k-ary randomized response",
    response=True,
    response_alone=True,
    rank=90,
)

explain_calls(__name__)
