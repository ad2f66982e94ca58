"""The shuffle's guarantee from the literal law of its output, and what it does with data."""

import json
import math
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import orders
from scipy import sparse
from scipy.stats import chi2

from shuffle_accountant import order as package
from shuffle_accountant.order import (
    BlockShuffler,
    DSigmaShuffler,
    Groups,
    OrderWarning,
    compose,
    reference_order,
    sensitivity,
    verify_alpha,
)
from shuffle_accountant.order.shuffler import partition

REFERENCES = json.loads((Path(__file__).parents[1] / "refs" / "dsigma.json").read_text())
SHUFFLED = ["kendall", "hamming", "cayley"]
EXACT = [name for name in orders.DISTANCES if name != "ulam"]

# Most cases here are tiny, and so close to uniform or disjoint; warnings have tests of their own.
pytestmark = pytest.mark.filterwarnings("ignore::shuffle_accountant.order.shuffler.OrderWarning")


def reference(name):
    (case,) = (case for case in REFERENCES if case["name"] == name)
    return case


def instances(most=5):
    """A random order and overlapping groups of up to five users."""
    return st.integers(2, most).flatmap(
        lambda n: st.tuples(
            st.permutations(range(n)),
            st.lists(
                st.lists(st.sampled_from(range(n)), min_size=2, max_size=n, unique=True),
                min_size=1,
                max_size=3,
            ),
        )
    )


# -- the guarantee


@settings(deadline=None, max_examples=12)
@given(instances(most=4), st.sampled_from(SHUFFLED), st.sampled_from([0.3, 1.0, 2.5]))
def test_alpha_holds_and_is_attained_by_the_literal_output_law(instance, distance, alpha):
    sigma0, lists = instance
    groups = Groups.from_lists(lists, users=len(sigma0))
    shuffler = DSigmaShuffler(groups, alpha, distance=distance, order=sigma0)
    found = orders.alpha(sigma0, lists, shuffler.theta, distance, range(len(sigma0)))
    # theta * sensitivity is alpha but for a rounding
    assert float(found) == pytest.approx(alpha, rel=1e-14)


@settings(deadline=None, max_examples=8)
@given(instances(most=4), st.sampled_from(SHUFFLED), st.data())
def test_alpha_holds_for_repeated_values(instance, distance, data):
    sigma0, lists = instance
    y = data.draw(st.lists(st.sampled_from("ab"), min_size=len(sigma0), max_size=len(sigma0)))
    groups = Groups.from_lists(lists, users=len(sigma0))
    shuffler = DSigmaShuffler(groups, 1.0, distance=distance, order=sigma0)
    assert orders.alpha(sigma0, lists, shuffler.theta, distance, y) <= 1.0 + 1e-14


@settings(deadline=None, max_examples=30)
@given(instances(), st.sampled_from(EXACT))
def test_verified_alpha_is_theta_times_the_sensitivity(instance, distance):
    sigma0, lists = instance
    groups = Groups.from_lists(lists, users=len(sigma0))
    expected = 0.7 * sensitivity(sigma0, groups, distance=distance)
    assert verify_alpha(groups, sigma0, 0.7, distance=distance) == pytest.approx(expected)


@settings(deadline=None, max_examples=6)
@given(instances(most=4), st.sampled_from(list(orders.DISTANCES)))
def test_verified_alpha_is_the_literal_one(instance, distance):
    sigma0, lists = instance
    groups = Groups.from_lists(lists, users=len(sigma0))
    expected = orders.alpha(sigma0, lists, 0.7, distance, range(len(sigma0)))
    assert verify_alpha(groups, sigma0, 0.7, distance=distance) == pytest.approx(float(expected))


def test_the_composition_is_the_one_for_which_the_sensitivity_holds():
    case = reference("convention_counterexample")
    sigma0, group = case["inputs"]["sigma0_0based"], case["inputs"]["G_0based"]
    groups = Groups.from_lists([group], users=5)
    assert sensitivity(sigma0, groups) == case["inputs"]["claimed_delta"]
    found = verify_alpha(groups, sigma0, 1.0)
    assert found == pytest.approx(case["value"]["item/A10"], abs=case["abs_tol"])
    # other readings of "sigma0^-1 sigma_hat" behave like other orders, for which the claim is wrong
    identity, inverse = range(5), np.argsort(sigma0)
    for order, reading in ((identity, "item/func"), (identity, "pos/A10"), (inverse, "pos/func")):
        found = verify_alpha(groups, order, 1.0)
        assert found == pytest.approx(case["value"][reading], abs=case["abs_tol"])


@pytest.mark.parametrize("distance", SHUFFLED)
def test_shuffles_follow_the_literal_law(distance):
    sigma0, draws = [2, 0, 3, 1], 4_000
    groups = Groups.from_lists([[0, 2], [1, 2, 3]], users=4)
    shuffler = DSigmaShuffler(groups, 2.0, distance=distance, order=sigma0)
    rng = np.random.default_rng(6)
    y = ["a", "b", "c", "d"]
    counts = Counter(tuple(shuffler.shuffle(y, rng)) for _ in range(draws))
    law = orders.output_law(sigma0, shuffler.theta, distance, y)
    statistic = sum((counts[z] - draws * mass) ** 2 / (draws * mass) for z, mass in law.items())
    assert min(law.values()) * draws > 5
    # three tests with a fixed seed
    assert chi2.sf(float(statistic), len(law) - 1) > 1e-3


# -- the worked example (A.10)


class Fixed:
    """A law whose only draw is given."""

    def __init__(self, rho):
        self.rho = rho

    def sample(self, rng):
        return self.rho


def test_the_papers_release():
    case = reference("alg1_release_A10")
    sigma0 = np.array(case["inputs"]["sigma0"]) - 1
    sigma_hat = np.array(case["inputs"]["sigma_hat"]) - 1
    groups = Groups.from_lists([[0, 1], [3, 4, 6]], users=8)
    shuffler = DSigmaShuffler(groups, 1.0, order=sigma0)
    shuffler.law = Fixed(np.argsort(sigma0)[sigma_hat])  # sigma_hat[k] = sigma0[rho[k]]
    released = shuffler.shuffle(np.arange(1, 9), np.random.default_rng(0))
    assert released.tolist() == case["value"]


def test_applying_a_permutation():
    case = reference("apply_permutation")
    groups = Groups.from_lists([[0]], users=5)
    shuffler = DSigmaShuffler(groups, 0.0, order=range(5))
    shuffler.law = Fixed(np.array(case["inputs"]["sigma"]) - 1)
    assert shuffler.shuffle(case["inputs"]["x"], np.random.default_rng(0)) == case["value"]


def test_the_spent_alpha_of_the_papers_bound():
    case = reference("alpha_actual_from_theta")
    near = {1: [2], 2: [5, 1], 3: [5, 8, 6], 4: [5, 7], 5: [2, 3, 8, 4], 6: [3], 7: [4], 8: [3, 5]}
    groups = Groups.from_lists([[i - 1, *(j - 1 for j in near[i])] for i in range(1, 9)])
    shuffler = DSigmaShuffler(groups, 4.0, sensitivity="bound")
    assert (shuffler.sensitivity, shuffler.theta) == (28, 4.0 / 28)
    assert shuffler.theta == case["inputs"]["theta"]
    assert shuffler.alpha_for(groups) == pytest.approx(case["value"], abs=case["abs_tol"])
    assert verify_alpha(Groups.from_lists([[0, 1, 2]]), [0, 1, 2], shuffler.theta) == pytest.approx(
        3 * shuffler.theta
    )


# -- calibration


@given(st.floats(1e-6, 1e6), st.integers(2, 40), st.sampled_from(SHUFFLED))
@settings(max_examples=100)
def test_theta_never_exceeds_its_share(alpha, n, distance):
    groups = Groups.from_scalar(np.arange(n), 1.0)
    shuffler = DSigmaShuffler(groups, alpha, distance=distance)
    assert shuffler.theta * shuffler.sensitivity <= alpha
    assert shuffler.alpha_for(groups) == pytest.approx(alpha, rel=1e-15)
    assert shuffler.sigma0.tolist() == list(range(n))


def test_alpha_for_smaller_and_larger_groups():
    t = np.random.default_rng(1).random(300)
    shuffler = DSigmaShuffler(Groups.from_scalar(t, 0.02), 3.0)
    smaller, larger = Groups.from_scalar(t, 0.01), Groups.from_scalar(t, 0.04)
    assert 0.0 < shuffler.alpha_for(smaller) < 3.0 < shuffler.alpha_for(larger)
    assert shuffler.alpha_for(larger) == shuffler.theta * sensitivity(shuffler.sigma0, larger)
    with pytest.raises(ValueError, match="groups must be of 300 users, got 1"):
        shuffler.alpha_for(Groups.from_lists([[0]]))


def test_the_ends_of_alpha():
    groups = Groups.from_scalar(np.arange(50), 2.0)
    rng = np.random.default_rng(0)
    none = DSigmaShuffler(groups, math.inf)
    assert none.permutation(rng).tolist() == list(range(50))
    assert none.alpha_for(groups) == math.inf
    alone = Groups.from_scalar(np.arange(50), 0.0)
    assert none.alpha_for(alone) == 0.0
    uniform = DSigmaShuffler(groups, 0.0)
    assert (uniform.theta, uniform.alpha_for(groups)) == (0.0, 0.0)
    assert sorted(uniform.permutation(rng).tolist()) == list(range(50))
    # nothing is asked for, so nothing is shuffled, at any alpha but 0
    assert DSigmaShuffler(alone, 0.5).permutation(rng).tolist() == list(range(50))
    assert DSigmaShuffler(alone, 0.0).theta == 0.0


@pytest.mark.parametrize("method", ["bfs", "rcm", "rcm2", "sort"])
def test_orders_by_name_and_by_hand(method):
    groups = Groups.from_scalar(np.random.default_rng(3).random(40), 0.1)
    by_name = DSigmaShuffler(groups, 1.0, order=method)
    by_hand = DSigmaShuffler(groups, 1.0, order=reference_order(groups, method))
    assert (by_name.sigma0 == by_hand.sigma0).all()
    assert by_name.theta == by_hand.theta
    with pytest.raises(ValueError, match="read-only"):
        by_name.sigma0[0] = 1


def test_the_order_by_default():
    rng = np.random.default_rng(3)
    t, adjacency = rng.permutation(30), rng.random((30, 30)) < 0.1
    for line in (Groups.from_scalar(t, 0.0), Groups.from_scalar(t, 2), Groups.from_radius(t, 2)):
        assert (DSigmaShuffler(line, 1.0).sigma0 == np.argsort(t)).all()
    graph = Groups.from_graph(adjacency)
    assert (DSigmaShuffler(graph, 1.0).sigma0 == reference_order(graph, "bfs")).all()


@given(st.integers(1, 60), st.floats(0.0, 20.0), st.sampled_from(SHUFFLED), st.integers(0, 99))
@settings(max_examples=100)
def test_a_shuffle_is_a_permutation(n, alpha, distance, seed):
    rng = np.random.default_rng(seed)
    groups = Groups.from_radius(rng.integers(0, 10, (n, 2)), 2.0)
    s = DSigmaShuffler(groups, alpha, distance=distance).permutation(rng)
    assert s.dtype == np.int64
    assert sorted(s.tolist()) == list(range(n))


def test_values_stay_near_in_the_order():
    n = 20_000
    t = np.random.default_rng(4).random(n)
    shuffler = DSigmaShuffler(Groups.from_scalar(t, 2e-4), 5.0)
    released = shuffler.shuffle(t, np.random.default_rng(5))
    moved = np.abs(released - t) * n
    # about 1/theta ranks
    assert 0.1 / shuffler.theta < moved.mean() < 10 / shuffler.theta < n / 10


# -- data


def test_any_data_is_shuffled_alike_and_left_as_it_was():
    groups = Groups.from_scalar(np.arange(30), 1.0)
    shuffler = DSigmaShuffler(groups, 10.0)

    def shuffled(y):
        return shuffler.shuffle(y, np.random.default_rng(9))

    s = shuffler.permutation(np.random.default_rng(9))
    array = np.arange(30) * 10
    kept = array.copy()
    assert (shuffled(array) == array[s]).all()
    assert (array == kept).all()
    assert not np.shares_memory(shuffled(array), array)
    assert (shuffled(array.reshape(30, 1)) == array[s, None]).all()
    assert shuffled(array.tolist()) == array[s].tolist()
    assert shuffled(tuple(array.tolist())) == tuple(array[s].tolist())
    assert shuffled(array.astype(str)).tolist() == array[s].astype(str).tolist()
    table = sparse.csr_array(np.diag(array))
    assert (shuffled(table).toarray() == np.diag(array)[s]).all()


def test_data_frames_are_shuffled_by_position():
    pandas = pytest.importorskip("pandas", reason="data frames are pandas'")
    shuffler = DSigmaShuffler(Groups.from_scalar(np.arange(30), 1.0), 10.0)
    series = pandas.Series(np.arange(30) * 10, index=np.arange(30)[::-1])
    s = shuffler.permutation(np.random.default_rng(9))
    released = shuffler.shuffle(series, np.random.default_rng(9))
    assert released.tolist() == (s * 10).tolist()


# -- disjoint groups


def test_blocks_are_shuffled_uniformly_within():
    groups = Groups.from_lists([[0, 3, 4], [2, 1]], users=6)
    shuffler, rng, draws = BlockShuffler(groups), np.random.default_rng(2), 2400
    counts = Counter(tuple(shuffler.permutation(rng).tolist()) for _ in range(draws))
    assert len(counts) == 12  # 3! * 2!, and user 5 stays
    assert all(s[5] == 5 and sorted(s[k] for k in (0, 3, 4)) == [0, 3, 4] for s in counts)
    statistic = sum((count - draws / 12) ** 2 / (draws / 12) for count in counts.values())
    assert chi2.sf(statistic, 11) > 1e-3  # one test with a fixed seed
    assert shuffler.alpha == 0.0
    assert shuffler.shuffle(list("abcdef"), rng)[5] == "f"
    assert shuffler.alpha_for(groups) == 0.0
    assert shuffler.alpha_for(Groups.from_lists([[0, 4]], users=6)) == 0.0
    assert shuffler.alpha_for(Groups.from_lists([[0, 1]], users=6)) == math.inf
    with pytest.raises(ValueError, match="groups must be of 6 users, got 1"):
        shuffler.alpha_for(Groups.from_lists([[0]]))
    with pytest.raises(TypeError, match="rng must be an integer >= 0, got 'seed'"):
        shuffler.permutation("seed")


@settings(max_examples=100)
@given(st.integers(1, 6), st.data())
def test_disjoint_groups_are_told_from_overlapping_ones(n, data):
    users = st.lists(st.sampled_from(range(n)), min_size=1, max_size=n, unique=True)
    lists = data.draw(st.lists(users, min_size=1, max_size=4))
    sets = [frozenset(group) for group in lists]
    disjoint = all(a == b or not a & b for a in sets for b in sets)
    label = partition(Groups.from_lists(lists, users=n))
    assert (label is not None) == disjoint
    if disjoint:
        for a in range(n):
            for b in range(n):
                together = a == b or any(a in group and b in group for group in sets)
                assert (label[a] == label[b]) == together


@settings(max_examples=100)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(0, 3))
def test_a_scalars_partition(t, r):
    intervals = Groups.from_scalar(t, r)
    lists = Groups.from_lists([intervals.of(user) for user in range(len(t))])
    assert (partition(intervals) is None) == (partition(lists) is None)


def test_overlapping_groups_are_no_blocks():
    with pytest.raises(ValueError, match=r"groups must be disjoint \(or equal\)"):
        BlockShuffler(Groups.from_lists([[0, 1], [1, 2]]))


# -- warnings


def warned(*arguments, **named):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DSigmaShuffler(*arguments, **named)
    assert all(item.category is OrderWarning for item in caught)
    assert all(item.filename == __file__ for item in caught)
    return [str(item.message) for item in caught]


def test_it_warns_when_little_is_left_of_the_order():
    groups = Groups.from_scalar(np.arange(1000), 3.0)  # sensitivity 21
    assert warned(groups, 1.0) == []
    edge = 21 * 4 / 1000
    assert warned(groups, edge * 1.001) == []
    (message,) = warned(groups, edge * 0.999)
    assert "close to uniform" in message
    assert "\n" not in message
    (message,) = warned(groups, 1.0, distance="hamming")
    assert "close to uniform" in message
    assert warned(groups, 60.0, distance="hamming") == []


def test_it_warns_when_the_groups_are_disjoint():
    lists = [[3 * k, 3 * k + 1, 3 * k + 2] for k in range(200)]
    (message,) = warned(Groups.from_lists(lists), 1.0)
    assert "BlockShuffler" in message
    t = np.repeat(np.arange(200), 3)
    (message,) = warned(Groups.from_scalar(t, 0.5), 1.0)
    assert "BlockShuffler" in message


# -- composition and bad input


def test_alphas_add():
    assert compose([]) == 0.0
    assert compose([0.75, 0.75]) == 1.5
    assert compose([0.1] * 10) == 1.0
    assert compose([1.0, math.inf]) == math.inf
    for bad, error in ((-1.0, ValueError), (math.nan, ValueError), ("1", TypeError)):
        with pytest.raises(error, match="alpha must be a number >= 0"):
            compose([1.0, bad])


def test_two_releases_attain_the_sum():
    sigma0, group, theta = (1, 0, 2), [0, 2], 0.4
    one = orders.alpha(sigma0, [group], theta, "kendall", range(3))
    law = orders.output_law(sigma0, theta, "kendall", (0, 1, 2))
    other = orders.output_law(sigma0, theta, "kendall", (2, 1, 0))
    both = max(orders.MP.log(law[a] * law[b] / (other[a] * other[b])) for a in law for b in law)
    assert float(both) == pytest.approx(compose([float(one), float(one)]), rel=1e-14)


@pytest.mark.parametrize(
    ("arguments", "named", "error", "message"),
    [
        ((-1.0,), {}, ValueError, r"alpha must be a number >= 0 \(inf allowed\), got -1.0"),
        ((math.nan,), {}, ValueError, "alpha must be a number >= 0"),
        (("1",), {}, TypeError, "alpha must be a number >= 0"),
        ((1.0,), {"distance": "footrule"}, ValueError, "distance must be one of 'kendall', 'ham"),
        ((1.0,), {"sensitivity": "w"}, ValueError, "sensitivity must be one of 'exact', 'bound'"),
        ((1.0,), {"order": "dfs"}, ValueError, "order must be one of 'bfs'"),
        ((1.0,), {"order": [0, 1]}, ValueError, r"order must have shape \(4,\)"),
    ],
)
def test_bad_shufflers(arguments, named, error, message):
    with pytest.raises(error, match=message) as caught:
        DSigmaShuffler(Groups.from_lists([[0, 1], [1, 2, 3]]), *arguments, **named)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (np.zeros(3), ValueError, "y must have 4 entries along its first axis, got 3"),
        ([1, 2, 3, 4, 5], ValueError, "y must have 4 entries along its first axis, got 5"),
        (np.zeros((3, 4)), ValueError, "y must have 4 entries along its first axis, got 3"),
        (np.float64(3), TypeError, "y must be a list or an array"),
        ("abcd", TypeError, "y must be a list or an array, got a str"),
        ({1, 2, 3, 4}, TypeError, "y must be a list or an array, got a set"),
        (4, TypeError, "y must be a list or an array, got a int"),
    ],
)
def test_bad_data(y, error, message):
    shuffler = DSigmaShuffler(Groups.from_lists([[0, 1], [1, 2, 3]]), 1.0)
    with pytest.raises(error, match=message):
        shuffler.shuffle(y, np.random.default_rng(0))


def test_bad_verification():
    groups = Groups.from_lists([range(8)])
    with pytest.raises(ValueError, match="groups must be of at most 7 users, got 8"):
        verify_alpha(groups, range(8), 1.0)
    with pytest.raises(ValueError, match="theta must be a finite number >= 0, got inf"):
        verify_alpha(Groups.from_lists([[0, 1]]), [0, 1], math.inf)
    with pytest.raises(ValueError, match="rng must be an integer >= 0, got -1"):
        DSigmaShuffler(Groups.from_lists([[0, 1], [1, 2]]), 1.0).permutation(-1)


def test_a_source_of_randomness_is_a_generator_a_seed_or_none():
    groups = Groups.from_scalar(np.arange(20.0), 2.0)
    for shuffler in (DSigmaShuffler(groups, 3.0), BlockShuffler(Groups.from_lists([range(20)]))):
        seeded = shuffler.permutation(7)
        np.testing.assert_array_equal(seeded, shuffler.permutation(np.random.default_rng(7)))
        assert sorted(shuffler.permutation(None)) == list(range(20))
        assert sorted(shuffler.shuffle(list(range(20)), 7)) == list(range(20))


def test_names_of_version_0_1_are_still_taken():
    """Keyword arguments that have the house's names since."""
    assert Groups.from_lists([[0, 1]], n=4).n == Groups.from_lists([[0, 1]], users=4).n == 4
    old = package.reidentification_bound(10, 2, eps=1.0, alpha=1.0)
    assert old == package.reidentification_bound(10, 2, eps0=1.0, alpha=1.0)
    chance = package.preservation_delta(n=50, l=10, eta=0.5, theta=3.0)
    assert chance == package.preservation_delta(50, 10, 0.5, 3.0, "hamming")
    with pytest.raises(TypeError, match="users must be given once, got n as well"):
        Groups.from_lists([[0, 1]], n=4, users=4)


# -- the package


def test_names_are_there_when_asked_for():
    assert package.MallowsKendall(3, 0.0).n == 3
    assert set(package.__all__) <= set(dir(package))
    assert callable(package.sensitivity)
    assert callable(package.reference_order)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = package.nonsense


def test_nothing_heavy_is_imported_before_it_is_needed(pytestconfig):
    code = (
        "import sys, shuffle_accountant as sa; g = sa.order.Groups.from_scalar([1, 2, 9], 1);"
        "print([name for name in ('numba', 'scipy.spatial', 'pandas') if name in sys.modules])"
    )
    command, root = [sys.executable, "-c", code], pytestconfig.rootpath
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
