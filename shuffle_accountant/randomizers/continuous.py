"""Randomizers of the inputs 0 and 1 with real messages and a monotone likelihood ratio.

Where the likelihood ratio rises with the message, the distribution functions at the edges of cells
of messages give the cells' masses, and the densities there the range of the ratio in each cell.

A cell of messages is given as one class with the mean ratio (OPTIMISTIC: merging messages is a
post-processing) or as two classes with the ratios at its ends and the same masses under the
target's and the decoys' distribution (PESSIMISTIC: the expectation in the density lemma is convex
in each ratio). Masses computed with an error are rounded to that side before they are split; of two
distributions on the same two ratios the one with the larger mean is larger, outcome by outcome.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array, Bound
from shuffle_accountant.randomizers.base import Inputs, Letters, RunsOnInputs

# Largest number of cells of a line, and number of knots from which their edges are found.
_MOST_CELLS, _KNOTS = 1 << 15, 512
# Probability of the messages beyond the last edge, where only their ratio's tail is wanted.
_BEYOND = 1e-18
# Grid step of the log-likelihood ratio (nats): brackets are then some 1e-10 wide, relative.
_STEP = 1e-4
_FEWEST, _MOST = 64, 1 << 19
# Ratios beyond e^600 are left to the bound of the tail; their decoys' mass is below e^-600.
LARGEST_LOG = 600.0


@dataclass(frozen=True, eq=False)
class RatioTails:
    """Distribution of a likelihood ratio w = P/Q, as its tails on a grid.

    Attributes:
        ratios: the grid, strictly rising from 0, shape (m,).
        target: ``P(w > t)`` there, falling from 1; what no decoy sends has w = inf.
        decoys: ``Q(w > t)`` there, falling from at most 1.
        error: relative error of each of these, shape () or (m,).
    """

    ratios: Array
    target: Array
    decoys: Array
    error: Array

    @classmethod
    def of_logs(
        cls, logs: Array, target: Array, decoys: Array, total: float, error: float | Array
    ) -> RatioTails:
        """Tails on ``e^logs``, which rises, with ratio 0 before them and equal ratios left out.

        The total is the mass of Q, which may be a part of it, and the error that of both tails.
        """
        ratios = np.concatenate([[0.0], np.exp(logs)])
        # of equal ratios the last one: there the tails are smallest, as to the right of an atom
        distinct = np.append(np.diff(ratios) > 0.0, True)
        every = np.broadcast_to(error, logs.shape)
        worst = float(np.max(every, initial=0.0))
        return cls(
            ratios[distinct],
            np.concatenate([[1.0], target])[distinct],
            np.concatenate([[total], decoys])[distinct],
            np.concatenate([[worst], every])[distinct],
        )


def grid_of_logs(low: float, high: float, fewest: int = _FEWEST) -> Array:
    """A grid of logarithms of ratios from one to the other, both at most `LARGEST_LOG` from 0."""
    low, high = np.clip([low, high], -LARGEST_LOG, LARGEST_LOG).tolist()
    cells = min(max(math.ceil((high - low) / _STEP), fewest), _MOST)
    return np.linspace(low, high, cells + 1)


class ContinuousRandomizer(RunsOnInputs):
    """Real messages from the inputs 0 and 1, the larger the likelier they come from 1.

    The likelihood ratio of input 1 to input 0 must rise (or stay) with the message, over all real
    numbers. That holds for noise with a log-concave density, such as normal, Laplace or logistic
    noise. Messages: real numbers, of the values' shape.

    Attributes:
        error: bound on the relative error of `cdf`, `sf` and `density`, and on the absolute error
            of `log_density` relative to one more than its size.
        mass_error: bound on the relative error of a cell's mass, if one is known for all cells;
            otherwise it is that of a difference of `cdf` or `sf`.
    """

    inputs = 2  # the numbers 0 and 1
    error: float = 1e-13
    mass_error: float | None = None

    @abstractmethod
    def cdf(self, x: float, y: Array) -> Array:
        """Probability of messages up to y from input x, accurate where it is small."""

    @abstractmethod
    def sf(self, x: float, y: Array) -> Array:
        """Probability of messages above y from input x, accurate where it is small."""

    @abstractmethod
    def log_density(self, x: float, y: Array) -> Array:
        """Logarithm of the density of the message y from input x."""

    def density(self, x: float, y: ArrayLike) -> Array:
        """Density of the message y from input x."""
        return np.asarray(np.exp(self.log_density(x, np.asarray(y, dtype=np.float64))))

    @property
    def crossing(self) -> float:
        """The message at which both inputs are equally likely; found by bisection."""
        ends = self._reach(1e-9)
        self._require_rising(self._log_ratio(1, np.array(ends)), 0.0)
        return float(self._first(0, np.zeros(1), *ends)[0])

    @property
    def blanket_mass(self) -> float:
        """Probability that a message is a draw from the blanket, the smaller one of two densities.

        Below the crossing that is the one of input 1.
        """
        at = np.array([self.crossing])
        return min(float(self.cdf(1.0, at)[0]) + float(self.sf(0.0, at)[0]), 1.0)

    def checked_input(self, *, target: object) -> float:
        """The target's input as a float, checked: 0 or 1."""
        return float(validate.integer(minimum=0, maximum=1, target=target))

    @property
    def worst_inputs(self) -> tuple[float, ...]:
        """Inputs among which is the one that is easiest to re-identify."""
        return (0.0,) if self.symmetric else (0.0, 1.0)

    def log_ratio(self, target: float) -> float:
        """Logarithm (nats) of the largest likelihood ratio of the target's input to the blanket."""
        return self.eps0

    def letters(self, inputs: Inputs, side: Bound, *, tail: float, resolution: float) -> Letters:
        """Cells of equal width in the log-likelihood ratio, outwards from the crossing.

        The tail is given away where the ratio has no bound.
        """
        halves = []
        for likelier in (0, 1):
            half = 0 if self.symmetric else likelier  # the other one is its mirror image
            edges = self.cell_edges(half, tail=tail, resolution=resolution)
            away = 1.0 if likelier == inputs[0] else -1.0
            halves.append(self._cells(half, edges, side, away))
        p, q, error = (np.concatenate(parts) for parts in zip(*halves, strict=True))
        # messages of a half are as likely from the other input as from the blanket
        below = np.arange(p.size) < halves[0][0].size
        rows = [np.where(below == (x == 0), p, q) for x in inputs]
        return np.stack([*rows, q]), error

    def cell_edges(self, likelier: int, *, tail: float, resolution: float) -> Array:
        """Edges of cells of the messages below the crossing (0) or above it (1), outwards.

        Beyond the last one is an open cell, with a mass of at most ``tail``; the ``resolution`` is
        the square, about, of a cell's width in the logarithm of the ratio.
        """
        # the second one's log-ratio stands for the spread of all log-ratios
        far, typical = (self._quantile(likelier, chance) for chance in (0.1 * tail, 0.16))
        reach, spread = np.abs(self._log_ratio(likelier, np.array([far, typical]))).tolist()
        width = 1.25 * math.sqrt(resolution) * min(spread, 1.0)
        cells = min(math.ceil(reach / max(width, 1e-300)) + 8, _MOST_CELLS)
        return self._spread(likelier, self.crossing, far, cells)

    def ratio_tails(
        self, target: float, other: float | None, *, unresolved: float = 0.0
    ) -> RatioTails:
        """Distribution of the likelihood ratio of the target's message to its decoys' messages.

        Args:
            target: the target's input.
            other: the input that all others hold; None for the blanket, and else a blank.
            unresolved: smaller ratios may be taken together if decoys exceed them with a chance
                of at least this times 60.
        """
        near = int(target)
        far = self._quantile(near, _BEYOND)
        start = self.crossing if other is None else self._quantile(1 - near, _BEYOND)
        cells = grid_of_logs(*self._log_ratio(near, np.array([start, far])).tolist()).size - 1
        edges = self._spread(near, start, far, cells)
        logs = np.clip(self._log_ratio(near, edges), -LARGEST_LOG, LARGEST_LOG)
        logs = np.maximum.accumulate(logs)
        beyond = self.cdf if near == 0 else self.sf
        own, common = beyond(near, edges), beyond(1 - near, edges)
        if self.eps0 < LARGEST_LOG:  # no ratio is larger
            logs = np.append(logs, max(self.eps0, float(logs[-1])))
            own, common = np.append(own, 0.0), np.append(common, 0.0)
        total = self.blanket_mass if other is None else 1.0
        # ratios are off by what their logarithms are
        off = self.error * (3.0 + 2.0 * np.max(np.abs(self.log_density(near, edges))))
        return RatioTails.of_logs(logs, own, common, total, float(off))

    def _messages(self, own: NDArray[Any], rng: np.random.Generator) -> Array:
        # the distribution function is inverted
        chance, (low, high) = rng.random(own.shape), self._reach(1e-17)

        def below(y: Array) -> NDArray[np.bool_]:
            return np.where(own == 0, self.cdf(0.0, y), self.cdf(1.0, y)) < chance

        return _halved(np.full(own.shape, low), np.full(own.shape, high), below)[1]

    def _cells(
        self, likelier: int, edges: Array, side: Bound, away: float
    ) -> tuple[Array, Array, Array]:
        """Message classes of the cells on one side of the crossing, the one beyond it open.

        PESSIMISTIC splits cells over their ends, and gives away the target mass of messages whose
        ratio has no bound. ``away`` is 1 where more target mass is on that side of the truth, -1
        where less is. Returns the masses for the likelier input, those of the blanket, and the
        relative error of the blanket's and, unless they were split, of the target's.
        """
        p, p_error = self._masses(likelier, likelier, edges)
        q, q_error = self._masses(1 - likelier, likelier, edges)
        sent = q > 0.0
        if side is Bound.OPTIMISTIC:
            return p[sent], q[sent], np.maximum(p_error, q_error)[sent]
        if math.isinf(self.eps0):
            sent[-1] = False
        lost = math.fsum(p[~sent].tolist())
        left = math.fsum(q[~sent].tolist())
        logs = self._log_ratio(likelier, edges)
        off = self.error * (3.0 + 2.0 * np.abs(self.log_density(likelier, edges)))
        self._require_rising(logs, off[:-1] + off[1:])
        top = math.exp(min(self.eps0, LARGEST_LOG))
        with np.errstate(over="ignore"):  # the largest ratio is what counts then
            low, high = (np.minimum(np.exp(logs + x), top) for x in (-off, off))
        run = np.append(high[1:], top) - low
        own, sent_q = p * (1.0 + away * (p_error + q_error)), np.where(sent, q, 0.0)
        ratio = np.divide(own, q, out=low.copy(), where=sent)
        share = np.clip((ratio - low) / np.where(run > 0.0, run, 1.0), 0.0, 1.0)
        # two cells meet at an edge, where both have the ratio that is worse
        split = np.append(sent_q * (1.0 - share), 0.0) + np.append(0.0, sent_q * share)
        mass = split * np.append(high if away > 0.0 else low, top)
        off_q = np.where(sent, q_error, 0.0)
        error = np.maximum(np.append(off_q, 0.0), np.append(0.0, off_q))
        # what is given away, and what decoys send there as if the target never did
        mass, split = np.append(mass, [lost, 0.0]), np.append(split, [0.0, left])
        error = np.append(error, [float(p_error.max()), float(q_error.max())])
        kept = (mass > 0.0) | (split > 0.0)
        return mass[kept], split[kept], error[kept]

    def _masses(self, x: int, likelier: int, edges: Array) -> tuple[Array, Array]:
        """Probabilities of the cells from input x, the open one last, and their relative errors."""
        beyond, before = (self.cdf, self.sf) if likelier == 0 else (self.sf, self.cdf)
        tails, heads = beyond(x, edges), before(x, edges)
        small = tails <= 0.5  # of two differences the one of smaller numbers
        mass = np.append(
            np.where(small[:-1], tails[:-1] - tails[1:], heads[1:] - heads[:-1]), tails[-1]
        )
        mass = np.maximum(mass, 0.0)
        if self.mass_error is not None:
            return mass, np.full(mass.shape, self.mass_error)
        size = np.append(np.where(small[:-1], tails[:-1], heads[1:]), 0.5 * tails[-1])
        error = 2.0 * self.error * np.divide(size, mass, out=np.ones_like(mass), where=mass > 0.0)
        return mass, np.minimum(error, 1.0)

    def _log_ratio(self, likelier: int, y: Array) -> Array:
        """Log-likelihood ratio (nats) of the input ``likelier`` to the other one at messages y."""
        return np.asarray(self.log_density(likelier, y) - self.log_density(1 - likelier, y))

    def _require_rising(self, logs: Array, slack: ArrayLike) -> None:
        """Raise ValueError if the likelihood ratio is not monotone, up to the slack."""
        if not np.all(np.diff(logs) >= -np.asarray(slack)):
            raise ValueError(
                f"randomizer must have a likelihood ratio that rises with the message, got "
                f"{type(self).__name__}, of which it falls"
            )

    def _reach(self, chance: float) -> tuple[float, float]:
        """Messages (low, high): at most ``chance`` lies below low from 0, and above high from 1."""
        low, high = -1.0, 1.0
        while float(self.cdf(0.0, np.array([low]))[0]) > chance and low > -1e300:
            low *= 2.0
        while float(self.sf(1.0, np.array([high]))[0]) > chance and high < 1e300:
            high *= 2.0
        return low, high

    def _quantile(self, likelier: int, chance: float) -> float:
        """Message with ``chance`` of an input's messages beyond it, away from the other input."""
        beyond = self.cdf if likelier == 0 else self.sf

        def rare(y: Array) -> NDArray[np.bool_]:
            return np.asarray((beyond(likelier, y) <= chance) == (likelier == 0))

        low, high = self._reach(chance)
        return float(_halved(np.array([low]), np.array([high]), rare)[likelier][0])

    def _first(self, likelier: int, levels: Array, low: float, high: float) -> Array:
        """Messages in [low, high] at which the log-likelihood ratio passes each of the levels."""

        def passed(y: Array) -> NDArray[np.bool_]:
            return np.asarray((self._log_ratio(likelier, y) >= levels) == (likelier == 0))

        left, right = _halved(np.full(levels.shape, low), np.full(levels.shape, high), passed)
        return 0.5 * (left + right)

    def _spread(self, likelier: int, start: float, far: float, cells: int) -> Array:
        """Messages from ``start`` to ``far`` with about equal steps of the log-likelihood ratio."""
        first, last = self._log_ratio(likelier, np.array([start, far])).tolist()
        knots = np.linspace(first, last, _KNOTS + 1)
        places = self._first(likelier, knots, min(start, far), max(start, far))
        places[0], places[-1] = start, far
        even = np.linspace(0.0, 1.0, cells + 1)
        places = np.interp(even, np.linspace(0.0, 1.0, _KNOTS + 1), places)
        return np.asarray(places[np.append(True, np.diff(places) != 0.0)])


def _halved(
    low: Array, high: Array, further: Callable[[Array], NDArray[np.bool_]]
) -> tuple[Array, Array]:
    """Ends of intervals around where the function turns from True to False, by bisection."""
    for _ in range(80):  # then they are as narrow as doubles allow
        middle = 0.5 * (low + high)
        up = further(middle)
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    return low, high
