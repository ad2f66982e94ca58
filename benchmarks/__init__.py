"""Benchmarks: one script per claim about size and speed; see README.md beside this file."""
