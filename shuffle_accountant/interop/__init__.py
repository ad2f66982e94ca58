"""Bridges to other privacy accounting libraries; each imports its library on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffle_accountant.facades import lazy_attributes

if TYPE_CHECKING:
    from shuffle_accountant.interop import dp_accounting as dp_accounting

__all__ = ["dp_accounting"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, modules={"dp_accounting": "dp_accounting"})
