"""A progress bar for work that lasts over a second, on a terminal only."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

DELAY = 1.0  # seconds before anything is shown
_TICK = 0.2  # seconds between two updates of the clock

Report = Callable[[float], None]
T = TypeVar("T")

# The bar that is shown, until some work has taken it.
_free: ContextVar[Report | None] = ContextVar("free", default=None)


def counted(items: Sequence[T]) -> Iterator[T]:
    """The items one by one; a bar that is shown, if any, moves with them.

    Counted work inside counted work leaves the bar alone.
    """
    with share_of_bar() as report:
        for done, item in enumerate(items):
            report(done / len(items))
            yield item


@contextmanager
def share_of_bar() -> Iterator[Report]:
    """A function that moves the bar that is shown, if there is one that nothing else moves."""
    report = _free.get()
    _free.set(None)
    try:
        yield report or (lambda fraction: None)
    finally:
        _free.set(report)


@contextmanager
def progress_bar(description: str) -> Iterator[Report]:
    """Show a bar on stderr while the block runs, if it is a terminal, from the second second on.

    Work that never reports shows a running clock instead of a filling bar.

    Yields:
        A function that takes the fraction done so far, in [0, 1]; it may be called from any
        thread, seldom or often, or never.
    """
    if not sys.stderr.isatty():
        yield lambda fraction: None
        return

    from tqdm import tqdm

    bar = tqdm(
        desc=description,
        total=1.0,
        file=sys.stderr,
        delay=DELAY,
        leave=False,
        bar_format="{desc}: {percentage:3.0f}% |{bar}| {elapsed}",
    )
    lock = threading.Lock()
    finished = threading.Event()
    start = time.monotonic()

    def report(fraction: float) -> None:
        with lock:
            bar.update(max(0.0, min(1.0, fraction) - bar.n))

    def keep_clock() -> None:
        while not finished.wait(_TICK):
            if time.monotonic() - start >= DELAY:
                with lock:
                    bar.refresh()

    clock = threading.Thread(target=keep_clock, name="progress", daemon=True)
    clock.start()
    _free.set(report)
    try:
        yield report
    finally:
        _free.set(None)
        finished.set()
        clock.join()
        bar.close()
