"""Correlated noise: quadrature, sampling with a defensive mixture, references, relations."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, linprog
from scipy.stats import norm

import shuffle_accountant as sa
from shuffle_accountant.baselines import rdp
from shuffle_accountant.baselines.moments import log_moments
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.dealt.correlated import ChainsBelow
from shuffle_accountant.numerics.probabilities import normal_cells
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.reductions import matrix
from shuffle_accountant.sums import pair_law
from shuffle_accountant.sums.chain_below import chain_below
from shuffle_accountant.sums.chain_cells import added, entries_of
from shuffle_accountant.sums.chain_law import chain_sum, ring_sum
from shuffle_accountant.sums.doubling import SumLaw
from shuffle_accountant.sums.pair_law import _log_means, _scores, _spread
from shuffle_accountant.sums.settings import CHAINS_BELOW

REFS = Path(__file__).resolve().parent.parent / "refs"
SIDES = (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
# One round is asked for a million times the tail.
EFFORT = Effort(tail=1e-24, resolution=1e-4)
# Standard errors within which a sampled mean has to lie: 3e-7 of the cases are further out.
_ERRORS = 5.0

pytestmark = pytest.mark.filterwarnings("ignore::shuffle_accountant.LooseBracketWarning")


def geometric(bands: int) -> list[float]:
    return [0.5**k for k in range(bands)]


def deltas(one: Any, epsilon: float, swapped: bool) -> tuple[float, float]:
    """Both ends of delta of one order."""
    loss = one.reduced().loss
    loss = loss.reversed if swapped else loss
    low, high = (loss.delta(epsilon, side, EFFORT) for side in SIDES)
    return low, high


def epsilons(one: Any, delta: float, swapped: bool) -> tuple[float, float]:
    """Both ends of epsilon of one order."""
    loss = one.reduced().loss
    loss = loss.reversed if swapped else loss
    low, high = (
        float(brentq(lambda x, s=side: loss.delta(x, s, EFFORT) - delta, 0.0, 50.0, xtol=1e-7))
        for side in SIDES
    )
    return low, high


def covariance(one: sa.MatrixMechanism) -> np.ndarray:
    """Of the logarithms of the ratios, from the encoder's matrix itself."""
    if one.coefficients is None:
        height = one.bins.bit_length() - 1
        encoder = np.concatenate(
            [np.kron(np.eye(2**k), np.ones(2 ** (height - k))) for k in range(height + 1)]
        )
        encoder = np.tile(encoder, (one.epochs, 1))
    else:
        column = np.asarray(one.coefficients)
        column = column / np.linalg.norm(column) if one.normalised else column
        steps = one.bins * one.epochs
        whole = sum(c * np.eye(steps, k=-k) for k, c in enumerate(column))
        encoder = whole.reshape(steps, one.epochs, one.bins).sum(axis=1)
    return encoder.T @ encoder / one.noise_multiplier**2


def entries() -> list[dict[str, Any]]:
    found = json.loads((REFS / "correlated.json").read_text(encoding="utf-8"))
    kept = [entry for entry in found if "bins" in entry and "untruncated" not in entry["case"]]
    return [entry for entry in kept if entry["bins"] <= 100]


def _is_long(one: dict[str, Any]) -> bool:
    """Whether a reference takes tens of seconds: many bins, or two bands followed as they are."""
    return bool(one["bins"] > 64 or one.get("bands") == 2)


def some_slow() -> list[Any]:
    """The references, those of many bins to be run before a release."""
    return [
        pytest.param(one, id=one["id"], marks=[pytest.mark.release] * _is_long(one))
        for one in entries()
    ]


@pytest.mark.parametrize("entry", some_slow())
def test_references(entry: dict[str, Any]) -> None:
    options = {"noise_multiplier": entry["sigma"], "bins": entry["bins"]}
    if "bands" in entry:
        bands = entry["bands"]
        column = sa.sqrt_coefficients(bands=bands)
        options["coefficients"] = geometric(bands) if "geom" in entry["case"] else column
        one = sa.MatrixMechanism(epochs=entry["epochs"], **options)
    else:
        one = sa.MatrixMechanism(tree=True, **options)
    low, high = epsilons(one, entry["delta"], entry["direction"] == "add")
    assert low <= entry["eps_upper"]
    assert high >= entry.get("eps_lower", 0.0)
    if entry.get("mc") is not None:
        error = 4.0 * (entry.get("mc_se") or 2e-3)  # the trees' are given without one
        assert low <= entry["mc"] + error
        assert high >= entry["mc"] - error
    if "bands" not in entry:
        assert high - low <= 5e-3
    elif entry["bands"] == 2 and entry["epochs"] == 1:
        # nodes; those of the order that does not decide are fewer
        assert high - low <= (0.1 * high if entry["direction"] == "add" else 5e-3)
    elif entry["direction"] == "remove" and entry["case"] == "sqrt":
        assert low >= 0.99 * entry["eps_lower"]  # the reference's own way of bounding it


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    "one",
    [
        sa.MatrixMechanism(tree=True, noise_multiplier=2.0, bins=2),
        sa.MatrixMechanism(coefficients=[1.0, 0.5], noise_multiplier=1.5, bins=2),
        sa.MatrixMechanism(coefficients=[1.0, 0.4], noise_multiplier=3.0, bins=2, epochs=3),
        sa.MatrixMechanism(coefficients=[2.0, 1.0], noise_multiplier=4.0, bins=2, normalised=False),
    ],
    ids=["tree", "bands", "epochs", "as it is"],
)
def test_two_bins_by_quadrature(one: sa.MatrixMechanism, epsilon: float, swapped: bool) -> None:
    root = np.linalg.cholesky(covariance(one))
    half = 0.5 * np.diag(covariance(one))
    grid = (np.arange(3000) + 0.5) / 3000.0 * 18.0 - 9.0
    weight = norm.pdf(grid) * (18.0 / 3000.0)
    first = np.exp(root[0, 0] * grid - half[0])
    second = np.exp(root[1, 0] * grid[:, None] + root[1, 1] * grid[None, :] - half[1])
    ratio = 0.5 * (first[:, None] + second)
    alpha = math.exp(epsilon)
    gain = np.maximum(1.0 - alpha * ratio if swapped else ratio - alpha, 0.0)
    wanted = float(weight @ gain @ weight)
    low, high = deltas(one, epsilon, swapped)
    # what the grid of the quadrature is off by
    assert low - 2e-5 <= wanted <= high + 2e-5
    if one.tree:
        assert high - low <= 2e-4
    elif one.epochs == 1 and not swapped:
        assert high - low <= 0.05 * high + 1e-5  # nodes; the other order has fewer


@pytest.mark.parametrize("sigma", [0.4, 0.25, 0.17])
@pytest.mark.parametrize(("bands", "wide"), [(2, 0.05), (3, 0.5)])
def test_two_bins_with_little_noise_by_quadrature(bands: int, wide: float, sigma: float) -> None:
    """Under P, where what decides is likely: ``H_alpha(P‖Q) = E_P (1 - alpha/L)_+``."""
    one = sa.MatrixMechanism(coefficients=geometric(bands), noise_multiplier=sigma, bins=2)
    shared = covariance(one)
    root, half = np.linalg.cholesky(shared), 0.5 * np.diag(shared)
    grid = (np.arange(3000) + 0.5) / 3000.0 * 18.0 - 9.0
    weight = norm.pdf(grid) * (18.0 / 3000.0)
    for epsilon in (0.6 * half[0], half[0], 1.5 * half[0]):
        wanted = 0.0
        for place in range(2):  # the bin of the record
            one_log = root[0, 0] * grid[:, None] + shared[0, place] - half[0]
            other = root[1, 0] * grid[:, None] + root[1, 1] * grid + shared[1, place] - half[1]
            loss = np.logaddexp(one_log, other) - math.log(2.0)
            wanted += 0.5 * float(weight @ np.maximum(-np.expm1(epsilon - loss), 0.0) @ weight)
        low, high = deltas(one, epsilon, False)
        # the kink costs the quadrature what a node is worth
        assert low * (1.0 - 2e-3) <= wanted <= high * (1.0 + 2e-3)
        assert high - low <= wide * high


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    "one",
    [
        sa.MatrixMechanism(tree=True, noise_multiplier=3.0, bins=16),
        sa.MatrixMechanism(
            coefficients=sa.sqrt_coefficients(bands=4), noise_multiplier=1.0, bins=12
        ),
        sa.MatrixMechanism(
            coefficients=[1.0, 0.9, 0.1, 0.3], noise_multiplier=4.0, bins=10, epochs=5
        ),
        sa.MatrixMechanism(coefficients=[1.0, 0.2], noise_multiplier=0.6, bins=9),
        sa.MatrixMechanism(coefficients=[0.5, 1.0], noise_multiplier=1.0, bins=10),
        sa.MatrixMechanism(coefficients=[1.0, 0.2], noise_multiplier=0.4, bins=9),
        sa.MatrixMechanism(coefficients=[1.0, 0.7], noise_multiplier=2.0, bins=8, epochs=2),
        sa.MatrixMechanism(coefficients=[0.4, 1.0], noise_multiplier=6.0, bins=5, epochs=20),
        sa.MatrixMechanism(coefficients=[0.3, 1.0, 0.5], noise_multiplier=1.5, bins=7),
        sa.MatrixMechanism(
            coefficients=sa.sqrt_coefficients(bands=9), noise_multiplier=2.0, bins=5
        ),
        sa.MatrixMechanism(coefficients=[1.0] * 6, noise_multiplier=5.0, bins=6, epochs=4),
        sa.MatrixMechanism(coefficients=[1.0, -0.6, 0.2], noise_multiplier=1.0, bins=15),
    ],
    ids=[
        "tree",
        "square root",
        "epochs",
        "two",
        "two rising",
        "little noise",
        "two and two",
        "two, many epochs",
        "rising",
        "long",
        "constant",
        "signs",
    ],
)
def test_by_sampling(one: sa.MatrixMechanism, swapped: bool) -> None:
    """Half of the samples are drawn with the record, half without it."""
    rng = np.random.default_rng(20)
    matrix_ = covariance(one)
    count, bins = 200_000, matrix_.shape[0]
    root = np.linalg.cholesky(matrix_ + 1e-12 * np.eye(bins))
    logs = rng.standard_normal((count, bins)) @ root.T
    logs[::2] += matrix_[rng.integers(bins, size=count // 2)]
    ratio = np.exp(logs - 0.5 * np.diag(matrix_)).mean(axis=1)
    weight = 2.0 / (1.0 + ratio)
    for epsilon in (0.0, 0.4, 1.2):
        alpha = math.exp(epsilon)
        gain = weight * np.maximum(1.0 - alpha * ratio if swapped else ratio - alpha, 0.0)
        mean, error = float(gain.mean()), float(gain.std()) / math.sqrt(count) + 1e-9
        low, high = deltas(one, epsilon, swapped)
        assert low <= mean + _ERRORS * error
        assert high >= mean - _ERRORS * error


def test_no_coupling_is_an_allocation() -> None:
    plain = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.5), steps=30)
    one = sa.MatrixMechanism(coefficients=[1.0, 0.0, 0.0], noise_multiplier=1.5, bins=30)
    assert one.epsilon(delta=1e-6) == plain.epsilon(delta=1e-6)
    twice = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.5), steps=30, passes=2)
    one = sa.MatrixMechanism(coefficients=[1.0], noise_multiplier=1.5, bins=30, epochs=2)
    assert one.epsilon(delta=1e-6) == twice.epsilon(delta=1e-6)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("bins", "variance"), [(20, 1.0), (64, 0.25), (120, 0.5)])
def test_a_chain_without_coupling(bins: int, variance: float, swapped: bool) -> None:
    """Independent ratios: above the allocation's, and by no more than cells and nodes add."""
    plain = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=variance**-0.5), steps=bins)
    low, _ = epsilons(plain, 1e-6, swapped)
    for common, own in ((variance, 0.0), (0.5 * variance, 0.5 * variance)):
        found = chain_sum(bins, common, 0.0, own, tail=1e-12, epsilon=low)
        mean = found.law.value / bins
        factor = 1.0 if swapped else found.raised

        def excess(
            epsilon: float, mean: Any = mean, law: Any = found.law, f: float = factor
        ) -> float:
            alpha = math.exp(epsilon)
            gain = 1.0 - alpha * f * mean if swapped else f * mean - alpha
            return float(law.mass @ np.maximum(gain, 0.0)) - 1e-6

        high = float(brentq(excess, 0.0, 20.0))
        assert low * (1.0 - 1e-6) <= high <= 1.015 * low


def test_sums_between_edges_are_above_in_convex_order() -> None:
    """Also where cells are wider than even ones, and values of one even cell go to several."""
    even = 20
    edges = np.append(0.5 * np.arange(even), 9.5 + np.cumsum(0.5 * 1.08 ** np.arange(1, 60)))
    apart, chance = np.array([0.02, 0.31, 0.49, 0.55, 0.97, 3.3, 40.0]), np.full(7, 1.0 / 7.0)
    entries = entries_of(np.ones(1), apart, chance, edges, even)
    for place in (0, 3, 17, 18, 19, 20, 21, 25, 40, 79 - 1):
        mass, out, beyond = np.zeros((1, edges.size)), np.zeros((1, edges.size)), np.zeros((2, 1))
        mass[0, place] = 1.0
        added(mass, *entries, edges, even, place, place + 1, even, out, beyond)
        exact = edges[place] + apart
        assert out.sum() + beyond[0, 0] == pytest.approx(1.0, abs=1e-13)
        assert out[0] @ edges + beyond[1, 0] == pytest.approx(chance @ exact, rel=1e-13)
        for kink in np.concatenate([edges, exact, exact - 1e-3]):
            # what is beyond counts as its mean, as the charge for it does
            above = float(out[0] @ np.maximum(edges - kink, 0.0) + beyond[1, 0])
            assert above >= float(chance @ np.maximum(exact - kink, 0.0)) - 1e-13


@pytest.mark.parametrize("deviation", [0.3, 1.9])
@pytest.mark.parametrize("least", [1.0, 0.4, 0.05])
def test_scores_of_a_pair_are_above_and_below(deviation: float, least: float) -> None:
    """Sums ``A + B u + C u^r`` of a normal value's exponential u, against quadrature.

    Above for the order (P, Q) after the factor that `pair_sum` takes between near scores, and for
    (Q, P), where u alone is kept, without one; conditional means are below in either order.
    """
    step = 0.25
    score = _scores(deviation, step, 1e-16, 2.5, 2.5)
    assert np.all(np.diff(score) > 0.999 * step)
    assert np.diff(score).max() > 2.0 * step
    near = 1.001 * step
    part = 0.125 * np.expm1(near * deviation) ** 2
    fine = np.linspace(-9.0, 9.0 + deviation, 400_001)
    density = norm.pdf(fine) * (fine[1] - fine[0])

    def sums(scores: np.ndarray, power: float, b: float, c: float) -> np.ndarray:
        return 0.3 + b * np.exp(deviation * scores) + c * np.exp(power * deviation * scores)

    for power, b, c in itertools.product((least, 1.0), (0.0, 1.0), (0.0, 1.0)):
        factor = 1.0 / (1.0 - max(one * (1.0 - one) for one in (least, power)) * part)
        exact = sums(fine, power, b, c)
        for alpha in (0.31, 0.5, 1.0, 1.5, 2.0, 3.0, 8.0, 100.0):
            gain = float(density @ np.maximum(exact - alpha, 0.0))
            loss = float(density @ np.maximum(alpha - exact, 0.0))
            # the quadrature's kink, a step of which is worth this much
            off = 1e-9 * (1.0 + alpha + gain)
            mass = _spread(score, deviation, least, near)
            above = mass @ np.maximum(factor * sums(score, power, b, c) - alpha, 0.0)
            assert float(above) >= gain - off
            mass = _spread(score, deviation, 1.0, near)
            assert float(mass @ np.maximum(alpha - sums(score, power, b, c), 0.0)) >= loss - off
            mass = normal_cells(score)
            u, other = (
                np.exp(_log_means(score, mass, one)) for one in (deviation, power * deviation)
            )
            kept = 0.3 + b * u + c * other
            assert float(mass @ np.maximum(alpha - kept, 0.0)) <= loss + off
            assert float(mass @ np.maximum(kept - alpha, 0.0)) <= gain + off


@pytest.mark.parametrize("shape", [(2.0, 1.0, 0.0), (2.0, 0.05, 0.0), (1.0, 2.0, 2.0)])
@pytest.mark.parametrize("bins", [3, 10_000])
def test_what_means_are_lowered_by_stays_below_one(
    shape: tuple[float, float, float], bins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few nodes there are for many bins and little noise, values grow by a factor."""
    kept = SumLaw(np.ones(1), np.ones(1), bins, 0.0, 0.0, 0.0, 1.0)
    monkeypatch.setattr(pair_law, "_above", lambda *_: kept)
    for scale in (1e-3, 1.0, 2.6):
        parts = (scale * one for one in shape)
        found = pair_law.pair_sum(
            bins, *parts, Bound.PESSIMISTIC, powers=False, tail=1e-15, epsilon=1.0
        )
        assert 1.0 <= found.value[0] < 1.5


def test_many_bins_with_much_noise_are_narrow() -> None:
    """Cells of equal width reach beyond the mean of the sum, however narrow they should be."""
    one = sa.MatrixMechanism(coefficients=[1.0, 0.5], noise_multiplier=4.0, bins=1000)
    found = one.epsilon(delta=1e-6)
    assert found.upper - found.lower < 5e-3  # of the specification


def test_two_bins_where_small_sums_decide_are_narrow() -> None:
    """With much noise and a tiny delta the order (Q, P) is as close to it as the other one."""
    one = sa.MatrixMechanism(coefficients=[1.0, 0.8], noise_multiplier=4.8, bins=2)
    found = one.epsilon(delta=3e-10)
    assert found.upper - found.lower < 5e-3  # of the specification


@pytest.mark.parametrize("ring", [False, True])
def test_a_chain_of_three_bins_by_quadrature(ring: bool) -> None:
    common, theta, own = 0.6, 0.7, 0.0
    away = np.abs(np.subtract.outer(range(3), range(3)))
    matrix_ = common * theta**away
    if ring:
        matrix_ = (matrix_ + common * theta ** (3 - away)) / (1.0 + theta**3)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / math.sqrt(2.0 * math.pi)
    root = np.linalg.cholesky(matrix_)
    points = np.asarray(list(itertools.product(nodes, repeat=3)))
    chance = np.prod(np.asarray(list(itertools.product(weights, repeat=3))), axis=1)
    ratio = np.exp(points @ root.T - 0.5 * common).mean(axis=1)
    bound = ring_sum if ring else chain_sum
    found = bound(3, common, theta, own, tail=1e-12, epsilon=1.0)
    # nodes of a ring are a few times as coarse, as is what they add
    mean, much = found.law.value / 3.0, 1.1 if ring else 1.03
    for epsilon in (0.0, 0.5, 1.0):
        alpha = math.exp(epsilon)
        wanted = float(chance @ np.maximum(ratio - alpha, 0.0))
        high = float(found.law.mass @ np.maximum(found.raised * mean - alpha, 0.0))
        # the kink costs the quadrature what a node in each direction is worth
        assert wanted - 2e-3 * wanted <= high <= much * wanted + 1e-5
        wanted = float(chance @ np.maximum(1.0 - alpha * ratio, 0.0))
        high = float(found.law.mass @ np.maximum(1.0 - alpha * mean, 0.0))
        assert wanted - 2e-3 * wanted <= high <= much * wanted + 1e-5


@pytest.mark.parametrize("swapped", [False, True])
def test_a_ring_is_above_its_chain_and_below_fewer_bins(swapped: bool) -> None:
    """More covariance reveals more, and so does a deal to the bins that are left."""
    common, theta, own, found = 0.3, 0.6, 0.1, []
    for bound, bins in ((chain_sum, 12), (ring_sum, 12), (chain_sum, 9)):
        law, factor = (lambda one: (one.law, one.raised))(
            bound(bins, common, theta, own, tail=1e-12, epsilon=1.0)
        )
        value = law.value / bins * (1.0 if swapped else factor)
        gain = 1.0 - math.e**0.8 * value if swapped else value - math.e**0.8
        found.append(float(law.mass @ np.maximum(gain, 0.0)))
    assert found[0] < found[1] < found[2]


@pytest.mark.parametrize(("bands", "bins"), [(4, 10), (3, 5), (9, 12)])
def test_a_ring_is_above_the_covariances(bands: int, bins: int) -> None:
    """By a positive semidefinite matrix and one without negative entries: their eigenvalues."""
    column = np.asarray(sa.sqrt_coefficients(bands=bands))
    kernel = tuple(float(column[: bands - d] @ column[d:]) for d in range(bands))
    one = matrix._around(kernel, 0.7, bins)
    covered = np.zeros(bins)
    for step, value in enumerate(kernel):
        covered[step] += value
        covered[-step % bins] += value * (step > 0)
    away = np.arange(bins)
    ring = one.common * (one.theta**away + one.theta ** (bins - away)) / (1.0 + one.theta**bins)
    left = ring + one.own * (away == 0) - covered * 0.7 / kernel[0]
    units = [np.roll(np.eye(bins)[0], d) + np.roll(np.eye(bins)[0], -d) for d in range(1, bins)]
    spectra = np.fft.fft(np.asarray(units), axis=1).real
    # some nonnegative entries can be taken away so that no eigenvalue is negative
    answer = linprog(np.zeros(bins - 1), A_ub=spectra.T, b_ub=np.fft.fft(left).real)
    assert answer.status == 0


@pytest.mark.parametrize("swapped", [False, True])
def test_a_chain_from_below_without_coupling(swapped: bool) -> None:
    plain = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.0), steps=40)
    _, high = epsilons(plain, 1e-6, swapped)
    for common, own in ((1.0, 0.0), (0.5, 0.5)):
        ones = np.ones(40)
        (law,) = chain_below(ones, common, 0.0, own, powers=swapped, tail=1e-12, far=120.0)

        def excess(epsilon: float, law: Any = law) -> float:
            gain = 1.0 - math.exp(epsilon) * law.value / 40.0
            gain = gain if swapped else law.value / 40.0 - math.exp(epsilon)
            return float(law.mass @ np.maximum(gain, 0.0)) - 1e-6

        low = float(brentq(excess, 0.0, 20.0))
        assert 0.97 * high <= low <= high * (1.0 + 1e-6)


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.0, 0.7, 0.4), (0.8, 0.7, 1.0)])
def test_chains_from_below_by_quadrature(scales: tuple[float, ...]) -> None:
    """Three bins with scales, and the first two and three without, from one call."""
    common, theta = 0.6, 0.7
    laws = {
        powers: chain_below(
            *(np.asarray(scales), common, theta, 0.0),
            powers=powers,
            tail=1e-12,
            far=9.0,
            whole=(2, 3),
        )
        for powers in (False, True)
    }
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / math.sqrt(2.0 * math.pi)
    for place, parts in enumerate([scales, (1.0, 1.0), (1.0, 1.0, 1.0)]):
        count = len(parts)
        matrix_ = common * theta ** np.abs(np.subtract.outer(range(count), range(count)))
        matrix_ = matrix_ * np.multiply.outer(parts, parts)
        root = np.linalg.cholesky(matrix_)
        points = np.asarray(list(itertools.product(nodes, repeat=count)))
        chance = np.prod(np.asarray(list(itertools.product(weights, repeat=count))), axis=1)
        ratio = np.exp(points @ root.T - 0.5 * np.diag(matrix_)).mean(axis=1)
        for (powers, found), epsilon in itertools.product(laws.items(), (0.0, 0.5, 1.0)):
            alpha, law = math.exp(epsilon), found[place]
            wanted, low = (
                float(c @ np.maximum(1.0 - alpha * r if powers else r - alpha, 0.0))
                for c, r in ((chance, ratio), (law.mass, law.value / count))
            )
            # what cells and nodes take, and the quadrature's kink
            assert 0.94 * wanted - 1e-5 <= low <= 1.002 * wanted


def test_rounding_to_nodes_spreads_less_than_the_noise_taken() -> None:
    """Both conditions of the proof, at every place between two nodes."""
    upper = np.concatenate([np.logspace(-12, -2, 300), np.linspace(0.01, 0.99, 2000)])
    upper = np.concatenate([upper, 1.0 - np.logspace(-12, -2, 300)])
    place = norm.ppf(upper)
    assert np.all(CHAINS_BELOW.taken * norm.pdf(place) >= upper * (1.0 - upper) * (1.0 - 1e-3))
    for step in (1e-3, 0.03, 0.2, CHAINS_BELOW.longest):
        mean = 1.0 + upper * math.expm1(step)
        spread = mean * norm.cdf(CHAINS_BELOW.taken * step + place)
        assert np.all(spread >= math.exp(step) * upper)


@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.parametrize("sigma", [0.7, 3.0])
@pytest.mark.parametrize("bands", [2, 3, 6])
def test_chains_from_below_are_below(bands: int, sigma: float, epochs: int) -> None:
    """Within blocks entry by entry; of whole chains a direction in which they were above."""
    bins = 24
    column = np.asarray(sa.sqrt_coefficients(bands=bands))
    column = column / np.linalg.norm(column)
    one = sa.MatrixMechanism(coefficients=column, noise_multiplier=sigma, bins=bins, epochs=epochs)
    real = covariance(one)
    found = matrix._from_below(tuple(column), sigma**-2, bins, epochs)
    assert isinstance(found, ChainsBelow)
    away = np.abs(np.subtract.outer(range(bins), range(bins)))
    rng = np.random.default_rng(4)
    for block, common, theta, own in found.ways:
        below = common * theta**away + own * (away == 0)
        below = below * np.multiply.outer(found.scales, found.scales)
        assert np.trace(below) >= 0.4 * np.trace(real)
        if block < bins:
            first = (bins - np.arange(bins) - 1) // block
            within = np.equal.outer(first, first)
            assert np.all(below[within] <= real[within] * (1.0 + 1e-12))
            continue
        # no nonnegative matrix is orthogonal to what separates the cone from a matrix outside of it
        for _ in range(200):
            factor = np.abs(rng.normal(size=(bins, 3)))  # entries >= 0, positive semidefinite
            tested = factor @ factor.T
            assert np.sum(tested * below) <= np.sum(tested * real) * (1.0 + 1e-9)


def test_the_delta_decides_which_chains_are_below() -> None:
    """Blocks of as many bins as bands have larger ratios, which a small delta sees."""
    one = sa.MatrixMechanism(
        coefficients=sa.sqrt_coefficients(bands=8), noise_multiplier=1.0, bins=300
    )
    assert sa.epsilon(one, delta=1e-8).lower > 0.98  # 0.80 by chains of 100 bins


@pytest.mark.parametrize("bands", [2, 5, 16])
def test_least_independent_parts_by_other_frequencies(bands: int) -> None:
    """w of every candidate: the least one on fewer frequencies is below, and hardly so."""
    column = np.asarray(sa.sqrt_coefficients(bands=bands))
    shape = matrix._kernel(column) / matrix._kernel(column)[0]
    found = matrix._candidates(tuple(shape.tolist()), 60, above=True)
    assert len(found) > 20
    reach = min(59, 2 * bands + 8)
    grid = np.linspace(0.0, math.pi, 157)
    distances = np.arange(1, reach + 1)
    band = 1.0 + 2.0 * np.cos(np.outer(grid, np.arange(1, bands))) @ shape[1:]
    for common, theta, own in found[::5]:
        chain = common * (
            1.0 + 2.0 * np.cos(np.outer(grid, np.arange(1, 2000))) @ theta ** np.arange(1, 2000)
        )
        sides = np.column_stack([-np.ones(grid.size), 2.0 * np.cos(np.outer(grid, distances))])
        cost = np.append(1.0, np.zeros(reach))
        answer = linprog(cost, A_ub=sides, b_ub=chain - band, method="highs-ipm")
        assert answer.x[0] - 1e-7 <= own <= 1.05 * answer.x[0] + 0.02 + 2e-3 / (1.0 - theta) ** 2


@pytest.mark.parametrize("bands", [2, 5, 16])
def test_largest_independent_parts_by_other_frequencies(bands: int) -> None:
    column = np.asarray(sa.sqrt_coefficients(bands=bands))
    shape = matrix._kernel(column) / matrix._kernel(column)[0]
    found = matrix._candidates(tuple(shape.tolist()), 60, above=False)
    assert len(found) > 10
    grid = np.linspace(0.0, math.pi, 157)
    distances = np.arange(1, min(59, 2 * bands + 8) + 1)
    band = 1.0 + 2.0 * np.cos(np.outer(grid, np.arange(1, bands))) @ shape[1:]
    for common, theta, own in found[::5]:
        powers = theta ** np.arange(1, 2000)
        chain = common * (1.0 + 2.0 * np.cos(np.outer(grid, np.arange(1, 2000))) @ powers)
        sides = np.column_stack([np.ones(grid.size), 2.0 * np.cos(np.outer(grid, distances))])
        cost = np.append(-1.0, np.zeros(distances.size))
        answer = linprog(cost, A_ub=sides, b_ub=band - chain, method="highs-ipm")
        assert own <= answer.x[0] + 1e-7
        assert own >= 0.95 * answer.x[0] - 0.02 - 2e-3 / (1.0 - theta) ** 2


def test_more_noise_and_more_bins_protect_more() -> None:
    column = sa.sqrt_coefficients(bands=3)

    def found(sigma: float, bins: int) -> sa.Bracket:
        one = sa.MatrixMechanism(coefficients=column, noise_multiplier=sigma, bins=bins)
        return one.epsilon(delta=1e-6)

    some = found(1.0, 8).upper
    assert found(2.0, 8).upper < some
    assert found(1.0, 16).upper < some
    tree = [
        sa.MatrixMechanism(tree=True, noise_multiplier=4.0, bins=bins).epsilon(delta=1e-6)
        for bins in (1, 2, 4)
    ]
    assert tree[0].upper > 1.0
    alone = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=4.0), steps=1)
    assert tree[0].upper == pytest.approx(alone.epsilon(delta=1e-6).upper, rel=1e-6)


def test_signs_have_the_upper_ends_of_sizes() -> None:
    one = sa.MatrixMechanism(coefficients=[1.0, -0.5, 0.1], noise_multiplier=1.0, bins=8)
    other = sa.MatrixMechanism(coefficients=[1.0, 0.5, 0.1], noise_multiplier=1.0, bins=8)
    assert one.epsilon(delta=1e-6).upper == other.epsilon(delta=1e-6).upper
    assert 0.0 < one.epsilon(delta=1e-6).lower < other.epsilon(delta=1e-6).lower


def test_composed_and_mixed() -> None:
    tree = sa.MatrixMechanism(tree=True, noise_multiplier=8.0, bins=8)
    once, twice = tree.epsilon(delta=1e-6), sa.epsilon(tree, delta=1e-6, rounds=2)
    assert once.upper < twice.lower < twice.upper < 2.0 * once.upper + 1e-3
    step = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=1.0), rate=0.01)
    mixed = sa.epsilon(sa.Protocol([(tree, 2), (step, 20)]), delta=1e-6)
    assert mixed.lower > twice.upper


def test_a_wide_bracket_says_why() -> None:
    one = sa.MatrixMechanism(coefficients=[1.0, 0.5, 0.2], noise_multiplier=1.0, bins=8)
    with pytest.warns(sa.LooseBracketWarning, match="covariance is bounded"):
        one.epsilon(delta=1e-6)


def test_sqrt_coefficients() -> None:
    assert sa.sqrt_coefficients(bands=4) == (1.0, 0.5, 0.375, 0.3125)
    whole = np.asarray(sa.sqrt_coefficients(bands=30))
    assert np.allclose(np.convolve(whole, whole)[:30], 1.0)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "coefficients"),
        ({"coefficients": [1.0], "tree": True}, "coefficients"),
        ({"coefficients": [0.0, 0.0]}, "coefficients"),
        ({"coefficients": []}, "coefficients"),
        ({"coefficients": [1.0, math.nan]}, "coefficients"),
        ({"coefficients": [1.0, 0.5, 0.2], "bins": 2, "epochs": 2}, "bins"),
        ({"tree": True, "bins": 6}, "bins"),
        ({"coefficients": [1.0], "noise_multiplier": 1e-3}, "noise_multiplier"),
        ({"coefficients": [1.0], "noise_multiplier": 1.0, "epochs": 10**6}, "noise_multiplier"),
        ({"coefficients": [30.0], "normalised": False}, "noise_multiplier"),
    ],
)
def test_refused(options: dict[str, Any], named: str) -> None:
    whole = {"noise_multiplier": 1.0, "bins": 4} | options
    with pytest.raises(ValueError, match=named):
        sa.MatrixMechanism(**whole)


@pytest.mark.parametrize(
    ("one", "tight"),
    [
        (sa.MatrixMechanism(tree=True, noise_multiplier=4.0, bins=8), True),
        (sa.MatrixMechanism(coefficients=geometric(2), noise_multiplier=1.5, bins=8), True),
        (sa.MatrixMechanism(coefficients=geometric(3), noise_multiplier=1.5, bins=8), False),
    ],
    ids=["tree", "two bands", "three bands"],
)
@pytest.mark.parametrize("order", [2, 3])
def test_renyi_divergences_of_integer_orders(
    one: sa.MatrixMechanism, tight: bool, order: int
) -> None:
    """``E_Q L^order`` is a mean of ``exp`` of the covariances of that many bins."""
    shared = covariance(one)
    pairs = list(itertools.combinations(range(order), 2))
    terms = [
        math.exp(sum(shared[bins[j], bins[k]] for j, k in pairs))
        for bins in itertools.product(range(one.bins), repeat=order)
    ]
    truth = math.log(math.fsum(terms) / len(terms))
    loss = one.reduced().loss
    low, high = (log_moments(loss, side).kept(order - 1.0) for side in SIDES)
    # what is cut off, a probability of 1e-24 at most, is far below the rounding of the grid
    assert low <= truth <= high
    assert high <= (1.03 if tight else 1.25) * truth


def test_renyi_accounting_is_a_baseline() -> None:
    one = sa.MatrixMechanism(tree=True, noise_multiplier=4.0, bins=8)
    rows = {row.name: row for row in sa.compare(one, delta=1e-6) if "overstated" not in row.form}
    found = rows["rdp"].epsilon
    assert found is not None
    assert found == rdp.epsilon(one, delta=1e-6)
    # at its best order Rényi accounting loses some percent, never less than nothing
    assert 1.0 < found / rows["certified"].epsilon < 1.15


def test_cells_without_digits_are_left_out() -> None:
    """Their means would lie outside of their cells, and sums from there beyond all cells."""
    law = pair_law.pair_sum(
        *(4, 0.6, 0.5, 0.5, Bound.OPTIMISTIC), powers=True, tail=1e-288, epsilon=1.0
    )
    assert np.all(np.diff(law.value) > 0.0)
    # rounding to nodes raises the mean in this order, by less than this
    assert law.mass @ law.value == pytest.approx(4.0, rel=1e-4)


@pytest.mark.parametrize("first", [5e-324, 1e-160, 1e-49, 1e-11, 1e-8])
def test_a_contribution_that_hardly_counts(first: float) -> None:
    """The rows that carry the rest of the column are never released: a Gaussian step is left."""
    one = sa.MatrixMechanism(coefficients=[first, 1.0], noise_multiplier=0.3, bins=1)
    assert one.epsilon(delta=1e-6).upper == 0.0
    found = one.delta(epsilon=0.0)
    # the total variation of a shift by that many deviations of the noise
    assert found.lower <= first / 0.3 / math.sqrt(2.0 * math.pi) <= found.upper <= 1e-7


@pytest.mark.parametrize("given", [np.array("x"), np.array(1.0), "1", 1.0])
def test_coefficients_that_are_no_sequence(given: Any) -> None:
    with pytest.raises(TypeError, match="coefficients must be a sequence of numbers"):
        sa.MatrixMechanism(coefficients=given, noise_multiplier=2.0, bins=4)
