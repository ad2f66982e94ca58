"""Experiments on the effect of shuffling in groups on an attacker and on an analyst.

The attack and the measures of learning are those of Meehan et al., 'Privacy Implications of
Shuffling', section 5; the data are synthetic, or a table that the user points to. `learnability`
and `distribution_error` train a model with scikit-learn (extra "learn"), imported on first use.
"""

from shuffle_accountant.facades import explain_calls
from shuffle_accountant.order.experiments.data import (
    AdultTable,
    Crescents,
    crescents,
    grid_blocks,
    randomize,
    read_adult,
)
from shuffle_accountant.order.experiments.measures import (
    AttackResult,
    distribution_error,
    inference_attack,
    learnability,
    local_distributions,
    nearest_users,
)

__all__ = [
    "AdultTable",
    "AttackResult",
    "Crescents",
    "crescents",
    "distribution_error",
    "grid_blocks",
    "inference_attack",
    "learnability",
    "local_distributions",
    "nearest_users",
    "randomize",
    "read_adult",
]

explain_calls(__name__)
