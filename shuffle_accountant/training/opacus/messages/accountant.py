# mypy: disable-error-code="misc"
# Opacus is optional, so its classes are of unknown type here.
"""The accountant that Opacus calls "shuffle" (extra ``opacus``)."""

from __future__ import annotations

from typing import Any, ClassVar

from opacus.accountants import register_accountant

from shuffle_accountant import validation as validate
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound
from shuffle_accountant.training.opacus.accounting import CertifiedAccountant

__all__ = ["ShuffleAccountant"]


class ShuffleAccountant(CertifiedAccountant):
    """Accounts for steps of shuffled rounds in the shape of Opacus' accountants.

    Attributes:
        history: for every run of equal rounds ``(round, rounds, steps)``. Several steps can belong
            to one round, see `shuffle_accountant.training.sampling`.
    """

    name: ClassVar[str] = "shuffle"
    engine: ClassVar[str] = "ShufflePrivacyEngine"
    fields: ClassVar[tuple[str, ...]] = ("round", "rounds", "steps")

    history: list[tuple[ShuffleRound, int, int]]

    def __len__(self) -> int:
        """Steps taken so far."""
        return sum(steps for _, _, steps in self.history)

    @property
    def protocol(self) -> Protocol:
        """Everything recorded so far."""
        return Protocol([(round, rounds) for round, rounds, _ in self.history])

    def step(
        self,
        *,
        round: ShuffleRound | None = None,
        begins_round: bool = True,
        noise_multiplier: float | None = None,
        sample_rate: float | None = None,
    ) -> None:
        """Record one step.

        Args:
            round: what happens in it.
            begins_round: whether it is the first step of its round.
            noise_multiplier: of Gaussian noise, which this does not account for.
            sample_rate: of Poisson sampling, which this does not account for.
        """
        if noise_multiplier is not None or sample_rate is not None:
            raise ValueError(
                "the accountant 'shuffle' is for steps of a ShuffleRound, got Gaussian noise with "
                f"noise_multiplier={noise_multiplier!r}: use ShufflePrivacyEngine"
            )
        round = validate.instance(ShuffleRound, round=round)
        begins = int(validate.flag(begins_round=begins_round))
        if self.history and self.history[-1][0] == round:
            _, rounds, steps = self.history[-1]
            self.history[-1] = (round, rounds + begins, steps + 1)
        elif begins:
            self.history.append((round, 1, 1))
        else:
            raise ValueError(f"begins_round must be True for the first step of {round!r}")

    @staticmethod
    def written(entry: tuple[ShuffleRound, int, int]) -> dict[str, Any]:
        """An entry of the history in plain JSON types."""
        round, rounds, steps = entry
        return {"round": round.to_dict(), "rounds": rounds, "steps": steps}

    @staticmethod
    def read(entry: dict[str, Any]) -> tuple[ShuffleRound, int, int]:
        """Inverse of `written`."""
        rounds = validate.integer(minimum=1, maximum=MAX_ROUNDS, rounds=entry["rounds"])
        steps = validate.integer(minimum=rounds, maximum=MAX_ROUNDS, steps=entry["steps"])
        return ShuffleRound.from_dict(entry["round"]), rounds, steps


# forced, so that the module can be reloaded
register_accountant(ShuffleAccountant.mechanism(), ShuffleAccountant, force=True)
