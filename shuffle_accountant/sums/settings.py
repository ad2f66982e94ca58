"""Settings of sums over nodes: what is left out, and in which sizes work is done."""

from __future__ import annotations

from dataclasses import dataclass

from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF


@dataclass(frozen=True)
class NodeSettings:
    """Accuracy targets and limits on work of sums over nodes.

    Attributes:
        block: neighbouring nodes that are kept or left out together.
        work: messages times kept nodes, and times frequencies surveyed, of all rows of a table:
            where that is too little, sigma is larger and bounds are wider.
        alone: ``work`` where there is a single alpha: 16 times as much still takes about a second.
        most_nodes: no row has more nodes, and no more of its frequencies are surveyed.
        fewest_nodes: every row may have this many nodes, whatever ``work`` is.
        left_out: left-out nodes and aliases may each be this share of the width aimed for.
        missed: the negative part of sums with far messages may be this share of it.
        undershoot: part of the width aimed for that the normal may take.
        at_once: messages times nodes in memory at once.
        cached: nodes whose terms are added up at once: they fit into a processor's cache.
        below: exponents delta of the alias bounds below theta, in inverse standard deviations of
            the tilted sum.
        above: exponents delta of the alias bounds above theta, in the same unit.
        unsplit: intervals of this many blocks are kept whole: to look at their halves would take as
            long as their nodes.
        half_turn: intervals of nodes are at most this many inverse standard deviations of a message
            long when blocks are searched for that matter.
        least_weight: tilted weights below this count as 0, which is part of the error of phi.
        ratio_error: relative error of likelihood ratios and of ``alpha - 1``.
        underflow: absolute error of products below the smallest normal double.
        deep: a profile below this at a single alpha is bounded from moments and single messages.
        deep_ratio: least ratio of those lower and upper bounds.
        most_doubled: largest message space that is doubled.
    """

    block: int = 16
    work: float = 2.0**22
    alone: float = 2.0**26
    most_nodes: float = 2.0**16
    fewest_nodes: float = 2.0**10
    left_out: float = 0.05
    missed: float = 0.05
    undershoot: float = 0.6
    at_once: int = 1 << 19
    cached: int = 1 << 13
    below: tuple[float, ...] = (0.7, 1.2, 1.8, 2.6, 3.6, 5.0, 7.0)
    above: tuple[float, ...] = (1.0, 2.0, 3.0, 4.2, 5.5, 7.5, 10.0)
    unsplit: int = 4
    half_turn: float = 1.5
    least_weight: float = 1e-20
    ratio_error: float = 64.0 * UNIT_ROUNDOFF
    underflow: float = 1e-305
    deep: float = 1e-50
    deep_ratio: float = 1e-3
    most_doubled: int = 1 << 13


NODES = NodeSettings()
