"""The error budget: what may be left out or rounded away, source by source.

Error terms are 1e-14 to 1e-18 of an answer whose bracket is 1e-3 wide, so an answer that forgets
one of them still looks right. Under a *stress* budget one source is as large as the bracket, and
every primitive with a stated error (a rounding, a transform, a binomial or normal probability) errs
by all of it, one way: then a bracket contains the exact value only if that error is counted.

The budget is a context variable, because its default never changes outside of tests. Results that
functions keep for later do not know which budget they were made under.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

Numbers = TypeVar("Numbers")


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """Sizes of all sources of error: what is left out, moved to a grid, or rounded.

    Attributes:
        outside: logarithm of the tilted mass that a window may leave outside on either side.
        reach: terms whose exponent is further than this from where the question is are left out.
        snap: losses this close to a grid point, relative to themselves, are moved there.
        lattice_snap: values this close to a lattice point, in spacings, are moved there.
        roundoff: relative error of one rounding.
        normal: relative error of a normal probability.
        adverse: by how much of their stated errors primitives really err, and which way, in [-1,
            1]; 0 is arithmetic as it is.
    """

    outside: float = -40.0
    reach: float = 45.0
    snap: float = 16 * 2.0**-53
    lattice_snap: float = 1e-12
    roundoff: float = 2.0**-53
    normal: float = 1e-11
    adverse: float = 0.0


_current: ContextVar[Budget] = ContextVar("budget", default=Budget())  # noqa: B039 - it is frozen


def budget() -> Budget:
    """The budget in force."""
    return _current.get()


@contextmanager
def stress(**sources: float) -> Iterator[Budget]:
    """A budget that differs from the default in these fields, in force within the block."""
    token = _current.set(Budget(**sources))
    try:
        yield _current.get()
    finally:
        _current.reset(token)


def rounded(values: Numbers, count: Any = 1.0) -> Numbers:
    """The values as ``count`` roundings may leave them.

    These are the values themselves, rounded by the arithmetic as it is, unless the budget in force
    is adverse: then ``count`` more roundings, each times `Budget.adverse`, move them.
    """
    found = _current.get()
    if found.adverse == 0.0:
        return values
    result: Any = values
    factor = 1.0 + found.adverse * count * found.roundoff
    # a rounding multiplies or divides by 1 + u, whichever is worse
    return result * factor if found.adverse > 0.0 else result / (2.0 - factor)  # type: ignore[no-any-return]


def disturbed(values: Numbers, error: Any) -> Numbers:
    """The values as a stated absolute error may leave them.

    These are the values themselves, unless the budget in force is adverse: then they are moved by
    the part `Budget.adverse` of the error, which may be given by a function that computes it.
    """
    found = _current.get()
    if found.adverse == 0.0:
        return values
    result: Any = values
    return result + found.adverse * (error() if callable(error) else error)  # type: ignore[no-any-return]
