"""`certify`, `verify`, `check` and `audit`: claims written down, and held against others."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import shuffle_accountant as sa
from shuffle_accountant import validation as validate
from shuffle_accountant.cli.flags import AsJson, Delta, Protocol, picture, with_flags_of
from shuffle_accountant.cli.output import computing, print_answer, saved_figure, writing
from shuffle_accountant.cli.parsing import examples, flag
from shuffle_accountant.progress import progress_bar
from shuffle_accountant.reports.tables import columns

if TYPE_CHECKING:
    from numpy.typing import NDArray


Scores = Annotated[
    Path, typer.Argument(help="Scores of runs, one number a line or a .npy file; at least 20.")
]


@examples("certify --eps0 4 --users 1e4 --rounds 4 --delta 1e-6 --output claim.json")
@with_flags_of(Protocol)
def certify(
    protocol: Protocol,
    output: Annotated[Path, flag("File to write the certificate to.")],
    delta: Annotated[
        float | None, flag("δ of the claim, in (0, 1); give this or --epsilon.")
    ] = None,
    epsilon: Annotated[float | None, flag("ε of the claim, >= 0; give this or --delta.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a certificate of a protocol's ε at δ, or δ at ε, that verify can check."""
    accountant = protocol.accountant()
    with progress_bar("certifying"):
        made = accountant.certificate(delta=delta, epsilon=epsilon)
    with writing(output):
        output.write_text(made.to_json() + "\n", encoding="utf-8")
    upper = None
    if 0.0 < made.delta < 1.0:
        with computing("composing"):
            upper = accountant.epsilon(delta=made.delta).upper
    found = {"epsilon": made.epsilon, "delta": made.delta, "upper": upper, "output": str(output)}
    rows = [("epsilon", f"{made.epsilon!r}"), ("delta", f"{made.delta!r}")]
    if upper is not None:
        excess = made.epsilon / upper - 1.0 if upper > 0.0 else 0.0
        rows.append(("bracket", f"{upper!r} (the claim is {max(excess, 0.0):.2%} above it)"))
    print_answer(as_json, found, columns([*rows, ("written to", str(output))]))


@examples("verify claim.json", "verify claim.json --max-work 1e7")
def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate, as certify writes it.")],
    max_work: Annotated[
        float, flag("Units of work the check may take; ten million take about a second.")
    ] = 5e9,
    as_json: AsJson = False,
) -> None:
    """Check a certificate in ball arithmetic; exit code 0 if its claim is proven, 1 if not."""
    claimed = sa.certificates.Certificate.from_json(_text("certificate", certificate))
    with progress_bar("verifying"):
        found = sa.certificates.verify(claimed, max_work=max_work)
    claim = {"epsilon": claimed.epsilon, "delta": claimed.delta}
    rows = [
        ("claim", f"epsilon = {claimed.epsilon!r} at delta = {claimed.delta!r}"),
        ("adjacency", str(claimed.content["adjacency"])),
        ("result", found.reason),
    ]
    rows += [("delta found", f"<= {found.delta!r}")] if found.verified else []
    print_answer(as_json, asdict(found) | {"claim": claim}, columns(rows))
    if not found.verified:
        raise typer.Exit(1)


@examples("check claim.json --claim 1.0 --delta 1e-6")
def check(
    state: Annotated[
        Path, typer.Argument(help="State of an accountant or a ledger, or a certificate.")
    ],
    claim: Annotated[float, flag("ε that must not be exceeded, >= 0.")],
    delta: Delta,
    as_json: AsJson = False,
) -> None:
    """Say whether a state is within a claim (ε, δ); exit code 0 if that is certified, 1 if not."""
    claim = validate.finite_nonnegative(claim=claim)
    delta = validate.open_unit(delta=delta)
    text = _text("state", state)
    content = _json("state", text)
    with computing("composing"):
        if isinstance(content, dict) and "witnesses" in content:
            held = sa.certificates.Certificate.from_json(text)
            found = sa.certificates.verify(held)
            certified = found.verified and held.epsilon <= claim and held.delta <= delta
            known = f"epsilon <= {held.epsilon!r} at delta = {held.delta!r}, verified"
            known = known if found.verified else found.reason
        else:
            kind: type[sa.FourierAccountant | sa.training.ShuffleLedger] = sa.FourierAccountant
            if isinstance(content, dict) and "steps" in content:
                kind = sa.training.ShuffleLedger
            upper = kind.from_state_dict(content).epsilon(delta=delta).upper
            certified, known = upper <= claim, f"epsilon <= {upper!r} at delta = {delta!r}"
    answer = {"certified": certified, "claim": claim, "delta": delta, "known": known}
    asked = f"epsilon = {claim!r} at delta = {delta!r}"
    rows = [("claim", asked), ("known", known), ("certified", ["no", "yes"][certified])]
    print_answer(as_json, answer, columns(rows))
    if not certified:
        raise typer.Exit(1)


@examples(
    "audit with.txt without.txt --eps0 1 --users 1e4 --delta 1e-6",
    "audit with.npy without.npy --protocol protocol.json --delta 1e-5",
)
@with_flags_of(Protocol)
def audit(
    protocol: Protocol,
    scores_with: Scores,
    scores_without: Scores,
    delta: Annotated[float, flag("δ in [0, 1) of the ε that the scores rule out.")] = 0.0,
    confidence: Annotated[float, flag("Of the verdict, in (0, 1).")] = 0.95,
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
    answer = {
        "p_value": found.p_value,
        "consistent": found.consistent,
        "confidence": found.confidence,
        "epsilon_lower": excluded,
        "delta": delta,
        "warnings": warnings,
    }
    ruled_out = f"the scores rule out every epsilon below {excluded:.4g} at delta = {delta:g}"
    print_answer(as_json, answer, f"{found}\n{ruled_out}")
    if not found.consistent:
        raise typer.Exit(1)


def _text(name: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(
            f"{name} must be a file that can be read, got {str(path)!r}: {why}"
        ) from None


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=validate.json_object)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} must be JSON: {' '.join(str(error).split())}") from None


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
