"""What a device runs: reference randomizers that use whole numbers and nothing else.

Each program makes a message from a value and from draws (`draws`): first a blank message, then,
with a draw below a threshold (`thresholds`), it is fitted to the value. The blank message and the
draw are made whatever the value is, and no loop or branch on the way depends on it; what the last
step costs depends on the compiler.

A floating-point sampler has low bits that depend on the value: noise that is added to different
numbers reaches different sets of doubles, and whoever sees one of them rules out values (Mironov
2012, "On significance of the least significant bits for differential privacy"). Here messages are
whole numbers, every one of them comes from every value, and the probabilities are exactly those
that are accounted for.

Test vectors: random bytes and a value in, a message out; files that check ports of a program. The
bytes are a function of the program and of the vector's number, so that the same vectors are made
again. Every other draw is taken from the edges of what a port could get wrong: zero, the largest
draw, the threshold and its neighbours, and the draws next to those that are drawn again.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant.deployment.whole_numbers import (
    BITS,
    BYTES,
    RANGE,
    Draws,
    Integers,
    fitting_draws,
    flipping_draws,
    loss_of_fitting,
    loss_of_flipping,
)
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

Message = int | list[int] | list[bool]


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
    def eps0(self) -> float:
        """Local privacy parameter of exactly this program, nats, rounded up."""

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
class _Fitted(Program):
    """Programs that draw a blank message, and fit it to the value by one draw below `fit`."""

    @property
    @abstractmethod
    def mass(self) -> Fraction:
        """Probability that a blank message says yes to a value."""

    @property
    def eps0(self) -> float:
        """Local privacy parameter of exactly this program, nats, rounded up."""
        return loss_of_fitting(self.fit, self.mass)


@dataclass(frozen=True)
class ResponseProgram(_Fitted):
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

    @property
    def eps0(self) -> float:
        """Local privacy parameter of exactly this program, nats, rounded up."""
        return loss_of_flipping(self.fit)

    def block(self, values: Integers, draws: Draws) -> NDArray[np.bool_]:
        """Bits, shape (n, k)."""
        shape = (values.size, self.categories)
        bits = draws.draw(values.size * self.categories).reshape(shape) < self.fit
        bits[np.arange(values.size), values] ^= True
        return bits


@dataclass(frozen=True)
class SubsetProgram(_Fitted):
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
class HashingProgram(_Fitted):
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
class HadamardProgram(_Fitted):
    """Hadamard response: a uniform column; fitted, its entry in the value's row is +1.

    Row x + 1 belongs to the value x, and an entry is +1 if row and column have an even number of
    bits in common. Flipping the row's lowest bit in the column changes that, and pairs the columns,
    so that the fitted column is uniform among those with +1.
    """

    kind: ClassVar[str] = HadamardResponse.kind
    columns: int

    @property
    def mass(self) -> Fraction:
        """Probability that a uniform column says yes to a value: 1/2."""
        return Fraction(1, 2)

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
    blank: _Fitted
    if isinstance(randomizer, RAPPOR):
        return RapporProgram(_listed(k), flipping_draws(eps0))
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
