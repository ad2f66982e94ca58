"""Deployments of shuffled surveys: one JSON file, programs for devices, and a reference server.

`Deployment` is the file; `Server` collects messages in a database, shuffles them and estimates,
with a ledger that refuses the round that would go over the budget.
"""

from __future__ import annotations

from shuffle_accountant.deployment.description import Deployment
from shuffle_accountant.deployment.server import Server
from shuffle_accountant.facades import explain_calls

__all__ = ["Deployment", "Server"]

explain_calls(__name__)
