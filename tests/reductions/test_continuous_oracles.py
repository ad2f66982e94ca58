"""The oracles of normal and Laplace noise against one another and against plain quadrature."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from oracles import few_gaussians, gaussian, gaussian_bounds, laplace
from oracles.precision import DIGITS, MP, Real, exact
from scipy.integrate import dblquad, quad
from scipy.special import ndtr

# Closed forms in 50 digits, of differences that cost at most 3 of them.
SAME = exact(10) ** (5 - DIGITS)
# Closed forms in doubles, differences of normal tails near one.
CLOSED_FORM = 1e-12


def relative_error(value: float | Real, truth: Real) -> float:
    return float(abs(exact(value) / truth - 1))


# Normal noise, one and two messages


@pytest.mark.parametrize("sigma", [0.3, 2.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.2])
def test_one_message_is_the_gaussian_mechanism(sigma: float, epsilon: float) -> None:
    """Both orders of the pair: its mirror image. A blanket round of one message is the same."""
    truth = gaussian.mechanism(sigma, epsilon)
    assert relative_error(gaussian.example(sigma, 1, epsilon), truth) < SAME
    assert relative_error(gaussian.example_reversed(sigma, 1, epsilon), truth) < SAME
    blanket = gaussian.blanket_excess(sigma, math.exp(epsilon), 0.0)
    assert blanket == pytest.approx(float(truth), abs=CLOSED_FORM)


@pytest.mark.slow
def test_prices_against_plain_quadrature() -> None:
    """The definition itself, by mpmath's own rule."""
    for sigma, strike in itertools.product((0.7, 2.0), (0.5, 1.3)):
        s, k = exact(sigma), exact(strike)
        z = gaussian.place(s, k)
        for price, sign, ends in ((gaussian.call, 1, (z, 20)), (gaussian.put, -1, (-20, z))):
            integral = MP.quad(
                lambda x, s=s, k=k, sign=sign: (
                    sign * MP.npdf(x) * (MP.exp(x / s - 1 / (2 * s * s)) - k)
                ),
                MP.linspace(*ends, 9),
            )
            assert relative_error(price(s, k), integral) < 1e-30


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "epsilon"), [(0.3, 30.0), (0.7, 0.1), (2.0, 15.0), (30.0, 0.5)])
def test_two_messages_with_more_nodes(sigma: float, epsilon: float) -> None:
    for price, sign in ((gaussian.above, 1), (gaussian.below, -1)):
        strike = MP.exp(sign * exact(epsilon))
        finer = price(sigma, 2, strike, nodes=16)
        assert relative_error(price(sigma, 2, strike), finer) < gaussian.QUADRATURE / 10


def test_call_minus_put_of_two_messages_is_the_mean() -> None:
    for sigma, strike in ((0.5, 1.4), (1.5, 0.9)):
        difference = gaussian.above(sigma, 2, strike) - gaussian.below(sigma, 2, strike)
        # both are 0.05 to 1
        assert abs(difference - (1 - exact(strike))) < gaussian.QUADRATURE


# A few messages


@pytest.mark.parametrize(
    ("sigma", "epsilons"), [(0.3, (0.5, 30.0)), (2.0, (0.1, 1.0, 15.0)), (30.0, (0.01, 0.1, 0.5))]
)
def test_recursion_of_one_and_two_messages(sigma: float, epsilons: tuple[float, ...]) -> None:
    for users in (1, 2):
        found = few_gaussians.divergence(sigma, users, epsilons)
        for value, epsilon in zip(found, epsilons, strict=True):
            truth = gaussian.example(sigma, users, epsilon)
            assert relative_error(value, truth) < few_gaussians.RECURSION


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "users", "epsilons"),
    [(0.5, 10, (1.0, 5.0, 20.0)), (2.0, 7, (0.1, 1.0, 5.0)), (30.0, 7, (0.1, 0.3))],
)
def test_recursion_with_more_nodes(sigma: float, users: int, epsilons: tuple[float, ...]) -> None:
    found = few_gaussians.divergence(sigma, users, epsilons)
    finer = few_gaussians.divergence(sigma, users, epsilons, strikes=600, nodes=14)
    assert found == pytest.approx(finer, rel=few_gaussians.RECURSION / 10, abs=0.0)


def test_three_messages_against_nested_quadrature() -> None:
    """Two messages by adaptive quadrature of the plane, the third in closed form."""
    sigma, epsilon = 1.0, 0.8

    def integrand(x: float, y: float) -> float:
        strike = 3.0 * math.exp(epsilon) - math.exp(x - 0.5) - math.exp(y - 0.5)
        density = math.exp(-0.5 * (x * x + y * y)) / (2.0 * math.pi)
        if strike <= 0.0:
            return density * (1.0 - strike)
        z = math.log(strike) + 0.5
        return density * float(ndtr(1.0 - z) - strike * ndtr(-z))

    nested = dblquad(integrand, -8.0, 9.0, -8.0, 9.0, epsabs=1e-9, epsrel=1e-7)[0] / 3.0
    (found,) = few_gaussians.divergence(sigma, 3, [epsilon])
    assert found == pytest.approx(nested, rel=1e-6)


@pytest.mark.parametrize("users", [2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_reverse_order_is_the_smaller_one(users: int, epsilon: float) -> None:
    back = few_gaussians.divergence_reversed(2.0, users, epsilon)
    if users == 2:
        truth = float(gaussian.example_reversed(2.0, 2, epsilon))
        assert back == pytest.approx(truth, abs=CLOSED_FORM)
    assert few_gaussians.divergence(2.0, users, [epsilon])[0] >= back


# Many messages


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "users", "epsilons", "apart"),
    [
        (0.5, 2, (5.0, 20.0), 1.1),
        (0.5, 10, (1.0, 5.0, 20.0), 2.2),
        (1.0, 10, (1.0, 5.0), 3.1),
        (2.0, 7, (5.0,), 1.6),
    ],
)
def test_elementary_bounds_of_a_few_messages(
    sigma: float, users: int, epsilons: tuple[float, ...], apart: float
) -> None:
    truths = few_gaussians.divergence(sigma, users, epsilons)
    for truth, epsilon in zip(truths, epsilons, strict=True):
        low, high = gaussian_bounds.bounds(sigma, users, epsilon)
        # the lower bound is within 1e-15 of the truth where one message decides
        assert low * (1 - few_gaussians.RECURSION) <= truth <= high
        assert high <= apart * low


def test_generating_function_against_quadrature() -> None:
    """Chords are above the exponential, by little where the cells are narrow."""
    for sigma, last, rate in ((0.5, 2.0, 0.3), (2.0, 5.0, 3.0), (1.0, math.inf, -4.0)):

        def integrand(z: float, sigma: float = sigma, rate: float = rate) -> float:
            ratio = math.exp(z / sigma - 0.5 / sigma**2)
            return math.exp(rate * ratio - 0.5 * z * z) / math.sqrt(2.0 * math.pi)

        truth = quad(integrand, -12.0, min(last, 12.0), epsrel=1e-11, limit=200)[0]
        (found,) = gaussian_bounds.generating(sigma, np.array([rate]), last)
        # (rate W dz/sigma)^2/12 where W is largest, 32/3 in the second case
        assert truth * (1 - 1e-10) <= found <= truth * (1 + 5e-2)


# Laplace noise


def test_one_laplace_message_is_the_mechanism() -> None:
    for eps0, epsilon in itertools.product((0.5, 1.3, 2.0), (0.0, 0.1, 0.4)):
        pair = laplace.Blanket(eps0, 0.0, 1.0, math.exp(epsilon))
        assert pair.excess(0.0) == pytest.approx(laplace.mechanism(eps0, epsilon), rel=CLOSED_FORM)


def test_laplace_integrals_against_plain_quadrature() -> None:
    """The positive part itself, on the whole line, with nothing known of where it changes."""
    rng = np.random.default_rng(1)
    for _ in range(30):
        eps0 = float(rng.choice([0.3, 1.0, 3.0]))
        x0, x1 = rng.random(2).tolist()
        alpha, t = math.exp(rng.random() * eps0), float(rng.uniform(-3.0, 3.0))

        def integrand(
            y: float, eps0: float = eps0, x0: float = x0, x1: float = x1, a: float = alpha
        ) -> float:
            first, second = (0.5 * eps0 * math.exp(-eps0 * abs(y - x)) for x in (x0, x1))
            common = 0.5 * eps0 * math.exp(-eps0 * max(abs(y), abs(1.0 - y)))
            return max(first - a * second - t * common, 0.0)  # noqa: B023

        far = 40.0 / eps0  # what is left out is below e^-40 of the answer's scale
        places = sorted({-far, 0.0, x0, x1, 0.5, 1.0, 1.0 + far})
        areas = [
            quad(integrand, *piece, epsabs=1e-12, epsrel=1e-10, limit=400)[0]
            for piece in itertools.pairwise(places)
        ]
        blank = max(-t, 0.0) * -math.expm1(-0.5 * eps0)
        found = laplace.Blanket(eps0, x0, x1, alpha).excess(t)
        assert found == pytest.approx(math.fsum(areas) + blank, abs=1e-10)


@pytest.mark.parametrize("epsilon", [0.0, 0.6])
def test_two_laplace_messages_against_a_sum_of_letters(epsilon: float) -> None:
    """Thin cells of messages as letters of their mean ratios: a lower bound, close by."""
    eps0, cells = 1.0, 2000
    edges = np.linspace(0.0, 1.0, cells + 1)
    middle = 0.5 * (edges[:-1] + edges[1:])
    alpha = math.exp(epsilon)
    pair = laplace.Blanket(eps0, 0.0, 1.0, alpha)
    mass = np.array([pair.density(y) for y in middle.tolist()]) / cells
    value = np.array([pair.value(y) for y in middle.tolist()])
    tail = 0.5 * math.exp(-eps0)
    mass = np.concatenate([mass, [tail, tail, pair.blank]])
    value = np.concatenate([value, [pair.ends[0], pair.ends[-1], 0.0]])
    summed = mass @ np.maximum(value[:, None] + value, 0.0) @ mass / 2.0
    # the midpoint rule: second differences over cells squared
    assert laplace.two(eps0, epsilon) == pytest.approx(summed, abs=10.0 / cells**2)
