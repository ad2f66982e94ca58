"""How many memberships of groups may be written down one by one."""

from __future__ import annotations

__all__ = ["MOST_LISTED", "check_listable"]

MOST_LISTED = 1 << 28
"""So many memberships may be written down one by one (2 GiB); above that, an error says so."""


def check_listable(memberships: int) -> None:
    """Refuse what would not fit in memory.

    Raises:
        ValueError: more memberships than `MOST_LISTED`.
    """
    if memberships > MOST_LISTED:
        raise ValueError(
            f"groups must have at most {MOST_LISTED} memberships to be listed, got {memberships}"
            " (smaller groups, or those of a scalar with method 'sort', need no list)"
        )
