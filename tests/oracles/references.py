"""Values of ``refs/privacy_loss.json``, which come from other code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

REFERENCES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "refs" / "privacy_loss.json").read_text()
)
"""Entries with a ``kind`` of protocol, its parameters, a query, its value and relative error."""
