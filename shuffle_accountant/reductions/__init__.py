"""Reductions of a protocol to one target among decoys, one theorem per file."""
