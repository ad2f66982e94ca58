"""Settings of laws on grids: none of them decides whether a bound holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LatticeSettings:
    """Memory of transforms, and what is not worth its digits.

    Attributes:
        bytes_per_point: peak memory of a tilted sum per point of its window: about 60 bytes as
            measured by the benchmarks, with a margin.
        far_less: chords begin at the bottom if the top cell has less than this part of the bottom
            one's mass: mass left at the other end is rounded to first order.
        mirrored: largest loss, nats, for which they may: beyond, exponentials lose digits.
        unresolved: frequencies at which the logarithm of the spectrum is at most this are not
            resolved.
    """

    bytes_per_point: int = 72
    far_less: float = 0.01
    mirrored: float = 30.0
    unresolved: float = -60.0


LATTICE = LatticeSettings()
