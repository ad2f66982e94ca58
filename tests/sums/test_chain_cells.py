"""Adding one bin's ratio to sums on cells, against one pair of atoms at a time."""

import itertools

import numpy as np
import pytest

from shuffle_accountant.numerics.compiled import compiled, thread_count
from shuffle_accountant.sums import chain_below, chain_law
from shuffle_accountant.sums.chain_cells import ADDED_PARTS, added, shares

EVEN = 40


def one_by_one(mass, starts, rows, shifts, values, weights, uppers, edges, low, high, single):
    """Each sum goes to the edges of its cell, its mean kept; beyond the last edge it is counted."""
    out = np.zeros((rows.max() + 1, edges.size))
    beyond = np.zeros((2, rows.max() + 1))
    for state in range(starts.size - 1):
        for entry in range(starts[state], starts[state + 1]):
            shift, upper = shifts[entry], uppers[entry]
            parts = [(values[entry], weights[entry])]
            if shift >= 0:
                lower = weights[entry] - upper
                parts = [(edges[shift], lower), (edges[shift + 1], upper)]
            for i in range(low, high):
                if shift >= single and edges[i] + edges[shift + 1] > edges[EVEN - 1]:
                    parts = [(values[entry], weights[entry])]  # one value, where cells are wider
                for value, weight in parts:
                    sums, part = edges[i] + value, mass[state, i] * weight
                    if sums >= edges[-1]:
                        beyond[:, rows[entry]] += part, part * sums
                        continue
                    j = np.searchsorted(edges, sums, side="right") - 1
                    share = (sums - edges[j]) / (edges[j + 1] - edges[j])
                    out[rows[entry], j] += part * (1.0 - share)
                    out[rows[entry], j + 1] += part * share
    return out, beyond


@pytest.mark.parametrize("single", [0, 5, EVEN])
@pytest.mark.parametrize("run_compiled", [True, False])
@pytest.mark.parametrize(("low", "high"), [(0, 60), (3, 41), (0, 1), (50, 60)])
@pytest.mark.parametrize("seed", range(4))
def test_a_ratio_is_added_as_one_atom_at_a_time(seed, low, high, run_compiled, single):
    rng = np.random.default_rng(seed)
    even, width = EVEN, 0.25
    edges = np.concatenate([width * np.arange(even), width * (even - 1) * 1.2 ** np.arange(1, 21)])
    states, entries = 3, 12
    mass = rng.random((states, edges.size)) * (rng.random((states, edges.size)) < 0.8)
    shifts = np.sort(rng.integers(0, even - 2, (states, entries)), axis=1)
    shifts[:, 2] = shifts[:, 1]  # neighbours that share a shift, and the next one
    shifts[:, 3] = np.minimum(shifts[:, 2] + 1, even - 3)
    shifts = np.sort(shifts, axis=1)
    shifts[:, -2:] = -1
    values = np.where(shifts >= 0, width * (shifts + 0.5), 0.0)
    values[:, -2:] = width * (even - 2) * np.array([1.01, 9.0])
    weights = rng.random((states, entries))
    uppers = np.where(shifts >= 0, weights * rng.random((states, entries)), 0.0)
    uppers[:, 0] = 0.0
    rows = np.tile(np.arange(entries) % 5, (states, 1))
    given = [array.ravel() for array in (rows, shifts, values, weights, uppers)]
    starts = entries * np.arange(states + 1)
    out, beyond = np.zeros((5, edges.size)), np.zeros((2, 5))
    add = compiled(added, *ADDED_PARTS) if run_compiled else added
    top = add(mass, starts, *given, edges, even, low, high, single, out, beyond)
    expected, further = one_by_one(mass, starts, *given, edges, low, high, single)
    # sums of at most 2000 positive terms, and shares of cells that are differences of sums
    assert np.allclose(out, expected, rtol=1e-11, atol=1e-12)
    assert np.allclose(beyond, further, rtol=1e-12, atol=0.0)
    assert np.all(out[:, top + 1 :] == 0.0)


def test_ranges_of_states_cover_them_once() -> None:
    for states, products in itertools.product((1, 2, 7, 222), (1, 10**5, 10**9)):
        ranges = shares(states, products)
        assert [state for begin, end in ranges for state in range(begin, end)] == list(
            range(states)
        )
    assert len(shares(7, 1)) == 1  # a millisecond in all is not worth a thread
    assert 1 <= thread_count(3.9) <= 3
    assert thread_count(0.0) == 1


def test_sums_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for ranges in (
        lambda states, _: [(0, states)],
        lambda states, _: [(0, 3), (3, 5), (5, states)],
    ):
        monkeypatch.setattr(chain_law, "shares", ranges)
        monkeypatch.setattr(chain_below, "shares", ranges)
        above = chain_law.chain_sum(12, 0.6, 0.7, 0.1, tail=1e-12, epsilon=1.0).law
        below = chain_below.chain_below(
            *(np.array([1.0, 1.0, 0.6]), 0.6, 0.7, 0.1), powers=False, tail=1e-12, far=9.0
        )[0]
        found.append([above.value, above.mass, below.value, below.mass])
    for one, other in zip(*found, strict=True):
        # every state's sums are added in the same order
        np.testing.assert_array_equal(one, other)
