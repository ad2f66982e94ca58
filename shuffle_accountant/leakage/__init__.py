"""Other measures of leakage of a round: an attacker's knowledge of one target among decoys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffle_accountant.facades import lazy_attributes

if TYPE_CHECKING:
    from shuffle_accountant.leakage import mutual_information as mutual_information
    from shuffle_accountant.leakage import qif as qif
    from shuffle_accountant.leakage import reidentification as reidentification

__all__ = ["mutual_information", "qif", "reidentification"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, modules={name: name for name in __all__})
