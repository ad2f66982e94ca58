"""The three-letter formula is its paper's, and no bound: both by exact enumeration.

Independent re-derivation: the pair of shuffled multisets is listed outcome by outcome, the target
with its three letters, from the formula's definition (u, v, w); no density lemma is used.
"""

import math

import numpy as np
import pytest
from oracles.enumeration import hockey_stick, shuffled_output, target_among_decoys
from oracles.precision import MP, exact

import shuffle_accountant as sa
from shuffle_accountant.baselines import specialised_clones

# Figure 4 of the paper behind the package: n = 1000, gamma = 1/4, k = 4, one round.
FIGURE_4 = dict(
    zip(np.logspace(-4, -7, 5).tolist(), (0.38887, 0.45661, 0.51805, 0.57489, 0.62805), strict=True)
)


def enumerated(eps0, categories, users, epsilon):
    """The formula's value, from the definition of its three-letter pair."""
    e = MP.exp(exact(eps0))
    p = 1 / (e + categories - 1)
    u, v = e * p, p
    pair = target_among_decoys([u, v, 1 - u - v], [v, u, 1 - u - v], [p, p, 1 - 2 * p], users)
    return hockey_stick(*pair, MP.exp(exact(epsilon)))


def channel(eps0, categories):
    """k-ary randomized response."""
    e = MP.exp(exact(eps0))
    return [
        [(e if x == y else 1) / (e + categories - 1) for y in range(categories)]
        for x in range(categories)
    ]


def truth(eps0, categories, others, epsilon):
    """What the analyst learns of a target with value 0 or 1 while the others hold ``others``."""
    rows = channel(eps0, categories)
    pair = (shuffled_output(rows, [x, *others]) for x in (0, 1))
    return hockey_stick(*pair, MP.exp(exact(epsilon)))


def test_it_is_labelled_unsound():
    assert specialised_clones.sound is False
    assert "NOT a valid bound for k >= 4" in specialised_clones.__doc__


def test_the_counterexample():
    formula = specialised_clones.delta(eps0=1.0, categories=4, users=10, epsilon=0.6)
    assert formula == pytest.approx(0.0029836429, abs=1e-10)
    real = truth(1.0, 4, [2] * 9, 0.6)
    assert float(real) == pytest.approx(0.0032713329, abs=1e-10)
    assert formula < 0.92 * real
    clones = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=10).delta(epsilon=0.6)
    assert clones.lower > real


@pytest.mark.parametrize("eps0", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("categories", [2, 3, 4, 50])
@pytest.mark.parametrize("users", [1, 2, 7, 10])
def test_it_is_the_formula(eps0, categories, users):
    for fraction in (0.0, 0.3, 0.6, 0.99):
        found = specialised_clones.delta(
            eps0=eps0, categories=categories, users=users, epsilon=fraction * eps0
        )
        wanted = enumerated(eps0, categories, users, fraction * eps0)
        assert found == pytest.approx(float(wanted), rel=1e-10, abs=1e-300)


def test_many_users_against_the_whole_sum():
    eps0, categories, users, epsilon = math.log(13.0), 4, 300, 2.0
    e, alpha = MP.exp(exact(eps0)), MP.exp(exact(epsilon))
    p = 1 / (e + categories - 1)
    third = (1 - alpha) * (1 - (e + 1) * p) / (1 - 2 * p)
    total = exact(0)
    for c in range(users + 1):
        mass = MP.binomial(users, c) * p**c * (1 - 2 * p) ** (users - c)
        best = c * (e - alpha) + (users - c) * third
        for b in range(c + 1):
            value = best - b * (e - 1) * (1 + alpha)
            if value <= 0:
                break
            total += mass * MP.binomial(c, b) * value
    found = specialised_clones.delta(eps0=eps0, categories=categories, users=users, epsilon=epsilon)
    assert found < 1e-12
    assert found == pytest.approx(float(total / users), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "value"), FIGURE_4.items())
def test_figure_4(delta, value):
    found = specialised_clones.epsilon(eps0=math.log(13.0), categories=4, users=1000, delta=delta)
    assert found == pytest.approx(value, abs=2e-5)
    # and the sound bound of any randomizer is above
    assert found < sa.ShuffleRound(sa.GeneralRandomizer(math.log(13.0)), users=1000).epsilon(
        delta=delta
    )


@pytest.mark.slow
@pytest.mark.parametrize(("eps0", "users"), [(0.5, 3), (4.0, 1000), (4.0, 10_000)])
def test_two_categories_are_the_sound_clones(eps0, users):
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=users)
    same = {"eps0": eps0, "categories": 2, "users": users}
    for epsilon in (0.0, 0.3 * eps0, 0.7 * eps0):
        expected = one.delta(epsilon=epsilon)
        assert specialised_clones.delta(**same, epsilon=epsilon) == pytest.approx(
            expected.upper, rel=1e-9
        )
    assert specialised_clones.epsilon(**same, delta=1e-6) == pytest.approx(
        one.epsilon(delta=1e-6).upper, rel=1e-9
    )


def test_epsilon_inverts_delta():
    same = {"eps0": 2.0, "categories": 5, "users": 200}
    for delta in (1e-2, 1e-6, 1e-20):
        found = specialised_clones.epsilon(**same, delta=delta)
        assert specialised_clones.delta(**same, epsilon=found) == pytest.approx(delta, rel=1e-9)
    assert specialised_clones.epsilon(**same, delta=0.5) == 0.0


def test_nothing_is_learnt_beyond_eps0_or_without_it():
    assert specialised_clones.delta(eps0=1.0, categories=4, users=10, epsilon=1.0) == 0.0
    assert specialised_clones.delta(eps0=0.0, categories=2, users=10, epsilon=0.0) == 0.0
    assert specialised_clones.delta(eps0=0.0, categories=5, users=10, epsilon=0.0) == 0.0


def test_an_almost_revealing_randomizer_does_not_overflow():
    found = specialised_clones.delta(eps0=700.0, categories=4, users=5, epsilon=699.9)
    assert found == pytest.approx(-math.expm1(-0.1), rel=1e-9)


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"users": 10_001}, ValueError, "users"),
        ({"users": 0}, ValueError, "users"),
        ({"users": 10.5}, TypeError, "users"),
        ({"categories": 1}, ValueError, "categories"),
        ({"eps0": 701.0}, ValueError, "eps0"),
        ({"eps0": -1.0}, ValueError, "eps0"),
        ({"epsilon": math.nan}, ValueError, "epsilon"),
    ],
)
def test_bad_values_are_named(change, error, named):
    arguments = {"eps0": 1.0, "categories": 4, "users": 10, "epsilon": 0.5} | change
    with pytest.raises(error, match=f"^{named} must be ") as caught:
        specialised_clones.delta(**arguments)
    assert "\n" not in str(caught.value)


def test_the_package_of_baselines_imports_its_modules_when_asked():
    from shuffle_accountant import baselines

    assert baselines.specialised_clones is specialised_clones
    assert "specialised_clones" in dir(baselines)
    with pytest.raises(AttributeError, match="no_such_bound"):
        baselines.no_such_bound  # noqa: B018
