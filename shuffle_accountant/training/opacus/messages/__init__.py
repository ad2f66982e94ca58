"""Federated SGD through Opacus: every user's gradient is a private message, and is shuffled."""
