"""Many different rounds of one kind, gathered into classes.

Privacy is monotone in some coordinates of a round:

* *users*, at a fixed chance to take part: whoever sees one message of a decoy less sees less. (The
  decoys are i.i.d., so taking one away at random from the shuffled messages and telling which it
  was is the pair with one decoy less and that decoy, which tells nothing.) So more is more private.
* the *fraction* of a population that takes part: with P' = g P + (1 - g) Q the profile is convex in
  g and 0 at g = 0. So less is more private.
* *eps0*, where the randomizer R' of a smaller one is that of a larger one, R, followed by a kernel
  K. The blanket of R' is at least K of that of R, the minimum of mixtures being at least the
  mixture of minima; so K applied to every message, and blanks turned into messages now and then,
  makes the pair of R' from that of R. So less is more private.

Both orders of a pair are covered: all three are maps that are applied to both its laws. So a round
may be replaced, for the upper end, by one with no more users, no smaller fraction and no smaller
eps0, whether there is such a round or not, and for the lower end by the opposite. *Users at a fixed
population* are not monotone, and need not be: the two coordinates move apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.losses.base import DominatingPair
from shuffle_accountant.numerics.rounding import roundings

# Relative allowance for the roundings of eps0 and of fractions: far more than a few roundings, far
# less than any tolerance.
_NUDGE = roundings(2048.0)


class Family(Protocol):
    """Rounds that differ in users, in the fraction that takes part and in eps0 alone."""

    def __hash__(self) -> int:
        """By value."""

    def pair(self, users: int, fraction: float, eps0: float) -> DominatingPair:
        """The pair of a round of users >= 1, fraction in (0, 1], eps0 > 0 (nats), real or not."""


@dataclass(frozen=True, slots=True)
class Member:
    """A round as a point of its family.

    Attributes:
        family: everything that it shares with the other rounds of its family.
        users: messages in the round.
        fraction: chance to take part, good to a rounding.
        eps0: local privacy parameter, good to some roundings, nats, > 0, finite.
    """

    family: Family
    users: int
    fraction: float
    eps0: float

    def key(self, width: float) -> tuple[int, int, int]:
        """Index of its class, of this relative width, in each coordinate."""
        per = 1.0 / math.log1p(width)
        return (
            math.floor(math.log(self.users) * per),
            math.floor(math.log(self.fraction) * per),
            math.floor(math.log(self.eps0) * per),
        )


def dominates(worse: Member, better: Member) -> bool:
    """Whether a round certainly reveals as much as another of its family, coordinate by coordinate.

    Fractions and eps0 have an allowance for their roundings unless they are equal.
    """

    def no_less(first: float, second: float) -> bool:
        return first == second or first >= second * (1.0 + _NUDGE)

    return (
        worse.family == better.family
        and worse.users <= better.users
        and no_less(worse.fraction, better.fraction)
        and no_less(worse.eps0, better.eps0)
    )


class Composable(Protocol):
    """What classes need to know of a round."""

    @property
    def member(self) -> Member | None:
        """Its place in a family; None if it is in none."""

    def reduced(self) -> DominatingPair:
        """The round's own dominating pair."""


_Entry = tuple[Composable, int, Member]


@dataclass(frozen=True)
class Gathered:
    """The pairs composed for the upper and lower end, with counts, and whether both are exact.

    They are exact if they are the rounds' own.
    """

    above: tuple[tuple[DominatingPair, int], ...]
    below: tuple[tuple[DominatingPair, int], ...]
    exact: bool


def gathered(
    rounds: Sequence[tuple[Composable, int]], width: float, fewest: int = SETTINGS.fewest_members
) -> Gathered:
    """Gather the rounds of large families into classes; keep all others as they are.

    Args:
        rounds: distinct rounds with their counts, in any order.
        width: relative width of classes in each coordinate; 0 for the rounds themselves.
        fewest: families with fewer members than this stay as they are.
    """
    families: dict[Family, list[_Entry]] = {}
    alone: list[tuple[Composable, int]] = []
    for one, count in rounds:
        member = one.member if width > 0.0 and len(rounds) >= fewest else None
        if member is None:
            alone.append((one, count))
        else:
            families.setdefault(member.family, []).append((one, count, member))
    classes: list[tuple[str, _Spread, list[_Entry]]] = []
    for family, entries in families.items():
        found: dict[tuple[int, int, int], list[_Entry]] = {}
        if len(entries) >= fewest:
            for entry in entries:
                found.setdefault(entry[2].key(width), []).append(entry)
        else:
            alone += [entry[:2] for entry in entries]
        spread = _Spread.of([member for _, _, member in entries], width)
        for key, some in found.items():
            if len(some) == 1:
                alone.append(some[0][:2])
            else:
                classes.append((f"{family!r} {key}", spread, some))
    # a fixed order, so that the order of composition does not even change the rounding
    own = [(one.reduced(), count) for one, count in sorted(alone, key=lambda item: repr(item[0]))]
    above, below = list(own), list(own)
    for _, spread, some in sorted(classes, key=lambda item: item[0]):
        count = sum(count for _, count, _ in some)
        points = [member for _, _, member in some]
        above.append((spread.pair(points, worst=True), count))
        below.append((spread.pair(points, worst=False), count))
    return Gathered(tuple(above), tuple(below), exact=not classes)


@dataclass(frozen=True)
class _Spread:
    """Coordinates that all members of a family share, if any, and the width of its classes.

    A class is replaced by the ends of its interval, not by its extreme members, so that one member
    more changes nothing. Where a family agrees, its own value stands.
    """

    width: float
    fraction: float | None
    eps0: float | None

    @classmethod
    def of(cls, members: Sequence[Member], width: float) -> _Spread:
        """The spread of a family with these members."""
        fractions = {member.fraction for member in members}
        parameters = {member.eps0 for member in members}
        return cls(
            width=width,
            fraction=fractions.pop() if len(fractions) == 1 else None,
            eps0=parameters.pop() if len(parameters) == 1 else None,
        )

    def pair(self, points: Sequence[Member], *, worst: bool) -> DominatingPair:
        """A pair that dominates all members of a class or (not ``worst``) that all dominate."""
        key, step = points[0].key(self.width), math.log1p(self.width)
        low, high = ([math.exp((place + end) * step) for place in key] for end in (0, 1))
        (fewest, *_), (_, fraction, eps0) = (low, high) if worst else (high, low)
        near, far, sign = (min, max, 1.0) if worst else (max, min, -1.0)

        def outwards(same: float | None, edge: float, extreme: float) -> float:
            """The edge or shared value, at least as far out as the extreme, moved by `_NUDGE`."""
            return far(edge if same is None else same, extreme) * (1.0 + sign * _NUDGE)

        return points[0].family.pair(
            near(math.ceil(fewest), near(point.users for point in points)),
            min(outwards(self.fraction, fraction, far(x.fraction for x in points)), 1.0),
            outwards(self.eps0, eps0, far(point.eps0 for point in points)),
        )
