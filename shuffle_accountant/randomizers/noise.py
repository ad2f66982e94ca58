"""The Laplace and the Gaussian mechanism as local randomizers: of one number, and of vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.numerics.rounding import Array, Bound, exponential, roundings
from shuffle_accountant.randomizers.base import FromArguments, GivenEps0, Inputs, Letters
from shuffle_accountant.randomizers.checks import generator, unit_values
from shuffle_accountant.randomizers.continuous import (
    LARGEST_LOG,
    ContinuousRandomizer,
    RatioTails,
    grid_of_logs,
)
from shuffle_accountant.randomizers.estimation import Estimate, Estimator, ends_around, tally_of

# Largest distance of two means in units of the scale or deviation, largest dilution, and least
# sigma: there nothing hides the target, to a double. A larger distance, or less noise, helps the
# adversary no less: lower ends found there hold beyond too, and the upper ones are 1.
_LARGEST_GAP, _LEAST_SIGMA = 2e3, 1e-3
# Least number of cells: a small gap or much noise spreads a short range of ratios over all scores.
_CELLS = 1 << 18
# Least gap and largest sigma: there the adversary learns nothing, to a double.
_LEAST_GAP, _LARGEST_SIGMA = 1e-150, 1e100
# Standard deviations beyond which a normal distribution has a probability below 1e-18.
_REACH = 9.0
# Amount by which a norm may exceed 1, for the rounding of whoever clipped the vectors.
_ROUNDING = 1e-9


class _SymmetricNoise(FromArguments, ContinuousRandomizer):
    """A number plus noise of a symmetric density."""

    symmetric = True
    crossing = 0.5

    def sf(self, x: float, y: Array) -> Array:
        """Probability of messages above y from input x: that of the mirror image."""
        return self.cdf(-x, -y)

    def checked_input(self, *, target: object) -> float:
        """An input of a target: any number in [0, 1], for the blanket of all is the same."""
        return validate.closed_unit(target=target)


@dataclass(frozen=True, init=False, repr=False)
class LaplaceRandomizer(GivenEps0, _SymmetricNoise):
    """A number in [0, 1], not 0 and 1 alone, plus Laplace noise of scale ``1/eps0``.

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
    values = None  # all numbers in [0, 1]

    _eps0: float

    def __init__(self, eps0: float) -> None:
        vars(self).update(_eps0=validate.positive(eps0=eps0))

    @property
    def scale(self) -> float:
        """Scale of the noise, ``1/eps0``; its standard deviation is sqrt(2) times that."""
        return 1.0 / self._eps0

    @property
    def blanket_mass(self) -> float:
        """Probability that a message is a draw from the blanket: ``e^(-eps0/2)``."""
        return math.exp(-0.5 * self._eps0)

    def cdf(self, x: float, y: Array) -> Array:
        """Probability of messages up to y from input x."""
        tail = 0.5 * np.exp(-self._eps0 * np.abs(y - x))
        return np.asarray(np.where(y < x, tail, 1.0 - tail))

    def log_density(self, x: float, y: Array) -> Array:
        """Logarithm of ``eps0/2 e^(-eps0 |y - x|)``."""
        return np.asarray(math.log(0.5 * self._eps0) - self._eps0 * np.abs(y - x))

    def letters(self, inputs: Inputs, side: Bound, *, tail: float, resolution: float) -> Letters:
        """Cells of equal width in the logarithm of the ratio, in closed form; no tail is cut.

        With E = e^eps0 the blanket's density is ``(eps0/2) e^(-eps0 max(|y|, |1-y|))``. Messages
        below 0 are E times as likely under input 0 as in the blanket, those in [0, 1/2]
        ``e^(eps0 (1 - 2y))`` times, all others once; input 1 is the mirror image.
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

    def log_ratio(self, target: float) -> float:
        """Logarithm (nats) of the largest likelihood ratio of the target's input to the blanket."""
        return self._eps0 * (abs(target - 0.5) + 0.5)

    def ratio_tails(
        self, target: float, other: float | None, *, unresolved: float = 0.0
    ) -> RatioTails:
        """Distribution of the likelihood ratio of the target's message to its decoys' messages.

        The blanket is ``e^(-eps0/2)`` of the noise around 1/2.
        """
        if other is None:
            return laplace_tails(self._eps0 * abs(target - 0.5), 0.5 * self._eps0)
        return laplace_tails(self._eps0 * abs(target - other), 0.0)

    def _checked_values(self, values: ArrayLike) -> Array:
        return unit_values(values)

    def _messages(self, own: NDArray[Any], rng: np.random.Generator) -> Array:
        return np.asarray(own + rng.laplace(size=own.shape) / self._eps0)


@dataclass(frozen=True, init=False, repr=False)
class GaussianRandomizer(_SymmetricNoise):
    """Input 0 or 1 plus Gaussian noise of standard deviation ``sigma``.

    The randomizer of Section 5 of 'Numerical Accounting in the Shuffle Model'. A round of it is
    bounded by its blanket, for all pairs of datasets. The paper's own numbers are those of an
    example, which bound nothing else: all users but the target hold 0 (``reduction="example"``).
    Alone the message satisfies no pure local differential privacy.

    Args:
        sigma: standard deviation of the noise, in [1e-100, 1e12], in units of the distance of the
            inputs.
    """

    kind: ClassVar[str] = "gaussian"
    arguments: ClassVar[tuple[str, ...]] = ("sigma",)
    mass_error = 1e-11
    eps0 = math.inf  # the ratio of two normal densities is not bounded

    sigma: float

    def __init__(self, sigma: float) -> None:
        vars(self).update(sigma=validate.noise_multiplier(sigma=sigma))

    @property
    def normal_noise(self) -> float:
        """Standard deviation of the noise: ``sigma``."""
        return self.sigma

    @property
    def blanket_mass(self) -> float:
        """Mass of the smaller one of the two densities, ``2 Phi(-1/(2 sigma))``."""
        return math.erfc(math.sqrt(0.125) / self.sigma)

    def cdf(self, x: float, y: Array) -> Array:
        """Probability of messages up to y from input x."""
        return np.asarray(ndtr((y - x) / self.sigma), dtype=np.float64)

    def log_density(self, x: float, y: Array) -> Array:
        """Logarithm of the normal density around x."""
        score = (y - x) / self.sigma
        return np.asarray(-0.5 * score**2 - math.log(self.sigma * math.sqrt(2.0 * math.pi)))

    def cell_edges(self, likelier: int, *, tail: float, resolution: float) -> Array:
        """Edges at equal distances, from 1/2 outwards."""
        reach = self.sigma * math.sqrt(-2.0 * math.log(max(0.1 * tail, 1e-300)))
        step = min(self.sigma, self.sigma**2) * 2.0 * math.sqrt(resolution)
        count = min(math.ceil((0.5 + reach) / step) + 8, 1 << 15)
        edges = np.linspace(-reach, 0.5, count + 1)[::-1]
        return edges if likelier == 0 else 1.0 - edges

    def ratio_tails(
        self, target: float, other: float | None, *, unresolved: float = 0.0
    ) -> RatioTails:
        """Distribution of the likelihood ratio of the target's message to its decoys' messages."""
        if other is None:
            return normal_blanket_tails(self.sigma, abs(target - 0.5))
        return normal_tails(abs(target - other) / self.sigma, unresolved)

    def _log_ratio(self, likelier: int, y: Array) -> Array:
        """Log-likelihood ratio of one input to the other, which is linear in the message."""
        away = 0.5 - y if likelier == 0 else y - 0.5
        return np.asarray(away / self.sigma**2)

    def _messages(self, own: NDArray[Any], rng: np.random.Generator) -> Array:
        return np.asarray(own + rng.normal(scale=self.sigma, size=own.shape))


@dataclass(frozen=True, init=False, repr=False)
class GaussianVectors(Estimator, FromArguments):
    """A vector of 2-norm at most 1, of any dimension, plus normal noise in every coordinate.

    Adjacency: zero-out. One user's vector is replaced by the vector 0, or the reverse, and the user
    goes on sending a message. A round of it is reduced by null clones (see
    `shuffle_accountant.reductions.clones`), whatever the dimension and the other vectors.

    Privacy is that of real-valued noise; sampled doubles follow it up to their rounding. Tally: the
    sums of the messages' coordinates, shape (d,). The mean's standard error is the noise multiplier
    over the root of the number of users.

    Args:
        noise_multiplier: standard deviation of the noise per coordinate, in [1e-100, 1e12], in
            units of the largest norm.
    """

    kind: ClassVar[str] = "gaussian-vectors"
    arguments: ClassVar[tuple[str, ...]] = ("noise_multiplier",)
    message_axes: ClassVar[int] = 1
    conditions = ("Each user's vector has 2-norm at most 1 before the noise is added to it",)
    adjacency = Adjacency.ZERO_OUT
    eps0 = math.inf  # the ratio of two normal densities is not bounded

    noise_multiplier: float

    def __init__(self, *, noise_multiplier: float) -> None:
        value = validate.noise_multiplier(noise_multiplier=noise_multiplier)
        vars(self).update(noise_multiplier=value)

    @property
    def noisy_vectors(self) -> float:
        """The noise multiplier."""
        return self.noise_multiplier

    def randomize(self, values: ArrayLike, rng: np.random.Generator | None = None) -> Array:
        """Add independent noise to each user's vector.

        Args:
            values: vectors of 2-norm at most 1, shape (..., d).
            rng: source of randomness; by default the operating system's cryptographic one.

        Returns:
            The messages, of the same shape.
        """
        own = _vectors("values", values).astype(np.float64)
        norms = np.linalg.norm(own, axis=-1)
        wrong = ~(norms <= 1.0 + _ROUNDING)  # NaN is outside too
        if np.any(wrong):
            raise ValueError(f"values must have norms of at most 1, got {norms[wrong].flat[0]!s}")
        return own + generator(rng).normal(scale=self.noise_multiplier, size=own.shape)

    def _estimated(self, tally: ArrayLike, users: int) -> Estimate:
        sums = tally_of(tally, (np.size(tally),)).astype(np.float64)
        error = self.noise_multiplier / math.sqrt(users)
        means = sums / users
        ends = partial(ends_around, means, partial(_largest_error, error), False)
        return Estimate(means, np.full(sums.size, error), users, ends)

    def _counted(self, messages: Any) -> tuple[Array, int]:
        array = _vectors("messages", messages)
        rows = array.reshape(-1, array.shape[-1])
        return rows.sum(axis=0, dtype=np.float64), len(rows)


def laplace_tails(gap: float, dilution: float) -> RatioTails:
    """Ratio of Laplace noise around two means, ``gap`` >= 0 apart in units of the scale.

    Decoys are blank but for a share of ``e^-dilution``.
    """
    gap, dilution = min(gap, _LARGEST_GAP), min(dilution, _LARGEST_GAP)
    logs = grid_of_logs(-gap, gap)
    # a last cell of negligible width: the largest ratio is an atom, which chords miss by a cell
    logs = np.insert(logs, -1, max(logs[-1] - 1e-12, logs[-2]))
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


def normal_tails(gap: float, unresolved: float = 0.0) -> RatioTails:
    """Ratio of normal noise around two means, ``gap`` >= 0 standard deviations apart.

    Smaller ratios are taken together where decoys exceed them with a chance of at least 60 times
    ``unresolved``.
    """
    if gap == 0.0:
        certain = np.array([1.0, 0.0])  # that the ratio is 1
        return RatioTails(np.array([0.0, 1.0]), certain, certain, np.asarray(roundings(16)))
    # ratios that this many decoys exceed share one cell: all guesses go to the decoys above them
    most = min(60.0 * unresolved, 1.0)
    first = -_REACH if most > 0.5 else max(-float(ndtri(most)), -_REACH)
    gap = min(max(gap, _LEAST_GAP), _LARGEST_GAP)
    middle = 0.5 * gap**2
    logs = grid_of_logs(gap * first - middle, gap * (gap + _REACH) - middle, _CELLS)
    score = logs / gap + 0.5 * gap
    # good to a few units of their exponent
    error = exponential(roundings(4) * score**2)
    return RatioTails.of_logs(logs, ndtr(gap - score), ndtr(-score), 1.0, error)


def normal_blanket_tails(sigma: float, lean: float) -> RatioTails:
    """Ratio of normal noise to the blanket of the inputs 0 and 1.

    The target's input is at a distance of ``lean``, in [0, 1/2], from 1/2.
    """
    sigma = min(max(sigma, _LEAST_SIGMA), _LARGEST_SIGMA)
    # With u the distance of a message from 1/2, the logarithm of the ratio is linear in |u| on
    # either side, from the same value at u = 0; towards the target it rises faster.
    near, far = 1.0 + 2.0 * lean, 1.0 - 2.0 * lean
    scale = 2.0 * sigma * sigma
    start = (0.25 - lean * lean) / scale
    logs = grid_of_logs(start, start + near * (lean + _REACH * sigma) / scale, _CELLS)
    reach = np.maximum(logs - start, 0.0) * scale
    right, left = reach / near, reach / far if far > 0.0 else np.full(reach.shape, math.inf)
    common = ndtr(-(right + 0.5) / sigma) + ndtr(-(left + 0.5) / sigma)
    own = ndtr((lean - right) / sigma) + ndtr(-(left + lean) / sigma)
    error = exponential(roundings(4) * ((right + 0.5) / sigma) ** 2, own=8)
    total = 2.0 * float(ndtr(-0.5 / sigma))
    return RatioTails.of_logs(logs, own, common, total, error)


def _vectors(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, got an array of {array.dtype}")
    if array.ndim == 0:
        raise ValueError(f"{name} must be vectors of shape (..., d), got a single number")
    return array


def _largest_error(deviation: float, failure: float, coordinates: int) -> float:
    """Bound on the largest of several normal errors at once, of this standard deviation."""
    return deviation * -float(ndtri(0.5 * failure / coordinates)) * (1.0 + roundings(64))
