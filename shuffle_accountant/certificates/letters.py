"""A target among decoys with few messages: its profile, exactly or from above.

A message that no decoy sends is seen for what it is: it adds ``(p0 - α p1)_+``. Of the others few
messages are listed (see `multisets`), and many are added up by doubling: the density of n shuffled
messages relative to n decoys is the mean likelihood ratio, so ``H(α) = E(S)_+ / n`` with S a sum of
n independent ``(p0 - α p1)/q``, of messages drawn from q. With M the largest of these values,
``E(S)_+ = E(n M - T)_+`` for a sum T of what each lacks from M, which a grid resolves best where
there is anything to gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from flint import arb, fmpq

from shuffle_accountant.certificates.additive import Moments, power, power_work, spread
from shuffle_accountant.certificates.balls import Effort, at_least, dyadic, upper
from shuffle_accountant.certificates.multisets import ListedMultisets
from shuffle_accountant.certificates.work import Work, price

# Grid units in a standard deviation of one summand, or in the largest gain if that is smaller.
_UNITS = 64.0
# Least grid unit, as a share of the largest value of a summand.
_FINEST = 2.0**-40
# The α at which the work of sums is estimated.
_TYPICAL = (1.0, 2.0, 8.0)
# Multisets are listed if likelier than 2**-(cut + this), in bits beyond the effort's cut.
_SPARE = 24


@dataclass(frozen=True, eq=False)
class LettersAmongDecoys:
    """The pair of one target; its numbers are balls.

    Attributes:
        letters: ``(p0, p1, q)`` of every message; a blank has p0 = p1 = 0.
        users: number n of messages.
    """

    letters: tuple[tuple[arb, arb, arb], ...]
    users: int

    def definite(self, effort: Effort) -> bool:
        """Whether divergences are enclosed: the messages are listed."""
        return _listed(self, effort.cut + _SPARE) is not None

    @cached_property
    def sent(self) -> list[tuple[arb, arb, arb]]:
        """The messages that decoys may send."""
        nothing = arb(0)
        # a chance that rounds to nothing is that of a blank
        return [
            letter if letter[2] > 0 else (nothing, nothing, letter[2])
            for letter in self.letters
            if letter[2].upper() > 0
        ]

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
        return [self._seen(alpha) + self._hidden(alpha, effort) for alpha in alphas]

    def _seen(self, alpha: arb) -> arb:
        """The part of ``H(α)`` of messages that no decoy sends."""
        never = (at_least(0, p0 - alpha * p1) for p0, p1, q in self.letters if not q > 0)
        return sum(never, arb(0))

    def _hidden(self, alpha: arb, effort: Effort) -> arb:
        """The part of ``H(α)`` of messages that decoys send: a ball, or an upper bound."""
        listed = _listed(self, effort.cut + _SPARE)
        if listed is not None:
            return listed.divergence(alpha)
        summands = [((p0 - alpha * p1) / q if q > 0 else arb(0), q) for p0, p1, q in self.sent]
        if not any(value.upper() > 0 for value, _ in summands):
            return arb(0)
        top = max(upper(value) for value, _ in summands)
        often = effort.often(self.users)
        middles = [(float(x.mid()), float(q.mid())) for x, q in summands]
        unit = _unit(middles, self.users * float(arb(top)))
        lacking = [(at_least(0, top - value), q) for value, q in summands]
        law = power(spread(lacking, unit, often), self.users, often)
        (gained,) = law.below([self.users * top], unit)
        # a sum of nothing lacking gains ``n M``
        return gained / self.users + top * dyadic(law.cost, law.bits)


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
    exponent = math.frexp(wanted)[1] - 1
    return fmpq(1 << exponent) if exponent >= 0 else fmpq(1, 1 << -exponent)
