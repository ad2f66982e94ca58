"""What letters add that are left out, against all sequences of messages, in fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from shuffle_accountant.lattice import rare_letters as module
from shuffle_accountant.lattice.rare_letters import RareLetters, rare_letters


def letters(seed: int, mass: float) -> tuple[np.ndarray, np.ndarray]:
    """Values and masses of six letters: two around 0, two on either side, ever further out."""
    rng = np.random.default_rng(seed)
    value = np.array([-0.1, 0.3, -1.0, -4.0, 1.0, 4.0]) * rng.uniform(0.5, 2.0, 6)
    q = rng.dirichlet(np.ones(6)) * [1.0, 1.0, 0.1, 0.02, 0.1, 0.02]
    return value, q * (mass / q.sum())


def positive_part(value: np.ndarray, mass: np.ndarray, n: int) -> Fraction:
    """Expectation of the sum's positive part, over letters of that mass."""
    some = [(Fraction(v), Fraction(q)) for v, q in zip(value.tolist(), mass.tolist(), strict=True)]
    return sum(
        (
            math.prod((q for _, q in all_n), start=Fraction(1)) * max(sum(v for v, _ in all_n), 0)
            for all_n in itertools.product([one for one in some if one[1]], repeat=n)
        ),
        start=Fraction(0),
    )


def made(value: np.ndarray, mass: np.ndarray, below: float, above: float) -> RareLetters:
    rows = np.stack([value, value - 0.2, 0.5 * value])
    shares = (np.full(3, x) for x in (below, above))
    with np.errstate(divide="ignore", invalid="ignore"):
        return rare_letters(rows, np.stack([mass, mass, mass]), (1, 4), *shares)


@pytest.mark.parametrize("mass", [1.0, 0.7])
@pytest.mark.parametrize(("below", "above"), [(0.4, 0.0), (0.0, 0.4), (0.3, 0.3)])
def test_they_add_no_more(
    below: float, above: float, mass: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However near they are; and something is to be added."""
    monkeypatch.setattr(module, "_FAR_OUT", 0.01)
    monkeypatch.setattr(module, "normal_excess", lambda x: np.full(x.shape, 10.0))
    left = more = 0
    for seed in range(20):
        value, q = letters(seed, mass)
        found = made(value, q, below, above)
        for k, row in enumerate((value, value - 0.2, 0.5 * value)):
            kept = np.where(found.kept[k], q, 0.0)
            left += int((kept < q).any())
            for n in (1, 2, 4):
                rest = 1 - n * Fraction(float(found.rare[k]))
                if rest <= 0:
                    continue
                everything, some = positive_part(row, q, n), positive_part(row, kept, n)
                assert everything <= (some + n * Fraction(float(found.gain[k]))) / rest
                more += everything > some * (1 + Fraction(1, 1000))
    assert left > 10
    assert more > 10


def test_low_letters_may_be_outweighed() -> None:
    """Values just below others: a positive sum stays one."""
    value, mass = np.array([[1.0, -1e-3, -1e-2]]), np.array([[0.3, 0.69, 0.01]])
    found = module.RareLetters(*made_without_low(value, mass))
    assert not found.kept[0, 2]
    truth = positive_part(value[0], mass[0], 6)
    some = positive_part(value[0], np.where(found.kept[0], mass[0], 0.0), 6)
    # nearly all of (1 + a / M)^6 is there
    assert truth > some * Fraction(1050, 1000)
    assert truth <= some / (1 - 6 * Fraction(float(found.rare[0])))


def made_without_low(value: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FAR_OUT", 0.0)
        found = rare_letters(value, mass, (1, 6), np.array([0.1]), np.array([0.0]))
    return found.kept, found.rare, found.gain


def test_letters_that_are_none_stay_out_of_it() -> None:
    """A letter of mass 0 is neither rare nor far out."""
    value = np.array([[1.0, -1.0, -1e9, 1e9]])
    mass = np.array([[0.5, 0.5, 0.0, 0.0]])
    found = rare_letters(value, mass, (10, 10), np.array([0.1]), np.array([0.1]))
    assert found.rare[0] == found.gain[0] == 0.0
    assert found.kept[0, :2].all()
