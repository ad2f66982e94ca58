"""Privacy losses of one round: exact hockey-stick divergence, and atoms for the grid."""
