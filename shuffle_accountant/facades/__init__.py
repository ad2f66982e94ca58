"""How packages show themselves: what is imported on first use, and what a wrong call is told."""
