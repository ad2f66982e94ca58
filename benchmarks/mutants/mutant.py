"""What a mutant is, and how it is applied."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "shuffle_accountant"


@dataclass(frozen=True)
class Mutant:
    """One fault in one file.

    Attributes:
        file: of the package, such as ``lattice/grid.py``.
        function: qualified name of the function it is in; empty at the top of the file.
        kind: what is done to the source, such as ``left out``.
        piece: the source it is done to, in one line.
        ordinal: which one, of those alike in all of the above, from 1.
        line: where it is, from 1.
        start: offset of the piece in the file's bytes.
        stop: offset behind it.
        new: what replaces it.
    """

    file: str
    function: str
    kind: str
    piece: str
    ordinal: int
    line: int
    start: int
    stop: int
    new: str

    @property
    def id(self) -> str:
        """One line that names it for as long as its function and its piece stay as they are."""
        again = f" #{self.ordinal}" if self.ordinal > 1 else ""
        return f"{self.file} {self.function}: {self.kind}: {self.piece}{again}"

    def applied(self, source: str) -> str:
        """The file's text with the fault in it."""
        content = source.encode()
        return (content[: self.start] + self.new.encode() + content[self.stop :]).decode()
