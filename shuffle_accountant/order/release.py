"""Data of any array type, put in a new order without touching the original."""

from __future__ import annotations

from typing import Any

from shuffle_accountant.order.arguments import IntArray

__all__ = ["permuted"]


def permuted(y: Any, permutation: IntArray) -> Any:
    """``y[permutation]`` along the first axis, in new memory; arrays and tuples stay what they are.

    Args:
        y: a list or other sequence (a list comes back), a tuple, an array of any library with
            integer-array indexing, or a pandas object (by position).
        permutation: one-line form, shape (n,): entry i of the result is ``y[permutation[i]]``.

    Raises:
        TypeError: not a sequence of entries.
        ValueError: not n entries.
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
