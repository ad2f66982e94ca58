"""From a target to the number that meets it, with evidence."""
