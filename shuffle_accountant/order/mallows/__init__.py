"""Mallows laws: a permutation at distance d from the identity has mass proportional to e^(-θd)."""

from shuffle_accountant.order.mallows.base import Mallows
from shuffle_accountant.order.mallows.cayley import MallowsCayley
from shuffle_accountant.order.mallows.hamming import MallowsHamming
from shuffle_accountant.order.mallows.kendall import MallowsKendall

__all__ = ["LAWS", "Mallows", "MallowsCayley", "MallowsHamming", "MallowsKendall"]

LAWS: dict[str, type[Mallows]] = {
    law.distance: law for law in (MallowsKendall, MallowsHamming, MallowsCayley)
}
"""Each law by its distance."""
