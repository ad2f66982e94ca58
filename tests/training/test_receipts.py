"""Every field of a ledger is in its receipt."""

from __future__ import annotations

import itertools

from shuffle_accountant.training.store import Receipt


def test_receipts_differ_where_any_field_does() -> None:
    first = [("ledger", 2, "{}"), ("other", 2, "{}"), ("ledger", 3, "{}"), ("ledger", 2, "{1}")]
    starts = [Receipt.first(*fields) for fields in first]
    entries = [("ledger", 10, 20, 1), ("other", 10, 20, 1), ("ledger", 11, 20, 1)]
    entries += [("ledger", 10, 21, 1), ("ledger", 10, 20, 2), ("ledger", 10, None, 1)]
    afters = [start.after(*entry) for start in starts[:2] for entry in entries]
    later = Receipt(starts[0].number + 5, starts[0].digest).after(*entries[0])
    digests = [one.digest for one in (*starts, *afters, later)]
    for one, other in itertools.combinations(digests, 2):
        assert one != other
