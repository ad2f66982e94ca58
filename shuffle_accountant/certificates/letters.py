"""A target among decoys with few messages: its profile, exactly or from above.

A message that no decoy sends is seen for what it is: it adds ``(p0 - α p1)_+``. Of the others few
messages are listed (see `multisets`), and many are added up by doubling: the density of n shuffled
messages relative to n decoys is the mean likelihood ratio, so ``H(α) = E(S)_+ / n`` with S a sum of
n independent ``(p0 - α p1)/q``, of messages drawn from q. With M the largest of these values,
``E(S)_+ = E(n M - T)_+`` for a sum T of what each lacks from M, which a grid resolves best where
there is anything to gain.

Enumeration of the multisets of a few messages, for an exact profile of the target.

A multiset with ``c_i`` of message i, ``n`` in all, has the chance ``n!/(c_1! … c_L!) q_1^c_1 …
q_L^c_L`` among decoys alone. P and Q have the mean ratios of its messages, ``(1/n) sum of c_i
p_i/q_i``, times as much. ``H(α)`` is the sum of ``P - αQ`` over the multisets where that is
positive, which are those in which P's share of both is above ``α/(1 + α)``.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, islice
from typing import Self

from flint import arb, ctx, fmpq

from shuffle_accountant.certificates import balls
from shuffle_accountant.certificates.additive import Moments, power, power_work, spread
from shuffle_accountant.certificates.balls import Effort
from shuffle_accountant.certificates.work import Work, ball_bytes, deviations, price, spend

# Shares are compared as integers over two to this power.
_BITS = 128
# Most multisets that are listed; factor by which the estimate of their number may be off.
_MOST, _ABOUT = 1 << 17, 4.0
# Units of work for each count of a message that is tried, and each multiset that is listed.
_EACH_COUNT, _EACH_MULTISET = 6.0, 30.0
# p0, p1 and q of a message.
Letter = tuple[arb, arb, arb]
# P's share, as an integer, and the masses of a multiset under P and under Q.
Listed = tuple[int, tuple[arb, arb]]
# Grid units in a standard deviation of one summand, or in the largest gain if that is smaller.
_UNITS = 64.0
# Least grid unit, as a share of the largest value of a summand.
_FINEST = 2.0**-40
# The α at which the work of sums is estimated.
_TYPICAL = (1.0, 2.0, 8.0)
# Multisets are listed if likelier than 2**-(cut + this), in bits beyond the effort's cut.
_SPARE = 24


@dataclass(frozen=True)
class ListedMultisets:
    """Masses of all multisets, by ascending share of P.

    Attributes:
        shares: integers over ``2**128``, no less than P's shares and no more than two above.
        masses: under P and under Q.
        above: sums of the masses of each and all that follow, and of none.
        rest: P-mass of all that are not listed.
    """

    shares: Sequence[int]
    masses: Sequence[tuple[arb, arb]]
    above: Sequence[tuple[arb, arb]]
    rest: arb

    @staticmethod
    def work(letters: Sequence[Letter], users: int, cut: int, precision: int) -> tuple[Work, bool]:
        """Work and memory of `of`, and whether it may return None for too many multisets."""
        about = _about(letters, users, cut)
        if about > _ABOUT * _MOST:
            return Work(), True
        chances = sorted(min(max(float(q.mid()), 0.0), 1.0) for _, _, q in letters)
        bits = cut + math.log2(users) + 2.0
        nodes, prefixes = 0.0, 1.0
        for i, q in enumerate(chances[:-1]):
            nodes += min(prefixes, math.comb(users + i, i))
            prefixes *= min(2.0 * deviations(users * q * (1.0 - q), 1.0, bits), users) + 1.0
        powers = 2.0 * len(letters) * (users + 1.0)
        listed = min(_ABOUT * about, _MOST) + 1.0
        units = 2.0 * powers + _EACH_COUNT * (users + 1.0) * min(nodes, 16.0 * _MOST)
        units += _EACH_MULTISET * listed
        memory = (powers + 6.0 * listed) * ball_bytes(precision)
        return Work(units * price(precision), memory), about > _MOST / _ABOUT**2

    @classmethod
    def of(cls, letters: Sequence[Letter], users: int, cut: int) -> Self | None:
        """Multisets of ``users`` messages, likelier than ``2**-cut``; None if they are too many.

        Of the letters each has q > 0, or p0 = p1 = 0.

        Raises:
            UndecidedError: balls are too wide for a share.
        """
        if _about(letters, users, cut) > _ABOUT * _MOST:
            return None
        listed = list(islice(_multisets(letters, users, cut), _MOST + 1))
        if len(listed) > _MOST:
            return None
        listed.sort(key=lambda one: one[0])
        masses = [pair for _, pair in listed]
        above = [(arb(0), arb(0))]
        for p, q in reversed(masses):
            above.append((above[-1][0] + p, above[-1][1] + q))
        total = sum((p0 for p0, _, q in letters if q > 0), arb(0))
        return cls([share for share, _ in listed], masses, above[::-1], total - above[-1][0])

    def divergence(self, alpha: arb) -> arb:
        """A ball of the part of ``H(α)`` that these messages contribute."""
        share = alpha / (1 + alpha)
        least = bisect_right(
            self.shares, -balls.ceiling(-share, _BITS)
        )  # none before gains anything
        sure = bisect_left(self.shares, balls.ceiling(share, _BITS) + 2)  # all from there on gain
        p, q = self.above[sure]
        spend((_EACH_MULTISET + 4.0 * max(sure - least, 0)) * price(ctx.prec))
        near = (balls.at_least(0, one - alpha * other) for one, other in self.masses[least:sure])
        return sum(near, p - alpha * q) + balls.between_zero_and(self.rest)


def _about(letters: Sequence[Letter], users: int, cut: int) -> float:
    """Rough number of multisets to list: from the deviations of counts, or all of them."""
    goal = 2.0 * math.log(2.0) * cut
    ranges = []
    for _, _, chance in letters:
        q = min(max(float(chance.mid()), 0.0), 1.0)
        ranges.append(min(2.0 * math.sqrt(goal * users * q * (1.0 - q)) + 0.25 * goal, users) + 1.0)
    likely = math.prod(sorted(ranges)[:-1]) / math.factorial(len(letters) - 1)
    return min(likely, math.comb(users + len(letters) - 1, users))


def _share(p: arb, q: arb) -> int:
    """P's share ``p/(p + q)``, rounded up to an integer over ``2**128``."""
    share = p / (p + q)
    found = balls.ceiling(share, _BITS)
    if found + balls.ceiling(-share, _BITS) > 2:
        raise balls.UndecidedError("what a multiset of messages says")
    return found


def _multisets(letters: Sequence[Letter], users: int, cut: int) -> Iterator[Listed]:
    """P's share and the masses of each multiset that P or Q may send, but for unlikely ones."""
    rare_first = sorted(letters, key=lambda letter: float(letter[2].mid()))
    ratios = [(p0 / q, p1 / q) if q > 0 else (p0, p1) for p0, p1, q in rare_first]
    spend(4.0 * len(letters) * (users + 1) * price(ctx.prec))
    powers = [_powers(q, users) for _, _, q in rare_first]
    # of what is to come after each message
    later = list(accumulate((q for _, _, q in reversed(rare_first)), initial=arb(0)))[::-1]
    following = [_powers(q, users) for q in later[1:]]
    last, least = len(letters) - 1, arb(2) ** -cut / users

    def followed(i: int, left: int, chance: arb, p: arb, q: arb) -> Iterator[Listed]:
        first, second = ratios[i]
        tried = left + 1 if i < last else 1
        spend((_EACH_COUNT * tried + _EACH_MULTISET * (i == last)) * price(ctx.prec))
        for count in range(left + 1) if i < last else (left,):
            here = chance * powers[i][count]
            own, other = p + count * first, q + count * second
            if here * following[i][left - count] < least:
                continue
            if i < last:
                yield from followed(i + 1, left - count, here, own, other)
            elif own.upper() > 0 or other.upper() > 0:
                # the chance may be nothing but for rounding
                yield _share(own, other), (here * own, here * other)

    # n! of the chance, over n of the mean
    return followed(0, users, arb.fac_ui(users - 1), arb(0), arb(0))


def _powers(q: arb, most: int) -> list[arb]:
    """``q^c / c!`` for c = 0 … most."""
    return list(accumulate(range(1, most + 1), lambda x, c: x * q / c, initial=arb(1)))


@dataclass(frozen=True, eq=False)
class LettersAmongDecoys:
    """The pair of one target among ``users`` messages, by balls ``(p0, p1, q)`` of every letter.

    A blank has p0 = p1 = 0.
    """

    letters: tuple[Letter, ...]
    users: int

    def definite(self, effort: Effort) -> bool:
        """Whether divergences are enclosed: the messages are listed."""
        return _listed(self, effort.cut + _SPARE) is not None

    @cached_property
    def sent(self) -> list[Letter]:
        """The messages that decoys may send."""
        possible = (letter for letter in self.letters if letter[2].upper() > 0)
        # a chance that rounds to nothing is that of a blank
        return [one if one[2] > 0 else (arb(0), arb(0), one[2]) for one in possible]

    def work(self, count: int, effort: Effort) -> Work:
        """Work and memory of `divergences`, given the number of α."""
        sent = self.sent
        letters = 10.0 * len(self.letters) * price(effort.precision)
        cut = effort.cut + _SPARE
        listing, or_added = ListedMultisets.work(sent, self.users, cut, effort.precision)
        # whether they are listed is asked again where a check fails
        work = listing.times(2.0) + Work(count * (letters + 50.0 * price(effort.precision)))
        if or_added:
            adding = (self._adding_work(alpha, effort.often(self.users)) for alpha in _TYPICAL)
            work += max(adding, key=lambda one: one.units).times(count)
        return work

    def _adding_work(self, alpha: float, often: Effort) -> Work:
        """Work and memory of the sum at one α."""
        held = [tuple(float(x.mid()) for x in letter) for letter in self.sent]
        values = [((p0 - alpha * p1) / q if q > 0.0 else 0.0, q) for p0, p1, q in held]
        top = max(value for value, _ in values)
        if not (0.0 < top < math.inf):
            return Work()
        unit = float(arb(_unit(values, self.users * top)))
        mean = math.fsum((top - x) * q for x, q in values) / unit
        variance = math.fsum(((top - x) / unit - mean) ** 2 * q for x, q in values)
        moments = Moments(mean, variance, max((top - x) / unit for x, _ in values))
        return power_work(lambda count: moments.levels(count, often), self.users, often)

    def divergences(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Balls of ``H(α)`` at each α, or upper bounds if these are not definite."""
        # messages that no decoy sends are seen
        never = [(p0, p1) for p0, p1, q in self.letters if not q > 0]
        seen = [sum((balls.at_least(0, p0 - a * p1) for p0, p1 in never), arb(0)) for a in alphas]
        return [value + self._hidden(a, effort) for a, value in zip(alphas, seen, strict=True)]

    def _hidden(self, alpha: arb, effort: Effort) -> arb:
        """The part of ``H(α)`` of messages that decoys send: a ball, or an upper bound."""
        listed = _listed(self, effort.cut + _SPARE)
        if listed is not None:
            return listed.divergence(alpha)
        summands = [((p0 - alpha * p1) / q if q > 0 else arb(0), q) for p0, p1, q in self.sent]
        if not any(value.upper() > 0 for value, _ in summands):
            return arb(0)
        top = max(balls.upper(value) for value, _ in summands)
        often = effort.often(self.users)
        middles = [(float(x.mid()), float(q.mid())) for x, q in summands]
        unit = _unit(middles, self.users * float(arb(top)))
        lacking = [(balls.at_least(0, top - value), q) for value, q in summands]
        law = power(spread(lacking, unit, often), self.users, often)
        (gained,) = law.below([self.users * top], unit)
        # a sum of nothing lacking gains ``n M``
        return gained / self.users + top * balls.dyadic(law.cost, law.bits)


# lists are large
@lru_cache(maxsize=2)
def _listed(target: LettersAmongDecoys, cut: int) -> ListedMultisets | None:
    return ListedMultisets.of(target.sent, target.users, cut)


def _unit(values: Sequence[tuple[float, float]], gain: float) -> fmpq:
    """A spacing, a power of two; any would do, this one is close and cheap."""
    mean = math.fsum(x * q for x, q in values)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 * q for x, q in values))
    largest = max(abs(x) for x, _ in values)
    wanted = max(min(deviation, gain) / _UNITS, largest * _FINEST)
    return balls.scaled(1, math.frexp(wanted)[1] - 1)
