"""Shuffled protocols in integers: every law, divergence and enclosure here is exact.

A channel is taken as it is given: floats are exact binary fractions, so its rows are integers over
one common denominator, and so is every probability of a protocol of a few users. Only ``e^epsilon``
is irrational; it is enclosed to some 400 decimals, and a divergence with it. What is compared with
a float is compared in integers: nothing here needs a tolerance.

Rows of floats whose entries are not all multiples of one small power of two do not add up to one
exactly. The law is that of the entries as they stand, and ``Channel.defect`` says how far off their
sums are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache

import mpmath

# Binary places of e^epsilon: differences of 1e-400 are told from 0.
PLACES = 1400
# e^epsilon is between ``exponential(epsilon)`` and this much more, in units of its last place.
_DOUBT = 4
# No finite loss of doubles is larger, nats: each of a few rounds adds 745 at most.
_BEYOND = 5000.0
# Histograms are written as one number; no protocol here has so many messages.
_BASE = 1 << 12

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Enclosure:
    """A number between two fractions of one denominator."""

    low: int
    high: int
    denominator: int

    def may_reach(self, bound: float) -> bool:
        """Whether the number may be at least the bound."""
        numerator, denominator = bound.as_integer_ratio()
        return numerator * self.denominator <= self.high * denominator

    def may_stay_below(self, bound: float) -> bool:
        """Whether the number may be at most the bound."""
        numerator, denominator = bound.as_integer_ratio()
        return self.low * denominator <= numerator * self.denominator

    def widened(self, allowance: Fraction) -> Enclosure:
        """Both ends moved outwards."""
        up, down = allowance.numerator, allowance.denominator
        more = up * self.denominator
        return Enclosure(self.low * down - more, self.high * down + more, self.denominator * down)

    def scaled(self, factor: Fraction) -> Enclosure:
        """Times a factor >= 0."""
        up, down = factor.numerator, factor.denominator
        return Enclosure(self.low * up, self.high * up, self.denominator * down)

    def __str__(self) -> str:
        with mpmath.workdps(25):
            low, high = (mpmath.mpf(end) / self.denominator for end in (self.low, self.high))
            return mpmath.nstr(low, 20) if low == high else f"{mpmath.nstr((low + high) / 2, 20)}"


def largest(enclosures: Iterable[Enclosure]) -> Enclosure:
    """The largest of some numbers."""
    found = list(enclosures)
    low = max(found, key=lambda e: Fraction(e.low, e.denominator)) if len(found) > 1 else found[0]
    high = max(found, key=lambda e: Fraction(e.high, e.denominator)) if len(found) > 1 else low
    return Enclosure(
        low.low * high.denominator, high.high * low.denominator, low.denominator * high.denominator
    )


@lru_cache(maxsize=4096)
def exponential(epsilon: float) -> int:
    """``e^epsilon`` in units of ``2^-PLACES``, rounded down by no more than ``_DOUBT`` of them."""
    whole = 1.5 * max(epsilon, 0.0)  # bits before the point, and some
    with mpmath.workprec(PLACES + int(whole) + 64):
        return int(mpmath.floor(mpmath.ldexp(mpmath.exp(mpmath.mpf(epsilon)), PLACES))) - 2


@dataclass(frozen=True)
class Pair:
    """Two laws on one finite set, as atoms ``(p, q)`` over a denominator.

    Attributes:
        atoms: masses, integers >= 0; an atom without p never counts and may be left out.
        denominator: of all of them.
        doubt: how far off the sum of the masses of any event may be, because e^eps0 is irrational.
    """

    atoms: tuple[tuple[int, int], ...]
    denominator: int
    doubt: Fraction = Fraction(0)

    def divergence(self, epsilon: float) -> Enclosure:
        """``H_alpha(P‖Q)`` at ``alpha = e^epsilon``; beyond all finite losses its limit."""
        if epsilon > _BEYOND:
            certain = sum(p for p, q in self.atoms if not q)
            return Enclosure(certain, certain, self.denominator).widened(self.doubt)
        alpha = exponential(epsilon)
        total = others = 0
        for p, q in self.atoms:
            excess = (p << PLACES) - alpha * q
            if excess > 0:
                total += excess
                others += q
        # laws of rows that add up to a little more than one are told apart no better than certainly
        total = min(total, self.denominator << PLACES)
        found = Enclosure(max(total - _DOUBT * others, 0), total, self.denominator << PLACES)
        if self.doubt:
            found = found.widened(self.doubt * (1 + Fraction(alpha + _DOUBT, 1 << PLACES)))
        return found

    def tail(self, epsilon: float) -> Enclosure:
        """``P(loss >= epsilon)``."""
        alpha = exponential(epsilon) if epsilon else 1 << PLACES
        doubt = _DOUBT if epsilon else 0
        low = sum(p for p, q in self.atoms if p << PLACES >= (alpha + doubt) * q)
        high = sum(p for p, q in self.atoms if p << PLACES >= alpha * q)
        return Enclosure(low, high, self.denominator).widened(self.doubt)

    @cached_property
    def reversed(self) -> Pair:
        """Datasets exchanged."""
        return Pair(tuple((q, p) for p, q in self.atoms), self.denominator, self.doubt)

    def mixed(self, users: int, population: int) -> Pair:
        """``(g P + (1-g) Q, Q)``: the target is one of the users with probability g."""
        rest = population - users
        atoms = tuple((users * p + rest * q, population * q) for p, q in self.atoms)
        return Pair(atoms, self.denominator * population, self.doubt)

    def sampled(self, users: int, population: int) -> Pair:
        """The dominating pair of a sampled round (Zhu et al. 2022), of a symmetric pair.

        PldAtoms with p > q become ``(g p + (1-g) q, q)``, those with p < q ``(p, g q + (1-g) p)``;
        what is missing to one goes to loss 0.
        """
        rest, scale = population - users, population
        atoms = []
        for p, q in self.atoms:
            if p > q:
                atoms.append((users * p + rest * q, scale * q))
            else:
                atoms.append((scale * p, users * q + rest * p))
        # masses as they stand may be more than one
        missing = max(self.denominator * scale - sum(p for p, _ in atoms), 0)
        atoms.append((missing, missing))
        return Pair(tuple(atoms), self.denominator * scale, self.doubt)

    def merged(self) -> Pair:
        """PldAtoms of one ratio together."""
        found: dict[tuple[int, int], list[int]] = {}
        for p, q in self.atoms:
            if p:
                common = math.gcd(p, q)
                entry = found.setdefault((p // common, q // common), [0, 0])
                entry[0] += p
                entry[1] += q
        atoms = tuple((p, q) for p, q in found.values())
        return Pair(atoms, self.denominator, self.doubt)

    def __matmul__(self, other: Pair) -> Pair:
        """Both rounds: products of masses."""
        atoms = tuple((a * c, b * d) for a, b in self.atoms for c, d in other.atoms)
        return Pair(atoms, self.denominator * other.denominator, self.doubt + other.doubt)


def dominating(pairs: Sequence[Pair]) -> Pair:
    """The pair whose profile is the pointwise largest of the pairs' profiles."""
    merged = list(dict.fromkeys(tuple(sorted(pair.merged().atoms)) for pair in pairs))
    denominator = pairs[0].denominator
    assert all(pair.denominator == denominator and not pair.doubt for pair in pairs)
    if len(merged) == 1:
        return Pair(merged[0], denominator)
    kinks = sorted({Fraction(0), *(Fraction(p, q) for atoms in merged for p, q in atoms if q)})

    def profile(atoms: tuple[tuple[int, int], ...], alpha: Fraction) -> Fraction:
        up, down = alpha.numerator, alpha.denominator
        return Fraction(sum(max(down * p - up * q, 0) for p, q in atoms), down)

    table = [[profile(atoms, alpha) for atoms in merged] for alpha in kinks]
    points = set(kinks)
    for (left, start), (right, end) in itertools.pairwise(zip(kinks, table, strict=True)):
        lines = set(zip(start, end, strict=True))
        for (a, b), (c, d) in itertools.combinations(lines, 2):
            if (a - c) * (b - d) < 0:
                points.add(left + (right - left) * (a - c) / ((a - c) - (b - d)))
    ordered = sorted(points)
    values = [max(profile(atoms, alpha) for atoms in merged) for alpha in ordered]
    slopes = [
        (h - g) / (b - a)
        for (a, g), (b, h) in itertools.pairwise(zip(ordered, values, strict=True))
    ] + [Fraction(0)]
    masses = [
        (alpha * (after - before), after - before)
        for alpha, (before, after) in zip(ordered[1:], itertools.pairwise(slopes), strict=True)
        if after != before
    ]
    if values[-1]:
        masses.append((values[-1], Fraction(0)))
    scale = math.lcm(*(x.denominator for mass in masses for x in mass)) if masses else 1
    return Pair(tuple((int(p * scale), int(q * scale)) for p, q in masses), denominator * scale)


@lru_cache(maxsize=512)
def _crowd(row: tuple[int, ...], count: int) -> dict[int, int]:
    """The law of the histogram of so many messages."""
    if count == 0:
        return {0: 1}
    law: dict[int, int] = {}
    for seen, mass in _crowd(row, count - 1).items():
        for letter, chance in enumerate(row):
            if chance:
                key = seen + _BASE**letter
                law[key] = law.get(key, 0) + mass * chance
    return law


def _joined(row: Sequence[int], crowd: dict[int, int]) -> dict[int, int]:
    """With one more message."""
    law: dict[int, int] = {}
    for letter, chance in enumerate(row):
        if chance:
            place = _BASE**letter
            for seen, mass in crowd.items():
                key = seen + place
                law[key] = law.get(key, 0) + mass * chance
    return law


def among(
    first: Sequence[int],
    second: Sequence[int],
    crowd: dict[int, int],
    denominator: int,
    doubt: Fraction = Fraction(0),
) -> Pair:
    """A target's message, of one law or the other, in a crowd."""
    p, q = _joined(first, crowd), _joined(second, crowd)
    atoms = tuple((mass, q.get(seen, 0)) for seen, mass in p.items())
    return Pair(atoms, denominator, doubt)


class Channel:
    """A channel in integers, and what is exactly true of rounds with it.

    Attributes:
        rows: numerators, one row for each input.
        denominator: of all of them.
        doubt: bound on the error of any probability of one message.
    """

    def __init__(self, rows: Rows, denominator: int, doubt: Fraction = Fraction(0)) -> None:
        self.rows, self.denominator, self.doubt = rows, denominator, doubt
        self._pairs: dict[object, Pair] = {}

    @classmethod
    def of_floats(cls, channel: Sequence[Sequence[float]]) -> Channel:
        """The entries as they stand."""
        ratios = [[entry.as_integer_ratio() for entry in row] for row in channel]
        scale = max(down for row in ratios for _, down in row)  # powers of two
        rows = tuple(tuple(up * (scale // down) for up, down in row) for row in ratios)
        return cls(rows, scale)

    @property
    def inputs(self) -> range:
        """The inputs."""
        return range(len(self.rows))

    @cached_property
    def defect(self) -> Fraction:
        """How far the worst row is from adding up to one."""
        return max(abs(Fraction(sum(row), self.denominator) - 1) for row in self.rows)

    @cached_property
    def ratio(self) -> Fraction | None:
        """``e^eps0``, the largest ratio in a column; None if it is infinite."""
        columns = [column for column in zip(*self.rows, strict=True) if max(column)]
        if any(min(column) == 0 for column in columns):
            return None
        return max(Fraction(max(column), min(column)) for column in columns)

    @cached_property
    def kinks(self) -> list[float]:
        """Logarithms of the ratios in its columns, nats, those that are positive and finite."""
        found = {
            Fraction(a, b)
            for column in zip(*self.rows, strict=True)
            for a, b in itertools.permutations(column, 2)
            if b and a > b
        }
        return sorted(float(mpmath.log(mpmath.mpf(r.numerator) / r.denominator)) for r in found)

    @cached_property
    def blanket(self) -> tuple[int, ...]:
        """What decoys send: the columns' minima, and the rest of 1 or of the largest row sum."""
        common = tuple(min(column) for column in zip(*self.rows, strict=True))
        return (*common, max(self.denominator, *map(sum, self.rows)) - sum(common))

    def _kept(self, key: object, pair: Pair) -> Pair:
        self._pairs[key] = pair
        return pair

    def dataset(
        self, first: int, second: int, others: Sequence[int], population: int | None = None
    ) -> Pair:
        """The real output on two datasets that differ in the target's value.

        Args:
            first: the target's value in one dataset.
            second: its value in the other.
            others: the values of the other users; all of them equal if it is a sample.
            population: from how many the users are drawn.
        """
        others = tuple(sorted(others))
        key = (first, second, others, population)
        if key in self._pairs:
            return self._pairs[key]
        rows, users = self.rows, len(others) + 1
        doubt = 2 * users * self.doubt
        if population is not None and population > users and others:
            assert len(set(others)) == 1
            same, rest = rows[others[0]], population - users
            p, q = (
                [users * a + rest * b for a, b in zip(rows[x], same, strict=True)]
                for x in (first, second)
            )
            down = population * self.denominator**users
            return self._kept(key, among(p, q, _crowd(same, users - 1), down, doubt))
        crowd: dict[int, int] = {0: 1}
        if len(set(others)) == 1:
            crowd = _crowd(rows[others[0]], users - 1)
        else:
            for value in others:
                crowd = _joined(rows[value], crowd)
        down = self.denominator**users
        return self._kept(key, among(rows[first], rows[second], crowd, down, doubt))

    def sample_of_one(self, first: int, second: int, other: int, population: int) -> Pair:
        """One user of a population answers; all but the target hold one value."""
        p, q = (
            [a + (population - 1) * b for a, b in zip(self.rows[x], self.rows[other], strict=True)]
            for x in (first, second)
        )
        return among(p, q, {0: 1}, population * self.denominator, 2 * self.doubt)

    def blanket_pair(self, first: int, second: int, users: int) -> Pair:
        """The target among decoys that send the blanket or nothing."""
        key = ("blanket", first, second, users)
        if key in self._pairs:
            return self._pairs[key]
        crowd = _crowd(self.blanket, users - 1)
        down = self.denominator * sum(self.blanket) ** (users - 1)
        doubt = 2 * users * (len(self.blanket) + 1) * self.doubt
        rows = self.rows
        return self._kept(key, among(rows[first], rows[second], crowd, down, doubt))

    def blanket_pairs(self, users: int) -> list[Pair]:
        """Those of all ordered pairs of inputs."""
        return [self.blanket_pair(a, b, users) for a, b in itertools.permutations(self.inputs, 2)]

    @cache  # noqa: B019 - channels of a fuzzer do not live long
    def blanket_dominating(self, users: int) -> Pair:
        """The pair of the largest profile of them."""
        return dominating(self.blanket_pairs(users))


def clones(ratio: Fraction, users: int, doubt: Fraction = Fraction(0)) -> Pair:
    """The clones pair at ``e^eps0 = ratio``."""
    a, b = ratio.numerator, ratio.denominator
    crowd = _crowd((b, b, a - b), users - 1)
    return among((a, b, 0), (b, a, 0), crowd, (a + b) ** users, 4 * users * doubt)


def interactive_clones(ratio: Fraction, users: int, doubt: Fraction = Fraction(0)) -> Pair:
    """The pair for randomizers that look at earlier messages of the round."""
    a, b = ratio.numerator, ratio.denominator
    crowd = _crowd((b, b, 2 * (a - b)), users - 1)
    down = (a + b) * (2 * a) ** (users - 1)
    return among((a, b, 0), (b, a, 0), crowd, down, 4 * users * doubt)


def power_of_e(exponent: float) -> tuple[Fraction, Fraction]:
    """``e^exponent`` as a fraction, and the relative error of it."""
    return Fraction(exponential(exponent) + _DOUBT // 2, 1 << PLACES), Fraction(_DOUBT, 1 << PLACES)


def randomized_response(categories: int, gamma: Fraction, doubt: Fraction) -> Channel:
    """k-ary randomized response that answers at random with probability gamma."""
    a, b = gamma.numerator, gamma.denominator
    keep, lie = categories * (b - a) + a, a
    rows = tuple(
        tuple(keep if x == y else lie for y in range(categories)) for x in range(categories)
    )
    return Channel(rows, categories * b, doubt)


def strong_pair(categories: int, gamma: Fraction, users: int, doubt: Fraction) -> Pair:
    """A target that tells the truth among decoys of which it is seen who answered at random."""
    a, b = gamma.numerator, gamma.denominator
    decoy = (a, a, categories * b - 2 * a)
    down = categories * b
    crowd = _crowd(decoy, users - 1)
    return among((1, 0, 0), (0, 1, 0), crowd, down ** (users - 1), 4 * users * doubt)


def rappor(categories: int, eps0: float) -> Channel:
    """One bit for each category, each flipped with probability ``1/(e^(eps0/2) + 1)``."""
    stay, doubt = power_of_e(eps0 / 2)
    a, b = stay.numerator, stay.denominator
    rows = []
    for x in range(categories):
        row = []
        for bits in itertools.product((0, 1), repeat=categories):
            kept = sum(bit == (y == x) for y, bit in enumerate(bits))
            row.append(a**kept * b ** (categories - kept))
        rows.append(tuple(row))
    return Channel(tuple(rows), (a + b) ** categories, categories * doubt)


def subset_selection(categories: int, eps0: float, size: int) -> Channel:
    """A set of so many categories, e^eps0 times as likely if the true one is in it."""
    odds, doubt = power_of_e(eps0)
    a, b = odds.numerator, odds.denominator
    sets = list(itertools.combinations(range(categories), size))
    rows = tuple(tuple(a if x in s else b for s in sets) for x in range(categories))
    return Channel(rows, sum(rows[0]), doubt)


def hadamard(categories: int, eps0: float) -> Channel:
    """A column of a Hadamard matrix, e^eps0 times as likely where the value's row has +1."""
    odds, doubt = power_of_e(eps0)
    a, b = odds.numerator, odds.denominator
    columns = 1 << categories.bit_length()
    rows = tuple(
        tuple(b if ((x + 1) & y).bit_count() % 2 else a for y in range(columns))
        for x in range(categories)
    )
    return Channel(rows, sum(rows[0]), doubt)
