"""A `numpy.random.Generator` that draws from the operating system's cryptographic source.

NumPy's own bit generators are fast and fail no statistical test, but whoever sees enough of their
output can compute the rest: a seed from the operating system does not change that. Privacy that
rests on a user's coins needs coins that nobody can compute. Here every random word is read from
`os.urandom`, in blocks.

What is cryptographic: the words, and what is a function of few of them (uniform integers, uniform
numbers with 53 bits, permutations). What is not exact: NumPy turns words into other laws in
floating point, so that a Laplace or a normal number has a law on doubles, not on the reals, and a
probability such as 0.9 is met to 2^-53.

A bit generator is, to NumPy, a capsule with four C functions. They are made of Python's iterators
by `ctypes`: about 0.3 microseconds a number. An error inside (no source of entropy, an interrupt)
cannot pass through C; it is kept, and raised when the method that drew returns.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

# Numbers that are read from the operating system at once: at first, and at most.
_FIRST_BLOCK, _LARGEST_BLOCK = 32, 4096
# What C hands to each function as the state, which none of them needs; not null.
_STATE = 1


def _words(count: int) -> NDArray[np.uint64]:
    """Uniform integers below 2^64, shape (count,)."""
    return np.frombuffer(os.urandom(8 * count), np.uint64)


def _doubles(count: int) -> NDArray[np.float64]:
    """Uniform multiples of 2^-53 in [0, 1), shape (count,)."""
    return (_words(count) >> np.uint64(11)) * np.float64(2.0**-53)


class _Stream:
    """Numbers one by one from blocks of them.

    Attributes:
        left: the numbers left of the block.
        failure: the error that numbers were drawn in spite of, until it is raised.
    """

    left: Iterator[Any] = iter(())
    failure: BaseException | None = None

    def numbers(self, block: Callable[[int], NDArray[Any]]) -> Iterator[Any]:
        """Iterate over numbers without end; after a failure, over numbers that must not be used."""
        count = _FIRST_BLOCK
        # methods that draw until a number suits them must come to an end
        waste = random.Random(0)
        while True:
            try:
                if self.failure is None:
                    self.left = iter(block(count).tolist())
                    count = min(2 * count, _LARGEST_BLOCK)
                    yield from self.left
                else:
                    yield waste.getrandbits(64) if block is _words else waste.random()
            except GeneratorExit:
                raise
            except BaseException as error:
                self.failure = error

    def drop(self) -> None:
        """Forget the block: a child process must not draw what its parent draws."""
        deque(self.left, maxlen=0)


_STREAMS: WeakSet[_Stream] = WeakSet()


def _after_fork() -> None:
    for stream in list(_STREAMS):
        stream.drop()


if hasattr(os, "register_at_fork"):  # not on every system
    os.register_at_fork(after_in_child=_after_fork)


class _Functions(ctypes.Structure):
    """NumPy's ``bitgen_t``: a state, and the functions that draw."""

    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("state", "next_uint64", "next_uint32", "next_double", "next_raw")
    ]


class _OperatingSystem:
    """A bit generator as `numpy.random.Generator` wants one: a capsule and a lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._streams = _Stream(), _Stream()
        words = self._streams[0].numbers(_words)
        doubles = self._streams[1].numbers(_doubles)
        next(words), next(doubles)
        self.check()
        _STREAMS.update(self._streams)
        # C calls next(numbers, state); results are cut to the bits of their type
        self._functions = [
            ctypes.CFUNCTYPE(result, ctypes.c_void_p)(partial(next, numbers))
            for result, numbers in (
                (ctypes.c_uint64, words),
                (ctypes.c_uint32, words),
                (ctypes.c_double, doubles),
                (ctypes.c_uint64, words),
            )
        ]
        addresses = [ctypes.cast(one, ctypes.c_void_p).value for one in self._functions]
        self._struct = _Functions(_STATE, *addresses)
        capsule = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
        )(("PyCapsule_New", ctypes.pythonapi))
        self.capsule = capsule(ctypes.addressof(self._struct), b"BitGenerator", None)

    def check(self) -> None:
        """Raise what went wrong inside a function."""
        failures = [one.failure for one in self._streams if one.failure is not None]
        for stream in self._streams:
            stream.failure = None
        if failures:
            raise failures[0]


class SecureGenerator(np.random.Generator):
    """A generator without a state of its own: no seed gives its numbers again, and none is kept.

    Many numbers at once (`random`, `bytes`, all 64-bit integers) are read in one go, without the
    functions. Copies, pickles and spawned generators are new ones.
    """

    def __init__(self) -> None:
        self._source = _OperatingSystem()
        super().__init__(self._source)  # type: ignore[arg-type]

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Uniform numbers in [0, 1), as NumPy's generators return them."""
        if np.dtype(dtype) != np.float64 or out is not None or size is None:
            found = super().random(size, dtype, out)
            self._source.check()
            return found
        shape = tuple(size) if np.iterable(size) else (size,)
        return _doubles(math.prod(shape)).reshape(shape)

    def integers(  # type: ignore[override]
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, **kwargs: Any
    ) -> Any:
        """Uniform integers, as NumPy's generators return them."""
        if high is None and dtype is np.uint64 and isinstance(size, int) and low == 2**64:
            return _words(size).copy()  # which may be written to
        found = super().integers(low, high, size, dtype, **kwargs)
        self._source.check()
        return found

    def bytes(self, length: int) -> bytes:
        """``length`` random bytes."""
        return os.urandom(length)

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """New generators."""
        return [SecureGenerator() for _ in range(n_children)]

    def __reduce__(self) -> tuple[Any, ...]:
        return SecureGenerator, ()


def _checking(name: str) -> Callable[..., Any]:
    """A method of NumPy's that raises what went wrong while it drew."""
    method = getattr(np.random.Generator, name)

    @wraps(method)
    def call(self: SecureGenerator, *args: Any, **kwargs: Any) -> Any:
        found = method(self, *args, **kwargs)
        self._source.check()
        return found

    return call


for _name in dir(np.random.Generator):
    _inherited = not _name.startswith("_") and _name not in vars(SecureGenerator)
    if _inherited and callable(getattr(np.random.Generator, _name)):
        setattr(SecureGenerator, _name, _checking(_name))


def secure_generator() -> np.random.Generator:
    """A generator whose every number comes from the operating system's cryptographic source.

    Raises:
        NotImplementedError: the operating system has none.
    """
    return SecureGenerator()
