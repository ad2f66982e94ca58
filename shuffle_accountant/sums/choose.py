"""The rule that chooses the way to sum up the messages of one pair, in one place."""

from __future__ import annotations

import math
from enum import Enum

from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.sums.lists import listable

__all__ = ["Way", "choose"]


class Way(Enum):
    """A way to bound the profile of a target among decoys; brackets name the one that answered."""

    LISTS = "lists"
    MOMENTS = "moments"
    NODES = "nodes"
    DOUBLING = "doubling"


def choose(q: Array, users: tuple[int, int], unevenness: float, tail: float) -> Way:
    """Choose the way by the first line of this table whose condition holds.

    | condition | way | file |
    | --- | --- | --- |
    | one number of messages, whose likely histograms are at most 2^17 | lists | `lists` |
    | one alpha, profile below 1e-50 and known within a factor 1e3 | moments | `letter_moments` |
    | no alpha needs more than 2^17 nodes | nodes | `nodes`, with `far_messages` |
    | otherwise | doubling | `heavy_tails`, on `doubling` |

    Lists are exact but for rounding and the tail, and one list serves all alpha. Moments bound a
    profile so far out from above, single messages from below (`letter_moments`): a factor 1000
    changes epsilon by a few percent there, and few sums are closer, none as fast. Nodes serve any
    number of messages, and all numbers in a range. Doubling has relative accuracy whatever the
    likelihood ratios are, but takes ten to a hundred times as long.

    Args:
        q: probabilities of the messages among decoys, shape (m,).
        users: least and largest number of messages n.
        unevenness: the most nodes that an alpha needs: the range of the sum over the standard
            deviation by which it may be smoothed; 0 where nothing is known yet.
        tail: probability that may be left out, the requested accuracy.
    """
    if users[0] == users[1] and listable(q, users[0], tail):
        return Way.LISTS
    return Way.NODES if unevenness < math.inf else Way.DOUBLING
