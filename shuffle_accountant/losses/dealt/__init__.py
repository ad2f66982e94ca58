"""Losses of one deal whose steps release correlated noise: trees, chains, neighbouring bins."""
