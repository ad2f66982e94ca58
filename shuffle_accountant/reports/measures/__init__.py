"""The measures of a report: one file per measure, each of which registers itself."""
