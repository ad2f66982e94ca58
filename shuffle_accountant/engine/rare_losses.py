"""Sums of losses, a rare one of which may be far larger than all the others together.

A window that holds such losses is long, and a tilt makes it longer still. But where one of them
alone is further above epsilon than the others ever fall, what it adds is linear in the two laws.
With R the event that at least one round's loss is rare, and S the sum,

    E[(1 - e^(eps - S))_+] = E[(1 - e^(eps - S))_+; not R] + P(R) - e^eps Q(R)
                             + E[(e^(eps - S) - 1)_+; R].

The first term is a composition of what is left of each round, with a short window. ``P(R)`` and
``Q(R)`` are generating functions at 0 and -1, of all losses less that of the others alone. The last
term is the error, between 0 and ``e^(s eps) E[e^(-s S); R]`` for every s >= 1, that at -s. The same
holds, with ``P(R)`` alone and the error's other sign, where delta is a probability.

Where a cut does not help either, `DirectSum` convolves all losses on a short, coarse grid.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shuffle_accountant.engine.composition import Composition, DeltaTerms, TiltedSum
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.lattice.positive import LOST, SCALE, positive_sum
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    SMALLEST,
    UNIT_ROUNDOFF,
    Array,
    Bound,
    exponential,
    lowered,
    outwards,
    pairwise_sum,
    product,
    raised,
    roundings,
    share,
    underflow,
)


def without_rare_losses(composition: Composition, cut: float) -> Composition | None:
    """Composition of the losses below the cut > 0 (nats); None if all are, or none of a round."""
    first = math.ceil(cut / composition.spacing)
    parts, shorter = [], False
    for (grid, count), (held, _, _) in zip(composition.parts, composition.cells, strict=True):
        kept = first - grid.offset
        if kept <= held[0]:
            return None
        shorter = shorter or kept <= held[-1]
        parts.append((replace(grid, mass=grid.mass[:kept]), count))
    return type(composition)(parts, composition.divergence) if shorter else None


# ``E[e^(lam S); R]``: its logarithm, -inf for 0, and the relative error.
_AtLeastOne = tuple[float, float]


class RareLosses:
    """The part of delta(epsilon) of sums with at least one rare loss.

    ``others`` is `without_rare_losses` of the composition; it is narrow near one epsilon (nats),
    and answers any other as well.
    """

    def __init__(self, composition: Composition, others: Composition, near: float) -> None:
        self.upper = composition.side is Bound.PESSIMISTIC
        self._loss_error = composition.loss_error
        self._opposite = composition.divergence.opposite
        self._rounds = [
            (count, losses, logs, int(np.searchsorted(held, part.mass.size)))
            for (part, count), (held, losses, logs) in zip(
                others.parts, composition.cells, strict=True
            )
        ]
        _, mean, variance = others.cumulants(0.0)
        first = max(part.offset + part.mass.size for part, _ in others.parts)
        best = (first * composition.spacing - near + mean) / max(variance, SMALLEST)
        exponents = np.geomspace(1.0, min(max(best, 2.0), 1.0 / UNIT_ROUNDOFF), SETTINGS.tilts)
        self._p, self._q = self._at_least_one(0.0), self._at_least_one(-1.0)
        self._missed = {s: self._at_least_one(-s) for s in exponents.tolist()}

    def delta(self, epsilon: float) -> DeltaTerms:
        """Their part of the certified end of delta at epsilon (any real number).

        ``truncation`` is 0, ``aliasing`` what the linear form may be off, one way or the other.
        """
        epsilon += -self._loss_error if self.upper else self._loss_error
        opposite = self._opposite > 0.0
        p, p_error = self._times(self._p, 0.0)
        q, q_error = self._times(self._q, epsilon) if opposite else (0.0, 0.0)
        missed = min(
            raised(*self._times(bound, exponent * epsilon))
            for exponent, bound in self._missed.items()
        )
        # no product or exponential is off by more where it is subnormal, or 0
        off = underflow(8)
        missed += off
        if self.upper:
            most = raised(p, p_error) + off
            value = most - lowered(q, q_error) + (missed if opposite else 0.0)
            value = min(value, most) + roundings(4.0) * (most + missed)
        else:
            value = lowered(p, p_error) - (raised(q, q_error) + off)
            value -= (0.0 if opposite else missed) + roundings(4.0) * (p + q + missed)
        return DeltaTerms(
            value=max(value, 0.0),
            truncation=0.0,
            aliasing=missed,
            round_off=min(p * p_error + q * q_error + off, 1.0),
        )

    @staticmethod
    def _times(bound: _AtLeastOne, shift: float) -> tuple[float, float]:
        """``e^shift`` times the value, and the relative error of that."""
        log_value, error = bound
        if log_value == -math.inf:
            return 0.0, 0.0
        value = math.exp(min(log_value + shift, LIMITS.largest_log))
        moved = roundings(4.0) * (abs(log_value) + abs(shift))
        return rounded(value, ELEMENTARY), product(error, exponential(moved))

    def _at_least_one(self, lam: float) -> _AtLeastOne:
        """The generating function ``E[e^(lam S); R]`` of sums with at least one rare loss.

        It is the whole one, times one minus the share of sums of the others alone.

        Where a round's share of rare losses is off by a relative error e, the chance of at least
        one is off by no more than that: it is concave in all shares together.
        """
        moved = worst = 0.0
        wholes: list[float] = []
        shares: list[tuple[float, int]] = []
        for count, losses, logs, first in self._rounds:
            log_whole, error = _log_total(logs, lam * losses)
            log_rare, rare_error = _log_total(logs[first:], lam * losses[first:])
            wholes.append(count * log_whole)
            moved += count * (error + roundings(4.0) * abs(log_whole))
            if log_rare > -math.inf:
                shares.append((min(log_rare - log_whole, 0.0), count))
                size = roundings(2.0) * (abs(log_rare) + abs(log_whole))
                worst = max(worst, error + rare_error + size)
        if not shares:
            return -math.inf, 0.0
        log_all = math.fsum(wholes)  # rounded once, however many rounds differ
        top = max(log for log, _ in shares)
        log_chance = top + math.log(sum(count * math.exp(log - top) for log, count in shares))
        if log_chance > math.log(UNIT_ROUNDOFF):  # or two are rarer than a rounding of it
            # smaller than e^-745 is no share here; what the others make is e^-37 at least
            chances = [(rounded(math.exp(log), ELEMENTARY), count) for log, count in shares]
            if any(chance >= 1.0 for chance, _ in chances):
                log_chance = 0.0
            else:
                none = sum(count * math.log1p(-chance) for chance, count in chances)
                log_chance = math.log(rounded(-math.expm1(none), ELEMENTARY))
        moved += roundings(2.0 * ELEMENTARY) * (abs(log_all) + abs(log_chance) + abs(top))
        # besides: several of them at once, where their chance is the sum of the shares
        own = 4.0 * ELEMENTARY + len(shares) + 4.0
        return log_all + log_chance, exponential(moved + worst, own=own)


def _log_total(logs: Array, turned: Array) -> tuple[float, float]:
    """Logarithm of the sum of ``e^(logs + turned)``, and its absolute error."""
    if logs.size == 0:
        return -math.inf, 0.0
    exponent = logs + turned
    top = float(exponent.max())
    weight = rounded(np.exp(exponent - top), ELEMENTARY)
    total = float(weight.sum())
    # a logarithm's error is relative to itself, and becomes one of the sum
    size = float(np.sum(weight * (np.abs(logs) + np.abs(turned)))) / total
    value = top + math.log(total)
    return value, roundings(ELEMENTARY * (2.0 + size + abs(top) + abs(value)) + 64.0)


class SplitSum:
    """Bounds of delta(epsilon), of sums without a rare loss and of those with at least one.

    They are valid everywhere, and narrow near the epsilon they were made for.
    """

    def __init__(self, others: TiltedSum, rare: RareLosses) -> None:
        self._others, self._rare = others, rare

    def delta(self, epsilon: float) -> DeltaTerms:
        """The certified end of delta at epsilon (any real number)."""
        first, second = self._others.delta(epsilon), self._rare.delta(epsilon)
        total = first.value + second.value
        # both are ends on the same side, and their sum is rounded once
        upper = self._rare.upper
        return DeltaTerms(
            value=min(outwards(total, roundings(1.0), upper=upper), 1.0),
            truncation=first.truncation,
            aliasing=first.aliasing + second.aliasing,
            round_off=first.round_off + second.round_off,
        )


class DirectSum:
    """The sum by direct convolution: bounds delta(epsilon) anywhere; see `lattice.positive`.

    Losses above the top (nats) and below ``-top / 2`` are not resolved.
    """

    def __init__(self, composition: Composition, top: float) -> None:
        self._composition = composition
        last = math.ceil(top / composition.spacing)
        with np.errstate(over="ignore", invalid="ignore"):  # masses of grids without digits left
            self._law = positive_sum(composition.parts, composition.side, -(last // 2), last)

    def delta(self, epsilon: float) -> DeltaTerms:
        """The certified end of delta at epsilon (any real number)."""
        source, law = self._composition, self._law
        upper = source.side is Bound.PESSIMISTIC
        epsilon += -source.loss_error if upper else source.loss_error
        above = source.spacing * np.arange(law.offset, law.offset + law.scaled.size) - epsilon
        with np.errstate(invalid="ignore"):
            body = float(np.sum(law.scaled * source.divergence.weight(above)))
        body += law.scaled_infinite
        relative = product(law.relative, pairwise_sum(own=64))
        # the losses' weights are at most one; a lower end that is a double has twice its relative
        # error taken off, and the smallest double besides, both far more than what is lost
        body = body + LOST if upper else max(0.0, body)
        if upper and not body <= SCALE:  # NaN too, of masses far above one
            body = SCALE
        value = share(body, 1.0 / SCALE, 2.0 * relative, upper=upper)
        return DeltaTerms(
            value=min(value, 1.0),
            truncation=source.truncated,
            aliasing=0.0,
            round_off=body / SCALE * relative,
        )
