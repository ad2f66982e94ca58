"""Flags that several commands share, each with its help."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "AsJson",
    "Categories",
    "Delta",
    "Eps0",
    "Epsilon",
    "Interactive",
    "Population",
    "Reduction",
    "Rounds",
    "Tolerance",
    "Users",
    "Variant",
]

Eps0 = Annotated[float, typer.Option(help="ε0 of the local randomizer, >= 0.")]
Users = Annotated[int, typer.Option(help="Users who send a message in each round, >= 1.")]
Rounds = Annotated[int, typer.Option(help="Number of rounds, >= 0.")]
Population = Annotated[
    int | None,
    typer.Option(help="Draw the users of each round from this many, without replacement."),
]
Categories = Annotated[
    int | None,
    typer.Option(help="The randomizer is randomized response over this many values, >= 2."),
]
Reduction = Annotated[str, typer.Option(help="Theorem to use; auto takes the smallest bound.")]
Variant = Annotated[
    str | None,
    typer.Option(help="Form of the strong reduction: exact (the default), paper or tail."),
]
Interactive = Annotated[
    bool,
    typer.Option("--interactive", help="A user's randomizer may depend on earlier messages."),
]
Tolerance = Annotated[float, typer.Option(help="Relative width of the bracket in ε.")]
Delta = Annotated[float, typer.Option(help="δ, in (0, 1).")]
Epsilon = Annotated[float, typer.Option(help="ε, >= 0.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
