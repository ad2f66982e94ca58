"""Amplification by sampling the users of a round.

Lemma 7 of 'Numerical Accounting in the Shuffle Model' (Zhu et al. 2022, Proposition 30): if a pair
dominates the round for its m users, the round on m users drawn without replacement from N is
dominated by the mixture with weight m/N; see `losses.combined.subsampled` for the
explicit pair. Adjacency: one user's value among the N is replaced. Bound: upper bound.

*Colluders.* If the adversary knows c of those drawn among m' people it knows in all, the others are
``m - c`` drawn from ``N - m'``. Whatever c, that is at least ``m - m' - 1`` decoys and a fraction
of at most ``m / (N - m')``; more decoys and a smaller fraction are more private.
"""

from __future__ import annotations

from dataclasses import replace

from shuffle_accountant.losses.combined.subsampled import SubsampledLoss
from shuffle_accountant.reductions.base import DominatingPair, Reduction

__all__ = ["among_colluders", "fraction_of", "subsampled"]


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


def among_colluders(
    inner: DominatingPair, users: int, population: int, colluding: int
) -> DominatingPair:
    """The reduction of such a round if the adversary knows some of the population.

    Args:
        inner: reduction of a round of as many users as are certainly not known, at least one; its
            pair must be symmetric.
        users: size of the subset.
        population: size that it is drawn from.
        colluding: how many of the population are known, fewer than all.
    """
    if not isinstance(inner, Reduction) or population - colluding <= users:
        return inner
    return subsampled(inner, users, population - colluding)
