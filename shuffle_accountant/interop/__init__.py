"""Bridges to other privacy accounting libraries; each imports its library on first use."""
