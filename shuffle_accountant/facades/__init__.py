"""Facades of packages: names imported on first use, and error messages for wrong calls."""
