"""One round through the public API: exact to round-off, for n = 1 and for n = 1e12.

The truth comes from the oracles (50 digits, no shared code), from the reference file and, for
n >= 1e6, from printed brackets that were computed by other code.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import pytest
from oracles import clones, enumeration, one_round
from oracles.containment import (
    assert_contains,
    assert_narrow,
    assert_ordered,
    assert_overlaps,
)
from oracles.precision import MP, exact
from oracles.references import REFERENCES

import shuffle_accountant as sa
from shuffle_accountant.engine import single
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.single import single_answer
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import CellEdges, Effort, SymmetricLoss
from shuffle_accountant.numerics.rounding import Bound

ONE_ROUND = [e for e in REFERENCES if e["kind"] == "clones" and e["rounds"] == 1]

# A single round is a finite sum in doubles; if its ends do not carry the last bits of round-off
# they may miss the truth by a few units of 2e-16 times the condition number (below 1e3 here).
ROUND_OFF = 1e-12

# "Exact to round-off", with room for an honest a-priori round-off bound.
NARROW = 1e-9


def make_round(
    eps0: float, users: int, *, interactive: bool = False, population: int | None = None
) -> sa.ShuffleRound:
    """A round of the general randomizer."""
    randomizer = sa.GeneralRandomizer(eps0=eps0, interactive=interactive)
    return sa.ShuffleRound(randomizer, users=users, population=population)


# -------------------------------------------------------------------------------------- references


@pytest.mark.parametrize("entry", ONE_ROUND, ids=lambda e: f"{e['users']}-{e['query']}")
def test_reference(entry: dict[str, Any]) -> None:
    one = make_round(entry["eps0"], entry["users"], population=entry.get("population"))
    if entry["query"] == "delta":
        bracket = one.delta(epsilon=entry["epsilon"])
    else:
        bracket = one.epsilon(delta=entry["delta"])
    assert_contains(bracket, entry["value"], rtol=entry["rtol"])
    assert_narrow(bracket, NARROW)


# ----------------------------------------------------------------------------- enumerated, n <= 12


@pytest.mark.parametrize("interactive", [False, True])
@pytest.mark.parametrize("users", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("eps0", [0.01, 0.5, 1.0, 4.0, 20.0])
def test_delta_is_the_enumerated_one(eps0: float, users: int, interactive: bool) -> None:
    atoms = clones.pair(eps0, users, interactive)
    one = make_round(eps0, users, interactive=interactive)
    for fraction in (0.0, 0.1, 0.5, 0.9):
        bracket = one.delta(epsilon=fraction * eps0)
        assert_contains(bracket, clones.delta(atoms, fraction * eps0), rtol=ROUND_OFF)
        assert_narrow(bracket, NARROW)


@pytest.mark.slow
@pytest.mark.parametrize("interactive", [False, True])
@pytest.mark.parametrize("users", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("eps0", [0.5, 1.0, 4.0, 20.0])
def test_epsilon_is_the_enumerated_one(eps0: float, users: int, interactive: bool) -> None:
    atoms = clones.pair(eps0, users, interactive)
    one = make_round(eps0, users, interactive=interactive)
    for delta in (0.3, 1e-2, 1e-6, 1e-12):
        truth = clones.epsilon(atoms, delta)
        bracket = one.epsilon(delta=delta)
        assert_contains(bracket, truth, rtol=ROUND_OFF)
        if truth > 0:
            assert_narrow(bracket, NARROW)
        else:  # delta is above the total variation
            assert bracket.upper <= NARROW


@pytest.mark.parametrize(
    ("users", "population"), [(1, 3), (3, 4), (7, 1000), (10, 40), (12, 10**9), (12, 12)]
)
@pytest.mark.parametrize("interactive", [False, True])
def test_subsampled_is_the_enumerated_one(users: int, population: int, interactive: bool) -> None:
    """The explicit pair; at population = users it is the round without sampling."""
    atoms = clones.subsampled(clones.pair(1.5, users, interactive), users, population)
    one = make_round(1.5, users, interactive=interactive, population=population)
    largest_loss = clones.epsilon(atoms, exact("1e-60"))
    for fraction in (0.0, 0.1, 0.5, 0.9):
        epsilon = float(fraction * largest_loss)
        truth = clones.delta(atoms, epsilon)
        bracket = one.delta(epsilon=epsilon)
        # Losses are as small as 1e-8 here, so one rounding of e^epsilon may move delta by 1e-8 of
        # itself; a careful sum keeps it, an honest bracket shows it.
        assert_contains(bracket, truth, rtol=ROUND_OFF)
        assert_narrow(bracket, 1e-6)
    for delta in (1e-2, 1e-6):
        assert_contains(one.epsilon(delta=delta), clones.epsilon(atoms, delta), rtol=ROUND_OFF)


def test_no_loss_exceeds_eps0() -> None:
    """delta is zero from eps0 on, and stays a bracket."""
    one = make_round(1.0, 9)
    for epsilon in (1.0 + 1e-9, 2.0, 50.0, 1000.0):
        bracket = one.delta(epsilon=epsilon)
        assert bracket.lower == 0.0
        # The largest loss is eps0 up to round-off; its whole mass is below 1.
        assert bracket.upper <= ROUND_OFF


# ----------------------------------------------------------------------------------- thousands


@pytest.mark.parametrize(
    "epsilon",
    [0.1, 0.1 + 27 / 59, 1.0, 2.0, 3.0],  # delta from 9e-3 down to 9.7e-71
)
@pytest.mark.parametrize("interactive", [False, True])
def test_ten_thousand_users(epsilon: float, interactive: bool) -> None:
    bracket = make_round(4.0, 10_000, interactive=interactive).delta(epsilon=epsilon)
    truth = one_round.delta(4.0, 10_000, epsilon, interactive)
    # Log-domain masses: log-gammas of 1e4 users are of order 1e5, so an error of 1e-11 per term.
    assert_contains(bracket, truth, rtol=1e-12)
    assert_narrow(bracket, 1e-8)


@pytest.mark.parametrize(("users", "floor"), [(18_500, 1e-150), (38_000, 1e-303)])
def test_relative_accuracy_down_to_1e300(users: int, floor: float) -> None:
    truth = one_round.delta(4.0, users, 3.9)
    assert floor < truth < floor * exact("1e8")  # the case is as small as it should be
    bracket = make_round(4.0, users).delta(epsilon=3.9)
    assert_contains(bracket, truth, rtol=1e-12)
    assert_narrow(bracket, 1e-8)
    back = make_round(4.0, users).epsilon(delta=float(truth))
    # Rounding delta to a double moves epsilon by less than 1e-15 where the curve is this steep.
    assert_contains(back, 3.9, rtol=1e-12)


@pytest.mark.parametrize(
    ("users", "low", "high"),
    [
        (10**6, 0.0450693, 0.0450767),
        (10**8, 0.00399279, 0.00399292),
        (10**10, 0.000342309, 0.000342311),
        (10**12, 2.76788e-5, 2.76794e-5),
    ],
)
def test_large_n_meets_the_printed_bracket(users: int, low: float, high: float) -> None:
    """eps0 = 4, delta = 1e-8: two brackets of one number must meet."""
    bracket = make_round(4.0, users).epsilon(delta=1e-8)
    # The ends are printed with 6 digits: one unit of the last is at most 1e-5 of them.
    assert_overlaps(bracket, low * (1 - 1e-5), high * (1 + 1e-5))
    assert_narrow(bracket, 1e-3)


def test_the_published_curve_of_one_round_is_just_above() -> None:
    """Figure 1, one round: all losses rounded up on a grid, so above the truth by up to 3e-4."""
    one = make_round(4.0, 10_000)
    published = {0.1: 9.2094896e-3, 0.1 + 27 / 59: 1.1937672e-9, 1.0: 1.9233e-21}
    for epsilon, value in published.items():
        bracket = one.delta(epsilon=epsilon)
        # 1.9233e-21 is printed with 5 digits.
        assert value * (1 - 3e-4) <= bracket.lower
        assert bracket.upper <= value * (1 + 3e-5)


# --------------------------------------------------------------------------------- special cases


@pytest.mark.parametrize("eps0", [1e-6, 0.3, 2.0, 50.0])
def test_one_user_gets_local_privacy(eps0: float) -> None:
    """n = 1: epsilon = log((u - delta)/v), which is eps0 up to about delta/u."""
    one = make_round(eps0, 1)
    delta = 1e-9 * eps0
    bracket = one.epsilon(delta=delta)
    assert_contains(bracket, clones.epsilon(clones.pair(eps0, 1), delta), rtol=ROUND_OFF)
    assert bracket.upper <= eps0 * (1 + ROUND_OFF)
    # d eps / d delta is at most (E+1)/E <= 2 near delta = 0: eps0 (1 - 2e-9).
    assert bracket.lower >= eps0 * (1 - 1e-8)


@pytest.mark.parametrize("users", [1, 10, 10**12])
@pytest.mark.parametrize("population", [None, 10**13])
def test_no_local_loss_is_no_loss(users: int, population: int | None) -> None:
    one = make_round(0.0, users, population=population)
    for bracket in (one.epsilon(delta=1e-6), one.delta(epsilon=0.0), one.delta(epsilon=1.0)):
        assert (bracket.lower, bracket.upper) == (0.0, 0.0)


def test_sampling_everyone_is_no_sampling() -> None:
    plain, sampled = make_round(2.0, 50), make_round(2.0, 50, population=50)
    for epsilon in (0.0, 0.5, 1.9):
        a, b = plain.delta(epsilon=epsilon), sampled.delta(epsilon=epsilon)
        assert b.upper == pytest.approx(a.upper, rel=ROUND_OFF)
        assert b.lower == pytest.approx(a.lower, rel=ROUND_OFF)


@pytest.mark.parametrize("users", [1, 100, 10**6, 10**12])
@pytest.mark.parametrize("eps0", [1e-6, 1.0, 50.0])
@pytest.mark.parametrize("delta", [0.5, 1e-8, 1e-100])
def test_corners_are_brackets(eps0: float, users: int, delta: float) -> None:
    bracket = make_round(eps0, users).epsilon(delta=delta)
    assert_ordered(bracket)
    # The loss never exceeds eps0; 1e-3 is the default relative width.
    assert bracket.upper <= eps0 * (1 + 1e-3)


# ---------------------------------------------------------------------------------------- the round


def test_the_answer_is_a_float_that_explains_itself() -> None:
    bracket = make_round(4.0, 1000).epsilon(delta=1e-6)
    assert isinstance(bracket, sa.Bracket)
    assert isinstance(bracket, float)
    assert float(bracket) == bracket.upper
    assert type(bracket + 1) is float
    assert "clones" in bracket.reduction
    assert bracket.ledger is not None


def test_the_reduction_is_the_clones_triple() -> None:
    """(p0, p1, q, n), whatever the letters' order: its divergence is that of the clones pair."""
    for interactive in (False, True):
        reduced = make_round(1.0, 5, interactive=interactive).target_among_decoys()
        rows = [[float(x) for x in row] for row in (reduced.p0, reduced.p1, reduced.q)]
        assert [sum(row) for row in rows] == pytest.approx([1.0] * 3, abs=ROUND_OFF)
        law0, law1 = enumeration.target_among_decoys(*rows, reduced.n)
        atoms = clones.pair(1.0, 5, interactive)
        for epsilon in (-0.4, 0.0, 0.4):
            listed = enumeration.hockey_stick(law0, law1, math.exp(epsilon))
            assert listed == pytest.approx(float(clones.delta(atoms, epsilon)), abs=ROUND_OFF)


def test_rounds_are_values() -> None:
    """Equal rounds are equal and hash alike; they cannot be changed."""
    one, same = make_round(1.0, 10), make_round(1.0, 10)
    assert one == same
    assert hash(one) == hash(same)
    others = [
        make_round(1.5, 10),
        make_round(1.0, 11),
        make_round(1.0, 10, interactive=True),
        make_round(1.0, 10, population=20),
    ]
    assert one not in others
    assert len({one, same, *others}) == 5
    with pytest.raises((AttributeError, TypeError)):
        one.users = 11


def test_naming_the_reduction_changes_nothing() -> None:
    """For the general randomizer "auto" is "clones"."""
    randomizer = sa.GeneralRandomizer(eps0=2.0)
    named = sa.ShuffleRound(randomizer, users=100, reduction="clones").epsilon(delta=1e-6)
    chosen = sa.ShuffleRound(randomizer, users=100, reduction="auto").epsilon(delta=1e-6)
    assert (named.lower, named.upper) == (chosen.lower, chosen.upper)


def test_epsilon_and_delta_are_inverse() -> None:
    """delta at the ends of epsilon's bracket encloses the delta asked for."""
    one = make_round(3.0, 500)
    for delta in (1e-2, 1e-8, 1e-40):
        bracket = one.epsilon(delta=delta)
        # Slope d log delta / d epsilon is below 1e3 here: 1e-12 in epsilon is 1e-9 in delta.
        assert one.delta(epsilon=bracket.upper).lower <= delta * (1 + 1e-9)
        assert one.delta(epsilon=bracket.lower).upper >= delta * (1 - 1e-9)
    assert MP.dps == 50  # nothing above touched the oracles' precision


@pytest.mark.parametrize("eps0", [5e-324, 1e-323, 1e-310])
@pytest.mark.parametrize("population", [None, 2000])
def test_no_positive_delta_is_rounded_to_nothing(eps0: float, population: int | None) -> None:
    """Both inputs can be told apart, if only by less than the smallest double."""
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=1000, population=population)
    for rounds in (1, 3):
        answer = sa.delta(one, epsilon=0.0, rounds=rounds)
        assert answer.lower <= eps0 * rounds
        assert 0.0 < answer.upper <= 1e-300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "users", "epsilon", "before"),
    [
        (0.506, 7, 2.0, (0.16360339132, 0.16362885215)),
        pytest.param(
            *(0.5, 1000, 8.8, (1.01430382512e-12, 1.01738571740e-12)),
            marks=pytest.mark.release,
        ),
        pytest.param(
            *(0.7011, 752011, 0.019555, (9.9514209759e-10, 1.00315064183e-09)),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_noise_whose_ratios_are_far_from_normal(
    sigma: float, users: int, epsilon: float, before: tuple[float, float]
) -> None:
    """Within the tolerance, and in line with brackets that version 0.1.0 made in another way."""
    one = sa.ShuffleRound(sa.GaussianRandomizer(sigma), users=users, reduction="blanket")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sa.delta(one, epsilon=epsilon)
    assert found.lower <= before[1]
    assert before[0] <= found.upper
    assert found.upper - found.lower <= 0.02 * found.upper


# ------------------------------------------------------------------------------------ crossed ends


@dataclass(frozen=True)
class Crossed(SymmetricLoss):
    """The divergence ``e^-epsilon / 2`` with a lower end above the upper one."""

    lower: float
    upper: float
    largest: float = 50.0
    deviation: float = 1.0

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        factor = self.upper if side is Bound.PESSIMISTIC else self.lower
        return 0.5 * factor * math.exp(-epsilon) if epsilon < self.largest else 0.0

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        raise NotImplementedError


@pytest.mark.parametrize("query", [Query(epsilon=1.0), Query(delta=1e-3)])
def test_crossed_ends_are_an_error_here_and_a_wider_answer_elsewhere(query: Query) -> None:
    loss = Crossed(lower=1.01, upper=0.99)
    with pytest.raises(sa.CrossedEndsError, match="internal error, please report it: crossed ends"):
        single_answer(loss, query, 1e-3, 1e-5)
    with pytest.warns(sa.CrossedEndsError):
        found = single_answer(loss, query, 1e-3, 1e-5)
    inside = [0.5 * part * math.exp(-1.0) for part in (0.99, 1.01)]
    if query.delta is not None:
        inside = [math.log(500.0 * part) for part in (0.99, 1.01)]
    # both ends of epsilon are located to 1e-5 of the resolution
    assert found.lower == pytest.approx(inside[0], rel=1e-6)
    assert found.upper == pytest.approx(inside[1], rel=1e-6)
    assert found.ledger.total == pytest.approx(found.upper - found.lower, rel=1e-9)


# ------------------------------------------------------------------------------ narrower blocks


@dataclass(frozen=True)
class Apart(Crossed):
    """Ends of ``e^-epsilon / 2`` that are ``fixed + share * resolution`` apart, relative to it."""

    lower: float = 1.0
    upper: float = 1.0
    fixed: float = 0.0
    share: float = 0.0

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        away = 0.5 * (self.fixed + self.share * effort.resolution)
        factor = 1.0 + away if side is Bound.PESSIMISTIC else 1.0 - away
        return super().delta(epsilon, side, effort) * factor


@pytest.mark.parametrize("helps", [False, True])
def test_one_look_decides_whether_narrower_blocks_are_searched(
    helps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search asks for delta at least four times; where blocks do not decide it is not made."""
    loss = Apart(share=2e3) if helps else Apart(fixed=0.02)
    asked: list[float] = []

    def counted(loss: Any, epsilon: float, side: Bound, effort: Effort) -> float:
        asked.append(effort.resolution)
        return worse(loss, epsilon, side, effort)

    worse = single._worse
    monkeypatch.setattr(single, "_worse", counted)
    found = single_answer(loss, Query(delta=1e-3), 1e-5, 1e-5)
    truth = math.log(0.5 / 1e-3)
    assert found.lower <= truth <= found.upper
    narrower = sum(resolution < 1e-5 for resolution in asked)
    assert narrower >= 6 if helps else narrower == 2
    # 0.02 in both cases with the first blocks, and ends that are good to a thirtieth of that
    assert found.upper - found.lower <= (0.01 if helps else 0.0207)


@pytest.mark.parametrize(
    ("one", "epsilon"),
    [
        (sa.RandomAllocation(sa.PureMechanism(epsilon=38.0), steps=100), 37.9999999999999),
        (sa.RandomAllocation(sa.LaplaceMechanism(scale=0.1), steps=1), 9.999999999998),
    ],
)
def test_brackets_next_to_the_largest_loss(one: Any, epsilon: float) -> None:
    """Where ends crossed once, and the budget of errors was refused for it."""
    with pytest.warns(sa.LooseBracketWarning):  # of a few digits more than there are
        found = one.delta(epsilon=epsilon)
    assert 0.0 < found.lower < found.upper < 2.0 * found.lower
