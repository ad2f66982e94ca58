"""`python -m benchmarks.mutants`: put every fault in, run its tests, name those nobody notices.

Exit code 0 if every mutant is killed, or is equivalent and survives; 1 if not; 2 for a wrong
command line; 130 after Ctrl-C. What was found is kept, so that the next run goes on from there:
a verdict holds as long as the mutant, its file and its tests are the same.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from benchmarks.mutants.mutant import Mutant
from benchmarks.mutants.table import MUTANTS
from benchmarks.mutants.trial import BROKEN, KILLED, SLOW, SURVIVED, Copy

_KEPT = Path(tempfile.gettempdir()) / f"shuffle-accountant-mutants-{os.getuid()}.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name holds this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="trials at once")
    parser.add_argument("--again", action="store_true", help="forget earlier verdicts")
    parser.add_argument("--kept", type=Path, default=_KEPT, help="file of earlier verdicts")
    parser.add_argument("--list", action="store_true", help="print the mutants and end")
    given = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if given.only in mutant.name]
    if not chosen or given.jobs < 1:
        parser.error("no mutant has such a name" if not chosen else "--jobs must be at least 1")
    if given.list:
        for mutant in chosen:
            print(mutant.name + (f"  # {mutant.equivalent}" if mutant.equivalent else ""))
        return 0
    known: dict[str, str] = {}
    if given.kept.exists() and not given.again:
        known = json.loads(given.kept.read_text(encoding="utf-8"))
    try:
        verdicts = _verdicts(chosen, known, given.jobs, given.kept)
    except KeyboardInterrupt:
        print("\nstopped; the next run goes on from here", file=sys.stderr)
        return 130
    return _report(chosen, verdicts)


def _verdicts(
    chosen: Sequence[Mutant], known: dict[str, str], jobs: int, kept: Path
) -> dict[Mutant, str]:
    """The verdict on each mutant, those that are known without a trial."""
    keys = {mutant: mutant.key() for mutant in chosen}
    verdicts = {mutant: known[key] for mutant, key in keys.items() if key in known}
    left = [mutant for mutant in chosen if mutant not in verdicts]
    if not left:
        return verdicts
    started, lock = time.monotonic(), threading.Lock()
    passed: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder) / str(job)) for job in range(min(jobs, len(left)))]
        free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in copies:
            free.put(copy)

        def judge(mutant: Mutant) -> tuple[Mutant, str, str]:
            copy = free.get()
            try:
                with lock:
                    first = mutant.tests not in passed
                    passed.add(mutant.tests)
                if first:
                    _check(mutant.tests, copy)
                return mutant, *copy.trial(mutant)
            finally:
                free.put(copy)

        pool = ThreadPoolExecutor(len(copies))
        try:
            for done in as_completed([pool.submit(judge, mutant) for mutant in left]):
                mutant, verdict, said = done.result()
                verdicts[mutant] = verdict
                with lock:
                    known[keys[mutant]] = verdict
                    kept.write_text(json.dumps(known), encoding="utf-8")
                _say(f"{len(verdicts)}/{len(chosen)} {verdict}: {mutant.name}")
                if verdict == BROKEN:
                    _say(said)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in copies:
                copy.stop()
            pool.shutdown(wait=True)
    _say(f"{len(left)} trials in {time.monotonic() - started:.0f} s")
    return verdicts


def _check(tests: str, copy: Copy) -> None:
    """Stop if tests fail without a mutant."""
    verdict, said = copy.run(tests.split())
    if verdict != SURVIVED:
        raise SystemExit(f"tests fail without any mutant: {tests}\n{said}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _report(chosen: Sequence[Mutant], verdicts: dict[Mutant, str]) -> int:
    """Print the survivors and the count; the exit code."""
    noticed = {KILLED, SLOW}
    wrong = [
        mutant for mutant in chosen if (verdicts[mutant] in noticed) == bool(mutant.equivalent)
    ]
    wrong += [mutant for mutant in chosen if verdicts[mutant] == BROKEN and mutant not in wrong]
    for mutant in wrong:
        told = "called equivalent, but " if mutant.equivalent else ""
        print(f"{told}{verdicts[mutant]}: {mutant.name}\n    tests: {mutant.tests}")
    counts = Counter(verdicts[mutant] for mutant in chosen if not mutant.equivalent)
    equivalent = sum(bool(mutant.equivalent) for mutant in chosen)
    told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    print(f"{len(chosen)} mutants: {told or 'none tried'}, {equivalent} equivalent")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
