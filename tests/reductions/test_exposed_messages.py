"""Shufflers that hide less: ranges of numbers of exposed messages, weights and batches."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import shuffle_accountant as sa
from shuffle_accountant.numerics.binomial import log_upper_tail, tail_ratio_error
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.reductions.leaks import (
    _SPREAD,
    _TAIL,
    _others,
    among_weighted,
    fewest_hidden,
)


@pytest.mark.parametrize(("users", "exposure"), [(40, 0.3), (400, 0.02), (10**5, 1e-4)])
def test_numbers_of_others_who_are_exposed(users: int, exposure: float) -> None:
    """Against the sum over all numbers of others, each number's round on its own."""
    randomizer, epsilon = sa.GeneralRandomizer(eps0=1.0), 0.02

    def hidden(count: int) -> sa.Bracket:
        return sa.delta(sa.ShuffleRound(randomizer, users=count), epsilon=epsilon)

    numbers = [x for x in range(users) if binom.pmf(x, users - 1, exposure) > 1e-15]
    each = [(binom.pmf(x, users - 1, exposure), hidden(users - x)) for x in numbers]
    low, high = (
        exposure * getattr(hidden(1), end)
        + (1.0 - exposure) * sum(mass * getattr(one, end) for mass, one in each)
        for end in ("lower", "upper")
    )
    leak = sa.Shuffler(exposure=exposure)
    found = sa.delta(sa.ShuffleRound(randomizer, users=users, shuffler=leak), epsilon=epsilon)
    # masses of a library, and those that are left out
    assert found.lower <= high * (1.0 + 1e-9)
    assert found.upper >= low * (1.0 - 1e-9)
    assert found.upper - found.lower <= 0.01 * found.upper  # ranges of numbers


@pytest.mark.parametrize("adverse", [-1.0, 1.0])
@pytest.mark.parametrize(("users", "exposure"), [(3, 0.25), (40, 0.3), (10**6, 1e-3)])
def test_probabilities_of_ranges_where_tails_err(
    users: int, exposure: float, adverse: float
) -> None:
    with stress(roundoff=2.0**-34, adverse=adverse):  # tails are off by 8e-6
        ranges, rest = _others(users, exposure)
    first = 0
    for mass, least, most in ranges:
        assert least == first
        first = most + 1
        truth = float(binom.pmf(np.arange(least, most + 1), users - 1, exposure).sum())
        assert mass[Bound.OPTIMISTIC] <= truth * (1 + 1e-10)
        assert mass[Bound.PESSIMISTIC] >= truth * (1 - 1e-10)
        assert mass[Bound.PESSIMISTIC] - mass[Bound.OPTIMISTIC] <= 0.01
    assert rest >= float(binom.sf(first - 1, users - 1, exposure)) * (1 - 1e-10)
    fewest, caught = fewest_hidden(users, exposure)
    assert fewest == users - (first - 1)
    assert exposure <= caught <= exposure * 1.001


@pytest.mark.parametrize(
    ("users", "exposure"), [(10**9, 0.1), (10**12, 0.3), (10**12, 1e-4), (10**15, 0.5)]
)
def test_probabilities_of_ranges_of_very_many(users: int, exposure: float) -> None:
    """Against tails by quadrature, which have a stated error."""
    ranges, _ = _others(users, exposure)
    logs = [
        log_upper_tail(float(k), users - 1.0, exposure, 1.0 - exposure).item()
        for k in [ranges[0][1], *(most + 1 for _, _, most in ranges)]
    ]
    own = tail_ratio_error() + 40.0 * 2.0**-53 * math.sqrt(users * min(exposure, 1 - exposure))
    tails = np.exp(logs)
    law = binom(users - 1, exposure)
    places = [ranges[0][1], *(most + 1 for _, _, most in ranges)]
    stated = (_TAIL + _SPREAD * law.std()) * 2.0**-53
    assert np.all(np.abs(law.sf(np.array(places) - 1.0) - tails) <= (stated + own) * tails)
    for (mass, _, _), first, beyond in zip(ranges, tails[:-1], tails[1:], strict=True):
        assert mass[Bound.PESSIMISTIC] >= first - beyond - own * (first + beyond)
        assert mass[Bound.OPTIMISTIC] <= first - beyond + own * (first + beyond)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("users", "exposure"), [(400, 0.002), (10**9, 0.3)])
def test_tails_of_a_library_may_be_off_by_what_is_stated(
    users: int, exposure: float, sign: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbouring ones in opposite ways; of few users by a constant, of many by the deviation."""
    plain, beyond = _others(users, exposure)
    kind = type(binom(10, 0.5))
    survival = kind.sf
    off = 0.999 * (_TAIL + _SPREAD * binom(users - 1, exposure).std()) * 2.0**-53

    def erring(law: Any, places: Any) -> Any:
        found = survival(law, places)
        return found * (1.0 + sign * off * (1.0 - 2.0 * (np.arange(found.size) % 2)))

    monkeypatch.setattr(kind, "sf", erring)
    found, rest = _others(users, exposure)
    # the tails themselves are as likely to be above as below the truth, by far less than stated
    assert rest >= beyond * (1.0 - off)
    for (known, *places), (mass, *same) in zip(plain, found, strict=True):
        middle = 0.5 * (known[Bound.OPTIMISTIC] + known[Bound.PESSIMISTIC])
        assert places == same
        assert mass[Bound.OPTIMISTIC] <= middle <= mass[Bound.PESSIMISTIC]


def test_weights_are_between_equal_ones_of_the_largest_and_of_all_places() -> None:
    """No weight above w: at least a round of the places that have one, at most one of 1/w users."""
    randomizer, weights = sa.GeneralRandomizer(eps0=1.0), np.full(40, 0.75 / 32.0)
    weights[:10] = 1.5 / 32.0  # 1/w is 21.3
    weights[33:] = 0.0
    weights[32] = 1.0 - weights[:32].sum()
    leak = sa.Shuffler(weights=weights)
    with pytest.warns(sa.LooseBracketWarning):
        found = sa.delta(sa.ShuffleRound(randomizer, users=40, shuffler=leak), epsilon=0.1)
    low, high = (
        sa.delta(sa.ShuffleRound(randomizer, users=users), epsilon=0.1)
        for users in (int(np.count_nonzero(weights)), 21)
    )
    assert low.lower <= found.lower <= low.upper < high.lower <= found.upper <= high.upper


@pytest.mark.parametrize(("users", "zero"), [(49, 0), (400, 0), (1000, 3), (10_000, 7000)])
def test_equal_weights_are_a_round_of_as_many_users(users: int, zero: int) -> None:
    """To the last one: a weight that is rounded up, as 1/49 is, does not cost a user."""
    weights = [1.0 / users] * users + [0.0] * zero
    one = sa.ShuffleRound(
        sa.GeneralRandomizer(eps0=1.0), users=users + zero, shuffler=sa.Shuffler(weights=weights)
    )
    found = sa.delta(one, epsilon=0.05)
    alone = sa.delta(sa.ShuffleRound(one.randomizer, users=users), epsilon=0.05)
    assert (found.lower, found.upper) == (alone.lower, alone.upper)


@pytest.mark.parametrize("off", [1, -1])
def test_the_number_of_equal_weights_is_exact(off: int) -> None:
    """The largest k with k w at most the sum, in rational numbers."""
    for users in (2, 3, 7, 49, 50):
        largest = 1.0 / users
        rest = math.nextafter(largest, off)  # the others are a unit above or below
        weights = (*[max(largest, rest)] * (users - 1), min(largest, rest))
        seen: list[int] = []

        def inner(count: int, seen: list[int] = seen) -> Any:
            seen.append(count)
            return sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=count).reduced()

        among_weighted(inner, users, weights, 0)
        exact = sum(map(Fraction, weights)) / Fraction(max(weights))
        assert seen == [math.floor(exact), users]
