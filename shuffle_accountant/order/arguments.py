"""Arrays as users pass them: users' numbers, permutations and coordinates, checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.numerics.secure import secure_generator
from shuffle_accountant.progress import progress_bar

IntArray = NDArray[np.int64]

RandomSource: TypeAlias = np.random.Generator | int | None
"""A generator, a seed, or None for the operating system's cryptographic source."""

F = TypeVar("F", bound=Callable[..., Any])


def renamed(**names: str) -> Callable[[F], F]:
    """Let a function also be called with names that its arguments had in version 0.1."""

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for old, new in names.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{new} must be given once, got {old} as well")
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def permutation(n: int, **named: Any) -> IntArray:
    """The one named argument as a one-line permutation of 0..n-1, a copy."""
    name, array = _array("iu", f"integers 0..{n - 1}", **named)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got {array.shape}")
    allowed = f"{name} must hold each of 0..{n - 1} once"
    inside = (array >= 0) & (array < n)
    if not inside.all():
        raise ValueError(f"{allowed}, got {array[~inside][0]}")
    seen = np.zeros(n, dtype=bool)
    seen[array] = True
    if not seen.all():
        raise ValueError(f"{allowed}, got none that is {int(np.argmin(seen))}")
    return array.astype(np.int64)


def coordinates(dimensions: tuple[int, ...], **named: Any) -> Array:
    """The one named argument as a non-empty array of finite numbers with allowed dimensions."""
    name, array = _array("iuf", "finite numbers", **named)
    if array.ndim not in dimensions or not array.size:
        wanted = " or ".join(map(str, dimensions))
        raise ValueError(
            f"{name} must be a non-empty array of {wanted} dimensions, got shape {array.shape}"
        )
    with np.errstate(over="ignore"):  # a longer float may be infinite as a double
        numbers = array.astype(np.float64)
    outside = ~np.isfinite(numbers)
    if outside.any():
        raise ValueError(f"{name} must be finite numbers, got {float(numbers[outside][0])!r}")
    return numbers


def inverse(order: IntArray) -> IntArray:
    """The inverse permutation: where each of 0..n-1 stands."""
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank


def any_array(**named: Any) -> NDArray[Any]:
    """The one named argument as an array of whatever it holds."""
    ((name, values),) = named.items()
    try:
        return np.asarray(values)
    except ValueError:  # nested lists of different lengths
        raise ValueError(f"{name} must be an array, got ragged lists") from None


def _array(kinds: str, allowed: str, **named: Any) -> tuple[str, NDArray[Any]]:
    (name,) = named
    array = any_array(**named)
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name} must be {allowed}, got an array of {array.dtype}")
    return name, array


def random_source(rng: object) -> np.random.Generator:
    """A generator as it is, or a new one from a seed; None is a new one without."""
    if rng is None:
        return secure_generator()
    if not isinstance(rng, np.random.Generator | np.random.BitGenerator | np.random.SeedSequence):
        rng = validate.integer(minimum=0, rng=rng)
    return np.random.default_rng(rng)


def located(**named: ArrayLike) -> Array:
    """The one named argument as points, shape (n, d); n numbers are points of one dimension."""
    found = coordinates((1, 2), **named)
    return found[:, None] if found.ndim == 1 else found


def values_below(limit: int, /, n: int | None = None, **named: ArrayLike) -> IntArray:
    """The one named argument as whole numbers in [0, limit), shape (n,)."""
    name, array = _array("iu", "integers", **named)
    if array.ndim != 1 or not array.size or array.size != (n or array.size):
        wanted = "(n,) with n >= 1" if n is None else f"({n},)"
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
    values = array.astype(np.int64)
    outside = (values < 0) | (values >= limit)
    if outside.any():
        raise ValueError(f"{name} must be integers in [0, {limit - 1}], got {values[outside][0]}")
    return values


def summed(label: str, times: int, once: Callable[[], Any]) -> tuple[Any, int]:
    """Sum over some calls, and how many there were; the keyboard may end them after the first."""
    total: Any = 0
    done = 0
    with progress_bar(label) as report:
        try:
            while done < times:
                total, done = total + once(), done + 1
                report(done / times)
        except KeyboardInterrupt:
            if not done:
                raise
    return total, done
