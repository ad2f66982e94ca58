"""Losses of a target over any alphabet: blankets, by listed multisets or anchored laws."""
