"""Checks a certificate, in ball arithmetic, with no help from what made it.

1. The protocol's pairs are computed anew from its description.
2. The witness of each round, a privacy loss distribution on a grid, dominates the round's pair:
   its P-masses with that at +inf add up to exactly one and its Q-masses to at most one, and its
   profile is at least the exact one at every kink. Between kinks it is a chord of a curve that is
   convex, beyond the last one a constant under a curve that falls, and before the first one a line
   from (0, 1), where all profiles begin. A pair that is not symmetric has a witness for each order.
3. The composition of the witnesses, in one order throughout, has δ(ε) at most the claim's δ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flint import arb, ctx

from shuffle_accountant import validation as validate
from shuffle_accountant.certificates import balls, description
from shuffle_accountant.certificates import work as working
from shuffle_accountant.certificates.balls import Effort, UndecidedError, exact
from shuffle_accountant.certificates.composition import GridLaw, composed, composed_work
from shuffle_accountant.certificates.description import Part
from shuffle_accountant.certificates.profiles import Profile
from shuffle_accountant.certificates.schema import Certificate, digest_of
from shuffle_accountant.certificates.work import EXP, Work, left, price, spend

MAX_WORK = 5e9
"""Units of work that a check may take by default; ten million take about a second."""

# Most bytes that a check may need.
_MOST_MEMORY = 2.0**31
_ATTEMPTS = 3
_MOST_CELLS = 1 << 14
# Of the datasets, as witnesses name them; those of a symmetric pair have the first alone.
ORDERS = ("forward", "backward")


@dataclass(frozen=True)
class Verification:
    """The outcome.

    Attributes:
        verified: whether the claim is proven.
        delta: upper bound of δ at the claim's ε that was found; 1 if none was.
        reason: "verified", or what failed.
    """

    verified: bool
    delta: float
    reason: str

    def __bool__(self) -> bool:
        return self.verified


@dataclass(frozen=True)
class Grid:
    """The grid of losses on which the witnesses have their masses, and the precision of a check.

    The spacing h of the losses is ``numerator / 2**exponent`` nats, and masses are integers over
    ``2**bits``; the cells are of the first block of graded grids, where they bound a profile.
    """

    numerator: int
    exponent: int
    bits: int
    cells: int

    @property
    def spacing(self) -> arb:
        """Distance of the grid's points, nats, without rounding."""
        return balls.dyadic(self.numerator, self.exponent)

    def effort(self, attempt: int) -> Effort:
        """Precision of an attempt; finer after each attempt that did not decide."""
        precision = (max(2 * self.bits, 128) + 128) << attempt
        return Effort(self.bits, min(self.cells << attempt, _MOST_CELLS), precision)

    def alphas(self, first: int, count: int) -> list[arb]:
        """``e^(k h)`` for ``count`` consecutive k."""
        spend(count * EXP * price(ctx.prec))
        return [(k * self.spacing).exp() for k in range(first, first + count)]


class _Refuted(Exception):
    """A check failed."""


class _NotBegun(Exception):
    """A check would take more than it may; the text is the estimate."""


def verify(certificate: Certificate, *, max_work: float = MAX_WORK) -> Verification:
    """Check a certificate.

    Args:
        max_work: units of work that the check may take, > 0. A unit is an arithmetic operation on
            intervals of up to 512 bits, about 0.1 µs on an ordinary machine: ten million take a
            second, and the default eight minutes. Work is estimated from above before it is done;
            a check that would take more, or more than 2 GiB of memory, is not begun.

    Returns:
        Whether the claim is proven, with the upper bound of δ that was found, or what failed: of a
        check that is not begun the estimate.
    """
    if not isinstance(certificate, Certificate):
        raise TypeError(f"certificate must be a Certificate, got {type(certificate).__name__}")
    max_work = validate.positive(max_work=max_work)
    content = certificate.content
    if digest_of(content) != content["digest"]:
        return Verification(False, 1.0, "the digest is not that of the content")
    with working.limited_to(max_work):
        return _decided(content, max_work)


def _decided(content: dict[str, Any], max_work: float) -> Verification:
    """The verdict of the first attempt that gives one, with more digits each time."""
    reasons: list[str] = []
    for attempt in range(_ATTEMPTS):
        try:
            return _attempt(content, attempt)
        except UndecidedError as undecided:
            reasons = [f"not decided at this precision: {undecided}"]
        except (_Refuted, description.UnsupportedError) as refuted:
            return Verification(False, 1.0, str(refuted))
        except _NotBegun as estimate:
            reasons.append(str(estimate))
            break
        except working.TooMuchWorkError:
            reasons.append(f"the check was stopped after max_work = {max_work:.3g} units of work")
            break
    return Verification(False, 1.0, "; ".join(reasons))


def _attempt(content: dict[str, Any], attempt: int) -> Verification:
    grid = Grid(**content["grid"])
    effort = grid.effort(attempt)
    _affordable(description.reading_work(content["protocol"]))
    with balls.working_precision(effort.precision):
        parts = description.parts_of(content["protocol"])
        if content["adjacency"] != content["protocol"]["adjacency"]:
            raise _Refuted(f"adjacency must be {content['protocol']['adjacency']!r}")
        if len(content["witnesses"]) != len(parts):
            raise _Refuted(f"witnesses must be a list of {len(parts)}")
        found = zip(parts, content["witnesses"], strict=True)
        laws = [_laws(i, part, state, grid) for i, (part, state) in enumerate(found)]
        _affordable(_work(parts, laws, effort))
        for i, (part, held) in enumerate(zip(parts, laws, strict=True)):
            for order, profile, law in zip(ORDERS, part.orders, held, strict=False):
                _dominates(f"the {order} witness {i}", law, profile, grid, effort)
        return _compared(content["claim"], parts, laws, grid, effort)


def _work(parts: list[Part], laws: list[list[GridLaw]], effort: Effort) -> Work:
    """Work and memory of the checks 2 and 3."""
    work = Work()
    for part, held in zip(parts, laws, strict=True):
        for law, profile in zip(held, part.orders, strict=True):
            kinks = len(law.masses)
            below = min(max(-law.first, 0), kinks)
            work += Work(kinks * (3.0 * EXP + 8.0) * price(effort.precision))
            work += profile.work(below, kinks - below, effort)
    return sum((composed_work(chosen, effort) for chosen in each_order(parts, laws)), work)


def _affordable(work: Work) -> None:
    """Raise if an estimate is more than may be done."""
    if not work.units <= left():
        raise _NotBegun(
            f"the check is estimated at {work.units:.3g} units of work or more, and max_work"
            f" leaves {left():.3g}"
        )
    if not work.memory <= _MOST_MEMORY:
        raise _NotBegun(
            f"the check is estimated at {work.memory:.3g} bytes of memory, more than"
            f" {_MOST_MEMORY:.3g}"
        )


def each_order(parts: list[Part], laws: list[list[GridLaw]]) -> Iterator[list[tuple[GridLaw, int]]]:
    """What is composed in each order of the datasets; of a symmetric pair the one law in both."""
    for order in range(max(map(len, laws), default=1)):
        yield [
            (held[order % len(held)], part.count) for part, held in zip(parts, laws, strict=True)
        ]


def _compared(
    claim: dict[str, Any],
    parts: list[Part],
    laws: list[list[GridLaw]],
    grid: Grid,
    effort: Effort,
) -> Verification:
    """Whether the claim is met by the bound of delta of each order of the neighbours."""
    epsilon, most = exact(claim["epsilon"]), exact(claim["delta"])
    largest = 0.0
    for chosen in each_order(parts, laws):
        delta = composed(chosen, effort).delta(epsilon, grid.spacing)
        largest = max(largest, _above(delta))
        if delta > most:
            reason = f"the witnesses compose to delta <= {largest!r} at the claimed epsilon"
            return Verification(False, min(largest, 1.0), reason)
        if not delta <= most:
            raise UndecidedError("whether delta is at most the claim")
    return Verification(True, min(largest, 1.0), "verified")


def _above(value: arb) -> float:
    """A double that is no smaller than the value, >= 0."""
    near = max(float(value.upper()), 0.0)
    return near if exact(near) >= value.upper() else math.nextafter(near, math.inf)


def _laws(index: int, part: Part, state: dict[str, Any], grid: Grid) -> list[GridLaw]:
    """The distributions of one witness, of the form that its round needs."""
    orders = ORDERS[: len(part.orders)]
    wanted = {"theorem", "count", *orders}
    if set(state) != wanted:
        raise _Refuted(f"witness {index} must have fields {', '.join(sorted(wanted))}")
    if state["theorem"] != part.theorem:
        raise _Refuted(f"theorem of witness {index} must be {part.theorem!r}")
    if state["count"] != part.count:
        raise _Refuted(f"count of witness {index} must be {part.count}")
    laws = [GridLaw(**state[order], bits=grid.bits) for order in orders]
    for order, law in zip(orders, laws, strict=True):
        if law.total != 1 << law.bits:
            raise _Refuted(f"the masses of the {order} witness {index} do not add up to one")
    return laws


def _dominates(name: str, law: GridLaw, profile: Profile, grid: Grid, effort: Effort) -> None:
    """Check 2: a distribution dominates its round."""
    held, weight = law.profile(grid.spacing)
    if weight > 1:
        raise _Refuted(f"the Q-masses of {name} add up to more than one")
    if not weight <= 1:
        raise UndecidedError(f"whether the Q-masses of {name} add up to at most one")
    values = profile.values(grid.alphas(law.first, len(law.masses)), effort)
    for k, (own, value) in enumerate(zip(held, values, strict=True), start=law.first):
        if not own >= value.upper():
            text = f"{name} is below the exact profile at loss {k} h"
            if profile.definite(effort) and own < value:
                raise _Refuted(text)
            raise UndecidedError(f"whether {text}")
