"""Rounds in which one user sends several messages: as many rounds of one message each.

Theorem (blocks). Of N shuffled messages m are the target's. The hockey-stick divergence between
any two datasets that differ in the target's m values is at most that of m independent rounds of
floor(N/m) messages with one of the target's each, by any theorem for such a round. *Proof.* Divide
the messages into m blocks of floor(N/m) with one message of the target in each, and tell the
observer all others. Shuffling every block and telling which message is in which block reveals more
than shuffling them all, because shuffling the whole undoes it. Blocks are independent. QED.

The same holds for m users whose data change at once. Adjacency: that of the theorem for one
message. Bound: upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from shuffle_accountant.losses.base import DominatingPair, PrivacyLoss
from shuffle_accountant.losses.combined.product import ProductLoss

__all__ = ["BlocksPair", "in_blocks"]


@dataclass(frozen=True)
class BlocksPair:
    """The product of the pairs of all blocks."""

    name: str
    loss: PrivacyLoss
    two_sided: bool


def in_blocks(block: DominatingPair, messages: int) -> DominatingPair:
    """The dominating pair of a round in which the target sends several messages.

    Args:
        block: pair of a round in which the target sends one message among floor(N/m).
        messages: number m of the target's messages, >= 1.
    """
    if messages == 1:
        return block
    loss = ProductLoss(((block.loss, messages),))
    return BlocksPair(f"{block.name}, blocks", loss, block.two_sided)
