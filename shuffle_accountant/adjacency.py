"""Adjacency: which two datasets are neighbours."""

from __future__ import annotations

from enum import Enum

__all__ = ["Adjacency"]


class Adjacency(Enum):
    """The difference between two neighbouring datasets: what privacy is about.

    The first two leave the number of users as it is, so they hide what one user says and not how
    many there are. Answers of different ones do not compare, and their rounds do not compose.
    """

    REPLACE_ONE = "replace-one"
    """One user's value is replaced by any other value."""

    ZERO_OUT = "zero-out"
    """One user's record is replaced by a null record, which contributes nothing, or back."""

    ADD_REMOVE = "add-remove"
    """One user is added, or removed with all that it reports."""

    @property
    def named(self) -> str:
        """Its name and its value, for messages."""
        return f"{self.name} ({self.value})"
