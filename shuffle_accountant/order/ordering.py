"""An order of the users in which the members of a group stand close together.

The order decides the utility, never the privacy: the sensitivity is computed for whatever order is
taken. The smallest possible width is the bandwidth of the graph of users who share a group, which
is NP-hard to find, so all methods but sorting by a scalar are heuristics and none is always best.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import IntArray, inverse, permutation
from shuffle_accountant.order.groups import Groups, check_listable

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
        method: one of the four.
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

    The queue of such a search holds each component's users in the order of a search of its own, so
    they only have to be separated afterwards.
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
