"""Steps of an epoch: mechanisms, or privacy loss tables of adjacency zero-out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.steps.mean_ratio import RatioSource
from shuffle_accountant.losses.steps.product_ratio import ProductRatio
from shuffle_accountant.losses.steps.table_ratio import TableRatio
from shuffle_accountant.rounds.mechanisms import GaussianMechanism, Mechanism
from shuffle_accountant.rounds.pld import PldRound

__all__ = ["step_from_dict", "step_ratio", "zero_out_step"]


def zero_out_step(
    mechanism: Mechanism | PldRound, *, scheduled: bool = False
) -> Mechanism | PldRound:
    """The step itself, checked: a mechanism, or a PldRound of adjacency zero-out.

    Args:
        mechanism: to be checked.
        scheduled: whether Gaussian steps may each have a noise multiplier of their own.
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
def step_ratio(mechanism: Mechanism | PldRound, passes: int, side: Bound) -> RatioSource:
    """Distribution of the likelihood ratio of ``passes`` steps that all use the record.

    Args:
        mechanism: the step.
        passes: number of steps, >= 1.
        side: side to which parameters are rounded; PESSIMISTIC to the one that reveals more.

    Raises:
        ValueError: ratios beyond the range of double precision.
    """
    if isinstance(mechanism, Mechanism):
        return mechanism.ratio(passes, side)
    one = TableRatio(mechanism.loss.bounds)
    return one if passes == 1 else ProductRatio(one, passes)


def step_from_dict(state: Any) -> Mechanism | PldRound:
    """Rebuild a step from its ``to_dict``."""
    is_pld = isinstance(state, dict) and state.get("kind") == "pld"
    return PldRound.from_dict(state) if is_pld else Mechanism.kinds.of(state).from_dict(state)
