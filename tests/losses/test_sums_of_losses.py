"""Sums of independent losses on a grid of their own: what the parts are off by is counted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from oracles.atoms import divergence
from oracles.precision import MP, Real, exact

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.positive import SCALE, PositiveSum
from shuffle_accountant.losses.base import HOCKEY_STICK, Effort
from shuffle_accountant.losses.combined import product
from shuffle_accountant.losses.combined.product import ProductLoss
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

EFFORT = Effort(1e-30, 1e-3)
# Of four of them the sum's grid has 4096 cells of 2^-9, and all losses lie on it.
LOSSES, MASSES = (-1.0, -0.25, 0.5, 1.0), (0.125, 0.375, 0.25, 0.125)
PARTS = 4


class Part:
    """A loss of four atoms, infinite with an eighth; all are off by as much as stated."""

    largest, deviation, divergence, exact, masses = 1.1, 1.0, HOCKEY_STICK, False, MASSES

    def __init__(
        self, moved: float, error: float, truncated: float = 0.0, infinite: float = 0.125
    ) -> None:
        self.moved, self.error, self.truncated = moved, error, truncated
        self.infinite = infinite

    @property
    def reversed(self) -> Part:
        return self

    def atoms(self, side: Bound, edges: Any, effort: Effort) -> PldAtoms:
        edges(self.largest)
        losses = np.array(LOSSES) + self.moved
        return PldAtoms(
            side, np.array(self.masses), losses, self.infinite, self.truncated, 2.0**-7, self.error
        )


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    product._atoms.cache_clear()
    yield
    product._atoms.cache_clear()


def truth(epsilon: float, count: int, infinite: float) -> Real:
    """Of the sum of so many of them, from every combination."""
    sums = {exact(0): exact(1)}
    for _ in range(count):
        further: dict[Real, Real] = {}
        for x, p in sums.items():
            for y, q in zip(LOSSES, MASSES, strict=True):
                further[x + exact(y)] = further.get(x + exact(y), exact(0)) + p * exact(q)
        sums = further
    finite = MP.fsum(p * -MP.expm1(exact(epsilon) - x) for x, p in sums.items() if x > epsilon)
    return finite + 1 - (1 - exact(infinite)) ** count


@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("infinite", [0.125, 0.0])
@pytest.mark.parametrize(
    ("error", "budget"),
    [
        (0.0, {}),
        (0.01, {}),
        (0.0, {"roundoff": 2.0**-30, "adverse": 1.0}),
        (0.0, {"roundoff": 2.0**-30, "adverse": -1.0}),
    ],
)
def test_sums_contain_the_truth(
    error: float, budget: dict[str, float], infinite: float, side: Bound
) -> None:
    """Losses are nearer by their error where an upper end is asked for, else further."""
    upper = side is Bound.PESSIMISTIC
    one: Any = Part(-error if upper else error, error, infinite=infinite)
    loss = ProductLoss(((one, PARTS - 1), (one, 1)))
    with stress(**budget):
        atoms = loss.atoms(side, lambda _: np.zeros(1), EFFORT)
    assert atoms.loss_error >= PARTS * error
    for epsilon in (0.0, 0.3, 1.2, 2.6, 3.4, 3.999, 3.999999):
        with stress(**budget):
            found = [exact(loss.delta(epsilon, side, EFFORT)), divergence(atoms, epsilon)]
        true = truth(epsilon, PARTS, infinite)
        for value in found:
            assert value >= true if upper else value <= true
            # a grid of 4096 cells moves losses by 1e-3 each
            assert abs(value - true) <= exact(0.02) + 8 * exact(error)
    known = 1 - (1 - exact(infinite)) ** PARTS
    assert bool(exact(atoms.infinite) >= known) if upper else bool(atoms.infinite <= known)
    assert loss.delta(math.inf, side, EFFORT) == atoms.infinite


def test_what_parts_have_cut_off_adds_up() -> None:
    one: Any = Part(0.0, 0.0, truncated=0.0625)
    atoms = ProductLoss(((one, 2), (one, 1))).atoms(
        Bound.PESSIMISTIC, lambda _: np.zeros(1), EFFORT
    )
    assert atoms.truncated == pytest.approx(0.1875)


@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("adverse", [-1.0, 1.0])
def test_masses_of_a_sum_are_on_their_side(
    adverse: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masses that are exact, or off by what is stated, and rounded once they are taken."""
    one: Any = Part(0.0, 0.0)
    for relative in (0.0, 2.0**-20):
        off = 1.0 + adverse * relative / (1.0 + relative)
        scaled, infinite = SCALE * off * np.array(MASSES), 0.125 * SCALE * off
        given = PositiveSum(0, scaled, infinite, relative)
        monkeypatch.setattr(product, "positive_sum", lambda *_, given=given: given)
        product._atoms.cache_clear()
        with stress(roundoff=2.0**-30, adverse=adverse):
            atoms = ProductLoss(((one, 1),)).atoms(side, lambda _: np.zeros(1), EFFORT)
        for found, true in zip([*atoms.mass, atoms.infinite], [*MASSES, 0.125], strict=True):
            assert found >= true if side is Bound.PESSIMISTIC else found <= true
            assert abs(found - true) <= (20 * 2.0**-30 + 2.0 * relative) * true
        assert atoms.round_off >= 2.0**-7 + 8 * 2.0**-30 + relative


@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("adverse", [-1.0, 1.0])
def test_sums_over_atoms_are_on_their_side(
    adverse: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Atoms that are exact, so that only the sum over them errs."""
    one: Any = Part(0.0, 0.0)
    given = PldAtoms(side, np.array(MASSES), np.array(LOSSES), 0.125, 0.0, 0.0, 0.0)
    monkeypatch.setattr(product, "_atoms", lambda loss, side, effort: given)
    for epsilon in (0.0, 0.3, 0.75, 2.0):
        with stress(roundoff=2.0**-30, adverse=adverse):
            found = exact(ProductLoss(((one, 1),)).delta(epsilon, side, EFFORT))
        true = truth(epsilon, 1, 0.125)
        assert found >= true if side is Bound.PESSIMISTIC else found <= true
        assert abs(found - true) <= 200 * 2.0**-30 * true


def test_masses_below_all_doubles_are_counted() -> None:
    """Of two equal losses, each with 1.18e-162: the product is 1.4 times the least double."""
    one: Any = Part(0.0, 0.0, infinite=0.0)
    least = math.sqrt(1.4) * 2.0**-537
    one.masses = (1.0 - 0.5, 0.5 - 2.0**-20, 2.0**-20, least)
    atoms = ProductLoss(((one, 2),)).atoms(Bound.PESSIMISTIC, lambda _: np.zeros(1), EFFORT)
    top = Fraction(float(atoms.mass[atoms.loss > 1.9].sum()))
    assert top < Fraction(least) ** 2 <= top + Fraction(atoms.infinite) < 2.0**-1060


def test_no_loss_is_larger_than_the_largest() -> None:
    """Counts times largest losses, added up in fractions."""
    for count in range(1, 60):
        first, second = Part(0.0, 0.0), Part(0.0, 0.0)
        first.largest, second.largest = 0.1, 1.0 / 3.0
        loss: Any = ProductLoss(((first, count), (second, 61 - count)))  # type: ignore[arg-type]
        true = count * Fraction(0.1) + (61 - count) * Fraction(1.0 / 3.0)
        assert true <= loss.largest <= true * (1 + Fraction(2, 10**15))
        with stress(roundoff=2.0**-30, adverse=-1.0):
            assert true <= loss.largest <= true * (1 + Fraction(1, 10**8))
