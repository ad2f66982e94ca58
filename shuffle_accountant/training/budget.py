"""Whether further rounds fit a budget: asked at every step, brackets are computed rarely.

Fewer equal rounds are a post-processing of more, so one bracket decides for all smaller (or larger)
numbers. Of rounds that all differ: if everything so far fits the budget together with some further
rounds, the *grants*, then so do rounds that take the grants' places, each no worse than the grant
it uses up. Grants are rounds of slightly fewer users than those seen so far, in the same
proportions, and some of far fewer. The closer the budget, the fewer are granted at once; in the end
every step asks for a bracket of its own, and nothing is refused that fits.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache

from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.engine.classes import dominates
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["BudgetCache", "BudgetExceeded", "CohortBudget", "budget_cache"]

# Relative width of the bands of numbers of users: rounds of one band use the same grants.
_BAND = 0.04
# Share of the grants for rounds of fewer users than seen so far, down to half the fewest.
_RESERVE = 0.05
# Share of the estimated number of fitting rounds that is tried; fewest grants worth a bracket.
_SHARE, _LEAST = 0.95, 4
# Number of grants tried while the cost of a round is unknown; most brackets of a look ahead.
_FIRST, _TRIES = 16, 2
# Relative width of the brackets that are tried before those of the tolerance.
_WIDE = 0.016


class BudgetExceeded(RuntimeError):
    """Raised for a round that would exceed the budget; it was refused and not recorded."""


class BudgetCache:
    """Cache of the number of equal rounds known to fit a budget, and of a number known not to.

    A question that is open takes one bracket ahead of it, four times as far each time that fits and
    half as far else, and if that does not decide, one at it. A loop that asks at each of T steps
    computes of the order of log T brackets; all other questions are comparisons.
    """

    def __init__(self, round: Round, epsilon: float, delta: float, tolerance: float) -> None:
        self._round, self._epsilon, self._delta = round, epsilon, delta
        self._tolerance = tolerance
        self._fits, self._exceeds = 0, math.inf
        self._ahead = 0
        self._lock = threading.Lock()

    def exceeded_by(self, rounds: int) -> bool:
        """Whether the certified upper end of epsilon of ``rounds`` rounds is above the budget."""
        with self._lock:
            if self._fits < rounds < self._exceeds:
                ahead = min(self._ahead, 3 * rounds + 16, MAX_ROUNDS - rounds)
                if rounds + ahead < self._exceeds and self._probe(rounds + ahead):
                    self._ahead = 4 * ahead + 3
                else:
                    self._ahead = ahead // 2
            if self._fits < rounds < self._exceeds:
                self._probe(rounds)
            return rounds > self._fits

    def _probe(self, rounds: int) -> bool:
        accountant = FourierAccountant(tolerance=self._tolerance)
        spent = accountant.compose(self._round, count=rounds).epsilon(delta=self._delta)
        if spent <= self._epsilon:
            self._fits = rounds
            return True
        self._exceeds = rounds
        return False


@lru_cache(maxsize=256)
def budget_cache(round: Round, epsilon: float, delta: float, tolerance: float) -> BudgetCache:
    """The shared `BudgetCache` of these rounds and this budget; arguments as for the class."""
    return BudgetCache(round, epsilon, delta, tolerance)


class CohortBudget:
    """Budget of differing shuffle rounds, with grants: further rounds that are known to fit."""

    def __init__(self, epsilon: float, delta: float, tolerance: float) -> None:
        self._epsilon, self._delta, self._tolerance = epsilon, delta, tolerance
        # rounds by their users, increasing, and how many of each are left
        self._grants: list[tuple[ShuffleRound, int]] = []
        self._cost = 0.0  # of one further round, about, nats
        self._lock = threading.Lock()

    def exceeded_by(self, spent: Callable[[], Protocol], round: ShuffleRound, count: int) -> bool:
        """Whether ``count`` >= 1 further rounds, after all that ``spent`` gives, do not fit."""
        with self._lock:
            if self._grant_for(round, count) is not None:
                return False
            after = spent() + Protocol([(round, count)])
            for tolerance in (max(_WIDE, self._tolerance), self._tolerance):
                upper = self._upper(after, tolerance)
                if upper <= self._epsilon:
                    self._look_ahead(after, round, count, upper, tolerance)
                    return False
            return True

    def record(self, round: ShuffleRound, count: int) -> None:
        """Use up the grants of rounds that were recorded."""
        with self._lock:
            place = self._grant_for(round, count)
            if place is None:
                self._grants = []
            else:
                grant, left = self._grants[place]
                self._grants[place] = (grant, left - count)

    def _place(self, round: ShuffleRound) -> int:
        """Index behind the grants of no more users than a round has."""
        return bisect_right(self._grants, round.plain_users, key=lambda one: one[0].plain_users)

    def _grant_for(self, round: ShuffleRound, count: int) -> int | None:
        """Index of the grants of the most users, no more than the round's, with ``count`` left.

        None if these do not dominate the round.
        """
        place = self._place(round) - 1
        while place >= 0 and self._grants[place][1] < count:
            place -= 1
        return place if place >= 0 and _dominates(self._grants[place][0], round) else None

    def _look_ahead(
        self, after: Protocol, round: ShuffleRound, count: int, upper: float, tolerance: float
    ) -> None:
        """Grant as many rounds as a few brackets show to fit; if none does, change nothing."""
        shares, room = _shares(after, round), self._epsilon - upper
        ahead = int(_SHARE * room / self._cost) if self._cost > 0.0 else _FIRST
        ahead = min(ahead, MAX_ROUNDS - len(after))
        for _ in range(_TRIES):
            if ahead < _LEAST:
                break
            grants = _dealt(shares, ahead)
            found = self._upper(after + Protocol(grants), tolerance)
            self._cost = max(found - upper, 0.0) / ahead
            if found <= self._epsilon:
                self._grants = grants
                # and those that were asked about, until they are recorded
                self._grants.insert(self._place(round), (round, count))
                break
            # between what fits and what does not, by linear interpolation
            ahead = min(int(_SHARE * ahead * room / (found - upper)), ahead - 1)

    def _upper(self, protocol: Protocol, tolerance: float) -> float:
        accountant = FourierAccountant(tolerance=tolerance).compose(protocol)
        return float(accountant.epsilon(delta=self._delta))


def _dominates(grant: ShuffleRound, round: ShuffleRound) -> bool:
    """Whether a round certainly reveals no more than a grant."""
    if grant == round:
        return True
    worse, better = grant.member, round.member
    return worse is not None and better is not None and dominates(worse, better)


def _dealt(shares: list[tuple[ShuffleRound, float]], total: int) -> list[tuple[ShuffleRound, int]]:
    """``total`` grants in these shares; what rounding leaves goes to those of fewer users."""
    dealt, whole, part = [], 0, 0.0
    for grant, share in shares:
        part += share
        reached = min(math.ceil(part * total), total)
        if reached > whole:
            dealt.append((grant, reached - whole))
        whole = max(reached, whole)
    return dealt


def _shares(protocol: Protocol, round: ShuffleRound) -> list[tuple[ShuffleRound, float]]:
    """Rounds to grant, by increasing users, with their shares, which add up to 1.

    Each has slightly fewer users than the rounds of its band, and no smaller a chance to take part
    than any round.
    """
    seen: dict[int, int] = {}
    fraction, fewest, total = 0.0, round.plain_users, 0
    for one, count in protocol:
        if not isinstance(one, ShuffleRound) or one.randomizer != round.randomizer:
            continue
        band = math.floor(math.log(one.plain_users) / math.log1p(_BAND))
        seen[band] = seen.get(band, 0) + count
        fraction = max(fraction, one.plain_users / (one.population or one.plain_users))
        fewest, total = min(fewest, one.plain_users), total + count

    def grant(users: int) -> ShuffleRound:
        if fraction >= 1.0:
            return ShuffleRound(round.randomizer, users=users)
        # by more than a rounding
        population = int((1.0 - 1e-9) * users / fraction)
        return ShuffleRound(round.randomizer, users=users, population=max(population, users))

    shares = {grant(max(fewest // 2, 1)): _RESERVE}
    for band in sorted(seen):
        one = grant(max(math.floor(math.exp(band * math.log1p(_BAND))), 1))
        shares[one] = shares.get(one, 0.0) + (1.0 - _RESERVE) * seen[band] / total
    return list(shares.items())
