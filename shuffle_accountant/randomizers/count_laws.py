"""Distributions of counts: dummy messages of a category, or users who take part.

A distribution is given by its ratios ``r(c) = P(c - 1)/P(c)``, which are short formulas; the
probabilities follow from them (see `shuffle_accountant.losses.counts`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.registry import Kinds, Stored

# Largest count: integers up to it are exact in double precision.
_MOST = 2**53
# Least mean and size of a distribution: ratios of smaller ones are beyond the range of doubles.
_LEAST = 1e-300
# Least probability: the inverse of a smaller one times `_MOST` trials is beyond that range too.
_LEAST_CHANCE = 1e-280
# Range of sigma of a discrete Gaussian: ratios within the range of doubles, tables within memory.
_LEAST_SIGMA, _MOST_SIGMA = 0.05, 2.0**18


class CountLaw(Stored, ABC):
    """A distribution of whole numbers >= 0; implementations are frozen dataclasses of numbers."""

    kinds: ClassVar[Kinds[CountLaw]] = Kinds("law")
    divisible: ClassVar[bool] = True
    """Whether any number of users can draw parts that add up to a number of this distribution."""
    roundings: ClassVar[float] = 8.0
    """Error of a ratio, in roundings."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Register the class under its ``kind``."""
        super().__init_subclass__(**options)
        CountLaw.kinds.add(cls)

    @abstractmethod
    def _moments(self) -> tuple[float, float]:
        """Expectation and variance."""

    @property
    def expectation(self) -> float:
        """Expected number."""
        return self._moments()[0]

    @property
    def variance(self) -> float:
        """Variance of the number."""
        return self._moments()[1]

    @property
    def most(self) -> float:
        """Largest number possible; inf if there is none."""
        return math.inf

    @property
    @abstractmethod
    def centre(self) -> int:
        """A number near the most likely one."""

    @abstractmethod
    def ratios(self, counts: Array) -> Array:
        """``P(c - 1)/P(c)`` for c in 0 … most + 1: 0 at 0, inf at most + 1; at most `roundings`."""

    @abstractmethod
    def rising(self, count: float) -> float:
        """Upper bound, up to `roundings`, of ``P(c + 1)/P(c)`` for all c >= ``count``."""

    def falling(self, count: float) -> float:
        """Upper bound, up to `roundings`, of ``P(c - 1)/P(c)`` for all c <= ``count`` < mode."""
        return float(self.ratios(np.array([count]))[0])

    def honest(self, share: float) -> CountLaw:
        """Distribution of the part drawn by this share of the users.

        Raises:
            ValueError: the law cannot be shared, or the part is below the range of doubles.
        """
        if share != 1.0:
            raise ValueError(
                f"honest must be 1 with {type(self).__name__}, which users cannot share, got "
                f"{share}"
            )
        return self

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """Independent numbers, shape (size,)."""
        # NumPy has a sampler with the name of the law, of the same parameters in the same order
        kind, *parameters = self.to_dict().values()
        return np.asarray(getattr(rng, kind.replace("-", "_"))(*parameters, size))


def _not_next_to_none(**named: object) -> float:
    """The named number, finite and not below `_LEAST`."""
    value = validate.positive(**named)
    if value < _LEAST:
        raise ValueError(f"{next(iter(named))} must be at least {_LEAST:g}, got {value!r}")
    return value


def _shared(amount: float, share: float) -> float:
    """Their product, if it is not below `_LEAST`."""
    if amount * share < _LEAST:
        raise ValueError(
            f"honest must leave at least {_LEAST:g} of {amount!r} for dummies, got {share!r}"
        )
    return amount * share


@dataclass(frozen=True, kw_only=True)
class NegativeBinomial(CountLaw):
    """Failures before the ``size``-th success: ``scipy.stats.nbinom(size, probability)``.

    Infinitely divisible: n users who each draw one of size ``size/n`` draw it together.

    Args:
        size: finite, >= 1e-300, not necessarily whole.
        probability: of a success, in (0, 1).

    Raises:
        ValueError: a variance beyond that of doubles.
    """

    kind: ClassVar[str] = "negative-binomial"

    size: float
    probability: float

    def __post_init__(self) -> None:
        vars(self).update(
            size=_not_next_to_none(size=self.size),
            probability=validate.open_unit(probability=self.probability),
        )
        if self.variance == math.inf:
            raise ValueError(
                f"probability must be larger for size = {self.size:g}, with a variance in the "
                f"range of double precision, got {self.probability!r}"
            )

    def _moments(self) -> tuple[float, float]:
        mean = self.size * (1.0 - self.probability) / self.probability
        return mean, mean / self.probability

    @property
    def centre(self) -> int:
        """The mode, 0 up to size 1."""
        return max(math.floor((self.size - 1.0) * (1.0 - self.probability) / self.probability), 0)

    def ratios(self, counts: Array) -> Array:
        """``c / ((c - 1 + size) (1 - p))``."""
        found = counts / (np.maximum(counts - 1.0, 0.0) + self.size) / (1.0 - self.probability)
        return np.where(counts > 0.0, found, 0.0)

    def rising(self, count: float) -> float:
        """The larger of its value at ``count`` and ``1 - p``: it is monotone with that limit."""
        failure = 1.0 - self.probability
        return max((count + self.size) / (count + 1.0), 1.0) * failure

    def honest(self, share: float) -> NegativeBinomial:
        """Negative binomial with the same probability and the size times the share."""
        return replace(self, size=_shared(self.size, share))


@dataclass(frozen=True, kw_only=True)
class Poisson(CountLaw):
    """The Poisson law: n users who each draw one of mean ``mean/n`` draw it together.

    Args:
        mean: finite, >= 1e-300.
    """

    kind: ClassVar[str] = "poisson"

    mean: float

    def __post_init__(self) -> None:
        vars(self).update(mean=_not_next_to_none(mean=self.mean))

    def _moments(self) -> tuple[float, float]:
        return self.mean, self.mean

    @property
    def centre(self) -> int:
        """The mean, rounded down."""
        return math.floor(self.mean)

    def ratios(self, counts: Array) -> Array:
        """``c / mean``."""
        return counts / self.mean

    def rising(self, count: float) -> float:
        """``mean / (c + 1)``, falling in c."""
        return self.mean / (count + 1.0)

    def honest(self, share: float) -> Poisson:
        """Poisson with the mean times the share."""
        return Poisson(mean=_shared(self.mean, share))


@dataclass(frozen=True, kw_only=True)
class Binomial(CountLaw):
    """The binomial distribution: successes in ``trials`` independent trials; users may share it.

    Args:
        trials: 0 <= trials <= 2^53.
        probability: of a success, in [1e-280, 1]; 1 is every trial, which is for participation
            alone, as dummies of a known number hide nothing.
    """

    kind: ClassVar[str] = "binomial"

    trials: int
    probability: float

    def __post_init__(self) -> None:
        trials = validate.integer(minimum=0, maximum=_MOST, trials=self.trials)
        probability = validate.closed_unit(probability=self.probability)
        if probability < _LEAST_CHANCE:
            raise ValueError(f"probability must be at least {_LEAST_CHANCE:g}, got {probability!r}")
        vars(self).update(trials=trials, probability=probability)

    def _moments(self) -> tuple[float, float]:
        mean = self.trials * self.probability
        return mean, mean * (1.0 - self.probability)

    @property
    def most(self) -> float:
        """The trials."""
        return float(self.trials)

    @property
    def centre(self) -> int:
        """``(trials + 1) p``, rounded down."""
        return min(math.floor((self.trials + 1) * self.probability), self.trials)

    def ratios(self, counts: Array) -> Array:
        """``c (1 - p) / ((trials - c + 1) p)``."""
        with np.errstate(divide="ignore"):
            odds = (1.0 - self.probability) / self.probability
            return np.asarray(counts * odds / (self.trials - counts + 1.0))

    def rising(self, count: float) -> float:
        """``(trials - c) p / ((c + 1) (1 - p))``, falling in c."""
        odds = self.probability / (1.0 - self.probability)
        return max(self.trials - count, 0.0) * odds / (count + 1.0)

    def honest(self, share: float) -> Binomial:
        """Binomial with the trials times the share, an exact product that is rounded down."""
        return replace(self, trials=math.floor(self.trials * Fraction(share)))


@dataclass(frozen=True, kw_only=True)
class _AroundMode(CountLaw):
    """A law for a single party who adds the dummies, such as a shuffler; users cannot share it."""

    divisible: ClassVar[bool] = False

    mode: int

    def __post_init__(self) -> None:
        vars(self).update(mode=validate.integer(minimum=0, maximum=2**31, mode=self.mode))

    @property
    def centre(self) -> int:
        """The mode."""
        return self.mode


@dataclass(frozen=True, kw_only=True)
class AsymmetricGeometric(_AroundMode):
    """Geometric on both sides of a mode: ``P(c) ∝ left^(mode - c)`` below, ``right^(c - mode)``.

    A law for a shuffler who adds the dummies (Murakami et al. 2025); users cannot share it.

    Args:
        mode: 0 <= mode <= 2^31.
        left: in (0, 1).
        right: in (0, 1).
    """

    kind: ClassVar[str] = "asymmetric-geometric"

    left: float
    right: float

    def __post_init__(self) -> None:
        super().__post_init__()
        left = validate.open_unit(left=self.left)
        vars(self).update(left=left, right=validate.open_unit(right=self.right))

    def _moments(self) -> tuple[float, float]:
        below, r = np.arange(1, self.mode + 1, dtype=np.float64), self.right
        weights = self.left**below
        mass = float(weights.sum()) + 1.0 / (1.0 - r)
        first = r / (1.0 - r) ** 2 - float((weights * below).sum())
        second = r * (1.0 + r) / (1.0 - r) ** 3 + float((weights * below**2).sum())
        return self.mode + first / mass, second / mass - (first / mass) ** 2

    def ratios(self, counts: Array) -> Array:
        """``left`` up to the mode, ``1/right`` above it."""
        found = np.where(counts <= self.mode, self.left, 1.0 / self.right)
        return np.where(counts > 0.0, found, 0.0)

    def rising(self, count: float) -> float:
        """``right`` from the mode on."""
        return self.right if count >= self.mode else 1.0 / self.left

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """Independent numbers, shape (size,)."""
        above_mass = 1.0 / (1.0 - self.right)
        # the mass below, cut off at 0
        cut = -math.expm1(self.mode * math.log(self.left))
        below_mass = self.left / (1.0 - self.left) * cut
        down = rng.random(size) * (above_mass + below_mass) >= above_mass
        up = rng.geometric(1.0 - self.right, size) - 1
        # the inverse of the law below, which is cut off
        place = rng.random(size) * cut
        step = 1 + np.floor(np.log1p(-place) / math.log(self.left)).astype(np.int64)
        return np.where(down, self.mode - np.minimum(step, max(self.mode, 1)), self.mode + up)


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(_AroundMode):
    """The normal density at whole numbers >= 0: ``P(c) ∝ e^(-(c - mode)^2 / (2 sigma^2))``.

    A law for a single party: a shuffler who adds the dummies, or a curator who publishes counts
    (Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy", there on
    all whole numbers). With a mode of 17 deviations what is cut off at 0 is below 1e-62.

    Args:
        mode: 0 <= mode <= 2^31.
        sigma: in [0.05, 2^18]; the deviation, but for small ones and what is cut off.
    """

    kind: ClassVar[str] = "discrete-gaussian"
    roundings: ClassVar[float] = 12.0  # an exponential, which counts as 8, and a product

    sigma: float

    def __post_init__(self) -> None:
        super().__post_init__()
        sigma = validate.positive(sigma=self.sigma)
        if not _LEAST_SIGMA <= sigma <= _MOST_SIGMA:
            raise ValueError(
                f"sigma must be a number in [{_LEAST_SIGMA:g}, {_MOST_SIGMA:g}], got {sigma!r}"
            )
        vars(self).update(sigma=sigma)

    def _moments(self) -> tuple[float, float]:
        reach = math.ceil(17.0 * self.sigma) + 2  # beyond there is no mass in double precision
        apart = np.arange(-min(reach, self.mode), reach + 1, dtype=np.float64)
        weights = np.exp(-0.5 * (apart / self.sigma) ** 2)
        weights /= weights.sum()
        mean = float(weights @ apart)
        return self.mode + mean, float(weights @ (apart - mean) ** 2)

    def ratios(self, counts: Array) -> Array:
        """``e^((2 (c - mode) - 1) / (2 sigma^2))``."""
        # the rate in two parts: products of whole numbers below 2^27 with the first are exact, and
        # those with the second so small that a cubic is their exponential and rounds once
        rate = 1 / (2 * Fraction(self.sigma) ** 2)
        mantissa, exponent = math.frexp(float(rate))
        top = math.ldexp(math.floor(mantissa * 2.0**26), exponent - 26)
        rest = float(rate - Fraction(top))
        steps = 2.0 * (counts - self.mode) - 1.0
        with np.errstate(over="ignore", under="ignore"):
            small = steps * rest
            cubic = 1.0 + small * (1.0 + small / 2.0 * (1.0 + small / 3.0))
            found = np.exp(steps * top) * cubic
        return np.where(counts > 0.0, found, 0.0)

    def rising(self, count: float) -> float:
        """The inverse of the next ratio, falling in c."""
        return 1.0 / float(self.ratios(np.array([count + 1.0]))[0])

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """Independent numbers, shape (size,): discrete Laplace ones, accepted or drawn anew."""
        scale = math.floor(self.sigma) + 1
        found = np.empty(0, dtype=np.int64)
        while found.size < size:
            wanted = 2 * (size - found.size) + 16
            # two geometric numbers' difference is discrete Laplace
            drawn = rng.geometric(-math.expm1(-1.0 / scale), (2, wanted))
            apart = drawn[0] - drawn[1]
            off = (np.abs(apart) - self.sigma**2 / scale) / self.sigma
            kept = (rng.random(wanted) < np.exp(-0.5 * off**2)) & (self.mode + apart >= 0)
            found = np.concatenate([found, self.mode + apart[kept]])
        return found[:size]


def count_law_from_dict(name: str, state: Any) -> CountLaw:
    """Rebuild a law from `CountLaw.to_dict`; ``name`` is the argument's, for error messages."""
    return CountLaw.kinds.of(state, name).from_dict(state)
