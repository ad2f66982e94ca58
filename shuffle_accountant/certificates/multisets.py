"""Enumeration of the multisets of a few messages, for an exact profile of the target.

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
from itertools import accumulate, islice
from typing import Self

from flint import arb, ctx

from shuffle_accountant.certificates.balls import (
    UndecidedError,
    at_least,
    between_zero_and,
    ceiling,
)
from shuffle_accountant.certificates.work import Work, ball_bytes, deviations, price, spend

# Shares are compared as integers over two to this power.
_BITS = 128
# Most multisets that are listed; factor by which the estimate of their number may be off.
_MOST, _ABOUT = 1 << 17, 4.0
# Units of work for each count of a message that is tried, and each multiset that is listed.
_EACH_COUNT, _EACH_MULTISET = 6.0, 30.0
# p0, p1 and q of a message.
Letter = tuple[arb, arb, arb]


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
        """Multisets of ``users`` messages, likelier than the cut; None if these are too many.

        Args:
            letters: all that decoys send, each with q > 0, or with p0 = p1 = 0.
            cut: multisets less likely than ``2**-cut`` are not listed.

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
        least = bisect_right(self.shares, -ceiling(-share, _BITS))  # none before gains anything
        sure = bisect_left(self.shares, ceiling(share, _BITS) + 2)  # all from there on gain
        p, q = self.above[sure]
        spend((_EACH_MULTISET + 4.0 * max(sure - least, 0)) * price(ctx.prec))
        near = (at_least(0, one - alpha * other) for one, other in self.masses[least:sure])
        return sum(near, p - alpha * q) + between_zero_and(self.rest)


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
    found = ceiling(share, _BITS)
    if found + ceiling(-share, _BITS) > 2:
        raise UndecidedError("what a multiset of messages says")
    return found


def _multisets(
    letters: Sequence[Letter], users: int, cut: int
) -> Iterator[tuple[int, tuple[arb, arb]]]:
    """P's share and the masses of each multiset that P or Q may send, but for unlikely ones."""
    rare_first = sorted(letters, key=lambda letter: float(letter[2].mid()))
    ratios = [(p0 / q, p1 / q) if q > 0 else (p0, p1) for p0, p1, q in rare_first]
    spend(4.0 * len(letters) * (users + 1) * price(ctx.prec))
    powers = [_powers(q, users) for _, _, q in rare_first]
    # of what is to come after each message
    later = list(accumulate((q for _, _, q in reversed(rare_first)), initial=arb(0)))[::-1]
    following = [_powers(q, users) for q in later[1:]]
    last, least = len(letters) - 1, arb(2) ** -cut / users

    def followed(
        i: int, left: int, chance: arb, p: arb, q: arb
    ) -> Iterator[tuple[int, tuple[arb, arb]]]:
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
