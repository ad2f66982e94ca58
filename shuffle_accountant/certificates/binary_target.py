"""One binary target among decoys that are its clones, or blank: the exact profile.

The target sends 0 with probability u (dataset X) or v (dataset X'), else 1, where u + v = 1; each
of the N decoys sends 0 or 1 with probability rate/2 each, else a blank. Given that c decoys are not
blank, the number of zeros among c + 1 messages has, with ``T(a) = P[Bin(c, 1/2) >= a]``,

    H(α) = (u - αv) T(a - 1) - (αu - v) T(a),    a - 1 = floor((c + 1) θ),
    θ = (αu - v) / ((1 + α)(u - v)),

because the likelihood ratio exceeds α exactly from a zeros on. The profile is the mean over
c ~ Bin(N, rate). Every other a would give less, so what is added up is never above the truth, and
what is cut counts with the largest value there is, ``u - αv``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from flint import arb, ctx

from shuffle_accountant.certificates import balls
from shuffle_accountant.certificates import work as working
from shuffle_accountant.certificates.balls import Effort, UndecidedError, at_least
from shuffle_accountant.certificates.work import BINOMIAL, Work, deviations, price, spend


@dataclass(frozen=True)
class BinaryTarget:
    """The pair; u is the probability of the message that the dataset X makes likely."""

    u: arb
    v: arb
    rate: arb
    decoys: int

    def definite(self, effort: Effort) -> bool:
        """True: divergences are enclosed."""
        return True

    def work(self, count: int, effort: Effort) -> Work:
        """Work and memory of `divergences`, given the number of α."""
        n, rate = self.decoys, min(max(float(self.rate.mid()), 0.0), 1.0)
        beyond = deviations(n * rate * (1.0 - rate), 1.0, effort.cut + 8)
        counts = min(n, 2.0 * beyond) + 2.0
        # masses of Bin(c, 1/2) fall by 2^-precision within the root of this
        tail = min(n, math.sqrt(0.5 * n * math.log(2.0) * effort.precision)) + 2.0
        each = 20.0 * counts + 5.0 * tail + BINOMIAL
        units = price(effort.precision) * (count * each + 6.0 * counts + 2.0 * BINOMIAL)
        return Work(units, counts * working.ball_bytes(effort.precision))

    def divergences(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Balls of ``H(α)`` at each α >= 1."""
        spend(self.work(len(alphas), effort).units)
        first, weights, rest = self._counts(effort.cut)
        return [self._divergence(alpha, first, weights, rest) for alpha in alphas]

    def _divergence(self, alpha: arb, first: int, weights: list[arb], rest: arb) -> arb:
        largest = self.u - alpha * self.v
        if not largest > 0:
            return at_least(0, largest)
        lost = alpha * self.u - self.v
        if alpha == 1:
            low = high = 1 << 255
        else:
            theta = lost / ((1 + alpha) * (self.u - self.v))
            # where there is anything to gain, theta is below one
            most = (1 << 256) - 1
            low, high = min(-balls.ceiling(-theta, 256), most), min(balls.ceiling(theta, 256), most)
        # the sum over the counts that are followed, from the first on
        c, place = first, _place(first, low, high)
        at = arb.bin_uiui(c, place) * arb(2) ** -c  # P[Bin(c, 1/2) = place]
        tail = _tail(c, place, at)
        total = arb(0)
        for weight in weights:
            # T(a) = T(a - 1) - P[Bin = a - 1]
            total += weight * (largest * tail - lost * (tail - at))
            before = at * place / (c - place + 1)
            tail += before / 2
            at = at * (c + 1) / (2 * (c + 1 - place))
            c += 1
            moved = _place(c, low, high)
            while place < moved:
                tail -= at
                at = at * (c - place) / (place + 1)
                place += 1
        return total + rest * largest

    def _counts(self, cut: int) -> tuple[int, list[arb], arb]:
        """Probabilities of consecutive numbers of messages that are not blank, and the rest's."""
        n, rate, idle = self.decoys, self.rate, 1 - self.rate
        if n == 0 or not rate > 0:
            return 0, [arb(1)], at_least(0, n * rate)
        if not idle > 0:
            return n, [arb(1)], at_least(0, n * idle)
        mode = min(int(n * float(rate.mid())), n)
        peak = arb.bin_uiui(n, mode) * rate**mode * idle ** (n - mode)
        if not peak > 0:
            raise UndecidedError("the probability of the likeliest number of messages")
        odds = rate / idle
        smallest = arb(2) ** -(cut + 8)
        above, below = [peak], [peak]
        for c in range(mode, n):
            above.append(above[-1] * odds * (n - c) / (c + 1))
            if above[-1] < smallest:
                break
        for c in range(mode, 0, -1):
            below.append(below[-1] * c / (odds * (n - c + 1)))
            if below[-1] < smallest:
                break
        weights = below[:0:-1] + above
        rest = 1 - sum(weights, arb(0))
        # the rest is at least nothing
        return mode - len(below) + 1, weights, balls.between_zero_and(rest)


def _place(c: int, low: int, high: int) -> int:
    """``floor((c + 1) θ)``, with θ between two integers over 2^256."""
    place = ((c + 1) * low) >> 256
    if place != ((c + 1) * high) >> 256:
        raise UndecidedError("where the likelihood ratio passes alpha")
    return place


def _tail(c: int, place: int, at: arb) -> arb:
    """``P[Bin(c, 1/2) >= place]``, place >= c/2 about, given the probability at the place."""
    total, mass, j = arb(0), at, place
    smallest = at * arb(2) ** -ctx.prec
    while j <= c:
        total += mass
        mass = mass * (c - j) / (j + 1)
        j += 1
        if mass < smallest and 2 * j > c:
            break
    if j > c:
        return total
    # from here on masses fall by more than the first ratio
    return total + balls.between_zero_and(mass * (j + 1) / (2 * j + 1 - c))
