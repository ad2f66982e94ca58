"""Descriptions of the adversaries of the measures: their knowledge and their goal."""

from __future__ import annotations

__all__ = ["ANY_PRIOR", "BLIND", "EITHER", "MEMBERS", "NAMES", "NEIGHBOURS", "PLACES", "VALUES"]

NEIGHBOURS = "knows all others' values; tells two apart"
EITHER = "the same, both equally likely"
NAMES = "knows all values; names the message"
PLACES = "knows all values; asks for the place"
VALUES = "knows all others' values; asks for one, uniform prior"
ANY_PRIOR = "knows all others' values; asks for one, any prior"
BLIND = "knows nothing; guesses a value, uniform data"
MEMBERS = "knows a group's values without their order, and all others"
