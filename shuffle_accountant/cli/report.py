"""`report` and more on one protocol, `statement` for privacy notices, `dpsgd` for training runs."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import shuffle_accountant as sa
from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, format_ends
from shuffle_accountant.cli import flags
from shuffle_accountant.cli.output import computing, print_answer, rows_of, saved_figure
from shuffle_accountant.cli.parsing import examples, flag, one_of
from shuffle_accountant.reports.comparison import asked_round
from shuffle_accountant.reports.samplings import SamplingRow, compare_samplings
from shuffle_accountant.reports.tables import WIDTH, columns, interval, only_if, rounded_up
from shuffle_accountant.rounds.samplings import CORRELATED, SAMPLINGS

Verbose = Annotated[
    bool, flag("Print the error budget and which method answered, too.", "--verbose", "-v")
]

Group = Annotated[int, flag("Number of people whose data change at once: for them, too.")]

ALL = "all"
# Relative width that sets the digits of an interval's ends: wider ones are printed with as many.
_DIGITS = 1e-3
# Share up to which a leak counts as round-off.
ROUND_OFF = 1e-12


@examples(
    "epsilon --eps0 4 --users 1e4 --rounds 4 --delta 1e-6",
    "epsilon --eps0 1 --users 1e4 --group 3 --delta 1e-6",
    "epsilon --eps0 2 --users 1e4 --exposure 1e-7 --delta 1e-6",
    "epsilon --randomizer hadamard --categories 1000 --eps0 2 --users 1e5 --delta 1e-8 --json",
)
@flags.with_flags_of(flags.Protocol)
def epsilon(
    protocol: flags.Protocol,
    delta: flags.Delta,
    group: Group = 1,
    as_json: flags.AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Print the ε of shuffled rounds at a given δ: a number to report, and both certified ends."""
    _answer("epsilon", {"delta": delta}, protocol, group, as_json, verbose)


@examples("delta --eps0 4 --users 1e4 --rounds 4 --epsilon 0.5")
@flags.with_flags_of(flags.Protocol)
def delta(
    protocol: flags.Protocol,
    epsilon: Annotated[float, flag("ε, >= 0.")],
    group: Group = 1,
    as_json: flags.AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Print the δ of shuffled rounds at a given ε: a number to report, and both certified ends."""
    _answer("delta", {"epsilon": epsilon}, protocol, group, as_json, verbose)


def _answer(
    quantity: str,
    at: dict[str, float],
    protocol: flags.Protocol,
    group: int,
    as_json: bool,
    verbose: bool,
) -> None:
    """Put a question and print the answer as a JSON object or as a table.

    The number to report is rounded up to three digits.
    """
    people = {"group": group} if group != 1 else {}
    with computing("composing") as warnings:
        bracket: Bracket = getattr(protocol.accountant(), quantity)(**at, **people)
    answer = {"quantity": quantity, **bracket.to_dict()}
    del answer["version"]  # which stands at the end
    answer |= {"limited_by": bracket.ledger.limited_by, "method": bracket.ledger.method}
    answer |= {"question": protocol.question() | at | people, "warnings": warnings}
    ((name, value),) = at.items()
    letter = {"epsilon": "ε", "delta": "δ"}[quantity]
    rows = [
        (quantity, f"at {name} = {value:g}"),
        *rows_of(bracket),
        ("adjacency", "no rounds" if bracket.adjacency is None else bracket.adjacency.value),
    ]
    if verbose:
        widths = bracket.ledger.to_dict()
        rows += [(source.replace("_", "-"), f"{width:.1e}") for source, width in widths.items()]
        rows.append(("method", bracket.ledger.method))
    first = f"{letter} ≤ {rounded_up(bracket.upper, 3)} (report this)"
    if math.isinf(bracket.upper):
        first = f"no finite {letter} holds (report this)"
    text = "\n".join([first, columns(rows), *only_if(bracket.conditions)])
    print_answer(as_json, answer, text)


@examples(
    "compare --eps0 4 --users 1e4 --rounds 4 --delta 1e-6",
    "compare --eps0 2 --users 1e4 --categories 10 --delta 1e-6 --json",
    "compare --eps0 1 --users 1e4 --rounds 16 --delta 1e-6 --output bounds.png",
)
@flags.with_flags_of(flags.NamedRandomizer)
def compare(
    law: flags.NamedRandomizer,
    delta: flags.Delta,
    users: Annotated[int | None, flag("Users of each round, >= 1.")] = None,
    eps0: flags.Eps0 = None,
    rounds: flags.Rounds = 1,
    population: flags.Population = None,
    categories: flags.Categories = None,
    protocol: flags.FromFile = None,
    tolerance: flags.Tolerance = 1e-3,
    output: Annotated[Path | None, flags.picture("the bounds against rounds")] = None,
    as_json: flags.AsJson = False,
) -> None:
    """Put every published bound of ε beside the certified bracket."""
    crowd: dict[str, Any] = {"eps0": eps0, "users": users}
    crowd |= {"population": population, "categories": categories}
    asked = flags.Protocol(**asdict(law), **crowd, protocol=protocol)
    with computing("comparing") as warnings:
        if law.given() or protocol is not None:
            one = asked.composed()
        else:
            one = asked_round(None, **crowd)
        found = sa.compare(one, delta=delta, rounds=rounds, tolerance=tolerance)
        if output is not None:
            with saved_figure(output) as ax:
                counts = sa.plot.doublings(rounds=rounds)
                sa.plot.compare(one, delta=delta, rounds=counts, ax=ax)
    question = crowd if protocol is None else asked.question()
    question |= {"rounds": rounds, "tolerance": tolerance, "delta": delta, **law.given()}
    answer = {"rows": [asdict(row) for row in found], "question": question, "warnings": warnings}
    print_answer(as_json, answer, found)


@examples("report --eps0 4 --users 1e4 --rounds 4 --delta 1e-6 --categories 100")
@flags.with_flags_of(flags.Protocol)
def report(
    protocol: flags.Protocol,
    delta: flags.Delta,
    output: Annotated[Path | None, flags.picture("the rows")] = None,
    as_json: flags.AsJson = False,
) -> None:
    """Print every measure of what a protocol leaks, each with what its adversary knows."""
    with computing("measuring") as warnings:
        found = sa.report(protocol.accountant(), delta=delta)
        if output is not None and all((row.share or 0.0) <= ROUND_OFF for row in found.rows):
            warnings.append(f"nothing to draw: nothing leaks; {output} is not written")
            output = None
    if output is not None:
        with saved_figure(output) as ax:
            sa.plot.report(found, ax=ax)
    answer: dict[str, Any] = {"rows": found.records(), "conditions": found.conditions}
    answer |= {"question": protocol.question() | {"delta": delta}, "warnings": warnings}
    print_answer(as_json, answer, found)


@examples(
    "statement --eps0 4 --users 1e4 --rounds 4 --delta 1e-6",
    "statement --eps0 2 --categories 16 --users 2e5 --rounds 12 --delta 1e-9 --json",
)
@flags.with_flags_of(flags.Protocol)
def statement(protocol: flags.Protocol, delta: flags.Delta, as_json: flags.AsJson = False) -> None:
    """Write a paragraph for a privacy notice, with all that its numbers depend on."""
    with computing("composing") as warnings:
        found = sa.statement(protocol.accountant(), delta=delta)
    answer = {**found.to_dict(), "question": protocol.question() | {"delta": delta}}
    text = textwrap.fill(str(found), WIDTH, break_on_hyphens=False, break_long_words=False)
    print_answer(as_json, answer | {"warnings": warnings}, text)


@examples(
    "dpsgd --sigma 2 --batch-size 250 --dataset-size 25000 --epochs 3 --delta 1e-6",
    "dpsgd --sampling tree --noise-multiplier 4 --steps 64 --delta 1e-6",
    "dpsgd --sampling shuffle --noise-multiplier 2 --steps 100 --delta 1e-6 --json",
)
def dpsgd(
    noise_multiplier: Annotated[
        float,
        flag(
            "Deviation of the noise over the norm that gradients are clipped to.",
            "--noise-multiplier",
            "--sigma",
        ),
    ],
    delta: flags.Delta,
    steps: Annotated[
        int | None, flag("Steps of an epoch; full batches if they are shuffled.")
    ] = None,
    batch_size: Annotated[
        int | None, flag("Records of a batch; with --dataset-size instead of --steps.")
    ] = None,
    dataset_size: Annotated[
        int | None, flag("Records in all; an epoch has as many steps as full batches.")
    ] = None,
    epochs: Annotated[int, flag("Epochs, each dealt, shuffled or drawn anew.")] = 1,
    sampling: Annotated[
        str,
        one_of(
            (*SAMPLINGS, *CORRELATED, ALL),
            "How batches are made; all but banded and tree (correlated noise), or one of",
        ),
    ] = ALL,
    bands: Annotated[int, flag("Coefficients of the noise that is banded.")] = 4,
    tolerance: flags.Tolerance = 1e-3,
    output: Annotated[Path | None, flags.picture("ε against epochs")] = None,
    as_json: flags.AsJson = False,
) -> None:
    """Certified ε of DP-SGD for random allocation, shuffled batches and Poisson sampling."""
    run: dict[str, Any] = {
        "samplings": SAMPLINGS if sampling == ALL else (sampling,),
        "noise_multiplier": noise_multiplier,
        "delta": delta,
        "tolerance": tolerance,
        "bands": bands,
    }
    with computing("composing") as warnings:
        run["steps"], notes = _steps(steps, batch_size, dataset_size)
        rows = compare_samplings(**run, epochs=epochs)
        if output is not None and any(row.upper > 0.0 for row in rows):
            with saved_figure(output) as ax:
                sa.plot.samplings(**run, epochs=sa.plot.doublings(epochs=epochs), ax=ax)
        elif output is not None:
            warnings.append(f"nothing to draw: nothing is lost; {output} is not written")
        warnings += notes
    found = {"rows": [asdict(row) for row in rows], "question": run | {"epochs": epochs}}
    header = ("sampling", "a record is in", f"epsilon at delta = {delta:g}", "which is")
    print_answer(as_json, found | {"warnings": warnings}, columns([header, *map(_line, rows)]))


def _steps(
    steps: int | None, batch_size: int | None, dataset_size: int | None
) -> tuple[int, list[str]]:
    """Steps of an epoch: as given, or the full batches of the records; and what is to be said."""
    given = f"got --batch-size {batch_size} and --dataset-size {dataset_size}"
    if steps is not None:
        if (batch_size, dataset_size) != (None, None):
            raise ValueError(f"batch_size and dataset_size must be left out with --steps, {given}")
        return steps, []
    if batch_size is None or dataset_size is None:
        raise ValueError(f"--steps must be given, or both of batch_size and dataset_size, {given}")
    batch = validate.integer(minimum=1, batch_size=batch_size)
    full, rest = divmod(validate.integer(minimum=batch, dataset_size=dataset_size), batch)
    short = (
        f"an epoch is taken to have {full} steps, as many as full batches; {rest} records are left"
    )
    return full, [short] if rest else []


def _line(row: SamplingRow) -> tuple[str, str, str, str]:
    lower, _ = format_ends(row.lower, min(row.upper, row.lower * (1.0 + _DIGITS)))
    _, upper = format_ends(max(row.lower, row.upper * (1.0 - _DIGITS)), row.upper)
    return row.sampling, row.batches, interval((lower, upper)), row.meaning
