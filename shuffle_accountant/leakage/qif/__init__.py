"""Quantitative information flow: posterior vulnerability of one user among the shuffled.

Channels and what they leak: `Channel` and what makes some, small and exact. Chances of a
right guess for any number of users: `posterior_vulnerability_shuffle`,
`posterior_vulnerability_krr_shuffle`, `all_but_one_vulnerability`. After Jurado, Gonze, Alvim and
Palamidessi, 'Analyzing the Shuffle Model Through the Lens of Quantitative Information Flow' (CSF
2023).

In all of them `users` is the number n of users and `categories` the number k of values, each at
most 2^53; p is the chance that randomized response sends the true value, and each other value has
the chance (1 - p)/(k - 1). A channel has one row of message probabilities for each value, shape
(values, messages), and a prior one probability for each value; by default all are equally likely.
"""

from __future__ import annotations

from shuffle_accountant.facades import explain_calls
from shuffle_accountant.leakage.qif.channel import (
    Channel,
    datasets,
    identity_gain,
    keep_probability,
    krr,
    krr_channel,
    local_channel,
    reduced_krr_channel,
    reduced_local_channel,
    reduced_shuffle_channel,
    shuffle_channel,
    single_target_gain,
)
from shuffle_accountant.leakage.qif.load import (
    expected_maximum_load,
    expected_maximum_load_of,
    expected_minimum_load,
    expected_minimum_load_of,
)
from shuffle_accountant.leakage.qif.vulnerability import (
    all_but_one_vulnerability,
    all_but_one_vulnerability_of,
    asymptotic_all_but_one_vulnerability,
    asymptotic_vulnerability_shuffle,
    brown_number,
    leading_factor,
    partition_vulnerability_shuffle,
    partitions,
    posterior_vulnerability_krr,
    posterior_vulnerability_krr_shuffle,
    posterior_vulnerability_krr_shuffle_low,
    posterior_vulnerability_local_shuffle,
    posterior_vulnerability_shuffle,
    posterior_vulnerability_shuffle_of,
    printed_vulnerability_krr_shuffle,
    printed_vulnerability_shuffle,
    remixed_keys_number,
)

__all__ = [
    "Channel",
    "all_but_one_vulnerability",
    "all_but_one_vulnerability_of",
    "asymptotic_all_but_one_vulnerability",
    "asymptotic_vulnerability_shuffle",
    "brown_number",
    "datasets",
    "expected_maximum_load",
    "expected_maximum_load_of",
    "expected_minimum_load",
    "expected_minimum_load_of",
    "identity_gain",
    "keep_probability",
    "krr",
    "krr_channel",
    "leading_factor",
    "local_channel",
    "partition_vulnerability_shuffle",
    "partitions",
    "posterior_vulnerability_krr",
    "posterior_vulnerability_krr_shuffle",
    "posterior_vulnerability_krr_shuffle_low",
    "posterior_vulnerability_local_shuffle",
    "posterior_vulnerability_shuffle",
    "posterior_vulnerability_shuffle_of",
    "printed_vulnerability_krr_shuffle",
    "printed_vulnerability_shuffle",
    "reduced_krr_channel",
    "reduced_local_channel",
    "reduced_shuffle_channel",
    "remixed_keys_number",
    "shuffle_channel",
    "single_target_gain",
]

explain_calls(__name__)
