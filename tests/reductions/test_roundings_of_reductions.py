"""Parameters that reductions hand on: rounded to the side that they bound, where roundings count.

The truth is in fractions, of parameters that are exact in binary. An allowance is there if it is
that of the operations that it stands for, each a rounding of `UNIT`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shuffle_accountant.losses.base import LossBySide
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.reductions import leaks, matrix
from shuffle_accountant.reductions.base import Pair

UNIT = 2.0**-30


def moved_by(found: float, truth: Fraction | float, least: float, most: float) -> None:
    """The number is off the truth by at least and at most so many roundings, with their sign."""
    off = (Fraction(found) / Fraction(truth) - 1) / Fraction(UNIT)
    assert least <= off <= most, float(off)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks where bounds should be tight."""
    monkeypatch.setattr(matrix, "rough_epsilon", lambda *_, **__: 1.0)


def ends(pair: Pair) -> tuple[Any, Any]:
    """The losses of both sides."""
    loss = pair.loss
    assert isinstance(loss, LossBySide)
    return loss.above, loss.below


def test_variances_of_a_tree() -> None:
    """A square, a quotient, the product with the height and the one with the allowance."""
    with stress(roundoff=UNIT):
        above, below = ends(matrix.tree_of_noise(2.0, 8, 3))
    for source, sign in ((above.source, 1), (below.source, -1)):
        for found, truth in ((source.step, Fraction(3, 4)), (source.variance, Fraction(3))):
            moved_by(found, truth, *sorted((4 * sign, 16 * sign)))


@pytest.mark.parametrize("epochs", [1, 4])
def test_deviations_of_two_bands(epochs: int, quick: None) -> None:
    """Roots of the epochs, quotients by the noise and products; the last bin's part by the side."""
    with stress(roundoff=UNIT):
        above, below = ends(matrix.banded((1.0, 0.5), 2.0, 8, epochs))
    root = math.isqrt(epochs)
    for source, sign in ((above.source, 1), (below.source, -1)):
        moved_by(source.first, Fraction(root, 2), *sorted((5 * sign, 64 * sign)))
        moved_by(source.second, Fraction(root, 4), *sorted((5 * sign, 64 * sign)))
    moved_by(above.source.variance, Fraction(5 * epochs, 16), 12, 160)
    # from above the last bin shares a value with the first one in all epochs but one
    assert above.source.last == (above.source.second if epochs > 1 else 0.0)
    shared = below.source.second * math.sqrt(1.0 - 1.0 / epochs)
    assert below.source.last == pytest.approx(shared, rel=1e-12)
    assert below.source.last < above.source.second
    # shifted by as much as nobody knows, one bin less is dealt to
    assert above.users == (8 if epochs == 1 else 7)
    assert below.users == 8


def test_noise_of_a_revealed_bin() -> None:
    """The deviation that is left: a dot product, a root and a quotient."""
    coefficients = (8.0, 8.0, 4.0)
    with stress(roundoff=UNIT):
        above, below = ends(matrix.banded(coefficients, 1.0, 3, 1))
    squared = Fraction(1, sum(int(c) ** 2 for c in coefficients))
    moved_by(above.source.sigma**2, squared, -160, -12)
    # a variance of 144 is taken to be 36 from below, which is less
    moved_by(below.source.variance, Fraction(36), -160, -12)


def test_variances_and_scales_from_below() -> None:
    coefficients = (1.0, 0.5, 0.25)
    with stress(roundoff=UNIT):
        source: Any = matrix._from_below(coefficients, 0.25, 3, 1)
    moved_by(source.variance, Fraction(21, 64), -160, -12)
    whole = [Fraction(c) for c in coefficients]

    def product(rows: int, away: int) -> Fraction:
        return sum((whole[i] * whole[i + away] for i in range(min(rows, 3 - away))), Fraction(0))

    for rows in (1, 2):
        least = min(product(rows, d) / product(3, d) for d in range(3))
        moved_by(source.scales[3 - rows], least, -160, -8)
    assert source.scales[0] == 1.0


def test_chains_within_blocks_are_below_their_covariances() -> None:
    """A power, a quotient and a product, at the distance that decides."""
    for shape in ([1.0, 0.75, 0.25], [1.0, 0.5]):
        with stress(roundoff=UNIT):
            common, theta, own = matrix._within_blocks(np.array(shape), 1.0)
        assert theta > 0.0
        assert common + own <= 1.0
        short = [
            1 - Fraction(common) * Fraction(theta) ** d / Fraction(shape[d])
            for d in range(1, len(shape))
        ]
        assert 16 * UNIT <= min(short) <= 160 * UNIT


# --------------------------------------------------------------------------------------- exposure


def binomial(trials: int, p: Fraction) -> list[Fraction]:
    return [math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]


def hidden(users: int) -> Any:
    """A round that is known by its number of users."""
    return Pair(str(users), SimpleNamespace(users=users), True)  # type: ignore[arg-type]


@pytest.mark.parametrize("roundings", [{}, *({"adverse": a} for a in (-1.0, 1.0))], ids=str)
@pytest.mark.parametrize(("users", "exposure"), [(9, 0.25), (300, 0.5)])
def test_mixtures_of_hidden_users(users: int, exposure: float, roundings: dict[str, float]) -> None:
    """Fewer hide less: from above no less of the probability is put to few of them."""
    with stress(roundoff=2.0**-32 if roundings else 2.0**-53, **roundings):
        above, below = ends(leaks.exposed(hidden, users, exposure, everyone=True))
    p = Fraction(exposure)
    truth = [Fraction(0)] * (users + 1)
    truth[1] += p
    for others, mass in enumerate(binomial(users - 1, p)):
        truth[users - others] += (1 - p) * mass
    for at in range(1, users + 1):
        few = sum(truth[: at + 1], Fraction(0))
        for parts, upper in ((above.parts, True), (below.parts, False)):
            held = sum((Fraction(w) for w, loss in parts if loss.users <= at), Fraction(0))
            # products of the masses with the chance of being hidden are rounded
            slack = Fraction(1, 2**50)
            assert held >= few - slack if upper else held <= few + slack
