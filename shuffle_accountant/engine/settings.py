"""Numbers that steer how a question becomes a bracket: none of them decides whether it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Sizes of grids, and when to stop refining.

    Attributes:
        memory_limit: bytes that the numerical work may use at once, by default.
        bytes_per_cell: peak bytes of putting a loss on a grid, per cell; an atom takes four times
            as much at most.
        long_window: points that a transform takes some milliseconds for; longer windows are split,
            and tried on coarser grids first.
        many_losses: from this many different losses on, they are composed as rows of a matrix; a
            table pays for half as many that share it.
        fewest_members: families of fewer different rounds are not gathered into classes.
        finest_resolution: blocks of decoy counts are not made narrower than this relative width:
            about 1e8 atoms in the worst case.
        least_tail: a delta that is not known is taken to be this small at first; lighter tails of a
            composed law count as infinite losses.
        first_spacing: spacing of the first grid for few losses over the one that should do.
        aim: part of the allowed width of a bracket that the next grid aims for.
        most_grids: most grids that are tried for one question.
        few_grids: the same where finer grids help little: for rounds in classes, for lower ends
            alone, where an end stays 0 or infinite, for one round.
        stalled: if a finer grid leaves more than this part of the width, something else decides it.
        direct_cells: cells of the first grid of direct convolution: milliseconds; doubled twice.
        tilts: length of a ladder of tilts, for a composed law or the error of rare losses.
        negligible: part of delta that one round may leave out.
        rough: relative width of blocks while epsilon or delta of one round is located.
        kinks_apart: least distance of kinks of a trade-off curve, relative to the last one.
        profile_points: points of a privacy profile that several pairs share: at first, and after
            which no more are asked for.
    """

    memory_limit: int = 2**30
    bytes_per_cell: int = 256
    long_window: int = 1 << 17
    many_losses: int = 24
    fewest_members: int = 64
    finest_resolution: float = 2e-6
    least_tail: float = 1e-30
    first_spacing: float = 0.25
    aim: float = 0.5
    most_grids: int = 12
    few_grids: int = 3
    stalled: float = 0.95
    direct_cells: int = 2000
    tilts: int = 12
    negligible: float = 1e-14
    rough: float = 1e-3
    kinks_apart: float = 1e-10
    profile_points: tuple[int, int] = (7, 41)

    @property
    def most_points(self) -> int:
        """Points of the window of a sum that fit into ``memory_limit``."""
        return self.memory_limit // self.bytes_per_cell


SETTINGS = Settings()


@dataclass(frozen=True)
class GroupSettings:
    """How the profile of one person is looked at for what several persons lose together.

    Attributes:
        points: points of one person's profile: twice as many make the bracket four times narrower.
        share: points of the profile below this share of the answer have no influence on it.
        followed: applications of the curve whose kinks are followed exactly; later ones are met by
            the rates.
    """

    points: int = 96
    share: float = 1e-4
    followed: int = 6


GROUPS = GroupSettings()
