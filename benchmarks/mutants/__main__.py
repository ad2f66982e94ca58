"""`python -m benchmarks.mutants [FILE ...]`: make mutants, run the tests near each, name survivors.

FILE is the beginning of a path in the package, such as ``losses/steps``; all rooms without one.
A mutant is killed if a test fails. Exit code 0 if every mutant is killed or proved to be
equivalent; 1 if not (a mutant whose tests hang is named apart); 2 for a wrong command line; 130
after Ctrl-C. Verdicts are kept as long as the mutant, its file and its tests stay the same, so the
next run goes on from there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from benchmarks.mutants.equivalent import EQUIVALENT
from benchmarks.mutants.generate import generated
from benchmarks.mutants.mutant import PACKAGE, ROOT, Mutant
from benchmarks.mutants.rooms import stages
from benchmarks.mutants.trial import BROKEN, HUNG, KILLED, SURVIVED, Copy

_KEPT = Path(tempfile.gettempdir()) / f"shuffle-accountant-mutants-{os.getuid()}.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", help="beginnings of paths, such as losses/steps")
    parser.add_argument("--list", action="store_true", help="print the mutants and end")
    parser.add_argument("--count", type=int, help="draw this many of them")
    parser.add_argument("--seed", type=int, default=0, help="of that draw; default: %(default)s")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="trials at once")
    parser.add_argument("--again", action="store_true", help="forget earlier verdicts")
    parser.add_argument("--kept", type=Path, default=_KEPT, help="file of earlier verdicts")
    given = parser.parse_args(arguments)
    chosen = [m for m in generated() if not given.files or m.file.startswith(tuple(given.files))]
    if not chosen or given.jobs < 1:
        parser.error("no such mutant" if not chosen else "--jobs must be at least 1")
    if given.count is not None:
        drawn = random.Random(given.seed).sample(chosen, min(given.count, len(chosen)))
        chosen = sorted(drawn, key=lambda mutant: (mutant.file, mutant.start))
    if given.list:
        for mutant in chosen:
            proof = f"  # {EQUIVALENT[mutant.id]}" if mutant.id in EQUIVALENT else ""
            print(f"{mutant.id}{proof}")
        return 0
    known: dict[str, str] = {}
    if given.kept.exists() and not given.again:
        known = json.loads(given.kept.read_text(encoding="utf-8"))
    tried = [mutant for mutant in chosen if mutant.id not in EQUIVALENT]
    try:
        verdicts = _verdicts(tried, known, given.jobs, given.kept)
    except KeyboardInterrupt:
        print("\nstopped; the next run goes on from here", file=sys.stderr)
        return 130
    return _report(tried, len(chosen) - len(tried), verdicts)


def key(mutant: Mutant) -> str:
    """A digest of what decides whether the tests notice, but for other files of the package."""
    digest = hashlib.sha256(repr((mutant.id, mutant.new)).encode())
    tests = [name for stage in stages(mutant.file) for name in stage if name.endswith(".py")]
    for path in (ROOT / PACKAGE / mutant.file, *(ROOT / name for name in dict.fromkeys(tests))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def _verdicts(
    chosen: Sequence[Mutant], known: dict[str, str], jobs: int, kept: Path
) -> dict[str, str]:
    """The verdict on each mutant by its id, those that are known without a trial."""
    keys = {mutant.id: key(mutant) for mutant in chosen}
    verdicts = {name: known[digest] for name, digest in keys.items() if digest in known}
    left = [mutant for mutant in chosen if mutant.id not in verdicts]
    if not left:
        return verdicts
    started, lock = time.monotonic(), threading.Lock()
    usual: dict[tuple[str, ...], float] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder) / str(job)) for job in range(min(jobs, len(left)))]
        free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in copies:
            free.put(copy)

        def judge(mutant: Mutant) -> tuple[Mutant, str, str]:
            copy, runs = free.get(), stages(mutant.file)
            try:
                seconds = []
                for run in runs:
                    if run not in usual:
                        usual[run] = copy.timed(run)
                    seconds.append(usual[run])
                return mutant, *copy.trial(mutant, runs, seconds)
            finally:
                free.put(copy)

        pool = ThreadPoolExecutor(len(copies))
        try:
            for done in as_completed([pool.submit(judge, mutant) for mutant in left]):
                mutant, verdict, said = done.result()
                verdicts[mutant.id] = verdict
                with lock:
                    known[keys[mutant.id]] = verdict
                    kept.write_text(json.dumps(known), encoding="utf-8")
                _say(f"{len(verdicts)}/{len(chosen)} {verdict}: {mutant.id}")
                if verdict == BROKEN:
                    _say(said)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in copies:
                copy.stop()
            pool.shutdown(wait=True)
    _say(f"{len(left)} trials in {time.monotonic() - started:.0f} s")
    return verdicts


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _report(tried: Sequence[Mutant], proved: int, verdicts: dict[str, str]) -> int:
    """Print those that no test has killed and the count; the exit code."""
    for verdict in (SURVIVED, HUNG, BROKEN):
        for mutant in tried:
            if verdicts[mutant.id] == verdict:
                print(f"{verdict}: {mutant.id} (line {mutant.line})")
    counts = Counter(verdicts[mutant.id] for mutant in tried)
    told = [f"{number} {verdict}" for verdict, number in sorted(counts.items())]
    print(f"{len(tried) + proved} mutants: {', '.join([*told, f'{proved} equivalent'])}")
    return 0 if counts.keys() <= {KILLED} else 1


if __name__ == "__main__":
    sys.exit(main())
