"""From a question to a bracket: a grid, two ends, one answer."""
