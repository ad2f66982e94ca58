"""Shuffling that protects the order of the data, tunably: d-sigma-privacy.

Groups are sets of users whose values must be indistinguishable, a reference order puts the members
of a group close together, and a Mallows distribution around that order is the shuffle ("Privacy
Implications of Shuffling", Meehan et al.).
"""

from __future__ import annotations

from shuffle_accountant.facades import explain_calls
from shuffle_accountant.order import experiments
from shuffle_accountant.order.bounds import compose, posterior_odds_bound, reidentification_bound
from shuffle_accountant.order.experiments import inference_attack, learnability
from shuffle_accountant.order.groups import Groups
from shuffle_accountant.order.mallows import MallowsCayley, MallowsHamming, MallowsKendall
from shuffle_accountant.order.ordering import (
    group_width,
    reference_order,
    sensitivity,
    verify_alpha,
)
from shuffle_accountant.order.preservation import preservation_delta, preservation_mc
from shuffle_accountant.order.shuffler import BlockShuffler, DSigmaShuffler, OrderWarning

__all__ = [
    "BlockShuffler",
    "DSigmaShuffler",
    "Groups",
    "MallowsCayley",
    "MallowsHamming",
    "MallowsKendall",
    "OrderWarning",
    "compose",
    "experiments",
    "group_width",
    "inference_attack",
    "learnability",
    "posterior_odds_bound",
    "preservation_delta",
    "preservation_mc",
    "reference_order",
    "reidentification_bound",
    "sensitivity",
    "verify_alpha",
]

explain_calls(__name__)
