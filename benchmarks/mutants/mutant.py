"""What a mutant is, and how it is applied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "shuffle_accountant"


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        file: of the package, such as ``lattice/grid.py``.
        old: a piece of it that occurs exactly once.
        new: what it is replaced by.
        tests: files of tests, or ``file::test``, separated by blanks; one of these must fail.
        equivalent: a proof in a line that no test can notice, or nothing.
    """

    file: str
    old: str
    new: str
    tests: str
    equivalent: str = ""

    @property
    def name(self) -> str:
        """One line that says what it is."""
        shorter = (" ".join(text.split()) for text in (self.old, self.new))
        return "{}: {} -> {}".format(self.file, *shorter)

    def applied(self, source: str) -> str:
        """The file's text with the fault in it.

        Raises:
            ValueError: the piece does not occur exactly once.
        """
        found = source.count(self.old)
        if found != 1 or self.old == self.new:
            raise ValueError(f"must occur once and change, occurs {found} times: {self.name}")
        return source.replace(self.old, self.new)

    def files(self, root: Path = ROOT) -> list[Path]:
        """The files that its tests are in."""
        return [root / name for name in dict.fromkeys(t.split("::")[0] for t in self.tests.split())]

    def key(self, root: Path = ROOT) -> str:
        """A digest of all that decides whether the tests notice, but for other files."""
        digest = hashlib.sha256(repr((self.old, self.new, self.tests)).encode())
        places = [root / PACKAGE / self.file, *self.files(root)]
        for path in places:
            digest.update(path.read_bytes())
        return digest.hexdigest()[:24]


def mutants(
    file: str,
    tests: str,
    faults: Iterable[tuple[str, str]],
    equivalent: Iterable[tuple[str, str, str]] = (),
) -> list[Mutant]:
    """The mutants of one file.

    Args:
        file: of the package.
        tests: as in `Mutant`.
        faults: pairs of an old piece and a new one.
        equivalent: the same with the proof that nothing can be noticed.
    """
    return [
        *(Mutant(file, old, new, tests) for old, new in faults),
        *(Mutant(file, old, new, tests, proof) for old, new, proof in equivalent),
    ]
