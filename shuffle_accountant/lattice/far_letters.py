"""``E[(X_1 + … + X_n)_+]`` where letters far above all others count as much as the bulk.

No tilt and no lattice suits both. Let F be letters above a cut f, G letters below a cut -g, Q the
mass of each, and A the sum of the others' values.

* No letter of F or G: ``(1 - Q_F - Q_G)^n`` times the expectation for the other letters' own law
  (`shuffle_accountant.lattice.anchored`, at the anchor itself).
* G but not F: at most ``n Q_G E(A_(n-1) - g)_+``, and at least 0.
* F but not G: ``(L)_+ = L + (L)_-``. E[L; F, not G] is ``n sum_F q v (1 - Q_G)^(n-1)`` and ``n
  sum_rest q v`` times the probability that there is no G, but an F, among n - 1 letters. One letter
  of F is at least f, further ones are positive: ``E[(L)_-; F, not G] <= n Q_F E(f + A_(n-1))_-``.
* Both: between 0 and what the positive values add up to, each weighed with the probability of the
  other letters that are needed.

Expectations of A beyond f or g are bounded by ``(x)_+ <= e^(s x) / (e s)`` at the best s of many.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.anchoring import anchored_law
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.lattice.tilting import Letters
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    UNIT_ROUNDOFF,
    Array,
    exponential,
    lowered,
    pairwise_sum,
    product,
    raised,
    roundings,
)

__all__ = ["far_positive_part"]

# So many letters on average are more than the bulk.
_BESIDES = 1.0
# A cut lies this many deviations beyond where the sum turns positive, at least.
_BEYOND = 9.0
# Points of the lattice between 0 and a cut.
_REACH = 1 << 12
# Tilts that are tried, in units of the inverse deviation of the bulk.
_TILTS = np.geomspace(0.05, 60.0, 36)
# A law may be this many times as wide as the variance that it may move, as a share of the answer: z
# deviations out, profiles take 12 (1 + z^2).
_WIDE = 40.0
# Sums of positive numbers are as wide as this share of the answer.
_AS_WIDE = 7e-4
# Anchors are a little below, so that rounding leaves what is asked for above.
_ANCHOR = -512 * UNIT_ROUNDOFF
_LARGEST_EXPONENT = 600.0
# Of masses, and of what powers of their complements are off by for each letter that is expected.
_ERROR = product(pairwise_sum(own=24), roundings(ELEMENTARY))


def far_positive_part(
    letters: Letters, side: Bound, *, slack: float, variance: float
) -> float | None:
    """Bound of ``E[(sum)_+]``, or None if rounding or the letters beyond the cuts blur it.

    Args:
        letters: the law of one X and the number of copies; values are off by a few units in their
            last place at most.
        side: whether the result is an upper or a lower bound.
        slack: bound on the relative error of the masses.
        variance: share of the bulk's variance that rounding may add or remove.
    """
    n, value, mass = letters.count, letters.value, letters.mass
    scale = _bulk_deviation(letters)
    if scale == 0.0:
        return None
    drift = -n * float(np.sum(mass * np.clip(value, -_BEYOND * scale, _BEYOND * scale)))
    reach = _REACH * scale * math.sqrt(6.0 * variance)
    cut = max(reach, abs(drift) + 2.0 * _BEYOND * scale)
    far, low = value > cut, value < -cut
    near = ~(far | low)
    if float(value[near].max(initial=0.0)) <= 0.0:
        return None
    upper = side is Bound.PESSIMISTIC
    parts = _Parts(letters, far, low, cut, scale)
    least, most = parts.lower(), parts.upper()
    if most - least > variance * (parts.near_most + most):
        return None
    found = _near_part(value[near], mass[near] / float(np.sum(mass[near])), n, variance, upper)
    if found is None:
        return None
    total = found * parts.untouched(upper=upper) + (most if upper else least)
    if most - least > variance * total:
        return None
    # a multiset's probability is a product of as many masses, near ones divided by their sum
    error = exponential(n * product(slack, _ERROR))
    return raised(total, error) if upper else lowered(total, error)


def _near_part(value: Array, mass: Array, n: int, variance: float, upper: bool) -> float | None:
    """The same for letters of which none is far, or None if a bracket of it is wide."""
    # places on a lattice are off by a few u of themselves
    value = value + (8.0 if upper else -8.0) * UNIT_ROUNDOFF * np.abs(value)
    ratios = value, np.zeros(value.size), mass
    for steep in (False, True):
        law = anchored_law(ratios, n, _ANCHOR, variance=variance, steep=steep)
        if law is not None:
            low, high = (n * float(bound(np.zeros(1))[0]) for bound in (law.lower, law.upper))
            if high - low <= max(_WIDE * variance, _AS_WIDE) * high:
                return raised(high, roundings(2)) if upper else lowered(low, roundings(2))
    return None


def _bulk_deviation(letters: Letters) -> float:
    """Standard deviation of the sum without the letters furthest out."""
    order = np.argsort(-np.abs(letters.value))
    besides = np.cumsum(letters.mass[order]) * letters.count <= _BESIDES
    kept = order[~besides]
    if kept.size == 0:
        return 0.0
    mass, value = letters.mass[kept], letters.value[kept]
    mean = float(np.sum(mass * value) / np.sum(mass))
    return math.sqrt(letters.count * float(np.sum(mass * (value - mean) ** 2)))


class _Parts:
    """What sums with letters beyond the cuts add, and bounds of the others' sum."""

    def __init__(
        self,
        letters: Letters,
        far: NDArray[np.bool_],
        low: NDArray[np.bool_],
        cut: float,
        scale: float,
    ) -> None:
        self.users, self.cut, self.scale = letters.count, cut, scale
        near = ~(far | low)
        value, mass = letters.value, letters.mass
        self.q_far, self.q_low = float(np.sum(mass[far])), float(np.sum(mass[low]))
        self.gain_far = float(np.sum(mass[far] * value[far]))
        self.near, self.near_mass = value[near], mass[near]
        self.mean = float(np.sum(self.near_mass * self.near))
        self.size = float(np.sum(self.near_mass * np.abs(self.near)))
        self.gain = float(np.sum(self.near_mass * np.maximum(self.near, 0.0)))

    def tilted(self, theta: float, besides: float) -> float:
        """Upper bound of ``(n - 1) log E e^(theta A)``; ``besides`` is a mass of value 0."""
        exponent = theta * self.near
        top = float(np.max(np.abs(exponent), initial=0.0))
        if top > _LARGEST_EXPONENT:
            return math.inf
        grown = self.near_mass * np.expm1(exponent)
        lost = self.q_far + self.q_low - besides
        change = float(np.sum(grown)) - lost
        off = _ERROR * (float(np.sum(np.abs(grown))) + theta * self.size + lost)
        return (self.users - 1) * (math.log1p(max(change + off, -0.5)) + _ERROR)

    def beyond(self, sign: float, besides: float) -> float:
        """Upper bound of ``E(sign A - cut)_+``, with n - 1 letters."""
        best = math.inf
        for step in _TILTS.tolist():
            theta = step / self.scale
            exponent = self.tilted(sign * theta, besides) - theta * self.cut
            if exponent < _LARGEST_EXPONENT:
                best = min(best, math.exp(exponent) / (math.e * theta))
        return best * (1.0 + 1e-9)

    @property
    def near_most(self) -> float:
        """About what sums add at most that have no letter beyond a cut."""
        best = math.inf
        for step in _TILTS.tolist():
            theta = step / self.scale
            exponent = self.tilted(theta, self.q_far + self.q_low)
            if exponent < _LARGEST_EXPONENT:
                best = min(best, 2.0 * math.exp(exponent) / (math.e * theta))
        return best

    @cached_property
    def alone(self) -> float:
        """Upper bound of what sums with a letter below add that have none above."""
        if self.q_low == 0.0:
            return 0.0
        # further letters below count as 0, and none is above
        most = min(self.beyond(1.0, self.q_low), (self.users - 1) * self.gain)
        return self.users * self.q_low * most

    @cached_property
    def mixed(self) -> float:
        """Upper bound of what sums add that have letters above and below."""
        others = self.users - 1
        one = self.users * self.q_low * others * self.gain_far
        return one + self.users * self.q_far * others * self.q_low * max(others - 1, 0) * self.gain

    @cached_property
    def linear(self) -> tuple[float, float]:
        """``E[L; F, not G]`` and a bound on its error."""
        if self.q_far == 0.0:
            return 0.0, 0.0
        others = self.users - 1
        without = math.exp(others * math.log1p(-self.q_low))
        both = -math.expm1(others * math.log1p(-self.q_far / (1.0 - self.q_low)))
        first = self.users * self.gain_far * without
        rest = self.users * without * both
        error = _ERROR * (1.0 + others * (self.q_low + self.q_far))
        return first + rest * self.mean, 8.0 * error * (first + rest * self.size)

    def lower(self) -> float:
        """Lower bound of all sums with letters beyond a cut."""
        value, error = self.linear
        return max(value - error, 0.0)

    def upper(self) -> float:
        """Upper bound of all sums with letters beyond a cut."""
        value, error = self.linear
        negative = 0.0
        if self.q_far > 0.0:
            # further letters above count as 0, and none is below
            negative = self.users * self.q_far * self.beyond(-1.0, self.q_far)
        total = max(value + error, 0.0) + negative + self.alone + self.mixed
        return raised(total, 8.0 * _ERROR)

    def untouched(self, *, upper: bool) -> float:
        """Bound of the probability that no letter is beyond a cut."""
        far = self.q_far + self.q_low
        exponent = self.users * math.log1p(-far)
        error = _ERROR * (1.0 + self.users * far)
        found = math.exp(exponent)
        return min(raised(found, error), 1.0) if upper else lowered(found, error)
