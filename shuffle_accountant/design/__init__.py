"""Design: the mechanisms and parameters that meet a privacy target, and their errors.

`frequency` and `mean` take the users, the size of the data and a target for epsilon, calibrate each
candidate to it with certified brackets, and return a `Design`: what meets the target, sorted by
error, between what devices could do without a shuffler and what a trusted curator could do.
`asymptotic` puts the Gaussian limit of a round beside its exact value.
"""

from __future__ import annotations

from shuffle_accountant.design.answers import Design, DesignRow
from shuffle_accountant.design.designs import frequency, mean
from shuffle_accountant.design.limit import GaussianLimit, asymptotic
from shuffle_accountant.facades import explain_calls

__all__ = ["Design", "DesignRow", "GaussianLimit", "asymptotic", "frequency", "mean"]

explain_calls(__name__)
