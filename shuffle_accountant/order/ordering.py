"""An order of the users in which the members of a group stand close together.

The order decides the utility, never the privacy: the sensitivity is computed for whatever order is
taken. The smallest possible width is the bandwidth of the graph of users who share a group, which
is NP-hard to find, so all methods but sorting by a scalar are heuristics and none is always best.

*Sensitivity*, the largest change of a distance from the order when a group's values are permuted.
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
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import IntArray, inverse, permutation
from shuffle_accountant.order.groups import Groups, check_listable
from shuffle_accountant.order.mallows import DISTANCES

METHODS = ("bfs", "rcm", "rcm2", "sort")


def reference_order(
    groups: Groups,
    method: str = "bfs",
    *,
    coarse: Groups | IntArray | None = None,
    root: int | None = None,
) -> IntArray:
    """The users in reference order: entry k is the user at rank k.

    The methods are

    * "bfs": breadth first search over the edges from each user to the members of the user's group,
      in both directions, from the user with the largest group (Meehan et al., Algorithm 1), begun
      anew in each component. If the groups belong to nobody, users who share a group are joined.
    * "rcm": reverse Cuthill-McKee over the same edges.
    * "rcm2": reverse Cuthill-McKee over all pairs of users who share a group. Often the narrowest;
      its memory is the number of such pairs.
    * "sort": by the scalar of `Groups.from_scalar`, for which it has the smallest possible width,
      or the first coordinate of `Groups.from_radius`.

    The order of unconnected components does not change the sensitivity, but whether what is near
    stays near: with ``coarse``, they stand by the mean rank of their users in a coarser order.
    Without, the one with the largest group comes first.

    Args:
        coarse: a coarser collection of groups (its breadth first order is taken) or an order, shape
            (n,); not for "sort".
        root: where "bfs" begins; without ``coarse``, its component comes first.

    Returns:
        A permutation of 0..n-1, shape (n,).
    """
    validate.instance(Groups, groups=groups)
    method = validate.choice(METHODS, method=method)
    if root is not None:
        root = validate.integer(minimum=0, maximum=groups.n - 1, root=root)
        if method != "bfs":
            raise ValueError(f"root must be None for method {method!r}, got {root}")
    if method == "sort":
        if coarse is not None:
            raise ValueError(
                "coarse must be None for method 'sort', which has no components to place"
            )
        if groups.coordinate is None:
            raise ValueError(
                "method must be one of 'bfs', 'rcm', 'rcm2' without points, got 'sort'"
            )
        return np.argsort(groups.coordinate, kind="stable")
    rank = None
    if isinstance(coarse, Groups):
        if coarse.n != groups.n:
            raise ValueError(f"coarse must be groups of {groups.n} users, got {coarse.n}")
        rank = inverse(_breadth_first(coarse, None, None))
    elif coarse is not None:
        rank = inverse(permutation(groups.n, coarse=coarse))
    if method == "bfs":
        return _breadth_first(groups, rank, root)
    return _cuthill_mckee(groups, rank, squared=method == "rcm2")


def _breadth_first(groups: Groups, rank: IntArray | None, root: int | None) -> IntArray:
    """Users in breadth-first order: one search of all components, from a source joined to roots.

    It meets each component's users in the order of a search of its own.
    """
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    rows = _rows(groups)
    _, found = connected_components(_stacked(rows), directed=False)
    label = np.asarray(found[: groups.n], dtype=np.int64)
    size = _largest_group(groups)
    if root is not None:
        size[root] = size.max(initial=0) + 1
    by_size = np.argsort(-size, kind="stable")
    _, first = np.unique(label[by_size], return_index=True)
    roots = by_size[np.sort(first)]  # by the size of their group

    graph = _stacked([*rows, (roots, np.array([roots.size]))])
    found = breadth_first_order(graph, graph.shape[0] - 1, return_predecessors=False)
    users = found[found < groups.n].astype(np.int64)
    return _by_component(users, label, rank)


def _cuthill_mckee(groups: Groups, rank: IntArray | None, *, squared: bool) -> IntArray:
    from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

    graph = _pairs(groups) if squared else _edges(groups)
    found = reverse_cuthill_mckee(graph, symmetric_mode=True)
    _, label = connected_components(graph, directed=False)
    users = found[found < groups.n].astype(np.int64)
    if rank is None:
        largest = np.argsort(-_largest_group(groups), kind="stable")
        rank = inverse(_by_component(largest, label[: groups.n], None))
    return _by_component(users, label[: groups.n], rank)


def _by_component(users: IntArray, label: IntArray, rank: IntArray | None) -> IntArray:
    """The users component by component, each kept in its order: by mean rank, or first come."""
    if rank is None:
        _, first = np.unique(label[users], return_index=True)
        place = np.asarray(first, dtype=np.float64)
    else:
        count = np.bincount(label)
        # labels of nodes that are no users have no count, and are not asked for
        place = np.bincount(label, rank) / np.maximum(count, 1)
    position = inverse(np.argsort(place, kind="stable"))
    return users[np.argsort(position[label[users]], kind="stable")]


def _largest_group(groups: Groups) -> IntArray:
    """The size of each user's group: the own one, or else the largest the user is in."""
    if groups.own is not None:
        return groups.sizes[groups.own]
    size = np.zeros(groups.n, dtype=np.int64)
    for members, start, stop in groups.pieces():
        np.maximum.at(size, members, np.repeat(stop - start, stop - start))
    return size


# Edges between all members of a group would be as many as its size squared. Nodes between them, one
# or two per group, keep a graph at the size of the lists, and a search in the same order.

_Rows = tuple[IntArray, IntArray]


def _rows(groups: Groups) -> list[_Rows]:
    """(neighbours, numbers of neighbours) of the users, then of the nodes that stand for groups."""
    n, count = groups.n, len(groups)
    members, ends = groups.listed()
    ahead = (members, np.diff(ends))
    if groups.own is not None and groups.symmetric:
        return [(n + groups.own, np.ones(n, dtype=np.int64)), ahead]
    # for each user, the groups that the user is in, ascending, and how many they are
    turned = _table(n, members, ends).tocsc()
    holding, holders = (x.astype(np.int64) for x in (turned.indices, np.diff(turned.indptr)))
    if groups.own is None:
        return [(n + holding, holders), ahead]
    # i's own group first, then the nodes that lead to the owners of the groups which i is in
    own_place = np.cumsum(holders) - holders
    users = np.insert(n + count + holding, own_place, n + groups.own)
    owners = np.argsort(groups.own, kind="stable")
    back = (owners, np.bincount(groups.own, minlength=count))
    return [(users, holders + 1), ahead, back]


def _table(n: int, members: IntArray, ends: IntArray) -> Any:
    """Groups by users, true where a user is a member."""
    from scipy import sparse

    return sparse.csr_array((np.ones(members.size, bool), members, ends), (ends.size - 1, n))


def _stacked(rows: list[_Rows]) -> Any:
    from scipy import sparse

    indices = np.concatenate([neighbours for neighbours, _ in rows])
    ends = np.concatenate([[0], np.cumsum(np.concatenate([counts for _, counts in rows]))])
    return sparse.csr_array((np.ones(indices.size), indices, ends), (ends.size - 1, ends.size - 1))


def _edges(groups: Groups) -> Any:
    """Users joined to the members of their own group, or all to the nodes of the groups."""
    from scipy import sparse

    table = _table(groups.n, *groups.listed())
    if groups.own is None:
        return sparse.csr_array(sparse.block_array([[None, table.T], [table, None]]))
    check_listable(int(groups.sizes[groups.own].sum()))
    each = table if len(groups) == groups.n else table[groups.own]
    return each if groups.symmetric else sparse.csr_array(each + each.T)


def _pairs(groups: Groups) -> Any:
    """Users joined to all users with whom they share a group."""
    check_listable(int(min(float((groups.sizes.astype(np.float64) ** 2).sum()), groups.n**2.0)))
    table = _table(groups.n, *groups.listed())
    return (table.T @ table).tocsr()


KINDS = ("exact", "bound")

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
    distance = validate.choice(DISTANCES, distance=distance)
    kind = validate.choice(KINDS, kind=kind)
    rank = inverse(permutation(groups.n, order=order))
    if distance == "spearman" and groups.n > _MOST_SPEARMAN:
        raise ValueError(
            f"distance must be another for more than {_MOST_SPEARMAN} users, got 'spearman'"
        )
    if kind == "bound":
        return _without_gaps(_largest(rank, groups, "width") + 1, groups.n, distance)
    return _largest(rank, groups, distance)


def group_width(order: IntArray, groups: Groups) -> int:
    """Largest difference of ranks between two members of a group, in [0, n-1].

    Args:
        order: reference order, entry k is the user at rank k, shape (n,).
    """
    validate.instance(Groups, groups=groups)
    return _largest(inverse(permutation(groups.n, order=order)), groups, "width")


def _largest(rank: IntArray, groups: Groups, distance: str) -> int:
    """The largest change over all groups."""
    most = 0
    if groups.overlapping:
        aligned = _aligned(rank, groups)
        # a group without gaps: its size says it all, so the largest is the worst
        most = _without_gaps(int(groups.sizes[aligned].max(initial=0)), groups.n, distance)
        groups = Groups(groups.n, groups.members, groups.start[~aligned], groups.stop[~aligned])
    for members, start, stop in groups.pieces():
        lead = np.repeat(np.arange(start.size) * rank.size, stop - start)
        ranks = np.sort(rank[members] + lead) - lead  # ascending within each group
        most = max(most, _change(distance, ranks, start, stop, groups.n))
    return most


def _without_gaps(size: int, n: int, distance: str) -> int:
    """The largest change for a group of neighbours in the order; 0 if there is none."""
    ends = np.array([0]), np.array([size])
    return _change(distance, np.arange(size), *ends, n) if size else 0


def _aligned(rank: IntArray, groups: Groups) -> NDArray[np.bool_]:
    """Whether each group's slice runs through consecutive ranks, all up or all down; (groups,)."""
    step = np.diff(rank[groups.members])
    last = groups.stop - 1
    found = np.zeros(len(groups), dtype=bool)
    for direction in (1, -1):
        steps = np.concatenate([[0], np.cumsum(step == direction)])
        found |= steps[last] - steps[groups.start] == last - groups.start
    return found


def _change(distance: str, ranks: IntArray, start: IntArray, stop: IntArray, n: int) -> int:
    """Largest change of a distance for any group, or the largest width, from ascending ranks."""
    size = stop - start
    span = ranks[stop - 1] - ranks[start]
    if distance == "width":
        return int(span.max())
    if distance == "hamming":
        return int(np.where(size > 1, size, 0).max())
    if distance == "cayley":
        return int(size.max()) - 1
    if distance == "ulam":
        return int((size - 1 + (span > size - 1)).max())
    if distance == "spearman":
        place = np.arange(ranks.size) - np.repeat(start, size)
        # (n-1-2k) with the sign of the half; a member in the middle has neither
        weight = np.repeat(size, size) - 1 - 2 * place
        signed = np.sign(weight) * (np.abs(weight) + np.repeat(n - size, size)) * -ranks
        return int(2 * np.add.reduceat(signed, start).max())
    # the sum of each group's upper half less that of its lower half; 64 bits hold any sum of ranks
    # of a piece, and differences of sums would survive wrapping
    total = np.concatenate([[0], np.cumsum(ranks)])
    half = size // 2
    halves = total[stop] - total[stop - half] - (total[start + half] - total[start])
    if distance == "footrule":
        return int(2 * halves.max())
    return int((size * (size - 1) // 2 + 2 * (halves - size * size // 4)).max())


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
