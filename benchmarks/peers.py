"""Claim: faster than dp-accounting on the same pair, and a hundred times tighter.

The pair is that of `clones` at n = 1e4, eps0 = 4; the question is epsilon of T = 1000 rounds at
delta = 1e-6. Ours is the whole answer: parameters in, certified bracket out, caches cleared.

dp-accounting has no name for this pair. Its user writes two dictionaries, outcome to log
probability, by hand: outcomes are (c, a), c informative decoys and a letters 0 among the c + 1
messages that are not blank. All c would be 5e7 outcomes, so c is cut to where Chernoff leaves at
most 5e-16 outside; 1e-15 becomes an outcome of the upper dictionary alone, so it ends up at
infinity (pessimistic), or is left out (optimistic). For every c that is left there is every a.

A user who also cuts a, given c, to where Hoeffding leaves another 5e-16 has half the outcomes and
a fifth of the losses. The claims are about the dictionary with one cut; the figures for the one
with both ("cut twice") are printed beside.

From the ready dictionaries, at its default grid of 1e-4:

* connect-the-dots: `from_two_probability_mass_functions` does not offer it, so delta on the grid is
  computed here, with NumPy, in about the least time this can take, and handed to its
  `create_pmf_pessimistic_connect_dots_fixed_gap`. An upper bound. This is what the speed claims
  are about; the time includes `self_compose` and the question.
* its pair: `from_two_probability_mass_functions` rounding losses up, and again rounding them down.
"""

from __future__ import annotations

import functools
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, answer, clear_caches, interleave

EPS0, USERS, ROUNDS, DELTA = 4.0, 10**4, 1000, 1e-6
TAIL = 1e-15
GRID = 1e-4  # dp-accounting's default
LEAST_READY, LEAST_WHOLE, LEAST_TIGHTER = 3.0, 10.0, 100.0

# The claims by name.
TEXTS = {
    "faster from a ready dictionary": f"at least {LEAST_READY:.0f} times faster than "
    "dp-accounting's connect-the-dots from a ready dictionary",
    "faster with the dictionary": f"at least {LEAST_WHOLE:.0f} times faster with writing that "
    "dictionary counted",
    "tighter": f"a bracket at least {LEAST_TIGHTER:.0f} times narrower than dp-accounting's "
    "optimistic-pessimistic pair",
    "consistent": "the bracket overlaps their pair and is not above their connect-the-dots value",
}

Pmf = dict[tuple[int, int] | str, float]


def run(quick: bool, note: Note) -> Outcome:
    """Ours and theirs in turn."""
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError as error:
        reason = f"n/a: dp-accounting cannot be imported ({error})"
        return Outcome(
            [
                Claim(name=name, text=text, measured=reason, holds=None)
                for name, text in TEXTS.items()
            ]
        )

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
    calls: dict[str, Callable[[], Any]] = {
        "ours": functools.partial(answer, EPS0, USERS, ROUNDS, DELTA),
        "dictionary": write_dictionaries,
        "dictionary, cut twice": functools.partial(write_dictionaries, cut_twice=True),
        "connect-the-dots": functools.partial(connect_the_dots, *once),
        "connect-the-dots, cut twice": functools.partial(connect_the_dots, *twice),
        "rounded up": functools.partial(rounded, *once, True),
        "rounded down": functools.partial(rounded, finite, once[1], False),
    }
    timings = interleave(calls, 3 if quick else 21, note=note)
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

    def times(*names: str) -> float:
        return sum(timings[name].median for name in names) / timings["ours"].median

    ready, ready_twice = times("connect-the-dots"), times("connect-the-dots, cut twice")
    whole = times("connect-the-dots", "dictionary")
    whole_twice = times("connect-the-dots, cut twice", "dictionary, cut twice")
    tighter = (above - below) / bracket.width
    ends = "[{}, {}]".format(*bracket.ends())
    found = {
        "faster from a ready dictionary": (
            f"{ready:.1f} times: {timings['connect-the-dots'].median:.3f} s against "
            f"{timings['ours'].median:.3f} s (cut twice: {ready_twice:.1f} times; both ends of "
            f"their pair: {times('rounded up', 'rounded down'):.1f} times)",
            ready >= LEAST_READY,
        ),
        "faster with the dictionary": (
            f"{whole:.1f} times: {len(once[1])} outcomes take "
            f"{timings['dictionary'].median:.3f} s more (cut twice: {whole_twice:.1f} times)",
            whole >= LEAST_WHOLE,
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
    claims = [
        Claim(name=name, text=TEXTS[name], measured=measured, holds=holds)
        for name, (measured, holds) in found.items()
    ]
    lower_ends = {"ours": bracket.lower, "rounded down": below}
    upper_ends = {
        "ours": bracket.upper,
        "connect-the-dots": dots,
        "connect-the-dots, cut twice": dots_twice,
        "rounded up": above,
    }
    rows = []
    for name, timing in timings.items():
        note(f"memory of {name}")
        rows.append(
            {
                "what": name,
                "lower": lower_ends.get(name, ""),
                "upper": upper_ends.get(name, ""),
                **timing.as_row(),
                "times_ours": round(times(name), 3),
                "peak_mebibytes": round(_peak_mebibytes(calls[name]), 1),
            }
        )
    return Outcome(claims, rows)


def write_dictionaries(cut_twice: bool = False) -> tuple[Pmf, Pmf]:
    """The pair as its user would write it: (upper, lower), outcome to log probability."""
    others = USERS - 1
    truth = 1.0 / (1.0 + math.exp(-EPS0))  # the target's chance to send its own letter
    lie = 1.0 / (1.0 + math.exp(EPS0))
    rate = 2.0 * lie  # a decoy's chance not to be blank
    fewest, most = _cut_binomial(others, rate, 0.25 * TAIL)
    upper: Pmf = {"cut off": math.log(TAIL)}
    lower: Pmf = {}
    for c in range(fewest, most + 1):
        log_c = _log_choose(others, c) + c * math.log(rate) + (others - c) * math.log1p(-rate)
        log_c -= c * math.log(2.0)
        first, last = 0, c + 1
        if cut_twice:
            reach = math.sqrt(0.5 * c * math.log(4.0 / TAIL))
            first = max(first, math.floor(0.5 * c - reach))
            last = min(last, math.ceil(0.5 * c + reach) + 1)
        for a in range(first, last + 1):
            # the target sent letter 0, or it did not
            sent = math.exp(_log_choose(c, a - 1) + log_c) if a >= 1 else 0.0
            unsent = math.exp(_log_choose(c, a) + log_c) if a <= c else 0.0
            upper[c, a] = math.log(truth * sent + lie * unsent)
            lower[c, a] = math.log(lie * sent + truth * unsent)
    return upper, lower


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _cut_binomial(trials: int, rate: float, tail: float) -> tuple[int, int]:
    """Counts outside of which a binomial law has at most ``tail`` on each side, by Chernoff."""

    def exponent(count: int) -> float:
        share = count / trials
        gain = share * math.log(share / rate) if count > 0 else 0.0
        return trials * (gain + (1.0 - share) * (math.log1p(-share) - math.log1p(-rate)))

    fewest = most = round(trials * rate)
    while fewest > 0 and exponent(fewest - 1) < -math.log(tail):
        fewest -= 1
    while most < trials - 1 and exponent(most + 1) < -math.log(tail):
        most += 1
    return fewest, most


def deltas_on_grid(upper: Pmf, lower: Pmf) -> tuple[int, int, np.ndarray]:
    """First and last index of a grid that covers every finite loss, and delta at its points."""
    log_q = np.fromiter(lower.values(), float, len(lower))
    log_p = np.fromiter(map(upper.__getitem__, lower), float, len(lower))
    infinite = math.fsum(
        math.exp(value) for outcome, value in upper.items() if outcome not in lower
    )
    loss = log_p - log_q
    order = np.argsort(loss)
    loss = loss[order]
    above_p = np.append(np.cumsum(np.exp(log_p[order])[::-1])[::-1], 0.0)
    above_q = np.append(np.cumsum(np.exp(log_q[order])[::-1])[::-1], 0.0)
    first, last = math.floor(loss[0] / GRID), math.ceil(loss[-1] / GRID)
    epsilons = GRID * np.arange(first, last + 1)
    start = np.searchsorted(loss, epsilons, side="right")
    deltas = above_p[start] - np.exp(epsilons) * above_q[start] + infinite
    return first, last, np.clip(deltas, 0.0, 1.0)


def _peak_mebibytes(call: Callable[[], object]) -> float:
    """Peak of what one call allocates, as Python's and NumPy's allocators tell."""
    clear_caches()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
