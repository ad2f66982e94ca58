"""Several records of a user in DP-SGD, and batches of a fixed size: quadrature, references."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

import shuffle_accountant as sa
from shuffle_accountant.losses.steps.mixed_gaussians import FixedSizePair

# What quadrature over a kink is off by.
_QUADRATURE = 1e-8
REFS = Path(__file__).resolve().parent.parent / "refs"


def entries(name: str) -> list[dict[str, Any]]:
    return json.loads((REFS / f"{name}.json").read_text(encoding="utf-8"))


def gaussian(sigma: float) -> sa.GaussianMechanism:
    return sa.GaussianMechanism(noise_multiplier=sigma)


def divergence(p: Any, q: Any, alpha: float, reach: float) -> float:
    """Hockey-stick divergence of two densities by quadrature on many short intervals."""
    edges = np.linspace(-reach, reach, 120)
    pieces = itertools.pairwise(edges)
    return sum(quad(lambda y: max(p(y) - alpha * q(y), 0.0), a, b, limit=60)[0] for a, b in pieces)


@pytest.mark.parametrize("entry", entries("user_fixed_size"), ids=lambda entry: entry["id"])
def test_references_of_fixed_size(entry: dict[str, Any]) -> None:
    size = round(entry["q"] * 100_000)
    one = sa.FixedSizeSampled(gaussian(entry["noise_multiplier"]), size=size, population=100_000)
    found = sa.epsilon(one, delta=entry["delta"], rounds=entry["steps"])
    low, high = entry["epsilon"]
    # the references' rel_acc
    assert low * (1 - 1e-3) <= found.lower <= found.upper <= high * (1 + 1e-3)
    real = sa.attained_epsilon(one, delta=entry["delta"], rounds=entry["steps"])
    assert low * (1 - 1e-3) <= real.lower <= found.upper
    poisson = sa.PoissonSampled(one.mechanism, rate=entry["q"])
    assert sa.epsilon(poisson, delta=entry["delta"], rounds=entry["steps"]) < found.lower


@pytest.mark.parametrize(("sigma", "size"), [(1.0, 10), (0.6, 50), (3.0, 100)])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0, 2.5])
def test_fixed_size_by_quadrature(sigma: float, size: int, epsilon: float) -> None:
    q, alpha = size / 100, math.exp(epsilon)

    def law(target: float) -> Any:
        return lambda y: q * norm.pdf(y, target, sigma) + (1 - q) * norm.pdf(y, -1.0, sigma)

    remove = divergence(law(1.0), law(0.0), alpha, 12 * sigma)
    add = divergence(law(0.0), law(1.0), alpha, 12 * sigma)
    one = sa.FixedSizeSampled(gaussian(sigma), size=size, population=100)
    found = sa.delta(one, epsilon=epsilon)
    score = sigma * math.log(1 + (alpha - 1) / q) - 0.5 / sigma
    far = q * (norm.sf(score) - (1 + (alpha - 1) / q) * norm.sf(score + 1 / sigma))
    assert add <= far + _QUADRATURE
    assert found.lower - _QUADRATURE <= max(remove, far) <= found.upper + _QUADRATURE


@pytest.mark.parametrize("entry", entries("user_dpsgd_poisson"), ids=lambda entry: entry["id"])
def test_references_of_poisson_sampling(entry: dict[str, Any]) -> None:
    one = sa.PoissonSampled(
        gaussian(entry["noise_multiplier"]),
        rate=entry["rate"],
        records_per_user=entry["records"],
    )
    found = sa.epsilon(one, delta=entry["delta"], rounds=entry["steps"])
    low, high = entry["epsilon"]
    assert found.lower <= high
    assert low <= found.upper
    assert found.upper <= entry["dp_accounting"] * (1 + 1e-3)


@pytest.mark.parametrize(
    ("sigma", "rate", "records"), [(1.0, 0.1, 3), (2.0, 0.01, 6), (0.7, 0.5, 2)]
)
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.5])
def test_poisson_sampling_by_quadrature(
    sigma: float, rate: float, records: int, epsilon: float
) -> None:
    weights = binom.pmf(np.arange(records + 1), records, rate)

    def mixed(y: float) -> float:
        return float(weights @ norm.pdf(y, np.arange(records + 1), sigma))

    def null(y: float) -> float:
        return float(norm.pdf(y, 0.0, sigma))

    alpha, reach = math.exp(epsilon), 12 * sigma + records
    truth = max(divergence(mixed, null, alpha, reach), divergence(null, mixed, alpha, reach))
    one = sa.PoissonSampled(gaussian(sigma), rate=rate, records_per_user=records)
    found = sa.delta(one, epsilon=epsilon)
    assert found.lower - _QUADRATURE <= truth <= found.upper + _QUADRATURE


@pytest.mark.parametrize("order", ["forward", "backward"])
@pytest.mark.parametrize("loss", [1e-9, 0.05, 2.0, 12.0])
def test_profiles_far_out_in_fifty_digits(order: str, loss: float) -> None:
    """Ends of one order enclose the value in many digits, also where it is tiny."""
    with mpmath.workdps(50):
        for sigma, rate in ((1.0, 0.01), (0.3, 0.2), (4.0, 0.001)):
            s, q, a = mpmath.mpf(sigma), mpmath.mpf(rate), mpmath.exp(mpmath.mpf(loss))
            if order == "forward":
                c = mpmath.exp(1 / (2 * s**2))
                root = a * c + mpmath.sqrt((a * c) ** 2 + 4 * (a - 1) * (1 - q) / q)
                y = s * mpmath.log(root / 2)
                truth = q * mpmath.ncdf(1 / s - y) - a * q * mpmath.ncdf(-y)
                truth -= (a - 1) * (1 - q) * mpmath.ncdf(-y - 1 / s)
            else:
                grown = 1 + (a - 1) / q
                z = s * mpmath.log(grown) - 1 / (2 * s)
                truth = q * (mpmath.ncdf(-z) - grown * mpmath.ncdf(-z - 1 / s))
            low, high = getattr(FixedSizePair(sigma, rate), order)(np.array([loss]))
            assert low[0] <= truth <= high[0]


@pytest.mark.parametrize("entry", entries("user_allocation"), ids=lambda entry: entry["id"])
def test_references_of_allocation(entry: dict[str, Any]) -> None:
    step, steps = gaussian(entry["noise_multiplier"]), entry["steps"]
    delta, records = entry["delta"], entry["records"]
    together = sa.RandomAllocation(step, steps=steps, records_per_user=records, together=True)
    found = sa.epsilon(together, delta=delta)
    assert found.lower <= entry["same_bin"][1]
    assert entry["same_bin"][0] <= found.upper
    apart = sa.RandomAllocation(step, steps=steps, records_per_user=records)
    found = sa.epsilon(apart, delta=delta)
    # the references' own patterns are to 1e-3
    assert entry["one_record"] * (1 - 1e-3) <= found.upper <= entry["independent_upper"] * 1.001


def test_two_records_in_two_bins_by_quadrature() -> None:
    """Two records in independent bins of two steps, aligned: no bound may be below it."""
    sigma = 1.0
    grid = np.linspace(-9.0, 11.0, 801)
    cell = (grid[1] - grid[0]) ** 2
    x, y = np.meshgrid(grid, grid)

    def law(first: float, second: float) -> Any:
        return norm.pdf(x, first, sigma) * norm.pdf(y, second, sigma)

    p, q = 0.25 * law(2, 0) + 0.25 * law(0, 2) + 0.5 * law(1, 1), law(0, 0)
    one = sa.RandomAllocation(gaussian(sigma), steps=2, records_per_user=2)
    for epsilon in (0.0, 1.0, 2.0):
        alpha = math.exp(epsilon)
        truth = max(np.sum(np.maximum(p - alpha * q, 0.0)), np.sum(np.maximum(q - alpha * p, 0.0)))
        assert sa.delta(one, epsilon=epsilon).upper >= truth * cell - 1e-6  # cells of 0.025


def test_rounds_are_stored_and_compose() -> None:
    rounds = (
        sa.FixedSizeSampled(gaussian(1.0), size=10, population=1000),
        sa.PoissonSampled(gaussian(1.0), rate=0.01, records_per_user=3),
        sa.RandomAllocation(gaussian(2.0), steps=100, records_per_user=2),
        sa.RandomAllocation(
            sa.LaplaceMechanism(scale=4.0), steps=100, records_per_user=2, together=True
        ),
    )
    for one in rounds:
        state = json.loads(json.dumps(one.to_dict()))
        assert sa.Protocol.from_list([{"round": state, "count": 2}]) == sa.Protocol([(one, 2)])
        assert sa.conditions(one)
    mixed = sa.epsilon([(one, 1) for one in rounds], delta=1e-5)
    assert mixed.lower > max(sa.epsilon(one, delta=1e-5).lower for one in rounds)
    assert "records" in str(sa.statement(rounds[1], delta=1e-6))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: sa.FixedSizeSampled(gaussian(1.0), size=11, population=10), "size"),
        (lambda: sa.FixedSizeSampled(gaussian(1.0), size=0, population=10), "size"),
        (
            lambda: sa.FixedSizeSampled(sa.LaplaceMechanism(scale=1.0), size=1, population=10),
            "mechanism",
        ),
        (
            lambda: sa.PoissonSampled(sa.LaplaceMechanism(scale=1.0), rate=0.1, records_per_user=2),
            "records_per_user",
        ),
        (
            lambda: sa.PoissonSampled(gaussian(1.0), rate=1.0, records_per_user=2),
            "records_per_user",
        ),
        (
            lambda: sa.PoissonSampled(gaussian(1.0), rate=0.1, records_per_user=0),
            "records_per_user",
        ),
        (
            lambda: sa.RandomAllocation(gaussian(1.0), steps=9, passes=2, records_per_user=2),
            "records_per_user",
        ),
        (lambda: sa.RandomAllocation(gaussian(1.0), steps=9, records_per_user=13), "records"),
        (
            lambda: sa.RandomAllocation(
                sa.PureMechanism(epsilon=1.0), steps=9, records_per_user=2, together=True
            ),
            "records_per_user",
        ),
    ],
)
def test_what_is_not_covered_is_refused(call: Any, named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=named) as refused:
        call()
    assert "\n" not in str(refused.value)


def test_the_table_of_sharp_edges_is_right() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "understand" / "sharp-edges.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line[:5] == "  | ."]
    assert len(rows) == 3
    for row in rows:
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        rate, sigma, steps, delta = (float(part) for part in cells[0].split(","))
        one = sa.FixedSizeSampled(gaussian(sigma), size=round(rate * 10**4), population=10**4)
        poisson = sa.PoissonSampled(gaussian(sigma), rate=rate)
        question = {"delta": delta, "rounds": int(steps)}
        real = sa.attained_epsilon(one, **question).lower  # type: ignore[arg-type]
        upper = sa.epsilon(one, **question).upper  # type: ignore[arg-type]
        other = sa.epsilon(poisson, **question).upper  # type: ignore[arg-type]
        assert float(cells[1]) == pytest.approx(real, abs=1e-4)
        assert upper <= float(cells[2]) <= upper + 1e-4
        assert other <= float(cells[3]) <= other + 1e-4
