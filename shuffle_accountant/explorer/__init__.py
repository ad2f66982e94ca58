"""Opens a page to try protocols out with sliders (extra ``explore``: marimo and Matplotlib).

`settings` says what can be chosen and which code stands for it, `answers` computes what is shown
with the public interface alone, and `app` is the page, for marimo's server on a socket that is
certainly free.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import socket
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from shuffle_accountant import validation as validate

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MISSING", "PORT", "serve"]

MISSING = "the explorer needs marimo and Matplotlib: pip install '.[explore]' in a clone"
"""What to do without the extra."""

PORT = 2718
"""The port that is tried first if none is asked for."""

APP = Path(__file__).with_name("app.py")
_LARGEST_PORT = 2**16 - 1


def serve(*, host: str, port: int | None, browser: bool, say: Callable[[str], None]) -> None:
    """Serve the page until it is interrupted, which ends the process.

    Args:
        host: name or address to listen at, such as "127.0.0.1".
        port: in [0, 65535], 0 for any free one; by default `PORT`, or any if that is taken.
        browser: whether to open a browser.
        say: called with the address, once the page can be asked for.
    """
    if port is not None:
        port = validate.integer(minimum=0, maximum=_LARGEST_PORT, port=port)
    if any(importlib.util.find_spec(name) is None for name in ("marimo", "matplotlib")):
        raise ImportError(MISSING)
    import marimo
    import uvicorn

    with _listening(host, port) as listener:
        address = f"http://{_in_address(host)}:{listener.getsockname()[1]}"
        # a page for each visitor, in threads of this process
        page = marimo.create_asgi_app(quiet=True).with_app(path="", root=str(APP)).build()
        # who leaves the page open does not keep the server from ending
        config = uvicorn.Config(page, log_level=logging.ERROR, timeout_graceful_shutdown=1)
        say(f"the explorer is at {address} until you press Ctrl-C")
        if browser:
            threading.Timer(1.0, webbrowser.open, [address]).start()
        with contextlib.suppress(KeyboardInterrupt):  # which is how it ends
            uvicorn.Server(config).run(sockets=[listener])
    # the threads of pages that are still open would keep the process
    sys.stdout.flush()
    os._exit(0)


def _listening(host: str, port: int | None) -> socket.socket:
    """A socket that listens, at the port that is wanted or at one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, PORT if port is None else port), family=family)
    except OSError as error:
        if port is None:
            return _listening(host, 0)
        reason = str(error.strerror or error).partition(" (while")[0]
        raise ValueError(
            "host and port must be where this machine can listen, got "
            f"{host!r:.60} and {port}: {reason}"
        ) from None


def _in_address(host: str) -> str:
    """A host as it is written in an address; a browser cannot go to "all of them"."""
    if host in ("0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in host else host
