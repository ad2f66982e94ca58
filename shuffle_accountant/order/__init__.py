"""Shuffling that protects the order of the data, tunably: d-sigma-privacy."""
