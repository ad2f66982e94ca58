"""The limit on memberships of groups that are listed one by one."""

from __future__ import annotations

__all__ = ["MOST_LISTED", "check_listable"]

MOST_LISTED = 1 << 28
"""Most memberships of groups that are listed one by one (2 GiB); more raise a ValueError."""


def check_listable(memberships: int) -> None:
    """Refuse groups whose list of memberships would not fit in memory."""
    if memberships > MOST_LISTED:
        raise ValueError(
            f"groups must have at most {MOST_LISTED} memberships to be listed, got {memberships}"
            " (smaller groups, or those of a scalar with method 'sort', need no list)"
        )
