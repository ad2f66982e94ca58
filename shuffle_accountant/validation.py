"""Keyword validators: `validate.positive(sigma=-1)` names the argument, the value, the range.

Each function takes exactly one keyword argument, whose name is the name the caller's user knows,
and returns the cleaned plain Python value. NumPy scalars are numbers here; `bool` is not.
A value outside the range raises `ValueError`, a value of the wrong type `TypeError`, both with a
message of one line.

    from shuffle_accountant import validation as validate

    users = validate.integer(minimum=1, users=users)
    delta = validate.open_unit(delta=delta)
"""

from __future__ import annotations

import math
import numbers
import operator
import reprlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeGuard, TypeVar

T = TypeVar("T")


class _Short(reprlib.Repr):
    """Short texts; Python refuses to print integers of some thousand digits."""

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > 4000:
            return f"{'-' if x < 0 else ''}about 2^{x.bit_length() - 1}"
        return super().repr_int(x, level)


_short = _Short()
_short.maxstring = _short.maxother = 60
# Largest number of characters of a value in a message: nested values can be far longer.
_LONGEST_SHOWN = 160


def _single(named: dict[str, object]) -> tuple[str, object]:
    if len(named) != 1:
        raise TypeError(f"a validator takes exactly one keyword argument, got {sorted(named)}")
    return named.popitem()


def shown(value: object) -> str:
    """Short text of any value for a message, of one line (arrays and long strings included)."""
    text = " ".join(_short.repr(value).split())
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def _is_bool(value: object) -> bool:
    """Whether the value is a Python or NumPy bool (some versions of NumPy call theirs an index)."""
    kind = type(value)
    return kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"))


def _wrong_type(name: str, value: object, allowed: str) -> TypeError:
    return TypeError(f"{name} must be {allowed}, got {shown(value)} of type {type(value).__name__}")


def _out_of_range(name: str, value: object, allowed: str) -> ValueError:
    return ValueError(f"{name} must be {allowed}, got {shown(value)}")


def _real(named: dict[str, object], allowed: str, inside: Callable[[float], bool]) -> float:
    """The named real number as a float, if `inside` accepts it (`inside(nan)` must be False)."""
    name, value = _single(named)
    if _is_bool(value) or not isinstance(value, numbers.Real):
        raise _wrong_type(name, value, allowed)
    try:
        number = float(value)
    except OverflowError:
        raise _out_of_range(name, value, f"{allowed} (and at most 1.8e308)") from None
    except TypeError:  # NumPy counts spans of time among the integers
        raise _wrong_type(name, value, allowed) from None
    if not inside(number):
        raise _out_of_range(name, value, allowed)
    return number


def integer(*, minimum: int | None = None, maximum: int | None = None, **named: object) -> int:
    """An integer between `minimum` and `maximum` (both included, both optional).

    A whole float, such as 1e6, is the integer that it is, up to 2**53: above, floats are too far
    apart for the integer that was meant.
    """
    ends = (f"{sign} {end}" for sign, end in ((">=", minimum), ("<=", maximum)) if end is not None)
    allowed = f"an integer {' and '.join(ends)}".rstrip()
    name, value = _single(named)
    if _is_bool(value):
        raise _wrong_type(name, value, allowed)
    value = _whole(value)
    if isinstance(value, float) and value.is_integer():
        raise _out_of_range(name, value, f"{allowed} (a float at most 2^53)")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise _wrong_type(name, value, allowed) from None
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        raise _out_of_range(name, value, allowed)
    return number


def _whole(value: object) -> object:
    """A whole float as the integer that it is; anything else as it was."""
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        with suppress(OverflowError):
            number = float(value)
            if number.is_integer() and abs(number) <= 2**53:
                return int(number)
    return value


def real(**named: object) -> float:
    """A finite real number."""
    return _real(named, "a finite number", math.isfinite)


def finite_nonnegative(**named: object) -> float:
    """A real number in [0, inf)."""
    return _real(named, "a finite number >= 0", lambda x: 0.0 <= x < math.inf)


def nonnegative(**named: object) -> float:
    """A real number in [0, inf], infinity included."""
    return _real(named, "a number >= 0 (inf allowed)", lambda x: x >= 0.0)


def positive(**named: object) -> float:
    """A real number in (0, inf)."""
    return _real(named, "a finite number > 0", lambda x: 0.0 < x < math.inf)


def noise_multiplier(**named: object) -> float:
    """A real number in [1e-100, 1e12].

    With more noise no double tells a likelihood ratio from 1, with less no loss is a double.
    """
    return _real(named, "a number in [1e-100, 1e12]", lambda x: 1e-100 <= x <= 1e12)


def open_unit(**named: object) -> float:
    """A real number in (0, 1), both ends excluded."""
    return _real(named, "a number in (0, 1)", lambda x: 0.0 < x < 1.0)


def closed_unit(**named: object) -> float:
    """A real number in [0, 1], both ends included."""
    return _real(named, "a number in [0, 1]", lambda x: 0.0 <= x <= 1.0)


def share(**named: object) -> float:
    """A real number in (0, 1], the upper end included."""
    name = next(iter(named))
    value = closed_unit(**named)
    if value == 0.0:
        raise _out_of_range(name, value, "a number in (0, 1]")
    return value


def choice(options: Collection[str], /, **named: object) -> str:
    """One of a few words."""
    allowed = "one of " + ", ".join(repr(option) for option in options)
    name, value = _single(named)
    if not isinstance(value, str):
        raise _wrong_type(name, value, allowed)
    if value not in options:
        raise _out_of_range(name, value, allowed)
    return str(value)


def flag(**named: object) -> bool:
    """True or False (a Python or NumPy bool); no other value counts as true or false."""
    name, value = _single(named)
    if not _is_bool(value):
        raise _wrong_type(name, value, "True or False")
    return bool(value)


def function(**named: object) -> Callable[..., Any]:
    """Something that can be called."""
    name, value = _single(named)
    if not callable(value):
        raise _wrong_type(name, value, "a callable")
    return value


def several(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list, a tuple or an array with dimensions, not one number."""
    return isinstance(value, list | tuple) or bool(getattr(value, "ndim", 0))


def items(**named: object) -> list[Any]:
    """The items of a sequence, a set, an array or an iterator; a string is none of these."""
    name, value = _single(named)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        with suppress(TypeError):  # an array without dimensions, or a class
            return list(value)
    raise _wrong_type(name, value, "an iterable")


def fields(wanted: Collection[str], /, *, kind: str, **named: object) -> dict[str, Any]:
    """A stored object with exactly the wanted fields, of which ``kind`` says what it is."""
    name, value = _single(named)
    if isinstance(value, dict) and set(value) == set(wanted):
        found = value["kind"]
        if isinstance(found, str) and spelled(found) == spelled(kind):
            return value
    raise ValueError(
        f"{name} must be an object of kind {kind!r} with fields {sorted(wanted)}, "
        f"got {shown(value)}"
    )


def spelled(kind: str) -> str:
    """A kind in lower case with hyphens, also as earlier versions spelled it (``duchi_l2``)."""
    return kind.lower().replace(" ", "-").replace("_", "-")


def json_object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON as a dictionary; for ``object_pairs_hook``.

    Readers of JSON differ in which of two fields of one name they see.
    """
    found: dict[str, Any] = {}
    for name, value in fields:
        if name in found:
            raise ValueError(f"field {shown(name)} is given twice")
        found[name] = value
    return found


def instance(kind: type[T], /, **named: object) -> T:
    """An object of the class `kind`."""
    name, value = _single(named)
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise _wrong_type(name, value, f"{article} {kind.__name__}")
    return value
