"""Rounds of a protocol (shuffled, sampled, allocated, with dummies) and their composition."""
