"""Claim: time grows no faster than the square root of the number of rounds, memory stays bounded.

T = 1, 10, ..., 1e6 rounds (and 1e9) at n = 1e4, eps0 = 4, delta = 1e-6. Beyond T = 1e5 epsilon is
above 709, where e^epsilon overflows.
"""

from __future__ import annotations

import functools
import math
import subprocess
import sys
import warnings

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, answer, compact, interleave, relative_width

EPS0, USERS, DELTA = 4.0, 10**4, 1e-6
MILLION, BILLION = 10**6, 10**9
# Times of fewer rounds than this are all overhead: growth is measured from here.
BASE = 100
MOST_SECONDS = 2.0
MOST_MEBIBYTES = 1024.0
KNOWN = {10**5: 670.12, 10**6: 5663.35}  # epsilon to two decimals

# VmHWM is the peak of this process alone; Linux's ru_maxrss starts from that of the parent process.
_PEAK = """
import pathlib, resource, sys
import shuffle_accountant as sa
one = sa.ShuffleRound(sa.GeneralRandomizer(eps0={eps0!r}), users={users!r})
sa.FourierAccountant().compose(one, count={rounds!r}).epsilon(delta={delta!r})
status = pathlib.Path("/proc/self/status")
if status.exists():
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    print(int(lines["VmHWM"].split()[0]) / 2**10)
else:
    unit = 1 if sys.platform == "darwin" else 2**10
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20)
"""


def run(quick: bool, note: Note) -> Outcome:
    """Time every T, take the peak memory of fresh processes, and look at the answers."""
    counts = [10**k for k in range(7)]
    calls = {
        f"T = {compact(rounds)}": functools.partial(answer, EPS0, USERS, rounds, DELTA)
        for rounds in counts
    }
    by_name = interleave(calls, 3 if quick else 9, note=note)
    timings = dict(zip(counts, by_name.values(), strict=True))
    if not quick:
        far = {f"T = {compact(BILLION)}": functools.partial(_looser_allowed, BILLION)}
        timings[BILLION] = interleave(far, 1, note=note)[f"T = {compact(BILLION)}"]
        counts.append(BILLION)
    peaks = {}
    for rounds in [r for r in counts if r >= MILLION]:
        note(f"memory at T = {compact(rounds)}")
        peaks[rounds] = _peak_mebibytes(rounds)

    rows = [
        {
            "eps0": EPS0,
            "users": USERS,
            "rounds": rounds,
            "delta": DELTA,
            "lower": timing.result.lower,
            "upper": timing.result.upper,
            "relative_width": relative_width(timing.result),
            **timing.as_row(),
            "peak_mebibytes": round(peaks[rounds], 1) if rounds in peaks else "",
        }
        for rounds, timing in timings.items()
    ]
    base = timings[BASE].median
    growth = {r: t.median / base for r, t in timings.items() if r > BASE}
    worst = max(growth, key=lambda r: growth[r] / math.sqrt(r / BASE))
    last = counts[-1]
    million = timings[MILLION].median
    known = {r: timings[r].result for r in KNOWN}
    claims = [
        Claim(
            name="growth with rounds",
            text=f"from T = {BASE} to {compact(last)} time grows no faster than sqrt(T)",
            measured=f"{growth[last]:.1f} times at T = {compact(last)} (sqrt: "
            f"{math.sqrt(last / BASE):.0f}); closest to sqrt at T = {compact(worst)}: "
            f"{growth[worst]:.2f} of {math.sqrt(worst / BASE):.2f}",
            holds=all(growth[r] <= math.sqrt(r / BASE) for r in growth),
        ),
        Claim(
            name="a million rounds, time",
            text=f"T = 1e6 takes under {MOST_SECONDS:.0f} s",
            measured=str(timings[MILLION]),
            holds=million < MOST_SECONDS,
        ),
        Claim(
            name="memory",
            text=f"peak memory of a fresh process is under {MOST_MEBIBYTES:.0f} MiB",
            measured=", ".join(f"T = {compact(r)}: {peak:.0f} MiB" for r, peak in peaks.items()),
            holds=max(peaks.values()) < MOST_MEBIBYTES,
        ),
        Claim(
            name="beyond 709",
            text="epsilon = 670.12 at T = 1e5 and 5663.35 at T = 1e6 lie in their brackets",
            measured=", ".join(_ends(bracket) for bracket in known.values()),
            holds=all(known[r].contains(value) for r, value in KNOWN.items()),
        ),
    ]
    if BILLION in timings:
        bracket = timings[BILLION].result
        claims.append(
            Claim(
                name="a billion rounds",
                text="T = 1e9 answers, within 1 %",
                measured=f"{_ends(bracket)}, relative width {relative_width(bracket):.1e}, "
                f"{timings[BILLION].median:.1f} s",
                holds=0.0 < bracket.lower <= bracket.upper <= 1.01 * bracket.lower,
            )
        )
    return Outcome(claims, rows)


def _looser_allowed(rounds: int) -> sa.Bracket:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.LooseBracketWarning)
        return answer(EPS0, USERS, rounds, DELTA)


def _peak_mebibytes(rounds: int) -> float:
    code = _PEAK.format(eps0=EPS0, users=USERS, rounds=rounds, delta=DELTA)
    command = [sys.executable, "-W", "ignore", "-c", code]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _ends(bracket: sa.Bracket) -> str:
    lower, upper = bracket.ends()
    return f"[{lower}, {upper}]"
