"""Flags that several commands share, each with its help."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "AsJson",
    "Buckets",
    "Categories",
    "Colluding",
    "Delta",
    "Delta0",
    "Dimension",
    "Eps0",
    "Epsilon",
    "Interactive",
    "Others",
    "Participation",
    "Population",
    "Radius",
    "Randomizer",
    "Reduction",
    "Rounds",
    "Sigma",
    "Size",
    "Tolerance",
    "Users",
    "Variant",
]

Eps0 = Annotated[float | None, typer.Option(help="ε0 of the local randomizer, >= 0.")]
Randomizer = Annotated[
    str | None,
    typer.Option(
        help="Name of the local randomizer, such as hadamard or laplace; by default any of that ε0."
    ),
]
Delta0 = Annotated[
    float | None, typer.Option(help="Probability up to which ε0 holds, for approximate.")
]
Sigma = Annotated[float | None, typer.Option(help="Standard deviation, for gaussian.")]
Buckets = Annotated[int | None, typer.Option(help="Buckets of hashes, for local-hashing.")]
Size = Annotated[int | None, typer.Option(help="Categories in a message, for subset-selection.")]
Dimension = Annotated[int | None, typer.Option(help="Length of vectors, for privunit and others.")]
Radius = Annotated[float | None, typer.Option(help="Radius of the ball of vectors.")]
Users = Annotated[int, typer.Option(help="Users who send a message in each round, >= 1.")]
Rounds = Annotated[int, typer.Option(help="Number of rounds, >= 0.")]
Population = Annotated[
    int | None,
    typer.Option(help="Draw the users of each round from this many, without replacement."),
]
Others = Annotated[
    list[str] | None,
    typer.Option(
        help="EPS0:USERS, further users with another ε0 of the same randomizer; may be repeated."
    ),
]
Colluding = Annotated[int, typer.Option(help="How many of all users the adversary knows.")]
Participation = Annotated[
    float | None,
    typer.Option(help="Probability, in (0, 1), that each of the users takes part in a round."),
]
Categories = Annotated[
    int | None,
    typer.Option(
        help="Number of values, >= 2; the randomizer is randomized response unless it is named."
    ),
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
