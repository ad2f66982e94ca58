"""Memoised reports: a permanent answer, of which every round sends a fresh noisy copy."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.engine.trade_off import envelope_loss
from shuffle_accountant.losses.base import PrivacyLoss
from shuffle_accountant.losses.combined.product import ProductLoss
from shuffle_accountant.randomizers.base import FiniteRandomizer, LocalRandomizer
from shuffle_accountant.randomizers.channel import GeneralRandomizer
from shuffle_accountant.randomizers.registry import randomizer_from_dict
from shuffle_accountant.reductions.base import Pair
from shuffle_accountant.rounds.base import RoundOfParts, certified_at, needed, reduced_once
from shuffle_accountant.rounds.protocol import MAX_ROUNDS
from shuffle_accountant.rounds.shuffle import ShuffleRound

# Epsilons at which the bounds are asked for: twice as many make the bracket four times narrower.
_POINTS = 288
# Relative width of the brackets of the bounds there.
_TOLERANCE = 1e-3
# Points reach to where a bound is below this delta; smaller deltas are answered more loosely.
_LEAST = 1e-20
# An eps0 of the answers below which they are bounded as if nobody shuffled, nats: points of a
# profile would be too close for doubles.
_NOTHING = 1e-300
# Relative error of the alpha that a bound is asked at, some exponentials and their quotient.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class MemoisedRounds(RoundOfParts):
    """All rounds of a survey in which each user keeps one answer and sends noisy copies of it.

    User i draws ``permanent(value)`` once and sends ``instantaneous`` of that in every round, which
    is shuffled (RAPPOR's permanent and instantaneous responses). Two bounds hold if everybody does
    so: the permanent answers shuffled once, however many rounds there are; and the rounds of
    instantaneous responses, of which the permanent one hides a part. The envelope of both is taken.

    Adjacency: REPLACE_ONE, for binary values. The round stands for all of its ``rounds``.

    Args:
        permanent: what makes the memo, a binary randomizer with finite eps0.
        instantaneous: what sends it, a binary randomizer with finite eps0.
        users: who take part, >= 1, the colluding ones among them.
        rounds: number of rounds, >= 1.
        same_participants: whether the same users take part in all rounds, and no identifier links
            the messages of different rounds.
        colluding: users who work with the observer, fewer than all.
        smallest_pattern: where participants change: the fewest users whose pattern of
            participation is the target's, for any target; None leaves the first bound out.
        values_per_user: number of different values that a user has over time, >= 1.
        change_times: the rounds at which values change, the same for all users and public; needed
            for the memo to help users of several values.
    """

    kind: ClassVar[str] = "memoised"
    parts: ClassVar = {"permanent": randomizer_from_dict, "instantaneous": randomizer_from_dict}
    adjacency = Adjacency.REPLACE_ONE

    permanent: LocalRandomizer
    instantaneous: LocalRandomizer
    users: int
    rounds: int
    same_participants: bool
    colluding: int = 0
    smallest_pattern: int | None = None
    values_per_user: int = 1
    change_times: Iterable[int] | None = None

    def __post_init__(self) -> None:
        users = validate.integer(minimum=1, maximum=2**53, users=self.users)
        rounds = validate.integer(minimum=1, maximum=MAX_ROUNDS, rounds=self.rounds)
        pattern, times = self.smallest_pattern, self.change_times
        if pattern is not None:
            pattern = validate.integer(minimum=1, maximum=users, smallest_pattern=pattern)
        if times is not None:
            every = validate.items(change_times=times)
            times = tuple(sorted({validate.integer(minimum=1, change_times=one) for one in every}))
        self._hold(
            permanent=_binary("permanent", self.permanent),
            instantaneous=_binary("instantaneous", self.instantaneous),
            users=users,
            rounds=rounds,
            same_participants=validate.flag(same_participants=self.same_participants),
            colluding=validate.integer(minimum=0, maximum=users - 1, colluding=self.colluding),
            smallest_pattern=pattern,
            values_per_user=validate.integer(
                minimum=1, maximum=rounds, values_per_user=self.values_per_user
            ),
            change_times=times,
        )

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on memos, on who takes part, and on the shuffler; a sentence each."""
        who = (
            "The same users take part in every round"
            if self.same_participants
            else "As many users as stated take part in every round, and who does not depend on data"
        )
        values = (
            "The value of a user stays the same in all rounds"
            if self.values_per_user == 1
            else "No user has more different values than stated"
        )
        same = ("When values change is public and the same for all users",)
        return needed(
            "memoised",
            "Every user keeps one permanent answer for each value, drawn by the randomizer stated, "
            "and sends a fresh noisy copy of it in every round",
            who,
            values,
            *(() if self.change_times is None else same),
            "The shuffler removes who sent a message, in which order and when, afresh in every "
            "round; nothing links the messages of one user in different rounds, as a seed would",
            "No more users than stated as colluding work with the observer",
        )

    @property
    def people(self) -> int:
        """Number of people whose data are used."""
        return self.users

    @reduced_once
    def reduced(self) -> Pair:
        """The dominating pair of all rounds together."""
        honest = self.users - self.colluding
        fresh = ShuffleRound(self.instantaneous, users=honest)
        alone = fresh.reduced().loss
        composed: PrivacyLoss = ProductLoss(((alone, self.rounds),)) if self.rounds > 1 else alone
        if self.values_per_user > 1 and self.change_times is None:
            # memos do not hide when a value changes
            return Pair("memoised", composed)
        hidden = self.values_per_user * self.permanent.eps0
        if hidden < _NOTHING:
            unshuffled = ShuffleRound(GeneralRandomizer(eps0=hidden), users=1)
            return Pair("memoised", unshuffled.reduced().loss)
        profiles = [partial(_behind_memo, self, hidden, {})]
        alike = self.users if self.same_participants else self.smallest_pattern
        if alike is not None and self.values_per_user == 1 and alike > self.colluding:
            profiles.append(partial(_of_memos, self, alike - self.colluding, {}))
        most = min(hidden, 600.0)
        last = min(max(alone.deviation * math.sqrt(self.rounds), 1e-12), most)
        while last < most and min(profile(last)[1] for profile in profiles) > _LEAST:
            last = min(1.2 * last, most)
        losses = np.linspace(0.0, last, _POINTS)
        if last < hidden:
            losses = np.append(losses, hidden if hidden <= 600.0 else 2.0 * last)
        return Pair("memoised", envelope_loss(profiles, losses))


def _binary(name: str, randomizer: Any) -> LocalRandomizer:
    found: LocalRandomizer = validate.instance(LocalRandomizer, **{name: randomizer})  # type: ignore[type-abstract]
    inputs = found.inputs if isinstance(found, FiniteRandomizer) else None
    if inputs != 2 or not math.isfinite(found.eps0):
        raise ValueError(
            f"{name} must be a randomizer of two values with a finite eps0, such as "
            f"RandomizedResponse(categories=2, eps0=1.0), got {validate.shown(found)}"
        )
    return found


def _of_memos(
    one: MemoisedRounds, users: int, laws: dict[Hashable, Any], epsilon: float
) -> tuple[float, float]:
    """Delta of the memos, shuffled once: all rounds depend on how many there are of each."""
    if epsilon >= one.permanent.eps0:
        return 0.0, 0.0
    memos = ShuffleRound(one.permanent, users=users)
    found, _ = certified_at([(memos, 1)], _TOLERANCE, epsilon=epsilon, laws=laws)
    return found.lower, found.upper


def _behind_memo(
    one: MemoisedRounds, hidden: float, laws: dict[Hashable, Any], epsilon: float
) -> tuple[float, float]:
    """Delta of ``(u D0 + v D1, v D0 + u D1)``, D all rounds of instantaneous responses.

    With ``u/v = e^hidden`` it is ``(u - alpha v) delta_D(log beta)`` for ``alpha < u/v``, with
    ``beta = (alpha u - v)/(u - alpha v)``, and 0 beyond.
    """
    if epsilon >= hidden:
        return 0.0, 0.0
    # in units of u: 1 - e^(epsilon - hidden), and beta without cancellation
    rest = -math.expm1(epsilon - hidden)
    beta = epsilon + math.log(-math.expm1(-epsilon - hidden)) - math.log(rest)
    share = rest / (1.0 + math.exp(-hidden))
    error = _ROUNDING * (1.0 + beta)
    rounds = [(ShuffleRound(one.instantaneous, users=one.users - one.colluding), one.rounds)]
    below, above = (
        certified_at(rounds, _TOLERANCE, epsilon=moved, laws=laws)[0]
        for moved in (beta + error, max(beta - error, 0.0))
    )
    low, high = share * below.lower * (1.0 - _ROUNDING), share * above.upper * (1.0 + _ROUNDING)
    return min(low, 1.0), min(high, 1.0)
