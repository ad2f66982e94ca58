"""DP-SGD's epochs when each record is dealt to one step, or to a few: balls and bins."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.losses.settings import GAUSSIAN
from shuffle_accountant.losses.steps.mean_ratio import RatioSource
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.reductions import allocation as reductions
from shuffle_accountant.reductions.base import Pair
from shuffle_accountant.rounds import mechanisms
from shuffle_accountant.rounds.base import RoundOfParts, needed, reduced_once
from shuffle_accountant.rounds.mechanisms import GaussianMechanism, LaplaceMechanism, Mechanism
from shuffle_accountant.rounds.pld import PldRound

MAX_STEPS = 10**9
# Most records of a user: in one bin, and in independent ones, where 12 have 77 patterns.
MOST_RECORDS, MOST_PATTERNS = 10_000, 12


@dataclass(frozen=True)
class RandomAllocation(RoundOfParts):
    """One epoch of ``steps`` steps in which every record takes part in one, chosen at random.

    Every record's step is drawn uniformly and independently of the others', so batches vary in
    size and some may be empty; what is divided by a batch's size must be divided by the expected
    size. Later steps may depend on the outputs of earlier ones.

    Adjacency: zero-out, one record against a null record that contributes nothing. Answers hold for
    both orders, record removed and record added.

    Several epochs with a fresh deal each are several rounds. Going through *one* deal several times
    is ``passes``, a different mechanism with a different answer.

    Args:
        mechanism: one step: a `GaussianMechanism`, `LaplaceMechanism` or `PureMechanism`, or a
            `PldRound` for any other. A GaussianMechanism may have a noise multiplier for each step.
            Of a PldRound the table for "remove" is used; its distribution must be that of the
            mechanism under zero-out and must bound it for all alpha >= 0, which a pessimistic
            distribution of dp_accounting does.
        steps: number t of steps, 1 to 1e9.
        selected: number k of steps that use a record, a uniformly chosen subset of that size. For k
            > 1 the bracket encloses the product of k blocks, an upper bound.
        released: if given, only the outputs of this many steps are seen, a number that must have
            been fixed beforehand: a stop that looks at the outputs pays for the whole epoch, and
            the rest of the epoch is no second round.
        passes: how often the same deal is gone through.
        records_per_user: number m of records that one user owns at most, each clipped by itself;
            the privacy is that of the user, all of whose records are zeroed out. Gaussian steps, or
            Laplace steps with ``together``; at most 12 records in independent bins.
        together: whether all records of a user are dealt to one step.

    Raises:
        ValueError: the steps' likelihood ratios leave the range of double precision.
    """

    kind: ClassVar[str] = "allocation"
    parts: ClassVar = {"mechanism": mechanisms.step_from_dict}
    later: ClassVar = ("records_per_user", "together")
    adjacency = Adjacency.ZERO_OUT

    mechanism: Mechanism | PldRound
    _: KW_ONLY
    steps: int
    selected: int = 1
    released: int | None = None
    passes: int = 1
    records_per_user: int = 1
    together: bool = False

    def __post_init__(self) -> None:
        mechanism = mechanisms.zero_out_step(self.mechanism, scheduled=True)
        steps = validate.integer(minimum=1, maximum=MAX_STEPS, steps=self.steps)
        selected = validate.integer(minimum=1, maximum=steps, selected=self.selected)
        passes = validate.integer(minimum=1, maximum=10**6, passes=self.passes)
        released = self.released
        if released is not None:
            released = validate.integer(minimum=1, maximum=steps, released=released)
            if selected > 1 or passes > 1:
                raise ValueError(
                    "released is for one pass over one selected step, got "
                    f"released={released}, selected={selected}, passes={passes}"
                )
        together = validate.flag(together=self.together)
        records = validate.integer(
            minimum=1, maximum=MOST_RECORDS, records_per_user=self.records_per_user
        )
        if records > 1 and (selected, released, passes) != (1, None, 1):
            raise ValueError(
                "records_per_user must be 1 with selected, released or passes, got "
                f"records_per_user={records}"
            )
        joint = GaussianMechanism | LaplaceMechanism if together else GaussianMechanism
        if records > 1 and not isinstance(mechanism, joint):
            raise ValueError(
                "records_per_user must be 1 but for a GaussianMechanism, or a LaplaceMechanism "
                f"with together=True, got {records} with {mechanism!r:.80}"
            )
        if records > MOST_PATTERNS and not together:
            raise ValueError(
                f"records_per_user must be at most {MOST_PATTERNS} with together=False, got "
                f"{records}"
            )
        self._hold(
            steps=steps,
            selected=selected,
            released=None if released == steps else released,
            passes=passes,
            records_per_user=records,
            together=together and records > 1,  # equal rounds are to be equal values
        )
        if self._schedule is None:
            # refuses what is out of range now rather than later
            mechanisms.step_ratio(mechanism, passes, Bound.PESSIMISTIC)
            return
        count, least = len(self._schedule), min(self._schedule) / math.sqrt(passes)
        if least < GAUSSIAN.least_sigma:
            raise ValueError(
                f"noise_multiplier of single steps over the root of passes={passes} must be at "
                f"least {GAUSSIAN.least_sigma}, got {least!r}"
            )
        if count != steps:
            raise ValueError(
                f"noise_multiplier must be one number, or one for each of the steps={steps}, got "
                f"{count}"
            )
        if selected > 1 or records > 1:
            raise ValueError(
                "noise_multiplier must be one number with selected or records_per_user above 1, "
                f"got {count}"
            )

    @property
    def _schedule(self) -> tuple[float, ...] | None:
        """The noise multiplier of each step; None if all steps are alike."""
        return self.mechanism.schedule if isinstance(self.mechanism, GaussianMechanism) else None

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on how records are dealt to steps, and on a step; a sentence each."""
        theorem = "allocation" if self.selected == 1 else "allocation, blocks"
        dealt = [
            "Every record is dealt to its steps uniformly at random and independently of the other "
            "records, and the deal stays hidden; several epochs are dealt anew, but for passes"
        ]
        if self.records_per_user > 1:
            theorem = "allocation of several records"
            place = "in one bin" if self.together else "in bins of their own, independently"
            dealt.append(
                f"No user owns more records than stated, which are dealt {place}, and each record "
                "is clipped by itself"
            )
        if self.released is not None:
            dealt.append("How many steps of the epoch are released was fixed beforehand")
        return needed(theorem, *dealt) + self.mechanism.conditions

    @reduced_once
    def reduced(self) -> Pair:
        """The dominating pair: "allocation", or "allocation, blocks" for several selected steps."""
        if self._schedule is not None:
            seen = self._schedule[: self.released or self.steps]
            return reductions.allocation_of_unequal(seen, self.steps, self.passes)
        if self.records_per_user > 1:
            joint = partial(_joint, self.mechanism)
            if not self.together:
                return reductions.allocation_of_several(joint, self.steps, self.records_per_user)
            pair = reductions.allocation(joint(self.records_per_user), self.steps, self.steps)
            return Pair("allocation of several records", pair.loss)
        ratio = partial(mechanisms.step_ratio, self.mechanism, self.passes)
        if self.selected > 1:
            return reductions.allocation_in_blocks(ratio, self.steps, self.selected)
        return reductions.allocation(ratio, self.steps, self.released or self.steps)


def _joint(mechanism: Mechanism | PldRound, records: int) -> reductions.Ratio:
    """Law of the likelihood ratio of a step that several records of a user are in."""

    def ratio(side: Bound) -> RatioSource:
        # less noise reveals more
        outward = 0.0 if side is Bound.PESSIMISTIC else math.inf
        if isinstance(mechanism, GaussianMechanism):
            noise = mechanism.sigma / records
            noise = noise if records == 1 else math.nextafter(noise, outward)
            return mechanisms.step_ratio(GaussianMechanism(noise_multiplier=noise), 1, side)
        assert isinstance(mechanism, LaplaceMechanism)
        scale = math.nextafter(mechanism.scale / records, outward)
        return mechanisms.step_ratio(LaplaceMechanism(scale=scale), 1, side)

    return ratio
