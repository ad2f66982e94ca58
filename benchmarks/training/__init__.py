"""Demonstrations that train for real; each runs as ``python -m benchmarks.training.NAME``."""
