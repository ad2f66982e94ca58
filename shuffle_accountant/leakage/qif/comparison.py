"""Which of two channels leaks more: equivalence by posteriors, refinement by linear programming."""

from __future__ import annotations

import numpy as np

from shuffle_accountant.numerics.rounding import Array


def merge_columns(matrix: Array, tolerance: float) -> list[list[int]]:
    """Groups of proportional columns, without the zero columns.

    Args:
        matrix: entries >= 0, shape (inputs, outputs).
        tolerance: largest difference of an entry, columns over their sums, from the first of a
            group.

    Returns:
        Lists of ascending column numbers, by the first of each.
    """
    sums = matrix.sum(axis=0)
    present = np.flatnonzero(sums > 0.0)
    shapes = matrix[:, present] / sums[present]
    # a group is close in every projection too; a fixed one narrows down where to look
    weights = np.cos(np.arange(matrix.shape[0], dtype=np.float64))
    projected = weights @ shapes
    order = np.argsort(projected, kind="stable")
    reach = tolerance * matrix.shape[0] + 1e-15
    free = np.ones(present.size, dtype=bool)
    groups = []
    for first in range(present.size):
        if not free[first]:
            continue
        low, high = np.searchsorted(
            projected, [projected[first] - reach, projected[first] + reach], sorter=order
        )
        near = np.append(order[low:high], first)
        near = np.unique(near[free[near]])
        distance = np.max(np.abs(shapes[:, near] - shapes[:, [first]]), axis=0)
        members = near[distance <= tolerance]
        free[members] = False
        groups.append(present[members].tolist())
    return groups


def equivalent(one: Array, other: Array, tolerance: float) -> bool:
    """Whether the channels have the same posteriors with the same weights.

    Args:
        other: channel with as many inputs.
        tolerance: of posteriors and of weights, absolute.
    """
    both = np.hstack([one, other])
    # outer probability of an output under the uniform prior, the other channel's counted against
    weights = both.sum(axis=0) / both.shape[0]
    weights[one.shape[1] :] *= -1.0
    return all(
        abs(float(weights[group].sum())) <= tolerance for group in merge_columns(both, tolerance)
    )


MOST_VARIABLES = 1 << 16
"""Most entries of a post-processing channel that is searched for."""

MOST_COEFFICIENTS = 1 << 23
"""Most entries of the constraints of a linear program."""


def post_processing(fine: Array, coarse: Array) -> tuple[Array, float]:
    """The channel D that minimises the largest entry of ``|fine D - coarse|``.

    Args:
        fine: channel A, shape (inputs, outputs of A).
        coarse: channel B, shape (inputs, outputs of B).

    Returns:
        ``(D, distance)``; D has shape (outputs of A, outputs of B), and the distance is that of
        the rows as returned, made to sum to 1 exactly.

    Raises:
        RuntimeError: the solver gave up.
    """
    from scipy import optimize, sparse

    inner, outer, secrets = fine.shape[1], coarse.shape[1], fine.shape[0]
    if inner * outer > MOST_VARIABLES or 2 * secrets * inner * outer > MOST_COEFFICIENTS:
        raise ValueError(
            f"channels must have at most {MOST_VARIABLES} pairs of outputs and "
            f"{MOST_COEFFICIENTS // 2} triples with an input, got {inner} and {outer} outputs of "
            f"{secrets} inputs"
        )
    # unknowns: D row by row, then the slack s; fine D - coarse <= s and >= -s
    product = sparse.kron(sparse.csr_array(fine), sparse.eye_array(outer))
    slack = sparse.csr_array(np.ones((secrets * outer, 1)))
    target = coarse.ravel()
    rows = sparse.kron(sparse.eye_array(inner), sparse.csr_array(np.ones((1, outer))))
    answer = optimize.linprog(
        np.append(np.zeros(inner * outer), 1.0),
        A_ub=sparse.vstack([sparse.hstack([product, -slack]), sparse.hstack([-product, -slack])]),
        b_ub=np.concatenate([target, -target]),
        A_eq=sparse.hstack([rows, sparse.csr_array((inner, 1))]),
        b_eq=np.ones(inner),
        bounds=(0.0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.x is None:
        raise RuntimeError(f"linear program not solved: {answer.message}")
    found = np.maximum(answer.x[:-1].reshape(inner, outer), 0.0)
    found /= found.sum(axis=1, keepdims=True)
    return found, float(np.max(np.abs(fine @ found - coarse)))
