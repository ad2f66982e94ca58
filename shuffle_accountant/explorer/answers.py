"""Contents of the explorer's page: every number is an answer of the public interface."""

from __future__ import annotations

import io
from dataclasses import dataclass

import shuffle_accountant as sa
from shuffle_accountant.bracket import format_ends, recorded_warnings
from shuffle_accountant.explorer.settings import Deployment, Memoised, Thresholds, Training
from shuffle_accountant.randomizers.estimation import FrequencyEstimator
from shuffle_accountant.reports.drawing import new_figure
from shuffle_accountant.reports.samplings import compare_samplings

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """An epsilon as it is shown, with that of all rounds without a shuffler (nats) and warnings."""

    bracket: sa.Bracket
    local: float
    warnings: tuple[str, ...] = ()

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions under which the answer holds, a sentence each."""
        return self.bracket.conditions

    @property
    def ends(self) -> str:
        """Both ends as text, rounded outwards."""
        return " to ".join(self.bracket.ends())


def epsilon_of(chosen: Deployment | Memoised | Thresholds) -> Answer:
    """The certified bracket of epsilon, and what it would be without a shuffler."""
    with recorded_warnings() as warned:
        bracket = sa.epsilon(chosen.protocol, delta=chosen.delta)
    return Answer(bracket, chosen.local, tuple(warned))


def target_met(chosen: Deployment) -> str:
    """The largest eps0 with which all rounds meet the target, as a sentence."""
    if chosen.messages or chosen.leak:
        return "The ε0 of a target is for one message of each user and a perfect shuffler."
    asked = f"ε ≤ {chosen.target:g} at δ = {chosen.delta:g}"
    try:
        with recorded_warnings():
            found = sa.max_eps0(
                users=chosen.numbers["users"],
                colluding=chosen.numbers.get("colluding", 0),
                rounds=chosen.rounds,
                target_epsilon=chosen.target,
                delta=chosen.delta,
                randomizer=chosen.family,
            )
    except ValueError as refused:
        return f"No eps0 is known to meet {asked}: {refused}"
    return f"For {asked}: ε0 = {found:.6g} at most."


def error_rows(chosen: Deployment) -> list[Row]:
    """Root mean squared errors of an estimate from one round, or why there is none."""
    randomizer = chosen.mechanism
    if chosen.messages:
        return [{"estimate": "none", "error": "n/a: needs one message of each user"}]
    if not isinstance(randomizer, FrequencyEstimator):
        return [{"estimate": "none", "error": "n/a: needs a randomizer that is named"}]
    shares = {"that nobody holds": 0.0, "of average size": 1.0 / chosen.categories}
    return [
        {
            "estimate": f"the frequency of a category {which}",
            "error": _error(randomizer, chosen.numbers["users"], share),
        }
        for which, share in shares.items()
    ]


def _error(randomizer: FrequencyEstimator, users: int, share: float) -> str:
    try:
        return f"{randomizer.frequency_error(users=users, frequency=share):.4g}"
    except ValueError as refused:
        return f"n/a: {refused}"


def attack_rows(chosen: Deployment) -> list[Row]:
    """The rows of the report: each measure with what its adversary knows."""
    with recorded_warnings():
        found = sa.report(chosen.protocol, delta=chosen.delta)
    return [
        {
            "measure": row.measure,
            "rounds": row.scope,
            "value": row.value(),
            "no leak": f"{row.nothing:.4g}",
            "all": "?" if row.everything is None else f"{row.everything:.4g}",
            "unit": row.unit,
            "adversary": row.adversary,
        }
        for row in found.rows
    ]


def sampling_rows(run: Training) -> list[Row]:
    """Certified intervals of epsilon of DP-SGD, for each way of making batches."""
    with recorded_warnings():
        found = compare_samplings(
            noise_multiplier=run.noise_multiplier,
            steps=run.steps,
            epochs=run.epochs,
            delta=run.delta,
            samplings=run.samplings,
            bands=max(run.bands, 1),
        )
    return [
        {
            "sampling": row.sampling,
            "a record is in": row.batches,
            "epsilon": " to ".join(format_ends(row.lower, row.upper)),
            "which is": row.meaning,
        }
        for row in found
    ]


def profile_picture(chosen: Deployment) -> bytes:
    """The curve delta(epsilon) with the delta that is asked for, as PNG."""
    figure = new_figure()
    with recorded_warnings():
        sa.plot.profile(chosen.protocol, delta=chosen.delta, ax=figure.add_subplot())
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return file.getvalue()
