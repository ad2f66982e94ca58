"""Losses of a target over any message space: blankets, by listed histograms or by sums."""
