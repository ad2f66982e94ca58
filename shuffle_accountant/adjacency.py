"""Adjacency: which two datasets are neighbours."""

from __future__ import annotations

from enum import Enum

__all__ = ["Adjacency"]


class Adjacency(Enum):
    """The difference between two neighbouring datasets: what privacy is about.

    Both leave the number of users as it is, so both hide what one user says and neither hides how
    many there are. Their answers do not compare, and rounds of both do not compose.
    """

    REPLACE_ONE = "replace-one"
    """One user's value is replaced by any other value."""

    ZERO_OUT = "zero-out"
    """One user's record is replaced by a null record, which contributes nothing, or back."""

    @property
    def named(self) -> str:
        """Its name and its value, for messages."""
        return f"{self.name} ({self.value})"
