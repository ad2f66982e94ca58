"""`python -m benchmarks.walk`: through which files a channel's question walks to its bracket.

Traces calls between files of the package while one question is answered, in a fresh process: files,
moves (distinct pairs of a calling and a called file), and files that call one another. What a
reader has to open to follow a question, in one number.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import shuffle_accountant as sa

ROOT = Path(sa.__file__).parent
# Checks of arguments, lazy names and round-off are used everywhere: no station of the way.
_GROUND = ("facades", "numerics", "validation.py", "__init__.py")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.walk", description=__doc__)
    parser.add_argument("--users", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--moves", action="store_true", help="print every move")
    given = parser.parse_args(arguments)
    rows = [[0.70, 0.10, 0.05, 0.15], [0.10, 0.65, 0.15, 0.10], [0.15, 0.10, 0.70, 0.05]]
    moves = walked(rows, users=given.users, rounds=given.rounds)
    files = sorted({one for move in moves for one in move})
    both = sorted(move for move in moves if move[::-1] in moves and move[0] < move[1])
    if given.moves:
        print("\n".join(f"{a} -> {b}" for a, b in sorted(moves)))
    print("\n".join(files))
    print(f"{len(files)} files, {len(moves)} moves, {len(both)} both ways")
    print("\n".join(f"both ways: {a} and {b}" for a, b in both))
    return 0


def walked(rows: Sequence[Sequence[float]], *, users: int, rounds: int) -> set[tuple[str, str]]:
    """Pairs of a calling and a called file while epsilon of a channel is bracketed."""
    moves: set[tuple[str, str]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> None:
        here = _station(frame)
        if event != "call" or here is None:
            return
        caller = frame.f_back
        while caller is not None and (there := _station(caller)) is None:
            caller = caller.f_back
        if caller is not None and there is not None and there != here:
            moves.add((there, here))

    one, ask = sa.ShuffleRound(sa.DiscreteRandomizer(rows), users=users), sa.epsilon
    sys.setprofile(trace)  # not before: names are imported on first use
    try:
        ask(one, delta=1e-6, rounds=rounds)
    finally:
        sys.setprofile(None)
    return moves


def _station(frame: FrameType) -> str | None:
    """The package's file in which a frame runs; None outside and on the ground."""
    path = Path(frame.f_code.co_filename)
    if frame.f_code.co_name == "<module>" or not path.is_relative_to(ROOT):
        return None
    name = path.relative_to(ROOT).as_posix()
    return None if name.startswith(_GROUND) or path.name == "__init__.py" else name


if __name__ == "__main__":
    sys.exit(main())
