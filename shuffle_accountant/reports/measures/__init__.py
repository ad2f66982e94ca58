"""What a report measures: one file per measure, each of which registers itself."""
