"""A cache of the results of a function, bounded by the bytes that they use."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar

Given = ParamSpec("Given")
Value = TypeVar("Value")


class Kept(Generic[Given, Value]):
    """A function with a cache bounded by memory; what was asked for least recently goes first."""

    def __init__(
        self, function: Callable[Given, Value], limit: int, size: Callable[[Value], int]
    ) -> None:
        self._function, self._limit, self._size, self._used = function, limit, size, 0
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()
        functools.update_wrapper(self, function)

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Value:
        """The value, made if it is not there; two threads may both make it."""
        key = (args, tuple(kwargs.items()))
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = self._function(*args, **kwargs)
        with self._lock:
            if key not in self._values:
                self._values[key] = value
                self._used += self._size(value)
            while self._used > self._limit and len(self._values) > 1:
                _, dropped = self._values.popitem(last=False)
                self._used -= self._size(dropped)
        return value

    def __len__(self) -> int:
        """Number of results kept."""
        return len(self._values)

    def cache_clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._used = 0


def kept(
    limit: int, size: Callable[[Any], int]
) -> Callable[[Callable[Given, Value]], Kept[Given, Value]]:
    """Keep results of the function, of hashable arguments: bytes up to a limit together."""
    return lambda function: Kept(function, limit, size)
