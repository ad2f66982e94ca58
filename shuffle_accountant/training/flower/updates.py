# mypy: disable-error-code="misc"
# Flower is optional, so its classes are of unknown type here.
"""A model's floating-point arrays as one vector: updates, and what goes back into records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MessageType, MetricRecord, RecordDict
from numpy.typing import NDArray

__all__ = [
    "WEIGHT",
    "clipped",
    "dimension_of",
    "like",
    "only_arrays",
    "synthetic_reply",
    "update_of",
    "updated",
]

WEIGHT = "num-examples"


def only_arrays(content: Any) -> tuple[str, Any]:
    """The one record of arrays of a message, with its key."""
    records = list(content.array_records.items())
    if len(records) != 1:
        raise ValueError(f"content must hold one ArrayRecord, got {len(records)}")
    key, arrays = records[0]
    return str(key), arrays


def dimension_of(arrays: Any) -> int:
    """Number of floating-point numbers in a model."""
    return sum(one.size for one in _arrays(arrays).values() if _is_float(one))


def update_of(received: Any, returned: Any) -> NDArray[np.float64]:
    """Returned − received over all floating-point arrays; the zero vector if that makes no sense.

    An error would tell everybody of that one client.
    """
    before = _arrays(received)
    zero = np.zeros(sum(one.size for one in before.values() if _is_float(one)))
    try:
        after = _arrays(returned)
        parts = []
        for key, one in before.items():
            if not _is_float(one):
                continue
            if after[key].shape != one.shape or not _is_float(after[key]):
                return zero
            with np.errstate(all="ignore"):  # a warning would tell of it, too
                parts.append(after[key].astype(np.float64).ravel() - one.astype(np.float64).ravel())
    except Exception:
        return zero
    update = np.concatenate(parts) if parts else zero
    return update if np.all(np.isfinite(update)) else zero


def clipped(update: NDArray[np.float64], max_norm: float) -> NDArray[np.float64]:
    """The update scaled down to a Euclidean norm of at most ``max_norm``."""
    largest = float(np.max(np.abs(update), initial=0.0))
    if largest == 0.0:
        return update
    norm = largest * float(np.linalg.norm(update / largest))  # no square overflows or vanishes
    if norm <= max_norm:
        return update
    return update / largest * (max_norm * (1.0 - 1e-12) / float(np.linalg.norm(update / largest)))


def updated(received: Any, update: NDArray[np.float64]) -> Any:
    """A new record: received + update, each array of its type; integer arrays as they were."""
    found, place = {}, 0
    for key, one in _arrays(received).items():
        if _is_float(one):
            part = update[place : place + one.size].reshape(one.shape)
            place += one.size
            # a number beyond the type's range would be an infinity that the next round starts from
            most = np.finfo(one.dtype).max
            one = np.clip(one.astype(np.float64) + part, -most, most).astype(one.dtype)
        found[key] = Array(np.asarray(one))
    return ArrayRecord(found)


def like(received: Any, arrays: Any) -> Any:
    """The arrays with the types of those received: averages of integers are rounded."""
    found = {}
    after = _arrays(arrays)
    for key, one in _arrays(received).items():
        new = after[key]
        if not _is_float(one) and _is_float(new):
            new = np.rint(new)
        found[key] = Array(np.asarray(new.astype(one.dtype)))
    return ArrayRecord(found)


def synthetic_reply(strategy: Any, key: str, arrays: Any, server_round: int) -> Any:
    """One reply of weight 1 with the aggregate, which a strategy takes for that of a client."""
    weight = MetricRecord({getattr(strategy, "weighted_by_key", WEIGHT): 1})
    content = RecordDict({key: arrays, "metrics": weight})
    return Message(
        content=content,
        dst_node_id=0,
        message_type=MessageType.TRAIN,
        group_id=str(server_round),
    )


def _arrays(record: Any) -> Mapping[str, NDArray[Any]]:
    return {key: np.asarray(one.numpy()) for key, one in record.items()}


def _is_float(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "f"
