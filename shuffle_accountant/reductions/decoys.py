"""One target message among n - 1 decoys: every measure of leakage is a functional of this pair.

Density lemma. Let ``shuffle(p, q)`` be the law of n shuffled messages of which one (the target's)
is drawn from p and the others i.i.d. from q. Relative to n independent draws from q its density at
``(y_1, …, y_n)`` is the mean likelihood ratio ``(1/n) sum_i p(y_i)/q(y_i)``. Hence the hockey-stick
divergence between ``shuffle(p0, q)`` and ``shuffle(p1, q)`` at alpha is

    E[ ((1/n) sum_i (p0(Y_i) - alpha p1(Y_i)) / q(Y_i))_+ ],   Y_i i.i.d. from q,

an expectation over a sum of i.i.d. real numbers, whatever the alphabet.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["DensitiesAmongDecoys", "TargetAmongDecoys"]

Density = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class TargetAmongDecoys:
    """A finite alphabet's target laws, decoy law and number of messages.

    Attributes:
        p0: law of the target's message under the dataset X, one probability per letter.
        p1: law of the target's message under the neighbour X' (the target's value replaced).
        q: law of each of the ``n - 1`` decoys. Its last letter may be a blank that the target
            never sends: a message that depends on no input.
        n: number of shuffled messages, the target's included.
    """

    p0: tuple[float, ...]
    p1: tuple[float, ...]
    q: tuple[float, ...]
    n: int

    def __post_init__(self) -> None:
        if not len(self.p0) == len(self.p1) == len(self.q):
            raise ValueError(
                f"p0, p1, q must have one length, got {len(self.p0)}, {len(self.p1)}, {len(self.q)}"
            )
        for name in ("p0", "p1", "q"):
            law = getattr(self, name)
            # as closely as the rows of a channel must add up to one
            if min(law) < 0 or abs(math.fsum(law) - 1.0) > 2e-9:
                raise ValueError(f"{name} must be a probability law, got sum {math.fsum(law)!r}")


@dataclass(frozen=True)
class DensitiesAmongDecoys:
    """A continuous alphabet's target densities, decoy density and number of messages.

    Attributes:
        p0: density of the target's message under the dataset X, a function of arrays.
        p1: the same under the neighbour X'.
        q: density of each of the ``n - 1`` decoys that are not blank; its integral is
            ``1 - blank``.
        blank: probability that a decoy is blank.
        n: number of shuffled messages, the target's included.
    """

    p0: Density
    p1: Density
    q: Density
    blank: float
    n: int
