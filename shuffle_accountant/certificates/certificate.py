"""Certificates: plain JSON with a digest of its content."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shuffle_accountant.certificates.schema import check
from shuffle_accountant.validation import json_object


@dataclass(frozen=True)
class Certificate:
    """A claim (ε, δ) about a protocol, with what is needed to check it.

    Made by `shuffle_accountant.certificates.certify` or an accountant's ``certificate``; checked by
    `shuffle_accountant.certificates.verify`. That a certificate can be read says nothing yet.

    Attributes:
        text: its JSON.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"certificate must be a text, got {type(self.text).__name__}")
        check(self.content, "certificate")

    @property
    def content(self) -> Any:
        """The content of the JSON."""
        return json_content("certificate", self.text, _finite)

    @property
    def epsilon(self) -> float:
        """The claim's ε, nats."""
        return float(self.content["claim"]["epsilon"])

    @property
    def delta(self) -> float:
        """The claim's δ."""
        return float(self.content["claim"]["delta"])

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Certificate:
        """A certificate of this content, with its digest."""
        if not isinstance(content, dict):
            raise TypeError(f"content must be a dictionary, got {type(content).__name__}")
        body = {name: value for name, value in content.items() if name != "digest"}
        return cls(json.dumps({**body, "digest": digest_of(body)}, allow_nan=False))

    def to_json(self) -> str:
        """The text, from which `from_json` makes an equal certificate."""
        return self.text

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Inverse of `to_json`."""
        return cls(text)

    def __repr__(self) -> str:
        return f"Certificate(epsilon={self.epsilon!r}, delta={self.delta!r})"


def digest_of(content: dict[str, Any]) -> str:
    """SHA-256 of the content without its digest, in a form that spaces and order do not change."""
    body = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def json_content(name: str, text: str, parse_float: Callable[[str], float] = float) -> Any:
    """What a text of JSON holds, which the messages of errors call ``name``."""

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is no number of JSON")

    try:
        return json.loads(
            text, object_pairs_hook=json_object, parse_constant=refuse, parse_float=parse_float
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} must be JSON: {' '.join(str(error).split())}") from None


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text:.60} is no double")
    return value
