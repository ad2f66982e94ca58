"""Sums of all pairs of atoms of two laws, gathered in cells."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.compiled import compiled
from shuffle_accountant.numerics.rounding import Array, sequential_sum

__all__ = ["pair_sums"]

# Without compiled loops, so many pairs are added up at a time.
_CHUNK = 1 << 18
# Fewer pairs are added up before a thread has started.
_WORTH_A_THREAD = 1 << 18
_MOST_THREADS = 8
# So many terms are added up before the sum goes into a compensated one.
_RUN = 4


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
    loop = compiled(_loop)
    if loop is _loop:  # Python itself would take minutes
        return _vectorised(u, f, v, g, edges)
    same = u is v and f is g
    ends = _shares(u.size, v.size, same)
    out = np.zeros((len(ends) - 1, 4, edges.size))
    columns, bounds = np.append(v, np.inf), np.append(edges, np.inf)

    def add(part: int) -> None:
        loop(u, f, columns, g, bounds, ends[part], ends[part + 1], same, out[part])

    if len(out) == 1:
        add(0)
    else:
        with ThreadPoolExecutor(len(out)) as threads:
            list(threads.map(add, range(len(out))))
    mass, moment = (out[:, i] + out[:, i + 1] for i in (0, 2))
    # sums of runs are compensated: their error does not depend on the number of runs
    mass, moment = rounded(mass.sum(axis=0), 4), rounded(moment.sum(axis=0), 4)
    return mass, moment, sequential_sum(len(out) + _RUN, own=8)


def _shares(rows: int, columns: int, same: bool) -> list[int]:
    """Where the rows are divided between threads, about equally many pairs for each."""
    most = rows * columns // _WORTH_A_THREAD
    threads = max(min(os.cpu_count() or 1, _MOST_THREADS, rows, most), 1)
    done = np.arange(threads + 1) / threads
    # of the same two laws the first rows are the longest
    ends = rows * (1.0 - np.sqrt(1.0 - done) if same else done)
    return [round(end) for end in ends.tolist()]


def _loop(
    u: Array,
    f: Array,
    v: Array,
    g: Array,
    edges: Array,
    begin: int,
    end: int,
    same: bool,
    out: Array,
) -> None:
    """Row by row; ``out`` holds sums and their corrections (compensated sums).

    If both laws are the ``same``, a pair stands for its mirror image as well. Neighbours in a row
    that share a cell are added up first, at most `_RUN` of them: a cell's sums are in memory, and
    each addition there has to wait for the one before. ``edges`` and ``v`` end with infinity.
    """
    count, last = v.size - 1, edges.size - 2
    start = 0
    for i in range(begin, end):
        row = u[i]
        j = i if same else 0
        x = row + v[j]
        while start < last and x >= edges[start + 1]:
            start += 1
        k = start
        weight = 2.0 * f[i] if same else f[i]
        twice = 0.5 if same else 0.0  # of the first: an atom with itself is no mirror image
        while j < count:
            while k < last and x >= edges[k + 1]:
                k += 1
            low, high = edges[k], edges[k + 1]
            stop = min(j + _RUN, count)
            mass = -twice * g[j]
            moment = -twice * (g[j] * (x - low))
            twice = 0.0
            while True:
                mass += g[j]
                moment += g[j] * (x - low)
                j += 1
                x = row + v[j]
                if x >= high or j == stop:
                    break
            mass *= weight
            moment *= weight
            # what a sum loses, whichever of its terms is larger
            before = out[0, k]
            total = before + mass
            back = total - before
            out[1, k] += (before - (total - back)) + (mass - back)
            out[0, k] = total
            before = out[2, k]
            total = before + moment
            back = total - before
            out[3, k] += (before - (total - back)) + (moment - back)
            out[2, k] = total


def _vectorised(u: Array, f: Array, v: Array, g: Array, edges: Array) -> tuple[Array, Array, float]:
    """The same by NumPy, some rows at a time."""
    rows = max(_CHUNK // v.size, 1)
    mass, moment = np.zeros(edges.size), np.zeros(edges.size)
    most = 0
    for start in range(0, u.size, rows):
        x = np.add.outer(u[start : start + rows], v).ravel()
        p = np.multiply.outer(f[start : start + rows], g).ravel()
        cell = np.searchsorted(edges, x, side="right") - 1
        mass += np.bincount(cell, p, edges.size)
        moment += np.bincount(cell, p * (x - edges[cell]), edges.size)
        most = max(most, int(np.bincount(cell).max()))
    return rounded(mass, 4), rounded(moment, 4), sequential_sum(most + u.size // rows, own=8)
