"""Messages that are a Dask collection: tallies of its chunks, added up where they are.

Dask is not imported before it is met: who passes a collection has done so already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["is_dask", "tallied_partitions"]

# Number of tallies added up by one task, so that no machine holds those of all chunks.
_TOGETHER = 8

Tallied = tuple[NDArray[Any], int]


def is_dask(messages: object) -> bool:
    """Whether the messages are a Dask collection, without importing Dask."""
    base = sys.modules.get("dask.base")
    return base is not None and bool(base.is_dask_collection(messages))


def tallied_partitions(
    counted: Callable[[Any], Tallied], messages: Any, message_axes: int
) -> Tallied:
    """Tally and number of messages of a whole collection.

    Args:
        counted: returns the tally and the number of messages of one chunk.
        messages: a Dask array, bag or series, or something delayed, which is one chunk. No chunk is
            larger than the collection's own, unless messages themselves are cut by them.
        message_axes: number of an array's last axes that one message takes.
    """
    from dask.delayed import Delayed, delayed

    if isinstance(messages, Delayed):  # has every attribute that it is asked for
        tally, number = delayed(_one_chunk)(counted, messages).compute()
        return tally, number
    if hasattr(messages, "rechunk") and message_axes:
        whole = dict.fromkeys(range(messages.ndim - message_axes, messages.ndim), -1)
        messages = messages.rechunk(whole)
    chunks = np.ravel(np.asarray(messages.to_delayed(), dtype=object)).tolist()
    if not chunks:
        raise ValueError("messages must have at least one chunk, got none")
    one, many = delayed(_one_chunk), delayed(_added)
    parts = [one(counted, chunk) for chunk in chunks]
    while len(parts) > 1:
        parts = [many(parts[i : i + _TOGETHER]) for i in range(0, len(parts), _TOGETHER)]
    tally, number = parts[0].compute()
    return tally, number


def _one_chunk(counted: Callable[[Any], Tallied], chunk: Any) -> Tallied:
    # chunks of bags may be iterators, of series they are pandas' own
    return counted(chunk if hasattr(chunk, "__array__") else list(chunk))


def _added(parts: list[Tallied]) -> Tallied:
    tally, number = parts[0]
    for further, count in parts[1:]:
        tally, number = tally + further, number + count
    return tally, number
