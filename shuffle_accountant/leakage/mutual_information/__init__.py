"""Mutual information between what is secret and the shuffled messages, in nats."""
