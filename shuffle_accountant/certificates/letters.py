"""A target among decoys with few letters: its profile from above, by doubling.

The density of n shuffled messages relative to n decoys is the mean likelihood ratio, so
``H(α) = E(S)_+ / n`` with S a sum of n independent ``(p0 - α p1)/q``, of letters drawn from q. With
M the largest of these values, ``E(S)_+ = E(n M - T)_+`` for a sum T of what each lacks from M,
which a grid resolves best where there is anything to gain. A letter that no decoy sends is seen for
what it is: it adds ``(p0 - α p1)_+``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb, fmpq

from shuffle_accountant.certificates.additive import power, spread
from shuffle_accountant.certificates.balls import Effort, at_least, dyadic, upper

__all__ = ["LettersAmongDecoys"]

# Units in a standard deviation of one summand, and in what there is to gain.
_UNITS = 64.0
# No unit is a smaller share of the largest value.
_FINEST = 2.0**-40


@dataclass(frozen=True)
class LettersAmongDecoys:
    """The pair of one target; its numbers are balls.

    Attributes:
        letters: ``(p0, p1, q)`` of every letter; a blank has p0 = p1 = 0.
        users: number n of messages.
    """

    letters: tuple[tuple[arb, arb, arb], ...]
    users: int

    def divergences(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Upper bounds of ``H(α)`` at each α."""
        return [self._divergence(alpha, effort) for alpha in alphas]

    def _divergence(self, alpha: arb, effort: Effort) -> arb:
        seen = arb(0)
        summands: list[tuple[arb, arb]] = []
        for p0, p1, q in self.letters:
            gain = p0 - alpha * p1
            if q > 0:
                summands.append((gain / q, q))
                continue
            seen += at_least(0, gain)
            if q.upper() > 0:  # a chance that rounds to nothing is that of a blank
                summands.append((arb(0), q))
        if not summands or not any(value.upper() > 0 for value, _ in summands):
            return seen
        top = max(upper(value) for value, _ in summands)
        often = effort.often(self.users)
        unit = _unit(summands, self.users * float(arb(top)))
        lacking = [(at_least(0, top - value), q) for value, q in summands]
        law = power(spread(lacking, unit, often), self.users, often)
        (gained,) = law.below([self.users * top], unit)
        # a sum of nothing lacking gains ``n M``
        return seen + gained / self.users + top * dyadic(law.cost, law.bits)


def _unit(summands: Sequence[tuple[arb, arb]], gain: float) -> fmpq:
    """A spacing, a power of two; any would do, this one is close and cheap."""
    values = [(float(x.mid()), float(q.mid())) for x, q in summands]
    mean = math.fsum(x * q for x, q in values)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 * q for x, q in values))
    largest = max(abs(x) for x, _ in values)
    wanted = max(min(deviation, gain) / _UNITS, largest * _FINEST)
    exponent = math.frexp(wanted)[1] - 1
    return fmpq(1 << exponent) if exponent >= 0 else fmpq(1, 1 << -exponent)
