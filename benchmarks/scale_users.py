"""Claim: the time does not grow with the number of users, and neither does the relative bracket.

One round (delta = 1e-8) and a thousand (delta = 1e-6) of an eps0 = 4 randomizer, n = 1e4 to 1e12.
"""

from __future__ import annotations

import functools

from benchmarks.claims import Claim, Note, Outcome, answer, compact, interleave, relative_width

EPS0 = 4.0
DELTAS = {1: 1e-8, 1000: 1e-6}  # by number of rounds
FEWEST = 10**4
MOST_TIMES = 20.0
MOST_SECONDS = 2.0
TOLERANCES = (1e-3, 1e-4)


def run(quick: bool, note: Note) -> Outcome:
    """Time every n at the default tolerance, then check the widths at both tolerances."""
    sizes = [FEWEST, 10**8, 10**12] if quick else [10**k for k in range(4, 13)]
    repetitions = 3 if quick else 7
    claims, rows = [], []
    widths: dict[float, list[tuple[float, str]]] = {tolerance: [] for tolerance in TOLERANCES}
    for rounds, delta in DELTAS.items():
        for tolerance in TOLERANCES:
            calls = {
                f"n = {compact(users)}, T = {rounds}": functools.partial(
                    answer, EPS0, users, rounds, delta, tolerance
                )
                for users in sizes
            }
            default = tolerance == TOLERANCES[0]
            timings = interleave(calls, repetitions if default else 1, note=note)
            base = timings[f"n = {compact(FEWEST)}, T = {rounds}"]
            for users, (name, timing) in zip(sizes, timings.items(), strict=True):
                width = relative_width(timing.result)
                widths[tolerance].append((width, name))
                rows.append(
                    {
                        "eps0": EPS0,
                        "users": users,
                        "rounds": rounds,
                        "delta": delta,
                        "tolerance": tolerance,
                        "lower": timing.result.lower,
                        "upper": timing.result.upper,
                        "relative_width": width,
                        **timing.as_row(),
                        "times_fewest_users": round(timing.median / base.median, 3),
                    }
                )
            if default:
                last = timings[f"n = {compact(sizes[-1])}, T = {rounds}"]
                slowest = max(timings, key=lambda name: timings[name].median)
                worst = timings[slowest].median
                claims.append(
                    Claim(
                        name=f"flat in users, {rounds} round{'s' if rounds > 1 else ''}",
                        text=f"T = {rounds}: no n up to 1e12 takes over {MOST_TIMES:.0f} times "
                        f"n = 1e4, nor over {MOST_SECONDS:.0f} s",
                        measured=f"n = 1e12: {last.median / base.median:.2f} times, "
                        f"{last.median:.3f} s; slowest ({slowest.split(',')[0]}): "
                        f"{worst / base.median:.2f} times, {worst:.3f} s",
                        holds=worst <= MOST_TIMES * base.median and worst < MOST_SECONDS,
                    )
                )
    for tolerance, found in widths.items():
        width, name = max(found)
        claims.append(
            Claim(
                name=f"width at tolerance {tolerance:g}",
                text=f"relative bracket at most {tolerance:g} everywhere with "
                f"tolerance = {tolerance:g}",
                measured=f"widest {width:.2e} ({name})",
                holds=width <= tolerance,
            )
        )
    return Outcome(claims, rows)
