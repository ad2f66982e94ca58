"""Claim: importing is light, a fresh process answers soon, a running one at once.

Import: the clock runs inside a fresh process around the import statement, NumPy included. First
answer: the clock runs outside, from starting the interpreter to its end. Warm: the same process has
answered before; the caches are cleared all the same, so that the whole computation is timed.
``python -m benchmarks.start_up`` prints how long usual questions take without Numba.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys

from benchmarks.claims import Claim, Note, Outcome, Timing, answer, interleave

MOST_IMPORT, MOST_FIRST, MOST_WARM = 0.25, 2.0, 0.05

_EMPTY = "import numpy"
_IMPORT = """
import time
start = time.perf_counter()
import shuffle_accountant
print(time.perf_counter() - start)
"""
_ANSWER = """
import shuffle_accountant as sa
one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=10_000)
print(sa.FourierAccountant().compose(one, count=4).epsilon(delta=1e-6))
"""
_WITHOUT = "import sys\nsys.modules.update(numba=None)\n"
# The name of each question, and the least processor seconds of three answers from nothing.
_SPEEDS = """
import json
import shuffle_accountant as sa
from benchmarks.claims import processor_seconds

def shuffled(randomizer):
    return sa.ShuffleRound(randomizer, users=100_000)

channel = sa.DiscreteRandomizer([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2]])
gaussian = sa.GaussianMechanism(noise_multiplier=1.0)
questions = {
    "clones, one round": (shuffled(sa.GeneralRandomizer(eps0=4.0)), 1),
    "clones, 30 rounds": (shuffled(sa.GeneralRandomizer(eps0=4.0)), 30),
    "clones, 10,000 rounds": (shuffled(sa.GeneralRandomizer(eps0=4.0)), 10_000),
    "randomized response of 16": (shuffled(sa.RandomizedResponse(categories=16, eps0=2.0)), 1),
    "the same, 30 rounds": (shuffled(sa.RandomizedResponse(categories=16, eps0=2.0)), 30),
    "Laplace": (shuffled(sa.LaplaceRandomizer(eps0=2.0)), 1),
    "Laplace, 30 rounds": (shuffled(sa.LaplaceRandomizer(eps0=2.0)), 30),
    "channel of 2 x 3": (shuffled(channel), 1),
    "channel of 2 x 3, 30 rounds": (shuffled(channel), 30),
    "allocation, 10 epochs of 1,000": (sa.RandomAllocation(gaussian, steps=1_000), 10),
    "shuffled batches, 10 epochs of 100": (
        sa.ShuffledBatches(noise_multiplier=1.0, steps=100), 10),
    "Poisson samples, 1,000 steps": (sa.PoissonSampled(gaussian, rate=0.01), 1_000),
}
found = {}
for name, (asked, rounds) in questions.items():
    ask = lambda: sa.epsilon(asked, delta=1e-6, rounds=rounds)
    ask()  # compiles
    found[name] = min(processor_seconds(ask)[0] for _ in range(3))
print(json.dumps(found))
"""


def run(quick: bool, note: Note) -> Outcome:
    """Start fresh processes in turn, then answer in this one."""
    repetitions = 3 if quick else 9
    # what the process printed is the time that counts for the import
    inside: list[float] = []
    fresh = interleave(
        {
            "a process that imports NumPy": functools.partial(_process, _EMPTY),
            "import": lambda: inside.append(float(_process(_IMPORT))),
            "first answer of a fresh process": functools.partial(_process, _ANSWER),
        },
        repetitions,
        note=note,
    )
    timings = {
        "a process that imports NumPy": fresh["a process that imports NumPy"],
        "import": Timing(tuple(inside[1:]), None),
        "first answer of a fresh process": fresh["first answer of a fresh process"],
    }
    question = functools.partial(answer, 4.0, 10_000, 4, 1e-6)
    many = 5 * repetitions
    timings |= interleave({"warm, caches cleared": question}, many, note=note)
    timings |= interleave({"warm, asked again": question}, many, note=note, before=lambda: None)
    imported, first = timings["import"], timings["first answer of a fresh process"]
    warm, again = timings["warm, caches cleared"], timings["warm, asked again"]
    claims = [
        Claim(
            name="import",
            text=f"import shuffle_accountant takes under {MOST_IMPORT} s",
            measured=str(imported),
            holds=imported.median < MOST_IMPORT,
        ),
        Claim(
            name="first answer",
            text=f"a fresh process has answered and ended within {MOST_FIRST:.0f} s",
            measured=f"{first}; one that only imports NumPy: "
            f"{timings['a process that imports NumPy'].median:.3g} s",
            holds=first.median < MOST_FIRST,
        ),
        Claim(
            name="warm answer",
            text=f"a warm epsilon() at n = 1e4, T = 4 takes under {1e3 * MOST_WARM:.0f} ms",
            measured=f"{1e3 * warm.median:.1f} ms from nothing, "
            f"{1e3 * again.median:.1f} ms when asked again",
            holds=max(warm.median, again.median) < MOST_WARM,
        ),
    ]
    return Outcome(claims, [{"what": name, **t.as_row()} for name, t in timings.items()])


def _process(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Print processor seconds with and without Numba, and their ratio."""
    print("| question | with it, s | without, s | ratio |\n|---|---|---|---|")
    # of the whole process, interpreter included
    said = "\nimport time\nprint(time.process_time())\n"
    for name, code in {"import": "import shuffle_accountant", "first answer": _ANSWER}.items():
        starts = (code + said, _WITHOUT + code + said)
        times = [min(float(_process(one).split()[-1]) for _ in range(5)) for one in starts]
        _print_row(f"{name}, of a fresh process", *times)
    fast, slow = (json.loads(_process(before + _SPEEDS)) for before in ("", _WITHOUT))
    for name, seconds in fast.items():
        _print_row(name, seconds, slow[name])


def _print_row(name: str, fast: float, slow: float) -> None:
    print(f"| {name} | {fast:.3g} | {slow:.3g} | {slow / fast:.2g} |")


if __name__ == "__main__":
    main()
