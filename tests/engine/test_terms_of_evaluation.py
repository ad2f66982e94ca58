"""From pairs to ends without a grid, each step of evaluation alone: what is rounded, and how."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from oracles.precision import MP, exact

from shuffle_accountant.bracket import CrossedEndsError
from shuffle_accountant.engine import evaluation, single
from shuffle_accountant.engine.evaluation import evaluate, largest_loss
from shuffle_accountant.engine.question import EVERYTHING, NOTHING, Answer, Query
from shuffle_accountant.engine.single import single_answer, upper_delta
from shuffle_accountant.losses.base import HOCKEY_STICK, Effort
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

UNIT = 2.0**-30


@dataclass(frozen=True)
class Stub:
    """A loss of given ends of delta; its own reverse."""

    largest: float
    ends: Callable[[float, Effort], tuple[float, float]] = lambda epsilon, effort: (0.0, 1.0)
    deviation: float = 1.0
    divergence: Any = HOCKEY_STICK

    @property
    def reversed(self) -> Stub:
        return self

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        return self.ends(epsilon, effort)[side is Bound.PESSIMISTIC]


def pair(loss: Stub, *, two_sided: bool = True) -> Any:
    return SimpleNamespace(loss=loss, two_sided=two_sided, name="given")


PARTS = [(pair(Stub(0.3)), 3), (pair(Stub(0.1)), 7)]


def total() -> Any:
    return 3 * exact(0.3) + 7 * exact(0.1)


def test_the_largest_sum_of_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product and an exact sum of products are rounded once each."""
    seen: list[float] = []

    def refined(*given: Any) -> Answer:
        seen.append(given[4])
        return NOTHING

    monkeypatch.setattr(evaluation, "refine", refined)
    for size in (2.0**-53, UNIT):
        seen.clear()
        with stress(roundoff=size):
            evaluate(PARTS, Query(epsilon=0.1), 1e-3, 2**30)
            seen.append(largest_loss(PARTS))
        for found in seen:
            assert exact(found) >= total() * (1 + exact(2.0 * size))
            assert exact(found) <= total() * (1 + exact(10.0 * size))
    assert len(seen) == 2


@pytest.mark.parametrize("two_sided", [True, False])
def test_the_total_variation_at_the_largest_loss(
    monkeypatch: pytest.MonkeyPatch, two_sided: bool
) -> None:
    """One round's loss is not rounded, but the function of it is: eight times."""
    monkeypatch.setattr(evaluation, "single_answer", lambda *_: Answer(lower=0.125, upper=0.25))
    loss = Stub(0.3)
    distance = math.tanh(0.15) if two_sided else -math.expm1(-0.3)
    with stress(roundoff=UNIT):
        for moved, expected in ((7.0, 0.25), (12.0, 0.0)):
            query = Query(delta=distance * (1.0 + moved * UNIT))
            found = evaluate([(pair(loss, two_sided=two_sided), 1)], query, 1e-3, 2**30)
            assert found.upper == expected


@pytest.mark.parametrize("query", [Query(delta=1e-150), Query(epsilon=1e-150)])
def test_losses_whose_cubes_underflow(query: Query) -> None:
    """Nothing is known but the largest sum, and how far apart such laws are at most."""
    found = evaluate([(pair(Stub(1e-120)), 3)], query, 1e-3, 2**30)
    truth = 3e-120 if query.delta is not None else 1.5e-120
    assert found.lower == 0.0
    assert found.upper == pytest.approx(truth, rel=1e-12)
    assert found.ledger.round_off == found.upper
    assert found.cause == "the range of double precision"


def test_the_probability_of_an_infinite_loss() -> None:
    """Its lower end, by a logarithm and an exponential of eight roundings each, and a sum."""
    low, high, finite = Stub(math.inf, lambda *_: (0.125, 0.5)), Stub(math.inf), Stub(1.0)
    losses: Any = [(low, 1), (high, 2), (finite, 5)]
    true = exact(0.125)
    with stress(roundoff=UNIT):
        found = evaluation._disclosed(losses, 0.1)
    assert true * (1 - exact(40.0 * UNIT)) <= exact(found)
    assert exact(found) <= true * (1 - exact((16.0 + 3.0) * UNIT))
    found = evaluation._disclosed([(low, 4), *losses[1:]], 0.1)
    assert exact(found) <= 1 - MP.power(exact(0.875), 4)
    assert found == pytest.approx(1.0 - 0.875**4, rel=1e-12)


# ------------------------------------------------------------------------------ one round alone


def profile(width: float) -> Callable[[float, Effort], tuple[float, float]]:
    """A delta of ``e^-epsilon / 2``, its ends this many times the resolution apart."""

    def ends(epsilon: float, effort: Effort) -> tuple[float, float]:
        value = 0.5 * math.exp(-epsilon)
        return value * (1.0 - width * effort.resolution), value * (1.0 + width * effort.resolution)

    return ends


@pytest.mark.parametrize("resolution", [1e-2, 1e-5])
def test_both_ends_of_epsilon_of_one_round(resolution: float) -> None:
    """Each from its own end of delta, at the resolution asked for."""
    loss: Any = Stub(60.0, profile(10.0))
    lower, upper, ledger, _ = single._epsilon(loss, 0.01, resolution)
    low, high = (math.log(50.0 * (1.0 + x * resolution)) for x in (-10.0, 10.0))
    # roots are found to a few hundredths of the width
    slack = 0.1 * (high - low)
    assert low - slack <= lower <= low
    assert high <= upper <= high + slack
    assert ledger.discretisation == upper - lower


def test_ends_of_one_round_that_have_crossed() -> None:
    """What is wrong with a loss is said, and no end is moved to hide it."""
    loss: Any = Stub(60.0, profile(-10.0))
    with pytest.warns(CrossedEndsError):
        lower, upper, *_ = single._epsilon(loss, 0.01, 1e-5)
    # rough blocks, of a thousandth, are all that is looked at
    assert (lower, upper) == pytest.approx((math.log(49.5), math.log(50.5)), rel=1e-6)


def test_the_upper_end_of_one_round() -> None:
    loss: Any = Stub(math.inf, lambda *_: (0.125, 0.5))
    assert upper_delta(loss, epsilon=1.0, delta=0.3, tolerance=1e-3) == 0.5


@pytest.mark.parametrize("low", [0.25, 0.5, 0.5 * (1.0 - 1e-15)])
def test_what_is_cut_off_is_part_of_the_width(low: float) -> None:
    """As much as the width, or 1e-14 of delta; a delta that is known exactly has neither."""
    loss: Any = Stub(math.inf, lambda *_: (low, 0.5))
    found = single._delta(loss, 1.0, 1e-4)
    width = 0.5 - low
    assert found[:2] == (low, 0.5)
    cut = min(found[2].truncation, width)
    assert found[2].truncation == cut
    assert cut == pytest.approx(min(1e-14 * low, width), rel=1e-6)
    assert found[2].discretisation == pytest.approx(width - cut, rel=1e-12, abs=0.0)


@pytest.mark.parametrize(
    ("infinite", "lower", "upper"),
    [((0.3, 0.4), math.inf, math.inf), ((0.1, 0.4), 0.5, math.inf), ((0.1, 0.15), 0.5, 0.5)],
)
def test_more_than_delta_at_infinity(
    infinite: tuple[float, float], lower: float, upper: float
) -> None:
    """Each end of epsilon is decided by its own end of what no epsilon makes smaller.

    It is found to the resolution asked for, some of which blocks and roots may take each.
    """

    def ends(epsilon: float, effort: Effort) -> tuple[float, float]:
        rest = 0.8 * math.exp(-epsilon) - 0.8 * math.exp(-0.5)
        low, high = (max(end, 0.2 + rest) if epsilon < 0.5 else end for end in infinite)
        return low, high

    loss: Any = Stub(math.inf, ends)
    found = single._epsilon(loss, 0.2, 1e-4)
    assert found[0] == pytest.approx(lower, rel=1e-3)
    assert found[1] == pytest.approx(upper, rel=1e-3)
    assert found[0] <= lower
    assert found[1] >= upper


def test_the_slope_of_one_round_is_that_of_its_lower_end(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def excess(*_: Any, slope: Callable[[], float], **__: Any) -> float:
        seen.append(slope())
        return 0.5

    monkeypatch.setattr(single, "excess", excess)
    loss: Any = Stub(math.inf, lambda epsilon, effort: (0.5 * math.exp(-2.0 * epsilon), 0.5))
    single_answer(loss, Query(epsilon=1.0), 1e-3, 1e-4)
    assert seen == [pytest.approx(2.0, rel=1e-9)]


@pytest.mark.parametrize(("halving", "looks"), [(0.4, 3), (0.6, 2)])
def test_blocks_that_do_not_decide(
    monkeypatch: pytest.MonkeyPatch, halving: float, looks: int
) -> None:
    """A width that narrower blocks do not halve stays as it is."""
    widths = [0.1, 0.1 * halving, 0.1 * halving**2]
    seen: list[float] = []

    def found(*_: Any) -> tuple[float, float, Any, Effort]:
        seen.append(widths[len(seen)])
        ledger = single.ErrorLedger(discretisation=seen[-1])
        return 0.25, 0.25 + seen[-1], ledger, Effort(1e-12, 1e-4)

    monkeypatch.setattr(single, "_delta", found)
    monkeypatch.setattr(single, "excess", lambda *_, **__: 2.0)
    loss: Any = Stub(math.inf)
    answer = single_answer(loss, Query(epsilon=1.0), 1e-3, 1e-4)
    assert len(seen) == looks
    assert answer.upper == 0.25 + widths[looks - 1]
    assert answer.cause == answer.ledger.limited_by == "discretisation"


# --------------------------------------------------------------------------- answers by other ways


def test_an_answer_by_another_way() -> None:
    """The smaller upper end counts, and no lower end is above it."""
    known = Answer(lower=0.25, upper=0.5, cause="memory")
    assert known.at_most(0.5) is known
    assert known.at_most(0.75) is known
    for upper, lower in ((0.375, 0.25), (0.125, 0.125), (0.0, 0.0)):
        found = known.at_most(upper)
        assert (found.lower, found.upper, found.cause) == (lower, upper, None)
        assert found.ledger.round_off == upper - lower


def test_the_worse_of_two_answers() -> None:
    """The larger of both ends, and the reasons of the larger upper end."""
    wide = Answer(lower=0.25, upper=0.75, cause="memory")
    high = Answer(lower=0.5, upper=0.625, ledger=single.ErrorLedger(round_off=0.125))
    for found in (wide.worse(high), high.worse(wide)):
        assert (found.lower, found.upper, found.cause) == (0.5, 0.75, "memory")
        assert found.ledger is wide.ledger
    assert (NOTHING.lower, NOTHING.upper) == (0.0, 0.0)
    assert (EVERYTHING.lower, EVERYTHING.upper) == (math.inf, math.inf)
