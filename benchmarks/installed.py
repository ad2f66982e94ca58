"""Accountants that are compared with if they happen to be installed; none is a dependency.

Each gets the privacy losses of the pair as its user would hand them over: finite losses, ascending,
their masses, and the rest of the mass at infinity.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import warnings
from collections.abc import Callable

import numpy as np

__all__ = ["ADAPTERS", "Losses", "installed"]

# Ascending losses and their masses.
Losses = tuple[np.ndarray, np.ndarray]
# Lower and upper end of epsilon, nats; a lower end of None where only an upper bound is offered.
Answer = tuple[float | None, float]
Adapter = Callable[[Losses, int, float], Answer]


def installed() -> list[str]:
    """Names of the adapters whose accountant can be imported."""
    return [name for name in ADAPTERS if importlib.util.find_spec(name) is not None]


def prv_accountant(losses: Losses, rounds: int, delta: float) -> Answer:
    """Gopi, Lee and Wutschitz 2021, with an error of 0.01 in epsilon and of delta/1000 in delta."""
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PrivacyRandomVariable

    loss, mass = losses
    finite = float(mass.sum())
    below = np.append(0.0, np.cumsum(mass)) / finite

    class Pair(PrivacyRandomVariable):  # type: ignore[misc]
        def cdf(self, t: float) -> np.ndarray:
            return below[np.searchsorted(loss, t, side="right")]

        def rdp(self, alpha: float) -> float:
            return renyi_divergence(losses, alpha)

        @property
        def pm_inf(self) -> float:
            return max(1.0 - finite, 0.0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its quadrature, about the steps of a discrete law
        accountant = PRVAccountant(
            [Pair()], eps_error=0.01, delta_error=1e-3 * delta, max_self_compositions=[rounds]
        )
        lower, _, upper = accountant.compute_epsilon(delta, [rounds])
    return float(lower), float(upper)


def autodp(losses: Losses, rounds: int, delta: float) -> Answer:
    """Rényi accounting: its analytical accountant, told the pair's divergence of every order."""
    from autodp.rdp_acct import anaRDPacct

    accountant = anaRDPacct()
    accountant.compose_mechanism(functools.partial(renyi_divergence, losses), coeff=rounds)
    return None, float(accountant.get_eps(delta))


def renyi_divergence(losses: Losses, order: float) -> float:
    """Divergence of an order >= 1 of the finite losses, nats, from their moments."""
    loss, mass = losses
    if order == math.inf:
        return float(loss[-1])
    if order == 1.0:
        return float(np.dot(mass, loss))
    top = (order - 1.0) * loss[-1]
    return float((top + np.log(np.sum(mass * np.exp((order - 1.0) * loss - top)))) / (order - 1.0))


ADAPTERS: dict[str, Adapter] = {"prv_accountant": prv_accountant, "autodp": autodp}
