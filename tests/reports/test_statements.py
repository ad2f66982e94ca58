"""The paragraph for a privacy notice says all that its number depends on, and the number holds."""

from __future__ import annotations

import pytest

import shuffle_accountant as sa
from shuffle_accountant.reports.statements import described

ONE = sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=10_000)


def test_it_says_protocol_adjacency_number_theorem_and_version() -> None:
    said = sa.statement(sa.Protocol([(ONE, 4)]), delta=1e-6)
    bracket = sa.epsilon(ONE, delta=1e-6, rounds=4)
    text = str(said)
    assert "\n" not in text
    for part in (
        "4 rounds, in each of which 10,000 people randomize their values",
        "GeneralRandomizer(eps0=4.0)",
        "(0.8539, 1e-06)-differential privacy",
        "replace-one",
        "Epsilon = 0.8539 at delta = 1e-06",
        "'clones'",
        f"shuffle-accountant {sa.__version__}",
        "can tell clearly better than by guessing whether any one person's data are replaced",
        "right with probability 70.14 % at most",  # e^0.8539/(1 + e^0.8539) = 0.70137
        *bracket.conditions,
    ):
        assert part in text


@pytest.mark.parametrize("delta", [1e-4, 3e-6, 1e-8])
@pytest.mark.parametrize("rounds", [1, 7])
def test_the_number_is_an_upper_end(delta: float, rounds: int) -> None:
    said = sa.statement(sa.Protocol([(ONE, rounds)]), delta=delta)
    bracket = sa.epsilon(ONE, delta=delta, rounds=rounds)
    assert (said.lower, said.upper) == (bracket.lower, bracket.upper)
    # rounded up to four digits, which is by 0.1 % at most; 1e-12 is the rounding of the text
    assert bracket.upper * (1.0 - 1e-12) <= said.epsilon <= bracket.upper * 1.001
    assert f"{said.epsilon:g}" in str(said)


def test_what_is_said_of_each_kind_of_round() -> None:
    noise = sa.GaussianMechanism(noise_multiplier=2.0)
    other = sa.RandomizedResponse(categories=4, eps0=3.0)
    response = sa.RandomizedResponse(categories=4, eps0=2.0)
    table = sa.LossTable([-1.0, 1.0], [0.25, 0.75])
    parts = {
        "one round in which 90 people drawn from 500 without replacement": sa.ShuffleRound(
            response, users=90, population=500
        ),
        "those of 900 people who take part, each with probability 0.5,": sa.ShuffleRound(
            response, users=sa.Binomial(trials=900, probability=0.5)
        ),
        "as do others (40 with RandomizedResponse(categories=4, eps0=3.0))": sa.ShuffleRound(
            response, users=90, others={other: 40}
        ),
        "7 of all being known to the observer": sa.ShuffleRound(response, users=90, colluding=7),
        "one epoch in which training deals each record": sa.RandomAllocation(noise, steps=9),
        "batches of shuffled records": sa.ShuffledBatches(noise_multiplier=2.0, steps=9),
        "one step in which each record takes part": sa.PoissonSampled(noise, rate=0.1),
        "steps sample from 7 cycles": sa.CyclicPoisson(noise, rate=0.1, cycles=7),
        "released with correlated noise": sa.MatrixMechanism(
            tree=True, noise_multiplier=8.0, bins=8
        ),
        "one step in which a batch of one size": sa.FixedSizeSampled(noise, size=3, population=30),
        "each person reports with a probability": sa.SampleAndThreshold(
            probability=0.1, threshold=9
        ),
        "each person sends 5 noisy copies": sa.MemoisedRounds(
            permanent=sa.RandomizedResponse(categories=2, eps0=2.0),
            instantaneous=sa.RandomizedResponse(categories=2, eps0=1.0),
            users=90,
            rounds=5,
            same_participants=True,
        ),
        "1 times PldRound(": sa.PldRound.from_tables(table, adjacency=sa.Adjacency.ZERO_OUT),
    }
    for part, one in parts.items():
        assert part in described(one, 1)
    for one in [*parts.values()][-2:]:
        said = sa.statement(one, delta=0.3)
        assert said.protocol == (described(one, 1),)
        assert described(one, 1) in str(said)
        assert f"adjacency {one.adjacency.value}:" in str(said)


def test_several_kinds_and_nothing() -> None:
    other = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=300)
    accountant = sa.FourierAccountant().compose(ONE, count=2).compose(other)
    said = sa.statement(accountant, delta=1e-6)
    assert [part.split(" people")[0] for part in said.protocol] == [
        "2 rounds, in each of which 10,000",
        "one round in which 300",
    ]
    nothing = sa.statement(sa.Protocol(), delta=1e-6)
    assert (nothing.epsilon, nothing.adjacency, nothing.protocol) == (0.0, None, ())
    assert "Nothing is released" in str(nothing)


def test_plain_types() -> None:
    said = sa.statement(ONE, delta=1e-6)
    told = said.to_dict()
    assert told["text"] == str(said)
    assert (told["theorem"], told["version"]) == ("clones", sa.__version__)
    assert isinstance(told["protocol"], list)


def test_bad_values() -> None:
    with pytest.raises(ValueError, match=r"^delta must be a number in \(0, 1\), got 2"):
        sa.statement(ONE, delta=2)
    sure = sa.ShuffleRound(sa.DiscreteRandomizer([[1.0, 0.0], [0.0, 1.0]]), users=2)
    with pytest.raises(ValueError, match="delta must be one at which epsilon is finite, got"):
        sa.statement(sure, delta=1e-6)
