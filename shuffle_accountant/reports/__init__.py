"""What is shown: rows, tables, comparisons and pictures."""
