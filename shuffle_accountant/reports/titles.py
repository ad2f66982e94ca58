"""Protocols, bounds and numbers as people say them: titles and labels of pictures."""

from __future__ import annotations

from typing import Any

from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.protocol import Protocol

_KINDS = {
    "approximate": "any approximate randomizer",
    "discrete": "a channel matrix",
    "gaussian": "Gaussian noise",
    "general": "any randomizer",
    "hadamard-response": "Hadamard response",
    "laplace": "Laplace noise",
    "privunit": "PrivUnit",
    "rappor": "RAPPOR",
}
_SYMBOLS = {"eps0": "ε0", "delta0": "δ0", "sigma": "σ"}
_BOUNDS = {
    "erlingsson": "Erlingsson et al.",
    "girgis": "Girgis et al.",
    "rdp": "Rényi DP",
}
# Usual values of fields, which are shown only if they differ.
_USUAL = {"passes": 1, "selected": 1, "honest": 1.0, "colluding": 0}
# Fields that are not shown in a title: theorems are named beside the numbers.
_SILENT = {"kind", "reduction", "variant", "adjacency"}
# Largest number of kinds of rounds that are described one by one; more are only counted.
_MOST_KINDS = 2


def protocol_told(protocol: Protocol) -> str:
    """A protocol in one line, such as "any randomizer, ε0 = 4, 10,000 users; 4 rounds"."""
    kinds = list(protocol)
    if not kinds:
        return "no rounds"
    if len(kinds) == 1:
        ((one, count),) = kinds
        return f"{_told(one)}; {times_told(count)}"
    if len(kinds) <= _MOST_KINDS:
        return "; ".join(f"{_told(one)} ({times_told(count)})" for one, count in kinds)
    return f"{times_told(len(protocol))} of {len(kinds)} kinds"


def times_told(rounds: int) -> str:
    """A number of rounds in words."""
    return f"{rounds:,} round" + ("" if rounds == 1 else "s")


def bound_named(name: str, form: str = "") -> str:
    """The name of a published bound, and which of its forms."""
    words = _BOUNDS.get(name, name.replace("_", " "))
    return f"{words} ({form})" if form else words


def _told(one: Round) -> str:
    return ", ".join(_parts(one.to_dict()))


def _parts(state: dict[str, Any]) -> list[str]:
    """Parts of a title from a round's description in JSON types, without its long tables."""
    kind = state.get("kind")
    parts = [] if kind is None else [_KINDS.get(kind, str(kind).replace("-", " "))]
    for name, value in state.items():
        if name in _SILENT or value is None or value is False or value == _USUAL.get(name):
            continue
        if isinstance(value, dict):
            parts += _parts(value)
        elif name == "others":
            parts.append(f"{sum(group['users'] for group in value):,} others")
        elif isinstance(value, bool | int | float | str):
            parts.append(_part(name, value))
    return parts


def _part(name: str, value: bool | float | str) -> str:
    words = _SYMBOLS.get(name, name.replace("_", " "))
    if value is True:
        return words
    if isinstance(value, int):
        return f"{words} of {value:,}" if name in ("population", "size") else f"{value:,} {words}"
    return f"{words} = {value:.6g}" if isinstance(value, float) else f"{words} {value}"
