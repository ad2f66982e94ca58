"""Certificates: claims (ε, δ) with a proof that anyone can check, in ball arithmetic.

What checks a certificate shares no numerical code with the rest of the package: `verification` and
all it imports need python-flint (extra ``verify``) and the standard library alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffle_accountant.facades import lazy_attributes

if TYPE_CHECKING:
    from shuffle_accountant.certificates.making import certify
    from shuffle_accountant.certificates.schema import Certificate
    from shuffle_accountant.certificates.verification import Verification, verify

__all__ = ["Certificate", "Verification", "certify", "verify"]

MISSING = "certificates need python-flint: pip install '.[verify]' in a clone"

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        names={"Certificate": "schema", "certify": "making"}
        | dict.fromkeys(("Verification", "verify"), "verification"),
        missing=MISSING,
    )
