"""Small files whose check would take hours, or tens of gigabytes."""

from __future__ import annotations

import random
from typing import Any

__all__ = ["FILES"]


def _law(kinks: int, bits: int) -> dict[str, Any]:
    """Equal masses at losses >= 0, so that the Q-masses add up to less than one."""
    share = (1 << bits) // (kinks + 1)
    masses = [share] * kinks
    return {"first": 0, "masses": masses, "infinite": (1 << bits) - kinks * share}


def _file(
    round_: dict[str, Any],
    theorem: str,
    *,
    count: int = 1,
    kinks: int = 3,
    bits: int = 64,
    cells: int = 256,
    orders: tuple[str, ...] = ("forward",),
) -> dict[str, Any]:
    adjacency = "zero-out" if round_.get("kind") == "allocation" else "replace-one"
    laws = {order: _law(kinks, bits) for order in orders}
    return {
        "schema": 1,
        "protocol": {"adjacency": adjacency, "rounds": [{"round": round_, "count": count}]},
        "adjacency": adjacency,
        "claim": {"epsilon": 1.0, "delta": 0.5},
        "grid": {"numerator": 1, "exponent": 3, "bits": bits, "cells": cells},
        "witnesses": [{"theorem": theorem, "count": count, **laws}],
    }


def _shuffle(randomizer: dict[str, Any], users: int) -> dict[str, Any]:
    plain = {"population": None, "reduction": "auto", "variant": None}
    return {"randomizer": randomizer, "users": users, **plain}


def _clones(users: int) -> dict[str, Any]:
    return _shuffle({"kind": "general", "eps0": 1.0, "interactive": False}, users)


def _allocation(mechanism: dict[str, Any], steps: int, passes: int = 1) -> dict[str, Any]:
    how = {"steps": steps, "selected": 1, "released": None, "passes": passes}
    return {"kind": "allocation", "mechanism": mechanism, **how}


def _channel(rows: int) -> list[list[float]]:
    rng = random.Random(1)
    weights = [[rng.randint(1, 63) for _ in range(rows)] for _ in range(rows)]
    return [[weight / sum(row) for weight in row] for row in weights]


_GAUSSIAN = {"kind": "gaussian", "noise_multiplier": 1.0}
_PURE = {"kind": "pure", "epsilon": 1.0}
_BOTH = ("forward", "backward")

FILES: dict[str, dict[str, Any]] = {
    "many rounds": _file(_clones(1), "clones", count=10**9, bits=1024),
    "many rounds in many bits": _file(_clones(1), "clones", count=10**12, bits=4096),
    "many pure steps": _file(
        _allocation(_PURE, 10**9, 1000), "allocation", kinks=200, bits=256, orders=_BOTH
    ),
    "many steps": _file(
        _allocation(_GAUSSIAN, 10**9),
        "allocation",
        kinks=200,
        bits=256,
        cells=1 << 14,
        orders=_BOTH,
    ),
    "many users": _file(_clones(10**9), "clones", kinks=4000),
    "a large channel": _file(
        _shuffle({"kind": "discrete", "channel": _channel(64)}, 10**9), "blanket", kinks=100
    ),
    "many inputs": _file(
        _shuffle({"kind": "discrete", "channel": [[0.5, 0.5]] * 2048}, 10**9), "blanket"
    ),
    "a rare message": _file(
        _shuffle({"kind": "discrete", "channel": [[1.0 - 1e-9, 1e-9], [1.0, 0.0]]}, 10**9),
        "blanket",
    ),
    "many passes": _file(
        _allocation(_PURE, 100, 10**4), "allocation", kinks=3, bits=4096, orders=_BOTH
    ),
    "many kinks": _file(_clones(10**6), "clones", kinks=1 << 16),
}
