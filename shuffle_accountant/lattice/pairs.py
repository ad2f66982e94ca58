"""Sums of all pairs of atoms of two laws, gathered in cells."""

from __future__ import annotations

import math
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
# Neighbours that are taken together where a cell holds all of them: where one law's values are far
# larger than the other's.
_FEW, _MANY = 16, 256


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
    few, many, bounds = _together(v, g, _FEW), _together(v, g, _MANY), np.append(edges, np.inf)

    def add(part: int) -> None:
        loop(u, f, v, g, few, many, bounds, ends[part], ends[part + 1], same, out[part])

    if len(out) == 1:
        add(0)
    else:
        with ThreadPoolExecutor(len(out)) as threads:
            list(threads.map(add, range(len(out))))
    mass, moment = (out[:, i] + out[:, i + 1] for i in (0, 2))
    # sums of runs are compensated: their error does not depend on the number of runs
    mass, moment = rounded(mass.sum(axis=0), 4), rounded(moment.sum(axis=0), 4)
    return mass, moment, sequential_sum(len(out) + _RUN, own=10)


def _shares(rows: int, columns: int, same: bool) -> list[int]:
    """Where the rows are divided between threads, about equally many pairs for each."""
    most = rows * columns // _WORTH_A_THREAD
    threads = max(min(os.cpu_count() or 1, _MOST_THREADS, rows, most), 1)
    done = np.arange(threads + 1) / threads
    # of the same two laws the last rows are the longest
    ends = rows * (np.sqrt(done) if same else done)
    return [round(end) for end in ends.tolist()]


def _together(v: Array, g: Array, size: int) -> Array:
    """Masses, and moments about their first value, of so many neighbours; shape (2, blocks).

    Exact sums, rounded once, of masses and of products that were rounded twice.
    """
    blocks = v.size // size
    value, mass = (x[: blocks * size].reshape(blocks, size) for x in (v, g))
    moment = mass * (value - value[:, :1])
    return np.array([[math.fsum(row) for row in rows.tolist()] for rows in (mass, moment)])


def _loop(
    u: Array,
    f: Array,
    v: Array,
    g: Array,
    few: Array,
    many: Array,
    edges: Array,
    begin: int,
    end: int,
    same: bool,
    out: Array,
) -> None:
    """Row by row; ``out`` holds sums and their corrections (compensated sums).

    If both laws are the ``same``, a pair stands for its mirror image as well. Neighbours in a row
    that share a cell are added up first, at most `_RUN` of them unless they are a block whose sums
    are known: a cell's sums are in memory, and each addition there has to wait for the one before.
    ``edges`` end with infinity.
    """
    last = edges.size - 2
    start = 0
    for i in range(begin, end):
        row = u[i]
        count = i if same else v.size
        weight = 2.0 * f[i] if same else f[i]
        x = row + v[0]
        while start < last and x >= edges[start + 1]:
            start += 1
        j, k = 0, start
        while j <= count:
            if j == count:
                if not same:
                    break
                weight = f[i]  # an atom with itself is no mirror image
            x = row + v[j]
            step = 1  # cells ahead may be one or thousands
            while k + step <= last and x >= edges[k + step]:
                k += step
                step *= 2
            while step > 1:
                step //= 2
                if k + step <= last and x >= edges[k + step]:
                    k += step
            low, high = edges[k], edges[k + 1]
            if j % _MANY == 0 and j + _MANY <= count and row + v[j + _MANY - 1] < high:
                mass = many[0, j // _MANY]
                moment = many[1, j // _MANY] + mass * (x - low)
                j += _MANY
            elif j % _FEW == 0 and j + _FEW <= count and row + v[j + _FEW - 1] < high:
                mass = few[0, j // _FEW]
                moment = few[1, j // _FEW] + mass * (x - low)
                j += _FEW
            else:
                stop = max(min(j + _RUN, count), j + 1)
                mass = moment = 0.0
                while j < stop and x < high:
                    mass += g[j]
                    moment += g[j] * (x - low)
                    j += 1
                    x = row + v[j] if j < stop else high
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
