"""Digests of stored states: a state that was altered or cut by accident is refused.

A state in plain JSON types has a field ``digest``, the SHA-256 of all its other fields. The digest
is no signature: who alters a state on purpose can compute it anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import warn_loose

__all__ = ["digest_of", "sealed", "unsealed"]


def digest_of(content: Any) -> str:
    """SHA-256 (64 hexadecimal digits) of plain JSON types, the same for 1 and 1.0, in any order."""
    try:
        text = json.dumps(_whole(content), sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(
            f"state must hold plain JSON types, got {validate.shown(content)}"
        ) from None
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(state: dict[str, Any]) -> dict[str, Any]:
    """The state with its digest."""
    return {**state, "digest": digest_of(state)}


def unsealed(
    stored: Any, fields: Mapping[int, Collection[str]], *, sealed_since: int
) -> dict[str, Any]:
    """The state, if it has the fields of its schema and fits its digest.

    A state that was written before there were digests is returned with a warning.

    Args:
        stored: the state, with ``schema`` among its fields.
        fields: names of each schema's fields, without ``digest``.
        sealed_since: the first schema with a digest.
    """
    state: dict[str, Any] = validate.instance(dict, state=stored)
    schema = validate.integer(minimum=1, maximum=max(fields), schema=state.get("schema"))
    wanted = {*fields[schema], *(("digest",) if schema >= sealed_since else ())}
    if set(state) != wanted:
        raise ValueError(
            f"state of schema {schema} must have fields {sorted(wanted)}, "
            f"got {validate.shown(sorted(map(str, state)))}"
        )
    if schema < sealed_since:
        warn_loose(
            f"a state of schema {schema} has no digest: what was altered in it cannot be seen; "
            "write it anew",
            UserWarning,
        )
    elif (
        digest_of({name: held for name, held in state.items() if name != "digest"})
        != (state["digest"])
    ):
        raise ValueError(
            f"state was altered: it does not fit its digest {validate.shown(state['digest'])}"
        )
    return state


def _whole(value: Any) -> Any:
    """The value with whole floats as integers, as JavaScript and others write them."""
    if isinstance(value, dict):
        return {key: _whole(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(held) for held in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    return value
