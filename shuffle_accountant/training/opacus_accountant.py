# mypy: disable-error-code="misc"
# Opacus is optional, so its classes are of unknown type here.
"""The accountant that Opacus calls "shuffle" (extra ``opacus``)."""

from __future__ import annotations

from typing import Any

from opacus.accountants import IAccountant, register_accountant

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.rounds.protocol import MAX_ROUNDS
from shuffle_accountant.rounds.shuffle import ShuffleRound
from shuffle_accountant.training.budget import budget_cache

__all__ = ["ShuffleAccountant"]

SCHEMA = 1
_FIELDS = ("schema", "mechanism", "history")


class ShuffleAccountant(IAccountant):
    """Accounts for steps of shuffled rounds in the shape of Opacus' accountants.

    Attributes:
        history: for every run of equal rounds ``(round, rounds, steps)``. Several steps can belong
            to one round, see `shuffle_accountant.training.sampling`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: list[tuple[ShuffleRound, int, int]] = []

    @classmethod
    def mechanism(cls) -> str:
        """The name Opacus knows it by."""
        return "shuffle"

    def __len__(self) -> int:
        """Steps taken so far."""
        return sum(steps for _, _, steps in self.history)

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

        Raises:
            TypeError: ``round`` is not a round.
            ValueError: Gaussian noise, or a step of a round that has not begun.
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

    def get_epsilon(self, delta: float, **options: Any) -> Bracket:
        """Certified bracket of the epsilon (nats) spent; 0 before the first step.

        Args:
            delta: in (0, 1).
            **options: of `shuffle_accountant.FourierAccountant`.

        Raises:
            TypeError: ``delta`` is not a number.
            ValueError: ``delta`` is outside (0, 1) or NaN.
        """
        return self._composed(**options).epsilon(delta=delta)

    def get_delta(self, epsilon: float, **options: Any) -> Bracket:
        """Certified bracket of the delta spent at a finite ``epsilon`` >= 0 (nats).

        Raises:
            TypeError: ``epsilon`` is not a number.
            ValueError: ``epsilon`` is negative, NaN or infinite.
        """
        return self._composed(**options).delta(epsilon=epsilon)

    def would_exceed(self, round: ShuffleRound, *, epsilon: float, delta: float) -> bool:
        """Whether one more round would bring the certified upper end above ``epsilon``.

        Args:
            round: the one more.
            epsilon: nats, finite, >= 0.
            delta: in (0, 1).

        Raises:
            TypeError: an argument of the wrong type.
            ValueError: an argument outside its range.
        """
        round = validate.instance(ShuffleRound, round=round)
        epsilon = validate.finite_nonnegative(epsilon=epsilon)
        delta = validate.open_unit(delta=delta)
        after = self._composed().compose(round)
        if len(after.rounds) == 1:
            return budget_cache(round, epsilon, delta, after.tolerance).exceeded_by(len(after))
        return after.epsilon(delta=delta) > epsilon

    def get_optimizer_hook_fn(self, sample_rate: float) -> Any:
        """Refused: Opacus' own engine adds Gaussian noise.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "the accountant 'shuffle' does not account for Gaussian noise with "
            f"sample_rate={sample_rate!r}: use ShufflePrivacyEngine"
        )

    def state_dict(self, destination: Any = None) -> Any:
        """Everything needed to go on elsewhere, in plain JSON types.

        Args:
            destination: a mapping to put it in; a new dictionary if left out.
        """
        destination = {} if destination is None else destination
        destination["schema"] = SCHEMA
        destination["mechanism"] = self.mechanism()
        destination["history"] = [
            {"round": round.to_dict(), "rounds": rounds, "steps": steps}
            for round, rounds, steps in self.history
        ]
        return destination

    def load_state_dict(self, state_dict: Any) -> None:
        """Go on from `state_dict`; a JSON text round trip in between changes nothing.

        Raises:
            TypeError: a field of the wrong type.
            ValueError: not such a dictionary, another mechanism's, or a schema newer than this
                version knows. The accountant is unchanged.
        """
        if not isinstance(state_dict, dict) or set(state_dict) != set(_FIELDS):
            raise ValueError(
                f"state_dict must have fields {sorted(_FIELDS)}, got {state_dict!r:.80}"
            )
        if state_dict["mechanism"] != self.mechanism():
            raise ValueError(
                f"mechanism must be {self.mechanism()!r}, got {state_dict['mechanism']!r:.40}"
            )
        validate.integer(minimum=1, maximum=SCHEMA, schema=state_dict["schema"])
        self.history = [
            _entry(entry) for entry in validate.instance(list, history=state_dict["history"])
        ]

    def _composed(self, **options: Any) -> FourierAccountant:
        accountant = FourierAccountant(**options)
        for round, rounds, _ in self.history:
            accountant.compose(round, count=rounds)
        return accountant


def _entry(entry: object) -> tuple[ShuffleRound, int, int]:
    if not isinstance(entry, dict) or set(entry) != {"round", "rounds", "steps"}:
        raise ValueError(
            f"history must hold objects with round, rounds and steps, got {entry!r:.80}"
        )
    rounds = validate.integer(minimum=1, maximum=MAX_ROUNDS, rounds=entry["rounds"])
    steps = validate.integer(minimum=rounds, maximum=MAX_ROUNDS, steps=entry["steps"])
    return ShuffleRound.from_dict(entry["round"]), rounds, steps


# forced, so that the module can be reloaded
register_accountant(ShuffleAccountant.mechanism(), ShuffleAccountant, force=True)
