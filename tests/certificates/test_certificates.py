"""Certificates are proven, close to the brackets, and no altered one is."""

from __future__ import annotations

import ast
import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flint", reason="python-flint is the extra 'verify'")

from flint import arb

import shuffle_accountant as sa
from shuffle_accountant.certificates import Certificate, certify, making, verify
from shuffle_accountant.certificates import verification as checking
from shuffle_accountant.certificates.balls import UndecidedError, working_precision
from shuffle_accountant.certificates.composition import GridLaw

ROOT = Path(sa.__file__).parent


def clones(eps0: float = 2.0, users: int = 1000, **others: Any) -> sa.ShuffleRound:
    return sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=users, **others)


RESPONSE = sa.RandomizedResponse(categories=10, eps0=2.0)
GAUSSIAN = sa.GaussianMechanism(noise_multiplier=1.0)
LOSSES = np.linspace(-0.5, 0.5, 11)
MASSES = np.exp(0.5 * LOSSES) / np.exp(0.5 * LOSSES).sum() * (1.0 - 1e-9)
TABLE = sa.LossTable(LOSSES, MASSES, infinity_mass=1e-9)
# Two losses whose masses under both laws add up to one.
LOW = (1.0 - np.exp(-0.25)) / (np.exp(0.5) - np.exp(-0.25))
REMOVE = sa.LossTable([-0.5, 0.25], [LOW, 1.0 - LOW])
ADD = sa.LossTable([-0.25, 0.5], [(1.0 - LOW) * np.exp(-0.25), LOW * np.exp(0.5)])
MATRIX = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]]

PROTOCOLS = {
    "clones": [(clones(), 4)],
    "one round": [(clones(eps0=3.0, users=10_000), 1)],
    "a thousand": [(clones(eps0=3.0, users=10_000), 1000)],
    "interactive": [(sa.ShuffleRound(sa.GeneralRandomizer(1.0, interactive=True), users=500), 10)],
    "subsampled": [(clones(population=20_000), 50)],
    "few users": [(clones(users=10), 2)],
    "two values": [(sa.ShuffleRound(sa.BinaryRandomizedResponse(eps0=1.0), users=400), 5)],
    "strong": [(sa.ShuffleRound(RESPONSE, users=2000, reduction="strong"), 5)],
    "strong, paper": [
        (sa.ShuffleRound(RESPONSE, users=2000, reduction="strong", variant="paper"), 5)
    ],
    "by clones": [(sa.ShuffleRound(RESPONSE, users=2000, reduction="clones"), 5)],
    "two rounds": [(clones(), 3), (clones(eps0=1.0), 20)],
    "gaussian allocation": [
        (sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=2.0), steps=4), 4)
    ],
    "part of an epoch": [(sa.RandomAllocation(GAUSSIAN, steps=12, released=3), 1)],
    "pure allocation": [
        (sa.RandomAllocation(sa.PureMechanism(epsilon=1.0), steps=20, selected=3, passes=2), 2)
    ],
    "one step": [(sa.RandomAllocation(GAUSSIAN, steps=1), 5)],
    "bounded losses": [(sa.RandomAllocation(sa.PureMechanism(epsilon=1.25), steps=4), 6)],
    "one user": [(clones(eps0=0.3, users=1, population=40), 1)],
    "far apart": [
        (sa.ShuffleRound(RESPONSE, users=500, reduction="strong", variant="paper"), 3),
        (sa.ShuffleRound(sa.GeneralRandomizer(6.0, interactive=True), users=1400), 12),
    ],
    "table": [(sa.PldRound.from_tables(TABLE), 3)],
    "two tables": [(sa.PldRound.from_tables(REMOVE, ADD), 3)],
    "no rounds": [],
    "threshold": [(sa.SampleAndThreshold(probability=0.1, threshold=10), 2)],
    "threshold, replaced": [
        (
            sa.SampleAndThreshold(probability=0.1, threshold=8, adjacency=sa.Adjacency.REPLACE_ONE),
            1,
        )
    ],
    "exposed": [(clones(users=1000, shuffler=sa.Shuffler(exposure=1e-7)), 3)],
    "exposed alone": [
        (
            sa.ShuffleRound(
                RESPONSE, users=12, shuffler=sa.Shuffler(exposure=1e-3, everyone=False)
            ),
            2,
        )
    ],
    "all exposed": [(sa.ShuffleRound(RESPONSE, users=12, shuffler=sa.Shuffler(exposure=0.1)), 1)],
    "several messages": [(clones(users=1000, messages_per_user=3), 2)],
    "several of all": [(clones(users=1000, messages_per_user=3, messages=4000), 1)],
    # few messages are listed, many are added up
    "response": [(sa.ShuffleRound(RESPONSE, users=20), 10)],
    "a matrix": [(sa.ShuffleRound(sa.DiscreteRandomizer(MATRIX), users=12), 3)],
    "hadamard": [(sa.ShuffleRound(sa.HadamardResponse(categories=10, eps0=4.0), users=10), 10)],
    "rappor": [(sa.ShuffleRound(sa.RAPPOR(categories=10, eps0=2.0), users=10), 3)],
    "hashing": [(sa.ShuffleRound(sa.LocalHashing(categories=10, eps0=2.0), users=10), 3)],
    "subsets": [(sa.ShuffleRound(sa.SubsetSelection(categories=10, eps0=1.0), users=10), 3)],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "rounds",
    [
        *(pytest.param(rounds, id=name) for name, rounds in PROTOCOLS.items()),
    ],
)
def test_a_claim_is_proven_and_at_most_a_hundredth_above_the_bracket(rounds):
    protocol = sa.Protocol(rounds)
    accountant = sa.FourierAccountant().compose(protocol)
    bracket = accountant.epsilon(delta=1e-6)
    made = certify(protocol, delta=1e-6)
    found = verify(Certificate.from_json(made.to_json()))
    assert found.verified, found.reason
    assert found.reason == "verified"
    assert made.delta == 1e-6
    assert accountant.delta(epsilon=made.epsilon).lower <= found.delta <= 1e-6
    # a proven claim below the certified lower end would be a contradiction
    assert bracket.lower <= made.epsilon <= 1.01 * bracket.upper


@pytest.mark.slow
def test_claims_of_many_messages(monkeypatch):
    """Sums on grids, as of a crowd too large to list its messages."""
    monkeypatch.setattr("shuffle_accountant.certificates.letters._MOST", 0)
    test_a_claim_is_proven_and_at_most_a_hundredth_above_the_bracket(
        [(sa.ShuffleRound(RESPONSE, users=16), 1)]
    )


def test_delta_at_epsilon():
    accountant = sa.FourierAccountant().compose(clones(), count=4)
    made = accountant.certificate(epsilon=0.5)
    assert made.epsilon == 0.5
    assert accountant.delta(epsilon=0.5).lower <= made.delta
    assert verify(made).verified
    # what is one percent of epsilon in delta
    assert made.delta <= accountant.delta(epsilon=0.495).upper
    few = sa.Protocol([(sa.ShuffleRound(sa.HadamardResponse(categories=10, eps0=4.0), users=8), 2)])
    made = certify(few, epsilon=5.0)
    assert verify(made).verified
    assert made.delta <= sa.delta(few, epsilon=4.95).upper


def test_small_deltas():
    made = certify(sa.Protocol([(clones(users=100), 10)]), delta=1e-40)
    assert verify(made).verified
    upper = sa.epsilon(clones(users=100), rounds=10, delta=1e-40).upper
    assert made.epsilon <= 1.01 * upper


# What follows changes a certificate and computes its digest anew.


@pytest.fixture(scope="module")
def sampled() -> dict[str, Any]:
    return certify(sa.Protocol([(clones(population=20_000), 50)]), delta=1e-6).content


@pytest.fixture(scope="module")
def allocated() -> dict[str, Any]:
    mechanism = sa.GaussianMechanism(noise_multiplier=2.0)
    one = sa.RandomAllocation(mechanism, steps=3, released=1)
    return certify(sa.Protocol([(one, 2)]), delta=1e-6).content


def leaves(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all numbers, texts, truth values and nulls."""
    if isinstance(node, dict):
        return [leaf for name in node for leaf in leaves(node[name], (*path, name))]
    if isinstance(node, list):
        return [leaf for i, _ in enumerate(node) for leaf in leaves(node[i], (*path, i))]
    return [path]


def at(content: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        content = content[step]
    return content


def altered(content: dict[str, Any], path: tuple[Any, ...], value: Any) -> bool:
    """Whether the certificate is proven with another value there, and a digest to match."""
    changed = copy.deepcopy(content)
    at(changed, path[:-1])[path[-1]] = value
    try:
        return verify(Certificate.from_content(changed)).verified
    except (ValueError, TypeError):
        return False


def neighbours(value: Any) -> list[tuple[str, Any]]:
    """Changes of a value, upwards and downwards."""
    if isinstance(value, bool):
        return [("other", not value)]
    if isinstance(value, int):
        return [("up", value + 1), ("down", value - 1)]
    if isinstance(value, float):
        return [("up", value * 1.001), ("down", value * 0.999)]
    if value is None:
        return [("other", 1), ("other", "exact"), ("other", 10**6)]
    return [("other", "another"), ("other", None)]


SMALL = sa.RandomizedResponse(categories=3, eps0=1.0)
NOISY = sa.GaussianMechanism(noise_multiplier=3.0)
# Every kind that can be certified, so small that a check takes milliseconds.
KINDS = {
    "clones": clones(eps0=1.0, users=8),
    "interactive": sa.ShuffleRound(sa.GeneralRandomizer(1.0, interactive=True), users=8),
    "subsampled": clones(eps0=1.0, users=8, population=20),
    "two values": sa.ShuffleRound(sa.BinaryRandomizedResponse(eps0=1.0), users=8),
    "strong": sa.ShuffleRound(SMALL, users=60, reduction="strong"),
    "strong, paper": sa.ShuffleRound(SMALL, users=60, reduction="strong", variant="paper"),
    "by clones": sa.ShuffleRound(SMALL, users=8, reduction="clones"),
    "response": sa.ShuffleRound(SMALL, users=3),
    "a matrix": sa.ShuffleRound(sa.DiscreteRandomizer(MATRIX), users=2),
    "hadamard": sa.ShuffleRound(sa.HadamardResponse(categories=3, eps0=1.0), users=2),
    "rappor": sa.ShuffleRound(sa.RAPPOR(categories=3, eps0=1.0), users=2),
    "hashing": sa.ShuffleRound(sa.LocalHashing(categories=3, eps0=1.0), users=2),
    "subsets": sa.ShuffleRound(sa.SubsetSelection(categories=5, eps0=1.0), users=2),
    "one step of some": sa.RandomAllocation(NOISY, steps=3, released=1),
    "steps": sa.RandomAllocation(NOISY, steps=2),
    "pure steps": sa.RandomAllocation(sa.PureMechanism(epsilon=1.0), steps=2, passes=2),
    "pure blocks": sa.RandomAllocation(sa.PureMechanism(epsilon=1.0), steps=3, selected=2),
    "table": sa.PldRound.from_tables(TABLE),
    "two tables": sa.PldRound.from_tables(REMOVE, ADD),
    "threshold": sa.SampleAndThreshold(probability=0.25, threshold=6),
    "threshold, replaced": sa.SampleAndThreshold(
        probability=0.25, threshold=6, adjacency=sa.Adjacency.REPLACE_ONE
    ),
    "exposed": clones(eps0=1.0, users=8, shuffler=sa.Shuffler(exposure=0.01)),
    "exposed alone": sa.ShuffleRound(
        SMALL, users=3, shuffler=sa.Shuffler(exposure=0.01, everyone=False)
    ),
    "several messages": clones(eps0=1.0, users=8, messages_per_user=2),
    "several of all": clones(eps0=1.0, users=8, messages_per_user=2, messages=20),
    "one of all": clones(eps0=1.0, users=8, messages=20),
}
# Changes that leave what is said as true, and as proven: a weaker claim, and grids of sums that
# nobody has to believe in.
WEAKER = {
    ("claim", "epsilon", "up"),
    ("claim", "delta", "up"),
    ("grid", "cells", "up"),
    ("grid", "cells", "down"),
}


LONGER = ("one step of some", "steps")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] * (k in LONGER)) for k in KINDS]
)
def test_every_field_that_is_altered_is_noticed(kind: str) -> None:
    """Or the file says something else that is true: of a deployment that loses no more."""
    content = certify(sa.Protocol([(KINDS[kind], 3)]), delta=1e-3).content
    assert verify(Certificate.from_content(content)).verified
    tried = 0
    for path in leaves(content):
        if path == ("digest",):
            continue
        if kind == "steps" and path[0] in {"grid", "protocol"}:
            continue  # each takes three attempts at sums, which those of "pure steps" do not need
        if "masses" in path and path[-1] not in {0, len(at(content, path[:-1])) // 2}:
            continue  # two masses of each law are enough
        names = tuple(step for step in path if isinstance(step, str))
        held = at(content, path)
        ways = neighbours(held)
        if names == ("grid", "numerator"):  # rounds whose profiles are bounded have some room
            ways = [("up", held * 102 // 100), ("down", held * 98 // 100)]
        for way, value in ways:
            if (*names, way) in WEAKER:
                continue
            if names[-1] == "first" and way == "up" and "backward" in content["witnesses"][0]:
                continue  # the smaller of both orders has room for larger losses
            tried += 1
            if altered(content, path, value):
                assert path[0] == "protocol", (path, way)
                changed = copy.deepcopy(content)
                at(changed, path[:-1])[path[-1]] = value
                accountant = sa.FourierAccountant()
                accountant.compose(sa.Protocol.from_dict(changed["protocol"]))
                lower = accountant.epsilon(delta=content["claim"]["delta"]).lower
                assert lower <= content["claim"]["epsilon"], (path, way)
    assert tried > (8 if kind == "steps" else 20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sampled", "allocated"])
def test_a_weaker_claim_is_proven_too(kind, request):
    content = request.getfixturevalue(kind)
    assert altered(content, ("claim", "epsilon"), content["claim"]["epsilon"] * 1.001)
    assert altered(content, ("claim", "delta"), content["claim"]["delta"] * 1.001)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sampled", "allocated"])
@pytest.mark.parametrize("order", ["forward", "backward"])
def test_mass_that_is_moved_is_noticed(kind, order, request):
    """The sum stays one; the mass goes to a smaller loss, or a larger one."""
    content = request.getfixturevalue(kind)
    if order not in content["witnesses"][0]:
        pytest.skip("a symmetric pair has one order")
    law = content["witnesses"][0][order]
    held = [i for i, mass in enumerate(law["masses"]) if mass]
    likely = max(held, key=lambda i: law["masses"][i])
    share = law["masses"][likely] // 50
    # the smaller of both orders' deltas has room for a larger loss
    for to in (likely - 8, likely + 8)[: 1 if order == "backward" else 2]:
        masses = list(law["masses"])
        masses[likely] -= share
        masses[to] += share
        assert not altered(content, ("witnesses", 0, order, "masses"), masses)
    masses = list(law["masses"])
    masses[0] += law["infinite"]
    smaller = {"first": law["first"], "masses": masses, "infinite": 0}
    assert not altered(content, ("witnesses", 0, order), smaller)


def test_fields_that_are_added_or_missing_are_noticed(sampled):
    for path in ((), ("grid",), ("witnesses", 0), ("witnesses", 0, "forward"), ("protocol",)):
        for name in ("further", *at(sampled, path)):
            changed = copy.deepcopy(sampled)
            node = at(changed, path)
            if name in node:
                del node[name]
            else:
                node[name] = 1
            changed["digest"] = ""
            try:
                proven = verify(Certificate.from_content(changed)).verified
            except ValueError:
                continue
            assert not proven or (path, name) == ((), "digest"), (path, name)


def test_a_wrong_digest_is_noticed(sampled):
    for path in (("claim", "delta"), ("grid", "cells"), ("digest",)):
        changed = copy.deepcopy(sampled)
        value = at(changed, path)
        other = value[:-1] + "0f"[value[-1] == "0"] if isinstance(value, str) else value * 2
        at(changed, path[:-1])[path[-1]] = other
        found = verify(Certificate.from_json(json.dumps(changed)))
        assert not found.verified
        assert "digest" in found.reason


def test_the_digest_is_of_the_content_not_of_its_form(sampled):
    shuffled = dict(reversed(sampled.items()))
    assert verify(Certificate.from_json(json.dumps(shuffled, indent=2))).verified


def test_what_failed_is_said(sampled):
    def reason(path: tuple[Any, ...], value: Any) -> str:
        changed = copy.deepcopy(sampled)
        at(changed, path[:-1])[path[-1]] = value
        return verify(Certificate.from_content(changed)).reason

    claim = sampled["claim"]["epsilon"]
    assert "compose to delta" in reason(("claim", "epsilon"), 0.99 * claim)
    assert "add up to one" in reason(("witnesses", 0, "forward", "infinite"), 0)
    users = ("protocol", "rounds", 0, "round", "users")
    assert "below the exact profile" in reason(users, 1100)
    assert "theorem" in reason(("witnesses", 0, "theorem"), "clones")
    assert "count" in reason(("witnesses", 0, "count"), 49)
    assert "adjacency" in reason(("adjacency",), "zero-out")


def test_what_does_not_fit_the_protocol_is_said(sampled):
    def reason(changed: dict[str, Any]) -> str:
        return verify(Certificate.from_content(changed)).reason

    changed = copy.deepcopy(sampled)
    changed["witnesses"] *= 2
    assert reason(changed) == "witnesses must be a list of 1"
    changed = copy.deepcopy(sampled)
    changed["witnesses"][0]["backward"] = changed["witnesses"][0]["forward"]
    assert reason(changed) == "witness 0 must have fields count, forward, theorem"


@pytest.mark.parametrize(
    ("weight", "height", "definite", "error", "match"),
    [
        ("1.5", "0.5", True, checking._Refuted, "Q-masses of it add up to more than one"),
        ("1 +/- 0.1", "0.5", True, UndecidedError, "whether the Q-masses of it add up"),
        ("1", "0.25", True, checking._Refuted, "^it is below the exact profile at loss 1 h"),
        ("1", "0.25", False, UndecidedError, "^whether it is below the exact profile"),
        ("1", "0.3 +/- 0.05", True, UndecidedError, "^whether it is below the exact profile"),
    ],
)
def test_what_refutes_a_witness_and_what_is_undecided(weight, height, definite, error, match):
    """Against a profile that is 0.3 everywhere."""
    grid = checking.Grid(1, 6, 60, 64)
    law = SimpleNamespace(first=1, masses=[0], profile=lambda spacing: ([arb(height)], arb(weight)))
    profile: Any = SimpleNamespace(
        values=lambda alphas, effort: [arb("0.3") for _ in alphas],
        definite=lambda effort: definite,
    )
    with pytest.raises(error, match=match):
        checking._dominates("it", law, profile, grid, grid.effort(0))  # type: ignore[arg-type]


def test_profiles_that_no_law_follows():
    """Q-masses of two in all, and a ball of delta that is wider than the profile is high."""
    grid = checking.Grid(1, 6, 60, 64)
    with working_precision(200):
        unit = 1 << 184
        with pytest.raises(ValueError, match="could not be followed at this precision"):
            making._masses([(0, 2 * unit), (unit, 0)], [0, unit], 0, grid)
        law = GridLaw(0, (1 << 59, *[0] * 63, 1 << 59), 0, 60)  # delta is 0.32 at 0, 0 at one nat
        with pytest.raises(UndecidedError, match="where the profile passes delta"):
            making._epsilon(law, arb("50 +/- 49.9"), grid.spacing)


def test_what_a_ball_cannot_decide_is_tried_again(sampled, monkeypatch):
    tried = []
    attempt = checking._attempt

    def undecided_once(content: dict[str, Any], number: int) -> checking.Verification:
        tried.append(number)
        if not number:
            raise checking.UndecidedError("a case")
        return attempt(content, number)

    monkeypatch.setattr(checking, "_attempt", undecided_once)
    assert verify(Certificate.from_content(sampled)).verified
    assert tried == [0, 1]

    def undecided(content: dict[str, Any], number: int) -> checking.Verification:
        raise checking.UndecidedError("a case")

    monkeypatch.setattr(checking, "_attempt", undecided)
    found = verify(Certificate.from_content(sampled))
    assert not found.verified
    assert found.reason == "not decided at this precision: a case"


@pytest.mark.slow
def test_a_witness_just_below_the_exact_profile_is_refused():
    """The witness of one user more does not do for a crowd of one user less."""
    content = certify(sa.Protocol([(clones(users=10_000), 1)]), delta=1e-6).content
    users = ("protocol", "rounds", 0, "round", "users")
    assert altered(content, users, 10_001)
    assert not altered(content, users, 9_999)


@pytest.mark.parametrize(
    ("rounds", "kind"),
    [
        ([(sa.ShuffledBatches(noise_multiplier=1.0, steps=10), 1)], "shuffled batches|round"),
        ([(sa.ShuffleRound(sa.LaplaceRandomizer(eps0=1.0), users=10), 1)], "laplace"),
        ([(sa.RandomAllocation(sa.LaplaceMechanism(scale=1.0), steps=10), 1)], "laplace"),
        (
            [
                (
                    sa.RandomAllocation(
                        sa.GaussianMechanism(noise_multiplier=0.12), steps=2, passes=2
                    ),
                    1,
                )
            ],
            "^noise_multiplier must be at least 0.1 times the root of passes",
        ),
        (
            [(sa.ShuffleRound(RESPONSE, users=10, reduction="strong", variant="tail"), 1)],
            "tail",
        ),
        *(
            ([(sa.ShuffleRound(RESPONSE, users=10, shuffler=leak), 1)], name)
            for name, leak in {
                "persistent": sa.Shuffler(exposure=0.1, persistent=True),
                "weights": sa.Shuffler(weights=[0.1] * 10),
                "batches": sa.Shuffler(batches=[5, 5], random_batches=True),
                "minimum_batch": sa.Shuffler(minimum_batch=5),
            }.items()
        ),
        (
            [
                (
                    sa.MemoisedRounds(
                        permanent=sa.BinaryRandomizedResponse(eps0=2.0),
                        instantaneous=sa.BinaryRandomizedResponse(eps0=1.0),
                        users=9,
                        rounds=2,
                        same_participants=True,
                    ),
                    1,
                )
            ],
            "memoised",
        ),
        ([(sa.MatrixMechanism(tree=True, noise_multiplier=1.0, bins=4), 1)], "matrix"),
        ([(sa.SampleAndThreshold(probability=0.5, threshold=501), 1)], "threshold"),
    ],
)
def test_what_is_not_covered_is_refused_in_one_line(rounds, kind):
    with pytest.raises(ValueError, match=kind) as caught:
        certify(sa.Protocol(rounds), delta=1e-6)
    assert "\n" not in str(caught.value)


def test_no_finite_epsilon_is_refused():
    leaky = sa.PldRound.from_tables(sa.LossTable([0.0], [0.5], infinity_mass=0.5))
    with pytest.raises(ValueError, match=r"^delta must have a finite epsilon"):
        certify(sa.Protocol([(leaky, 1)]), delta=1e-6)


@pytest.mark.parametrize("delta", [0.0, 1.0, float("nan"), "1e-6"])
def test_bad_deltas(delta):
    with pytest.raises((ValueError, TypeError), match=r"^delta must be"):
        sa.FourierAccountant().certificate(delta=delta)


def test_one_question_at_a_time():
    with pytest.raises(ValueError, match=r"^give delta or epsilon"):
        sa.FourierAccountant().certificate()
    with pytest.raises(ValueError, match=r"^give delta or epsilon"):
        sa.FourierAccountant().certificate(delta=1e-6, epsilon=1.0)


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", "{}", "NaN", '{"schema": 1}', "[" * 100_000, '"' + "x" * 10_000 + '"'],
)
def test_texts_that_are_no_certificates(text):
    with pytest.raises(ValueError, match=r"^certificate must be") as caught:
        Certificate.from_json(text)
    assert "\n" not in str(caught.value)
    with pytest.raises(TypeError, match=r"^certificate must be"):
        Certificate.from_json(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^certificate must be"):
        verify(text)  # type: ignore[arg-type]


def test_contents_that_are_no_dictionaries():
    with pytest.raises(TypeError, match=r"^content must be a dictionary, got list$"):
        Certificate.from_content([])  # type: ignore[arg-type]


def test_numbers_that_are_no_doubles(sampled):
    text = Certificate.from_content(sampled).text
    largest = re.sub(r'("epsilon": )[\d.]+', r"\g<1>1e999", text)
    with pytest.raises(ValueError, match=r"1e999 is no double"):
        Certificate.from_json(largest)


def modules_of_the_verifier() -> tuple[set[Path], set[str]]:
    """Files of the package that the verifier imports, however indirectly, and other packages."""
    files, outside = set(), set()
    waiting = [ROOT / "certificates" / "verification.py", ROOT / "certificates" / "__init__.py"]
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files.add(path)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        typing_only = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if node in typing_only:
                continue
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in names:
                parts = name.split(".")
                if parts[0] != "shuffle_accountant":
                    outside.add(parts[0])
                    continue
                inside = ROOT.joinpath(*parts[1:])
                found = [inside.with_suffix(".py"), inside / "__init__.py"]
                found.append(inside.parent.with_suffix(".py"))
                waiting += [one for one in found if one.exists()]
    return files, outside


def test_the_verifier_shares_no_numerical_code_with_the_package():
    files, outside = modules_of_the_verifier()
    names = {path.relative_to(ROOT).as_posix() for path in files}
    assert {name.split("/")[0] for name in names} == {
        "certificates",
        "facades.py",  # names that are loaded late, and what is said about wrong calls
        "validation.py",
    }
    assert "certificates/making.py" not in names
    assert "certificates/binary_target.py" in names
    assert outside - set(sys.stdlib_module_names) == {"flint"}


def test_the_verifier_runs_without_the_package(sampled):
    """Only its own folder is on the path, and NumPy is never loaded."""
    code = f"""
import sys, types
package = types.ModuleType("shuffle_accountant")
package.__path__ = [{str(ROOT)!r}]
sys.modules["shuffle_accountant"] = package
from shuffle_accountant.certificates import Certificate, verify
found = verify(Certificate.from_json(sys.stdin.read()))
assert not {{"numpy", "scipy", "shuffle_accountant.engine"}} & set(sys.modules)
print(found.reason)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(sampled),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "verified"
