"""What must hold for a number is said in one place, for every kind of round, and wherever it is."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant.cli import main
from shuffle_accountant.engine.question import Query
from shuffle_accountant.explorer.answers import epsilon_of
from shuffle_accountant.explorer.settings import Deployment
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.vectors import DuchiL2, DuchiLInf, PrivUnit, SampledCoordinates
from shuffle_accountant.registry import Kinds
from shuffle_accountant.rounds.base import Round, certified, certified_at
from shuffle_accountant.rounds.protocol import round_from_dict
from shuffle_accountant.rounds.shuffle import REDUCTIONS
from shuffle_accountant.sums.survey import Way

GENERAL = sa.GeneralRandomizer(eps0=1.0)
RESPONSE = sa.RandomizedResponse(categories=4, eps0=1.0)
NOISE = sa.GaussianMechanism(noise_multiplier=2.0)
RANDOMIZERS: dict[str, Any] = {
    "approximate": sa.ApproximateRandomizer(eps0=1.0, delta0=1e-9),
    "discrete": sa.DiscreteRandomizer([[0.6, 0.4], [0.4, 0.6]]),
    "duchi-l2": DuchiL2(dimension=3, eps0=1.0),
    "duchi-linf": DuchiLInf(dimension=3, eps0=1.0),
    "gaussian": sa.GaussianRandomizer(sigma=4.0),
    "general": GENERAL,
    "hadamard": sa.HadamardResponse(categories=5, eps0=1.0),
    "laplace": sa.LaplaceRandomizer(eps0=1.0),
    "local-hashing": sa.LocalHashing(categories=5, eps0=1.0),
    "privunit": PrivUnit(dimension=3, eps0=1.0),
    "randomized-response": RESPONSE,
    "rappor": sa.RAPPOR(categories=5, eps0=1.0),
    "sampled-coordinates": SampledCoordinates(dimension=3, eps0=1.0),
    "subset-selection": sa.SubsetSelection(categories=9, eps0=1.0, size=2),
    "gaussian vectors": sa.GaussianVectors(noise_multiplier=2.0),
}
ATTENDANCE = "only if attendance is secret; otherwise design for the fewest who will send"
FEWEST = "if fewer send, the number does not hold, so design for the fewest who will send"
BATCHES = "the size of its batch"

# Rounds, and parts of what must be said of each.
SHUFFLED: dict[str, tuple[sa.ShuffleRound, tuple[str, ...]]] = {
    **{
        f"of {name}": (sa.ShuffleRound(one, users=50), (FEWEST, "fresh coins", "the shuffler"))
        for name, one in RANDOMIZERS.items()
    },
    "by clones": (sa.ShuffleRound(RESPONSE, users=50, reduction="clones"), (FEWEST,)),
    "strong": (sa.ShuffleRound(RESPONSE, users=50, reduction="strong"), (FEWEST,)),
    "tail": (
        sa.ShuffleRound(RESPONSE, users=50, reduction="strong", variant="tail"),
        (FEWEST,),
    ),
    "example": (
        sa.ShuffleRound(RANDOMIZERS["gaussian"], users=50, reduction="example"),
        ("other datasets may lose more",),
    ),
    "null law": (
        sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0, adjacency=sa.Adjacency.ZERO_OUT), users=50),
        ("has the local privacy stated",),
    ),
    "interactive": (
        sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0, interactive=True), users=50),
        (FEWEST,),
    ),
    "sampled": (
        sa.ShuffleRound(RESPONSE, users=50, population=250),
        ("drawn anew, uniformly without replacement", "who was drawn is secret"),
    ),
    "participation": (
        sa.ShuffleRound(RESPONSE, users=sa.Binomial(trials=50, probability=0.5)),
        (ATTENDANCE, "independently of all others and of the data"),
    ),
    "participation, any randomizer": (
        sa.ShuffleRound(GENERAL, users=sa.Binomial(trials=50, probability=0.5)),
        (ATTENDANCE,),
    ),
    "others": (
        sa.ShuffleRound(
            RESPONSE, users=40, others={sa.RandomizedResponse(categories=4, eps0=2.0): 10}
        ),
        ("Who applies which randomizer is fixed beforehand", FEWEST),
    ),
    "several messages": (
        sa.ShuffleRound(RESPONSE, users=50, messages_per_user=3),
        ("sends exactly as many messages as stated", "clients enforce"),
    ),
    "messages counted": (
        sa.ShuffleRound(RESPONSE, messages=150, messages_per_user=3),
        ("sent by honest users", "clients enforce"),
    ),
    "exposure": (
        sa.ShuffleRound(RESPONSE, users=50, shuffler=sa.Shuffler(exposure=1e-3)),
        ("recognises any message", "drawn afresh in every round"),
    ),
    "batches of a shuffler": (
        sa.ShuffleRound(RESPONSE, users=50, shuffler=sa.Shuffler(minimum_batch=20)),
        ("No batch of messages",),
    ),
    "colluding": (
        sa.ShuffleRound(RESPONSE, users=50, colluding=10),
        ("No more users than stated work with the observer",),
    ),
}
TABLE = sa.LossTable([-0.5, 0.5], [0.4, 0.6])
OTHERS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "allocation": (sa.RandomAllocation(NOISE, steps=20), ("the deal stays hidden", BATCHES)),
    "allocation to several": (
        sa.RandomAllocation(sa.LaplaceMechanism(scale=2.0), steps=20, selected=2),
        ("the deal stays hidden", BATCHES),
    ),
    "allocation, released": (
        sa.RandomAllocation(sa.PureMechanism(epsilon=1.0), steps=20, released=5),
        ("was fixed beforehand", "whatever earlier steps released"),
    ),
    "batches": (
        sa.ShuffledBatches(noise_multiplier=4.0, steps=20),
        ("the order stays hidden", BATCHES),
    ),
    "poisson": (sa.PoissonSampled(NOISE, rate=0.1), ("independently", BATCHES)),
    "poisson, table": (
        sa.PoissonSampled(
            sa.PldRound.from_tables(TABLE, adjacency=sa.Adjacency.ZERO_OUT), rate=0.1
        ),
        ("independently", "taken as it is"),
    ),
    "poisson, several records": (
        sa.PoissonSampled(NOISE, rate=0.1, records_per_user=3),
        ("independently", "No user owns more records than stated"),
    ),
    "allocation of several records": (
        sa.RandomAllocation(NOISE, steps=20, records_per_user=2),
        ("the deal stays hidden", "No user owns more records than stated"),
    ),
    "capped": (
        next(iter(sa.Protocol([(sa.ShuffleRound(RESPONSE, users=50), 9)], rounds_per_user=3)))[0],
        (FEWEST, "which clients enforce"),
    ),
    "memoised": (
        sa.MemoisedRounds(
            permanent=sa.RandomizedResponse(categories=2, eps0=2.0),
            instantaneous=sa.RandomizedResponse(categories=2, eps0=1.0),
            users=50,
            rounds=5,
            same_participants=True,
        ),
        ("keeps one permanent answer", "The same users take part in every round"),
    ),
    "threshold": (
        sa.SampleAndThreshold(probability=0.2, threshold=5),
        ("Nothing is seen of suppressed reports", "who reported stays hidden"),
    ),
    "cyclic": (
        sa.CyclicPoisson(NOISE, rate=0.2, cycles=5),
        ("The partition is fixed beforehand", "no more steps than there are groups", BATCHES),
    ),
    "schedule": (
        sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=[1.0, 2.0]), steps=2),
        (BATCHES,),
    ),
    "tree": (
        sa.MatrixMechanism(tree=True, noise_multiplier=4.0, bins=4),
        ("The encoder is the one stated", BATCHES),
    ),
    "bands": (
        sa.MatrixMechanism(coefficients=[1.0, 0.5], noise_multiplier=2.0, bins=6),
        ("The encoder is the one stated", BATCHES),
    ),
    "fixed size": (
        sa.FixedSizeSampled(NOISE, size=10, population=100),
        ("without replacement and anew for each step", BATCHES),
    ),
    "table": (sa.PldRound.from_tables(TABLE), ("taken as it is",)),
    "noise messages": (
        sa.NoiseMessages(categories=3, dummies=sa.Poisson(mean=200.0), honest=0.9),
        ("honest users", "a user who does not send adds no dummies", "nothing but how often"),
    ),
    "augmented": (
        sa.AugmentedShuffle(categories=3, keep=0.5, dummies=sa.Poisson(mean=200.0)),
        ("does not work with the analyst", "nothing but how often"),
    ),
}
EVERY = {**SHUFFLED, **OTHERS}


def own(kinds: Kinds[Any]) -> list[type]:
    """The classes of this package: tests register others."""
    return [one for one in kinds.values() if one.__module__.startswith("shuffle_accountant.")]


def test_every_kind_of_round_randomizer_and_theorem_is_here() -> None:
    assert {type(one) for one, _ in EVERY.values()} == set(own(Round.kinds))
    held = {type(one.randomizer) for one, _ in SHUFFLED.values()}
    assert held >= set(own(LocalRandomizer.kinds))
    names = " ".join(one.reduced().name for one, _ in SHUFFLED.values())
    # the example's pair is of normal noise, and says so
    assert all(name in names for name in REDUCTIONS if name != "auto")


@pytest.mark.parametrize("name", EVERY)
def test_each_sentence_has_its_theorem(name: str) -> None:
    one, parts = EVERY[name]
    found = sa.conditions(one)
    assert len(found) == len(set(found)) >= 2
    theorems = set()
    for sentence in found:
        assert sentence[0].isupper()
        assert sentence.endswith(").")
        assert "\n" not in sentence
        theorems.add(sentence.removesuffix(").").rpartition(" (")[2])
    assert one.reduced().name in theorems
    steps = {"Gaussian mechanism", "Laplace mechanism", "pure differential privacy", "pld"}
    assert theorems <= {one.reduced().name, "adaptive composition", *steps}
    for part in parts:
        assert any(part in sentence for sentence in found) or part in "the shuffler", part


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_all_answers_carry_the_same(name: str) -> None:
    one, _ = EVERY[name]
    wanted, delta = sa.conditions(one), 0.3
    assert sa.conditions(sa.Protocol([(one, 3)])) == sa.conditions([(one, 2)]) == wanted
    bracket = sa.epsilon(one, delta=delta)
    report, statement = sa.report(one, delta=delta), sa.statement(one, delta=delta)
    assert bracket.conditions == one.epsilon(delta=delta).conditions == wanted
    assert sa.delta(one, epsilon=0.5).conditions == one.delta(epsilon=0.5).conditions == wanted
    assert pickle.loads(pickle.dumps(bracket)).conditions == wanted
    assert report.conditions == statement.conditions == wanted
    for told in (bracket.to_dict(), report.to_dict(), statement.to_dict()):
        assert json.loads(json.dumps(told["conditions"])) == list(wanted)
    said, table = str(statement), " ".join(str(report).split())
    for sentence in wanted:
        assert sentence in said
        assert sentence in table
    again = round_from_dict(json.loads(json.dumps(one.to_dict())))
    assert sa.conditions(again) == wanted


@pytest.mark.parametrize("name", EVERY)
def test_a_round_alone_is_answered_as_by_the_accountant(name: str) -> None:
    """The same road: equal to the last bit, both ends."""
    one = EVERY[name][0]
    assert one.epsilon(delta=1e-3).ends() == sa.epsilon(one, delta=1e-3).ends()
    assert one.delta(epsilon=0.1).ends() == sa.delta(one, epsilon=0.1).ends()


PERSISTENT = sa.Shuffler(exposure=1e-3, persistent=True)


@pytest.mark.parametrize("name", [*EVERY, "persistent shuffler"])
def test_published_bounds_are_above_it_or_say_why_not(name: str) -> None:
    """Sound bounds of three rounds together.

    A stronger reduction is about a pair of its own, which no other bound is about.
    """
    persistent = sa.ShuffleRound(RESPONSE, users=50, shuffler=PERSISTENT)
    one = persistent if name not in EVERY else EVERY[name][0]
    rows = sa.compare(one, delta=1e-3, rounds=3)
    lower = rows[0].lower
    assert lower is not None
    for row in rows:
        if row.epsilon is None:
            assert row.condition
            assert "\n" not in row.condition
        elif row.sound and name not in ("strong", "tail"):
            assert row.epsilon >= lower, row
    (renyi,) = (row for row in rows if (row.name, row.form) == ("rdp", "same pair"))
    refused = ("infinite with some probability", "variant='tail'", "persistent shuffler")
    assert renyi.epsilon is not None or (renyi.condition or "").endswith(refused)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("count", [1, 3])
def test_laws_of_one_question_answer_the_next_ones(name: str, count: int) -> None:
    """Brackets at several epsilons from a few laws meet those of a law each, which share no tilt.

    Rounds for which the two routes are of different pairs (with an upper end from elsewhere) are
    bounded by both.
    """
    rounds, laws = [(EVERY[name][0], count)], dict[Any, Any]()
    try:
        usual = min(sa.epsilon(rounds, delta=1e-3).upper, 0.8)
    except ValueError as refused:
        pytest.skip(str(refused))  # rounds that are not composed
    for share in (1.5, 1.0, 0.5, 0.0, 1.2):
        epsilon = share * usual
        found, _ = certified_at(rounds, 1e-3, epsilon=epsilon, laws=laws)
        alone, _ = certified_at(rounds, 1e-3, epsilon=epsilon)
        # deltas below 1e-200 are told from 0 by neither
        assert found.lower <= alone.upper + 1e-200
        assert alone.lower <= found.upper + 1e-200
        if alone.upper > 1e-12:
            # both are as wide as the tolerance, which is one of epsilon, allows
            assert found.upper <= 1.05 * alone.upper
    assert len(laws) <= 8


def test_laws_are_kept_where_memory_allows() -> None:
    rounds = [(sa.ShuffleRound(GENERAL, users=1000), 30)]
    for limit, kept in ((2**20, 0), (2**30, 2)):
        laws = dict[Any, Any]()
        found, _ = certified(rounds, Query(epsilon=0.3, laws=laws), 1e-3, limit)
        again, _ = certified(rounds, Query(epsilon=0.3, laws=laws), 1e-3, limit)
        assert len(laws) == kept
        assert found.lower <= again.upper
        assert again.lower <= found.upper


@pytest.mark.parametrize("name", EVERY)
def test_a_bracket_names_the_way_that_answered(name: str) -> None:
    one = EVERY[name][0]
    ways = {*(way.value for way in Way), "binomial", "doubling", "table", "grid", "exact"}
    assert one.delta(epsilon=0.1).ledger.method in ways
    assert one.epsilon(delta=1e-3).ledger.method in ways
    assert sa.epsilon(one, delta=1e-3, rounds=3).ledger.method == "grid"


def test_several_rounds_say_each_sentence_once() -> None:
    rounds = [SHUFFLED["sampled"][0], SHUFFLED["participation"][0], SHUFFLED["of general"][0]]
    protocol = sa.Protocol([(one, 2) for one in rounds])
    found = sa.conditions(protocol)
    assert set(found) == {sentence for one in rounds for sentence in sa.conditions(one)}
    assert len(found) == len(set(found))
    assert sa.epsilon(protocol, delta=1e-4).conditions == found
    # sizes are no sentences of their own
    many = sa.Protocol([(sa.ShuffleRound(GENERAL, users=n), 1) for n in range(100, 600)])
    assert sa.conditions(many) == sa.conditions(rounds[2])


def test_of_nothing_nothing_is_said() -> None:
    assert sa.conditions(sa.Protocol()) == ()
    assert sa.epsilon(sa.Protocol(), delta=0.1).conditions == ()
    assert sa.Bracket(lower=0.0, upper=1.0, reduction="none").conditions == ()
    with pytest.raises(TypeError, match="protocol_or_round must be a round, a Protocol"):
        sa.conditions("round")  # type: ignore[arg-type]


TYPED = {
    "--eps0 1 --users 50": SHUFFLED["of general"][0],
    "--eps0 1 --users 50 --categories 4": SHUFFLED["of randomized-response"][0],
    "--eps0 1 --users 50 --categories 4 --participation 0.5": SHUFFLED["participation"][0],
    "--eps0 1 --users 50 --categories 4 --population 250": SHUFFLED["sampled"][0],
    "--eps0 1 --users 50 --categories 4 --colluding 10": SHUFFLED["colluding"][0],
    "--eps0 1 --users 40 --categories 4 --others 2:10": SHUFFLED["others"][0],
    "--eps0 1 --users 50 --interactive": SHUFFLED["interactive"][0],
}


@pytest.mark.parametrize("command", ["epsilon", "delta", "report", "statement"])
@pytest.mark.parametrize("typed", TYPED)
def test_the_command_line_carries_the_same(command: str, typed: str, capsys: Any) -> None:
    wanted = list(sa.conditions(TYPED[typed]))
    asked = ["--epsilon", "0.5"] if command == "delta" else ["--delta", "1e-4"]
    assert main([command, *typed.split(), *asked, "--json"]) in (0, None)
    answer = json.loads(capsys.readouterr().out)
    assert answer["conditions"] == wanted
    assert main([command, *typed.split(), *asked]) in (0, None)
    printed = " ".join(capsys.readouterr().out.split())
    for sentence in wanted:
        assert sentence in printed


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.filterwarnings("ignore")  # of wide brackets and large deltas, the same for all
def test_the_command_line_takes_every_round_from_a_file(
    name: str, tmp_path: Path, capsys: Any
) -> None:
    one, _ = EVERY[name]
    file = tmp_path / "protocol.json"
    file.write_text(json.dumps(sa.Protocol([(one, 1)]).to_dict()), encoding="utf-8")
    asked = ["delta", "--protocol", str(file), "--epsilon", "0.7", "--json"]
    assert main(asked) in (0, None)
    found = json.loads(capsys.readouterr().out)
    wanted = sa.delta(one, epsilon=0.7)
    assert (found["lower"], found["upper"]) == (wanted.lower, wanted.upper)
    assert found["conditions"] == list(sa.conditions(one))


def test_the_explorer_carries_the_same() -> None:
    chosen = Deployment(
        users=500, rounds=2, eps0=1.5, delta=1e-5, categories=8, randomizer="local-hashing"
    )
    assert epsilon_of(chosen).conditions == sa.conditions(chosen.protocol)
    assert any("Hash functions" in one for one in epsilon_of(chosen).conditions)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.filterwarnings("ignore")  # of wide brackets and large deltas, the same for all
def test_methods_are_their_functions_bit_for_bit(name: str) -> None:
    """Of the round, of an accountant that has recorded it, and of the functions."""
    one, _ = EVERY[name]
    epsilons = (0.0, 0.7)
    delta = 1e-3
    accountant = sa.FourierAccountant().compose(one)
    told = [sa.epsilon(one, delta=delta), one.epsilon(delta=delta), accountant.epsilon(delta=delta)]
    assert {repr(found.to_dict()) for found in told} == {repr(told[0].to_dict())}
    profile = accountant.profile(epsilons)
    for i, epsilon in enumerate(epsilons):
        told = [sa.delta(one, epsilon=epsilon), one.delta(epsilon=epsilon)]
        told.append(accountant.delta(epsilon=epsilon))
        assert {repr(found.to_dict()) for found in told} == {repr(told[0].to_dict())}
        assert (profile.lower[i], profile.upper[i]) == (told[0].lower, told[0].upper)
    assert sa.conditions(one) == accountant.protocol.conditions
