"""Reports: rows of measures, tables, comparisons with published bounds, and pictures."""
