"""Sensitivities against all pairs of neighbours, and the examples of the paper."""

import json
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import orders

from shuffle_accountant.order import Groups, group_width, sensitivity

REFERENCES = json.loads((Path(__file__).parents[1] / "refs" / "dsigma.json").read_text())
DISTANCES = list(orders.DISTANCES)


def subsets(n):
    return chain.from_iterable(combinations(range(n), r) for r in range(1, n + 1))


def change(n, places, distance):
    """Largest change around the identity when values in `places` are permuted, by listing."""
    measure = orders.DISTANCES[distance]
    seen = {}
    for s in orders.permutations(range(n)):
        hidden = tuple(n if value in places else value for value in s)
        low, high = seen.get(hidden, (n**3, 0))
        seen[hidden] = min(low, measure(s)), max(high, measure(s))
    return max(high - low for low, high in seen.values())


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_every_set_of_ranks(n, distance):
    for places in subsets(n):
        found = sensitivity(range(n), Groups.from_lists([places], users=n), distance=distance)
        truth = change(n, places, distance)
        if distance == "ulam":  # r for a set with gaps, where r-1 and r both occur
            gaps = places[-1] - places[0] >= len(places)
            assert truth in ((found - 1, found) if gaps else (found,))
        else:
            assert found == truth, places


@pytest.mark.parametrize("distance", ["kendall", "footrule", "spearman"])
def test_six_users(distance):
    for places in [(0, 5), (0, 2, 5), (0, 1, 4, 5), (1, 3, 4), (0, 1, 2, 3, 4, 5), (0, 1, 3, 5)]:
        found = sensitivity(range(6), Groups.from_lists([places], users=6), distance=distance)
        assert found == change(6, places, distance)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.data())
def test_any_order_and_overlapping_groups(n, data):
    sigma0 = data.draw(st.permutations(range(n)))
    users = st.lists(st.sampled_from(range(n)), min_size=1, max_size=n, unique=True)
    groups = data.draw(st.lists(users, min_size=1, max_size=3))
    distance = data.draw(st.sampled_from(["kendall", "hamming", "cayley", "footrule", "spearman"]))
    found = sensitivity(sigma0, Groups.from_lists(groups, users=n), distance=distance)
    assert found == orders.sensitivity(sigma0, groups, distance)


@settings(max_examples=100)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_the_formulas_as_they_are_printed(n, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    lists = [rng.permutation(n)[: rng.integers(1, n + 1)] for _ in range(4)]
    groups = Groups.from_lists(lists, users=n)
    rank = {int(user): k for k, user in enumerate(order)}
    kendall, footrule, spearman = [], [], []
    for group in lists:
        p, r = sorted(rank[int(user)] for user in group), len(group)
        gaps = sum(min(k, r - k) * (p[k] - p[k - 1] - 1) for k in range(1, r))
        kendall.append(r * (r - 1) // 2 + 2 * gaps)
        spans = [p[r - 1 - k] - p[k] for k in range(r // 2)]
        footrule.append(2 * sum(spans))
        spearman.append(2 * sum((n - 1 - 2 * k) * span for k, span in enumerate(spans)))
    assert sensitivity(order, groups) == max(kendall)
    assert sensitivity(order, groups, distance="footrule") == max(footrule)
    assert sensitivity(order, groups, distance="spearman") == max(spearman)


@settings(max_examples=100)
@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=25),
    st.floats(0, 10),
    st.integers(0, 2**32 - 1),
)
def test_a_scalars_intervals_are_worth_what_their_lists_are(t, r, seed):
    intervals = Groups.from_scalar(t, r)
    lists = Groups.from_lists([intervals.of(user) for user in range(len(t))], users=len(t))
    rng = np.random.default_rng(seed)
    sort = np.argsort(t, kind="stable")
    # sorted, reversed, sorted but for two users, and anything
    almost = sort.copy()
    almost[[0, -1]] = almost[[-1, 0]]
    for order in (sort, sort[::-1], almost, rng.permutation(len(t))):
        assert group_width(order, intervals) == group_width(order, lists)
        for distance in DISTANCES:
            for kind in ("exact", "bound"):
                assert sensitivity(order, intervals, distance=distance, kind=kind) == sensitivity(
                    order, lists, distance=distance, kind=kind
                )


@settings(max_examples=100)
@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.sampled_from(DISTANCES))
def test_the_bound_is_one_and_no_group_adds_privacy(n, seed, distance):
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    lists = [rng.permutation(n)[: rng.integers(1, n + 1)].tolist() for _ in range(3)]
    groups = Groups.from_lists(lists, users=n)
    exact = sensitivity(order, groups, distance=distance)
    assert exact <= sensitivity(order, groups, distance=distance, kind="bound")
    part = Groups.from_lists([lists[0][:2], *lists[1:]], users=n)
    assert sensitivity(order, part, distance=distance) <= exact
    if distance == "kendall":
        w = group_width(order, groups)
        assert sensitivity(order, groups, kind="bound") == w * (w + 1) // 2


@pytest.mark.parametrize("n", [1, 2, 5, 40])
@pytest.mark.parametrize("distance", DISTANCES)
def test_everyone_in_one_group(n, distance):
    expected = {  # the diameters of the distances
        "kendall": n * (n - 1) // 2,
        "hamming": n if n > 1 else 0,
        "cayley": n - 1,
        "footrule": n * n // 2,
        "spearman": n * (n * n - 1) // 3,
        "ulam": n - 1,
    }[distance]
    groups = Groups.from_lists([range(n)])
    assert sensitivity(np.random.default_rng(n).permutation(n), groups, distance=distance) == (
        expected
    )


def test_the_largest_change_of_spearmans_distance_fits():
    n = 3_000_000
    groups = Groups.from_scalar(np.zeros(n), 0.0)
    order = np.arange(n)
    assert sensitivity(order, groups, distance="spearman") == n * (n * n - 1) // 3
    larger = Groups.from_lists([[0, 1]], users=n + 1)
    with pytest.raises(ValueError, match="distance must be another for more than 3000000 users"):
        sensitivity(np.arange(n + 1), larger, distance="spearman")


def case_groups(case):
    if "positions_0based" in case["inputs"]:
        n = case["inputs"]["n"]
        return range(n), Groups.from_lists([case["inputs"]["positions_0based"]], users=n)
    sigma0 = np.array(case["inputs"]["sigma0"]) - 1
    members = [user - 1 for user in case["inputs"]["G"]]
    return sigma0, Groups.from_lists([members], users=sigma0.size)


@pytest.mark.parametrize(
    ("name", "distance", "kind"),
    [
        ("kendall_sensitivity_bound", "kendall", "bound"),
        ("kendall_sensitivity_exact", "kendall", "exact"),
        ("A10_exact_sensitivity_G4", "kendall", "exact"),
        ("sensitivity_exact_kendall", "kendall", "exact"),
        ("sensitivity_exact_cayley", "cayley", "exact"),
        ("sensitivity_exact_spearman_sq", "spearman", "exact"),
    ],
)
def test_references(name, distance, kind):
    (case,) = (case for case in REFERENCES if case["name"] == name)
    order, groups = case_groups(case)
    assert sensitivity(order, groups, distance=distance, kind=kind) == case["value"]


@pytest.mark.parametrize("name", ["width", "A10_width_G4"])
def test_reference_widths(name):
    (case,) = (case for case in REFERENCES if case["name"] == name)
    assert group_width(*case_groups(case)) == case["value"]


def test_the_papers_example_needs_less_than_half_of_its_noise():
    near = {1: [2], 2: [5, 1], 3: [5, 8, 6], 4: [5, 7], 5: [2, 3, 8, 4], 6: [3], 7: [4], 8: [3, 5]}
    groups = Groups.from_lists([[i - 1, *(j - 1 for j in near[i])] for i in range(1, 9)])
    order = np.array([5, 2, 3, 8, 4, 1, 6, 7]) - 1
    assert sensitivity(order, groups, kind="bound") == 28  # as printed
    assert sensitivity(order, groups) == 13


@pytest.mark.parametrize(
    ("order", "arguments", "error", "message"),
    [
        ([0, 1], {}, ValueError, r"order must have shape \(3,\), got \(2,\)"),
        ([0, 1, 1], {}, ValueError, "order must hold each of 0..2 once, got none that is 2"),
        ([0.0, 1, 2], {}, TypeError, "order must be integers 0..2"),
        ([0, 1, 2], {"distance": "tau"}, ValueError, "distance must be one of 'kendall'"),
        ([0, 1, 2], {"kind": "tight"}, ValueError, "kind must be one of 'exact', 'bound'"),
    ],
)
def test_bad_input(order, arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        sensitivity(order, Groups.from_scalar([1, 2, 3], 1), **arguments)
    assert "\n" not in str(caught.value)
