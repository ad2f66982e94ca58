"""Shuffling of data of any array type into a new array; the original is left as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import IntArray, RandomSource
from shuffle_accountant.order.groups import Groups

__all__ = ["Shuffler", "permuted"]


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
