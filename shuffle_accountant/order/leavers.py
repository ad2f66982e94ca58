"""The number of leavers from which preservation fails, and the result `PreservationDelta`.

Shuffled by the permutation s, a set S of l slots holds the values of the users ``s(S)``. Its
*leavers* are the j slots that hold a value from outside of S. The shuffle preserves the share eta
of S if ``l - j >= eta l`` (Meehan et al., 'Privacy Implications of Shuffling', definition A.4), so
it fails from ``J = floor((1 - eta) l) + 1`` leavers on.

The paper's theorem A.4 rounds ``(1 - eta) l`` up instead: where that is no integer it leaves out
the outcome j = J, and its delta is too small.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np

from shuffle_accountant.bracket import Bracket, ErrorLedger
from shuffle_accountant.numerics.rounding import ELEMENTARY, lowered, raised, roundings
from shuffle_accountant.validation import shown


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

    __slots__ = ("_leavers", "_log_lower", "_log_upper", "_truncation")

    _leavers: int
    _log_lower: float
    _log_upper: float
    _truncation: float

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
        self._log_lower, self._log_upper = log_lower, log_upper
        self._truncation, self._leavers = truncation, leavers
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

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[float | int | str, ...]]:
        state = self._log_lower, self._log_upper, self._truncation, self._leavers, self.reduction
        return _rebuild, state


def _rebuild(
    log_lower: float, log_upper: float, truncation: float, leavers: int, reduction: str
) -> PreservationDelta:
    """Inverse of `PreservationDelta.__reduce__`: pickling and copying."""
    return PreservationDelta(
        log_lower=log_lower,
        log_upper=log_upper,
        truncation=truncation,
        leavers=leavers,
        reduction=reduction,
    )


def share(eta: float | Fraction | Decimal) -> Fraction:
    """The share eta as the number that was written: the float 0.7 is 7/10."""
    allowed = "a number in [0, 1]"
    if isinstance(eta, bool | np.bool_) or not isinstance(eta, numbers.Real | Decimal):
        raise TypeError(f"eta must be {allowed}, got {shown(eta)} of type {type(eta).__name__}")
    # a NaN among the decimals does not compare
    if (isinstance(eta, Decimal) and eta.is_nan()) or not 0 <= eta <= 1:
        raise ValueError(f"eta must be {allowed}, got {shown(eta)}")
    return Fraction(eta if isinstance(eta, numbers.Rational | Decimal) else repr(float(eta)))


def fewest_leavers(size: int, eta: float | Fraction | Decimal) -> int:
    """Fewest leavers of a set of a size that are a failure, J; nothing is rounded."""
    return math.floor((1 - share(eta)) * size) + 1
