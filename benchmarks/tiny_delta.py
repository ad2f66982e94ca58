"""Claim: whatever is asked, the answer is a valid bracket.

delta from 0.5 down to 1e-100, eps0 from 1e-6 to 50, n from 1 to 1e12, T in {1, 10, 1000}. Valid
means 0 <= lower <= upper <= T eps0 (which NaN is not), and that the brackets of one composition at
two delta do not contradict the monotonicity of epsilon: at the smaller one, the upper end is not
below the lower end at the larger.
"""

from __future__ import annotations

import itertools
import time
import warnings
from typing import Any

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, answer, clear_caches, compact, relative_width

# From the largest delta down.
DELTAS = (0.5, 0.1, 1e-3, 1e-6, 1e-15, 1e-30, 1e-100)
EPS0S = (1e-6, 1e-3, 0.1, 1.0, 4.0, 10.0, 50.0)
SIZES = (1, 2, 10, 10**3, 10**4, 10**8, 10**12)
ROUNDS = (1, 10, 1000)

QUICK_DELTAS = (0.5, 1e-6, 1e-100)
QUICK_EPS0S = (1e-6, 1.0, 50.0)
QUICK_SIZES = (1, 10**4, 10**12)

TOLERANCE = 1e-3
# T eps0 is itself a product that is rounded.
_ROUND_OFF = 1e-12


def run(quick: bool, note: Note) -> Outcome:
    """Ask all combinations, from nothing each time."""
    deltas, eps0s, sizes = (
        (QUICK_DELTAS, QUICK_EPS0S, QUICK_SIZES) if quick else (DELTAS, EPS0S, SIZES)
    )
    rows: list[dict[str, Any]] = []
    invalid: list[str] = []
    unordered: list[str] = []
    for eps0, users, rounds in itertools.product(eps0s, sizes, ROUNDS):
        highest_lower = 0.0
        for delta in deltas:
            setting = f"eps0 = {eps0:g}, n = {compact(users)}, T = {rounds}, delta = {delta:g}"
            note(setting)
            row = _ask(eps0, users, rounds, delta)
            rows.append({"eps0": eps0, "users": users, "rounds": rounds, "delta": delta, **row})
            lower, upper = row["lower"], row["upper"]
            if not 0.0 <= lower <= upper <= rounds * eps0 * (1 + _ROUND_OFF):
                invalid.append(f"{setting}: [{lower}, {upper}]")
            if not upper >= highest_lower:
                unordered.append(f"{setting}: {upper} < {highest_lower}")
            highest_lower = max(highest_lower, lower)

    widest = max(rows, key=lambda row: row["relative_width"])
    slowest = max(rows, key=lambda row: row["seconds"])
    loose = sum(row["loose"] for row in rows)
    kept = sum(row["relative_width"] <= TOLERANCE for row in rows)
    claims = [
        Claim(
            name="valid",
            text="always 0 <= lower <= upper <= T eps0, no NaN",
            measured=_verdict(invalid, len(rows))
            + f"; worst relative width {widest['relative_width']:.1e} ({_where(widest)}), "
            + f"{kept} within {TOLERANCE:g}, {loose} warned to be loose",
            holds=not invalid,
        ),
        Claim(
            name="monotone",
            text="epsilon falls with delta, as far as brackets can tell",
            measured=_verdict(unordered, len(rows))
            + f"; slowest answer {slowest['seconds']:.2f} s ({_where(slowest)})",
            holds=not unordered,
        ),
    ]
    return Outcome(claims, rows)


def _ask(eps0: float, users: int, rounds: int, delta: float) -> dict[str, Any]:
    """The bracket and the seconds it took; NaN ends where there was none at all."""
    clear_caches()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", sa.LooseBracketWarning)
        start = time.perf_counter()
        try:
            bracket = answer(eps0, users, rounds, delta, TOLERANCE)
        except ArithmeticError as error:
            lower = upper = width = float("nan")
            failure = repr(error)
        except ValueError as error:  # the ends were not a bracket
            lower = upper = width = float("nan")
            failure = str(error)
        else:
            lower, upper, width = bracket.lower, bracket.upper, relative_width(bracket)
            failure = ""
        seconds = time.perf_counter() - start
    return {
        "lower": lower,
        "upper": upper,
        "relative_width": width,
        "loose": any(issubclass(w.category, sa.LooseBracketWarning) for w in caught),
        "seconds": round(seconds, 6),
        "failure": failure,
    }


def _verdict(failures: list[str], total: int) -> str:
    if not failures:
        return f"true of all {total} answers"
    return f"{len(failures)} of {total} fail, first {failures[0]}"


def _where(row: dict[str, Any]) -> str:
    return (
        f"eps0 = {row['eps0']:g}, n = {compact(row['users'])}, "
        f"T = {row['rounds']}, delta = {row['delta']:g}"
    )
