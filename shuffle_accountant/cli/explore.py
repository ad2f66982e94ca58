"""`explore`: a page with sliders in the browser."""

from __future__ import annotations

from typing import Annotated

import typer

from shuffle_accountant.cli.parsing import examples
from shuffle_accountant.explorer import serving

__all__ = ["explore"]

Port = Annotated[
    int | None,
    typer.Option(help=f"Port to listen at, 0 for any; by default {serving.PORT} if it is free."),
]
Host = Annotated[str, typer.Option(help="Name or address to listen at.")]
Headless = Annotated[
    bool, typer.Option("--headless", "--no-browser", help="Do not open a browser.")
]


@examples(
    "explore",
    "explore --headless --port 8000",
)
def explore(host: Host = "127.0.0.1", port: Port = None, headless: Headless = False) -> None:
    """Open a page to try protocols out with sliders (extra explore)."""
    try:
        serving.serve(host=host, port=port, browser=not headless, say=_say)
    except ImportError as missing:
        raise ValueError(str(missing)) from None


def _say(line: str) -> None:
    print(line, flush=True)
