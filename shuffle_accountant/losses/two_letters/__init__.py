"""Losses of a target with two letters: clones, randomized response, null draws."""
