"""Local randomizers: what runs on a user's device."""
