"""`dpsgd`: what a run of DP-SGD costs, by how its batches are made."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import format_ends
from shuffle_accountant.cli.flags import AsJson, Delta, Tolerance, picture
from shuffle_accountant.cli.output import computing, print_answer, saved_figure
from shuffle_accountant.cli.parsing import examples, flag, one_of
from shuffle_accountant.reports import plot as pictures
from shuffle_accountant.reports.samplings import SamplingRow, compare_samplings
from shuffle_accountant.reports.tables import columns, interval
from shuffle_accountant.rounds.samplings import CORRELATED, SAMPLINGS

ALL = "all"
# Relative width that sets the digits of an interval's ends: wider ones are printed with as many.
_DIGITS = 1e-3


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
    delta: Delta,
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
    tolerance: Tolerance = 1e-3,
    output: Annotated[Path | None, picture("ε against epochs")] = None,
    as_json: AsJson = False,
) -> None:
    """Certified ε of DP-SGD for random allocation, shuffled batches and Poisson sampling."""
    run: dict[str, Any] = {
        "samplings": tuple(SAMPLINGS) if sampling == ALL else (sampling,),
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
                pictures.samplings(**run, epochs=pictures.doublings(epochs=epochs), ax=ax)
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
