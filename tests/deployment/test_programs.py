"""Programs of devices: their exact channels against the mechanisms', by enumeration of all draws.

With draws of four bits instead of 53 a program's messages can be listed for every sequence of
draws. The channel in fractions must be that of the mechanism with the same whole-number odds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import mpmath
import numpy as np
import pytest
from deployment_cases import MECHANISMS

import shuffle_accountant as sa
from shuffle_accountant.deployment import programs as drawing
from shuffle_accountant.deployment.programs import Program, program_of

TINY = 16  # values of a draw of four bits


class Listed:
    """Draws given one after the other; `below` is asked for without draws that are repeated."""

    def __init__(self, choices: list[int]) -> None:
        self.choices, self.made = choices, []  # type: ignore[var-annotated]

    def _next(self, count: int) -> int:
        place = len(self.made)
        self.made.append(count)
        return self.choices[place] if place < len(self.choices) else 0

    def draw(self, size: int) -> np.ndarray:
        return np.array([self._next(TINY) for _ in range(size)])

    def below(self, count: int, size: int) -> np.ndarray:
        return np.array([self._next(count) for _ in range(size)])


def outcomes(program: Program, value: int) -> Iterator[tuple[Any, Fraction]]:
    """Every message with its probability, over all sequences of draws."""
    waiting: list[list[int]] = [[]]
    while waiting:
        choices = waiting.pop()
        listed = Listed(choices)
        message = program.message(value, listed)  # type: ignore[arg-type]
        if len(listed.made) == len(choices):
            yield message, Fraction(1, math.prod(listed.made))
        else:
            waiting += [[*choices, one] for one in range(listed.made[len(choices)])]


def channel(program: Program, value: int) -> dict[Any, Fraction]:
    """The distribution of messages, added up."""
    found: dict[Any, Fraction] = {}
    for message, chance in outcomes(program, value):
        key = tuple(message) if isinstance(message, list) else message
        found[key] = found.get(key, Fraction(0)) + chance
    assert sum(found.values()) == 1
    return found


FIT = Fraction(5, TINY)


def says_yes(mechanism: Any, message: Any, value: int) -> bool:
    """Written from the definitions of the mechanisms."""
    match mechanism:
        case sa.RandomizedResponse():
            return bool(message == value)
        case sa.SubsetSelection():
            return value in message
        case sa.HadamardResponse():
            return bin((value + 1) & message).count("1") % 2 == 0
    raise AssertionError(mechanism)


@pytest.mark.parametrize("name", ["k-RR", "binary RR", "subset selection", "Hadamard"])
def test_a_message_is_fitted_with_exactly_that_probability(name: str) -> None:
    mechanism = MECHANISMS[name]
    program = replace(program_of(mechanism), fit=5)
    if name == "subset selection":
        every: list[Any] = list(combinations(range(5), 2))
    else:
        every = list(range(mechanism.columns if name == "Hadamard" else mechanism.categories))
    for value in range(mechanism.categories):
        yes = [one for one in every if says_yes(mechanism, one, value)]
        found = channel(program, value)
        for message in every:
            wanted = (1 - FIT) / len(every) + (FIT / len(yes) if message in yes else 0)
            assert found[message] == wanted


def test_bits_of_rappor_are_flipped_independently() -> None:
    program = replace(program_of(MECHANISMS["RAPPOR"]), fit=3)
    flip = Fraction(3, TINY)
    for value in range(3):
        found = channel(program, value)
        for bits in product((False, True), repeat=3):
            wrong = sum(bit != (place == value) for place, bit in enumerate(bits))
            assert found[bits] == flip**wrong * (1 - flip) ** (3 - wrong)


def test_local_hashing_responds_with_the_bucket_of_the_package_s_hash() -> None:
    mechanism = MECHANISMS["local hashing"]
    program = replace(program_of(mechanism), fit=5)
    for value in range(4):
        found = channel(program, value)
        for seed in range(TINY):
            own = int(mechanism.hash(seed, value))
            for bucket in range(3):
                wanted = (1 - FIT) / 3 + (FIT if bucket == own else 0)
                assert found[seed, bucket] == wanted / TINY


def test_integers_below_a_number_are_uniform_and_repeat_the_same_draws() -> None:
    def below(word: int, count: int) -> list[int]:
        given = [word << 11, 1 << 11]
        source = drawing.Draws(lambda size: given.pop(0).to_bytes(size, "big"))
        return [*source.below(count, 1), len(given)]

    limit = drawing.RANGE - drawing.RANGE % 3
    assert below(limit - 1, 3) == [2, 1]
    assert below(limit, 3) == [1, 0]
    assert below(drawing.RANGE - 1, 4) == [3, 1]
    # the low bits of a word are no part of a draw
    assert drawing.Draws(lambda size: b"\0" * 6 + b"\x0f\xff").draw(1) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_the_rounded_channel_is_the_largest_that_reveals_no_more(mechanism: Any) -> None:
    """In 60 digits: the ratio of the program is within e^eps0, that of the next one is not."""
    program = program_of(mechanism)
    with mpmath.workdps(60):
        if "gamma" in mechanism.to_dict():
            k = mechanism.categories
            most = 1 + (1 - mpmath.mpf(mechanism.gamma)) * k / mpmath.mpf(mechanism.gamma)
        else:
            most = mpmath.exp(mpmath.mpf(mechanism.eps0))
        step = -1 if isinstance(mechanism, sa.RAPPOR) else 1
        assert ratio(program) <= most < ratio(replace(program, fit=program.fit + step))
        assert 0 <= mpmath.mpf(program.eps0) - mpmath.log(ratio(program)) < 1e-15
    assert program.eps0 <= mechanism.eps0
    # the randomizer's own eps0, in doubles, of the same probabilities
    assert program.eps0 == pytest.approx(mechanism.eps0, rel=1e-12)


def ratio(program: Program) -> mpmath.mpf:
    fit, all_draws = mpmath.mpf(program.fit), mpmath.mpf(2) ** 53
    if program.kind == "rappor":
        return ((all_draws - fit) / fit) ** 2
    mass = program.mass  # type: ignore[attr-defined]
    return 1 + fit / (all_draws - fit) * mass.denominator / mass.numerator


@pytest.mark.parametrize("eps0", [1e-300, 1e-17, 1e-9, 30.0, 100.0, 690.0])
def test_extreme_parameters_round_to_the_safe_side(eps0: float) -> None:
    for make in (sa.RandomizedResponse, sa.RAPPOR, sa.SubsetSelection, sa.HadamardResponse):
        program = program_of(make(categories=7, eps0=eps0))
        assert 0 <= program.fit < 2**53
        assert 0.0 <= program.eps0 <= eps0
    assert 0.0 <= program_of(sa.LocalHashing(categories=7, eps0=eps0, buckets=9)).eps0 <= eps0


def test_randomized_response_of_the_rounded_probability_is_in_doubles() -> None:
    """What is accounted for can be the rounded channel itself: 1 - fit/2^53 is a double."""
    program = program_of(sa.RandomizedResponse(categories=50, eps0=6.0))
    rounded = sa.RandomizedResponse.from_gamma(categories=50, gamma=1.0 - program.fit * 2.0**-53)
    assert Fraction(rounded.gamma) == 1 - Fraction(program.fit, 2**53)
    assert program_of(rounded) == program
    devices = sa.epsilon(sa.ShuffleRound(rounded, users=10_000), delta=1e-6)
    written = sa.epsilon(
        sa.ShuffleRound(sa.RandomizedResponse(categories=50, eps0=6.0), users=10_000), delta=1e-6
    )
    assert devices.lower <= written.upper


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_estimates_of_many_messages_are_unbiased(mechanism: Any) -> None:
    """Within six standard errors of the truth: one in 10^9 by chance."""
    k = mechanism.categories
    truth = np.arange(30_000) % k
    messages = program_of(mechanism).messages(truth, np.random.default_rng(3))
    found = mechanism.estimate(messages)
    shares = np.bincount(truth, minlength=k) / truth.size
    assert np.all(np.abs(found.values - shares) < 6.0 * found.standard_errors)


def test_shapes_are_those_of_the_mechanism() -> None:
    for mechanism in MECHANISMS.values():
        program, rng = program_of(mechanism), np.random.default_rng(1)
        for values in (1, [[0, 1, 1]], np.zeros(0, dtype=int)):
            shape = mechanism.randomize(values, rng).shape
            assert program.messages(values, rng).shape == shape


def test_blocks_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shuffle_accountant.deployment.programs._BLOCK", 7)
    for mechanism in MECHANISMS.values():
        messages = program_of(mechanism).messages(np.ones(50, dtype=int), None)
        assert len(messages) == 50


def test_other_randomizers_are_refused_by_name() -> None:
    for other in (sa.GeneralRandomizer(eps0=1.0), sa.DiscreteRandomizer([[0.6, 0.4], [0.4, 0.6]])):
        with pytest.raises(ValueError, match=rf"must be one of .*, got {type(other).__name__}"):
            program_of(other)
    with pytest.raises(ValueError, match=r"finite, got inf"):
        program_of(sa.RandomizedResponse(categories=2, eps0=math.inf))
    with pytest.raises(ValueError, match=r"at most 2\^24"):
        program_of(sa.RAPPOR(categories=2**25, eps0=1.0))
    with pytest.raises(ValueError, match=r"< 2\^53"):
        program_of(sa.HadamardResponse(categories=2**53, eps0=1.0))
