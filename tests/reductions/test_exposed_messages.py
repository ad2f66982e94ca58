"""Shufflers that hide less: ranges of numbers of exposed messages, weights and batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

import shuffle_accountant as sa
from shuffle_accountant.numerics.binomial import log_upper_tail, tail_ratio_error
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.reductions.leaks import _SPREAD, _TAIL, _others, fewest_hidden


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


def test_weights_are_between_the_fewest_and_all_users() -> None:
    """No weight above w: at least a round of all users, at most one of floor(1/w) of them."""
    randomizer, weights = sa.GeneralRandomizer(eps0=1.0), np.full(30, 1.0 / 30.0)
    weights[:10] *= 1.5  # 1/w is 20, or a little less
    weights[10:] *= 0.75
    leak = sa.Shuffler(weights=weights)
    with pytest.warns(sa.LooseBracketWarning):
        found = sa.delta(sa.ShuffleRound(randomizer, users=30, shuffler=leak), epsilon=0.1)
    low, high = (
        sa.delta(sa.ShuffleRound(randomizer, users=users), epsilon=0.1) for users in (30, 19)
    )
    assert low.lower <= found.lower <= low.upper < high.lower <= found.upper <= high.upper
