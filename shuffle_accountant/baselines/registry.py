"""Published bounds as objects: what the comparison, the table of bounds and the command line show.

A module of this package registers its bound, so that a new bound is one new file; so may anybody
else's. Two kinds share one interface: `ProtocolBound` for bounds that say themselves how rounds
compose, and `shuffle_accountant.baselines.closed_forms.OneRoundBound` for those about one round.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from shuffle_accountant.baselines.question import OutsideValidityError, Question
from shuffle_accountant.facades.calls import explain_calls
from shuffle_accountant.registry import Registry

__all__ = ["BOUNDS", "Answer", "ProtocolBound", "PublishedBound", "register"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer of a bound for one protocol: an epsilon, or the condition that is not met.

    Attributes:
        form: which of the bound's forms, in a few words; may be empty.
        via: the theorems that extend a bound of one round to the protocol; may be empty.
        epsilon: nats; None if the bound does not apply.
        condition: why the bound does not apply; None if it does.
    """

    form: str = ""
    via: tuple[str, ...] = ()
    epsilon: float | None = None
    condition: str | None = None

    @classmethod
    def of(
        cls, epsilon: Callable[[], float], *, form: str = "", via: tuple[str, ...] = ()
    ) -> Answer:
        """The answer with this epsilon, or with the condition of the theorem that is not met."""
        try:
            return cls(form=form, via=via, epsilon=epsilon())
        except OutsideValidityError as refused:
            return cls(form=form, via=via, condition=refused.condition)


@dataclass(frozen=True, kw_only=True)
class PublishedBound(ABC):
    """A bound of the literature.

    Attributes:
        name: what the literature calls it, and its module here.
        source: authors, year and number of the theorem.
        sound: whether the bound holds for everything that it accepts.
        about: what it is a bound for, in a few words.
        valid: given the arguments of ``epsilon``, None if the bound applies, else the condition of
            its theorem that is not met.
        epsilon: the bound, nats; raises `OutsideValidityError` outside its range.
        delta: the same bound the other way round, where the paper gives a curve.
        rank: place in tables; those without one come last.
    """

    name: str
    source: str
    sound: bool
    about: str
    valid: Callable[..., str | None]
    epsilon: Callable[..., float]
    delta: Callable[..., float] | None = None
    rank: float = 1000.0

    @abstractmethod
    def answers(self, question: Question) -> Iterator[Answer]:
        """The bound's answers for the protocol, one for each of its forms.

        Nothing at all for a protocol that it is not meant for.
        """


@dataclass(frozen=True, kw_only=True)
class ProtocolBound(PublishedBound):
    """A bound whose theorem covers the composition of rounds.

    Attributes:
        forms: for each form, epsilon of a question.
    """

    forms: Mapping[str, Callable[[Question], float]]

    def answers(self, question: Question) -> Iterator[Answer]:
        """One answer for each form; no rounds cost nothing."""
        for form, epsilon in self.forms.items():
            if len(question.protocol):
                yield Answer.of(partial(epsilon, question), form=form)
            else:
                yield Answer(form=form, epsilon=0.0)


BOUNDS: Registry[PublishedBound] = Registry(__package__ or "")
"""All bounds, in the order of tables."""


def register(kind: Callable[..., PublishedBound], bound: Any, **details: Any) -> None:
    """Register what has the interface of `baselines.question` as a bound of a kind.

    Args:
        kind: class of the bound.
        bound: a module's ``__name__``, or an object; wrong calls of a module are explained.
        details: further arguments of the class.
    """
    own = sys.modules[bound] if isinstance(bound, str) else bound
    shared = {name: getattr(own, name) for name in ("name", "source", "sound", "valid", "epsilon")}
    BOUNDS.register(kind(**shared, delta=getattr(own, "delta", None), **details))
    if isinstance(bound, str):
        explain_calls(bound)
