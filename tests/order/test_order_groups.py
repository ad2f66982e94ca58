"""Groups and reference orders.

Memberships are compared with the definitions, pair by pair. A breadth first search is compared
with one that has a queue and, if need be, all edges between users who share a group. The example
of the paper (A.10) comes with the reference file.
"""

import json
from collections import deque
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from shuffle_accountant.order import Groups, group_width, reference_order, sensitivity
from shuffle_accountant.order import groups as groups_module

REFERENCES = json.loads((Path(__file__).parents[1] / "refs" / "dsigma.json").read_text())
(A10,) = (case for case in REFERENCES if case["name"] == "bfs_order_A10")
PAPER = {int(user) - 1: [k - 1 for k in near] for user, near in A10["inputs"]["adjacency"].items()}
METHODS = ["bfs", "rcm", "rcm2", "sort"]


def own_lists(groups):
    return [sorted(groups.of(user).tolist()) for user in range(groups.n)]


def queue_order(n, near, roots):
    """Breadth first search with a queue, from each root that is not yet visited."""
    seen, order = set(), []
    for root in roots:
        if root in seen:
            continue
        queue = deque([root])
        seen.add(root)
        while queue:
            user = queue.popleft()
            order.append(user)
            for other in near[user]:
                if other not in seen:
                    seen.add(other)
                    queue.append(other)
    assert len(order) == n
    return order


def by_size(sizes):
    return sorted(range(len(sizes)), key=lambda user: (-sizes[user], user))


# -- lists


def test_lists_keep_their_order_and_belong_to_the_users_they_hold():
    groups = Groups.from_lists([[0, 1], [2, 1], [2, 0]])
    assert (groups.n, len(groups), groups.memberships) == (3, 3, 6)
    assert groups.of(1).tolist() == [2, 1]
    assert groups.sizes.tolist() == [2, 2, 2]


def test_other_lists_belong_to_nobody():
    groups = Groups.from_lists([{3, 0}, (1, 2), np.array([5])], users=7)
    assert groups.n == 7
    assert groups[2].tolist() == [5]
    with pytest.raises(ValueError, match="belong to nobody"):
        groups.of(0)
    # as many groups as users, but not with their users in them
    with pytest.raises(ValueError, match="belong to nobody"):
        Groups.from_lists([[1], [0]]).of(0)


@pytest.mark.parametrize(
    ("lists", "n", "error", "message"),
    [
        ([[0, 1], []], None, ValueError, r"lists\[1\] must have at least one member"),
        ([], None, ValueError, "lists must hold at least one group"),
        ([[0, 5]], 3, ValueError, r"lists\[0\] must have members in 0..2, got 5"),
        ([[0], [-1]], None, ValueError, r"lists\[1\] must have members in 0..0, got -1"),
        ([[0, 1, 0]], None, ValueError, r"lists\[0\] must name each member once, got 0 twice"),
        ([[0, 0.5]], None, TypeError, r"lists\[0\] must be users' numbers"),
        ([["a"]], None, TypeError, r"lists\[0\] must be users' numbers"),
        ([[True]], None, TypeError, r"lists\[0\] must be users' numbers, got an array of bool"),
        ([3], None, TypeError, r"lists\[0\] must be users' numbers, got 3"),
        ([[[0, 1], [2]]], None, ValueError, r"lists\[0\] must be an array, got ragged lists"),
        (3, None, TypeError, "lists must be an iterable, got 3"),
        ([[0]], 0, ValueError, "users must be an integer >= 1 and <= 1000000000, got 0"),
        ([[0]], 1.5, TypeError, "users must be an integer >= 1"),
    ],
)
def test_bad_lists(lists, n, error, message):
    with pytest.raises(error, match=message) as caught:
        Groups.from_lists(lists, users=n)
    assert "\n" not in str(caught.value)


# -- scalars and points


@settings(max_examples=100)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=30),
    st.integers(0, 13),
    st.sampled_from([1, 0.1, 1 / 3]),
)
def test_a_scalars_groups_are_those_of_the_definition(t, r, unit):
    # multiples of 0.1 differ by multiples of 0.1 up to rounding, so the rounding is put to the test
    values, radius = np.array(t) * unit, r * unit
    groups = Groups.from_scalar(values, radius)
    expected = [np.flatnonzero(np.abs(values - v) <= radius).tolist() for v in values]
    assert own_lists(groups) == expected
    assert groups.members.size == len(t)
    assert len(groups) == len({tuple(group) for group in expected})


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30),
    st.integers(0, 7),
)
def test_a_radius_groups_are_those_of_the_definition(points, r):
    places = np.array(points)
    groups = Groups.from_radius(places, r)
    # integers, so that distances on the edge are decided without rounding
    square = ((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2)
    assert own_lists(groups) == [np.flatnonzero(row <= r * r).tolist() for row in square]
    assert len(groups) == len(set(points))


@pytest.mark.parametrize("power", [-700, -60, 60, 700])
def test_the_unit_of_the_points_does_not_matter(power):
    places = np.random.default_rng(4).normal(size=(60, 2))
    scaled = Groups.from_radius(np.ldexp(places, power), float(np.ldexp(0.4, power)))
    assert own_lists(scaled) == own_lists(Groups.from_radius(places, 0.4))


@pytest.mark.parametrize("make", [Groups.from_scalar, Groups.from_radius])
def test_any_radius_is_one(make):
    assert own_lists(make([1e308, -1e308, 0.0], 1.7e308)) == [[0, 2], [1, 2], [0, 1, 2]]
    assert own_lists(make([0.0, 1e-300], 1.7e308)) == [[0, 1], [0, 1]]
    assert own_lists(make([5.0], 0.0)) == [[0]]


def test_points_on_a_line_are_a_scalar():
    t = np.random.default_rng(3).normal(size=200)
    assert own_lists(Groups.from_radius(t, 0.2)) == own_lists(Groups.from_scalar(t, 0.2))


def test_a_scalars_groups_take_no_more_memory_than_its_values():
    n = 200_000
    groups = Groups.from_scalar(np.arange(n), n // 4)
    assert groups.memberships > n * n // 4
    assert groups.members.size + groups.start.size + groups.stop.size + groups.own.size <= 4 * n
    order = reference_order(groups, "sort")
    assert group_width(order, groups) == n // 2
    # the closed form of a group without gaps
    assert sensitivity(order, groups) == (n // 2 + 1) * (n // 2) // 2


def test_too_many_memberships_are_refused_before_they_are_listed():
    points = np.random.default_rng(0).random((40_000, 2))
    with pytest.raises(ValueError, match=r"r must give at most 268435456 memberships"):
        Groups.from_radius(points, 2.0)
    groups = Groups.from_scalar(points[:, 0], 2.0)
    assert len(groups) == 1
    assert sorted(reference_order(groups, "bfs").tolist()) == list(range(40_000))
    groups = Groups.from_scalar(points[:, 0], 0.4)
    with pytest.raises(ValueError, match="at most 268435456 memberships to be listed"):
        reference_order(groups, "bfs")


def test_users_at_one_place_share_a_group():
    groups = Groups.from_radius(np.zeros((50_000, 3)), 0.0)
    assert (len(groups), groups.memberships) == (1, 50_000)


@pytest.mark.parametrize("make", [Groups.from_scalar, Groups.from_radius])
@pytest.mark.parametrize(
    ("values", "r", "error", "message"),
    [
        ([0.0, 1.0], -1.0, ValueError, "r must be a finite number >= 0, got -1"),
        ([0.0, 1.0], float("nan"), ValueError, "r must be a finite number >= 0, got nan"),
        ([0.0, float("inf")], 1.0, ValueError, "must be finite numbers, got inf"),
        ([], 1.0, ValueError, "must be a non-empty array"),
        (["a"], 1.0, TypeError, "must be finite numbers"),
        ([[[1.0]]], 1.0, ValueError, "must be a non-empty array"),
        ([0.0], "1", TypeError, "r must be a finite number"),
    ],
)
def test_bad_points(make, values, r, error, message):
    with pytest.raises(error, match=message) as caught:
        make(values, r)
    assert "\n" not in str(caught.value)


# -- graphs


@settings(max_examples=100)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_a_graphs_groups_are_so_many_edges_away(n, hops, seed):
    rng = np.random.default_rng(seed)
    adjacency = rng.random((n, n)) < 0.2
    joined = adjacency | adjacency.T
    expected = []
    for user in range(n):
        reached = {user}
        for _ in range(hops):
            reached |= {int(j) for i in reached for j in np.flatnonzero(joined[i])}
        expected.append(sorted(reached))
    assert own_lists(Groups.from_graph(adjacency, hops=hops)) == expected
    assert own_lists(Groups.from_graph(sparse.csr_array(adjacency), hops=hops)) == expected
    graph = networkx.from_numpy_array(np.asarray(adjacency) != 0)
    assert own_lists(Groups.from_graph(graph, hops=hops)) == expected


@pytest.mark.parametrize(
    ("adjacency", "hops", "error", "message"),
    [
        (np.zeros((2, 3)), 1, ValueError, r"adjacency must be square and not empty"),
        (np.zeros((0, 0)), 1, ValueError, r"adjacency must be square and not empty"),
        ([["a"]], 1, TypeError, "adjacency must be numbers"),
        ([[0, 1], [1]], 1, ValueError, "adjacency must be an array, got ragged lists"),
        (np.eye(2), 0, ValueError, "hops must be an integer >= 1, got 0"),
    ],
)
def test_bad_graphs(adjacency, hops, error, message):
    with pytest.raises(error, match=message):
        Groups.from_graph(adjacency, hops=hops)


# -- pieces


@pytest.mark.parametrize("size", [1, 3, 10, 10_000])
def test_nothing_depends_on_the_size_of_the_pieces(monkeypatch, size):
    rng = np.random.default_rng(5)
    t = rng.random(60)
    both = [Groups.from_scalar(t, 0.2), Groups.from_radius(t, 0.2)]
    order = rng.permutation(60)
    expected = sensitivity(order, both[0]), group_width(order, both[0])
    monkeypatch.setattr(groups_module, "_PIECE", size)
    for groups in both:
        pieces = list(groups.pieces())
        assert sum(stop.size for _, _, stop in pieces) == len(groups)
        found = [
            members[a:b].tolist()
            for members, start, stop in pieces
            for a, b in zip(start, stop, strict=True)
        ]
        assert [sorted(group) for group in found] == [
            sorted(groups[g].tolist()) for g in range(len(groups))
        ]
        assert (sensitivity(order, groups), group_width(order, groups)) == expected


# -- orders


def test_the_papers_example_is_visited_in_the_papers_order():
    lists = [[user, *PAPER[user]] for user in range(8)]
    groups = Groups.from_lists(lists)
    assert (reference_order(groups) + 1).tolist() == A10["value"]
    assert reference_order(groups)[0] == A10["inputs"]["root"] - 1


@settings(max_examples=100)
@given(st.integers(1, 12), st.floats(0.0, 0.5), st.integers(0, 2**32 - 1))
def test_own_groups_are_searched_along_their_edges(n, density, seed):
    rng = np.random.default_rng(seed)
    table = rng.random((n, n)) < density
    np.fill_diagonal(table, True)
    lists = [rng.permutation(np.flatnonzero(row)).tolist() for row in table]
    near = [lists[user] + [j for j in range(n) if user in lists[j]] for user in range(n)]
    roots = by_size([len(group) for group in lists])
    assert reference_order(Groups.from_lists(lists)).tolist() == queue_order(n, near, roots)


@settings(max_examples=100)
@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_shared_groups_join_their_members(n, count, seed):
    rng = np.random.default_rng(seed)
    lists = [rng.permutation(n)[: rng.integers(1, n + 1)].tolist() for _ in range(count)]
    lists += [lists[0]] * (n + 1)  # never one for each user
    near = [[j for group in lists if user in group for j in group] for user in range(n)]
    sizes = [max((len(group) for group in lists if user in group), default=0) for user in range(n)]
    found = reference_order(Groups.from_lists(lists, users=n))
    assert found.tolist() == queue_order(n, near, by_size(sizes))


@settings(max_examples=100)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=15), st.integers(0, 3))
def test_users_at_one_place_are_searched_as_if_their_groups_were_apart(t, r):
    apart = Groups.from_lists(
        [[j for j, other in enumerate(t) if abs(other - v) <= r] for v in t], n=len(t)
    )
    # the scalar's lists are in the order of the values, so only those of points are comparable
    order = reference_order(Groups.from_radius(np.array(t), r))
    sizes = [len(apart.of(user)) for user in range(len(t))]
    assert sorted(order.tolist()) == list(range(len(t)))
    assert sizes[order[0]] == max(sizes)
    visited = {user: k for k, user in enumerate(order.tolist())}
    # a search visits users by the rank of the first neighbour that was visited
    first = [min(visited[j] for j in apart.of(user).tolist()) for user in order.tolist()]
    assert first == sorted(first)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["scalar", "points", "graph", "owned", "shared"])
def test_every_method_gives_an_order_of_all_users(method, kind):
    rng = np.random.default_rng(11)
    t = rng.random(80)
    adjacency = rng.random((80, 80)) < 0.01
    groups = {
        "scalar": lambda: Groups.from_scalar(t, 0.02),
        "points": lambda: Groups.from_radius(np.round(rng.random((80, 2)), 1), 0.1),
        "graph": lambda: Groups.from_graph(adjacency),
        "owned": lambda: Groups.from_lists(
            [[i, *np.setdiff1d(np.flatnonzero(row), [i])] for i, row in enumerate(adjacency)]
        ),
        "shared": lambda: Groups.from_lists([[0, 5, 7], [7, 8], [1, 2]], users=80),
    }[kind]()
    if method == "sort" and kind not in ("scalar", "points"):
        with pytest.raises(ValueError, match="method must be one of 'bfs', 'rcm', 'rcm2'"):
            reference_order(groups, method)
        return
    order = reference_order(groups, method)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(80))
    assert group_width(order, groups) >= groups.sizes.max() - 1


def test_sorting_a_scalar_is_the_best_there_is():
    groups = Groups.from_scalar(np.random.default_rng(2).normal(size=500), 0.3)
    order = reference_order(groups, "sort")
    assert group_width(order, groups) == groups.sizes.max() - 1
    assert sensitivity(order, groups) == sensitivity(order, groups, kind="bound")
    for method in ("bfs", "rcm", "rcm2"):
        assert group_width(reference_order(groups, method), groups) >= groups.sizes.max() - 1


def test_joining_all_who_share_a_group_finds_the_line_again():
    groups = Groups.from_scalar(np.random.default_rng(2).random(400), 0.02)
    order = reference_order(groups, "rcm2")
    assert group_width(order, groups) == groups.sizes.max() - 1


@pytest.mark.parametrize("method", ["bfs", "rcm", "rcm2"])
def test_components_stand_in_the_coarser_order(method):
    t = np.array([0, 30, 10, 31, 1, 11, 20, 0.5, 30.5])
    groups = Groups.from_scalar(t, 1.0)
    for coarse in (np.argsort(t), Groups.from_scalar(t, 10.0)):
        blocks = (t[reference_order(groups, method, coarse=coarse)] // 10).astype(int)
        ascending = sorted(blocks.tolist())
        assert blocks.tolist() in (ascending, ascending[::-1])
    blocks = (t[reference_order(groups, method)] // 10).astype(int)
    assert blocks[0] == 0  # the largest group comes first


def test_the_root_comes_first():
    t = np.array([0.0, 1, 2, 3, 10, 11])
    groups = Groups.from_radius(t, 1.0)
    assert reference_order(groups, root=4).tolist() == [4, 5, 1, 0, 2, 3]
    assert reference_order(groups, root=3).tolist() == [3, 2, 1, 0, 4, 5]
    # with a coarser order, the root is first in its own component only
    assert reference_order(groups, root=5, coarse=np.arange(6)).tolist() == [1, 0, 2, 3, 5, 4]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "dfs"}, ValueError, "method must be one of 'bfs', 'rcm', 'rcm2', 'sort'"),
        ({"method": 3}, TypeError, "method must be one of"),
        ({"root": 3}, ValueError, "root must be an integer >= 0 and <= 2, got 3"),
        ({"root": 1, "method": "rcm"}, ValueError, "root must be None for method 'rcm'"),
        ({"coarse": [0, 1]}, ValueError, r"coarse must have shape \(3,\)"),
        ({"coarse": [0, 1, 1]}, ValueError, "coarse must hold each of 0..2 once, got none"),
        ({"coarse": [0, 1, 3]}, ValueError, "coarse must hold each of 0..2 once, got 3"),
        ({"coarse": [0.0, 1, 2]}, TypeError, "coarse must be integers"),
        ({"coarse": Groups.from_lists([[0]])}, ValueError, "coarse must be groups of 3 users"),
        ({"coarse": [0, 1, 2], "method": "sort"}, ValueError, "coarse must be None for method"),
    ],
)
def test_bad_orders(arguments, error, message):
    with pytest.raises(error, match=message):
        reference_order(Groups.from_scalar([1, 2, 3], 1), **arguments)


def test_groups_have_to_be_groups():
    with pytest.raises(TypeError, match="groups must be a Groups"):
        reference_order([[0, 1]])
