"""Any randomizer of which only its local privacy parameter is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.randomizers.base import FromArguments, GivenEps0, require_fields

# Largest eps0 (nats): larger ones say nothing, and their exponentials are no doubles.
_LARGEST = 300.0


@dataclass(frozen=True, init=False, repr=False)
class ApproximateRandomizer(FromArguments, GivenEps0):
    """Any randomizer whose messages are (``eps0``, ``delta0``)-close to one null law.

    Adjacency: zero-out. For all inputs x and sets S of messages, ``P[R(x) in S] <= e^eps0 w(S) +
    delta0`` and the reverse, w the law of a null record's message, one for all users. What is said
    of it holds for the worst such randomizer.

    Args:
        eps0: nats, in [0, 300].
        delta0: in [0, 1).
    """

    kind: ClassVar[str] = "approximate"
    arguments: ClassVar[tuple[str, ...]] = ("eps0", "delta0")
    adjacency = Adjacency.ZERO_OUT

    _eps0: float
    _delta0: float

    def __init__(self, eps0: float, delta0: float) -> None:
        eps0 = validate.finite_nonnegative(eps0=eps0) + 0.0
        if eps0 > _LARGEST:
            raise ValueError(f"eps0 must be <= {_LARGEST:g}, got {eps0!r}")
        delta0 = validate.closed_unit(delta0=delta0) + 0.0
        if delta0 == 1.0:
            raise ValueError("delta0 must be in [0, 1), got 1.0")
        vars(self).update(_eps0=eps0, _delta0=delta0)

    @property
    def delta0(self) -> float:
        """The delta of the closeness (eps0, delta0) to the null distribution."""
        return self._delta0


@dataclass(frozen=True, init=False)
class GeneralRandomizer(GivenEps0):
    """Any ``eps0``-LDP randomizer; bounds hold for the worst one.

    Args:
        eps0: local privacy parameter in nats, finite, >= 0: for all inputs x, x' and outputs y,
            ``P[R(x) = y] <= e^eps0 P[R(x') = y]``.
        interactive: whether a user's randomizer may depend on the messages that users before it
            sent in the same round (Feldman, McMillan and Talwar 2021). By default all users of a
            round apply one common randomizer, which may depend on earlier rounds.
        adjacency: that of its rounds. For ZERO_OUT ``eps0`` is about the message distribution w of
            a null record, one for all users: ``e^-eps0 w(S) <= P[R(x) in S] <= e^eps0 w(S)``; that
            neither follows from the above nor implies it, and needs users who do not look at
            earlier messages.
    """

    kind: ClassVar[str] = "general"

    _eps0: float
    interactive: bool
    _adjacency: Adjacency

    def __init__(
        self,
        eps0: float,
        interactive: bool = False,
        *,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> None:
        vars(self).update(
            _eps0=validate.finite_nonnegative(eps0=eps0) + 0.0,  # turns a negative zero into zero
            interactive=validate.flag(interactive=interactive),
            _adjacency=validate.instance(Adjacency, adjacency=adjacency),
        )
        if self.interactive and adjacency is not Adjacency.REPLACE_ONE:
            raise ValueError(
                f"interactive must be False with adjacency {adjacency.named}: messages must be "
                "close to one null law"
            )

    def __repr__(self) -> str:
        extra = ", interactive=True" if self.interactive else ""
        if self._adjacency is not Adjacency.REPLACE_ONE:
            extra += f", adjacency={self._adjacency}"
        return f"GeneralRandomizer(eps0={self._eps0!r}{extra})"

    def at(self, eps0: float) -> GeneralRandomizer | None:
        """Any randomizer of another parameter: its clones only add noise (see `engine.classes`)."""
        if self._adjacency is not Adjacency.REPLACE_ONE:
            return None
        return GeneralRandomizer(eps0, self.interactive)

    @property
    def adjacency(self) -> Adjacency:
        """Adjacency of rounds of this randomizer."""
        return self._adjacency

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; the usual adjacency is not written."""
        fields = {"kind": self.kind, "eps0": self._eps0, "interactive": self.interactive}
        if self._adjacency is not Adjacency.REPLACE_ONE:
            fields["adjacency"] = self._adjacency.value
        return fields

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> GeneralRandomizer:
        """Inverse of `to_dict`, without the ``kind``."""
        written = {"adjacency": Adjacency.REPLACE_ONE.value, **fields}
        names = ("eps0", "interactive", *(("adjacency",) if "adjacency" in fields else ()))
        require_fields(cls.kind, fields, names)
        validate.choice([one.value for one in Adjacency], adjacency=written["adjacency"])
        return cls(**written | {"adjacency": Adjacency(written["adjacency"])})
