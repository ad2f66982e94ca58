"""Flags that several commands share, each with its help."""

from __future__ import annotations

from typing import Annotated

import typer

from shuffle_accountant.cli.parsing import one_of
from shuffle_accountant.randomizers.registry import REGISTRY
from shuffle_accountant.reductions.choice import REDUCTIONS
from shuffle_accountant.reductions.strong import VARIANTS

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
    "MinUsers",
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
    "Verbose",
]

# A channel matrix is no flag.
NAMES = sorted({*REGISTRY} - {"discrete"})

Eps0 = Annotated[float | None, typer.Option(help="ε0 of the local randomizer, >= 0.")]
Randomizer = Annotated[
    str | None, one_of(NAMES, "Name of the local randomizer, by default any of that ε0; one of")
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
        metavar="EPS0:USERS",
        help="Further users with another ε0 of the same randomizer; may be repeated.",
    ),
]
Colluding = Annotated[int, typer.Option(help="How many of all users the adversary knows.")]
Participation = Annotated[
    float | None,
    typer.Option(
        help="Probability, in (0, 1], that each of the users takes part in a round: only if "
        "attendance is secret; otherwise give the fewest who will send as --users."
    ),
]
MinUsers = Annotated[
    int | None,
    typer.Option(help="The fewest of the users who will send; by default all of them do."),
]
Categories = Annotated[
    int | None,
    typer.Option(
        help="Number of values, >= 2; the randomizer is randomized response unless it is named."
    ),
]
Reduction = Annotated[
    str, one_of(REDUCTIONS, "Theorem to use, of which auto takes the smallest bound; one of")
]
Variant = Annotated[
    str | None, one_of(VARIANTS, "Form of the strong reduction, by default the first; one of")
]
Interactive = Annotated[
    bool,
    typer.Option("--interactive", help="A user's randomizer may depend on earlier messages."),
]
Tolerance = Annotated[float, typer.Option(help="Relative width of the bracket in ε.")]
Delta = Annotated[float, typer.Option(help="δ, in (0, 1).")]
Epsilon = Annotated[float, typer.Option(help="ε, >= 0.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print which way answered.")]
