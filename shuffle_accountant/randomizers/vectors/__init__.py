"""Randomizers of one vector per user, such as a clipped gradient.

All are unbiased, hold for any eps0 in a wide range, and have messages of one constant norm. To an
accountant they are eps0-LDP randomizers like any other (reduction "clones").
"""

from __future__ import annotations

from shuffle_accountant.randomizers.vectors.base import VectorRandomizer
from shuffle_accountant.randomizers.vectors.box import DuchiLInf, SampledCoordinates
from shuffle_accountant.randomizers.vectors.sphere import DuchiL2, PrivUnit

__all__ = ["DuchiL2", "DuchiLInf", "PrivUnit", "SampledCoordinates", "VectorRandomizer"]
