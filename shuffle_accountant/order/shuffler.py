"""The d-sigma-private shuffle: a Mallows distribution around a reference order."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import warn_loose
from shuffle_accountant.order.arguments import IntArray, RandomSource, permutation
from shuffle_accountant.order.groups import Groups
from shuffle_accountant.order.mallows import LAWS
from shuffle_accountant.order.ordering import METHODS, reference_order
from shuffle_accountant.order.release import Shuffler, partition
from shuffle_accountant.order.sensitivities import KINDS
from shuffle_accountant.order.sensitivities import sensitivity as largest_change


class OrderWarning(UserWarning):
    """Warning: the shuffle is private as asked, but of little use, or of less than is possible."""


class DSigmaShuffler(Shuffler):
    """d-sigma-private shuffle: hides the order of values within any group up to a factor e^alpha.

    For every group, every permutation of its members' values and every output z, the probabilities
    of z differ by a factor of at most e^alpha ((alpha, G)-d-sigma privacy; Meehan et al., Algorithm
    1 and Theorem 4.3). With ``sensitivity="exact"`` the factor is attained for distinct values:
    no smaller alpha holds for this mechanism.

    The Mallows distribution has ``theta = alpha / sensitivity`` around the reference order: with
    ``rho`` drawn around the identity, the value of the user at rank ``rho[k]`` goes to the user at
    rank k, ``z[sigma0[k]] = y[sigma0[rho[k]]]``. With Kendall's distance values move about ``1 /
    theta`` ranks, which has to be far below n for anything to survive; with the other two
    distances, which take no account of the order, only about e^theta users keep their value.

    Everything but the draw depends on public information only.

    Args:
        groups: sets of users whose values must be indistinguishable.
        alpha: privacy of the order, in nats, >= 0; 0 is a uniform shuffle, infinity none.
        distance: "kendall", "hamming" or "cayley".
        sensitivity: "exact", or "bound" from the width alone (more noise, as in the paper).
        order: a method of `reference_order`, or an order of one's own, shape (n,); by default
            "sort" for groups on a line, where nothing is narrower, and "bfs" for others.

    Attributes:
        theta: concentration of the Mallows distribution; infinite if all groups have one member.
        sigma0: the reference order, entry k is the user at rank k, shape (n,), read-only.
        law: the Mallows distribution around the identity.
        sensitivity: largest change of the distance, as asked for.

    Warns:
        OrderWarning: the shuffle is close to uniform (for Kendall's distance ``1/theta > n/4``), or
            the groups are disjoint: then `BlockShuffler` has alpha = 0.
    """

    def __init__(
        self,
        groups: Groups,
        alpha: float,
        *,
        distance: str = "kendall",
        sensitivity: str = "exact",
        order: str | ArrayLike | None = None,
    ) -> None:
        self.groups = validate.instance(Groups, groups=groups)
        self.alpha = validate.nonnegative(alpha=alpha)
        self.distance = validate.choice(LAWS, distance=distance)
        kind = validate.choice(KINDS, sensitivity=sensitivity)
        self.sigma0 = _order(groups, order)
        self.sigma0.setflags(write=False)
        self.sensitivity = largest_change(self.sigma0, groups, distance=distance, kind=kind)
        self.theta = _theta(self.alpha, self.sensitivity)
        self.law = LAWS[distance](groups.n, self.theta)
        self._warn()

    def permutation(self, rng: RandomSource = None) -> IntArray:
        """See `Shuffler.permutation`."""
        s = np.empty(self.n, dtype=np.int64)
        s[self.sigma0] = self.sigma0[self.law.sample(rng)]
        return s

    def alpha_for(self, groups: Groups) -> float:
        """The alpha of this shuffle for other groups of the same users (Meehan et al., Thm. 4.4).

        ``theta`` times their exact sensitivity. For the shuffler's own groups that is `alpha`, or
        less if the shuffler was calibrated with the bound.

        Returns:
            Nats, in [0, inf].
        """
        groups = self._of_these_users(groups)
        change = largest_change(self.sigma0, groups, distance=self.distance)
        return self.theta * change if change else 0.0

    def _warn(self) -> None:
        if self.law.nearly_uniform:
            warn_loose(
                f"the shuffle is close to uniform: theta = {self.theta:.3g} for {self.n} users; "
                "take smaller groups, a narrower order or a larger alpha",
                OrderWarning,
            )
        if partition(self.groups) is not None:
            warn_loose(
                "the groups are disjoint: BlockShuffler(groups) hides their order completely "
                "(alpha = 0) and moves no value out of its group",
                OrderWarning,
            )


def _order(groups: Groups, order: str | ArrayLike | None) -> IntArray:
    if order is None:
        return reference_order(groups, "sort" if groups.linear else "bfs")
    if isinstance(order, str):
        return reference_order(groups, validate.choice(METHODS, order=order))
    return permutation(groups.n, order=order)


def _theta(alpha: float, change: int) -> float:
    """Largest theta whose ``theta * change`` is not above alpha, rounding included."""
    if alpha == 0.0 or change == 0:
        return math.inf if alpha else 0.0
    theta = alpha / change
    return theta if theta * change <= alpha else math.nextafter(theta, 0.0)
