"""Claim: faster than dp-accounting on the same pair, a hundred times tighter, below every bound.

The pair is that of `clones` at n = 1e4, eps0 = 4; the question is epsilon of T = 1000 rounds at
delta = 1e-6. Ours is the whole answer: parameters in, certified bracket out, caches cleared. All
are asked in turn in one process.

dp-accounting has no name for this pair. Its user writes two dictionaries, outcome to log
probability, by hand (`benchmarks.dictionaries`). A user who also cuts the letters, given the number
of informative decoys, to where Hoeffding leaves another 5e-16 has half the outcomes and a fifth of
the losses. The claims are about the dictionary with one cut; the figures for the one with both
("cut twice") are printed beside.

From the ready dictionaries, at its default grid of 1e-4:

* connect-the-dots: `from_two_probability_mass_functions` does not offer it, so delta on the grid is
  computed here, with NumPy, in about the least time this can take, and handed to its
  `create_pmf_pessimistic_connect_dots_fixed_gap`. An upper bound. This is what the speed claims
  are about; the time includes `self_compose` and the question.
* its pair: `from_two_probability_mass_functions` rounding losses up, and again rounding them down.

Published bounds are this package's own `baselines`, those of one round under the composition
theorem of Kairouz, Oh and Viswanath. Other accountants take part if they are installed
(`benchmarks.installed`).
"""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

import shuffle_accountant as sa
from benchmarks import installed
from benchmarks.claims import (
    Claim,
    Note,
    Outcome,
    Ratio,
    Timing,
    answer,
    clear_caches,
    interleave,
)
from benchmarks.dictionaries import (
    EPS0,
    GRID,
    USERS,
    Pmf,
    deltas_on_grid,
    losses,
    write_dictionaries,
)
from shuffle_accountant.baselines import (
    blanket_bennett,
    blanket_hoeffding,
    clones_closed_form,
    erlingsson,
    girgis,
    rdp,
    strong_clones_closed_form,
    strong_composition,
)
from shuffle_accountant.baselines.question import OutsideValidityError

ROUNDS, DELTA = 1000, 1e-6
# One round in which every closed form applies, the ones for eps0 <= 1/2 too.
SMALL_EPS0 = 0.5
LEAST_READY, LEAST_WHOLE, LEAST_TIGHTER = 3.0, 10.0, 100.0

# The claims about dp-accounting by name.
TEXTS = {
    "faster from a ready dictionary": f"at least {LEAST_READY:.0f} times faster than "
    "dp-accounting's connect-the-dots from a ready dictionary",
    "faster with the dictionary": f"at least {LEAST_WHOLE:.0f} times faster with writing that "
    "dictionary counted",
    "tighter": f"a bracket at least {LEAST_TIGHTER:.0f} times narrower than dp-accounting's "
    "optimistic-pessimistic pair",
    "consistent": "the bracket overlaps their pair and is not above their connect-the-dots value",
}

# Columns of the ratios of times, call by call: median, least, most.
RATIOS = ("times_ours", "times_ours_least", "times_ours_most")

# Name to call; the answer is an upper bound, or a pair of ends.
Calls = dict[str, Callable[[], Any]]


def run(quick: bool, note: Note) -> Outcome:
    """Ours and theirs in turn."""
    published, conditions = _published()
    others = _installed()
    theirs, reason = _dp_accounting()
    ours: Calls = {"ours": functools.partial(answer, EPS0, USERS, ROUNDS, DELTA)}
    calls = ours | theirs | published | others
    timings = interleave(calls, 2 if quick else 21, note=note)
    bracket: sa.Bracket = timings["ours"].result
    claims = [
        *_claims_on_dp_accounting(timings, reason),
        _claim_on_bounds(
            "bounds",
            "every published bound is above the bracket",
            bracket,
            {name: timings[name].result for name in published},
            conditions,
        ),
        _claim_on_one_round(),
        *_claims_on_others(bracket, {name: timings[name] for name in others}, timings["ours"]),
    ]
    rows = []
    for name, timing in timings.items():
        note(f"memory of {name}")
        lower, upper = _ends(name, timing.result)
        rows.append(
            {
                "what": name,
                "lower": lower,
                "upper": upper,
                **timing.as_row(),
                **dict(zip(RATIOS, map(_rounded, timing.times(timings["ours"])), strict=True)),
                "peak_mebibytes": round(_peak_mebibytes(calls[name]), 1),
            }
        )
    return Outcome(claims, rows)


def _ends(name: str, result: Any) -> tuple[Any, Any]:
    """Lower and upper end of an answer, empty where there is none."""
    if isinstance(result, sa.Bracket):
        return result.lower, result.upper
    if isinstance(result, float):
        return (result, "") if name == "rounded down" else ("", result)
    lower, upper = result if not isinstance(result[1], dict) else (None, "")
    return "" if lower is None else lower, upper


def _dp_accounting() -> tuple[Calls, str]:
    """What is asked of dp-accounting, or why it is not."""
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError as error:
        return {}, f"n/a: dp-accounting cannot be imported ({error})"

    def ask(distribution: Any) -> float:
        return float(distribution.self_compose(ROUNDS).get_epsilon_for_delta(DELTA))

    def connect_the_dots(upper: Pmf, lower: Pmf) -> float:
        first, last, deltas = deltas_on_grid(upper, lower)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(GRID, first, last, deltas)
        return ask(privacy_loss_distribution.PrivacyLossDistribution(pmf))

    def rounded(upper: Pmf, lower: Pmf, pessimistic: bool) -> float:
        return ask(
            privacy_loss_distribution.from_two_probability_mass_functions(
                lower, upper, pessimistic, value_discretization_interval=GRID
            )
        )

    once, twice = write_dictionaries(), write_dictionaries(cut_twice=True)
    finite = {outcome: once[0][outcome] for outcome in once[1]}
    calls: Calls = {
        "dictionary": write_dictionaries,
        "dictionary, cut twice": functools.partial(write_dictionaries, cut_twice=True),
        "connect-the-dots": functools.partial(connect_the_dots, *once),
        "connect-the-dots, cut twice": functools.partial(connect_the_dots, *twice),
        "rounded up": functools.partial(rounded, *once, True),
        "rounded down": functools.partial(rounded, finite, once[1], False),
    }
    return calls, ""


def _published() -> tuple[Calls, dict[str, str]]:
    """Epsilon by published bounds of the same protocol; and why others do not apply."""
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=EPS0), users=USERS)

    def composed(bound: Any) -> float:
        def curve(delta: float) -> float:
            return float(bound.epsilon(eps0=EPS0, users=USERS, delta=delta))

        return strong_composition.split_epsilon(curve, rounds=ROUNDS, delta=DELTA)

    calls: Calls = {
        "Rényi accounting": functools.partial(rdp.epsilon, one, rounds=ROUNDS, delta=DELTA),
        "Girgis et al. 2021": functools.partial(
            girgis.epsilon, eps0=EPS0, users=USERS, rounds=ROUNDS, delta=DELTA
        ),
        "closed form of 2022, composed": functools.partial(composed, strong_clones_closed_form),
        "closed form of 2021, composed": functools.partial(composed, clones_closed_form),
    }
    conditions = {}
    for name, call in calls.items():
        try:
            call()
        except OutsideValidityError as error:
            conditions[name] = error.condition
    return {name: call for name, call in calls.items() if name not in conditions}, conditions


def _installed() -> Calls:
    """Other accountants that can be imported, given the losses of the pair."""
    names = installed.installed()
    pair = losses(*write_dictionaries(cut_twice=True)) if names else None
    return {
        name: functools.partial(installed.ADAPTERS[name], pair, ROUNDS, DELTA) for name in names
    }


def _claims_on_dp_accounting(timings: Mapping[str, Timing], reason: str) -> list[Claim]:
    """Speed, width and consistency; not judged without dp-accounting."""
    if reason:
        return [
            Claim(name=name, text=text, measured=reason, holds=None) for name, text in TEXTS.items()
        ]
    bracket: sa.Bracket = timings["ours"].result
    dots, dots_twice, above, below = (
        timings[name].result
        for name in (
            "connect-the-dots",
            "connect-the-dots, cut twice",
            "rounded up",
            "rounded down",
        )
    )

    def times(first: str, *then: str) -> Ratio:
        return sum((timings[name] for name in then), timings[first]).times(timings["ours"])

    ready, ready_twice = times("connect-the-dots"), times("connect-the-dots, cut twice")
    whole = times("connect-the-dots", "dictionary")
    whole_twice = times("connect-the-dots, cut twice", "dictionary, cut twice")
    tighter = (above - below) / bracket.width
    ends = "[{}, {}]".format(*bracket.ends())
    outcomes = len(timings["dictionary"].result[1])
    found = {
        "faster from a ready dictionary": (
            f"{ready}: {timings['connect-the-dots'].median:.3f} s against "
            f"{timings['ours'].median:.3f} s (cut twice: {ready_twice}; both ends of "
            f"their pair: {times('rounded up', 'rounded down')})",
            ready.median >= LEAST_READY,
        ),
        "faster with the dictionary": (
            f"{whole}: {outcomes} outcomes take "
            f"{timings['dictionary'].median:.3f} s more (cut twice: {whole_twice})",
            whole.median >= LEAST_WHOLE,
        ),
        "tighter": (
            f"{tighter:.0f} times: {ends} against [{below:.3f}, {above:.3f}]",
            tighter >= LEAST_TIGHTER,
        ),
        "consistent": (
            f"{ends}, their pair [{below:.3f}, {above:.3f}], connect-the-dots {dots:.5f}",
            bracket.upper >= below and bracket.lower <= min(above, dots, dots_twice),
        ),
    }
    return [
        Claim(name=name, text=TEXTS[name], measured=measured, holds=holds)
        for name, (measured, holds) in found.items()
    ]


def _claim_on_one_round() -> Claim:
    """Every closed form beside the bracket where all of them apply."""
    closed = (
        strong_clones_closed_form,
        clones_closed_form,
        blanket_bennett,
        blanket_hoeffding,
        erlingsson,
    )
    bounds = {
        bound.source: float(bound.epsilon(eps0=SMALL_EPS0, users=USERS, delta=DELTA))
        for bound in closed
    }
    return _claim_on_bounds(
        "closed forms of one round",
        f"one round, eps0 = {SMALL_EPS0:g}: every closed form applies and is above the bracket",
        answer(SMALL_EPS0, USERS, 1, DELTA),
        bounds,
        {},
    )


def _rounded(ratio: float) -> float:
    return round(ratio, 3)


def _claim_on_bounds(
    name: str,
    text: str,
    bracket: sa.Bracket,
    bounds: Mapping[str, float],
    conditions: Mapping[str, str],
) -> Claim:
    given_away = ", ".join(
        [
            f"{bound} {value:.4g} ({value / bracket.upper:.2f} times)"
            for bound, value in bounds.items()
        ]
        + [f"{bound} n/a ({condition})" for bound, condition in conditions.items()]
    )
    return Claim(
        name=name,
        text=text,
        measured=f"[{bracket.lower:.4g}, {bracket.upper:.4g}]: {given_away}",
        holds=all(value >= bracket.lower for value in bounds.values()),
    )


def _claims_on_others(
    bracket: sa.Bracket, others: Mapping[str, Timing], ours: Timing
) -> list[Claim]:
    claims = []
    for name, timing in others.items():
        lower, upper = timing.result
        claims.append(
            Claim(
                name=name,
                text=f"the bracket overlaps the answer of {name}, which is installed here",
                measured=f"[{lower}, {upper:.4f}], {timing.times(ours)} as long",
                holds=upper >= bracket.lower and (lower is None or lower <= bracket.upper),
            )
        )
    return claims


def _peak_mebibytes(call: Callable[[], object]) -> float:
    """Peak of what one call allocates, as Python's and NumPy's allocators tell."""
    clear_caches()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
