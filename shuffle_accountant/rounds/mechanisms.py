"""One step of a central mechanism, as random allocation composes it.

Adjacency: zero-out. A step adds up what its records contribute and releases the sum with noise;
one record's contribution is bounded, that of a null record is 0. Every mechanism here names a pair
of laws (P with the record, Q without it) that dominates the step whatever the other records, the
dimension and the outputs of earlier steps; only its likelihood ratio X = dP/dQ counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.losses.base import noise_of, share_of
from shuffle_accountant.losses.settings import GAUSSIAN, STEPS
from shuffle_accountant.losses.steps import bounded_ratio as bounded
from shuffle_accountant.losses.steps.gaussian import GaussianRatio
from shuffle_accountant.losses.steps.mean_ratio import RatioSource
from shuffle_accountant.losses.steps.product_ratio import ProductRatio
from shuffle_accountant.losses.steps.table_ratio import TableRatio
from shuffle_accountant.numerics.rounding import Bound, over_root, quotient
from shuffle_accountant.registry import Kinds, Stored
from shuffle_accountant.rounds.pld import PldRound

# Most runs of equal noise multipliers that a printed schedule names.
_SHOWN = 6
MOST_MULTIPLIERS = 10**6
"""Most steps that have a noise multiplier each."""


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

        Parameters are rounded to a side, PESSIMISTIC to the one that reveals more.

        Raises:
            ValueError: ratios beyond the range of double precision.
        """


@dataclass(frozen=True, init=False)
class GaussianMechanism(Mechanism):
    """A sum of vectors of 2-norm at most 1, plus normal noise of that deviation per coordinate.

    Many steps that all use the record are one step with less noise: deviation over the root of
    their number, exactly.

    Args:
        noise_multiplier: deviation of the noise over the largest norm, in [1e-100, 1e12]; or a
            sequence of them, at least 0.05 each, one for each step of a `RandomAllocation`.
    """

    kind: ClassVar[str] = "gaussian"
    conditions: ClassVar[tuple[str, ...]] = (
        "What a record contributes to a step has 2-norm at most 1 where the noise has the "
        "deviation stated, and nothing else of a step depends on the record, such as the size of "
        "its batch (Gaussian mechanism).",
    )

    noise_multiplier: float | tuple[float, ...]

    def __init__(self, *, noise_multiplier: float | Sequence[float]) -> None:
        value: float | tuple[float, ...]
        if not validate.several(noise_multiplier):
            value = validate.noise_multiplier(noise_multiplier=noise_multiplier)
        elif not 1 <= len(noise_multiplier) <= MOST_MULTIPLIERS:
            raise ValueError(
                f"noise_multiplier must be one number, or 1 to {MOST_MULTIPLIERS:,}, got "
                f"{len(noise_multiplier)}"
            )
        else:
            value = tuple(validate.noise_multiplier(noise_multiplier=x) for x in noise_multiplier)
            if min(value) < GAUSSIAN.least_sigma:
                raise ValueError(
                    f"noise_multiplier of single steps must be at least {GAUSSIAN.least_sigma}, "
                    f"got {min(value)!r}"
                )
        object.__setattr__(self, "noise_multiplier", value)

    @property
    def schedule(self) -> tuple[float, ...] | None:
        """The multiplier of each step of a deal; None if there is one for all steps."""
        return self.noise_multiplier if isinstance(self.noise_multiplier, tuple) else None

    @property
    def sigma(self) -> float:
        """The noise multiplier of every step; ValueError if each step has one of its own."""
        if isinstance(self.noise_multiplier, tuple):
            raise ValueError(
                "noise_multiplier must be one number but in a RandomAllocation, got "
                f"{len(self.noise_multiplier)} numbers"
            )
        return self.noise_multiplier

    def ratio(self, passes: int, side: Bound) -> RatioSource:
        """Lognormal distribution: one Gaussian step with the deviation over root ``passes``."""
        return GaussianRatio(noise_of(over_root(self.sigma, passes), side))

    def __repr__(self) -> str:
        """A call that makes an equal mechanism; runs of equal multipliers are written as such."""
        value = repr(self.noise_multiplier)
        if self.schedule is not None:
            runs = [f"[{one!r}] * {len(list(same))}" for one, same in groupby(self.schedule)]
            value = " + ".join(runs if len(runs) <= _SHOWN else [*runs[:_SHOWN], "..."])
        return f"GaussianMechanism(noise_multiplier={value})"


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
        if value * STEPS.largest_loss < 1.0:
            raise ValueError(f"scale must be at least {1.0 / STEPS.largest_loss:g}, got {value!r}")
        object.__setattr__(self, "scale", value)

    def ratio(self, passes: int, side: Bound) -> RatioSource:
        """Distribution on ``e^(-1/scale)`` to ``e^(1/scale)``, or on products of such ratios."""
        eps0 = quotient(1, self.scale)
        bounded.check_range(eps0.low, passes)
        one = bounded.LaplaceRatio(share_of(eps0, side))
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
        if value > STEPS.largest_loss:
            raise ValueError(f"epsilon must be at most {STEPS.largest_loss:g}, got {value!r}")
        object.__setattr__(self, "epsilon", value)

    def ratio(self, passes: int, side: Bound) -> RatioSource:
        """Distribution on ``e^epsilon`` and ``e^-epsilon``, or on products of them."""
        return bounded.TwoValuedRatio(self.epsilon, passes)


Step = Mechanism | PldRound


def zero_out_step(mechanism: Step, *, scheduled: bool = False) -> Step:
    """The step itself, checked: a mechanism, or a PldRound of adjacency zero-out.

    If ``scheduled``, Gaussian steps may each have a noise multiplier of their own.
    """
    if not isinstance(mechanism, Mechanism | PldRound):
        raise TypeError(
            "mechanism must be a GaussianMechanism, LaplaceMechanism, PureMechanism or "
            f"PldRound, got {validate.shown(mechanism)} of type {type(mechanism).__name__}"
        )
    if isinstance(mechanism, GaussianMechanism) and not scheduled:
        _ = mechanism.sigma  # refuses a schedule
    if isinstance(mechanism, PldRound) and mechanism.adjacency is not Adjacency.ZERO_OUT:
        raise ValueError(
            f"mechanism must be of adjacency {Adjacency.ZERO_OUT.named}, got a PldRound of "
            f"{mechanism.adjacency.named}"
        )
    return mechanism


@lru_cache(maxsize=128)
def step_ratio(mechanism: Step, passes: int, side: Bound) -> RatioSource:
    """Distribution of the likelihood ratio of several steps, as `Mechanism.ratio`."""
    if isinstance(mechanism, Mechanism):
        return mechanism.ratio(passes, side)
    one = TableRatio(mechanism.loss.bounds)
    return one if passes == 1 else ProductRatio(one, passes)


def mechanism_from_dict(state: Any) -> Mechanism:
    """Rebuild a mechanism from its ``to_dict``."""
    return Mechanism.kinds.of(state).from_dict(state)


def step_from_dict(state: Any) -> Step:
    """Rebuild a step from its ``to_dict``."""
    is_pld = isinstance(state, dict) and state.get("kind") == "pld"
    return PldRound.from_dict(state) if is_pld else mechanism_from_dict(state)
