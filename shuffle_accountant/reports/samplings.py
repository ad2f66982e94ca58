"""Epsilon of one run of DP-SGD for each way of making batches: certified intervals side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.reports.rows import accountant_of
from shuffle_accountant.rounds import samplings as runs
from shuffle_accountant.rounds.attained import attained_epsilon
from shuffle_accountant.rounds.batches import ShuffledBatches

# By sampling: the batches that a record is in, and the meaning of the interval's ends.
_MEANING = {
    "allocation": ("one step of each epoch, at random", "both ends: the exact value"),
    "shuffle": (
        "one place of the shuffled epoch",
        "from what is certainly lost (antipodal pair) to an upper bound (null clones)",
    ),
    "poisson": ("each step with probability 1/steps", "both ends: the exact value"),
    "banded": (
        "the same step of each epoch, noise correlated",
        "between bounds by simpler covariances",
    ),
    "tree": (
        "the same step of each epoch, noise of a tree of sums",
        "both ends: the exact value",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRow:
    """Epsilon of a run, for one way of making batches.

    Attributes:
        sampling: "allocation", "shuffle", "poisson", "banded" or "tree".
        batches: which batches a record is in, in words.
        lower: certified lower end of the true epsilon, nats.
        upper: certified upper end, nats; the number to report.
        reduction: theorem behind the upper end.
        meaning: meaning of the ends, in words.
    """

    sampling: str
    batches: str
    lower: float
    upper: float
    reduction: str
    meaning: str


def compare_samplings(
    *,
    noise_multiplier: float,
    steps: int,
    epochs: int = 1,
    delta: float,
    samplings: Sequence[str] = runs.SAMPLINGS,
    bands: int = 4,
    tolerance: float = 1e-3,
) -> list[SamplingRow]:
    """Epsilon of one run of DP-SGD for each way of making its batches.

    The true epsilon of each is certainly in its interval, under zero-out adjacency: for allocation
    and Poisson sampling the bracket of the pair, which Gaussian steps attain; for shuffled batches
    from `attained_epsilon` to the bound by null clones. Runs with correlated noise ("banded", with
    as many bands as stated, and "tree") are worked out where they are named: they take seconds.
    """
    names = [runs.sampling_named(name, correlated=True) for name in samplings]
    delta = validate.open_unit(delta=delta)

    given: dict[str, Any] = {"noise_multiplier": noise_multiplier, "steps": steps, "epochs": epochs}
    rows = []
    for name in names:
        if name in runs.CORRELATED:
            run = runs.correlated_run(name, **given, bands=bands)
        else:
            run = runs.training_run(name, **given)
        bracket = accountant_of(run, tolerance=tolerance).epsilon(delta=delta)
        lower = bracket.lower
        for one, count in run:
            if isinstance(one, ShuffledBatches):
                lower = min(attained_epsilon(one, delta=delta, rounds=count).lower, bracket.upper)
        batches, meaning = _MEANING[name]
        rows.append(
            SamplingRow(
                sampling=name,
                batches=batches,
                lower=lower,
                upper=bracket.upper,
                reduction=bracket.reduction,
                meaning=meaning,
            )
        )
    return rows
