"""`audit`: scores of runs with and without a target against the certified claim of a protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import shuffle_accountant as sa
from shuffle_accountant.cli.flags import AsJson, Protocol, picture, with_flags_of
from shuffle_accountant.cli.output import computing, print_json, saved_figure
from shuffle_accountant.cli.parsing import examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

Scores = Annotated[
    Path,
    typer.Argument(help="Scores of runs, one number a line or a .npy file; at least 20."),
]


@examples(
    "audit with.txt without.txt --eps0 1 --users 1e4 --delta 1e-6",
    "audit with.npy without.npy --protocol protocol.json --delta 1e-5",
)
@with_flags_of(Protocol)
def audit(
    protocol: Protocol,
    scores_with: Scores,
    scores_without: Scores,
    delta: Annotated[
        float, typer.Option(help="δ in [0, 1) of the ε that the scores rule out.")
    ] = 0.0,
    confidence: Annotated[float, typer.Option(help="Of the verdict, in (0, 1).")] = 0.95,
    output: Annotated[Path | None, picture("the claim and the scores")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare scores of runs with and without a target with a claim; exit code 1 if it is rejected.

    A higher score says that the target was there more likely.
    """
    scores = [_scores(scores_with), _scores(scores_without)]
    with computing("composing") as warnings:
        found = sa.audit.runs(*scores, protocol=protocol.composed(), confidence=confidence)
        excluded = found.epsilon_lower(delta=delta)
    if output is not None:
        with saved_figure(output) as axes:
            found.plot(ax=axes)
    if as_json:
        answer: dict[str, Any] = {
            "p_value": found.p_value,
            "consistent": found.consistent,
            "confidence": found.confidence,
            "epsilon_lower": excluded,
            "delta": delta,
            "warnings": warnings,
        }
        print_json(answer)
    else:
        print(found)
        print(f"the scores rule out every epsilon below {excluded:.4g} at delta = {delta:g}")
    if not found.consistent:
        raise typer.Exit(1)


def _scores(path: Path) -> NDArray[np.float64]:
    """Scores in a .npy file, or in a text file with a number in each line."""
    try:
        if path.suffix == ".npy":
            read = np.load(path, allow_pickle=False)
        else:
            read = np.loadtxt(path, ndmin=1)
        return np.asarray(read, dtype=np.float64)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ValueError(f"scores must be numbers in {str(path)!r:.80}: {reason:.120}") from None
