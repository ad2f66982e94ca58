"""Shufflers that are less than perfect: messages that are recognised, partial orders, batches."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.rounds.base import as_json


@dataclass(frozen=True, init=False)
class Shuffler:
    """What a shuffler hides of who sent which message; immutable, compared by value.

    One of the following, all drawn afresh in every round but for ``persistent``:

    Args:
        exposure: probability, in [0, 1], that a message is recognised as its sender's, whatever it
            says.
        everyone: whether every message may be exposed, each independently, or only the target's. By
            default every one, which reveals more.
        persistent: whether who is exposed stays the same in all rounds.
        weights: posterior probabilities, given all that the observer knows but contents, of which
            message is the target's; >= 0, of sum 1, one for each user. Given the target's place the
            others must be arranged uniformly; the vector stands for the worst user.
        batches: sizes of the batches that messages are shuffled in, >= 1, of sum ``users``.
        random_batches: whether users are assigned to batches uniformly at random; otherwise the
            bound is that of the smallest batch.
        minimum_batch: the fewest messages that are shuffled together.
    """

    exposure: float
    everyone: bool
    persistent: bool
    weights: tuple[float, ...] | None
    batches: tuple[int, ...] | None
    random_batches: bool
    minimum_batch: int | None

    def __init__(
        self,
        *,
        exposure: float = 0.0,
        everyone: bool | None = None,
        persistent: bool = False,
        weights: Iterable[float] | None = None,
        batches: Iterable[int] | None = None,
        random_batches: bool = False,
        minimum_batch: int | None = None,
    ) -> None:
        exposure = validate.closed_unit(exposure=exposure)
        named = {"weights": weights, "batches": batches, "minimum_batch": minimum_batch}
        given = ["exposure"] if exposure > 0.0 else []
        given += [name for name, value in named.items() if value is not None]
        if len(given) > 1:
            raise ValueError(
                f"exposure, weights, batches and minimum_batch exclude one another, got {given}"
            )
        if minimum_batch is not None:
            minimum_batch = validate.integer(minimum=1, maximum=2**53, minimum_batch=minimum_batch)
        values = {
            "exposure": exposure,
            "weights": None if weights is None else _weights(weights),
            "batches": None if batches is None else _sizes(batches),
            "minimum_batch": minimum_batch,
            "everyone": True if everyone is None else validate.flag(everyone=everyone),
            "persistent": validate.flag(persistent=persistent),
            "random_batches": validate.flag(random_batches=random_batches),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def condition(self) -> str:
        """What must hold of the shuffler, as a sentence without its full stop."""
        if self.weights is not None:
            return (
                "The weights stated are those of the worst user and the worst of what the observer "
                "may know, and given the target's place the other messages are arranged uniformly"
            )
        if self.batches is not None and self.random_batches:
            return "Users are assigned to batches of the sizes stated uniformly at random"
        if self.batches is not None or self.minimum_batch is not None:
            return (
                "No batch of messages that are shuffled together is smaller than stated, and who "
                "is in which batch does not depend on the data"
            )
        who = "any message" if self.everyone else "the target's message, and no other,"
        often = "the same in all rounds" if self.persistent else "drawn afresh in every round"
        return (
            f"The observer recognises {who} with no more than the probability stated, whatever it "
            f"says; who is recognised is {often}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal shuffler."""
        return {one.name: as_json(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def from_dict(cls, state: Any) -> Shuffler:
        """Inverse of `to_dict`."""
        names = sorted(map(str, validate.instance(dict, shuffler=state)))
        wanted = sorted(one.name for one in fields(cls))
        if names != wanted:
            raise ValueError(f"shuffler must be an object with fields {wanted}, got {names}")
        return cls(**state)


def _sizes(batches: Any) -> tuple[int, ...]:
    every = validate.items(batches=batches)
    if not every:
        raise ValueError("batches must be a sequence of sizes >= 1, got none")
    return tuple(sorted(validate.integer(minimum=1, maximum=2**53, batches=one) for one in every))


def _weights(weights: Any) -> tuple[float, ...]:
    every = weights.tolist() if isinstance(weights, np.ndarray) else validate.items(weights=weights)
    plain = all(type(one) is float and 0.0 <= one <= 1.0 for one in every)  # not one by one
    held = tuple(every if plain else (validate.closed_unit(weights=one) for one in every))
    total = math.fsum(held)
    if abs(total - 1.0) > 1e-9:  # weights are given in floating point
        raise ValueError(f"weights must have the sum 1, got {total!r}")
    return held
