"""One law that bounds a profile from both sides for a whole range of alpha.

With ``S0 = sum r0(Y_i)`` and ``S1 = sum r1(Y_i)`` over n i.i.d. messages, the profile is ``H_alpha
= E(S0 - alpha S1)_+ / n``. Choose an anchor ``a``, and write ``L = S0 - a S1`` and ``eta = alpha -
a >= 0``. Each letter's ``r0 - a r1`` is rounded at random to one of its two lattice neighbours,
keeping its mean; so are partial sums, when they move to a coarser lattice. The sum T of what became
of all letters has ``E[T | Y] = L``, and one transform (see `shuffle_accountant.lattice.moments`)
gives at each lattice point t

    w = P(T = t),   E[L - T; T = t],   E[S1; T = t],   E[S1^2; T = t].

* Lower. For a set A of lattice points ``(L - eta S1)_+ >= 1(T in A) (L - eta S1)``, so ``n H_alpha
  >= E[L; T in A] - eta E[S1; T in A]``. A = {T >= t} makes these suffix sums; any t is valid. They
  are points ``(Q(A), P(A))`` of the error region as well, valid for every alpha >= 1.
* Upper. By Jensen ``(L - eta S1)_+ <= E[(T - eta S1)_+ | Y]``, and given T = t a variable ``X = t -
  eta S1`` of mean m and variance v has ``E X_+ <= (m + sqrt(m^2 + v))/2`` (Scarf 1958). Times w:
  ``(A + sqrt(A^2 + eta^2 D))/2`` with ``A = t w - eta E[S1; t]`` and ``D = w E[S1^2; t] - E[S1;
  t]^2``, which is increasing in A and D, so bounds of these are put in. S1 >= 0, so t <= 0 adds
  nothing.

Weights are tilted by ``e^(theta t)``, theta >= 0; only t > 0 is used, so undoing that multiplies by
at most 1. The errors, each of which `AnchoredLaw` counts in both ends:

* Wrapping. Partial sums are followed on circles. Let M be the total of the tilted weights and p the
  tilted probability that some partial sum leaves its window (Chernoff, at most ``e^-40`` in each
  place). Where none does, positions are right; where one does, some law of (position, S1) is added
  to the rows, which the upper end may contain. The upper end misses ``E[T_+; left] <= M p / (e
  theta)``. For the lower end A is a set of positions on the circle; what is wrapped there is
  overstated by at most ``M p (1/(e theta) + reach)``, with reach the most that rounding can have
  moved T, and E[S1; A] by ``M p n max r1``.
* Transforms and weights: bounds of each row's error at each point.
* Letters: r0, r1, their differences and places are off by a few u relative to ``r0 + alpha r1``,
  which is a few u of alpha; alpha is moved by as much.
* Places: shares of lattice cells are off by u, so what is rounded to a spacing h has a mean that is
  off by ``4 u h``, unless it lies on the lattice. Let D be the sum of these over a round. In both
  ends it counts where ``T > 0`` alone, so at most ``E[D e^(theta T)]``: M times the tilted
  expectation of D.
* Scale: the logarithm of M is a number of a few u.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = ["AnchoredLaw", "LawErrors"]

# Places times alphas that are looked at together.
_AT_ONCE = 1 << 15
# alpha moves by this much for the rounding of ratios and places.
_RATIO_ERROR = 64 * UNIT_ROUNDOFF


@dataclass(frozen=True)
class LawErrors:
    """What each source of error can add to ``H_alpha`` at the anchor.

    Attributes:
        transform: rounding of weights and transforms.
        wrapped: mass outside the windows.
        places: positions on lattices.
        scale: relative error of the scale.
    """

    transform: float
    wrapped: float
    places: float
    scale: float


@dataclass(frozen=True, eq=False)
class AnchoredLaw:
    """The law of T at lattice points t > 0, weights untilted up to a common factor.

    Attributes:
        excess: the anchor a, as ``a - 1``.
        users: number n of messages.
        place: t, ascending, shape (m,).
        weight: ``w``, and its companions' moments, times ``e^-K``, shape (4, m); the third and
            fourth row are those of ``S1 - users mean``.
        mean: what S1 is centred at, per message.
        error: bound of the error of each row at every point, for weights before they were untilted.
        norm: bound of their 2-norm, the same.
        faded: ``e^(-theta t)``, shape (m,).
        scale: ``e^K / n``, with a relative error of at most ``relative``.
        relative: that.
        missing: bound of the weighted mass that is not on the window, already times t.
        overstated: bound of what wrapping may add to ``E[L; A]``.
        spurious: bound of what wrapping may add to ``E[S1; A]``.
        shift: bound of the sum of what each lattice point's place is off, times its weight.
        full: whether the tilt is the saddle point, so that there is no steeper law.
        stages: how many transforms the sum took one after the other.
    """

    excess: float
    users: int
    place: Array
    weight: Array
    mean: float
    error: Array
    norm: Array
    faded: Array
    scale: float
    relative: float
    missing: float
    overstated: float
    spurious: float
    shift: float
    full: bool
    stages: int

    def _noise(self, row: int, factor: Array | float = 1.0) -> float:
        """Bound of the sum of a row's errors, each times ``factor`` and untilted."""
        weight = factor * self.faded
        pointwise = float(self.error[row]) * float(np.sum(weight))
        norm = float(self.norm[row]) * math.sqrt(float(np.sum(np.square(weight))))
        return min(pointwise, norm) * (1.0 + 64 * UNIT_ROUNDOFF)

    @cached_property
    def _scarf(self) -> tuple[Array, Array, Array]:
        """A at eta = 0, minus its slope, and a bound of D, at each point."""
        e0, _, eb, es = self.error[:, None] * self.faded
        w, _, b, s = self.weight
        product = np.maximum(w + e0, 0.0) * np.maximum(s + es, 0.0)
        spread = product * (1.0 + 8 * UNIT_ROUNDOFF) - np.maximum(np.abs(b) - eb, 0.0) ** 2
        return self.place * w, self.users * self.mean * w + b, np.maximum(spread, 0.0)

    @cached_property
    def _blur(self) -> tuple[float, float]:
        """Bounds of the errors of all A together, at eta = 0 and per unit of eta."""
        level, slope, _ = self._scarf
        # a few roundings in each term, and in the sum of its parts
        order = 16 * UNIT_ROUNDOFF
        still = self._noise(0, self.place) + order * float(np.sum(np.abs(level)))
        moving = self.users * self.mean * self._noise(0) + self._noise(2)
        return still, moving + order * float(np.sum(np.abs(slope)))

    def upper(self, excess: Array) -> Array:
        """Upper bounds of ``H_alpha`` at ``alpha = 1 + excess``, shape of ``excess``.

        Args:
            excess: each above the anchor's by more than rounding, else the bound there is infinite.
        """
        eta = self._above(excess)
        level, slope, spread = self._scarf
        result = np.empty(eta.shape)
        rows = max(_AT_ONCE // max(level.size, 1), 1)
        for first in range(0, eta.size, rows):
            x = eta[first : first + rows, None]
            top = level - x * slope
            total = np.sum(top + np.sqrt(top * top + (x * x) * spread), axis=1)
            result[first : first + rows] = np.where(x[:, 0] < 0.0, math.inf, 0.5 * total)
        still, moving = self._blur
        result += still + np.maximum(eta, 0.0) * moving + self.missing + 2.0 * self.shift
        slack = 1.0 + self.relative + 128 * UNIT_ROUNDOFF
        return np.asarray(self.scale * slack * result * slack + 1e-305)

    def _above(self, excess: Array) -> Array:
        """eta, less what ratios may be off."""
        return np.asarray(excess - self.excess - _RATIO_ERROR * (1.0 + excess))

    @cached_property
    def _tails(self) -> tuple[Array, Array, Array]:
        """``E[L; T >= t]``, ``E[S1; T >= t]`` from below and above, before scaling."""
        w, r, b, _ = self.weight
        gain = self.place * w + r
        sent = self.users * self.mean * w + b
        lost = self._noise(0, self.place) + self._noise(1) + self.overstated + self.shift
        blurred = self.users * self.mean * self._noise(0) + self._noise(2)
        # sums of m terms, one after the other
        order = UNIT_ROUNDOFF * (2.0 * self.place.size + 16.0)
        lost += order * float(np.abs(gain).sum())
        blurred += order * float(np.abs(sent).sum())
        gains = np.cumsum(gain[::-1])[::-1] - lost
        sents = np.cumsum(sent[::-1])[::-1]
        return gains, np.maximum(sents - blurred - self.spurious, 0.0), sents + blurred

    def lower(self, excess: Array) -> Array:
        """Lower bounds of ``H_alpha`` at ``alpha = 1 + excess``, shape of ``excess``."""
        gains, _, sents = self._tails
        if gains.size == 0:
            return np.zeros(excess.shape)
        eta = np.maximum(excess - self.excess + _RATIO_ERROR * (1.0 + excess), 0.0)
        alpha = 1.0 + excess
        where = np.unique(self._thresholds(eta))
        gain, sent = gains[where, None], sents[where, None]
        found = gain - eta * sent - _RATIO_ERROR * (np.abs(gain) + 2.0 * alpha * sent)
        best = np.max(found, axis=0, initial=0.0)
        return np.asarray(best * self.scale * max(1.0 - self.relative - 64 * UNIT_ROUNDOFF, 0.0))

    def _thresholds(self, eta: Array) -> Array:
        """Index of about the best threshold for each eta: where the mean turns positive."""
        gains, _, sents = self._tails
        # suffix sums are concave along the curve: the slope between points a few apart
        step = max(self.place.size // 2048, 1)
        index = np.arange(0, self.place.size, step)
        cost = gains[index][None, :] - eta[:, None] * sents[index][None, :]
        return np.asarray(index[np.argmax(cost, axis=1)])

    def curve(self, excess: Array) -> tuple[Array, Array]:
        """Points ``(Q(A), P(A) - Q(A))`` of the error region about where its slope is ``excess``.

        With Q(A) known to lie between l and u, the line through ``gain`` at the anchor a becomes
        ``gain + (a - 1) l - (alpha - 1) u``: below the true one for every alpha >= 1.

        Returns:
            ``(q, d)``, certified: ``d - (alpha - 1) q`` is a lower bound of ``H_alpha`` for every
            alpha >= 1.
        """
        gains, least, most = self._tails
        if gains.size == 0:
            return np.zeros(0), np.zeros(0)
        index = np.unique(self._thresholds(np.maximum(excess - self.excess, 0.0)))
        q = most[index]
        alpha = 1.0 + self.excess
        slack = 4.0 * _RATIO_ERROR * (np.abs(gains[index]) + 2.0 * alpha * q)
        d = gains[index] + max(self.excess, 0.0) * least[index] - slack
        kept = (d > 0.0) & (q > 0.0)
        # weights are off by a common relative error, in the worst case
        scale = self.scale * max(1.0 - self.relative, 0.0)
        return scale * q[kept], scale * d[kept]

    @property
    def errors(self) -> LawErrors:
        """The ledger."""
        return LawErrors(
            transform=self.scale * (self._noise(0, self.place) + self._noise(1)),
            wrapped=self.scale * max(self.missing, self.overstated),
            places=self.scale * 2.0 * self.shift,
            scale=self.relative,
        )
