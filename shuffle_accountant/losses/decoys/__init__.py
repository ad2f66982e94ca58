"""Number of decoys that hide the target: its distributions, as blocks, sums and tables."""
