"""The interface of every published bound, module or object, and checks they share.

* ``name``: what the literature calls it; ``source``: authors, year and number of the theorem.
* ``sound``: whether the bound holds for everything that it accepts. What is not sound is here to be
  compared with, and its docstring says why.
* ``valid(...)``: given the arguments of ``epsilon``, None if the bound applies, else the condition
  of its theorem that is not met, in one line with the value. It raises for what is no setting at
  all (a negative number of users), as every function here does.
* ``epsilon(...)``: the bound, nats, finite, >= 0; outside its range of validity it raises
  `OutsideValidityError`, a `ValueError`, with that line. It never returns NaN.
* ``delta(...)``: the same bound the other way round, where the paper gives a curve.

All arguments are keyword-only, except for the round (or curve) that `rdp` and `strong_composition`
are about. At its end the module registers all of that as one object
(`shuffle_accountant.baselines.registry`), with how it extends to sampled and composed rounds.
"""

from __future__ import annotations

from shuffle_accountant import validation as validate

__all__ = ["OutsideValidityError", "check_protocol", "require"]

# Largest number of users: counts are exact in double precision up to it.
_MOST_USERS = 2**53


class OutsideValidityError(ValueError):
    """A bound was asked for outside the range of its theorem.

    Attributes:
        condition: the condition that is not met, as ``valid`` returns it.
    """

    def __init__(self, name: str, condition: str) -> None:
        super().__init__(f"{name} is valid for {condition}")
        self.condition = condition


def require(name: str, condition: str | None) -> None:
    """Raise `OutsideValidityError` if there is a condition that is not met."""
    if condition is not None:
        raise OutsideValidityError(name, condition)


def check_protocol(*, eps0: float, users: int) -> tuple[float, int]:
    """The two numbers that all bounds of one round take, checked."""
    eps0 = validate.finite_nonnegative(eps0=eps0)
    return eps0, validate.integer(minimum=1, maximum=_MOST_USERS, users=users)
