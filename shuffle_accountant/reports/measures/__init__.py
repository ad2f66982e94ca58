"""The measures of a report, which register themselves."""
