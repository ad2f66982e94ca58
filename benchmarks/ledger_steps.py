"""What a step of a ledger in a database costs, and what a hundred kills do to it.

    python -m benchmarks.ledger_steps [URL]

The default is a SQLite file in the current directory, each step synchronised to the disk.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import signal
import statistics
import tempfile
import time
from typing import Any

import shuffle_accountant as sa
from shuffle_accountant.training import ShuffleLedger

STEPS, KILLS = 500, 100


def step_times(url: str) -> list[float]:
    """Seconds of each step, with a budget that is far away."""
    ledger = ShuffleLedger.open(
        url,
        "times",
        randomizer=sa.GeneralRandomizer(eps0=1.0),
        users=100_000,
        budget=(100.0, 1e-6),
    )
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        ledger.step()
        times.append(time.perf_counter() - start)
    return times


def _step_for_ever(url: str, acknowledge: Any) -> None:
    ledger = ShuffleLedger.open(url, "kills")
    while True:
        ledger.step()
        acknowledge.send_bytes(b".")


def kills(url: str) -> tuple[int, int]:
    """Steps that were acknowledged, and steps recorded, after killing a hundred processes."""
    ledger = ShuffleLedger.open(url, "kills", randomizer=sa.GeneralRandomizer(eps0=1.0), users=1000)
    forked = multiprocessing.get_context("fork")
    acknowledged = 0
    for _ in range(KILLS):
        receive, send = forked.Pipe(duplex=False)
        writer = forked.Process(target=_step_for_ever, args=(url, send))
        writer.start()
        send.close()
        time.sleep(random.uniform(0.0, 0.2))
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        with contextlib.suppress(EOFError):
            while receive.recv_bytes():
                acknowledged += 1
    return acknowledged, len(ledger)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("url", nargs="?")
    given = parser.parse_args().url
    with tempfile.TemporaryDirectory(dir=".") as folder:
        url = given or f"sqlite:///{folder}/privacy.db"
        times = step_times(url)
        middle, mean = 1e3 * statistics.median(times), 1e3 * statistics.mean(times)
        longest = 1e3 * max(times)
        print(
            f"{STEPS} steps: median {middle:.2f} ms, mean {mean:.2f} ms, longest {longest:.1f} ms"
        )
        assert mean < 100.0  # five synchronisations of a slow disk
        acknowledged, recorded = kills(url)
        print(f"{KILLS} kills: {acknowledged} steps acknowledged, {recorded} recorded")
        assert acknowledged <= recorded <= acknowledged + KILLS


if __name__ == "__main__":
    main()
