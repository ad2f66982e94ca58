"""The rule that chooses the way to sum up the messages of one pair, in one place."""

from __future__ import annotations

from enum import Enum

from shuffle_accountant.numerics.limits import LIMITS
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array
from shuffle_accountant.sums.lists import listable
from shuffle_accountant.sums.settings import NODES


class Way(Enum):
    """A way to bound the profile of a target among decoys; brackets name the one that answered."""

    LISTS = "lists"
    MOMENTS = "moments"
    NODES = "nodes"
    DOUBLING = "doubling"


def choose(
    q: Array,
    users: tuple[int, int],
    tail: float,
    *,
    known: tuple[float, float] = (0.0, 1.0),
    wide: bool = False,
) -> Way:
    """Choose the way by the first line of this table whose condition holds.

    | condition | way | file |
    | --- | --- | --- |
    | one number of messages, whose likely histograms are at most 2^17 | lists | `lists` |
    | one alpha, profile known to be below 1e-50, within a factor 1e3 | moments | `letter_moments` |
    | one alpha, the bounds from nodes are wide, at most 2^13 messages | doubling | `heavy_tails` |
    | otherwise | nodes | `nodes`, with `far_messages` |

    Lists are exact but for rounding and the tail, and one list serves all alpha. Moments bound a
    profile so far out from above, single messages from below: a factor 1000 changes epsilon by a
    few percent there, and few sums are closer, none as fast. Nodes serve any number of messages,
    and all numbers in a range. Doubling has relative accuracy whatever the likelihood ratios are,
    but takes ten to a hundred times as long, and minutes for more than 2^13 messages. It gains
    nothing where the errors of all messages' probabilities may add up to one, or the tail is below
    the range of doubles.

    Args:
        q: probabilities of the messages among decoys, shape (m,).
        users: least and largest number of messages n.
        tail: probability that may be left out, the requested accuracy.
        known: bounds of the profile at the single alpha asked for, from single messages and from
            moments; the trivial ones where several alpha are asked for.
        wide: whether a single alpha is asked for, and the bounds from nodes are wider than asked.
    """
    if users[0] == users[1] and listable(q, users[0], tail):
        return Way.LISTS
    if known[1] <= NODES.deep and known[0] >= NODES.deep_ratio * known[1]:
        return Way.MOMENTS
    accurate = users[1] * 16 * UNIT_ROUNDOFF <= 1.0 and tail >= LIMITS.underflow
    return Way.DOUBLING if wide and accurate and q.size <= NODES.most_doubled else Way.NODES
