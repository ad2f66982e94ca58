"""Shuffling that protects the order of the data, tunably: d-sigma-privacy.

Groups are sets of users whose values must be indistinguishable, a reference order puts the members
of a group close together, and a Mallows law around that order is the shuffle ("Privacy Implications
of Shuffling", Meehan et al.). A module is imported when one of its names is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffle_accountant.facades.lazy import lazy_attributes

if TYPE_CHECKING:
    from shuffle_accountant.order import experiments as experiments
    from shuffle_accountant.order.blocks import BlockShuffler as BlockShuffler
    from shuffle_accountant.order.bounds import posterior_odds_bound as posterior_odds_bound
    from shuffle_accountant.order.bounds import reidentification_bound as reidentification_bound
    from shuffle_accountant.order.experiments import inference_attack as inference_attack
    from shuffle_accountant.order.experiments import learnability as learnability
    from shuffle_accountant.order.groups import Groups as Groups
    from shuffle_accountant.order.guarantee import compose as compose
    from shuffle_accountant.order.guarantee import verify_alpha as verify_alpha
    from shuffle_accountant.order.mallows import MallowsCayley as MallowsCayley
    from shuffle_accountant.order.mallows import MallowsHamming as MallowsHamming
    from shuffle_accountant.order.mallows import MallowsKendall as MallowsKendall
    from shuffle_accountant.order.ordering import reference_order as reference_order
    from shuffle_accountant.order.preservation import preservation_delta as preservation_delta
    from shuffle_accountant.order.preservation import preservation_mc as preservation_mc
    from shuffle_accountant.order.sensitivities import group_width as group_width
    from shuffle_accountant.order.sensitivities import sensitivity as sensitivity
    from shuffle_accountant.order.shuffler import DSigmaShuffler as DSigmaShuffler
    from shuffle_accountant.order.shuffler import OrderWarning as OrderWarning

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        modules={"experiments": "experiments"},
        names={
            "BlockShuffler": "blocks",
            "DSigmaShuffler": "shuffler",
            "Groups": "groups",
            "MallowsCayley": "mallows",
            "MallowsHamming": "mallows",
            "MallowsKendall": "mallows",
            "OrderWarning": "shuffler",
            "compose": "guarantee",
            "group_width": "sensitivities",
            "inference_attack": "experiments",
            "learnability": "experiments",
            "posterior_odds_bound": "bounds",
            "preservation_delta": "preservation",
            "preservation_mc": "preservation",
            "reference_order": "ordering",
            "reidentification_bound": "bounds",
            "sensitivity": "sensitivities",
            "verify_alpha": "guarantee",
        },
    )
