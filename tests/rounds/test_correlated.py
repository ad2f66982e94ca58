"""Noise schedules and cyclic Poisson sampling: quadrature, references, relations."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import shuffle_accountant as sa

REFS = Path(__file__).resolve().parent.parent / "refs"
CASES = {
    "unequal 25x(1,1.25,1.5,2)": [1.0] * 25 + [1.25] * 25 + [1.5] * 25 + [2.0] * 25,
    "unequal 50x1.5+50x3": [1.5] * 50 + [3.0] * 50,
}
# What the grid of the two-dimensional quadrature below is off by, measured against a finer one.
_QUADRATURE = 2e-5


def entries() -> list[dict[str, Any]]:
    found = json.loads((REFS / "correlated.json").read_text(encoding="utf-8"))
    return [entry for entry in found if entry["case"].startswith(("unequal", "cyclic"))]


def scheduled(noise: list[float], **options: Any) -> sa.RandomAllocation:
    step = sa.GaussianMechanism(noise_multiplier=noise)
    return sa.RandomAllocation(step, steps=len(noise), **options)


def one_order(round: Any, swapped: bool, delta: float) -> tuple[float, float]:
    """Both ends of epsilon of one order alone."""
    from shuffle_accountant.losses.base import Effort
    from shuffle_accountant.numerics.rounding import Bound

    loss = round.reduced().loss
    loss = loss.reversed if swapped else loss
    effort = Effort(tail=1e-16, resolution=1e-5)
    ends = []
    for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC):

        def excess(epsilon: float, side: Bound = side) -> float:
            return loss.delta(epsilon, side, effort) - delta

        ends.append(_root(excess))
    return ends[0], ends[1]


def _root(excess: Any) -> float:
    from scipy.optimize import brentq

    return float(brentq(excess, 0.0, 50.0, xtol=1e-9))


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry["id"])
def test_references(entry: dict[str, Any]) -> None:
    if entry["case"].startswith("cyclic"):
        step = sa.GaussianMechanism(noise_multiplier=entry["sigma"])
        one = sa.CyclicPoisson(step, rate=entry["q"], cycles=entry["epochs"])
        found = sa.epsilon(one, delta=entry["delta"])
        low, high = found.lower, found.upper
    else:
        one = scheduled(CASES[entry["case"]])
        low, high = one_order(one, entry["direction"] == "add", entry["delta"])
    assert low <= entry["eps_upper"]
    assert entry["eps_lower"] <= high
    assert high - low <= 5e-3


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_two_steps_by_quadrature(epsilon: float, swapped: bool) -> None:
    """The mean of two lognormal values, by a grid over both."""
    noise = [0.8, 1.7]
    grid = (np.arange(4000) + 0.5) / 4000.0 * 18.0 - 9.0
    weight = norm.pdf(grid) * (18.0 / 4000.0)
    first, second = (np.exp(grid / sigma - 0.5 / sigma**2) for sigma in noise)
    ratio = 0.5 * (first[:, None] + second[None, :])
    alpha = math.exp(epsilon)
    gain = np.maximum(1.0 - alpha * ratio if swapped else ratio - alpha, 0.0)
    wanted = float(weight @ gain @ weight)
    from shuffle_accountant.losses.base import Effort
    from shuffle_accountant.numerics.rounding import Bound

    loss = scheduled(noise).reduced().loss
    loss = loss.reversed if swapped else loss
    effort = Effort(tail=1e-14, resolution=1e-5)
    low, high = (
        loss.delta(epsilon, side, effort) for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
    )
    assert low - _QUADRATURE <= wanted <= high + _QUADRATURE
    assert high - low <= 1e-4


def test_equal_multipliers_are_one_number() -> None:
    alike = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.5), steps=20)
    assert sa.epsilon(scheduled([1.5] * 20), delta=1e-6) == sa.epsilon(alike, delta=1e-6)
    again = sa.Protocol.from_dict(sa.Protocol([(scheduled([1.0, 2.0]), 3)]).to_dict())
    assert again == sa.Protocol([(scheduled([1.0, 2.0]), 3)])


def test_order_of_steps_and_more_noise() -> None:
    rising, falling = scheduled([1.0, 1.0, 2.0, 2.0]), scheduled([2.0, 1.0, 2.0, 1.0])
    assert sa.epsilon(rising, delta=1e-6) == sa.epsilon(falling, delta=1e-6)
    quieter, louder = scheduled([1.0, 1.0, 1.9, 2.0]), scheduled([1.0, 1.0, 2.1, 2.0])
    assert sa.epsilon(louder, delta=1e-6).lower <= sa.epsilon(rising, delta=1e-6).upper
    assert sa.epsilon(rising, delta=1e-6).lower <= sa.epsilon(quieter, delta=1e-6).upper


@pytest.mark.filterwarnings("ignore::shuffle_accountant.LooseBracketWarning")
def test_a_schedule_of_many_values_is_gathered() -> None:
    """More values than are added up lie between a schedule of the least and one of the most."""
    noise = list(np.linspace(1.0, 1.2, 60))
    found = sa.epsilon(scheduled(noise), delta=1e-6)
    ends = [sa.epsilon(scheduled([value] * 60), delta=1e-6) for value in (1.2, 1.0)]
    assert ends[0].upper < found.lower
    assert found.upper < ends[1].lower
    assert found.upper <= 1.02 * found.lower


def test_released_and_passes() -> None:
    noise = [1.0, 1.5, 2.0, 2.5]
    part = sa.epsilon(scheduled(noise, released=2), delta=1e-6)
    assert part.upper < sa.epsilon(scheduled(noise), delta=1e-6).lower
    twice = sa.epsilon(scheduled(noise, passes=4), delta=1e-6)
    halved = sa.epsilon(scheduled([value / 2.0 for value in noise]), delta=1e-6)
    assert twice.lower == pytest.approx(halved.lower, rel=1e-9)


def test_cyclic_is_a_composition_of_sampled_steps() -> None:
    step = sa.GaussianMechanism(noise_multiplier=0.9)
    cyclic = sa.epsilon(sa.CyclicPoisson(step, rate=0.05, cycles=30), delta=1e-7)
    plain = sa.epsilon(sa.PoissonSampled(step, rate=0.05), delta=1e-7, rounds=30)
    assert (cyclic.lower, cyclic.upper) == (plain.lower, plain.upper)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: scheduled([1.0, 0.01]), "noise_multiplier"),
        (lambda: scheduled([]), "noise_multiplier"),
        (lambda: scheduled([1.0, math.nan]), "noise_multiplier"),
        (lambda: scheduled([1.0, 2.0], selected=2), "noise_multiplier"),
        (lambda: scheduled([1.0, 2.0], passes=10**4), "noise_multiplier"),
        (
            lambda: sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=[1.0, 2.0]), steps=3),
            "noise_multiplier",
        ),
        (
            lambda: sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=[1.0]), rate=0.1),
            "noise_multiplier",
        ),
        (
            lambda: sa.CyclicPoisson(
                sa.GaussianMechanism(noise_multiplier=1.0), rate=0.0, cycles=2
            ),
            "rate",
        ),
        (
            lambda: sa.CyclicPoisson(
                sa.GaussianMechanism(noise_multiplier=1.0), rate=0.1, cycles=0
            ),
            "cycles",
        ),
    ],
)
def test_refused(call: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        call()
