"""Which randomizer can be accounted for how: a table made by asking the code.

`python -m shuffle_accountant.catalogue` prints it; README.md holds a copy that a test compares.
"""

from __future__ import annotations

import inspect
from typing import Any

import shuffle_accountant as sa
from shuffle_accountant.randomizers.base import LocalRandomizer

__all__ = ["examples", "randomizer_table"]

REDUCTIONS = ("clones", "blanket", "strong")

# Values for the parameters that constructors ask for.
_PARAMETERS: dict[str, Any] = {
    "categories": 4,
    "channel": ((0.6, 0.3, 0.1), (0.2, 0.5, 0.3)),
    "eps0": 1.0,
    "sigma": 2.0,
}
_USERS, _POPULATION, _EPSILON = 5, 50, 0.1
# A lower bound on the truth this close to the answer makes it exact.
_TIGHT = 1e-9
_ONE_PAIR = "gaussian example"

_HEADER = (
    "randomizer",
    "reductions",
    "`auto`",
    "what `auto` answers",
    "`population=`",
    "`attained`",
    "`randomize`",
)


def examples() -> list[LocalRandomizer]:
    """A small instance of every kind of randomizer, in the order in which they were registered.

    Raises:
        KeyError: a constructor asks for a parameter that this module has no value for.
    """
    for name in sa.__all__:  # what is imported lazily registers itself
        getattr(sa, name)
    return [
        _example(kind)
        for kind in LocalRandomizer._kinds.values()
        if kind.__module__.startswith(f"{sa.__name__}.")
    ]


def randomizer_table() -> str:
    """The table in Markdown, one line per randomizer."""
    rows = [_HEADER, ("---",) * len(_HEADER), *map(_row, examples())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _example(kind: type[LocalRandomizer]) -> LocalRandomizer:
    parameters = inspect.signature(kind).parameters.values()
    wanted = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    return kind(**{name: _PARAMETERS[name] for name in wanted})


def _row(randomizer: LocalRandomizer) -> tuple[str, ...]:
    parameters = [
        f"{name}=" if p.kind is inspect.Parameter.KEYWORD_ONLY else name
        for name, p in inspect.signature(type(randomizer)).parameters.items()
        if p.default is inspect.Parameter.empty
    ]
    accepted = [name for name in REDUCTIONS if _answers(randomizer, reduction=name)]
    auto = sa.ShuffleRound(randomizer, users=_USERS)
    name = auto.delta(epsilon=_EPSILON).reduction
    return (
        f"`{type(randomizer).__name__}({', '.join(parameters)})`",
        ", ".join(f"`{name}`" for name in accepted),
        name,
        _status(auto),
        _yes(_answers(randomizer, population=_POPULATION)),
        _yes(_attained(auto) is not None),
        _yes(hasattr(randomizer, "randomize")),
    )


def _answers(randomizer: LocalRandomizer, **options: Any) -> bool:
    """Whether a round with these options can be made and asked."""
    try:
        sa.ShuffleRound(randomizer, users=_USERS, **options).delta(epsilon=_EPSILON)
    except ValueError:
        return False
    return True


def _status(auto: sa.ShuffleRound) -> str:
    answer = auto.delta(epsilon=_EPSILON)
    if answer.reduction == _ONE_PAIR:
        return "exact for one pair of datasets"
    lowest = _attained(auto)
    tight = lowest is not None and lowest >= (1.0 - _TIGHT) * answer.lower
    return "exact" if tight else "upper bound"


def _attained(one: sa.ShuffleRound) -> float | None:
    """A lower bound on the truth, where there is one."""
    try:
        return one.attained(epsilon=_EPSILON).lower
    except ValueError:
        return None


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


if __name__ == "__main__":
    print(randomizer_table())
