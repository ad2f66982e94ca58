"""Every public function of the bounds, the leakage, the order and calibration under hostile input.

The cases and what is allowed to happen are in `tests.oracles.hostile`; beside them, the faults that
they have found, by name.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
import time
import warnings
from fractions import Fraction

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant import baselines
from shuffle_accountant.leakage import qif
from shuffle_accountant.leakage import reidentification as reid
from shuffle_accountant.reports.comparison import compare
from tests.oracles import hostile

SEED = 6


def test_every_public_function_is_called():
    """A function that the facades name is among the entries, or exempt for a reason."""
    called = {entry.name.split(".")[-1] for entry in hostile.ENTRIES}
    missing = {
        name
        for name in hostile.public_callables()
        if name.split(".")[-1] not in called | set(hostile.EXEMPT)
    }
    assert not missing
    assert not called & set(hostile.EXEMPT)


def test_every_argument_is_tried():
    """All arguments of a function are in one of its sets of usual arguments."""
    for entry in hostile.ENTRIES:
        named = {name for base in entry.bases for name in base}
        parameters = inspect.signature(entry.call).parameters.values()
        # rounds have tests of their own, and no name to be called by
        wanted = {one.name for one in parameters if one.kind is not one.POSITIONAL_ONLY}
        assert wanted - {"law"} <= named, entry.name


@pytest.mark.slow
def test_usual_arguments_are_answered():
    """Else an entry would test nothing but one error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.order.OrderWarning)
        for entry in hostile.ENTRIES:
            for base in entry.bases:
                if entry.call.__name__ in ("learnability", "distribution_error"):
                    pytest.importorskip("sklearn", reason="a model is trained")
                entry.call(**base)


@pytest.mark.slow
@pytest.mark.parametrize("each", [1, pytest.param(3, marks=pytest.mark.release)])
def test_hostile_arguments(each):
    """An answer without NaN or one line that names the argument, without a warning."""
    pytest.importorskip("sklearn", reason="a model is trained")
    cases = hostile.cases(np.random.default_rng(SEED))
    few = itertools.islice(cases, each * len(hostile.ENTRIES))
    faults = [hostile.check(case, timed=False) for case in few]
    assert not any(faults), "\n".join(filter(None, faults))


def test_the_check_sees_faults():
    """NaN, warnings, nameless or foreign errors, and NumPy numbers that count differently."""

    def fault(call, value=3):
        entry = hostile.Entry("f", call, ({"x": 1},), probability=True, seconds=0.1)
        return hostile.check(hostile.Case(entry, {"x": 1}, {"x": value})) or ""

    def warned(x):
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)

    def refused(x, error):
        raise error

    def slow(x):
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass
        return 0.5

    assert not fault(lambda x: 0.5)
    assert not fault(lambda x: refused(x, ValueError("x must be 1, got 3")))
    assert "NaN" in fault(lambda x: math.nan)
    assert "no probability" in fault(lambda x: 1.5)
    assert "warned" in fault(warned)
    assert "raised" in fault(lambda x: refused(x, ZeroDivisionError("x")))
    assert "raised" in fault(lambda x: refused(x, ValueError("x must\nbe 1")))
    assert "names no argument" in fault(lambda x: refused(x, ValueError("math domain error")))
    assert "but" in fault(lambda x: float((np.array([x]) ** 2)[0]) / 10**6, np.uint8(200))
    assert "took" in fault(slow)


# ---------------------------------------- by name


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int64, np.uint64])
def test_numpy_integers_do_not_wrap(kind):
    """3^5 is no uint8; all integers are Python's from the door on."""
    found = qif.partition_vulnerability_shuffle(users=kind(5), categories=kind(3))
    assert found == qif.partition_vulnerability_shuffle(users=5, categories=3) == Fraction(5, 9)
    known = np.array([3, 100], np.uint8)
    assert qif.all_but_one_vulnerability_of(np.eye(2), known=known) == 1.0


@pytest.mark.parametrize(
    ("users", "categories"), [(5, 3), (1, 2), (2, 9), (12, 4), (30, 5), (9, 9)]
)
def test_remixed_keys_without_partitions(users, categories):
    """The generating function against the list of partitions."""
    setting = {"users": users, "categories": categories}
    assert qif.remixed_keys_number(**setting) == qif.brown_number(**setting)


def test_remixed_keys_of_many_values():
    """k (k - 1) datasets of two users have a largest count of 1, k have 2."""
    for k in (10**18, 2**53, 10**400):
        assert qif.remixed_keys_number(users=2, categories=k) == k * (k - 1) + 2 * k
    assert qif.partition_vulnerability_shuffle(users=5, categories=2**53) > Fraction(1, 5)


def test_keep_probability_of_many_values():
    """``1/(1 + (k - 1) e^-eps0)``, also where k is no double."""
    assert qif.keep_probability(eps0=1.0, categories=10**400) == 0.0
    assert qif.keep_probability(eps0=math.inf, categories=10**400) == 1.0
    found = qif.keep_probability(eps0=921.0, categories=10**400)
    # log(10^400) and its difference to eps0 are good to some 1e-13
    assert found == pytest.approx(1.0 / (1.0 + math.exp(400 * math.log(10) - 921.0)), rel=1e-11)


@pytest.mark.parametrize("tolerance", [10.0, 1e100, 1e308])
def test_huge_tolerances(tolerance):
    """A bracket wider than any that says something is as good as one of those."""
    aim = {"target_epsilon": 0.5, "delta": 1e-5, "tolerance": tolerance}
    one = sa.ShuffleRound(sa.GeneralRandomizer(0.5), users=1000)
    for found in (
        sa.max_rounds(one, **aim),
        sa.max_eps0(users=1000, rounds=2, **aim),
        sa.min_users(eps0=1.0, rounds=2, **aim),
    ):
        assert found.evidence.bracket.upper <= 0.5


@pytest.mark.parametrize("eps0", [1e-300, 1e-200, 1e-100, 1e-10])
@pytest.mark.parametrize(
    ("bound", "categories"),
    [
        (baselines.blanket_hoeffding, None),
        (baselines.blanket_hoeffding, 4),
        (baselines.blanket_bennett, 4),
    ],
)
def test_blankets_of_tiny_losses(bound, categories, eps0):
    """As eps0 falls, epsilon becomes a fixed share of it: the loss is linear in both."""

    def share(eps0):
        setting = {"users": 10**6, "delta": 0.1 * eps0, "categories": categories}
        return bound.epsilon(eps0=eps0, **setting) / eps0

    # what is not linear is of the order of eps0 itself
    assert share(eps0) == pytest.approx(share(1e-8), rel=1e-6)


def test_a_blanket_that_does_not_reach():
    """Bennett's inequality with eps0 alone says so, and divides by nothing."""
    with pytest.raises(ValueError, match="blanket_bennett is valid for epsilon < eps0 = 1e-300"):
        baselines.blanket_bennett.epsilon(eps0=1e-300, users=5, delta=0.1)


@pytest.mark.slow
def test_girgis_of_huge_losses():
    """The largest term is the one of the order itself; nothing is NaN."""
    setting = {"users": 5, "population": 20, "rounds": 2, "delta": 1e-3}
    low, high = (baselines.girgis.epsilon(eps0=eps0, **setting) for eps0 in (2.0**50, 2.0**53))
    assert high == pytest.approx(8.0 * low, rel=1e-9)  # all but eps0 is below 1e-12 of it
    with pytest.raises(ValueError, match="rounds"):
        baselines.girgis.epsilon(eps0=1.0, **{**setting, "rounds": 10**400})


def test_strong_composition_of_tiny_losses():
    """No step is needed where epsilon has room for all of them."""
    found = baselines.strong_composition.delta(eps1=5e-324, delta1=1, rounds=5, epsilon=0.5)
    assert found == 1.0
    found = baselines.strong_composition.delta(eps1=5e-324, delta1=0.0, rounds=5, epsilon=0.5)
    assert found == 0.0


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_short_floats_do_not_round_what_is_compared(kind):
    """Half precision has few digits at 6e-8; a delta above the one asked for is no answer."""
    delta = kind(6e-8)
    setting = {"eps1": 0.01, "delta1": 0.0, "rounds": 10**4}
    found = baselines.strong_composition.epsilon(delta=delta, **setting)
    assert found == baselines.strong_composition.epsilon(delta=float(delta), **setting)
    assert baselines.strong_composition.delta(epsilon=found, **setting) <= float(delta)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_published_bounds_of_epochs_take_short_numbers(kind):
    epoch = sa.RandomAllocation(sa.PureMechanism(epsilon=0.5), steps=1000)
    delta = kind(1e-3)
    rate, decomposed = baselines.allocation_poisson.rate, baselines.allocation_decomposition.epsilon
    for bound in (rate, decomposed):
        exact = bound(epoch, rounds=2, delta=float(delta))
        assert bound(epoch, rounds=np.int8(2), delta=delta) == exact


def test_losses_of_zero_are_below_the_smallest_epsilon():
    """Tail probabilities count a loss that is at least epsilon, and 0 is less than any."""
    response = sa.RandomizedResponse(categories=4, eps0=2.95458942449983)
    one = sa.ShuffleRound(response, users=4, reduction="strong", variant="tail")
    least, little = (sa.delta(one, epsilon=epsilon) for epsilon in (5e-324, 1e-12))
    assert least.upper - least.lower < 1e-9
    assert abs(least.upper - little.upper) < 1e-9
    assert sa.delta(one, epsilon=0.0).upper > least.upper + 0.1


@pytest.mark.parametrize("epsilon", [1e10, 1e100, 1e260])
def test_epsilons_far_beyond_all_losses(epsilon):
    dummies = sa.NegativeBinomial(size=709.0, probability=0.1)
    one = sa.AugmentedShuffle(categories=4, keep=0.9, dummies=dummies)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.LooseBracketWarning)
        found = sa.delta(one, epsilon=epsilon, rounds=2)
    assert 0.0 <= found.lower <= found.upper < 1e-50


def test_more_or_less_noise_than_doubles_can_tell_is_refused():
    for kind in (sa.GaussianMechanism, sa.GaussianVectors):
        for noise in (1.7e308, 1e-101, 5e-324):
            with pytest.raises(
                ValueError, match=r"^noise_multiplier must be a number in \[1e-100, 1e12\]"
            ):
                kind(noise_multiplier=noise)
        assert kind(noise_multiplier=1e-100).noise_multiplier == 1e-100
    for sigma in (1.7e308, 1e-101):
        with pytest.raises(ValueError, match=r"^sigma must be a number in \[1e-100, 1e12\]"):
            sa.GaussianRandomizer(sigma=sigma)


@pytest.mark.parametrize("sigma", [1e-100, 1e-20, 1e12])
def test_noise_of_any_size_among_few(sigma):
    """Next to none tells all, the largest nothing; neither overflows."""
    one = sa.ShuffleRound(sa.GaussianRandomizer(sigma=sigma), users=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = sa.delta(one, epsilon=1.0)
    assert found.lower <= (1.0 if sigma < 1.0 else 0.0) <= found.upper


def test_steps_with_the_least_noise_lose_all():
    step = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1e-100), steps=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = sa.delta(step, epsilon=1.0)
    assert found.lower <= 1.0 <= found.upper
    assert found.upper - found.lower <= 1e-6
    step = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=1e8), rate=0.01)
    assert sa.epsilon(step, delta=1e-6, rounds=3).upper == 0.0


def _double(x):
    return 2 * x


def test_workers_are_whole_numbers_of_any_type():
    (record,) = sa.sweep(_double, {"x": [1]}, jobs=Fraction(1))
    assert record.answer == 2
    with pytest.raises(TypeError, match=r"^jobs must be an integer"):
        sa.sweep(_double, {"x": [1]}, jobs=Fraction(1, 2))
    with pytest.raises(ValueError, match=r"^jobs must be"):
        sa.sweep(_double, {"x": [1]}, jobs=10**60)


def test_integers_that_python_does_not_print_are_named():
    """Of over 4300 digits, among others and where one crowd's numbers are held together."""
    one, other = (sa.RandomizedResponse(categories=3, eps0=eps0) for eps0 in (1.0, 2.0))
    for changed in ({"colluding": 10**5000}, {"users": -(10**5000)}, {"population": 10**5000}):
        arguments = {"users": 100, "others": {other: 50}} | changed
        with pytest.raises(ValueError, match=r"^(colluding|users|population) must be") as told:
            sa.ShuffleRound(one, **arguments)
        assert "2^1" in str(told.value)


def test_lists_of_different_lengths_are_no_slots():
    with pytest.raises(TypeError, match=r"^slots must be ranks in one dimension"):
        sa.order.preservation_mc(20, 5, 0.6, 0.5, slots=[1.0, [0.5, 0.5]], samples=20, rng=1)


def test_pairs_without_rounds_are_named_by_their_argument():
    with pytest.raises(TypeError, match=r"^subject must hold pairs"):
        sa.report([[1e308, 1e308]], delta=1e-5)


def test_noise_that_hides_nothing():
    """All but certain successes; the smallest gap and the largest noise are blind guesses."""
    for found in (
        reid.gaussian_blanket(1e-300, 0, users=5),
        reid.gaussian_success(1e308, users=5),
        reid.laplace_success(1e308, users=5),
        reid.laplace_blanket(1e308, 0.5, users=5),
    ):
        assert 1.0 - 1e-8 < found.lower <= found.upper == 1.0
    for found in (
        reid.gaussian_blanket(1e292, 0.3, users=5),
        reid.gaussian_success(1e-300, users=5),
    ):
        assert found.lower <= 0.2 <= found.upper < 0.2 + 1e-12


@pytest.mark.parametrize("gap", [1e-16, 1e-13, 1e-12, 1e-11, 3e-11, 1e-6])
def test_small_laplace_gaps(gap):
    """Less than a cell: the ratio's grid is sorted, and the advantage at most total variation."""
    found = reid.laplace_success(gap, users=5)
    # the total variation distance of the two laws is 1 - e^(-gap/2)
    assert found.lower <= 0.2 - math.expm1(-0.5 * gap)
    assert 0.2 <= found.upper <= 0.2 - math.expm1(-0.5 * gap) + 1e-12


def test_copies_of_accountants_are_their_own():
    """Composing with a copy leaves the original as it is, and the other way round."""
    one = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=10)
    original = sa.FourierAccountant(tolerance=1e-2).compose(one, count=3)
    for make in (copy.copy, copy.deepcopy):
        copied = make(original)
        assert copied.state_dict() == original.state_dict()
        copied.compose(one)
        assert (len(copied), len(original)) == (4, 3)


@pytest.mark.slow
def test_comparison_of_huge_losses():
    """`compare` prints what it prints without NaN, and warns of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (sa.LooseBracketWarning, sa.WeakPrivacyWarning):
            warnings.simplefilter("ignore", kind)
        rows = compare(eps0=1e9, users=10, delta=1e-3)
    assert all(row.epsilon is None or row.epsilon >= 0.0 for row in rows)


def test_integers_of_thousands_of_digits():
    """Python refuses to print them; the message is ours."""
    with pytest.raises(ValueError, match=r"users must be .* got about 2\^16609"):
        sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=-(10**5000) * -1, population=5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sa.NegativeBinomial(size=5e-324, probability=0.5), "size must be at least 1e-300"),
        (lambda: sa.NegativeBinomial(size=1e308, probability=1e-9), "probability must be larger"),
        (lambda: sa.Poisson(mean=1e-310), "mean must be at least 1e-300"),
        (lambda: sa.Binomial(trials=4, probability=1e-308), "probability must be at least 1e-280"),
        (
            lambda: sa.NoiseMessages(
                categories=5, dummies=sa.NegativeBinomial(size=2.0, probability=0.1), honest=5e-324
            ).delta(epsilon=1.0),
            "honest must leave at least 1e-300 of 2.0",
        ),
        (lambda: sa.RandomAllocation(np.eye(2), steps=3), "mechanism must be"),
        (lambda: sa.PoissonSampled(10**5000, rate=0.1), "mechanism must be"),
        (lambda: sa.sweep(_double, {"x": [1]}, jobs=2**60), "jobs must be an integer"),
        (
            lambda: sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=9, others=(1,)),
            "others must be",
        ),
    ],
)
def test_rounds_refuse_in_one_line(call, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert str(caught.value).startswith(words)
    assert len(str(caught.value).splitlines()) == 1
