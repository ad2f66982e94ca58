"""Rényi accounting: divergences in closed form and by enumeration, conversion by a direct search.

The pairs are listed atom by atom in 50-digit arithmetic (`oracles`), and their moments are sums
over the atoms, in the definition's form ``sum p^order q^(1 - order)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import clones, response
from oracles.precision import MP, Real, exact

import shuffle_accountant as sa
from shuffle_accountant.baselines import rdp
from shuffle_accountant.baselines.moments import LogMoments, _clones_bound
from shuffle_accountant.baselines.question import OutsideValidityError
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.losses.base import HOCKEY_STICK, Effort
from shuffle_accountant.losses.decoy_counts import NumberOfClones
from shuffle_accountant.numerics.rounding import LIMITS, Bound

# What `renyi_divergence` promises of finite randomizers.
WIDTH = 2e-3
ORDERS = [1.01, 1.5, 2.0, 7.3, 40.0]


def general(eps0: float, users: int, population: int | None = None) -> sa.ShuffleRound:
    return sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users, population=population)


def divergence(atoms: Sequence[tuple[Real, Real]], order: float) -> Real:
    """Of the pair, the worse of both directions."""
    sums = [
        sum(x[i] ** exact(order) * x[1 - i] ** (1 - exact(order)) for x in atoms if x[i] > 0)
        for i in (0, 1)
    ]
    return MP.log(max(sums)) / (exact(order) - 1)


def assert_holds(bracket: Bracket, truth: float | Real, width: float = WIDTH) -> None:
    # the truth is rounded once
    assert bracket.lower * (1 - 1e-14) <= truth <= bracket.upper * (1 + 1e-14)
    assert bracket.width <= width * bracket.upper


# ---------------------------------------- divergences


@pytest.mark.parametrize("order", [*ORDERS, 1000.0])
@pytest.mark.parametrize("eps0", [1e-3, 1.0, 8.0])
def test_one_user_of_binary_randomized_response(eps0: float, order: float) -> None:
    e = MP.exp(exact(eps0))
    u, v = e / (1 + e), 1 / (1 + e)
    a = exact(order)
    truth = MP.log(u**a * v ** (1 - a) + v**a * u ** (1 - a)) / (a - 1)
    one = sa.ShuffleRound(sa.BinaryRandomizedResponse(eps0=eps0), users=1)
    # two atoms, both on the grid: rounding only, of a logarithm K of a number about 1 + K
    rounding = 1e-13 / float((a - 1) * truth)
    assert_holds(rdp.renyi_divergence(one, order=order), truth, width=1e-10 + rounding)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("eps0", "users"), [(0.5, 4), (2.0, 12), (4.0, 25)])
def test_the_clones(eps0: float, users: int, order: float) -> None:
    truth = divergence(clones.pair(eps0, users), order)
    assert_holds(rdp.renyi_divergence(general(eps0, users), order=order), truth)


@pytest.mark.parametrize("order", ORDERS)
def test_sampled_clones(order: float) -> None:
    atoms = clones.subsampled(clones.pair(2.0, 8), 8, 100)
    assert_holds(rdp.renyi_divergence(general(2.0, 8, 100), order=order), divergence(atoms, order))


@pytest.mark.parametrize("order", ORDERS)
def test_randomized_response(order: float) -> None:
    krr = sa.RandomizedResponse.from_gamma(categories=4, gamma=0.25)
    one = sa.ShuffleRound(krr, users=9, reduction="blanket")
    truth = divergence(response.weak(4, 0.25, 9), order)
    assert_holds(rdp.renyi_divergence(one, order=order), truth)


@pytest.mark.parametrize("order", [1.5, 2.0, 5.0])
def test_one_gaussian_message(order: float) -> None:
    one = sa.ShuffleRound(sa.GaussianRandomizer(2.0), users=1, reduction="example")
    bracket = rdp.renyi_divergence(one, order=order)
    truth = order / (2.0 * 2.0**2)
    # no bound of the losses beyond the grid is known; those on it add up to the truth
    assert bracket.lower <= truth < bracket.upper == math.inf
    assert bracket.lower >= 0.97 * truth


def test_many_users() -> None:
    """By the central limit theorem the divergence is about order/2 times the loss's variance."""
    one = general(4.0, 10**5)
    variance = 4.0 * math.tanh(2.0) ** 2 / (1.0 + (10**5 - 1) * 2.0 / (1.0 + math.exp(4.0)))
    for order in (2.0, 30.0, 150.0):
        bracket = rdp.renyi_divergence(one, order=order)
        assert bracket.width <= WIDTH * bracket.upper
        assert bracket.upper == pytest.approx(0.5 * order * variance, rel=2e-2)


@pytest.mark.parametrize(("eps0", "users"), [(0.5, 1), (0.5, 4), (2.0, 12), (4.0, 25)])
@pytest.mark.parametrize("t", [0.1, 1.0, 10.0, 100.0, 1000.0])
def test_the_bound_of_rare_losses(eps0: float, users: int, t: float) -> None:
    """It bounds the moment of the whole loss, so that of any part of it."""
    ratio = math.exp(-eps0)
    number = NumberOfClones.from_eps0(
        eps0, decoys=users - 1, rate=2.0 * ratio / (1.0 + ratio), idle=math.tanh(0.5 * eps0)
    )
    truth = MP.log(sum(p * (p / q) ** exact(t) for p, q in clones.pair(eps0, users)))
    # what is lost is the chord's slope, squared, and as many terms of at most 1 as there are users
    assert float(truth) <= _clones_bound(number, t) <= 6.0 * float(truth) + math.log(users + 1.0)


def test_orders_that_rare_losses_may_decide() -> None:
    """Here the cut off losses matter: the ends part, and stay in order."""
    one = general(4.0, 10**5)
    known = rdp.renyi_divergence(one, order=150.0)
    for order in (1000.0, 1e4, 1e6):
        bracket = rdp.renyi_divergence(one, order=order)
        assert known.lower < bracket.lower < bracket.upper <= 4.0 * (1 + 1e-12)


def test_the_order_grows_the_divergence_up_to_the_largest_loss() -> None:
    one = general(3.0, 200)
    uppers = [rdp.renyi_divergence(one, order=order).upper for order in (1.1, 2.0, 9.0, 99.0, 1e6)]
    assert uppers == sorted(uppers)
    assert uppers[-1] <= 3.0


@settings(max_examples=15, deadline=None)
@given(
    eps0=st.floats(0.01, 5.0),
    users=st.integers(1, 5000),
    order=st.floats(0.01, 200.0).map(lambda t: 1.0 + t),
)
def test_both_ends_are_in_order(eps0: float, users: int, order: float) -> None:
    bracket = rdp.renyi_divergence(general(eps0, users), order=order)
    assert 0.0 < bracket.lower <= bracket.upper <= eps0 * (1 + 1e-12)


class Stated:
    """A loss whose moments and infinite part are stated, in this order and in the other one."""

    divergence, largest = HOCKEY_STICK, math.inf

    def __init__(self, loss: float, infinite: float = 0.0, disclosed: float = 0.0) -> None:
        self.loss, self.infinite, self.disclosed = loss, infinite, disclosed
        self.reversed = self

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        return max(self.disclosed, 1e-300 if side is Bound.PESSIMISTIC else 0.0)


@pytest.fixture
def stated(monkeypatch: pytest.MonkeyPatch) -> Callable[[Stated], sa.ShuffleRound]:
    """A round of a stated loss."""
    monkeypatch.setattr(
        rdp,
        "log_moments",
        lambda loss, side: LogMoments(
            side, np.full(1, loss.loss), np.zeros(1), loss.infinite, math.inf, None
        ),
    )

    def made(loss: Stated) -> sa.ShuffleRound:
        found = SimpleNamespace(loss=loss, name="stated")
        monkeypatch.setattr(sa.ShuffleRound, "reduced", lambda self: found)
        return general(1.0, 10)

    return made


def test_the_worse_order_counts_at_both_ends(stated: Callable[[Stated], sa.ShuffleRound]) -> None:
    for losses in ((1.0, 2.0), (2.0, 1.0)):
        one, other = (Stated(x) for x in losses)
        one.reversed, other.reversed = other, one
        assert_holds(rdp.renyi_divergence(stated(one), order=3.0), 2.0, width=1e-12)


def test_losses_that_are_not_followed_are_taken_off_delta(
    stated: Callable[[Stated], sa.ShuffleRound],
) -> None:
    known = rdp.epsilon(stated(Stated(1.0)), rounds=2, delta=0.02)
    delta = rdp.delta(stated(Stated(1.0)), rounds=2, epsilon=3.0)
    rare = stated(Stated(1.0, infinite=0.01))
    assert rdp.epsilon(rare, rounds=2, delta=0.04) == pytest.approx(known, rel=1e-12)
    assert rdp.delta(rare, rounds=2, epsilon=3.0) == pytest.approx(delta + 0.02, rel=1e-12)
    with pytest.raises(OutsideValidityError, match=r"delta > 0\.02, the probability"):
        rdp.epsilon(rare, rounds=2, delta=0.015)


def test_only_what_is_certain_to_be_infinite_is_refused(
    stated: Callable[[Stated], sa.ShuffleRound],
) -> None:
    assert rdp.valid(stated(Stated(1.0))) is None
    one = Stated(1.0)
    one.reversed = Stated(1.0, disclosed=1e-9)
    assert "infinite with some probability" in str(rdp.valid(stated(one)))


# ---------------------------------------- conversion


def searched(moments: Any, delta: float, published: bool = False) -> float:
    """The conversion in its printed form, over many orders."""
    best = math.inf
    for order in 1.0 + np.logspace(-2, 4, 3000):
        rho = moments(order)
        if published:
            rho = moments(order + 1.0) * order / (order - 1.0)
        epsilon = rho + (
            math.log(1.0 / delta) + (order - 1) * math.log1p(-1 / order) - math.log(order)
        ) / (order - 1)
        best = min(best, epsilon)
    return best


@pytest.mark.parametrize("rounds", [1, 4, 50])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_epsilon_is_the_best_order_s(rounds: int, delta: float) -> None:
    eps0, u = 0.7, 1.0 / (1.0 + math.exp(-0.7))
    v = 1.0 - u

    def moments(order: float) -> float:
        high = order * math.log(u) + (1 - order) * math.log(v)
        low = order * math.log(v) + (1 - order) * math.log(u)
        return rounds * float(np.logaddexp(high, low)) / (order - 1)

    one = sa.ShuffleRound(sa.BinaryRandomizedResponse(eps0=eps0), users=1)
    most = rounds * eps0
    found = rdp.epsilon(one, rounds=rounds, delta=delta)
    # 500 orders per decade: the valley is flat to the square of their distance
    assert found == pytest.approx(min(searched(moments, delta), most), rel=1e-5)
    published = rdp.epsilon_as_published(one, rounds=rounds, delta=delta)
    assert published == pytest.approx(min(searched(moments, delta, True), most), rel=1e-5)


@pytest.mark.parametrize("rounds", [1, 4, 100])
def test_delta_inverts_epsilon(rounds: int) -> None:
    one = general(2.0, 300)
    for function, inverse in (
        (rdp.epsilon, rdp.delta),
        (rdp.epsilon_as_published, rdp.delta_as_published),
    ):
        found = function(one, rounds=rounds, delta=1e-6)
        assert inverse(one, rounds=rounds, epsilon=found) == pytest.approx(1e-6, rel=1e-6)


def test_the_published_curve_is_overstated() -> None:
    one = general(4.0, 10_000)
    for rounds in (1, 2, 4):
        right = rdp.epsilon(one, rounds=rounds, delta=1e-6)
        assert right < 0.99 * rdp.epsilon_as_published(one, rounds=rounds, delta=1e-6)
        assert right >= sa.epsilon(one, rounds=rounds, delta=1e-6).lower
    for epsilon in (0.1, 0.5, 1.0):
        right = rdp.delta(one, epsilon=epsilon)
        assert one.delta(epsilon=epsilon).lower <= right
        assert right < rdp.delta_as_published(one, epsilon=epsilon)


def test_different_rounds_add_up() -> None:
    one, two = general(1.0, 100), general(2.0, 50, 1000)
    both = [(one, 3), (two, 10)]
    found = rdp.epsilon(both, delta=1e-6)
    assert found == rdp.epsilon([(two, 10), (one, 3)], delta=1e-6)
    assert max(rdp.epsilon(one, rounds=3, delta=1e-6), rdp.epsilon(two, rounds=10, delta=1e-6)) < (
        found
    )
    certified = sa.FourierAccountant().compose(one, count=3).compose(two, count=10)
    assert found >= certified.epsilon(delta=1e-6).lower
    assert rdp.epsilon(both, rounds=2, delta=1e-6) == rdp.epsilon([(one, 6), (two, 20)], delta=1e-6)
    assert rdp.epsilon([(one, 2), (one, 1)], delta=1e-6) == pytest.approx(
        rdp.epsilon(one, rounds=3, delta=1e-6), rel=1e-12
    )


def test_nothing_happened() -> None:
    one = general(1.0, 100)
    assert rdp.epsilon(one, rounds=0, delta=1e-6) == 0.0
    assert rdp.epsilon([], delta=1e-6) == 0.0
    assert rdp.delta([(one, 0)], epsilon=0.0) == pytest.approx(0.0, abs=1e-12)
    assert rdp.epsilon(general(0.0, 100), rounds=9, delta=1e-6) == 0.0
    assert rdp.renyi_divergence(general(0.0, 100), order=2.0).upper == 0.0


def test_tiny_delta_and_many_rounds() -> None:
    one = general(4.0, 10_000)
    certified = sa.epsilon(one, delta=1e-100, rounds=4)
    assert certified.lower <= rdp.epsilon(one, rounds=4, delta=1e-100) <= 1.1 * certified
    sampled = general(1.0, 1000, 100_000)
    certified = sa.epsilon(sampled, delta=1e-6, rounds=10**6)
    assert certified.lower <= rdp.epsilon(sampled, rounds=10**6, delta=1e-6) <= 1.2 * certified


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    eps0=st.floats(0.05, 5.0),
    users=st.integers(1, 5000),
    dilution=st.sampled_from([1, 20]),
    rounds=st.sampled_from([1, 2, 10, 300]),
    delta=st.sampled_from([1e-3, 1e-6, 1e-12]),
)
def test_epsilon_is_not_below_the_certified_bracket(
    eps0: float, users: int, dilution: int, rounds: int, delta: float
) -> None:
    one = general(eps0, users, users * dilution)
    certified = sa.epsilon(one, delta=delta, rounds=rounds, tolerance=1e-2)
    found = rdp.epsilon(one, rounds=rounds, delta=delta)
    assert certified.lower <= found <= rounds * eps0 * (1 + 1e-12)
    assert found <= rdp.epsilon_as_published(one, rounds=rounds, delta=delta)


@pytest.mark.slow
@pytest.mark.parametrize(
    "randomizer",
    [
        sa.RandomizedResponse(categories=3, eps0=2.0),
        sa.DiscreteRandomizer([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]]),
        sa.GaussianRandomizer(2.0),
    ],
)
def test_named_randomizers(randomizer: Any) -> None:
    one = sa.ShuffleRound(randomizer, users=2)
    certified = sa.epsilon(one, delta=1e-4, rounds=2, tolerance=1e-2)
    found = rdp.epsilon(one, rounds=2, delta=1e-4)
    assert certified.lower <= found <= 1.3 * certified


# ---------------------------------------- validity


@pytest.mark.parametrize(
    ("one", "condition"),
    [
        (
            sa.ShuffleRound(
                sa.RandomizedResponse(categories=4, eps0=2.0), users=9, reduction="strong"
            ),
            "finite losses, got one that is infinite with some probability",
        ),
        (
            sa.ShuffleRound(
                sa.RandomizedResponse(categories=4, eps0=2.0),
                users=9,
                reduction="strong",
                variant="tail",
            ),
            "hockey-stick divergences, got variant='tail'",
        ),
    ],
)
def test_what_has_no_finite_divergence(one: sa.ShuffleRound, condition: str) -> None:
    assert rdp.valid(one) == condition
    for call in (lambda: rdp.epsilon(one, delta=1e-6), lambda: rdp.delta(one, epsilon=1.0)):
        with pytest.raises(OutsideValidityError) as caught:
            call()
        assert str(caught.value) == f"rdp is valid for {condition}"


def test_a_delta_below_what_the_grid_follows() -> None:
    one = sa.ShuffleRound(sa.GaussianRandomizer(2.0), users=1, reduction="example")
    with pytest.raises(OutsideValidityError, match=r"^rdp is valid for delta > .*not followed"):
        rdp.epsilon(one, delta=1e-40)


ONE = general(1.0, 10)


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: rdp.epsilon(ONE, delta=0.0), ValueError, "delta"),
        (lambda: rdp.epsilon(ONE, delta=math.nan), ValueError, "delta"),
        (lambda: rdp.epsilon(ONE, rounds=-1, delta=1e-6), ValueError, "rounds"),
        (lambda: rdp.epsilon(ONE, rounds=1.5, delta=1e-6), TypeError, "rounds"),
        (lambda: rdp.epsilon("round", delta=1e-6), TypeError, "round"),
        (lambda: rdp.epsilon([ONE], delta=1e-6), TypeError, "round"),
        (lambda: rdp.epsilon([(ONE, -1)], delta=1e-6), ValueError, "count"),
        (lambda: rdp.epsilon([(1, 1)], delta=1e-6), TypeError, "round"),
        (lambda: rdp.delta(ONE, epsilon=-1.0), ValueError, "epsilon"),
        (lambda: rdp.delta(ONE, epsilon=math.inf), ValueError, "epsilon"),
        (lambda: rdp.renyi_divergence(ONE, order=1.0), ValueError, "order"),
        (lambda: rdp.renyi_divergence(ONE, order=math.inf), ValueError, "order"),
        (lambda: rdp.renyi_divergence(1, order=2.0), TypeError, "round"),
    ],
)
def test_bad_values_are_named(call: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=rf"^{named} must ") as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("epsilon", [1e300, 5.7e305, 1.7e308])
def test_no_epsilon_is_too_large(epsilon):
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=100)
    # what underflow takes of each round before moments are taken is all that is left
    assert 0.0 <= rdp.delta(one, epsilon=epsilon, rounds=2) <= 3.0 * LIMITS.underflow
