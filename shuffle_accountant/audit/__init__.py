"""Checks of running code against its claim: scores of two datasets, messages, shufflers.

An audit rejects or does not reject; that it does not reject is no proof. `runs` compares scores
that code computed on two neighbouring datasets with the claim of a protocol, `Sequential` does so
one pair at a time and may stop at any time, `shuffler` runs a shuffling function, `messages` looks
at a bag of messages, and `assert_private` is for a project's own tests.
"""

from __future__ import annotations

from shuffle_accountant.audit.claims import Audit, Sequential, runs
from shuffle_accountant.audit.mailbag import MessageAudit, assert_private, messages, shuffler
from shuffle_accountant.facades import explain_calls

__all__ = [
    "Audit",
    "MessageAudit",
    "Sequential",
    "assert_private",
    "messages",
    "runs",
    "shuffler",
]

explain_calls(__name__)
