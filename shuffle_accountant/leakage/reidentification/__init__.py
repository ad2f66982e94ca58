"""Re-identification: how often a Bayesian adversary names the target's message.

One of n shuffled messages is the target's. An adversary who knows every user's distribution names
the position that is most likely its own, or k positions. How often that is right is computed
exactly for two distributions (`success_probability`), bracketed for continuous ones
(`success_from_ratio_law`), and bounded for a round of a local randomizer whatever the other users'
inputs (`bound`, `bracket`).

From 'Bayesian Advantage of Re-Identification Attack in the Shuffle Model', whose theorems are in
`published` as they are printed and whose worked examples are in `examples`.

In all of them p is the distribution of the target's message and q that of each decoy, shape
(messages,); `users` is the number n of all messages, the target's included, in [1, 2^53]; `guesses`
is the number k of positions that the adversary names, in [1, n]; and `eps0` is in nats.
"""

from __future__ import annotations

from shuffle_accountant.facades import explain_calls
from shuffle_accountant.leakage.reidentification import examples, published
from shuffle_accountant.leakage.reidentification.bounds import (
    METHODS,
    bound,
    bound_among,
    bracket,
    success_in_population,
    sup_ratio,
)
from shuffle_accountant.leakage.reidentification.success import (
    additive_advantage,
    advantage_bounds,
    asymptote,
    clones_psi,
    gaussian_blanket,
    gaussian_success,
    laplace_blanket,
    laplace_success,
    multiplicative_advantage,
    psi,
    success_among_decoys,
    success_from_ratio_law,
    success_probability,
    total_variation,
)

__all__ = [
    "METHODS",
    "additive_advantage",
    "advantage_bounds",
    "asymptote",
    "bound",
    "bound_among",
    "bracket",
    "clones_psi",
    "examples",
    "gaussian_blanket",
    "gaussian_success",
    "laplace_blanket",
    "laplace_success",
    "multiplicative_advantage",
    "psi",
    "published",
    "success_among_decoys",
    "success_from_ratio_law",
    "success_in_population",
    "success_probability",
    "sup_ratio",
    "total_variation",
]

explain_calls(__name__)
