"""Largest change of a distance from the reference order when a group's values are permuted.

Write P for the ascending ranks of a group's r members. Neighbours permute values among P, which are
the entries of the one-line permutation that lie in P. The largest change of each distance is

* Kendall: ``r(r-1)/2 + 2 sum_k min(k, r-k) (P[k] - P[k-1] - 1)``: all pairs of the group, and for
  each rank in a gap the pairs with the smaller side of the group, twice;
* footrule: ``2 sum_k<r//2 (P[r-1-k] - P[k])``; Spearman: the same with weights n-1-2k;
* Hamming: r, Cayley: r-1, whatever the order (both are bi-invariant);
* Ulam: r-1 if P has no gap, else at most r.

With S the sum of the upper half of P less that of the lower half, Kendall's is
``r(r-1)/2 + 2 (S - r²//4)`` and the footrule's ``2 S``: ranks are sorted, then summed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import IntArray, inverse, permutation
from shuffle_accountant.order.groups import Groups
from shuffle_accountant.order.permutations import DISTANCES

KINDS = ("exact", "bound")

# Largest change of one distance, given ascending ranks, their slices for each group, and n.
_Change: TypeAlias = Callable[[IntArray, IntArray, IntArray, int], int]

# n(n²-1)/3, the largest change of Spearman's distance, has to fit in 63 bits.
_MOST_SPEARMAN = 3_000_000


def sensitivity(
    order: IntArray, groups: Groups, *, distance: str = "kendall", kind: str = "exact"
) -> int:
    """Largest change of a distance from the reference order between neighbours, over all groups.

    Args:
        order: reference order, entry k is the user at rank k, shape (n,).
        groups: the groups; permuting the values of the members of one group gives a neighbour.
        distance: "kendall" (pairs in another order), "hamming" (users moved), "cayley"
            (transpositions), "footrule" (sum of displacements), "spearman" (sum of their squares)
            or "ulam" (n less the longest increasing subsequence).
        kind: "exact": attained by some pair of neighbours, except that Ulam's may be one too large.
            "bound": from the width alone, that of all users between the first and the last of the
            widest group; for Kendall w(w+1)/2, as in Meehan et al., never below "exact".

    Returns:
        An integer, >= 0; 0 if all groups have one member.
    """
    validate.instance(Groups, groups=groups)
    largest = _LARGEST[validate.choice(_LARGEST, distance=distance)]
    kind = validate.choice(KINDS, kind=kind)
    rank = inverse(permutation(groups.n, order=order))
    if distance == "spearman" and groups.n > _MOST_SPEARMAN:
        raise ValueError(
            f"distance must be another for more than {_MOST_SPEARMAN} users, got 'spearman'"
        )
    if kind == "bound":
        width = _largest(rank, groups, _span)
        return largest(np.arange(width + 1), np.array([0]), np.array([width + 1]), groups.n)
    return _largest(rank, groups, largest)


def group_width(order: IntArray, groups: Groups) -> int:
    """Largest difference of ranks between two members of a group, in [0, n-1].

    Args:
        order: reference order, entry k is the user at rank k, shape (n,).
    """
    validate.instance(Groups, groups=groups)
    return _largest(inverse(permutation(groups.n, order=order)), groups, _span)


def _largest(rank: IntArray, groups: Groups, change: _Change) -> int:
    """The largest change over all groups."""
    whole = 0
    if groups.overlapping:
        aligned = _aligned(rank, groups)
        # a group without gaps: its size says it all, so the largest is the worst
        most = int(groups.sizes[aligned].max(initial=0))
        whole = change(np.arange(most), np.array([0]), np.array([most]), groups.n) if most else 0
        groups = Groups(groups.n, groups.members, groups.start[~aligned], groups.stop[~aligned])
    rest = (
        change(_sorted_ranks(rank, members, start, stop), start, stop, groups.n)
        for members, start, stop in groups.pieces()
    )
    return max(whole, max(rest, default=0))


def _aligned(rank: IntArray, groups: Groups) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each group's slice runs through consecutive ranks, all up or all down; (groups,)."""
    step = np.diff(rank[groups.members])
    last = groups.stop - 1
    found = np.zeros(len(groups), dtype=bool)
    for direction in (1, -1):
        steps = np.concatenate([[0], np.cumsum(step == direction)])
        found |= steps[last] - steps[groups.start] == last - groups.start
    return found


def _sorted_ranks(rank: IntArray, members: IntArray, start: IntArray, stop: IntArray) -> IntArray:
    """The members' ranks, ascending within each group."""
    lead = np.repeat(np.arange(start.size) * rank.size, stop - start)
    return np.sort(rank[members] + lead) - lead


def _halves(ranks: IntArray, start: IntArray, stop: IntArray) -> IntArray:
    """Sum of each group's upper half less that of its lower half."""
    # 64 bits hold any sum of ranks of a piece, and differences of sums would survive wrapping
    total = np.concatenate([[0], np.cumsum(ranks)])
    half = (stop - start) // 2
    upper = total[stop] - total[stop - half]
    lower = total[start + half] - total[start]
    return np.asarray(upper - lower)


def _span(ranks: IntArray, start: IntArray, stop: IntArray, n: int) -> int:
    return int((ranks[stop - 1] - ranks[start]).max())


def _kendall(ranks: IntArray, start: IntArray, stop: IntArray, n: int) -> int:
    size = stop - start
    gaps = _halves(ranks, start, stop) - size * size // 4
    return int((size * (size - 1) // 2 + 2 * gaps).max())


def _footrule(ranks: IntArray, start: IntArray, stop: IntArray, n: int) -> int:
    return int(2 * _halves(ranks, start, stop).max())


def _spearman(ranks: IntArray, start: IntArray, stop: IntArray, n: int) -> int:
    size = stop - start
    place = np.arange(ranks.size) - np.repeat(start, size)
    # (n-1-2k) with the sign of the half; a member in the middle has neither
    weight = np.repeat(size, size) - 1 - 2 * place
    signed = np.sign(weight) * (np.abs(weight) + np.repeat(n - size, size)) * -ranks
    return int(2 * np.add.reduceat(signed, start).max())


def _hamming(ranks: IntArray, start: IntArray, stop: IntArray, n: int) -> int:
    most = int((stop - start).max())
    return most if most > 1 else 0


def _cayley(ranks: IntArray, start: IntArray, stop: IntArray, n: int) -> int:
    return int((stop - start).max()) - 1


def _ulam(ranks: IntArray, start: IntArray, stop: IntArray, n: int) -> int:
    size = stop - start
    gap = ranks[stop - 1] - ranks[start] > size - 1
    return int((size - 1 + gap).max())


_LARGEST: dict[str, _Change] = {
    "kendall": _kendall,
    "hamming": _hamming,
    "cayley": _cayley,
    "footrule": _footrule,
    "spearman": _spearman,
    "ulam": _ulam,
}


# Most users whose n! orders are listed by `verify_alpha`.
_MOST_VERIFIED = 7


def verify_alpha(
    groups: Groups, order: ArrayLike, theta: float, *, distance: str = "kendall"
) -> float:
    """The alpha that a shuffle has, from the law of its output: no sensitivity, no theorem.

    All n! outputs for distinct values are listed as the mechanism makes them, ``s[order] =
    order[rho]``, with their masses; those which a permutation of one group's values turns into
    each other are compared. For tests and for looking at small cases.

    Args:
        order: reference order, entry k is the user at rank k, shape (n,).
        theta: concentration of the Mallows distribution, in [0, 1e300].
        distance: any of the six of `sensitivity`.

    Returns:
        The largest log ratio, nats; for an exact sensitivity it is theta times it.
    """
    n = validate.instance(Groups, groups=groups).n
    if n > _MOST_VERIFIED:
        raise ValueError(f"groups must be of at most {_MOST_VERIFIED} users, got {n}")
    sigma0 = permutation(n, order=order)
    theta = validate.finite_nonnegative(theta=theta)
    most_theta = 1e300  # above, logarithms of masses may be no doubles
    if theta > most_theta:
        raise ValueError(f"theta must be a number in [0, {most_theta:g}], got {theta!r}")
    measure = DISTANCES[validate.choice(DISTANCES, distance=distance)]
    drawn: IntArray = np.array(list(permutations(range(n))))
    log_mass = np.array([-theta * measure(rho) for rho in drawn])
    released = np.empty_like(drawn)
    released[:, sigma0] = sigma0[drawn]
    digits = (n + 1) ** np.arange(n)

    worst = 0.0
    for number in range(len(groups)):
        # outputs that differ in nothing but the order of the group's values
        hidden = np.where(np.isin(released, groups[number]), n, released)
        _, alike = np.unique(hidden @ digits, return_inverse=True)
        high = np.full(alike.max() + 1, -math.inf)
        low = np.full(alike.max() + 1, math.inf)
        np.maximum.at(high, alike, log_mass)
        np.minimum.at(low, alike, log_mass)
        worst = max(worst, float((high - low).max()))
    return worst
