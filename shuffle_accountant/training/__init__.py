"""Training with shuffled, locally private gradients, and a ledger that counts the rounds."""
