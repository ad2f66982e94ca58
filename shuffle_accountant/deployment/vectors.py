"""Test vectors: random bytes and a value in, a message out; files that check ports of a program.

The bytes are a function of the program and of the vector's number, so that the same vectors are
made again. Every other draw is taken from the edges of what a port could get wrong: zero, the
largest draw, the threshold and its neighbours, and the draws next to those that are drawn again.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from shuffle_accountant.deployment.programs import Program
from shuffle_accountant.deployment.whole_numbers import BITS, BYTES, RANGE, Draws


def vectors_of(program: Program, count: int) -> list[dict[str, Any]]:
    """Vectors of a program, as `Deployment.vectors` returns them."""
    start = json.dumps(program.to_dict(), sort_keys=True)
    return [_vector(program, f"{start}:{number}", number) for number in range(count)]


def run(program: Program, vector: dict[str, Any]) -> Any:
    """The message of a vector's value and bytes.

    Raises:
        ValueError: the program needs other bytes than the vector has.
    """
    held = bytes.fromhex(vector["bytes"])
    used = 0

    def source(size: int) -> bytes:
        nonlocal used
        used += size
        if used > len(held):
            raise ValueError(f"bytes must be as many as the program uses, got {len(held)}")
        return held[used - size : used]

    message = program.message(vector["value"], Draws(source))
    if used != len(held):
        raise ValueError(f"bytes must be the {used} that the program uses, got {len(held)}")
    return message


def _vector(program: Program, name: str, number: int) -> dict[str, Any]:
    stream = hashlib.shake_256(name.encode())
    edges = _edges(program)
    made = bytearray()

    def source(size: int) -> bytes:
        position = len(made)
        drawn = stream.digest(position + size)[position:]
        choice = hashlib.sha256(f"{name}:{position}".encode()).digest()
        # from the tenth on, as chance has it; some vectors at the start are edges alone
        if choice[0] & 1 or number < 10:
            low = int.from_bytes(drawn, "big") & ((1 << (8 * BYTES - BITS)) - 1)
            edge = edges[int.from_bytes(choice[1:5], "big") % len(edges)]
            drawn = (edge << (8 * BYTES - BITS) | low).to_bytes(BYTES, "big")
        made.extend(drawn)
        return drawn

    value = (
        int.from_bytes(hashlib.sha256(f"{name}:value".encode()).digest(), "big")
        % program.categories
    )
    message = program.message(value, Draws(source))
    return {"value": value, "bytes": made.hex(), "message": message}


def _edges(program: Program) -> list[int]:
    """Draws at the edges of the program's ranges."""
    counts = {one for one in vars(program).values() if 1 <= one < RANGE} - {program.fit}
    last = {RANGE - RANGE % count - 1 for count in counts}
    found = {0, RANGE - 1, *last, *(min(one + 1, RANGE - 1) for one in last)}
    found |= {max(program.fit - 1, 0), program.fit, min(program.fit + 1, RANGE - 1)}
    return sorted(found)
