"""Points of rare numbers of messages stay where losses are, however small the tail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.losses.alphabets import random_users
from shuffle_accountant.losses.alphabets.samples import number_ranges
from shuffle_accountant.losses.base import Effort


@pytest.mark.parametrize("tail", [1e-20, 1e-114, 1e-310])
def test_points_of_rare_numbers_are_finite_and_close(tail: float) -> None:
    response = sa.RandomizedResponse(categories=3, eps0=1.0)
    one = sa.ShuffleRound(response, users=sa.Binomial(trials=10**5, probability=0.1))
    loss: Any = one.reduced().loss
    effort = Effort(tail, 2.5e-5)
    for numbers in number_ranges(loss.source, effort):
        assert 1.0 <= numbers.spread * effort.resolution / 2.5e-5 <= 0.05 / 2.5e-5
    for points in random_users._near_points(loss, 3, effort) or ():
        losses = np.frombuffer(points)
        assert np.isfinite(np.expm1(losses)).all()
        assert np.diff(losses).max() <= 1.0 + losses[1]
