"""Flags that several commands share, each with its help."""

from __future__ import annotations

from typing import Annotated

import typer

from shuffle_accountant.cli.parsing import one_of
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.registry import SHORT
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
    "NoiseMultiplier",
    "Others",
    "Parameter",
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

# Names that help and completion show: those of this package.
NAMES = sorted(LocalRandomizer.kinds)

Eps0 = Annotated[float | None, typer.Option(help="ε0 of the local randomizer, >= 0.")]
Randomizer = Annotated[
    str | None,
    one_of(
        NAMES,
        "Local randomizer; by default the worst of all that have this ε0. Your own: "
        "package.module:Class. Short names: "
        f"{', '.join(SHORT)}. One of",
    ),
]
Parameter = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Any other parameter of the randomizer, its value in JSON; may be repeated.",
    ),
]
NoiseMultiplier = Annotated[
    float | None,
    typer.Option(help="Noise per coordinate over the largest norm, for gaussian-vectors."),
]
Delta0 = Annotated[
    float | None, typer.Option(help="Probability with which ε0 may fail, for approximate.")
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
Colluding = Annotated[int, typer.Option(help="How many of all users work with the observer.")]
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
    str,
    one_of(
        REDUCTIONS, "Theorem behind the upper end; auto takes the one with the smallest. One of"
    ),
]
Variant = Annotated[
    str | None, one_of(VARIANTS, "Form of the strong reduction, by default the first; one of")
]
Interactive = Annotated[
    bool,
    typer.Option("--interactive", help="A user's randomizer may depend on earlier messages."),
]
Tolerance = Annotated[
    float, typer.Option(help="Relative distance of the two ends of ε to aim for.")
]
Delta = Annotated[float, typer.Option(help="δ, in (0, 1).")]
Epsilon = Annotated[float, typer.Option(help="ε, >= 0.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Print the error budget and which method answered, too."),
]
