"""DP-SGD with certified batches in other frameworks: one short program for each.

    python -m benchmarks.training.recipes.accumulation

Each trains a tiny model on made-up records for a few epochs and prints the bracket of its epsilon.
"""
