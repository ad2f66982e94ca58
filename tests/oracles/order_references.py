"""Verified values about the order of the data, by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FILE = Path(__file__).resolve().parent.parent / "refs" / "dsigma.json"


def references(name: str) -> list[dict[str, Any]]:
    """The values of that name, one or more."""
    found = [entry for entry in json.loads(_FILE.read_text("utf-8")) if entry["name"] == name]
    assert found, name
    return found
