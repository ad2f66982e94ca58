"""What a check takes is estimated before it is done, and refused beyond a limit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import comb
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

pytest.importorskip("flint", reason="python-flint is the extra 'verify'")

from flint import arb

import shuffle_accountant as sa
from shuffle_accountant.certificates import Certificate, certify, verify
from shuffle_accountant.certificates import letters as letters_module
from shuffle_accountant.certificates import verification as checking
from shuffle_accountant.certificates import work as working
from shuffle_accountant.certificates.additive import Falling, Moments, power
from shuffle_accountant.certificates.balls import Effort, dyadic, working_precision
from shuffle_accountant.certificates.binary_target import BinaryTarget
from shuffle_accountant.certificates.composition import GridLaw, composed, composed_work
from shuffle_accountant.certificates.letters import LettersAmongDecoys, ListedMultisets, _listed
from tests.certificates.expensive import FILES
from tests.certificates.test_certificates import KINDS, PROTOCOLS

IN_UNITS = r"^the check is estimated at [-+.\de]+ units of work or more, and max_work leaves"
IN_BYTES = r"^the check is estimated at [-+.\de]+ bytes of memory, more than 2\.15e\+09$"


@contextmanager
def recorded() -> Iterator[list[working.Work]]:
    """The estimates that are made inside the block."""
    estimates: list[working.Work] = []
    affordable = checking._affordable

    def record(work: working.Work) -> None:
        estimates.append(work)
        affordable(work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checking, "_affordable", record)
        yield estimates


def spent(content: dict[str, Any]) -> float:
    """Units that the first attempt at a check takes; it must decide."""
    with working.limited_to(1e15):
        assert checking._attempt(content, 0).verified
        return 1e15 - working.left()


@pytest.mark.parametrize("name", FILES)
def test_expensive_files_are_refused_before_anything_is_computed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(*_: object) -> None:
        raise AssertionError("the check was begun")

    monkeypatch.setattr(checking, "_dominates", begun)
    monkeypatch.setattr(checking, "_compared", begun)
    found = verify(Certificate.from_content(FILES[name]))
    assert not found.verified
    assert found.delta == 1.0
    assert re.match(f"{IN_UNITS}|{IN_BYTES}", found.reason), found.reason
    if "bytes" in found.reason:  # memory is limited however much work may be done
        found = verify(Certificate.from_content(FILES[name]), max_work=1e300)
        assert re.match(IN_BYTES, found.reason)


@pytest.mark.parametrize("name", FILES)
def test_expensive_files_are_described_in_little_work(name: str) -> None:
    """Descriptions are read, and their pairs set up, before an estimate: in a second at most."""
    with recorded() as estimates:
        assert not verify(Certificate.from_content(FILES[name])).verified
    described = estimates[0]
    assert described.units <= 1.1e7 or described is estimates[-1]  # which is not begun either


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_takes_more_than_is_estimated(kind: str) -> None:
    content = certify(sa.Protocol([(KINDS[kind], 3)]), delta=1e-3).content
    with recorded() as estimates:
        done = spent(content)
    total = sum(one.units for one in estimates)
    assert done <= total
    # estimates are for those who wait: not too far above what is done
    assert total <= 40.0 * done


@pytest.mark.slow
@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_certificate_takes_more_than_is_estimated_or_a_fiftieth_of_the_default(
    name: str,
) -> None:
    content = certify(sa.Protocol(PROTOCOLS[name]), delta=1e-6).content
    with recorded() as estimates:
        done = spent(content)
    total = sum(one.units for one in estimates)
    assert done <= total <= checking.MAX_WORK / 50.0
    assert max((one.memory for one in estimates), default=0.0) <= 2.0**28


@pytest.mark.parametrize("count", [1, 64, 300])
@pytest.mark.parametrize("largest", [10**7, 10**12])
def test_rare_large_values_make_blocks_that_are_estimated(largest: int, count: int) -> None:
    """One in 2^20 is far above the others, and so is the end of the sum's grid."""
    effort, rare = Effort(bits=84, cells=64, precision=320), 2.0**-20
    whole = 1 << effort.fine_bits
    law = Falling.of([(1, whole - (whole >> 20)), (largest, whole >> 20)], 0, effort)
    mean = 1.0 - rare + rare * largest
    about = Moments(mean, rare * (1.0 - rare) * (largest - 1.0) ** 2, float(largest))
    made = len(power(law, count, effort).blocks)
    assert made <= about.levels(count, effort) <= 2.0 * made + 8.0


def test_counts_and_tails_of_binary_targets_are_estimated() -> None:
    """As many counts as are followed, and the masses of a tail down to the precision."""
    effort = Effort(bits=120, cells=512, precision=320)
    with working_precision(effort.precision):
        for decoys, rate in ((100_000, arb(1) / 10), (3000, arb(1) / 2)):
            target = BinaryTarget(arb(3) / 4, arb(1) / 4, rate, decoys)
            followed = len(target._counts(effort.cut)[1])
            counts = target.work(1, effort).memory / working.ball_bytes(effort.precision)
            assert followed <= counts <= 1.3 * followed
        # masses of a symmetric binomial law fall like e^(-2 d^2/n)
        tail = math.sqrt(0.5 * 1e12 * math.log(2.0) * effort.precision)
        assert BinaryTarget(arb(3) / 4, arb(1) / 4, arb(1), 10**12).work(1, effort).units >= tail


def test_the_limit_is_that_of_the_estimate() -> None:
    made = certify(sa.Protocol([(KINDS["clones"], 3)]), delta=1e-3)
    with recorded() as estimates:
        assert verify(made).verified
    # what is read first is no part of what is left
    assert verify(made, max_work=1.01 * sum(one.units for one in estimates)).verified
    less = verify(made, max_work=0.99 * estimates[-1].units)
    assert not less.verified
    assert re.match(IN_UNITS, less.reason)
    assert f"{estimates[-1].units:.3g} units" in less.reason


def test_a_check_is_stopped_whatever_was_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    made = certify(sa.Protocol([(KINDS["clones"], 3)]), delta=1e-3)
    monkeypatch.setattr(checking, "_affordable", lambda work: None)
    found = verify(made, max_work=1000)
    assert not found.verified
    assert found.reason == "the check was stopped after max_work = 1e+03 units of work"


def test_attempts_share_what_may_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second attempt, at twice the precision, has what the first one left."""
    made = certify(sa.Protocol([(KINDS["clones"], 3)]), delta=1e-3)

    def undecided(*_: object) -> None:
        raise checking.UndecidedError("a case")

    monkeypatch.setattr(checking, "_compared", undecided)
    with recorded() as estimates:
        verify(made)
    assert len(estimates) == 6  # of the description and of the check, in each attempt
    assert estimates[1].units < estimates[3].units < estimates[5].units
    with recorded() as fewer:
        found = verify(made, max_work=1.5 * estimates[1].units)
    assert not found.verified
    assert fewer == estimates[:4]
    assert re.match(r"^not decided at this precision: a case; the check is estim", found.reason)


def test_work_that_was_spent_before_is_not_counted() -> None:
    made = certify(sa.Protocol([(KINDS["clones"], 3)]), delta=1e-3)
    with working.limited_to(10.0):
        assert verify(made).verified
        assert working.left() == 10.0


@pytest.mark.parametrize(
    ("value", "error"),
    [(0, ValueError), (-1, ValueError), (float("nan"), ValueError), ("1", TypeError)],
)
def test_bad_limits_are_one_line(value: Any, error: type[Exception]) -> None:
    made = certify(sa.Protocol([]), delta=1e-3)
    with pytest.raises(error, match=r"^max_work must be") as caught:
        verify(made, max_work=value)
    assert "\n" not in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(1, 99), st.integers(4, 40))
def test_a_sum_is_no_farther_from_its_mean_than_deviations_says(
    n: int, rate: int, bits: int
) -> None:
    """Against all values of a binomial variable."""
    p = mpmath.mpf(rate) / 100
    away = working.deviations(float(n * p * (1 - p)), 1.0, bits)
    for sign in (1, -1):
        beyond = mpmath.fsum(
            comb(n, k) * p**k * (1 - p) ** (n - k)
            for k in range(n + 1)
            if sign * (k - n * p) > away
        )
        assert beyond <= mpmath.mpf(2) ** -bits


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=9), min_size=1, max_size=3),
    st.lists(st.integers(1, 3000), min_size=3, max_size=3),
)
def test_compositions_take_what_is_estimated(shapes: list[list[int]], counts: list[int]) -> None:
    """Laws of any shape, however often."""
    effort = Effort(bits=80, cells=64, precision=256)
    one, laws = 1 << effort.bits, []
    for shape in shapes:
        masses = tuple(one * mass // (sum(shape) + 1) for mass in shape)
        laws.append(GridLaw(0, masses, one - sum(masses), effort.bits))
    parts = list(zip(laws, counts, strict=False))
    estimated = composed_work(parts, effort).units
    with working_precision(effort.precision), working.limited_to(1e15):
        law = composed(parts, effort)
        law.delta(checking.exact(1.0), dyadic(1, 3))
        done = 1e15 - working.left()
    assert done <= estimated <= 40.0 * done + 1e4


def test_messages_of_many_letters_are_listed_or_added_up_by_what_is_cut() -> None:
    """Of 30 messages 496 multisets are followed; of 60 it is estimated that 1860 are."""
    effort, quarter = Effort(bits=120, cells=512, precision=320), arb(1) / 4
    letters = (
        (2 * quarter, quarter, quarter),
        (quarter, 2 * quarter, quarter),
        (quarter, quarter, 2 * quarter),
    )
    with working_precision(effort.precision), pytest.MonkeyPatch.context() as patch:
        for most, listed in ((600, True), (400, False)):
            patch.setattr("shuffle_accountant.certificates.letters._MOST", most)
            assert LettersAmongDecoys(letters, 30).definite(effort) is listed
            _listed.cache_clear()
        patch.setattr("shuffle_accountant.certificates.letters._MOST", 1500 * 16)
        target = LettersAmongDecoys(letters, 60)
        added = target._adding_work(1.0, effort.often(60))
        assert target.work(1, effort).units >= added.units


def test_numbers_of_a_rare_letter_that_are_followed_are_estimated() -> None:
    """What is left of the estimate without powers and multisets is for each of them."""
    users, cut, quarter = 1000, 96, arb(1) / 4
    letters = [(quarter, quarter, quarter), (quarter, quarter, quarter), (arb(1) / 2,) * 3]
    found, _ = ListedMultisets.work(letters, users, cut, 320)
    powers = 2.0 * 3.0 * (users + 1.0)
    listed = letters_module._ABOUT * letters_module._about(letters, users, cut) + 1.0
    units = (
        found.units
        - 2.0 * powers
        - letters_module._EACH_MULTISET * min(listed, letters_module._MOST + 1)
    )
    numbers = units / (letters_module._EACH_COUNT * (users + 1.0))
    likely = np.sum(binom.logpmf(np.arange(users + 1), users, 0.25) >= -cut * math.log(2.0))
    assert 1.0 + likely <= numbers <= 2.5 * likely
