"""Settings of losses: widths of cells, numbers of points, limits on work, and bounds of errors.

Those of messages' profiles are in `losses.alphabets.settings`.

Where a line states an error, roundings, a limit of doubles or what is left out, proofs rest on that
number; the others decide how wide brackets are and how long they take.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class MeanRatioSettings:
    """How means of likelihood ratios are put into cells. Widths are in normal scores.

    Attributes:
        least_width: least width of cells: narrower ones would take more than half a second.
        shallow: depth of tails (powers of ten) from which on cells are wider, as losses are larger.
        fine: resolutions below this ask for cells half as wide.
        alone: width of the cells of a single ratio (n = 1).
        subnormal: upper bound of what products below the smallest normal double lose in all pairs
            and additions.
        sure: relative width of a bracket that is used without the distribution of the sum.
        most_cells: largest number of cells of the distribution of one ratio.
    """

    least_width: float = 0.0103
    shallow: int = 20
    fine: float = 1.2e-5
    alone: float = 0.001
    subnormal: float = 1e-295
    sure: float = 1e-6
    most_cells: int = 1 << 15


MEAN_RATIO = MeanRatioSettings()


@dataclass(frozen=True)
class NullCloneSettings:
    """How steps with null clones are planned and tabulated. Widths are in normal scores.

    Attributes:
        odds_step: spacing of the lattice of p, in log-odds.
        fewest: smallest expected number of clones on the lattice of p, and of steps that are no
            clones: fewer change nothing.
        width: width of the cells of the final sums, times the root of the number of doublings.
        rough_step: distance of the points of the rough look that makes the plan, relative to the
            loss and its deviation.
        chord: share of epsilon that chords between the profile's points may add.
    """

    odds_step: float = 1.0 / 64.0
    fewest: float = 0.005
    width: float = 0.05
    rough_step: float = 0.15
    chord: float = 2.5e-5


NULL_CLONES = NullCloneSettings()


@dataclass(frozen=True)
class AntipodalSettings:
    """How steps of values with both signs are tabulated. Widths are in normal scores.

    Attributes:
        width: width of the cells of one value and of partial sums, and half the distance of the
            thresholds that the largest value is compared with.
        least_sigma: with less noise than this, values are so far apart that the largest alone
            decides.
        growth: distance of the profile's points relative to the loss and its deviation.
    """

    width: float = 0.02
    least_sigma: float = 0.1
    growth: float = 0.0015


ANTIPODAL = AntipodalSettings()


@dataclass(frozen=True)
class ThresholdSettings:
    """How thresholded numbers of users are scanned and bounded. K is the threshold, p the rate.

    Attributes:
        reach: numbers of others are scanned up to this multiple of K/p.
        rows: no more of them are scanned than the larger of this number and a multiple of K.
        rare: factor by which the deviation of the loss is raised: few rounds are decided by rare
            large losses.
        rough: cells of losses of one sign in approximations for many rounds.
        rough_top: largest loss in these, in rough epsilons.
        most: most numbers in a table of tails; with larger ones there are no moments, so as not to
            take long.
        bound_error: relative error of a bound made of moments, in roundings.
        lost: bound on the mass that the table of tails leaves out or loses to underflow.
    """

    reach: float = 4.0
    rows: int = 3000
    rare: float = 10.0
    rough: int = 2048
    rough_top: float = 4.0
    most: int = 4_000_000
    bound_error: float = 2.0**26
    lost: float = 1e-150


THRESHOLDS = ThresholdSettings()


@dataclass(frozen=True)
class CorrelatedSettings:
    """How sums of ratios of neighbouring bins, which are correlated, are bounded.

    Attributes:
        loose: width of cells of lower ends that are not exact, in normal scores: covariances decide
            there.
        large: epsilon, in nats, from which on the order (Q, P) has cells of its own, for small
            sums.
        most_of_line: size of blocks of a line of two bands from below.
        far: ratio alpha about which lower ends are tight.
        far_of_block: largest sum of a block about which they are, in means of that sum.
        coarse: how coarse a first look at a chain is, up to ``few`` bins.
        few: for more bins than this it is coarser in proportion.
        coarse_pairs: factor of what nodes and cells of two bands may add in a first look.
        usual: the delta about which bounds are tight.
        of_tail: delta over the probability that may be left out, roughly.
        least_look: smallest delta of a first look.
        factor: width of the cells of one node's ratio, in normal scores of it: a hundredth of the
            variance's part that such cells add.
    """

    loose: float = 0.02
    large: float = 1.0
    most_of_line: int = 128
    far: float = math.exp(1.0)
    far_of_block: float = 6.0
    coarse: float = 8.0
    few: int = 250
    coarse_pairs: float = 16.0
    usual: float = 1e-6
    of_tail: float = 1e11
    least_look: float = 1e-30
    factor: float = 0.08


CORRELATED = CorrelatedSettings()


@dataclass(frozen=True)
class ProductRatioSettings:
    """How products of ratios of several passes are put on a lattice.

    Attributes:
        most: most different deviations that are added up as they are; more than that are gathered
            in cells of equal ratios first, which costs the bracket half a cell's width.
        width: width of the cells of one ratio in normal scores.
        spacing: spacing of the lattice, in deviations of one ratio's logarithm under P.
    """

    most: int = 32
    width: float = 0.002
    spacing: float = 0.008


PRODUCT_RATIO = ProductRatioSettings()


@dataclass(frozen=True)
class GaussianSettings:
    """Limits of Gaussian steps, and the accuracy of their cells.

    Attributes:
        least_sigma: with less noise than this, ratios leave the range of doubles.
        widest: largest width of cells, in normal scores.
        nodes: nodes of the quadrature in a cell. A rule of m nodes is off by (z w)^(2m) (m!)^4 /
            ((2m + 1) (2m)!^3) on a cell of width w at score z: at most 1e-18.
    """

    least_sigma: float = 0.05
    widest: float = 0.05
    nodes: int = 8


GAUSSIAN = GaussianSettings()


@dataclass(frozen=True)
class MixedGaussianSettings:
    """Errors of profiles of mixed Gaussians.

    Attributes:
        mass: relative error of a mass of the normal law from `log_ndtr`, with the exponential and
            with that of the score s that cuts it, in roundings, over ``1 + s^2``.
        halvings: halvings of the interval that holds a threshold: more than a double has bits.
    """

    mass: float = 384.0
    halvings: int = 80


MIXED_GAUSSIANS = MixedGaussianSettings()


@dataclass(frozen=True)
class BinarySettings:
    """How atoms of two letters are listed.

    Attributes:
        tiny: logarithm below which numbers are about to lose digits.
        at_once: most atoms that are listed at once: a piece fits into a processor's cache.
        tabled: atoms of one law from which on making a table takes no longer than listing them.
        listed: atoms of one law up to which making a table takes no longer than adding up cells.
    """

    tiny: float = -690.0
    at_once: int = 1 << 17
    tabled: int = 1 << 15
    listed: int = 1 << 20


BINARY = BinarySettings()


@dataclass(frozen=True)
class TailSettings:
    """How values of R of one parity and sign are listed.

    Attributes:
        listed: largest number of values that are listed one by one; more of them share cells.
        shared: number of cells that they share, about.
    """

    listed: int = 1 << 21
    shared: int = 1 << 16


TAIL = TailSettings()


@dataclass(frozen=True)
class MixedResponseSettings:
    """How counts of mixed responses are gathered in blocks.

    Attributes:
        share: blocks are wider by one over this power of their probability relative to the
            likeliest.
        few: up to this number of counts (of J, or of C), blocks do not widen where they are rare;
            those of C are single counts.
    """

    share: float = 0.25
    few: int = 256


MIXED_RESPONSES = MixedResponseSettings()


@dataclass(frozen=True)
class CloneTableSettings:
    """Limits of tables with one row for each number of clones.

    Attributes:
        most_cells: cells of a row that hold mass; with more, losses are put on grids one by one.
        most_counts: expected counts of clones beyond which rows take longer than losses one by one.
        rows: number of rows that are made, and kept, at once.
    """

    most_cells: int = 1 << 13
    most_counts: float = 2.0**27
    rows: int = 128


CLONE_TABLE = CloneTableSettings()


@dataclass(frozen=True)
class ZeroOutSettings:
    """Limits of reports that are close to another up to delta0, and points of their profiles.

    Attributes:
        largest_eps0: largest eps0, nats: with larger ones the others hide nothing.
        fewest: fewest points of the profile, evenly apart up to eps0: both bounds cross between two
            of them.
    """

    largest_eps0: float = 300.0
    fewest: int = 48


ZERO_OUT = ZeroOutSettings()


@dataclass(frozen=True)
class CountSettings:
    """Which counts are listed and added up one by one, and how they are grouped.

    Attributes:
        least: counts less likely than this, relative to the mode, are cut off and bounded by a
            series.
        most_listed: largest number of counts listed on either side of the mode; more are refused.
        added: largest number of counts whose probabilities are added one by one; else tails are
            subtracted.
    """

    least: float = 1e-60
    most_listed: int = 2**22
    added: int = 200_000


COUNTS = CountSettings()


@dataclass(frozen=True)
class TabulatedSettings:
    """Which tables of losses are accepted.

    Attributes:
        excess: largest excess of the total mass over 1. Tables of other libraries carry their
            round-off: composing 1e5 cells a thousand times adds 1e-5.
        largest: largest size of a loss, nats: larger ones may as well be infinite, as e^-loss is 0
            long before.
    """

    excess: float = 1e-3
    largest: float = 1e6


TABULATED = TabulatedSettings()


@dataclass(frozen=True)
class CombinedSettings:
    """Cells of losses, of likelihood ratios and of counts that are put together.

    Attributes:
        most_cells: largest number of cells of a sum: direct convolution is quadratic in them.
        limited: a mixture's accuracy is limited if that of parts with this probability is: a finer
            grid would not help it.
    """

    most_cells: int = 4096
    limited: float = 0.1


COMBINED = CombinedSettings()


@dataclass(frozen=True)
class StepSettings:
    """Limits of steps with bounded or tabulated losses.

    Attributes:
        largest_loss: largest size of a log-ratio allowed, nats, so that sums of ratios stay within
            doubles.
        cells: cells up to a loss x are as wide as they are asked to be, or x over this number:
            where the profile falls like e^(-50), that costs it (50/2000)^2 / 8 of its size.
    """

    largest_loss: float = 500.0
    cells: int = 2000


STEPS = StepSettings()
