"""Sums of all pairs of atoms of two laws, gathered in cells."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.compiled import compiled, thread_count
from shuffle_accountant.numerics.rounding import LIMITS, Array, sequential_sum
from shuffle_accountant.sums.settings import DOUBLING

# Rows added up in plain sums before those go into the compensated sums.
_ROWS = 16
# Neighbours that are added at once where a cell holds them all: where one law's values are far
# larger than the other's.
BLOCK = 16


def pair_sums(u: Array, f: Array, v: Array, g: Array, edges: Array) -> tuple[Array, Array, float]:
    """Masses and moments, cell by cell, of the sum of two independent variables.

    Args:
        u: values of the first, ascending, shape (a,).
        f: their masses, >= 0.
        v: values of the second, ascending, shape (b,).
        g: their masses, >= 0.
        edges: lower ends of the cells, ascending, shape (m,); the first is at most ``u[0] + v[0]``,
            and the last cell has no end.

    Returns:
        ``(mass, moment, error)``: ``sum f g`` and ``sum f g (u + v - lower end)`` of the pairs in
        each cell, and a bound on their relative error (besides that of ``u + v``).
    """
    first = f[None]
    out, error = marked_sums(u, first, v, first if f is g else g[None], edges)
    return out[0], out[1], error


def marked_sums(u: Array, f: Array, v: Array, g: Array, edges: Array) -> tuple[Array, float]:
    """Masses and moments as `pair_sums`, where one of the two variables may have another law.

    The masses are those of each variable's laws, the usual one first, shapes (l, a) and (l, b).

    Returns:
        ``(sums, error)``: mass and moment under the usual laws, then, for each other law, the
        masses ``sum (f_i g_0 + f_0 g_i)`` of the pairs in each cell, shape (l + 1, m), and a bound
        on their relative error.
    """
    same = u is v and f is g  # then each pair stands for two
    loop = compiled(_loop, _cell, _run, _compensated)
    if loop is _loop:  # Python itself would take minutes
        return _vectorised(u, f, v, g, edges)
    f, g, bounds = np.ascontiguousarray(f), np.ascontiguousarray(g), np.append(edges, np.inf)
    # row by row the other law's smaller values, next to which it is far more often in one cell
    halves = [(u, f, v, g, np.arange(u.size) if same else np.searchsorted(v, u, side="right"))]
    if not same:
        halves.append((v, g, u, f, np.searchsorted(u, v, side="left")))
    parts = [part for half in halves for part in _parts(*half, bounds, same)]
    out = np.zeros((len(parts), 3, len(f) + 1, edges.size))

    def add(part: int) -> int:
        return int(loop(*parts[part], out[part]))

    if len(parts) == len(halves):
        most = max(map(add, range(len(parts))))
    else:
        with ThreadPoolExecutor(len(parts)) as threads:
            most = max(threads.map(add, range(len(parts))))
    # sums of rows are compensated: their error does not depend on the number of rows
    terms = len(parts) + most + BLOCK
    found = rounded(np.asarray((out[:, 0] + out[:, 1]).sum(axis=0)), terms)
    return found, sequential_sum(terms, own=16)


def _parts(
    u: Array, f: Array, v: Array, g: Array, stops: NDArray[np.intp], edges: Array, same: bool
) -> list[tuple[Any, ...]]:
    """The loop's arguments for all rows, in about equal shares for several threads."""
    blocks = _together(v, g, BLOCK)
    pairs = np.cumsum(stops + 1)
    threads = thread_count(int(pairs[-1]) // DOUBLING.worth_a_thread)
    goals = pairs[-1] * (np.arange(1, threads) / threads)
    ends = [0, *np.searchsorted(pairs, goals).tolist(), u.size]
    return [(u, f, v, g, blocks, edges, stops, begin, end, same) for begin, end in pairwise(ends)]


def _together(v: Array, g: Array, size: int) -> Array:
    """Sums over blocks of neighbours, shape (l + 1, b // size).

    They are masses, moments about the first value of the block, and the other laws' masses.
    """
    blocks = v.size // size
    value = v[: blocks * size].reshape(blocks, size)
    terms = np.insert(g, 1, 0.0, axis=0)[:, : blocks * size].reshape(len(g) + 1, blocks, size)
    terms[1] = terms[0] * (value - value[:, :1])
    return np.asarray(terms.sum(axis=2))


def _loop(
    u: Array,
    f: Array,
    v: Array,
    g: Array,
    blocks: Array,
    edges: Array,
    stops: NDArray[np.intp],
    begin: int,
    end: int,
    same: bool,
    out: Array,
) -> int:
    """Add up, row by row, the pairs with the first columns, up to the row's stop.

    If both laws are the ``same``, each pair stands for its mirror image as well, and the pair of an
    atom with itself is added. Neighbours in a row that share a cell are added up first. ``edges``
    end with infinity; ``out`` holds sums, their corrections (compensated sums) and sums of a few
    rows.

    Returns:
        The most additions that a term goes through, compensated ones aside.
    """
    last, here = edges.size - 2, out[2]
    times = np.zeros(edges.size, dtype=np.int64)
    marked = np.zeros(f.shape[0])
    longest = often = start = 0
    for top in range(begin, end, _ROWS):
        bottom, lowest, highest = min(top + _ROWS, end), last, 0
        for i in range(top, bottom):
            row, twice = u[i], 2.0 if same else 1.0
            start = _cell(edges, row + v[0], start, last)
            lowest = min(lowest, start)
            j, k, count = 0, start, stops[i]
            while True:
                if j == count:
                    if not same or count > i:
                        break
                    twice, count = 1.0, count + 1  # an atom with itself is no mirror image
                k = _cell(edges, row + v[j], k, last)
                j, terms = _run(row, twice, f, i, v, g, blocks, edges, j, k, count, marked, here)
                times[k] += 1
                longest = max(longest, terms)
            highest = max(highest, k)
        often = max(often, _compensated(out, times, lowest, highest))
    return longest + often


def _cell(edges: Array, x: float, k: int, last: int) -> int:
    """The cell of x, at or beyond cell k: cells ahead may be one or thousands."""
    if x < edges[k + 1]:
        return k
    k += 1
    step = 1
    while k + step <= last and x >= edges[k + step]:
        k += step
        step *= 2
    while step > 1:
        step //= 2
        if k + step <= last and x >= edges[k + step]:
            k += step
    return k


def _run(
    row: float,
    twice: float,
    f: Array,
    i: int,
    v: Array,
    g: Array,
    blocks: Array,
    edges: Array,
    j: int,
    k: int,
    count: int,
    marked: Array,
    here: Array,
) -> tuple[int, int]:
    """Add up the columns from j on that lie in cell k; returns the next one, and the additions."""
    laws, low, high = f.shape[0], edges[k], edges[k + 1]
    mass = moment = 0.0
    for law in range(1, laws):
        marked[law] = 0.0
    terms, x = 0, row + v[j]
    while True:
        terms += 1
        if j % BLOCK or j + BLOCK > count or row + v[j + BLOCK - 1] >= high:
            mass += g[0, j]
            moment += g[0, j] * (x - low)
            for law in range(1, laws):
                marked[law] += g[law, j]
            j += 1
        else:
            block = j // BLOCK
            mass += blocks[0, block]
            moment += blocks[1, block] + blocks[0, block] * (x - low)
            for law in range(1, laws):
                marked[law] += blocks[law + 1, block]
            j += BLOCK
        if j >= count:
            break
        x = row + v[j]
        if x >= high:
            break
    weight = twice * f[0, i]
    here[0, k] += weight * mass
    here[1, k] += weight * moment
    for law in range(1, laws):
        here[law + 1, k] += weight * marked[law] + twice * f[law, i] * mass
    return j, terms


def _compensated(out: Array, times: NDArray[np.int64], lowest: int, highest: int) -> int:
    """Move sums of a few rows into the compensated sums; returns the most additions in a cell."""
    total, lost, here = out[0], out[1], out[2]
    often = 0
    for at in range(lowest, highest + 1):
        often = max(often, times[at])
        times[at] = 0
    for kind in range(total.shape[0]):
        for at in range(lowest, highest + 1):
            # what a sum loses, whichever of its terms is larger
            before, more = total[kind, at], here[kind, at]
            after = before + more
            back = after - before
            lost[kind, at] += (before - (after - back)) + (more - back)
            total[kind, at] = after
            here[kind, at] = 0.0
    return often


def _vectorised(u: Array, f: Array, v: Array, g: Array, edges: Array) -> tuple[Array, float]:
    """Compute `marked_sums` by NumPy, some rows at a time."""
    rows = max(LIMITS.at_once // v.size, 1)
    found = np.zeros((len(f) + 1, edges.size))
    most = 0
    for start in range(0, u.size, rows):
        some = f[:, start : start + rows]
        x = np.add.outer(u[start : start + rows], v).ravel()
        cell = np.searchsorted(edges, x, side="right") - 1
        p = np.multiply.outer(some[0], g[0]).ravel()
        found[0] += np.bincount(cell, p, edges.size)
        found[1] += np.bincount(cell, p * (x - edges[cell]), edges.size)
        for law in range(1, len(f)):
            p = np.multiply.outer(some[law], g[0]) + np.multiply.outer(some[0], g[law])
            found[law + 1] += np.bincount(cell, p.ravel(), edges.size)
        most = max(most, int(np.bincount(cell).max()))
    return rounded(found, 4), sequential_sum(most + u.size // rows, own=10)
