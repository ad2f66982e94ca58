"""The command `calibrate`: the one of several parameters that was left out, for a target.

Of eps0, users and rounds; or DP-SGD's noise; or of sampled reports, of which small counts are
dropped, the probability or the threshold. The checks of values are the library's; here is only
which of the questions was asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

import shuffle_accountant as sa
from shuffle_accountant.cli import flags
from shuffle_accountant.cli.output import computing, json_of, print_answer, rows_of
from shuffle_accountant.cli.parsing import examples, flag, one_of
from shuffle_accountant.reports.tables import columns, only_if
from shuffle_accountant.rounds.samplings import SAMPLINGS
from shuffle_accountant.rounds.shuffle import attendance

if TYPE_CHECKING:
    from shuffle_accountant.calibration.search import CalibratedFloat, CalibratedInt

_TARGETS = ("target_epsilon", "target_advantage", "target_trade_off", "target_reidentification")
_ADJACENCIES = (sa.Adjacency.ADD_REMOVE.value, sa.Adjacency.REPLACE_ONE.value)
_WANTED = {"eps0": "largest", "noise_multiplier": "least", "rounds": "largest", "users": "least"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(flags.NamedRandomizer):
    """What is known, what is wanted, and the target; each field is a flag."""

    what: Annotated[
        str | None,
        typer.Argument(
            help="threshold: the largest probability of a report for --threshold, or the smallest "
            "threshold for --probability; left out for everything else."
        ),
    ] = None
    target_epsilon: Annotated[float | None, flag("Largest ε allowed, > 0, at --delta.")] = None
    delta: Annotated[float | None, flag("δ in (0, 1), with --target-epsilon.")] = None
    target_advantage: Annotated[
        float | None,
        flag(
            "Instead of ε, to find ε0: the most by which any test's true positive rate may "
            "exceed its false positive rate, in (0, 1)."
        ),
    ] = None
    target_trade_off: Annotated[
        str | None,
        flag(
            "Instead of ε, to find ε0: at this false positive rate every test has at least this "
            "false negative rate.",
            metavar="FPR:FNR",
        ),
    ] = None
    target_reidentification: Annotated[
        float | None,
        flag(
            "Instead of ε, to find ε0: the largest chance that one guess names one's message, "
            "in (0, 1); one round."
        ),
    ] = None
    eps0: Annotated[
        float | None, flag("ε0 of the randomizer. Left out: the largest is wanted.")
    ] = None
    users: Annotated[
        int | None, flag("Users of each round. Left out, with --eps0: the fewest are wanted.")
    ] = None
    rounds: Annotated[
        int | None,
        flag(
            "Number of rounds; 1 if left out. Left out, with --eps0 and --users: the most "
            "are wanted."
        ),
    ] = None
    min_users: flags.MinUsers = None
    participation: flags.Participation = None
    colluding: flags.Colluding = 0
    population: flags.Population = None
    categories: flags.Categories = None
    reduction: flags.Reduction = "auto"
    variant: flags.Variant = None
    interactive: flags.Interactive = False
    sampling: Annotated[
        str | None,
        one_of(
            SAMPLINGS,
            "How the batches of DP-SGD are made, if the least noise multiplier is wanted, with "
            "--steps and --epochs; one of",
        ),
    ] = None
    steps: Annotated[int | None, flag("Steps of an epoch, with --sampling.")] = None
    epochs: Annotated[int | None, flag("Epochs, with --sampling; 1 if left out.")] = None
    threshold: Annotated[
        int | None, flag("Counts below it are dropped; for calibrate threshold.")
    ] = None
    probability: Annotated[
        float | None, flag("Probability in (0, 1) of a report; for calibrate threshold.")
    ] = None
    adjacency: Annotated[
        str | None, one_of(_ADJACENCIES, "What neighbours are, for calibrate threshold; one of")
    ] = None
    tolerance: flags.Tolerance = 1e-3


@examples(
    "calibrate --users 1e4 --rounds 4 --target-epsilon 1 --delta 1e-6",
    "calibrate --eps0 4 --users 1e4 --target-epsilon 1 --delta 1e-6",
    "calibrate --sampling poisson --steps 100 --epochs 3 --target-epsilon 0.5 --delta 1e-6",
    "calibrate threshold --threshold 20 --target-epsilon 1 --delta 1e-8",
)
@flags.with_flags_of(Question)
def calibrate(typed: Question, as_json: flags.AsJson = False) -> None:
    """Find the largest ε0, the fewest users, the most rounds or the least noise for a target ε.

    Or, after "threshold", the threshold or the probability of sampled reports. The
    target of ε0 may also be an attacker's advantage, a point of the trade-off curve, or the chance
    of re-identification.
    """
    question = typed.own()
    if question.pop("what") is not None:
        _print_threshold(typed, as_json)
        return
    for name in ("threshold", "probability", "adjacency"):
        if question.pop(name) is not None:
            raise ValueError(f"{name} must be left out but for calibrate threshold")
    run = {name: question.pop(name) for name in ("sampling", "steps", "epochs")}
    if typed.target_trade_off is not None:
        question["target_trade_off"] = _rates(typed.target_trade_off)
    for name in _TARGETS[1:]:
        if question[name] is None:
            del question[name]
    question |= typed.given()
    wanted = _wanted(question, typed) if run == dict.fromkeys(run) else "noise_multiplier"
    _check_target(wanted, question)
    if wanted == "noise_multiplier":
        question = _training(run, question)
    elif wanted != "rounds" and typed.rounds is None:
        question["rounds"] = 1
    with computing("calibrating") as warnings:
        answer = _solve(wanted, question, typed)
    evidence, further = answer.evidence, answer.evidence.next_bracket
    found = {"quantity": wanted, "value": answer, **json_of(evidence.bracket)}
    found |= {
        "next_value": evidence.next_value,
        "next_lower": None if further is None else further.lower,
        "next_upper": None if further is None else further.upper,
        "proven": evidence.proven,
        "capped": evidence.capped,
        "question": question,
        "warnings": warnings,
    }
    extreme = f"the {_WANTED[wanted]} with"
    if evidence.capped:
        extreme = "the end of what is tried, and has"
    rows = [(wanted, f"{answer!r} is {extreme} {_told(question)}"), *rows_of(evidence.bracket)]
    if further is not None:
        rows.append((f"next {wanted}", repr(evidence.next_value)))
        rows += [(f"next {name}", end) for name, end in rows_of(further)[:2]]
    text = "\n".join([columns(rows), *only_if(evidence.bracket.conditions)])
    print_answer(as_json, found, text)


def _print_threshold(typed: Question, as_json: bool) -> None:
    """Find and print the probability or the threshold of sampled reports."""
    if typed.what != "threshold":
        raise ValueError(f"what must be threshold or left out, got {typed.what!r:.60}")
    own = ("what", "threshold", "probability", "adjacency", "rounds", "target_epsilon", "delta")
    default = Question().own()
    for name, value in (typed.own() | typed.given()).items():
        if name not in own and value != default.get(name):
            raise ValueError(f"{name} must be left out with calibrate threshold, got {value!r:.60}")
    if typed.target_epsilon is None or typed.delta is None:
        raise ValueError("target_epsilon and delta must be given with calibrate threshold")
    rounds = 1 if typed.rounds is None else typed.rounds
    with computing("calibrating") as warnings:
        found = sa.SampleAndThreshold.calibrate(
            threshold=typed.threshold,
            probability=typed.probability,
            target_epsilon=typed.target_epsilon,
            delta=typed.delta,
            rounds=rounds,
            adjacency=sa.Adjacency(typed.adjacency or sa.Adjacency.ADD_REMOVE.value),
        )
        bracket = sa.epsilon(found, delta=typed.delta, rounds=rounds)
    answer = {
        "probability": found.probability,
        "threshold": found.threshold,
        "adjacency": found.adjacency.value,
        "rounds": rounds,
        **json_of(bracket),
        "target": {"epsilon": typed.target_epsilon, "delta": typed.delta},
        "warnings": warnings,
    }
    rows = [
        ("probability", f"{found.probability!r} of a report"),
        ("threshold", f"{found.threshold}: smaller counts are dropped"),
        *rows_of(bracket),
        ("adjacency", found.adjacency.value),
    ]
    print_answer(as_json, answer, "\n".join([columns(rows), *only_if(bracket.conditions)]))


def _rates(text: str) -> tuple[float, float]:
    """Both numbers of "FPR:FNR"; their range is the library's to check."""
    try:
        first, second = (float(part) for part in text.split(":"))
    except ValueError:
        raise ValueError(
            f"target_trade_off must be two rates with a colon between, 0.01:0.9 say, got {text!r}"
        ) from None
    return first, second


def _check_target(wanted: str, question: dict[str, Any]) -> None:
    """One target in all, and ε at δ where nothing else will do."""
    given = [name for name in _TARGETS if question.get(name) is not None]
    if len(given) != 1:
        raise ValueError(
            f"one of {', '.join(_TARGETS)} must be given, got {', '.join(given) or 'none'}"
        )
    if given != ["target_epsilon"] and wanted != "eps0":
        raise ValueError(
            f"{given[0]} is a target for eps0; eps0 must be left out, and so must sampling, steps "
            "and epochs"
        )
    if given == ["target_epsilon"] and question["delta"] is None:
        raise ValueError("delta must be given with target_epsilon")


def _training(run: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    """The question about noise; flags about local randomizers have no place in it."""
    needed = ("tolerance", "target_epsilon", "delta")
    for name, value in question.items():
        if name not in needed and value not in (None, False, 0, "auto"):
            raise ValueError(
                f"{name} must be left out with sampling, steps or epochs, got {value!r}"
            )
    for name in ("sampling", "steps"):
        if run[name] is None:
            raise ValueError(f"{name} must be given to find the noise of DP-SGD")
    run = run | {"epochs": 1 if run["epochs"] is None else run["epochs"]}
    return run | {name: question[name] for name in needed}


def _wanted(question: dict[str, Any], law: flags.NamedRandomizer) -> str:
    """Name of the parameter to calibrate: "eps0", "users" or "rounds"."""
    if not law.takes_eps0():
        if question["users"] is None or question["rounds"] is not None:
            raise ValueError(
                f"users must be given for {law.randomizer}, and rounds be left out: they are what "
                "calibrate finds for a randomizer without eps0"
            )
        return "rounds"
    if question["eps0"] is None:
        if question["users"] is None:
            raise ValueError("users must be given to find eps0, or eps0 to find users")
        return "eps0"
    if question["users"] is None:
        if question["min_users"] is not None:
            raise ValueError(
                "min_users must be left out to find users, who are the fewest that must send, got "
                f"{question['min_users']}"
            )
        if question["population"] is not None:
            raise ValueError(
                "population must be left out to find users (sampled epsilon need not fall with "
                f"them), got {question['population']}"
            )
        return "users"
    if question["rounds"] is None:
        return "rounds"
    raise ValueError("one of eps0, users and rounds must be left out: it is what calibrate finds")


def _solve(
    wanted: str, question: dict[str, Any], law: flags.NamedRandomizer
) -> CalibratedFloat | CalibratedInt:
    """Put the question to the library."""
    if wanted == "noise_multiplier":
        return sa.min_noise_multiplier(**question)

    def of(function: Callable[..., Any]) -> dict[str, Any]:
        """The arguments of a function among what was typed."""
        names = inspect.signature(function).parameters.keys() - {"randomizer"}
        return {name: value for name, value in question.items() if name in names}

    make = law.maker(categories=question["categories"], interactive=question["interactive"])
    if wanted != "rounds":
        solve = sa.max_eps0 if wanted == "eps0" else sa.min_users
        found: CalibratedFloat | CalibratedInt = solve(**of(solve), randomizer=make)
        return found
    randomizer = make() if question["eps0"] is None else make(eps0=question["eps0"])
    if question["min_users"] is not None and question["population"] is not None:
        raise ValueError(f"min_users must be None with population, got {question['min_users']}")
    crowd = of(sa.ShuffleRound) | {"users": attendance(**of(attendance))}
    return sa.max_rounds(sa.ShuffleRound(randomizer, **crowd), **of(sa.max_rounds))


def _told(question: dict[str, Any]) -> str:
    """The target in words."""
    if (goal := question.get("target_advantage")) is not None:
        return f"advantage <= {goal:g}"
    if (rates := question.get("target_trade_off")) is not None:
        return f"false negative rate >= {rates[1]:g} at false positive rate {rates[0]:g}"
    if (goal := question.get("target_reidentification")) is not None:
        return f"chance of re-identification <= {goal:g}"
    return f"epsilon <= {question['target_epsilon']:g} at delta = {question['delta']:g}"
