"""Data of the experiments: synthetic points, a census table, blocks, and local randomization."""

from __future__ import annotations

import csv
import math
import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import (
    IntArray,
    RandomSource,
    located,
    random_source,
    renamed,
    values_below,
)
from shuffle_accountant.order.groups import Groups
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse


class Crescents(NamedTuple):
    """Points and their labels.

    Attributes:
        points: public places, shape (n, 2).
        labels: private values, 0 … 7, shape (n,): 4 cluster + 2 crescent + half. Shifted right by
            one bit they name the crescent (4 values), by two bits the cluster (2 values).
    """

    points: NDArray[np.float64]
    labels: NDArray[np.int64]


@renamed(n="users")
def crescents(
    users: int, *, noise: float = 0.1, gap: float = 4.5, rng: RandomSource = None
) -> Crescents:
    """Two clusters of two interleaved half-moons of two halves, as in Meehan et al., figure 1.

    Args:
        noise: standard deviation around the half-moons, in [0, 1e300]; their radius is 1.
        gap: from one cluster to the next, in [0, 1e300].
    """
    n = validate.integer(minimum=1, maximum=10**8, users=users)
    noise, gap = validate.finite_nonnegative(noise=noise), validate.finite_nonnegative(gap=gap)
    farthest = 1e300  # above, coordinates may be no doubles
    if max(noise, gap) > farthest:
        name, value = ("noise", noise) if noise > farthest else ("gap", gap)
        raise ValueError(f"{name} must be a number in [0, {farthest:g}], got {value!r}")
    generator = random_source(rng)
    cluster, moon = generator.integers(2, size=(2, n))
    angle = math.pi * generator.random(n)
    half = (angle > 0.5 * math.pi).astype(np.int64)
    x = np.where(moon == 0, np.cos(angle), 1.0 - np.cos(angle)) + gap * cluster
    y = np.where(moon == 0, np.sin(angle), 0.5 - np.sin(angle))
    points = np.stack([x, y], axis=1) + noise * generator.standard_normal((n, 2))
    return Crescents(points, 4 * cluster + 2 * moon + half)


# The columns of the file as distributed, which has no header.
_COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"),
    *("native-country", "income"),
]
# Other names in use for them, with hyphens for blanks, dots and underscores.
_INCOMES = ("income", "income-per-year", "class", "salary", "target")


class AdultTable(NamedTuple):
    """The columns that the experiments need, one entry per person.

    Attributes:
        age: public, years, shape (n,).
        marital_status: what an attacker knows besides, shape (n,).
        income: private; 1 above 50,000 dollars a year, else 0, shape (n,).
    """

    age: NDArray[np.int64]
    marital_status: NDArray[np.str_]
    income: NDArray[np.int64]


def read_adult(path: str | os.PathLike[str]) -> AdultTable:
    """Read a CSV file of the table, as distributed (no header) or with a header."""
    source = Path(path)
    if not source.is_file():
        raise ValueError(f"path must be a CSV file of the Adult table, got {str(path)!r}")
    with source.open(newline="", encoding="utf-8") as file:
        rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(file, skipinitialspace=True)
            # empty lines, and the comment at the head of the test part
            if any(cell.strip() for cell in row) and not row[0].startswith("|")
        ]
    if not rows:
        raise ValueError(f"path must be a CSV file of the Adult table, got the empty {str(path)!r}")
    header = _COLUMNS
    if not _is_number(rows[0][0]):
        header = [re.sub("[ _.]", "-", cell.lower()) for cell in rows.pop(0)]
    income = next((name for name in _INCOMES if name in header), "income")
    places = []
    for name in ("age", "marital-status", income):
        if name not in header:
            raise ValueError(f"path must have a column {name!r}, got columns {', '.join(header)}")
        places.append(header.index(name))
    for number, row in enumerate(rows, 1):
        if len(row) <= max(places) or not _is_number(row[places[0]]):
            raise ValueError(f"path must hold rows of the Adult table, got {row!r} as row {number}")
    age, marital, earned = ([row[place] for row in rows] for place in places)
    return AdultTable(
        np.array([int(float(value)) for value in age], dtype=np.int64),
        np.array(marital, dtype=np.str_),
        np.array([_above(value) for value in earned], dtype=np.int64),
    )


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _above(text: str) -> int:
    """1 for ">50K" (with a full stop in the test part), 0 for "<=50K"."""
    word = text.rstrip(".").upper()
    if word not in (">50K", "<=50K", "1", "0"):
        raise ValueError(f"path must have incomes '>50K' or '<=50K', got {text!r}")
    return int(word in (">50K", "1"))


def grid_blocks(points: ArrayLike, *, width: float) -> Groups:
    """The cells of a grid of that width as disjoint groups, for `BlockShuffler`.

    That shuffle has alpha = 0 for its blocks, and keeps all that an analyst learns of blocks. It
    protects nobody from those beyond a border: groups around everyone need `DSigmaShuffler`.

    Args:
        width: of a cell along every axis, > 0.
    """
    places = located(points=points)
    width = validate.positive(width=width)
    with np.errstate(over="ignore"):
        cells = np.floor((places - places.min(axis=0)) / width)
    if not np.all(np.isfinite(cells)):
        raise ValueError(f"width must be large enough to number the cells, got {width!r}")
    _, block = np.unique(cells, axis=0, return_inverse=True)
    block = block.ravel()
    members = np.argsort(block, kind="stable")
    return Groups.from_lists(np.split(members, np.cumsum(np.bincount(block))[:-1]))


@renamed(eps="eps0")
def randomize(
    values: ArrayLike, *, categories: int, eps0: float, rng: RandomSource = None
) -> IntArray:
    """Reports by k-ary randomized response: each value, or now and then a uniformly random one."""
    categories = validate.integer(minimum=2, maximum=MOST_CATEGORIES, categories=categories)
    eps0 = validate.finite_nonnegative(eps0=eps0)
    response = RandomizedResponse(categories=categories, eps0=eps0)
    return response.randomize(values_below(categories, values=values), random_source(rng))
