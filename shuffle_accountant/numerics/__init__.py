"""Arithmetic that every room needs, with stated errors."""
