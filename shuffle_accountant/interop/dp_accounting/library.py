"""dp_accounting itself, or one line on how to get it."""

from __future__ import annotations

try:
    import dp_accounting
    from dp_accounting import pld
except ImportError:
    raise ImportError(
        "this bridge needs dp_accounting: pip install '.[dp-accounting]' in a clone"
    ) from None

__all__ = ["dp_accounting", "pld"]
