"""How many decoys hide the target: laws of their number, as blocks, sums and tables."""
