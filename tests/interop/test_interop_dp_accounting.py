"""The bridge to dp_accounting, both ways.

What goes out is compared with exact enumeration of small protocols in 50 digits (the pmf's own
divergence, at negative epsilons too, must not be below) and with the accountant's certified ends.
What comes in is compared with closed forms of the Gaussian and the Laplace mechanism.
"""

from __future__ import annotations

import importlib
import math
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracles import clones
from oracles.containment import assert_contains
from oracles.gaussian import mechanism
from oracles.precision import MP, Real, exact

import shuffle_accountant as sa

dp = pytest.importorskip("dp_accounting", reason="the bridge to dp_accounting needs it")
pld = pytest.importorskip(
    "dp_accounting.pld.privacy_loss_distribution", reason="the bridge to dp_accounting needs it"
)

from shuffle_accountant.interop.dp_accounting import (  # noqa: E402
    ShuffleDpEvent,
    ShufflePLDAccountant,
    to_privacy_loss_distribution,
)
from shuffle_accountant.lattice.grid import Bound  # noqa: E402
from shuffle_accountant.losses.base import Effort  # noqa: E402

INTERVAL = 1e-4  # dp_accounting's default


def general(eps0: float, users: int, population: int | None = None) -> sa.ShuffleRound:
    """A round of any randomizer."""
    return sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=users, population=population)


def accountant_of(*parts: tuple[Any, int], tolerance: float = 1e-3) -> sa.FourierAccountant:
    """The package's own answer."""
    accountant = sa.FourierAccountant(tolerance=tolerance)
    for one, count in parts:
        accountant.compose(one, count=count)
    return accountant


def pmf(half: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """(losses in intervals, masses, infinity mass) of one of a distribution's two pmfs."""
    dense = half.to_dense_pmf()
    first = dense._lower_loss
    return np.arange(first, first + dense.size), np.asarray(dense._probs), dense._infinity_mass


def divergence(half: Any, interval: float, epsilon: float) -> Real:
    """What the pmf says delta is, in 50 digits; any real epsilon."""
    index, mass, infinite = pmf(half)
    terms = [exact(infinite)]
    for i, p in zip(index.tolist(), mass.tolist(), strict=True):
        loss = i * exact(interval)
        if p > 0 and loss > epsilon:
            terms.append(exact(p) * (1 - MP.exp(exact(epsilon) - loss)))
    return MP.fsum(terms)


# ----------------------------------------------------------------------------------- out: soundness

Parts = list[tuple[Any, int]]

# Losses of 6 are rare, and far from all others: no tilt shows what lies between.
FAR = sa.LossTable([-0.05, 0.05, 6.0], [0.49, 0.51 - 1e-9, 1e-9])
FAR_ATOMS = [
    (exact(p), exact(p) * MP.exp(-exact(x)))
    for x, p in zip(FAR.losses.tolist(), FAR.probabilities.tolist(), strict=True)
]

SMALL: dict[str, tuple[Parts, list[clones.Atom]]] = {
    "one": ([(general(1.0, 12), 1)], clones.pair(1.0, 12)),
    "two": ([(general(2.0, 6), 2)], clones.self_composed(clones.pair(2.0, 6), 2)),
    "lonely": ([(general(1.0, 1), 3)], clones.lonely_rounds(1.0, 3)),
    "a hundred": ([(general(0.1, 1), 100)], clones.lonely_rounds(0.1, 100)),
    "sampled": (
        [(general(2.0, 5, 50), 2)],
        clones.self_composed(clones.subsampled(clones.pair(2.0, 5), 5, 50), 2),
    ),
    "far atom": ([(sa.PldRound.from_tables(FAR), 3)], clones.self_composed(FAR_ATOMS, 3)),
    "different": (
        [(general(2.0, 4), 1), (general(0.5, 7), 2)],
        clones.composed(clones.pair(2.0, 4), *[clones.pair(0.5, 7)] * 2),
    ),
}


@pytest.mark.parametrize(("parts", "truth"), SMALL.values(), ids=SMALL)
def test_never_below_the_exact_divergence(parts: Parts, truth: list[clones.Atom]) -> None:
    """At grid points it is also close: only tails, round-off and the finer grid are left."""
    interval = 0.01
    made = to_privacy_loss_distribution(parts, value_discretization_interval=interval)
    for epsilon in (-3.0, -0.4, -0.003, 0.0, 0.21, 0.4375, 1.0, 2.9):
        found, wanted = (
            divergence(made._pmf_remove, interval, epsilon),
            clones.delta(truth, epsilon),
        )
        assert found >= wanted
        # linear between multiples of 0.01: second order in the interval, over the loss' spread
        assert found <= wanted * (1 + exact("0.05")) + exact("1e-13")


def test_losses_of_two_far_clusters() -> None:
    """Losses near 300 are too rare for the first transform; tilted ones show little else."""
    gap = sa.LossTable([-0.1, 0.1, 300.0], [0.475, 0.525, 1e-22])
    made = to_privacy_loss_distribution(
        [(sa.PldRound.from_tables(gap), 2)], value_discretization_interval=0.1
    )
    p = [exact(p) for p in gap.probabilities.tolist()]
    q = [m * MP.exp(-exact(x)) for m, x in zip(p, gap.losses.tolist(), strict=True)]
    truth = clones.self_composed(list(zip(p, q, strict=True)), 2)
    for epsilon in (0.0, 0.15, 1.0, 298.0, 450.0):
        wanted, found = clones.delta(truth, epsilon), made.get_delta_for_epsilon(epsilon)
        # dp_accounting's sum is rounded
        assert wanted * (1 - exact("1e-13")) <= found
        # between the clusters there is nothing but the noise of 3e5 cells, which tilts of up to
        # 0.17 take away from losses of 150 on only
        noise = exact("1e-9") if epsilon < 150.0 else exact("1e-28")
        assert found <= wanted + noise


PROTOCOLS: dict[str, Parts] = {
    "clones": [(general(4.0, 10_000), 4)],
    "one round": [(general(4.0, 10_000), 1)],
    "sampled": [(general(2.0, 1_000, 100_000), 300)],
    "4-RR": [(sa.ShuffleRound(sa.RandomizedResponse(categories=4, eps0=2.0), users=300), 5)],
    "strong": [
        (
            sa.ShuffleRound(
                sa.RandomizedResponse(categories=3, eps0=1.0), users=200, reduction="strong"
            ),
            2,
        )
    ],
    "different": [(general(2.0, 1_000), 3), (general(1.0, 500, 5_000), 20)],
    "many": [(general(1.0, 10_000), 10_000)],
    "lonely": [(general(1.0, 1), 3)],
}


@pytest.mark.slow
@pytest.mark.parametrize("parts", PROTOCOLS.values(), ids=PROTOCOLS)
@pytest.mark.filterwarnings("ignore::shuffle_accountant.LooseBracketWarning")
def test_epsilon_is_between_our_ends_and_one_interval(parts: Parts) -> None:
    made = to_privacy_loss_distribution(parts)
    accountant = accountant_of(*parts)
    for delta in (1e-3, 1e-9, 1e-20):
        bracket, found = accountant.epsilon(delta=delta), made.get_epsilon_for_delta(delta)
        # dp_accounting adds 1e5 masses up in double precision
        assert bracket.lower * (1 - 1e-9) <= found
        # the pmf comes from a grid of its own, as fine as the tolerance asks for
        assert found <= bracket.upper * (1 + 1e-3) + INTERVAL


def test_both_orders_of_a_pair_that_is_not_symmetric() -> None:
    one = sa.ShuffleRound(sa.GaussianRandomizer(sigma=2.0), users=7, reduction="example")
    made = to_privacy_loss_distribution([(one, 1)])
    assert not made._symmetric
    loss = one.reduced().loss
    for half, side in ((made._pmf_remove, loss), (made._pmf_add, loss.reversed)):
        for epsilon in (0.1, 0.5, 1.0):
            exactly = [side.delta(epsilon, way, Effort(1e-30, 1e-5)) for way in Bound]
            found = half.get_delta_for_epsilon(epsilon)
            # the tolerance of the law, and the spacing of its cells
            assert min(exactly) <= found <= max(exactly) * 1.01


def test_totals_are_one_and_losses_without_bound_are_infinite() -> None:
    for parts in PROTOCOLS.values():
        made = to_privacy_loss_distribution(parts, value_discretization_interval=1e-3)
        _, mass, infinite = pmf(made._pmf_remove)
        assert mass.min() >= 0.0
        # rounded a few times, upwards
        assert 0.0 <= math.fsum([*mass, infinite]) - 1.0 <= 1e-15
    hopeless = to_privacy_loss_distribution([(general(1000.0, 100), 2)])
    assert pmf(hopeless._pmf_remove)[2] == 1.0
    assert hopeless.get_delta_for_epsilon(5.0) == 1.0
    some = sa.ShuffleRound(sa.DiscreteRandomizer([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1]]), users=1)
    told = to_privacy_loss_distribution([(some, 2)])
    # a tenth of the messages gives the value away, in each of two rounds
    assert told.get_delta_for_epsilon(50.0) == pytest.approx(1 - 0.9**2, rel=1e-9)


def test_nothing_composed_is_the_identity() -> None:
    for parts in ([], [(general(1.0, 10), 0)], [(general(0.0, 10), 5)]):
        made = to_privacy_loss_distribution(parts)
        assert made.get_epsilon_for_delta(0.0) == 0.0
        assert made.get_delta_for_epsilon(0.0) == 0.0


def test_equal_rounds_and_their_order_make_one_distribution() -> None:
    one, other = general(1.0, 20), general(0.5, 30)
    a = to_privacy_loss_distribution([(one, 1), (other, 1), (one, 2)])
    b = to_privacy_loss_distribution([(other, 1), (one, 3)])
    assert np.array_equal(pmf(a._pmf_remove)[1], pmf(b._pmf_remove)[1])


def test_losses_that_reach_too_far_for_the_interval_are_refused() -> None:
    with pytest.raises(
        ValueError, match="value_discretization_interval must be at least"
    ) as caught:
        to_privacy_loss_distribution(
            [(general(1.0, 100), 10_000)], value_discretization_interval=1e-6
        )
    assert len(str(caught.value).splitlines()) == 1


# ----------------------------------------------------------------------- out: with other mechanisms


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_composed_there_and_composed_here_agree(delta: float) -> None:
    shuffled = general(4.0, 10_000)
    relation = dp.NeighboringRelation.REPLACE_ONE
    gaussian = pld.from_gaussian_mechanism(4.0, neighboring_relation=relation)
    laplace = pld.from_laplace_mechanism(8.0)
    there = to_privacy_loss_distribution([(shuffled, 4)]).compose(gaussian).compose(laplace)
    parts = [(shuffled, 4), (sa.PldRound(gaussian), 1), (sa.PldRound(laplace), 1)]
    bracket = accountant_of(*parts).epsilon(delta=delta)
    found = there.get_epsilon_for_delta(delta)
    # three mechanisms, each on the grid; the pmfs are the same two on both sides
    assert bracket.lower * (1 - 1e-9) <= found <= bracket.upper * (1 + 1e-3) + 3 * INTERVAL


def test_out_and_in_again() -> None:
    parts: Parts = [(general(4.0, 10_000), 4)]
    back = sa.PldRound(to_privacy_loss_distribution(parts))
    mine, read = accountant_of(*parts).epsilon(delta=1e-6), back.epsilon(delta=1e-6)
    assert mine.lower <= read.upper <= mine.upper * (1 + 1e-3) + INTERVAL


# ---------------------------------------------------------------------------------------------- in


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "rounds"), [(1.0, 1), (1.0, 10), (20.0, 100)])
@pytest.mark.filterwarnings("ignore::shuffle_accountant.LooseBracketWarning")
def test_gaussian_against_the_closed_form(sigma: float, rounds: int) -> None:
    """T mechanisms of noise sigma are one of noise sigma / sqrt(T); ends are within the grid."""
    pessimistic = pld.from_gaussian_mechanism(sigma)
    optimistic = pld.from_gaussian_mechanism(sigma, pessimistic_estimate=False)
    one = sa.PldRound(pessimistic, optimistic=optimistic)
    accountant = accountant_of((one, rounds))
    truth = sigma / math.sqrt(rounds)
    for epsilon in (0.25, 1.0, 4.0):
        assert_contains(accountant.delta(epsilon=epsilon), mechanism(truth, epsilon))
    bracket = accountant.epsilon(delta=1e-6)
    assert mechanism(truth, bracket.lower) >= exact(1e-6) >= mechanism(truth, bracket.upper)
    # the optimistic losses are all rounded down, by at most one interval each
    assert bracket.upper - bracket.lower <= rounds * INTERVAL + 1e-3 * bracket.upper


def test_laplace_against_the_closed_form() -> None:
    """delta(eps) = 1 - e^((eps - 1/b)/2) for one Laplace mechanism of scale b."""
    one = sa.PldRound(
        pld.from_laplace_mechanism(2.0),
        optimistic=pld.from_laplace_mechanism(2.0, pessimistic_estimate=False),
    )
    for epsilon in (0.0, 0.2, 0.49):
        truth = 1 - MP.exp((exact(epsilon) - exact(0.5)) / 2)
        bracket = one.delta(epsilon=epsilon)
        # dp_accounting's own masses are doubles from differences of distribution functions
        assert_contains(bracket, truth, rtol=1e-10)
        assert bracket.upper - bracket.lower <= INTERVAL
    # nothing is above 10/2, but what the masses fall short of 1 (1e-14) may be infinite
    assert accountant_of((one, 10)).epsilon(delta=1e-11) <= 5.0 * (1 + 1e-12)


@pytest.mark.slow
def test_a_pair_that_is_not_symmetric_keeps_both_orders() -> None:
    """Poisson sampling; dp_accounting's own composition is one interval off at most."""
    sampled = pld.from_gaussian_mechanism(1.0, sampling_prob=0.05)
    one = sa.PldRound(sampled)
    assert one.reduced().loss.reversed is not one.reduced().loss
    for rounds in (1, 20):
        bracket = sa.epsilon(one, delta=1e-5, rounds=rounds)
        found = sampled.self_compose(rounds).get_epsilon_for_delta(1e-5)
        # its transforms are not certified
        assert bracket.lower * (1 - 1e-9) <= found <= bracket.upper * (1 + 1e-9)


def test_sparse_and_composed_distributions_are_read() -> None:
    coin = pld.from_randomized_response(0.5, 2)
    for made in (coin, coin.self_compose(3), pld.from_gaussian_mechanism(4.0).self_compose(4)):
        bracket = sa.PldRound(made).epsilon(delta=1e-3)
        found = made.get_epsilon_for_delta(1e-3)
        # double precision against double precision
        assert bracket.lower * (1 - 1e-9) <= found <= bracket.upper * (1 + 1e-9)


def test_the_wrong_direction_of_rounding_is_refused() -> None:
    up = pld.from_laplace_mechanism(1.0)
    down = pld.from_laplace_mechanism(1.0, pessimistic_estimate=False)
    with pytest.raises(ValueError, match="pld must be a distribution with pessimistic rounding"):
        sa.PldRound(down)
    with pytest.raises(ValueError, match="optimistic must be a distribution with optimistic"):
        sa.PldRound(up, optimistic=up)
    with pytest.raises(TypeError, match="optimistic must be a PrivacyLossDistribution"):
        sa.PldRound(up, optimistic=1.0)


# ------------------------------------------------------------------------------------------ events


def test_events_compose_like_rounds() -> None:
    one, other = general(4.0, 10_000), general(1.0, 500)
    event, small = ShuffleDpEvent(one), ShuffleDpEvent(other)
    nested = dp.ComposedDpEvent([dp.SelfComposedDpEvent(event, 2), small, dp.NoOpDpEvent()])
    accountant = ShufflePLDAccountant().compose(nested, 2).compose(event)
    made = to_privacy_loss_distribution([(one, 5), (other, 2)])
    assert accountant.get_epsilon(1e-6) == made.get_epsilon_for_delta(1e-6)
    assert accountant.get_delta(0.5) == made.get_delta_for_epsilon(0.5)
    before = accountant.get_epsilon(1e-6)
    assert accountant.compose(event).get_epsilon(1e-6) > before
    assert accountant.compose(dp.NonPrivateDpEvent()).get_epsilon(1e-6) == math.inf
    assert accountant.get_delta(3.0) == 1.0


def test_gaussian_events_count_with_the_sensitivity_of_replacement() -> None:
    """Two contributions of norm 1 change: noise 2 is a mechanism of sigma 1."""
    mixed = ShufflePLDAccountant().compose(dp.GaussianDpEvent(2.0))
    epsilon = mixed.get_epsilon(1e-6)
    assert mechanism(1.0, epsilon) <= 1e-6 * (1 + 1e-6)
    assert mechanism(1.0, epsilon - INTERVAL) > 1e-6
    assert mixed.compose(ShuffleDpEvent(general(4.0, 10_000))).get_epsilon(1e-6) > epsilon


def test_laplace_events_under_replacement_by_a_special_record() -> None:
    relation = dp.NeighboringRelation.REPLACE_SPECIAL
    event = ShuffleDpEvent(general(4.0, 10_000))
    accountant = ShufflePLDAccountant(relation).compose(dp.LaplaceDpEvent(1.0)).compose(event, 4)
    parts = [(event.round, 4), (sa.PldRound(pld.from_laplace_mechanism(1.0)), 1)]
    bracket = accountant_of(*parts).epsilon(delta=1e-6)
    assert bracket.lower <= accountant.get_epsilon(1e-6) <= bracket.upper * 1.001 + 2 * INTERVAL


@pytest.mark.slow
def test_null_records_are_special_ones() -> None:
    """Zeroing out bounds no replacement by another value."""
    vectors = sa.ShuffleRound(sa.GaussianVectors(noise_multiplier=4.0), users=50)
    event = ShuffleDpEvent(vectors)
    assert not ShufflePLDAccountant().supports(event)
    with pytest.raises(dp.UnsupportedEventError, match="neighboring_relation must be `REPLACE_SP"):
        ShufflePLDAccountant().compose(event)
    special = ShufflePLDAccountant(dp.NeighboringRelation.REPLACE_SPECIAL).compose(event)
    bracket = accountant_of((vectors, 1)).epsilon(delta=1e-6)
    assert bracket.lower <= special.get_epsilon(1e-6) <= bracket.upper * 1.001 + 2 * INTERVAL


def test_adding_or_removing_a_user_is_refused() -> None:
    accountant = ShufflePLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    event = ShuffleDpEvent(general(4.0, 10_000))
    assert not accountant.supports(event)
    assert not accountant.supports(dp.SelfComposedDpEvent(event, 2))
    with pytest.raises(dp.UnsupportedEventError, match="neighboring_relation must be") as caught:
        accountant.compose(event)
    assert len(str(caught.value).splitlines()) == 1
    assert ShufflePLDAccountant().supports(event)
    assert not ShufflePLDAccountant().supports(dp.UnsupportedDpEvent())


@pytest.mark.parametrize("count", [1, 2, 5])
def test_randomized_response_events_are_counted(count: int) -> None:
    """dp_accounting 0.6.0 answers for one whatever the count; here 5 of them are 5 losses."""
    event = dp.RandomizedResponseDpEvent(0.5, 2)  # keeps the value with probability 3/4
    epsilon = ShufflePLDAccountant().compose(event, count).get_epsilon(1e-6)
    truth = clones.epsilon(clones.lonely_rounds(math.log(3.0), count), 1e-6)
    assert truth <= epsilon <= truth + count * INTERVAL


def coarse() -> ShufflePLDAccountant:
    """A fresh accountant with ten times the usual interval: faster, and hardly less tight."""
    return ShufflePLDAccountant(value_discretization_interval=1e-3)


def test_calibrating_eps0() -> None:
    def event(eps0: float) -> Any:
        return dp.SelfComposedDpEvent(ShuffleDpEvent(general(eps0, 10_000)), 4)

    found = dp.calibrate_dp_mechanism(coarse, event, 1.0, 1e-6, tol=1e-3)
    accountant = accountant_of((general(found, 10_000), 4))
    assert accountant.epsilon(delta=1e-6).lower <= 1.0
    best = sa.max_eps0(users=10_000, rounds=4, target_epsilon=1.0, delta=1e-6)
    # the search's tolerance, and that of the pmf on either side
    assert best - 5e-3 <= found <= best + 2e-3


def test_calibrating_noise_beside_a_fixed_shuffled_part() -> None:
    fixed = ShuffleDpEvent(general(4.0, 10_000))

    def event(noise: float) -> Any:
        return dp.ComposedDpEvent([fixed, fixed, dp.GaussianDpEvent(noise)])

    between = dp.ExplicitBracketInterval(2.0, 20.0)
    found = dp.calibrate_dp_mechanism(coarse, event, 2.0, 1e-6, between, tol=1e-2)
    relation = dp.NeighboringRelation.REPLACE_ONE
    noise = sa.PldRound(pld.from_gaussian_mechanism(found, neighboring_relation=relation))
    spent = accountant_of((fixed.round, 2), (noise, 1)).epsilon(delta=1e-6)
    # a tolerance of 1e-2 in noise is about as much in epsilon
    assert 1.98 <= spent.lower <= 2.0
    assert spent.upper <= 2.0 * (1 + 1e-3)


def test_events_are_values() -> None:
    event = ShuffleDpEvent(general(4.0, 100))
    assert event == ShuffleDpEvent(general(4.0, 100))
    assert hash(event) == hash(ShuffleDpEvent(general(4.0, 100)))
    assert pickle.loads(pickle.dumps(event)) == event
    assert dp.DpEvent.from_named_tuple(event.to_named_tuple()) == event


# --------------------------------------------------------------------------------------- bad input

BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a word": (lambda: to_privacy_loss_distribution("general"), TypeError, "rounds"),
    "text": (lambda: to_privacy_loss_distribution("ab"), TypeError, "rounds"),
    "no pairs": (lambda: to_privacy_loss_distribution([general(1.0, 5)]), TypeError, "rounds"),
    "a number for a round": (lambda: to_privacy_loss_distribution([(1.0, 2)]), TypeError, "round"),
    "count": (
        lambda: to_privacy_loss_distribution([(general(1.0, 5), -1)]),
        ValueError,
        "count",
    ),
    "half": (lambda: to_privacy_loss_distribution([(general(1.0, 5), 1.5)]), TypeError, "count"),
    "interval": (
        lambda: to_privacy_loss_distribution([], value_discretization_interval=0.0),
        ValueError,
        "value_discretization_interval",
    ),
    "tolerance": (lambda: to_privacy_loss_distribution([], tolerance=-1), ValueError, "tolerance"),
    "event": (lambda: ShuffleDpEvent(3), TypeError, "round"),
    "event of a pld": (
        lambda: ShuffleDpEvent(sa.PldRound(pld.from_laplace_mechanism(1.0))),
        TypeError,
        "round",
    ),
    "relation": (lambda: ShufflePLDAccountant(2), TypeError, "neighboring_relation"),
    "accountant": (
        lambda: ShufflePLDAccountant(value_discretization_interval=math.nan),
        ValueError,
        "value_discretization_interval",
    ),
    "tail": (
        lambda: to_privacy_loss_distribution(
            [
                (
                    sa.ShuffleRound(
                        sa.RandomizedResponse(categories=4, eps0=1.0),
                        users=10,
                        reduction="strong",
                        variant="tail",
                    ),
                    1,
                )
            ]
        ),
        ValueError,
        "rounds",
    ),
}


def test_a_round_and_a_protocol_are_lists_of_pairs() -> None:
    one = general(1.0, 50)
    listed = to_privacy_loss_distribution([(one, 2)]).get_delta_for_epsilon(0.5)
    assert (
        to_privacy_loss_distribution(sa.Protocol([(one, 2)])).get_delta_for_epsilon(0.5) == listed
    )
    alone = to_privacy_loss_distribution([(one, 1)]).get_delta_for_epsilon(0.5)
    assert to_privacy_loss_distribution(one).get_delta_for_epsilon(0.5) == alone


@pytest.mark.parametrize(("call", "kind", "name"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 1
    assert name in str(caught.value)


def test_without_dp_accounting_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    home = "shuffle_accountant.interop.dp_accounting"
    monkeypatch.delitem(sys.modules, home, raising=False)
    with pytest.raises(ImportError, match=r"pip install '\.\[dp-accounting\]'"):
        importlib.import_module(home)


def test_names_are_found_where_they_are_promised() -> None:
    bridge = sa.interop.dp_accounting
    assert bridge.to_privacy_loss_distribution is to_privacy_loss_distribution
    assert {"ShuffleDpEvent", "ShufflePLDAccountant"} <= set(dir(bridge))
    with pytest.raises(AttributeError, match="nothing"):
        _ = bridge.nothing
    with pytest.raises(AttributeError, match="nothing"):
        _ = sa.interop.nothing
