"""One step of a central mechanism, as random allocation composes it.

Adjacency: zero-out. A step adds up what its records contribute and releases the sum with noise;
one record's contribution is bounded, that of a null record is 0. Every mechanism here names a pair
of laws (P with the record, Q without it) that dominates the step whatever the other records, the
dimension and the outputs of earlier steps; only its likelihood ratio X = dP/dQ counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.combined.by_side import noise_of, share_of
from shuffle_accountant.losses.steps.bounded_ratio import (
    LARGEST_LOSS,
    LaplaceRatio,
    TwoValuedRatio,
    check_range,
)
from shuffle_accountant.losses.steps.gaussian import GaussianRatio
from shuffle_accountant.losses.steps.mean_ratio import RatioSource
from shuffle_accountant.losses.steps.product_ratio import ProductRatio
from shuffle_accountant.numerics.between import over_root, quotient
from shuffle_accountant.registry import Kinds, Stored

__all__ = [
    "GaussianMechanism",
    "LaplaceMechanism",
    "Mechanism",
    "PureMechanism",
]


class Mechanism(Stored, ABC):
    """One step; implementations are frozen dataclasses of plain numbers."""

    conditions: ClassVar[tuple[str, ...]]
    """Assumptions on a step, a sentence each."""
    kinds: ClassVar[Kinds[Mechanism]] = Kinds("mechanism")

    def __init_subclass__(cls, **options: Any) -> None:
        """Register the class under its ``kind``."""
        super().__init_subclass__(**options)
        Mechanism.kinds.add(cls)

    @abstractmethod
    def ratio(self, passes: int, side: Bound) -> RatioSource:
        """Distribution of the likelihood ratio of ``passes`` steps that all use the record.

        Args:
            passes: number of steps, >= 1.
            side: side to which parameters are rounded; PESSIMISTIC to the one that reveals more.

        Raises:
            ValueError: ratios beyond the range of double precision.
        """


@dataclass(frozen=True, kw_only=True)
class GaussianMechanism(Mechanism):
    """A sum of vectors of 2-norm at most 1, plus normal noise of that deviation per coordinate.

    Many steps that all use the record are one step with less noise: deviation over the root of
    their number, exactly.

    Args:
        noise_multiplier: deviation of the noise over the largest norm, in [1e-100, 1e12].
    """

    kind: ClassVar[str] = "gaussian"
    conditions: ClassVar[tuple[str, ...]] = (
        "What a record contributes to a step has 2-norm at most 1 where the noise has the "
        "deviation stated, and nothing else of a step depends on the record, such as the size of "
        "its batch (Gaussian mechanism).",
    )

    noise_multiplier: float

    def __post_init__(self) -> None:
        value = validate.noise_multiplier(noise_multiplier=self.noise_multiplier)
        object.__setattr__(self, "noise_multiplier", value)

    def ratio(self, passes: int, side: Bound) -> RatioSource:
        """Lognormal distribution: one Gaussian step with the deviation over root ``passes``."""
        sigma = over_root(self.noise_multiplier, passes)
        return GaussianRatio(noise_of(sigma, side))


@dataclass(frozen=True, kw_only=True)
class LaplaceMechanism(Mechanism):
    """A sum of vectors of 1-norm at most 1, plus Laplace noise of that scale per coordinate.

    Args:
        scale: scale of the noise, >= 1/500.
    """

    kind: ClassVar[str] = "laplace"
    conditions: ClassVar[tuple[str, ...]] = (
        "What a record contributes to a step has 1-norm at most 1 where the noise has the scale "
        "stated, and nothing else of a step depends on the record, such as the size of its batch "
        "(Laplace mechanism).",
    )

    scale: float

    def __post_init__(self) -> None:
        value = validate.positive(scale=self.scale)
        if value * LARGEST_LOSS < 1.0:
            raise ValueError(f"scale must be at least {1.0 / LARGEST_LOSS:g}, got {value!r}")
        object.__setattr__(self, "scale", value)

    def ratio(self, passes: int, side: Bound) -> RatioSource:
        """Distribution on ``e^(-1/scale)`` to ``e^(1/scale)``, or on products of such ratios."""
        eps0 = quotient(1, self.scale)
        check_range(eps0.low, passes)
        one = LaplaceRatio(share_of(eps0, side))
        return one if passes == 1 else ProductRatio(one, passes)


@dataclass(frozen=True, kw_only=True)
class PureMechanism(Mechanism):
    """Any step that is epsilon-differentially private, given whatever came before it.

    Its ratio lies between ``e^-epsilon`` and ``e^epsilon`` and has mean one; the law on these two
    values is the largest such law in convex order. Randomized response attains it.

    Args:
        epsilon: nats, in (0, 500].
    """

    kind: ClassVar[str] = "pure"
    conditions: ClassVar[tuple[str, ...]] = (
        "Each step that uses a record has the epsilon stated, whatever earlier steps released "
        "(pure differential privacy).",
    )

    epsilon: float

    def __post_init__(self) -> None:
        value = validate.positive(epsilon=self.epsilon)
        if value > LARGEST_LOSS:
            raise ValueError(f"epsilon must be at most {LARGEST_LOSS:g}, got {value!r}")
        object.__setattr__(self, "epsilon", value)

    def ratio(self, passes: int, side: Bound) -> RatioSource:
        """Distribution on ``e^epsilon`` and ``e^-epsilon``, or on products of them."""
        return TwoValuedRatio(self.epsilon, passes)
