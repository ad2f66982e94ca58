"""Messages of a user who is drawn from a population, or of another one, against fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest

import shuffle_accountant as sa
from shuffle_accountant.numerics.rounding import roundings
from shuffle_accountant.reductions.dataset import dataset_losses


@pytest.mark.parametrize(
    ("users", "population"), [(1, 3), (14, 19), (10**15 - 1, 10**15), (3, 10**15 - 1)]
)
@pytest.mark.parametrize("eps0", [0.5, 30.0])
def test_mixtures_are_good_to_a_few_units_in_the_last_place(
    users: int, population: int, eps0: float
) -> None:
    """Also of a message that the target hardly ever sends and of all but everybody drawn."""
    randomizer = sa.RandomizedResponse(categories=4, eps0=eps0)
    drawn = Fraction(users, population)
    for loss, triple in dataset_losses(randomizer, users, population).items():
        *laws, others = randomizer.classes(triple)[:-1].tolist()
        for law, mixed in zip(laws, (loss.pair.p0, loss.pair.p1), strict=True):
            for own, other, found in zip(law, others, mixed.tolist(), strict=True):
                exact = drawn * Fraction(own) + (1 - drawn) * Fraction(other)
                assert abs(Fraction(found) / exact - 1) <= Fraction(roundings(4.0))
