"""Brackets against exact values in integers, on channels made to hurt; the comparisons are strict.

The generator and the comparisons are those of ``benchmarks/fuzz.py``, which runs them for as long
as one likes; here a few thousand checks of a fixed seed, the channels on which an answer was wrong
once, and the oracle and the comparisons themselves.
"""

from __future__ import annotations

import copy
import itertools
import math
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracles import enumeration, rational
from oracles.precision import MP, exact

import shuffle_accountant as sa

SEED = 20261
CHUNKS, CHECKS = 6, 600
# Seconds that no question may take.
LONGEST = 20.0
MECHANISM = sa.PureMechanism(epsilon=0.5)


@pytest.fixture
def fuzz(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    """The fuzzer."""
    return benchmark_script("fuzz")


@pytest.mark.slow
@pytest.mark.parametrize(
    "chunk", [0, 1, *(pytest.param(n, marks=pytest.mark.release) for n in range(2, CHUNKS))]
)
def test_random_protocols(fuzz: ModuleType, chunk: int) -> None:
    judge = fuzz.run((SEED, chunk), seconds=math.inf, checks=CHECKS)
    assert judge.checks.total() >= CHECKS
    assert not judge.failures, fuzz.report(judge.checks, judge.failures)


@pytest.mark.slow
@pytest.mark.parametrize("style", range(9))
def test_composed_rounds_of_each_style(fuzz: ModuleType, style: int) -> None:
    judge, rng = fuzz.Judge(), np.random.default_rng([SEED, 100 + style])
    name = list(fuzz.STYLES)[style]
    fuzz.composed_channel(judge, rng, name, fuzz.STYLES[name](rng))
    assert not judge.failures, fuzz.report(judge.checks, judge.failures)


@pytest.mark.parametrize(
    ("chunk", "steps"),
    [(0, 4), *(pytest.param(chunk, 12, marks=pytest.mark.release) for chunk in range(3))],
)
def test_closed_forms_in_both_orders(
    fuzz: ModuleType, benchmark_script: Callable[[str], ModuleType], chunk: int, steps: int
) -> None:
    judge, rng = fuzz.Judge(), np.random.default_rng([SEED, 200 + chunk])
    for _ in range(steps):
        benchmark_script("fuzz_steps").steps(judge, rng)
    assert judge.checks.total() > 15 * steps
    assert not judge.failures, fuzz.report(judge.checks, judge.failures)


@pytest.mark.parametrize("off", [1.0, 0.9])
def test_people_and_shufflers(
    fuzz: ModuleType,
    benchmark_script: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    off: float,
) -> None:
    """By enumeration of the protocols; ends that are a tenth too low are noticed."""
    people = benchmark_script("fuzz_people")
    asked = sa.delta

    def delta(*rounds: Any, **options: Any) -> Any:
        found = asked(*rounds, **options)
        return SimpleNamespace(lower=off * found.lower, upper=off * found.upper)

    monkeypatch.setattr(people.sa, "delta", delta)
    judge, rng = fuzz.Judge(), np.random.default_rng([SEED, 250])
    for _ in range(12):
        people.people(judge, rng)
    assert judge.checks.total() > 50
    assert bool(judge.failures) is (off < 1.0), fuzz.report(judge.checks, judge.failures)


@pytest.mark.slow
def test_altered_files(fuzz: ModuleType, benchmark_script: Callable[[str], ModuleType]) -> None:
    judge, rng = fuzz.Judge(), np.random.default_rng([SEED, 300])
    for _ in range(4):
        benchmark_script("fuzz_steps").files(judge, rng)
    assert judge.checks.total() > 100
    assert not judge.failures, fuzz.report(judge.checks, judge.failures)


def test_closed_forms_notice_an_end_that_is_off(
    fuzz: ModuleType,
    benchmark_script: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An order that is asked for the other one, or an end that is off by a part in a thousand."""
    steps = benchmark_script("fuzz_steps")
    judge, rng = fuzz.Judge(), np.random.default_rng([SEED, 400])
    direct = steps._direct
    monkeypatch.setattr(steps, "_direct", lambda loss, x: direct(loss.reversed, x))
    for _ in range(6):
        steps.steps(judge, rng)
    assert {"first order", "second order"} <= {f.kind.partition(":")[0] for f in judge.failures}
    truth = steps.Digits(MP.mpf(1) / 4)
    assert truth.may_reach(0.25)
    assert truth.may_stay_below(0.25)
    assert not truth.may_reach(math.nextafter(0.25, 1.0))
    assert not truth.may_stay_below(math.nextafter(0.25, 0.0))


def test_what_is_altered_under_its_old_digest_is_refused(
    fuzz: ModuleType, benchmark_script: Callable[[str], ModuleType]
) -> None:
    steps = benchmark_script("fuzz_steps")
    state = sa.FourierAccountant().compose(sa.PoissonSampled(MECHANISM, rate=0.5)).state_dict()
    changed = {**state, "tolerance": 0.5}
    for read, wrong in ((sa.FourierAccountant.from_state_dict, 0), (lambda _: None, 1)):
        judge = fuzz.Judge()
        steps._under_its_old_digest(judge, "accountant", read, state, changed)
        steps._under_its_old_digest(judge, "accountant", read, state, dict(state))
        assert len(judge.failures) == wrong


# ----------------------------------------------------- channels on which answers were wrong once

OVERFLOWING = [[0.0, 0.25, 0.75, 0.0], [2.0**-30, 0.5 - 2.0**-30 - 2.0**-20, 2.0**-20, 0.5]]
TINY = [
    [0.9743842686451836, 0.025615731354816353, 1.4462280646778732e-251],
    [2.4243678270761977e-302, 1.0, 2.5406468084148804e-161],
    [1.0, 1.0446132473118984e-128, 0.0],
    [0.5, 0.5, 5.245752054461282e-124],
]
AT_EPS0 = [[0.5001455294698984, 0.49985447053010157], [0.49993913382105204, 0.500060866178948]]
NEXT_TO_EPS0 = [
    [0.6810592143046856, 0.31894078569531437],
    [0.4865069650039068, 0.5134930349960932],
]
ALMOST_TOLD = [[6.69346555829499e-269, 1.0], [1.0, 0.0]]
SUBNORMAL = [[1e-310, 0.9, 0.1], [0.5, 0.4, 0.1]]
BELOW_NORMAL = [[1.588297795024136e-79, 0.5, 0.5], [8.112064032675059e-79, 0.5, 0.5]]
MANY = [
    [0.0, 1.2512109596343047e-270, 0.5, 0.5],
    [0.0, 0.5890739552152262, 0.39843907617700924, 0.012486968607764609],
    [0.01985874245099696, 0.13011527670237602, 0.850025980846627, 1.9427524950735626e-298],
    [1.4099580113444294e-254, 6.829332637475399e-232, 0.5, 0.5],
]
RARE = [
    [3.2448865816547823e-10, 0.9999999996755113],
    [9.936007572264316e-10, 0.9999999990063992],
]
ALL_BUT_EQUAL = [
    [[0.375, 0.625, 5.8775623652043464e-27], [0.375, 0.625, 3.378601681623016e-137]],
    [[0.5, 0.5, 1e-40], [0.5, 0.5, 1e-60], [0.5, 0.5, 1e-30]],
    [[0.1, 0.1, 0.1, 0.7, 2e-33, 2e-33], [0.1, 0.1, 0.1, 0.7, 1e-90, 1e-90]],
    [[0.5, 0.5, 0.0], [0.5, 0.5, 1e-18]],
]


def told(call: Any) -> Any:
    """The answer to a question without a warning of the arithmetic."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", sa.WeakPrivacyWarning)
        warnings.simplefilter("ignore", sa.LooseBracketWarning)
        answer = call()
    assert 0.0 <= answer.lower <= answer.upper
    return answer


def blanket_delta(channel: list[list[float]], users: int, epsilon: float) -> Any:
    pairs = rational.Channel.of_floats(channel).blanket_pairs(users)
    return rational.largest(pair.divergence(epsilon) for pair in pairs)


def assert_holds(answer: Any, truth: Any) -> None:
    assert truth.may_reach(answer.lower), (answer, str(truth))
    assert truth.may_stay_below(answer.upper), (answer, str(truth))


@pytest.mark.parametrize(
    ("channel", "users", "epsilon", "printed"),
    [
        (OVERFLOWING, 6, 690.0, "0.50000000093132257462"),
        (OVERFLOWING, 6, 700.0, "0.50000000093132257462"),
        (OVERFLOWING, 6, 800.0, "0.50000000093132257462"),
        (TINY, 3, 44.049, "1.0"),
        (AT_EPS0, 1, 0.00041282625478461776, "4.8995801519593933346e-21"),
        (NEXT_TO_EPS0, 3, 0.4762310047161675, "5.1800478939739184104e-18"),
        (ALMOST_TOLD, 1, 400.0, "1.0"),
        (SUBNORMAL, 1, 1.0, "0.5"),
        (RARE, 1, 1.0, "1.1154913419415334131e-10"),
    ],
)
@pytest.mark.parametrize("reduction", ["auto", "blanket"])
def test_delta_of_one_round(
    channel: list[list[float]], users: int, epsilon: float, printed: str, reduction: str
) -> None:
    truth = blanket_delta(channel, users, epsilon)
    # printed to 20 digits
    value = exact(truth.low) / truth.denominator
    assert abs(value / exact(printed) - 1) < exact("1e-18")
    one = sa.ShuffleRound(sa.DiscreteRandomizer(channel), users=users, reduction=reduction)
    answer = told(lambda: sa.delta(one, epsilon=epsilon))
    assert_holds(answer, truth)
    # some dozens of roundings of numbers below one, and rows that do not add up to one
    assert answer.upper - answer.lower <= 1e-6 * answer.upper + 1e-14
    attained = told(lambda: one.attained(epsilon=epsilon))
    first, second, others = attained.dataset
    pair = rational.Channel.of_floats(channel).dataset(first, second, (others,) * (users - 1))
    assert_holds(attained, pair.divergence(epsilon))
    assert attained.lower <= answer.upper


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 1.5158133130615508, 1.6])
def test_a_dataset_whose_divergence_is_a_subnormal_number(epsilon: float) -> None:
    one = sa.ShuffleRound(sa.DiscreteRandomizer(BELOW_NORMAL), users=4)
    attained = told(lambda: one.attained(epsilon=epsilon))
    first, second, others = attained.dataset
    pair = rational.Channel.of_floats(BELOW_NORMAL).dataset(first, second, (others,) * 3)
    assert_holds(attained, pair.divergence(epsilon))


@pytest.mark.parametrize(("channel", "users"), [(AT_EPS0, 1), (NEXT_TO_EPS0, 3), (AT_EPS0, 4)])
@pytest.mark.parametrize("reduction", ["blanket", "clones"])
def test_delta_near_eps0(channel: list[list[float]], users: int, reduction: str) -> None:
    """Down to 1e-6 below eps0, where next to nothing is left of delta, and from there on."""
    randomizer = sa.DiscreteRandomizer(channel)
    known = rational.Channel.of_floats(channel)
    assert known.ratio is not None
    # rounded up
    assert Fraction(rational.exponential(randomizer.eps0) + 4, 1 << rational.PLACES) > known.ratio
    one = sa.ShuffleRound(randomizer, users=users, reduction=reduction)
    for distance in (0.0, 1e-16, -1e-16, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, -1e-6):
        epsilon = randomizer.eps0 - distance
        answer = told(lambda e=epsilon: sa.delta(one, epsilon=e))
        if reduction == "blanket":
            assert_holds(answer, blanket_delta(channel, users, epsilon))
        else:
            odds, doubt = rational.power_of_e(randomizer.eps0)
            assert_holds(answer, rational.clones(odds, users, doubt).divergence(epsilon))
        for a, b, c in itertools.product(known.inputs, repeat=3):
            if a != b:
                real = known.dataset(a, b, (c,) * (users - 1)).divergence(epsilon)
                assert real.may_stay_below(answer.upper)


@pytest.mark.parametrize("channel", ALL_BUT_EQUAL)
@pytest.mark.parametrize("users", [1, 2, 3, 5])
@pytest.mark.parametrize("reduction", ["auto", "blanket"])
def test_inputs_that_differ_by_less_than_a_rounding(
    channel: list[list[float]], users: int, reduction: str
) -> None:
    """What their blanket leaves is less than what its sum is rounded by, and may decide delta."""
    known = rational.Channel.of_floats(channel)
    randomizer = sa.DiscreteRandomizer(channel)
    one = sa.ShuffleRound(randomizer, users=users, reduction=reduction)
    ratios = {row[-1] / other[-1] for row in channel for other in channel if other[-1] > 0.0}
    for epsilon in {0.0, *(math.log(ratio) - 1e-5 for ratio in ratios if ratio > 1.0)}:
        answer = told(lambda e=epsilon: sa.delta(one, epsilon=e))
        assert_holds(answer, blanket_delta(channel, users, epsilon))
        for a, b, c in itertools.product(known.inputs, repeat=3):
            if a != b:
                real = known.dataset(a, b, (c,) * (users - 1)).divergence(epsilon)
                assert real.may_stay_below(answer.upper), (epsilon, a, b, c)


@pytest.mark.parametrize("delta", [1e-3, 0.4, 0.5, 0.6, 1e-300])
def test_epsilon_beside_a_subnormal_number(delta: float) -> None:
    one = sa.ShuffleRound(sa.DiscreteRandomizer(SUBNORMAL), users=1)
    answer = told(lambda: sa.epsilon(one, delta=delta))
    if answer.upper < math.inf:
        assert blanket_delta(SUBNORMAL, 1, answer.upper).may_stay_below(delta)
    if 0.0 < answer.lower < math.inf:
        assert blanket_delta(SUBNORMAL, 1, answer.lower).may_reach(delta)


@pytest.mark.slow
def test_thirty_users_with_tiny_entries() -> None:
    one = sa.ShuffleRound(sa.DiscreteRandomizer(MANY), users=30)
    answer = told(lambda: sa.delta(one, epsilon=38.77))
    known = rational.Channel.of_floats(MANY)
    for first, second, others in ((1, 0, 0), (0, 1, 0), (2, 0, 1)):
        truth = known.dataset(first, second, (others,) * 29).divergence(38.77)
        assert truth.may_stay_below(answer.upper)
    # row 1 has a letter that row 0 all but never sends, among decoys that never do
    assert answer.upper > 0.5


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("reduction", ["auto", "blanket", "clones"])
def test_channels_that_say_nothing(reduction: str, rounds: int) -> None:
    one = sa.ShuffleRound(
        sa.DiscreteRandomizer([[0.5, 0.5], [0.5, 0.5]]), users=3, reduction=reduction
    )
    assert told(lambda: sa.delta(one, epsilon=0.0, rounds=rounds)).lower == 0.0
    assert told(lambda: sa.delta(one, epsilon=0.0, rounds=rounds)).upper <= 1e-15
    assert told(lambda: sa.epsilon(one, delta=1e-9, rounds=rounds)).upper <= 1e-15


@pytest.mark.slow
@pytest.mark.parametrize("users", [1, 3])
def test_three_rounds_of_rare_messages(users: int) -> None:
    one = sa.ShuffleRound(sa.DiscreteRandomizer(RARE), users=users)
    single = rational.Channel.of_floats(RARE).blanket_dominating(users).merged()
    three = ((single @ single).merged() @ single).merged()
    answer = told(lambda: sa.delta(one, epsilon=1.0, rounds=3))
    assert_holds(answer, three.divergence(1.0))
    # a tolerance of 1e-3 in epsilon, at a loss where delta falls steeply
    assert answer.upper - answer.lower <= 0.05 * answer.upper
    bracket = told(lambda: sa.epsilon(one, delta=1e-11, rounds=3))
    assert bracket.upper - bracket.lower <= 2e-3 * bracket.upper
    assert three.divergence(bracket.upper).may_stay_below(1e-11)
    assert three.divergence(bracket.lower).may_reach(1e-11)


@pytest.mark.slow
def test_two_rounds_of_a_million_users_far_out() -> None:
    """Beyond all finite losses only the letter that input 1 never sends is left."""
    channel = [[1e-12, 0.1, 0.9], [1e-3, 0.0, 0.999]]
    one = sa.ShuffleRound(sa.DiscreteRandomizer(channel), users=10**6)
    answer = told(lambda: sa.delta(one, epsilon=700.0, rounds=2))
    # row 0 adds up to more than rounding excuses, so its law is what it is in proportion to
    own = Fraction(0.1) / sum(map(Fraction, channel[0]))
    truth = float(1 - (1 - own) ** 2)
    # the proportions are rounded to doubles, and so is the truth
    assert answer.lower <= truth * (1 + 1e-15)
    assert truth * (1 - 1e-15) <= answer.upper


@pytest.mark.parametrize("epsilon", [100.0, 141.5424601407666, 250.0])
def test_deltas_below_all_doubles_are_not_none(epsilon: float) -> None:
    """Three rounds of losses up to 94: what two of them reach has a probability of 1e-432."""
    channel = [[0.25, 0.375, 0.375, 5.8e-258], [0.125, 0.375, 0.5, 1.1e-216]]
    one = sa.ShuffleRound(sa.DiscreteRandomizer(channel), users=2, population=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.LooseBracketWarning)
        found = told(lambda: sa.delta(one, epsilon=epsilon, rounds=3))
    assert found.lower == 0.0
    assert math.copysign(1.0, found.lower) == 1.0
    assert 0.0 < found.upper < 1e-300


def test_two_rounds_that_lose_a_subnormal_delta() -> None:
    """What products of masses are rounded by is more than all relative errors of such a sum."""
    channel = [
        [0.5873812258203241, 0.25143923442658256, 0.1611795397530933, 3.4155754770994175e-158],
        [0.47723260992083405, 0.12018151397893662, 0.40258587610022933, 1.1440523157169369e-218],
        [0.009487615272540606, 0.4215047226994658, 0.5690076620279936, 6.308963798905076e-211],
    ]
    one = sa.ShuffleRound(sa.DiscreteRandomizer(channel), users=2, reduction="blanket")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.LooseBracketWarning)
        found = told(lambda: sa.delta(one, epsilon=220.84058990998508, rounds=2))
    # of the blanket's own pairs, by enumeration in fractions; as a double it is rounded down
    assert 1.1666155839762913706e-315 <= found.upper <= 1.1667e-315


def test_losses_that_reach_their_limit_at_once() -> None:
    """Next to the other rounds the last step of these is shorter than the numbers are apart."""
    few = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.66785), users=7)
    many = sa.ShuffleRound(sa.SubsetSelection(categories=8, eps0=0.136772, size=4), users=28_900)
    accountant = sa.FourierAccountant().compose(few, count=9)
    alone = told(lambda: accountant.epsilon(delta=1e-6))
    both = told(lambda: accountant.compose(many, count=3).epsilon(delta=1e-6))
    apart = told(lambda: sa.epsilon(many, delta=5e-7, rounds=3))
    rest = told(lambda: sa.epsilon(few, delta=5e-7, rounds=9))
    assert alone.lower <= both.upper
    assert both.lower <= rest.upper + apart.upper


def test_a_wide_bracket_of_one_round_is_announced() -> None:
    one = sa.ShuffleRound(
        sa.RandomizedResponse(categories=4, eps0=3.0),
        users=10**5,
        reduction="strong",
        variant="tail",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = sa.delta(one, epsilon=0.05)
    said = any(issubclass(warning.category, sa.LooseBracketWarning) for warning in caught)
    assert said or answer.upper - answer.lower <= 0.02 * answer.upper


def test_a_copied_accountant_is_another_one() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=10)
    accountant = sa.FourierAccountant().compose(one)
    for other in (copy.copy(accountant), copy.deepcopy(accountant)):
        other.compose(one, count=5)
        assert len(accountant) == 1
        assert len(other) == 6


# ----------------------------------------------------------------- the oracle and the comparisons


def fractions(row: Any, denominator: int) -> list[Fraction]:
    return [Fraction(entry, denominator) for entry in row]


def test_the_oracle_is_the_enumeration_in_fractions(fuzz: ModuleType) -> None:
    """Histograms as tuples and probabilities as fractions give the same divergences."""
    rng = np.random.default_rng(SEED)
    for make in (*fuzz.STYLES.values(),) * 2:
        matrix = fuzz._proper(make(rng))[:3]
        known = rational.Channel.of_floats(matrix)
        rows = [fractions(row, known.denominator) for row in known.rows]
        assert rows == [[Fraction(entry) for entry in row] for row in matrix]
        users = int(rng.integers(1, 4))
        alpha = Fraction(rational.exponential(0.3), 1 << rational.PLACES)
        others = tuple(int(x) for x in rng.integers(len(rows), size=users - 1))
        p, q = (enumeration.shuffled_output(rows, [x, *others]) for x in (0, 1))
        check(known.dataset(0, 1, others), enumeration.hockey_stick(p, q, alpha))
        decoys = fractions(known.blanket, sum(known.blanket))
        p, q = enumeration.target_among_decoys([*rows[0], 0], [*rows[1], 0], decoys, users)
        check(known.blanket_pair(0, 1, users), enumeration.hockey_stick(p, q, alpha))
        if users > 1:
            same = (others[0],) * users
            p, q = (enumeration.subsampled_output(rows, [x, *same], users) for x in (0, 1))
            sampled = known.dataset(0, 1, same[1:], population=users + 1)
            check(sampled, enumeration.hockey_stick(p, q, alpha))


def check(pair: rational.Pair, value: Fraction) -> None:
    """The value at epsilon = 0.3 rounded down by less than can be seen."""
    found = pair.divergence(0.3)
    unit = Fraction(8, 1 << rational.PLACES)
    assert Fraction(found.low, found.denominator) - unit <= value
    assert value <= Fraction(found.high, found.denominator)


def test_the_largest_profile_is_the_maximum_at_every_epsilon(fuzz: ModuleType) -> None:
    rng = np.random.default_rng(SEED + 1)
    for make in (fuzz.plain, fuzz.zeros, fuzz.coarse, fuzz.tiny):
        known = rational.Channel.of_floats(fuzz._proper(make(rng)[:3]))
        pairs = known.blanket_pairs(2)
        pair = rational.dominating(pairs)
        for epsilon in (-1.0, 0.0, 0.1, 0.5, 1.0, 3.0, 30.0, 700.0, *known.kinks, math.inf):
            one, all_of_them = (
                pair.divergence(epsilon),
                rational.largest(p.divergence(epsilon) for p in pairs),
            )
            low = max(one.low * all_of_them.denominator, all_of_them.low * one.denominator)
            high = min(one.high * all_of_them.denominator, all_of_them.high * one.denominator)
            assert low <= high


def test_the_sampled_pair_is_the_mixture_at_positive_epsilon() -> None:
    single = rational.clones(Fraction(5, 2), 3)
    for epsilon in (0.0, 0.1, 0.4):
        one = single.sampled(2, 7).divergence(epsilon)
        other = single.mixed(2, 7).divergence(epsilon)
        assert one.low * other.denominator <= other.high * one.denominator
        assert other.low * one.denominator <= one.high * other.denominator


@pytest.mark.parametrize("epsilon", [0.0, 5e-324, 1e-300, 1e-17, 0.3, 1.0, 30.0, 700.0, 2235.0])
def test_the_exponential_is_enclosed(epsilon: float) -> None:
    """By the power series in fractions, of an argument below one half."""
    halvings = max(int(epsilon).bit_length() + 1, 1)
    argument = Fraction(epsilon) / 2**halvings
    places = rational.PLACES + 4 * int(epsilon) + 200
    term = low = 1 << places
    for k in itertools.count(1):
        term = term * argument.numerator // (argument.denominator * k)
        low += term
        if not term:
            break
    high = low + 4 * k  # each term was rounded down, and the terms left out are below a unit
    for _ in range(halvings):
        low, high = low * low >> places, (high * high >> places) + 1
    found, extra = rational.exponential(epsilon), places - rational.PLACES
    assert found << extra <= high
    assert low <= (found + 4) << extra
    assert (high - low) >> extra == 0


def test_mechanisms_are_their_formulas() -> None:
    """Chances of messages in 50 digits; one user's divergence of RAPPOR by hand."""
    eps0 = 1.3
    keep = 1 / (1 + MP.exp(-exact(eps0) / 2))
    known = rational.rappor(3, eps0)
    chances = sorted({exact(entry) / known.denominator for entry in known.rows[0]})
    flip = 1 - keep
    wanted = sorted(keep**i * flip ** (3 - i) for i in range(4))
    assert all(abs(a - b) < 1e-45 for a, b in zip(chances, wanted, strict=True))
    for made in (
        known,
        rational.subset_selection(4, eps0, 2),
        rational.hadamard(3, eps0),
        rational.randomized_response(4, Fraction(1, 3), Fraction(0)),
    ):
        assert made.defect == 0
        assert made.ratio is not None
    for made in (known, rational.subset_selection(4, eps0, 2), rational.hadamard(3, eps0)):
        assert math.log(made.ratio) == pytest.approx(eps0, rel=1e-14)


@pytest.mark.parametrize(
    ("lower", "upper", "wrong"),
    [
        (0.25, 0.25, 0),
        (0.25, np.nextafter(0.25, 1.0), 0),
        (np.nextafter(0.25, 1.0), 0.5, 1),
        (0.0, np.nextafter(0.25, 0.0), 1),
        (0.0, 0.0, 1),
    ],
)
def test_the_fuzzer_sees_an_end_on_the_wrong_side(
    fuzz: ModuleType, lower: float, upper: float, wrong: int
) -> None:
    judge = fuzz.Judge()
    truth = rational.Pair(((1, 0), (3, 3)), 4).divergence(0.5)
    answer = sa.Bracket(lower=lower, upper=upper, reduction="none")
    judge.contains("own", answer, truth, "")
    assert len(judge.failures) == wrong


def test_the_fuzzer_sees_warnings_exceptions_and_what_takes_long(
    fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = fuzz.Judge()
    zero = sa.Bracket(lower=0.0, upper=0.0, reduction="none")

    def warned() -> sa.Bracket:
        warnings.warn("overflow encountered", RuntimeWarning, stacklevel=1)
        return zero

    def loose() -> sa.Bracket:
        warnings.warn("wide", sa.LooseBracketWarning, stacklevel=1)
        return zero

    def slow() -> sa.Bracket:
        end = time.monotonic() + 10.0
        while time.monotonic() < end:
            pass
        return zero

    assert judge.ask(loose, "") is zero
    assert not judge.failures
    judge.ask(warned, "")
    judge.ask(lambda: 1 / 0, "")
    monkeypatch.setattr(fuzz, "LONGEST", 0.05)
    judge.ask(slow, "")
    kinds = [failure.kind.split()[0] for failure in judge.failures]
    assert kinds == ["warns", "raises", "too"]
    assert judge.checks.total() == 4
