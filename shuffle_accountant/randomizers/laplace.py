"""The Laplace mechanism as a local randomizer of one number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array, Bound, exponential, roundings
from shuffle_accountant.randomizers.base import FromArguments
from shuffle_accountant.randomizers.checks import generator, unit_values
from shuffle_accountant.randomizers.continuous import ContinuousRandomizer
from shuffle_accountant.randomizers.ratio_tails import LARGEST_LOG, RatioTails, grid_of_logs

__all__ = ["LaplaceRandomizer", "laplace_tails"]

_LAST_STEP = 1e-12
# Largest distance of two means in units of the scale, and largest dilution: at this distance
# nothing hides the target, to a double.
# A larger one helps the adversary no less: lower ends found at it hold, and upper ones are 1.
_LARGEST_GAP = 2e3


@dataclass(frozen=True, init=False, repr=False)
class LaplaceRandomizer(FromArguments, ContinuousRandomizer):
    """A number in [0, 1] plus Laplace noise of scale ``1/eps0``.

    The density of the message y is ``eps0/2 exp(-eps0 |y - x|)`` for input x. Its least value over
    all x in [0, 1] is the one at the end that is further from y, 0 or 1, so the blanket is that of
    these two inputs.

    The inputs 0 and 1 are worst, for every n and alpha >= 1. With ``r(x, y)`` the likelihood ratio
    of input x to the blanket at message y, write ``l(x0, x1) = r(x0, y) - alpha r(x1, y)``; all
    have the same mean, so it is enough that ``l(0, 1)`` is above ``l(x0, x1)`` in convex order: for
    sums of independent variables follow. ``D(t)``, the difference of ``E(l - t)_+``, must be >= 0.

    * x0 <= 1/2 <= x1: both ratios are monotone in y, and moving x0 to 0, then x1 to 1, changes l by
      a function with one change of sign, from + to -; that is the cut criterion.
    * x0 < x1 <= 1/2: moving x0 to 0 raises l where l is largest and D grows from the total
      variation's difference at t = 0 up to t = max l; for t < 0 it is pointwise. Moving then x1 to
      1: pointwise outside ``min l < t < 1 - alpha e^(eps0 x1)``; inside, D' has the sign of
      ``sqrt(alpha s/(1+s)) + sqrt(s/(alpha e^(eps0(1-x1)) - s)) - sqrt(alpha e^(eps0 x1) - 1)``, s
      = -t, which increases in s, so D is least at an end, where it is >= 0.
    * 1/2 <= x0 < x1: the same argument from the other end. Where ``alpha e^(eps0 (x0 - x1)) >= 1``
      the pair's l is never positive and there is nothing to bound. x0 > x1 is the mirror image.

    Privacy is that of real-valued noise; sampled doubles follow it up to their rounding.

    Args:
        eps0: local privacy parameter in nats, finite, > 0.
    """

    kind: ClassVar[str] = "laplace"
    arguments: ClassVar[tuple[str, ...]] = ("eps0",)

    _eps0: float

    def __init__(self, eps0: float) -> None:
        object.__setattr__(self, "_eps0", validate.positive(eps0=eps0))

    @property
    def eps0(self) -> float:
        """Local privacy parameter, nats."""
        return self._eps0

    @property
    def scale(self) -> float:
        """Scale of the noise, ``1/eps0``; its standard deviation is sqrt(2) times that."""
        return 1.0 / self._eps0

    @property
    def values(self) -> None:
        """None: all numbers in [0, 1]."""
        return None

    @property
    def symmetric(self) -> bool:
        """True: the noise is symmetric."""
        return True

    @property
    def crossing(self) -> float:
        """Halfway between the inputs."""
        return 0.5

    @property
    def blanket_mass(self) -> float:
        """Probability that a message is a draw from the blanket: ``e^(-eps0/2)``."""
        return math.exp(-0.5 * self._eps0)

    def cdf(self, x: float, y: Array) -> Array:
        """Probability of messages up to y from input x."""
        return np.asarray(np.where(y < x, self._tail(y - x), 1.0 - self._tail(y - x)))

    def sf(self, x: float, y: Array) -> Array:
        """Probability of messages above y from input x."""
        return np.asarray(np.where(y < x, 1.0 - self._tail(y - x), self._tail(y - x)))

    def log_density(self, x: float, y: Array) -> Array:
        """Logarithm of ``eps0/2 e^(-eps0 |y - x|)``."""
        return np.asarray(math.log(0.5 * self._eps0) - self._eps0 * np.abs(y - x))

    def _tail(self, distance: Array) -> Array:
        return np.asarray(0.5 * np.exp(-self._eps0 * np.abs(distance)))

    def letters(
        self, inputs: tuple[int, int], side: Bound, *, tail: float, resolution: float
    ) -> tuple[Array, float]:
        """Cells of equal width in the logarithm of the ratio, in closed form.

        With E = e^eps0 the blanket's density is ``(eps0/2) e^(-eps0 max(|y|, |1-y|))``. Messages
        below 0 are E times as likely under input 0 as in the blanket, those in [0, 1/2]
        ``e^(eps0 (1 - 2y))`` times, all others once; input 1 is the mirror image.

        Args:
            inputs: the two inputs, in the order of the datasets.
            side: PESSIMISTIC or OPTIMISTIC bound on what the messages reveal.
            tail: not needed, no mass is given away.
            resolution: square, about, of a cell's width, > 0.
        """
        eps0 = self._eps0
        cells = math.ceil(0.8 * (1.0 + 0.5 * eps0) / math.sqrt(resolution)) + 8
        width = eps0 / cells
        logs = np.linspace(eps0, 0.0, cells + 1)
        # between ratios r1 > r2: q = (r2^(-1/2) - r1^(-1/2))/2, p = (r1^(1/2) - r2^(1/2))/2, over
        # sqrt(E)
        grown = math.expm1(0.5 * width)
        q = 0.5 * grown * np.exp(-0.5 * (logs[:-1] + eps0))
        p = 0.5 * grown * np.exp(0.5 * (logs[:-1] - width - eps0))
        if side is Bound.PESSIMISTIC:
            # two cells meet at an edge
            share = 1.0 / (1.0 + math.exp(0.5 * width))
            q = np.append(q * share, 0.0) + np.append(0.0, q * (1.0 - share))
            p = q * np.exp(logs)
        # messages beyond 0
        q, p = np.append(q, 0.5 * math.exp(-eps0)), np.append(p, 0.5)
        rows = np.stack([np.concatenate([p, q]), np.concatenate([q, p])])
        return np.vstack([rows[list(inputs)], np.concatenate([q, q])]), 0.0

    def checked_input(self, *, target: object) -> float:
        """An input of a target: any number in [0, 1]."""
        return validate.closed_unit(target=target)

    def log_ratio(self, target: float) -> float:
        """Logarithm (nats) of the largest likelihood ratio of the target's input to the blanket."""
        return self._eps0 * (abs(target - 0.5) + 0.5)

    def ratio_tails(
        self, target: float, other: float | None, *, unresolved: float = 0.0
    ) -> RatioTails:
        """Distribution of the likelihood ratio of the target's message to its decoys' messages.

        Args:
            target: the target's input, in [0, 1].
            other: the input that all others hold; None for the blanket, and else a blank: the
                blanket is ``e^(-eps0/2)`` of the noise around 1/2.
            unresolved: not needed.
        """
        if other is None:
            return laplace_tails(self._eps0 * abs(target - 0.5), 0.5 * self._eps0)
        return laplace_tails(self._eps0 * abs(target - other), 0.0)

    def randomize(
        self, values: ArrayLike, rng: np.random.Generator | None = None
    ) -> NDArray[np.float64]:
        """Add independent noise to each user's value.

        Args:
            values: numbers in [0, 1], any shape.
            rng: source of randomness; by default the operating system's cryptographic one.

        Returns:
            The messages, any real numbers, of the same shape.
        """
        own = unit_values(values)
        return np.asarray(own + generator(rng).laplace(size=own.shape) / self._eps0)


def laplace_tails(gap: float, dilution: float) -> RatioTails:
    """Ratio of Laplace noise around two means.

    Args:
        gap: distance of the means in units of the scale, >= 0.
        dilution: decoys are blank but for a share of ``e^-dilution``.
    """
    gap, dilution = min(gap, _LARGEST_GAP), min(dilution, _LARGEST_GAP)
    logs = grid_of_logs(-gap, gap)
    # a last cell of negligible width: the largest ratio is an atom, which chords miss by a cell
    logs = np.insert(logs, -1, max(logs[-1] - _LAST_STEP, logs[-2]))
    inside = logs < gap
    decoys = np.where(inside, 0.5 * np.exp(-0.5 * (gap + logs)), 0.0)
    target = np.where(inside, 1.0 - 0.5 * np.exp(-0.5 * (gap - logs)), 0.0)
    share = math.exp(-dilution)
    # exponents are good to a unit of their size
    error = exponential(roundings(1) * (2.0 * gap + dilution), own=8)
    kept = logs + dilution <= LARGEST_LOG
    return RatioTails.of_logs(
        (logs + dilution)[kept], target[kept], share * decoys[kept], share, error
    )
