"""Bounds of one round without sampling, and how theorems extend them to a protocol.

To sampled users by ``epsilon -> log(1 + g (e^epsilon - 1))``, ``delta -> g delta`` (g =
users/population), to many rounds by the composition theorem of Kairouz, Oh and Viswanath, with the
best split of delta. A row of the comparison names the theorems it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shuffle_accountant.baselines.base import OutsideValidityError, require
from shuffle_accountant.baselines.question import OneKind, Question
from shuffle_accountant.baselines.registry import Answer, PublishedBound
from shuffle_accountant.baselines.strong_composition import split_epsilon

__all__ = ["OneRoundBound", "sampled"]

SAMPLING, COMPOSITION = "sampling", "strong composition"

# Epsilon of one round at delta.
Curve = Callable[[float], float]


@dataclass(frozen=True, kw_only=True)
class OneRoundBound(PublishedBound):
    """A bound of one round from eps0, the number of users, and perhaps the number of values.

    ``valid`` and ``epsilon`` take ``eps0``, ``users`` and ``delta``.

    Attributes:
        interactive: whether it holds for randomizers that look at earlier messages.
        response: whether they also take ``categories``, for k-ary randomized response.
        response_alone: whether it says nothing about other randomizers.
    """

    interactive: bool = False
    response: bool = False
    response_alone: bool = False

    def answers(self, question: Question) -> Iterator[Answer]:
        """One answer: the bound of one round, extended to sampled and composed rounds."""
        if not len(question.protocol):
            if not self.response_alone:
                yield Answer(epsilon=0.0, form="any randomizer" if self.response else "")
            return
        try:
            kind = question.one_kind(self.name, interactive=self.interactive)
        except OutsideValidityError as refused:
            if not self.response_alone:
                yield Answer(condition=refused.condition)
            return
        if self.response_alone and kind.categories is None:
            return
        form = "any randomizer" if kind.categories is None else f"k = {kind.categories}"
        via = (SAMPLING,) * (kind.fraction < 1.0) + (COMPOSITION,) * (kind.count > 1)
        yield Answer.of(
            lambda: self._extended(kind, question.delta),
            form=form if self.response else "",
            via=via,
        )

    def _extended(self, kind: OneKind, delta: float) -> float:
        """The bound of one round, sampled and composed."""
        if not self.sound and kind.count > 1:
            require(self.name, f"one round (it is no bound to compose), got {kind.count}")
        arguments: dict[str, Any] = {"eps0": kind.eps0, "users": kind.users}
        if self.response:
            arguments["categories"] = kind.categories

        def curve(delta: float) -> float:
            require(self.name, self.valid(**arguments, delta=delta))
            return float(self.epsilon(**arguments, delta=delta))

        return split_epsilon(sampled(curve, kind.fraction), rounds=kind.count, delta=delta)


def sampled(curve: Curve, fraction: float) -> Curve:
    """The curve of a round whose users are that fraction of a population, drawn anew.

    Args:
        curve: epsilon (nats) of the round at delta, if the target takes part.
        fraction: in (0, 1].
    """
    if fraction == 1.0:
        return curve

    def epsilon(delta: float) -> float:
        if delta >= fraction:
            return 0.0  # who was not drawn loses nothing
        inner = curve(delta / fraction)
        if inner < 30.0:
            return math.log1p(fraction * math.expm1(inner))
        return inner + math.log(fraction + (1.0 - fraction) * math.exp(-inner))

    return epsilon
