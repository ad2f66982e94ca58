"""Rounds known by a table of their privacy loss: brackets of exactly the numbers in the table.

The truth comes from the tables' atoms multiplied out in 50 digits (an atom's Q-mass is its P-mass
times e^-loss, in exact arithmetic), together with the exact atoms of small shuffled rounds, and
from the closed form of composed Gaussian mechanisms. Nothing here needs dp_accounting; see
``test_interop_dp_accounting`` for its distributions.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import clones
from oracles.clones import Atom
from oracles.containment import assert_contains, assert_narrow
from oracles.gaussian import mechanism
from oracles.precision import MP, exact

import shuffle_accountant as sa
from shuffle_accountant.engine.composed_law import composed_law

FIXED = settings(derandomize=True, deadline=None, max_examples=25)

LOOSE = pytest.mark.filterwarnings("ignore::shuffle_accountant.LooseBracketWarning")


def atoms(table: sa.LossTable) -> list[Atom]:
    """The table's pair of laws; what it leaves out of both sides is an infinite loss."""
    masses = [exact(p) for p in table.probabilities.tolist()]
    losses = [exact(x) for x in table.losses.tolist()]
    finite = [(p, p * MP.exp(-x)) for p, x in zip(masses, losses, strict=True)]
    missing = exact(table.infinity_mass)
    if 1 - MP.fsum(masses) - missing > exact(1e-14):  # less is the rounding of the masses
        missing = 1 - MP.fsum(masses)
    return [*finite, (missing, exact(0))]


def composed(table: sa.LossTable, count: int, *others: list[Atom]) -> list[Atom]:
    """``count`` independent copies of the table's pair, and others."""
    return clones.composed(*[atoms(table)] * count, *others)


# Numbers without a pattern: three losses, masses that sum to 1 to rounding, a valid pair.
SKEW = sa.LossTable([-1.25, 0.1, 0.8], [0.2, 0.5, 0.3])
BACK = sa.LossTable([-0.8, -0.1, 1.25], [0.1348, 0.4524, 0.4128])
COIN = sa.LossTable([-1.0, 1.0], [1 / (1 + math.e), math.e / (1 + math.e)])
LEAKY = sa.LossTable([-0.5, 0.5], [0.35, 0.55], infinity_mass=0.1)

BROAD = sa.LossTable([-1e6, 0.0, 1e6], [0.3, 0.4, 0.3])

EPSILONS = (0.0, 0.05, 0.3, 0.7, 1.1, 2.1)


# ------------------------------------------------------------------------------------------- alone


@pytest.mark.parametrize("table", [SKEW, BACK, COIN, LEAKY], ids=["skew", "back", "coin", "leaky"])
@pytest.mark.parametrize("count", [1, 2, 5])
@LOOSE
def test_composed_tables_against_enumeration(table: sa.LossTable, count: int) -> None:
    one = sa.PldRound.from_tables(table)
    truth = composed(table, count)
    finite = [atom for atom in truth if atom[1] > 0]
    for epsilon in EPSILONS:
        bracket = sa.delta(one, epsilon=epsilon, rounds=count)
        assert_contains(bracket, clones.delta(truth, epsilon))
        assert bracket.reduction == "pld"
    if table.infinity_mass == 0.0:
        for delta in (1e-2, 1e-9):
            bracket = sa.epsilon(one, delta=delta, rounds=count)
            assert_contains(bracket, clones.epsilon(finite, delta), rtol=1e-14)
            assert_narrow(bracket, 2e-3)


@pytest.mark.parametrize("count", [1, 3])
@LOOSE
def test_both_orders_count(count: int) -> None:
    """Neighbours may be either way round, but all rounds are the same way round."""
    one = sa.PldRound.from_tables(SKEW, BACK)
    forward, backward = composed(SKEW, count), composed(BACK, count)
    for epsilon in EPSILONS:
        truth = max(clones.delta(forward, epsilon), clones.delta(backward, epsilon))
        assert_contains(sa.delta(one, epsilon=epsilon, rounds=count), truth)


def test_a_law_with_loss_of_one_sign_is_not_taken_for_two_sided() -> None:
    """P never loses less than 1; Q has most of its mass where P has none.

    A pair with losses in [-1, 1] has total variation at most tanh(1/2) = 0.46, this one 0.63.
    """
    one = sa.PldRound.from_tables(sa.LossTable([1.0], [1.0]))
    for rounds in (1, 2):
        truth = composed(sa.LossTable([1.0], [1.0]), rounds)[:1]
        bracket = sa.epsilon(one, delta=0.5, rounds=rounds)
        # the last digit of a logarithm in double precision
        assert_contains(bracket, clones.epsilon(truth, 0.5), rtol=1e-14)
        assert bracket.lower > 0.3


def test_pure_losses_are_never_exceeded() -> None:
    one = sa.PldRound.from_tables(COIN)
    assert sa.delta(one, epsilon=3.001, rounds=3) == 0.0
    assert sa.epsilon(one, delta=1e-200, rounds=3) <= 3.0 * (1 + 1e-12)


def test_nothing_lost() -> None:
    nothing = sa.PldRound.from_tables(sa.LossTable([0.0], [1.0]))
    assert nothing.epsilon(delta=1e-9) == 0.0
    assert sa.delta(nothing, epsilon=0.0, rounds=7) == 0.0
    shuffled = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=10)
    alone = sa.FourierAccountant().compose(shuffled, count=2)
    both = sa.FourierAccountant().compose(shuffled, count=2).compose(nothing, count=5)
    ends = [(b.lower, b.upper) for b in (alone.epsilon(delta=1e-3), both.epsilon(delta=1e-3))]
    assert ends[0] == ends[1]


@LOOSE
def test_missing_mass_counts_above_and_not_below() -> None:
    """1e-4 of the law is nowhere: it may all be infinite loss, or none of it."""
    table = sa.LossTable([-0.5, 0.5], [0.4, 0.5999])
    one = sa.PldRound.from_tables(table)
    for rounds in (1, 2):
        bracket = sa.delta(one, epsilon=0.2, rounds=rounds)
        full = clones.delta(composed(table, rounds), 0.2)
        held = clones.delta(clones.composed(*[atoms(table)[:-1]] * rounds), 0.2)
        assert exact(bracket.lower) <= held < full <= exact(bracket.upper)
        spent = sa.epsilon(one, delta=1e-5, rounds=rounds)
        assert spent.upper == math.inf
        assert spent.lower > 0.0


def test_infinite_mass_above_delta_is_an_infinite_epsilon() -> None:
    bracket = sa.epsilon(sa.PldRound.from_tables(LEAKY), delta=0.05, rounds=3)
    assert (bracket.lower, bracket.upper) == (math.inf, math.inf)


# ----------------------------------------------------------------------------- with shuffled rounds


@pytest.mark.parametrize(
    ("table", "eps0", "users", "shuffled", "count"),
    [
        (COIN, 1.5, 6, 1, 1),
        (SKEW, 0.5, 8, 2, 1),
        (LEAKY, 2.0, 5, 1, 2),
        (SKEW, 4.0, 4, 2, 2),
        (BROAD, 2.0, 5, 1, 2),
    ],
)
@LOOSE
def test_mixed_protocols_against_enumeration(
    table: sa.LossTable, eps0: float, users: int, shuffled: int, count: int
) -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=users)
    other = sa.PldRound.from_tables(table)
    accountant = sa.FourierAccountant().compose(one, count=shuffled).compose(other, count=count)
    truth = composed(table, count, *[clones.pair(eps0, users)] * shuffled)
    for epsilon in EPSILONS:
        bracket = accountant.delta(epsilon=epsilon)
        assert_contains(bracket, clones.delta(truth, epsilon))
        assert bracket.reduction == "pld, clones"
    assert len(accountant) == shuffled + count


def test_the_order_of_composition_does_not_matter() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=10)
    parts = [one, sa.PldRound.from_tables(SKEW), sa.PldRound.from_tables(COIN)]
    ends = set()
    for order in (parts, parts[::-1]):
        accountant = sa.FourierAccountant()
        for part in order:
            accountant.compose(part, count=2)
        bracket = accountant.epsilon(delta=1e-4)
        ends.add((bracket.lower, bracket.upper))
    assert len(ends) == 1


# -------------------------------------------------------------------------------------- properties


@st.composite
def tables(draw: st.DrawFn) -> sa.LossTable:
    """A few losses and masses; whatever does not add up is missing or infinite."""
    steps = draw(st.lists(st.integers(-40, 40), min_size=1, max_size=4, unique=True))
    weights = draw(st.lists(st.integers(1, 1000), min_size=len(steps) + 1, max_size=len(steps) + 1))
    infinite = draw(st.booleans())
    total = sum(weights) if infinite else sum(weights[:-1])
    scale = draw(st.sampled_from([0.1, 0.037, 1.0]))
    masses = [w / total for w in weights[:-1]]
    last = weights[-1] / total if infinite else 0.0
    return sa.LossTable([scale * s for s in sorted(steps)], masses, infinity_mass=last)


@FIXED
@given(tables(), st.integers(1, 3), st.floats(0.0, 6.0))
@LOOSE
def test_any_table_against_enumeration(table: sa.LossTable, count: int, epsilon: float) -> None:
    # as in the invariants: delta may be 0, and no grid is fine enough to say so
    accountant = sa.FourierAccountant(memory_limit=2**23)
    accountant.compose(sa.PldRound.from_tables(table), count=count)
    bracket = accountant.delta(epsilon=epsilon)
    assert 0.0 <= bracket.lower <= bracket.upper <= 1.0
    # P-masses may weigh more than 1 under Q: no law has such losses, but the sum is what it is
    assert_contains(bracket, min(clones.delta(composed(table, count), epsilon), exact(1)))


@FIXED
@given(tables(), tables())
def test_state_round_trip(remove: sa.LossTable, add: sa.LossTable) -> None:
    one = sa.PldRound.from_tables(remove, add)
    again = sa.PldRound.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again == one
    assert hash(again) == hash(one)
    assert repr(again) == repr(one)


@FIXED
@given(tables(), st.integers(1, 3), st.floats(-5.0, 5.0), st.sampled_from([0.03, 0.1, 0.7]))
def test_the_composed_law_is_never_below_and_has_total_one(
    table: sa.LossTable, count: int, epsilon: float, interval: float
) -> None:
    """What goes to other software: a pmf on a grid, pessimistic at negative epsilons too."""
    loss = sa.PldRound.from_tables(table).reduced().loss
    law = composed_law(((loss, count),), interval, 1e-3)
    assert law.mass.min() >= 0.0
    # rounded a few times, upwards
    assert 0.0 <= math.fsum([*law.mass.tolist(), law.infinite]) - 1.0 <= 1e-15
    grid = [
        (exact(p), (law.offset + i) * exact(interval))
        for i, p in enumerate(law.mass.tolist())
        if p > 0
    ]
    found = law.infinite + MP.fsum(
        p * (1 - MP.exp(epsilon - x)) for p, x in grid if x > exact(epsilon)
    )
    truth = composed(table, count)
    # more than all of P cannot be lost; what masses sum to beyond 1 by rounding would be
    total = exact(table.infinity_mass) + MP.fsum(map(exact, table.probabilities.tolist()))
    beyond = count * max(total - 1, exact(0))
    assert found >= min(clones.delta(truth, epsilon), exact(1)) - beyond
    # connecting the dots is exact on the grid and convex between; the finer grid that rounds are
    # composed on has a spacing of a fiftieth of their deviation at most, and spreads atoms by it
    near = [math.floor(epsilon / interval) * interval, math.ceil(epsilon / interval) * interval]
    assert found <= max(clones.delta(truth, x) for x in near) * exact("1.01") + exact("1e-3")


# ------------------------------------------------------------------- Gaussian, from both sides


def rounded_gaussian(mu: float, spacing: float, *, up: bool) -> sa.LossTable:
    """The loss of N(mu, 1) against N(0, 1), N(mu^2/2, mu^2) itself, rounded to multiples."""
    from scipy.special import ndtr

    first, last = math.floor((-9 * mu) / spacing), math.ceil((9 * mu + mu**2) / spacing)
    edges = spacing * np.arange(first, last + 1)
    score = (edges - mu**2 / 2) / mu
    mass = np.where(score[:-1] > 0, ndtr(-score[:-1]) - ndtr(-score[1:]), np.diff(ndtr(score)))
    if up:  # what is below the first edge is raised to it, what is above the last is infinite
        mass = np.append(ndtr(score[0]), mass)
        return sa.LossTable(edges, mass, infinity_mass=float(ndtr(-score[-1])))
    return sa.LossTable(edges, np.append(mass, ndtr(-score[-1])))


@pytest.mark.slow
@LOOSE
@pytest.mark.parametrize(("mu", "rounds"), [(1.0, 1), (0.5, 8), (0.1, 400)])
def test_gaussian_between_two_tables(mu: float, rounds: int) -> None:
    """T Gaussian mechanisms are one of mean mu sqrt(T): the closed form is between the ends."""
    spacing = 0.002 * mu
    one = sa.PldRound.from_tables(
        rounded_gaussian(mu, spacing, up=True),
        optimistic_remove=rounded_gaussian(mu, spacing, up=False),
    )
    accountant = sa.FourierAccountant().compose(one, count=rounds)
    sigma = 1 / (mu * math.sqrt(rounds))
    for epsilon in (0.5, 2.0, 5.0):
        assert_contains(accountant.delta(epsilon=epsilon), mechanism(sigma, epsilon))
    bracket = accountant.epsilon(delta=1e-6)
    # each rounding moves the loss by at most one spacing, and the grid adds its tolerance
    assert bracket.upper - bracket.lower <= rounds * spacing + 2e-3 * bracket.upper
    assert mechanism(sigma, bracket.lower) >= 1e-6 >= mechanism(sigma, bracket.upper)


def test_without_an_optimistic_table_the_lower_end_is_the_table_itself() -> None:
    upper = rounded_gaussian(1.0, 0.01, up=True)
    one = sa.PldRound.from_tables(upper)
    assert_contains(one.delta(epsilon=1.0), clones.delta(atoms(upper), 1.0))
    assert exact(one.delta(epsilon=1.0).lower) > mechanism(1.0, 1.0)


def test_an_optimistic_table_above_the_other_is_refused() -> None:
    """The wrong way round, in either order; tails that rounding puts in the wrong order are not."""
    up, down = (rounded_gaussian(1.0, 0.01, up=up) for up in (True, False))
    for tables, name in (
        ((down, None, up, None), "optimistic_remove must have no larger delta than remove"),
        ((up, down, down, up), "optimistic_add must have no larger delta than add"),
    ):
        remove, add, below, other = tables
        with pytest.raises(ValueError, match=rf"^{name}, got 0\.\d+ > 0\.\d+ at epsilon = ") as got:
            sa.PldRound.from_tables(remove, add, optimistic_remove=below, optimistic_add=other)
        assert "\n" not in str(got.value)
    infinite = sa.LossTable([0.0, 0.5], [0.5, 0.4], infinity_mass=0.1)
    finite = sa.LossTable([0.0, 0.5], [0.5, 0.5])
    with pytest.raises(ValueError, match=r"optimistic_remove .* got 0\.1 > 0 at epsilon = 0\.5"):
        sa.PldRound.from_tables(finite, optimistic_remove=infinite)
    sa.PldRound.from_tables(infinite, optimistic_remove=finite)
    moved = sa.LossTable([0.0, 0.5 + 1e-7], [0.5, 0.5])
    assert sa.PldRound.from_tables(finite, optimistic_remove=moved).delta(epsilon=0.1).lower > 0.0


def test_a_hundred_thousand_losses_answer_soon() -> None:
    """In the processor's seconds, thirty times what it takes: other work does not count."""

    one = sa.PldRound.from_tables(rounded_gaussian(1.0, 2e-4, up=True))
    assert one.loss.bounds.upper.losses.size > 9e4
    shuffled = sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=10_000)
    accountant = sa.FourierAccountant().compose(one, count=3).compose(shuffled, count=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", sa.LooseBracketWarning)
        bracket = accountant.epsilon(delta=1e-6)
    assert_narrow(bracket, 1e-3)


# -------------------------------------------------------------------------------------- the object


def test_rounds_are_values() -> None:
    one, same = (sa.PldRound.from_tables(sa.LossTable([0.0, 1.0], [0.5, 0.5])) for _ in range(2))
    assert one == same
    assert hash(one) == hash(same)
    assert one != sa.PldRound.from_tables(sa.LossTable([0.0, 1.0], [0.5, 0.4]))
    assert one != sa.PldRound.from_tables(SKEW, BACK)
    accountant = sa.FourierAccountant().compose(one).compose(same, count=2)
    assert accountant.rounds == ((one, 3),)
    with pytest.raises(AttributeError):
        one.loss = None  # type: ignore[misc, assignment]
    with pytest.raises(ValueError, match="read-only"):
        one.loss.bounds.upper.losses[0] = 3.0


def test_empty_cells_of_a_table_do_not_matter() -> None:
    wide = sa.LossTable([-1.0, 0.0, 1.0, 2.0], [0.4, 0.0, 0.6, 0.0])
    assert wide == sa.LossTable([-1.0, 1.0], [0.4, 0.6])


def test_the_accountant_saves_and_resumes() -> None:
    accountant = sa.FourierAccountant().compose(sa.PldRound.from_tables(SKEW, BACK), count=2)
    accountant.compose(sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=10))
    state = json.loads(json.dumps(accountant.state_dict()))
    again = sa.FourierAccountant.from_state_dict(state)
    assert again.rounds == accountant.rounds
    assert again.epsilon(delta=1e-3).lower == accountant.epsilon(delta=1e-3).lower


# --------------------------------------------------------------------------------------- bad input


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "not a pld": (lambda: sa.PldRound(3.0), TypeError, "pld"),
    "none": (lambda: sa.PldRound(None), TypeError, "pld"),
    "a round": (lambda: sa.PldRound(sa.PldRound.from_tables(COIN)), TypeError, "pld"),
    "not a table": (lambda: sa.PldRound.from_tables([1.0]), TypeError, "remove"),
    "add no table": (lambda: sa.PldRound.from_tables(COIN, 1), TypeError, "add"),
    "optimistic": (
        lambda: sa.PldRound.from_tables(COIN, optimistic_remove={}),
        TypeError,
        "optimistic_remove",
    ),
    "shapes": (lambda: sa.LossTable([0.0, 1.0], [1.0]), ValueError, "probabilities"),
    "dimension": (lambda: sa.LossTable([[0.0]], [[1.0]]), ValueError, "losses"),
    "ragged": (lambda: sa.LossTable([[0.0], []], [1.0]), ValueError, "losses"),
    "text": (lambda: sa.LossTable(["a"], [1.0]), TypeError, "losses"),
    "complex": (lambda: sa.LossTable([0.0], [1j]), TypeError, "probabilities"),
    "infinite": (lambda: sa.LossTable([math.inf], [1.0]), ValueError, "infinity_mass"),
    "not even that": (lambda: sa.LossTable([math.nan], [1.0]), ValueError, "losses"),
    "far": (lambda: sa.LossTable([0.0, 2e6], [0.5, 0.5]), ValueError, "2000000.0"),
    "nan": (lambda: sa.LossTable([0.0], [math.nan]), ValueError, "probabilities"),
    "descending": (lambda: sa.LossTable([1.0, 0.0], [0.5, 0.5]), ValueError, "losses"),
    "twice": (lambda: sa.LossTable([1.0, 1.0], [0.5, 0.5]), ValueError, "losses"),
    "negative": (lambda: sa.LossTable([0.0, 1.0], [1.1, -0.1]), ValueError, "probabilities"),
    "too much": (lambda: sa.LossTable([0.0, 1.0], [0.9, 0.9]), ValueError, "probabilities"),
    "infinity": (lambda: sa.LossTable([0.0], [0.5], infinity_mass=2), ValueError, "infinity_mass"),
    "both": (lambda: sa.LossTable([0.0], [0.5], infinity_mass=0.7), ValueError, "infinity_mass"),
    "state": (lambda: sa.PldRound.from_dict({"kind": "pld"}), ValueError, "round"),
    "no state": (lambda: sa.PldRound.from_dict(None), ValueError, "round"),
    "kind": (
        lambda: sa.PldRound.from_dict({**sa.PldRound.from_tables(COIN).to_dict(), "kind": "x"}),
        ValueError,
        "kind",
    ),
    "table": (
        lambda: sa.PldRound.from_dict({**sa.PldRound.from_tables(COIN).to_dict(), "add": {}}),
        ValueError,
        "add",
    ),
}


@pytest.mark.parametrize(("call", "kind", "name"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert name in message


def test_a_tail_probability_composes_with_no_table() -> None:
    tail = sa.ShuffleRound(
        sa.RandomizedResponse(categories=4, eps0=1.0), users=10, reduction="strong", variant="tail"
    )
    accountant = sa.FourierAccountant().compose(tail).compose(sa.PldRound.from_tables(COIN))
    with pytest.raises(ValueError, match="tail"):
        accountant.epsilon(delta=1e-3)
