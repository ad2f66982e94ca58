"""Losses that come as tables of atoms."""
