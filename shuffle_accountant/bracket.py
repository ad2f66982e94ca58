"""Brackets: two ends that enclose the exact value, and the sources of the gap between them."""

from __future__ import annotations

import decimal
import functools
import html
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from shuffle_accountant.adjacency import Adjacency

__version__ = "0.2.0"
"""The release that answers, in one place: brackets say which one made them."""

# Files whose stack frames are not a caller's: the package's own, and `functools`.
_OURS = (os.path.join(os.path.dirname(os.path.abspath(__file__)), ""), functools.__file__)


class LooseBracketWarning(UserWarning):
    """The bracket is valid but wider than the tolerance asked for; the message says why."""


class FloorWarning(UserWarning):
    """Epsilon is infinite because something is seen, too often, that one neighbour cannot cause."""


class CrossedEndsError(UserWarning):
    """Two certified ends came out in the wrong order: an error in this package, to be reported.

    It is issued as a warning, and the answer is widened until it contains both ends. Filters that
    make warnings errors raise it.
    """


class WeakPrivacyWarning(UserWarning):
    """The answer is right and promises little or nothing; the message says why."""


def warn_loose(message: str, category: type[UserWarning] = LooseBracketWarning) -> None:
    """Issue a warning that points at the line which called this package.

    Its author can do something about the bracket.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """The block's warnings of answers, one line each; the list is filled at the end of the block.

    The lines stand before those that the block itself puts into the list.
    """
    lines: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        for kind in (LooseBracketWarning, WeakPrivacyWarning):
            warnings.simplefilter("always", kind)
        yield lines
    lines[:0] = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)


def warn_if_delta_is_large(delta: float | None, people: int | None) -> None:
    """Warn, at the caller's line, that a delta is too large for a meaningful guarantee.

    Delta is None if it was the answer, and the number of people protected if it is not known.
    """
    if delta is not None and people is not None and delta * people >= 1.0:
        warn_loose(
            f"delta = {delta!r} is at least 1/n for n = {people} people: whoever publishes the "
            "data of one of them, drawn at random, keeps epsilon = 0 at delta = 1/n",
            WeakPrivacyWarning,
        )


def in_order(lower: float, upper: float) -> tuple[float, float]:
    """The two ends in ascending order; warns with `CrossedEndsError` if they were not."""
    if not lower > upper:
        return lower, upper
    warn_loose(
        f"internal error, please report it: crossed ends, lower={lower!r} and upper={upper!r}; "
        "the answer is widened to contain both",
        CrossedEndsError,
    )
    return upper, lower


def _checked(lower: float, upper: float) -> tuple[float, float]:
    """The two ends of a bracket as floats in ascending order, none negative or NaN."""
    lower, upper = float(lower), float(upper)
    if not (lower >= 0.0 and upper >= 0.0):  # also false for NaN
        raise ValueError(f"internal error: not a bracket: lower={lower!r}, upper={upper!r}")
    return in_order(lower, upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLedger:
    """The four sources of a bracket's width.

    Every field is an absolute width in the unit of the answer it belongs to: in ε for a bracket
    of ε, in δ for a bracket of δ. Each is an upper bound on what its source contributes.

    Attributes:
        discretisation: losses were moved to grid points (or merged in blocks).
        truncation: probability mass far in the tails was not followed.
        aliasing: circular convolution wrapped tail mass around the grid.
        round_off: floating-point arithmetic.
        method: which way answered: of one round "binomial" (numbers of clones), "lists" (message
            histograms), "nodes" (Laplace inversion), "moments", "heavy tails" (one large value,
            or sums added in cells), "doubling" (such sums of likelihood ratios) or "table" (a
            tabulated loss); "sum" for a loss of one's own that names none; of several
            rounds "grid" (composition on a grid); "exact" where nothing had to be computed.
    """

    discretisation: float = 0.0
    truncation: float = 0.0
    aliasing: float = 0.0
    round_off: float = 0.0
    method: str = field(default="exact", kw_only=True)

    def __post_init__(self) -> None:
        for name, width in self.to_dict().items():
            if not width >= 0.0:
                raise ValueError(f"{name} must be a width >= 0, got {width!r}")

    @property
    def total(self) -> float:
        """Sum of the four widths."""
        return math.fsum(self.to_dict().values())

    @property
    def limited_by(self) -> str:
        """Name of the largest width, or "nothing" when all are zero."""
        widths = self.to_dict()
        largest = max(widths, key=widths.__getitem__)
        return largest if widths[largest] > 0.0 else "nothing"

    def to_dict(self) -> dict[str, float]:
        """The four widths by name, in the order above."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "method"}

    as_dict = to_dict  # its name up to version 0.2.0


class Bracket(float):
    """A certified answer: the exact value lies in [lower, upper].

    The bracket *is* a float, its safe upper end, so it can go wherever a number goes; arithmetic
    with it gives plain floats, and comparison and hashing are those of the upper end. Two brackets
    about neighbouring datasets are not added: a `Protocol` of both says what they cost together.

    Args:
        lower: certified lower end, >= 0.
        upper: certified upper end; inf where nothing finite is true. An upper end below the lower
            one is an error in this package: the two are exchanged, with a `CrossedEndsError`.
        conditions: returns the bracket's conditions; called only when they are asked for. None
            where the answer is not about rounds.
        regroup: returns the bracket for the keyword ``group``; see `group`.

    Raises:
        ValueError: the ends are NaN or negative, which is always a bug in the code that built them
            and never the fault of user input.
    """

    __slots__ = ("_adjacency", "_conditions", "_ledger", "_lower", "_reduction", "_regroup")

    _adjacency: Adjacency | None
    _conditions: Callable[[], tuple[str, ...]] | None
    _ledger: ErrorLedger
    _lower: float
    _reduction: str
    _regroup: Callable[..., Bracket] | None

    def __new__(
        cls,
        *,
        lower: float,
        upper: float,
        ledger: ErrorLedger | None = None,
        reduction: str,
        adjacency: Adjacency | None = None,
        conditions: Callable[[], tuple[str, ...]] | None = None,
        regroup: Callable[..., Bracket] | None = None,
    ) -> Bracket:
        """Check the ends and build the float."""
        lower, upper = _checked(lower, upper)
        self = super().__new__(cls, upper)
        self._lower = lower
        self._ledger = ErrorLedger() if ledger is None else ledger
        self._reduction = reduction
        self._adjacency = adjacency
        self._conditions = conditions
        self._regroup = regroup
        return self

    @property
    def lower(self) -> float:
        """Certified lower end."""
        return self._lower

    @property
    def upper(self) -> float:
        """Certified upper end: the value of the bracket as a float."""
        return float(self)

    @property
    def ledger(self) -> ErrorLedger:
        """Error budget: the sources of the width."""
        return self._ledger

    @property
    def reduction(self) -> str:
        """Name of the theorem that turned the protocol into the pair that was evaluated."""
        return self._reduction

    @property
    def adjacency(self) -> Adjacency | None:
        """What neighbouring datasets may differ in; None if the answer is not about neighbours."""
        return self._adjacency

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions under which the bracket holds, a sentence each with its theorem."""
        return () if self._conditions is None else self._conditions()

    @property
    def width(self) -> float:
        """Upper minus lower end."""
        return 0.0 if self._lower == self.upper else self.upper - self._lower

    def group(self, people: int) -> Bracket:
        """The answer to the same question if the data of this many people change at once.

        Args:
            people: >= 1.

        Raises:
            ValueError: the bracket is not about one person's data in rounds.
        """
        if self._regroup is None:
            raise ValueError("group needs a bracket of rounds about one person, got another one")
        return self._regroup(group=people)

    def contains(self, value: float) -> bool:
        """Whether lower <= value <= upper."""
        return self._lower <= value <= self.upper

    def __add__(self, other: Any) -> float:
        if isinstance(other, Bracket) and self._adjacency and other._adjacency:
            raise TypeError(
                "brackets cannot be added: epsilons at one delta do not add up to that of both; "
                "ask sa.epsilon(sa.Protocol([(first, 1), (second, 1)]), delta=delta)"
            )
        return float.__add__(self, other)

    def ends(self) -> tuple[str, str]:
        """Both ends as text, just long enough to tell them apart, rounded outwards."""
        return format_ends(self._lower, self.upper)

    def to_dict(self) -> dict[str, Any]:
        """The answer in plain Python types, for records; infinities are floats."""
        return {
            "lower": self._lower,
            "upper": self.upper,
            "reduction": self._reduction,
            "adjacency": None if self._adjacency is None else self._adjacency.value,
            "conditions": list(self.conditions),
            "ledger": self._ledger.to_dict(),
            "version": __version__,
        }

    as_dict = to_dict  # its name up to version 0.2.0

    def _repr_html_(self) -> str:
        """What notebooks show: the number to report, and below it the bracket and its theorem."""
        lower, upper = self.ends()
        hidden = "" if self._adjacency is None else f", {self._adjacency.value}"
        about = html.escape(f"certified: {lower} ≤ x ≤ {upper} ({self._reduction}{hidden})")
        return f"<b>{upper}</b> (report this)<br><small>{about}</small>"

    def __repr__(self) -> str:
        lower, upper = self.ends()
        return f"Bracket({lower} <= x <= {upper}, reduction={self._reduction!r})"

    def __reduce__(self) -> tuple[Callable[..., Bracket], tuple[Any, ...]]:
        ends = (self._lower, self.upper, self._ledger, self._reduction)
        return _rebuild, (*ends, self._adjacency, self._conditions, self._regroup)


def _rebuild(
    lower: float, upper: float, ledger: ErrorLedger, reduction: str, *about: Any
) -> Bracket:
    """Inverse of `Bracket.__reduce__`: pickling and copying.

    Brackets pickled by 0.1.0 have no adjacency, and those of 0.2.0 no conditions.
    """
    named = dict(zip(("adjacency", "conditions", "regroup"), about, strict=False))
    return Bracket(lower=lower, upper=upper, ledger=ledger, reduction=reduction, **named)


class Attained(float):
    """Delta or epsilon (nats) that concrete datasets attain: a lower bound on the real one.

    Its value as a float is the *lower* end, the safe one for a lower bound.
    """

    __slots__ = ("_dataset", "_upper")

    _dataset: tuple[int, int, int]
    _upper: float

    def __new__(cls, *, lower: float, upper: float, dataset: tuple[int, int, int]) -> Attained:
        """Check the ends and build the float."""
        lower, upper = _checked(lower, upper)
        self = super().__new__(cls, lower)
        self._upper, self._dataset = upper, dataset
        return self

    @property
    def lower(self) -> float:
        """Certified lower bound on the real delta or epsilon."""
        return float(self)

    @property
    def upper(self) -> float:
        """Certified upper end of this pair of datasets' own delta or epsilon."""
        return self._upper

    @property
    def dataset(self) -> tuple[int, int, int]:
        """``(x0, x1, others)``: the target's two values, and the value of all other users."""
        return self._dataset

    def __repr__(self) -> str:
        lower, upper = format_ends(float(self), self._upper)
        return f"Attained({lower} <= x <= {upper}, dataset={self._dataset})"

    def __reduce__(self) -> tuple[Callable[..., Attained], tuple[Any, ...]]:
        return _attained, (float(self), self._upper, self._dataset)


def _attained(lower: float, upper: float, dataset: tuple[int, int, int]) -> Attained:
    """Inverse of `Attained.__reduce__`: pickling and copying."""
    return Attained(lower=lower, upper=upper, dataset=dataset)


def format_ends(lower: float, upper: float) -> tuple[str, str]:
    """Two numbers 0 <= lower <= upper as text that encloses them.

    Both are written to the second significant digit of their difference, the lower one rounded
    down and the upper one up, so that the text, read back, is as true as the numbers. Ends that
    agree, or differ by less than 17 digits can show, are written in full.
    """
    if lower == upper:
        return repr(lower), repr(upper)
    place = decimal.Decimal(repr(upper - lower)).adjusted() - 1 if upper < math.inf else 0
    return (
        _format_end(lower, place, decimal.ROUND_FLOOR),
        _format_end(upper, place, decimal.ROUND_CEILING),
    )


def _format_end(value: float, place: int, rounding: str) -> str:
    """One end, rounded to a multiple of 10**place, with 2 to 17 significant digits."""
    if value == 0.0:
        return "0"
    if math.isinf(value):
        return "inf"
    exact = decimal.Decimal(repr(value))
    if exact.adjusted() - place >= 17:
        return repr(value)
    last = min(place, exact.adjusted() - 1)
    with decimal.localcontext(prec=40):
        rounded = exact.quantize(decimal.Decimal(1).scaleb(last), rounding=rounding)
    if -5 <= rounded.adjusted() < 16:
        return f"{rounded:f}"
    return f"{rounded:.{rounded.adjusted() - last}e}"


class _Curve:
    """Two certified curves, in fields of the same shape, of which read-only copies are kept."""

    __slots__ = ()

    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]

    def __len__(self) -> int:
        """Number of points m."""
        return self.lower.size

    def _keep(self, name: str, values: npt.ArrayLike) -> None:
        array = np.array(values, dtype=np.float64)
        array.setflags(write=False)
        object.__setattr__(self, name, array)

    def _keep_copies(self) -> set[tuple[int, ...]]:
        """The shapes of all fields, which are replaced by copies."""
        names = [one.name for one in fields(self)]  # type: ignore[arg-type]
        for name in names:
            self._keep(name, getattr(self, name))
        return {getattr(self, name).shape for name in names}

    def _order_ends(self, name: str) -> None:
        """Exchange the ends where the lower one is above the upper one, with one warning."""
        lower, upper = self.lower, self.upper
        if not np.all((lower >= 0.0) & (upper >= 0.0)):  # also false for NaN
            raise ValueError(f"internal error: not {name}: an end is negative or NaN")
        crossed = np.flatnonzero(lower > upper)
        if crossed.size > 0:
            in_order(float(lower[crossed[0]]), float(upper[crossed[0]]))
            self._keep("lower", np.minimum(lower, upper))
            self._keep("upper", np.maximum(lower, upper))


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyProfile(_Curve):
    """The curve δ(ε) between two certified curves; the arrays are read-only copies.

    Attributes:
        epsilons: the ε values asked for, shape (m,).
        lower: certified lower ends of δ there, shape (m,).
        upper: certified upper ends of δ there, shape (m,).

    Raises:
        ValueError: arrays of different shapes or not one-dimensional, or an end that is negative or
            NaN (a bug in the code that built them). Ends in the wrong order are exchanged, with a
            `CrossedEndsError`.
    """

    epsilons: npt.NDArray[np.float64]
    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        shapes = self._keep_copies()
        if len(shapes) != 1 or self.epsilons.ndim != 1:
            raise ValueError(f"internal error: a profile needs three equal shapes (m,): {shapes}")
        self._order_ends("a profile")


@dataclass(frozen=True, slots=True, eq=False)
class TradeOffCurve(_Curve):
    """The least false negative rate of any test of two neighbours, between two certified curves.

    Attributes:
        false_positive_rates: the rates asked for, shape (m,).
        lower: certified lower ends of the false negative rate there, shape (m,): no test does
            better, in either order of the neighbours.
        upper: certified upper ends for the composed dominating pairs, shape (m,).

    The arrays are read-only copies. Errors are those of `PrivacyProfile`.
    """

    false_positive_rates: npt.NDArray[np.float64]
    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        if len(self._keep_copies()) != 1:
            raise ValueError("internal error: a trade-off curve needs three equal shapes (m,)")
        self._order_ends("a trade-off curve")
