"""The paper's truncated enumeration of the clones pair: O(n) atoms with a stated neglected mass.

Kept as a named alternative to the tighter Chernoff and exact tails that the accountant itself uses,
and as a peer that its answers are tested against.
"""

from __future__ import annotations

import math

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.numerics.binomial import log_pmf
from shuffle_accountant.numerics.rounding import Array

__all__ = ["hoeffding_atoms"]


def hoeffding_atoms(eps0: float, users: int, *, tau: float = 1e-12) -> PldAtoms:
    """PldAtoms of the clones pair within Hoeffding's range of both counts.

    'Numerical Accounting in the Shuffle Model', Lemma 11: the number C of informative decoys is
    kept within ``c (n-1)`` of its mean, ``c = sqrt(log(4/tau) / (2(n-1)))``, and the number A of
    them that say 0 within ``sqrt(C log(4/tau) / 2)`` of C/2; each leaves out at most tau/2. The
    target's own letter adds 0 or 1 to A, and both are kept. (The appendix of the paper prints p
    for the rate 2p, in Lemma A.4 and in the range of C.)

    Args:
        eps0: local privacy parameter, nats, finite, > 0.
        users: number n of messages, >= 1.
        tau: bound on the neglected mass, in (0, 1).

    Returns:
        An upper pair: at most ``2 log(4/tau) (n + O(sqrt n))`` atoms, and ``tau`` at loss +inf.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
    """
    eps0 = validate.positive(eps0=eps0)
    users = validate.integer(minimum=1, maximum=10**7, users=users)
    tau = validate.open_unit(tau=tau)
    decoys, ratio = users - 1, math.exp(-eps0)
    rate, idle = 2 * ratio / (1 + ratio), math.tanh(0.5 * eps0)
    low, high = _range(np.array([float(decoys)]), rate, tau)
    count = np.arange(low[0], high[0] + 1)
    first, last = _range(count, 0.5, tau)
    lengths = (last - first + 2).astype(np.intp)
    owner = np.repeat(np.arange(count.size), lengths)
    a = first[owner] + np.arange(owner.size) - (np.cumsum(lengths) - lengths)[owner]
    m = count[owner] + 1.0
    b = m - a
    log_crowd = log_pmf(count, float(decoys), rate, idle)
    base = np.exp(log_crowd[owner] + log_pmf(a, m, 0.5, 0.5)) * 2.0 / (m * (1.0 + ratio))
    return PldAtoms(
        side=Bound.PESSIMISTIC,
        mass=base * (a + ratio * b),
        loss=np.log((a + ratio * b) / (ratio * a + b)),
        infinite=tau,
        truncated=tau,
        round_off=0.0,
        loss_error=0.0,
    )


def _range(trials: Array, rate: float, tau: float) -> tuple[Array, Array]:
    """Integers within Hoeffding's distance of the mean of Bin(trials, rate), for tau/2."""
    distance = np.sqrt(0.5 * trials * math.log(4.0 / tau))
    low = np.maximum(np.ceil(rate * trials - distance), 0.0)
    return low, np.minimum(np.floor(rate * trials + distance), trials)
