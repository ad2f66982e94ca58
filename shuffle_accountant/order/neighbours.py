"""Users near each other: within a radius of points, or within some edges of a graph."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.order.arguments import IntArray, any_array

MOST_LISTED = 1 << 28
"""Most memberships of groups that are listed one by one (2 GiB); more raise a ValueError."""


def check_listable(memberships: int) -> None:
    """Refuse groups whose list of memberships would not fit in memory."""
    if memberships > MOST_LISTED:
        raise ValueError(
            f"groups must have at most {MOST_LISTED} memberships to be listed, got {memberships}"
            " (smaller groups, or those of a scalar with method 'sort', need no list)"
        )


def within_radius(places: Array, r: float) -> tuple[IntArray, IntArray, IntArray]:
    """Groups of the distinct places; users at one place share a group, which is stored once.

    Returns:
        ``(members, stop, own)``: users, group after group; the end of each group; each user's.
    """
    from scipy.spatial import cKDTree

    distinct, own = _distinct(places)
    count = distinct.shape[0]
    by_place = np.argsort(own, kind="stable")
    crowd = np.bincount(own, minlength=count)
    begin = np.cumsum(crowd) - crowd

    # in units of a power of two, so that no square overflows or underflows; that rounds nothing
    unit = math.ldexp(0.5, math.frexp(float(np.abs(distinct).max()))[1])
    tree = cKDTree(distinct / unit)
    reach = min(r / unit, 4.0 * distinct.shape[1])  # nothing is further apart
    # pairs of places are never more than memberships, and counted without being listed
    _check_radius(int(tree.count_neighbors(tree, reach)), r)
    pairs = tree.query_pairs(reach, output_type="ndarray").astype(np.int32)
    near, ends = _rows(count, pairs)
    total = int(crowd[near].sum())
    _check_radius(total, r)
    sizes = np.add.reduceat(crowd[near], ends[:-1])
    if total == near.size:  # one user at each place
        return by_place[near], np.cumsum(sizes), own
    filled = np.cumsum(crowd[near])
    shift = np.repeat(begin[near] - (filled - crowd[near]), crowd[near])
    return by_place[np.arange(total) + shift], np.cumsum(sizes), own


def within_hops(adjacency: Any, hops: int) -> tuple[IntArray, IntArray]:
    """For each user, the users at most ``hops`` edges away, itself included.

    Args:
        adjacency: square array, SciPy sparse array, or NetworkX graph.

    Returns:
        ``(members, stop)``: users in ascending order, group after group; the end of each group.
    """
    from scipy import sparse

    if hasattr(adjacency, "nodes") and hasattr(adjacency, "edges"):  # who has one has the library
        import networkx

        adjacency = networkx.to_scipy_sparse_array(adjacency, weight=None)
    array = adjacency if sparse.issparse(adjacency) else any_array(adjacency=adjacency)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"adjacency must be numbers, got an array of {array.dtype}")
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.shape[0]:
        raise ValueError(f"adjacency must be square and not empty, got shape {array.shape}")
    n = array.shape[0]
    edges = sparse.csr_array(array != 0)
    step = sparse.csr_array(edges + edges.T + sparse.eye_array(n, dtype=bool, format="csr"))
    reached = step
    for _ in range(min(hops, n) - 1):
        # an upper bound on what the product holds
        held = np.minimum(
            np.add.reduceat(
                np.diff(step.indptr)[reached.indices], reached.indptr[:-1], dtype=np.int64
            ),
            n,
        ).sum()
        if held > MOST_LISTED:
            raise ValueError(
                f"hops must give at most {MOST_LISTED} memberships, got up to {held} at {hops}"
            )
        before, reached = reached.nnz, sparse.csr_array(reached @ step)
        if reached.nnz == before:  # nobody new
            break
    reached.sort_indices()
    return reached.indices.astype(np.int64), reached.indptr[1:].astype(np.int64)


def _distinct(places: Array) -> tuple[Array, IntArray]:
    """The distinct rows, in the order of first appearance, and which of them each row is."""
    by_row = np.lexsort(places.T[::-1])
    ordered = places[by_row]
    new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    label = np.empty(len(places), dtype=np.int64)
    label[by_row] = np.cumsum(new) - 1
    first = by_row[new]  # lexsort is stable: the first of its kind
    appearance = np.argsort(first, kind="stable")
    number = np.empty_like(appearance)
    number[appearance] = np.arange(appearance.size)
    return places[first[appearance]], number[label]


def _rows(count: int, pairs: IntArray) -> tuple[IntArray, IntArray]:
    """Lists of neighbours in ascending order, each with its owner, from pairs i < j."""
    from scipy import sparse

    one_way = sparse.coo_array((np.ones(len(pairs), dtype=bool), pairs.T), (count, count)).tocsr()
    listed = sparse.csr_array(one_way + one_way.T + sparse.eye_array(count, dtype=bool))
    listed.sort_indices()
    return listed.indices.astype(np.int64), listed.indptr.astype(np.int64)


def _check_radius(memberships: int, r: float) -> None:
    if memberships > MOST_LISTED:
        raise ValueError(
            f"r must give at most {MOST_LISTED} memberships, got {memberships} or more at r={r!r}"
        )
