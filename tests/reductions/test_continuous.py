"""Normal and Laplace noise against closed forms and quadrature."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest
from oracles import few_gaussians, gaussian, laplace
from oracles.containment import assert_contains, assert_narrow, assert_narrow_tail
from oracles.precision import exact

import shuffle_accountant as sa
from shuffle_accountant.losses.alphabets.letters import MessagePair, MessageSource
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.reductions.blanket import InputPair

# Brackets of one round are about 1e-3 of delta wide where few messages are far from normal.
WIDTH = 2e-3


def gaussian_round(sigma: float, users: int, **options: object) -> sa.ShuffleRound:
    options = {"reduction": "example", **options}
    return sa.ShuffleRound(sa.GaussianRandomizer(sigma=sigma), users=users, **options)


def laplace_round(eps0: float, users: int) -> sa.ShuffleRound:
    return sa.ShuffleRound(sa.LaplaceRandomizer(eps0=eps0), users=users)


# One and two messages


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("sigma", [0.3, 0.7, 2.0, 10.0, 30.0])
def test_gaussian_mechanism(sigma: float, epsilon: float) -> None:
    bracket = gaussian_round(sigma, 1).delta(epsilon=epsilon)
    assert_contains(bracket, gaussian.mechanism(sigma, epsilon))
    assert_narrow_tail(bracket, WIDTH)


@pytest.mark.parametrize(
    ("sigma", "epsilon", "fraction"),
    [
        (0.7, 0.0, 1.0),
        (0.7, 0.5, 1.0),
        (2.0, 0.0, 1.0),
        (2.0, 0.5, 1.0),
        (2.0, 1.0, 1.0),
        (10.0, 0.1, 1.0),
        (30.0, 0.01, 1.0),
        (30.0, 0.1, 1.0),
        (30.0, 0.5, 1.0),
        (2.0, 0.1, 0.5),
        (2.0, 0.1, 0.02),
        (2.0, 0.5, 0.02),
    ],
)
def test_gaussian_example_of_two(sigma: float, epsilon: float, fraction: float) -> None:
    """Both orders of the pair, also for users drawn from a population."""
    population = round(2 / fraction)
    bracket = gaussian_round(sigma, 2, population=population).delta(epsilon=epsilon)
    forward = gaussian.example(sigma, 2, epsilon, exact(2) / population)
    backward = gaussian.example_reversed(sigma, 2, epsilon, exact(2) / population)
    assert_contains(bracket, max(forward, backward), rtol=gaussian.QUADRATURE)
    if max(forward, backward) > 1e-15:  # rarer than that, no tilt reaches from the bulk to the tail
        assert_narrow_tail(bracket, WIDTH)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
@pytest.mark.parametrize("fraction", [0.5, 0.02])
def test_subsampled_gaussian_mechanism(epsilon: float, fraction: float) -> None:
    """The pair ``((1 - f) Q + f P, Q)`` and its reverse, in closed form for one message."""
    population = round(1 / fraction)
    bracket = gaussian_round(1.0, 1, population=population).delta(epsilon=epsilon)
    forward = gaussian.example(1.0, 1, epsilon, exact(1) / population)
    backward = gaussian.example_reversed(1.0, 1, epsilon, exact(1) / population)
    assert_contains(bracket, max(forward, backward))
    assert_narrow_tail(bracket, WIDTH)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9, 2.7])
@pytest.mark.parametrize("eps0", [0.1, 1.0, 3.0])
def test_laplace_mechanism(eps0: float, epsilon: float) -> None:
    bracket = laplace_round(eps0, 1).delta(epsilon=epsilon)
    truth = laplace.mechanism(eps0, epsilon)
    assert_contains(bracket, truth, rtol=1e-14)  # an expm1 and a rounded difference below it
    if truth:
        assert_narrow_tail(bracket, WIDTH)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9, 2.5])
@pytest.mark.parametrize("eps0", [1.0, 3.0])
def test_laplace_of_two(eps0: float, epsilon: float) -> None:
    bracket = laplace_round(eps0, 2).delta(epsilon=epsilon)
    truth = laplace.two(eps0, epsilon)
    assert_contains(bracket, truth, rtol=laplace.QUADRATURE)
    if truth:
        assert_narrow_tail(bracket, WIDTH)


@pytest.mark.parametrize("users", [3, 5, 7])
def test_gaussian_example_of_a_few(users: int) -> None:
    epsilons = (0.1, 0.5, 1.0)
    truths = few_gaussians.divergence(2.0, users, epsilons)
    for epsilon, truth in zip(epsilons, truths, strict=True):
        bracket = gaussian_round(2.0, users).delta(epsilon=epsilon)
        assert_contains(bracket, truth, rtol=few_gaussians.RECURSION)
        assert_narrow_tail(bracket, WIDTH)


@pytest.mark.parametrize(
    ("users", "epsilon", "printed"),
    [
        (1, 0.1, "0.159260507"),
        (1, 0.5, "0.052440323"),
        (1, 1.0, "0.006829595"),
        (2, 0.1, "0.104853"),
        (2, 0.5, "0.018327"),
        (2, 1.0, "0.000646"),
        (7, 0.1, "0.041294"),
        (7, 0.5, "0.00059351"),
        (7, 1.0, "1.3e-7"),
    ],
)
def test_known_values(users: int, epsilon: float, printed: str) -> None:
    """Values computed elsewhere for sigma = 2, as far as they were printed."""
    digits = len(printed.split("e")[0].split(".")[1])
    power = float(f"1e-{digits}") * (1e-7 if "e" in printed else 1.0)
    bracket = gaussian_round(2.0, users).delta(epsilon=epsilon)
    assert bracket.lower <= float(printed) + 0.5 * power
    assert bracket.upper >= float(printed) - 0.5 * power
    assert_narrow_tail(bracket, WIDTH)


# Composition


@pytest.mark.parametrize(("sigma", "epsilon"), [(5.0, 0.5), (5.0, 2.0), (20.0, 0.1)])
def test_composed_gaussian_mechanism(sigma: float, epsilon: float) -> None:
    """Ten rounds are one with noise smaller by sqrt(10)."""
    bracket = sa.delta(gaussian_round(sigma, 1), epsilon=epsilon, rounds=10)
    truth = gaussian.mechanism(sigma / math.sqrt(10.0), epsilon)
    # sigma/sqrt(10) is rounded: one ulp, times the logarithmic slope of delta (a few)
    assert_contains(bracket, truth, rtol=1e-14)
    inverse = sa.epsilon(gaussian_round(sigma, 1), delta=float(truth), rounds=10)
    assert_contains(inverse, epsilon, rtol=1e-13)
    assert_narrow(inverse, WIDTH)


@pytest.mark.slow
def test_a_billion_users() -> None:
    """With many messages the sum of the ratios is normal, of relative deviation s/sqrt(n)."""
    users, sigma = 10**9, 2.0
    round = gaussian_round(sigma, users)
    bracket = round.epsilon(delta=1e-8)
    assert_narrow(bracket, WIDTH)
    deviation = math.sqrt(math.expm1(1.0 / sigma**2) / users)
    # E(G - x)_+ of a standard normal G at x = epsilon/deviation
    x = 0.5 * (bracket.lower + bracket.upper) / deviation
    density = math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    normal = deviation * (density - x * 0.5 * math.erfc(x / math.sqrt(2.0)))
    # the correction to the normal law is skewness x^3 / (6 sqrt(n)): 4e-4 here
    assert normal == pytest.approx(1e-8, rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("users", [10, 300])
def test_population_amplifies(users: int) -> None:
    whole = gaussian_round(2.0, users).delta(epsilon=0.05)
    sampled = gaussian_round(2.0, users, population=3 * users).delta(epsilon=0.05)
    # a sampled delta is asked for further out in the tail, where brackets are wider
    assert_narrow_tail(sampled, 2.0 * WIDTH)
    assert sampled.upper < whole.lower


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "epsilon"), [(1, 0.1), (1, 0.5), (2, 0.5), (7, 0.5), (1000, 0.1)]
)
def test_blanket_is_above_the_example(users: int, epsilon: float) -> None:
    """It bounds all datasets, and the example is one of them; for one message they are equal."""
    example = gaussian_round(2.0, users).delta(epsilon=epsilon)
    bound = gaussian_round(2.0, users, reduction="blanket").delta(epsilon=epsilon)
    assert bound.upper >= example.lower
    assert_narrow_tail(bound, WIDTH)
    if users == 1:
        assert_contains(bound, gaussian.mechanism(2.0, epsilon))
    else:
        assert bound.lower > example.upper


# The inputs 0 and 1 are worst

EPS0 = (0.5, 2.0, 5.0)
INPUTS = (0.0, 0.2, 0.45, 0.5, 0.7, 1.0)


@lru_cache(maxsize=16)
def _ends_excess(eps0: float, alpha: float) -> tuple[tuple[float, float], ...]:
    """``(t, E(l - t)_+)`` of the inputs 0 and 1 on a grid of t beyond the values of l."""
    pair = laplace.Blanket(eps0, 0.0, 1.0, alpha)
    high, low = max(pair.ends), min(pair.ends)
    margin = 0.02 * (high - low)
    # all values, and small ones more closely
    whole = np.linspace(low - margin, high + margin, 13)
    grid = np.concatenate([whole, [-1.0, -0.1, 0.0, 0.1, 1.0, 1.0 - alpha]])
    return tuple((t, pair.excess(t)) for t in np.unique(grid).tolist())


@pytest.mark.parametrize("eps0", EPS0)
def test_end_points_are_worst_for_laplace(eps0: float) -> None:
    checked = 0
    for factor, (x0, x1) in itertools.product((0, 1, 2, 3), itertools.permutations(INPUTS, 2)):
        alpha = (1.0, 1.2, 2.0, 0.9 * math.exp(eps0))[factor]
        if alpha > math.exp(eps0):
            continue
        pair = laplace.Blanket(eps0, x0, x1, alpha)
        if max(pair.ends) <= 0.0:
            continue  # the pair's divergence is zero
        for t, bound in _ends_excess(eps0, alpha):
            # the quadrature's round-off grows with the values of l, at most e^eps0 (1 + alpha)
            assert pair.excess(t) <= bound + 1e-9, (alpha, x0, x1, t)
        checked += 1
    assert checked >= 45  # of 90 or 120


@pytest.mark.parametrize("eps0", EPS0)
def test_pairs_without_positive_letters_have_no_divergence(eps0: float) -> None:
    """Those left out above: alpha e^(eps0 (x0 - x1)) >= 1 on the upper side, or its mirror."""
    alpha = math.exp(0.9 * eps0)
    for x0, x1 in itertools.permutations(INPUTS, 2):
        if eps0 * abs(x0 - x1) <= math.log(alpha):
            assert laplace.Blanket(eps0, x0, x1, alpha).excess(0.0) == 0.0


# Letters


def letters_excess(pair: MessagePair, alpha: float, t: float) -> float:
    """``E(l - t)_+`` of letters; those that no decoy sends add what they give away."""
    r0, r1, q = pair.decoyed
    terms = q * np.maximum(r0 - alpha * r1 - t, 0.0)
    p0, p1, _ = pair.scarce
    return math.fsum(terms.tolist()) + math.fsum(np.maximum(p0 - alpha * p1, 0.0).tolist())


def check_letters(
    source: MessageSource, alpha: float, values: list[tuple[float, float]], effort: Effort
) -> None:
    upper, lower = (source.letters(side, effort) for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC))
    for t, truth in values:
        # round-off of sums of masses times values, and of the oracle
        slack = 1e-13 * (1.0 + abs(t) + float(np.max(upper.decoyed[0])) * alpha)
        high, low = (letters_excess(pair, alpha, t) for pair in (upper, lower))
        assert low - slack <= truth <= high + slack, (alpha, t)
        # cells of width w in the log-ratio cost w^2 of what they hold at most
        assert high - low <= 40.0 * effort.resolution * (truth + alpha) + effort.tail


EFFORTS = [Effort(1e-12, 1e-3), Effort(1e-30, 1e-5)]


@pytest.mark.parametrize("effort", EFFORTS, ids=["coarse", "fine"])
@pytest.mark.parametrize("eps0", EPS0)
@pytest.mark.parametrize("alpha", [1.0, 1.2, 2.0])
def test_laplace_letters(eps0: float, alpha: float, effort: Effort) -> None:
    check_letters(
        InputPair(sa.LaplaceRandomizer(eps0), (0, 1)),
        alpha,
        list(_ends_excess(eps0, alpha)),
        effort,
    )


@pytest.mark.parametrize("effort", EFFORTS, ids=["coarse", "fine"])
@pytest.mark.parametrize("sigma", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("alpha", [1.0, 1.2, 2.0])
def test_gaussian_blanket_letters(sigma: float, alpha: float, effort: Effort) -> None:
    grid = np.concatenate([np.linspace(-6.0, 6.0, 41), [1.0 - alpha, 1e-3, -1e-3]])
    values = [(t, gaussian.blanket_excess(sigma, alpha, t)) for t in grid.tolist()]
    check_letters(InputPair(sa.GaussianRandomizer(sigma), (0, 1)), alpha, values, effort)


# ------------------------------------------------------------------------ which reduction is meant


@pytest.mark.slow
def test_auto_is_a_bound_for_all_datasets() -> None:
    """The example pair answers 0.1891 here, which bounds one pair of datasets only."""
    noise = sa.GaussianRandomizer(sigma=1.0)
    auto = sa.ShuffleRound(noise, users=600)
    blanket = sa.ShuffleRound(noise, users=600, reduction="blanket")
    example = sa.ShuffleRound(noise, users=600, reduction="example")
    assert auto == blanket
    found = auto.epsilon(delta=1e-5)
    assert found.reduction == "blanket"
    assert found.lower > 1.2 * example.epsilon(delta=1e-5).upper
    # losses are not bounded, and epsilon is finite all the same
    assert found.upper <= found.lower * (1.0 + 1e-3)


def test_states_of_the_first_version_keep_their_numbers() -> None:
    """There "auto" was the example pair."""
    old = {
        "randomizer": {"kind": "gaussian", "sigma": 2.0},
        "users": 7,
        "population": None,
        "reduction": "auto",
        "variant": None,
    }
    loaded = sa.ShuffleRound.from_dict(old)
    assert loaded == gaussian_round(2.0, 7)
    assert loaded.delta(epsilon=0.5).reduction == "gaussian example"
    for reduction in ("auto", "example"):
        one = gaussian_round(2.0, 7, reduction=reduction)
        assert sa.ShuffleRound.from_dict(one.to_dict()) == one


def test_the_example_is_for_gaussian_noise() -> None:
    with pytest.raises(ValueError, match=r"^reduction='example' needs a GaussianRandomizer"):
        sa.ShuffleRound(sa.LaplaceRandomizer(eps0=1.0), users=7, reduction="example")
