"""Histograms of a few or of many letters, against all tuples of counts."""

from __future__ import annotations

import itertools

import pytest

import shuffle_accountant as sa
from shuffle_accountant.leakage.qif.channel import all_histograms


@pytest.mark.parametrize("users", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("letters", [1, 2, 3, 4, 6])
def test_all_of_them_in_descending_order(users: int, letters: int) -> None:
    counts = itertools.product(range(users, -1, -1), repeat=letters)
    assert all_histograms(users, letters).tolist() == [
        list(row) for row in counts if sum(row) == users
    ]


def test_one_user_with_many_categories_takes_less_than_two_seconds() -> None:
    """The channel is the identity."""
    channel = sa.leakage.qif.reduced_shuffle_channel(users=1, categories=900)
    assert channel.matrix.shape == (900, 900)
    assert (channel.matrix.argmax(axis=1) == range(900)).all()
    assert channel.matrix.sum() == 900.0
