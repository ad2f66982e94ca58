# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Records that are dealt anew into the batches of every epoch, and what a deal costs.

All of a deal's state is in the batch sampler, and none of it in the loader: Opacus'
`BatchMemoryManager` makes a loader of its own from the sampler. Who knows the deal knows which step
used a record, so it is a secret, and it comes from a generator of its own: ``torch.manual_seed``
does not govern it. The accountant, which Opacus calls "allocation", has one entry for every deal.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.accountants import register_accountant
from torch.utils.data import Sampler

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import epsilon
from shuffle_accountant.randomizers.checks import generator
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.attained import attained_epsilon
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.batches import ShuffledBatches
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.training.opacus.shared import CertifiedAccountant, require_plain

# Each record in a step of its own, or all records shuffled into batches of one size.
SAMPLINGS = ("allocation", "shuffle")
MOST_STEPS = 10**9


@dataclass(frozen=True, kw_only=True)
class DealtEpoch:
    """The released ones of the steps of one deal.

    The noise multiplier is that of all steps, or of an allocation one for each.
    ``records_per_user`` is the most records that one user owns, if the unit of privacy is a user,
    and None if it is one record, as for "shuffle".
    """

    sampling: str
    noise_multiplier: float | tuple[float, ...]
    steps: int
    released: int
    records_per_user: int | None = None

    def __post_init__(self) -> None:
        steps = validate.integer(minimum=1, maximum=MOST_STEPS, steps=self.steps)
        if self.records_per_user is not None:
            most = MOST_STEPS if self.sampling == "allocation" else 0
            validate.integer(minimum=1, maximum=most, records_per_user=self.records_per_user)
        vars(self).update(
            sampling=validate.choice(SAMPLINGS, sampling=self.sampling),
            noise_multiplier=noise_multipliers(self.noise_multiplier, steps, self.sampling),
            steps=steps,
            released=validate.integer(minimum=1, maximum=steps, released=self.released),
        )

    @property
    def round(self) -> Round:
        """The round to account for; the whole epoch, a bound for any part, if none is known."""
        if self.sampling == "shuffle":
            assert isinstance(self.noise_multiplier, float)
            return ShuffledBatches(noise_multiplier=self.noise_multiplier, steps=self.steps)
        step = GaussianMechanism(noise_multiplier=self.noise_multiplier)
        if self.whole:
            owned = self.records_per_user or 1
            return RandomAllocation(step, steps=self.steps, records_per_user=owned)
        return RandomAllocation(step, steps=self.steps, released=self.released)

    @property
    def whole(self) -> bool:
        """Whether a part of the epoch costs as much as all of it."""
        return self.sampling == "shuffle" or (self.records_per_user or 1) > 1


def noise_multipliers(
    given: float | Sequence[float], steps: int, sampling: str
) -> float | tuple[float, ...]:
    """The noise multiplier, finite and > 0, of all steps of a deal, or of an allocation's each."""
    if isinstance(given, str) or not (isinstance(given, Sequence) or validate.several(given)):
        return validate.positive(noise_multiplier=given)
    each = tuple(validate.positive(noise_multiplier=one) for one in given)
    if sampling != "allocation" or len(each) != steps:
        raise ValueError(
            "noise_multiplier must be one number, or with sampling='allocation' one for each of "
            f"the steps={steps}, got {len(each)} with sampling={sampling!r}"
        )
    return each


class AllocationAccountant(CertifiedAccountant):
    """Accounts for epochs of DP-SGD whose records are dealt into batches.

    A deal that is broken off counts as the steps it released, and the next one as a deal of its
    own: two halves of two deals are no whole one.

    Attributes:
        history: a `DealtEpoch` for every deal of which at least one step was released.
    """

    name: ClassVar[str] = "allocation"
    engine: ClassVar[str] = "AllocationPrivacyEngine"
    fields: ClassVar[tuple[str, ...]] = ("sampling", "noise_multiplier", "steps", "released")
    optional: ClassVar[frozenset[str]] = frozenset({"records_per_user"})

    history: list[DealtEpoch]

    def __len__(self) -> int:
        """Steps released so far."""
        return sum(epoch.released for epoch in self.history)

    @property
    def protocol(self) -> Protocol:
        """Everything recorded so far."""
        return Protocol([(epoch.round, 1) for epoch in self.history])

    def step(
        self,
        *,
        noise_multiplier: float | Sequence[float],
        steps: int | None = None,
        sampling: str = "allocation",
        records_per_user: int | None = None,
        begins_deal: bool = True,
        sample_rate: float | None = None,
    ) -> None:
        """Record one step.

        Args:
            noise_multiplier: deviation of the noise over the largest norm, finite, > 0, or one for
                each step of the deal.
            steps: of the whole deal, >= 1.
            sampling: "allocation" or "shuffle".
            records_per_user: most records that one user owns, if the unit is a user.
            begins_deal: whether it is the first step of its deal.
            sample_rate: of Poisson sampling, which this does not account for.

        Raises:
            ValueError: Poisson sampling, a step that continues another deal than the last one, or
                steps of records and of users in one history. Nothing is recorded.
        """
        if sample_rate is not None:
            raise ValueError(
                "the accountant 'allocation' is for records that are dealt to the steps of an "
                f"epoch, got Poisson sampling with sample_rate={sample_rate!r}: use "
                "AllocationPrivacyEngine"
            )
        begins = validate.flag(begins_deal=begins_deal)
        first = DealtEpoch(
            sampling=sampling,
            noise_multiplier=noise_multiplier,  # type: ignore[arg-type]
            steps=validate.integer(minimum=1, maximum=MOST_STEPS, steps=steps),
            released=1,
            records_per_user=records_per_user,
        )
        self.require_unit(records_per_user)
        if begins:
            self.history.append(first)
            return
        last = self.history[-1] if self.history else None
        if last is None or replace(last, released=1) != first or last.released == last.steps:
            raise ValueError(f"begins_deal must be True for the first step of {first!r}")
        self.history[-1] = replace(last, released=last.released + 1)

    def require_unit(self, records_per_user: int | None) -> None:
        """Refuse steps of users after steps of records, or the other way round.

        A user may own several records: what was recorded for one record is less than a user loses.
        """
        of_records = bool(self.history) and self.history[-1].records_per_user is None
        if self.history and of_records is not (records_per_user is None):
            unit = "a record" if of_records else "a user"
            raise ValueError(
                f"user_ids must be given for all steps or for none: those recorded are of {unit}, "
                f"got records_per_user={records_per_user!r}"
            )

    @staticmethod
    def written(entry: DealtEpoch) -> dict[str, Any]:
        """An entry of the history in plain JSON types."""
        state = asdict(entry)
        if not isinstance(entry.noise_multiplier, float):
            state["noise_multiplier"] = list(entry.noise_multiplier)
        if entry.records_per_user is None:  # written as they always were
            del state["records_per_user"]
        return state

    @staticmethod
    def read(entry: dict[str, Any]) -> DealtEpoch:
        """Inverse of `written`."""
        return DealtEpoch(**entry)


# forced, so that the module can be reloaded
register_accountant(AllocationAccountant.mechanism(), AllocationAccountant, force=True)


@dataclass(eq=False)
class Deal:
    """The assignment of records to the steps of one epoch; it must stay secret."""

    order: NDArray[np.int64]  # records, step by step
    sizes: NDArray[np.int64]  # number of records of each step
    released: int = 0  # steps that were made already
    noise_multiplier: float | tuple[float, ...] | None = None  # of these, or of each step
    yielded: int = field(init=False)  # steps whose batches were handed out
    live: bool = False  # whether an iterator hands them out
    ended: bool = False  # whether that iterator went to the end
    allowed: int | None = None  # steps that the budget allows, or None if that is not known yet

    def __post_init__(self) -> None:
        self.yielded = self.released
        self._ends = np.cumsum(self.sizes)

    def __len__(self) -> int:
        """Number of steps of the deal."""
        return len(self.sizes)

    def batch(self, step: int) -> list[int]:
        """The records of a step."""
        end = int(self._ends[step])
        records: list[int] = self.order[end - int(self.sizes[step]) : end].tolist()
        return records

    @property
    def size(self) -> int:
        """Number of records of the next step."""
        return int(self.sizes[self.released])


class DealtSampler(Sampler):
    """Batches of one epoch per iteration, dealt when it begins.

    Args:
        records: how many there are, or which of them this process deals.
        steps: batches of an epoch, >= 1.
        rng: source of randomness; by default the operating system's cryptographic one.
    """

    sampling: ClassVar[str]

    def __init__(
        self,
        *,
        records: int | NDArray[np.int64],
        steps: int,
        rng: np.random.Generator | None = None,
    ) -> None:
        if not isinstance(records, np.ndarray):
            records = np.arange(validate.integer(minimum=1, records=records))
        self.records: NDArray[np.int64] = records
        self.steps = validate.integer(minimum=1, steps=steps)
        self.rng = generator(rng)
        self.deal: Deal | None = None  # what was dealt last
        self.on_deal: Callable[[], None] = lambda: None  # called before every deal
        self._resumed: Deal | None = None

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return self.steps

    def __iter__(self) -> Iterator[list[int]]:
        """Deal, and hand out the batches of the epoch; an empty one holds a placeholder."""
        deal = self._begin()
        try:
            while deal.yielded < len(deal):
                if self.deal is not deal:
                    raise ValueError("an iterator of a deal that was given up must not be used")
                step, deal.yielded = deal.yielded, deal.yielded + 1
                # the optimizer discards the row of a placeholder, so it may be any record
                yield deal.batch(step) or [0]
            deal.ended = True
        finally:
            deal.live = False

    def give_up(self, resumed: Deal | None = None) -> None:
        """Let no batch of the deal at hand be used any more; go on with another one, if given."""
        self.deal, self._resumed = None, resumed
        self.on_deal()

    def _begin(self) -> Deal:
        last = self.deal
        if last is not None and last.live and last.yielded < len(last):
            raise ValueError(
                "an epoch must be gone through by one iterator of the private loader at a time, "
                "got a second one (evaluate with a loader of your own)"
            )
        if last is not None and last.ended and 0 < last.released < len(last):
            raise ValueError(
                "an epoch must not begin before all steps of the last one are made, got "
                f"{last.released} of {len(last)} (engine.end_epoch() gives the others up)"
            )
        self.on_deal()
        deal, self._resumed = self._resumed or Deal(*self._dealt()), None
        deal.live, self.deal = True, deal
        return deal

    @abstractmethod
    def _dealt(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The dealt records, step by step, and the number of records of each step."""


class AllocationSampler(DealtSampler):
    """Each record in one step of the epoch, uniformly and independently of the others.

    Batches vary in size, and some may be empty. Every epoch is dealt anew; jax_privacy's
    ``BallsInBinsSampling`` deals once and goes through the same bins in every epoch, which is
    `RandomAllocation` with ``passes`` and costs more.
    """

    sampling = "allocation"

    def _dealt(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # the smallest integers make it a radix sort
        smallest = np.min_scalar_type(self.steps - 1)
        bins = self.rng.integers(self.steps, size=len(self.records), dtype=smallest)
        order = self.records[np.argsort(bins, kind="stable")]
        return order, np.bincount(bins, minlength=self.steps).astype(np.int64)


class ShuffledSampler(DealtSampler):
    """All records shuffled, then cut into batches of one size; what is left over is dropped.

    That is ``DataLoader(shuffle=True, drop_last=True)``, from a generator of its own.

    Args:
        records: how many there are.
        size: of every batch, in [1, records].
        rng: source of randomness; by default the operating system's cryptographic one.
    """

    sampling = "shuffle"

    def __init__(self, *, records: int, size: int, rng: np.random.Generator | None = None) -> None:
        records = validate.integer(minimum=1, records=records)
        self.size = validate.integer(minimum=1, maximum=records, size=size)
        super().__init__(records=records, steps=records // self.size, rng=rng)

    def _dealt(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        order = self.rng.permutation(self.records)[: self.steps * self.size]
        return order, np.full(self.steps, self.size)


def steps_of(data_loader: Any, sampling: str, records: int) -> int:
    """Number of batches of an epoch, if the loader's own way of making them may be replaced."""
    validate.choice(SAMPLINGS, sampling=sampling)
    batches = data_loader.batch_sampler
    if isinstance(batches, DealtSampler):
        if batches.sampling != sampling:
            raise ValueError(
                f"sampling must be that of the private loader, {batches.sampling!r}, got "
                f"{sampling!r}"
            )
        return len(batches)
    require_plain(data_loader)
    size = batches.batch_size
    if size > records:
        raise ValueError(f"data_loader.batch_size must be at most {records} records, got {size}")
    if sampling == "shuffle" and not batches.drop_last and records % size:
        raise ValueError(
            "data_loader must have drop_last=True or a batch_size that divides its "
            f"{records} records (places in a short last batch hide less), got batch_size={size}"
        )
    return len(data_loader)


def dealt_by(
    data_loader: Any,
    sampling: str,
    kept: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    distributed: bool,
) -> tuple[DealtSampler, float]:
    """The sampler that deals the loader's records, and the batch size to divide by.

    All records are kept for "shuffle"; distributed, each process deals its share of them.
    """
    records = len(kept)
    steps = steps_of(data_loader, sampling, len(data_loader.dataset))
    if sampling == "shuffle":
        if distributed:
            raise ValueError("sampling must be 'allocation' on several processes, got 'shuffle'")
        batches = data_loader.batch_sampler
        size = batches.size if isinstance(batches, ShuffledSampler) else batches.batch_size
        return ShuffledSampler(records=records, size=size, rng=rng), float(size)
    if not distributed:
        return AllocationSampler(records=kept, steps=steps, rng=rng), records / steps
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    sampler = AllocationSampler(
        records=kept[rank::ranks],
        steps=steps,
        rng=rng.spawn(ranks)[rank],  # of its own, also where all processes were seeded alike
    )
    return sampler, records / steps / ranks


def kept_records(user_ids: Any, most: int | None, records: int) -> tuple[NDArray[np.int64], int]:
    """The records that are dealt, increasing, and how many of them one user owns at most.

    The first ones of each user in the dataset are kept, ``most`` at most.
    """
    owners = np.asarray(user_ids)
    if owners.shape != (records,) or owners.dtype.kind not in "iuUS":
        raise ValueError(
            f"user_ids must be whole numbers or texts, one for each of the {records} records, got "
            f"shape {owners.shape} of type {owners.dtype}"
        )
    order = np.argsort(owners, kind="stable")  # each user's records together, in their order
    begins = np.flatnonzero(np.r_[True, owners[order][1:] != owners[order][:-1]])
    counts = np.diff(np.r_[begins, records])
    place = np.arange(records) - np.repeat(begins, counts)
    if most is None:
        return np.arange(records), int(counts.max())
    most = validate.integer(minimum=1, records_per_user=most)
    return np.sort(order[place < most]), int(min(counts.max(), most))


def refuse_shuffling(*, noise_multiplier: float, steps: int, delta: float) -> None:
    """Refuse a loader that shuffles, and say what an epoch of its full batches costs."""
    round = ShuffledBatches(noise_multiplier=noise_multiplier, steps=steps)
    most = epsilon(round, delta=delta, tolerance=0.01).upper
    least = attained_epsilon(round, delta=delta).lower
    raise ValueError(
        "data_loader must not shuffle, got shuffle=True, which costs an epsilon of "
        f"{least:.3g} to {most:.3g} an epoch at delta = {delta:.3g} (leave it out, or say "
        "sampling='allocation' to have the records dealt, sampling='shuffle' to pay that)"
    )
