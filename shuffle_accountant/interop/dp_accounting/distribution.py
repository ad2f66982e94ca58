"""Composed rounds as a `PrivacyLossDistribution`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffle_accountant import validation as validate
from shuffle_accountant.engine.composed_law import composed_law
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.losses.base import PrivacyLoss, factors
from shuffle_accountant.losses.divergence import HOCKEY_STICK
from shuffle_accountant.rounds.protocol import Protocol, Rounds, as_protocol

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = ["to_privacy_loss_distribution"]


def to_privacy_loss_distribution(
    rounds: Rounds,
    *,
    value_discretization_interval: float = 1e-4,
    tolerance: float = 1e-3,
) -> PrivacyLossDistribution:
    """A pessimistic distribution of the composed rounds, for dp_accounting to compose further.

    The rounds are composed here, on a grid as fine as ``tolerance`` asks for, with all truncated
    mass and all round-off on the safe side; then the loss is put on multiples of the interval. The
    pmfs have a total of 1, whatever could not be followed being infinity mass: losses above 700 or
    above a million intervals, and tails of 1e-30. So epsilon is finite for delta down to about
    1e-30 in the distribution itself; composing it in dp_accounting truncates tails of 1e-15 and
    transforms without a bound on round-off, so answers there are good for delta above 1e-12 or so.

    Adjacency: that of the rounds. Where one user's value is replaced that is
    `NeighboringRelation.REPLACE_ONE`, where it is replaced by a null record `REPLACE_SPECIAL`;
    compose it with distributions of that relation. Bound: upper. A pair that is not symmetric gives
    two pmfs: "remove" is the order in which P holds the target's value.

    Args:
        rounds: a round, a `Protocol`, or a list of pairs (round, count).
        value_discretization_interval: nats, > 0: the grid of the other distributions.
        tolerance: relative accuracy in epsilon to aim for besides the interval's, > 0.

    Raises:
        ImportError: dp_accounting is not installed.
        ValueError: a round with variant="tail", which has no privacy loss distribution, or an
            interval too small for how far the losses reach.
    """
    interval = validate.positive(value_discretization_interval=value_discretization_interval)
    tolerance = validate.positive(tolerance=tolerance)
    parts = _parts(as_protocol(rounds))
    from shuffle_accountant.interop.dp_accounting.library import pld

    library = pld.privacy_loss_distribution
    if not parts:
        return library.identity(interval)
    masses, infinite = _pmf(composed_law(parts, interval, tolerance))
    create = library.PrivacyLossDistribution.create_from_rounded_probability
    backward = tuple((loss.reversed, count) for loss, count in parts)
    if all(back is loss for (back, _), (loss, _) in zip(backward, parts, strict=True)):
        return create(masses, infinite, interval)
    masses_add, infinite_add = _pmf(composed_law(backward, interval, tolerance))
    return create(
        masses,
        infinite,
        interval,
        rounded_probability_mass_function_add=masses_add,
        infinity_mass_add=infinite_add,
        symmetric=False,
    )


def _pmf(law: PldGrid) -> tuple[dict[int, float], float]:
    """Masses by grid index, and the infinity mass."""
    indexed = enumerate(law.mass.tolist(), start=law.offset)
    return {index: mass for index, mass in indexed if mass > 0.0} or {0: 0.0}, law.infinite


def _parts(protocol: Protocol) -> tuple[tuple[PrivacyLoss, int], ...]:
    """The losses that are not 0, in an order of their own."""
    parts = []
    for one, count in protocol.in_order:
        for loss, number in factors(one.reduced().loss, alone=False):
            if loss.divergence is not HOCKEY_STICK:
                raise ValueError(
                    "rounds must be read by the hockey-stick divergence to have a privacy loss "
                    f"distribution, got {one!r:.200}"
                )
            if loss.largest > 0.0:
                parts.append((loss, count * number))
    return tuple(parts)
