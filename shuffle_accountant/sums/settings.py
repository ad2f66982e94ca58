"""Settings of sums: accuracy aimed for, widths of cells, limits on work, and bounds of errors.

Where a line states an error, roundings, a limit of doubles or what is left out, proofs rest on that
number; the others decide how wide brackets are and how long they take.
"""

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
        most_nodes: no row has more nodes, and no more of its frequencies are surveyed.
        fewest_nodes: every row may have this many nodes, whatever ``work`` is.
        left_out: left-out nodes, aliases, and the negative part of sums with far messages may each
            be this share of the width aimed for.
        shifts: exponents delta of the alias bounds, below and above theta, in inverse standard
            deviations of the tilted sum.
        ratio_error: relative error of likelihood ratios and of ``alpha - 1``.
        deep: a profile below this at a single alpha is bounded from moments and single messages.
        deep_ratio: least ratio of those lower and upper bounds.
    """

    block: int = 32
    work: float = 2.0**22
    most_nodes: float = 2.0**16
    fewest_nodes: float = 2.0**12
    left_out: float = 0.05
    shifts: tuple[float, ...] = (1.0, 1.6, 2.4, 3.4, 4.5, 6.0, 8.0)
    ratio_error: float = 64.0 * UNIT_ROUNDOFF
    deep: float = 1e-50
    deep_ratio: float = 1e-3


NODES = NodeSettings()


@dataclass(frozen=True)
class DoublingSettings:
    """Cells of laws that are summed by doubling, and of additions of one value.

    Attributes:
        sketch: a sum's distribution function is sketched from this many groups of atoms of each
            law, at as many places, before its cells are chosen.
        likeliest: sums of this many likeliest values of each law are edges of cells.
        widest: largest width of cells that may be asked for, in normal scores.
        most_cells: largest number of cells of one law, and of points of a lattice: laws that need
            a lattice of more points have all pairs of atoms added instead.
        heaviest: cells in heavy tails are narrower by at most the root of this.
        coarser: cells of one value that is added to a sum of n are ``sqrt(coarser n)`` times as
            wide as the sum's: it adds this part of the error that an addition adds.
        closer: spacing of a lattice over the width of cells, in deviations of the law; a sum moves
            to a wider lattice once its own spacing is less than this part of that one's.
        away_from_0: a sum is on a lattice if its longer summand has no value below this part of
            its mean.
        bits: numbers of values are rounded down to this many significant binary digits.
        worth_a_thread: products for which a thread is started: about a millisecond.
    """

    sketch: int = 80
    likeliest: int = 4
    widest: float = 0.05
    most_cells: int = 1 << 13
    heaviest: float = 4.0
    coarser: float = 0.1
    closer: float = 0.8
    away_from_0: float = 0.1
    bits: int = 7
    worth_a_thread: int = 1 << 20


DOUBLING = DoublingSettings()


@dataclass(frozen=True)
class HeavyTailSettings:
    """Which values of a heavy tail count as large, and how closely the others are summed.

    Attributes:
        least_width: least width of cells, in normal scores.
        large: shares of the size of the sum's mean, tried in turn: values above it are large. The
            last share is 0, for which all positive values are.
        small: part of the width aimed for that sums without a large value may add, and sums with
            several of them: else the share is not taken.
        growth: large values are gathered if their distances from the size of the sum's mean are
            within this factor of one another.
        nearest: large values are also gathered if that distance is below this part of the mean.
    """

    least_width: float = 0.005
    large: tuple[float, ...] = (0.5, 0.25, 0.125, 0.0625, 0.03125, 0.0)
    small: float = 0.1
    growth: float = 1.06
    nearest: float = 1e-3


HEAVY = HeavyTailSettings()


@dataclass(frozen=True)
class ChainSettings:
    """Cells of sums of correlated ratios, and nodes of their chain from above.

    Attributes:
        cells: part of the sum's variance that its cells may add.
        nodes: part of the chain's variance that its nodes may add.
        few: bins up to which both are so. For more, nodes add more in proportion to the number, and
            cells its square.
        coarsest: largest factor of what nodes add.
        lowered: most that nodes may lower a power's mean by, all distances together, for up to
            ``few`` bins and an epsilon of at most 1 nat; in proportion to a larger epsilon, up to
            four times for more bins.
        longest: largest distance of nodes, in nats.
        own_step: length of a step of the independent part, in its deviations.
        ring: factor of what cells and nodes of a ring may add: it is followed once for every value
            of a bin.
        own_error: relative errors of one step: of the probability of a normal's cell, and of the
            share of its upper node.
        far_cells: growth of far cells in width, over their distance from the last even one.
        even_epsilon: largest epsilon, nats, for which cells are of equal width up to where it is
            decided: farther out a sum is hardly more than one ratio, which wider cells hold.
        near: cells are of equal width up to this many times the sum at which the divergence is to
            be tight, and at least up to this many times the sum's mean.
        most_even: most cells of equal width.
        small_cells: width of cells for small sums, over the sum at which the divergence is to be
            tight.
        small_sums: cells for small sums are of equal width up to this many times that sum.
        parts: parts of a loop for each of its threads, as some take longer than others.
        cleared: bins after which cells of negligible mass are cleared.
    """

    cells: float = 1e-3
    nodes: float = 3e-3
    few: int = 50
    coarsest: float = 7.0
    lowered: float = 1e-3
    longest: float = 0.8
    own_step: float = 0.35
    ring: float = 4.0
    own_error: float = 1e-11
    far_cells: float = 0.05
    even_epsilon: float = 1.2
    near: float = 1.4
    most_even: int = 12_000
    small_cells: float = 0.1
    small_sums: float = 100.0
    parts: int = 4
    cleared: int = 4


CHAINS = ChainSettings()


@dataclass(frozen=True)
class ChainBelowSettings:
    """Nodes and cells of chains from below.

    Attributes:
        taken: deviation that rounding takes from the noise, in steps between nodes.
        step: step between nodes, in deviations of the chain's noise.
        longest: largest step, nats.
        apart: part of all variance that cells of the independent part may take.
        widest_apart: their largest length, in deviations of the part.
        few: number of bins for which widths are as stated. For fewer they are narrower, in
            proportion to the root of the number, and for more of them wider.
        finest: least factor of that.
        coarsest: largest factor of that.
        cells: part of the sum's variance that its cells may take.
        usual: deviations up to which nodes that reach so far are as close as stated; for deeper
            tails, down to 1e-300, they are farther apart. With all factors, rounding takes at most
            0.85 of the noise.
        scarce: probability up to which a cell is left out: its mean would lack digits, and may lie
            outside of it.
    """

    taken: float = 0.65
    step: float = 0.14
    longest: float = 0.5
    apart: float = 1e-3
    widest_apart: float = 1.0
    few: int = 30
    finest: float = 0.6
    coarsest: float = 2.5
    cells: float = 4e-3
    usual: float = 10.0
    scarce: float = 1e-290


CHAINS_BELOW = ChainBelowSettings()


@dataclass(frozen=True)
class TwoBandSettings:
    """Nodes and cells of two bands. For the order (Q, P), other values: small sums decide there.

    Attributes:
        nodes: what nodes may add to epsilon, nats, from above.
        nodes_below: what they may take from it, from below.
        other: in the order with the smaller epsilon nodes may move it by this many times as much,
            at most.
        cells: what cells may add to epsilon or take from it, nats.
        work: bins times cells times pairs of nodes beyond which nodes are farther apart: half a
            minute of a processor.
        coarsest: largest part of the sum's variance that cells may add.
        finest: least growth of far cells, as in `ChainSettings`, where they decide.
        even_epsilon: largest epsilon, nats, for which cells are of equal width up to where it is
            decided; beyond, as in `ChainSettings`.
        steep: epsilon grows about with this power of the ratios' deviations where sums decide.
        steep_alone: the same power where one ratio decides.
        steepest: largest growth of epsilon, nats, over that of the deviations, that steps between
            nodes are chosen for.
        smallest: least epsilon, nats, that widths are chosen for.
        dense: distance from the mean, in deviations, from which on steps grow with its square,
            where one ratio alone moves the sum little.
        densest: the same where one ratio decides.
        below: distance below 0, in deviations, from which on steps between nodes grow in the order
            (P, Q) where sums decide.
        below_alone: the same distance where one ratio decides.
        large: one ratio decides if at this score it is as large as the sum's deviation, and
            about at this score.
        least_power: smaller powers are not kept between scores farther apart, as shares of nodes
            would be lost to round-off: all scores are a step apart then.
        least_step: factor far above the round-off between steps that should be equal.
        single: ratios below this many cells are taken as the two edges next to them where sums
            leave the even cells, which neighbouring states share.
        off_nodes: values beyond the outermost nodes may have this many times the probability that
            may be left out, which the engine sets to a billionth of delta or less.
    """

    nodes: float = 1.4e-3
    nodes_below: float = 9e-4
    other: float = 7.0
    cells: float = 1.2e-3
    work: float = 1e11
    coarsest: float = 0.03
    finest: float = 0.02
    even_epsilon: float = 2.3
    steep: float = 2.3
    steep_alone: float = 4.0
    steepest: float = 9.0
    smallest: float = 0.05
    dense: float = 2.5
    densest: float = 4.6
    below: float = 1.0
    below_alone: float = 0.5
    large: float = 5.0
    least_power: float = 0.05
    least_step: float = 1.001
    single: int = 16
    off_nodes: float = 1e5


TWO_BANDS = TwoBandSettings()
