"""Mutual information between what a target sent, or where it went, and the shuffled messages.

One user's message Y1 has distribution P, the others' are i.i.d. from Q; Z is all n of them in
random order and K the place of Y1 in it. `position` is ``I(K; Z)``, `message` is ``I(Y1; Z)``:
certified brackets for any n, in nats. `position_expansion` and `message_expansion` are their
asymptotics, `optimal_decoy` the Q that leaks least. `heterogeneous_message` and
`heterogeneous_position` bound both for users with distributions of their own. With messages from a
local randomizer, `input_bound` bounds the information of Z about the target's input and
`position_bounds` that about its place; `universal_bounds` and `first_order` need the local privacy
parameter alone.

Almost all numbers of 'Mutual Information Bounds in the Shuffle Model' are differences of one
functional, `shuffled_divergence`.

In all of them p and q are the distributions P and Q, shape (messages,), each of which sums to one
within 1e-9; `users` is the number n of all messages, the target's included, in [1, 2^53]; `eps0` is
the local privacy parameter in nats.
"""

from shuffle_accountant.facades import explain_calls
from shuffle_accountant.leakage.mutual_information.randomizers import (
    FirstOrder,
    PositionBounds,
    ResponseConstants,
    UniversalBounds,
    clones_message,
    first_order,
    input_bound,
    position_bounds,
    response_constants,
    universal_bounds,
)
from shuffle_accountant.leakage.mutual_information.target import (
    Expansion,
    HeterogeneousPosition,
    closed_form,
    heterogeneous_message,
    heterogeneous_position,
    leading_constant,
    message,
    message_expansion,
    optimal_decoy,
    position,
    position_expansion,
    shuffled_divergence,
)

__all__ = [
    "Expansion",
    "FirstOrder",
    "HeterogeneousPosition",
    "PositionBounds",
    "ResponseConstants",
    "UniversalBounds",
    "clones_message",
    "closed_form",
    "first_order",
    "heterogeneous_message",
    "heterogeneous_position",
    "input_bound",
    "leading_constant",
    "message",
    "message_expansion",
    "optimal_decoy",
    "position",
    "position_bounds",
    "position_expansion",
    "response_constants",
    "shuffled_divergence",
    "universal_bounds",
]

explain_calls(__name__)
