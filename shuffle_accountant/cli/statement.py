"""`statement`: a paragraph for a privacy notice."""

from __future__ import annotations

import textwrap

import shuffle_accountant as sa
from shuffle_accountant.cli.options import AsJson, Delta
from shuffle_accountant.cli.output import json_number, print_json, print_warnings, recorded_warnings
from shuffle_accountant.cli.parsing import examples
from shuffle_accountant.cli.protocol import Protocol, with_flags_of
from shuffle_accountant.progress import progress_bar
from shuffle_accountant.reports.tables import WIDTH

__all__ = ["statement"]


@examples(
    "statement --eps0 4 --users 1e4 --rounds 4 --delta 1e-6",
    "statement --eps0 2 --categories 16 --users 2e5 --rounds 12 --delta 1e-9 --json",
)
@with_flags_of(Protocol)
def statement(protocol: Protocol, delta: Delta, as_json: AsJson = False) -> None:
    """Write a paragraph for a privacy notice, with all that its numbers depend on."""
    with recorded_warnings() as warnings, progress_bar("composing"):
        found = sa.statement(protocol.accountant(), delta=delta)
    print_warnings(warnings)
    if as_json:
        question = protocol.question() | {"delta": delta}
        asked = {name: json_number(value) for name, value in question.items()}
        print_json(found.to_dict() | {"question": asked, "warnings": warnings})
    else:
        print(textwrap.fill(str(found), WIDTH, break_on_hyphens=False, break_long_words=False))
