"""Quantitative information flow: posterior vulnerability of one user among the shuffled."""
