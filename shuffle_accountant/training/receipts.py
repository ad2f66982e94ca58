"""Receipts: where the log of a ledger ends, as a number and a digest of everything before.

The digest of a new log is that of the ledger's name, schema and configuration. Each entry's digest
is that of the digest before, its number and what it says. So two logs that end in the same receipt
are the same from the first byte of their configuration on, and a receipt that is kept elsewhere
shows whether a log still has all that it had then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.registry import digest_of

__all__ = ["Receipt"]

_TEXT = re.compile("(0|[1-9][0-9]{0,17}):([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The last entry of a ledger's log, by number and digest; its text is ``number:digest``.

    Attributes:
        number: of the last entry, 0 if there is none. A call of `ShuffleLedger.step` makes one
            entry, however many steps it records.
        digest: SHA-256 of the configuration and of all entries so far, 64 hexadecimal digits.
    """

    number: int
    digest: str

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"

    @classmethod
    def read(cls, **named: object) -> Receipt:
        """The receipt that is given as one, or as its text."""
        ((name, value),) = named.items()
        text = str(value) if isinstance(value, Receipt) else value
        if not isinstance(text, str):
            raise TypeError(
                f"{name} must be a receipt, got {validate.shown(value)} of type "
                f"{type(value).__name__}"
            )
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{name} must be a receipt, NUMBER:DIGEST with 64 hexadecimal digits, got "
                f"{validate.shown(text)}"
            )
        return cls(int(found[1]), found[2])

    @classmethod
    def first(cls, name: str, schema: int, config: str) -> Receipt:
        """The receipt of a log without entries.

        Args:
            name: of the ledger.
            schema: of its log.
            config: its configuration, as JSON.
        """
        return cls(0, digest_of([name, schema, config]))

    def after(self, name: str, *entry: Any) -> Receipt:
        """The receipt after one more entry, of plain JSON types, of the ledger of that name."""
        number = self.number + 1
        return Receipt(number, digest_of([name, self.digest, number, *entry]))
