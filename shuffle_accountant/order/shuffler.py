"""Shuffles of data of any array type into a new array; the original is left as it is.

`DSigmaShuffler` is d-sigma-private, by a Mallows distribution around a reference order;
`BlockShuffler` is uniform within disjoint groups.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import warn_loose
from shuffle_accountant.order.arguments import IntArray, RandomSource, permutation, random_source
from shuffle_accountant.order.groups import Groups
from shuffle_accountant.order.mallows import LAWS
from shuffle_accountant.order.ordering import KINDS, METHODS, reference_order
from shuffle_accountant.order.ordering import sensitivity as largest_change


class Shuffler(ABC):
    """A random order of the users, from public information only.

    Members of the ``groups`` are indistinguishable up to ``alpha``, nats, in [0, inf].
    """

    groups: Groups
    alpha: float

    @property
    def n(self) -> int:
        """Number of users."""
        return self.groups.n

    @abstractmethod
    def permutation(self, rng: RandomSource = None) -> IntArray:
        """A random shuffle s of the users: output i carries the value of user ``s[i]``.

        Args:
            rng: generator or seed; None is the operating system's source.

        Returns:
            One-line form, shape (n,).
        """

    def shuffle(self, y: Any, rng: RandomSource = None) -> Any:
        """The values in shuffled order, ``y[permutation]``, as new data.

        Args:
            y: n entries along its first axis: a list or other sequence (a list comes back), a
                tuple, an array of any library with integer-array indexing, or a pandas object (by
                position), which come back as what they are.
            rng: see `permutation`.
        """
        permutation = self.permutation(rng)
        if isinstance(y, (str, bytes, dict, set, frozenset)) or not hasattr(y, "__len__"):
            raise TypeError(f"y must be a list or an array, got a {type(y).__name__}")
        shape = getattr(y, "shape", None)
        if shape is not None and len(shape) == 0:
            raise TypeError("y must be a list or an array, got a single entry")
        length, n = len(y) if shape is None else int(shape[0]), permutation.size
        if length != n:
            raise ValueError(f"y must have {n} entries along its first axis, got {length}")
        if hasattr(y, "iloc"):
            return y.iloc[permutation]
        if shape is None:
            entries = [y[place] for place in permutation.tolist()]
            return tuple(entries) if isinstance(y, tuple) else entries
        return y[permutation]

    @abstractmethod
    def alpha_for(self, groups: Groups) -> float:
        """The alpha of this shuffle for other groups of the same users, nats, in [0, inf]."""

    def _of_these_users(self, groups: Groups) -> Groups:
        if validate.instance(Groups, groups=groups).n != self.n:
            raise ValueError(f"groups must be of {self.n} users, got {groups.n}")
        return groups


class BlockShuffler(Shuffler):
    """Shuffles uniformly within each of disjoint groups: alpha = 0, and no value leaves its group.

    Users in no group keep their value.
    """

    alpha = 0.0

    def __init__(self, groups: Groups) -> None:
        label = partition(validate.instance(Groups, groups=groups))
        if label is None:
            raise ValueError("groups must be disjoint (or equal), got two that overlap")
        self.groups, self._label = groups, label
        self._by_block = np.argsort(label, kind="stable")

    def permutation(self, rng: RandomSource = None) -> IntArray:
        """See `Shuffler.permutation`."""
        mixed = random_source(rng).permutation(self.n)
        s = np.empty(self.n, dtype=np.int64)
        s[self._by_block] = mixed[np.argsort(self._label[mixed], kind="stable")]
        return s

    def alpha_for(self, groups: Groups) -> float:
        """0 if each group lies within one block, else inf: no value is seen outside its block."""
        groups = self._of_these_users(groups)
        for members, start, _ in groups.pieces():
            label = self._label[members]
            if (np.minimum.reduceat(label, start) != np.maximum.reduceat(label, start)).any():
                return math.inf
        return 0.0


def partition(groups: Groups) -> IntArray | None:
    """A block number per user, shape (n,), if any two groups are equal or disjoint; else None.

    Users in no group are blocks of their own.
    """
    if groups.overlapping:
        # two slices that overlap without being equal show an overlap without listing
        by_start = np.lexsort((groups.stop, groups.start))
        start, stop = groups.start[by_start], groups.stop[by_start]
        equal = (start[1:] == start[:-1]) & (stop[1:] == stop[:-1])
        if ((start[1:] < stop[:-1]) & ~equal).any():
            return None
    # every user takes the smallest member of a group as its label; no group may see another one
    label = np.full(groups.n, -1)
    labels = []
    for members, start, stop in groups.pieces():
        least = np.minimum.reduceat(members, start)
        each = np.repeat(least, stop - start)
        before = label[members]
        label[members] = each
        if ((before != each) & (before >= 0)).any() or (label[members] != each).any():
            return None
        labels.append(least)
    # groups of one label are equal if each is all of the block
    block = np.bincount(label[label >= 0], minlength=groups.n)
    if (block[np.concatenate(labels)] != groups.sizes).any():
        return None
    return np.where(label >= 0, label, np.arange(groups.n))


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
        if order is None:
            order = "sort" if groups.linear else "bfs"
        if isinstance(order, str):
            self.sigma0 = reference_order(groups, validate.choice(METHODS, order=order))
        else:
            self.sigma0 = permutation(groups.n, order=order)
        self.sigma0.setflags(write=False)
        self.sensitivity = largest_change(self.sigma0, groups, distance=distance, kind=kind)
        if self.alpha == 0.0 or self.sensitivity == 0:
            self.theta = math.inf if self.alpha else 0.0
        else:  # the largest whose product is not above alpha, rounding included
            self.theta = self.alpha / self.sensitivity
            if self.theta * self.sensitivity > self.alpha:
                self.theta = math.nextafter(self.theta, 0.0)
        self.law = LAWS[distance](groups.n, self.theta)
        if self.law.nearly_uniform:
            warn_loose(
                f"the shuffle is close to uniform: theta = {self.theta:.3g} for {self.n} users; "
                "take smaller groups, a narrower order or a larger alpha",
                OrderWarning,
            )
        if partition(groups) is not None:
            warn_loose(
                "the groups are disjoint: BlockShuffler(groups) hides their order completely "
                "(alpha = 0) and moves no value out of its group",
                OrderWarning,
            )

    def permutation(self, rng: RandomSource = None) -> IntArray:
        """See `Shuffler.permutation`."""
        s = np.empty(self.n, dtype=np.int64)
        s[self.sigma0] = self.sigma0[self.law.sample(rng)]
        return s

    def alpha_for(self, groups: Groups) -> float:
        """``theta`` times their exact sensitivity (Meehan et al., Theorem 4.4); nats, in [0, inf].

        For the shuffler's own groups that is `alpha`, or less if it was calibrated with the bound.
        """
        groups = self._of_these_users(groups)
        change = largest_change(self.sigma0, groups, distance=self.distance)
        return self.theta * change if change else 0.0
