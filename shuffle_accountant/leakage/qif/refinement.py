"""The refinement order of channels, by linear programming.

B refines A, written A [= B: B leaks no more than A for every prior and every gain. By the data
processing theorem and its converse (Theorem 4 of Jurado et al.) this is so if and only if A in
cascade with some channel D is B: linear equations and inequalities in the entries of D.
"""

from __future__ import annotations

import numpy as np

from shuffle_accountant.numerics.rounding import Array

__all__ = ["MOST_VARIABLES", "post_processing"]

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
