"""Profiles of mixtures of normal laws and what is made of them, under stress and in 50 digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from oracles.atoms import divergence
from oracles.precision import MP, Real, exact

from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.steps.mixed_gaussians import (
    FixedSizePair,
    MixturePair,
)
from shuffle_accountant.losses.steps.profiled import OrderedPairLoss, ProfiledLoss
from shuffle_accountant.numerics.budget import rounded, stress
from shuffle_accountant.numerics.rounding import Array, Bound

UNIT = 2.0**-30
ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 1.0])
LOSSES = (0.0, 0.01, 0.3, 1.0)

Law = list[tuple[Real, Real]]
"""Weights and centres of normal laws, in deviations."""


def density(law: Law, y: Real) -> Real:
    return sum(weight * MP.exp(-((y - centre) ** 2) / 2) for weight, centre in law)


def above(law: Law, y: Real) -> Real:
    return sum(weight * MP.ncdf(centre - y) for weight, centre in law)


def truth(p: Law, q: Law, loss: float) -> Real:
    """``H_alpha(P‖Q)``: where the difference of the densities changes its sign, by halving."""
    alpha = MP.exp(exact(loss))

    def excess(y: Real) -> Real:
        return density(p, y) - alpha * density(q, y)

    places = [exact(y) / 10 for y in range(-400, 401)]
    signs = [excess(y) > 0 for y in places]
    cuts = []
    for (a, b), (low, high) in zip(pairwise(places), pairwise(signs), strict=True):
        if low != high:
            for _ in range(170):
                middle = (a + b) / 2
                a, b = (middle, b) if (excess(middle) > 0) == low else (a, middle)
            cuts.append(a)
    total = above(p, places[0]) - alpha * above(q, places[0]) if signs[0] else exact(0)
    positive = signs[0]
    for cut in cuts:
        part = above(p, cut) - alpha * above(q, cut)
        total += -part if positive else part
        positive = not positive
    return total


def fixed_size(sigma: float, rate: float) -> tuple[Law, Law]:
    s, q = exact(sigma), exact(rate)
    return [(q, 1 / s), (1 - q, -1 / s)], [(q, exact(0)), (1 - q, -1 / s)]


def mixture(sigma: float, places: tuple[float, ...], chances: tuple[Real, ...]) -> tuple[Law, Law]:
    s = exact(sigma)
    with_them = [(exact(p), exact(c) / s) for p, c in zip(chances, places, strict=True)]
    return with_them, [(exact(1), exact(0))]


def binomial(records: int, rate: float) -> tuple[Real, ...]:
    q = exact(rate)
    return tuple(
        MP.binomial(records, j) * q**j * (1 - q) ** (records - j) for j in range(records + 1)
    )


SIZED = (0.8, 0.25)
PLACES, CHANCES = (0.5, 2.0), (0.75, 0.25)
RECORDS = (3, 0.125)
PROFILES: dict[str, tuple[Callable[[Array], tuple[Array, Array]], Law, Law]] = {
    "fixed size, with": (FixedSizePair(*SIZED).forward, *fixed_size(*SIZED)),
    "fixed size, without": (
        FixedSizePair(*SIZED, attained=True).backward,
        *fixed_size(*SIZED)[::-1],
    ),
    "mixture, with": (MixturePair.of(1.5, PLACES, CHANCES).forward, *mixture(1.5, PLACES, CHANCES)),
    "mixture, without": (
        MixturePair.of(1.5, PLACES, CHANCES).backward,
        *mixture(1.5, PLACES, CHANCES)[::-1],
    ),
    "records, with": (
        MixturePair.of_records(1.5, RECORDS[1], RECORDS[0]).forward,
        *mixture(1.5, (0.0, 1.0, 2.0, 3.0), binomial(*RECORDS)),
    ),
}


@ADVERSE
@pytest.mark.parametrize("name", PROFILES)
def test_ends_of_profiles_whose_masses_err(name: str, adverse: float) -> None:
    profile, p, q = PROFILES[name]
    with stress(roundoff=UNIT, adverse=adverse):
        low, high = profile(np.array(LOSSES))
    for loss, below, most in zip(LOSSES, low, high, strict=True):
        value = truth(p, q, loss)
        assert exact(below) <= value <= exact(most), loss
        assert most - below <= 1e-4 * float(value) + 1e-6  # a few thousand roundings


@ADVERSE
def test_the_bound_of_a_fixed_size_whose_masses_err(adverse: float) -> None:
    """At most q times the profile of two normal laws, at another alpha."""
    sigma, rate = SIZED
    with stress(roundoff=UNIT, adverse=adverse):
        low, high = FixedSizePair(sigma, rate).backward(np.array(LOSSES))
    for loss, below, most in zip(LOSSES, low, high, strict=True):
        moved = MP.log(1 + MP.expm1(exact(loss)) / exact(rate))
        one, other = [(exact(1), exact(0))], [(exact(1), 1 / exact(sigma))]
        value = exact(rate) * truth(one, other, moved)
        assert exact(below) <= value <= exact(most), loss


def test_no_loss_is_larger_where_logarithms_err() -> None:
    with stress(roundoff=UNIT, adverse=-1.0):
        found = MixturePair.of(1.5, (0.0, 2.0), (0.75, 0.25)).largest_reversed
        several = MixturePair.of_records(1.5, 0.125, 3).largest_reversed
    assert exact(found) >= -MP.log(exact(0.75))
    assert exact(several) >= -3 * MP.log(exact(0.875))
    assert found < 1.001 * -math.log(0.75)


# ------------------------------------------------------------------------- losses of known profiles

P = {-0.5: 0.3, 0.7: 0.5, math.inf: 0.2}
"""P-masses by loss; under Q the losses -0.5 and 0.7 and a rest that P does not have."""


@dataclass(frozen=True)
class ListedPair:
    """The profile of a few losses, its limit off by what it may be off."""

    deviation: float = 0.5
    largest_reversed: float = 0.5

    @property
    def limit(self) -> float:
        return float(rounded(P[math.inf], 16.0))

    def forward(self, losses: Array) -> tuple[Array, Array]:
        found = np.array([P[math.inf] + divergence_of(x) for x in losses.tolist()])
        return found * (1.0 - 1e-12), found * (1.0 + 1e-12)

    def backward(self, losses: Array) -> tuple[Array, Array]:
        # E_P (e^-L - alpha)_+, and what P does not have
        each = [(p, loss) for loss, p in P.items() if math.isfinite(loss)]
        rest = 1.0 - sum(p * math.exp(-loss) for p, loss in each)
        assert rest >= 0.0
        found = np.array(
            [
                rest + sum(max(p * math.exp(-loss) - math.exp(x) * p, 0.0) for p, loss in each)
                for x in losses.tolist()
            ]
        )
        return found * (1.0 - 1e-12), found * (1.0 + 1e-12)


def divergence_of(x: float) -> float:
    finite = [(p, loss) for loss, p in P.items() if math.isfinite(loss)]
    return sum(max(p - math.exp(x - loss) * p, 0.0) for p, loss in finite)


def test_a_loss_of_a_profile_has_each_orders_largest_loss_and_ends() -> None:
    loss = ProfiledLoss(ListedPair())
    assert loss.largest == math.inf
    assert loss.reversed.largest == 0.5
    effort = Effort(1e-12, 1e-2)
    for epsilon in (0.1, 0.6, 0.69):
        value = 0.2 + divergence_of(epsilon)
        assert loss.delta(epsilon, Bound.OPTIMISTIC, effort) < value
        assert loss.delta(epsilon, Bound.PESSIMISTIC, effort) > value


@ADVERSE
def test_the_mass_at_infinity_of_a_profile_is_from_below(adverse: float) -> None:
    with stress(roundoff=UNIT, adverse=adverse):
        loss = ProfiledLoss(ListedPair())
        edges = lambda last: np.linspace(0.0, last, 40)  # noqa: E731
        below = loss.atoms(Bound.OPTIMISTIC, edges, Effort(1e-12, 1e-2))
        assert 0.199 <= below.infinite <= 0.2
        for epsilon in (0.9, math.inf):
            assert loss.delta(epsilon, Bound.OPTIMISTIC, Effort(1e-12, 1e-2)) <= 0.2
        assert loss.delta(math.inf, Bound.PESSIMISTIC, Effort(1e-12, 1e-2)) >= 0.2
    for epsilon in (0.0, 0.3, 0.6):
        assert divergence(below, epsilon) <= 0.2 + divergence_of(epsilon)


def test_a_profile_is_followed_to_where_it_is_at_most_the_tail() -> None:
    loss = ProfiledLoss(MixturePair.of(1.5, PLACES, CHANCES))
    near, far = loss._last(1e-3), loss._last(1e-12)
    assert near < far < 60.0
    for last, tail in ((near, 1e-3), (far, 1e-12)):
        ends = loss.pair.forward(np.array([last]))[1], loss.pair.backward(np.array([last]))[1]
        assert max(float(end[0]) for end in ends) <= tail


def test_atoms_of_one_order_have_no_more_at_infinity_than_is_certain() -> None:
    """A message that decoys never send, whose mass is off by what roundings may be."""
    pair = MessagePair(np.array([0.5, 0.5]), np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    loss, effort = OrderedPairLoss(pair, 5), Effort(1e-12, 1e-2)
    edges = lambda last: np.linspace(0.0, last, 40)  # noqa: E731
    with stress(roundoff=2.0**-20):
        below = loss.atoms(Bound.OPTIMISTIC, edges, effort)
        above = loss.atoms(Bound.PESSIMISTIC, edges, effort)
    assert below.infinite <= 0.5 <= above.infinite
