"""Tables of all randomizers with their reductions, and of published bounds, made by asking them.

`python -m shuffle_accountant.reports.catalogue` prints them; the guides of the site hold copies
that a test compares.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import shuffle_accountant as sa
from shuffle_accountant.baselines import BOUNDS
from shuffle_accountant.randomizers.base import LocalRandomizer

# A constructor, or a constructor with some arguments given.
Maker = Callable[..., LocalRandomizer]

REDUCTIONS = ("clones", "blanket", "strong", "example", "null clones", "null law")

# Arguments with which the table's randomizers are made, by parameter.
_PARAMETERS: dict[str, Any] = {
    "categories": 6,
    "dimension": 8,
    "channel": ((0.6, 0.3, 0.1), (0.2, 0.5, 0.3)),
    "eps0": 1.0,
    "delta0": 1e-6,
    "noise_multiplier": 2.0,
    "sigma": 2.0,
}
_USERS, _POPULATION, _EPSILON = 5, 50, 0.1
# A reduction is called exact if a real dataset attains it at all of these (users, epsilon).
_PROBES = ((2, 0.3), (5, 0.1), (5, 0.5), (20, 0.05), (20, 0.2), (20, 0.5))
_TIGHT = 1e-9

_HEADER = ("randomizer", "reductions", "`auto`: the answer is", "sampling", "`attained`")


def makers() -> dict[str, Maker]:
    """Constructor of every kind of randomizer, by its name.

    Kinds are those that the package registers, the most general first, and the public shorthands.
    """
    for name in dir(sa):  # what is imported lazily registers itself
        getattr(sa, name)
    kinds = {
        kind.__name__: kind
        for kind in LocalRandomizer.kinds.values()
        if kind.__module__.startswith(f"{sa.__name__}.")
    }
    found: dict[str, Maker] = {
        "GeneralRandomizer": kinds.pop("GeneralRandomizer"),
        "GeneralRandomizer, interactive": partial(sa.GeneralRandomizer, interactive=True),
        "BinaryRandomizedResponse": sa.BinaryRandomizedResponse,
    }
    return found | {name: kinds[name] for name in sorted(kinds)}


def randomizer_table() -> str:
    """The table in Markdown, one line per randomizer."""
    return _markdown(_HEADER, map(_row, makers().values()))


def bounds_table() -> str:
    """The published bounds in Markdown, one line per bound."""
    return _markdown(
        ("bound", "about", "sound", "source"),
        ((f"`{b.name}`", b.about, "yes" if b.sound else "no", b.source) for b in BOUNDS),
    )


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _wanted(maker: Maker) -> list[inspect.Parameter]:
    """The constructor's parameters without a default."""
    parameters = inspect.signature(maker).parameters.values()
    return [p for p in parameters if p.default is inspect.Parameter.empty]


def _call(maker: Maker) -> str:
    """The call as one writes it."""
    written = [f"{p.name}=" if p.kind is p.KEYWORD_ONLY else p.name for p in _wanted(maker)]
    if isinstance(maker, partial):
        written += [f"{name}={value!r}" for name, value in maker.keywords.items()]
        maker = maker.func
    return f"{maker.__name__}({', '.join(written)})"


def _row(maker: Maker) -> tuple[str, ...]:
    randomizer = maker(**{p.name: _PARAMETERS[p.name] for p in _wanted(maker)})

    def answered(names: Iterable[str], **options: Any) -> list[str]:
        return [f"`{name}`" for name in names if _answers(randomizer, reduction=name, **options)]

    accepted = answered(REDUCTIONS)
    sampled = answered(("auto", *REDUCTIONS), population=_POPULATION)
    # the usual case, every reduction that there is, in a word
    sampling = "yes" if sampled == ["`auto`", *accepted] else ", ".join(sampled) or "no"
    return (
        f"`{_call(maker)}`",
        ", ".join(accepted),
        _status(randomizer),
        sampling,
        "no" if _attained(sa.ShuffleRound(randomizer, users=_USERS), _EPSILON) is None else "yes",
    )


def _answers(randomizer: LocalRandomizer, **options: Any) -> bool:
    """Whether a shuffled round with these options is supported and answers a query of delta."""
    try:
        sa.ShuffleRound(randomizer, users=_USERS, **options).delta(epsilon=_EPSILON)
    except ValueError:
        return False
    return True


def _status(randomizer: LocalRandomizer) -> str:
    """Whether the automatic reduction is exact or an upper bound, and its name, as a cell."""
    tight = True
    for users, epsilon in _PROBES:
        one = sa.ShuffleRound(randomizer, users=users)
        answer = one.delta(epsilon=epsilon)
        real = _attained(one, epsilon)
        tight &= real is not None and real >= (1.0 - _TIGHT) * answer.lower
    return f"{'exact' if tight else 'an upper bound'} ({answer.reduction})"


def _attained(one: sa.ShuffleRound, epsilon: float) -> float | None:
    """Delta that a real dataset attains, its lower end; None where the library knows none."""
    try:
        return one.attained(epsilon=epsilon).lower
    except ValueError:
        return None


def main() -> None:
    """Print both tables."""
    print(randomizer_table(), bounds_table(), sep="\n\n")


if __name__ == "__main__":
    main()
