"""Amplification by sampling the users of a round.

Lemma 7 of 'Numerical Accounting in the Shuffle Model' (Zhu et al. 2022, Proposition 30): if a pair
dominates the round for its m users, the round on m users drawn without replacement from N is
dominated by the mixture with weight m/N; see `shuffle_accountant.losses.subsampled` for the
explicit pair. Adjacency: one user's value among the N is replaced. Bound: upper bound.
"""

from __future__ import annotations

from dataclasses import replace

from shuffle_accountant.losses.subsampled import SubsampledLoss
from shuffle_accountant.reductions.base import Reduction

__all__ = ["fraction_of", "subsampled"]


def subsampled(inner: Reduction, users: int, population: int) -> Reduction:
    """The reduction of a round on a random subset of the population, drawn anew every round.

    Args:
        inner: reduction of the round given who takes part; its pair must be symmetric.
        users: size m of the subset.
        population: size N >= m that it is drawn from.
    """
    if population == users:
        return inner
    return fraction_of(inner, users / population)


def fraction_of(inner: Reduction, fraction: float) -> Reduction:
    """The reduction of a round that each person takes part in with a given chance.

    Args:
        inner: as for `subsampled`.
        fraction: of the population that takes part, in (0, 1].
    """
    return replace(
        inner,
        name=f"{inner.name}, subsampled",
        loss=SubsampledLoss(inner=inner.loss, fraction=fraction),
    )
