"""What every answer must satisfy whatever the parameters, as Hypothesis properties.

Monotonicity is meant in the certified sense: the exact values are ordered, so the lower end for
the smaller value cannot exceed the upper end for the larger one, however wide the brackets are.
"""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import clones
from oracles.containment import assert_contains, assert_ordered, assert_overlaps

import shuffle_accountant as sa

# A looser bracket than asked for is still a bracket; that is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::shuffle_accountant.LooseBracketWarning")

# Where no grid meets the tolerance (delta below 1e-300, say) an accountant refines up to its memory
# limit. 8 MiB instead of 1 GiB keep such examples under a second; the invariants hold all the same.
MEMORY = 2**23

# Ends of single rounds are exact to round-off; two of them may be out of order by that much.
SLACK = 1e-11


@st.composite
def rounds(draw: st.DrawFn, *, most_users: int = 10**6, most_eps0: float = 6.0) -> sa.ShuffleRound:
    """A round of the general randomizer: any size, common or interactive, sampled or not."""
    users = round(10 ** draw(st.floats(0.0, math.log10(most_users))))
    population = draw(st.none() | st.integers(1, 1000).map(lambda times: times * users))
    randomizer = sa.GeneralRandomizer(
        eps0=draw(st.floats(0.02, most_eps0)), interactive=draw(st.booleans())
    )
    return sa.ShuffleRound(randomizer, users=users, population=population)


def powers_of_ten(low: float, high: float) -> st.SearchStrategy[float]:
    """Log-uniform numbers between 10^low and 10^high."""
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


deltas = powers_of_ten(-30.0, -0.5)
counts = st.integers(1, 60)
# For what asks several times; single answers are drawn more often.
ten = settings(max_examples=10)


def with_fields(one: sa.ShuffleRound, **changes: Any) -> sa.ShuffleRound:
    """The same round with other users, population, eps0 or interaction."""
    eps0 = changes.pop("eps0", one.randomizer.eps0)
    interactive = changes.pop("interactive", one.randomizer.interactive)
    fields = {"users": one.users, "population": one.population} | changes
    return sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0, interactive=interactive), **fields)


def empty(tolerance: float = 1e-3) -> sa.FourierAccountant:
    """An accountant that has seen nothing."""
    return sa.FourierAccountant(tolerance=tolerance, memory_limit=MEMORY)


def composed(one: sa.ShuffleRound, count: int, tolerance: float = 1e-3) -> sa.FourierAccountant:
    """An accountant of ``count`` equal rounds."""
    return empty(tolerance).compose(one, count=count)


def assert_at_most(smaller: sa.Bracket, larger: sa.Bracket) -> None:
    """Fail when the brackets prove the order of the exact values wrong."""
    assert_ordered(smaller)
    assert_ordered(larger)
    assert smaller.lower <= larger.upper * (1 + SLACK), (smaller, larger)


# ------------------------------------------------------------------------------------------- range


@given(rounds(), counts, deltas)
def test_epsilon_is_between_zero_and_the_sum_of_eps0(
    one: sa.ShuffleRound, count: int, delta: float
) -> None:
    bracket = composed(one, count).epsilon(delta=delta)
    assert_ordered(bracket)
    assert bracket.lower <= count * one.randomizer.eps0
    # A loose bracket may pass T eps0 a little.
    assert bracket.upper <= count * one.randomizer.eps0 * (1 + 1e-2)


@settings(max_examples=6)
@given(rounds(), counts, st.floats(0.0, 1.5))
def test_delta_is_between_zero_and_one(one: sa.ShuffleRound, count: int, fraction: float) -> None:
    most = count * one.randomizer.eps0
    bracket = composed(one, count).delta(epsilon=fraction * most)
    assert_ordered(bracket)
    assert bracket.upper <= 1.0
    if fraction > 1.0 + 1e-9:  # no loss exceeds T eps0
        assert bracket.lower == 0.0


@pytest.mark.slow
@settings(max_examples=10)
@given(
    powers_of_ten(0.0, 12.0).map(round),
    powers_of_ten(-6.0, math.log10(50.0)),
    powers_of_ten(0.0, 6.0).map(round),
    powers_of_ten(-100.0, math.log10(0.5)),
)
def test_extreme_parameters_give_a_bracket(
    users: int, eps0: float, count: int, delta: float
) -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=users)
    bracket = composed(one, count).epsilon(delta=delta)
    assert_ordered(bracket)
    assert bracket.upper <= count * eps0 * (1 + 1e-2)  # a loose bracket may pass T eps0 a little


@given(rounds(), counts, deltas)
def test_the_ledger_is_never_negative_nor_nan(
    one: sa.ShuffleRound, count: int, delta: float
) -> None:
    ledger = composed(one, count).epsilon(delta=delta).ledger
    for source in ("discretisation", "truncation", "aliasing", "round_off"):
        assert getattr(ledger, source) >= 0.0


# ------------------------------------------------------------------------------------ monotonicity


@pytest.mark.slow
@ten
@given(rounds(), counts, deltas, deltas)
def test_epsilon_falls_as_delta_grows(
    one: sa.ShuffleRound, count: int, first: float, second: float
) -> None:
    accountant = composed(one, count)
    small, large = sorted((first, second))
    assert_at_most(accountant.epsilon(delta=large), accountant.epsilon(delta=small))


@pytest.mark.slow
@ten
@given(rounds(), counts, deltas, st.floats(0.0, 1.0))
def test_delta_falls_as_epsilon_grows(
    one: sa.ShuffleRound, count: int, delta: float, fraction: float
) -> None:
    accountant = composed(one, count)
    large = accountant.epsilon(delta=delta).upper  # where delta is not negligible
    small = fraction * large
    assert_at_most(accountant.delta(epsilon=large), accountant.delta(epsilon=small))


@pytest.mark.slow
@ten
@given(rounds(), counts, deltas, st.integers(1, 1000))
def test_more_users_never_cost_more(
    one: sa.ShuffleRound, count: int, delta: float, extra: int
) -> None:
    """Without sampling: with it, more users of one population are also sampled more often."""
    few = with_fields(one, population=None)
    many = with_fields(few, users=one.users + extra)
    assert_at_most(
        composed(many, count).epsilon(delta=delta), composed(few, count).epsilon(delta=delta)
    )


@pytest.mark.slow
@ten
@given(rounds(), counts, deltas, st.integers(0, 10**6))
def test_a_larger_population_never_costs_more(
    one: sa.ShuffleRound, count: int, delta: float, extra: int
) -> None:
    """Nor does sampling at all."""
    everyone = with_fields(one, population=None)
    larger = with_fields(one, population=(one.population or one.users) + extra)
    answers = [composed(r, count).epsilon(delta=delta) for r in (larger, one, everyone)]
    assert_at_most(answers[0], answers[1])
    assert_at_most(answers[1], answers[2])


@given(rounds(), counts, deltas, st.floats(0.0, 1.0))
def test_more_local_privacy_never_costs_more(
    one: sa.ShuffleRound, count: int, delta: float, fraction: float
) -> None:
    weaker = with_fields(one, eps0=fraction * one.randomizer.eps0)
    assert_at_most(
        composed(weaker, count).epsilon(delta=delta), composed(one, count).epsilon(delta=delta)
    )


@pytest.mark.slow
@ten
@given(rounds(), counts, counts, deltas)
def test_more_rounds_never_cost_less(
    one: sa.ShuffleRound, count: int, extra: int, delta: float
) -> None:
    accountant = composed(one, count)
    before = accountant.epsilon(delta=delta)
    assert_at_most(before, accountant.compose(one, count=extra).epsilon(delta=delta))


@given(rounds(), counts, deltas)
def test_interaction_never_costs_less(one: sa.ShuffleRound, count: int, delta: float) -> None:
    common = with_fields(one, interactive=False)
    free = with_fields(one, interactive=True)
    assert_at_most(
        composed(common, count).epsilon(delta=delta), composed(free, count).epsilon(delta=delta)
    )


@settings(max_examples=60)
@given(rounds(), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_one_round_is_monotone_to_round_off(
    one: sa.ShuffleRound, first: float, second: float
) -> None:
    small, large = sorted((first * one.randomizer.eps0, second * one.randomizer.eps0))
    assert_at_most(one.delta(epsilon=large), one.delta(epsilon=small))


# ------------------------------------------------------------------------------------- composition


@given(rounds(), st.integers(1, 8), deltas)
def test_one_by_one_is_all_at_once(one: sa.ShuffleRound, count: int, delta: float) -> None:
    """Equal rounds compose into one power, so the answers are the same numbers."""
    singly = empty()
    for _ in range(count):
        singly.compose(with_fields(one))  # an equal round, not the same object
    at_once = composed(one, count)
    assert len(singly) == len(at_once) == count
    a, b = singly.epsilon(delta=delta), at_once.epsilon(delta=delta)
    assert (a.lower, a.upper) == (b.lower, b.upper)


@pytest.mark.slow
@settings(max_examples=4)
@given(rounds(), rounds(), rounds(), counts, deltas)
def test_the_order_of_rounds_is_irrelevant(
    a: sa.ShuffleRound, b: sa.ShuffleRound, c: sa.ShuffleRound, count: int, delta: float
) -> None:
    forth = empty().compose(a, count=count).compose(b).compose(c)
    back = empty().compose(c).compose(b).compose(a, count=count)
    x, y = forth.epsilon(delta=delta), back.epsilon(delta=delta)
    # Products of spectra may be rounded in another order; the grids must be the same.
    assert x.upper == pytest.approx(y.upper, rel=1e-9)
    assert x.lower == pytest.approx(y.lower, rel=1e-9)


@pytest.mark.slow
@ten
@given(rounds(), rounds(), deltas)
def test_a_mixture_costs_at_least_each_part(
    a: sa.ShuffleRound, b: sa.ShuffleRound, delta: float
) -> None:
    both = empty().compose(a).compose(b).epsilon(delta=delta)
    for one in (a, b):
        assert_at_most(one.epsilon(delta=delta), both)


@given(rounds(), counts, deltas)
def test_epsilon_and_delta_are_inverse(one: sa.ShuffleRound, count: int, delta: float) -> None:
    """delta at the upper end of epsilon is not above delta; at the lower end not below."""
    accountant = composed(one, count)
    bracket = accountant.epsilon(delta=delta)
    assert accountant.delta(epsilon=bracket.upper).lower <= delta * (1 + 1e-9)
    if bracket.lower > 0.0:
        # Relative steps of 1e-16 in epsilon, times a slope below 1e5, are below 1e-9 in delta.
        assert accountant.delta(epsilon=bracket.lower).upper >= delta * (1 - 1e-9)


@settings(max_examples=6)
@given(rounds(), counts, deltas)
def test_the_profile_falls_and_is_convex_in_alpha(
    one: sa.ShuffleRound, count: int, delta: float
) -> None:
    """The exact curve is decreasing and convex in e^epsilon; its brackets may not deny it."""
    accountant = composed(one, count)
    # Five points where delta is not negligible; e^300 is still a double.
    epsilons = np.linspace(0.0, min(accountant.epsilon(delta=delta).upper, 300.0), 5)
    if epsilons[-1] == 0.0:
        return
    profile = accountant.profile(epsilons)
    assert np.all((profile.lower >= 0.0) & (profile.lower <= profile.upper))
    assert np.all(profile.lower[1:] <= profile.upper[:-1] * (1 + SLACK))
    alphas = np.exp(epsilons)
    for i in range(1, len(epsilons) - 1):
        weight = (alphas[i] - alphas[i - 1]) / (alphas[i + 1] - alphas[i - 1])
        chord = (1 - weight) * profile.upper[i - 1] + weight * profile.upper[i + 1]
        assert profile.lower[i] <= chord * (1 + SLACK) + 1e-300


# ------------------------------------------------------------------------------------ special cases


@given(st.floats(0.02, 20.0), counts, deltas)
def test_one_user_is_composed_randomized_response(eps0: float, count: int, delta: float) -> None:
    """n = 1 gives eps0 per round: the binomial closed form, contained without widening."""
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=1)
    truth = clones.epsilon(clones.lonely_rounds(eps0, count), delta)
    # A single round is exact to round-off instead of certified by a grid.
    rtol = SLACK if count == 1 else 0.0
    assert_contains(composed(one, count).epsilon(delta=delta), truth, rtol=rtol)


@given(st.integers(1, 10**12), st.integers(0, 10**6), deltas)
def test_no_local_loss_is_no_loss(users: int, count: int, delta: float) -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=0.0), users=users)
    bracket = composed(one, count).epsilon(delta=delta)
    assert (bracket.lower, bracket.upper) == (0.0, 0.0)


@given(rounds(), deltas, st.floats(0.0, 10.0))
def test_no_rounds_are_no_loss(one: sa.ShuffleRound, delta: float, epsilon: float) -> None:
    accountant = composed(one, 0)
    for bracket in (accountant.epsilon(delta=delta), accountant.delta(epsilon=epsilon)):
        assert (bracket.lower, bracket.upper) == (0.0, 0.0)


# ------------------------------------------------------------------------------- tolerance, state


@given(st.integers(1, 9), st.floats(0.05, 5.0), st.integers(1, 2), powers_of_ten(-12.0, -1.0))
def test_every_tolerance_contains_the_truth(
    users: int, eps0: float, count: int, delta: float
) -> None:
    """Finer and coarser brackets all hold the enumerated value, and so meet one another."""
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=users)
    truth = clones.epsilon(clones.self_composed(clones.pair(eps0, users), count), delta)
    rtol = SLACK if count == 1 else 0.0
    for tolerance in (1e-1, 1e-2, 1e-4):
        bracket = composed(one, count, tolerance).epsilon(delta=delta)
        assert_contains(bracket, truth, rtol=rtol)


@pytest.mark.slow
@ten
@given(rounds(), counts, deltas)
def test_finer_and_coarser_brackets_overlap_and_keep_their_promise(
    one: sa.ShuffleRound, count: int, delta: float
) -> None:
    """Each is as narrow as its tolerance, or a warning says that it is not."""
    brackets = []
    for tolerance in (1e-2, 1e-4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", sa.LooseBracketWarning)
            bracket = composed(one, count, tolerance).epsilon(delta=delta)
        if not any(issubclass(said.category, sa.LooseBracketWarning) for said in caught):
            # Round-off of the subtraction.
            assert bracket.upper - bracket.lower <= tolerance * bracket.upper * (1 + SLACK)
        brackets.append(bracket)
    coarse, fine = brackets
    # One round is exact to round-off at any tolerance.
    assert_overlaps(fine, coarse.lower * (1 - SLACK), coarse.upper * (1 + SLACK))


@pytest.mark.slow
@ten
@given(rounds(), rounds(), counts, deltas)
def test_state_through_json_gives_the_same_answers(
    a: sa.ShuffleRound, b: sa.ShuffleRound, count: int, delta: float
) -> None:
    accountant = empty(1e-2).compose(a, count=count).compose(b)
    text = json.dumps(accountant.state_dict(), allow_nan=False)
    restored = sa.FourierAccountant.from_state_dict(json.loads(text))
    assert len(restored) == len(accountant)
    assert restored.state_dict() == accountant.state_dict()
    x, y = accountant.epsilon(delta=delta), restored.epsilon(delta=delta)
    assert (x.lower, x.upper) == (y.lower, y.upper)
    # A restored accountant goes on like the original one.
    x = accountant.compose(b).epsilon(delta=delta)
    y = restored.compose(b).epsilon(delta=delta)
    assert (x.lower, x.upper) == (y.lower, y.upper)
