"""Shuffling of data of any array type into a new array; the original is left as it is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import IntArray, RandomSource, random_source
from shuffle_accountant.order.groups import Groups


class Shuffler(ABC):
    """A random order of the users, from public information only.

    Attributes:
        groups: sets of users whose values must be indistinguishable.
        alpha: privacy of the order within them, nats, in [0, inf].
    """

    groups: Groups
    alpha: float

    @property
    def n(self) -> int:
        """Number of users."""
        return self.groups.n

    @abstractmethod
    def permutation(self, rng: RandomSource = None) -> IntArray:
        """A random shuffle s of the users, one-line: output i carries the value of user ``s[i]``.

        Args:
            rng: generator or seed; None is the operating system's source.

        Returns:
            Shape (n,).
        """

    def shuffle(self, y: Any, rng: RandomSource = None) -> Any:
        """The values in shuffled order, ``y[permutation]``; ``y`` itself is left as it is.

        Args:
            y: a list, tuple, array or pandas object with n entries along its first axis.
            rng: generator or seed; None is the operating system's source.

        Returns:
            New data of the same type.
        """
        return permuted(y, self.permutation(rng))

    @abstractmethod
    def alpha_for(self, groups: Groups) -> float:
        """The alpha of this shuffle for other groups of the same users, nats, in [0, inf]."""

    def _of_these_users(self, groups: Groups) -> Groups:
        """The groups, checked."""
        validate.instance(Groups, groups=groups)
        if groups.n != self.n:
            raise ValueError(f"groups must be of {self.n} users, got {groups.n}")
        return groups


def permuted(y: Any, permutation: IntArray) -> Any:
    """``y[permutation]`` along the first axis, in new memory; arrays and tuples stay what they are.

    Args:
        y: a list or other sequence (a list comes back), a tuple, an array of any library with
            integer-array indexing, or a pandas object (by position).
        permutation: one-line form, shape (n,): entry i of the result is ``y[permutation[i]]``.
    """
    if isinstance(y, (str, bytes, dict, set, frozenset)) or not hasattr(y, "__len__"):
        raise TypeError(f"y must be a list or an array, got a {type(y).__name__}")
    shape = getattr(y, "shape", None)
    if shape is not None and len(shape) == 0:
        raise TypeError("y must be a list or an array, got a single entry")
    length = len(y) if shape is None else int(shape[0])
    if length != permutation.size:
        raise ValueError(
            f"y must have {permutation.size} entries along its first axis, got {length}"
        )
    if hasattr(y, "iloc"):
        return y.iloc[permutation]
    if shape is None:
        entries = [y[place] for place in permutation.tolist()]
        return tuple(entries) if isinstance(y, tuple) else entries
    return y[permutation]


class BlockShuffler(Shuffler):
    """Shuffles uniformly within each of disjoint groups: alpha = 0, and no value leaves its group.

    Permuting the values of a group beforehand does not change the distribution of the output at
    all. Users in no group keep their value.
    """

    alpha = 0.0

    def __init__(self, groups: Groups) -> None:
        label = partition(validate.instance(Groups, groups=groups))
        if label is None:
            raise ValueError("groups must be disjoint (or equal), got two that overlap")
        self.groups = groups
        self._label = label
        self._by_block = np.argsort(label, kind="stable")

    def permutation(self, rng: RandomSource = None) -> IntArray:
        """See `Shuffler.permutation`."""
        mixed = random_source(rng).permutation(self.n)
        s = np.empty(self.n, dtype=np.int64)
        s[self._by_block] = mixed[np.argsort(self._label[mixed], kind="stable")]
        return s

    def alpha_for(self, groups: Groups) -> float:
        """The alpha of this shuffle for other groups of the same users.

        Returns:
            0 if each of them lies within one block, else infinity: a value seen outside its block
            would be impossible.
        """
        groups = self._of_these_users(groups)
        for members, start, _ in groups.pieces():
            label = self._label[members]
            if (np.minimum.reduceat(label, start) != np.maximum.reduceat(label, start)).any():
                return math.inf
        return 0.0


def partition(groups: Groups) -> IntArray | None:
    """A block number per user, shape (n,), if any two groups are equal or disjoint; else None.

    Users in no group are blocks of their own.
    """
    if groups.overlapping and _chained(groups):
        return None
    # every user takes the smallest member of a group as its label; no group may see another one
    label = np.full(groups.n, -1)
    labels = []
    for members, start, stop in groups.pieces():
        least = np.minimum.reduceat(members, start)
        each = np.repeat(least, stop - start)
        before = label[members]
        label[members] = each
        if ((before != each) & (before >= 0)).any() or (label[members] != each).any():
            return None
        labels.append(least)
    # groups of one label are equal if each is all of the block
    block = np.bincount(label[label >= 0], minlength=groups.n)
    if (block[np.concatenate(labels)] != groups.sizes).any():
        return None
    return np.where(label >= 0, label, np.arange(groups.n))


def _chained(groups: Groups) -> bool:
    """Whether two slices overlap without being equal, which shows an overlap without listing."""
    by_start = np.lexsort((groups.stop, groups.start))
    start, stop = groups.start[by_start], groups.stop[by_start]
    equal = (start[1:] == start[:-1]) & (stop[1:] == stop[:-1])
    return bool(((start[1:] < stop[:-1]) & ~equal).any())
