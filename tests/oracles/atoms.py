"""The divergence of atoms of a privacy loss, in 50 digits, as it is meant."""

from __future__ import annotations

from typing import Any

from oracles.precision import MP, Real, exact


def divergence(atoms: Any, epsilon: float) -> Real:
    """Of atoms whose losses are moved by their error, out for upper bounds and in for lower ones.

    Args:
        atoms: with ``side``, ``mass``, ``loss``, ``infinite`` and ``loss_error``.
        epsilon: nats, any finite number.
    """
    sign = 1 if atoms.side.value == "upper" else -1
    level = exact(epsilon) - sign * exact(atoms.loss_error)
    terms = (
        exact(p) * -MP.expm1(level - exact(x))
        for p, x in zip(atoms.mass.tolist(), atoms.loss.tolist(), strict=True)
        if exact(x) > level
    )
    return MP.fsum(terms) + exact(atoms.infinite)
