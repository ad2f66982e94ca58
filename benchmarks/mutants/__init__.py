"""Faults put into the numerics one at a time, each of which some test must notice.

The product is the certificate, so every error term and every direction of rounding needs a test
that fails without it. `python -m benchmarks.mutants` takes the faults of the tables in this folder,
puts each into a copy of the package, and runs the tests that are named for that file there.
"""
