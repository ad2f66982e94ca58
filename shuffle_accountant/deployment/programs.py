"""What a device runs: reference randomizers that use whole numbers and nothing else.

Each program makes a message from a value and from draws. A *blank* message is drawn from a
distribution that no value enters; with probability t the message is then *fitted* to the value,
which makes it one of the messages that say yes to the value, uniformly. Blank messages say yes to a
value with probability m, so that a message is ``1 + t/((1 - t) m)`` times as likely from a value
that it says yes to as from one that it does not: e^eps0. Solved for t, with ``E = e^eps0 - 1``,

    t = E m / (E m + 1),        T = floor(2^53 t).

RAPPOR does so for every bit with half of eps0, in a shorter form: each bit is flipped with
probability s = 1/(e^(eps0/2) + 1), rounded up.

*Claim.* Let R be the randomizer with t and R' the one with ``t' = T/2^53 <= t``. Any number of
shuffled rounds of R' has a hockey-stick divergence of at most that of rounds of R, at every epsilon
and for every pair of datasets. *Proof.* R' is R followed by a kernel that no value enters: with
probability ``1 - t'/t`` a message is replaced by a blank one. For then the message is fitted with
probability ``t (t'/t) = t'``, and is blank else. A kernel that is applied to each message
separately commutes with the permutation of the shuffler, so that outputs of shuffled rounds of R'
are a post-processing of outputs of shuffled rounds of R, round by round, which no divergence grows
by, however the rounds are composed. For RAPPOR the same holds bit by bit: a bit that is flipped
with probability s and then, independently, with ``r = (s' - s)/(1 - 2 s)`` is flipped with
``s (1 - r) + (1 - s) r = s'``, for ``s <= s' <= 1/2``. ∎

So what is certified for the parameters as they are written holds for the integers on the devices.
The blank message and the draw are made whatever the value is, and no loop or branch on the way
depends on it; what the last step costs depends on the compiler.

A floating-point sampler has low bits that depend on the value: noise that is added to different
numbers reaches different sets of doubles, and whoever sees one of them rules out values (Mironov
2012, "On significance of the least significant bits for differential privacy"). Here messages are
whole numbers, every one of them comes from every value, and the probabilities are exactly those
that are accounted for.

A *draw* is eight bytes, most significant first, of which the lowest 11 bits are dropped: a uniform
integer below ``2^53``, which every language and every JSON reader holds exactly. An integer below n
is the remainder of a draw modulo n; draws at or above the largest multiple of n are drawn again, so
that all remainders are equally likely, exactly.

Test vectors: random bytes and a value in, a message out; files that check ports of a program. The
bytes are a function of the program and of the vector's number, so that the same vectors are made
again. Every other draw is taken from the edges of what a port could get wrong: zero, the largest
draw, the threshold and its neighbours, and the draws next to those that are drawn again.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.checks import category_values, generator
from shuffle_accountant.randomizers.estimation import FrequencyEstimator
from shuffle_accountant.randomizers.oracles import (
    RAPPOR,
    HadamardResponse,
    LocalHashing,
    SubsetSelection,
)
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

# Number of entries of arrays that are made at once.
_BLOCK = 2**22
# Most categories of which a device may hold a number for each.
_MOST_LISTED = 2**24
# Bits of a draw, the number of its values, and the bytes that it takes.
BITS, RANGE, BYTES = 53, 1 << 53, 8
# Digits of exponentials and logarithms, which `decimal` rounds correctly, and what is given away to
# stay on the safe side: 2^-53 is four times ten to the minus 16.
_DIGITS, _SLACK = 120, Decimal(10) ** -90
# The eps0 (nats) from which on all but one of the 2^53 draws fit the message, for any m >= 2^-53.
_LARGEST = 200.0

Integers = NDArray[np.int64]
Message = int | list[int] | list[bool]


class Draws:
    """Uniform integers from random bytes, any number of them at a time.

    Args:
        source: returns a number of random bytes, such as `os.urandom`.
    """

    def __init__(self, source: Callable[[int], bytes]) -> None:
        self._source = source

    def draw(self, size: int) -> Integers:
        """Uniform integers in 0 … 2^53 - 1, shape (size,)."""
        words = np.frombuffer(self._source(BYTES * size), dtype=">u8")
        return (words >> np.uint64(8 * BYTES - BITS)).astype(np.int64)

    def below(self, count: int, size: int) -> Integers:
        """Uniform integers in 0 … count - 1, shape (size,), for 1 <= count <= 2^53."""
        drawn = self.draw(size)
        while (again := np.flatnonzero(drawn >= RANGE - RANGE % count)).size:
            drawn[again] = self.draw(again.size)
        return drawn % count


@dataclass(frozen=True)
class Program(ABC):
    """A device's randomizer: one of k values and random bytes in, a message out.

    A message is fitted to the value by draws below ``fit``; of RAPPOR, draws below it flip a bit.
    """

    kind: ClassVar[str]
    categories: int
    fit: int

    @property
    @abstractmethod
    def mass(self) -> Fraction:
        """Probability that a blank message says yes to a value."""

    @property
    def eps0(self) -> float:
        """Local privacy parameter of exactly this program, nats, rounded up."""
        return _logarithm_above(1 + Fraction(self.fit, RANGE - self.fit) / self.mass)

    @abstractmethod
    def block(self, values: Integers, draws: Draws) -> NDArray[Any]:
        """The messages of values, shape (n,): numbers, or rows of bits, of members, of two."""

    def message(self, value: int, draws: Draws) -> Message:
        """The message of one value: what a device does, and what test vectors are made of."""
        found: Message = self.block(np.array([value]), draws)[0].tolist()
        return found

    @property
    def width(self) -> int:
        """Number of entries that the arrays for one message have."""
        return self.categories if self.kind in (RAPPOR.kind, SubsetSelection.kind) else 1

    def messages(self, values: ArrayLike, rng: np.random.Generator | None) -> NDArray[Any]:
        """The messages of many values, as arrays that `estimate` reads."""
        own, draws = category_values(values, self.categories), Draws(generator(rng).bytes)
        flat, step = own.ravel(), max(_BLOCK // self.width, 1)
        starts = range(0, max(flat.size, 1), step)
        found = np.concatenate([self.block(flat[i : i + step], draws) for i in starts])
        return found.reshape((*own.shape, *found.shape[1:]))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: all that a port to another language has to know."""
        return {"kind": self.kind, **vars(self)}


@dataclass(frozen=True)
class ResponseProgram(Program):
    """k-ary randomized response: a uniform category; fitted, it is the value."""

    kind: ClassVar[str] = RandomizedResponse.kind

    @property
    def mass(self) -> Fraction:
        """Probability that a uniform category is a given value: 1/k."""
        return Fraction(1, self.categories)

    def block(self, values: Integers, draws: Draws) -> Integers:
        """Categories, shape (n,)."""
        blank = draws.below(self.categories, values.size)
        return np.where(draws.draw(values.size) < self.fit, values, blank)


@dataclass(frozen=True)
class RapporProgram(Program):
    """RAPPOR: one bit for each category, of which the value's alone is set; each may be flipped."""

    kind: ClassVar[str] = RAPPOR.kind
    mass = Fraction(1, 2)  # of a bit

    @property
    def eps0(self) -> float:
        """Local privacy parameter of exactly this program, nats, rounded up."""
        return _logarithm_above(Fraction(RANGE - self.fit, self.fit) ** 2)

    def block(self, values: Integers, draws: Draws) -> NDArray[np.bool_]:
        """Bits, shape (n, k)."""
        shape = (values.size, self.categories)
        bits = draws.draw(values.size * self.categories).reshape(shape) < self.fit
        bits[np.arange(values.size), values] ^= True
        return bits


@dataclass(frozen=True)
class SubsetProgram(Program):
    """Subset selection: a uniform set; fitted, the value replaces a member if it is none itself.

    A uniform set that holds the value stays one, and a uniform set of the others, in which a
    uniform member gives way to the value, is a uniform set that holds it.
    """

    kind: ClassVar[str] = SubsetSelection.kind
    size: int

    @property
    def mass(self) -> Fraction:
        """Probability that a uniform set of d categories contains a given value: d/k."""
        return Fraction(self.size, self.categories)

    def block(self, values: Integers, draws: Draws) -> Integers:
        """Sets in rising order, shape (n, d)."""
        count, rows = values.size, np.arange(values.size)
        chosen = np.empty((count, self.size), dtype=np.int64)
        held = np.zeros((count, self.categories), dtype=bool)
        for member in range(self.size):
            last = self.categories - self.size + member
            drawn = draws.below(last + 1, count)
            chosen[:, member] = np.where(held[rows, drawn], last, drawn)
            held[rows, chosen[:, member]] = True
        place = draws.below(self.size, count)
        fits = np.flatnonzero((draws.draw(count) < self.fit) & ~held[rows, values])
        chosen[fits, place[fits]] = values[fits]
        return np.sort(chosen, axis=1)


@dataclass(frozen=True)
class HashingProgram(Program):
    """Local hashing: a random function and a uniform bucket; fitted, it is the value's bucket.

    The function is SplitMix64, started at a draw: its output number ``value``, from 0, modulo the
    number of buckets. All of that is arithmetic of unsigned integers modulo 2^64.
    """

    kind: ClassVar[str] = LocalHashing.kind
    buckets: int

    @property
    def mass(self) -> Fraction:
        """Probability that a value's hash is a uniform bucket: 1/g."""
        return Fraction(1, self.buckets)

    def block(self, values: Integers, draws: Draws) -> Integers:
        """Seeds and buckets, shape (n, 2)."""
        seeds = draws.draw(values.size)
        blank = draws.below(self.buckets, values.size)
        family = LocalHashing(categories=self.categories, eps0=1.0, buckets=self.buckets)
        fits = draws.draw(values.size) < self.fit
        return np.stack([seeds, np.where(fits, family.hash(seeds, values), blank)], axis=1)


@dataclass(frozen=True)
class HadamardProgram(Program):
    """Hadamard response: a uniform column; fitted, its entry in the value's row is +1.

    Row x + 1 belongs to the value x, and an entry is +1 if row and column have an even number of
    bits in common. Flipping the row's lowest bit in the column changes that, and pairs the columns,
    so that the fitted column is uniform among those with +1.
    """

    kind: ClassVar[str] = HadamardResponse.kind
    mass = Fraction(1, 2)
    columns: int

    def block(self, values: Integers, draws: Draws) -> Integers:
        """Columns, shape (n,)."""
        columns, rows = draws.below(self.columns, values.size), values + 1
        common = rows & columns
        for shift in (32, 16, 8, 4, 2, 1):
            common ^= common >> shift
        fits = (draws.draw(values.size) < self.fit) & ((common & 1) == 1)
        return np.where(fits, columns ^ (rows & -rows), columns)


_RANDOMIZERS = (RandomizedResponse, RAPPOR, SubsetSelection, LocalHashing, HadamardResponse)


def program_of(randomizer: LocalRandomizer) -> Program:
    """The program of a randomizer that devices can run, rounded so that it reveals less."""
    if type(randomizer) not in _RANDOMIZERS:
        known = ", ".join(kind.__name__ for kind in _RANDOMIZERS)
        raise ValueError(
            f"randomizer of a deployment must be one of {known}, got {randomizer!r:.80}"
        )
    assert isinstance(randomizer, FrequencyEstimator)
    k, eps0 = randomizer.categories, randomizer.eps0
    blank: Program
    if isinstance(randomizer, RAPPOR):
        # the fewest draws that flip a bit of two that differ, with ratios of at most e^eps0
        flips = math.ceil(RANGE / (_exponential_below(0.5 * eps0) + 1))
        return RapporProgram(_listed(k), min(flips, RANGE // 2))
    if isinstance(randomizer, RandomizedResponse):
        return ResponseProgram(k, _response(randomizer))
    if isinstance(randomizer, SubsetSelection):
        blank = SubsetProgram(_listed(k), 0, randomizer.size)
    elif isinstance(randomizer, LocalHashing):
        blank = HashingProgram(k, 0, randomizer.buckets)
    else:
        assert isinstance(randomizer, HadamardResponse)
        if randomizer.columns > RANGE:
            raise ValueError(f"categories must be < 2^53, got {k}")
        blank = HadamardProgram(k, 0, randomizer.columns)
    return replace(blank, fit=fitting_draws(eps0, blank.mass))


def _response(randomizer: RandomizedResponse) -> int:
    """Draws that fit a message, of the parameter that was given: the other one is rounded."""
    gamma = randomizer.to_dict().get("gamma")
    if gamma is None:
        return fitting_draws(randomizer.eps0, Fraction(1, randomizer.categories))
    if gamma == 0.0:
        raise ValueError("eps0 of a deployment must be finite, got inf")
    return min(int(RANGE * (1 - Fraction(gamma))), RANGE - 1)


def fitting_draws(eps0: float, mass: Fraction) -> int:
    """The largest number T of 2^53 draws that may fit a message: likelihood ratios <= e^eps0."""
    gain = (_exponential_below(eps0) - 1) * mass
    return 0 if gain <= 0 else math.floor(RANGE * gain / (gain + 1))


def _listed(categories: int) -> int:
    if categories > _MOST_LISTED:
        raise ValueError(
            f"categories must be at most 2^24 on devices whose messages list them, got {categories}"
        )
    return categories


def vectors_of(program: Program, count: int) -> list[dict[str, Any]]:
    """Vectors of a program, as `Deployment.vectors` returns them."""
    start = json.dumps(program.to_dict(), sort_keys=True)
    return [_vector(program, f"{start}:{number}", number) for number in range(count)]


def _vector(program: Program, name: str, number: int) -> dict[str, Any]:
    stream = hashlib.shake_256(name.encode())
    # draws at the edges of the program's ranges
    counts = {one for one in vars(program).values() if 1 <= one < RANGE} - {program.fit}
    last = {RANGE - RANGE % count - 1 for count in counts}
    found = {0, RANGE - 1, *last, *(min(one + 1, RANGE - 1) for one in last)}
    found |= {max(program.fit - 1, 0), program.fit, min(program.fit + 1, RANGE - 1)}
    edges, made = sorted(found), bytearray()

    def source(size: int) -> bytes:
        return b"".join(word() for _ in range(size // BYTES))

    def word() -> bytes:
        position = len(made)
        drawn = stream.digest(position + BYTES)[position:]
        choice = hashlib.sha256(f"{name}:{position}".encode()).digest()
        # from the tenth on, as chance has it; some vectors at the start are edges alone
        if choice[0] & 1 or number < 10:
            low = int.from_bytes(drawn, "big") & ((1 << (8 * BYTES - BITS)) - 1)
            edge = edges[int.from_bytes(choice[1:5], "big") % len(edges)]
            drawn = (edge << (8 * BYTES - BITS) | low).to_bytes(BYTES, "big")
        made.extend(drawn)
        return drawn

    drawn = hashlib.sha256(f"{name}:value".encode()).digest()
    value = int.from_bytes(drawn, "big") % program.categories
    message = program.message(value, Draws(source))
    return {"value": value, "bytes": made.hex(), "message": message}


def _exponential_below(exponent: float) -> Fraction:
    """A number in [1, e^exponent] that is closer to it than any double."""
    found = Context(prec=_DIGITS).exp(Decimal(min(exponent, _LARGEST)))
    return max(Fraction(found) * (1 - Fraction(_SLACK)), Fraction(1))


def _logarithm_above(ratio: Fraction) -> float:
    """A double that is at least the logarithm of a ratio >= 1."""
    context = Context(prec=_DIGITS)
    quotient = context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    exact = Fraction(context.ln(quotient)) + Fraction(_SLACK) if ratio > 1 else Fraction(0)
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
