"""Re-identification: how often a Bayesian adversary names the target's message."""
