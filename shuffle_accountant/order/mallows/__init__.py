"""Mallows laws: a permutation at distance d from the identity has mass proportional to e^(-θd)."""

from shuffle_accountant.order.mallows.base import Mallows
from shuffle_accountant.order.mallows.cayley import MallowsCayley
from shuffle_accountant.order.mallows.hamming import MallowsHamming
from shuffle_accountant.order.mallows.kendall import MallowsKendall

__all__ = ["Mallows", "MallowsCayley", "MallowsHamming", "MallowsKendall"]
