"""What can happen in one round of a protocol, and several of them."""
