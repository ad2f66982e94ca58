"""Collections of sets of users whose values must be indistinguishable."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.order.arguments import (
    IntArray,
    any_array,
    coordinates,
    inverse,
    located,
    renamed,
)

MOST_LISTED = 1 << 28
"""Most memberships of groups that are listed one by one (2 GiB); more raise a ValueError."""

# Most memberships in a piece of groups, unless a single group has more.
_PIECE = 1 << 20


@dataclass(frozen=True, eq=False)
class Groups:
    """Sets of users 0..n-1, each a slice ``members[start[g]:stop[g]]`` of one array.

    Slices of separate lists follow each other, as in a CSR matrix; the groups of a scalar are
    overlapping slices of the users in ascending order, so they take O(n) memory however large they
    are. Equal groups may be stored once. Use one of the constructors ``from_lists``,
    ``from_radius``, ``from_graph`` and ``from_scalar``.

    Args:
        members: users' numbers, each slice without repetitions.
        own: the group of each user, shape (n,), or None if groups belong to nobody.
        symmetric: whether j is in i's own group exactly if i is in j's.
        coordinate: a number per user by which to sort, shape (n,), or None.
        linear: whether each group is an interval of the coordinate, so that no order is narrower
            than the sorted one.
    """

    n: int
    members: IntArray
    start: IntArray
    stop: IntArray
    own: IntArray | None = None
    symmetric: bool = False
    coordinate: Array | None = None
    linear: bool = False

    @classmethod
    @renamed(n="users")
    def from_lists(cls, lists: Iterable[Iterable[int]], *, users: int | None = None) -> Groups:
        """Any sets of users.

        If there are ``n`` groups and the i-th has user i in it, it is the group *of* user i, as in
        the paper; otherwise the groups belong to nobody (a list of households, say). A user may be
        in no group: nothing is asked for that user then.

        Args:
            lists: the groups, users' numbers in the order of a breadth first search's visits.
            users: number of users; by default one more than the largest number that is listed.
        """
        groups = validate.items(lists=lists)
        arrays = [_listed(number, group) for number, group in enumerate(groups)]
        if not arrays:
            raise ValueError("lists must hold at least one group, got none")
        members = np.concatenate(arrays)
        if users is None:
            users = int(members.max()) + 1
        # a user and a group together are one integer of 64 bits
        n = validate.integer(minimum=1, maximum=10**9, users=users)
        sizes = [group.size for group in arrays]
        stop = np.cumsum(sizes)
        holder = np.repeat(np.arange(len(arrays)), sizes)
        _check_members(n, members, holder)
        each_own = len(arrays) == n and np.count_nonzero(holder == members) == n
        start = np.append(0, stop[:-1])
        return cls(n, members, start, stop, np.arange(n) if each_own else None)

    @classmethod
    def from_radius(cls, points: ArrayLike, r: float) -> Groups:
        """For each user, the users at Euclidean distance at most ``r``.

        Args:
            points: public coordinates, shape (n, dimensions), or (n,) for one dimension.
        """
        places = located(points=points)
        r = validate.finite_nonnegative(r=r)
        members, stop, own = _within_radius(places, r)
        start, first = np.append(0, stop[:-1]), places[:, 0].copy()
        return cls(own.size, members, start, stop, own, True, first, places.shape[1] == 1)

    @classmethod
    def from_graph(cls, adjacency: Any, *, hops: int = 1) -> Groups:
        """For each user, the users at most ``hops`` edges away, itself included.

        Args:
            adjacency: square array or SciPy sparse array, an entry that is not zero being an edge
                in both directions; or a NetworkX graph, whose i-th node is user i.
        """
        from scipy import sparse

        hops = validate.integer(minimum=1, hops=hops)
        if hasattr(adjacency, "nodes") and hasattr(
            adjacency, "edges"
        ):  # who has one has the library
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
            degrees = np.diff(step.indptr)[reached.indices]
            held = np.minimum(
                np.add.reduceat(degrees, reached.indptr[:-1], dtype=np.int64), n
            ).sum()
            if held > MOST_LISTED:
                raise ValueError(
                    f"hops must give at most {MOST_LISTED} memberships, got up to {held} at {hops}"
                )
            before, reached = reached.nnz, sparse.csr_array(reached @ step)
            if reached.nnz == before:  # nobody new
                break
        reached.sort_indices()
        start, stop = reached.indptr[:-1].astype(np.int64), reached.indptr[1:].astype(np.int64)
        return cls(n, reached.indices.astype(np.int64), start, stop, np.arange(n), True)

    @classmethod
    def from_scalar(cls, t: ArrayLike, r: float) -> Groups:
        """For each user, the users whose value differs by at most ``r``: intervals, O(n) memory."""
        values = coordinates((1,), t=t)
        r = validate.finite_nonnegative(r=r)
        members = np.argsort(values, kind="stable")
        places, first = np.unique(values[members], return_index=True)
        low, high = _within(places, r)
        edges = np.append(first, values.size)
        # places with the same users around them share a group
        new = np.concatenate([[True], (np.diff(low) > 0) | (np.diff(high) > 0)])
        own = np.empty(values.size, dtype=np.int64)
        own[members] = np.repeat(np.cumsum(new) - 1, np.diff(edges))
        start, stop = edges[low[new]], edges[high[new]]
        return cls(values.size, members, start, stop, own, True, values, True)

    def __len__(self) -> int:
        """Number of stored groups; users with one same group may share it."""
        return self.start.size

    def __getitem__(self, number: int) -> IntArray:
        """Members of a stored group."""
        number = validate.integer(minimum=0, maximum=len(self) - 1, number=number)
        return self.members[self.start[number] : self.stop[number]].copy()

    def of(self, user: int) -> IntArray:
        """Members of a user's own group."""
        user = validate.integer(minimum=0, maximum=self.n - 1, user=user)
        if self.own is None:
            raise ValueError("these groups belong to nobody: there is not one for each user")
        return self[int(self.own[user])]

    @property
    def sizes(self) -> IntArray:
        """Numbers of members, shape (groups,)."""
        return self.stop - self.start

    @property
    def memberships(self) -> int:
        """Sum of the sizes."""
        return int(self.sizes.sum())

    @property
    def overlapping(self) -> bool:
        """Whether the slices do not just follow each other, as those of a scalar do not."""
        return bool((self.start[1:] != self.stop[:-1]).any())

    def pieces(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """``(members, start, stop)`` of consecutive groups, of about `_PIECE` memberships each."""
        sizes, overlapping = self.sizes, self.overlapping
        total = np.cumsum(sizes)
        first = 0
        while first < len(self):
            done = total[first - 1] if first else 0
            last = max(int(np.searchsorted(total, done + _PIECE, side="right")), first + 1)
            stop = total[first:last] - done
            start = stop - sizes[first:last]
            if overlapping:
                shift = np.repeat(self.start[first:last] - start, stop - start)
                members = self.members[np.arange(stop[-1]) + shift]
            else:
                members = self.members[self.start[first] : self.stop[last - 1]]
            yield members, start, stop
            first = last

    def listed(self) -> tuple[IntArray, IntArray]:
        """All memberships: ``(members, row ends)`` with row ends led by a 0, as in CSR."""
        check_listable(self.memberships)
        ends = np.concatenate([[0], np.cumsum(self.sizes)])
        if not self.overlapping:
            return self.members, ends
        return np.concatenate([members for members, _, _ in self.pieces()]), ends


def _listed(number: int, group: Iterable[int]) -> IntArray:
    name = f"lists[{number}]"
    if isinstance(group, str) or not isinstance(group, Iterable):
        raise TypeError(f"{name} must be users' numbers, got {validate.shown(group)}")
    array = any_array(**{name: group if isinstance(group, np.ndarray) else list(group)})
    if not array.size:
        raise ValueError(f"{name} must have at least one member, got none")
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"{name} must be users' numbers, got an array of {array.dtype}")
    return array.astype(np.int64)


def _check_members(n: int, members: IntArray, holder: IntArray) -> None:
    outside = (members < 0) | (members >= n)
    if outside.any():
        worst = int(np.argmax(outside))
        raise ValueError(
            f"lists[{holder[worst]}] must have members in 0..{n - 1}, got {members[worst]}"
        )
    key = np.sort(holder * n + members)
    twice = key[1:] == key[:-1]
    if twice.any():
        number, user = divmod(int(key[1:][twice][0]), n)
        raise ValueError(f"lists[{number}] must name each member once, got {user} twice")


def _within(places: Array, r: float) -> tuple[IntArray, IntArray]:
    """Slices of ascending places with ``abs(difference) <= r``, a rounded difference."""
    # a rounded difference is monotone in either place, so a slice it is; and it is the same seen
    # from both ends, which ``place + r`` is not
    with np.errstate(over="ignore"):  # a radius beyond all places
        high = np.searchsorted(places, places + r, side="right")
        last = places.size - 1
        while (grow := (high <= last) & (places[np.minimum(high, last)] - places <= r)).any():
            high += grow
        while (shrink := places[high - 1] - places > r).any():
            high -= shrink
    # by symmetry, a slice begins with the first place whose slice reaches this one
    low = np.searchsorted(high, np.arange(places.size), side="right")
    return low, high


def _within_radius(places: Array, r: float) -> tuple[IntArray, IntArray, IntArray]:
    """Users, group after group; the end of each group; and each user's, one for one place."""
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


def _distinct(places: Array) -> tuple[Array, IntArray]:
    """The distinct rows, in the order of first appearance, and which of them each row is."""
    by_row = np.lexsort(places.T[::-1])
    ordered = places[by_row]
    new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    label = np.empty(len(places), dtype=np.int64)
    label[by_row] = np.cumsum(new) - 1
    first = by_row[new]  # lexsort is stable: the first of its kind
    appearance = np.argsort(first, kind="stable")
    return places[first[appearance]], inverse(appearance)[label]


def _rows(count: int, pairs: IntArray) -> tuple[IntArray, IntArray]:
    """Lists of neighbours in ascending order, each with its owner, from pairs i < j."""
    from scipy import sparse

    one_way = sparse.coo_array((np.ones(len(pairs), dtype=bool), pairs.T), (count, count)).tocsr()
    listed = sparse.csr_array(one_way + one_way.T + sparse.eye_array(count, dtype=bool))
    listed.sort_indices()
    return listed.indices.astype(np.int64), listed.indptr.astype(np.int64)


def check_listable(memberships: int) -> None:
    """Refuse groups whose list of memberships would not fit in memory."""
    if memberships > MOST_LISTED:
        raise ValueError(
            f"groups must have at most {MOST_LISTED} memberships to be listed, got {memberships}"
            " (smaller groups, or those of a scalar with method 'sort', need no list)"
        )


def _check_radius(memberships: int, r: float) -> None:
    if memberships > MOST_LISTED:
        raise ValueError(
            f"r must give at most {MOST_LISTED} memberships, got {memberships} or more at r={r!r}"
        )
