"""(eta, delta)-preservation: the share of a set of slots that survives the shuffle.

A mechanism preserves the share eta of a set S of l slots with delta if at least ``eta l`` of the
values released in S are from S, but for a chance of delta (Meehan et al., 'Privacy Implications of
Shuffling', definition A.4). It is a measure of utility; a smaller delta is better, and every delta
here is given by its upper end.

Slots of S that hold a value from outside of S are *leavers*: a shuffle fails from ``J = floor((1 -
eta) l) + 1`` leavers on. The paper's theorem A.4 rounds ``(1 - eta) l`` up instead: where that is
no integer it leaves out the outcome of J leavers, and its delta is too small.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger
from shuffle_accountant.numerics.rounding import ELEMENTARY, lowered, raised, roundings
from shuffle_accountant.order.arguments import RandomSource, random_source, renamed, summed
from shuffle_accountant.order.mallows import LAWS, MOST_USERS
from shuffle_accountant.order.tails import end_tail, hamming_tail, inner_tail

MOST_THETA = 700.0
"""Largest finite theta: above it e^theta overflows. Infinity is allowed: no value moves."""

Eta = float | Fraction | Decimal


class PreservationDelta(Bracket):
    """The chance that too few values stay, as a bracket that also knows its logarithm.

    As a float it is the upper end, the safe one. Below the least positive float the ends are 0 and
    that float; `log` and `log10` go on.

    Args:
        log_lower: logarithm of the lower end, nats, in [-inf, 0].
        log_upper: logarithm of the upper end, nats, in [log_lower, 0].
        truncation: mass that was left out, and is in the upper end.
        leavers: fewest leavers J that are a failure.
        reduction: name of the distribution that was summed.
    """

    __slots__ = ("_leavers", "_log_lower", "_log_upper")

    _leavers: int
    _log_lower: float
    _log_upper: float

    def __new__(
        cls,
        *,
        log_lower: float,
        log_upper: float,
        truncation: float = 0.0,
        leavers: int,
        reduction: str,
    ) -> PreservationDelta:
        """Round the ends outwards and build the float."""
        log_upper = min(log_upper, 0.0)
        log_lower = min(log_lower, log_upper)
        lower = lowered(math.exp(log_lower), roundings(ELEMENTARY))
        upper = 0.0
        if log_upper > -math.inf:
            upper = raised(math.exp(log_upper), roundings(ELEMENTARY))
            upper = min(math.nextafter(upper, 2.0), 1.0)
        ledger = ErrorLedger(truncation=truncation, round_off=max(upper - lower - truncation, 0.0))
        made = super().__new__(cls, lower=lower, upper=upper, ledger=ledger, reduction=reduction)
        self = cast("PreservationDelta", made)
        self._log_lower, self._log_upper, self._leavers = log_lower, log_upper, leavers
        return self

    @property
    def log(self) -> float:
        """Natural logarithm of the upper end; -inf if a failure is impossible."""
        return self._log_upper

    @property
    def log_lower(self) -> float:
        """Natural logarithm of the lower end."""
        return self._log_lower

    @property
    def log10(self) -> float:
        """Decimal logarithm of the upper end; -inf if a failure is impossible."""
        return self._log_upper / math.log(10.0)

    @property
    def leavers(self) -> int:
        """Fewest leavers J that are a failure."""
        return self._leavers

    def __repr__(self) -> str:
        if -math.inf < self._log_upper < math.log(np.finfo(float).tiny):
            text = f"x = 10**{self.log10:.6g}"
        else:
            lower, upper = self.ends()
            text = f"{lower} <= x <= {upper}"
        return f"PreservationDelta({text}, leavers >= {self._leavers})"

    def __reduce__(self) -> tuple[Callable[..., Bracket], tuple[Any, ...]]:
        made = partial(
            PreservationDelta,
            log_lower=self._log_lower,
            log_upper=self._log_upper,
            truncation=self.ledger.truncation,
            leavers=self._leavers,
            reduction=self.reduction,
        )
        return made, ()


def share(**named: Eta) -> Fraction:
    """The one named argument as the number that was written: the float 0.7 is 7/10."""
    ((name, value),) = named.items()
    allowed, got = f"{name} must be a number in [0, 1]", validate.shown(value)
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real | Decimal):
        raise TypeError(f"{allowed}, got {got} of type {type(value).__name__}")
    # a NaN among the decimals does not compare
    if (isinstance(value, Decimal) and value.is_nan()) or not 0 <= value <= 1:
        raise ValueError(f"{allowed}, got {got}")
    return Fraction(value if isinstance(value, numbers.Rational | Decimal) else repr(float(value)))


def fewest_leavers(size: int, eta: Eta) -> int:
    """Fewest leavers of a set of a size that are a failure, J; nothing is rounded."""
    return math.floor((1 - share(eta=eta)) * size) + 1


@renamed(n="users")
def preservation_delta(
    users: int,
    l: int,  # noqa: E741
    eta: Eta,
    theta: float,
    distance: str = "hamming",
    *,
    interval: Sequence[int] | None = None,
) -> PreservationDelta:
    """Chance that fewer than ``eta l`` of l slots keep a value from among them, exactly.

    Under Hamming's distance the chance is the same for every set of l slots. Under Kendall's the
    slots must be an interval of the reference order: of any length at either end of the order;
    inside the order as far as the sum over all tables of who crossed which border is practical.

    Args:
        l: slots of the set, 1 … n.
        eta: share to be kept, in [0, 1]; a float counts as the decimal number it is written as, so
            that 0.7 of 10 slots are 7.
        theta: concentration of the Mallows distribution, in [0, 700] or inf; 0 is the uniform
            shuffle, inf none.
        distance: "hamming" or "kendall".
        interval: ``(start, l)``, the first rank (from 0) and the number of ranks of the interval;
            for Kendall's distance only, where it must be given.

    Returns:
        Delta as a bracket, a float that is its own upper (safe) end. `PreservationDelta.log10`
        tells it where a float cannot; relative accuracy is kept there, except inside the order,
        where it is absolute: about 1e-18.
    """
    n, l, theta = _checked(users, l, theta)  # noqa: E741
    leavers = fewest_leavers(l, eta)
    distance = validate.choice(("hamming", "kendall"), distance=distance)
    start = 0  # for Hamming's distance all sets are alike
    if distance == "kendall":
        if interval is None:
            raise ValueError("interval must be (start, l) for the Kendall distance, got None")
        start = _interval(n, l, interval)
    elif interval is not None:
        raise ValueError(
            f"interval must be None for the Hamming distance, where all sets of l slots are "
            f"alike, got {validate.shown(interval)}"
        )
    name = f"Mallows law, {distance.capitalize()} distance"
    delta = partial(PreservationDelta, leavers=leavers, reduction=name)
    if leavers > min(l, n - l) or theta == math.inf:
        return delta(log_lower=-math.inf, log_upper=-math.inf)
    if 0 < start < n - l:
        chance, error, neglected = inner_tail(n, start, l, theta, leavers)
        lower, upper = chance * (1.0 - min(error, 1.0)), chance * (1.0 + error) + neglected
        log_lower = math.log(lower) if lower > 0.0 else -math.inf
        return delta(log_lower=log_lower, log_upper=math.log(upper), truncation=neglected)
    log, error = (hamming_tail if distance == "hamming" else end_tail)(n, l, theta, leavers)
    return delta(log_lower=log - error, log_upper=log + error)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreservationEstimate:
    """An estimate of delta from samples.

    Attributes:
        failures: samples that kept too few.
        samples: all samples.
        confidence: of the interval, and of `at_most`.
        lower: lower end of Clopper and Pearson's two-sided interval.
        upper: upper end of it.
        at_most: one-sided upper limit, the delta that the samples certify with that confidence.
    """

    failures: int
    samples: int
    confidence: float
    lower: float
    upper: float
    at_most: float

    @property
    def estimate(self) -> float:
        """Share of the samples that failed."""
        return self.failures / self.samples


@renamed(n="users")
def preservation_mc(
    users: int,
    l: int,  # noqa: E741
    eta: Eta,
    theta: float,
    distance: str = "kendall",
    *,
    interval: Sequence[int] | None = None,
    slots: ArrayLike | None = None,
    samples: int = 1000,
    confidence: float = 0.95,
    rng: RandomSource = None,
) -> PreservationEstimate:
    """Chance that fewer than ``eta l`` of l slots keep a value from among them, by sampling.

    For sets and distances that `preservation_delta` does not do. With no failure among the samples,
    0.01 is certified at 95 % from 299 samples on.

    An interruption from the keyboard ends the sampling; the answer is then from what was drawn.

    Args:
        l: slots of the set, 1 … n.
        eta: see `preservation_delta`, as for ``theta``.
        distance: "kendall", "hamming" or "cayley".
        interval: ``(start, l)``: the set is an interval of the reference order.
        slots: or its ranks in the reference order, from 0, all different, shape (l,). For "hamming"
            and "cayley" the distribution does not depend on which, and neither is needed.
    """
    n, l, theta = _checked(users, l, theta)  # noqa: E741
    leavers = fewest_leavers(l, eta)
    distance = validate.choice(LAWS, distance=distance)
    inside = np.zeros(n, dtype=bool)
    inside[_ranks(n, l, distance, interval, slots)] = True
    samples = validate.integer(minimum=1, maximum=10**9, samples=samples)
    confidence = validate.open_unit(confidence=confidence)
    law, generator = LAWS[distance](n, theta), random_source(rng)

    def fails() -> bool:
        return int(np.count_nonzero(~inside[law.sample(generator)[inside]])) >= leavers

    failures, drawn = summed("sampling permutations", samples, fails)
    lower, upper = clopper_pearson(failures, drawn, confidence=confidence)
    return PreservationEstimate(
        failures=failures,
        samples=drawn,
        confidence=confidence,
        lower=lower,
        upper=upper,
        at_most=_exact_interval(failures, drawn, confidence, "less")[1],
    )


def clopper_pearson(failures: int, samples: int, *, confidence: float) -> tuple[float, float]:
    """Clopper and Pearson's two-sided interval for a chance, of at least the stated coverage."""
    samples = validate.integer(minimum=1, samples=samples)
    failures = validate.integer(minimum=0, maximum=samples, failures=failures)
    confidence = validate.open_unit(confidence=confidence)
    return _exact_interval(failures, samples, confidence, "two-sided")


def _exact_interval(
    failures: int, samples: int, confidence: float, alternative: str
) -> tuple[float, float]:
    from scipy.stats import binomtest

    found = binomtest(failures, samples, alternative=alternative)
    low, high = found.proportion_ci(confidence, method="exact")
    return float(low), float(high)


def _checked(users: int, l: int, theta: float) -> tuple[int, int, float]:  # noqa: E741
    n = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    l = validate.integer(minimum=1, maximum=n, l=l)  # noqa: E741
    theta = validate.nonnegative(theta=theta)
    if MOST_THETA < theta < math.inf:
        raise ValueError(f"theta must be a number in [0, {MOST_THETA:g}] or inf, got {theta!r}")
    return n, l, theta


def _interval(n: int, l: int, interval: Sequence[int]) -> int:  # noqa: E741
    if not isinstance(interval, Sequence) or isinstance(interval, str) or len(interval) != 2:
        raise TypeError(f"interval must be two integers (start, l), got {validate.shown(interval)}")
    start = validate.integer(minimum=0, maximum=n - l, interval=interval[0])
    if interval[1] != l:
        raise ValueError(
            f"interval must be (start, l) with l = {l}, got {validate.shown(tuple(interval))}"
        )
    return start


def _ranks(
    n: int,
    l: int,  # noqa: E741
    distance: str,
    interval: Sequence[int] | None,
    slots: ArrayLike | None,
) -> NDArray[np.int64]:
    if interval is not None and slots is not None:
        raise ValueError("interval must be None if slots are given, got both")
    if slots is None:
        if interval is None and distance == "kendall":
            raise ValueError("interval or slots must be given for the Kendall distance, got None")
        start = 0 if interval is None else _interval(n, l, interval)
        return np.arange(start, start + l)
    try:
        ranks = np.asarray(slots)
    except ValueError:  # lists of different lengths
        ranks = np.asarray(slots, dtype=object)
    if ranks.ndim != 1 or ranks.dtype.kind not in "iu":
        raise TypeError(
            f"slots must be ranks in one dimension, got shape {ranks.shape} of {ranks.dtype}"
        )
    if ranks.size != l or np.unique(ranks).size != l or ranks.min() < 0 or ranks.max() >= n:
        raise ValueError(
            f"slots must be l = {l} different ranks in [0, {n - 1}], got {validate.shown(slots)}"
        )
    return np.asarray(ranks, dtype=np.int64)
