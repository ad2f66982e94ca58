"""Counts may be whole floats, such as 1e6, wherever counts are taken; the answers are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shuffle_accountant as sa

ANY = sa.GeneralRandomizer(eps0=1.0)
ONE = sa.ShuffleRound(ANY, users=100)
RESPONSE = sa.RandomizedResponse(categories=4, eps0=1.0)
NOISE = sa.GaussianMechanism(noise_multiplier=1.0)
ROUGHLY = {"target_epsilon": 1.0, "delta": 1e-05, "tolerance": 0.5}
QIF, MI, REID = sa.leakage.qif, sa.leakage.mutual_information, sa.leakage.reidentification

CALLS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (sa.ShuffleRound, (ANY,), {"users": 100, "population": 200, "colluding": 0}),
    (sa.ShuffleRound, (ANY,), {"users": 100, "colluding": 3}),
    (sa.epsilon, (ONE,), {"delta": 1e-05, "rounds": 2}),
    (sa.delta, (ONE,), {"epsilon": 0.1, "rounds": 2}),
    (sa.RandomizedResponse, (), {"categories": 4, "eps0": 1.0}),
    (sa.SubsetSelection, (), {"categories": 10, "eps0": 1.0, "size": 3}),
    (sa.LocalHashing, (), {"categories": 10, "eps0": 1.0, "buckets": 3}),
    (sa.HadamardResponse, (), {"categories": 10, "eps0": 1.0}),
    (sa.RAPPOR, (), {"categories": 10, "eps0": 1.0}),
    (sa.RandomAllocation, (NOISE,), {"steps": 10, "selected": 2}),
    (sa.RandomAllocation, (NOISE,), {"steps": 10, "released": 2}),
    (sa.RandomAllocation, (NOISE,), {"steps": 10, "passes": 2}),
    (sa.ShuffledBatches, (), {"noise_multiplier": 1.0, "steps": 10, "passes": 1}),
    (sa.Binomial, (), {"trials": 10, "probability": 0.5}),
    (sa.NoiseMessages, (), {"categories": 10, "dummies": sa.Poisson(mean=5.0)}),
    (sa.AugmentedShuffle, (), {"categories": 10, "keep": 0.9, "dummies": sa.Poisson(mean=5.0)}),
    (
        sa.max_eps0,
        (),
        {"users": 100, "rounds": 2, "target_epsilon": 1.0, "delta": 1e-05, "population": 1000},
    ),
    (
        sa.min_noise_multiplier,
        (),
        {"sampling": "poisson", "steps": 10, "epochs": 2, "target_epsilon": 1.0, "delta": 1e-05},
    ),
    (
        sa.design.frequency,
        (),
        {"users": 10, "categories": 2, "rounds": 2, "jobs": 1, **ROUGHLY},
    ),
    (
        sa.design.mean,
        (),
        {"users": 10, "dimension": 2, "rounds": 2, "jobs": 1, **ROUGHLY},
    ),
    (
        sa.baselines.girgis.epsilon,
        (),
        {"eps0": 1.0, "users": 100, "population": 1000, "rounds": 3, "delta": 1e-05},
    ),
    (
        sa.baselines.girgis.valid,
        (),
        {"eps0": 1.0, "users": 100, "population": 1000, "rounds": 3, "delta": 1e-05},
    ),
    (sa.baselines.rdp.epsilon, (ONE,), {"rounds": 3, "delta": 1e-05}),
    (
        sa.baselines.specialised_clones.epsilon,
        (),
        {"eps0": 1.0, "categories": 3, "users": 100, "delta": 1e-05},
    ),
    (
        sa.baselines.specialised_clones.delta,
        (),
        {"eps0": 1.0, "categories": 3, "users": 100, "epsilon": 0.1},
    ),
    (
        sa.baselines.specialised_clones.valid,
        (),
        {"eps0": 1.0, "categories": 3, "users": 100, "delta": 1e-05},
    ),
    (sa.baselines.clones_closed_form.epsilon, (), {"eps0": 1.0, "users": 10000, "delta": 1e-05}),
    (
        sa.baselines.strong_clones_closed_form.epsilon,
        (),
        {"eps0": 1.0, "users": 10000, "delta": 1e-05},
    ),
    (sa.baselines.erlingsson.epsilon, (), {"eps0": 0.1, "users": 10000, "delta": 1e-05}),
    (sa.baselines.clones_enumeration.epsilon, (), {"eps0": 1.0, "users": 1000, "delta": 1e-05}),
    (
        sa.baselines.allocation_decomposition.epsilon,
        (sa.RandomAllocation(NOISE, steps=10),),
        {"rounds": 2, "delta": 1e-05},
    ),
    (REID.success_probability, ([0.5, 0.5], [0.4, 0.6]), {"users": 5, "guesses": 2}),
    (REID.bound, (RESPONSE,), {"users": 20}),
    (REID.bound, (RESPONSE,), {"users": 20, "method": "clones"}),
    (MI.position, ([0.5, 0.5], [0.4, 0.6]), {"users": 5}),
    (MI.message, ([0.5, 0.5], [0.4, 0.6]), {"users": 5}),
    (MI.input_bound, (RESPONSE,), {"users": 5}),
    (QIF.posterior_vulnerability_shuffle, (), {"users": 10, "categories": 3}),
    (QIF.posterior_vulnerability_krr_shuffle, (), {"users": 10, "categories": 3, "p": 0.6}),
    (QIF.posterior_vulnerability_krr, (), {"categories": 3, "p": 0.6}),
    (QIF.all_but_one_vulnerability, (), {"users": 10, "p": 0.6, "known": 4}),
    (QIF.krr_channel, (), {"users": 3, "categories": 2, "p": 0.6}),
    (QIF.shuffle_channel, (), {"users": 3, "categories": 2}),
    (QIF.brown_number, (), {"users": 5, "categories": 3}),
    (QIF.asymptotic_vulnerability_shuffle, (), {"users": 100, "categories": 3}),
    (QIF.partition_vulnerability_shuffle, (), {"users": 10, "categories": 3}),
    (QIF.printed_vulnerability_shuffle, (), {"users": 10, "categories": 3}),
    (sa.order.reidentification_bound, (), {"r": 10, "k": 2, "eps0": 1.0, "alpha": 1.0}),
    (sa.training.ShuffleLedger, (ANY,), {"users": 100, "population": 200}),
    (sa.training.PrivUnit, (), {"dimension": 10, "eps0": 1.0}),
    (sa.training.DuchiL2, (), {"dimension": 10, "eps0": 1.0}),
    (sa.training.DuchiLInf, (), {"dimension": 10, "eps0": 1.0}),
    (sa.training.SampledCoordinates, (), {"dimension": 10, "eps0": 1.0}),
    (sa.FourierAccountant, (), {"memory_limit": 2**30}),
    (QIF.expected_maximum_load, (), {"users": 10, "categories": 3}),
    (
        sa.baselines.strong_composition.epsilon,
        (),
        {"eps1": 0.1, "delta1": 1e-7, "rounds": 3, "delta": 1e-5},
    ),
    (
        sa.baselines.blanket_hoeffding.epsilon,
        (),
        {"eps0": 1.0, "users": 10000, "delta": 1e-5, "categories": 3},
    ),
    (
        sa.baselines.blanket_bennett.epsilon,
        (),
        {"eps0": 1.0, "users": 10000, "delta": 1e-5, "categories": 3},
    ),
    (sa.order.MallowsKendall, (), {"users": 10, "theta": 1.0}),
    (sa.order.MallowsHamming, (), {"users": 10, "theta": 1.0}),
    (sa.order.preservation_delta, (), {"users": 20, "l": 3, "eta": 0.5, "theta": 1.0}),
    (sa.min_users, (), {"eps0": 1.0, "rounds": 2, "target_epsilon": 0.5, "delta": 1e-05}),
]
NAMES = [f"{call.__module__}.{call.__name__}" for call, *_ in CALLS]
ASKED = [
    pytest.param(index, name, id=f"{NAMES[index]}-{name}")
    for index, (_, _, named) in enumerate(CALLS)
    for name, value in named.items()
    if type(value) is int
]


@pytest.mark.slow
@pytest.mark.parametrize(("call", "given", "named"), CALLS, ids=NAMES)
def test_whole_floats_are_the_counts(
    call: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
) -> None:
    """All counts at once; a call that took one of them for something else would answer another."""
    plain = repr(call(*given, **named))
    for kind in (float, np.float64):
        floats = {name: kind(value) for name, value in named.items() if type(value) is int}
        assert floats
        assert repr(call(*given, **named | floats)) == plain


@pytest.mark.parametrize(("index", "name"), ASKED)
def test_any_other_float_is_refused_in_one_line(index: int, name: str) -> None:
    call, given, named = CALLS[index]
    with pytest.raises((TypeError, ValueError)) as caught:
        call(*given, **named | {name: named[name] + 0.5})
    assert "\n" not in str(caught.value)
    assert "an integer" in str(caught.value)


def test_counts_of_compositions() -> None:
    accountant = sa.FourierAccountant().compose(ONE, count=1e3)  # type: ignore[arg-type]
    assert len(accountant) == 1000
    assert sa.Protocol([(ONE, 2.0)]) * 3.0 == sa.Protocol([(ONE, 6)])  # type: ignore[list-item, operator]
    other = sa.RandomizedResponse(categories=4, eps0=2.0)
    crowd = sa.ShuffleRound(RESPONSE, users=100.0, others={other: 50.0})  # type: ignore[arg-type, dict-item]
    assert crowd == sa.ShuffleRound(RESPONSE, users=100, others={other: 50})
