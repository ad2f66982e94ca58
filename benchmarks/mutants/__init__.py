"""Faults put into the numerics one at a time, each of which some test must notice.

The product is the certificate, so every error term and every direction of rounding needs a test
that fails without it. `generate` makes the faults from the source, `rooms` finds the tests near a
file, `trial` runs them in a copy of the package, and `equivalent` has the proofs of those that no
test can notice.
"""
